"""Mistakes that learners make in lab 24, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "patience": 8,
    "map_ranks": (2, 4),
    "map_sizes": (64, 4194304),
    "table_ranks": (2, 3),
    "sizes": (8, 16384, 262144),
    "moment": 0.05,
}

SWAP = (
    "        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)\n        vector"
    " += box"
)
DOWN = """        comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)
        vector[keep] += box[keep]
"""
BACK = "        comm.Sendrecv(vector[keep], dest=partner, recvbuf=vector[give], source=partner)"
ROUND = f"""        keep = slice(low, middle)
        give = slice(middle, high)
        if me & distance:
            keep, give = give, keep
        # Across ranks: each partner sends the half that the other is in charge of from now on.
{DOWN}        low, high = keep.start, keep.stop
        trail.append((partner, keep, give))"""
LOOK_UP = """    rows = times[min(times, key=lambda p: abs(np.log2(p / ranks)))]
    row = rows[min(rows, key=lambda n: abs(np.log2(n / max(nbytes, 1))))]
    return min(row, key=row.get)"""
ROWS = "times[min(times, key=lambda p: abs(np.log2(p / ranks)))]"

# fmt: off
RIGHT = [

    Right("24.1", "two requests, Waitall", SWAP, """\
        from mpi4py import MPI

        MPI.Request.Waitall([comm.Irecv(box, partner), comm.Isend(vector, partner)])
        vector += box"""),
    Right("24.1", "a fresh box, arguments by position", SWAP, """\
        theirs = np.empty(len(vector), vector.dtype)
        comm.Sendrecv(vector, partner, 0, theirs, partner)
        vector[:] = vector + theirs"""),
    Right("24.2", "a request on the way there and on the way back", [
        "comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)", BACK], ["""\
request = comm.Isend(vector[give], dest=partner)
        comm.Recv(box[keep], source=partner)
        request.Wait()""", """\
        request = comm.Irecv(vector[give], source=partner)
        comm.Send(vector[keep], dest=partner)
        request.wait()"""]),
    Right("24.2", "halves by seat, np.add",
          ["if me & distance:\n            keep, give = give, keep\n", "vector[keep] += box[keep]"],
          ["if me // distance % 2 == 1:\n            give, keep = slice(low, middle), slice(middle, high)\n",
           "np.add(vector[keep], box[keep], out=vector[keep])"]),
    Right("24.3", "by NumPy's argmin", LOOK_UP, """\
    def nearest(numbers, to):
        numbers = list(numbers)
        return numbers[int(np.argmin([abs(np.log(number / to)) for number in numbers]))]

    row = times[nearest(times, ranks)]
    row = row[nearest(row, max(1, nbytes))]
    return sorted(row, key=lambda way: row[way])[0]"""),
    Right("24.3", "bytes of values, a name for the way",
          "WAYS[pick(vector.nbytes, comm.size)](comm, vector)", """\
way = pick(len(vector) * vector.itemsize, comm.Get_size())
    WAYS[way](comm=comm, vector=vector)"""),
]
WRONG = [
    Wrong("24.1", "from any rank, so the next step's message may come first", ", source=partner)\n        vector",
          ")\n        vector", "where rank 1 begins late"),
    Wrong("24.1", "partner is rank + distance", "seats[me ^ distance]", "seats[(me + distance) % len(seats)]",
          "With 4 ranks and 64 values: deadlock"),
    Wrong("24.1", "Send before Recv: deadlocks for large messages alone",
          "comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)",
          "comm.Send(vector, dest=partner)\n        comm.Recv(box, source=partner)",
          "A Send of more than 64 bytes waits until its receive is called"),
    Wrong("24.1", "receives into the vector that it sends",
          SWAP, SWAP.replace("recvbuf=box", "recvbuf=vector"), "sendbuf and recvbuf share memory"),
    Wrong("24.1", "a box of float64, whatever is sent", "np.empty_like(vector)\n    for distance in doublings(len(seats)):  #",
          "np.empty(len(vector))\n    for distance in doublings(len(seats)):  #", "rank 1 sent float32 and rank 0 receives into float64"),
    Wrong("24.1", "replaces where it should add",
          SWAP, SWAP.replace("vector += box", "vector[:] = box"), "the sum is wrong on every rank"),
    Wrong("24.1", "a new array with the sum",
          SWAP, SWAP.replace("vector += box", "vector = vector + box"), "must lie in this array"),
    Wrong("24.1", "adds up in the box",
          SWAP, SWAP.replace("vector += box", "box += vector"), "the sum is wrong on every rank"),
    Wrong("24.1", "adds once, after the last step",
          SWAP, SWAP.replace("        vector += box", "    vector += box"),
          "With 4 ranks and 64 values the sum is wrong on every rank"),
    Wrong("24.1", "seats taken for ranks",
          "seats[me ^ distance]", "me ^ distance", "with seats 1, 2, … and rank 0 in the last"),
    Wrong("24.1", "the own rank taken for the seat",
          "seats[me ^ distance]", "comm.rank ^ distance",
          "the others of another, the group's sum is wrong on"),
    Wrong("24.1", "every seat swaps with all others",
          "        partner = seats[me ^ distance]\n"
          "        # Across ranks: both send the sum so far, both add what comes.\n" + SWAP,
          """\
        if distance == 1:
            own = vector.copy()
            for other in range(1, len(seats)):
                partner = seats[me ^ other]
                comm.Sendrecv(own, dest=partner, recvbuf=box, source=partner)
                vector += box
""", "each rank sent 3.00 vectors; recursive doubling sends 2.00"),
    Wrong("24.2", "halves that are not halved: whole vectors", DOWN,
          "        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)\n"
          "        vector[keep] += box[keep]\n",
          "each rank sent 1.50 vectors; Rabenseifner sends 1.00"),
    Wrong("24.2", "in charge of all of it for ever",
          "        low, high = keep.start, keep.stop\n", "",
          "each rank sent 2.00 vectors; Rabenseifner sends 1.50"),
    Wrong("24.2", "stops after the reduce-scatter", BACK, "        pass", "the sum is wrong on every rank"),
    Wrong("24.2", "adds on the way back too", BACK, """\
        comm.Sendrecv(vector[keep], dest=partner, recvbuf=box[give], source=partner)
        vector[give] += box[give]
""", "the sum is wrong on every rank"),
    Wrong("24.2", "Send before Recv: deadlocks for large messages alone",
          "comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)",
          "comm.Send(vector[give], dest=partner)\n        comm.Recv(box[keep], source=partner)",
          "A Send of more than 64 bytes waits until its receive is called"),
    Wrong("24.2", "right sum by recursive doubling", [ROUND, BACK],
          ["        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)\n        vector += box",
           "        pass"], "Rabenseifner"),
    Wrong("24.2", "adds whole vectors", "        vector[keep] += box[keep]\n",
          "        with np.errstate(all='ignore'):  # the rest of box was never written\n"
          "            total = vector + box\n        vector[keep] = total[keep]\n",
          "each of 8 ranks adds 3 vectors; 0.875 are enough"),
    Wrong("24.2", "the seat's number for its bit",
          "if me & distance", "if me >= distance", "With 4 ranks and 64 values the sum is wrong"),
    Wrong("24.2", "the farthest partner first", ["in doublings(len(seats)):\n        partner = seats[me ^ distance]\n        middle"],
          ["in doublings(len(seats))[::-1]:\n        partner = seats[me ^ distance]\n        middle"],
          "12 vectors cross between nodes instead of 6"),
    Wrong("24.3", "bytes and 1, so short sizes are too near",
          "n / max(nbytes, 1)", "(n + 1) / (nbytes + 1)", "for 29 bytes on 16 ranks: expected 'tree'"),
    Wrong("24.3", "one table, whatever is given", "    rows = times[min(times",
          "    times = lab24.TABLE\n    rows = times[min(times", "By the table {2:"),
    Wrong("24.3", "the slower ways are taken out of the caller's table",
          "    return min(row, key=row.get)", "    fastest = min(row, key=row.get)\n"
          "    for way in row.keys() - {fastest}:\n        del row[way]\n    return fastest",
          "The table `times` was changed"),
    Wrong("24.3", "the slowest", "min(row, key=row.get)", "max(row, key=row.get)",
          "for 0 bytes on 4 ranks: expected 'tree', got 'ring'"),
    Wrong("24.3", "nearest by difference", "abs(np.log2(n / max(nbytes, 1)))", "abs(n - nbytes)",
          "for 1000 bytes on 4 ranks: expected 'doubling', got 'tree'"),
    Wrong("24.3", "nearest by ranks and bytes together", LOOK_UP, """\
    places = [(p, n) for p in times for n in times[p]]
    near = lambda place: abs(np.log2(place[0] / ranks)) + abs(np.log2(place[1] / max(nbytes, 1)))
    p, n = min(places, key=near)
    return min(times[p][n], key=times[p][n].get)""",
          "for 16384 bytes on 9 ranks: expected 'doubling', got 'ring'"),
    Wrong("24.3", "no vector of 0 bytes", "max(nbytes, 1)", "nbytes", "division by zero"),
    Wrong("24.3", "no vector of 0 bytes, the ratio upside down",
          "abs(np.log2(n / max(nbytes, 1)))", "abs(np.log2(nbytes / n))",
          "for 0 bytes on 4 ranks: "),
    Wrong("24.3", "the same for any ranks",
          ROWS, "times[min(times)]", "for 400 bytes on 9 ranks: expected 'doubling', got 'tree'"),
    Wrong("24.3", "only ranks that were measured", ROWS, "times[ranks]", "KeyError: 9"),
    Wrong("24.3", "a table that is never asked", "WAYS[pick(vector.nbytes, comm.size)]", 'WAYS["doubling"]',
          "`pick` was given: expected {(20, 3)}, got set()"),
    Wrong("24.3", "values for bytes", "pick(vector.nbytes, comm.size)", "pick(len(vector), comm.size)",
          "`pick` was given: expected {(20, 3)}, got {(5, 3)}"),
    Wrong("24.3", "values of 4 bytes, whatever they are",
          "pick(vector.nbytes, comm.size)", "pick(4 * len(vector), comm.size)",
          "5 values of 8 bytes: (bytes, ranks) that `pick` was given: expected {(40, 3)}, got {(20, 3)}"),
    Wrong("24.3", "each rank chooses by its own number",
          "pick(vector.nbytes, comm.size)", "pick(vector.nbytes, comm.rank + 1)",
          "`pick` was given: expected {(20, 3)}, got"),
]

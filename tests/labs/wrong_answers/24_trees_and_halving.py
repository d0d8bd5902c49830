"""Mistakes that learners make in lab 24, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "patience": 8,
    "map_ranks": (2, 3, 4),
    "map_sizes": (64, 65536, 4194304),
    "table_ranks": (2, 3),
    "sizes": (8, 16384, 262144),
    "moment": 0.05,
}

SWAP = "        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)\n        vector += box"
FOLD = """    if comm.rank not in seats:
        # Across ranks: one too many for a power of two, so the right neighbour works for both.
        comm.Send(vector, dest=comm.rank + 1)
        comm.Recv(vector, source=comm.rank + 1)
        return
    for_two = comm.rank > 0 and comm.rank - 1 not in seats
    if for_two:
        box = np.empty_like(vector)
        comm.Recv(box, source=comm.rank - 1)
        vector += box
    among(comm, vector, seats, seats.index(comm.rank))
    if for_two:
        comm.Send(vector, dest=comm.rank - 1)"""
DOWN = """        comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)
        vector[keep] += box[keep]
"""
BACK = """    for partner, keep, give in reversed(trail):
        comm.Sendrecv(vector[keep], dest=partner, recvbuf=vector[give], source=partner)"""
HALVING = f"""    for distance in doublings(len(seats)):
        partner = seats[me ^ distance]
        middle = (low + high) // 2
        keep = slice(low, middle)
        give = slice(middle, high)
        if me & distance:
            keep, give = give, keep
        # Across ranks: each partner sends the half that the other is in charge of from now on.
{DOWN}        low, high = keep.start, keep.stop
        trail.append((partner, keep, give))
    # Across ranks: the way back, finished parts instead of sums.
{BACK}"""
COST = "(np.log2(p) - 2 * (p - 1) / p) * beta + (np.log2(p) - (p - 1) / p) * gamma"
LOOK_UP = """    rows = times[min(times, key=lambda p: abs(np.log2(p / ranks)))]
    row = rows[min(rows, key=lambda n: abs(np.log2(n / max(nbytes, 1))))]
    return min(row, key=row.get)"""
ROWS = "times[min(times, key=lambda p: abs(np.log2(p / ranks)))]"

# fmt: off
WRONG = [
    Wrong("24.1", "partner is rank + distance", "seats[me ^ distance]", "seats[(me + distance) % len(seats)]",
          "With 4 ranks and 64 values: deadlock"),
    Wrong("24.1", "Send before Recv: deadlocks for large messages alone",
          "comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)",
          "comm.Send(vector, dest=partner)\n        comm.Recv(box, source=partner)",
          "A Send of more than 64 bytes waits until its receive is called"),
    Wrong("24.1", "receives into the vector that it sends",
          SWAP, SWAP.replace("recvbuf=box", "recvbuf=vector"), "the sum is wrong on rank 1"),
    Wrong("24.1", "replaces where it should add",
          SWAP, SWAP.replace("vector += box", "vector[:] = box"), "the sum is wrong on every rank"),
    Wrong("24.1", "adds up in the box",
          SWAP, SWAP.replace("vector += box", "box += vector"), "the sum is wrong on every rank"),
    Wrong("24.1", "seats taken for ranks",
          "seats[me ^ distance]", "me ^ distance", "with seats 1, 2, … and rank 0 in the last"),
    Wrong("24.2", "works for powers of two alone",
          FOLD, "    if comm.rank in seats:\n        among(comm, vector, seats, seats.index(comm.rank))\n",
          "With 3 ranks and 48 values the sum is wrong on"),
    Wrong("24.2", "nobody sends the sum back",
          ["        comm.Recv(vector, source=comm.rank + 1)\n",
           "    if for_two:\n        comm.Send(vector, dest=comm.rank - 1)"],
          ["", ""], "the sum is wrong on rank 0 (it is right on ranks 1 and 2)"),
    Wrong("24.2", "sends the sum back, but nobody receives it",
          "        comm.Recv(vector, source=comm.rank + 1)\n", "", "but rank 0 has ended"),
    Wrong("24.2", "adds what was handed in after the doubling", ["""\
        vector += box
    among(comm, vector, seats, seats.index(comm.rank))
    if for_two:
"""], ["""\
    among(comm, vector, seats, seats.index(comm.rank))
    if for_two:
        vector += box
"""], "the sum is wrong on rank 2 (it is right on ranks 0 and 1)"),
    Wrong("24.2", "right sum by a tree",
          FOLD, "    tree_allreduce(comm, vector)\n", "recursive doubling takes 1"),
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
    Wrong("24.2", "MPI's own allreduce",
          FOLD, "    comm.Allreduce(vector.copy(), vector)\n", "recursive doubling"),
    Wrong("24.2", "doubling, whatever among is", "    among(comm, vector", "    doubling(comm, vector",
          "what `for_any` leaves, if its `among` does nothing, is wrong on every rank"),
    Wrong("24.3", "halves that are not halved: whole vectors", DOWN,
          "        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)\n"
          "        vector[keep] += box[keep]\n",
          "each rank sent 1.50 vectors; Rabenseifner sends 1.00"),
    Wrong("24.3", "always the first half, never half of it",
          "(low + high) // 2", "len(vector) // 2", "rank 0 sent 2.00 vectors; Rabenseifner sends 1.75"),
    Wrong("24.3", "drops the remainder", "give = slice(middle, high)",
          "give = slice(middle, 2 * middle - low)",
          "With 2 ranks and 1 value the sum is wrong"),
    Wrong("24.3", "both keep the lower half",
          "        if me & distance:\n            keep, give = give, keep\n", "",
          "the sum is wrong on every rank"),
    Wrong("24.3", "stops after the reduce-scatter", BACK, "", "the sum is wrong on every rank"),
    Wrong("24.3", "the way back from its beginning",
          "reversed(trail)", "trail", "With 4 ranks and 64 values the sum is wrong"),
    Wrong("24.3", "adds on the way back too", BACK, """\
    for partner, keep, give in reversed(trail):
        comm.Sendrecv(vector[keep], dest=partner, recvbuf=box[give], source=partner)
        vector[give] += box[give]
""", "the sum is wrong on every rank"),
    Wrong("24.3", "adds up in the box",
          "vector[keep] += box[keep]", "box[keep] += vector[keep]", "the sum is wrong on every rank"),
    Wrong("24.3", "receives into the half that holds the sum",
          DOWN, DOWN.replace("recvbuf=box[keep]", "recvbuf=vector[keep]"), "the sum is wrong on every rank"),
    Wrong("24.3", "Send before Recv: deadlocks for large messages alone",
          "comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)",
          "comm.Send(vector[give], dest=partner)\n        comm.Recv(box[keep], source=partner)",
          "A Send of more than 64 bytes waits until its receive is called"),
    Wrong("24.3", "right sum by recursive doubling",
          HALVING, "    doubling(comm, vector, seats, me)\n", "Rabenseifner"),
    Wrong("24.3", "the largest halves to the farthest seat",
          "for distance in doublings(len(seats)):\n        partner = seats[me ^ distance]\n        middle",
          "for distance in reversed(doublings(len(seats))):\n"
          "        partner = seats[me ^ distance]\n        middle",
          "The halves went to the farthest seat"),
    Wrong("24.3", "adds whole vectors", "        vector[keep] += box[keep]\n",
          "        total = vector + box\n        vector[keep] = total[keep]\n",
          "each of 8 ranks adds 3 vectors; 0.875 are enough"),
    Wrong("24.3", "partner is rank + distance", "seats[me ^ distance]", "seats[(me + distance) % len(seats)]",
          "With 4 ranks and 64 values: deadlock"),
    Wrong("24.3", "the seat's number for its bit",
          "if me & distance", "if me >= distance", "With 4 ranks and 64 values the sum is wrong"),
    Wrong("24.4", "adding costs nothing", COST, COST.split(" + (np")[0],
          "you say 4000 bytes, too many. At 98% of it, the faster: expected 'doubling'"),
    Wrong("24.4", "twice the messages saved", "np.log2(p) * alpha", "2 * np.log2(p) * alpha",
          "too many. At 98% of it, the faster: expected 'doubling'"),
    Wrong("24.4", "natural logarithm", "np.log2(p) * alpha", "np.log(p) * alpha",
          "too few. At 102% of it, the faster: expected 'Rabenseifner'"),
    Wrong("24.4", "upside down", "np.log2(p) * alpha / more_per_byte", "more_per_byte / (np.log2(p) * alpha)",
          "expected between 1 and 1e+09"),
    Wrong("24.4", "bytes sent once, not twice", "2 * (p - 1) / p) * beta", "(p - 1) / p) * beta",
          "too few. At 102% of it, the faster: expected 'Rabenseifner'"),
    Wrong("24.4", "p ranks for lg p rounds",
          "np.log2(p) * alpha", "p * alpha", "too many. At 98% of it, the faster: expected 'doubling'"),
    Wrong("24.4", "nothing returned",
          "return np.log2(p) * alpha / more_per_byte", "np.log2(p) * alpha / more_per_byte",
          "Does the function return its result?"),
    Wrong("24.4", "p - 1 parts, not (p - 1)/p",
          COST, COST.replace("(p - 1) / p", "(p - 1)"), "expected between 1 and 1e+09, got -"),
    Wrong("24.5", "always the ring",
          LOOK_UP, '    return "ring"', "for 0 bytes on 4 ranks: expected 'tree', got 'ring'"),
    Wrong("24.5", "the slowest", "min(row, key=row.get)", "max(row, key=row.get)",
          "for 0 bytes on 4 ranks: expected 'tree', got 'ring'"),
    Wrong("24.5", "nearest by difference", "abs(np.log2(n / max(nbytes, 1)))", "abs(n - nbytes)",
          "for 1000 bytes on 4 ranks: expected 'doubling', got 'tree'"),
    Wrong("24.5", "no vector of 0 bytes", "max(nbytes, 1)", "nbytes", "division by zero"),
    Wrong("24.5", "the same for any ranks",
          ROWS, "times[min(times)]", "for 400 bytes on 9 ranks: expected 'doubling', got 'tree'"),
    Wrong("24.5", "only ranks that were measured", ROWS, "times[ranks]", "KeyError: 9"),
    Wrong("24.5", "a table that is never asked", "WAYS[pick(vector.nbytes, comm.size)]", 'WAYS["doubling"]',
          "`pick` was given: expected {(20, 3)}, got set()"),
    Wrong("24.5", "values for bytes", "pick(vector.nbytes, comm.size)", "pick(len(vector), comm.size)",
          "`pick` was given: expected {(20, 3)}, got {(5, 3)}"),
    Wrong("24.5", "eight bytes a value, always",
          "pick(vector.nbytes, comm.size)", "pick(8 * len(vector), comm.size)",
          "`pick` was given: expected {(20, 3)}, got {(40, 3)}"),
    Wrong("24.5", "the check's table for the one that was given",
          "pick(vector.nbytes, comm.size)", "choose(made_up, vector.nbytes, comm.size)",
          "`pick` was given: expected {(20, 3)}, got set()"),
    Wrong("24.5", "each rank chooses by its own number",
          "pick(vector.nbytes, comm.size)", "pick(vector.nbytes, comm.rank + 1)",
          "`pick` was given: expected {(20, 3)}, got"),
]

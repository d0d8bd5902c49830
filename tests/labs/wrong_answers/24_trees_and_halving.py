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
HALVING = f"""    for distance in reversed(doublings(len(seats))):
        partner, middle = seats[me ^ distance], (low + high) // 2
        keep, give = slice(low, middle), slice(middle, high)
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

WRONG = [
    Wrong(
        "24.1",
        "partner is rank + distance",
        old="seats[me ^ distance]",
        new="seats[(me + distance) % len(seats)]",
        says="With 4 ranks and 64 values: deadlock",
    ),
    Wrong(
        "24.1",
        "Send before Recv: deadlocks for large messages alone",
        old="comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)",
        new="comm.Send(vector, dest=partner)\n        comm.Recv(box, source=partner)",
        says="A Send of more than 64 bytes waits until its receive is called",
    ),
    Wrong(
        "24.1",
        "receives into the vector that it sends",
        old=SWAP,
        new=SWAP.replace("recvbuf=box", "recvbuf=vector"),
        says="the result is wrong on rank 1",
    ),
    Wrong(
        "24.1",
        "replaces where it should add",
        old=SWAP,
        new=SWAP.replace("vector += box", "vector[:] = box"),
        says="the result is wrong on every rank",
    ),
    Wrong(
        "24.1",
        "adds up in the box",
        old=SWAP,
        new=SWAP.replace("vector += box", "box += vector"),
        says="the result is wrong on every rank",
    ),
    Wrong(
        "24.1",
        "seats taken for ranks",
        old="seats[me ^ distance]",
        new="me ^ distance",
        says="With 3 ranks and 48 values: deadlock",
    ),
    Wrong(
        "24.1",
        "works for powers of two alone",
        old=FOLD,
        new="    if comm.rank in seats:\n        among(comm, vector, seats, seats.index(comm.rank))\n",
        says="With 3 ranks and 48 values the sum is wrong on",
    ),
    Wrong(
        "24.1",
        "nobody sends the sum back",
        old=[
            "        comm.Recv(vector, source=comm.rank + 1)\n",
            "    if for_two:\n        comm.Send(vector, dest=comm.rank - 1)",
        ],
        new=["", ""],
        says="the sum is wrong on rank 0 (it is right on ranks 1 and 2)",
    ),
    Wrong(
        "24.1",
        "sends the sum back, but nobody receives it",
        old="        comm.Recv(vector, source=comm.rank + 1)\n",
        new="",
        says="but rank 0 has ended",
    ),
    Wrong(
        "24.1",
        "adds what was handed in after the doubling",
        old=[
            "        vector += box\n    among(comm, vector, seats, seats.index(comm.rank))\n    if for_two:\n"
        ],
        new=[
            "    among(comm, vector, seats, seats.index(comm.rank))\n    if for_two:\n        vector += box\n"
        ],
        says="the sum is wrong on rank 2 (it is right on ranks 0 and 1)",
    ),
    Wrong(
        "24.1",
        "right sum by a tree",
        old=FOLD,
        new="    tree_allreduce(comm, vector)\n",
        says="recursive doubling takes 1",
    ),
    Wrong(
        "24.1",
        "every seat swaps with all others",
        old="""        partner = seats[me ^ distance]
        # Across ranks: both send the sum so far, both add what comes.
"""
        + SWAP,
        new="""        if distance == 1:
            mine = vector.copy()
            for other in range(1, len(seats)):
                partner = seats[me ^ other]
                comm.Sendrecv(mine, dest=partner, recvbuf=box, source=partner)
                vector += box
""",
        says="each rank sent 3.00 vectors; recursive doubling sends 2.00",
    ),
    Wrong(
        "24.1",
        "MPI's own allreduce",
        old=FOLD,
        new="    comm.Allreduce(vector.copy(), vector)\n",
        says="recursive doubling",
    ),
    Wrong(
        "24.1",
        "doubling, whatever among is",
        old="    among(comm, vector",
        new="    doubling(comm, vector",
        says="what `for_any` leaves, if its `among` does nothing, is wrong on every rank",
    ),
    Wrong(
        "24.2",
        "halves that are not halved: whole vectors",
        old=DOWN,
        new="""        comm.Sendrecv(vector, dest=partner, recvbuf=box, source=partner)
        vector[keep] += box[keep]
""",
        says="each rank sent 1.50 vectors; Rabenseifner sends 1.00",
    ),
    Wrong(
        "24.2",
        "always the first half, never half of it",
        old="(low + high) // 2",
        new="len(vector) // 2",
        says="rank 0 sent 2.00 vectors; Rabenseifner sends 1.75",
    ),
    Wrong(
        "24.2",
        "drops the remainder",
        old="keep, give = slice(low, middle), slice(middle, high)",
        new="keep, give = slice(low, middle), slice(middle, 2 * middle - low)",
        says="With 2 ranks and 1 value the sum is wrong",
    ),
    Wrong(
        "24.2",
        "both keep the lower half",
        old="        if me & distance:\n            keep, give = give, keep\n",
        new="",
        says="the sum is wrong on every rank",
    ),
    Wrong("24.2", "stops after the reduce-scatter", old=BACK, new="", says="the sum is wrong on every rank"),
    Wrong(
        "24.2",
        "the way back from its beginning",
        old="reversed(trail)",
        new="trail",
        says="With 4 ranks and 64 values the sum is wrong",
    ),
    Wrong(
        "24.2",
        "adds on the way back too",
        old=BACK,
        new="""    for partner, keep, give in reversed(trail):
        comm.Sendrecv(vector[keep], dest=partner, recvbuf=box[give], source=partner)
        vector[give] += box[give]
""",
        says="the sum is wrong on every rank",
    ),
    Wrong(
        "24.2",
        "adds up in the box",
        old="vector[keep] += box[keep]",
        new="box[keep] += vector[keep]",
        says="the sum is wrong on every rank",
    ),
    Wrong(
        "24.2",
        "receives into the half that holds the sum",
        old=DOWN,
        new=DOWN.replace("recvbuf=box[keep]", "recvbuf=vector[keep]"),
        says="the sum is wrong on every rank",
    ),
    Wrong(
        "24.2",
        "Send before Recv: deadlocks for large messages alone",
        old="comm.Sendrecv(vector[give], dest=partner, recvbuf=box[keep], source=partner)",
        new="comm.Send(vector[give], dest=partner)\n        comm.Recv(box[keep], source=partner)",
        says="A Send of more than 64 bytes waits until its receive is called",
    ),
    Wrong(
        "24.2",
        "right sum by recursive doubling",
        old=HALVING,
        new="    doubling(comm, vector, seats, me)\n",
        says="Rabenseifner",
    ),
    Wrong(
        "24.2",
        "partner is rank + distance",
        old="seats[me ^ distance]",
        new="seats[(me + distance) % len(seats)]",
        says="With 4 ranks and 64 values: deadlock",
    ),
    Wrong(
        "24.2",
        "the seat's number for its bit",
        old="if me & distance",
        new="if me >= distance",
        says="With 4 ranks and 64 values the sum is wrong",
    ),
    Wrong(
        "24.3",
        "adding costs nothing",
        old=COST,
        new=COST.split(" + (np")[0],
        says="you say 4000 bytes, too many. At 98% of it, the faster: expected 'doubling'",
    ),
    Wrong(
        "24.3",
        "twice the messages saved",
        old="np.log2(p) * alpha",
        new="2 * np.log2(p) * alpha",
        says="too many. At 98% of it, the faster: expected 'doubling'",
    ),
    Wrong(
        "24.3",
        "natural logarithm",
        old="np.log2(p) * alpha",
        new="np.log(p) * alpha",
        says="too few. At 102% of it, the faster: expected 'Rabenseifner'",
    ),
    Wrong(
        "24.3",
        "upside down",
        old="np.log2(p) * alpha / more_per_byte",
        new="more_per_byte / (np.log2(p) * alpha)",
        says="expected between 1 and 1e+09",
    ),
    Wrong(
        "24.3",
        "bytes sent once, not twice",
        old="2 * (p - 1) / p) * beta",
        new="(p - 1) / p) * beta",
        says="too few. At 102% of it, the faster: expected 'Rabenseifner'",
    ),
    Wrong(
        "24.3",
        "p ranks for lg p rounds",
        old="np.log2(p) * alpha",
        new="p * alpha",
        says="too many. At 98% of it, the faster: expected 'doubling'",
    ),
    Wrong(
        "24.3",
        "nothing returned",
        old="return np.log2(p) * alpha / more_per_byte",
        new="np.log2(p) * alpha / more_per_byte",
        says="Does the function return its result?",
    ),
    Wrong(
        "24.3",
        "p - 1 parts, not (p - 1)/p",
        old=COST,
        new=COST.replace("(p - 1) / p", "(p - 1)"),
        says="expected between 1 and 1e+09, got -",
    ),
    Wrong(
        "24.4",
        "always the ring",
        old=LOOK_UP,
        new='    return "ring"',
        says="for 0 bytes on 4 ranks: expected 'tree', got 'ring'",
    ),
    Wrong(
        "24.4",
        "the slowest",
        old="min(row, key=row.get)",
        new="max(row, key=row.get)",
        says="for 0 bytes on 4 ranks: expected 'tree', got 'ring'",
    ),
    Wrong(
        "24.4",
        "nearest by difference",
        old="abs(np.log2(n / max(nbytes, 1)))",
        new="abs(n - nbytes)",
        says="for 1000 bytes on 4 ranks: expected 'doubling', got 'tree'",
    ),
    Wrong("24.4", "no vector of 0 bytes", old="max(nbytes, 1)", new="nbytes", says="division by zero"),
    Wrong(
        "24.4",
        "the same for any ranks",
        old="times[min(times, key=lambda p: abs(np.log2(p / ranks)))]",
        new="times[min(times)]",
        says="for 400 bytes on 9 ranks: expected 'doubling', got 'tree'",
    ),
    Wrong(
        "24.4",
        "only ranks that were measured",
        old="times[min(times, key=lambda p: abs(np.log2(p / ranks)))]",
        new="times[ranks]",
        says="KeyError: 9",
    ),
    Wrong(
        "24.4",
        "a table that is never asked",
        old="WAYS[pick(vector.nbytes, comm.size)]",
        new='WAYS["doubling"]',
        says="where ring is fastest: bytes that [rank] sent",
    ),
    Wrong(
        "24.4",
        "values for bytes",
        old="pick(vector.nbytes, comm.size)",
        new="pick(len(vector), comm.size)",
        says="1000 bytes on 4 ranks, where doubling is fastest: bytes that [rank] sent",
    ),
    Wrong(
        "24.4",
        "eight bytes a value, always",
        old="pick(vector.nbytes, comm.size)",
        new="pick(8 * len(vector), comm.size)",
        says="`pick` was given: expected {(20, 3)}, got {(40, 3)}",
    ),
    Wrong(
        "24.4",
        "the check's table for the one that was given",
        old="pick(vector.nbytes, comm.size)",
        new="choose(made_up, vector.nbytes, comm.size)",
        says="`pick` was given: expected {(20, 3)}, got set()",
    ),
    Wrong(
        "24.4",
        "each rank chooses by its own number",
        old="pick(vector.nbytes, comm.size)",
        new="pick(vector.nbytes, comm.rank + 1)",
        says="deadlock",
    ),
]

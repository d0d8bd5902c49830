"""Mistakes that learners make in lab 23, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"many": 16, "sizes": (1024, 65536), "patience": 10}

STEP = "comm.Sendrecv(chunks[(comm.rank - step) % comm.size], dest=right, recvbuf=box, source=left)"
SCATTER = f"""    for step in range(comm.size - 1):
        # Across ranks: one chunk goes right while another comes from the left.
        mine = chunks[(comm.rank - step - 1) % comm.size]
        box = incoming[: len(mine)]
        {STEP}
        mine += box"""
PASS = "comm.Sendrecv(chunks[(comm.rank + 1 - step) % comm.size], dest=right, recvbuf=theirs, source=left)"
GATHER = f"""    for step in range(comm.size - 1):
        # Across ranks: finished chunks go round once more, each rank keeps a copy and passes it on.
        theirs = chunks[(comm.rank - step) % comm.size]
        {PASS}"""
COST = """    steps, chunk = 2 * (p - 1), n / p
    return steps, steps * chunk, steps * (alpha + chunk * beta)"""

WRONG = [
    Wrong(
        "23.1",
        "whole vectors go round: the right sum at the price of p - 1 vectors",
        old=SCATTER,
        new="""    total, passing, box = vector.copy(), vector.copy(), np.empty_like(vector)
    for step in range(comm.size - 1):
        comm.Sendrecv(passing, dest=right, recvbuf=box, source=left)
        total += box
        passing[:] = box
    vector[:] = total
""",
        says="each rank sent 1.00 vectors; a ring sends 0.50",
    ),
    Wrong(
        "23.1",
        "the direct exchange of lab 21, not a ring",
        old=SCATTER,
        new="""    mine = chunks[(comm.rank + 1) % comm.size]
    box = incoming[: len(mine)]
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.Sendrecv(chunks[(to + 1) % comm.size], dest=to, recvbuf=box, source=source)
        mine += box
""",
        says="messages go to others than right neighbours",
    ),
    Wrong(
        "23.1",
        "sends and then receives: a deadlock as soon as messages are long",
        old=STEP,
        new="""comm.Send(chunks[(comm.rank - step) % comm.size], dest=right)
        comm.Recv(box, source=left)""",
        says="deadlock",
    ),
    Wrong(
        "23.1",
        "adds to the chunk that it sends",
        old="mine = chunks[(comm.rank - step - 1) % comm.size]",
        new="mine = chunks[(comm.rank - step) % comm.size]",
        says="is wrong",
    ),
    Wrong(
        "23.1",
        "sends the same chunk in every step",
        old="comm.Sendrecv(chunks[(comm.rank - step) % comm.size]",
        new="comm.Sendrecv(chunks[comm.rank]",
        says="is wrong",
    ),
    Wrong(
        "23.1",
        "one step too few",
        old="for step in range(comm.size - 1):",
        new="for step in range(comm.size - 2):",
        says="is wrong",
    ),
    Wrong(
        "23.1",
        "one step too many",
        old="for step in range(comm.size - 1):",
        new="for step in range(comm.size):",
        says="is wrong",
    ),
    Wrong("23.1", "replaces where it should add", old="mine += box", new="mine[:] = box", says="is wrong"),
    Wrong(
        "23.1",
        "adds to a copy: the vector does not change",
        old="mine += box",
        new="mine = mine + box",
        says="is wrong",
    ),
    Wrong(
        "23.1",
        "puts new arrays into the list: the right chunks, but not in the vector",
        old="mine += box",
        new="chunks[(comm.rank - step - 1) % comm.size] = mine + box",
        says="in `vector`, chunk rank + 1 is wrong",
    ),
    Wrong(
        "23.1",
        "works on copies of the chunks: the vector stays as it was",
        old="    for step",
        new="    chunks = [chunk.copy() for chunk in chunks]\n    for step",
        says="in `vector`, chunk rank + 1 is wrong",
    ),
    Wrong(
        "23.1",
        "receives on top of its own chunk",
        old="recvbuf=box, source=left)\n        mine += box",
        new="recvbuf=mine, source=left)\n        mine += mine",
        says="is wrong",
    ),
    Wrong(
        "23.1",
        "the remainder is dropped: chunks of length n // p",
        old="    for step",
        new="""    each = len(vector) // comm.size
    chunks = [vector[rank * each : (rank + 1) * each] for rank in range(comm.size)]
    for step""",
        says="is wrong",
    ),
    Wrong(
        "23.1",
        "all of `incoming` for a shorter chunk",
        old="box = incoming[: len(mine)]",
        new="box = incoming",
        says="could not be broadcast together",
    ),
    Wrong(
        "23.1",
        "works for powers of two only",
        old="mine = chunks[(comm.rank - step - 1) % comm.size]",
        new="mine = chunks[(comm.rank - step - 1) & (comm.size - 1)]",
        says="With 3 ranks",
    ),
    Wrong(
        "23.1",
        "uses MPI's own",
        old=SCATTER,
        new="    comm.Allreduce(vector.copy(), vector)\n",
        says="",
    ),
    Wrong("23.2", "the second half is missing", old=GATHER, new="    pass", says="is wrong"),
    Wrong(
        "23.2",
        "begins with chunk rank, which is not finished",
        old=[PASS, "theirs = chunks[(comm.rank - step) % comm.size]"],
        new=[
            PASS.replace("comm.rank + 1 - step", "comm.rank - step"),
            "theirs = chunks[(comm.rank - step - 1) % comm.size]",
        ],
        says="is wrong",
    ),
    Wrong(
        "23.2",
        "always sends its own finished chunk",
        old="comm.Sendrecv(chunks[(comm.rank + 1 - step) % comm.size]",
        new="comm.Sendrecv(chunks[(comm.rank + 1) % comm.size]",
        says="is wrong",
    ),
    Wrong(
        "23.2",
        "receives into the chunk that it sends",
        old="theirs = chunks[(comm.rank - step) % comm.size]",
        new="theirs = chunks[(comm.rank + 1 - step) % comm.size]",
        says="is wrong",
    ),
    Wrong(
        "23.2",
        "adds in the second half too",
        old=PASS,
        new="""box = np.empty_like(theirs)
        comm.Sendrecv(chunks[(comm.rank + 1 - step) % comm.size], dest=right, recvbuf=box, source=left)
        theirs += box""",
        says="is wrong",
    ),
    Wrong(
        "23.2",
        "round the wrong way",
        old="dest=right, recvbuf=theirs, source=left",
        new="dest=left, recvbuf=theirs, source=right",
        says="is wrong",
    ),
    Wrong(
        "23.2",
        "every rank sends its finished chunk to all others",
        old=GATHER,
        new="""    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        theirs = chunks[(source + 1) % comm.size]
        comm.Sendrecv(chunks[(comm.rank + 1) % comm.size], dest=to, recvbuf=theirs, source=source)
""",
        says="messages go to others than right neighbours",
    ),
    Wrong(
        "23.2",
        "sends and then receives",
        old=PASS,
        new="""comm.Send(chunks[(comm.rank + 1 - step) % comm.size], dest=right)
        comm.Recv(theirs, source=left)""",
        says="deadlock",
    ),
    Wrong(
        "23.2",
        "even ranks send first, odd ranks receive first: twice the rounds",
        old=PASS,
        new="""if comm.rank % 2 == 0 and comm.size > 1:
            comm.Send(chunks[(comm.rank + 1 - step) % comm.size], dest=right)
            comm.Recv(theirs, source=left)
        else:
            comm.Recv(theirs, source=left)
            comm.Send(chunks[(comm.rank + 1 - step) % comm.size], dest=right)""",
        says="a ring takes",
    ),
    Wrong(
        "23.2",
        "a new array, the vector stays as it was",
        old=GATHER,
        new="    vector = vector.copy()\n    chunks = np.array_split(vector, comm.size)\n" + GATHER,
        says="is wrong",
    ),
    Wrong(
        "23.3",
        "one half only",
        old="2 * (p - 1), n / p",
        new="p - 1, n / p",
        says="steps: expected 8, got 4",
    ),
    Wrong(
        "23.3", "p steps, not p - 1", old="2 * (p - 1), n / p", new="2 * p, n / p", says="steps: expected 0"
    ),
    Wrong(
        "23.3", "whole vectors", old="2 * (p - 1), n / p", new="2 * (p - 1), n", says="bytes sent by a rank"
    ),
    Wrong(
        "23.3",
        "chunks of n / (p - 1) bytes",
        old="2 * (p - 1), n / p",
        new="2 * (p - 1), n / max(p - 1, 1)",
        says="bytes sent by a rank",
    ),
    Wrong(
        "23.3",
        "one α for all messages",
        old="steps * (alpha + chunk * beta)",
        new="alpha + steps * chunk * beta",
        says="seconds: expected",
    ),
    Wrong(
        "23.3",
        "bytes over β, as if it were a bandwidth",
        old="chunk * beta)",
        new="chunk / beta)",
        says="seconds: expected",
    ),
    Wrong(
        "23.3",
        "only the seconds",
        old=COST,
        new="    return 2 * (p - 1) * (alpha + n / p * beta)",
        says="`ring_cost` returns (steps, bytes, seconds)",
    ),
    Wrong(
        "23.4",
        "one half of the tree",
        old="tree = 2 * (p - 1).bit_length()",
        new="tree = (p - 1).bit_length()",
        says="the tree",
    ),
    Wrong(
        "23.4",
        "the tree takes lg of p + 1",
        old="tree = 2 * (p - 1).bit_length()",
        new="tree = 2 * p.bit_length()",
        says="ring wins: expected between 1 and",
    ),
    Wrong(
        "23.4",
        "forgets what the ring sends",
        old="more_vectors = tree - 2 * (p - 1) / p",
        new="more_vectors = tree",
        says="bytes are too few. With 102% of that the ring takes",
    ),
    Wrong(
        "23.4",
        "forgets the messages of the tree",
        old="more_messages = 2 * (p - 1) - tree",
        new="more_messages = 2 * (p - 1)",
        says="bytes are too many. With 98% of that the ring takes",
    ),
    Wrong(
        "23.4",
        "β in the numerator",
        old="more_messages * alpha / (more_vectors * beta)",
        new="more_messages * alpha * beta / more_vectors",
        says="from which the ring wins: expected between 1",
    ),
    Wrong("23.4", "in kB", old="/ (more_vectors * beta)", new="/ (more_vectors * beta) / 1e3", says="not kB"),
    Wrong(
        "23.4",
        "in values instead of bytes",
        old="/ (more_vectors * beta)",
        new="/ (more_vectors * beta) / 4",
        says="With 102% of that the ring takes",
    ),
]

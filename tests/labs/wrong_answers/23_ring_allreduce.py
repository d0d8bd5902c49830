"""Mistakes that learners make in lab 23, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"many": 16, "sizes": (1024, 65536), "moment": 0.5, "patience": 10}

STEP = "comm.Sendrecv(chunks[(comm.rank - step) % comm.size], dest=right, recvbuf=box, source=left)"
SCATTER = f"""    for step in range(comm.size - 1):
        # Across ranks: one chunk leaves to the right while another arrives from the left.
        own = chunks[(comm.rank - step - 1) % comm.size]
        box = incoming[: len(own)]
        {STEP}
        own += box"""
PASS = """mine = chunks[(comm.rank + 1 - step) % comm.size]
        comm.Sendrecv(mine, dest=right, recvbuf=theirs, source=left)"""
GATHER = f"""    for step in range(comm.size - 1):
        # Across ranks: finished chunks go round once more, each rank keeps a copy and passes it on.
        theirs = chunks[(comm.rank - step) % comm.size]
        {PASS}"""
COST = """    steps, chunk = 2 * (p - 1), n / p
    return steps, steps * chunk, steps * (alpha + chunk * beta)"""

# fmt: off
RIGHT = [

    Right("23.1", "two requests, Waitall", STEP, """\
from mpi4py import MPI

        sent = comm.Isend(chunks[(comm.rank - step) % comm.size], dest=right)
        MPI.Request.Waitall([sent, comm.Irecv(box, source=left)])"""),
    Right("23.1", "a fresh box, np.add, counted from 1", SCATTER, """\
    for step in range(1, comm.size):
        own = chunks[(comm.rank - step) % comm.size]
        box = np.empty(own.shape, own.dtype)
        comm.Sendrecv(chunks[(comm.rank - step + 1) % comm.size], right, 0, box, left)
        np.add(own, box, out=own)
"""),
    Right("23.2", "one request", PASS, """\
request = comm.Isend(chunks[(comm.rank + 1 - step) % comm.size], dest=right)
        comm.Recv(theirs, source=left)
        request.Wait()"""),
    Right("23.2", "into a box, then into its place", PASS, """\
box = np.empty_like(theirs)
        mine = chunks[(comm.rank + 1 - step) % comm.size]
        comm.Sendrecv(sendbuf=mine, dest=right, recvbuf=box, source=left)
        theirs[:] = box"""),
    Right("23.3", "NumPy numbers in an array", COST, """\
    steps = np.int64(2 * p - 2)
    return np.array([steps, steps * n / p, steps * alpha + steps * n / p * beta])"""),
    Right("23.3", "step by step, in a list", COST, """\
    chunks = [n / p for _ in range(2 * (p - 1))]
    return [len(chunks), sum(chunks), sum(alpha + chunk * beta for chunk in chunks)]"""),
    Right("23.4", "logarithm", "tree = 2 * (p - 1).bit_length()", "tree = 2 * int(np.ceil(np.log2(p)))"),
    Right("23.4", "halved, with NumPy", "return more_messages * alpha / (more_vectors * beta)",
          "return np.divide(more_messages / 2 * alpha, more_vectors / 2 * beta)"),
]
WRONG = [
    Wrong("23.1", "a box of float64, whatever the vector holds", "box = incoming[: len(own)]",
          "box = np.zeros(len(own))", "rank 0 sent float32"),
    Wrong("23.1", "whole vectors go round: the right sum at the price of p - 1 vectors", SCATTER, """\
    total, passing, box = vector.copy(), vector.copy(), np.empty_like(vector)
    for step in range(comm.size - 1):
        comm.Sendrecv(passing, dest=right, recvbuf=box, source=left)
        total += box
        passing[:] = box
    vector[:] = total
""", "each rank sent 48 bytes; a ring of unpadded chunks"),
    Wrong("23.1", "the direct exchange of lab 21, not a ring", SCATTER, """\
    own = chunks[(comm.rank + 1) % comm.size]
    box = incoming[: len(own)]
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.Sendrecv(chunks[(to + 1) % comm.size], dest=to, recvbuf=box, source=source)
        own += box
""", "some messages do not go to the right neighbor"),
    Wrong("23.1", "sends and then receives: a deadlock as soon as messages are long", STEP, """\
comm.Send(chunks[(comm.rank - step) % comm.size], dest=right)
        comm.Recv(box, source=left)""", "deadlock"),
    Wrong("23.1", "adds to the chunk that it sends",
          "own = chunks[(comm.rank - step - 1) % comm.size]", "own = chunks[(comm.rank - step) % comm.size]",
          "is wrong"),
    Wrong("23.1", "one step too few",
          "for step in range(comm.size - 1):", "for step in range(comm.size - 2):", "is wrong"),
    Wrong("23.1", "adds to a copy: the vector does not change", "own += box", "own = own + box",
          "It is as it was before the call, so no sum was written into this array"),
    Wrong("23.1", "one step too many, after which the chunk is still right",
          "for step in range(comm.size - 1):", "for step in range(comm.size):",
          "each rank sent 16 bytes"),
    Wrong("23.1", "whole numbers travel: fractions are lost", STEP, """\
whole = np.empty(len(own), int)
        comm.Sendrecv(chunks[(comm.rank - step) % comm.size].astype(int), dest=right, recvbuf=whole,
                      source=left)
        box = whole.astype(own.dtype)""", "each rank sent 24 bytes"),
    Wrong("23.1", "pads every message to the longest chunk", STEP, """\
full, out = np.zeros_like(incoming), chunks[(comm.rank - step) % comm.size]
        full[: len(out)] = out
        comm.Sendrecv(full, dest=right, recvbuf=incoming, source=left)""", "rank 1 sent 8 bytes"),
    Wrong("23.1", "all of `incoming` for a shorter chunk",
          "box = incoming[: len(own)]", "box = incoming", "could not be broadcast together"),
    Wrong("23.1", "works for powers of two only", "own = chunks[(comm.rank - step - 1) % comm.size]",
          "own = chunks[(comm.rank - step - 1) & (comm.size - 1)]", "With 3 ranks"),
    Wrong("23.1", "uses MPI's own", SCATTER, "    comm.Allreduce(vector.copy(), vector)\n",
          "a ring of unpadded chunks"),
    Wrong("23.2", "a box of float64, whatever the vector holds",
          "        comm.Sendrecv(mine, dest=right, recvbuf=theirs, source=left)",
          "        box = np.zeros(len(theirs))\n"
          "        comm.Sendrecv(mine, dest=right, recvbuf=box, source=left)\n"
          "        with np.errstate(over=\"ignore\"):\n            theirs[:] = box",
          "sent float32 and rank"),
    Wrong("23.2", "float32 in the messages, whatever the vector holds", PASS, """\
box = np.empty(len(theirs), np.float32)
        mine = chunks[(comm.rank + 1 - step) % comm.size].astype(np.float32)
        comm.Sendrecv(mine, dest=right, recvbuf=box, source=left)
        theirs[:] = box""", "in the vector's type sends"),
    Wrong("23.2", "the second half is missing", GATHER, "    pass", "is wrong"),
    Wrong("23.2", "begins with chunk rank, which is not finished",
          [PASS, "theirs = chunks[(comm.rank - step) % comm.size]"],
          [PASS.replace("comm.rank + 1 - step", "comm.rank - step"),
           "theirs = chunks[(comm.rank - step - 1) % comm.size]"],
          "is wrong"),
    Wrong("23.2", "receives into the chunk that it sends", "theirs = chunks[(comm.rank - step) % comm.size]",
          "theirs = chunks[(comm.rank + 1 - step) % comm.size]", "sendbuf and recvbuf share memory"),
    Wrong("23.2", "adds in the second half too", PASS, """\
box = np.empty_like(theirs)
        comm.Sendrecv(chunks[(comm.rank + 1 - step) % comm.size], dest=right, recvbuf=box, source=left)
        theirs += box""", "is wrong"),
    Wrong("23.2", "round the wrong way",
          "dest=right, recvbuf=theirs, source=left", "dest=left, recvbuf=theirs, source=right", "is wrong"),
    Wrong("23.2", "every rank sends its finished chunk to all others", GATHER, """\
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        theirs = chunks[(source + 1) % comm.size]
        comm.Sendrecv(chunks[(comm.rank + 1) % comm.size], dest=to, recvbuf=theirs, source=source)
""", "some messages do not go to the right neighbor"),
    Wrong("23.2", "sends and then receives", PASS, """\
comm.Send(chunks[(comm.rank + 1 - step) % comm.size], dest=right)
        comm.Recv(theirs, source=left)""", "deadlock"),
    Wrong("23.2", "even ranks send first, odd ranks receive first: twice the rounds", PASS, """\
if comm.rank % 2 == 0 and comm.size > 1:
            comm.Send(chunks[(comm.rank + 1 - step) % comm.size], dest=right)
            comm.Recv(theirs, source=left)
        else:
            comm.Recv(theirs, source=left)
            comm.Send(chunks[(comm.rank + 1 - step) % comm.size], dest=right)""", "a ring takes"),
    Wrong("23.2", "returns a new array, the vector stays as it was", GATHER,
          "    vector = vector.copy()\n    chunks = np.array_split(vector, comm.size)\n" + GATHER
          + "\n    return vector", "the sum in `vector` is wrong"),
    Wrong("23.3", "one half only", "2 * (p - 1), n / p", "p - 1, n / p", "steps: expected 8, got 4"),
    Wrong("23.3", "p steps, not p - 1", "2 * (p - 1), n / p", "2 * p, n / p", "steps: expected 0"),
    Wrong("23.3", "whole bytes in a chunk", "2 * (p - 1), n / p", "2 * (p - 1), n // p", "bytes sent by a rank"),
    Wrong("23.3", "whole bytes in the time only", "alpha + chunk", "alpha + n // p", "seconds: expected"),
    Wrong("23.3", "chunks of n / (p - 1) bytes",
          "2 * (p - 1), n / p", "2 * (p - 1), n / max(p - 1, 1)", "bytes sent by a rank"),
    Wrong("23.3", "one α for all messages",
          "steps * (alpha + chunk * beta)", "alpha + steps * chunk * beta", "seconds: expected"),
    Wrong("23.3", "bytes over β, as if it were a bandwidth",
          "chunk * beta)", "chunk / beta)", "seconds: expected"),
    Wrong("23.3", "only the seconds", COST, "    return 2 * (p - 1) * (alpha + n / p * beta)",
          "`ring_cost` returns (steps, bytes, seconds)"),
    Wrong("23.4", "one half of the tree",
          "tree = 2 * (p - 1).bit_length()", "tree = (p - 1).bit_length()", "the tree"),
    Wrong("23.4", "the tree takes lg of p + 1",
          "tree = 2 * (p - 1).bit_length()", "tree = 2 * p.bit_length()",
          "ring is faster: expected between 1 and"),
    Wrong("23.4", "forgets what the ring sends",
          "more_vectors = tree - 2 * (p - 1) / p", "more_vectors = tree",
          "bytes are too few. With 102% of them the ring takes"),
    Wrong("23.4", "forgets the messages of the tree",
          "more_messages = 2 * (p - 1) - tree", "more_messages = 2 * (p - 1)",
          "bytes are too many. With 98% of them the ring takes"),
    Wrong("23.4", "β in the numerator",
          "more_messages * alpha / (more_vectors * beta)", "more_messages * alpha * beta / more_vectors",
          "from which the ring is faster: expected between 1"),
    Wrong("23.4", "in kB", "/ (more_vectors * beta)", "/ (more_vectors * beta) / 1e3", "not kB"),
    Wrong("23.4", "in values instead of bytes",
          "/ (more_vectors * beta)", "/ (more_vectors * beta) / 4", "With 102% of them the ring takes"),
]

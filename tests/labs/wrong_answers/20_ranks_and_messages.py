"""Mistakes that learners make in lab 20, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"patience": 60, "late_runs": 3, "sizes": (8, 4096, 262144)}

START = """    if comm.rank == 0:
        comm.send(0, dest=right)
        return comm.recv(source=left)
"""
SENDRECV = "comm.Sendrecv(own, dest=right, recvbuf=theirs, source=left)"
WAIT = """    for request in pending:
        request.Wait()
"""
EDGES = """    new[0] = (above + strip[0] + strip[1]) / 3
    new[-1] = (strip[-2] + strip[-1] + below) / 3
"""

PENDING = """    pending = [comm.Irecv(above, source=up), comm.Irecv(below, source=down)]
    # Across ranks: send, compute what needs nobody, and wait for all four.
    pending += [comm.Isend(strip[0], dest=up), comm.Isend(strip[-1], dest=down)]
"""
INSIDE = "    new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3\n"
HALVE = """        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
"""

# fmt: off
RIGHT = [
    Right("20.1", "one path for all ranks, and positional arguments", START + '''\
    token = comm.recv(source=left)
    comm.send(token + comm.rank, dest=right)
    return token''', '''\
    token = None if comm.rank == 0 else comm.recv(None, left)
    comm.send((token or 0) + comm.rank, right)
    return comm.recv(None, left) if comm.rank == 0 else token'''),
    Right("20.1", "a request that is waited for", "comm.send(token + comm.rank, dest=right)",
          "comm.isend(token + comm.rank, dest=right).wait()"),
    Right("20.2", "two requests, Waitall", SENDRECV, '''\
from mpi4py import MPI

    MPI.Request.Waitall([comm.Irecv(theirs, left), comm.Isend(own, right)])'''),
    Right("20.2", "an order, in which rank 0 sends first, and a copy for a rank alone", SENDRECV, '''\
if comm.size == 1:
        theirs = own.copy()
    elif comm.rank == 0:
        comm.Send(own, dest=right)
        comm.Recv(theirs, source=left)
    else:
        comm.Recv(theirs, source=left)
        comm.Send(own, dest=right)'''),
    Right("20.2", "names for both calls, of which one alone is called", SENDRECV, '''\
first, second = comm.Send, comm.Sendrecv
    second(sendbuf=own, dest=right, sendtag=0, recvbuf=theirs, source=left)'''),
    Right("20.2", "a non-blocking send around Recv", SENDRECV, '''\
sending = comm.Isend(own, dest=right)
    comm.Recv(theirs, source=left)
    sending.Wait()'''),
    Right("20.3", "the mean of a list, Waitall", INSIDE + WAIT, '''\
    new[1:-1] = np.mean([strip[:-2], strip[1:-1], strip[2:]], axis=0)
    MPI.Request.Waitall(pending)
'''),
    Right("20.3", "a stack, and wait()", [INSIDE, "request.Wait()"],
          ["    new[1:-1] = np.stack([strip[:-2], strip[1:-1], strip[2:]]).mean(axis=0)\n",
           "request.wait()"]),
    Right("20.3", "a running sum of a plain copy", INSIDE, '''\
    total = np.cumsum(np.vstack([np.zeros_like(strip[:1]), strip]), axis=0)
    new[1:-1] = (total[3:] - total[:-3]) / 3
'''),
]
WRONG = [
    Wrong("20.1", "everyone receives first", START, "",
          "without an end, in a group of 5 ranks: ranks 0, 1, 2, 3, 4 wait", hangs=True),
    Wrong("20.1", "rank 0 does not wait for the token's return",
          "        return comm.recv(source=left)\n", "        return 0\n",
          "With 5 ranks, sent to the right: what arrived at rank 0: expected 10, got 0"),
    Wrong("20.1", "the ring turns the other way",
          ["dest=right)\n        return comm.recv(source=left)",
           "comm.recv(source=left)\n    comm.send(token + comm.rank, dest=right)"],
          ["dest=left)\n        return comm.recv(source=right)",
           "comm.recv(source=right)\n    comm.send(token + comm.rank, dest=left)"],
          "With 5 ranks, sent to the right: what arrived at rank"),
    Wrong("20.1", "the ring is not closed", "(comm.rank + 1) % comm.size", "comm.rank + 1",
          "there is no such rank"),
    Wrong("20.1", "returns what it passes on instead of what arrived",
          "    return token", "    return token + comm.rank", "That is the number to pass on"),
    Wrong("20.1", "array call for an object",
          "comm.send(0, dest=right)", "comm.Send(0, dest=right)", "Send was not given an array"),
    Wrong("20.1", "computed, without any message",
          START + "    token = comm.recv(source=left)\n"
          "    comm.send(token + comm.rank, dest=right)\n    return token",
          "    return sum(range((comm.rank - 1) % comm.size + 1))",
          "sends: expected 1, got 0"),
    Wrong("20.1", "one message each, but what arrives is computed",
          START + "    token = comm.recv(source=left)\n"
          "    comm.send(token + comm.rank, dest=right)\n    return token",
          START.replace("return ", "") + "    else:\n        comm.recv(source=left)\n"
          "        comm.send(0, dest=right)\n    return sum(range(left + 1))",
          "This is not a sum of the numbers that were sent"),
    Wrong("20.1", "a send that is begun and left",
          "comm.send(token + comm.rank, dest=right)", "comm.isend(token + comm.rank, dest=right)",
          "that were never waited for: expected 0, got 1"),
    Wrong("20.1", "forgets to return", "    return token", "    token",
          "got None. Does the function return its result?"),
    Wrong("20.2", "everyone sends first",
          SENDRECV, "comm.Send(own, dest=right)\n    comm.Recv(theirs, source=left)",
          "of shift_right: comm.Send(own, dest=right)", hangs=True),
    Wrong("20.2", "everyone receives first",
          SENDRECV, "comm.Recv(theirs, source=left)\n    comm.Send(own, dest=right)",
          "of shift_right: comm.Recv(theirs, source=left)", hangs=True),
    Wrong("20.2", "even and odd take turns, and a rank alone sends to nobody who listens", SENDRECV, """\
if comm.rank % 2 == 0:
        comm.Send(own, dest=right)
        comm.Recv(theirs, source=left)
    else:
        comm.Recv(theirs, source=left)
        comm.Send(own, dest=right)""",
          "in a group of 1 rank, 10 values: rank 0 waits in line 8 of shift_right: comm.Send(own, "
          "dest=right)", hangs=True),
    Wrong("20.2", "wrong neighbour",
          "dest=right, recvbuf=theirs, source=left", "dest=left, recvbuf=theirs, source=right",
          "This is the vector of the right neighbor"),
    Wrong("20.2", "receives into its own vector", "recvbuf=theirs", "recvbuf=own",
          "`own` was changed; it belongs to the caller. Receive into another array"),
    Wrong("20.2", "returns what it sent", "return theirs", "return own", "This is the rank's own vector"),
    Wrong("20.2", "a vector of another dtype", "return theirs", "return theirs.astype(float)",
          "the dtype of the result is float64, and that of `own` is int64"),
    Wrong("20.2", "everybody gets everything",
          SENDRECV, "everything = np.empty((comm.size, own.size), own.dtype)\n"
          "    comm.Allgather(own, everything)\n    theirs = everything[left]",
          "right, but by Allgather. One Send or Sendrecv"),
    Wrong("20.2", "buffer of another dtype",
          "np.empty_like(own)", "np.empty(len(own), np.int32)", "80 bytes came, and it has room for 40"),
    Wrong("20.2", "a request thrown away",
          SENDRECV, "comm.Isend(own, dest=right)\n    comm.Recv(theirs, source=left)",
          "requests that were never waited for: expected 0, got 1"),
    Wrong("20.2", "a receive that is started and left",
          SENDRECV, "comm.Irecv(theirs, source=left)\n    comm.Send(own, dest=right)",
          "requests that were never waited for: expected 0, got 1"),
    Wrong("20.2", "short vectors by a plain Send, which was eager in the example", SENDRECV, """\
if own.nbytes < 4000 and comm.size > 1:
        comm.Send(own, dest=right)
        comm.Recv(theirs, source=left)
    else:
        comm.Sendrecv(own, dest=right, recvbuf=theirs, source=left)""",
          "5 ranks, 10 values, each Send waits for its Recv: ranks 0, 1, 2, 3, 4 wait in line 8",
          hangs=True),
    Wrong("20.2", "whole numbers only", "np.empty_like(own)", "np.empty(len(own), int)",
          "the dtype of the result is int64, and that of `own` is float64"),
    Wrong("20.2", "small letters",
          SENDRECV, "theirs = comm.sendrecv(own, dest=right, source=left)", "by sendrecv. Calls in small letters serialize objects"),
    Wrong("20.3", "fails where a strip has no inside",
          "    new[1:-1] = (strip[:-2] + strip[1:-1] + strip[2:]) / 3\n",
          "    new[1] = (strip[0] + strip[1] + strip[2]) / 3\n"
          "    new[2:-1] = (strip[1:-2] + strip[2:-1] + strip[3:]) / 3\n", "strips of two rows"),
    Wrong("20.3", "halo read before Wait", WAIT + EDGES, EDGES + WAIT,
          "it is used before its Wait, or nothing"),
    Wrong("20.3", "no Wait at all", WAIT, "", "it is used before its Wait, or nothing"),
    Wrong("20.3", "waits for the receives alone", "in pending:", "in pending[:2]:",
          "were never waited for: expected 0, got 2"),
    Wrong("20.3", "waits at once, and nothing is computed meanwhile", INSIDE + WAIT, WAIT + INSIDE,
          "the inside is not computed while all messages are in transit"),
    Wrong("20.3", "a third of the inside while the messages travel, the rest after them", INSIDE + WAIT,
          "    half = strip[:-2] + strip[1:-1]\n" + WAIT + "    new[1:-1] = (half + strip[2:]) / 3\n",
          "only a part of the inside is computed"),
    Wrong("20.3", "the receives are waited for before the inside is computed", INSIDE + WAIT,
          "    for request in pending[:2]:\n        request.Wait()\n" + INSIDE + WAIT,
          "the inside is not computed while all messages are in transit"),
    Wrong("20.3", "sends the far row to each neighbour",
          ["comm.Isend(strip[0], dest=up)", "comm.Isend(strip[-1], dest=down)"],
          ["comm.Isend(strip[-1], dest=up)", "comm.Isend(strip[0], dest=down)"],
          "The halo holds the "),
    Wrong("20.3", "one buffer for both halos",
          "comm.Irecv(below, source=down)", "comm.Irecv(above, source=down)", "which needs `"),
    Wrong("20.3", "works in place, on rows that are being sent", "new = np.empty_like(strip)", "new = strip",
          "`strip` was changed; it belongs to the caller. While it is sent, write to `new`"),
    Wrong("20.3", "blocking calls: nothing is computed meanwhile", PENDING,
          "    pending = []\n"
          "    comm.Sendrecv(strip[0], up, recvbuf=below, source=down)\n"
          "    comm.Sendrecv(strip[-1], down, recvbuf=above, source=up)\n",
          "right, but by Sendrecv"),
    Wrong("20.3", "a send that waits for its receive", [
        "comm.Isend(strip[0], dest=up), comm.Isend(strip[-1], dest=down)", INSIDE],
        ["", "    for row, to in ((strip[0], up), (strip[-1], down)):\n"
         "        if to != MPI.PROC_NULL:\n            comm.Ssend(row, dest=to)\n" + INSIDE],
        "right, but by Ssend. Isend and Irecv are enough"),
    Wrong("20.3", "all ranks meet first", INSIDE, "    comm.Barrier()\n" + INSIDE,
          "right, but by Barrier. Isend and Irecv are enough"),
    Wrong("20.3", "single precision", "np.empty_like(strip)", "np.empty(strip.shape, np.float32)",
          "right, but of dtype float32. The dtype of `strip` is float64"),
    Wrong("20.3", "tags that do not match",
          "comm.Irecv(below, source=down)", "comm.Irecv(below, source=down, tag=1)",
          "of blur: request.Wait()", hangs=True),
]

"""Mistakes that learners make in lab 20, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"patience": 5, "blur_steps": 10, "sizes": (8, 4096, 262144)}

START = """    if comm.rank == 0:
        comm.send(0, dest=right)
        return comm.recv(source=left)
"""
SENDRECV = "comm.Sendrecv(mine, dest=right, recvbuf=theirs, source=left)"
WAIT = """    for request in pending:
        request.Wait()
"""
EDGES = """    new[0] = (above + strip[0] + strip[1]) / 3
    new[-1] = (strip[-2] + strip[-1] + below) / 3
"""

WRONG = [
    Wrong("20.1", "everyone receives first", old=START, new="", says="wait in line 7 of pass_token"),
    Wrong(
        "20.1",
        "rank 0 does not wait for the token's return",
        old="        return comm.recv(source=left)\n",
        new="        return 0\n",
        says="With 5 ranks, sent to the right, what arrived at [rank]: expected 10 at [0], got 0",
    ),
    Wrong(
        "20.1",
        "the ring turns the other way",
        old=[
            "dest=right)\n        return comm.recv(source=left)",
            "comm.recv(source=left)\n    comm.send(token + comm.rank, dest=right)",
        ],
        new=[
            "dest=left)\n        return comm.recv(source=right)",
            "comm.recv(source=right)\n    comm.send(token + comm.rank, dest=left)",
        ],
        says="expected 0 at [1], got 9",
    ),
    Wrong(
        "20.1",
        "the ring is not closed",
        old="(comm.rank + 1) % comm.size",
        new="comm.rank + 1",
        says="Invalid rank",
    ),
    Wrong("20.1", "passes on without adding", old="token + comm.rank", new="token", says="got 0"),
    Wrong(
        "20.1",
        "returns what it passes on instead of what arrived",
        old="    return token",
        new="    return token + comm.rank",
        says="expected 0 at [1], got 1",
    ),
    Wrong(
        "20.1",
        "array call for an object",
        old="comm.send(0, dest=right)",
        new="comm.Send(0, dest=right)",
        says="rank 0 failed: TypeError",
    ),
    Wrong(
        "20.2",
        "everyone sends first",
        old=SENDRECV,
        new="comm.Send(mine, dest=right)\n    comm.Recv(theirs, source=left)",
        says="of shift_right: comm.Send(mine, dest=right)",
    ),
    Wrong(
        "20.2",
        "everyone receives first",
        old=SENDRECV,
        new="comm.Recv(theirs, source=left)\n    comm.Send(mine, dest=right)",
        says="of shift_right: comm.Recv(theirs, source=left)",
    ),
    Wrong(
        "20.2",
        "even and odd take turns, and a rank alone sends to nobody who listens",
        old=SENDRECV,
        new="""if comm.rank % 2 == 0:
        comm.Send(mine, dest=right)
        comm.Recv(theirs, source=left)
    else:
        comm.Recv(theirs, source=left)
        comm.Send(mine, dest=right)""",
        says="rank 0 waits in line 7 of shift_right: comm.Send(mine, dest=right)",
    ),
    Wrong(
        "20.2",
        "wrong neighbour",
        old="dest=right, recvbuf=theirs, source=left",
        new="dest=left, recvbuf=theirs, source=right",
        says="what came from the left",
    ),
    Wrong(
        "20.2",
        "receives into its own vector",
        old="recvbuf=theirs",
        new="recvbuf=mine",
        says="`mine` was changed",
    ),
    Wrong(
        "20.2", "returns what it sent", old="return theirs", new="return mine", says="what came from the left"
    ),
    Wrong(
        "20.2",
        "buffer of another dtype",
        old="np.empty_like(mine)",
        new="np.empty(len(mine), np.int32)",
        says="truncated",
    ),
    Wrong(
        "20.3", "halo read before Wait", old=WAIT + EDGES, new=EDGES + WAIT, says="used only after its Wait?"
    ),
    Wrong("20.3", "no Wait at all", old=WAIT, new="", says="used only after its Wait?"),
    Wrong(
        "20.3",
        "waits for the sends alone",
        old="in pending:",
        new="in pending[2:]:",
        says="used only after its Wait?",
    ),
    Wrong(
        "20.3",
        "sends the far row to each neighbour",
        old=["comm.Isend(strip[0], dest=up)", "comm.Isend(strip[-1], dest=down)"],
        new=["comm.Isend(strip[-1], dest=up)", "comm.Isend(strip[0], dest=down)"],
        says="is each halo the right one",
    ),
    Wrong(
        "20.3",
        "one buffer for both halos",
        old="comm.Irecv(below, source=down)",
        new="comm.Irecv(above, source=down)",
        says="is each halo the right one",
    ),
    Wrong(
        "20.3",
        "works in place, on rows that are being sent",
        old="new = np.empty_like(strip)",
        new="new = strip",
        says="`strip` was changed while being sent",
    ),
    Wrong(
        "20.3",
        "blocking calls: nothing is computed meanwhile",
        old="""pending = [comm.Irecv(above, source=up), comm.Irecv(below, source=down)]
    pending += [comm.Isend(strip[0], dest=up), comm.Isend(strip[-1], dest=down)]
""",
        new="""pending = []
    comm.Sendrecv(strip[0], up, recvbuf=below, source=down)
    comm.Sendrecv(strip[-1], down, recvbuf=above, source=up)
""",
        says="right, but Sendrecv blocks",
    ),
    Wrong(
        "20.3",
        "tags that do not match",
        old="comm.Irecv(below, source=down)",
        new="comm.Irecv(below, source=down, tag=1)",
        says="of blur: request.Wait()",
    ),
]

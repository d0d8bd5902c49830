"""Mistakes that learners make in lab 20, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"patience": 5, "blur_steps": 10, "sizes": (8, 4096, 262144)}

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

# fmt: off
WRONG = [
    Wrong("20.1", "everyone receives first", START, "", "wait in line 7 of pass_token"),
    Wrong("20.1", "rank 0 does not wait for the token's return",
          "        return comm.recv(source=left)\n", "        return 0\n",
          "With 5 ranks, sent to the right, what arrived at [rank]: expected 10 at [0], got 0"),
    Wrong("20.1", "the ring turns the other way",
          ["dest=right)\n        return comm.recv(source=left)",
           "comm.recv(source=left)\n    comm.send(token + comm.rank, dest=right)"],
          ["dest=left)\n        return comm.recv(source=right)",
           "comm.recv(source=right)\n    comm.send(token + comm.rank, dest=left)"],
          "expected 0 at [1], got 9"),
    Wrong("20.1", "the ring is not closed", "(comm.rank + 1) % comm.size", "comm.rank + 1", "Invalid rank"),
    Wrong("20.1", "passes on without adding", "token + comm.rank", "token", "got 0"),
    Wrong("20.1", "returns what it passes on instead of what arrived",
          "    return token", "    return token + comm.rank", "expected 0 at [1], got 1"),
    Wrong("20.1", "array call for an object",
          "comm.send(0, dest=right)", "comm.Send(0, dest=right)", "rank 0 failed: TypeError"),
    Wrong("20.2", "everyone sends first",
          SENDRECV, "comm.Send(own, dest=right)\n    comm.Recv(theirs, source=left)",
          "of shift_right: comm.Send(own, dest=right)"),
    Wrong("20.2", "everyone receives first",
          SENDRECV, "comm.Recv(theirs, source=left)\n    comm.Send(own, dest=right)",
          "of shift_right: comm.Recv(theirs, source=left)"),
    Wrong("20.2", "even and odd take turns, and a rank alone sends to nobody who listens", SENDRECV, """\
if comm.rank % 2 == 0:
        comm.Send(own, dest=right)
        comm.Recv(theirs, source=left)
    else:
        comm.Recv(theirs, source=left)
        comm.Send(own, dest=right)""", "rank 0 waits in line 7 of shift_right: comm.Send(own, dest=right)"),
    Wrong("20.2", "wrong neighbour",
          "dest=right, recvbuf=theirs, source=left", "dest=left, recvbuf=theirs, source=right",
          "what came from the left"),
    Wrong("20.2", "receives into its own vector", "recvbuf=theirs", "recvbuf=own",
          "`own` was changed; it belongs to the caller. Receive into another array"),
    Wrong("20.2", "returns what it sent", "return theirs", "return own", "what came from the left"),
    Wrong("20.2", "buffer of another dtype",
          "np.empty_like(own)", "np.empty(len(own), np.int32)", "truncated"),
    Wrong("20.3", "halo read before Wait", WAIT + EDGES, EDGES + WAIT, "used only after its Wait?"),
    Wrong("20.3", "no Wait at all", WAIT, "", "used only after its Wait?"),
    Wrong("20.3", "waits for the sends alone", "in pending:", "in pending[2:]:", "used only after its Wait?"),
    Wrong("20.3", "sends the far row to each neighbour",
          ["comm.Isend(strip[0], dest=up)", "comm.Isend(strip[-1], dest=down)"],
          ["comm.Isend(strip[-1], dest=up)", "comm.Isend(strip[0], dest=down)"],
          "is each halo the right one"),
    Wrong("20.3", "one buffer for both halos",
          "comm.Irecv(below, source=down)", "comm.Irecv(above, source=down)", "is each halo the right one"),
    Wrong("20.3", "works in place, on rows that are being sent", "new = np.empty_like(strip)", "new = strip",
          "`strip` was changed; it belongs to the caller. While it is sent, write to `new`"),
    Wrong("20.3", "blocking calls: nothing is computed meanwhile",
          "pending = [comm.Irecv(above, source=up), comm.Irecv(below, source=down)]\n"
          "    pending += [comm.Isend(strip[0], dest=up), comm.Isend(strip[-1], dest=down)]\n",
          "pending = []\n"
          "    comm.Sendrecv(strip[0], up, recvbuf=below, source=down)\n"
          "    comm.Sendrecv(strip[-1], down, recvbuf=above, source=up)\n",
          "right, but Sendrecv blocks"),
    Wrong("20.3", "tags that do not match",
          "comm.Irecv(below, source=down)", "comm.Irecv(below, source=down, tag=1)",
          "of blur: request.Wait()"),
]

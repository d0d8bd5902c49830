"""Mistakes that learners make in lab 21, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "patience": 25,
    "computed_ranks": (4, 8),
    "computed_sizes": (64, 65536, 1 << 22),
    "sizes": (1, 4096),
    "moment": 0.05,
}

TREE = """    for reach in doublings(comm.size):
        # Across ranks: ranks with the vector send, the next ones receive, the others wait.
        if me < reach:
            if me + reach < comm.size:
                comm.Send(vector, dest=(me + reach + root) % comm.size)
        elif me < 2 * reach:
            comm.Recv(vector, source=(me - reach + root) % comm.size)
"""
BACKWARDS = """    for reach in reversed(doublings(comm.size)):
        # Across ranks: of the ranks that still take part, the upper half sends to the lower half.
        if reach <= me < 2 * reach:
            comm.Send(vector, dest=(me - reach + root) % comm.size)
        elif me < reach and me + reach < comm.size:
            comm.Recv(box, source=(me + reach + root) % comm.size)
            vector += box
"""
ALLREDUCE = """    mean = np.empty_like(gradient)
    # Across ranks: MPI adds, the division is ours.
    comm.Allreduce(gradient, mean)
    return mean / comm.size"""

SWAPPED = "comm.Sendrecv(chunks[to], dest=to, recvbuf=box, source=source)"
SWAP = f"""        {SWAPPED}
        chunks[comm.rank] += box
"""

# fmt: off
RIGHT = [

    Right("21.1", "the far ranks first, and requests to receive", TREE, """\
    for reach in reversed(doublings(comm.size)):
        if me % (2 * reach) == 0 and me + reach < comm.size:
            comm.Send(vector, dest=(me + reach + root) % comm.size)
        elif me % (2 * reach) == reach:
            comm.Irecv(vector, source=(me - reach + root) % comm.size).Wait()
"""),
    Right("21.1", "positional arguments, [array, type]", [
        "comm.Send(vector, dest=(me + reach + root) % comm.size)",
        "comm.Recv(vector, source=(me - reach + root) % comm.size)"], [
        "comm.Ssend([vector, len(vector)], (me + reach + root) % comm.size)",
        "comm.Recv(vector, (me - reach + root) % comm.size, 0)"]),
    Right("21.2", "requests", ["comm.Send(vector, dest=(me - reach + root) % comm.size)",
                               "comm.Recv(box, source=(me + reach + root) % comm.size)"],
          ["comm.Isend(vector, dest=(me - reach + root) % comm.size).wait()",
           "comm.Irecv(box, source=(me + reach + root) % comm.size).Wait()"]),
    Right("21.2", "Ssend, a status, np.add",
          ["comm.Send(vector,", "comm.Recv(box, source=(me + reach + root) % comm.size)", "vector += box",
           "    broadcast(comm, vector, root)\n"],
          ["comm.Ssend(vector,", """from mpi4py import MPI

            comm.Recv(box, (me + reach + root) % comm.size, status=MPI.Status())""",
           "np.add(vector, box, out=vector)", "    broadcast(vector=vector, comm=comm, root=root)\n"]),
    Right("21.3", "two requests, Waitall", SWAPPED, """\
from mpi4py import MPI

        MPI.Request.Waitall([comm.Irecv(box, source), comm.Isend(chunks[to], to)])"""),
    Right("21.3", "a ring", ["    for i in range(1, comm.size):", """\
        source = (comm.rank - i) % comm.size
""" + SWAP], ["    for i in range(comm.size - 1):", """\
        into = (comm.rank - i - 2) % comm.size
        box = np.empty_like(chunks[into])
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        comm.Sendrecv(chunks[(into + 1) % comm.size], dest=right, recvbuf=box, source=left)
        chunks[into] += box
"""]),
    Right("21.3", "all arguments by position, with a status", SWAPPED, """\
from mpi4py import MPI

        comm.Sendrecv(chunks[to], to, 0, box, source, MPI.ANY_TAG, MPI.Status())"""),
    Right("21.4", "in place, in a copy", ALLREDUCE, """\
    from mpi4py import MPI

    mean = gradient.copy()
    comm.Allreduce(MPI.IN_PLACE, mean)
    mean /= comm.size
    return mean"""),
    Right("21.4", "divided first, arguments by name", ALLREDUCE, """\
    mean = np.zeros_like(gradient)
    comm.Allreduce(recvbuf=mean, sendbuf=gradient / np.float32(comm.Get_size()))
    return mean"""),
]
WRONG = [
    Wrong("21.1", "root sends to everybody", TREE, """\
    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.Send(vector, dest=other)
    else:
        comm.Recv(vector, source=root)
""", "But with 5 ranks and root 0, the number of steps: expected 3, got 4"),
    Wrong("21.1", "a chain from neighbour to neighbour", TREE, """\
    if me > 0:
        comm.Recv(vector, source=(comm.rank - 1) % comm.size)
    if me < comm.size - 1:
        comm.Send(vector, dest=(comm.rank + 1) % comm.size)
""", "the number of steps: expected 3, got 4"),
    Wrong("21.1", "right for root 0 alone", ["dest=(me + reach + root)", "source=(me - reach + root)"],
          ["dest=(me + reach)", "source=(me - reach)"],
          "in a group of 5 ranks, root 1, 8 values: ranks", hangs=True),
    Wrong("21.1", "else for elif", "elif me < 2 * reach:", "else:", "in a group of 5 ranks, root 0",
          hangs=True),
    Wrong("21.1", "sends to a rank that is not there",
          "            if me + reach < comm.size:\n"
          "                comm.Send(vector, dest=(me + reach + root) % comm.size)\n",
          "            comm.Send(vector, dest=(me + reach + root) % comm.size)\n",
          "and nobody received them"),
    Wrong("21.1", "into a copy that only the function sees",
          "    for reach in doublings(comm.size):\n        # Across ranks: ranks",
          "    vector = vector.copy()\n    for reach in doublings(comm.size):\n        # Across ranks: ranks",
          "the result lies in a new array instead of this one"),
    Wrong("21.1", "reaches for up to 8 ranks alone",
          "for reach in doublings(comm.size):\n        # Across ranks: ranks",
          "for reach in (1, 2, 4):\n        # Across ranks: ranks",
          "broadcast, 64 simulated ranks, root 0: on rank 8, `vector`"),
    Wrong("21.1", "Isend: the root's messages overlap", "comm.Send(vector, dest=(me + reach + root) % comm.size)",
          "comm.Isend(vector, dest=(me + reach + root) % comm.size).Wait()",
          "messages of a rank that begin together, as with Isend, share its bandwidth"),
    Wrong("21.1", "one step too few where the ranks are no power of two",
          "for reach in doublings(comm.size):\n        # Across ranks: ranks",
          "for reach in doublings(comm.size)[: int(np.log2(comm.size))]:\n        # Across ranks: ranks",
          "either no message reached this rank"),
    Wrong("21.1", "small letters", ["comm.Send(vector, dest=",
          "comm.Recv(vector, source=(me - reach + root) % comm.size)"],
          ["comm.send(vector, dest=", "vector[:] = comm.recv(source=(me - reach + root) % comm.size)"],
          "is not there: build it from comm.Send"),
    Wrong("21.1", "uses MPI's own broadcast",
          TREE, "    comm.Bcast(vector, root=root)\n", "comm.Bcast is not there: build it from comm.Send"),
    Wrong("21.2", "reaches for up to 8 ranks alone", "in reversed(doublings(comm.size))", "in (4, 2, 1)",
          "reduce, 64 simulated ranks, root 0: on rank 0, `vector`"),
    Wrong("21.2", "replaces where it should add", "vector += box", "vector[:] = box", "5 ranks, root 0"),
    Wrong("21.2", "a new array with the sum", "vector += box", "vector = vector + box",
          "on rank 0, `vector`"),
    Wrong("21.2", "rounds in the order of broadcast",
          "in reversed(doublings(comm.size))", "in doublings(comm.size)", "5 ranks, root 0"),
    Wrong("21.2", "receives into the vector that holds the sum",
          "comm.Recv(box,", "comm.Recv(vector,", "on rank 0"),
    Wrong("21.2", "everybody sends to the root", BACKWARDS, """\
    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.Recv(box, source=other)
                vector += box
    else:
        comm.Send(vector, dest=root)
""", "the number of steps: expected 3, got 4"),
    Wrong("21.2", "allreduce tells nobody", "    broadcast(comm, vector, root)\n", "",
          "allreduce_tree, 5 ranks, root 0"),
    Wrong("21.2", "broadcast from another root",
          "broadcast(comm, vector, root)", "broadcast(comm, vector, 0)", "allreduce_tree, 5 ranks, root 1"),
    Wrong("21.3", "sends the whole vector instead of a chunk", SWAP, """\
        whole = np.empty_like(vector)
        comm.Sendrecv(vector, dest=to, recvbuf=whole, source=source)
        chunks[comm.rank] += np.array_split(whole, comm.size)[comm.rank]
""", "the number of vectors sent"),
    Wrong("21.3", "sends its own chunk instead of the receiver's",
          "comm.Sendrecv(chunks[to]", "comm.Sendrecv(chunks[comm.rank]", "reduce_scatter"),
    Wrong("21.3", "one step too few", "for i in range(1, comm.size)", "for i in range(1, comm.size - 1)",
          "reduce_scatter, 5 ranks, 8 values: on rank"),
    Wrong("21.3", "four steps, whatever the number of ranks is", "for i in range(1, comm.size)",
          "for i in range(1, min(comm.size, 5))",
          "reduce_scatter, 64 simulated ranks: on rank 0, chunk 0 of `vector`"),
    Wrong("21.3", "source is the rank to the right too",
          "source = (comm.rank - i) % comm.size", "source = (comm.rank + i) % comm.size",
          "in a group of 5 ranks, 8 values: ranks", hangs=True),
    Wrong("21.3", "the sum is a new array, not the vector's chunk",
          "chunks[comm.rank] += box", "chunks[comm.rank] = chunks[comm.rank] + box",
          "the result lies in a new array instead of this one"),
    Wrong("21.3", "the sum in a copy of the chunk, which is returned",
          ["    for i in range(1, comm.size):", "        chunks[comm.rank] += box\n", "    return "
          "chunks[comm.rank]"],
          ["    total = chunks[comm.rank].copy()\n"
          "    for i in range(1, comm.size):", "        total += box\n", "    return total"],
          "the result lies in a new array instead of this one"),
    Wrong("21.3", "begins with itself: one step too many", "for i in range(1, comm.size)",
          "for i in range(comm.size)",
          "reduce_scatter, 5 ranks"),
    Wrong("21.3", "MPI's own", SWAP, "        box[:] = comm.allreduce(chunks[to])\n",
          "is not there: build it from"),
    Wrong("21.4", "sum for mean", "mean / comm.size", "mean", "This is the sum over the ranks, not the mean"),
    Wrong("21.4", "divided by 4, whatever the number of ranks is", "mean / comm.size", "mean / 4",
          "This is the mean times 1.25"),
    Wrong("21.4", "a list", "return mean / comm.size", "return list(mean / comm.size)",
          "expected an array, got a list"),
    Wrong("21.4", "one mean of all values, in every place", "return mean / comm.size",
          "return np.full_like(gradient, mean.mean() / comm.size)", "This is one number for all positions"),
    Wrong("21.4", "only rank 0 gets it",
          "comm.Allreduce(gradient, mean)", "comm.Reduce(gradient, mean, root=0)",
          "Do all ranks call Allreduce, and is the result returned?"),
    Wrong("21.4", "Allreduce on rank 0 only", "    comm.Allreduce(gradient, mean)\n",
          "    if comm.rank == 0:\n        comm.Allreduce(gradient, mean)\n", "Do all ranks call Allreduce"),
    Wrong("21.4", "one array as input and output",
          ALLREDUCE, "    comm.Allreduce(gradient, gradient)\n"
          "    return gradient / comm.size\n", "must not be aliased"),
    Wrong("21.4", "in place: the gradient is gone", ALLREDUCE, """\
    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, gradient)
    return gradient / comm.size""", "`gradient` was changed"),
    Wrong("21.4", "result of another dtype", "np.empty_like(gradient)", "np.empty(gradient.shape)",
          "differ in dtype"),
    Wrong("21.4", "flat, whatever the gradient's shape is", "np.empty_like(gradient)",
          "np.empty(gradient.size, gradient.dtype)", "the mean: expected shape (3, 2), got (6,)"),
    Wrong("21.4", "small letters", "comm.Allreduce(gradient, mean)\n    return mean",
          "return comm.allreduce(gradient)",
          "the right mean, but by the calls"),
    Wrong("21.4", "forgets to return", "    return mean / comm.size", "    mean / comm.size",
          "got None. Does the function return"),
]

"""Mistakes that learners make in lab 21, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"patience": 6, "sizes": (1, 4096)}

TREE = """    for reach in doublings(comm.size):
        # Across ranks: who has the vector sends, who is next receives, the others wait for their round.
        if me < reach:
            if me + reach < comm.size:
                comm.Send(vector, dest=(me + reach + root) % comm.size)
        elif me < 2 * reach:
            comm.Recv(vector, source=(me - reach + root) % comm.size)
"""
BACKWARDS = """    for reach in reversed(doublings(comm.size)):
        # Across ranks: of those who still take part, the upper half sends its sums to the lower half.
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

WRONG = [
    Wrong(
        "21.1",
        "root sends to everybody",
        old=TREE,
        new="""    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.Send(vector, dest=other)
    else:
        comm.Recv(vector, source=root)
""",
        says="But with 5 ranks and root 0, the number of rounds: expected 3, got 4",
    ),
    Wrong(
        "21.1",
        "a chain from neighbour to neighbour",
        old=TREE,
        new="""    if me > 0:
        comm.Recv(vector, source=(comm.rank - 1) % comm.size)
    if me < comm.size - 1:
        comm.Send(vector, dest=(comm.rank + 1) % comm.size)
""",
        says="the number of rounds: expected 3, got 4",
    ),
    Wrong(
        "21.1",
        "right for root 0 alone",
        old=["dest=(me + reach + root)", "source=(me - reach + root)"],
        new=["dest=(me + reach)", "source=(me - reach)"],
        says="of broadcast: comm.Recv(vector, source=(me - reach) % comm.size)",
    ),
    Wrong(
        "21.1",
        "sends to a rank that is not there",
        old="""            if me + reach < comm.size:
                comm.Send(vector, dest=(me + reach + root) % comm.size)
""",
        new="""            comm.Send(vector, dest=(me + reach + root) % comm.size)
""",
        says="the number of vectors sent: expected 4, got 7",
    ),
    Wrong(
        "21.1",
        "nobody receives",
        old="elif me < 2 * reach:",
        new="elif me < reach:",
        says="8 of 8 values are off",
    ),
    Wrong(
        "21.1",
        "uses MPI's own broadcast",
        old=TREE,
        new="    comm.Bcast(vector, root=root)\n",
        says="comm.Bcast is not there: build it from comm.Send",
    ),
    Wrong(
        "21.2",
        "replaces where it should add",
        old="vector += box",
        new="vector[:] = box",
        says="5 ranks, root 0",
    ),
    Wrong(
        "21.2",
        "rounds in the order of broadcast",
        old="in reversed(doublings(comm.size))",
        new="in doublings(comm.size)",
        says="5 ranks, root 0",
    ),
    Wrong(
        "21.2",
        "receives into the vector that holds the sum",
        old="comm.Recv(box,",
        new="comm.Recv(vector,",
        says="on rank 0",
    ),
    Wrong(
        "21.2",
        "everybody sends to the root",
        old=BACKWARDS,
        new="""    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.Recv(box, source=other)
                vector += box
    else:
        comm.Send(vector, dest=root)
""",
        says="the number of rounds: expected 3, got 4",
    ),
    Wrong(
        "21.2",
        "allreduce tells nobody",
        old="    broadcast(comm, vector, root)\n",
        new="",
        says="values are off",
    ),
    Wrong(
        "21.2",
        "broadcast from another root",
        old="broadcast(comm, vector, root)",
        new="broadcast(comm, vector, 0)",
        says="5 ranks, root 1",
    ),
    Wrong(
        "21.3",
        "sends the whole vector instead of a chunk",
        old="""comm.Sendrecv(chunks[to], dest=to, recvbuf=box, source=source)
        chunks[comm.rank] += box""",
        new="""whole = np.empty_like(vector)
        comm.Sendrecv(vector, dest=to, recvbuf=whole, source=source)
        chunks[comm.rank] += np.array_split(whole, comm.size)[comm.rank]""",
        says="the number of vectors sent",
    ),
    Wrong(
        "21.3",
        "sends its own chunk instead of the receiver's",
        old="comm.Sendrecv(chunks[to]",
        new="comm.Sendrecv(chunks[comm.rank]",
        says="reduce_scatter",
    ),
    Wrong(
        "21.3",
        "one step too few",
        old="for i in range(1, comm.size)",
        new="for i in range(1, comm.size - 1)",
        says="5 ranks, root 0, 8 values: on rank",
    ),
    Wrong(
        "21.3",
        "source is the rank to the right too",
        old="(comm.rank - i) % comm.size\n        comm.Sendrecv(chunks[to]",
        new="(comm.rank + i) % comm.size\n        comm.Sendrecv(chunks[to]",
        says="wait in line",
    ),
    Wrong(
        "21.3",
        "always sends its own chunk",
        old="comm.Sendrecv(chunks[old]",
        new="comm.Sendrecv(chunks[comm.rank]",
        says="allgather",
    ),
    Wrong(
        "21.3",
        "receives into the chunk it sends",
        old="recvbuf=chunks[new]",
        new="recvbuf=chunks[old]",
        says="allgather",
    ),
    Wrong(
        "21.3",
        "the sum is a new array, not the vector's chunk",
        old="chunks[comm.rank] += box",
        new="chunks[comm.rank] = chunks[comm.rank] + box",
        says="5 ranks, root 0, 8 values: on rank",
    ),
    Wrong("21.4", "sum for mean", old="mean / comm.size", new="mean", says="the mean: 7 of 7 values are off"),
    Wrong(
        "21.4",
        "only rank 0 gets it",
        old="comm.Allreduce(gradient, mean)",
        new="comm.Reduce(gradient, mean, root=0)",
        says="the mean: 7 of 7 values are off",
    ),
    Wrong(
        "21.4",
        "one array as input and output",
        old=ALLREDUCE,
        new="    comm.Allreduce(gradient, gradient)\n    return gradient / comm.size\n",
        says="alias",
    ),
    Wrong(
        "21.4",
        "in place: the gradient is gone",
        old=ALLREDUCE,
        new="""    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, gradient)
    return gradient / comm.size""",
        says="`gradient` was changed",
    ),
    Wrong(
        "21.4",
        "result of another dtype",
        old="np.empty_like(gradient)",
        new="np.empty(len(gradient))",
        says="failed",
    ),
    Wrong(
        "21.4", "the number of ranks written down", old="mean / comm.size", new="mean / 4", says="the mean"
    ),
]

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

# fmt: off
WRONG = [
    Wrong("21.1", "root sends to everybody", TREE, """\
    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.Send(vector, dest=other)
    else:
        comm.Recv(vector, source=root)
""", "But with 5 ranks and root 0, the number of rounds: expected 3, got 4"),
    Wrong("21.1", "a chain from neighbour to neighbour", TREE, """\
    if me > 0:
        comm.Recv(vector, source=(comm.rank - 1) % comm.size)
    if me < comm.size - 1:
        comm.Send(vector, dest=(comm.rank + 1) % comm.size)
""", "the number of rounds: expected 3, got 4"),
    Wrong("21.1", "right for root 0 alone", ["dest=(me + reach + root)", "source=(me - reach + root)"],
          ["dest=(me + reach)", "source=(me - reach)"],
          "of broadcast: comm.Recv(vector, source=(me - reach) % comm.size)"),
    Wrong("21.1", "sends to a rank that is not there",
          "            if me + reach < comm.size:\n"
          "                comm.Send(vector, dest=(me + reach + root) % comm.size)\n",
          "            comm.Send(vector, dest=(me + reach + root) % comm.size)\n",
          "the number of vectors sent: expected 4, got 7"),
    Wrong("21.1", "nobody receives", "elif me < 2 * reach:", "elif me < reach:", "8 of 8 values are off"),
    Wrong("21.1", "uses MPI's own broadcast",
          TREE, "    comm.Bcast(vector, root=root)\n", "comm.Bcast is not there: build it from comm.Send"),
    Wrong("21.2", "replaces where it should add", "vector += box", "vector[:] = box", "5 ranks, root 0"),
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
""", "the number of rounds: expected 3, got 4"),
    Wrong("21.2", "allreduce tells nobody", "    broadcast(comm, vector, root)\n", "", "values are off"),
    Wrong("21.2", "broadcast from another root",
          "broadcast(comm, vector, root)", "broadcast(comm, vector, 0)", "5 ranks, root 1"),
    Wrong("21.3", "sends the whole vector instead of a chunk",
          "comm.Sendrecv(chunks[to], dest=to, recvbuf=box, source=source)\n        chunks[comm.rank] += box",
          """\
whole = np.empty_like(vector)
        comm.Sendrecv(vector, dest=to, recvbuf=whole, source=source)
        chunks[comm.rank] += np.array_split(whole, comm.size)[comm.rank]""", "the number of vectors sent"),
    Wrong("21.3", "sends its own chunk instead of the receiver's",
          "comm.Sendrecv(chunks[to]", "comm.Sendrecv(chunks[comm.rank]", "reduce_scatter"),
    Wrong("21.3", "one step too few", "for i in range(1, comm.size)", "for i in range(1, comm.size - 1)",
          "5 ranks, root 0, 8 values: on rank"),
    Wrong("21.3", "source is the rank to the right too",
          "(comm.rank - i) % comm.size\n        comm.Sendrecv(chunks[to]",
          "(comm.rank + i) % comm.size\n        comm.Sendrecv(chunks[to]", "wait in line"),
    Wrong("21.3", "always sends its own chunk",
          "comm.Sendrecv(chunks[old]", "comm.Sendrecv(chunks[comm.rank]", "allgather"),
    Wrong("21.3", "receives into the chunk it sends",
          "recvbuf=chunks[new]", "recvbuf=chunks[old]", "allgather"),
    Wrong("21.3", "the sum is a new array, not the vector's chunk",
          "chunks[comm.rank] += box", "chunks[comm.rank] = chunks[comm.rank] + box",
          "5 ranks, root 0, 8 values: on rank"),
    Wrong("21.4", "sum for mean", "mean / comm.size", "mean", "This is the sum over the ranks, not the mean"),
    Wrong("21.4", "only rank 0 gets it",
          "comm.Allreduce(gradient, mean)", "comm.Reduce(gradient, mean, root=0)",
          "the mean: 7 of 7 values are off"),
    Wrong("21.4", "one array as input and output",
          ALLREDUCE, "    comm.Allreduce(gradient, gradient)\n    return gradient / comm.size\n", "alias"),
    Wrong("21.4", "in place: the gradient is gone", ALLREDUCE, """\
    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, gradient)
    return gradient / comm.size""", "`gradient` was changed"),
    Wrong("21.4", "result of another dtype", "np.empty_like(gradient)", "np.empty(len(gradient))", "failed"),
    Wrong("21.4", "the number of ranks written down", "mean / comm.size", "mean / 4", "the mean"),
]

"""Mistakes that learners make in lab 25, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"many": 32, "sizes": (1024, 1048576), "most_chunks": 8, "sizes_here": (4096, 65536)}

SCATTER = """    if me == 0:
        for i in range(1, comm.size):
            comm.Send(chunks[i], dest=(root + i) % comm.size)
    else:
        comm.Recv(chunks[me], source=root)
"""
GATHER = """    for i in range(comm.size - 1):
        old, new = (me - i) % comm.size, (me - i - 1) % comm.size
"""
RING = "        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)"
CHAIN = """    chunks = np.array_split(vector, count)
    comm.Recv(chunks[0], source=left)
    for old, new in zip(chunks, chunks[1:], strict=False):
        # Across ranks: while one chunk leaves to the right, the next one comes from the left.
        comm.Sendrecv(old, dest=right, recvbuf=new, source=left)
    comm.Send(chunks[-1], dest=right)"""
BEST = "    return max(1, round(sqrt((ranks - 2) * nbytes * beta / alpha)))"

# fmt: off
RIGHT = [

    Right("25.1", "requests for the scatter, Waitall", SCATTER, """\
    from mpi4py import MPI

    if me == 0:
        requests = [comm.Isend(chunks[i], (root + i) % comm.size) for i in range(1, comm.size)]
        MPI.Request.Waitall(requests)
    else:
        comm.Irecv(chunks[me], root).Wait()
"""),
    Right("25.1", "the ring by requests", RING, """\
        request = comm.Isend(chunks[old], right)
        comm.Recv(chunks[new], left)
        request.Wait()"""),
    Right("25.2", "requests, all receives first", CHAIN, """\
    from mpi4py import MPI

    chunks = np.array_split(vector, count)
    coming = [comm.Irecv(chunk, source=left) for chunk in chunks]
    going = []
    for chunk, request in zip(chunks, coming, strict=True):
        request.Wait()
        going.append(comm.Isend(chunk, dest=right))
    MPI.Request.Waitall(going)"""),
    Right("25.2", "places in place of pairs, slices of equal length and a shorter last one", CHAIN, """\
    length = max(1, -(-len(vector) // count))
    chunks = [vector[i : i + length] for i in range(0, len(vector), length)]
    comm.Recv(buf=chunks[0], source=left)
    for i in range(1, len(chunks)):
        comm.Sendrecv(chunks[i - 1], right, 0, chunks[i], left)
    comm.Send(buf=chunks[-1], dest=right)"""),
    Right("25.3", "a whole number of NumPy's", BEST,
          "    return np.int64(max(np.rint(np.sqrt((ranks - 2) * nbytes * beta / alpha)), 1))"),
    Right("25.3", "rounded up", BEST,
          "    return max(1, int((((ranks - 2) * nbytes * beta) / alpha) ** 0.5 + 0.999))"),
    Right("25.4", "sorted, by the larger ratio", "min(best, key=lambda size: abs(log(size / nbytes)))",
          "sorted(best, key=lambda size: max(size / nbytes, nbytes / size))[0]"),
    Right("25.4", "by NumPy", "min(best, key=lambda size: abs(log(size / nbytes)))",
          "list(best)[int(np.argmin(np.abs(np.log(np.array(list(best)) / nbytes))))]"),
]
WRONG = [
    Wrong("25.1", "scatters by rank, right for root 0 alone",
          ["dest=(root + i) % comm.size", "(comm.rank - root) % comm.size"], ["dest=i", "comm.rank"],
          "deadlock: rank 1 waits in Recv from itself"),
    Wrong("25.1", "sends the whole vector to all", SCATTER, """\
    if me == 0:
        for i in range(1, comm.size):
            comm.Send(vector, dest=(root + i) % comm.size)
    else:
        comm.Recv(vector, source=root)
    return
""", "vectors; scatter_allgather sends"),
    Wrong("25.1", "the tree of lab 21 again", SCATTER, "    tree_broadcast(comm, vector, root)\n    return\n",
          "sent 2.00 vectors; scatter_allgather sends 1.33"),
    Wrong("25.1", "Send before Recv: waits for ever with long messages",
          RING, "        comm.Send(chunks[old], dest=right)\n        comm.Recv(chunks[new], source=left)\n",
          "comm.Send(chunks[old], dest=right)"),
    Wrong("25.1", "source is the rank to the right too",
          "recvbuf=chunks[new], source=left", "recvbuf=chunks[new], source=right", "With 3 ranks"),
    Wrong("25.1", "one step too few",
          "for i in range(comm.size - 1)", "for i in range(comm.size - 2)", "is wrong on"),
    Wrong("25.1", "the root sends a chunk to itself",
          "for i in range(1, comm.size)", "for i in range(comm.size)", "rank 0 waits in Send to itself"),
    Wrong("25.1", "receives new arrays: nothing comes into `vector`",
          RING, "        chunks[new] = comm.sendrecv(chunks[old], dest=right, source=left)", "is wrong on"),
    Wrong("25.1", "returns a new vector", [SCATTER, RING],
          ["    chunks = [chunk.copy() for chunk in chunks]\n" + SCATTER, RING + "\n    return np.hstack(chunks)"],
          "in a new array: write it into `vector`"),
    Wrong("25.1", "a float64 array for what arrives", RING, """\
        came = np.empty(len(chunks[new]))
        comm.Sendrecv(chunks[old].astype(float), dest=right, recvbuf=came, source=left)
        chunks[new][:] = came""", "the vector of root 0 (int64) is wrong on"),
    Wrong("25.1", "no scatter: a chain of p chunks", [SCATTER, GATHER + RING], ["""\
    if me:
        comm.Recv(chunks[0], source=left)
    for old, new in zip(chunks, chunks[1:]):
        if me == 0:
            comm.Send(old, dest=right)
        elif me == comm.size - 1:
            comm.Recv(new, source=left)
        else:
            comm.Sendrecv(old, dest=right, recvbuf=new, source=left)
    if me < comm.size - 1:
        comm.Send(chunks[-1], dest=right)
""", ""], "but no rank scatters: the most ranks that one sends to: expected"),
    Wrong("25.1", "a scatter, and then the whole vector down the line", GATHER + RING, """\
    if me:
        comm.Recv(vector, source=left)
    if me < comm.size - 1:
        comm.Send(vector, dest=right)
""", "vectors; scatter_allgather sends"),
    Wrong("25.1", "no allgather", RING, "        pass\n", "is wrong on"),
    Wrong("25.2", "passes chunks on when all have come", CHAIN, """\
    chunks = np.array_split(vector, count)
    for chunk in chunks:
        comm.Recv(chunk, source=left)
    for chunk in chunks:
        comm.Send(chunk, dest=right)
""", "steps; chain takes"),
    Wrong("25.2", "Recv, Send, Recv, Send: nothing comes while it sends", CHAIN, """\
    for chunk in np.array_split(vector, count):
        comm.Recv(chunk, source=left)
        comm.Send(chunk, dest=right)
""", "steps; chain takes"),
    Wrong("25.2", "as many chunks as ranks, whatever count says",
          "np.array_split(vector, count)", "np.array_split(vector, comm.size)",
          "messages; chain sends 1"),
    Wrong("25.2", "one chunk, whatever count says", "np.array_split(vector, count)", "[vector]",
          "the messages for 6 chunks: expected 6, got 1"),
    Wrong("25.2", "one chunk too few", "np.array_split(vector, count)",
          "np.array_split(vector, max(1, count - 1))", "the messages for 6 chunks: expected 6, got 5"),
    Wrong("25.2", "no more chunks than ranks", "np.array_split(vector, count)",
          "np.array_split(vector, min(count, comm.size))", "the messages for 6 chunks: expected 6, got 2"),
    Wrong("25.2", "the whole remainder in the last chunk", "np.array_split(vector, count)",
          "np.split(vector, [i * (len(vector) // count) for i in range(1, count)])",
          "chunks of nearly equal length, to 8 ranks: nβ it took: expected between 1 and 1.2, got 4"),
    Wrong("25.2", "MPI's own broadcast",
          CHAIN, "    comm.Bcast(vector, root=root)", "vectors; chain sends 1.00"),
    Wrong("25.2", "drops the remainder",
          "np.array_split(vector, count)", "np.split(vector[: len(vector) // count * count], count)",
          "is wrong on"),
    Wrong("25.2", "sends the whole vector each time",
          "comm.Sendrecv(old, dest=right, recvbuf=new, source=left)",
          "comm.Sendrecv(vector.copy(), dest=right, recvbuf=vector, source=left)",
          "Message truncated: rank 0 sent 32 values"),
    Wrong("25.2", "receives in the wrong place",
          "recvbuf=new", "recvbuf=old", "sendbuf and recvbuf share memory"),
    Wrong("25.2", "forgets the last chunk", "    comm.Send(chunks[-1], dest=right)", "", "rank"),
    Wrong("25.2", "wrong neighbour",
          "comm.Recv(chunks[0], source=left)", "comm.Recv(chunks[0], source=right)", "rank"),
    Wrong("25.2", "uses a chunk before its Wait", CHAIN, """\
    chunks = np.array_split(vector, count)
    coming = [comm.Irecv(chunk, source=left) for chunk in chunks]
    going = [comm.Isend(chunk, dest=right) for chunk in chunks]
    for request in coming + going:
        request.Wait()
""", "Wait for that request first"),
    Wrong("25.3", "α and β exchanged", "* beta / alpha", "* alpha / beta", "best number of chunks is"),
    Wrong("25.3", "p for p - 2", "(ranks - 2)", "ranks", "best number of chunks is"),
    Wrong("25.3", "the length of a chunk",
          BEST, BEST.replace("round(", "round(nbytes / "), "is 171, a whole number. Got 55181"),
    Wrong("25.3", "no whole number", "round(sqrt", "(sqrt", "a whole number. Got 171."),
    Wrong("25.3", "0 chunks of a short vector", BEST, BEST.replace("max(1, ", "max(0, "), "Got 0"),
    Wrong("25.3", "without the root", "round(sqrt(", "round((", "best number of chunks is 171"),
    Wrong("25.3", "2 chunks for two ranks", "        return 1\n", "        return ranks\n", "8 bytes, 2 ranks"),
    Wrong("25.3", "one rank is no chain", "    if ranks < 3:\n        return 1\n", "", "math domain error"),
    Wrong("25.4", "nearest by difference, not by ratio",
          "abs(log(size / nbytes))", "abs(size - nbytes)", "expected 'entry 2', got 'entry 1'"),
    Wrong("25.4", "the size, not the way",
          "return best[nearest]", "return nearest", "expected 'entry 1', got 1024"),
    Wrong("25.4", "names that are right for this table alone", "return best[nearest]",
          "return 'tree' if nbytes < 2**20 else 'chain'", "expected 'entry 1', got 'tree'"),
    Wrong("25.4", "adds to the table", "return best[nearest]",
          "best[nbytes] = best[nearest]\n    return best[nbytes]", "changes the dictionary `best`"),
    Wrong("25.4", "the next smaller size",
          "min(best, key=lambda size: abs(log(size / nbytes)))",
          "max([size for size in best if size <= nbytes], default=min(best))", "'entry 1'"),
    Wrong("25.4", "only sizes that the table has", "    return best[nearest]", "    return best[nbytes]",
          "KeyError"),
]

"""Mistakes that learners make in lab 25, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "many": 32,
    "sizes": (1024, 1048576),
    "most_chunks": 32,
    "sizes_here": (4096, 65536),
}

SCATTER = """    if me == 0:
        for i in range(1, comm.size):
            comm.Send(chunks[i], dest=(root + i) % comm.size)
    else:
        comm.Recv(chunks[me], source=root)
"""
RING = "        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)"
CHAIN = """    chunks = np.array_split(vector, count)
    comm.Recv(chunks[0], source=left)
    for old, new in zip(chunks, chunks[1:], strict=False):
        # Across ranks: while one chunk leaves to the right, the next one comes from the left.
        comm.Sendrecv(old, dest=right, recvbuf=new, source=left)
    comm.Send(chunks[-1], dest=right)"""
BEST = "    return max(1, round(sqrt((ranks - 2) * nbytes * beta / alpha)))"
LEVELS = """    if comm.rank % per_node == root % per_node:
        tree_broadcast(across, vector, root // per_node)
    inside(node, vector, root % per_node)"""

WRONG = [
    Wrong(
        "25.1",
        "scatters by rank, right for root 0 alone",
        old=["dest=(root + i) % comm.size", "(comm.rank - root) % comm.size"],
        new=["dest=i", "comm.rank"],
        says="deadlock: rank 1 waits in Recv from itself",
    ),
    Wrong(
        "25.1",
        "sends the whole vector to all",
        old=SCATTER,
        new="""    if me == 0:
        for i in range(1, comm.size):
            comm.Send(vector, dest=(root + i) % comm.size)
    else:
        comm.Recv(vector, source=root)
    return
""",
        says="vectors; scatter_allgather sends",
    ),
    Wrong(
        "25.1",
        "the tree of lab 21 again",
        old=SCATTER,
        new="    tree_broadcast(comm, vector, root)\n    return\n",
        says="sent 2.00 vectors; scatter_allgather sends 1.33",
    ),
    Wrong(
        "25.1",
        "Send before Recv: waits for ever with long messages",
        old=RING,
        new="""        comm.Send(chunks[old], dest=right)
        comm.Recv(chunks[new], source=left)
""",
        says="comm.Send(chunks[old], dest=right)",
    ),
    Wrong(
        "25.1",
        "source is the rank to the right too",
        old="recvbuf=chunks[new], source=left",
        new="recvbuf=chunks[new], source=right",
        says="With 3 ranks",
    ),
    Wrong(
        "25.1",
        "receives where the chunk that it sends lies",
        old="recvbuf=chunks[new]",
        new="recvbuf=chunks[old]",
        says="the vector of root 0",
    ),
    Wrong(
        "25.1",
        "one step too few",
        old="for i in range(comm.size - 1)",
        new="for i in range(comm.size - 2)",
        says="is wrong on",
    ),
    Wrong(
        "25.1",
        "the root sends a chunk to itself",
        old="for i in range(1, comm.size)",
        new="for i in range(comm.size)",
        says="rank 0 waits in Send to itself",
    ),
    Wrong(
        "25.1",
        "receives new arrays: nothing comes into `vector`",
        old="        comm.Sendrecv(chunks[old], dest=right, recvbuf=chunks[new], source=left)",
        new="        chunks[new] = comm.sendrecv(chunks[old], dest=right, source=left)",
        says="is wrong on",
    ),
    Wrong("25.1", "no allgather", old=RING, new="        pass\n", says="is wrong on"),
    Wrong(
        "25.2",
        "passes chunks on when all have come",
        old=CHAIN,
        new="""    chunks = np.array_split(vector, count)
    for chunk in chunks:
        comm.Recv(chunk, source=left)
    for chunk in chunks:
        comm.Send(chunk, dest=right)
""",
        says="rounds; chain takes",
    ),
    Wrong(
        "25.2",
        "Recv, Send, Recv, Send: nothing comes while it sends",
        old=CHAIN,
        new="""    for chunk in np.array_split(vector, count):
        comm.Recv(chunk, source=left)
        comm.Send(chunk, dest=right)
""",
        says="rounds; chain takes",
    ),
    Wrong(
        "25.2",
        "one chunk, whatever count says",
        old="np.array_split(vector, count)",
        new="[vector]",
        says="64 chunks to 64 ranks (1 chunk takes 63 nβ). nβ it took: expected between 1 and 2, got 63",
    ),
    Wrong(
        "25.2",
        "MPI's own broadcast",
        old=CHAIN,
        new="    comm.Bcast(vector, root=root)",
        says="vectors; chain sends 1.00",
    ),
    Wrong(
        "25.2",
        "drops the remainder",
        old="np.array_split(vector, count)",
        new="np.split(vector[: len(vector) // count * count], count)",
        says="is wrong on",
    ),
    Wrong(
        "25.2",
        "chunks of a fixed length, none where count exceeds the length",
        old="np.array_split(vector, count)",
        new="[vector[i * (len(vector) // count) : (i + 1) * (len(vector) // count)] for i in range(count)]",
        says="is wrong on",
    ),
    Wrong(
        "25.2",
        "sends the whole vector each time",
        old="comm.Sendrecv(old, dest=right, recvbuf=new, source=left)",
        new="comm.Sendrecv(vector, dest=right, recvbuf=vector, source=left)",
        says="Message truncated: rank 0 sent 32 values",
    ),
    Wrong(
        "25.2",
        "sends the chunk that is about to come",
        old="comm.Sendrecv(old, dest=right, recvbuf=new",
        new="comm.Sendrecv(new, dest=right, recvbuf=new",
        says="the vector of root 0 is wrong on rank",
    ),
    Wrong(
        "25.2",
        "receives in the wrong place",
        old="recvbuf=new",
        new="recvbuf=old",
        says="the vector of root 0 is wrong on rank",
    ),
    Wrong(
        "25.2",
        "forgets the last chunk",
        old="    comm.Send(chunks[-1], dest=right)",
        new="",
        says="rank",
    ),
    Wrong(
        "25.2",
        "wrong neighbour",
        old="comm.Recv(chunks[0], source=left)",
        new="comm.Recv(chunks[0], source=right)",
        says="rank",
    ),
    Wrong(
        "25.2",
        "uses a chunk before its Wait",
        old=CHAIN,
        new="""    chunks = np.array_split(vector, count)
    coming = [comm.Irecv(chunk, source=left) for chunk in chunks]
    going = [comm.Isend(chunk, dest=right) for chunk in chunks]
    for request in coming + going:
        request.Wait()
""",
        says="Wait for that request first",
    ),
    Wrong(
        "25.3",
        "α and β exchanged",
        old="* beta / alpha",
        new="* alpha / beta",
        says="best number of chunks is",
    ),
    Wrong("25.3", "p for p - 2", old="(ranks - 2)", new="ranks", says="best number of chunks is"),
    Wrong(
        "25.3",
        "the length of a chunk",
        old=BEST,
        new=BEST.replace("round(", "round(nbytes / "),
        says="is 171, a whole number. Got 55181",
    ),
    Wrong("25.3", "no whole number", old="round(sqrt", new="(sqrt", says="a whole number. Got 171."),
    Wrong(
        "25.3", "0 chunks of a short vector", old=BEST, new=BEST.replace("max(1, ", "max(0, "), says="Got 0"
    ),
    Wrong("25.3", "without the root", old="round(sqrt(", new="round((", says="best number of chunks is 171"),
    Wrong(
        "25.3",
        "one rank is no chain",
        old="    if ranks < 3:\n        return 1\n",
        new="",
        says="math domain error",
    ),
    Wrong(
        "25.4",
        "place 0 leads, wherever the root is",
        old=["if comm.rank % per_node == root % per_node", "inside(node, vector, root % per_node)"],
        new=["if comm.rank % per_node == 0", "inside(node, vector, 0)"],
        says="the vector of root 1 is wrong",
    ),
    Wrong(
        "25.4",
        "the root's number among all",
        old="inside(node, vector, root % per_node)",
        new="inside(node, vector, root)",
        says="deadlock",
    ),
    Wrong(
        "25.4",
        "a tree inside too, whatever `inside` is",
        old="inside(node, vector, root % per_node)",
        new="tree_broadcast(node, vector, root % per_node)",
        says="rank 0 sent 4.00 vectors; two_level sends 3.00",
    ),
    Wrong(
        "25.4",
        "a chain between nodes too",
        old="tree_broadcast(across, vector, root // per_node)",
        new="chain(across, vector, root // per_node, 1)",
        says="rounds; two_level takes 3",
    ),
    Wrong(
        "25.4",
        "only the leaders call Split",
        old=LEVELS,
        new="""    if comm.rank % per_node == root % per_node:
        tree_broadcast(comm.Split(0), vector, root // per_node)
    inside(node, vector, root % per_node)""",
        says="waits in Split, which",
    ),
    Wrong(
        "25.4",
        "everybody fetches it over the network",
        old=LEVELS,
        new="    tree_broadcast(comm, vector, root)\n",
        says="But between nodes, the number of messages",
    ),
    Wrong(
        "25.4",
        "numbers exchanged: `node` is not a node",
        old="comm.Split(comm.rank // per_node), comm.Split(comm.rank % per_node)",
        new="comm.Split(comm.rank % per_node), comm.Split(comm.rank // per_node)",
        says="there is no such rank",
    ),
    Wrong(
        "25.4",
        "inside first, when nobody has it yet",
        old=LEVELS,
        new="""    inside(node, vector, root % per_node)
    if comm.rank % per_node == root % per_node:
        tree_broadcast(across, vector, root // per_node)
""",
        says="is wrong on",
    ),
    Wrong(
        "25.4",
        "both levels on all ranks: the network carries it once for each place",
        old="    if comm.rank % per_node == root % per_node:\n        tree_broadcast(",
        new="    inside(node, vector, root % per_node)\n    if True:\n        tree_broadcast(",
        says="But between nodes, the number of messages: expected 1, got 2",
    ),
]

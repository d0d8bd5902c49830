"""Mistakes that learners make in lab 26, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"nodes": 4, "lengths": (1e3, 1e6), "sizes": (256, 16384), "patience": 10}

LEADERS = """    if inside.rank == 0:
        ring_allreduce(across, vector)
"""

TWO_LEVEL = f"""    tree_reduce(inside, vector)
    # Across ranks: only leaders talk between nodes; the others wait in the broadcast.
{LEADERS}    tree_broadcast(inside, vector)"""
SCATTER = "chunk = ring_reduce_scatter(inside, vector)"

WRONG = [
    Wrong(
        "26.1",
        "the node's number as the key, not as the color",
        old="comm.Split(node, comm.rank)",
        new="comm.Split(0, node)",
        says="on rank 0, the ranks in `inside`",
    ),
    Wrong(
        "26.1",
        "`across` split by node too",
        old="comm.Split(inside.rank, node)",
        new="comm.Split(node, inside.rank)",
        says="the ranks in `across`",
    ),
    Wrong(
        "26.1",
        "one group of leaders, and one of all others",
        old="comm.Split(inside.rank, node)",
        new="comm.Split(int(inside.rank == 0), node)",
        says="the ranks in `across`",
    ),
    Wrong(
        "26.1",
        "the number in the node guessed from the rank: right only node by node",
        old="comm.Split(inside.rank, node)",
        new="comm.Split(comm.rank % inside.size, node)",
        says="Ranks by node [[0, 2], [1, 3]]: on rank 0, the ranks in `across` should be [0, 1], not",
    ),
    Wrong(
        "26.1",
        "`across` in the order of the ranks, not of the nodes",
        old="comm.Split(inside.rank, node)",
        new="comm.Split(inside.rank, comm.rank)",
        says="Ranks by node [[3], [2], [1], [0]]: on rank",
    ),
    Wrong(
        "26.1",
        "nodes of four ranks, always",
        old="comm.Split(node, comm.rank)",
        new="comm.Split(comm.rank // 4, comm.rank)",
        says="the ranks in `inside`",
    ),
    Wrong(
        "26.1",
        "backwards: the last rank of a node leads",
        old="comm.Split(node, comm.rank)",
        new="comm.Split(node, -comm.rank)",
        says="the ranks in `inside`",
    ),
    Wrong(
        "26.1",
        "the two groups swapped",
        old="    across = comm.Split(inside.rank, node)",
        new="    across = comm.Split(inside.rank, node)\n    inside, across = across, inside",
        says="the ranks in `inside`",
    ),
    Wrong(
        "26.1",
        "only leaders call Split",
        old="    across = comm.Split(inside.rank, node)",
        new="    across = comm.Split(0, node) if inside.rank == 0 else inside",
        says="deadlock",
    ),
    Wrong(
        "26.2",
        "all ranks talk between nodes: the leaders' broadcast hides it",
        old=LEADERS,
        new="    ring_allreduce(across, vector)\n",
        says="vectors leave a node",
    ),
    Wrong(
        "26.2",
        "forgets the broadcast",
        old="    tree_broadcast(inside, vector)",
        new="    pass",
        says="the sum is wrong",
    ),
    Wrong(
        "26.2",
        "forgets the sum in the node",
        old="    tree_reduce(inside, vector)\n",
        new="",
        says="the sum is wrong",
    ),
    Wrong(
        "26.2",
        "the leader sums among its own node",
        old="ring_allreduce(across, vector)",
        new="ring_allreduce(inside, vector)",
        says="the sum is wrong",
    ),
    Wrong(
        "26.2",
        "an allreduce in every node, then between all",
        old=TWO_LEVEL,
        new="    ring_allreduce(inside, vector)\n    ring_allreduce(across, vector)",
        says="vectors leave a node",
    ),
    Wrong(
        "26.2",
        "leaders by the number in `across`",
        old="if inside.rank == 0:",
        new="if across.rank == 0:",
        says="deadlock",
    ),
    Wrong(
        "26.2",
        "a tree between the leaders: twice the bytes of a ring and more",
        old="ring_allreduce(across, vector)",
        new="tree_reduce(across, vector)\n        tree_broadcast(across, vector)",
        says="leave a node",
    ),
    Wrong(
        "26.2",
        "scatters in the node, and sums between leaders what only they have",
        old="tree_reduce(inside, vector)",
        new="ring_reduce_scatter(inside, vector)",
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "whole vectors between the nodes: the gather hides it",
        old="ring_allreduce(across, chunk)",
        new="ring_allreduce(across, vector)",
        says="vectors leave a node",
    ),
    Wrong(
        "26.3",
        "two levels again: right, but one rank of a node sends all",
        old=[
            "    chunk = ring_reduce_scatter(inside, vector)\n",
            "    ring_allreduce(across, chunk)\n    ring_allgather(inside, vector)",
        ],
        new=["", TWO_LEVEL],
        says="vectors leave a node from one rank",
    ),
    Wrong(
        "26.3",
        "forgets the allgather",
        old="    ring_allgather(inside, vector)",
        new="    pass",
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "forgets the network",
        old="    ring_allreduce(across, chunk)\n",
        new="",
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "a copy of the chunk is summed, not the chunk",
        old="chunk = ring_reduce_scatter(inside, vector)",
        new="chunk = ring_reduce_scatter(inside, vector).copy()",
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "only leaders talk between nodes",
        old="    ring_allreduce(across, chunk)\n",
        new="    if inside.rank == 0:\n        ring_allreduce(across, chunk)\n",
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "scatters between the nodes, sums inside: the network carries whole vectors",
        old=[
            "ring_reduce_scatter(inside, vector)",
            "ring_allreduce(across, chunk)",
            "ring_allgather(inside, vector)",
        ],
        new=[
            "ring_reduce_scatter(across, vector)",
            "ring_allreduce(inside, chunk)",
            "ring_allgather(across, vector)",
        ],
        says="vectors leave a node",
    ),
    Wrong(
        "26.3",
        "the chunk of this rank's own number",
        old="chunk = ring_reduce_scatter(inside, vector)",
        new=f"{SCATTER}\n    chunk = np.array_split(vector, inside.size)[inside.rank]",
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "the remainder is dropped",
        old="chunk = ring_reduce_scatter(inside, vector)",
        new="vector = vector[: len(vector) // inside.size * inside.size]\n    " + SCATTER,
        says="the sum is wrong",
    ),
    Wrong(
        "26.3",
        "a broadcast of the leader's vector in place of the allgather",
        old="ring_allgather(inside, vector)",
        new="tree_broadcast(inside, vector)",
        says="the sum is wrong",
    ),
]

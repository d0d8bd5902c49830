"""Mistakes that learners make in lab 26, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"nodes": 4, "lengths": (1e3, 1e6), "sizes": (256, 16384), "patience": 10}

LEADERS = """    if inside.rank == 0:
        ring_allreduce(across, vector)
"""

TWO_LEVEL = f"""    tree_reduce(inside, vector)
    # Across ranks: only leaders talk between nodes; the others wait in the broadcast.
{LEADERS}    tree_broadcast(inside, vector)"""
SCATTER = "chunk = ring_reduce_scatter(inside, vector)"

# fmt: off
RIGHT = [

    Right("26.1", "no key: the order of the ranks", "comm.Split(node, comm.rank)", "comm.Split(color=node)"),
    Right("26.1", "another color, in the same order of nodes", "comm.Split(inside.rank, node)",
          "comm.Split(key=10 * node + 3, color=7 * inside.Get_rank())"),
    Right("26.1", "the number in the node counted in an allgather",
          ["inside = comm.Split(node, comm.rank)", "comm.Split(inside.rank, node)"],
          ["nodes = comm.allgather(node)\n    number = nodes[: comm.rank].count(node)\n"
           "    inside = comm.Split(node, number)", "comm.Split(number, node)"]),
    Right("26.2", "a leader by its group, in two branches", LEADERS, """\
    leader = not inside.Get_rank()
    if leader and across.size > 1:
        ring_allreduce(comm=across, vector=vector)
"""),
    Right("26.2", "the sum of a copy, written back", TWO_LEVEL, """\
    total = vector.copy()
    tree_reduce(inside, total)
    if inside.rank == 0:
        ring_allreduce(across, total)
    tree_broadcast(inside, total)
    vector[:] = total"""),
    Right("26.3", "the chunk by array_split", SCATTER + """
    # Across ranks: each rank talks to its likes in the other nodes, about its own chunk.
    ring_allreduce(across, chunk)""", """\
ring_reduce_scatter(inside, vector)
    own = np.array_split(vector, inside.size)[(inside.rank + 1) % inside.size]
    ring_allreduce(across, own)"""),
]
WRONG = [
    Wrong("26.1", "the node's number as the key, not as the color",
          "comm.Split(node, comm.rank)", "comm.Split(0, node)", "on rank 0, the ranks in `inside`"),
    Wrong("26.1", "`across` split by node too",
          "comm.Split(inside.rank, node)", "comm.Split(node, inside.rank)", "the ranks in `across`"),
    Wrong("26.1", "one group of leaders, and one of all others",
          "comm.Split(inside.rank, node)", "comm.Split(int(inside.rank == 0), node)",
          "the ranks in `across`"),
    Wrong("26.1", "the number in the node guessed from the rank: right only node by node",
          "comm.Split(inside.rank, node)", "comm.Split(comm.rank % inside.size, node)",
          "Ranks by node [[0, 2], [1, 3]]: on rank 0, the ranks in `across` should be [0, 1], not"),
    Wrong("26.1", "`across` in the order of the ranks, not of the nodes",
          "comm.Split(inside.rank, node)", "comm.Split(inside.rank, comm.rank)",
          "Ranks by node [[3], [2], [1], [0]]: on rank"),
    Wrong("26.1", "nodes of four ranks, always",
          "comm.Split(node, comm.rank)", "comm.Split(comm.rank // 4, comm.rank)", "the ranks in `inside`"),
    Wrong("26.1", "backwards: the last rank of a node leads",
          "comm.Split(node, comm.rank)", "comm.Split(node, -comm.rank)", "the ranks in `inside`"),
    Wrong("26.1", "the two groups swapped", "    across = comm.Split(inside.rank, node)",
          "    across = comm.Split(inside.rank, node)\n    inside, across = across, inside",
          "the ranks in `inside`"),
    Wrong("26.1", "only leaders call Split", "    across = comm.Split(inside.rank, node)",
          "    across = comm.Split(0, node) if inside.rank == 0 else inside", "deadlock"),
    Wrong("26.2", "all ranks talk between nodes: the leaders' broadcast hides it",
          LEADERS, "    ring_allreduce(across, vector)\n", "vectors leave a node"),
    Wrong("26.2", "forgets the broadcast",
          "    tree_broadcast(inside, vector)", "    pass", "the sum is wrong"),
    Wrong("26.2", "forgets the sum in the node", "    tree_reduce(inside, vector)\n", "", "the sum is wrong"),
    Wrong("26.2", "the leader sums among its own node",
          "ring_allreduce(across, vector)", "ring_allreduce(inside, vector)", "the sum is wrong"),
    Wrong("26.2", "leaders by the number in `across`",
          "if inside.rank == 0:", "if across.rank == 0:", "deadlock"),
    Wrong("26.2", "a tree between the leaders: twice the bytes of a ring and more",
          "ring_allreduce(across, vector)",
          "tree_reduce(across, vector)\n        tree_broadcast(across, vector)", "leave a node"),
    Wrong("26.2", "scatters in the node, and sums between leaders what only they have",
          "tree_reduce(inside, vector)", "ring_reduce_scatter(inside, vector)", "the sum is wrong"),
    Wrong("26.3", "whole vectors between the nodes: the gather hides it",
          "ring_allreduce(across, chunk)", "ring_allreduce(across, vector)", "vectors leave a node"),
    Wrong("26.3", "two levels again: right, but one rank of a node sends all",
          ["    chunk = ring_reduce_scatter(inside, vector)\n",
           "    ring_allreduce(across, chunk)\n    ring_allgather(inside, vector)"],
          ["", TWO_LEVEL], "values leave a node from one rank"),
    Wrong("26.2", "an allreduce in every node, then the leaders, then a broadcast",
          "tree_reduce(inside, vector)", "ring_allreduce(inside, vector)", "steps pass, where "),
    Wrong("26.3", "forgets the allgather",
          "    ring_allgather(inside, vector)", "    pass", "the sum is wrong"),
    Wrong("26.3", "forgets the network", "    ring_allreduce(across, chunk)\n", "", "the sum is wrong"),
    Wrong("26.3", "a copy of the chunk is summed, not the chunk",
          SCATTER, "chunk = ring_reduce_scatter(inside, vector).copy()", "the sum is wrong"),
    Wrong("26.3", "only leaders talk between nodes", "    ring_allreduce(across, chunk)\n",
          "    if inside.rank == 0:\n        ring_allreduce(across, chunk)\n", "the sum is wrong"),
    Wrong("26.3", "scatters between the nodes, sums inside: the network carries whole vectors",
          ["ring_reduce_scatter(inside, vector)", "ring_allreduce(across, chunk)",
           "ring_allgather(inside, vector)"],
          ["ring_reduce_scatter(across, vector)", "ring_allreduce(inside, chunk)",
           "ring_allgather(across, vector)"],
          "vectors leave a node"),
    Wrong("26.3", "the chunk of this rank's own number",
          SCATTER, f"{SCATTER}\n    chunk = np.array_split(vector, inside.size)[inside.rank]",
          "the sum is wrong"),
    Wrong("26.3", "the remainder is dropped",
          SCATTER, "vector = vector[: len(vector) // inside.size * inside.size]\n    " + SCATTER,
          "the sum is wrong"),
    Wrong("26.3", "a copy of whole numbers, right for whole values only",
          [SCATTER, "    ring_allgather(inside, vector)"],
          ["total = vector.astype(int)\n    " + SCATTER.replace("vector", "total"),
           "    ring_allgather(inside, total)\n    vector[:] = total"], "real ranks, 100,003 values"),
    Wrong("26.3", "a broadcast of the leader's vector in place of the allgather",
          "ring_allgather(inside, vector)", "tree_broadcast(inside, vector)", "the sum is wrong"),
]

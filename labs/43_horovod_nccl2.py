# %% [markdown]
# <!-- Generated from solutions/43_horovod_nccl2.py by `make labs`. Learners work on a copy in work/. -->
# # 43 Horovod with NCCL
#
# On GPUs, Horovod hands its tensors to NCCL, which finds its own way over NVLink, PCIe and the network. Here
# you read in its log which way it took, and give it the GPUs, the build and the algorithm that it needs.
#
# **You will be able to** (1) tell from a log how ranks are connected, and whether GPUDirect RDMA is on, (2)
# give each rank its GPU, and see a wrong map before NCCL refuses it, (3) say what a set of build switches
# builds, (4, for those who have time) say what leaves a node in a ring, in NCCL's trees and in a torus, and
# which of them suits which vectors.
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 45 · Before: 26, 40

# %%
import re

import horovod.torch as hvd
import pandas as pd
from labkit import builds, check, hint, home, lab, launch, plots, predict, record, world
from labkit.horovod import timeline, train
from support import lab43

lab.start("43_horovod_nccl2")

# %% tags=["parameters"]
machine = "roce25_p100"  # virtual machine of the plots: 4 GPUs a node and one network card of 25 Gb/s
nodes = 16  # of that machine
copy = 12.0  # GB/s between each GPU and its host's memory (PCIe 3.0 x16: 15.75 nominally)
lengths = (1e4, 1e5, 1e6, 1e7, 1e8)  # bytes of the gradients there, the shortest first

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", exercise 43.3 is the one to do. The measurement after it needs
# the answer of 43.2: `make solve LAB=43 EX=43.2` puts it into your notebook.*
#
# ## Two jobs, two libraries
# Horovod does two things, and may do them by two libraries:
#
# - Its **controller** agrees, in short messages between hosts, which tensors are ready on all ranks. That is
#   MPI (MVAPICH2-GDR, say) or Gloo, Horovod's own library for TCP.
# - Its **operations** move the tensors. Those on GPUs go by NCCL, if Horovod was built for it. Those on CPUs
#   go by MPI or Gloo.
#
# NCCL finds its own way from GPU to GPU, and tells about it:
#
# | variable | what it does |
# |---|---|
# | `NCCL_DEBUG=INFO` | NCCL prints how ranks are connected |
# | `NCCL_DEBUG_FILE=/tmp/nccl.%h.%p` | … into a file for each host and process |
#
# A line about a connection reads like this:
#
#     Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IBext_v8/0/GDRDMA
#
# A *channel* is one of several rings or trees that NCCL uses side by side. In channel 00 **rank** 3 sends
# to rank 4. The brackets hold the GPU: its PCI bus up to NCCL 2.18.1, its number from 2.18.3 on. What counts
# stands behind `via`:
#
# | behind `via` | which way |
# |---|---|
# | `P2P/…` | GPU to GPU, by NVLink or PCIe (`nvidia-smi topo -m` says which) |
# | `SHM/…` | two copies through the host's memory; before 2.13 it was `direct shared memory` |
# | `NET/IB…` | an InfiniBand or RoCE card; all bytes are copied to the host's memory first |
# | `NET/IB…/GDRDMA` | GPUDirect RDMA: the card reads the GPU's memory itself |
# | `NET/Socket/…` | TCP; on a cluster with InfiniBand a mistake |
#
# The kit has excerpts of real logs. Here are five, with one line of each kind that is in them:

# %%
logs = {name: lab43.example(name).read_text().splitlines() for name in lab43.examples()}
jobs_shown = {  # what the job was: its log
    "2 hosts of 8 A800, RoCE": "2.10.3_roce_gdrdma",
    "2 hosts of 4 H100, InfiniBand": "2.21.5_ib_gdrdma",
    "8 hosts of 8 GPUs, InfiniBand": "nvls_64_ranks",
    "2 virtual machines of 8 GPUs": "2.18.3_socket_shm",
    "4 A100 of a host": "a100_nvlink_shm",
}
for job, name in jobs_shown.items():
    ways = {}
    for line in logs[name]:
        if " via " in line:
            way = line.split(" via ")[1]
            kind = (way.split("/")[0], "GDRDMA" in way)
            ways[kind] = line[line.index("Channel") :]
    print(job, *ways.values(), "", sep="\n")

# %% [markdown]
# ### Predict
# In how many of these five do network cards read GPUs themselves? In how many do GPUs of one host go through
# its memory?

# %%
predict("43.1", cards_read_gpus=..., host_memory_between=...)


# %% [markdown]
# ### Exercise 43.1 · Read the connections
# A log has thousands of lines. From those about connections make {(source, dest): {kinds}}. There are four
# kinds: "P2P", "SHM", "NET", and "NET+GDRDMA" with GPUDirect RDMA. A pair of ranks may have several.
#
# The beginning of `connections` is there. It finds these lines in logs of any version, and takes three texts
# out of each: for `Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IBext_v8/0/GDRDMA` they are `"3"`, `"4"` and
# `"NET/IBext_v8/0/GDRDMA"`. What is left to do for each such line: find the kind, and add it to the set of
# the pair. The ranks of a pair are numbers. (Older logs say `direct shared memory` for SHM.) About 4 lines.
# *(beginner)*
#
# <details><summary>Hint 1: the kind</summary>
#
# It is `via.split("/")[0]`, but "SHM" for `direct shared memory`; and "+GDRDMA" is added if that is in `via`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `pairs.setdefault((int(source), int(dest)), set()).add(kind)`.
# </details>

# %%
def connections(lines):
    """lines: of a log. Returns {(source, dest): {"P2P", "SHM", "NET" or "NET+GDRDMA"}}, ranks as int."""
    pairs = {}
    for line in lines:
        match = re.search(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\].* via (.+)", line)
        if not match:
            continue  # a line about something else
        source, dest, via = match.groups()
        raise NotImplementedError("exercise 43.1: Read the connections")
    return pairs


# %%
# Asked: Line for line what NCCL means, all pairs of a log, and all ways of a pair.
check("43.1", connections)

# %%
table = {}
for job, name in jobs_shown.items():
    pairs = connections(logs[name]).values()
    table[job] = {kind: any(kind in pair for pair in pairs) for kind in ("P2P", "SHM", "NET", "NET+GDRDMA")}
table = pd.DataFrame(table).T
print(table.replace({True: "yes", False: "-"}))
print("\nThe first line of the log of the A100:", logs["a100_nvlink_shm"][0])
predict.compare("43.1", cards_read_gpus=table["NET+GDRDMA"].sum(), host_memory_between=table["SHM"].sum())

# %% [markdown]
# **Explain.** In the first two jobs cards read the GPUs. Two other jobs have a network, but no GPUDirect
# RDMA. Which, and what would you ask their administrator?
# <details><summary>Answer</summary>
#
# The 8 hosts with InfiniBand: their cards could, so ask whether the driver for it is loaded
# (`nvidia-peermem`). And the virtual machines, which talk over `NET/Socket`: TCP cannot.
# </details>
#
# In two jobs GPUs of one host go through its memory. Why, if the four A100 have NVLink?
# <details><summary>Answer</summary>
#
# NVLink is between 0 and 1, and between 2 and 3 only, as the first line of its log says. A ring over all four
# has to leave these pairs: 1 to 2 and 3 to 0 are `SHM`. In the virtual machines no GPU reached another one.
# </details>
#
# ## One GPU for each rank
# What goes wrong when ranks and GPUs do not fit? Two more logs, summed up by the kit's
# `lab43.read(…).summary()`:

# %%
for name in ("duplicate_gpu", "2.12.12_hidden_gpus"):
    print(name, lab43.read(lab43.example(name)).summary(), "", sep="\n")


# %% [markdown]
# **Slurm and GPUs in one minute.** `srun` starts the ranks of a job on its nodes. `--gpus-per-node=4` asks
# for 4 GPUs on each node. Then a site decides which of them a rank may open. Linux keeps the others from it,
# by a *cgroup*. `--gpu-bind=none` says: all of the node. `--gpus-per-task=1` gives each rank one, and on most
# clusters a cgroup with only that one. The *local rank* counts the ranks of a node: 0, 1, 2, 3.
#
# NCCL refuses **two ranks on one GPU**. That was the first log.
#
# And a rank should **see** the GPUs of all ranks of its node: its cgroup must let it open them. NCCL cannot
# connect to a GPU that it does not see. That was the second log: the job did not work
# ([NCCL issue 1066](https://github.com/NVIDIA/nccl/issues/1066)).
#
# <details><summary>And CUDA_VISIBLE_DEVICES?</summary>
#
# It tells CUDA in one process which GPUs to count, and in which order. It is no cgroup: NCCL reaches the GPUs
# that are left out all the same since CUDA 10.1; before, it went through host memory (its `p2p.cc`).
# </details>
#
# So one starts `srun --gpus-per-node=4 --gpu-bind=none`. Every rank sees four GPUs, and takes its own by its
# local rank.
#
# ### Exercise 43.2 · My GPU, and what is wrong
# Both functions get lists of GPUs that a rank sees, as `[0, 1, 2, 3]`: by their numbers in the node, in the
# order in which the rank counts them. (In a cgroup with one GPU a rank calls it 0, whichever it is. In these
# lists it has its number in the node.)
#
# `my_gpu`: the n-th rank of a node takes the n-th GPU that it sees. Where it sees fewer, it counts round:
# rank 2 of a list `[5]` takes 5, and rank 4 of `[0, 1, 2, 3]` takes 0.
#
# `trouble`: what is wrong with a job? First ask whether two ranks have the same GPU. GPU 0 of node1 is not
# GPU 0 of node2. Then ask for each rank whether it sees the GPUs that the ranks of its **own host** have
# taken. About 1 and 7 lines. *(beginner)*
#
# <details><summary>Hint 1: choosing and comparing</summary>
#
# To count round is `%`, the remainder. Compare (host, GPU) pairs. Peers are the ranks of the same host.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `visible[local_rank % len(visible)]`. `taken = [(host, gpu) for host, gpu, _ in job]`: shorter as a set?
# Then for each rank `{gpu for other, gpu, _ in job if other == host} <= set(visible)`.
# </details>

# %%
def my_gpu(local_rank, visible):
    """visible: the GPUs that a rank sees, by their numbers in the node, in its order. Returns its own."""
    raise NotImplementedError("exercise 43.2: My GPU, and what is wrong")


def trouble(job):
    """job: by rank (host, GPU, GPUs visible). Returns None, "two ranks on one GPU" or "peers hidden"."""
    raise NotImplementedError("exercise 43.2: My GPU, and what is wrong")


# %%
two_nodes = ["node1"] * 4 + ["node2"] * 4
four = [0, 1, 2, 3]
jobs = {  # job: (hosts by rank, GPUs visible by local rank, GPUs by rank, trouble)
    "--gpus-per-node=4 --gpu-bind=none": (two_nodes, [four] * 4, four * 2, None),
    "ranks dealt out in turn": (["node1", "node2"] * 4, [four] * 4, [0, 0, 1, 1, 2, 2, 3, 3], None),
    "CUDA_VISIBLE_DEVICES=3,2,1,0": (two_nodes, [[3, 2, 1, 0]] * 4, [3, 2, 1, 0] * 2, None),
    "--gpus-per-task=1": (two_nodes, [[0], [1], [2], [3]], four * 2, "peers hidden"),
    "cgroups with 0,1 or 2,3": (two_nodes, [[0, 1], [0, 1], [2, 3], [2, 3]], four * 2, "peers hidden"),
    "five ranks, four GPUs": (["node1"] * 5, [four] * 5, [*four, 0], "two ranks on one GPU"),
}
few_ranks = [  # (by rank: host, GPU, GPUs visible), trouble
    ([("node1", 0, [0]), ("node2", 0, [0])], None),
    ([("node1", 0, [0]), ("node2", 1, [1])], None),
    ([("node1", 0, [0, 1]), ("node1", 1, [1, 0])], None),
    ([("node1", 0, [0, 2]), ("node1", 1, [1, 2])], "peers hidden"),
    ([("node1", 0, [0, 1, 2]), ("node1", 1, [0, 1, 3])], None),
    ([("node1", 0, [0]), ("node1", 0, [0]), ("node1", 1, [1])], "two ranks on one GPU"),
]

# %%
# Asked: In each of these jobs the GPU of every rank, and what is wrong with the job.
check("43.2", my_gpu, trouble)

# %% [markdown]
# ## Who moves GPU tensors?
# That is settled when Horovod is **built**, by variables of the environment:
#
# | variable | for which operations it says who moves GPU tensors |
# |---|---|
# | `HOROVOD_GPU_OPERATIONS` | all five operations |
# | `HOROVOD_GPU_ALLREDUCE` | allreduce alone |
# | `HOROVOD_GPU_ALLGATHER`, `…_BROADCAST`, `…_ALLTOALL`, `…_REDUCESCATTER` | that one alone |
#
# Each is `NCCL` or `MPI`. An operation that nobody names goes through the host's memory, and nothing says so.
# Horovod's build (its CMake files) refuses two things:
#
# - The variable for all **together with** any of those for one.
# - **Allreduce by NCCL with any other operation by MPI**: two libraries that wait for each other on one GPU
#   may wait for ever. Only `HOROVOD_ALLOW_MIXED_GPU_IMPL`, if it is exactly `1`, allows it. The other way
#   round, allreduce by MPI and another one by NCCL, is not refused.
#
# Four examples, without `HOROVOD_` before each name:
#
# | set | ALLREDUCE | ALLGATHER | BROADCAST | ALLTOALL | REDUCESCATTER |
# |---|---|---|---|---|---|
# | `GPU_OPERATIONS=NCCL` | NCCL | NCCL | NCCL | NCCL | NCCL |
# | `GPU_ALLREDUCE=NCCL` | NCCL | None | None | None | None |
# | `GPU_OPERATIONS=NCCL GPU_ALLREDUCE=NCCL` | refused: both | | | | |
# | `GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI` | refused: mixed | | | | |
#
# ### Exercise 43.3 · What will be built?
# *(The one to do in the track "PPoPP hands-on, 90 minutes".)*
#
# Write `build`. It returns a row of the table as a dict, raises `ValueError("both")` for the first thing that
# is refused, and `ValueError("mixed")` for the second. About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: one table</summary>
#
# `single = {name: switches.get(f"HOROVOD_GPU_{name}") for name in OPERATIONS}`. With these ask for "both".
# Then the row is `together or single[name]` for each name, and "mixed" is asked of the row.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if together and any(single.values()): raise ValueError("both")`. Mixed: `chosen["ALLREDUCE"] == "NCCL" and
# "MPI" in chosen.values()`; unless the switch that allows it is `"1"`, `raise ValueError("mixed")`.
# </details>

# %%
OPERATIONS = ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER")


def build(switches):
    """switches: {"HOROVOD_GPU_OPERATIONS": "NCCL", …}. Returns {each operation: "NCCL", "MPI" or None}."""
    together = switches.get("HOROVOD_GPU_OPERATIONS")
    raise NotImplementedError("exercise 43.3: What will be built?")


# %%
# Switches, without HOROVOD_: who moves each of OPERATIONS (N NCCL, M MPI, - None), or the error.
cases = {
    "": "-----",
    "GPU_OPERATIONS=NCCL": "NNNNN",
    "GPU_OPERATIONS=MPI": "MMMMM",
    "GPU_OPERATIONS=NCCL ALLOW_MIXED_GPU_IMPL=1": "NNNNN",
    "GPU_ALLREDUCE=NCCL": "N----",
    "GPU_ALLREDUCE=MPI GPU_BROADCAST=NCCL": "M-N--",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI ALLOW_MIXED_GPU_IMPL=1": "N-M--",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI ALLOW_MIXED_GPU_IMPL=0": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI ALLOW_MIXED_GPU_IMPL=yes": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI GPU_ALLGATHER=NCCL": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_ALLGATHER=MPI": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_ALLTOALL=MPI": "mixed",
    "GPU_ALLREDUCE=NCCL GPU_REDUCESCATTER=MPI": "mixed",
    "GPU_OPERATIONS=NCCL GPU_ALLREDUCE=NCCL": "both",
    "GPU_OPERATIONS=NCCL GPU_ALLTOALL=MPI": "both",
}

# %%
# Asked: What Horovod's CMake makes of these switches.
check("43.3", build)

# %% [markdown]
# ### Measure
# What is this Horovod built for, and which library carried some training steps?
#
# A GPU machine may have several builds of Horovod: `host` (no operations for GPUs), `nccl` and `mpi`. Each
# trains here for some steps, on this machine's device. Horovod writes down every activity, its **timeline**
# (lab 42), and the names in it tell the library: `MPI_ALLREDUCE`, say. About 10 s for each build.
#
# Before that, `lab43.report` lets NCCL sum vectors, with your `my_gpu`, and sums up its log; or it says why
# NCCL cannot run here.

# %%
for library in ("mpi", "gloo", "nccl"):  # as `horovodrun --check-build` does
    built = getattr(hvd, f"{library}_built")()
    print(f"{library}: {'built in' if built else 'not built in'}")
print(lab43.report(my_gpu, lengths))
env = {"HOROVOD_TIMELINE": str(home() / "timeline_43.json")}
for flavour in [builds.current_horovod()] if world.launcher() else builds.horovod_builds():
    ranks = launch.ranks_here(lab43.most_ranks(flavour, 2))
    training = launch.run(train, 4, 64, 4, ranks=ranks, env=env, horovod=flavour)[0]
    if world.is_root():
        calls = timeline.backends(training.events)
        print(f"build {flavour}, {ranks} rank(s). {training.where.describe()} Calls: {calls}")
        carried = {"build": flavour, "ranks_used": ranks, "calls": calls}
        record.add("carried", **carried, **training.where.fields())

# %% [markdown]
# **Explain.** Without GPUs you should see `MPI_ALLREDUCE`: tensors in host memory do not go by NCCL.
#
# With GPUs you want to read `NCCL_ALLREDUCE`. The build `host` copies the tensors to the host's memory first,
# and the names of its timeline do not show that.
#
# ## Three allreduces (for those who have time)
# This section, with 43.4, is not in the minutes above.
#
# How does NCCL sum a vector over m nodes of g GPUs each? And what else can Horovod let it do?
#
# - **ring**: one ring of all GPUs, in the order of the nodes.
# - **tree**: two trees, each for half of the vector (see below). Between ring and tree NCCL chooses, by size.
# - **torus**: reduce-scatter in the node, each share summed by a ring across nodes, allgather in the node.
#   Horovod takes it with `HOROVOD_TORUS_ALLREDUCE=1`, and NCCL does the parts.
#
# In the **tree** a node's GPUs are a chain. The first GPUs of all nodes are a tree: sums go up the chain and
# the tree, and the result comes down again. For 8 nodes the first tree is drawn here, with 0 as its root:
#
#              0
#              |
#              4
#            /   \
#           2     6
#          / \   / \
#         1   3 5   7
#
# In a single tree nodes 2, 4 and 6 would have most to do. So NCCL builds a second one, in which they are
# leaves. `lab43.trees(m)` returns both as NCCL builds them (`src/graph/trees.cc`), each {node: (parent,
# children)}:

# %%
for tree in lab43.trees(8):
    for node, (parent, children) in tree.items():
        print(f"{node}: parent {parent}, children {children}", end="    " if node % 2 == 0 else "\n")
    print()


# %% [markdown]
# Node 4 has two children in the first tree, and none in the second. Is it so with every node that has two?
# <details><summary>Answer</summary>
#
# Yes: 2, 4 and 6 have two in the first, and 1, 3 and 5 in the second. Who has two in one tree is a leaf of
# the other. So all have about as much to send.
# </details>
#
# What does a way cost? Three numbers, for messages that are sent whole:
#
# - **vectors** that leave the busiest node, over its network card: they decide for long vectors;
# - **messages** that leave it;
# - **latencies**: how many messages come one after the other, each waiting for the one before, inside the
#   nodes, too. They decide for short vectors.
#
# With p = mg ranks:
#
# | way | vectors | messages | latencies |
# |---|---|---|---|
# | ring (lab 23) | 2(p - 1)/p | 2(p - 1) | 2(p - 1) |
# | torus | 2(m - 1)/m | 2(m - 1)g | 2(g - 1) + 2(m - 1) |
# | tree | ? | ? | ? |
#
# ### Exercise 43.4 · What leaves a node in NCCL's trees?
# Fill in the last row. In **each** of both trees a node sends one message to its parent, if it has one (the
# sum, up), and one to each of its children (the result, down). Each message is half a vector.
#
# For the latencies a sum goes up the chain of g GPUs, which are g - 1 messages, and up the tree, which is
# ⌈log₂ m⌉ levels high: `(m - 1).bit_length()`. The result goes down the same way. About 6 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: count by node</summary>
#
# `sent = [0] * m`, and then go through both trees: `for tree in lab43.trees(m):` and in it `for node,
# (parent, children) in tree.items():`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Add `len(children) + (parent is not None)` to `sent[node]`. The busiest node sends `max(sent)` messages, and
# half as many vectors. Latencies: `2 * (g - 1) + 2 * (m - 1).bit_length()`.
# </details>

# %%
def leaves_node(m, g):
    """m nodes of g GPUs, NCCL's trees. Returns (vectors, messages, latencies)."""
    raise NotImplementedError("exercise 43.4: What leaves a node in NCCL's trees?")


# %%
# Asked: What was counted on the virtual cluster, on one node to sixteen.
check("43.4", leaves_node)

# %% [markdown]
# Now counted on the virtual cluster: the vectors that leave the busiest node. There is a control: a
# *binomial* tree. It is single, its root has log₂ m children, and it sends whole vectors. About 15 s.

# %%
sizes = (2, 3, 4, 8, 16, 64)
counted = {}
for way in ("ring", "torus", "tree", "binomial"):
    counted[way] = {m: lab43.leaving(way, m, 4)[0] for m in sizes}
print(pd.DataFrame(counted).rename_axis("nodes").round(2))

# %% [markdown]
# **Explain.** However many nodes there are, with two trees none sends more than two vectors: hardly more than
# in a ring. The root of the binomial tree sends to six children at 64 nodes. That is why NCCL's tree (since
# 2.4) need not be slow for long vectors, either.
#
# Which way for short vectors? Count latencies for 16 nodes of 4 GPUs.
# <details><summary>Answer</summary>
#
# 126 in the ring, 2 · 3 + 2 · 15 = 36 in the torus, 2 · 3 + 2 · 4 = 14 in the tree: the tree.
# </details>
#
# ### What you take away
# - `NCCL_DEBUG=INFO` before believing a number: P2P in the node, GDRDMA between nodes.
# - One GPU a rank, by local rank, and all GPUs of the node visible (`--gpu-bind=none`).
# - `HOROVOD_GPU_OPERATIONS=NCCL`, never mixed. MPI or Gloo still agrees on what is ready.
# - Two trees with half a vector each: few latencies, and no node sends more than two vectors (43.4, for those
#   who have time).
# - Two nodes on this machine: `make tabletop`, then `make submit LAB=43 NODES=2`; a cluster: with `SITE=…`.
#
# ## For those who have time: how fast are they?
# One more way: Horovod's **hierarchical** allreduce, with `HOROVOD_HIERARCHICAL_ALLREDUCE=1`. It is as the
# torus, but MPI sums the shares on the hosts. So every share goes down over PCIe and up again, at `copy`
# GB/s.
#
# ### Predict
# Take 16 nodes of 4 P100 behind one network card, servers as in Horovod's published benchmarks
# (`docs/benchmarks.rst`, which had 128 of them). Between nodes it is 2.9 GB/s, inside a node 11 GB/s, and
# about 5 µs for each message.
#
# How many times as fast as the ring are tree and torus for 10 kB? Count latencies: the ring has 126.
#
# And for 100 MB? The ring sends 1.97 vectors over the card: 68 ms. So does the tree, nearly. The torus sends
# 1.875, in 64.7 ms. But before that each GPU moves 0.75 vectors inside its node, and after it 0.75 again:
# 6.8 ms each, in which nobody uses the card. How many times as fast as the ring is it?

# %%
predict("43.4", tree_short=..., torus_short=..., tree_long=..., torus_long=...)

# %%
# About a minute: every point is a run of 64 virtual ranks. Need not be read.
gain = lab43.gains(nodes, machine, lengths, copy * 1e9)
curves = {}
for way, row in gain.items():
    curves[way] = {nbytes / 1e3: times for nbytes, times in row.items()}
title = "Trees for short vectors, rings for long ones, the torus in between"
plots.lines(
    curves, xlabel="length of the vector (kB)", ylabel="times the ring's speed", title=title, logx=True
)
measured = {}
for way in ("tree", "torus"):
    measured[f"{way}_short"] = gain[way][lengths[0]]
    measured[f"{way}_long"] = gain[way][lengths[-1]]
predict.compare("43.4", **measured)
record.add("gains", machine=machine, nodes=nodes, gains=gain)

# %% [markdown]
# **Explain.** For **short** vectors latencies decide: 126 in the ring, 36 in the torus, 14 in the tree. The
# tree gains less than 126/14. Likely causes, not taken apart here: its messages are half vectors, the ring's
# are a 64th, and those of one node wait for one another.
#
# (The binomial tree is even ahead for 10 kB: there bytes hardly count.)
#
# For **long** vectors bytes decide, and all but the binomial tree are near the ring. The tree probably
# loses the time until its slices fill it. The torus loses what it does inside the nodes before and after.
# *Hierarchical* is the torus and its copies over PCIe: what these cost lies between the two lines.
#
# In **between**, from 100 kB to 1 MB, the torus is ahead: few latencies, and shares in place of whole
# vectors.
#
# All this is of one machine with one card a node, computed by the kit's model. NCCL has a model of its own
# (`src/graph/tuning.cc`), which gives a tree 0.92 of the bandwidth, halved, and the ring p/(2p - 2) of it.
# What does it say of long vectors on 64 ranks? <details><summary>Answer</summary>
#
# 0.46 against 64/126 = 0.508: the tree is 0.91 times as fast as the ring. The plot agrees within some
# hundredths.
# </details>
#
# ## What NCCL chose
# Since 2.20 NCCL tells its choice (with `NCCL_DEBUG_SUBSYS=TUNING`). Here are lines of three hosts of 8 H100.
# LL, LL128 and Simple are *protocols*: the first two send a flag with every few bytes, which saves latency
# and costs bandwidth. In `NVLSTree` the NVLink switch adds within the node. The times are NCCL's own
# estimates, in µs.

# %%
choices = lab43.read(lab43.example("tuning_h100_allreduce")).choices
for call in dict.fromkeys(choices):  # each once
    print(f"{call.bytes:7d} bytes: {call.algorithm:9}{call.protocol:7}{call.seconds * 1e6:5.1f} µs")

# %% [markdown]
# **Explain.** Trees for short vectors, as in our plot; where the switch can add, its tree from 512 KiB on.
# (The log ends before a ring might have been chosen.)

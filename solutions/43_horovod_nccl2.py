# %% [markdown]
# # 43 Horovod with NCCL
#
# On GPUs, Horovod hands its tensors to NCCL, which finds its own way over NVLink, PCIe and the network. Here
# you read in its log which way it took, and give it the GPUs, the build and the algorithm that it needs.
#
# **You will be able to** (1) tell from a log how ranks are connected, and whether GPUDirect RDMA is on,
# (2) give each rank its GPU, and see a wrong map before NCCL refuses it, (3) say what a set of build switches
# builds, (4) say when hierarchical or torus allreduce pays.
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 60 · Before: 26, 40

# %%
import re

import horovod.torch as hvd
import pandas as pd
from labkit import builds, check, expect, hint, home, lab, launch, plots, predict, record, virtual, world
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
# ### Two jobs, two libraries
# Horovod's **controller** agrees in short messages between hosts which tensors are ready on all ranks: MPI
# (MVAPICH2-GDR, say) or Gloo. Its **operations** move the tensors: those on GPUs by NCCL, if it was built for
# it; those on CPUs by MPI or Gloo. NCCL tells about itself with `NCCL_DEBUG=INFO` (and, with
# `NCCL_DEBUG_SUBSYS=INIT,NET,TUNING`, which cards reach GPUs, and the algorithm of each call), to a file with
# `NCCL_DEBUG_FILE=/tmp/nccl.%h.%p`. The kit has excerpts of real logs; three versions of NCCL on connections:

# %%
logs = {name: lab43.example(name).read_text().splitlines() for name in lab43.examples()}
for name in ("2.10.3_roce_gdrdma", "2.18.3_socket_shm", "2.21.5_ib_gdrdma"):
    connected = [line for line in logs[name] if " via " in line]
    print(name, *connected[:5], sep="\n")

# %% [markdown]
# `Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IBext_v8/0/GDRDMA`: in ring or tree 00 **rank** 3 sends to
# rank 4. Brackets hold the GPU: its PCI bus up to NCCL 2.18.1, its number from 2.18.3 on. Behind `via`:
#
# - `P2P/…`: GPU to GPU, by NVLink or PCIe (`nvidia-smi topo -m` says which)
# - `SHM/…`, before 2.13 `direct shared memory`: two copies through the host's memory
# - `NET/IB/0`: network card 0. With `GDRDMA` it reads the GPU's memory itself; without, all bytes are copied
#   to the host first. `NET/Socket`: TCP, on a cluster with InfiniBand a mistake
#
# ### Predict
# We plot these three, `nvls_64_ranks` (8 hosts of 8 GPUs, InfiniBand) and `a100_nvlink_shm` (4 A100 of a
# host, NVLink between 0 and 1 and between 2 and 3 only). In how many do cards read GPUs, in how many do GPUs
# of a host go through its memory?

# %%
predict("43.1", cards_read_gpus=3, host_memory_between=1)


# %% [markdown]
# ### Exercise 43.1 · Read the connections
# From the lines of any version make {(source, dest): {kinds}}, and ignore all other lines. 6 to 9 lines.
#
# <details><summary>Hint 1: one pattern for all versions</summary>
#
# The second number of the channel may be missing: `(?:/\d+)?`. A bus is hexadecimal: `\[\w+\]`, not
# `\[\d+\]`. Before `via` may stand `[send]` or `[receive]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `match = re.search(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\].* via (.+)", line)`; unless that is
# None, `source, dest, via = match.groups()`. The kind is `via.split("/")[0]`, but "SHM" for `direct shared
# memory` and "NET+GDRDMA" with GDRDMA. `pairs.setdefault((int(source), int(dest)), set()).add(kind)`.
# </details>


# %%
def connections(lines):
    """lines: of a log. Returns {(source, dest): {"P2P", "SHM", "NET" or "NET+GDRDMA"}}, ranks as int."""
    pairs = {}
    ### BEGIN SOLUTION
    for line in lines:
        match = re.search(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\].* via (.+)", line)
        if match:
            source, dest, via = match.groups()
            kind = "SHM" if via == "direct shared memory" else via.split("/")[0]
            if "GDRDMA" in via:
                kind += "+GDRDMA"
            pairs.setdefault((int(source), int(dest)), set()).add(kind)
    ### END SOLUTION
    return pairs


# %%
# What is asked: line for line what NCCL means, all pairs of a log, and all ways of a pair.
with check("43.1"):
    for name, lines in logs.items():
        for line in lines:
            if "NCCL INFO" in line:
                want = lab43.parse(line).transports(short=True)
                got = connections([line])
                expect(got == want, f"In the log {name} “{line[-95:]}” means {want}; you read {got}.")
        want = lab43.read(lab43.example(name)).transports(short=True)
        expect.equal(connections(lines), want, f"all connections in the log {name}")
    pair = ["Channel 00 : 6[6] -> 7[7] via P2P/IPC", "Channel 01 : 6[6] -> 7[7] via SHM/direct"]
    expect.equal(connections(pair), {(6, 7): {"P2P", "SHM"}}, "A pair with a line of each, P2P and SHM")

# %%
shown = ("2.10.3_roce_gdrdma", "2.21.5_ib_gdrdma", "nvls_64_ranks", "2.18.3_socket_shm", "a100_nvlink_shm")
counts = {}  # log -> {kind: pairs of ranks}
for name in shown:
    pairs = connections(logs[name]).values()
    kinds = ("P2P", "SHM", "NET", "NET+GDRDMA")
    counts[name.replace("_", "\n")] = {kind: sum(kind in pair for pair in pairs) for kind in kinds}
plots.bars(counts, ylabel="pairs of ranks", title="How ranks are connected, in five excerpts")
gdrdma = sum(row["NET+GDRDMA"] > 0 for row in counts.values())
shm = sum(row["SHM"] > 0 for row in counts.values())
predict.compare("43.1", cards_read_gpus=gdrdma, host_memory_between=shm)

# %% [markdown]
# **Explain.** In which two logs is there a network, but GPUDirect RDMA is off? (`nvls` and `2.18.3`: `NET`
# alone.) In which two do GPUs of a host not reach each other? (`2.18.3` and `a100`: `SHM`. The first had no
# way between them; the ring of the second has to leave the pairs that NVLink joins.)
#
# What goes wrong when ranks and GPUs do not fit? Two more logs, read by `summary()` of `lab43.read`:

# %%
for name in ("duplicate_gpu", "2.12.12_hidden_gpus"):
    print(name, lab43.read(lab43.example(name)).summary(), "", sep="\n")

# %% [markdown]
# ### Exercise 43.2 · One GPU for each rank
# NCCL refuses **two ranks on one GPU**: the first log.
#
# And a rank should **see** all GPUs of its node. Slurm's `--gpus-per-task=1` shows each rank one. On most
# clusters Linux then keeps the other GPUs from it, by a *cgroup*, and NCCL no longer finds the NVLinks to
# them: the second log. Such a job goes on, through host memory
# ([NCCL issue 1066](https://github.com/NVIDIA/nccl/issues/1066)). `CUDA_VISIBLE_DEVICES` of one GPU hides the
# others from CUDA alone. NCCL reaches them all the same since CUDA 10.1, and went through host memory before
# (`p2p.cc`).
#
# So one starts `srun --gpus-per-node=4 --gpu-bind=none`: every rank sees four GPUs, and takes its own by its
# local rank. 1 + 6 lines.
#
# <details><summary>Hint 1: choosing and comparing</summary>
#
# The n-th rank of a node takes the n-th GPU that it sees; where it sees fewer, count round, `%`. GPU 0 of
# node1 is not GPU 0 of node2: (host, GPU) pairs must differ. Peers are the ranks of the same host.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `visible[local_rank % len(visible)]`. `taken = [(host, gpu) for host, gpu, _ in job]`: shorter as a set?
# Then for each rank `{gpu for other, gpu, _ in job if other == host} <= set(visible)`.
# </details>


# %%
def my_gpu(local_rank, visible):
    """visible: the GPUs that a rank sees, by their numbers in the node, as [0, 1, 2, 3]. Returns its own."""
    ### BEGIN SOLUTION
    # Across ranks: every rank of a node takes a different one of its GPUs.
    return visible[local_rank % len(visible)]
    ### END SOLUTION


def trouble(job):
    """job: by rank (host, GPU, GPUs visible). Returns None, "two ranks on one GPU" or "peers hidden"."""
    ### BEGIN SOLUTION
    taken = [(host, gpu) for host, gpu, _ in job]
    if len(set(taken)) < len(taken):
        return "two ranks on one GPU"
    for host, _, visible in job:
        if not {gpu for other, gpu, _ in job if other == host} <= set(visible):
            return "peers hidden"
    return None
    ### END SOLUTION


# %%
two_nodes = ["node1"] * 4 + ["node2"] * 4
four = [0, 1, 2, 3]
jobs = {  # job: (hosts by rank, GPUs visible by local rank, GPUs by rank, trouble)
    "--gpus-per-node=4 --gpu-bind=none": (two_nodes, [four] * 4, four * 2, None),
    "ranks dealt out in turn": (["node1", "node2"] * 4, [four] * 4, [0, 0, 1, 1, 2, 2, 3, 3], None),
    "CUDA_VISIBLE_DEVICES=3,2,1,0": (two_nodes, [[3, 2, 1, 0]] * 4, [3, 2, 1, 0] * 2, None),
    "--gpus-per-task=1": (two_nodes, [[0], [1], [2], [3]], four * 2, "peers hidden"),
    "see 0,1 or 2,3": (two_nodes, [[0, 1], [0, 1], [2, 3], [2, 3]], four * 2, "peers hidden"),
    "five ranks, four GPUs": (["node1"] * 5, [four] * 5, [*four, 0], "two ranks on one GPU"),
}

# %%
# What is asked: in each of these jobs the GPU of every rank, and what is wrong with the job.
with check("43.2"):
    for name, (hosts, visible, gpus, wrong) in jobs.items():
        job = []
        for rank, (host, gpu) in enumerate(zip(hosts, gpus, strict=True)):
            local = hosts[:rank].count(host)
            subject = f"{name}: GPU of {host}'s local rank {local}"
            expect.equal(my_gpu(local, list(visible[local])), gpu, subject)
            job.append((host, gpu, visible[local]))
        answer = trouble(job)
        expect(answer == wrong, f"{name}: trouble says {answer!r}, not {wrong!r}, of {job}.")
    all_use_gpu_0 = [(host, 0, four) for host in two_nodes]
    expect.equal(trouble(all_use_gpu_0), "two ranks on one GPU", "All use GPU 0: trouble")
    expect.equal(trouble([("node1", 0, [0]), ("node2", 1, [1])]), None, "One rank on each node: trouble")

# %% [markdown]
# ### Exercise 43.3 · What will be built?
# Variables of the environment, set while pip builds Horovod, say who moves tensors of GPUs. 7 lines:
#
# 1. `HOROVOD_GPU_OPERATIONS`, `NCCL` or `MPI`, is for all five operations, `HOROVOD_GPU_ALLREDUCE`,
#    `…_ALLGATHER` and so on for one each. The one for all beside any for one: raise `ValueError("both")`.
# 2. What nobody names goes through the host's memory, without an error.
# 3. Allreduce by NCCL with another operation by MPI may deadlock: raise `ValueError("mixed")`, unless
#    `HOROVOD_ALLOW_MIXED_GPU_IMPL` is exactly `1`. The other way round is not refused.
#
# <details><summary>Hint 1: one table</summary>
#
# `single = {name: switches.get(f"HOROVOD_GPU_{name}") for name in OPERATIONS}`, then rule 1, then a table of
# `together or single[name]`, and rule 3 on that.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if together and any(single.values()): raise ValueError("both")`. Mixed: `chosen["ALLREDUCE"] == "NCCL" and
# "MPI" in chosen.values()`; unless the switch of rule 3 is `"1"`, `raise ValueError("mixed")`.
# </details>

# %%
OPERATIONS = ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER")


def build(switches):
    """switches: {"HOROVOD_GPU_OPERATIONS": "NCCL", …}. Returns {each operation: "NCCL", "MPI" or None}."""
    together = switches.get("HOROVOD_GPU_OPERATIONS")
    ### BEGIN SOLUTION
    single = {name: switches.get(f"HOROVOD_GPU_{name}") for name in OPERATIONS}
    if together and any(single.values()):
        raise ValueError("both")
    chosen = {name: together or single[name] for name in OPERATIONS}
    mixed = chosen["ALLREDUCE"] == "NCCL" and "MPI" in chosen.values()
    if mixed and switches.get("HOROVOD_ALLOW_MIXED_GPU_IMPL") != "1":
        raise ValueError("mixed")
    return chosen
    ### END SOLUTION


# %%
cases = {  # switches, without HOROVOD_: who moves each of OPERATIONS (N NCCL, M MPI, - None), or the error
    "": "-----",
    "GPU_OPERATIONS=NCCL": "NNNNN",
    "GPU_OPERATIONS=MPI": "MMMMM",
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
# What is asked: what Horovod's CMake makes of these switches.
with check("43.3"):
    libraries = {"N": "NCCL", "M": "MPI", "-": None}
    for text, says in cases.items():
        want = says
        if not says.islower():
            want = {name: libraries[letter] for name, letter in zip(OPERATIONS, says, strict=True)}
        try:
            got = build(dict(f"HOROVOD_{switch}".split("=") for switch in text.split()))
        except ValueError as error:
            got = str(error)
        expect(got == want, f"Switches “{text}”: CMake says {says} (N NCCL, M MPI, - None), you {got}.")

# %% [markdown]
# ### Measure: what is this Horovod built for, and which library carried some training steps?
# A GPU machine may have several builds of Horovod: `host` (no operations for GPUs), `nccl`, `mpi`. Each
# trains here, on this machine's device. Which operation do you expect in its timeline?

# %%
print({by: bool(getattr(hvd, f"{by}_built")()) for by in ("mpi", "gloo", "nccl")})  # horovodrun --check-build
print(lab43.report(my_gpu, lengths))
env = {"HOROVOD_TIMELINE": str(home() / "timeline_43.json")}
for build in [builds.current_horovod()] if world.launcher() else builds.horovod_builds():
    ranks = launch.ranks_here(lab43.most_ranks(build, 2))
    training = launch.run(train, 4, 64, 4, ranks=ranks, env=env, horovod=build)[0]
    if world.is_root():
        calls = timeline.backends(training.events)
        print(f"build {build}, {ranks} rank(s). {training.where.describe()} Calls: {calls}")
        carried = {"build": build, "ranks_used": ranks, "calls": calls}
        record.add("carried", **carried, **training.where.fields())

# %% [markdown]
# Tensors in host memory never go by NCCL, whatever the build: the controller's library, MPI or Gloo, carries
# them. With tensors on GPUs you want to read `NCCL_ALLREDUCE`. The build `host` copies them to the host's
# memory first, and its timeline does not show that.
#
# ### Four allreduces
# Four ways to sum a vector over m nodes of g GPUs each:
#
# - **ring**: NCCL's, flat, in the order of the nodes.
# - **tree**: NCCL's. A node's GPUs are a chain. The first ones of all nodes are a binary tree: sums go up the
#   chain and the tree, and the result comes down. There are *two* such trees, each for half of the vector.
# - **torus**, `HOROVOD_TORUS_ALLREDUCE=1`: reduce-scatter in the node, each share summed by a ring across
#   nodes, allgather; all by NCCL.
# - **hierarchical**, `HOROVOD_HIERARCHICAL_ALLREDUCE=1`: the same, but the middle is MPI on the hosts: every
#   GPU's share goes down over PCIe and up again.
#
# `lab43.trees(m)` returns both trees as NCCL builds them (`src/graph/trees.cc`), each {node: (parent,
# children)}. The root's parent is None.

# %%
for tree in lab43.trees(8):
    print({node: (parent, children) for node, (parent, children) in tree.items()})

# %% [markdown]
# Node 4 has two children in the first tree, and none in the second. Is it so with every node that has two?
#
# ### Exercise 43.4 · What leaves a node?
# Each message is now sent whole (NCCL cuts it in slices). How many vectors and how many messages leave the
# busiest node, in both directions of the trees together? And how many *latencies* pass, inside the nodes too:
# messages of which each waits for the one before? 9 lines.
#
# <details><summary>Hint 1: ring and torus</summary>
#
# Each of p = mg ranks sends 2(p - 1) chunks of 1/p, one after the other; one rank of a node sends its to the
# next node. With one node nothing leaves, but the latencies remain. The torus has g rings of m ranks, each
# with 1/g of the vector, between the two halves of a ring of g.
# </details>
# <details><summary>Hint 2: tree</summary>
#
# In each of both trees a node sends a message to its parent, if it has one, and one to each child: half a
# vector each. Latencies: up the chain g - 1, up the tree ⌈log₂ m⌉, which is `(m - 1).bit_length()`, and down.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# ring: 2(p - 1)/p vectors, 2(p - 1) messages and latencies. torus: 2(m - 1)/m vectors, 2(m - 1)g messages,
# 2(g - 1) + 2(m - 1) latencies.
#
# tree: `sent = [0] * m`. In `for tree in lab43.trees(m):` and `for node, (parent, children) in tree.items():`
# add `len(children) + (parent is not None)` to `sent[node]`. `max(sent)` messages are half as many vectors.
# </details>


# %%
def leaves_node(way, m, g):
    """way: "ring", "tree" or "torus". Returns (vectors, messages, latencies)."""
    ### BEGIN SOLUTION
    p = m * g
    if way == "ring":
        return (2 * (p - 1) / p, 2 * (p - 1), 2 * (p - 1)) if m > 1 else (0, 0, 2 * (p - 1))
    if way == "torus":
        return 2 * (m - 1) / m, 2 * (m - 1) * g, 2 * (g - 1) + 2 * (m - 1)
    sent = [0] * m
    for tree in lab43.trees(m):
        for node, (parent, children) in tree.items():
            sent[node] += len(children) + (parent is not None)
    return max(sent) / 2, max(sent), 2 * (g - 1) + 2 * (m - 1).bit_length()
    ### END SOLUTION


# %%
# What is asked: what was counted on the virtual cluster.
with check("43.4"):
    for way in ("ring", "tree", "torus"):
        for m, g in [(1, 4), (2, 1), (2, 3), (3, 2), (4, 4), (5, 1), (8, 2), (16, 1)]:
            counted = lab43.leaving(way, m, g)
            got = leaves_node(way, m, g)
            subject = f"{way}, {m} node(s) of {g}: you say (vectors, messages, latencies) = {got}"
            expect.close(got, counted, subject)

# %% [markdown]
# However many nodes there are, none sends more than two vectors. For contrast we also run the tree of lab 21,
# a *binomial* one, with whole vectors: its root has log₂ m children. Vectors from the busiest node, by nodes:

# %%
sizes = (2, 3, 4, 8, 16, 64)
ways = ("ring", "tree", "binomial")
print(pd.DataFrame({way: {m: lab43.leaving(way, m, 4)[0] for m in sizes} for way in ways}).round(2))

# %% [markdown]
# ### Predict
# 16 nodes of 4 P100 behind one card of 25 Gb/s: servers as in Horovod's published benchmarks, which had 128
# of them (`docs/benchmarks.rst`). How many times as fast as the flat ring are tree and torus for 10 kB, and
# tree, torus and hierarchical for 100 MB?

# %%
predict("43.4", tree_short=9.0, torus_short=3.5, tree_long=1.0, torus_long=1.05, hierarchical_long=0.9)

# %%
gain = lab43.gains(nodes, machine, lengths, copy * 1e9)
curves = {way: {n / 1e3: value for n, value in row.items()} for way, row in gain.items()}
plots.lines(curves, xlabel="kB", ylabel="times a ring's speed", title=f"{nodes} nodes, {machine}", logx=True)
short = {f"{way}_short": gain[way][lengths[0]] for way in ("tree", "torus")}
long = {f"{way}_long": gain[way][lengths[-1]] for way in ("tree", "torus", "hierarchical")}
predict.compare("43.4", **short, **long)
record.add("gains", machine=machine, nodes=nodes, gains=gain)
# NCCL's src/graph/tuning.cc, 2.8 to 2.30: a tree gets 0.92 of the bandwidth, × 1/2; a ring all, × p/(2p - 2).
p = nodes * virtual.machine(machine).ranks_per_node
print(f"For long vectors NCCL itself reckons with a tree {0.92 * (p - 1) / p:.2f} times as fast as its ring.")

# %% [markdown]
# **Explain.** Short tensors: latencies count, 126 in the ring, 36 in the torus, 14 in the tree. Long ones:
# vectors on the card, close to two in each way. NCCL's tree is then nearly as fast as its ring: it loses the
# time until its slices fill it. So NCCL has it since 2.4. And so it has two: the binomial tree needs as few
# latencies, but its root sends four vectors.
#
# In between, at 100 kB to 1 MB, the torus is ahead: few latencies, and shares in place of whole vectors.
# Hierarchical never beats the torus here: its copies pay only where MPI crosses the network better than NCCL.
# (With several cards in a node NCCL makes a ring for each; ours is one ring.)
#
# Which way NCCL took it tells since 2.20 (`TUNING`). Here are lines of three hosts of 8 H100. LL, LL128 and
# Simple are *protocols*: the first two send a flag with every few bytes, which saves latency and costs
# bandwidth. In `NVLSTree` the NVLink switch adds within the node.

# %%
choices = lab43.read(lab43.example("tuning_h100_allreduce")).choices
rows = {(call.bytes, call.algorithm, call.protocol): call.seconds * 1e6 for call in choices}
print(pd.Series(rows, name="NCCL's own estimate in µs").round(1))

# %% [markdown]
# ### What you take away
# - `NCCL_DEBUG=INFO` before believing a number: P2P in the node, GDRDMA between nodes, all ranks complete.
# - One GPU a rank, by local rank, and all GPUs of the node visible (`--gpu-bind=none`).
# - `HOROVOD_GPU_OPERATIONS=NCCL`, never mixed; by `HOROVOD_WITH_MPI=1` MPI may control it.
# - Two trees with half a vector each: few latencies, and no node sends more than two vectors.
# - Two nodes on this machine: `make tabletop`, then `make submit LAB=43 NODES=2`; a cluster: with `SITE=…`.

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
# Needs: horovod, torch · Ranks: 4 · Minutes: 50 · Before: 26, 40

# %%
import re

import horovod.torch as hvd
from labkit import check, expect, hint, home, lab, launch, plots, predict, world
from labkit.horovod import timeline, train
from support import lab43

lab.start("43_horovod_nccl2")

# %% tags=["parameters"]
machine = "roce25_p100"  # virtual machine of the plots: 4 GPUs a node and one network card of 25 Gb/s
nodes = 16  # of that machine
copy = 12.0  # GB/s between each GPU and its host's memory (PCIe 3.0 x16: 15.75 nominally)
lengths = (1e4, 1e5, 1e6, 1e7, 1e8)  # bytes of the gradients there, the shortest first

# %% [markdown]
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
# rank 4. Brackets hold the GPU: its PCI bus until NCCL 2.17, its number since then. Behind `via`:
#
# - `P2P/…`: GPU to GPU, by NVLink or PCIe (`nvidia-smi topo -m` says which)
# - `SHM/…`, before 2.14 `direct shared memory`: two copies through the host's memory
# - `NET/IB/0`: network card 0. With `GDRDMA` it reads the GPU's memory itself; without, all bytes are copied
#   to the host first. `NET/Socket`: TCP, on a cluster with InfiniBand a mistake
#
# ### Predict
# We plot these three, `nvls_64_ranks` (8 hosts of 8 GPUs, InfiniBand) and `a100_nvlink_shm` (4 A100 of a
# host, NVLink). In how many do cards read GPUs, in how many do GPUs of a host go through its memory?

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
# **Explain.** In which two logs is there a network, but GPUDirect RDMA is off? In which two do GPUs of a host
# not reach each other? (`lab43.read(file).summary()` reads the rest too: versions, missing ranks, errors.)
#
# ### Exercise 43.2 · One GPU for each rank
# NCCL refuses **two ranks on one GPU** (`Duplicate GPU detected`). And a rank opens a neighbour's GPU memory
# (CUDA IPC) only if it **sees** that GPU: `--gpus-per-task=1`, or `CUDA_VISIBLE_DEVICES` of one, hides peers,
# and MPI libraries and older NCCL fail. So `srun --gpus-per-node=4 --gpu-bind=none`, and each rank takes its
# GPU by its local rank. 1 + 6 lines.
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
    # Across ranks: every rank of a node takes another of its GPUs.
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
#    `…_ALLGATHER` and so on for one each. Both kinds together: raise `ValueError("both")`.
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

# %%
print({by: bool(getattr(hvd, f"{by}_built")()) for by in ("mpi", "gloo", "nccl")})  # horovodrun --check-build
print(lab43.report(my_gpu, lengths))
env = {"HOROVOD_TIMELINE": str(home() / "timeline_43.json")}
_, events = launch.run(train, 4, 64, 4, ranks=launch.ranks_here(2), env=env)[0]
if world.is_root():
    print("calls by library:", timeline.backends(events))

# %% [markdown]
# So tensors on CPUs go, with any build. With tensors on GPUs you want to read `NCCL_ALLREDUCE`.
#
# ### Exercise 43.4 · What leaves a node?
# - **ring**: NCCL's flat ring in the order of the nodes.
# - **tree**: NCCL's; the GPUs of a node are a chain, its first ones a binary tree; up, and down again.
# - **torus**, `HOROVOD_TORUS_ALLREDUCE=1`: reduce-scatter in the node, each share summed across, allgather;
#   all by NCCL. **hierarchical**, `HOROVOD_HIERARCHICAL_ALLREDUCE=1`: the same, but the middle is MPI on the
#   hosts: every GPU's share goes down over PCIe and up again.
#
# With m nodes of g ranks: how many vectors and messages leave the busiest node, in how many rounds? 5 lines.
#
# <details><summary>Hint 1: ring</summary>
#
# Each of p = mg ranks sends 2(p - 1) chunks of 1/p; one rank of a node sends them to the next node. With one
# node nothing leaves, but rounds remain. The busiest node of the tree is its root, which sends down.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# tree: lg vectors, as many messages, 2(g - 1) + 2 lg rounds, with lg = ⌈log₂ m⌉, which is
# `(m - 1).bit_length()`. torus: g rings of m ranks, each with 1/g: 2(m - 1)/m vectors, 2(m - 1)g messages.
# </details>


# %%
def leaves_node(way, m, g):
    """way: "ring", "tree" or "torus". Returns (vectors, messages, rounds)."""
    ### BEGIN SOLUTION
    p = m * g
    lg = (m - 1).bit_length()
    if way == "ring":
        return (2 * (p - 1) / p, 2 * (p - 1), 2 * (p - 1)) if m > 1 else (0, 0, 2 * (p - 1))
    if way == "tree":
        return lg, lg, 2 * (g - 1) + 2 * lg
    return 2 * (m - 1) / m, 2 * (m - 1) * g, 2 * (g - 1) + 2 * (m - 1)
    ### END SOLUTION


# %%
# What is asked: what was counted on the virtual cluster.
with check("43.4"):
    for way in ("ring", "tree", "torus"):
        for m, g in [(1, 4), (2, 1), (2, 3), (3, 2), (4, 4), (5, 1), (8, 2)]:
            counted = lab43.leaving(way, m, g)
            got = leaves_node(way, m, g)
            subject = f"{way}, {m} node(s) of {g}: you say (vectors, messages, rounds) = {got}"
            expect.close(got, counted, subject)

# %% [markdown]
# ### Predict
# 16 nodes of 4 GPUs behind one card of 25 Gb/s, as in Horovod's published benchmarks. How many times as fast
# as the flat ring are tree and torus for 10 kB, and tree, torus and hierarchical for 100 MB?

# %%
predict("43.4", tree_short=3.0, torus_short=2.0, tree_long=0.3, torus_long=1.0, hierarchical_long=1.0)

# %%
gain = lab43.gains(nodes, machine, lengths, copy * 1e9)
curves = {way: {n / 1e3: value for n, value in row.items()} for way, row in gain.items()}
plots.lines(curves, xlabel="kB", ylabel="times a ring's speed", title=f"{nodes} nodes, {machine}", logx=True)
short = {f"{way}_short": gain[way][lengths[0]] for way in ("tree", "torus")}
long = {f"{way}_long": gain[way][lengths[-1]] for way in ("tree", "torus", "hierarchical")}
predict.compare("43.4", **short, **long)

# %% [markdown]
# **Explain.** Short tensors: rounds count. Long ones: vectors on the card, where the torus gains nothing.
# Hierarchical never beats it here: its copies pay only where MPI crosses the network better than NCCL. (Real
# NCCL cuts vectors in slices: its tree loses less. With several cards it makes a ring for each.) Since 2.20
# NCCL tells its choice (`TUNING`): here three hosts of 8 H100, with its own estimate of the time.

# %%
times = {}
for call in lab43.read(lab43.example("tuning_h100_allreduce")).choices:
    times.setdefault(f"{call.algorithm}, {call.protocol}", {})[call.bytes] = call.seconds
plots.bandwidth(times, title="What NCCL chose, and its estimates")

# %% [markdown]
# ### What you take away
# - `NCCL_DEBUG=INFO` before believing a number: P2P in the node, GDRDMA between nodes, all ranks complete.
# - One GPU a rank, by local rank, and all GPUs of the node visible (`--gpu-bind=none`).
# - `HOROVOD_GPU_OPERATIONS=NCCL`, never mixed; by `HOROVOD_WITH_MPI=1` MPI may control it.
# - Two nodes on this machine: `make tabletop`, then `make submit LAB=43 NODES=2`; a cluster: with `SITE=…`.

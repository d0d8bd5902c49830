# %% [markdown]
# # 43 Horovod with NCCL
#
# On GPUs, Horovod hands its tensors to NCCL, which finds its own way over NVLink, PCIe and the
# network. Here you read in its log which way it took, and give it the GPUs and the build that it
# needs.
#
# **You will be able to** (1) tell from a log how ranks are connected, and whether GPUDirect RDMA is
# on, (2) see a wrong map of ranks to GPUs before NCCL refuses it, (3) say what a set of build
# switches builds.
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 40 · Level: intermediate · Before: 40

# %%
import re

import horovod.torch as hvd
import pandas as pd
from labkit import builds, check, hint, home, lab, launch, predict, record, world
from labkit.horovod import timeline, train
from support import lab43

lab.start("43_horovod_nccl2")

# %% tags=["parameters"]
lengths = (1e4, 1e6, 1e8)  # bytes of the tensors that NCCL sums, where there are GPUs

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", exercise 43.1 is the one to do.*
#
# ## Two jobs, two libraries
# Horovod does two things, and may do them by two libraries:
#
# - Its **controller** agrees, in short messages between hosts, which tensors are ready on all
#   ranks. That is MPI (MVAPICH2-GDR, say) or Gloo, Horovod's own library for TCP.
# - Its **operations** move the tensors. Those on GPUs go by NCCL, if Horovod was built for it.
#   Those on CPUs go by MPI or Gloo.
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
# A *channel* is one of several rings or trees that NCCL uses side by side. In channel 00 **rank** 3
# sends to rank 4. The brackets hold the GPU: its PCI bus up to NCCL 2.18.1, its number from 2.18.3
# on. What counts stands behind `via`:
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
jobs_shown = {  # what the job was: its log
    "2 hosts of 8 A800, RoCE": "2.10.3_roce_gdrdma",
    "2 hosts of 4 H100, InfiniBand": "2.21.5_ib_gdrdma",
    "8 hosts of 8 GPUs, InfiniBand": "nvls_64_ranks",
    "2 virtual machines of 8 GPUs": "2.18.3_socket_shm",
    "4 A100 of a host": "a100_nvlink_shm",
}
for job, name in jobs_shown.items():
    ways = {}
    for line in lab43.log(name):
        if " via " in line:
            way = line.split(" via ")[1]
            kind = (way.split("/")[0], "GDRDMA" in way)
            ways[kind] = line[line.index("Channel") :]
    print(job, *ways.values(), "", sep="\n")

# %% [markdown]
# ### Predict
# In how many of these five do network cards read GPUs themselves? In how many do GPUs of one host
# go through its memory?

# %%
predict("43.1", cards_read_gpus=2, host_memory_between=2)

# %% [markdown]
# ### Exercise 43.1 · Read the connections
# *(The one to do in the track "PPoPP hands-on, 90 minutes".)*
#
# A log has thousands of lines. From those about connections make {(source, dest): {kinds}}. There
# are four kinds: "P2P", "SHM", "NET", and "NET+GDRDMA" with GPUDirect RDMA. A pair of ranks may
# have several.
#
# The beginning of `connections` is there. It finds these lines in logs of any version, and takes
# three texts out of each: for `Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IBext_v8/0/GDRDMA`
# they are `"3"`, `"4"` and `"NET/IBext_v8/0/GDRDMA"`. What is left to do for each such line: find
# the kind, and add it to the set of the pair. The ranks of a pair are numbers. (Older logs say
# `direct shared memory` for SHM.) About 4 lines. *(beginner)*
#
# <details><summary>Hint 1: the kind</summary>
#
# It is `via.split("/")[0]`, but "SHM" for `direct shared memory`; and "+GDRDMA" is added if that is
# in `via`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `pairs.setdefault((int(source), int(dest)), set()).add(kind)`.
# </details>


# %%
def connections(lines):
    """lines: of a log. Returns {(source, dest): {"P2P", "SHM", "NET" or "NET+GDRDMA"}}, ranks as
    int."""
    pairs = {}
    for line in lines:
        match = re.search(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\].* via (.+)", line)
        if not match:
            continue  # a line about something else
        source, dest, via = match.groups()
        ### BEGIN SOLUTION
        kind = "SHM" if via == "direct shared memory" else via.split("/")[0]
        if "GDRDMA" in via:
            kind += "+GDRDMA"
        pairs.setdefault((int(source), int(dest)), set()).add(kind)
        ### END SOLUTION
    return pairs


# %%
check("43.1", connections)

# %%
table = {}
for job, name in jobs_shown.items():
    pairs = connections(lab43.log(name)).values()
    table[job] = {
        kind: any(kind in pair for pair in pairs) for kind in ("P2P", "SHM", "NET", "NET+GDRDMA")
    }
table = pd.DataFrame(table).T
print(table.replace({True: "yes", False: "-"}))
print("\nThe first line of the log of the A100:", lab43.log("a100_nvlink_shm")[0])
predict.compare(
    "43.1", cards_read_gpus=table["NET+GDRDMA"].sum(), host_memory_between=table["SHM"].sum()
)

# %% [markdown]
# **Explain.** In the first two jobs cards read the GPUs. Two other jobs have a network, but no
# GPUDirect RDMA. Which, and what would you ask their administrator?
# <details><summary>Answer</summary>
#
# The 8 hosts with InfiniBand: their cards could, so ask whether the driver for it is loaded
# (`nvidia-peermem`). And the virtual machines, which talk over `NET/Socket`: TCP cannot.
# </details>
#
# In two jobs GPUs of one host go through its memory. Why, if the four A100 have NVLink?
# <details><summary>Answer</summary>
#
# NVLink is between 0 and 1, and between 2 and 3 only, as the first line of its log says. A ring
# over all four has to leave these pairs: 1 to 2 and 3 to 0 are `SHM`. In the virtual machines no
# GPU reached another one.
# </details>
#
# ## One GPU for each rank
# What goes wrong when ranks and GPUs do not fit? Two more logs, of which these lines tell it:

# %%
for name in ("duplicate_gpu", "2.12.12_hidden_gpus"):
    print(name, *(line for line in lab43.log(name) if "WARN" in line), "", sep="\n")

# %% [markdown]
# **Slurm and GPUs in one minute.** `srun` starts the ranks of a job on its nodes.
# `--gpus-per-node=4` asks for 4 GPUs on each node. Then a site decides which of them a rank may
# open. Linux keeps the others from it, by a *cgroup*. `--gpu-bind=none` says: all of the node.
# `--gpus-per-task=1` gives each rank one, and on most clusters a cgroup with only that one. The
# *local rank* counts the ranks of a node: 0, 1, 2, 3.
#
# NCCL refuses **two ranks on one GPU**. That was the first log.
#
# And a rank should **see** the GPUs of all ranks of its node: its cgroup must let it open them.
# NCCL cannot connect to a GPU that it does not see. That was the second log: the job did not work
# ([NCCL issue 1066](@nccl_issue_1066)).
#
# <details><summary>And CUDA_VISIBLE_DEVICES?</summary>
#
# It tells CUDA in one process which GPUs to count, and in which order. It is no cgroup: NCCL
# reaches the GPUs that are left out all the same since CUDA 10.1; before, it went through host
# memory (its `p2p.cc`).
# </details>
#
# So one starts `srun --gpus-per-node=4 --gpu-bind=none`. Every rank sees four GPUs, and takes its
# own by its local rank.
#
# ### Exercise 43.2 · What is wrong?
# In lab 40 each rank took a GPU by its local rank. Now you judge a whole job. For every rank you
# get its host, its GPU, and a list of GPUs that it sees, as `[0, 1, 2, 3]`: by their numbers in the
# node. (In a cgroup with one GPU a rank calls it 0, whichever it is. Here it has its number in the
# node.)
#
# `trouble`: what is wrong with a job? First ask whether two ranks have the same GPU. GPU 0 of node1
# is not GPU 0 of node2. Then ask for each rank whether it sees the GPUs that the ranks of its **own
# host** have taken. About 7 lines. *(beginner)*
#
# <details><summary>Hint 1: comparing</summary>
#
# Compare (host, GPU) pairs. Peers are the ranks of the same host.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `taken = [(host, gpu) for host, gpu, _ in job]`: shorter as a set?
# Then for each rank `{gpu for other, gpu, _ in job if other == host} <= set(visible)`.
# </details>


# %%
def trouble(job):
    """job: by rank (host, GPU, GPUs visible). Returns None, "two ranks on one GPU" or "peers
    hidden"."""
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
check("43.2", trouble)

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
# Each is `NCCL` or `MPI`. An operation that nobody names goes through the host's memory, and
# nothing says so. Horovod's build (its CMake files) refuses two things:
#
# - The variable for all **together with** any of those for one.
# - **Allreduce by NCCL with any other operation by MPI**: two libraries that wait for each other on
#   one GPU may wait for ever. Only `HOROVOD_ALLOW_MIXED_GPU_IMPL`, if it is exactly `1`, allows it.
#   The other way round, allreduce by MPI and another one by NCCL, is not refused.
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
# Write `build`. It returns a row of the table as a dict, raises `ValueError("both")` for the first
# thing that is refused, and `ValueError("mixed")` for the second. About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: one table</summary>
#
# `single = {name: switches.get(f"HOROVOD_GPU_{name}") for name in OPERATIONS}`. With these ask for
# "both". Then the row is `together or single[name]` for each name, and "mixed" is asked of the row.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if together and any(single.values()): raise ValueError("both")`. Mixed:
# `chosen["ALLREDUCE"] == "NCCL" and "MPI" in chosen.values()`; unless the switch that allows it is
# `"1"`, `raise ValueError("mixed")`.
# </details>

# %%
OPERATIONS = ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER")


def build(switches):
    """switches: {"HOROVOD_GPU_OPERATIONS": "NCCL", …}. Returns {each operation: "NCCL", "MPI" or
    None}."""
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
check("43.3", build)

# %% [markdown]
# ### Measure
# What is this Horovod built for, and which library carried some training steps?
#
# A GPU machine may have several builds of Horovod: `host` (no operations for GPUs), `nccl` and
# `mpi`. Each trains here for some steps, on this machine's device. Horovod writes down every
# activity, its **timeline** (lab 42), and the names in it tell the library: `MPI_ALLREDUCE`, say.
# About 10 s for each build.
#
# Before that, `lab43.nccl_log` lets NCCL sum vectors, and your `connections` reads its log; or it
# says why NCCL cannot run here.

# %%
for library in ("mpi", "gloo", "nccl"):  # as `horovodrun --check-build` does
    built = getattr(hvd, f"{library}_built")()
    print(f"{library}: {'built in' if built else 'not built in'}")
pairs = connections(lab43.nccl_log(lengths))
for (source, dest), kinds in pairs.items():
    print(f"{source} to {dest}: {', '.join(sorted(kinds))}")
if pairs:
    record.add("nccl", kinds=sorted(set().union(*pairs.values())), pairs=len(pairs), library="NCCL")
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
# **Explain.** Without GPUs you should see `MPI_ALLREDUCE`: tensors in host memory do not go by
# NCCL.
#
# With GPUs you want to read `NCCL_ALLREDUCE`. The build `host` copies the tensors to the host's
# memory first, and the names of its timeline do not show that.
#
# ### What you take away
# - `NCCL_DEBUG=INFO` before believing a number: P2P in the node, GDRDMA between nodes.
# - One GPU a rank, by local rank, and all GPUs of the node visible (`--gpu-bind=none`).
# - `HOROVOD_GPU_OPERATIONS=NCCL`, never mixed. MPI or Gloo still agrees on what is ready.
# - NCCL chooses between rings and trees by size (lab 24, at its end).
# - Two nodes on this machine: `make tabletop`, then `make submit LAB=43 NODES=2`; a cluster: with
#   `SITE=…`.

# %% [markdown]
# # 43 Horovod with NCCL
#
# On NVIDIA GPUs, Horovod usually lets [NCCL](@nccl) (NVIDIA Collective Communications Library)
# perform its collectives. NCCL is fast because it finds its own path between any two GPUs: over
# NVLink (links for GPUs that are close to each other), over PCI Express (PCIe), or over the
# network. But it finds only the paths that the job leaves open:
#
# - If a driver module is missing, NCCL silently takes a slower path.
# - If Horovod was built with the wrong options, Horovod silently does without NCCL.
# - If a scheduler hides GPUs from the ranks, NCCL does not find NVLink between them, or does not
#   even start.
#
# In this lab we read NCCL's log to see which path it took between every pair of ranks, recognize a
# mapping of ranks to GPUs with which NCCL would fail or be slower, and work out from a set of build
# options what Horovod will use for each operation. At the end we measure which library this
# machine's Horovod uses.
#
# **After this lab you can** (1) tell from a log how ranks are connected, and whether network cards
# read GPU memory themselves (GPUDirect RDMA), (2) recognize a wrong mapping of ranks to GPUs before
# the job starts, and (3) predict from a set of build options which library each operation uses.
#
# ![Four A100 GPUs in one host. NVLink connects 0 and 1 as well as 2 and 3. The ring of NCCL over all four has to pass through host memory between 1 and 2 and between 3 and 0](43_ring.svg)
#
# *NCCL's ring over four A100 GPUs that are connected in pairs. You will find the paths of its four
# connections in a log below.*
#
# Needs: horovod, torch · Ranks: 4 · Minutes: 50 · Level: intermediate · Before: 40

# %%
import re

import horovod.torch as hvd
import pandas as pd
from labkit import builds, check, hint, lab, launch, own_folder, predict, record, world
from labkit.horovod import timeline, train
from support import lab43

lab.start("43_horovod_nccl2")

# %% tags=["parameters"]
lengths = (1e4, 1e6, 1e8)  # bytes of the tensors that NCCL sums, where there are GPUs

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", do exercise 43.1.*
#
# ## Two tasks, two libraries
# Horovod has two tasks, and it can use a different library for each of them:
#
# - Its **controller** determines which tensors are ready on all ranks, by exchanging short messages
#   between the hosts. It uses MPI or Gloo, a library for collectives over TCP.
# - Its **operations** transfer the tensors. For tensors on GPUs they use NCCL, if Horovod was built
#   for it, and for tensors on CPUs they use MPI or Gloo.
#
# This lab is about the operations on GPUs. NCCL can write to a log which paths it found. Two
# [environment variables](@nccl_variables) control this log:
#
# | variable | effect |
# |---|---|
# | `NCCL_DEBUG=INFO` | NCCL prints how ranks are connected |
# | `NCCL_DEBUG_FILE=/tmp/nccl.%h.%p` | … into one file for each host (`%h`) and process (`%p`) |
#
# A *channel* is one of several rings or trees that NCCL uses in parallel. A line about one
# connection of a channel looks like this:
#
#     Channel 00/0 : 3[3] -> 4[0] [receive] via NET/IBext_v8/0/GDRDMA
#
# | part | meaning |
# |---|---|
# | `Channel 00/0` | channel 00 (the number after the slash does not matter here) |
# | `3[3] -> 4[0]` | **rank** 3 sends to rank 4; the brackets contain the GPU of each rank (in older versions its PCI bus) |
# | `[receive]` | the receiving rank wrote the line |
# | `via …` | the path; in `NET/IBext_v8/0`, the 0 is the number of the NIC, a network interface card |
#
# The text after `via` names one of five paths. In this table, RDMA is remote direct memory access:
#
# | after `via` | path |
# |---|---|
# | `P2P/…` | peer to peer, directly from GPU to GPU, over NVLink or PCIe (`nvidia-smi topo -m` tells which) |
# | `SHM/…` | two copies through the host's memory (in older versions `direct shared memory`) |
# | `NET/IB…` without `GDRDMA` | a NIC for InfiniBand or RoCE (RDMA over Converged Ethernet); all bytes are first copied to the host's memory |
# | `NET/IB…/GDRDMA` | GPUDirect RDMA: the NIC itself reads and writes the GPU's memory |
# | `NET/Socket/…` | TCP, which is a mistake on a cluster with InfiniBand |
#
# ### Predict
# The kit contains excerpts of real logs. Five of them come from these jobs (A800, H100 and A100 are
# GPUs):
#
# 1. 2 hosts of 8 A800, RoCE
# 2. 2 hosts of 4 H100, InfiniBand
# 3. 8 hosts of 8 GPUs, InfiniBand
# 4. 2 virtual machines of 8 GPUs
# 5. 4 A100 in one host, the job of the figure
#
# The hardware suggests which paths a job can use, and the logs will show which ones it used. Guess
# two numbers from 0 to 5:
#
# - `cards_read_gpus`: in how many jobs do NICs read GPU memory themselves (GPUDirect RDMA)?
# - `host_memory_between`: in how many do GPUs of one host communicate through the host's memory?
#   Job 5 is one of them, as the figure shows.

# %%
predict("43.1", cards_read_gpus=3, host_memory_between=1)

# %% [markdown]
# The next cell prints, for each job, one line for each kind of connection that its log contains.
# For example, the first job has a line with `P2P/direct pointer/read` between two ranks of one
# host, and a line with `NET/IB/0/GDRDMA` between ranks of different hosts. Find the row of the
# table of paths for each line of the other four jobs.

# %%
for job, name in lab43.FIVE_JOBS.items():
    print(job, *lab43.one_of_each_kind(name), "", sep="\n")

# %% [markdown]
# ### Exercise 43.1 · Read the connections
# *(The exercise to do in the track "PPoPP hands-on, 90 minutes".)*
#
# A log has thousands of lines. From the lines about connections, build the dictionary {(source,
# dest): {kinds}}, where source and dest are ranks (integers). For example, take a log with three
# lines, the sample line above and these two:
#
#     Channel 00 : 6[6] -> 7[7] via P2P/IPC
#     Channel 01 : 6[6] -> 7[7] via SHM/direct
#
# The answer is `{(3, 4): {"NET+GDRDMA"}, (6, 7): {"P2P", "SHM"}}`. The pair from 6 to 7 has two
# kinds, because its channels use different paths.
#
# The beginning of `connections` is in the cell. It finds these lines in all logs of the kit and
# extracts three strings from each. For the sample line, `source` is `"3"`, `dest` is `"4"`, and
# `via` is `"NET/IBext_v8/0/GDRDMA"`. For each such line, determine the kind and add it to the set
# of its pair. About 4 lines. *(beginner)*
#
# | `via` | kind |
# |---|---|
# | `P2P/…` | "P2P" |
# | `SHM/…`, or `direct shared memory` in older logs | "SHM" |
# | `NET/…` with `GDRDMA` | "NET+GDRDMA" |
# | `NET/…` without it | "NET" |
#
# `/Shared` can follow at the end of a line. It does not change the kind.
#
# <details><summary>Hint 1: the kind</summary>
#
# It is `via.split("/")[0]`, except that `direct shared memory` is "SHM". Append "+GDRDMA" if `via`
# contains "GDRDMA".
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

# %% [markdown]
# Your function now reads all five logs. The table shows which kinds it found in each job.

# %%
table = {}
for job, name in lab43.FIVE_JOBS.items():
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
# **Explain.** The columns `NET+GDRDMA` and `SHM` answer the prediction. In the first two jobs, NICs
# read GPU memory. Two other jobs use a network without GPUDirect RDMA. Which ones, and what would
# you ask their administrator?
# <details><summary>Answer</summary>
#
# One is the job on 8 hosts with InfiniBand. InfiniBand NICs can usually read GPU memory, and the
# excerpt does not say why they don't do so here. Ask first whether the driver module for it is
# loaded (`nvidia-peermem`). Another possible reason is that the NIC is too far away from the GPU in
# the host (`NCCL_NET_GDR_LEVEL`).
#
# The other is the job on virtual machines, which communicate over `NET/Socket`, so all bytes are
# copied to the host's memory. Its log also contains the line `Failed to open libibverbs.so[.1]`.
# Ask whether the virtual machines have a NIC for InfiniBand or RoCE. If they do, NCCL needs this
# library to use it.
# </details>
#
# In two jobs, GPUs of one host communicate through the host's memory. Why does this happen even
# with the four A100s, which have NVLink?
# <details><summary>Answer</summary>
#
# NVLink exists only between 0 and 1 and between 2 and 3, as the first line of the log says. A ring
# over all four GPUs has to leave these pairs, so the connections from 1 to 2 and from 3 to 0 are
# `SHM`. P2P over PCIe would be possible on some hosts, but NCCL did not use it here, and the
# excerpt does not tell why.
#
# The excerpt of the virtual machines has no pair with P2P, and it does not tell why, either.
# </details>
#
# ## One GPU for each rank
# NCCL needs ranks and GPUs that match. There are two rules:
#
# 1. Each rank needs **its own GPU**.
# 2. Each rank must be able to open the GPUs of all ranks on its node. We say that it must **see**
#    them.
#
# The next cell prints the warnings of two jobs. The first job broke rule 1, and the second broke
# rule 2. In the first job's lines, `[1,2]<stdout>` is the label that mpirun writes before the lines
# of rank 2, and 1000 is the PCI address of the GPU.

# %%
for name in ("duplicate_gpu", "2.12.12_hidden_gpus"):
    print(name, *(line for line in lab43.log(name) if "WARN" in line), "", sep="\n")

# %% [markdown]
# In the first job several ranks took the same GPU, and NCCL refused this with an error.
#
# In the second job each of two ranks saw only its own GPU. NCCL warned that it did not find the
# other one, and continued without NVLink. NCCL's developers answered that it needs to see all GPUs
# of the node to detect NVLink ([NCCL issue 1066](@nccl_issue_1066)). The same issue reports the
# speed in the first iteration:
#
# | each rank sees | images per second on each GPU |
# |---|---|
# | only its own GPU | 687 |
# | both GPUs | 792 |
#
# In a third job, where containers hid the GPUs, NCCL ended with an error after the same warning
# ([NCCL issue 1529](@nccl_issue_1529)).
#
# ### Which GPUs does a rank see?
# On a cluster with Slurm, `srun` starts the ranks, and Linux enforces with a *cgroup* (control
# group) which GPUs a rank may open:
#
# | options of `srun` | a rank may open |
# |---|---|
# | `--gpus-per-node=4 --gpu-bind=none` | all GPUs that the job has on the rank's node, here four |
# | `--gpus-per-task=1` | on most clusters only one GPU |
#
# Therefore start the job with the options in the first row. Every rank then sees four GPUs and
# picks its own by its *local rank*, which is its number on the node (0, 1, 2, 3).
#
# <details><summary>And CUDA_VISIBLE_DEVICES?</summary>
#
# This variable tells CUDA in one process which GPUs to use, and in which order. It is not a cgroup.
# Since CUDA 10.1, NCCL reaches GPUs that the variable leaves out.
# </details>
#
# ### Exercise 43.2 · What is wrong?
# In lab 40 each rank took a GPU by its local rank. Now you check a whole job. The argument `job` is
# a list with one tuple (host, GPU, visible GPUs) per rank. GPUs are numbered within their node, so
# GPU 0 of node1 is not GPU 0 of node2. The visible GPUs are those that the rank may open.
#
# Write `trouble`, which finds out what is wrong with a job. It returns the first of these answers
# that applies. About 7 lines. *(beginner)*
#
# 1. `"two ranks on one GPU"` if two ranks have the same GPU
# 2. `"peers hidden"` if a rank does not see all GPUs that its *peers*, the ranks of its **own
#    host**, have taken
# 3. `None` if the job obeys both rules
#
# For example, in the job `[("node1", 0, [0]), ("node1", 1, [1])]` each rank has its own GPU, but
# sees only that one, so the answer is "peers hidden".
#
# <details><summary>Hint 1: comparing</summary>
#
# Compare the pairs (host, GPU) of two ranks. Peers are the ranks of the same host.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `taken = [(host, gpu) for host, gpu, _ in job]`: is it shorter as a set? Then for each rank
# `{gpu for other, gpu, _ in job if other == host} <= set(visible)`.
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
# ## Which library transfers GPU tensors?
# This is determined when Horovod is **built**, by environment variables:
#
# | variable | operations for which it names the library |
# |---|---|
# | `HOROVOD_GPU_OPERATIONS` | all five collectives |
# | `HOROVOD_GPU_ALLREDUCE` | only allreduce |
# | `HOROVOD_GPU_ALLGATHER`, `…_BROADCAST`, `…_ALLTOALL`, `…_REDUCESCATTER` | only this collective |
#
# The value is `NCCL` or `MPI`. An operation without a library silently goes through the host's
# memory. Here are four examples, without the `HOROVOD_` before each name:
#
# | variables | ALLREDUCE | ALLGATHER | BROADCAST | ALLTOALL | REDUCESCATTER |
# |---|---|---|---|---|---|
# | `GPU_OPERATIONS=NCCL` | NCCL | NCCL | NCCL | NCCL | NCCL |
# | `GPU_ALLREDUCE=NCCL` | NCCL | None | None | None | None |
# | `GPU_OPERATIONS=NCCL GPU_ALLREDUCE=NCCL` | refused: both | | | | |
# | `GPU_ALLREDUCE=NCCL GPU_BROADCAST=MPI` | refused: mixed | | | | |
#
# The last two rows show the combinations that Horovod's build (its CMake files) refuses:
#
# - *Both:* the variable for all operations **together with** any of the variables for one
#   operation.
# - *Mixed:* **allreduce with NCCL and any other operation with MPI**, because two libraries that
#   wait for each other on one GPU can wait forever (a deadlock). Only
#   `HOROVOD_ALLOW_MIXED_GPU_IMPL` with exactly the value `1` allows this.
#
# CMake accepts every other mixture, for example allreduce with MPI and another operation with NCCL,
# although two libraries share a GPU in this case, too.
#
# ### Exercise 43.3 · What will be built?
# Write `build`. Its argument is a dictionary of the variables that are set. For a combination that
# CMake refuses, it raises `ValueError("both")` or `ValueError("mixed")`. Otherwise it returns the
# row of the last table as a dictionary. For example, in the result for
# `{"HOROVOD_GPU_ALLREDUCE": "NCCL"}` the value of `"ALLREDUCE"` is `"NCCL"`, and the values of the
# other four operations are `None`. About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: one table</summary>
#
# `single = {name: switches.get(f"HOROVOD_GPU_{name}") for name in OPERATIONS}`. Use these values to
# check for "both". The row is then `together or single[name]` for each name, and you can check the
# row for "mixed".
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if together and any(single.values()): raise ValueError("both")`. A row is mixed if
# `chosen["ALLREDUCE"] == "NCCL" and "MPI" in chosen.values()`. Then `raise ValueError("mixed")`,
# unless the variable that allows it is `"1"`.
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
# Which library does this machine's Horovod use? You only need to read what the next two cells
# print. The first one prints which libraries are built in. Then it performs allreduces with NCCL,
# and prints what your `connections` finds in the log. If NCCL cannot run on this machine, the cell
# prints the reason, and only the logs above show NCCL.

# %%
for library in ("mpi", "gloo", "nccl"):  # as `horovodrun --check-build` does
    built = getattr(hvd, f"{library}_built")()
    print(f"{library}: {'built in' if built else 'not built in'}")
pairs = connections(lab43.nccl_log(lengths))
for (source, dest), kinds in pairs.items():
    print(f"{source} to {dest}: {', '.join(sorted(kinds))}")
if pairs:
    record.add("nccl", kinds=sorted(set().union(*pairs.values())), pairs=len(pairs), library="NCCL")

# %% [markdown]
# The second cell trains a model of four matrices with each build of Horovod on this machine, for
# two steps of warm-up and four measured steps. A GPU machine can have the builds `host` (no
# operations for GPUs), `nccl` and `mpi`. This takes about 10 s for each build.
#
# For each build the cell prints the device of the tensors and the calls that Horovod wrote to its
# **timeline**, a log (lab 42). One of these calls is, for example, `MPI_ALLREDUCE`.

# %%
env = {"HOROVOD_TIMELINE": str(own_folder() / "timeline_43.json")}
for flavour in [builds.current_horovod()] if world.launcher() else builds.horovod_builds():
    ranks = launch.ranks_here(lab43.most_ranks(flavour, 2))
    training = launch.run(train, 4, 64, 4, ranks=ranks, env=env, horovod=flavour)[0]
    if world.is_root():
        calls = timeline.backends(training.events)
        print(f"build {flavour}, {ranks} rank(s). {training.where.describe()} Calls: {calls}")
        carried = {"build": flavour, "ranks_used": ranks, "calls": calls}
        record.add("carried", **carried, **training.where.fields())

# %% [markdown]
# **Explain.** The names of the calls depend on the build, and on whether the machine has GPUs:
#
# | GPUs | build | you should see |
# |---|---|---|
# | no | any | `MPI_ALLREDUCE`, or the name of Gloo if MPI is not built in |
# | yes | `nccl` | `NCCL_ALLREDUCE` |
# | yes | `host` | no mention of NCCL |
#
# Without GPUs, the tensors are in host memory, and NCCL does not transfer those. The build `host`
# first copies the tensors to the host's memory. The names do not show this copy, so look for `host`
# at the beginning of the line.
#
# There are four broadcasts, one for each matrix. The number of allreduces is between 6, if Horovod
# fuses the four gradients of each of the six steps, and 24, if it fuses none (lab 44).
#
# ### What you take away
# - Set `NCCL_DEBUG=INFO` before you trust a measured time, and look for P2P within a node and
#   GDRDMA between nodes.
# - Each rank needs its own GPU, chosen by its local rank, and must see the GPUs of all ranks on its
#   node (`--gpu-bind=none`).
# - Build Horovod with `HOROVOD_GPU_OPERATIONS=NCCL`, and don't mix libraries, even where CMake
#   allows it. The controller still uses MPI or Gloo.
#
# For two nodes on this machine, run `make tabletop` and then `make submit LAB=43 NODES=2`. On a
# cluster, add `SITE=…`.
#
# ### Further reading
# - [@nccl_variables] All environment variables of NCCL, among them those for choosing networks and
#   algorithms.
# - [@horovod_gpus] Horovod's own page about builds for GPUs.
# - [@horovod_install] All variables that a build of Horovod reads.
# - [@nccl_trees] How NCCL 2.4 added trees to its rings, and from which number of GPUs that pays
#   off.
# - [@gpudirect_rdma] How a network card reads and writes GPU memory, and which hardware can do it.

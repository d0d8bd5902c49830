# %% [markdown]
# <!-- Generated from solutions/42_horovod_mvapich2_gdr.py by `make labs`. Learners work on a copy in work/. -->
# # 42 Horovod over MVAPICH2-GDR
#
# MVAPICH2-GDR moves gradients from GPU to GPU by itself. Loaded or called in another way, the job
# still runs: slower, through another library, or with two threads in an MPI that expects one. Here
# you learn to *prove* what a job does.
#
# **You will be able to** (1) prove which MPI library a process holds, and which thread level
# Horovod is given, (2) write the line that starts a job with MVAPICH2-GDR, and start it, (3) prove
# from a timeline which library carried the gradients, (4) prove whether they stayed on the GPU.
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 50 · Level: intermediate · Before: 40

# %%
import itertools
import re
from collections import Counter

import pandas
from labkit import builds, check, cluster, hint, home, lab, launch, plots, predict, record, world
from labkit.horovod import timeline, train_ways
from support import lab42

lab.start("42_horovod_mvapich2_gdr")
ranks = launch.ranks_here(2)
free = not world.launcher()  # inside a job the ranks run already, over the MPI that started them
# The MPI libraries here; None: that of the job.
mpis = list(builds.mpi_builds()) if free else [None]

# %% tags=["parameters"]
layers = 12  # weight matrices of the net, each with a gradient of its own
width = 256  # rows and columns of a matrix: 256 KiB
steps = 40  # timed training steps of each way

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes" the exercise to do here is 42.3. It needs no other
# exercise: run the next code cell, and go on at "Which library carried the gradients?".*
#
# ## Which MPI does this process hold?
# MVAPICH is a family of MPI libraries from Ohio State University, made for InfiniBand and GPUs.
# MVAPICH2-GDR is its closed build of MVAPICH2 for GPUs and deep learning.
#
# <details><summary>The family</summary>
#
# | library | what it is | takes GPU memory |
# |---|---|---|
# | MVAPICH2 2.3.7 | open source, the last 2.x | if built with CUDA, and with `MV2_USE_CUDA=1` |
# | MVAPICH2-GDR 2.3.7 | closed build of it: network cards read GPU memory | with `MV2_USE_CUDA=1` |
# | MVAPICH 3, 4 | open source, a new core | if built with it |
# | MVAPICH-Plus 4, 5 | closed build of that, GDR's successor | yes: `MVP_ENABLE_GPU=1` is the default |
# </details>
#
# This kit brings MPICH, on which they are all built. `make mvapich2` puts MVAPICH2 beside it in
# some minutes, and this lab then runs on both. You need neither InfiniBand nor a GPU for it.
#
# A process can be asked in two ways what it holds. MPI says its name in a text, by the function
# `MPI_Get_library_version`. And Linux lists all files that a process has mapped, in
# `/proc/self/maps`. Here are both:

# %%
inside = {}
for mpi in mpis:
    inside[mpi] = launch.run(lab42.look_inside, ranks=ranks, mpi=mpi, env=lab42.UNBOUND)[0]
libraries = {mpi: rank.library for mpi, rank in inside.items()}
for rank in inside.values():
    print(rank.library)
    print(f"  its text begins: {rank.text[:70]!r}")
    print(f"  its file: {', '.join(rank.files)}")
if free and "mvapich2" not in mpis:
    print("MVAPICH2 is not built here: `make mvapich2` does it in some minutes.")
    print("Until then the tables below hold the kit's reference for it.")


# %% [markdown]
# The file's name proves nothing. MPICH's and MVAPICH2's are both `libmpi.so.12`, on purpose: a
# program built with one runs on the other. It runs on whichever is found first. But there must be
# **one** file: two MPI libraries in a process do not know of each other.
#
# ### Exercise 42.1 · Which MPI library is this?
# The text **begins** with the name of its family, and then comes the version:
#
#     'MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date…'        'MPICH Version:      5.0.2\nMPICH ABI…'
#     'MVAPICH Version:        4.0\nMVAPICH Release date…'            'Open MPI v5.0.11, package: …'
#
# What follows is free, and may name another family. This line looks at the beginning alone:
#
#     version = re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)
#
# If the text begins so, `version[1]` is the version; else `version` is None. Try the four families
# of these texts. A text that begins with none of them is `(None, None)`.
#
# MVAPICH2-GDR's text says MVAPICH2. What gives it away is a tool, `mpiname -a`: what it prints has
# `MVAPICH2-GDR` in it. But that tool is only found in `PATH`. So believe it only if the text says
# MVAPICH2: else it belongs to a library that this process does not hold.
#
# Write `which_mpi`. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: one family after the other</summary>
#
# `for family in ("MVAPICH2", "MVAPICH", "MPICH", "Open MPI"):`, and return at the first that is
# found.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `gdr = family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname`, and then
# `return "MVAPICH2-GDR" if gdr else family, version[1]`.
# </details>

# %%
def which_mpi(text, mpiname=""):
    """(family, version) by the text of MPI_Get_library_version and of `mpiname -a`; (None, None):
    unknown."""
    raise NotImplementedError("exercise 42.1: Which MPI library is this?")


# %%
# Asked: Family and version of eight texts, and of the libraries here.
check("42.1", which_mpi)

# %% [markdown]
# ## Who may call MPI?
# Horovod has a thread of its own, which calls MPI. Your program has another one. May both be in MPI
# at once?
#
# A program asks for a **thread level** when it starts MPI, and is given that one or a lower one. Of
# the four levels two matter here:
#
# | level | who may call MPI |
# |---|---|
# | SINGLE, the lowest | there is only one thread |
# | MULTIPLE, the highest | every thread, at any time |
#
# Below MULTIPLE, MPI leaves its locks out. Two threads in it at once then spoil its lists. What
# comes of it is a crash, a job that hangs, or nothing at all, until one day. Horovod asks for
# MULTIPLE.
#
# MVAPICH2 **binds** ranks to cores: a rank's threads may run on its cores and nowhere else. It
# grants MULTIPLE to ranks that are not bound, or that are bound to a group of cores. By default it
# binds each rank to **one** core, and grants SINGLE.
#
# What does MVAPICH2's InfiniBand device, `ch3:mrail`, make of a request for MULTIPLE? The first
# line that applies decides:
#
# | variables | the rank is bound to | granted |
# |---|---|---|
# | `MV2_ENABLE_AFFINITY=0` (the default is 1) | nothing | MULTIPLE |
# | `MV2_CPU_BINDING_LEVEL=core` | one core | SINGLE |
# | `MV2_CPU_BINDING_LEVEL=socket` or `numanode` | several cores | MULTIPLE |
# | `MV2_CPU_BINDING_POLICY=hybrid` | a group of cores | MULTIPLE |
# | anything else, or nothing set | one core | SINGLE |
#
# ### Predict
# What is Horovod given over `ch3:mrail` if nobody sets a variable? And with
# `MV2_CPU_BINDING_LEVEL=socket`? Write "MULTIPLE", or "less" for any level below it.

# %%
predict("42.1", unset=..., socket=...)

# %% [markdown]
# ### Measure
# What is Horovod given here? There are up to four settings:
#
# | setting | what it is |
# |---|---|
# | affinity off | `MV2_ENABLE_AFFINITY=0`, as labkit sets it for its ranks |
# | affinity on | as if no variable were set |
# | affinity on, socket | with `MV2_CPU_BINDING_LEVEL=socket` |
# | asked for less | the control: `HOROVOD_MPI_THREADS_DISABLE=1` makes Horovod ask for SINGLE |
#
# The device `ch3:mrail` needs InfiniBand. So your prediction is compared with the kit's table,
# which was measured with it. About 5 s for each line.

# %%
levels = []
for mpi, rank in inside.items():
    # In a job MPI runs, and its level stays.
    settings = lab42.settings_of(rank.library) if free else {}
    given = {"affinity off": rank.level}
    for setting, env in settings.items():
        given[setting] = launch.run(lab42.thread_level, ranks=ranks, mpi=mpi, env=env)[0]
    named = {"mpi": rank.library, "channel": lab42.channel(rank.text)}
    for setting, level in given.items():
        levels.append(
            record.add("thread level", ranks=ranks, setting=setting, level=level, **named)
        )
columns = ["mpi", "channel", "setting", "level"]
reference = record.reference(lab.current(), "thread level")[columns]
print("Yours:", pandas.DataFrame(levels)[columns], "", sep="\n")
print("The kit's reference, not yours:", reference, "", sep="\n")
mrail = reference[reference.channel == "ch3:mrail"].set_index("setting").level
predict.compare("42.1", unset=mrail["affinity on"], socket=mrail["affinity on, socket"])


# %% [markdown]
# **Explain.** You should see: of all lines in which MULTIPLE was asked for, only `ch3:mrail` with
# affinity on gives less. With `socket` it does not: the rank is bound, but to several cores.
# (`hybrid` is not in the measured table: it rests on the source of MVAPICH2, and on a run of ours.)
#
# You may see MULTIPLE with affinity on in your own table. Then your MVAPICH2 has another device,
# such as `ch3:nemesis:tcp`: that one binds nobody, and neither does MPICH. So a laptop on which all
# is well proves nothing for the cluster.
#
# What is the cure? <details><summary>Answer</summary>
#
# `MV2_ENABLE_AFFINITY=0` is the simplest one, where something else binds the ranks, as srun does.
# It also switches off MVAPICH2-GDR's own choice of cores near the GPU and the network card (its
# guide, 9.4 and 13.7). `hybrid` keeps that, with `MV2_THREADS_PER_PROCESS`, the cores for each
# rank: if all ranks of a node together need more than it has, MVAPICH2 aborts. Which is faster on a
# GPU cluster we have not measured.
# </details>
#
# ## The line that starts a job
# A job has 2 nodes with 4 GPUs each, a rank for each GPU, and 14 cores for each rank. Slurm's
# launcher is srun, MVAPICH2's own is mpirun_rsh. Here is the line for either:
#
#     env MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0 srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4
#         --cpus-per-task=14 --gpus-per-node=4 --gpu-bind=none python train.py
#
#     mpirun_rsh -export-all -np 8 -hostfile hosts MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0
#         OMP_NUM_THREADS=14 python train.py
#
# | words | without them |
# |---|---|
# | `MV2_USE_CUDA=1` | MVAPICH2-GDR takes an address on the GPU for one of the host, and may crash |
# | `MV2_SUPPORT_DL=1` | its guide (7.3): needed "to run the jobs properly" with Horovod |
# | `--mpi=pmi2` | 8 programs that do not know of each other: every one is rank 0 |
# | `--cpus-per-task=14` | Slurm gives a rank **one** core, for itself, Horovod's thread and the loaders |
# | `--gpu-bind=none` | a site may hide the other GPUs; then a rank cannot reach them directly |
# | `-export-all` | ranks on other nodes miss your environment |
# | `-hostfile hosts` | the next words are taken for hosts. The file has a line `node1:4` for each node |
# | `OMP_NUM_THREADS=14` | mpirun_rsh binds nobody: each rank starts a thread for every core of the node |
#
# **Order counts.** mpirun_rsh takes words with a `=` for variables only *directly before* the
# program; behind it they are the program's arguments. srun knows no variables: they stand before
# it, after `env`.
#
# <details><summary>Two more remarks on GDR</summary>
#
# `MV2_GPUDIRECT_GDRCOPY_LIB=path of libgdrapi.so` makes short messages faster; the path may also be
# in `LD_LIBRARY_PATH`. And its guide says of Horovod: "do not use the LD_PRELOAD option".
# </details>
#
# ### Exercise 42.2 · Write the line, and start it
# `variables` returns what a flavour is given, as a dict of texts:
#
# | flavour | variables |
# |---|---|
# | `mvapich2`, on CPUs | `MV2_ENABLE_AFFINITY=0` |
# | `mvapich2-gdr` | the three `MV2_` of the lines above |
# | `mvapich-plus` (its successor) | `MVP_ENABLE_GPU=1` alone: its default, said all the same |
#
# `command` returns the line for a job, as a list of words, each of them text. `job.nodes` is the
# number of nodes. `job.ranks` and `job.gpus` are those of each node, `job.cores` those of each
# rank. Where `job.gpus` is 0, the line says nothing about GPUs.
#
# The line of a third launcher, mpiexec, is there as an example. It starts ranks on one machine
# without Slurm, and `-bind-to core:14` gives each of them 14 cores. Write those of mpirun_rsh and
# srun in its way. About 5 and 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: words</summary>
#
# `*pairs` in a list puts in all variables, and `*program` the program. Each option is a word of its
# own, as `f"--nodes={job.nodes}"`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `["env", *pairs, "srun", "--mpi=pmi2", f"--nodes={job.nodes}", …, *gpus, *program]`, where `gpus`
# is `[]` or `[f"--gpus-per-node={job.gpus}", "--gpu-bind=none"]`. For mpirun_rsh `threads` comes
# behind `*pairs`.
# </details>

# %%
def variables(flavour):
    """flavour: "mvapich2", "mvapich2-gdr" or "mvapich-plus". Returns {name of a variable: its
    text}."""
    raise NotImplementedError("exercise 42.2: Write the line, and start it")


def command(launcher, job, variables, program):
    """The words that start program (a list). launcher: "srun", "mpirun_rsh" or "mpiexec"."""
    pairs = [f"{name}={value}" for name, value in variables.items()]
    threads = f"OMP_NUM_THREADS={job.cores}"
    ranks = str(job.nodes * job.ranks)
    if launcher == "mpiexec":
        bound = ["-bind-to", f"core:{job.cores}"]
        return ["env", *pairs, threads, "mpiexec", "-n", ranks, *bound, *program]
    raise NotImplementedError("exercise 42.2: Write the line, and start it")


# %%
# Asked: The variables of each flavour, and five lines in which each word of the
# table stands in its place. Further options that do no harm, such as --cpu-
# bind=cores, are welcome.
check("42.2", variables, command)

# %% [markdown]
# ### Measure
# Now start your line. Where Slurm is, srun asks for two nodes and starts it there (`make tabletop`
# starts a Slurm on this machine; mpirun_rsh's line is only checked). Elsewhere mpiexec starts it.
# On srun's line, the site's own `--mpi=…` takes the place of yours. Each rank says where it is, how
# many cores it may use, and with which MPI. Then all ranks sum a gradient of 16 MiB, each on its
# own device, by that MPI: `MB/s` is its bytes over the seconds. About 10 s for each MPI.

# %%
launcher = lab42.launcher_here() if free else None
if launcher is None:
    print(
        "No line can be started from here: this is a job already, or its launcher is another one."
    )
job = lab42.job_here(cores=1) if launcher else None
for mpi in mpis if launcher else []:
    flavour = "mvapich2-gdr" if job.gpus else "mvapich2"
    line = command(launcher, job, variables(flavour), lab42.PROGRAM)
    print(*line)
    answers = lab42.start(line, mpi)
    columns = ["rank", "host", "cores", "threads", "device", "staged", "MB/s", "mpi", "level"]
    print(pandas.DataFrame(answers)[columns].to_string(index=False), "\n")


# %% [markdown]
# **Explain.** Is every number of `rank` there once? Does `cores` say what the line asked for, one
# for each rank? Then the line did what it says. Nodes of a tabletop share this machine and bind
# nobody: there `cores` is more. On GPUs, `staged` tells whether the gradient was copied to the
# host's memory before MPI saw it. With MVAPICH2-GDR and `MV2_USE_CUDA=1` it is not, and `MB/s`
# shows what that is worth.
#
# A node has 56 cores and 4 ranks, and somebody forgot `--cpus-per-task`. How many cores compute?
# <details><summary>Answer</summary>
#
# Four. Slurm gives each rank one, which it shares with Horovod's thread and the loaders. The other
# 52 are idle, and nothing says so. What one core costs is measured at the end.
# </details>
#
# ## Which library carried the gradients?
# `hvd.mpi_built()` says what *could* be used. The **timeline** says what *was*: with
# `HOROVOD_TIMELINE=file` rank 0 writes down every activity of every tensor. Here are the first ones
# of a run with three gradients, in the order in which they began.

# %%
def run(ways, mpi=None, size=(layers, width, steps)):
    """{way: its time .took, timeline .events, .where tensors were}. ways: {name: environment
    variables}."""
    return launch.run(train_ways, *size, ways, home(), ranks=ranks, env=lab42.UNBOUND, mpi=mpi)[0]


short_run = run({"short": {}}, mpis[0], size=(3, 64, 3))["short"].events or []
activities = timeline.activities(short_run)
own = [activity for activity in activities if activity.tensor.startswith("allreduce")]
for activity in own[:18]:
    print(f"{1e3 * activity.start:>10.2f} ms  {activity.tensor:<22}{activity.name}")


# %% [markdown]
# | activity | what happens |
# |---|---|
# | NEGOTIATE_ALLREDUCE | Horovod waits until every rank has this gradient |
# | ALLREDUCE | the whole work on it; those below are parts of it |
# | INIT_FUSION_BUFFER | the buffer in which gradients are packed is made, once |
# | MEMCPY_IN_FUSION_BUFFER | the gradient is copied in |
# | MPI_ALLREDUCE | one call of the library carries all that is in the buffer |
# | MEMCPY_OUT_FUSION_BUFFER | the sum is copied out |
#
# ### Exercise 42.3 · Which library, in how many calls?
# *(The one to do in the track "PPoPP hands-on, 90 minutes".)*
#
# An activity that begins with a library's name (MPI, GLOO, NCCL, CCL) and `_` moved data. The
# tensors of **one** call begin one right after the other. Between two calls, other activities
# begin. So `MPI_ALLREDUCE` three times in a row is one call with 3 tensors.
#
# The loop in `carried` goes through the events: `name` is an activity, and `count` says how many of
# it begin one right after the other. For each activity of a library, put (calls, tensors) into
# `proof`. About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: is it a library's?</summary>
#
# `name.split("_")[0]` is what stands before the first `_`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If that is a library: `calls, tensors = proof.get(name, (0, 0))`, and then
# `proof[name] = (calls + 1, tensors + count)`.
# </details>

# %%
def carried(events):
    """events: activities (.name, .tensor) as they began. Returns {a library's operation: (calls,
    tensors)}"""
    proof = {}
    for name, neighbours in itertools.groupby(events, key=lambda event: event.name):
        count = len(list(neighbours))
        raise NotImplementedError("exercise 42.3: Which library, in how many calls?")
    return proof


# %%
# Asked: Calls and tensors of three made up timelines, and calls of the one
# above.
check("42.3", carried)

# %% [markdown]
# ### Predict
# A step of the net below averages 12 gradients of 256 KiB. How many calls of MPI's allreduce is
# that with `HOROVOD_FUSION_THRESHOLD=0`, which switches the buffer off? And at best, with the
# default of 128 MiB?

# %%
predict("42.3", calls_unfused=..., calls_fused_at_best=...)

# %% [markdown]
# ### Measure
# Each MPI library trains *fused* and *unfused*. Gloo is Horovod's own library for TCP. It is the
# control: its name must be in its timeline, and MPI's must not be. About half a minute.

# %%
ways = {"fused": {}, "unfused": {"HOROVOD_FUSION_THRESHOLD": "0"}}
results = {library: run(ways, mpi) for mpi, library in libraries.items()}
if free:  # in a job the build of Horovod may have another library carry
    results["Gloo"] = run({"fused": {"HOROVOD_CPU_OPERATIONS": "gloo"}})

# %%
# Judges each timeline by `carried`. Calls a step: calls for each tensor, times the gradients of a
# step.
per_step = {}
nodes = ranks // next(iter(inside.values())).on_node
for library, trainings in results.items():
    for way, training in trainings.items():
        proof = carried(timeline.activities(training.events or []))
        allreduces = {name: counts for name, counts in proof.items() if "ALLREDUCE" in name}
        names = " ".join(allreduces)
        calls = sum(calls * layers / tensors for calls, tensors in allreduces.values())
        print(f"{library}, {way}: {names}, {calls:.1f} calls a step")
        per_step[library, way] = calls
        fields = {"way": way, "calls_per_step": calls, "carried_by": names, "nodes": nodes}
        fields.update(training.where.fields())
        record.add("step", ranks=ranks, mpi=library, seconds=training.took, **fields)
best = {way: min(per_step[library, way] for library in libraries.values()) for way in ways}
predict.compare("42.3", calls_unfused=best["unfused"], calls_fused_at_best=best["fused"])

# %% [markdown]
# **Explain.** *The names.* MPI's lines hold `MPI_ALLREDUCE` alone, and Gloo's `GLOO_ALLREDUCE`
# alone. So a timeline tells libraries apart. It does not tell MPICH from MVAPICH2: that was
# exercise 42.1.
#
# *The calls.* Unfused there are 12. Fused there are 1 to 3, on the mean of all steps. Why not
# always 1?
# <details><summary>Answer</summary>
#
# Horovod looks once a millisecond ([lab 44](44_timeline_and_fusion.ipynb) tries longer), and takes what is ready. Gradients become
# ready one after the other. If the last ones are not ready yet, the first ones leave without them.
# </details>
#
# ## Did my gradients stay on the GPU?
# A GPU job can be slow because its gradients go through host memory, and nothing says so. In 2018
# somebody asked why his timeline had MPI_ALLREDUCE and no NCCL_ALLREDUCE (Horovod's issue 321). The
# answer: his Horovod had been built without NCCL.
#
# A build of Horovod is `nccl`, `mpi` or `host`. `nccl` gives GPU memory to NCCL. `mpi` gives it to
# MPI, which must be able to take it (**CUDA-aware**). `host` copies GPU tensors to host memory
# first, and MPI or Gloo carry the copy. So does a build `nccl` in an operation for which no library
# was named (lab 43).
#
# A timeline has one row for each tensor. Here are five jobs, and the row of one gradient in each.
# (The first was recorded here. The others are built from Horovod 0.28.1's source, operation by
# operation: we had no file of a GPU job.)

# %%
for journey in lab42.JOURNEYS[:5]:
    print(f"{journey.told} (gradients on {journey.device}, build {journey.build!r} of Horovod):")
    print("   ", " ".join(journey.activities), "\n")


# %% [markdown]
# Look at the third and the fourth: **they are the same.** The timeline alone cannot tell whether
# MPI was given GPU memory. Two more facts decide: where your gradients are (`gradient.device`), and
# the build.
#
# | in the row | what it says |
# |---|---|
# | a name that begins with `NCCL_` | NCCL carried GPU memory, at least on a part of the way |
# | `MEMCPY_IN_HOST_BUFFER` | a copy to host memory, for MPI between the nodes |
# | `MPI_…`, `GLOO_…` | depends on the build |
# | `MEMCPY_IN_FUSION_BUFFER` | nothing: this buffer is where the gradients are, GPU or host |
# | `WAIT_FOR_DATA` | nothing: a build with CUDA writes it for CPU tensors, too |
#
# ### Exercise 42.4 · Tell the way
# Write `way_of(activities, device, build)` for the row of one gradient. It returns one of four
# texts:
#
# 1. `"CPU tensors"`: the gradient is not on a GPU.
# 2. `"staged through the host"`: it is copied to host memory on its way, on the whole way or
#    between the nodes.
# 3. `"stayed on the GPU"`: NCCL carried it, and nothing copied it to the host.
# 4. `"CUDA-aware MPI"`: Horovod handed GPU memory to MPI.
#
# About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: the order of questions</summary>
#
# First the device. Then the host buffer, since a row can hold NCCL and a copy to the host. Then
# NCCL. Then the build.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if any(name.startswith("NCCL_") for name in activities): return "stayed on the GPU"`, and at the
# end `return "CUDA-aware MPI" if build == "mpi" else "staged through the host"`.
# </details>

# %%
def way_of(activities, device, build):
    """activities: names in one gradient's row. device: "cpu", "cuda:0", … build: "host", "nccl" or
    "mpi"."""
    raise NotImplementedError("exercise 42.4: Tell the way")


# %%
# Asked: The way of eleven gradients, and of those that were trained above.
check("42.4", way_of)

# %%
for library in libraries.values():
    training = results[library]["fused"]
    rows = lab42.gradients(timeline.activities(training.events or []))
    counts = Counter(way_of(row, *lab42.device_and_build(training)) for row in rows.values())
    for way, count in counts.items():
        print(f"{library}: {count} gradients, {way}. labkit says: {training.where.describe()}")

# %% [markdown]
# **Explain.** On a machine without GPUs all are CPU tensors, and the timeline is right to show MPI.
# With GPUs and `make run LAB=42 HOROVOD=nccl` they should stay there. `HOROVOD=mpi` is the way of
# MVAPICH2-GDR: that build hands the GPU's memory to MPI. If the gradients do not stay, ask in the
# order of the exercise: the device, the host buffer, NCCL, the build.
#
# Does "CUDA-aware MPI" mean that nothing goes through host memory?
# <details><summary>Answer</summary>
#
# No. What MPI does with GPU memory is its own affair, and no timeline shows it. MVAPICH2-GDR's
# guide (13) has limits: `MV2_GPUDIRECT_LIMIT` (nominally 8192 bytes) for what the network card
# reads from the GPU, and `MV2_USE_GPUDIRECT_RECEIVE_LIMIT` (131072) for what it writes there.
# Longer messages go in pieces through host memory. The library chooses the values by the machine
# that it finds. [Lab 27](27_cuda_aware_mpi.ipynb) measures such ways.
# </details>
#
# ### What you take away
# - The text of `MPI_Get_library_version` and `/proc/self/maps` prove the library; a file's name
#   does not.
# - By default MVAPICH2 over InfiniBand binds a rank to one core, and lets one thread call it.
#   Horovod needs more: `MV2_ENABLE_AFFINITY=0`.
# - GDR: `MV2_USE_CUDA=1 MV2_SUPPORT_DL=1` before the program, and **cores for each rank** in the
#   line (measured below).
# - The timeline proves which library carried the gradients. Whether they stayed on the GPU, it says
#   together with their device and Horovod's build. Next: NCCL (43).
#
# ## For those who have time: three measurements
# They are not in the minutes above, and no exercise needs them.
#
# **What does one core cost?** The line of 42.2 with one core for its only rank, and with all.
# `asked` is what the line says. `seen` is the control: the cores that the rank found. (The
# tabletop's nodes bind nobody, so it is mpiexec there.) About 10 s.

# %%
if launcher:
    alone = "mpiexec" if cluster.here() in (None, "tabletop") else launcher
    rows = []
    for cores in sorted({1, world.cores()}):
        job = lab42.Job(1, 1, cores, 0)
        (rank,) = lab42.start(command(alone, job, variables("mvapich2"), lab42.PROGRAM))
        fields = {
            name: rank[name]
            for name in ("seconds", "seconds_q1", "seconds_q3", "steady", "threads")
        }
        rows.append(
            record.add("line", unit="s", way=alone, asked=cores, seen=rank["cores"], **fields)
        )
    columns = ["asked", "seen", "threads", "seconds", "seconds_q1", "seconds_q3", "steady"]
    print("A training step of one rank:", pandas.DataFrame(rows)[columns], sep="\n")

# %% [markdown]
# **Explain.** You should see: on one core the step takes longer. If the other line has n cores, it
# is at most n times as long, and in fact less: not all of the work can be shared.
#
# You may see the line with more cores *slower*, even many times. Then other programs want these
# cores: the threads of a step wait for each other, and one of them always waits for a core.
# `make doctor` says how busy the machine is. And if `seen` is not what was `asked`, nobody was
# bound: look at the launcher.
#
# **Fused or not: how long is a step?** These are the times of the steps whose calls were counted
# above.

# %%
times = {}
for library, trainings in results.items():
    for way, training in trainings.items():
        times[f"{library}, {way}"] = training.took
        print(f"{library}, {way}: {training.took}")
plots.spread(times, title="A step by library: compare what is steady")

# %% [markdown]
# **Explain.** Twelve calls cost eleven latencies more. One call costs two more copies of all
# gradients. On one node, through memory, a latency is some microseconds: so both ways should be
# close, and either may be ahead. If the boxes overlap, or a line says *not steady*, neither has
# won. You may see one way many times slower: then ranks and Horovod's threads wait for cores, in
# each call anew. [Lab 44](44_timeline_and_fusion.ipynb) takes fusion apart.
#
# **Two nodes.** `make submit LAB=42 NODES=2 MPI=mvapich2` runs the lab as a job (`make tabletop`
# starts two nodes on this machine). Below is what your newest job measured, else the kit's
# reference.

# %%
table, whose = cluster.records_or_reference("42", "step")
for name in ("seconds", "seconds_q1", "seconds_q3"):
    table[name.replace("seconds", "ms")] = (1e3 * table[name]).round(1)
columns = ["nodes", "ranks", "mpi", "way", "ms", "ms_q1", "ms_q3", "seconds_steady"]
print(f"These are {whose}:", table.reindex(columns=columns).to_string(index=False), sep="\n")

# %% [markdown]
# **Explain.** `ms` is the median of a step, and `ms_q1` to `ms_q3` its middle half. Compare rows of
# the same nodes and ranks, and only where `seconds_steady` is True. With more ranks than cores, as
# on a tabletop on a laptop, ranks wait for cores most of the time, and differences between
# libraries mean little.

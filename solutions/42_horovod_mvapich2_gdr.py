# %% [markdown]
# # 42 Horovod over MVAPICH2-GDR
#
# MVAPICH2-GDR is an MPI library that can send a gradient directly from the memory of one GPU to
# that of another. GDR stands for GPUDirect RDMA (remote direct memory access), the technique in
# which a network interface card (NIC) reads and writes GPU memory itself. Many environment
# variables, modules and options have to be right before a job really uses it. If one of them is
# wrong, the job usually still runs. It is merely slower, because the gradients take a detour
# through another library or through the host's memory, or it has two threads inside an MPI library
# that was initialized for one, which can crash the job weeks later.
#
# In this lab we learn to *prove* what a job does: which MPI library a process has loaded, which
# thread level Horovod was granted, which library performed the allreduce, and whether the gradients
# stayed on the GPU. Along the way we write and start the command that launches a job with
# MVAPICH2-GDR.
#
# **After this lab you can** (1) prove which MPI library a process has loaded and which thread level
# Horovod is granted, (2) write and run the command that starts a job with MVAPICH2-GDR, (3) prove
# from a timeline which library performed the allreduce, and (4) prove whether the gradients stayed
# on the GPU.
#
# ![Four paths of a gradient from a GPU of one node to a GPU of another: staged through the memory of both hosts, in chunks through pinned buffers, directly between GPU memory and the NIC, and by NCCL](42_paths.svg)
#
# *Four paths from GPU to GPU. On the first, Horovod copies the gradient to host memory before MPI
# sees it. On the others, Horovod passes the address in GPU memory to MPI (second and third) or to
# NCCL.*
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 80 · Level: intermediate · Before: 40

# %%
import itertools
import re
from collections import Counter

import pandas
from labkit import builds, check, cluster, hint, home, lab, launch, plots, predict, record, world
from labkit.horovod import ranks_here, timeline, train_ways
from support import lab42

lab.start("42_horovod_mvapich2_gdr")
ranks = ranks_here(2)
free = not world.launcher()  # inside a job the ranks run already, over the MPI that started them
# The MPI libraries here; None: that of the job.
mpis = list(builds.mpi_builds()) if free else [None]

# %% tags=["parameters"]
layers = 12  # weight matrices of the net, each with a gradient of its own
width = 256  # rows and columns of a matrix: 256 KiB
steps = 40  # timed training steps of each way

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", do exercise 42.3. It needs no other exercise: run the
# next code cell and continue at "Which library performed the allreduce?".*
#
# ## Which MPI library has this process loaded?
# [MVAPICH](@mvapich) is a family of MPI (Message Passing Interface) libraries from Ohio State
# University, made for InfiniBand and GPUs. MVAPICH2-GDR is its closed-source build of MVAPICH2 for
# GPUs and deep learning.
#
# <details><summary>The family</summary>
#
# | library | what it is | accepts GPU memory |
# |---|---|---|
# | MVAPICH2 2.3.7 | open source, the last release 2.x | if built with CUDA, and with `MV2_USE_CUDA=1` |
# | MVAPICH2-GDR 2.3.7 | closed-source build of MVAPICH2 in which NICs read GPU memory | with `MV2_USE_CUDA=1` |
# | MVAPICH 3, 4 | open source, with a new core | if built with it |
# | MVAPICH-Plus 4, 5 | closed-source build of MVAPICH 4, the successor of GDR | yes, `MVP_ENABLE_GPU=1` is the default |
# </details>
#
# This kit contains [MPICH](@mpich), on which all of them are based. `make mvapich2` builds MVAPICH2
# in a few minutes, and this lab then runs with both libraries. You need neither InfiniBand nor a
# GPU for this.
#
# There are two ways to find out which library a process has loaded. MPI itself returns a text with
# its name, from the function `MPI_Get_library_version`. And Linux lists all files that a process
# has mapped into its memory, in `/proc/self/maps`. This cell shows both:

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
# The name of the file proves nothing. The files of MPICH and MVAPICH2 are both called
# `libmpi.so.12`, so that a program built with one runs with the other, and it runs with the one
# that is found first. There must be exactly **one** such file, because two MPI libraries in a
# process do not know about each other.
#
# ### Exercise 42.1 · Which MPI library is this?
# The text **begins** with the name of the library's family, followed by the version:
#
#     'MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date…'        'MPICH Version:      5.0.2\nMPICH ABI…'
#     'MVAPICH Version:        4.0\nMVAPICH Release date…'            'Open MPI v5.0.11, package: …'
#
# The rest of the text is arbitrary and can mention another family. This statement looks only at the
# beginning:
#
#     version = re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)
#
# If the text begins like this, `version[1]` is the version, and otherwise `version` is None. Try
# the four families of these texts. For a text that begins with none of them, return `(None, None)`.
#
# The text of MVAPICH2-GDR says MVAPICH2. The library can be recognized by a tool, `mpiname -a`,
# whose output contains `MVAPICH2-GDR`. However, the shell finds this tool in `PATH`, so it might
# belong to a library that this process has not loaded. Therefore believe it only if the text says
# MVAPICH2.
#
# Write `which_mpi`. About 6 lines. *(beginner)*
#
# <details><summary>Hint 1: one family after the other</summary>
#
# `for family in ("MVAPICH2", "MVAPICH", "MPICH", "Open MPI"):`, and return at the first family that
# matches.
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
    ### BEGIN SOLUTION
    for family in ("MVAPICH2", "MVAPICH", "MPICH", "Open MPI"):
        version = re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)
        if version:
            gdr = family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname
            return "MVAPICH2-GDR" if gdr else family, version[1]
    return None, None
    ### END SOLUTION


# %%
check("42.1", which_mpi)

# %% [markdown]
# ## Which threads may call MPI?
# Horovod's background thread calls MPI, and your own thread may be calling it at the same time.
# Whether that is safe depends on the **thread level**. A program requests a thread level when it
# starts MPI, and MPI provides this level or a lower one. Two of the four levels matter here:
#
# | level | which threads may call MPI |
# |---|---|
# | SINGLE, the lowest | the process has only one thread |
# | MULTIPLE, the highest | every thread, at any time |
#
# Below MULTIPLE, MPI does not use its locks. If two threads then call it at the same time, they
# corrupt its internal lists. The result can be a crash, a job that hangs, or no visible effect for
# a long time. Horovod requests MULTIPLE.
#
# MVAPICH2 **binds** ranks to cores, which means that the threads of a rank may run only on the
# rank's cores. It provides MULTIPLE to ranks that are not bound, or that are bound to several
# cores. By default it binds each rank to **one** core and provides SINGLE.
#
# For InfiniBand, MVAPICH2 has the device `ch3:mrail`. When Horovod requests MULTIPLE from it, the
# first row of this table that applies determines the result:
#
# | environment variables | the rank is bound to | provided |
# |---|---|---|
# | `MV2_ENABLE_AFFINITY=0` (the default is 1) | nothing | MULTIPLE |
# | `MV2_CPU_BINDING_LEVEL=core` | one core | SINGLE |
# | `MV2_CPU_BINDING_LEVEL=socket` or `numanode` | several cores | MULTIPLE |
# | `MV2_CPU_BINDING_POLICY=hybrid` | a group of cores | MULTIPLE |
# | any other setting, or none | one core | SINGLE |
#
# ### Predict
# Which level does `ch3:mrail` provide to Horovod if you set no variable? And which with
# `MV2_CPU_BINDING_LEVEL=socket`? Write "MULTIPLE", or "less" for any lower level.

# %%
predict("42.1", unset="less", socket="MULTIPLE")

# %% [markdown]
# ### Measure
# The next cell starts Horovod on this machine with up to four settings and prints the level that it
# gets:
#
# | setting | meaning |
# |---|---|
# | affinity off | `MV2_ENABLE_AFFINITY=0`, as labkit sets it for its ranks |
# | affinity on | as if you had set no variable |
# | affinity on, socket | with `MV2_CPU_BINDING_LEVEL=socket` |
# | asked for less | the control: `HOROVOD_MPI_THREADS_DISABLE=1` makes Horovod request SINGLE |
#
# The device `ch3:mrail` needs InfiniBand, so your prediction is compared with the kit's table,
# which was measured with it. Each line takes about 5 s.

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
# **Explain.** Among all lines in which Horovod requests MULTIPLE, you should see a lower level only
# for `ch3:mrail` with affinity on. With `socket` the rank is also bound, but to several cores, and
# gets MULTIPLE. (The setting `hybrid` is not in the measured table. Its row above is based on the
# source code of MVAPICH2 and on one of our own runs.)
#
# Your own table might show MULTIPLE with affinity on. In that case your MVAPICH2 uses another
# device, such as `ch3:nemesis:tcp`, which does not bind ranks, and neither does MPICH. A laptop
# without problems therefore proves nothing for the cluster.
#
# How can you get MULTIPLE on a cluster? <details><summary>Answer</summary>
#
# `MV2_ENABLE_AFFINITY=0` is the simplest way, provided that another program binds the ranks, as
# srun does. It also switches off MVAPICH2-GDR's own choice of cores near the GPU and the NIC ([its
# guide](@mvapich2_gdr), sections 9.4 and 13.7). The policy `hybrid` keeps this choice. It needs
# `MV2_THREADS_PER_PROCESS`, the number of cores for each rank, and MVAPICH2 aborts if the ranks of
# a node together need more cores than the node has. We have not measured which of the two is faster
# on a GPU cluster.
# </details>
#
# ## The command that starts a job
# Suppose that a job has 2 nodes with 4 GPUs each, one rank for each GPU, and 14 cores for each
# rank. The launcher of [Slurm](@slurm_srun), the scheduler of most clusters, is `srun`, and
# MVAPICH2's own launcher is `mpirun_rsh`. These are the two commands:
#
#     env MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0 srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4
#         --cpus-per-task=14 --gpus-per-node=4 --gpu-bind=none python train.py
#
#     mpirun_rsh -export-all -np 8 -hostfile hosts MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0
#         OMP_NUM_THREADS=14 python train.py
#
# | option or variable | what happens without it |
# |---|---|
# | `MV2_USE_CUDA=1` | MVAPICH2-GDR takes an address in GPU memory for one in host memory, and can crash |
# | `MV2_SUPPORT_DL=1` | its guide (7.3) says that it is needed "to run the jobs properly" with Horovod |
# | `--mpi=pmi2` | 8 separate programs start, each of which is rank 0. PMI2 is the Process Management Interface through which ranks find each other |
# | `--cpus-per-task=14` | Slurm gives a rank **one** core, for itself, Horovod's thread and the data loaders |
# | `--gpu-bind=none` | a site might hide the other GPUs, so that a rank cannot reach them directly |
# | `-export-all` | ranks on other nodes do not get your environment |
# | `-hostfile hosts` | the next arguments are taken for host names. The file has a line `node1:4` for each node |
# | `OMP_NUM_THREADS=14` | mpirun_rsh does not bind ranks, so each rank starts a thread for every core of the node |
#
# **The order matters.** mpirun_rsh treats an argument with a `=` as a variable only *directly
# before* the program, because arguments after the program belong to the program. srun does not
# accept variables, so they stand before it, after `env`.
#
# <details><summary>Two more remarks on GDR</summary>
#
# `MV2_GPUDIRECT_GDRCOPY_LIB=path of libgdrapi.so` makes short messages faster; the path can also be
# in `LD_LIBRARY_PATH`. And the guide says about Horovod: "do not use the LD_PRELOAD option".
# </details>
#
# ### Exercise 42.2 · Write the command, and start it
# `variables` returns the environment variables for a flavor of MVAPICH, as a dictionary of strings:
#
# | flavor | variables |
# |---|---|
# | `mvapich2`, on CPUs | `MV2_ENABLE_AFFINITY=0` |
# | `mvapich2-gdr` | the three `MV2_` variables of the commands above |
# | `mvapich-plus` (its successor) | only `MVP_ENABLE_GPU=1`, its default, which we state explicitly |
#
# `command` returns the command for a job, as a list of strings. `job.nodes` is the number of nodes,
# `job.ranks` and `job.gpus` are the numbers of ranks and GPUs on each node, and `job.cores` is the
# number of cores for each rank. If `job.gpus` is 0, the command does not mention GPUs.
#
# The command for a third launcher, `mpiexec`, is in the cell as an example. It starts ranks on one
# machine without Slurm, and `-bind-to core:14` gives each of them 14 cores. Following this example,
# write the commands for `mpirun_rsh` and `srun`. About 5 lines each. *(intermediate)*
#
# <details><summary>Hint 1: a list of strings</summary>
#
# In a list, `*pairs` inserts all variables and `*program` inserts the program. Each option is one
# string, such as `f"--nodes={job.nodes}"`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `["env", *pairs, "srun", "--mpi=pmi2", f"--nodes={job.nodes}", …, *gpus, *program]`, where `gpus`
# is `[]` or `[f"--gpus-per-node={job.gpus}", "--gpu-bind=none"]`. For mpirun_rsh, `threads` comes
# after `*pairs`.
# </details>


# %%
def variables(flavor):
    """flavor: "mvapich2", "mvapich2-gdr" or "mvapich-plus". Returns {name of a variable: its
    text}."""
    ### BEGIN SOLUTION
    if flavor == "mvapich-plus":
        return {"MVP_ENABLE_GPU": "1"}
    if flavor == "mvapich2":
        return {"MV2_ENABLE_AFFINITY": "0"}
    return {"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1", "MV2_ENABLE_AFFINITY": "0"}
    ### END SOLUTION


def command(launcher, job, variables, program):
    """The strings that start program (a list). launcher: "srun", "mpirun_rsh" or "mpiexec"."""
    pairs = [f"{name}={value}" for name, value in variables.items()]
    threads = f"OMP_NUM_THREADS={job.cores}"
    ranks = str(job.nodes * job.ranks)
    if launcher == "mpiexec":
        bound = ["-bind-to", f"core:{job.cores}"]
        return ["env", *pairs, threads, "mpiexec", "-n", ranks, *bound, *program]
    ### BEGIN SOLUTION
    if launcher == "mpirun_rsh":
        start = ["mpirun_rsh", "-export-all", "-np", ranks, "-hostfile", "hosts"]
        return [*start, *pairs, threads, *program]
    size = [f"--nodes={job.nodes}", f"--ntasks-per-node={job.ranks}"]
    size += [f"--cpus-per-task={job.cores}"]
    gpus = [f"--gpus-per-node={job.gpus}", "--gpu-bind=none"] if job.gpus else []
    return ["env", *pairs, "srun", "--mpi=pmi2", *size, *gpus, *program]
    ### END SOLUTION


# %%
check("42.2", variables, command)

# %% [markdown]
# ### Measure
# Now start your command. If Slurm is available, srun requests two nodes and starts it there.
# (`make tabletop` starts a Slurm cluster on this machine. The command for mpirun_rsh is only
# checked, not run.) Otherwise mpiexec starts it. In the command for srun, the site's own `--mpi=…`
# replaces yours. Each rank prints its node, the number of cores that it may use, and its MPI
# library. Then all ranks perform an allreduce of a gradient of 16 MiB with this library, each on
# its own device. `MB/s` is the number of bytes divided by the seconds. This takes about 10 s for
# each MPI library.

# %%
launcher = lab42.launcher_here() if free else None
if launcher is None:
    print("No command can be started here: this is a job already, or its launcher is another one.")
job = lab42.job_here(cores=1) if launcher else None
for mpi in mpis if launcher else []:
    flavor = "mvapich2-gdr" if job.gpus else "mvapich2"
    line = command(launcher, job, variables(flavor), lab42.PROGRAM)
    print(*line)
    answers = lab42.start(line, mpi)
    columns = ["rank", "host", "cores", "threads", "device", "staged", "MB/s", "mpi", "level"]
    print(pandas.DataFrame(answers)[columns].to_string(index=False), "\n")

# %% [markdown]
# **Explain.** Check two things: every number in the column `rank` occurs exactly once, and `cores`
# is the number that the command requested for each rank. If both are true, the command does what it
# says. The nodes of a tabletop cluster share this machine and do not bind ranks, so there `cores`
# is larger. On GPUs, `staged` tells you whether the gradient was copied to host memory before MPI
# saw it. With MVAPICH2-GDR and `MV2_USE_CUDA=1` it is not copied, and `MB/s` shows how much faster
# that is.
#
# A node has 56 cores and 4 ranks, and the option `--cpus-per-task` was forgotten. How many cores do
# the computing?
# <details><summary>Answer</summary>
#
# Four. Slurm gives each rank one core, which it shares with Horovod's thread and the data loaders.
# The other 52 cores are silently idle. The end of this lab measures what a single core costs.
# </details>
#
# ## Which library performed the allreduce?
# `hvd.mpi_built()` tells you which library *could* be used. The **timeline** tells you which
# library *was* used: with `HOROVOD_TIMELINE=file`, rank 0 writes every activity of every tensor to
# a file. Here are the first activities of a run with three gradients, in the order in which they
# began:


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
# | ALLREDUCE | the whole operation, which contains the activities below |
# | INIT_FUSION_BUFFER | Horovod allocates the buffer in which gradients are fused into one message, once |
# | MEMCPY_IN_FUSION_BUFFER | the gradient is copied into the buffer |
# | MPI_ALLREDUCE | one call of the library processes the whole content of the buffer |
# | MEMCPY_OUT_FUSION_BUFFER | the sum is copied out of the buffer |
#
# ### Exercise 42.3 · Which library, in how many calls?
# *(The exercise to do in the track "PPoPP hands-on, 90 minutes".)*
#
# An activity whose name begins with the name of a library (MPI, GLOO, NCCL, CCL) and `_` has moved
# data. The tensors of **one** call begin in immediate succession, and other activities begin
# between two calls. For example, `MPI_ALLREDUCE` three times in a row is one call with 3 tensors.
#
# The loop in `carried` goes through the events. In each turn, `name` is an activity, and `count` is
# the number of times that it begins in immediate succession. For each activity of a library, store
# (calls, tensors) in `proof`. About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: does it belong to a library?</summary>
#
# `name.split("_")[0]` is the part of the name before the first `_`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If this part is the name of a library: `calls, tensors = proof.get(name, (0, 0))`, and then
# `proof[name] = (calls + 1, tensors + count)`.
# </details>


# %%
def carried(events):
    """events: activities (.name, .tensor) as they began. Returns {a library's operation: (calls,
    tensors)}"""
    proof = {}
    for name, neighbours in itertools.groupby(events, key=lambda event: event.name):
        count = len(list(neighbours))
        ### BEGIN SOLUTION
        if name.split("_")[0] in ("MPI", "GLOO", "NCCL", "CCL"):
            calls, tensors = proof.get(name, (0, 0))
            proof[name] = (calls + 1, tensors + count)
        ### END SOLUTION
    return proof


# %%
check("42.3", carried)

# %% [markdown]
# ### Predict
# A step of the network below averages 12 gradients of 256 KiB each. How many calls of MPI's
# allreduce does it take with `HOROVOD_FUSION_THRESHOLD=0`, which switches the fusion buffer off?
# And how many does it take at best with the default buffer of 128 MiB?

# %%
predict("42.3", calls_unfused=12, calls_fused_at_best=1)

# %% [markdown]
# ### Measure
# Each MPI library trains with fusion (*fused*) and without it (*unfused*). [Gloo](@gloo), Horovod's
# own library for TCP, is the control: its timeline must contain Gloo's name and must not contain
# MPI's. This takes about half a minute.

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
# **Explain.** *The names.* You should see only `MPI_ALLREDUCE` in the lines of the MPI libraries,
# and only `GLOO_ALLREDUCE` in those of Gloo. A timeline therefore distinguishes libraries. It does
# not distinguish MPICH from MVAPICH2, for which you need exercise 42.1.
#
# *The calls.* Without fusion a step takes 12 calls, and with fusion 1 to 3 calls, averaged over all
# steps. Why is it not always 1?
# <details><summary>Answer</summary>
#
# Horovod's background thread wakes up once per millisecond (lab 44 tries a longer cycle) and fuses
# the gradients that are ready at that moment. The gradients become ready one after the other. If
# the last ones are not ready yet, the first ones are sent without them.
# </details>
#
# ## Did my gradients stay on the GPU?
# A GPU job can be slow because its gradients are silently copied through host memory. In 2018 a
# user asked why the timeline of his job contained MPI_ALLREDUCE and no NCCL_ALLREDUCE ([Horovod's
# issue 321](@horovod_issue_321)). The reason was that his Horovod had been built without NCCL.
#
# There are three kinds of Horovod builds for GPUs: `nccl`, `mpi` and `host`. A build `nccl`
# passes GPU memory to NCCL. A build `mpi` passes it to MPI, which must be able to accept it
# (**CUDA-aware**). A build `host` first copies GPU tensors to host memory, and MPI or Gloo then
# process the copy. A build `nccl` does the same in operations for which no library was named (lab
# 43).
#
# A timeline has one row for each tensor. Here are five jobs, with the row of one gradient in each.
# (The first row was recorded on a CPU. The others were derived from the source code of Horovod
# 0.28.1, operation by operation, because we had no file of a GPU job.)

# %%
for journey in lab42.JOURNEYS[:5]:
    print(f"{journey.told} (gradients on {journey.device}, build {journey.build!r} of Horovod):")
    print("   ", " ".join(journey.activities), "\n")

# %% [markdown]
# Compare the third and the fourth row: **they are identical.** The timeline alone therefore does
# not show whether MPI received GPU memory. You need two more facts: where your gradients are
# (`gradient.device`), and which build you use.
#
# | in the row | what it tells you |
# |---|---|
# | a name that begins with `NCCL_` | NCCL transferred GPU memory, at least on a part of the path |
# | `MEMCPY_IN_HOST_BUFFER` | a copy to host memory, for MPI between the nodes |
# | `MPI_…`, `GLOO_…` | it depends on the build |
# | `MEMCPY_IN_FUSION_BUFFER` | nothing, because this buffer is where the gradients are, in GPU or host memory |
# | `WAIT_FOR_DATA` | nothing, because a build with CUDA writes it for CPU tensors, too |
#
# ### Exercise 42.4 · Tell the way
# Write `way_of(activities, device, build)` for the row of one gradient. It returns one of four
# strings:
#
# 1. `"CPU tensors"`: the gradient is not on a GPU.
# 2. `"staged through the host"`: the gradient is copied to host memory, on the whole path or
#    between the nodes.
# 3. `"stayed on the GPU"`: NCCL transferred it, and it was not copied to the host.
# 4. `"CUDA-aware MPI"`: Horovod passed GPU memory to MPI.
#
# About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: the order of questions</summary>
#
# First check the device. Then look for the host buffer, because a row can contain both NCCL and a
# copy to the host. Then look for NCCL, and finally check the build.
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
    ### BEGIN SOLUTION
    if device == "cpu":
        return "CPU tensors"
    if "MEMCPY_IN_HOST_BUFFER" in activities:
        return "staged through the host"
    if any(name.startswith("NCCL_") for name in activities):
        return "stayed on the GPU"
    return "CUDA-aware MPI" if build == "mpi" else "staged through the host"
    ### END SOLUTION


# %%
check("42.4", way_of)

# %%
for library in libraries.values():
    training = results[library]["fused"]
    rows = lab42.gradients(timeline.activities(training.events or []))
    counts = Counter(way_of(row, *lab42.device_and_build(training)) for row in rows.values())
    for way, count in counts.items():
        print(f"{library}: {count} gradients, {way}. labkit says: {training.where.describe()}")

# %% [markdown]
# **Explain.** On a machine without GPUs all gradients are CPU tensors, and the timeline is right to
# show MPI. With GPUs and `make run LAB=42 HOROVOD=nccl` the gradients should stay on the GPU.
# `HOROVOD=mpi` is the build for MVAPICH2-GDR, which passes the GPU's memory to MPI. If your
# gradients do not stay on the GPU, check these in the order of the exercise: the device, the host
# buffer, NCCL, the build.
#
# Does "CUDA-aware MPI" mean that no data passes through host memory?
# <details><summary>Answer</summary>
#
# No. The timeline does not show what MPI does with GPU memory. MVAPICH2-GDR's guide (13) describes
# limits: `MV2_GPUDIRECT_LIMIT` (nominally 8192 bytes) for data that the NIC reads from the GPU, and
# `MV2_USE_GPUDIRECT_RECEIVE_LIMIT` (131072) for data that it writes there. Longer messages are sent
# in chunks through host memory. The library chooses the values according to the machine that it
# finds. Lab 27 measures such paths.
# </details>
#
# ### What you take away
# - The text of `MPI_Get_library_version` and the list in `/proc/self/maps` prove which library is
#   loaded. The name of a file does not.
# - By default MVAPICH2 over InfiniBand binds a rank to one core and lets only one thread call it.
#   Horovod needs a higher thread level, so set `MV2_ENABLE_AFFINITY=0`.
# - For GDR, put `MV2_USE_CUDA=1 MV2_SUPPORT_DL=1` before the program, and request **cores for each
#   rank** (measured below).
# - The timeline proves which library performed the allreduce. Together with the device of the
#   gradients and Horovod's build, it also proves whether they stayed on the GPU. Lab 43 continues
#   with NCCL.
#
# ## Going further (optional): three measurements
# These measurements are not included in the minutes above, and no exercise needs them.
#
# **What does it cost to have only one core?** This cell runs the command of 42.2 with one rank,
# first with one core and then with all cores. `asked` is the number in the command. `seen` is the
# control, which is the number of cores that the rank found. (The nodes of a tabletop do not bind
# ranks, so mpiexec is used there.) This takes about 10 s.

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
# **Explain.** You should see that the step takes longer on one core. If the other line has n cores,
# the step on one core takes at most n times as long, and in fact less, because not all of the work
# can be done in parallel.
#
# The line with more cores might even be *slower*, by a large factor. In that case other programs
# use these cores: the threads of a step have to wait for each other, and one of them is always
# waiting for a core. `make doctor` tells you how busy the machine is. If `seen` differs from
# `asked`, the rank was not bound, so check the launcher.
#
# **How long does a step take with fusion and without?** These are the times of the steps whose
# calls were counted above.

# %%
times = {}
for library, trainings in results.items():
    for way, training in trainings.items():
        times[f"{library}, {way}"] = training.took
        print(f"{library}, {way}: {training.took}")
plots.spread(times, title="A step by library: compare what is steady")

# %% [markdown]
# **Explain.** Twelve calls cost eleven more latencies than one call, while one fused call costs two
# more copies of all gradients. On one node, where messages go through memory, a latency is a few
# microseconds, so the two times should be close, and either can be smaller. If the boxes overlap,
# or if a line says *not steady*, the measurement does not show a difference. One of them might be
# many times slower. Then ranks and Horovod's threads wait for cores in each call. Lab 44 examines
# fusion in detail.
#
# **Two nodes.** `make submit LAB=42 NODES=2 MPI=mvapich2` runs this lab as a job (`make tabletop`
# starts two nodes on this machine). The next cell shows the measurements of your most recent job,
# or the kit's reference if you have none.

# %%
table, whose = cluster.records_or_reference("42", "step")
for name in ("seconds", "seconds_q1", "seconds_q3"):
    table[name.replace("seconds", "ms")] = (1e3 * table[name]).round(1)
columns = ["nodes", "ranks", "mpi", "way", "ms", "ms_q1", "ms_q3", "seconds_steady"]
print(f"These are {whose}:", table.reindex(columns=columns).to_string(index=False), sep="\n")

# %% [markdown]
# **Explain.** `ms` is the median time of a step, and the range from `ms_q1` to `ms_q3` contains the
# middle half of the times (the interquartile range). Compare only rows with the same numbers of
# nodes and ranks, and only rows in which `seconds_steady` is True. If there are more ranks than
# cores, as in a tabletop cluster on a laptop, ranks wait for cores most of the time, and
# differences between libraries mean little.
#
# ### Further reading
# - [@mvapich2_gdr] Section 7.3 describes Horovod, section 9 the binding of ranks, and section 13
#   the variables for GPUs.
# - [@awan2019] Measurements of TensorFlow and Horovod over MVAPICH2-GDR and NCCL on GPU clusters.
# - [@horovod_mpi] Horovod's own page about running with MPI.
# - [@horovod_timeline] All activities of the timeline, and how to view it.
# - [@gpudirect_rdma] How a network card reads and writes GPU memory, and which hardware can do it.

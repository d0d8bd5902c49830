# %% [markdown]
# # 42 Horovod over MVAPICH2-GDR
#
# MVAPICH2-GDR is an MPI (Message Passing Interface) library that can send data directly from the
# memory of one GPU to that of another, at least in short messages. GDR stands for GPUDirect RDMA
# (remote direct memory access), the technique in which a network interface card (NIC) reads and
# writes GPU memory itself.
#
# A job uses this technique only if many environment variables, modules and options are right. If
# one of them is wrong, the job usually still runs, but with one of these faults:
#
# - It is slower, because another library sends the gradients, or because the gradients are copied
#   through the host's memory first.
# - It can crash at any later time, because two threads call an MPI library that was initialized for
#   one.
#
# In this lab we learn to *prove* what a job does: which MPI library a process has loaded, which
# threads may call it, which library performed the allreduce, and whether Horovod passed it the
# gradients in GPU memory or in host memory. The functions that we write also run on a laptop,
# although without a GPU some of them have only one possible answer.
#
# Along the way we write the command that launches a job with MVAPICH2-GDR. Two optional parts
# (about 12 minutes more) follow the recap.
#
# **After this lab you can** (1) prove which MPI library a process has loaded, and predict the
# *thread level* that it provides (which threads may call it), (2) write the command that starts a
# job with MVAPICH2-GDR, and check the ranks, cores and thread level that a command has started, (3)
# prove from a *timeline*, Horovod's log, which library performed the allreduce, and (4) prove
# whether Horovod passed this library the gradients in GPU memory.
#
# ![Four paths of a gradient from a GPU of one node to a GPU of another: staged through the memory of both hosts, in chunks through pinned buffers, directly between GPU memory and the NIC, and by NCCL](42_paths.svg)
#
# *Four paths from GPU to GPU. On the first, Horovod copies the gradient to host memory before MPI
# sees it. On the second and third, Horovod passes the address in GPU memory to MPI, and on the
# fourth to NCCL.*
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 75 · Level: intermediate · Before: 40

# %%
import itertools
import re

import pandas
from labkit import builds, check, hint, lab, launch, predict, record, world
from labkit.horovod import ranks_here, timeline
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
# The [MVAPICH](@mvapich) project of Ohio State University makes several MPI libraries for GPUs and
# for InfiniBand, a network for clusters. All of them are based on [MPICH](@mpich), which is part of
# this kit. The MVAPICH libraries are:
#
# | library | what it is |
# |---|---|
# | MVAPICH2 | open source; `make mvapich2` builds it in a few minutes, without InfiniBand or a GPU |
# | MVAPICH | the open-source library from version 3 on, the successor of MVAPICH2 |
# | MVAPICH2-GDR | the closed-source build of MVAPICH2 for GPUs and deep learning |
# | MVAPICH-Plus | the successor of MVAPICH2-GDR |
#
# Suppose that you have loaded the cluster's module for MVAPICH2, and your job runs. Does the job
# use MVAPICH2? The name of the library's file proves nothing, because the files of MPICH and
# MVAPICH2 are both called `libmpi.so.12`. A program that was built with one of the two also runs
# with the other, and it loads the file that is found first.
#
# Two sources tell which library a process has loaded:
#
# - The function `MPI_Get_library_version` returns a text with the library's name.
# - Linux lists all files that a process has mapped into its memory in `/proc/self/maps`.
#
# The next cell starts ranks with each MPI library of this machine. It prints three lines for each
# library: its name and version, the beginning of its text, and the file that is mapped.
#
# Check that exactly **one** file is mapped. With two, the process has loaded two MPI libraries, and
# a call can reach either of them. (A longer name, such as `libmpi.so.12.1.1`, is the file to which
# the name `libmpi.so.12` is a link.)

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
# ### Exercise 42.1 · Which MPI library is this?
# Write `which_mpi(text, mpiname)`, which finds the library and its version in two strings.
#
# `text` is what `MPI_Get_library_version` returns. It **begins** with the name of the library's
# family, followed by the version. These are the beginnings for four families:
#
#     'MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date…'
#     'MVAPICH Version:        4.0\nMVAPICH Release date…'
#     'MPICH Version:      5.0.2\nMPICH ABI…'
#     'Open MPI v5.0.11, package: …'
#
# The rest of the text is arbitrary and can mention another family. The following statement looks
# only at the beginning. For the MPICH text above, it finds a match with the family "MPICH", and
# `version[1]` is then "5.0.2". With any other family, `version` is None:
#
#     version = re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)
#
# `mpiname` is the output of `mpiname -a`, a tool of MVAPICH2. We need this second source because a
# text that begins with MVAPICH2 does not exclude MVAPICH2-GDR. However, the shell might find this
# tool in `PATH` although the process has loaded another library, so the text decides first.
#
# The function follows three rules:
#
# 1. Try the four families. The first that matches gives the result, for example
#    `("MPICH", "5.0.2")`.
# 2. If the family is MVAPICH2 **and** `mpiname` contains `MVAPICH2-GDR`, the family in the result
#    is "MVAPICH2-GDR".
# 3. If no family matches, return `(None, None)`. You then have to read the text yourself, for
#    example for MVAPICH-Plus, whose text we have not seen.
#
# About 6 lines. *(beginner)*
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
# Whether that is safe depends on MPI's **thread level**, which states which threads may call MPI. A
# program requests a level when it starts MPI, and MPI provides this level or a lower one. The
# lowest and the highest of the four levels are
#
# - SINGLE: the process may have only one thread.
# - MULTIPLE: every thread may call MPI at any time.
#
# Horovod requests MULTIPLE. Below MULTIPLE, MPI does not use its locks, so two threads that call it
# at the same time can corrupt its internal lists, and the job can crash or hang.
#
# MPICH on a laptop provides MULTIPLE. When does MPI provide less? To answer this for MVAPICH2, we
# need two terms:
#
# - *Binding.* MVAPICH2 **binds** ranks to cores, which means that the threads of a rank may run
#   only on the rank's cores. By default it binds each rank to one core.
# - *Channel.* MVAPICH2 is built for one kind of network, which its documentation calls a *channel*.
#   The channel for InfiniBand is `ch3:mrail`.
#
# With `ch3:mrail`, the level follows a simple rule: **a rank that MVAPICH2 itself binds to one core
# gets SINGLE, and every other rank gets MULTIPLE.**
#
# Among others, two variables change the binding (a rank's *affinity* is the set of cores to which
# it is bound):
#
# - `MV2_ENABLE_AFFINITY=0` switches the binding off. For example, `ch3:mrail` then provides
#   MULTIPLE, also where the launcher or a scheduler such as Slurm has bound the ranks.
# - `MV2_CPU_BINDING_LEVEL=socket` binds a rank to all cores of a socket, that is, of one processor.
#
# ### Predict
# Which level does `ch3:mrail` provide to Horovod in these two cases? Write "MULTIPLE", or "less"
# for any lower level.
#
# - `unset`: you set no variable.
# - `socket`: you set `MV2_CPU_BINDING_LEVEL=socket`.

# %%
predict("42.1", unset="less", socket="MULTIPLE")

# %% [markdown]
# ### Measure
# The next cell starts Horovod on this machine with up to four settings and prints the thread level
# that it gets. Each setting takes 5 to 10 s:
#
# | setting | meaning |
# |---|---|
# | affinity off | `MV2_ENABLE_AFFINITY=0`, as labkit sets it for its ranks |
# | affinity on | as if you had set no variable |
# | affinity on, socket | with `MV2_CPU_BINDING_LEVEL=socket` |
# | asked for less | the control: `HOROVOD_MPI_THREADS_DISABLE=1` makes Horovod request SINGLE |
#
# The cell prints two tables, first yours and then the kit's reference, which we measured with two
# ranks on one node. Your prediction is compared with the reference, because `ch3:mrail` has to be
# built for InfiniBand.
#
# The column `level` is the thread level that Horovod got. For example, the reference's row
# `MPICH 5.0.2`, `ch4:ucx`, `asked for less`, `SINGLE` says that Horovod over MPICH requested SINGLE
# and got it. In the rows for `ch3:mrail`, `less` stands for any level below MULTIPLE.

# %%
columns = ["mpi", "channel", "setting", "level"]
yours = pandas.DataFrame(lab42.levels(inside, ranks, free))[columns]
reference = record.reference(lab.current(), "thread level")[columns]
print("Yours:", yours, "", sep="\n")
print("The kit's reference, not yours:", reference, "", sep="\n")
mrail = reference[reference.channel == "ch3:mrail"].set_index("setting").level
predict.compare("42.1", unset=mrail["affinity on"], socket=mrail["affinity on, socket"])

# %% [markdown]
# **Explain.** Where Horovod requests MULTIPLE, you should see a lower level only in the row
# `affinity on` of `ch3:mrail`. In its row `affinity on, socket` the rank is also bound, but to
# several cores, and gets MULTIPLE.
#
# Your own table might show MULTIPLE in the row `affinity on`. In that case your MVAPICH2 uses
# another channel, such as `ch3:nemesis` for TCP, which does not bind ranks. MPICH does not bind
# ranks either. A laptop without problems therefore proves nothing for the cluster.
#
# In your own scripts, call `hvd.mpi_threads_supported()` after `hvd.init()`. It returns True only
# if the level is MULTIPLE.
#
# How can you get MULTIPLE on a cluster?
# <details><summary>Answer</summary>
#
# - *No binding by MVAPICH2.* The simplest way is `MV2_ENABLE_AFFINITY=0`, provided that another
#   program binds the ranks, as Slurm's launcher does. This variable also switches off
#   MVAPICH2-GDR's own choice of cores near the GPU and the NIC ([its guide](@mvapich2_gdr),
#   sections 9.4 and 13.7).
# - *Several cores for each rank.* The policy `MV2_CPU_BINDING_POLICY=hybrid` keeps this choice, and
#   Horovod still gets MULTIPLE, because each rank is bound to several cores. The policy needs
#   `MV2_THREADS_PER_PROCESS`, the number of cores for each rank.
# </details>

# %% [markdown]
# ## The command that starts a job
# On a laptop, `mpiexec -n 2 python train.py` is enough. On a cluster, a job also starts without an
# error if its command lacks some options. But then each rank may have only a single core, or each
# may run as a separate job. Which variables and options must the command contain?
#
# Whatever starts the ranks, MVAPICH2-GDR needs three **variables** for Horovod:
#
# | variable | what happens without it |
# |---|---|
# | `MV2_USE_CUDA=1` | MVAPICH2-GDR takes an address in GPU memory for one in host memory, and can crash |
# | `MV2_SUPPORT_DL=1` | its guide (7.3) says that it is needed "to run the jobs properly" with Horovod |
# | `MV2_ENABLE_AFFINITY=0` | Horovod gets the level SINGLE, as with MVAPICH2 above |
#
# <details><summary>What else does the guide of MVAPICH2-GDR say?</summary>
#
# `MV2_GPUDIRECT_GDRCOPY_LIB=path of libgdrapi.so` makes short messages faster (lab 27). About
# Horovod the guide says: "do not use the LD_PRELOAD option".
# </details>
#
# Next come the **options** of the launcher. [`srun`](@slurm_srun) is the launcher of Slurm, the
# scheduler of most clusters. For a job with 2 nodes of 4 GPUs each, one rank for each GPU, and 14
# cores for each rank, the command is
#
#     env MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0 \
#         srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4 --cpus-per-task=14 \
#         --gpus-per-node=4 --gpu-bind=none python train.py
#
# The variables come before `srun`, after `env`, because srun passes its own environment to the
# ranks. Three of the options need an explanation:
#
# | option | what can happen without it |
# |---|---|
# | `--mpi=pmi2` | 8 separate programs run, each of which is rank 0, because ranks find each other through PMI2, a Process Management Interface |
# | `--cpus-per-task=14` | many sites give each rank **one** core, on which Horovod's thread and the data loaders run, too. Of 56 cores in a node, 52 are then silently idle |
# | `--gpu-bind=none` | a site might hide the other GPUs, so that a rank cannot reach them directly |
#
# ### Exercise 42.2 · Write the command, and start it
# Write two functions, which one check tests together.
#
# **`variables(flavor)`** returns the environment variables as a dictionary of strings. About 5
# lines. *(beginner)*
#
# | flavor | variables |
# |---|---|
# | "mvapich-plus" | only `MVP_ENABLE_GPU=1`, its default, which we state explicitly: the result is `{"MVP_ENABLE_GPU": "1"}` |
# | "mvapich2", on CPUs | only `MV2_ENABLE_AFFINITY=0` |
# | "mvapich2-gdr" | the three variables of the table that begins with `MV2_USE_CUDA=1` |
#
# **`command(launcher, job, variables, program)`** returns the command above for srun, for any job.
# Its argument `variables` is such a dictionary, and `job` contains the job's size:
#
# - `job.nodes` is the number of nodes, and `job.cores` is the number of cores for each rank.
# - `job.ranks` and `job.gpus` are the numbers of ranks and GPUs on **each** node. If `job.gpus` is
#   0, the options that mention GPUs are left out.
#
# A Python program passes a command to the operating system **as a list of strings**. Each part
# between two spaces is one string, so `-n 8` is two strings and `--nodes=2` is one. The part for
# `mpiexec`, which we use on one machine without Slurm, is given as an example. To start 8 ranks
# with 14 cores each, its command and list are as follows, where `*pairs` inserts all variables and
# `*program` inserts the program:
#
#     env MV2_ENABLE_AFFINITY=0 OMP_NUM_THREADS=14 mpiexec -n 8 -bind-to core:14 python train.py
#
#     ["env", *pairs, "OMP_NUM_THREADS=14", "mpiexec", "-n", "8", "-bind-to", "core:14", *program]
#
# (`OMP_NUM_THREADS=14` allows each rank 14 threads for computing. The command for srun does not set
# it.)
#
# Write the part for srun. About 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: variables, and an option with a number</summary>
#
# `{"MV2_ENABLE_AFFINITY": "0"}` is the dictionary of "mvapich2". In the command for srun,
# `f"--nodes={job.nodes}"` is one string of the list.
# </details>
# <details><summary>Hint 2: nearly the answer of the second function</summary>
#
# `["env", *pairs, "srun", "--mpi=pmi2", f"--nodes={job.nodes}", …, *gpus, *program]`, where `gpus`
# is `[]` or `[f"--gpus-per-node={job.gpus}", "--gpu-bind=none"]`.
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


# %%
def command(launcher, job, variables, program):
    """The strings that start program (a list). launcher: "srun" or "mpiexec"."""
    pairs = [f"{name}={value}" for name, value in variables.items()]
    if launcher == "mpiexec":
        threads, ranks = f"OMP_NUM_THREADS={job.cores}", str(job.nodes * job.ranks)
        bound = ["-bind-to", f"core:{job.cores}"]
        return ["env", *pairs, threads, "mpiexec", "-n", ranks, *bound, *program]
    ### BEGIN SOLUTION
    size = [f"--nodes={job.nodes}", f"--ntasks-per-node={job.ranks}"]
    size += [f"--cpus-per-task={job.cores}"]
    gpus = [f"--gpus-per-node={job.gpus}", "--gpu-bind=none"] if job.gpus else []
    return ["env", *pairs, "srun", "--mpi=pmi2", *size, *gpus, *program]
    ### END SOLUTION


# %%
check("42.2", variables, command)

# %% [markdown]
# ### Measure
# Now start your command, with srun on two nodes if Slurm is available, and otherwise with mpiexec
# on this machine. (In the command for srun, the site's own `--mpi=…` replaces yours.)
#
# The program performs an allreduce of a gradient of 16 MiB, and prints one row for each rank. This
# takes about 10 s for each MPI library. The row has these columns:
#
# | column | what it shows | if the command is right |
# |---|---|---|
# | rank, host | the rank, and its node | every rank occurs exactly once |
# | cores | how many cores the rank may use | the requested number, here 1 (more on a tabletop cluster, which simulates nodes on one machine and does not bind ranks) |
# | mpi | its MPI library | one of those that the cell before exercise 42.1 named |
# | level | the thread level that this library provides if MULTIPLE is requested, as by Horovod | MULTIPLE |
# | staged | whether the gradient was first copied from the GPU to host memory | False; True only if the gradient is on a GPU and MPI cannot read GPU memory |
# | MB/s | bytes of the gradient, divided by the seconds of its allreduce | no fixed value; ranks on two nodes cannot exceed the bandwidth of their network |

# %%
if free:
    lab42.start_here(command, variables, mpis)
else:
    print("This is a job already, so no command is started.")

# %% [markdown]
# **Explain.** If `rank`, `cores` and `level` are as this table says, the command has started what
# it should. Otherwise, look for one of these faults:
#
# - *Fewer cores than requested.* Horovod's thread and the data loaders of a rank share a core.
# - *Ranks that do not find each other*, for example without `--mpi=pmi2`. This program stops with
#   an error, but your own script might run on, as several separate jobs.
# - *A lower level.* On a cluster, `level` tells you whether your variables have worked.
#
# What would you check first if `level` were SINGLE on a cluster, with MVAPICH2 and its channel
# `ch3:mrail`?
# <details><summary>Answer</summary>
#
# Print `os.environ.get("MV2_ENABLE_AFFINITY")` on a rank. If it is not "0", the variable did not
# reach the rank, for example because srun was given `--export=NONE`, or because a script sets the
# variable again.
# </details>

# %% [markdown]
# ## Which library performed the allreduce?
# Suppose that a job runs with the right ranks and the right MPI. Did this MPI also average the
# gradients? `hvd.mpi_built()` only tells you which library *could* be used. The **timeline** tells
# you which library *was* used. If you set `HOROVOD_TIMELINE=file`, rank 0 writes every *activity*
# of every tensor to this file, that is, what Horovod does with the tensor, and when.
#
# The next cell trains for three steps with three gradients. It prints the first 18 activities in
# the order in which they began, each with its time and its tensor. (The last lines might belong to
# the second step.)

# %%
short_run = lab42.trained({"short": {}}, (3, 64, 3), ranks, mpis[0])["short"].events or []
activities = timeline.activities(short_run)
own = [activity for activity in activities if activity.tensor.startswith("allreduce")]
for activity in own[:18]:
    print(f"{1e3 * activity.start:>10.2f} ms  {activity.tensor:<22}{activity.name}")

# %% [markdown]
# Choose one tensor, and follow it from top to bottom:
#
# | activity | what happens |
# |---|---|
# | NEGOTIATE_ALLREDUCE | Horovod waits until every rank has this gradient |
# | ALLREDUCE | the whole operation, which contains the activities below |
# | INIT_FUSION_BUFFER | Horovod allocates, only once, the buffer in which gradients are fused into one message |
# | MEMCPY_IN_FUSION_BUFFER | the gradient is copied into the buffer |
# | MPI_ALLREDUCE | one call of the library processes the whole content of the buffer, or the one tensor |
# | MEMCPY_OUT_FUSION_BUFFER | the sum is copied out of the buffer |
#
# A tensor that is sent alone does not need the buffer, so it has no activities with FUSION_BUFFER.

# %% [markdown]
# ### Exercise 42.3 · Which library, in how many calls?
# *(The exercise to do in the track "PPoPP hands-on, 90 minutes".)*
#
# An activity belongs to a library if its name begins with the library's name (MPI, GLOO, NCCL, CCL)
# and `_`. In **one** call, a library has such an activity for each tensor of the call, and these
# begin directly one after the other. Other activities begin between two calls.
#
# For example, take these activities, in the order in which they began:
#
#     MPI_ALLREDUCE              MPI_ALLREDUCE               one call with 2 tensors
#     MEMCPY_OUT_FUSION_BUFFER   MEMCPY_OUT_FUSION_BUFFER    copies, no call of a library
#     MPI_ALLREDUCE                                          one call with 1 tensor
#
# Together, `MPI_ALLREDUCE` has 2 calls with 3 tensors, so `carried` returns
# `{"MPI_ALLREDUCE": (2, 3)}`.
#
# The loop in `carried` goes through groups of equal activities, such as the three lines above. In
# each turn, `name` is the activity, and `count` is the size of the group (above 2, 2 and 1). For
# each activity of a library, store (calls, tensors) in `proof`. About 3 lines. *(beginner)*
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
# A step of the network below averages 12 gradients of 256 KiB each. How many allreduce calls does
# MPI perform in a step?
#
# - `calls_unfused`: with `HOROVOD_FUSION_THRESHOLD=0`, which switches the fusion buffer off.
# - `calls_fused_at_best`: with the default buffer of 128 MiB, in the step with the fewest calls.

# %%
predict("42.3", calls_unfused=12, calls_fused_at_best=1)

# %% [markdown]
# ### Measure
# The network is trained over each MPI library with fusion (*fused*) and without it (*unfused*). The
# control is [Gloo](@gloo), a library for collectives over TCP that this kit's Horovod contains. Its
# timeline must contain Gloo's name and must not contain MPI's. This takes about half a minute, or a
# minute on a busy machine.

# %%
ways = {"fused": {}, "unfused": {"HOROVOD_FUSION_THRESHOLD": "0"}}
gloo = {"fused": {"HOROVOD_CPU_OPERATIONS": "gloo"}}
size = (layers, width, steps)
results = {library: lab42.trained(ways, size, ranks, mpi) for mpi, library in libraries.items()}
if free:  # in a job the build of Horovod may have another library carry
    results["Gloo"] = lab42.trained(gloo, size, ranks)

# %% [markdown]
# Your `carried` now reads these timelines. A timeline contains many steps, and a step has one
# tensor for each of the 12 gradients. For example, if `carried` returns 60 calls with 480 tensors,
# these are 480 / 12 = 40 steps, and 60 / 40 = 1.5 calls per step.
#
# Each line of the output names the library of a run, the operations in its timeline, and the
# average number of calls per step. The last two numbers are the fewest and the most calls in one
# step, which labkit counts. Your prediction is compared with the fewest.

# %%
nodes = launch.nodes_here()
per_step = lab42.calls_per_step(carried, results, layers, ranks=ranks, nodes=nodes)
best = {way: min(per_step[library, way].fewest for library in libraries.values()) for way in ways}
predict.compare("42.3", calls_unfused=best["unfused"], calls_fused_at_best=best["fused"])

# %% [markdown]
# **Explain.** *The names.* You should see only `MPI_ALLREDUCE` in the lines of the MPI libraries,
# and only `GLOO_ALLREDUCE` in the line of Gloo. A timeline therefore distinguishes MPI from Gloo,
# but not MPICH from MVAPICH2, for which you need exercise 42.1.
#
# *The calls.* Without fusion each step takes 12 calls. With fusion, you should see an average of 1
# to 3 calls. Why is it not 1 in each step?
# <details><summary>Answer</summary>
#
# Horovod's background thread wakes up once per millisecond (lab 44 tries a longer cycle) and fuses
# the gradients that are ready at that moment. The first ones are sent without those that become
# ready later.
# </details>

# %% [markdown]
# ## Did my gradients stay on the GPU?
# A GPU job can be slow because its gradients are silently copied through host memory. In 2018, for
# example, a user found MPI_ALLREDUCE and no NCCL_ALLREDUCE in his timeline, because his Horovod had
# been built without NCCL ([Horovod's issue 321](@horovod_issue_321)).
#
# You can learn to read such timelines without a GPU, because they are only text. First you need to
# know what receives a gradient that is on a GPU, which depends on how Horovod was built:
#
# | build | what receives the gradient |
# |---|---|
# | `nccl` | NCCL gets the gradient's address in GPU memory |
# | `mpi` | MPI gets this address, which it must be able to accept (**CUDA-aware** MPI) |
# | `host` | Horovod first copies the gradient to host memory, and MPI or Gloo process the copy |
#
# In a timeline, the activities of each tensor form one row. The next cell prints the row of one
# gradient for each of four jobs. (The first row was recorded on a CPU. The others were derived from
# the source code of Horovod 0.28.1, because we had no file of a GPU job.)

# %%
lab42.show_rows(lab42.JOURNEYS[:4])

# %% [markdown]
# Compare the third and the fourth row: **they are identical.** The timeline alone therefore does
# not show whether MPI received GPU memory. To find out, you also need to know where your gradients
# are (`gradient.device`) and which build you use.
#
# Does the build `nccl` exclude a copy to host memory? The next cell prints a fifth row.

# %%
lab42.show_rows(lab42.JOURNEYS[4:5])

# %% [markdown]
# It does not. The fifth row looks like the third and the fourth, although the build is `nccl`. When
# Horovod is built, NCCL can be chosen for single operations, for example with
# `HOROVOD_GPU_BROADCAST=NCCL` (lab 43). No library was chosen for the allreduce of this job, so
# Horovod copies the gradient to host memory, as in the build `host`.
#
# These names tell you something:
#
# | in the row of a GPU's gradient | what it tells you |
# |---|---|
# | a name that begins with `NCCL_` | NCCL transferred GPU memory, at least on a part of the path |
# | `MEMCPY_IN_HOST_BUFFER` | a copy to host memory, for MPI between the nodes |
# | `MPI_…` without these two, build `mpi` | MPI received GPU memory |
# | `MPI_…` without these two, other builds | MPI received a copy in host memory |
# | `GLOO_…` | Gloo received a copy in host memory (build `host`) |
#
# Two other names tell you nothing:
#
# - `MEMCPY_IN_FUSION_BUFFER`: this buffer can be in GPU or in host memory.
# - `WAIT_FOR_DATA`: a build with CUDA writes this name for CPU tensors, too.

# %% [markdown]
# ### Exercise 42.4 · Tell the way
# Write `way_of(activities, device, build)` for the row of one gradient. `activities` are the names
# in the row, `device` is where the gradient is, and `build` is "host", "nccl" or "mpi". The
# function returns one of four strings:
#
# | string | when |
# |---|---|
# | `"CPU tensors"` | the gradient is not on a GPU |
# | `"staged through the host"` | the gradient is copied to host memory, on the whole path or between the nodes |
# | `"stayed on the GPU"` | NCCL transferred it, and Horovod did not copy it to the host (NCCL itself may still use host memory) |
# | `"CUDA-aware MPI"` | Horovod passed GPU memory to MPI |
#
# For example, take a gradient on `cuda:0`, the build `host`, and the row
# `MEMCPY_IN_FUSION_BUFFER GLOO_ALLREDUCE MEMCPY_OUT_FUSION_BUFFER`. The gradient is on a GPU, so we
# look for `MEMCPY_IN_HOST_BUFFER` and for a name that begins with `NCCL_`, and find neither. The
# build is not `mpi` either, so the library received a copy in host memory, and the gradient was
# `"staged through the host"`.
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

# %% [markdown]
# ### Measure: your own gradients
# The next cell applies your `way_of` to every gradient that you trained above with fusion, and
# prints how many took which way and, for comparison, what labkit says about these tensors.

# %%
for library in libraries.values():
    training = results[library]["fused"]
    for way, count in lab42.ways_of_gradients(way_of, training).items():
        print(f"{library}: {count} gradients, {way}. labkit says: {training.where.describe()}")

# %% [markdown]
# **Explain.** On a machine without GPUs all gradients are CPU tensors, so the timeline should show
# MPI. On GPUs, the result depends on the build:
#
# - With `make run LAB=42 HOROVOD=nccl`, the gradients should stay on the GPU.
# - `HOROVOD=mpi` is the build for MVAPICH2-GDR, which passes the GPU's memory to MPI.
#
# Does "CUDA-aware MPI" mean that no data passes through host memory?
# <details><summary>Answer</summary>
#
# No. The timeline does not show what MPI does with GPU memory. By MVAPICH2-GDR's guide (13), the
# NIC itself accesses GPU memory only up to these message sizes:
#
# | the NIC | limit | bytes |
# |---|---|---|
# | reads data from the GPU | `MV2_GPUDIRECT_LIMIT` | 8192 (nominally) |
# | writes data to the GPU | `MV2_USE_GPUDIRECT_RECEIVE_LIMIT` | 131072 |
#
# Between nodes, longer messages are sent in chunks through host memory, the second path in the
# figure at the top. Lab 27 measures such paths.
#
# A name with `NCCL_` does not exclude host memory, either, because NCCL's path SHM uses it (lab
# 43).
# </details>

# %% [markdown]
# ### What you take away
# - The text of `MPI_Get_library_version` and the list in `/proc/self/maps` prove which library is
#   loaded. The name of a file does not.
# - Horovod requests the thread level MULTIPLE. By default MVAPICH2 over InfiniBand binds a rank to
#   one core and provides SINGLE, so set `MV2_ENABLE_AFFINITY=0`.
# - For GDR, put `MV2_USE_CUDA=1 MV2_SUPPORT_DL=1` into the environment of the ranks, and request
#   **cores for each rank**.
# - The timeline proves which library performed the allreduce. Together with the device of the
#   gradients and Horovod's build, it also proves whether Horovod passed them from the GPU's memory
#   to this library. Lab 43 continues with NCCL.

# %% [markdown]
# ## Going further (optional): MVAPICH2's own launcher (10 minutes)
# MVAPICH2's launcher, `mpirun_rsh`, needs no Slurm. For the job of exercise 42.2, with 2 nodes, 4
# GPUs on each and 14 cores for each rank, the command is
#
#     mpirun_rsh -export-all -np 8 -hostfile hosts \
#         MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0 OMP_NUM_THREADS=14 python train.py
#
# | string | what can happen without it |
# |---|---|
# | `-export-all` | ranks on other nodes do not get your environment |
# | `-hostfile hosts` | the next arguments are taken for host names. The file `hosts` has a line `node1:4` for each node |
# | `OMP_NUM_THREADS=14` | each rank starts a thread for every core of the node, because mpirun_rsh does not bind ranks |
#
# mpirun_rsh treats an argument with a `=` as a variable only *directly before* the program, because
# arguments after the program belong to the program.

# %% [markdown]
# ### Exercise 42.5 · The command for mpirun_rsh (optional)
# Write `rsh_command`, which returns this command for any job as a list of strings. The file is
# always called `hosts`, and the command does not mention the number of GPUs. The command is only
# checked, not run. About 2 lines. *(intermediate)*
#
# <details><summary>Hint 1: how many strings?</summary>
#
# `-np 8` is two strings, of which the second is `str(job.nodes * job.ranks)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `["mpirun_rsh", "-export-all", "-np", …, "-hostfile", "hosts", *pairs, …, *program]`
# </details>


# %%
def rsh_command(job, variables, program):
    """The strings that start program (a list) with mpirun_rsh."""
    pairs = [f"{name}={value}" for name, value in variables.items()]
    ### BEGIN SOLUTION
    ranks, threads = str(job.nodes * job.ranks), f"OMP_NUM_THREADS={job.cores}"
    start = ["mpirun_rsh", "-export-all", "-np", ranks, "-hostfile", "hosts"]
    return [*start, *pairs, threads, *program]
    ### END SOLUTION


# %%
check("42.5", rsh_command)

# %% [markdown]
# ## Going further (optional): two nodes (2 minutes)
# `make submit LAB=42 NODES=2 MPI=mvapich2` runs this lab as a job, and `make tabletop` starts two
# nodes on this machine for it. While the job runs, you can continue. The timelines of the job prove
# which library performed the allreduce between the nodes. `make results` names the file with the
# job's output, whose lines contain the operations, such as `MPI_ALLREDUCE`.
#
# ### Further reading
# - [@mvapich2_gdr] Section 7.3 describes Horovod, section 9 the binding of ranks, and section 13
#   the variables for GPUs.
# - [@awan2019] Measurements of TensorFlow and Horovod over MVAPICH2-GDR and NCCL on GPU clusters.
# - [@horovod_mpi] Horovod's own page about running with MPI.
# - [@horovod_timeline] All activities of the timeline, and how to view it.
# - [@gpudirect_rdma] How a network card reads and writes GPU memory, and which hardware can do it.

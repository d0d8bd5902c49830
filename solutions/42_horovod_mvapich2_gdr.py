# %% [markdown]
# # 42 Horovod over MVAPICH2-GDR
#
# MVAPICH2-GDR is an MPI library that can send a gradient directly from the memory of one GPU to
# that of another. GDR stands for GPUDirect RDMA (remote direct memory access), the technique in
# which a network interface card (NIC) reads and writes GPU memory itself. A job uses it only if
# many environment variables, modules and options are right.
#
# If one of them is wrong, the job usually still runs. It is merely slower, because the gradients
# take a detour through another library or through the host's memory. Or two threads call an MPI
# library that was initialized for one, which can crash the job weeks later.
#
# In this lab we learn to *prove* what a job does: which MPI library a process has loaded, which
# thread level Horovod was granted, which library performed the allreduce, and whether the gradients
# stayed on the GPU. All four proofs run on a laptop, and you use the same ones on a cluster. Along
# the way we write the command that launches a job with MVAPICH2-GDR.
#
# **After this lab you can** (1) prove which MPI library a process has loaded and which thread level
# Horovod is granted, (2) write the command that starts a job with MVAPICH2-GDR, and check what a
# command has started, (3) prove from a timeline which library performed the allreduce, and (4)
# prove whether the gradients stayed on the GPU.
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
from labkit import builds, check, hint, home, lab, launch, predict, record, world
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
# Suppose that you have loaded the cluster's module for MVAPICH2, and your job runs. Does it use
# this library? The name of the library's file proves nothing, because the files of MPICH and
# MVAPICH2 are both called `libmpi.so.12`. (A longer name, such as `libmpi.so.12.1.1`, is the file
# to which this name is a link.) A program built with one also runs with the other, whichever is
# found first.
#
# MPI stands for Message Passing Interface. [MVAPICH](@mvapich) is a family of MPI libraries from
# Ohio State University, made for InfiniBand and GPUs, and based on [MPICH](@mpich), which this kit
# contains:
#
# | library | what it is |
# |---|---|
# | MVAPICH2 | open source; `make mvapich2` builds it in a few minutes, without InfiniBand or a GPU |
# | MVAPICH2-GDR | the closed-source build of MVAPICH2 for GPUs and deep learning |
# | MVAPICH-Plus | the successor of MVAPICH2-GDR |
#
# Two sources tell which library a process has loaded. The function `MPI_Get_library_version`
# returns a text with its name, and Linux lists all files that a process has mapped into its memory
# in `/proc/self/maps`. The next cell starts ranks with each MPI library of this machine. It prints
# the library, the beginning of its text and the mapped file, of which there must be exactly
# **one**.

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
# There is one special case, because the text of MVAPICH2-GDR says MVAPICH2. The output of its tool
# `mpiname -a` contains `MVAPICH2-GDR`, but the shell might find this tool in `PATH` although the
# process has loaded another library. Therefore believe `mpiname` only if the text says MVAPICH2.
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
# With MPICH on a laptop this is safe. On a cluster the same script can crash or hang, if MPI was
# not prepared for two threads.
#
# MPI's **thread level** states for which use of threads it is prepared. A program requests a level
# when it starts MPI, and MPI provides this level or a lower one. These are the lowest and the
# highest of the four levels:
#
# | level | which threads may call MPI |
# |---|---|
# | SINGLE | the process has only one thread |
# | MULTIPLE | every thread, at any time |
#
# Horovod requests MULTIPLE. Below MULTIPLE, MPI does not use its locks, so two threads that call it
# at the same time corrupt its internal lists.
#
# When does MPI provide less? MVAPICH2 **binds** ranks to cores, which means that the threads of a
# rank may run only on the rank's cores. The part of MVAPICH2 for InfiniBand, its *device*
# `ch3:mrail`, follows a simple rule: **a rank that is bound to one core gets SINGLE, and every
# other rank gets MULTIPLE.** By default it binds each rank to one core. Two variables change this:
#
# - `MV2_ENABLE_AFFINITY=0` switches the binding off.
# - `MV2_CPU_BINDING_LEVEL=socket` binds a rank to all cores of a socket.
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
# The column `channel` names the device, and `level` is the thread level that Horovod got. The
# device `ch3:mrail` needs InfiniBand, so your prediction is compared with the kit's reference,
# which was measured with it. There, `less` stands for any level below MULTIPLE. Each row takes
# about 5 s.

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
# **Explain.** Among all rows in which Horovod requests MULTIPLE, you should see a lower level only
# for `ch3:mrail` with affinity on. With `socket` the rank is also bound, but to several cores, and
# gets MULTIPLE.
#
# Your own table might show MULTIPLE with affinity on. In that case your MVAPICH2 uses another
# device, such as `ch3:nemesis:tcp`, which does not bind ranks, and neither does MPICH. A laptop
# without problems therefore proves nothing for the cluster.
#
# How can you get MULTIPLE on a cluster?
# <details><summary>Answer</summary>
#
# The simplest way is `MV2_ENABLE_AFFINITY=0`, provided that another program binds the ranks, as
# srun does. It also switches off MVAPICH2-GDR's own choice of cores near the GPU and the NIC ([its
# guide](@mvapich2_gdr), sections 9.4 and 13.7). The policy `MV2_CPU_BINDING_POLICY=hybrid` keeps
# this choice, and Horovod still gets MULTIPLE, because each rank is bound to several cores. It
# needs `MV2_THREADS_PER_PROCESS`, the number of cores for each rank.
# </details>
#
# ## The command that starts a job
# On a laptop, `mpiexec -n 2 python train.py` is enough. On a cluster, a command without some of its
# options starts without an error, too. But then each rank may have a single core, or be a job of
# its own. Which options must the command contain?
#
# Suppose that a job has 2 nodes with 4 GPUs each, one rank for each GPU, and 14 cores for each
# rank. Whatever starts the ranks, MVAPICH2-GDR needs three variables for Horovod:
#
# | variable | what happens without it |
# |---|---|
# | `MV2_USE_CUDA=1` | MVAPICH2-GDR takes an address in GPU memory for one in host memory, and can crash |
# | `MV2_SUPPORT_DL=1` | its guide (7.3) says that it is needed "to run the jobs properly" with Horovod |
# | `MV2_ENABLE_AFFINITY=0` | Horovod gets the level SINGLE, as above |
#
# [`srun`](@slurm_srun) is the launcher of Slurm, the scheduler of most clusters. It does not accept
# variables, so they stand before it, after `env`:
#
#     env MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0 \
#         srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4 --cpus-per-task=14 \
#         --gpus-per-node=4 --gpu-bind=none python train.py
#
# Without `--cpus-per-task=14`, many sites give each rank **one** core, for Horovod's thread and the
# data loaders, too. If a node has 56 cores, 52 of them are then silently idle.
#
# MVAPICH2's own launcher is `mpirun_rsh`. It treats an argument with a `=` as a variable only
# *directly before* the program, because arguments after the program belong to the program:
#
#     mpirun_rsh -export-all -np 8 -hostfile hosts \
#         MV2_USE_CUDA=1 MV2_SUPPORT_DL=1 MV2_ENABLE_AFFINITY=0 OMP_NUM_THREADS=14 python train.py
#
# `OMP_NUM_THREADS=14` limits the threads of a rank. Because mpirun_rsh does not bind ranks, each of
# them would otherwise start a thread for every core of the node.
#
# <details><summary>What do the other options do?</summary>
#
# | option | what can happen without it |
# |---|---|
# | srun's `--mpi=pmi2` | 8 separate programs run, each of which is rank 0, because ranks find each other through PMI2, a Process Management Interface |
# | srun's `--gpu-bind=none` | a site might hide the other GPUs, so that a rank cannot reach them directly |
# | mpirun_rsh's `-export-all` | ranks on other nodes do not get your environment |
# | mpirun_rsh's `-hostfile hosts` | the next arguments are taken for host names. The file `hosts` has a line `node1:4` for each node |
#
# With MVAPICH2-GDR, `MV2_GPUDIRECT_GDRCOPY_LIB=path of libgdrapi.so` makes short messages faster
# (lab 27). The guide says about Horovod: "do not use the LD_PRELOAD option".
# </details>
#
# ### Exercise 42.2 · Write the command, and start it
# `variables` returns the environment variables for a flavor of MVAPICH, as a dictionary of strings:
#
# | flavor | variables |
# |---|---|
# | `mvapich2`, on CPUs | `MV2_ENABLE_AFFINITY=0` |
# | `mvapich2-gdr` | the three `MV2_` variables of the first table |
# | `mvapich-plus` | only `MVP_ENABLE_GPU=1`, its default, which we state explicitly |
#
# `command` returns the command for a job, as a list of strings. Write the two commands above for
# any job:
#
# - `job.nodes` is the number of nodes. `job.ranks` and `job.gpus` are the numbers of ranks and GPUs
#   on each node, and `job.cores` is the number of cores for each rank.
# - If `job.gpus` is 0, the command does not mention GPUs.
# - The name of the file, `hosts`, is always the same.
# - The command for srun does not contain `threads`, because Slurm gives each rank its cores.
#
# The command for a third launcher, `mpiexec`, is in the cell as an example. It starts ranks on one
# machine without Slurm, and `-bind-to core:14` gives each of them 14 cores. About 12 lines in all.
# *(intermediate)*
#
# <details><summary>Hint 1: a list of strings</summary>
#
# In a list, `*pairs` inserts all variables and `*program` inserts the program. Whatever stands
# between two spaces in the command is one string: `f"--nodes={job.nodes}"` is one, whereas `-np 8`
# is two.
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
# Now start your command, with srun on two nodes if Slurm is available, and otherwise with mpiexec
# on this machine. (In the command for srun, the site's own `--mpi=…` replaces yours. The command
# for mpirun_rsh is only checked, not run.)
#
# The output has one row for each rank: its node (`host`), the number of cores that it may use, and
# its MPI library. All ranks perform an allreduce of a gradient of 16 MiB with this library, and
# `MB/s` is the number of bytes divided by the seconds. `staged` tells whether the gradient was
# first copied from the GPU to host memory. This takes about 10 s for each MPI library.

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
    columns = ["rank", "host", "cores", "mpi", "staged", "MB/s"]
    print(pandas.DataFrame(answers)[columns].to_string(index=False), "\n")

# %% [markdown]
# **Explain.** Check two things: every number in the column `rank` occurs exactly once, and `cores`
# is the number that the command requested for each rank, here 1. If both are true, the command does
# what it says. (On a tabletop cluster `cores` is larger, because its nodes do not bind ranks.) With
# MVAPICH2-GDR on GPUs and `MV2_USE_CUDA=1`, `staged` is False.
#
# ## Which library performed the allreduce?
# Your command has started the right ranks with the right MPI. Did this MPI also average the
# gradients? `hvd.mpi_built()` only tells you which library *could* be used. The **timeline** tells
# you which one *was*: with `HOROVOD_TIMELINE=file`, rank 0 writes every activity of every tensor to
# a file. The next cell trains for three steps with three gradients. It prints the first activities
# in the order in which they began, each with its time and its tensor:


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
# Choose one tensor, and follow it from top to bottom:
#
# | activity | what happens |
# |---|---|
# | NEGOTIATE_ALLREDUCE | Horovod waits until every rank has this gradient |
# | ALLREDUCE | the whole operation, which contains the activities below |
# | INIT_FUSION_BUFFER | Horovod allocates, only once, the buffer in which gradients are fused into one message |
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
# Each MPI library trains with fusion (*fused*) and without it (*unfused*). The control is
# [Gloo](@gloo), a library for collectives over TCP that this kit's Horovod contains. Its timeline
# must contain Gloo's name and must not contain MPI's. Each line of the output names the library of
# a run, the operations that `carried` found in its timeline, and the calls per step. This takes
# about half a minute.

# %%
ways = {"fused": {}, "unfused": {"HOROVOD_FUSION_THRESHOLD": "0"}}
results = {library: run(ways, mpi) for mpi, library in libraries.items()}
if free:  # in a job the build of Horovod may have another library carry
    results["Gloo"] = run({"fused": {"HOROVOD_CPU_OPERATIONS": "gloo"}})

# %%
# Judges each timeline by `carried`, which counts calls and tensors over all steps. A step has one
# tensor for each of the `layers`, so it takes calls * layers / tensors calls.
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
# and only `GLOO_ALLREDUCE` in the line of Gloo. A timeline therefore distinguishes MPI from Gloo,
# but not MPICH from MVAPICH2, for which you need exercise 42.1.
#
# *The calls.* Without fusion a step takes 12 calls, and with fusion 1 to 3 calls, averaged over all
# steps. Why is it not always 1?
# <details><summary>Answer</summary>
#
# Horovod's background thread wakes up once per millisecond (lab 44 tries a longer cycle) and fuses
# the gradients that are ready at that moment. The first ones are sent without those that become
# ready later.
# </details>
#
# ## Did my gradients stay on the GPU?
# A GPU job can be slow because its gradients are silently copied through host memory. In 2018, for
# example, a user found MPI_ALLREDUCE and no NCCL_ALLREDUCE in his timeline, because his Horovod had
# been built without NCCL ([Horovod's issue 321](@horovod_issue_321)). You can learn to read such
# timelines without a GPU, because they are only text.
#
# Who receives a gradient that is on a GPU? Horovod is built in one of three ways:
#
# | build | what receives the gradient |
# |---|---|
# | `nccl` | NCCL gets the gradient's address in GPU memory |
# | `mpi` | MPI gets this address, which it must be able to accept (**CUDA-aware** MPI) |
# | `host` | Horovod first copies the gradient to host memory, and MPI or Gloo process the copy |
#
# A timeline has one row for each tensor. The next cell prints the row of one gradient for each of
# five jobs. (The first row was recorded on a CPU. The others were derived from the source code of
# Horovod 0.28.1, because we had no file of a GPU job.)

# %%
for journey in lab42.JOURNEYS[:5]:
    print(f"{journey.told} (gradients on {journey.device}, build {journey.build!r} of Horovod):")
    print("   ", " ".join(journey.activities), "\n")

# %% [markdown]
# Compare the third and the fourth row: **they are identical.** The timeline alone therefore does
# not show whether MPI received GPU memory. You need two more facts: where your gradients are
# (`gradient.device`), and which build you use.
#
# The fifth row looks the same, too, although the build is `nccl`. Whoever builds Horovod can choose
# NCCL for a single operation, for example with `HOROVOD_GPU_BROADCAST=NCCL` (lab 43). No library
# was chosen for the allreduce of this job, so Horovod copies the gradient to host memory, as in the
# build `host`.
#
# | in the row of a GPU's gradient | what it tells you |
# |---|---|
# | a name that begins with `NCCL_` | NCCL transferred GPU memory, at least on a part of the path |
# | `MEMCPY_IN_HOST_BUFFER` | a copy to host memory, for MPI between the nodes |
# | `MPI_…` without these two | build `mpi`: MPI received GPU memory; other builds: a copy in host memory |
# | `GLOO_…` | Gloo received a copy in host memory (build `host`) |
#
# Two names tell you nothing: the buffer of `MEMCPY_IN_FUSION_BUFFER` can be in GPU or in host
# memory, and a build with CUDA writes `WAIT_FOR_DATA` for CPU tensors, too.
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
# `HOROVOD=mpi` is the build for MVAPICH2-GDR, which passes the GPU's memory to MPI.
#
# Does "CUDA-aware MPI" mean that no data passes through host memory?
# <details><summary>Answer</summary>
#
# No. The timeline does not show what MPI does with GPU memory. By MVAPICH2-GDR's guide (13), the
# NIC reads data from the GPU itself only up to `MV2_GPUDIRECT_LIMIT` (nominally 8192 bytes), and
# writes data there up to `MV2_USE_GPUDIRECT_RECEIVE_LIMIT` (131072). Between nodes, longer messages
# are sent in chunks through host memory, the second path in the figure at the top. Lab 27 measures
# such paths.
# </details>
#
# ### What you take away
# - The text of `MPI_Get_library_version` and the list in `/proc/self/maps` prove which library is
#   loaded. The name of a file does not.
# - Horovod requests the thread level MULTIPLE. By default MVAPICH2 over InfiniBand binds a rank to
#   one core and provides SINGLE, so set `MV2_ENABLE_AFFINITY=0`.
# - For GDR, put `MV2_USE_CUDA=1 MV2_SUPPORT_DL=1` before the program, and request **cores for each
#   rank**.
# - The timeline proves which library performed the allreduce. Together with the device of the
#   gradients and Horovod's build, it also proves whether they stayed on the GPU. Lab 43 continues
#   with NCCL.
#
# ## Going further (optional): two nodes
# `make submit LAB=42 NODES=2 MPI=mvapich2` runs this lab as a job, and `make tabletop` starts two
# nodes on this machine for it. Its timelines prove which library performed the allreduce between
# the nodes. `make results` names the file with the job's output, whose lines contain the
# operations, such as `MPI_ALLREDUCE`.
#
# ### Further reading
# - [@mvapich2_gdr] Section 7.3 describes Horovod, section 9 the binding of ranks, and section 13
#   the variables for GPUs.
# - [@awan2019] Measurements of TensorFlow and Horovod over MVAPICH2-GDR and NCCL on GPU clusters.
# - [@horovod_mpi] Horovod's own page about running with MPI.
# - [@horovod_timeline] All activities of the timeline, and how to view it.
# - [@gpudirect_rdma] How a network card reads and writes GPU memory, and which hardware can do it.

# %% [markdown]
# # 42 Horovod over MVAPICH2-GDR
#
# MVAPICH2-GDR moves gradients from GPU to GPU by itself. Loaded or called in another way, the job still runs:
# slower, through another library, or one thread short. Here you learn to *prove* what a job does.
#
# **You will be able to** (1) prove which MPI library a process holds, (2) say which thread level Horovod is
# given, and mend it, (3) write the line that starts a job with MVAPICH2-GDR, and start it, (4) prove from a
# timeline which library carried the gradients, and (5) whether they stayed on the GPU.
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 60 · Before: 40

# %%
import itertools
import re
from collections import Counter

import pandas
from labkit import builds, check, cluster, expect, hint, home, lab, launch, plots, predict, record, world
from labkit.horovod import timeline, train_ways
from support import lab42

lab.start("42_horovod_mvapich2_gdr")
ranks = launch.ranks_here(2)
free = not world.launcher()  # inside a job the ranks run already, over the MPI that started them
mpis = list(builds.mpi_builds()) if free else [None]  # the MPI libraries here; None: that of the job

# %% tags=["parameters"]
layers = 12  # weight matrices of the net, each with a gradient of its own
width = 256  # rows and columns of a matrix: 256 KiB
steps = 20  # timed training steps in a round
rounds = 3  # of each way to train; the ways take turns

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes" the exercise to do here is 42.3. It needs no other exercise: run
# the next code cell, and go on at "The line that starts a job".*

#
# | library | what it is | takes GPU memory |
# |---|---|---|
# | MVAPICH2 2.3.7 | open source, for InfiniBand; the last 2.x | built with CUDA, and with `MV2_USE_CUDA=1` |
# | MVAPICH2-GDR 2.3.7 | closed build of it: GPUDirect RDMA, deep learning | with `MV2_USE_CUDA=1` |
# | MVAPICH 3, 4 | open source, a new core over UCX or libfabric | if built so; Spack's recipe says no |
# | MVAPICH-Plus 4, 5 | closed build of that, GDR's successor | yes: `MVP_ENABLE_GPU=1` is the default |
# This kit brings MPICH, on which they are built. `make mvapich2` puts MVAPICH2 beside it, and this lab then
# runs on both, side by side. You need neither InfiniBand nor a GPU for it.

#
# What does a process here hold? It can be asked in two ways. MPI itself says its name in a text, by the
# function `MPI_Get_library_version`. And Linux lists every file that a process has mapped, in
# `/proc/self/maps`.

# %%
inside = {}
for mpi in mpis:
    inside[mpi] = launch.run(lab42.look_inside, ranks=ranks, mpi=mpi, env=lab42.UNBOUND)[0]
libraries = {mpi: rank.library for mpi, rank in inside.items()}
for rank in inside.values():
    print(f"{rank.library}\n  its text begins: {rank.text[:70]!r}\n  its file: {', '.join(rank.files)}")
if free and "mvapich2" not in mpis:
    print("MVAPICH2 is not built here: `make mvapich2` does it in some minutes. Until then the tables below")
    print("hold the kit's reference for it.")

# %% [markdown]
# The file's name proves nothing: MPICH's and MVAPICH2's are both `libmpi.so.12`, so a program built with one
# runs on whichever is found first. There must be **one** file: two MPI libraries in a process do not know of
# each other.
#
# ### Exercise 42.1 · Which MPI library is this?
# The text **begins** with the name of its family. What may follow is free, and may name another family:
#
#     'MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date…'        'MPICH Version:      5.0.2\nMPICH ABI…'
#     'MVAPICH Version:        4.0\nMVAPICH Release date…'            'Open MPI v5.0.11, package: …'
#
# `re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)` finds the version, as `[1]`, if the text
# begins so; else it is None. MVAPICH2-GDR's text says MVAPICH2, but its tool `mpiname -a` prints
# MVAPICH2-GDR. The tool only lies in `PATH`, so it says nothing about a process whose text is another
# family's. About 5 lines.
#
# <details><summary>Hint 1: one family after the other</summary>
#
# `for family in ("MVAPICH2", "MVAPICH", "MPICH", "Open MPI"):`, and return at the first that is found.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `gdr = family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname`, and then `return ("MVAPICH2-GDR" if gdr else
# family), version[1]`.
# </details>


# %%
def which_mpi(text, mpiname=""):
    """(family, version) by the text of MPI_Get_library_version and of `mpiname -a`; (None, None): unknown."""
    ### BEGIN SOLUTION
    for family in ("MVAPICH2", "MVAPICH", "MPICH", "Open MPI"):
        version = re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)
        if version:
            gdr = family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname
            return "MVAPICH2-GDR" if gdr else family, version[1]
    return None, None
    ### END SOLUTION


# %%
# What is asked: family and version of eight texts, and of the libraries here.
with check("42.1"):
    for text, tool, want in lab42.LIBRARIES:
        expect.equal(which_mpi(text, tool), want, f"Text {text.splitlines()[0]!r}, mpiname {tool[:18]!r}")
    for mpi, rank in inside.items():
        got = which_mpi(rank.text, rank.mpiname)
        expect.equal(" ".join(map(str, got)), rank.library, f"The library of {mpi or 'this job'}")

# %% [markdown]
# ## Who may call MPI?
# Horovod has a thread of its own, which calls MPI. Your program has another one. May both be in MPI at once?
# A program asks for a **thread level** when it starts MPI, and is given that one or a lower one:
#
# | level | who may call MPI |
# |---|---|
# | SINGLE | there is only one thread |
# | FUNNELED | only the thread that started MPI; others may compute |
# | SERIALIZED | every thread, but never two at once |
# | MULTIPLE | every thread, at any time |
#
# On the lower levels MPI leaves its locks out. Two threads in it at once then spoil its lists: a crash, a job
# that hangs, or nothing at all, until one day.
#
# ### Predict
# Horovod asks for MULTIPLE. Which level is it given on a cluster with MVAPICH2 and no variable set: "SINGLE",
# "FUNNELED", "SERIALIZED" or "MULTIPLE"?

# %%
predict("42.2", level="SINGLE")

# %% [markdown]
# ### Exercise 42.2 · The thread level trap
# MVAPICH2 **binds** each rank to cores, unless told otherwise: the rank's threads may run there and nowhere
# else. To a rank that is bound to one core it gives SINGLE. Write the rule of its InfiniBand device,
# `ch3:mrail`. Variables hold text.
#
# 1. `MV2_ENABLE_AFFINITY=0` (the default is 1): nobody is bound. MULTIPLE.
# 2. Else a rank needs one core, or, with `MV2_CPU_BINDING_POLICY=hybrid`, as many as
#    `MV2_THREADS_PER_PROCESS` says (one if that is not set). If all ranks of the node need more than the node
#    has hardware threads, MVAPICH2 **aborts**. It counts before it looks at anything else, and counts the
#    whole machine (`nproc --all`), not your share.
# 3. Else the rank is bound: with `hybrid` to its cores, even if that is only one, which gives MULTIPLE; else
#    to one core, SINGLE. `MV2_CPU_BINDING_LEVEL` wins over this: `socket` and `numanode` MULTIPLE, `core`
#    SINGLE.
#
# <details><summary>Hint 1: how many cores?</summary>
#
# `hybrid = env.get("MV2_CPU_BINDING_POLICY") == "hybrid"`, then `cores =
# int(env.get("MV2_THREADS_PER_PROCESS", "1")) if hybrid else 1`. All ranks need `ranks_on_node * cores`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In the order 1, 2, and then `level = env.get("MV2_CPU_BINDING_LEVEL", "cores" if hybrid else "core")`:
# SINGLE if that is "core".
# </details>


# %%
def granted(env, ranks_on_node, hardware_threads):
    """What MVAPICH2 makes of a request for MPI_THREAD_MULTIPLE: "MULTIPLE", "SINGLE" or "aborts"."""
    ### BEGIN SOLUTION
    if env.get("MV2_ENABLE_AFFINITY", "1") == "0":
        return "MULTIPLE"
    hybrid = env.get("MV2_CPU_BINDING_POLICY") == "hybrid"
    cores = int(env.get("MV2_THREADS_PER_PROCESS", "1")) if hybrid else 1
    if ranks_on_node * cores > hardware_threads:
        return "aborts"
    level = env.get("MV2_CPU_BINDING_LEVEL", "cores" if hybrid else "core")
    return "SINGLE" if level == "core" else "MULTIPLE"
    ### END SOLUTION


# %%
# What is asked: the level for seventeen settings.
with check("42.2"):
    for env, on_node, threads, want in lab42.THREAD_LEVELS:
        setting = ", ".join(f"{name}={value}" for name, value in env.items()) or "No variable"
        where = f"{setting}, {on_node} ranks on {threads} hardware threads"
        expect.equal(granted(env, on_node, threads), want, where)

# %% [markdown]
# ### Measure
# What is Horovod given here? labkit sets `MV2_ENABLE_AFFINITY=0` for its ranks; "affinity on" undoes it, as
# if no variable were set. "Asked for less" is the control: `HOROVOD_MPI_THREADS_DISABLE=1` makes Horovod ask
# for SINGLE. The measured level in the last table is the kit's, of `ch3:mrail`. About 5 s for each line.

# %%
levels = []
for mpi, rank in inside.items():
    settings = lab42.settings_of(rank.library) if free else {}  # in a job MPI runs, and its level stays
    given = {"affinity off": rank.level}
    for setting, env in settings.items():
        given[setting] = launch.run(lab42.thread_level, ranks=ranks, mpi=mpi, env=env)[0]
    named = {"mpi": rank.library, "channel": lab42.channel(rank.text)}
    for setting, level in given.items():
        levels.append(record.add("thread level", ranks=ranks, setting=setting, level=level, **named))
columns = ["mpi", "channel", "setting", "level"]
reference = record.reference(lab.current(), "thread level")[columns]
print("Yours:", pandas.DataFrame(levels)[columns], "", sep="\n")
print("The kit's reference, not yours:", reference, "", sep="\n")
mrail = reference[(reference.channel == "ch3:mrail") & (reference.setting == "affinity on")]
predict.compare("42.2", level=mrail.level.iloc[0])

# %% [markdown]
# **Explain.** Only `ch3:mrail` with affinity on falls into the trap. MPICH binds nobody, and neither do
# MVAPICH2's other devices: if `make mvapich2` built one without InfiniBand for you, it says MULTIPLE with
# affinity on, and that is no proof for a cluster.
#
# `MV2_ENABLE_AFFINITY=0` is the simplest cure, where something else binds the ranks (srun does). It also
# switches off MVAPICH2-GDR's own choice of cores near GPU and network card (its guide, 9.4 and 13.7);
# `hybrid` with a number of threads keeps it. We have measured neither on GPUs. On some processors, as POWER9
# and EPYC 7742, `hybrid` is the default. MVAPICH 3, 4 and Plus read no `MV2_` variable.
# ## The line that starts a job
# A job of 2 nodes, 4 GPUs on each, a rank for each GPU, 14 cores for each rank: one line with Slurm's srun,
# and one with MVAPICH2's own launcher, mpirun_rsh.

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
# | `--cpus-per-task=14` | Slurm gives a rank **one** core, for itself, Horovod's thread and the loaders |
# | `OMP_NUM_THREADS=14` | mpirun_rsh binds nobody: 4 ranks start a thread each for every core of the node |
# | the same, with mpiexec | one thread: PyTorch's MKL reads what this launcher says of the ranks beside it |
# | `--gpu-bind=none` | a site may hide the other GPUs; then CUDA IPC, by which ranks reach them, fails |
# | `--mpi=pmi2` | 8 programs that do not know of each other: every one is rank 0 |
# | `-export-all` | ranks on other nodes miss your environment |
# | `-hostfile hosts` | the next words are taken for hosts. The file has a line `node1:4` for each node |
#
# Two remarks on GDR. `MV2_GPUDIRECT_GDRCOPY_LIB=path of libgdrapi.so` makes short messages faster; the path
# may also be in `LD_LIBRARY_PATH`. And its guide says of Horovod: "do not use the LD_PRELOAD option".
#
# **Order counts.** mpirun_rsh takes words with a `=` for variables only *directly before* the program; behind
# it they are the program's arguments. srun knows no variables: they stand before it, after `env`.
#
# On one machine without Slurm the launcher is `mpiexec`:
#
#     env MV2_ENABLE_AFFINITY=0 OMP_NUM_THREADS=14 mpiexec -n 4 -bind-to core:14 python train.py
#
# ### Exercise 42.3 · Write the line, and start it
# *(The one to do in the track "PPoPP hands-on, 90 minutes".)*
#
# `variables` returns what a flavour needs. `mvapich2`, on CPUs: `MV2_ENABLE_AFFINITY=0`. `mvapich2-gdr`: the
# three of the lines above, and GDRCopy's, if a path is given. `mvapich-plus`: `MVP_ENABLE_GPU=1` alone.
#
# `command` returns the line for a job as a list of words: `job.nodes`, `job.ranks` and `job.gpus` of each
# node, `job.cores` of each rank. A job without GPUs (0) has no option about GPUs. Further harmless options,
# such as `--cpu-bind=cores`, are welcome. 6 and 10 lines.
#
# <details><summary>Hint 1: words</summary>
#
# `pairs = [f"{name}={value}" for name, value in variables.items()]`, put into a list by `*pairs`. A word is
# text: `str(job.nodes * job.ranks)`. Each option is a word of its own.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `["env", *pairs, "srun", "--mpi=pmi2", f"--nodes={job.nodes}", …, *gpus, *program]`, where `gpus` is `[]` or
# `[f"--gpus-per-node={job.gpus}", "--gpu-bind=none"]`. For mpirun_rsh and mpiexec `OMP_NUM_THREADS` comes
# behind `*pairs`.
# </details>


# %%
def variables(flavour, gdrcopy=None):
    """flavour: "mvapich2", "mvapich2-gdr", "mvapich-plus". gdrcopy: path of libgdrapi.so or None. A dict."""
    ### BEGIN SOLUTION
    if flavour == "mvapich-plus":
        return {"MVP_ENABLE_GPU": "1"}
    if flavour == "mvapich2":
        return {"MV2_ENABLE_AFFINITY": "0"}
    gdr = {"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1", "MV2_ENABLE_AFFINITY": "0"}
    if gdrcopy:
        gdr["MV2_GPUDIRECT_GDRCOPY_LIB"] = gdrcopy
    return gdr
    ### END SOLUTION


def command(launcher, job, variables, program):
    """The words that start program (a list). launcher: "srun", "mpirun_rsh" or "mpiexec"."""
    ### BEGIN SOLUTION
    pairs = [f"{name}={value}" for name, value in variables.items()]
    threads = f"OMP_NUM_THREADS={job.cores}"
    ranks = str(job.nodes * job.ranks)
    if launcher == "mpirun_rsh":
        return ["mpirun_rsh", "-export-all", "-np", ranks, "-hostfile", "hosts", *pairs, threads, *program]
    if launcher == "mpiexec":
        return ["env", *pairs, threads, "mpiexec", "-n", ranks, "-bind-to", f"core:{job.cores}", *program]
    size = [f"--nodes={job.nodes}", f"--ntasks-per-node={job.ranks}", f"--cpus-per-task={job.cores}"]
    gpus = [f"--gpus-per-node={job.gpus}", "--gpu-bind=none"] if job.gpus else []
    return ["env", *pairs, "srun", "--mpi=pmi2", *size, *gpus, *program]
    ### END SOLUTION


# %%
# What is asked: the variables of each flavour, and seven lines, read as their launchers read them.
with check("42.3"):
    for flavour, gdrcopy, want in lab42.VARIABLES:
        expect.equal(variables(flavour, gdrcopy), want, f"Variables of {flavour}, libgdrapi.so: {gdrcopy}")
    program = ["python", "train.py", "--name=a=b"]
    for launcher, job in lab42.JOBS:
        needed = variables("mvapich2-gdr" if job.gpus else "mvapich2")
        line = command(launcher, job, needed, program)
        wrong = lab42.shortcoming(line, launcher, job, needed, program)
        expect(not wrong, f"{launcher}, {job}: {wrong}")

# %% [markdown]
# ### Measure
# Now start your line: with srun, in a job on two nodes, where Slurm is (`make tabletop` starts one on this
# machine); else with mpiexec. Its program lets each rank say where it is, how many cores it may use, and with
# which MPI. About 10 s for each MPI.

# %%
launcher = lab42.launcher_here() if free else None
if launcher is None:
    print("No line can be started from here: this is a job already, or mpiexec is not of MPICH's kin.")
job = lab42.job_here(cores=1) if launcher else None
for mpi in mpis if launcher else []:
    flavour = "mvapich2-gdr" if job.gpus else "mvapich2"
    line = command(launcher, job, variables(flavour), lab42.PROGRAM)
    print(*line)
    answers = lab42.start(line, job, mpi)
    print(pandas.DataFrame(answers)[["rank", "host", "cores", "threads", "device", "mpi", "level"]], "\n")

# %% [markdown]
# **What does one core cost?** The same line with one core for its only rank, and with all. `seen` is the
# control: the cores that the rank says it may use. (The tabletop's nodes share this machine and pin nobody,
# so it is mpiexec there.)

# %%
if launcher:
    alone = "mpiexec" if cluster.here() in (None, "tabletop") else launcher
    rows = []
    for cores in sorted({1, world.cores()}):
        job = lab42.Job(1, 1, cores, 0)
        (rank,) = lab42.start(command(alone, job, variables("mvapich2"), lab42.PROGRAM), job)
        fields = {name: rank[name] for name in ("seconds", "seconds_q1", "seconds_q3", "steady", "threads")}
        rows.append(record.add("line", unit="s", way=alone, asked=cores, seen=rank["cores"], **fields))
    columns = ["asked", "seen", "threads", "seconds", "seconds_q1", "seconds_q3", "steady"]
    print("A training step of one rank:", pandas.DataFrame(rows)[columns], sep="\n")

# %% [markdown]
# **Explain.** A step computes on as many cores as it has threads and may use. On one core it takes about as
# many times as long as the other line has cores, as far as the work can be shared. On a node of 56 cores and
# 4 ranks, a forgotten `--cpus-per-task` leaves 52 of them idle, and nothing says so. If `seen` is not what
# was `asked`, nobody was bound: look at the launcher. If a line is not `steady`, compare nothing.
#
# ## Which library carried the gradients?
# `hvd.mpi_built()` says what could be used. The **timeline** says what was: with `HOROVOD_TIMELINE=file`,
# rank 0 writes down every activity of every tensor. Here are the first of a run of three gradients, in the
# order in which they began.


# %%
def run(ways, mpi=None, controller="mpi", size=(layers, width, steps)):
    """{way: its time .took, timeline .events, .where tensors were}. ways: {name: environment variables}."""
    here = {"ranks": ranks, "controller": controller, "env": lab42.UNBOUND}
    if controller == "mpi":
        here["mpi"] = mpi
    return launch.run(train_ways, *size, ways, home(), **here)[0]


first_events = run({"first": {}}, mpis[0], size=(3, 64, 3))["first"].events or []
first = timeline.activities(first_events)
lab42.show([activity for activity in first if activity.tensor.startswith("allreduce")], first=18)

# %% [markdown]
# NEGOTIATE_ALLREDUCE is Horovod's wait until every rank has this gradient, ALLREDUCE the whole work on it.
# Inside, the gradients are copied into the *fusion buffer*, one library call carries it, and they are copied
# out. (INIT_FUSION_BUFFER makes the buffer, once.) What is ready when Horovod looks goes together, and
# Horovod looks once a millisecond: so your three may also go in two or three calls.
#
# ### Exercise 42.4 · Which library, in how many calls?
# An activity that begins with a library's name (MPI, GLOO, NCCL, CCL) and `_` moved data. The tensors of
# **one** call begin one right after the other; between two calls, other activities begin. So `MPI_ALLREDUCE`
# three times in a row is one call with 3 tensors. Count calls and tensors of each such activity. About 4
# lines.
#
# <details><summary>Hint 1: neighbours of one name</summary>
#
# `for name, group in itertools.groupby(events, key=lambda event: event.name):` goes through them in order.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If `name.split("_")[0]` is a library: `calls, tensors = proof.get(name, (0, 0))`, and then `proof[name] =
# (calls + 1, tensors + len(list(group)))`.
# </details>


# %%
def carried(events):
    """events: activities (.name, .tensor) as they began. Returns {a library's operation: (calls, tensors)}"""
    proof = {}
    ### BEGIN SOLUTION
    for name, group in itertools.groupby(events, key=lambda event: event.name):
        if name.split("_")[0] in ("MPI", "GLOO", "NCCL", "CCL"):
            calls, tensors = proof.get(name, (0, 0))
            proof[name] = (calls + 1, tensors + len(list(group)))
    ### END SOLUTION
    return proof


# %%
# What is asked: calls and tensors of three made up timelines, and calls of the one above.
with check("42.4"):
    for calls, want in lab42.TIMELINES:
        expect.equal(carried(lab42.timeline_of(*calls)), want, f"The timeline of {calls}")
    if first_events:
        got = {name: calls for name, (calls, tensors) in carried(first).items()}
        expect.equal(got, timeline.backends(first_events), "Calls by name in the timeline of real ranks")

# %% [markdown]
# ### Predict
# A step of the net below averages 12 gradients of 256 KiB. How many calls of MPI's allreduce is that, with
# Horovod's fusion buffer of 128 MiB? And with `HOROVOD_FUSION_THRESHOLD=0`, which switches the buffer off?

# %%
predict("42.4", calls_fused=1, calls_unfused=12)

# %% [markdown]
# ### Measure
# Fused and unfused take turns, and so do the libraries, in several rounds: what disturbs one disturbs all.
# Gloo, Horovod's own library for TCP, is the control: its name must be in its timeline, and MPI's must not.
# Calls a step are calls, times gradients in a step, over tensors carried. About a minute.

# %%
ways = {"fused": {}, "unfused": {"HOROVOD_FUSION_THRESHOLD": "0"}}
turns = {library: [] for library in libraries.values()}
if free:  # Gloo's ranks are started in another way than MPI's
    turns["Gloo"] = []
for turn in range(rounds):
    order = dict(reversed(ways.items())) if turn % 2 else ways
    for mpi, library in libraries.items():
        turns[library].append(run(order, mpi))
    if free:
        turns["Gloo"].append(run({"fused": {}}, controller="gloo"))
results = {library: lab42.together(of_library) for library, of_library in turns.items()}

# %%
times = {}
per_step = {}
nodes = ranks // next(iter(inside.values())).on_node
for library, trainings in results.items():
    for way, training in trainings.items():
        proof = carried(timeline.activities(training.events or []))
        allreduces = {name: counts for name, counts in proof.items() if "ALLREDUCE" in name}
        calls = sum(calls * layers / tensors for calls, tensors in allreduces.values())
        times[f"{library}, {way}"] = training.took
        per_step[way] = calls if library != "Gloo" else per_step[way]
        print(f"{library}, {way}: {' '.join(allreduces)}, {calls:.1f} calls a step, {training.took}")
        found = {"way": way, "calls_per_step": calls, "carried_by": " ".join(allreduces), "nodes": nodes}
        found |= training.where.fields()
        record.add("step", ranks=ranks, mpi=library, seconds=training.took, **found)
plots.spread(times, title="One training step, by library and fusion")
predict.compare("42.4", calls_fused=per_step["fused"], calls_unfused=per_step["unfused"])

# %%
# A conclusion only where both may be quoted.
for library in libraries.values():
    fused, unfused = (results[library][way].took for way in ("fused", "unfused"))
    if fused.steady and unfused.steady:
        print(f"{library}: an unfused step takes {unfused.median / fused.median:.2f} times a fused one.")
    else:
        print(f"{library}: no conclusion. Fused: {fused.verdict}. Unfused: {unfused.verdict}.")

# %% [markdown]
# **Explain.** EXPLAIN
#
# ## Did my gradients stay on the GPU?
# A GPU job can be slow because its gradients go through host memory, and nothing says so. In 2018 somebody
# asked why his timeline had MPI_ALLREDUCE and no NCCL_ALLREDUCE (Horovod's issue 321). The answer: his
# Horovod had been built without NCCL. Four jobs, and what the row of one gradient holds in each:

# %%
for journey in lab42.JOURNEYS[:5]:
    print(f"{journey.told} (gradients on {journey.device}, build {journey.build!r} of Horovod):")
    print("   ", " ".join(journey.activities), "\n")

# %% [markdown]
# (The first was recorded here. The others are built from Horovod 0.28.1's source, operation by operation, as
# we had no GPU; no file of a GPU job was to be had.)
#
# Look at the third and the fourth: **they are the same.** The timeline alone cannot tell whether MPI was
# given GPU memory. Two more facts decide: where your gradients are (`gradient.device`), and Horovod's build.
# A build is `nccl`, `mpi` (for a CUDA-aware MPI), or `host`, which copies GPU tensors to host memory before
# MPI or Gloo sees them.
#
# | in the row | what it says |
# |---|---|
# | a name that begins with `NCCL_` | NCCL carried GPU memory, at least on a part of the way |
# | `MEMCPY_IN_HOST_BUFFER` | a copy to host memory, for MPI between the nodes |
# | `MPI_…`, `GLOO_…` | depends on the build |
# | `MEMCPY_IN_FUSION_BUFFER` | nothing: this buffer is where the gradients are, GPU or host |
# | `WAIT_FOR_DATA` | nothing: a build with CUDA writes it for CPU tensors, too |
#
# ### Exercise 42.5 · Tell the way
# Write `way_of(activities, device, build)` for the row of one gradient. It returns one of four texts:
#
# 1. `"CPU tensors"`: the gradient is not on a GPU.
# 2. `"staged through the host"`: it is copied to host memory on its way, on the whole way or between the
#    nodes.
# 3. `"stayed on the GPU"`: NCCL carried it, and nothing copied it to the host.
# 4. `"CUDA-aware MPI"`: Horovod handed GPU memory to MPI.
#
# About 7 lines.
#
# <details><summary>Hint 1: the order of questions</summary>
#
# First the device. Then the host buffer, since a row can hold NCCL and a copy to the host. Then NCCL. Then
# the build.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if any(name.startswith("NCCL_") for name in activities): return "stayed on the GPU"`, and at the end
# `return "CUDA-aware MPI" if build == "mpi" else "staged through the host"`.
# </details>


# %%
def way_of(activities, device, build):
    """activities: names in one gradient's row. device: "cpu", "cuda:0", … build: "host", "nccl" or "mpi"."""
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
# What is asked: the way of eleven gradients, and of those that were trained above.
with check("42.5"):
    for journey in lab42.JOURNEYS:
        row = f"{journey.told}, {journey.device}, build {journey.build!r}: {' '.join(journey.activities[2:])}"
        got = way_of(journey.activities, journey.device, journey.build)
        expect.equal(got, journey.verdict, row, because=journey.because)
    for library in libraries.values():
        training = results[library]["fused"]
        rows = lab42.gradients(timeline.activities(training.events or []))
        got = Counter(way_of(row, *lab42.device_and_build(training)) for row in rows.values())
        expect.equal(len(got), 1 if rows else 0, f"Ways of the gradients over {library}, {got}")

# %%
for library in libraries.values():
    training = results[library]["fused"]
    rows = lab42.gradients(timeline.activities(training.events or []))
    for way, count in Counter(
        way_of(row, *lab42.device_and_build(training)) for row in rows.values()
    ).items():
        print(f"{library}: {count} gradients, {way}. labkit says: {training.where.describe()}")

# %% [markdown]
# **Explain.** On a machine without GPUs all are CPU tensors, and the timeline is right to show MPI. With GPUs
# and `make run LAB=42 HOROVOD=nccl` they should stay there; if they do not, look at the three facts in the
# order of the exercise.
#
# What a CUDA-aware MPI does with GPU memory is its own affair, and no timeline shows it. MVAPICH2-GDR's guide
# (13) has nominal limits, such as `MV2_GPUDIRECT_LIMIT` (8192 bytes) for what the network card reads from the
# GPU and `MV2_USE_GPUDIRECT_RECEIVE_LIMIT` (131072) for what it writes there; longer messages go in pieces
# through host memory. It chooses their values by the machine that it finds. Lab 27 measures such ways.
#
# ## Two nodes
# The same lab as a job on two nodes, once for each MPI. About a minute each.

# %%
frames = []
for mpi in mpis if free and cluster.here() else []:
    submitted = cluster.submit("42", settings={"steps": steps, "rounds": rounds}, mpi=mpi)
    submitted.wait()
    frames.append(submitted.records("step"))
title = "Your jobs" if frames else "The kit's reference, not yours"
table = pandas.concat(frames) if frames else record.reference(lab.current(), "step")
columns = ["nodes", "ranks", "mpi", "way", "seconds", "seconds_steady"]
print(f"{title}:", table.reindex(columns=columns), sep="\n")

# %% [markdown]
# ### What you take away
# - The text of `MPI_Get_library_version` and `/proc/self/maps` prove the library; a file's name does not.
# - MVAPICH2 over InfiniBand gives threads only to ranks that are not bound to one core.
# - GDR: `MV2_USE_CUDA=1 MV2_SUPPORT_DL=1` before the program, and **cores for each rank** in the line.
# - The timeline proves which library carried the gradients. Whether they stayed on the GPU, it says together
#   with their device and Horovod's build. Next: NCCL (43).

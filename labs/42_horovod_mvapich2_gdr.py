# %% [markdown]
# # 42 Horovod over MVAPICH2-GDR
#
# MVAPICH2-GDR can move gradients from GPU to GPU by itself. Loaded or called in another way, the job still
# runs: slower, through another library, or one thread short. Here you learn to *prove* what a job does.
#
# **You will be able to** (1) prove which MPI library a process holds, (2) say which thread level Horovod is
# given, and mend it, (3) write the command of a job with MVAPICH2-GDR and with its successor MVAPICH-Plus,
# (4) prove from Horovod's timeline which library carried the gradients.
#
# Needs: horovod, torch · Ranks: 2 · Minutes: 50 · Before: 40

# %%
import itertools
import os
import re

from labkit import check, cluster, expect, hint, home, lab, launch, plots, predict, record, world
from labkit.horovod import timeline, train_ways
from support import lab42

lab.start("42_horovod_mvapich2_gdr")
ranks = launch.ranks_here(2)

# %% tags=["parameters"]
layers = 12  # weight matrices of the net, each with a gradient of its own
width = 256  # rows and columns of a matrix: 256 KiB
steps = 20  # timed training steps


# %% [markdown]
# No MVAPICH2? Your functions are checked by what its source and guides say, and run on the MPI that is here.
#
# | library | what it is | GPU buffers |
# |---|---|---|
# | MVAPICH2 2.3.7 | open source, for InfiniBand; the last 2.x | if built with CUDA |
# | MVAPICH2-GDR 2.3.7 | closed build: GPUDirect RDMA, GDRCopy, deep learning | with `MV2_USE_CUDA=1` |
# | MVAPICH 3, 4 | open source, a new core over UCX or libfabric | the open builds: no |
# | MVAPICH-Plus 4, 5 | closed build of that, GDR's successor | `MVP_ENABLE_GPU=1`, the default |
#
# ### Exercise 42.1 · Which MPI library is this?
# A file name proves nothing: MPICH's and MVAPICH2's are both `libmpi.so.12`, and a program built with one
# runs on whichever is found first (MVAPICH 4's is `libmpi.so.0`). Proofs are the files this process has
# mapped, in `/proc/self/maps` (mpi4py and Horovod must share **one** MPI library), and how the text of
# `MPI_Get_library_version` **begins**: MVAPICH2, MVAPICH, MPICH or Open MPI, then the version. An MVAPICH2 is
# MVAPICH2-GDR if its tool `mpiname -a` says so (beside another library, it only lies in `PATH`).
#
# <details><summary>Hint 1: the text</summary>
#
# `MVAPICH2 Version      :\t2.3.7`, so with MVAPICH and MPICH; `Open MPI v5.0.11, …`. For each of the four,
# `re.match(rf"{family}(?: Version\s*:\s*| v)([^\s,]+)", text)` finds the version, `[1]`, if it begins so.
# </details>
# <details><summary>Hint 2: the files</summary>
#
# A line's sixth column is the path, if any: `line.split(maxsplit=5)[5:]`. A library has several lines: make a
# set. Its *file name* is `libmpi.so` with any version: `re.fullmatch(r"libmpi\.so[.\d]*", name)`.
# </details>

# %%
def which_mpi(text, mpiname=""):
    """(family, version) by the text of MPI_Get_library_version and of `mpiname -a`; (None, None): unknown."""
    raise NotImplementedError("exercise 42.1: Which MPI library is this?")


def loaded_mpi(maps):
    """maps: text of /proc/self/maps. Returns the paths of the MPI libraries in it, sorted, each once."""
    raise NotImplementedError("exercise 42.1: Which MPI library is this?")


# %%
with check("42.1"):
    for text, tool, want in lab42.LIBRARIES:
        expect.equal(which_mpi(text, tool), want, f"Text {text.splitlines()[0]!r}, mpiname {tool[:18]!r}")
    for maps, want in lab42.MAPS:
        expect.equal(loaded_mpi(maps), want, f"MPI libraries among these files of a process:\n{maps}")
    # And on real ranks: each holds one MPI library.
    inside = launch.run(lab42.look_inside, ranks=ranks, env=lab42.UNBOUND)
    libraries = [loaded_mpi(maps) for _, maps, _ in inside]
    counts = [len(files) for files in libraries]
    expect.equal(counts, [1] * ranks, "Number of MPI libraries on each rank here")

# %%
text, _, level_here = inside[0]
family, version = which_mpi(text, lab42.mpiname())
library = f"{family} {version}"
print(f"Here: {library}, from {libraries[0][0]}")

# %% [markdown]
# ### Predict
# Horovod calls MPI from a thread of its own and asks for `MPI_THREAD_MULTIPLE`. On MVAPICH2, with no variable
# set, what is it given on most processors: "SINGLE", "FUNNELED", "SERIALIZED" or "MULTIPLE"?

# %%
predict("42.2", level=...)


# %% [markdown]
# ### Exercise 42.2 · The thread level trap
# MVAPICH2 binds a rank to **one core** unless told otherwise, and grants a rank so bound no more than
# `MPI_THREAD_SINGLE`. The rule, from 2.3.7's source (`mpid_init.c`, `hwloc_bind.c`); variables hold text:
#
# 1. `MV2_ENABLE_AFFINITY=0` (default 1): nothing is bound, MULTIPLE. Else:
# 2. `MV2_CPU_BINDING_POLICY=hybrid`: as many cores a rank as `MV2_THREADS_PER_PROCESS` says, or else
#    `OMP_NUM_THREADS`, or else one; MULTIPLE, even on one. Another policy, or none: one core, SINGLE.
# 3. More of these cores needed than the node has: it **aborts**.
# 4. `MV2_CPU_BINDING_LEVEL`, if set, wins over 2: `socket`, `numanode` MULTIPLE, `core` SINGLE.
#
# <details><summary>Hint 1: threads</summary>
#
# `int(env.get("MV2_THREADS_PER_PROCESS", env.get("OMP_NUM_THREADS", "1")))` if the policy is hybrid, else 1.
# Cores needed: ranks × threads.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In the order 1, threads, 3, then `level = env.get("MV2_CPU_BINDING_LEVEL", "cores" if hybrid else "core")`,
# and SINGLE if that is "core".
# </details>

# %%
def granted(env, ranks_on_node, cores):
    """What MVAPICH2 makes of a request for MPI_THREAD_MULTIPLE: "MULTIPLE", "SINGLE" or "aborts"."""
    raise NotImplementedError("exercise 42.2: The thread level trap")


# %%
with check("42.2"):
    for env, on_node, cores, want in lab42.THREAD_LEVELS:
        variables_set = ", ".join(f"{name}={value}" for name, value in env.items()) or "No variable"
        expect.equal(granted(env, on_node, cores), want, f"{variables_set}, {on_node} ranks on {cores} cores")

# %%
free = not world.launcher()  # else MPI runs already, and its level stays
levels = {"bound to nothing": level_here}
ways = {}
if free:
    ways["asked for less"] = lab42.UNBOUND | lab42.SINGLE
if free and library.startswith("MVAPICH2"):
    ways["no variable"] = {}
    ways["socket"] = {"MV2_CPU_BINDING_LEVEL": "socket"}
for way, env in ways.items():
    levels[way] = launch.run(lab42.thread_level, ranks=ranks, env=env)[0]
for way, level in levels.items():
    record.add("thread level", ranks=ranks, asked=way, level=level, mpi=library)
    print(f"{library}, {way}: hvd.mpi_threads_supported() says {level}")
reference = record.reference(lab.current(), "thread level").reindex(columns=["mpi", "asked", "level"])
print("The kit's reference, not yours:", reference.to_string(index=False), sep="\n")
predict.compare("42.2", level=granted({}, 4, 16))


# %% [markdown]
# ("Asked for less": by `HOROVOD_MPI_THREADS_DISABLE=1`.) On MVAPICH2 2.3.7 with no variable, two ranks here
# averaged rightly and **both crashed when they ended**. Each of the three ways to MULTIPLE cures it; best is
# `MV2_ENABLE_AFFINITY=0`, with srun to bind. (On some processors, as POWER9 and EPYC 7742, hybrid is the
# default policy. MVAPICH 3, 4 and Plus read no `MV2_` variable.)
#
# ### Exercise 42.3 · The command of the job
# **Variables.** `mvapich2`, on CPUs: `MV2_ENABLE_AFFINITY=0`. `mvapich2-gdr`: that, `MV2_USE_CUDA=1` (or GPU
# buffers are not looked at), `MV2_SUPPORT_DL=1` (its guide, 7.3: for Horovod, "but do not use LD_PRELOAD"),
# and `MV2_GPUDIRECT_GDRCOPY_LIB=path of libgdrapi.so`, if you have one. `mvapich-plus`: `MVP_ENABLE_GPU=1`.
#
# **Start**: `mpirun_rsh -export-all -np RANKS -hostfile hosts VAR=value … program …` with a line `name:ranks`
# for each node in the file `hosts`, the variables **directly before** the program: behind it they are its
# arguments. Or `env VAR=value … srun --mpi=pmi2 --nodes=N --ntasks-per-node=G --gpus-per-node=G
# --gpu-bind=none program …`: a rank sees all GPUs of its node, which CUDA IPC needs, and takes one by its
# **local rank:** `MV2_COMM_WORLD_LOCAL_RANK` (mpirun_rsh), `MPI_LOCALRANKID` (mpiexec), `SLURM_LOCALID`
# (srun); ask in this order: in a Slurm job the last is always there, but may count a launcher's helpers.
#
# <details><summary>Hint 1: words</summary>
#
# `pairs = [f"{name}={value}" for name, value in variables.items()]`, put into a list by `*pairs`; a word is
# text: `str(nodes * gpus)`. Local rank: `return int(env[name])` at the first of the names in env, else 0.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `["mpirun_rsh", "-export-all", "-np", …, "-hostfile", "hosts", *pairs, *program]`, and
# `["env", *pairs, "srun", "--mpi=pmi2", f"--nodes={nodes}", …, "--gpu-bind=none", *program]`.
# </details>

# %%
def variables(flavour, gdrcopy=None):
    """flavour: "mvapich2", "mvapich2-gdr", "mvapich-plus". gdrcopy: path of libgdrapi.so or None. A dict."""
    raise NotImplementedError("exercise 42.3: The command of the job")


def command(launcher, nodes, gpus, variables, program):
    """The words that start program (a list) on all GPUs of all nodes. launcher: "mpirun_rsh" or "srun"."""
    raise NotImplementedError("exercise 42.3: The command of the job")


def local_rank(env):
    """This rank's number on its node, by the launcher's variables in env; 0 where there is none."""
    raise NotImplementedError("exercise 42.3: The command of the job")


# %%
with check("42.3"):
    for flavour, gdrcopy, want in lab42.VARIABLES:
        expect.equal(variables(flavour, gdrcopy), want, f"Variables of {flavour}, libgdrapi.so: {gdrcopy}")
    # A line is read as its launcher reads it: options, then variables, then the program and its arguments.
    program = ["python", "train.py", "--name=a=b"]
    for launcher, nodes, gpus in itertools.product(("mpirun_rsh", "srun"), (1, 2, 3), (1, 4)):
        line = lab42.read_command(command(launcher, nodes, gpus, want, program))
        job = f"{launcher}, {nodes} nodes of {gpus} GPUs"
        expect.equal(line["program"], program, f"{job}, the program")
        expect.equal(line["variables"], want, f"{job}, the variables")
        expect.equal(line["options"], lab42.options_of(launcher, nodes, gpus), f"{job}, the options")
    for env, want in lab42.LOCAL_RANKS:
        expect.equal(local_rank(env), want, f"Local rank with {env}")
    here = launch.run(lambda: (local_rank(os.environ), world.local_rank()), ranks=ranks)
    same = all(yours == labkits for yours, labkits in here)
    expect(same, f"Local ranks here (yours, labkit's): {here}")

# %%
print(*command("mpirun_rsh", 2, 4, variables("mvapich2-gdr"), ["python", "train.py"]))

# %% [markdown]
# Leave others alone until a measurement asks (2.3.7's defaults): `MV2_USE_GPUDIRECT_RDMA` (1),
# `MV2_GPUDIRECT_LIMIT` (8192 bytes: longer goes through host memory, by `MV2_CUDA_BLOCK_SIZE`, 262144),
# `MV2_GDRCOPY_LIMIT` (8192), `MV2_CUDA_IPC` (1), `MV2_ALLREDUCE_2LEVEL_MSG` (256 KiB; lab 26).
#
# ### Predict
# A step averages 12 gradients. How many calls of MPI's allreduce is that, with Horovod's fusion buffer of 128
# MiB? And with `HOROVOD_FUSION_THRESHOLD=0`?

# %%
predict("42.4", calls_fused=..., calls_unfused=...)


# %% [markdown]
# ### Exercise 42.4 · Which library carried the gradients?
# `hvd.mpi_built()` says what could be used, the **timeline** what was: with `HOROVOD_TIMELINE=file` rank 0
# notes every activity of every tensor. In the order in which they begin, three gradients, fused, give
# `NEGOTIATE_ALLREDUCE ×3, ALLREDUCE ×3, MEMCPY_IN_FUSION_BUFFER ×3, MPI_ALLREDUCE ×3, MEMCPY_OUT_… ×3`. What
# begins with a library's name (MPI, GLOO, NCCL, CCL) and `_` moved data. Its tensors begin one right after
# the other: **one** call with 3 tensors. Between two calls, other activities begin.
#
# <details><summary>Hint 1: neighbours of one name</summary>
#
# `for name, group in itertools.groupby(events, key=lambda event: event.name):` goes through them in order.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If `name.split("_")[0]` is a library: `calls, tensors = proof.get(name, (0, 0))`, and then
# `proof[name] = (calls + 1, tensors + len(list(group)))`.
# </details>

# %%
def carried(events):
    """events: activities (.name, .tensor) as they began. Returns {a library's operation: (calls, tensors)}"""
    proof = {}
    raise NotImplementedError("exercise 42.4: Which library carried the gradients?")
    return proof


# %%
def run(controller, **ways):
    """{way: (time of a step, events of its timeline)}. ways: environment variables of each, as a dict."""
    own = {"ranks": ranks, "controller": controller, "env": lab42.UNBOUND}
    return launch.run(train_ways, layers, width, steps, ways, home(), **own)[
        0
    ]  # home()/timeline_fused.json …


with check("42.4"):
    for calls, want in lab42.TIMELINES:
        expect.equal(carried(lab42.timeline_of(*calls)), want, f"The timeline of {calls}")
    # And on real ranks: calls by name, as labkit counts them.
    results = run("mpi", fused={}, unfused={"HOROVOD_FUSION_THRESHOLD": "0"})
    for _, events in results.values():
        if events:
            proof = carried(timeline.activities(events))
            calls = {name: calls for name, (calls, tensors) in proof.items()}
            want = timeline.backends(events)
            expect.equal(calls, want, "Calls by name, from the timeline of the real ranks")

# %%
if free:  # Gloo's ranks are started in another way than MPI's
    results |= run("gloo", gloo={})
per_step = {}
for way, (time, events) in results.items():
    proof = carried(timeline.activities(events or []))
    allreduces = {name: counts for name, counts in proof.items() if "ALLREDUCE" in name}
    per_step[way] = sum(calls * layers / tensors for calls, tensors in allreduces.values())
    times_fused = time.median / results["fused"][0].median
    print(f"{way}: {' '.join(allreduces)}, {per_step[way]:.1f} calls a step, which takes {time}, or", end=" ")
    print(f"{times_fused:.2f} times that of fused MPI.")
    record.add("step", way=way, ranks=ranks, seconds=time, calls_per_step=per_step[way], mpi=library)
plots.spread({way: time for way, (time, _) in results.items()}, title="Which way is a step shorter?")
predict.compare("42.4", calls_fused=per_step["fused"], calls_unfused=per_step["unfused"])

# %% [markdown]
# **Explain.** What is ready when Horovod looks, every 1 ms, goes together; the rest waits for its next look.
# Fusing saves calls, costs two copies; size and machine decide. Next, two nodes (`make tabletop` has some).

# %%
job = None
if free and cluster.here():
    job = cluster.submit("42", settings={"steps": steps})
    job.wait()
frame, origin = cluster.records_or_reference("42", "step", job)
print(f"{origin}:", frame.reindex(columns=["ranks", "way", "seconds", "mpi"]), sep="\n")

# %% [markdown]
# ### What you take away
# - The text of `MPI_Get_library_version` and `/proc/self/maps` prove the library; a file's name does not.
# - MVAPICH2 grants threads only to ranks that are not bound to one core: `MV2_ENABLE_AFFINITY=0`.
# - GDR: `MV2_USE_CUDA=1 MV2_SUPPORT_DL=1`, before the program. MVAPICH-Plus has other names.
# - The timeline proves which library carried the gradients, in how many calls. Next: NCCL (43).

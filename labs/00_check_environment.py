# %% [markdown]
# <!-- Generated from solutions/00_check_environment.py by `make labs`. Learners work on a copy in work/. -->
# # 00 Check your environment
#
# In half an hour you learn what your machine has, what a cluster has besides, and how these labs
# talk to you.
#
# **You will be able to** (1) read the doctor's report, (2) start ranks and prove that they are
# processes of their own, (3) read what a failed run and a stuck run tell you.
#
# Needs: cpu · Ranks: 1 · Minutes: 30 · Level: beginner · Before: -

# %%
import os
import platform

from labkit import check, doctor, hint, lab, launch, predict, world
from labkit.errors import RankFailed

lab.start("00_check_environment")

# %% tags=["parameters"]
ranks = 4  # processes to start
patience = 5  # seconds after which a run without an end counts as stuck

# %% [markdown]
# ## How a lab works
# - **Predict** a number before you measure it. A wrong guess teaches more than none: put yours in
#   place of `...`.
# - **Build**: in an exercise's cell, write your code in place of the line
#   `raise NotImplementedError(...)`.
# - **Check**: run the cell below it. It says what is right, or which kind of wrong it is. Nothing
#   is broken by a failed check; try again.
# - **Stuck?** Unfold the hints, or run `hint("00.1")` in a cell of your own.
#   `make solve LAB=00 EX=00.1` in a terminal writes one answer into your notebook; `make progress`
#   shows how far you are.
# - **Share**, if you like: nobody sees what you do. After `make share` in a terminal your
#   instructor's board shows on which exercise you are, how often you tried, and what failed checks
#   said; `make share HIDDEN=1` does it without your name, and `make unshare` takes it back.
# - **Explain** says what you should have seen, and what you may see instead. Think about its
#   questions before you unfold the answers.
#
# Run a cell with Shift+Enter, from top to bottom. What a check tries, `check.show("00.1")` prints
# in a cell of your own.
#
# ## 1. What your machine has
# Training on many GPUs needs many parts to fit together:
#
# | part | what it is for |
# | --- | --- |
# | cores | do the arithmetic on a CPU |
# | BLAS threads | BLAS is a library of matrix products; its *threads* use several cores for one product |
# | GPU | does the arithmetic many times faster |
# | CUDA, cuDNN | run programs on NVIDIA's GPUs; cuDNN is CUDA's library for the layers of nets |
# | MPI | starts *ranks* (processes that work together) and carries their messages |
# | NCCL | carries messages between NVIDIA GPUs |
# | Horovod | averages gradients over all ranks, on top of MPI or NCCL |
# | InfiniBand | a fast network between nodes |
# | GPUDirect RDMA | the network card reads and writes GPU memory itself, without a detour |
# | GDRCopy | copies small messages between CPU and GPU memory with little delay |
# | Slurm | gives you nodes of a cluster and starts your job on them |
#
# No laptop has all of them, and none is needed to begin: every lab says what it needs.
#
# A *node* is one computer of a cluster. A *core* is a part of its processor that can run one
# program at a time.
#
# Many processors show each core as two, so that two programs share its units (*hyper-threads*). The
# operating system counts those, and so does the doctor: 8 cores with hyper-threads are 16 to it.
#
# ### Predict
# How many cores may this process use, hyper-threads counted, and how much memory (GiB) has the
# machine? (A GiB is 2³⁰ bytes, nearly a GB.)

# %%
predict("00.1", cores=..., memory_gib=...)

# %% [markdown]
# Now ask the doctor. It loads each framework once to look inside: 10 to 60 seconds. Read a few
# lines of "not found: …": they say what each missing part would enable.

# %%
doctor.show()

# %% [markdown]
# ### The report as data
# `doctor.report()` is the same as a dict of dicts. Two of its parts:

# %%
report = doctor.report()
print("machine:", report["machine"])
print("gpu:", report["gpu"])
predict.compare(
    "00.1", cores=report["machine"]["cores"], memory_gib=report["machine"]["memory_gib"]
)


# %% [markdown]
# **Explain.** Does the doctor count fewer cores than you expected? Containers, batch jobs and
# virtual machines often get a part of the machine only. "cores" is what counts for you;
# "cores_in_all" is what the machine has. Does it count twice as many? Then your processor has
# hyper-threads.
#
# So `report["machine"]["cores"]` is the number of cores that this process may use, and
# `report["gpu"]["devices"]` the list of GPUs, or None where the doctor found none.
#
# ### Exercise 00.1 · Share the machine
# If 4 ranks (processes) all used every core, they would only get in each other's way (lab 13
# measures it). So write `per_rank`: what each of `ranks` ranks may use, by the report that your
# function is given. Return a dict with
#
# - `threads`: whole cores per rank, but at least 1;
# - `memory_gib`: its part of the memory that is *free*, `memory_free_gib`, not rounded;
# - `gpus`: the number of all GPUs of the machine, 0 where there is none. Do **not** divide it:
#   every rank sees all GPUs, and may share one with another rank.
#
# In Python `7 // 2` is 3, `max(1, 0)` is 1, `len(["a", "b"])` is 2, and `None or []` is `[]`. About
# 5 lines. *(beginner)*
#
# <details><summary>Hint 1: which entry?</summary>
# "cores" are those you may use. "cores_in_all" are the machine's: a batch job or container often
# gets fewer.</details>
# <details><summary>Hint 2: whole and at least one</summary>
# // divides and drops the rest: 6 // 4 is 1. And max(1, …) never gives less than 1.</details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# ```python
# machine = report["machine"]
# gpus = len(report["gpu"]["devices"] or [])   # None or [] is []
# return {"threads": max(1, machine["cores"] // ranks), "memory_gib": ..., "gpus": gpus}
# ```
#
# </details>

# %%
def per_rank(report, ranks):
    """What each of `ranks` ranks may use: {"threads": int, "memory_gib": float, "gpus": int}."""
    raise NotImplementedError("exercise 00.1: Share the machine")


# %%
# Asked: The shares of a machine with 6 cores and 2 GPUs, of 1 to 12 ranks; with
# one GPU, and none.
check("00.1", per_rank)


# %% [markdown]
# ## 2. Ranks are processes
# A *rank* is one of several processes that run the same function. `launch.run` starts them, shows
# what they print behind their number, and returns a list of their results. (On a cluster the
# launcher has started them already, under `mpiexec` or `srun`, and the same call runs on those.)

# %%
def greet(comm):
    print(f"I am rank {comm.rank} of {comm.size}.")
    return comm.rank**2


# Across ranks: every rank runs greet; comm is how it knows its number and reaches the others.
launch.run(greet, ranks=ranks)

# %% [markdown]
# Run that cell again, a few times: the order may change. Ranks do not wait for each other unless
# you make them.
#
# ### Predict
# Your notebook is a process, too. How many different processes run Python code in that cell,
# notebook and ranks?

# %%
predict("00.2", processes=...)


# %% [markdown]
# ### Exercise 00.2 · Prove it
# Write `who_am_i`, to be run on every rank. It returns a dict:
#
# | key | value |
# |---|---|
# | `rank`, `ranks` | this rank's number, and how many there are: `comm.rank`, `comm.size` |
# | `host` | the computer's name: `platform.node()` |
# | `pid` | the number that the operating system gave this process: `os.getpid()` |
# | `library` | the MPI library's own words about itself: `MPI.Get_library_version()` |
#
# `MPI` comes from `from mpi4py import MPI`. Write that line *inside* of the function: only ranks
# load MPI, never the notebook. About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: a dict</summary>
# {"rank": comm.rank, "ranks": comm.size} is a dict with two entries.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# Return {"rank": comm.rank, "ranks": comm.size, "host": …, "pid": …, "library": …}, each … a call
# from the text.</details>

# %%
def who_am_i(comm):
    """On one rank: {"rank", "ranks", "host", "pid", "library"}."""
    raise NotImplementedError("exercise 00.2: Prove it")


# %%
# Asked: Every one of three ranks, and of four, tells its number and process,
# and names its MPI.
check("00.2", who_am_i)

# %% [markdown]
# **Explain.** The ranks have different process numbers, and none is the notebook's: that is the
# proof. (The launcher adds one or two helpers of its own, which run no Python of yours.)
#
# Each rank has its own memory, too. A variable that rank 1 sets, no other rank can see: it takes a
# message. Look:

# %%
note = "as it was"


def change_the_note(comm):
    global note
    if comm.rank == 1:
        note = "changed by rank 1"
    return note


# Across ranks: each returns the note that it sees, after rank 1 has changed its own.
print(launch.run(change_the_note, ranks=ranks))


# %% [markdown]
# **Explain.** Rank 1 alone returns the changed note.
#
# ## 3. When it goes wrong
# It will. Two kinds of trouble are special to many ranks. First: *one* rank fails. Here the ranks
# take their parts from a list, and the list is one part too short. Read the message: which rank,
# what, which line?

# %%
def take_a_part(comm):
    parts = [f"part {number} of the images" for number in range(comm.size - 1)]
    return parts[comm.rank]


try:
    launch.run(take_a_part, ranks=ranks)
except RankFailed as failure:  # caught here only so that the notebook can go on
    print(failure)


# %% [markdown]
# <details><summary>Answer</summary>
#
# The last rank: there is no part for it (IndexError), in the line `return parts[comm.rank]`. On the
# other ranks nothing was wrong.
# </details>
#
# Second: nobody fails, and nothing happens. Each rank waits for a message that is sent only after
# another wait: a *deadlock*. `launch.run` stops it after `timeout` seconds and says who waits, and
# where. In the next cell ranks stand in a ring, and each has a left and a right neighbor:
#
# - `comm.send(thing, dest=1)` sends any Python object to rank 1;
# - `comm.recv(source=0)` waits for what rank 0 sends, and returns it.

# %%
def pass_on_stuck(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    note = comm.recv(source=left)
    comm.send(f"greetings from {comm.rank}", dest=right)
    return note


if world.launcher() is None:  # under mpiexec or srun a stuck run ends the whole job
    try:
        launch.run(pass_on_stuck, ranks=ranks, timeout=patience)
    except RankFailed as failure:
        print(failure)


# %% [markdown]
# Who waits for whom?
#
# <details><summary>Answer</summary>
#
# All ranks stand in `recv`, each for its left neighbor. Nobody has got as far as `send`, so no
# message can arrive.
# </details>
#
# ### Exercise 00.3 · Unlock it
# Write `pass_on`: every rank sends its `greeting` to its right neighbor and returns the one from
# its left neighbor. The greeting names the process, so that nobody can make it up. Nobody may wait
# for ever, whatever the number of ranks. One call does both at the same time:
#
#     theirs = comm.sendrecv(thing, dest=1, source=2)  # sends to rank 1, returns what rank 2 sends
#
# 1 line. *(beginner)*
#
# <details><summary>Hint 1: where does it go, where does it come from?</summary>
# To `right`, from `left`. Both stand in the function already.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# return comm.sendrecv(greeting, dest=right, source=…)</details>

# %%
def pass_on(comm):
    """Send this rank's greeting to the right neighbor; return the greeting of the left one."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    greeting = f"greetings from rank {comm.rank}, process {os.getpid()}"
    raise NotImplementedError("exercise 00.3: Unlock it")


# %%
# Asked: Each rank returns its left neighbor's greeting, with three ranks and
# with four.
check("00.3", pass_on)

# %% [markdown]
# (If you sent first and received second, it worked: short messages are taken along at once. [Lab 20](20_ranks_and_messages.ipynb)
# shows where that ends.)
#
# ### What you take away
# - `doctor.show()`, in a terminal `make doctor`, says what is here, what is not, and which labs
#   run.
# - Ranks are separate processes that share nothing but messages. Cores are shared out among them.
# - A message about a failed run names the rank and the line. Read it first.
# - If nothing happens, ask who waits for whom.
#
# Next, lab 01: numbers you can trust.

# %% [markdown]
# # 00 Check your environment
#
# Training on many GPUs needs components that have to fit together: processors, a network, a library
# that sends messages, a framework such as PyTorch or TensorFlow, and a program that starts
# everything. If one of them is missing or hidden, the training may stop with a long error message,
# or it may run much slower without any error. Before you train anything, it therefore pays to know
# what your machine has, and what the errors of a program with many processes look like.
#
# In this lab we look at your machine with the *doctor*, a program that reports what your machine
# has. Then we start a few processes that work together, show that they have no variables in common,
# and cause two typical failures on purpose, so that you recognize them when you meet them later. It
# is enough that you know some Python. You do not need a GPU.
#
# **After this lab you can** (1) read the doctor's report, (2) start ranks and prove that they are
# separate processes, and (3) read the messages of a run that failed and of a run that hangs.
#
# ![One computer with eight cores. A notebook starts four ranks, each with its own memory and two cores, which exchange messages](00_ranks.svg)
#
# *A notebook and four ranks on one computer. Each rank is a process with its own memory and its
# share of the cores. Ranks exchange data by sending messages.*
#
# Needs: cpu · Ranks: 1 · Minutes: 40 · Level: beginner · Before: -

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
# - **Predict** a number before you measure it, by writing it in place of `...`. A wrong guess costs
#   nothing, and the comparison shows you what to look at.
# - **Build**: in the cell of an exercise, write your code in place of the line
#   `raise NotImplementedError(...)`.
# - **Check**: run the cell below the exercise. It tells you whether your answer is right and, if it
#   is not, what kind of mistake it contains. A failed check does not break anything, so try again.
# - **Stuck?** Unfold the hints, or run `hint("00.1")` in a new cell. In a terminal,
#   `make solve LAB=00 EX=00.1` writes the answer to one exercise into your notebook.
# - **Explain** says what you should have seen and what you might see instead. Where a question has
#   a folded answer, think about it before you unfold the answer.
#
# Run the cells from top to bottom, each with Shift+Enter. While a cell runs, Jupyter shows `[*]` to
# the left of it.
#
# <details><summary>More help, for later</summary>
#
# - To see what a check tries, run `check.show("00.1")` in a new cell.
# - To begin again, choose *Restart Kernel* in the menu *Kernel*, then run the cells from the top.
#   What you wrote remains.
# - Words of the field that another lab introduces are links to the [glossary](../labs/GLOSSARY.md)
#   where they first occur. The formulas of all labs are on [one page](../docs/FORMULAS.md).
# - In a terminal, `make progress` shows how far you are. Nobody else sees this unless you type
#   `make share`, after which your instructor's board shows the exercise you are working on, how
#   many times you tried, and what the failed checks said. `make share HIDDEN=1` leaves out your
#   name, and `make unshare` withdraws what you shared.
# </details>
#
# ## 1. What your machine has
# A *node* is one computer in a cluster. A *core* is a part of its processor that executes programs
# independently of the other parts. A processor with 8 cores often appears as 16, because each core
# offers two *hyper-threads*, so that two programs can share its units. The operating system and the
# doctor count hyper-threads as cores, so they report 16.
#
# Besides cores and memory, this lab needs only **MPI** (Message Passing Interface), a standard for
# messages between *ranks*, which are processes that work together. Libraries such as MPICH and Open
# MPI implement it.
#
# Other labs also use a **GPU** (graphics processing unit), a processor that does many operations at
# once, which can make it many times faster than a CPU. Some labs use several nodes of a cluster. No
# laptop has all components, and every lab says what it needs.
#
# <details><summary>Other components that the doctor's report names</summary>
#
# | component | purpose |
# | --- | --- |
# | BLAS threads | BLAS (Basic Linear Algebra Subprograms) is a library of matrix products; its *threads* compute one product on several cores |
# | [CUDA](@cuda_guide), [cuDNN](@cudnn) | CUDA runs programs on NVIDIA's GPUs; cuDNN is its library for the layers of neural networks |
# | [NCCL](@nccl) | NVIDIA Collective Communications Library: sends messages between NVIDIA GPUs |
# | InfiniBand | a fast network between nodes |
# | [GPUDirect RDMA](@gpudirect_rdma) | the network card reads and writes GPU memory itself, without a copy in main memory (RDMA: remote direct memory access) |
# | GDRCopy | copies small messages between CPU and GPU memory with little delay |
# | [Slurm](@slurm_sbatch) | the *scheduler* of a cluster, which assigns nodes to you and starts your job on them |
# | [Horovod](@horovod) | averages gradients over all ranks, using MPI or NCCL |
#
# </details>
#
# ### Predict
# The line below the first code cell has shown how many cores this process can use. How much memory
# (in GiB) does the machine have, and how much of it is free now? A GiB is 2³⁰ bytes, which is
# slightly more than a GB.

# %%
predict("00.1", memory_gib=16, memory_free_gib=8)

# %% [markdown]
# Now ask the doctor, which collects facts about your machine. It loads each framework once to look
# inside, so this takes 10 to 60 seconds. In the report,
#
# - find "cores you may use", and the lines that answer the prediction, "memory (GiB)" and "memory
#   free (GiB)";
# - read a few of the lines that say "not found", because each of them says what the missing
#   component would enable;
# - check in the last part which labs run on your machine.

# %%
doctor.show()

# %% [markdown]
# ### The report as data
# `doctor.report()` returns the same facts as a dictionary of dictionaries. Here are two of its
# parts:

# %%
report = doctor.report()
print("machine:", report["machine"])
print("gpu:", report["gpu"])
predict.compare(
    "00.1",
    memory_gib=report["machine"]["memory_gib"],
    memory_free_gib=report["machine"]["memory_free_gib"],
)

# %% [markdown]
# **Explain.** The free memory is less than the whole, because the operating system and other
# programs use a part of it, and it changes while they run.
#
# The entry "cores" counts what your process can use, and "cores_in_all" what the machine has. If
# the doctor counts fewer cores than you expected, your process probably runs in a container, on a
# virtual machine or in a *batch job* (a program that a cluster runs for you), which often get only
# a part of the machine. If it counts twice as many, your processor has hyper-threads.
#
# In your code, `report["machine"]["cores"]` is the number that your process can use, and
# `report["gpu"]["devices"]` is the list of GPUs, or None if the doctor found none.
#
# ### Exercise 00.1 · Share the machine
# If each of 4 ranks used all cores, the ranks would slow each other down, which lab 13 measures. So
# write `per_rank`, which computes what each of `ranks` ranks may use, from the report that the
# function is given. Return a dictionary with
#
# - `threads`: how many threads compute in the rank, one for each of its whole cores (as the doctor
#   counts them), but at least 1. A *thread* is a part of a process that runs on one core at a time;
# - `memory_gib`: the rank's equal part of the memory that is *free*, not rounded. The free memory
#   is `report["machine"]["memory_free_gib"]`;
# - `gpus`: the total number of GPUs in the machine, 0 if there are none. Do **not** divide this
#   number, because every rank sees all GPUs and can share one with another rank.
#
# For example, on a machine with 8 cores, 12 GiB free and one GPU, each of 3 ranks gets
# `{"threads": 2, "memory_gib": 4.0, "gpus": 1}`. In Python `8 // 3` is 2, `max(1, 0)` is 1,
# `len(["a", "b"])` is 2, and `None or []` is `[]`. Leave the report as it is. About 5 lines.
# *(beginner)*
#
# <details><summary>Hint 1: which entry?</summary>
#
# The entry "cores" is the number of cores that you may use. The entry "cores_in_all" describes the
# whole machine, while a batch job or a container often gets only a part of it.
# </details>
# <details><summary>Hint 2: whole and at least one</summary>
#
# The operator // divides and drops the remainder, so 6 // 4 is 1. And max(1, …) never returns less
# than 1.
# </details>
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
    ### BEGIN SOLUTION
    machine = report["machine"]
    return {
        "threads": max(1, machine["cores"] // ranks),
        "memory_gib": machine["memory_free_gib"] / ranks,
        "gpus": len(report["gpu"]["devices"] or []),
    }
    ### END SOLUTION


# %%
check("00.1", per_rank)

# %% [markdown]
# ## 2. Ranks are processes
# A rank is one of several processes that run the same function. `launch.run` starts the ranks,
# shows the lines that they print with the rank's number in front, and returns the list of their
# results. Inside the function, `comm` (the *communicator*) tells a rank its number, `comm.rank`,
# and the number of all ranks, `comm.size`. (On a cluster, a *launcher* such as `mpiexec` or `srun`
# may have started the ranks already, and the same call then uses those.)


# %%
def greet(comm):
    print(f"I am rank {comm.rank} of {comm.size}.")
    return comm.rank**2


# Across ranks: every rank runs greet; comm is how it knows its number and reaches the others.
launch.run(greet, ranks=ranks)

# %% [markdown]
# The list of results, [0, 1, 4, 9] with four ranks, is always in the order of the ranks. Run this
# cell again a few times. The order of the printed lines can change, because ranks do not wait for
# each other unless your program makes them wait.
#
# ### Predict
# In how many different processes does code of this notebook run while the cell above runs?

# %%
predict("00.2", processes=5)

# %% [markdown]
# ### Exercise 00.2 · Prove it
# Is each rank really a separate process? Write `who_am_i`, a function that runs on every rank and
# returns a dictionary:
#
# | key | value |
# |---|---|
# | `rank`, `ranks` | the number of this rank, and the number of all ranks: `comm.rank`, `comm.size` |
# | `host` | the name of the computer: `platform.node()` |
# | `pid` | the number that the operating system gave this process (process identifier): `os.getpid()` |
# | `library` | the text with which the MPI library describes itself: `MPI.Get_library_version()` |
#
# `MPI` comes from `from mpi4py import MPI` ([mpi4py](@mpi4py) is MPI for Python). Write this line
# *inside* the function, so that only the ranks, and never the notebook, load MPI. About 3 lines.
# *(beginner)*
#
# <details><summary>Hint 1: a dictionary</summary>
#
# {"rank": comm.rank, "ranks": comm.size} is a dictionary with two entries.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Return {"rank": comm.rank, "ranks": comm.size, "host": …, "pid": …, "library": …}, where each … is
# a call from the table.
# </details>


# %%
def who_am_i(comm):
    """On one rank: {"rank", "ranks", "host", "pid", "library"}."""
    ### BEGIN SOLUTION
    from mpi4py import MPI

    me = {"rank": comm.rank, "ranks": comm.size, "host": platform.node(), "pid": os.getpid()}
    return {**me, "library": MPI.Get_library_version()}
    ### END SOLUTION


# %%
check("00.2", who_am_i)

# %% [markdown]
# Now let the ranks introduce themselves, and print the notebook's process number, too:

# %%
# Across ranks: each says who it is; the list has their answers in the order of the ranks.
people = launch.run(who_am_i, ranks=ranks)
for person in people:
    print(f"rank {person['rank']} of {person['ranks']}: process {person['pid']}, {person['host']}")
print(f"notebook: process {os.getpid()}")
pids = [person["pid"] for person in people] + [os.getpid()]
predict.right("00.2", processes=len(set(pids)))  # a set keeps each number once

# %% [markdown]
# **Explain.** The ranks have different process numbers, and none of them is the notebook's number,
# which proves that they are separate processes on this computer. So with 4 ranks, your code ran in
# 5 processes, because the notebook is a process, too. (`launch.run` and MPI's launcher start some
# helper processes in addition, which run none of your code.)
#
# In the next cell, rank 1 changes a variable, and every rank returns the value that it sees. Which
# ranks will return the changed note?

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
# **Explain.** Only rank 1 returns the changed note. Each rank has its own memory with its own copy
# of every variable, so no other rank sees the change, unless rank 1 sends it a message.
#
# ## 3. When it goes wrong
# Sooner or later a run fails, and with several ranks there are two kinds of failure that you have
# to tell apart.
#
# ### One rank fails
# In the first kind, one rank stops with an error while the others are healthy. They might wait for
# it forever, so `launch.run` ends them and names the rank that failed.
#
# In the next cell each rank takes its part of the images. Read the message: which rank failed, why,
# and in which line?


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
# The last rank failed with an IndexError on the line `return parts[comm.rank]`, because the list is
# one part too short, so that there is no part for it. Nothing was wrong on the other ranks.
# </details>
#
# ### No rank fails, and nothing happens
# In the second kind, each rank waits for a message that another rank would send only after its own
# wait. This is called a *deadlock*. `launch.run` stops such a run after `timeout` seconds and
# reports which ranks are waiting, and where.
#
# In the next cell the ranks form a ring, so that each has a left and a right neighbor: with 4
# ranks, the right neighbor of rank 3 is rank 0. (In Python `(0 - 1) % 4` is 3, so the left neighbor
# of rank 0 is rank 3.) Two calls move the messages:
#
# - `comm.send(thing, dest=1)` sends any Python object to rank 1;
# - `comm.recv(source=0)` waits for an object from rank 0 and returns it.


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
# Which rank waits for which?
#
# <details><summary>Answer</summary>
#
# All ranks wait in `recv`, each for a message from its left neighbor. No rank has reached `send`,
# so no message can arrive.
# </details>
#
# ### Exercise 00.3 · Unlock it
# Write `pass_on`: every rank sends its `greeting` to its right neighbor and returns the greeting
# from its left neighbor. (The greeting contains the sender's process number, which the receiver
# cannot guess.) No rank may wait forever, with two ranks or with more. One call sends and receives
# at the same time:
#
#     theirs = comm.sendrecv(thing, dest=1, source=2)  # sends to rank 1, returns what rank 2 sends
#
# 1 line. *(beginner)*
#
# <details><summary>Hint 1: where does it go, where does it come from?</summary>
#
# The greeting goes to `right`, and another greeting comes from `left`. Both variables are in the
# function already.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# return comm.sendrecv(greeting, dest=right, source=…)
# </details>


# %%
def pass_on(comm):
    """Send this rank's greeting to the right neighbor; return the greeting of the left one."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    greeting = f"greetings from rank {comm.rank}, process {os.getpid()}"
    ### BEGIN SOLUTION
    return comm.sendrecv(greeting, dest=right, source=left)
    ### END SOLUTION


# %%
check("00.3", pass_on)

# %% [markdown]
# If you sent first and received second, the check passes, too, because MPI libraries usually accept
# a short message before the receiver asks for it. The optional part of lab 20 finds the length from
# which this no longer works.
#
# ### What you take away
# - `doctor.show()`, or `make doctor` in a terminal, reports which components your machine has,
#   which it lacks, and which labs you can run.
# - Ranks are separate processes. They have no variables in common and exchange messages. On one
#   machine they share the cores, so each rank gets a part of them.
# - The message of a failed run names the rank and the line, so read it first.
# - If nothing happens, find out which rank is waiting for which.
#
# Lab 01 continues with measurements that you can trust.
#
# ### Further reading
# - [@mpi4py] The tutorial shows `send` and `recv` in a few lines, and the reference lists all calls.
# - [@mpi_standard] The chapter on point-to-point communication says when a send may wait for its
#   receiver.
# - [@slurm_srun] The manual page of the launcher that starts ranks on most clusters.

# %% [markdown]
# <!-- Generated from solutions/13_cpu_threads_and_affinity.py by `make labs`. Learners work on a copy in work/. -->
# # 13 CPU threads and affinity
#
# One process with many threads, many processes with one thread each, or something between: on the
# same cores the same net trains at different speeds. Find the best split, say why, and keep every
# thread on its cores.
#
# **You will be able to** (1) share a node's cores among ranks, (2) tell what of a step threads do
# not help, (3) measure threads × processes, (4) bind a rank with all its threads, and prove it.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 45 · Level: intermediate · Before: 10, 20

# %%
import os

import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, hint, lab, launch, plots, predict, record, world
from support import lab13
from torch.nn.utils import parameters_to_vector, vector_to_parameters

lab.start("13_cpu_threads_and_affinity")

# %% tags=["parameters"]
batch = 64  # images of 32 × 32 pixels per step, over all ranks together
width = 16  # channels of the net's first convolutions: 16,986 weights
repeat = 20  # steps measured of each kind
workers = 4  # ranks at most, unless a launcher has started some; never more than cores
waiting = ("active", "passive")  # threads without work keep their core busy, or sleep
patience = 120  # seconds after which a run on ranks is given up

# %% [markdown]
# ## The words
# * **Core**: what computes. Linux counts *hardware threads*: if a core has two, it appears twice,
#   and two busy threads share one core's arithmetic.
# * **Socket**: a processor chip; a node often has two. Each socket, or a part of it, has memory of
#   its own: it is a **NUMA node** (non-uniform memory access). A core reads another one's memory
#   more slowly.
# * **Affinity**: the set of cores on which a thread may run, its *mask*. `os.sched_getaffinity(0)`
#   returns it. `os.cpu_count()` counts the cores outside of it, too.
# * **Local rank**: a rank's number on its node, 0 to `local_size` - 1.
#
# `lab13.usable()` lists the cores of the mask, and no more than a container's quota of CPU time
# pays for.

# %%
print("Usable cores:", lab13.usable())


# %% [markdown]
# ### Exercise 13.1 · Share the cores
# The ranks of a node share its usable `cores`. Give each rank one piece of them, in order, as cores
# that share a cache and memory mostly have neighbouring numbers. There are at least as many cores
# as ranks. 4 lines. *(beginner)*
#
# * Pieces do not overlap, no core is left over, and the shares differ by one core at most.
# * The numbers may begin anywhere, with gaps.
#
# An example: cores 8, 9, 10, 12 and 3 ranks may be [8], [9], [10, 12].
#
# <details><summary>Hint 1: which part?</summary>
#
# `cores = sorted(cores)`, a set has no order. With n cores, rank r's piece begins at place
# `r * n // local_size`. Where does the next one begin?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# It ends where the next one begins, at `(r + 1) * n // local_size`. Return `cores[begin:end]`.
# </details>

# %%
def cores_of(local_rank, local_size, cores):
    """The cores of one rank, a list of int. cores: a set, what os.sched_getaffinity(0) returns."""
    raise NotImplementedError("exercise 13.1: Share the cores")


# %%
# Asked: Each of 1 to 8 ranks gets a fair piece of neighbouring cores, in the
# ranks' order, of 1 to 8 cores that are numbered from 0, from 8, by twos, or on
# two sockets.
check("13.1", cores_of)

# %%
usable = lab13.usable()
for rank in range(min(4, len(usable))):
    print(f"Local rank {rank} here: {cores_of(rank, min(4, len(usable)), set(usable))}")


# %% [markdown]
# ## Why threads are not enough
# Inside a process PyTorch cuts each large operation into pieces, one for each thread. What it does
# not cut is done by one thread while the others wait: Python, the start of each operation, simple
# loops (ReLU, sums) over less than 32,768 numbers. So with t threads a step takes
# `serial + parallel / t`: **Amdahl's law**.
#
# The two parts follow from the seconds of a step by number of threads: over x = 1/threads they are
# a line ([lab 50](50_strong_and_weak_scaling.ipynb) asks for such a fit).

# %%
def amdahl(seconds):
    """(serial, parallel), in seconds. seconds: a dict, number of threads -> seconds of a step."""
    parallel, serial = np.polyfit(1 / np.array(list(seconds)), list(seconds.values()), 1)
    return serial, parallel


def speedup(serial, parallel, threads):
    """How many times as fast as one thread."""
    return (serial + parallel) / (serial + parallel / threads)


for share in (0.5, 0.1, 0.01):
    gains = ", ".join(f"{speedup(share, 1 - share, n):.1f} on {n}" for n in (2, 8, 56))
    print(f"{share:.0%} serial: speed-up {gains} threads")


# %% [markdown]
# One percent of serial work is enough to keep 56 threads from being more than 36 times as fast.
#
# ## Threads × processes
# The other way to use n cores: p processes, each with n/p threads and 1/p of the batch (**data
# parallel**). All loops over images then run side by side, and threads wait for each other less.
#
# The price: once a step the ranks add up their gradients. MPI's `comm.Allreduce(own, total)` does
# it: `total` becomes the sum of all ranks' `own`, on every rank ([lab 21](21_collectives.ipynb)). Both are NumPy arrays of
# one shape.

# %%
def add_up(comm, net):
    """In .grad of each weight: the sum of all ranks' gradients, on every rank."""
    gradients = [weight.grad for weight in net.parameters()]
    own = parameters_to_vector(gradients).numpy()  # laid end to end
    total = np.empty_like(own)
    # Across ranks: one sum for all gradients.
    comm.Allreduce(own, total)
    vector_to_parameters(torch.from_numpy(total), gradients)  # each back to its place


# %% [markdown]
# ### Exercise 13.2 · The same step on several ranks
# Leave in `.grad` the gradient of the mean loss over the *whole* batch, on every rank. The weights
# stay as they are. 3 lines. *(intermediate)*
#
# * `.grad` still holds the step before; `net.zero_grad()` clears it.
# * Parts of a batch may be unequal, so a mean of means is wrong. Instead a rank takes the *sum* of
#   its images' losses (`reduction="sum"`) and divides by `batch`, the images of all ranks.
# * Then the sum of the ranks' gradients is right: `add_up(comm, net)`.
#
# <details><summary>Hint 1: this rank's loss</summary>
#
# `F.cross_entropy(net(images), labels, reduction="sum") / batch`
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `net.zero_grad()`, then `(…).backward()` of that loss, then `add_up(comm, net)`.
# </details>

# %%
def step(comm, net, images, labels, batch):
    """Leave in .grad the gradients of the mean loss of all ranks' images. images, labels: this
    rank's."""
    raise NotImplementedError("exercise 13.2: The same step on several ranks")


# %%
# Asked: The gradient of 10 images is right on each of 1, 2, 3 and 4 virtual
# ranks (threads that stand for ranks).
check("13.2", step)

# %% [markdown]
# ### Measure
# All **splits**, pairs (processes, threads) whose product is the cores; one process with more and
# more threads; and twice as many threads as cores, as a control.
#
# What does a thread do that has nothing to do? It waits *actively*: it goes on at once, but its
# core is lost to others. Or *passively*: it sleeps. PyTorch's threads belong to OpenMP, a library
# that shares loops among threads. It reads the variable `OMP_WAIT_POLICY` when a process starts.
# `launch.run` sets it for the ranks that it starts; under a launcher you set it yourself.

# %%
# About a minute: each way of waiting, each split.
ranks = launch.ranks_here(min(workers, len(lab13.usable())))
options = {"ranks": ranks, "timeout": patience, "width": width, "batch": batch, "repeat": repeat}
grids = {}
policies = [os.environ.get("OMP_WAIT_POLICY", "not set")] if world.launcher() else waiting
for policy in policies:
    options["env"] = {"OMP_WAIT_POLICY": policy}
    # Across ranks: rank 0 takes part in every cell. Those that a cell leaves out sleep: MPI waits
    # busily.
    cores, grids[policy] = launch.run(lab13.grid, step, **options)[0]
    print(f"threads that wait {policy}: done")

# %% [markdown]
# First one process alone. What do your functions say of its threads?

# %%
last_policy = list(grids)[-1]  # the predictions are about this way of waiting
last_grid = grids[last_policy]  # (processes, threads): seconds of a step, seconds of its allreduce
alone = {}  # threads: seconds of a step of one process
for (processes, threads), (whole, _) in last_grid.items():
    if processes == 1 and threads <= cores:
        alone[threads] = whole.median
        print(f"threads wait {last_policy}: 1 process × {threads}: {1e3 * whole.median:.1f} ms")
if cores > 1:
    serial, parallel = amdahl(alone)
    print(
        f"serial {1e3 * serial:.1f} ms, parallel {1e3 * parallel:.1f} ms (below 0: noise, or"
        " threads cost)"
    )
most = max(processes for processes, threads in last_grid if processes * threads == cores)
print(f"to be compared: {most} processes × {cores // most} with 1 × {cores}")

# %% [markdown]
# ### Predict
# How many times the images/s of one process have p processes, on the same n cores? By Amdahl's law
# one process takes `serial + parallel / n`. Suppose that p processes share the serial part as well:
# `serial / p + parallel / n`. Take the numbers printed above, and 0 for a part that is below it.
#
# This leaves out what processes pay: an allreduce of the gradient, here 68 kB, which takes tens of
# microseconds.

# %%
predict("13.2", ranks_over_threads=...)

# %%
for policy, grid in grids.items():
    steps = {}
    for (processes, threads), (whole, allreduce) in grid.items():
        steps[f"{processes} × {threads}"] = whole
        row = {
            "ranks": processes,
            "threads": threads,
            "cores": cores,
            "batch": batch,
            "width": width,
        }
        record.add("step", seconds=whole, allreduce=allreduce.median, waiting=policy, **row)
        mail = f"; allreduce {allreduce.median:.1e} s" if processes > 1 else ""
        print(f"{policy}, {processes} × {threads}: {whole}{mail}")
    plots.spread(
        steps, title=f"A step by processes × threads (they wait: {policy})", name=f"splits-{policy}"
    )

# %%
gains = {}
for policy, grid in grids.items():
    gains[policy] = grid[1, cores][0].median / grid[most, cores // most][0].median
    times_as_many = f"{gains[policy]:.2f} times the images/s of 1 × {cores}"
    print(f"threads wait {policy}: {most} × {cores // most} has {times_as_many}")
predict.compare("13.2", ranks_over_threads=gains[last_policy])

# %%
# Amdahl's law through the steps of one process, and the ranks beside it.
if cores > 1:
    measured = {threads: alone[1] / seconds for threads, seconds in alone.items()}
    counts = sorted({*alone, 2 * cores, 4 * cores})
    law = {threads: speedup(max(0, serial), max(0, parallel), threads) for threads in counts}
    curves = {
        "one process, threads": measured,
        "ideal": {threads: threads for threads in measured},
        f"{most} processes": {cores: alone[1] / last_grid[most, cores // most][0].median},
        "Amdahl's law": law,
    }
    title = f"What threads gain, and what ranks do (wait: {last_policy})"
    plots.lines(
        curves, xlabel="threads × processes", ylabel="speed-up", title=title, name="speed-up"
    )
else:
    print(
        "One core: nothing to split. Open this lab on a machine with more, or in a job of several"
        " cores."
    )

# %% [markdown]
# **Explain.** Where the ranks' point lies above Amdahl's law of one process, ranks gain what
# threads do not. There are at least two causes. Ranks share the serial loops over images, too. And
# in each operation fewer threads wait for one another. The plot does not separate them. The two
# ways of waiting do, in part: threads that wait actively go on at once, so a gain that is left
# there does not come from waking them. Serial loops, uneven pieces or caches may be behind it.
# Python's own part is as long on every rank, and pulls the other way.
#
# You may see instead that one process wins: its threads wait actively, and nobody else wants the
# cores. With two cores the law has two points and goes through both, whatever they are: it tests
# nothing there. And where lines say "do not quote", other programs took the cores.
#
# Compare the two pictures where there are twice as many threads as cores. With active waiting a
# thread that waits takes the core from the one that it waits for: mostly these steps are the slower
# ones.
#
# When does one process with many threads win for good? <details><summary>Answer</summary> Where the
# gradient is large (VGG-16: 553 MB a rank, in each step), where a rank's part of the batch is too
# small to be quick, or where memory is short: every rank has weights of its own.</details>
#
# <details><summary>Further reading: large machines</summary>
#
# 8,192 processes, **four on each** of Frontera's nodes of 56 cores (TACC's guide), trained
# ResNet-50 in TensorFlow at 250,000 images/s (MVAPICH2, 2,048 nodes; Jain and others, DLS workshop
# at SC19, which compares processes per node).
#
# Intel-Caffe sent gradients through MLSL, a layer on Intel MPI with cores for communication alone
# (Sridharan and others 2018, arXiv 1801.08030): 28 minutes for ResNet-50, over 90 % efficiency on
# up to 104,000 cores (Codreanu and others 2017). MLSL's heir is **oneCCL**, whose workers want
# cores of their own, too: `CCL_WORKER_AFFINITY` (a Horovod with it: `env/HOROVOD.md`).
# </details>
#
# ### Predict
# Two jobs on a node are both bound from core 0 on, say: their ranks share cores, while others are
# idle. Here, in the extreme: `ranks` ranks with a thread for each core of their share (13.1), and
# all of them on one core. How many times as long is a step as on all cores?

# %%
predict("13.3", one_core=...)


# %% [markdown]
# ### Exercise 13.3 · Bind a rank
# `os.sched_setaffinity(thread, cores)` binds *one thread*; 0 means the calling one. Threads begun
# later inherit the mask of their maker.
#
# But PyTorch keeps its threads. A pool of them that was made **before** (in a first large
# operation, or even in `torch.set_num_threads`) has the old mask, and works on where you do not
# want it. So bind before anything else, or move every thread: `lab13.threads()` lists their
# numbers. Then give PyTorch a thread for each core. 3 lines. *(beginner)* (macOS binds nothing on
# request: the check says so.)
#
# <details><summary>Hint 1: every thread</summary>
#
# A loop over `lab13.threads()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `os.sched_setaffinity(thread, cores)` in the loop, and after it
# `torch.set_num_threads(len(cores))`.
# </details>

# %%
def bind(cores):
    """Let all threads of this process run on `cores` (a list) alone, and PyTorch use one thread for
    each."""
    raise NotImplementedError("exercise 13.3: Bind a rank")


# %%
# Asked: All threads of this process move, those of torch's pool too (undone at
# the end); and on real ranks all threads stay on their rank's cores, which no
# other rank has.
check("13.3", bind)

# %%
bound = launch.run(lab13.ways, cores_of, bind, step, **options)
for rank, report in enumerate(bound):
    count = len(report["masks"])
    print(f"rank {rank}: {count} threads, all on {report['cores']}, torch uses {report['threads']}")

# %%
times = bound[0]["times"]
plots.spread(times, title=f"{ranks} × {bound[0]['threads']} threads, bound and not", name="binding")
cell = {"ranks": ranks, "threads": bound[0]["threads"], "batch": batch, "width": width}
for way, time in times.items():
    record.add("binding", seconds=time, way=way, **cell)
print(f"bound over unbound: {times['bound'].median / times['unbound'].median:.2f} times as long")
predict.compare("13.3", one_core=times["all ranks on one core"].median / times["unbound"].median)

# %% [markdown]
# **Explain.** On one core the ranks take turns. By arithmetic alone a step takes as many times as
# long as they had cores before. You may see less: the serial part kept no second thread busy
# anyhow, or other programs took the other cores. You may see more: MPI waits busily, so a rank that
# is done keeps the core from one that still computes.
#
# From binding expect little on a quiet machine of one socket: Linux spreads threads well by itself.
# Beside other programs binding may cost, as a bound thread cannot step aside. It pays with two
# sockets, where a thread that wanders leaves its memory behind; a machine with one socket cannot
# show that.
#
# <details><summary>On a cluster</summary>
#
# **Slurm**, which starts jobs on nodes, binds for you. What it counts as a **CPU**, a core or a
# hardware thread, the site decides. `--cpus-per-task=14` gives each rank 14 CPUs, and
# `srun --cpu-bind=cores` binds the rank to them. In a job 13.3 finds such masks in place, and each
# rank keeps its own.
#
# With `--ntasks-per-node=4`, without `--cpus-per-task`, and bound to cores in this way, a job on a
# node of 56 cores measures 4 × 1: each rank gets one core, and all of its threads share it. Of the
# node's other cores none does anything.
#
# `--cpu-bind=verbose,cores` prints the masks. Since Slurm 22.05 srun wants its own
# `--cpus-per-task`, or the variable `SRUN_CPUS_PER_TASK`. For single threads of a pool there are
# `OMP_PLACES=cores` and `OMP_PROC_BIND=close`; across sockets, `numactl`.
# </details>
#
# ### What you take away
# - Your cores are those in the affinity mask. Share them in disjoint pieces of neighbours.
# - Threads speed up what they share; the serial part limits. Ranks share that too, and pay an
#   allreduce.
# - Measure threads × processes for your net on your node (Frontera: four processes a node).
# - A mask belongs to a thread. Bind first, or move all of them; then look at what is really set.

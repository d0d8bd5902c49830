# %% [markdown]
# # 13 CPU threads and affinity
#
# A node with many cores can train one network in several ways: with a single process that has a
# thread per core, with one single-threaded process per core, or with something between the two. The
# arithmetic is the same in all of them, but the speed is not. Two processes may even run on the
# same cores while other cores are idle, and no message tells you.
#
# In this lab we find the fastest way to use the cores of a node for training, and explain why it is
# the fastest. We partition the cores among the processes, which are the *ranks* of lab 20. Then we
# predict with Amdahl's law how much we gain from more threads, and measure combinations of
# processes and threads. At the end we bind each rank to its cores, and measure what a wrong binding
# costs.
#
# **After this lab you can** (1) partition a node's cores among ranks, (2) tell which part of a step
# does not become faster with more threads, (3) measure combinations of processes and threads, and
# (4) bind a rank with all its threads, and prove it.
#
# ![One process with four threads: during the serial part of a step three cores are idle. Four processes: each core has its own part of the serial work, and an allreduce follows](13_splits.svg)
#
# *A training step on four cores. The serial part is the work that is not divided among threads.
# Above, in one process with four threads, one core does this part alone. Below, four processes
# divide it as well, if it consists of loops over images, but they have to add up their gradients
# (allreduce). The lengths are chosen, not measured.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 50 · Level: intermediate · Before: 10, 20

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
# ## Which cores may a process use?
# Each thread may run only on the cores in its **affinity** mask. `os.sched_getaffinity(0)` returns
# the mask of the calling thread as a set. `os.cpu_count()` counts all cores of the node, and the
# mask often contains fewer.
#
# In this lab, a *core* is a CPU as Linux counts them. A physical core with two *hardware threads*
# (the hyper-threads of lab 00), which share its arithmetic, counts as two.
#
# `lab13.usable()` lists the cores in the mask. In a container with a quota of CPU time, it lists no
# more of them than the quota allows.
# %%
print("Usable cores:", lab13.usable())

# %% [markdown]
# ### Exercise 13.1 · Share the cores
# Write `cores_of`, which returns a rank's part of the usable `cores` of its node, as a list. The
# number of a rank on its node is its **local rank**, from 0 to `local_size` - 1. 4 lines.
# *(beginner)*
#
# * The parts do not overlap, every core belongs to one of them, and their sizes differ by at most
#   one core.
# * Sort the cores. Rank 0 gets the first ones, rank 1 the next, and so on, because cores with
#   neighboring numbers often share a cache and a memory.
# * There are at least as many cores as ranks. The numbers of the cores may begin anywhere and may
#   have gaps.
#
# For example, cores 8, 9, 10 and 12 can be partitioned among 3 ranks as [8], [9], [10, 12].
#
# <details><summary>Hint 1: which part?</summary>
#
# Begin with `cores = sorted(cores)`, because a set has no order. With n cores, the part of rank r
# begins at position `r * n // local_size`. Where does the next part begin?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The part ends where the next one begins, at `(r + 1) * n // local_size`. Return
# `cores[begin:end]`.
# </details>


# %%
def cores_of(local_rank, local_size, cores):
    """The cores of one rank, a list of int. cores: a set, what os.sched_getaffinity(0) returns."""
    ### BEGIN SOLUTION
    cores = sorted(cores)
    begin = local_rank * len(cores) // local_size
    end = (local_rank + 1) * len(cores) // local_size
    return cores[begin:end]
    ### END SOLUTION


# %%
check("13.1", cores_of)

# %%
usable = lab13.usable()
for rank in range(min(4, len(usable))):
    print(f"Local rank {rank} here: {cores_of(rank, min(4, len(usable)), set(usable))}")

# %% [markdown]
# ## Why threads are not enough
# Inside a process, PyTorch divides each large operation among its threads. One thread does all
# other work while the others wait. This serial work consists of the Python code, the launch of each
# operation, and small loops, such as a ReLU of fewer than 32,768 numbers (PyTorch's default limit).
#
# Let `serial` be the time of the serial work, and `parallel` the time of the divided operations on
# one thread. With t threads a step then takes `serial + parallel / t`, which is **Amdahl's law**
# (1967). For example, with 4 ms of serial and 36 ms of parallel work:
#
# | threads | time of a step | speedup |
# |---|---|---|
# | 1 | 4 + 36/1 = 40 ms | 1 |
# | 4 | 4 + 36/4 = 13 ms | 40/13 = 3.1 |
#
# We can also compute the two parts from measured times. Plotted over 1/t, the times form a straight
# line, whose slope is `parallel` and whose value at 1/t = 0 is `serial`. The function `amdahl`
# below fits this line (in lab 50 you will write such a fit).
#
# The function `speedup` applies the law. The cell prints what it predicts if half, a tenth or a
# hundredth of the work is serial.


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
    print(f"{share:.0%} serial: speedup {gains} threads")

# %% [markdown]
# One percent of serial work is thus enough to limit 56 threads to a speedup of 36.
#
# ## Threads × processes
# The other way to use n cores is **data parallelism**: p processes run, each with n/p threads and
# 1/p of the batch. All loops over images are then divided among the processes, including the small
# loops that threads do not divide.
#
# In return, the ranks have to add up their gradients once in each step. MPI (Message Passing
# Interface) does this with `comm.Allreduce(own, total)`, where `own` and `total` are NumPy arrays
# of the same shape. It writes the sum of all ranks' `own` into `total`, on every rank (lab 21). The
# function `add_up` in the next cell does this for all gradients of a network.


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
# Write `step`, which leaves in `.grad` the gradient of the mean loss over the *whole* batch, on
# every rank. It does not change the weights. 3 lines. *(intermediate)*
#
# * `.grad` still contains the gradient of the previous step (`None` before the first one), and
#   `net.zero_grad()` clears it.
# * Each rank has at least one image, but the parts of a batch may have different sizes, so the mean
#   of the ranks' means would be wrong. Each rank therefore takes the *sum* of the losses of its
#   images (`reduction="sum"`) and divides it by `batch`, the number of images of all ranks.
# * The sum of the ranks' gradients is then the right result, and `add_up(comm, net)` computes it.
#
# For example, let a batch of four images on two ranks have the losses 1, 2, 3 and 6:
#
# | | rank 0 | rank 1 | both ranks |
# |---|---|---|---|
# | losses | 1, 2, 3 | 6 | mean: 12/4 = 3 |
# | sum divided by `batch` | 6/4 = 1.5 | 6/4 = 1.5 | sum: 3 (right) |
# | mean of the rank | 6/3 = 2 | 6/1 = 6 | mean of the means: 4 (wrong) |
#
# <details><summary>Hint 1: this rank's loss</summary>
#
# `F.cross_entropy(net(images), labels, reduction="sum") / batch`
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Call `net.zero_grad()`, then `(…).backward()` of that loss, then `add_up(comm, net)`.
# </details>


# %%
def step(comm, net, images, labels, batch):
    """Leave in .grad the gradients of the mean loss of all ranks' images. images, labels: this
    rank's."""
    ### BEGIN SOLUTION
    net.zero_grad()
    (F.cross_entropy(net(images), labels, reduction="sum") / batch).backward()
    add_up(comm, net)
    ### END SOLUTION


# %%
check("13.2", step)

# %% [markdown]
# ### Measure: all splits of the cores
# Which combination is the fastest on this machine? The next cell starts the ranks with
# `launch.run`, and `lab13.grid` times your `step` in one combination after another. On four cores,
# for example, these are:
#
# | processes × threads | why |
# |---|---|
# | 1 × 4, 2 × 2, 4 × 1 | the **splits**: processes times threads is the number of cores |
# | 1 × 1, 1 × 2, 1 × 4 | one process with more and more threads, for Amdahl's law |
# | 4 × 2 | the control: twice as many threads as cores |
#
# A thread without work can wait in two ways. We measure all combinations with both (`policy`):
#
# - If the thread waits *actively*, it keeps checking for work and occupies its core.
# - If it waits *passively*, it sleeps, leaves the core to others, and must be woken up.
#
# The environment variable `OMP_WAIT_POLICY` selects how threads wait. OpenMP, the library that
# provides PyTorch's threads, reads it when a process starts. `launch.run` sets the variable here,
# while under a launcher such as `srun` you set it yourself.
#
# The result, `grids[policy][processes, threads]`, is the time of the whole step and that of its
# allreduce.
# %%
# About a minute: each way of waiting, each combination.
ranks = launch.ranks_here(min(workers, len(lab13.usable())))
options = {"ranks": ranks, "timeout": patience, "width": width, "batch": batch, "repeat": repeat}
grids = {}
policies = [os.environ.get("OMP_WAIT_POLICY", "not set")] if world.launcher() else waiting
for policy in policies:
    options["env"] = {"OMP_WAIT_POLICY": policy}
    # Across ranks: rank 0 takes part in every combination, so it has the times of all. The ranks
    # that are left out sleep.
    cores, grids[policy] = launch.run(lab13.grid, step, **options)[0]
    print(f"threads that wait {policy}: done")

# %% [markdown]
# For one process alone, the next cell prints the time of a step for each number of threads, and the
# two parts according to `amdahl`. The last line gives p and n for your prediction.

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
        f"serial {1e3 * serial:.1f} ms, parallel {1e3 * parallel:.1f} ms (serial below 0: noise;"
        " parallel below 0: threads cost)"
    )
most = max(processes for processes, threads in last_grid if processes * threads == cores)
print(f"p = {most} processes with {cores // most} threads each, on n = {cores} cores")

# %% [markdown]
# ### Predict
# How many times the training throughput of one process, in images per second, do p processes reach
# on the same n cores? Take serial, parallel, p and n from the last output, whose first lines say
# how the threads waited. Use 0 for a part that is printed as negative.
#
# | | time of a step | for example, with 4 and 36 ms, p = n = 4 |
# |---|---|---|
# | one process, by Amdahl's law | `serial + parallel / n` | 4 + 36/4 = 13 ms |
# | p processes, if they divide the serial work as well | `serial / p + parallel / n` | 4/4 + 36/4 = 10 ms |
# | **answer** | the first time divided by the second | 13/10 = 1.3 |
#
# The estimate is optimistic, because it leaves out the allreduce, and because each process really
# runs all of the Python code.
# %%
predict("13.2", ranks_over_threads=1.2)

# %% [markdown]
# The next cell prints and plots all measured steps. In the plots each row is a combination, each
# dot is one step, and the dark bar is the median.
#
# The printed time of an allreduce is that of the call alone, when all ranks begin it together.
# Lines that say "do not quote" were disturbed, mostly by other programs on the cores.
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
        added = f"; allreduce {allreduce.median:.1e} s" if processes > 1 else ""
        print(f"{policy}, {processes} × {threads}: {whole}{added}")
    plots.spread(
        steps,
        title=f"A step by processes × threads (threads wait: {policy})",
        name=f"splits-{policy}",
    )

# %%
gains = {}
for policy, grid in grids.items():
    gains[policy] = grid[1, cores][0].median / grid[most, cores // most][0].median
    times_as_many = f"{gains[policy]:.2f} times the images/s of 1 × {cores}"
    print(f"threads wait {policy}: {most} × {cores // most} has {times_as_many}")
predict.compare("13.2", ranks_over_threads=gains[last_policy])

# %% [markdown]
# Look at the control, which has twice as many threads as cores, in the plots above. With active
# waiting it is usually slower than the splits, because a waiting thread keeps its core from a
# thread that has work.
#
# The next plot shows one process, measured and according to Amdahl's law, as curves, and the ranks
# as a single point at your number of cores. Is this point above or below the curve of Amdahl's law?
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
    title = f"Speedup by threads and by ranks (threads wait: {last_policy})"
    plots.lines(
        curves, xlabel="processes × threads", ylabel="speedup", title=title, name="speed-up"
    )
else:
    print(
        "One core: nothing to split. Open this lab on a machine with more, or in a job of several"
        " cores."
    )

# %% [markdown]
# **Explain.** Two outcomes are common:
#
# * **The point of the ranks is above the curve.** The ranks also divide the serial loops over
#   images, and in each operation fewer threads wait for each other.
# * **The point is on the curve or below it.** One process then loses little by using many threads,
#   while the ranks pay for the allreduce, and each of them runs all of the Python code. This
#   happens mostly with active waiting.
#
# Three notes on your result:
#
# * The gain with active waiting is printed above the plot. If a gain remains there, it is not
#   caused by the time that waking up takes.
# * With two cores the law is not tested, because a line fits any two points.
# * A negative serial part, or one process that is faster than "ideal", is mostly caused by other
#   programs on the cores.
#
# When is one process with many threads likely to be the better choice?
# <details><summary>Answer</summary>
#
# It probably is the better choice where
#
# * the gradient is large (VGG-16 has 553 MB per rank in each step),
# * a rank's part of the batch is too small to be computed efficiently, or
# * memory is scarce, because every rank has its own copy of the weights.
#
# </details>
#
# <details><summary>Large machines</summary>
#
# ResNet-50 was trained in TensorFlow with MVAPICH2 at 250,000 images/s on 2,048 nodes of Frontera,
# with **four processes on each node** of 56 cores (Jain et al., workshop DLS at SC19).
#
# Intel-Caffe trained the same network in 28 minutes, with an efficiency above 90 % on up to 104,000
# cores (Codreanu et al., 2017). Intel-Caffe's library for the gradients, MLSL, reserves some cores
# for communication (Sridharan et al., 2018), as does its successor [oneCCL](@oneccl), where you
# choose these cores with `CCL_WORKER_AFFINITY`.
# </details>
#
# ## Keep each rank on its cores
# So far Linux has decided where each thread runs. We can also **bind** a rank, which restricts its
# threads to certain cores. This can pay off because a core reads some of the memory faster:
#
# * A node often has two **sockets**, which hold one processor chip each. A core reads the memory of
#   its own socket faster than that of the other socket.
# * A group of cores with its own memory, which is a socket or a part of one, forms a **NUMA node**
#   (non-uniform memory access). A rank can be bound to the cores of one NUMA node.
#
# A wrong binding does harm. If two jobs are both bound to cores starting at core 0, their ranks
# share cores while others are idle.
#
# ### Predict
# As an extreme case of a wrong binding, we let all ranks run on one single core. Each rank still
# runs one thread for each core of its part in 13.1. Predict the time of a step in this case,
# divided by the time of an unbound step, which uses all n cores. If a step were only arithmetic,
# the ratio would be n. Do you expect less or more?
# %%
predict("13.3", one_core=2)

# %% [markdown]
# ### Exercise 13.3 · Bind a rank
# Write `bind`, which binds every thread of this process to `cores`, and then sets the number of
# PyTorch's threads to the number of cores. 3 lines. *(beginner)* (macOS does not bind threads on
# request, and the check says so.)
#
# * `lab13.threads()` lists the numbers of all threads.
# * `os.sched_setaffinity(thread, cores)` binds *one thread*, where 0 stands for the calling thread.
#   For example, `os.sched_setaffinity(0, [2, 3])` lets the calling thread run only on cores 2
#   and 3.
#
# Threads that are started later inherit the mask of the thread that started them. PyTorch, however,
# keeps its threads. If its pool of threads was created **before** you bind, in a first large
# operation, these threads keep the old mask. You therefore have to bind before anything else, or
# bind every thread.
#
# <details><summary>Hint 1: every thread</summary>
#
# Write a loop over `lab13.threads()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Call `os.sched_setaffinity(thread, cores)` in the loop, and `torch.set_num_threads(len(cores))`
# after it.
# </details>


# %%
def bind(cores):
    """Let all threads of this process run on `cores` (a list) alone, and PyTorch use one thread for
    each."""
    ### BEGIN SOLUTION
    for thread in lab13.threads():
        os.sched_setaffinity(thread, cores)
    torch.set_num_threads(len(cores))
    ### END SOLUTION


# %%
check("13.3", bind)

# %% [markdown]
# The next cell binds each rank with your `bind`. For each rank it prints the cores of its part and
# the cores on which its threads may run, read from their masks. Both have to agree. A rank has more
# threads than PyTorch uses, because NumPy and MPI start some as well.
#
# The cell also times your step in three ways, which take turns: unbound, each rank bound to its own
# cores, and all ranks on one core. The cell after it plots these times. Threads wait as in the last
# of the measurements above.

# %%
bound = launch.run(lab13.ways, cores_of, bind, step, **options)
for rank, report in enumerate(bound):
    masks = report["masks"]  # thread: the cores in its mask
    on = sorted({core for mask in masks.values() for core in mask})
    print(
        f"rank {rank}: part {report['cores']}; {len(masks)} threads, which may run on {on};"
        f" torch uses {report['threads']}"
    )

# %%
times = bound[0]["times"]
title = f"A step of {ranks} × {bound[0]['threads']}, bound and unbound"
plots.spread(times, title=title, name="binding")
cell = {"ranks": ranks, "threads": bound[0]["threads"], "batch": batch, "width": width}
for way, time in times.items():
    record.add("binding", seconds=time, way=way, **cell)
print(f"bound over unbound: {times['bound'].median / times['unbound'].median:.2f} times as long")
predict.compare("13.3", one_core=times["all ranks on one core"].median / times["unbound"].median)

# %% [markdown]
# **Explain.** On one core the ranks take turns, so a step of pure arithmetic would take n times as
# long. Your ratio may differ from n for two reasons:
#
# - It is *smaller* than n if the n cores together were less than n times as fast as one. For
#   example, two "cores" may be hardware threads of one physical core, all cores may share a memory,
#   or other programs may run. Where a rank has several threads, some of them may have waited during
#   the serial part.
# - It is *larger* than n if a rank that has finished waits actively in MPI and keeps the core from
#   a rank that is still computing.
#
# How much *bound* gains over *unbound* depends on the machine:
#
# - On a quiet machine with one NUMA node it gains little, because Linux distributes the threads
#   well by itself.
# - If other programs run, binding may even cost time, because a bound thread cannot move to a free
#   core.
# - Binding pays off with several NUMA nodes, where it keeps a thread near its memory.
#
# <details><summary>On a cluster</summary>
#
# **Slurm**, which starts jobs on the nodes of a cluster, does the binding for you:
#
# | option of `srun` | effect |
# |---|---|
# | `--cpus-per-task=14` | each rank gets 14 CPUs (cores or hardware threads, as the site decides) |
# | [`--cpu-bind=cores`](@slurm_srun) | the rank is bound to them |
# | `--cpu-bind=verbose,cores` | the masks are printed as well |
#
# Without `--cpus-per-task` a rank often gets only one core, which all of its threads share. This
# depends on the site and on the job, so print the masks. Since Slurm 22.05 `srun` needs the option
# even if the job has it, or the environment variable `SRUN_CPUS_PER_TASK`.
#
# To bind the individual threads of a pool, set `OMP_PLACES=cores` and `OMP_PROC_BIND=close`.
# Without Slurm, `numactl` binds a process to a NUMA node.
# </details>
#
# ### What you take away
# - The cores that you can use are those in the affinity mask. Partition them among the ranks into
#   disjoint parts of neighboring cores.
# - Threads speed up only the work that they divide, and the serial part limits the speedup. Ranks
#   divide the serial loops as well, but need an allreduce.
# - Measure processes × threads for your network on your node.
# - A mask belongs to a thread. Bind first, or bind all threads, and then look at the masks that are
#   really set.
#
# ### Further reading
# - [@pytorch_threads] Which threads PyTorch uses, and how to set their number.
# - [@amdahl1967] The article to which Amdahl's law goes back.
# - [@hwloc] A tool that draws the cores, caches and NUMA nodes of a machine.
# - [@codreanu2017] ResNet-50 on up to 104,000 cores.
# - [@sridharan2018] The library that performed the communication in these runs.

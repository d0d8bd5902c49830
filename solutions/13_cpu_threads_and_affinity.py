# %% [markdown]
# # 13 CPU threads and affinity
#
# One process with many threads, many processes with one thread each, or something between: on the same cores
# the same net trains at different speeds. Find the best split, say why, and keep every thread on its cores.
#
# **You will be able to** (1) share a node's cores among ranks, (2) find the part of a step that threads
# do not help, and the most they can gain, (3) measure threads × processes, (4) bind a rank with all its
# threads, and prove it.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 45 · Before: 10, 20

# %%
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, hint, lab, launch, plots, predict, record
from support import lab13
from torch.nn.utils import parameters_to_vector, vector_to_parameters

lab.start("13_cpu_threads_and_affinity")

# %% tags=["parameters"]
batch = 64  # images of 32 × 32 pixels per step, over all ranks together
width = 16  # channels of the net's first convolutions: 16,986 weights
repeat = 20  # steps measured of each kind
workers = 4  # ranks at most, unless a launcher has started some; never more than cores
waiting = ("active", "passive")  # OpenMP's threads without work keep their core busy, or sleep
patience = 120  # seconds after which a run on ranks is given up

# %% [markdown]
# ## The words
# **Core**: what computes. Linux counts *hardware threads*; if a core has two, it appears twice, and two busy
# threads share one core's arithmetic. **Socket**: a processor chip; a node often has two. **NUMA**
# (non-uniform memory access): each socket, or a part of it, has memory of its own, and a core reads the
# memory of another *NUMA node* more slowly. Pages lie where the thread ran that first wrote them, so a rank
# should stay near its data. **Affinity**: the set of cores on which a thread may run, its *mask*, which
# `os.sched_getaffinity(0)` returns. `os.cpu_count()` counts the cores outside it, too; a container's *quota*
# of CPU time shows in neither. `affinity.usable()` obeys mask and quota.

# %%
print("Cores", lab13.describe())

# %% [markdown]
# ### Exercise 13.1 · Share the cores
# Several ranks on a node, numbered 0 to `local_size` - 1, share its usable `cores`. Give each rank one piece
# of them in order (cores that share a cache and memory mostly have neighbouring numbers). Pieces do not
# overlap, nobody has two cores more than another, no core is left over; the numbers may begin anywhere, with
# gaps. With more ranks than cores each rank gets one core, and all cores about equally many ranks. 4 lines.
#
# <details><summary>Hint 1: which part?</summary>
#
# `cores = sorted(cores)`, a set has no order. With n cores, rank r's piece begins at place
# `r * n // local_size`. Where does the next one begin?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# It ends at `max(begin + 1, (r + 1) * n // local_size)`: at least one core. Return `cores[begin:end]`.
# </details>


# %%
def cores_of(local_rank, local_size, cores):
    """The cores of one rank, a list. cores: a set, what os.sched_getaffinity(0) returns."""
    ### BEGIN SOLUTION
    cores = sorted(cores)
    begin = local_rank * len(cores) // local_size
    end = max(begin + 1, (local_rank + 1) * len(cores) // local_size)
    return cores[begin:end]
    ### END SOLUTION


# %%
with check("13.1"):  # 1 to 12 ranks; 1, 4, 7, 8 cores, numbered from 0, from 8, by twos, on two sockets
    lab13.expect_cores(cores_of)
for rank in range(4):
    print(f"Local rank {rank} of 4 here: {cores_of(rank, 4, set(lab13.usable()))}")

# %% [markdown]
# ## Why threads are not enough
# Inside a process PyTorch cuts each large operation into pieces, one for each thread. What it does not cut is
# done by one thread while the others wait: Python, the start of each operation, simple loops (ReLU, sums)
# over less than 32,768 numbers. So with t threads a step takes `serial + parallel / t`: **Amdahl's law**.
#
# ### Predict
# A step takes 10 s with one thread and 6 s with two. How long with as many threads as you like?

# %%
predict("13.2", limit_seconds=2)

# %% [markdown]
# ### Exercise 13.2 · The serial part
# Given the seconds of a step by number of threads (1 need not be among them), find `serial` and `parallel`:
# over x = 1/threads the seconds are a line, `serial + parallel * x`. Take least squares through all points,
# as `np.polyfit(x, y, 1)` does. Then the speed-up over one thread, also for `math.inf`. 3 lines and 1.
#
# <details><summary>Hint 1: the line</summary>
#
# `x = 1 / np.array(list(seconds))` are the keys, `y = list(seconds.values())`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `parallel, serial = np.polyfit(x, y, 1)`, the slope comes first. The speed-up is one thread's seconds over
# `serial + parallel / threads`.
# </details>


# %%
def amdahl(seconds):
    """(serial, parallel), in seconds. seconds: a dict, number of threads -> seconds of a step."""
    ### BEGIN SOLUTION
    x, y = 1 / np.array(list(seconds)), list(seconds.values())
    parallel, serial = np.polyfit(x, y, 1)
    return serial, parallel
    ### END SOLUTION


def speedup(serial, parallel, threads):
    """How many times as fast as one thread."""
    ### BEGIN SOLUTION
    return (serial + parallel) / (serial + parallel / threads)
    ### END SOLUTION


# %%
with check("13.2"):  # steps of known parts, without a value for one thread too; one with noise
    lab13.expect_amdahl(amdahl, speedup)
    predict.compare("13.2", limit_seconds=amdahl({1: 10, 2: 6})[0])
for share in (0.5, 0.1, 0.01):
    gains = ", ".join(f"{speedup(share, 1 - share, n):.1f} on {n}" for n in (2, 8, 56, math.inf))
    print(f"{share:.0%} serial: speed-up {gains} threads")

# %% [markdown]
# ## Threads × processes
# The other way to use n cores: p processes, each with n/p threads and 1/p of the batch (**data parallel**).
# All loops over images then run side by side, and threads wait for each other less. The price: once a step
# the ranks add up their gradients. MPI's `comm.Allreduce(mine, total)` does it: `total` becomes the sum of
# all ranks' `mine`, on every rank (lab 21).
#
# ### Predict
# Images/s of as many ranks as share the cores evenly (at most `workers`), over one with a thread per core?

# %%
predict("13.3", ranks_over_threads=1.2)

# %% [markdown]
# ### Exercise 13.3 · The same step on several ranks
# Parts of a batch may be unequal, so no mean of means: a rank takes the *sum* of its images' losses and
# divides by `batch`, the images of all ranks. Then the *sum* of the ranks' gradients is right. The weights
# stay. `parameters_to_vector` lays tensors end to end (`.numpy()` for MPI), `vector_to_parameters(vector,
# tensors)` puts them back, into gradients too. 7 lines; and `splits`, 1 line.
#
# <details><summary>Hint 1: the splits</summary>
#
# `[(p, cores // p) for p in range(1, most + 1) if …]`: p must divide the cores.
# </details>
# <details><summary>Hint 2: this rank's gradients</summary>
#
# `net.zero_grad()`, then backward of `F.cross_entropy(net(images), labels, reduction="sum") / batch`.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# `gradients = [weight.grad for weight in net.parameters()]`,
# `mine = parameters_to_vector(gradients).numpy()`, after `Allreduce` into `total = np.empty_like(mine)`:
# `vector_to_parameters(torch.from_numpy(total), gradients)`.
# </details>


# %%
def splits(cores, most):
    """All (processes, threads) with processes × threads = cores, and at most `most` processes; a list."""
    ### BEGIN SOLUTION
    return [(p, cores // p) for p in range(1, most + 1) if cores % p == 0]
    ### END SOLUTION


def step(comm, net, images, labels, batch):
    """Leave in .grad the gradients of the mean loss of all ranks' images. images, labels: this rank's."""
    ### BEGIN SOLUTION
    net.zero_grad()
    (F.cross_entropy(net(images), labels, reduction="sum") / batch).backward()
    gradients = [weight.grad for weight in net.parameters()]
    mine = parameters_to_vector(gradients).numpy()
    total = np.empty_like(mine)
    # Across ranks: one sum for all gradients.
    comm.Allreduce(mine, total)
    vector_to_parameters(torch.from_numpy(total), gradients)
    ### END SOLUTION


# %%
with check("13.3"):  # 1 to 56 cores; 10 images on 1, 2, 3, 4 virtual ranks against one process
    lab13.expect_splits(splits)
    lab13.expect_step(step)

# %% [markdown]
# ### Measure
# All splits, one process with more and more threads, twice as many threads as cores. Idle threads wait
# *actively* (quick to go on, but the core is lost to others: beside another program we saw 36 ms become 508)
# or *passively* (they sleep). OpenMP reads `OMP_WAIT_POLICY` at its start: `launch.run` sets it, else you.

# %%
ranks = launch.ranks_here(min(workers, len(lab13.usable())))
options = {"ranks": ranks, "timeout": patience, "width": width, "batch": batch, "repeat": repeat}
for policy in lab13.policies(waiting):
    options["env"] = {"OMP_WAIT_POLICY": policy}
    # Across ranks: rank 0 takes part in every cell. Those that a cell leaves out sleep: MPI waits busily.
    cores, found = launch.run(lab13.grid, step, splits, **options)[0]
    rates = {cell: [batch / t for t in (all_.median, all_.q3, all_.q1)] for cell, (all_, _) in found.items()}
    lab13.heat_map(rates, cores=cores, title=f"Threads wait: {policy} (framed: each core used once)")
    for (processes, threads), (whole, mail) in found.items():
        cell = {"ranks": processes, "threads": threads, "cores": cores, "batch": batch, "width": width}
        record.add("step", seconds=whole, allreduce=mail.median, waiting=policy, **cell)
        print(f"{processes} × {threads}: {whole}" + f"; allreduce {mail.median:.1e} s" * (processes > 1))
most = max(p for p, t in found if p * t == cores)
print(f"Threads wait: {policy}. Compared: {most} × {cores // most} with 1 × {cores} (ranks × threads)")
predict.compare("13.3", ranks_over_threads=rates[most, cores // most][0] / rates[1, cores][0])

# %% [markdown]
# **Explain.** What do your functions say? Does Amdahl's law, from one process's row, ever reach the ranks?

# %%
alone = {t: whole.median for (p, t), (whole, _) in found.items() if p == 1 and t <= cores}
if cores > 1:
    serial, parallel = amdahl(alone)
    print(f"serial {1e3 * serial:.1f} ms, parallel {1e3 * parallel:.1f} ms (below 0: noise, or threads cost)")
    more, row = sorted({*alone, 2 * cores, 4 * cores}), {t: alone[1] / s for t, s in alone.items()}
    law = {t: speedup(max(0, serial), max(0, parallel), t) for t in more}
    split = {cores: alone[1] / found[most, cores // most][0].median}
    curves = {"one process, threads": row, "ideal": {t: t for t in row}, f"{most} processes": split}
    plots.lines(curves | {"Amdahl's law": law}, xlabel="threads × processes", ylabel="speed-up",
                title=f"What threads gain, and what ranks do (wait: {policy})", name="speed-up")  # fmt: skip
else:
    print("One core: nothing to split. Open this lab on a machine with more, or in a job of several cores.")

# %% [markdown]
# Two ranks of one thread beat one of two if they save more than the allreduce takes: half of the serial loops
# over images, and the threads' waiting for one another in each operation, long where they sleep (Python's
# part is as long on every rank). The gradient here is 68 kB: it is often so. One process can win if threads
# wait actively and nobody else wants the cores, where the gradient is large (VGG-16: 553 MB a rank), where a
# rank's part of the batch is too small to be quick, or where memory is short: every rank has its own weights.
#
# **On large machines.** 8,192 processes, **four on each** of Frontera's nodes of 56 cores (TACC's guide),
# trained ResNet-50 in TensorFlow at 250,000 images/s (MVAPICH2, 2,048 nodes; Jain and others, DLS workshop at
# SC19, which compares processes per node). Intel-Caffe sent gradients through MLSL, a layer on Intel MPI with
# cores for communication alone (Sridharan and others 2018, arXiv 1801.08030): 28 minutes for ResNet-50, over
# 90 % efficiency on up to 104,000 cores (Codreanu and others 2017). MLSL's heir is **oneCCL**,
# whose workers want cores of their own, too: `CCL_WORKER_AFFINITY` (a Horovod with it: `env/HOROVOD.md`).
#
# ### Predict
# All ranks are on the same core (two jobs, both bound from core 0 on). How many times as long is a step?

# %%
predict("13.4", one_core=2)

# %% [markdown]
# ### Exercise 13.4 · Bind a rank
# `os.sched_setaffinity(thread, cores)` binds *one thread*; 0 means the calling one. Threads begun later
# inherit the mask of their maker. But PyTorch keeps its threads, and a pool of them made **before** (in a
# first large operation, or even in `torch.set_num_threads`) has the old mask, and works on where you do not
# want it. So bind before anything else, or move every thread: `affinity.threads()` lists their numbers. Then
# give PyTorch a thread for each core. 3 lines. (macOS binds nothing on request: the check says so.)
#
# <details><summary>Hint 1: every thread</summary>
#
# A loop over `affinity.threads()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `os.sched_setaffinity(thread, cores)` in the loop, and after it `torch.set_num_threads(len(cores))`.
# </details>


# %%
def bind(cores):
    """Let all threads of this process run on `cores` (a list) alone, and PyTorch use one thread for each."""
    ### BEGIN SOLUTION
    for thread in lab13.threads():
        os.sched_setaffinity(thread, cores)
    torch.set_num_threads(len(cores))
    ### END SOLUTION


# %%
with check("13.4"):  # in this process, after a pool was made (and undone at the end); then on real ranks
    lab13.expect_bind(bind)
    bound = launch.run(lab13.ways, cores_of, bind, step, **options)
    lab13.expect_bound(bound)
for rank, one in enumerate(bound):
    print(f"rank {rank}: {len(one['masks'])} threads, all on {one['cores']}, torch uses {one['threads']}")

# %%
times = bound[0]["times"]
plots.spread(times, title=f"{ranks} × {bound[0]['threads']} threads, bound and not", name="binding")
cell = {"ranks": ranks, "threads": bound[0]["threads"], "batch": batch, "width": width}
for way, time in times.items():
    record.add("binding", seconds=time, way=way, **cell)
print(f"bound over unbound: {times['bound'].median / times['unbound'].median:.2f} times as long")
predict.compare("13.4", one_core=times["all ranks on one core"].median / times["unbound"].median)

# %% [markdown]
# **Explain.** On one core ranks take turns: on a quiet machine a step takes about as many times as long as
# they had cores before, on a busy one less: the other cores are not free either. From binding expect
# little on a quiet machine of one socket: Linux spreads threads well by itself. Beside other programs binding
# may cost, as a bound thread cannot step aside (we saw steps 1.2 to 1.4 times as long). It pays with
# two sockets, where a thread that wanders leaves its memory behind.
#
# **Slurm** does it for you: `--cpus-per-task=14` gives each rank 14 cores, and `srun --cpu-bind=cores` binds
# it to them (`verbose,cores` prints the masks; since Slurm 22.05 srun wants its own `--cpus-per-task`, or
# `SRUN_CPUS_PER_TASK`). `SLURM_CPU_BIND` is that option as an environment variable; srun sets it for the
# ranks too, so their masks are there to read: here 13.4 finds them in place, and each rank keeps its own. For
# single threads of a pool there are `OMP_PLACES=cores` and `OMP_PROC_BIND=close`; across sockets, `numactl`.
#
# ### What you take away
# - Your cores are those in the affinity mask. Share them in disjoint pieces, within NUMA nodes if you can.
# - Threads speed up what they share; the serial part limits. Ranks share that too, and pay an allreduce.
# - Measure threads × processes for your net on your node: a few ranks per node often win (Frontera: four).
# - A mask belongs to a thread. Bind first, or move all of them; then look at what is really set.

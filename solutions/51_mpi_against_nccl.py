# %% [markdown]
# # 51 MPI against NCCL
#
# Several libraries can perform the allreduce of your gradients, and published benchmarks disagree
# about which of them is the fastest. The answer depends on your machine, on the sizes of your
# messages, and on the program that calls the library. Often the benchmarks are not even comparable,
# because one measures a slow first call that another leaves out. Before you install a second
# library, you want to know whether it gains anything.
#
# In this lab we write one benchmark for all of these libraries, and let its numbers decide which of
# them to use. We start the ranks of each library from the same launcher, time allreduces of 4 bytes
# to 256 MiB, and compare sending gradients one by one with fusing them into buckets. At the end we
# write a rule that names the best library for each size, or says "either" if the measurements do
# not decide. Two optional last parts ask whether one library can serve all vectors (5 minutes), and
# run this lab on two nodes (2 minutes).
#
# **After this lab you can** (1) time an allreduce with one loop that is fair to every library, (2)
# start `torch.distributed` from any launcher, (3) say when fusing gradients pays, and (4) decide
# from measurements, and say "either" where they do not decide.
#
# ![Arrows lead from mpi4py to MPI, from Horovod to MPI, Gloo and NCCL, and from torch.distributed to Gloo and NCCL. Below each library are the memory and the networks that it uses](51_libraries.svg)
#
# *A program calls mpi4py, Horovod or `torch.distributed` (top), and each of them passes the vectors
# to MPI, Gloo or NCCL (bottom). Each arrow is a combination that this lab can time, if it is
# installed.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 45 · Level: intermediate · Before: 01, 22, 23, 32, 40

# %%
from functools import partial
from time import perf_counter

import numpy as np
import pandas
import torch
from labkit import check, hint, lab, launch, plots, predict, world
from labkit.timing import human
from support import lab51

lab.start("51_mpi_against_nccl")
# One rank a GPU, or one a core, but at most 4: more would share a GPU (NCCL refuses), or wait for a
# core.
ranks = launch.ranks_here(max(2, torch.cuda.device_count() or min(4, world.cores())))

# %% tags=["parameters"]
asked = (
    "mpi",
    "mpi-gpu",
    "torch-gloo",
    "torch-gloo-gpu",
    "torch-nccl",
    "horovod-mpi",
    "horovod-mpi-gpu",
    "horovod-gloo",
    "horovod-nccl",
)
longest = 1 << 28  # bytes of the longest vector (256 MiB)
# Up to bytes: calls, warm-up.
rounds = ((8192, 100, 10), (1 << 20, 20, 5), (1 << 24, 8, 2), (1 << 28, 3, 1))
nets = ("resnet50", "vgg16")  # whose gradients are exchanged
steps = 5  # timed exchanges of a net's gradients, after one that does not count
bucket = 25 << 20  # bytes of a bucket at most (25 MiB, as in PyTorch's DistributedDataParallel)
limit = 900  # seconds for one library's measurements

# %% [markdown]
# ## 1. Which library performs the allreduce?
# Three libraries can add up the gradients of all ranks:
#
# | library | memory | between nodes | called by |
# |---|---|---|---|
# | MPI (Message Passing Interface) | host memory; also GPU memory if it is CUDA-aware (lab 27), as MVAPICH2-GDR is | the networks of clusters, for which it was designed | [mpi4py](@mpi4py), Horovod |
# | [Gloo](@gloo) | host memory; PyTorch gives it a copy of a vector in GPU memory | TCP | `torch.distributed`, Horovod |
# | [NCCL](@nccl) (NVIDIA Collective Communications Library) | only GPU memory | InfiniBand, RoCE, TCP | `torch.distributed`, Horovod |
#
# [`torch.distributed`](@pytorch_distributed) is PyTorch's layer for programs of many processes, and
# you know [Horovod](@horovod) from lab 40. A caller adds its own costs to those of the library, so
# we time each *combination* of a caller and a library, for example Gloo under both callers.
#
# Below, *backend* means such a combination (comments in the code also say *library*). `lab51` gives
# each backend a name that begins with the caller, for example `horovod-gloo`. The name `mpi` means
# MPI called by mpi4py. Names that end in `-gpu` or `-nccl` are for vectors on a GPU. (This lab does
# not time `torch-mpi`, for which you would have to build PyTorch from its sources.)
#
# A program can use each backend in the same way, by an object that we call `link`:
#
#     vector = link.vector(1000)  # a tensor of 1000 float32 zeros, where this library needs it
#     link.sum(vector)            # allreduce in place; returns when the sum is there
#     link.barrier()              # returns when all ranks are here
#
# The next cell takes a few seconds. For each backend it prints where the vectors are, or why it
# cannot run on this machine.

# %%
for name in lab51.NAMES:
    print(f"{name:15} {lab51.missing(name) or lab51.place(name).describe()}")

# %% [markdown]
# ## 2. One loop for all
# The time of a call is fair if three rules hold for every library:
#
# - It begins when *all* ranks have arrived. `time_calls` therefore puts a barrier before each call,
#   and each rank starts its clock after this barrier. Without it, you would measure how late the
#   last rank is.
# - The first `warmup` calls are not counted, because they may have to open connections.
# - A call is complete when its **slowest** rank has the result. `of_slowest` takes the maximum over
#   the ranks for each call.
#
# We report the median of these maxima. (Labs 01 and 22 asked you to write such loops.) For example,
# three calls on two ranks, in µs, give a median of 14 µs:
#
# | | first call | second call | third call |
# |---|---|---|---|
# | rank 0 | 12 | 10 | 31 |
# | rank 1 | 11 | 14 | 12 |
# | the slowest rank | 12 | 14 | 31 |


# %%
def time_calls(link, call, calls, warmup):
    """Run call() warmup + calls times. Returns a list of `calls` values: seconds on this rank."""
    seconds = []
    for _ in range(warmup + calls):
        # Across ranks: all begin together, or the first would time how late the last one is.
        link.barrier()
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return seconds[warmup:]


def of_slowest(by_rank):
    """{what: seconds of each call, by its slowest rank} of {what: seconds of each call} by rank."""
    return {what: np.max([row[what] for row in by_rank], axis=0) for what in by_rank[0]}


# %% [markdown]
# ## 3. Where the ranks meet
# All libraries need ranks, which we start with one launcher. But PyTorch's ranks have to be told
# where to meet. `torch.distributed.init_process_group("gloo")` reads four environment variables,
# which are strings:
#
# | variable | what it contains |
# |---|---|
# | `RANK`, `WORLD_SIZE` | the number of this rank, and how many ranks there are |
# | `MASTER_ADDR`, `MASTER_PORT` | where rank 0 waits for the others: its host, and a free port on this host |
#
# PyTorch's launcher `torchrun` sets all four of them, but `srun` and `mpiexec` do not. Under these
# two, however, MPI tells each rank its number. You can therefore use `comm.rank`, `comm.size`, and
# `comm.bcast(thing, root=0)`, which returns rank 0's `thing` on every rank (lab 21).
#
# For example, rank 0 of 4 ranks runs on `node1`, where port 40000 is free, and rank 2 runs on
# `node2`, where port 40002 is free. Then rank 2 needs these variables:
#
#     {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "40000"}
#
# ### Exercise 51.1 · Where the ranks meet
# Write `meeting`, which returns the four variables in a dict. Every rank calls it with its own host
# and with a port that is free there, so rank 2 of the example calls
# `meeting(comm, "node2", 40002)`. Only return the dict, because labkit puts the variables into the
# environment. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: one address for all</summary>
#
# All ranks must use the same address, so broadcast both the host and the port of rank 0.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `host, port = comm.bcast((host, port), root=0)`, then
# `{"MASTER_ADDR": host, "MASTER_PORT": str(port), …}`.
# </details>


# %%
def meeting(comm, host, port):
    """A dict: this rank's four variables, as text. host, port: this rank's own, the port is free
    there."""
    ### BEGIN SOLUTION
    # Across ranks: all must hear of one place, rank 0's.
    host, port = comm.bcast((host, port), root=0)
    numbers = {"RANK": str(comm.rank), "WORLD_SIZE": str(comm.size)}
    return {"MASTER_ADDR": host, "MASTER_PORT": str(port)} | numbers
    ### END SOLUTION


# %%
check("51.1", meeting)

# %% [markdown]
# ## 4. Every backend, every size
# Which backend is the fastest, for short vectors and for long ones? We now measure all of them with
# the same loop. There is one rank per GPU, but at least 2, or 2 to 4 ranks on a machine without
# GPUs. The kit's reference, which this lab quotes below, had 2 ranks on 2 cores.
#
# ### Predict
# The vector is a single number of 4 bytes, on the ranks of this machine. How many times as long as
# `mpi` does `torch-gloo` take? MPI writes to shared memory, from which the other ranks read, and
# takes 10 to 30 µs. Gloo uses TCP even inside one machine, and is called by a thread of PyTorch.
# You cannot compute this ratio, so guess.

# %%
predict("51.1", gloo_over_mpi=30)

# %% [markdown]
# ### Measure
# `lab51.sweep` calls `time_calls` with vectors of 4, 16, 64 … bytes up to `longest`. The next cell
# runs it on the ranks of each backend and prints the medians, which takes up to a minute. In the
# table, a row is a number of bytes and a column is a backend. In the kit's reference, for example,
# the row of 67108864 bytes (64 MiB) has about 38,000 µs for `mpi`.
#
# For section 6, the cell also keeps the quartiles q1 and q3. A quarter of the calls take at most
# q1, and three quarters take at most q3.

# %%
sweep = partial(lab51.sweep, time_calls=time_calls, rounds=rounds, longest=longest)
on_ranks = {"ranks": ranks, "meeting": meeting, "timeout": limit}
swept, why_not = lab51.each(asked, sweep, **on_ranks)
times = {name: of_slowest(by_rank) for name, by_rank in swept.items()}
here = lab51.quartiles(times, ranks)  # {library: {bytes: (q1, median, q3)}}, in seconds
medians = pandas.DataFrame({name: {n: row[n][1] for n in row} for name, row in here.items()})
print("µs by bytes:", (1e6 * medians).round(1).to_string(), sep="\n")
for name, reason in why_not.items():
    print(f"{name}: {reason}, so no number.")

# %% [markdown]
# The next cell plots the same measurements:
#
# - The left panel shows times, where low is good.
# - The right panel shows the bus bandwidth (*busbw*, lab 22), where high is good. On n ranks it is
#   bytes / time · 2(n - 1)/n. For example, 4 ranks that need 50 ms for 100 MB have 2 GB/s · 1.5 = 3
#   GB/s.

# %%
plots.bandwidth(
    times, factor=2 * (ranks - 1) / ranks, what="busbw", title=f"Allreduce on {ranks} ranks"
)
if {"torch-gloo", "mpi"} <= set(here):
    predict.compare("51.1", gloo_over_mpi=medians["torch-gloo"][4] / medians["mpi"][4])

# %% [markdown]
# **Explain.** For short vectors the cost of a *call* determines the time. It depends on which
# threads the call wakes up, and on how many layers it passes. Inside one machine without GPUs, you
# should see `mpi` far below all other curves at the left end of the left panel. It takes 10 to 30
# µs, while the others take from tenths of a ms to a few ms.
#
# For long vectors the cost of a *byte* determines the time. Without GPUs, all libraries use the
# same memory for it (or, between nodes, the same network), so their curves come together, within a
# factor of two or three. This is different where GPUs reach each other directly, because the bytes
# of NCCL then do not go through host memory.
#
# ### Control: why does Horovod need a millisecond?
# Horovod's background thread wakes up once per ms to look for work (lab 44). If this cycle is the
# reason, a shorter cycle should help. The next cell measures 4 bytes once more, while the thread
# wakes up ten times as often.

# %%
callers = [name for name in ("horovod-mpi", "horovod-gloo") if name in here]
with launch.environment({"HOROVOD_CYCLE_TIME": "0.1"}):  # milliseconds; 1 if it is not set
    hurried, _ = lab51.each(callers, partial(lab51.shortest, time_calls=time_calls), **on_ranks)
for name, by_rank in hurried.items():
    often = np.median(np.max(by_rank, axis=0))
    print(f"{name}, 4 bytes: cycle of 1 ms {human(here[name][4][1])}, of 0.1 ms {human(often)}")

# %% [markdown]
# **Explain.** You should see that Horovod is at least about twice as fast with the short cycle, so
# the cycle was the main reason. A call of about 2 ms probably took two cycles, because a vector is
# sent only in a cycle in which all ranks have reported it (lab 44).
#
# `torch-gloo` has no cycle. Its time is probably due to TCP and to waking up a thread, which this
# measurement does not separate.
#
# ## 5. One by one, or fused?
# A network has many gradients. Is it faster to reduce them one by one, or to copy them into buckets
# first, which are reduced with fewer calls? For `horovod-mpi` you can compute the answer from three
# numbers. The next cell prints the first two of them, from your own table:
#
# - *A call* takes as long as the allreduce of 4 bytes.
# - *A byte* takes the time of the longest vector, divided by its number of bytes.
# - *The copies* of a byte into the bucket and back take about 0.3 ns together (measured in the
#   kit's reference, on an idle machine).

# %%
if "horovod-mpi" in here:
    row = here["horovod-mpi"]
    last = max(row)
    print(f"a call: {human(row[4][1])}")
    print(f"a byte: {human(row[last][1])} / {last} = {1e9 * row[last][1] / last:.2g} ns")
else:
    print("Horovod is not installed here, so take the numbers of the example below.")

# %% [markdown]
# ### Predict
# ResNet-50 has 107 gradients in labkit's layer table, which together have 102 MB. `horovod-mpi`
# reduces them one by one, or fused into buckets of at most 25 MiB, which takes about 5 calls. How
# many times as fast is the fused way, *including* the copies into the buckets and back?
#
# For example, with 1 ms for a call and 1 ns for a byte, the fused way would be 209 / 138 = 1.5
# times as fast:
#
# | | one by one | fused |
# |---|---|---|
# | calls | 107 · 1 ms = 107 ms | 5 · 1 ms = 5 ms |
# | bytes | 102 MB · 1 ns = 102 ms | 102 MB · 1 ns = 102 ms |
# | copies | none | 102 MB · 0.3 ns = 31 ms |
# | together | 209 ms | 138 ms |
#
# Compute the same with your two numbers.

# %%
predict("51.2", times_as_fast=1.5)

# %% [markdown]
# `lab51.buckets(sizes, limit)` plans the buckets. It begins with the last layer, because the
# backward pass computes its gradient first, and it begins a new bucket when the next gradient would
# not fit. So no bucket is longer than `limit`, unless it contains a single gradient that is longer.
# (In lab 32, a bucket ended after it had become full.)
#
# `exchange` copies the gradients of a bucket into one vector, calls `link.sum` **once** for it, and
# copies the sums back **into** the same tensors.


# %%
def exchange(link, gradients, plan):
    """gradients: {layer: tensor}. Each becomes the sum over all ranks, in place: one link.sum a
    bucket."""
    for layers in plan:
        flat = torch.cat([gradients[layer].flatten() for layer in layers])
        # Across ranks: all have the same plan, so a bucket meets its like.
        link.sum(flat)
        parts = flat.split([gradients[layer].numel() for layer in layers])
        for layer, part in zip(layers, parts, strict=True):
            gradients[layer].copy_(part.view_as(gradients[layer]))


# %% [markdown]
# ### Measure
# `lab51.step` times all gradients of a network in three ways:
#
# - `alone`: one call of `link.sum` for each gradient, the last layer first.
# - `fused`: with `exchange`.
# - `copies`: with `exchange`, but over a link whose `sum` returns at once. This is a control,
#   because only the two copies remain.
#
# The next cell takes one to three minutes. In the plot, each pair of bars is one backend (`hvd` is
# Horovod), first one by one and then fused. The hatched part of a bar is the two copies of every
# byte that fusing requires.
#
# The mark at the end of a bar is the interquartile range of the whole time, which contains the
# middle half of the measured times. Where the marks of two bars overlap, the measurement does not
# decide between them.

# %%
asked_of_step = {"named": nets, "bucket": bucket, "steps": steps}
step = partial(lab51.step, exchange=exchange, time_calls=time_calls, **asked_of_step)
stepped, _ = lab51.each(list(here), step, **on_ranks)
exchanged = {name: of_slowest(by_rank) for name, by_rank in stepped.items()}
took = lab51.measurements(exchanged, ranks)  # {(library, net, way): a Measurement}
for net in nets:
    lab51.plot_exchange(took, net)
if ("horovod-mpi", "resnet50", "fused") in took:
    alone, fused = (took["horovod-mpi", "resnet50", way].median for way in ("alone", "fused"))
    predict.compare("51.2", times_as_fast=alone / fused)

# %% [markdown]
# **Explain.** Inside one machine, you should see three things:
#
# - With Horovod, a call takes a millisecond, so fusing the 107 gradients of ResNet-50 pays off.
# - With `mpi`, the overhead of all 107 calls is only about 2 ms, and the copies alone cost far
#   more.
# - With VGG-16, no backend gains anything. It has only 16 gradients, and the largest, with 411 MB,
#   is copied although it is alone in its bucket.
#
# If your ratio is well below your prediction, compare the hatched part of `hvd mpi fused` with the
# 31 ms of the prediction. The copies take longer on a busy machine. In one such run they took 126
# ms, and `horovod-mpi` gained nothing by fusing.
#
# For comparison, these are numbers of the kit's reference:
#
# | network | backend | measured |
# |---|---|---|
# | ResNet-50 | `horovod-mpi` | fused 1.7 times as fast as one by one, and 2.8 times without the copies |
# | ResNet-50 | `mpi` | calls for single gradients 33 ms, calls for buckets 57 ms |
# | VGG-16 | `mpi` | all calls one by one 0.23 s |
#
# The copies of VGG-16's 553 MB took 0.4 s. This is more than all calls one by one with `mpi`, and
# 0.7 ns a byte instead of the 0.3 ns of the prediction.
#
# The second row shows that fewer calls may even take longer with `mpi`. A byte does not always take
# the same time. In the reference's table, it took 0.16 ns in vectors of 16 MiB and 0.57 ns in those
# of 64 MiB, probably because short vectors stay in the processor's caches.
#
# How would you improve `exchange` for VGG-16?
#
# <details><summary>Answer</summary>
#
# A bucket with a single gradient does not need copies, so pass this tensor directly to `link.sum`.
# Horovod does this. PyTorch's DistributedDataParallel can make the gradients views into the bucket
# (`gradient_as_bucket_view`), so that nothing is copied at all.
# </details>
#
# Training differs from this measurement in two ways:
#
# - `link.sum` waits for the end of each call. In training, Horovod gets many gradients at once, and
#   fuses them itself (lab 44).
# - Here the calls do not overlap with the backward pass. With overlap, a large bucket has another
#   cost, because it can be sent only when its last gradient is ready (lab 32).
#
# ## 6. Which is best?
# We need a rule for when one backend is really better, because two medians are never exactly equal.
#
# ### Exercise 51.2 · Which is best
# Write `best(row)`, where `row` is {backend: (q1, median, q3)} in seconds. The interquartile range
# is the interval from q1 to q3. 4 to 8 lines. *(intermediate)*
#
# Call the backend with the smallest median *first*. Return its name only if it is clearly
# faster than **every** other backend, which means that both of these conditions are true:
#
# - the other's q1 is above the first's q3, so that their interquartile ranges do not overlap; *and*
# - the other's median is above 1.1 times the first's, because the next update may remove a smaller
#   advantage.
#
# Otherwise return `"either"`. If there is only one backend, return its name.
#
# For example, take this row:
#
#     {"x": (0.9, 1.0, 1.2), "y": (1.1, 1.5, 1.6)}
#
# Here x has the smallest median, so compare y with x:
#
# | condition | in this row | true? |
# |---|---|---|
# | y's q1 is above x's q3 | 1.1 and 1.2 | no |
# | y's median is above 1.1 times x's | 1.5 and 1.1 · 1.0 | yes |
#
# The answer is `"either"`. If y's q1 were 1.3, the answer would be `"x"`.
#
# <details><summary>Hint 1: which has the smallest median?</summary>
#
# `first = min(row, key=lambda name: row[name][1])`. Then compare it with every other backend.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For each other backend: `q1, median, _ = row[other]`. If `q1 <= row[first][2]`, or if `median` is
# at most `1.1 * row[first][1]`, the answer is `"either"`.
# </details>


# %%
def best(row):
    """row: {backend: (q1, median, q3)}, one or more. The one that leads clearly, or "either"."""
    ### BEGIN SOLUTION
    first = min(row, key=lambda name: row[name][1])
    for other in row.keys() - {first}:
        q1, median, _ = row[other]
        if q1 <= row[first][2] or median <= 1.1 * row[first][1]:
            return "either"
    return first
    ### END SOLUTION


# %%
check("51.2", best)

# %% [markdown]
# ### Measure: which backend here
# Your `best` now chooses a backend for each size that was measured. Each line of the table shows
# the medians for one number of bytes, and the column `which` shows what `best` returned.

# %%
choice = {n: best({name: row[n] for name, row in here.items()}) for n in medians.index}
shown = medians.map(human)
shown["which"] = pandas.Series(choice)
print(f"Measured now, {ranks} ranks:", shown.to_string(), sep="\n")

# %% [markdown]
# **Explain.** Inside one machine without GPUs you should see `mpi` for small sizes. For the largest
# sizes, "either" or another name may appear, as in the kit's reference:
#
# | size | `mpi` | `horovod-mpi` | `best` returns |
# |---|---|---|---|
# | 64 MiB | 38 ms | 33 ms | `horovod-mpi` |
# | 256 MiB | 0.120 s | 0.128 s, less than 1.1 times as long | "either" |
#
# The two backends that call Gloo take 0.21 s and 0.25 s for 256 MiB.
#
# For 64 MiB, `best` returns `horovod-mpi`, although both backends call MPI. But only 3 calls are
# timed above 16 MiB, so their quartiles are uncertain. Before you rely on such a row, run this
# measurement and the table again.
#
# Does a second library gain anything? To decide between two backends, look only at the sizes that
# your training sends. These are mostly those of full buckets, which have 25 MiB here, so look at
# the rows of 16 and 64 MiB. Call `best` with these two backends alone. For 16 MiB, for example:
#
#     best({name: here[name][1 << 24] for name in ("mpi", "torch-gloo")})
#
# With GPUs, compare `mpi-gpu` with `torch-nccl`.
#
# If `best` returns the backend that you have, or "either", these numbers give no reason for the
# second one. Otherwise the second library pays off if communication is a large part of your step
# (lab 46).
#
# Which size of buckets would you choose here? Look for the size at which the time begins to grow,
# in the left panel of the plot in section 4.
#
# <details><summary>Answer</summary>
#
# They should be so large that a call is cheap compared with its bytes, which is well above the size
# where the time begins to grow. With `mpi` inside a machine, it begins to grow at about 10 KiB, so
# hardly any fusing is needed. If a call takes a ms, it is some MiB.
# </details>
#
# ### What you take away
# - A barrier, warm-up calls and the slowest rank make a measurement fair to every library.
# - One rank tells all others where to meet. With this address, one launcher can start every
#   library.
# - Fuse gradients if a call is expensive. If it is cheap, the copies cost more.
# - Say "either" if the measurements do not decide. A second library is worth considering only if
#   `best` returns it for a size that you send.
#
# ## Going further (optional): one runtime for all? (5 minutes)
# One CUDA-aware MPI can serve vectors in host and in GPU memory, inside a node and between nodes.
# The authors of [MVAPICH2-GDR](@mvapich2_gdr) at Ohio State University call this a **unified
# communication runtime**. The usual alternative is to combine libraries. For example, the ranks
# agree with MPI or Gloo on what is sent next, and NCCL sends it.
#
# When is one library enough? The two ways differ in three things. Lab 46 shows the first, and this
# lab the third:
#
# | | one CUDA-aware MPI | several libraries |
# |---|---|---|
# | to build, to configure, to verify | one build, one set of variables, one verification | these for each library |
# | where it runs | with GPUs and without | NCCL only on NVIDIA's GPUs |
# | speed (your last table) | as fast as the others only if none of them is clearly faster at any size | the best of each row |
#
# On CPUs, the kit's reference favors one library, because MPI is faster than Gloo both for 4 bytes
# (15 µs against 197 µs for `torch-gloo`) and for 256 MiB (0.12 s against 0.21 s). On GPUs, it has
# no numbers, and published ones disagree:
#
# - In Horovod's README of 2017, VGG-16 on 16 GPUs is 2.1 times as fast with NCCL as with MPI on the
#   host if both use TCP, and 2.9 times if both use RDMA (lab 46). But Inception V3 is slightly
#   slower.
# - Ohio State reports that the allreduce of MVAPICH2-GDR is 5 to 17 times as fast as that of NCCL 2
#   for small and medium vectors, and takes 29 % less time for large ones (Awan et al., 2019).
#
# When is one runtime enough on your cluster?
#
# <details><summary>Answer</summary>
#
# Compare `mpi-gpu` with `torch-nccl` there, with `best`, in the rows with the sizes that your
# training sends. If it returns `mpi-gpu` or "either", one runtime costs no speed, and saves a
# build. If it returns `torch-nccl`, a second library pays off if communication is a large part of
# your step.
# </details>
#
# ## Going further (optional): two nodes (2 minutes)
# `make submit LAB=51 NODES=2 SITE=…` runs this file unchanged on a Slurm cluster, and you can do
# other work in the meantime. If its links may be slow, add `SET=longest=4194304`. A job uses one
# build of Horovod: `HOROVOD=nccl` adds `horovod-nccl`, and `HOROVOD=mpi` adds `horovod-mpi-gpu`.
#
# ### Further reading
# - [@awan2019] Measures the training of TensorFlow models with MPI, NCCL and gRPC, and improves the
#   allreduce of MPI.
# - [@nccl_tests] The definition of algbw and busbw.
# - [@li2020] How PyTorch's buckets work, and how their size affects the time of a step.
# - [@pytorch_distributed] The backends of `torch.distributed`, and the variables by which ranks
#   meet.
# - [@hoefler2015] Why a median needs an interval before you compare it with another one.

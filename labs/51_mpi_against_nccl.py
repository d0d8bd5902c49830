# %% [markdown]
# <!-- Generated from solutions/51_mpi_against_nccl.py by `make labs`. Learners work on a copy in work/. -->
# # 51 MPI against NCCL
#
# Which library should carry your gradients? You write one benchmark for all, and let your numbers
# decide.
#
# **You will be able to** (1) time an allreduce by one loop that is fair to every library, (2) bring
# `torch.distributed` up from any launcher, (3) say when fusing gradients pays, (4)
# decide from measurements, and say "either" where they do not decide.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 40 · Level: intermediate · Before: 01, 22, 23, 32, 40

# %%
import socket
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import pandas
import torch
from labkit import check, hint, lab, launch, plots, predict, record, world
from labkit.timing import Measurement, human
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
# ### Who carries the bytes
# | library | takes | between nodes | called by |
# |---|---|---|---|
# | MPI | host memory; GPU memory if CUDA-aware (MVAPICH2-GDR) | what it was built for | mpi4py, Horovod |
# | Gloo | host memory; of a GPU's memory PyTorch gives it a copy | TCP | `torch.distributed`, Horovod |
# | NCCL | GPU memory alone | InfiniBand, RoCE, TCP | `torch.distributed`, Horovod |
#
# `torch.distributed` is PyTorch's own layer for many processes; Horovod you know from [lab 40](40_horovod_pytorch.ipynb). So
# the same Gloo can be called by two programs, and each adds costs of its own.
#
# `lab51` gives every pair a name, caller first: `horovod-gloo`. Plain `mpi` is called by mpi4py.
# Names that end in `-gpu` or `-nccl` are of vectors on a GPU. Behind a name you get a `link`:
#
#     vector = link.vector(1000)  # a torch tensor of 1000 float32 zeros, where that library wants it
#     link.sum(vector)            # sums over all ranks, in place
#     link.barrier()              # returns when all ranks are here
#
# Which can run on this machine? The next cell asks each; it takes some seconds.

# %%
for name in lab51.NAMES:
    print(f"{name:15} {lab51.missing(name) or lab51.place(name).describe()}")

# %% [markdown]
# ### Predict
# (a) 4 ranks sum 100 MB (10^8 bytes) each, in 50 ms. Which *busbw* is that, in GB/s? [Lab 22](22_latency_and_bandwidth.ipynb): algbw
# is bytes / time, and busbw = algbw · 2(n - 1)/n on n ranks.
#
# (b) One number, 4 bytes, on the ranks of this machine: how many times as long as `mpi` does
# `torch-gloo` take? MPI writes to shared memory, which the others read: some µs. Gloo sends through
# TCP even here, and a thread of PyTorch's calls it. You cannot compute this one: guess.

# %%
predict("51.1", busbw=..., gloo_over_mpi=...)


# %% [markdown]
# ### One loop for all
# `time_calls` times what a call takes once *all* ranks are there (labs [01](01_time_it_properly.ipynb) and [22](22_latency_and_bandwidth.ipynb) asked for such
# loops). Before each call stands a barrier, and only then this rank's clock; no barrier follows.
# The first `warmup` calls may have to open connections, and do not count. Without the barrier you
# would time how late the last rank is.
#
# A call is over when its **slowest** rank has it, and of the calls we take the median. (nccl-tests
# stops the time around many calls at once, and quotes the mean over the ranks.)

# %%
def time_calls(link, call, calls, warmup, clock):
    """Run call() warmup + calls times. Returns a list of `calls` values: seconds by clock(), on
    this rank."""
    seconds = []
    for _ in range(warmup + calls):
        # Across ranks: all begin together, or the first would time how late the last one is.
        link.barrier()
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds[warmup:]


def of_slowest(by_rank):
    """{what: seconds of each call, by its slowest rank} of {what: seconds of each call} by rank."""
    return {what: np.max([row[what] for row in by_rank], axis=0) for what in by_rank[0]}


predict.right("51.1", busbw=1e8 / 0.05 / 1e9 * 2 * 3 / 4)


# %% [markdown]
# ### Exercise 51.1 · Where the ranks meet
# `torch.distributed.init_process_group("gloo")` starts PyTorch's ranks. It reads four variables of
# the environment, as text:
#
# | variable | what it holds |
# |---|---|
# | `RANK`, `WORLD_SIZE` | this rank's number, and how many there are |
# | `MASTER_ADDR`, `MASTER_PORT` | where rank 0 awaits the others: its host, and a free port there |
#
# `torchrun` sets all four. `srun` and `mpiexec` do not. But they start MPI, and `comm` can tell:
# `comm.rank`, `comm.size`, and `comm.bcast(thing, root=0)`, which returns rank 0's `thing` on every
# rank ([lab 21](21_collectives.ipynb)).
#
# Write `meeting`: return the four in a dict; labkit sets them. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: one address for all</summary>
#
# All must hear of one place, so rank 0's host and port are broadcast, both.
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
    raise NotImplementedError("exercise 51.1: Where the ranks meet")


# %%
# Asked: Rank 0's address and each rank's own numbers, as text. PyTorch's ranks
# find each other by it.
check("51.1", meeting)


# %% [markdown]
# ### Measure
# Every library, one loop, 4 bytes to `longest`. Who leads on the left, who on the right? About a
# minute.

# %%
def counts_for(nbytes):
    """(calls, warm-up calls) for vectors of nbytes, from the parameter `rounds`."""
    for up_to, calls, warmup in rounds:
        if nbytes <= up_to:
            return calls, warmup
    raise ValueError(f"`rounds` ends before {nbytes} bytes.")


def sweep(link):
    """{bytes: seconds of each call on this rank}, of 4, 16, 64 … bytes."""
    rows = {}
    nbytes = 4
    while nbytes <= longest:
        calls, warmup = counts_for(nbytes)
        vector = link.vector(nbytes // 4)
        rows[nbytes] = time_calls(link, partial(link.sum, vector), calls, warmup, perf_counter)
        nbytes *= 4
    return rows


# %%
on_ranks = {"ranks": ranks, "meeting": meeting, "timeout": limit}
swept, why_not = lab51.each(asked, sweep, **on_ranks)
nodes = len(set(launch.run(socket.gethostname, ranks=ranks))) if world.launcher() else 1
times = {name: of_slowest(by_rank) for name, by_rank in swept.items()}
here = {}  # backend: {bytes: (q1, median, q3)}
for name, row in times.items():
    here[name] = {n: tuple(np.percentile(took, (25, 50, 75)).tolist()) for n, took in row.items()}
    q1, median, q3 = zip(*here[name].values(), strict=True)
    where = {"ranks": ranks, "nodes": nodes, **lab51.place(name).fields()}
    record.add(
        "allreduce", backend=name, bytes=list(row), q1=q1, median=median, q3=q3, unit="s", **where
    )
medians = pandas.DataFrame({name: {n: row[n][1] for n in row} for name, row in here.items()})
print("µs by bytes:", (1e6 * medians).round(1).to_string(), sep="\n")
for name, reason in why_not.items():
    print(f"{name}: {reason}, so no number.")
plots.bandwidth(
    times, factor=2 * (ranks - 1) / ranks, what="busbw", title=f"Allreduce on {ranks} ranks"
)
if {"torch-gloo", "mpi"} <= set(here):
    predict.compare("51.1", gloo_over_mpi=medians["torch-gloo"][4] / medians["mpi"][4])


# %%
# A control: Horovod once more, 4 bytes, but its thread looks for work ten times as often.
def shortest(link):
    """Seconds of each call on this rank, of one number."""
    return time_calls(link, partial(link.sum, link.vector(1)), 100, 10, perf_counter)


callers = [name for name in ("horovod-mpi", "horovod-gloo") if name in here]
with launch.environment({"HOROVOD_CYCLE_TIME": "0.1"}):  # milliseconds; 1 if it is not set
    hurried, _ = lab51.each(callers, shortest, **on_ranks)
for name, by_rank in hurried.items():
    often = np.median(np.max(by_rank, axis=0))
    print(f"{name}: 4 bytes {human(here[name][4][1])}, with a cycle of 0.1 ms {human(often)}")
    last = max(here[name])
    a_byte = here[name][last][1] / last
    print(f"{name}: {last} bytes {human(here[name][last][1])}, so {1e9 * a_byte:.2g} ns a byte")

# %% [markdown]
# **Explain.** On the left a *call* costs, on the right a *byte*. On the left you should see `mpi`
# far below all others: some µs, where they take tenths of a ms to a few ms.
#
# Horovod's millisecond is the cycle of its thread ([lab 44](44_timeline_and_fusion.ipynb)): it looks for work once a ms. The
# control looks ten times as often, and should be several times as fast. Two names with one caller
# differ by the carrier: what `horovod-gloo` then takes more than `horovod-mpi` is Gloo's.
# `torch-gloo` has no cycle, so it pays for something else: TCP and waking a thread are likely
# causes, not told apart here.
#
# On the right the curves come together within a factor of two or three.
#
# You may see instead: jumps of a ms up and down on the left. A likely cause: the threads of Gloo
# and Horovod need cores, too, and where ranks have all cores they wait for one.
#
# Why do the libraries come together as vectors grow?
#
# <details><summary>Answer</summary>
#
# What differs is the cost of a call: who is woken, how often, through which layer. It is paid once.
# The bytes cost what memory or network cost, and no library has a faster network than the machine.
# Where there are GPUs this ends: NCCL's bytes do not go through host memory, so its right end lies
# elsewhere.
# </details>
#
# ### Predict
# ResNet-50 has 107 gradients in labkit's layer table, 102 MB together. `horovod-mpi` sums them one
# by one, or fused into buckets of at most 25 MiB: about 5 calls. The last lines above say what its
# shortest call takes, and what its longest takes per byte: 107 calls and 102 MB against 5 calls and
# 102 MB. How many times as fast is it? (Leave out the copies into the buckets. They are measured
# below. No such lines? Then Horovod is not here: guess.)

# %%
predict("51.2", times_as_fast=...)


# %% [markdown]
# ### From gradients to messages
# Buckets you know from [lab 32](32_buckets_and_overlap.ipynb). `lab51.buckets(sizes, limit)` plans them: the last layer first, as
# backward yields them, and a new bucket when the next gradient would not fit into `limit` bytes.
# `exchange` copies a bucket's gradients one behind the other into one vector, sums that by **one**
# `link.sum`, and copies the sums back **into** the same tensors, where the optimizer looks for
# them.

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
# All gradients of a net, one by one and fused. And a control: `exchange` over a link that carries
# nothing, which leaves the two copies. One to two minutes.

# %%
def one_by_one(link, gradients):
    """Sum every gradient by a call of its own, last layer first."""
    for gradient in reversed(gradients.values()):
        link.sum(gradient)


def step(link):
    """{(net, way): seconds of each exchange on this rank}. What backward could hide is lab 32's
    question.

    link.finish: an exchange is over when the GPU, too, has made its copies.
    """
    rows = {}
    silent = replace(link, sum=lambda tensor: None)  # carries nothing
    for net in nets:
        sizes = lab51.gradient_bytes(net)
        gradients = {layer: link.vector(nbytes // 4) for layer, nbytes in sizes.items()}
        plan = lab51.buckets(sizes, bucket)
        ways = {
            "alone": partial(one_by_one, link, gradients),
            "fused": partial(exchange, link, gradients, plan),
            "copies": partial(exchange, silent, gradients, plan),
        }
        for way, call in ways.items():
            rows[net, way] = time_calls(link, link.finish(call), steps, 1, perf_counter)
    return rows


# %%
stepped, _ = lab51.each(list(here), step, **on_ranks)
took = {}  # (backend, net, way): a Measurement
for name, by_rank in stepped.items():
    for (net, way), seconds in of_slowest(by_rank).items():
        took[name, net, way] = Measurement(seconds)
        where = {"ranks": ranks, "nodes": nodes, **lab51.place(name).fields()}
        record.add("step", backend=name, net=net, way=way, seconds=took[name, net, way], **where)
for net in nets:
    bars = {}
    for name in stepped:
        label = name.replace("horovod", "hvd").replace("-", "\n")
        alone, fused, copies = (
            1e3 * took[name, net, way].samples for way in ("alone", "fused", "copies")
        )
        bars[f"{label}\nalone"] = {"calls": alone}
        bars[f"{label}\nfused"] = {
            "calls": np.maximum(0, fused - np.median(copies)),
            "copies": copies,
        }
    plots.bars(
        bars, ylabel="time of all gradients (ms)", title=f"{net}: fusing saves calls, costs copies"
    )
if ("horovod-mpi", "resnet50", "fused") in took:
    alone, fused = (took["horovod-mpi", "resnet50", way].median for way in ("alone", "fused"))
    predict.compare("51.2", times_as_fast=alone / fused)


# %% [markdown]
# **Explain.** Each pair of bars is one library (`hvd` is Horovod): one by one, then fused. Fusing
# saves calls, and costs two copies of every byte, the hatched part.
#
# You should see: with Horovod, whose call takes a millisecond, fusing ResNet-50's 107 gradients is
# worth it. With `mpi`, whose call takes µs inside one machine, the copies cost more than all the
# calls. With VGG-16 nobody gains: it has 16 gradients, and one of them, 411 MB, is alone in its
# bucket and is copied all the same.
#
# You may see instead: bars whose marks (the middle half) overlap. Then this machine does not
# decide.
#
# (a) How would you improve `exchange` for VGG-16?
#
# <details><summary>Answer</summary>
#
# A bucket of one gradient needs no copies: give that tensor to `link.sum` as it is. Horovod does
# so; PyTorch's DistributedDataParallel lets gradients be views into the bucket
# (`gradient_as_bucket_view`), so that nothing is copied at all.
# </details>
#
# (b) Here nothing overlaps with backward. What would large buckets cost there?
#
# <details><summary>Answer</summary>
#
# A bucket can leave when its last gradient is there. One bucket for all leaves after backward, and
# hides nothing ([lab 32](32_buckets_and_overlap.ipynb)). 25 MiB is a compromise.
# </details>
#
# Published (github.com/horovod/horovod, README of 2017, TCP of 25 Gb/s): with Horovod 16 GPUs were
# so many times as fast as one:
#
# | allreduce | VGG-16 | Inception V3 |
# |---|---|---|
# | on GPUs, by NCCL | 10.0 | 14.8 |
# | on CPUs, by MPI | 4.7 | 15.4 |
#
# One net says NCCL, the other one does not. Yours must be measured.
#
# ### Exercise 51.2 · Which is best
# Two medians always differ. When may you say that one library is better? Write `best(row)`, where
# `row` is {backend: (q1, median, q3)} in seconds, and q1 to q3 hold the middle half of the calls.
#
# The first is the backend with the least median. Return its name only if it leads **every** other
# clearly:
#
# - the other's q1 is above the first's q3: their middle halves do not overlap; *and*
# - the other's median is above 1.1 times the first's: a smaller lead may go with the next update.
#
# Else return `"either"`. A backend that is alone leads. 4 to 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: who has the least median?</summary>
#
# `first = min(row, key=lambda name: row[name][1])`. Then compare it with each other backend.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For each other backend: `q1, median, _ = row[other]`. If `q1 <= row[first][2]`, or if `median` is
# at most `1.1 * row[first][1]`, the answer is `"either"`.
# </details>

# %%
def best(row):
    """row: {backend: (q1, median, q3)}, one or more. The one that leads clearly, or "either"."""
    raise NotImplementedError("exercise 51.2: Which is best")


# %%
# Asked: The answer is y where it leads every other clearly; else "either".
check("51.2", best)

# %% [markdown]
# ### Measure: which library here
# Your `best` chooses for each size, of those that were measured. Beyond the sizes that you measured
# you know nothing.

# %%
choice = {n: best({name: row[n] for name, row in here.items()}) for n in medians.index}
shown = medians.map(human)
shown["which"] = pandas.Series(choice)
print(f"Measured now, {ranks} ranks:", shown.to_string(), sep="\n")

# %% [markdown]
# **Explain.** Inside one machine you should see `mpi` at the small sizes. Towards the end "either"
# may appear, where the middle halves overlap.
#
# (a) Which buckets would you choose here?
#
# <details><summary>Answer</summary>
#
# Large enough that a call is cheap beside its bytes: where time begins to grow with the size. With
# `mpi` inside a machine that is some 10 KiB, so hardly any fusing is needed. With a call of a ms it
# is some MiB.
# </details>
#
# (b) Without a GPU there is no number of NCCL here. May you fill it in from a paper?
#
# <details><summary>Answer</summary>
#
# No: other people's GPUs, links and versions are not yours, and the row would mix two machines. Run
# this file where the GPUs are.
# </details>
#
# ### One runtime for all?
# The authors of MVAPICH2-GDR at Ohio State University argue in their tutorial for a **unified
# communication runtime**: a single CUDA-aware MPI, designed together with the frameworks, that
# carries vectors in host and in GPU memory, short and long ones, inside a node and between nodes.
# Today's usual alternative is one library for each of these jobs, such as MPI or Gloo to negotiate
# and NCCL to carry. Labs [46](46_three_libraries.ipynb) and 51 weigh the two:
#
# | | one CUDA-aware MPI | several libraries |
# |---|---|---|
# | to build, to set, to prove (46) | one build, one set of variables, one proof | these for each library |
# | where it runs | with GPUs and without | NCCL only on NVIDIA's GPUs |
# | fastest (your last table) | only if it leads, or draws, at every size | the best of each row |
# | who keeps it fast | must follow each new GPU and link | NCCL comes from the GPUs' maker |
#
# Measured on CPUs the argument holds. In the kit's reference (two ranks of one machine) `mpi` takes
# 15 µs for 4 bytes, where `torch-gloo` takes 197, and 0.12 s for 256 MiB, where `torch-gloo` takes
# 0.21. So there a second library gains nothing.
#
# The kit's reference has no numbers from GPUs, and the published ones point both ways. With NCCL,
# Horovod trained VGG-16 twice as fast as with MPI, but that MPI worked on the host (table above).
# Ohio State reports an allreduce of MVAPICH2-GDR that is 5 to 17 times as fast as NCCL 2 for small
# and medium vectors (Awan and others, CCGrid 2019, arXiv 1810.11112), but after fusing few vectors
# are small.
#
# So which rows of your own table should decide, and when is one runtime enough?
#
# <details><summary>Answer</summary>
#
# The rows of the sizes that your training sends, mostly those of full buckets (25 MiB here).
# Compare `mpi-gpu` with `torch-nccl` there, on your cluster, by `best`. If it says `mpi-gpu` or
# "either", one runtime costs nothing, and saves a build and a proof. If it says `torch-nccl`, the
# second library is worth its lead times the share of communication in your step ([lab 46](46_three_libraries.ipynb)).
# </details>
#
# ### Going further: between nodes
# Between nodes the libraries use the network, and a small call costs more, so the size from which
# time grows is another one. `make submit LAB=51 NODES=2` runs this file as it is on a Slurm cluster
# (on links that may be slow, with `SET=longest=4194304`): compare the tables.
#
# ### What you take away
# - Without a barrier you time who is late; without warm-up, slow first calls. Quote the slowest
#   rank's median.
# - One rank tells all where to meet: then any launcher starts any library.
# - Fuse gradients where a call is dear; where it is cheap, the copies cost more.
# - A table says "either" where that is so. Where it does at all sizes that you send, one runtime is
#   enough.
# - `make submit LAB=51 NODES=2 SITE=…` runs it on your cluster; `mpi-gpu` and `torch-nccl` are its
#   point. A job has one build of Horovod: `HOROVOD=nccl` brings `horovod-nccl`, `HOROVOD=mpi`
#   `horovod-mpi-gpu`.

# %% [markdown]
# # 51 MPI against NCCL
#
# Which library should carry your gradients? You write one benchmark for all, and let your numbers decide.
#
# **You will be able to** (1) time an allreduce by one loop that is fair to every library, (2) bring
# `torch.distributed` up from any launcher, (3) send a net's gradients in messages of the right size, (4)
# decide from measurements, and say "either" where they do not decide.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 60 · Level: intermediate · Before: 01, 22, 23, 32, 40

# %%
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import torch
from labkit import check, hint, lab, launch, plots, predict
from labkit.timing import human
from support import lab51

lab.start("51_mpi_against_nccl")
ranks = lab51.ranks()

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
rounds = ((8192, 100, 10), (1 << 20, 20, 5), (1 << 24, 8, 2), (1 << 28, 3, 1))  # up to bytes: calls, warm-up
nets = ("resnet50", "vgg16")  # whose gradients are exchanged
steps = 5  # timed exchanges of a net's gradients, after one that does not count
bucket = 25 << 20  # bytes of a bucket at most (25 MiB, as in PyTorch's DistributedDataParallel)
limit = 900  # seconds for one library's measurements, and for a cluster job

# %% [markdown]
# ### Who carries the bytes
# | library | takes | between nodes | called by |
# |---|---|---|---|
# | MPI | host memory; GPU memory if CUDA-aware (MVAPICH2-GDR) | what it was built for | mpi4py, Horovod |
# | Gloo | host memory; of a GPU's memory PyTorch gives it a copy | TCP | `torch.distributed`, Horovod |
# | NCCL | GPU memory alone | InfiniBand, RoCE, TCP | `torch.distributed`, Horovod |
#
# `torch.distributed` is PyTorch's own layer for many processes; Horovod you know from lab 40. So the same
# Gloo can be called by two programs, and each adds costs of its own.
#
# `lab51` gives every pair a name, caller first: `horovod-gloo`. Plain `mpi` is called by mpi4py. Names that
# end in `-gpu` or `-nccl` are of vectors on a GPU. Behind a name you get a `link`:
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
# (a) 4 ranks sum 100 MB (10^8 bytes) each, in 50 ms. Which *busbw* is that, in GB/s? Lab 22: algbw is bytes /
# time, and busbw = algbw · 2(n - 1)/n on n ranks.
#
# (b) One number, 4 bytes, on the ranks of this machine: how many times as long as `mpi` does `torch-gloo`
# take? MPI writes to shared memory, which the others read: some µs. Gloo sends through TCP even here, and a
# thread of PyTorch's calls it. You cannot compute this one: guess.

# %%
predict("51.1", busbw=3.0, gloo_over_mpi=30)

# %% [markdown]
# ### Exercise 51.1 · The benchmark loop
# Write `time_calls`. It times what a call takes once *all* ranks are there:
#
# - before each call `link.barrier()`, and only then this rank's clock; no barrier after it;
# - the first `warmup` calls may have to open connections, and do not count.
#
# `clock()` gives seconds, as `time.perf_counter()` does. About 7 lines. *(intermediate)*
#
# <details><summary>Hint 1: one call</summary>
#
# `link.barrier()`, `start = clock()`, `call()`, then append `clock() - start`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Do so `warmup + calls` times, then `return seconds[warmup:]`.
# </details>


# %%
def time_calls(link, call, calls, warmup, clock):
    """Run call() warmup + calls times. Returns a list of `calls` values: seconds by clock(), on this rank."""
    ### BEGIN SOLUTION
    seconds = []
    for _ in range(warmup + calls):
        # Across ranks: all begin together, or the first would time how late the last one is.
        link.barrier()
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds[warmup:]
    ### END SOLUTION


# %%
check("51.1", time_calls)

# %%
predict.right("51.1", busbw=1e8 / 0.05 / 1e9 * 2 * 3 / 4)

# %% [markdown]
# ### Measure: what mistakes cost
# Which numbers does a table quote? `columns` makes them of all ranks' seconds: a row for each rank, a column
# for each call. A call is over when its **slowest** rank has it, and of the calls it takes the median. algbw
# and busbw are nccl-tests'. (nccl-tests itself stops the time around many calls at once, and quotes the mean
# over the ranks.)
#
# Your loop runs on three virtual ranks (lab 23), whose right answer is known. Their first 3 calls take 5 ms
# more, and between the calls rank r is busy for r ms. Then the same without the barrier, and with calls that
# count from the first on.


# %%
def columns(seconds, count, width):
    """seconds: array [rank, call], of `count` values of `width` bytes.

    Returns (seconds until the slowest rank has it, for each call; algbw; busbw: of the median, in GB/s).
    """
    slowest = seconds.max(axis=0)
    n = len(seconds)
    algbw = count * width / np.median(slowest) / 1e9
    return slowest, algbw, algbw * 2 * (n - 1) / n


# %%
def no_barrier(link, call, calls, warmup, clock):
    return time_calls(replace(link, barrier=lambda: None), call, calls, warmup, clock)


def no_warmup(link, call, calls, warmup, clock):
    return time_calls(link, call, calls, 0, clock)


for name, loop in {"your loop": time_calls, "no barrier": no_barrier, "no warm-up": no_warmup}.items():
    by_rank = np.array([rank.seconds for rank in lab51.late_calls(loop, 3)])
    slowest, _, _ = columns(by_rank, 10**5, 4)
    print(f"{name:10} median {human(np.median(slowest))}, mean {human(np.mean(slowest))}")

# %% [markdown]
# **Explain.** Without the barrier you time how late the last rank is: several times too much here, and
# neither median nor mean can tell. Without warm-up the mean is far off. The median bears it, as long as fewer
# than half of the calls are slow. So it takes both: leave the first calls out, and quote the median.
#
# ### Exercise 51.2 · Where the ranks meet
# `torch.distributed.init_process_group("gloo")` starts PyTorch's ranks. It reads four variables of the
# environment, as text:
#
# | variable | what it holds |
# |---|---|
# | `RANK`, `WORLD_SIZE` | this rank's number, and how many there are |
# | `MASTER_ADDR`, `MASTER_PORT` | where rank 0 awaits the others: its host, and a free port there |
#
# `torchrun` sets all four. `srun` and `mpiexec` do not. But they start MPI, and `comm` can tell: `comm.rank`,
# `comm.size`, and `comm.bcast(thing, root=0)`, which returns rank 0's `thing` on every rank (lab 21).
#
# Write `meeting`: return the four in a dict; labkit sets them. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: one address for all</summary>
#
# All must hear of one place, so rank 0's host and port are broadcast, both.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `host, port = comm.bcast((host, port), root=0)`, then `{"MASTER_ADDR": host, "MASTER_PORT": str(port), …}`.
# </details>


# %%
def meeting(comm, host, port):
    """A dict: this rank's four variables, as text. host, port: this rank's own, the port is free there."""
    ### BEGIN SOLUTION
    # Across ranks: all must hear of one place, rank 0's.
    host, port = comm.bcast((host, port), root=0)
    numbers = {"RANK": str(comm.rank), "WORLD_SIZE": str(comm.size)}
    return {"MASTER_ADDR": host, "MASTER_PORT": str(port)} | numbers
    ### END SOLUTION


# %%
check("51.2", meeting)

# %% [markdown]
# ### Measure
# Every library, one loop, 4 bytes to `longest`. Who leads on the left, who on the right? About a minute.


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
times = lab51.tabulate(swept, columns)
nodes = lab51.nodes(ranks)
here = lab51.keep(times, ranks=ranks, nodes=nodes)
for name, reason in why_not.items():
    print(f"{name}: {reason}, so no number.")
plots.bandwidth(times, factor=2 * (ranks - 1) / ranks, what="busbw", title=f"Allreduce on {ranks} ranks")
predict.compare("51.1", gloo_over_mpi=lab51.times_as_long(here, "torch-gloo", "mpi", 4))


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
# **Explain.** On the left a *call* costs, on the right a *byte*. On the left you should see `mpi` far below
# all others: some µs, where they take tenths of a ms to a few ms.
#
# Horovod's millisecond is the cycle of its thread (lab 44): it looks for work once a ms. The control looks
# ten times as often, and should be several times as fast. Two names with one caller differ by the carrier:
# what `horovod-gloo` then takes more than `horovod-mpi` is Gloo's. `torch-gloo` has no cycle, so it pays for
# something else: TCP and waking a thread are likely causes, not told apart here.
#
# On the right the curves come together within a factor of two or three.
#
# You may see instead: jumps of a ms up and down on the left. A likely cause: the threads of Gloo and Horovod
# need cores, too, and where ranks have all cores they wait for one.
#
# Why do the libraries come together as vectors grow?
#
# <details><summary>Answer</summary>
#
# What differs is the cost of a call: who is woken, how often, through which layer. It is paid once. The bytes
# cost what memory or network cost, and no library has a faster network than the machine. Where there are GPUs
# this ends: NCCL's bytes do not go through host memory, so its right end lies elsewhere.
# </details>
#
# ### Predict
# ResNet-50 has 107 gradients in labkit's layer table, 102 MB together. `horovod-mpi` sums them one by one, or
# fused into buckets of at most 25 MiB: about 5 calls. The last lines above say what its shortest call takes,
# and what its longest takes per byte: 107 calls and 102 MB against 5 calls and 102 MB. How many times as fast
# is it? (Leave out the copies into the buckets. They are measured below. No such lines? Then Horovod is not
# here: guess.)

# %%
predict("51.3", times_as_fast=2.0)

# %% [markdown]
# ### Exercise 51.3 · From gradients to messages
# Buckets you know from lab 32. `lab51.buckets(sizes, limit)` plans them: the last layer first, as backward
# yields them, and a new bucket when the next gradient would not fit into `limit` bytes. So `{"a": 10, "b":
# 30, "c": 5}` with limit 40 becomes `[["c", "b"], ["a"]]`.
#
# Write `exchange`. For each bucket of the plan: copy its gradients one behind the other into one vector,
# **one** `link.sum`, and copy the sums back **into** the same tensors, where the optimizer looks for them. 5
# lines. The calls for it, on tensors of 6 and 4 values:
#
#     flat = torch.cat([conv.flatten(), bias.flatten()])  # a vector of 10 values, a copy
#     first, second = flat.split([6, 4])                  # its parts; tensor.numel() is a tensor's 6 or 4
#     conv.copy_(first.view_as(conv))                     # the values of `first`, in conv's shape, into conv
#
# *(intermediate)*
#
# <details><summary>Hint 1: pack</summary>
#
# `flat = torch.cat([gradients[layer].flatten() for layer in layers])` is a copy.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# After the sum `flat.split([gradients[layer].numel() for layer in layers])` are the parts, and
# `gradients[layer].copy_(part.view_as(gradients[layer]))` brings each one back.
# </details>


# %%
def exchange(link, gradients, plan):
    """gradients: {layer: tensor}. Each becomes the sum over all ranks, in place: one link.sum a bucket."""
    for layers in plan:
        ### BEGIN SOLUTION
        flat = torch.cat([gradients[layer].flatten() for layer in layers])
        # Across ranks: all have the same plan, so a bucket meets its like.
        link.sum(flat)
        parts = flat.split([gradients[layer].numel() for layer in layers])
        for layer, part in zip(layers, parts, strict=True):
            gradients[layer].copy_(part.view_as(gradients[layer]))
        ### END SOLUTION


# %%
check("51.3", exchange)

# %% [markdown]
# ### Measure
# All gradients of a net, one by one and fused. And a control: your `exchange` over a link that carries
# nothing, which leaves the two copies. One to two minutes.


# %%
# You need not read this cell: it times the three ways.
def one_by_one(link, gradients):
    """Sum every gradient by a call of its own, last layer first."""
    for gradient in reversed(gradients.values()):
        link.sum(gradient)


def step(link):
    """{(net, way): seconds of each exchange on this rank}. What backward could hide is lab 32's question.

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
for net, bars in lab51.keep_steps(stepped, ranks=ranks, nodes=nodes).items():
    plots.bars(bars, ylabel="time of all gradients (ms)", title=f"{net}: fusing saves calls, costs copies")
predict.compare("51.3", times_as_fast=lab51.fused_gain(stepped, "horovod-mpi", "resnet50"))

# %% [markdown]
# **Explain.** Each pair of bars is one library (`hvd` is Horovod): one by one, then fused. Fusing saves
# calls, and costs two copies of every byte, the hatched part.
#
# You should see: with Horovod, whose call takes a millisecond, fusing ResNet-50's 107 gradients is worth it.
# With `mpi`, whose call takes µs inside one machine, the copies cost more than all the calls. With VGG-16
# nobody gains: it has 16 gradients, and one of them, 411 MB, is alone in its bucket and is copied all the
# same.
#
# You may see instead: bars whose marks (the middle half) overlap. Then this machine does not decide.
#
# (a) How would you improve `exchange` for VGG-16?
#
# <details><summary>Answer</summary>
#
# A bucket of one gradient needs no copies: give that tensor to `link.sum` as it is. Horovod does so;
# PyTorch's DistributedDataParallel lets gradients be views into the bucket (`gradient_as_bucket_view`), so
# that nothing is copied at all.
# </details>
#
# (b) Here nothing overlaps with backward. What would large buckets cost there?
#
# <details><summary>Answer</summary>
#
# A bucket can leave when its last gradient is there. One bucket for all leaves after backward, and hides
# nothing (lab 32). 25 MiB is a compromise.
# </details>
#
# Published (github.com/horovod/horovod, README of 2017, TCP of 25 Gb/s): with Horovod 16 GPUs were so many
# times as fast as one:
#
# | allreduce | VGG-16 | Inception V3 |
# |---|---|---|
# | on GPUs, by NCCL | 10.0 | 14.8 |
# | on CPUs, by MPI | 4.7 | 15.4 |
#
# One net says NCCL, the other one does not. Yours must be measured.
#
# ### Exercise 51.4 · Which is best
# Two medians always differ. When may you say that one library is better? Write `best(row)`, where `row` is
# {backend: (q1, median, q3)} in seconds, and q1 to q3 hold the middle half of the calls.
#
# The first is the backend with the least median. Return its name only if it leads **every** other clearly:
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
# For each other backend: `q1, median, _ = row[other]`. If `q1 <= row[first][2]`, or if `median` is at most
# `1.1 * row[first][1]`, the answer is `"either"`.
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
check("51.4", best)

# %% [markdown]
# ### Measure: which library here
# `lab51.which(nbytes, table, best)` hands your `best` the row of this size: of each backend that was measured
# there, or on both sides of it, the times of the nearest size. Where there is none it says "not measured":
# beyond the sizes that you measured you know nothing.

# %%
lab51.print_table(here, partial(lab51.which, best=best), f"measured now, {ranks} ranks")

# %% [markdown]
# **Explain.** Inside one machine you should see `mpi` at the small sizes. Towards the end "either" may
# appear, where the middle halves overlap.
#
# (a) Which buckets would you choose here?
#
# <details><summary>Answer</summary>
#
# Large enough that a call is cheap beside its bytes: where time begins to grow with the size. With `mpi`
# inside a machine that is some 10 KiB, so hardly any fusing is needed. With a call of a ms it is some MiB.
# </details>
#
# (b) Without a GPU there is no number of NCCL here. May you fill it in from a paper?
#
# <details><summary>Answer</summary>
#
# No: other people's GPUs, links and versions are not yours, and the row would mix two machines. Run this file
# where the GPUs are.
# </details>
#
# ### For those who have time: between nodes
# Between nodes the libraries use the network. If a Slurm cluster is at hand, this file as it is goes there as
# a batch job, on two nodes with two ranks each (4 MiB, one net: links may be slow). Else the kit's own
# results stand in, and the table's title says so. A small call costs more there, so the size from which time
# grows is another one: compare the tables.

# %%
tables = {nodes: here}
if nodes == 1:
    settings = {"longest": min(longest, 1 << 22), "nets": nets[:1], "steps": 1}
    tables[2], title = lab51.elsewhere(limit, **settings)
    lab51.print_table(tables[2], partial(lab51.which, best=best), title)
places = {}
for count, table in tables.items():
    for nbytes in lab51.sizes_of(table):
        places[nbytes, count] = lab51.which(nbytes, table, best)
plots.crossover(places, ylabel="nodes", title="Which library, and where there is none to prefer")

# %% [markdown]
# **Explain.** The lower row is that of your machine. In the upper one, too, you should see `mpi` at the left,
# and "either" at sizes where the middle halves overlap.
#
# ### What you take away
# - Without a barrier you time who is late; without warm-up, slow first calls. Quote the slowest rank's
#   median.
# - One rank tells all where to meet: then any launcher starts any library.
# - Fuse gradients where a call is dear; where it is cheap, the copies cost more.
# - A table says "either" where that is so.
# - `make submit LAB=51 NODES=2 SITE=…` runs it on your cluster; `mpi-gpu` and `torch-nccl` are its point. A
#   job has one build of Horovod: `HOROVOD=nccl` brings `horovod-nccl`, `HOROVOD=mpi` `horovod-mpi-gpu`.

# %% [markdown]
# # 51 MPI against NCCL
#
# Which library should carry your gradients? You write one benchmark for all, and let your numbers decide.
#
# **You will be able to** (1) time an allreduce by nccl-tests' conventions, (2) bring `torch.distributed` up
# from any launcher, (3) turn a net's gradients into messages of the right size, (4) decide by size from
# measurements, and say "either" where they do not decide.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 50 · Before: 22, 40

# %%
from functools import partial
from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist
from labkit import check, expect, hint, lab, plots, predict, virtual
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
steps = 2  # timed exchanges of a net's gradients, after one that does not count
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
# `lab51` puts a name before them, such as `horovod-gloo`: `link.vector(n)` makes n float32 zeros
# where that library wants them, `link.sum(vector)` sums over all ranks, in place. Names that end in `-gpu` or
# `-nccl` are of vectors on a GPU. Which can run here?
# ### Predict
# (a) 4 ranks sum 100 MB (10^8 bytes) each, in 50 ms. Which *busbw* (lab 22) is that, in GB/s? (b) How
# many times as long as MPI does Gloo take here, called by `torch.distributed`, for one number (4 bytes)?
# (c) ResNet-50 has 107 gradients in labkit's layer table, 102 MB; VGG-16 has 16, 553 MB. How many times as
# fast does Gloo exchange those of ResNet-50 if they travel fused, 25 MiB at a time, not one by one?

# %%
for name in lab51.NAMES:
    print(f"{name:15} {lab51.missing(name) or lab51.place(name).describe()}")
predict("51.1", busbw=3.0, gloo_over_mpi=30)
predict("51.3", times_as_fast=2.0)

# %% [markdown]
# ### Exercise 51.1 · The benchmark loop
# Time what a call takes once *all* ranks are there: `link.barrier()` before each, then this rank's clock;
# no barrier after it. The first `warmup` calls open connections and do not count. A call is over when the
# **slowest** rank has it; quote the median. (nccl-tests: the mean, over ranks too; with `-a 3`, the slowest.)
# A vector is `count` values of `width` bytes; algbw = its bytes / time, busbw = algbw · 2(n - 1)/n.
#
# <details><summary>Hint 1: one call; the slowest rank</summary>
#
# `link.barrier()`, `start = clock()`, `call()`, then append `clock() - start`, `warmup + calls` times.
# `seconds` has a row for each rank, a column for each call: `seconds.max(axis=0)` is one value a call.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `return seconds[warmup:]`. With n = `len(seconds)`: `algbw = count * width / np.median(slowest) / 1e9`.
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


def columns(seconds, count, width):
    """seconds: array [rank, call]. Returns (seconds by call: an array, algbw, busbw: in 10^9 bytes/s)."""
    ### BEGIN SOLUTION
    slowest = seconds.max(axis=0)
    n = len(seconds)
    algbw = count * width / np.median(slowest) / 1e9
    return slowest, algbw, algbw * 2 * (n - 1) / n
    ### END SOLUTION


# %%
def expect_calls(p):
    """`calls` values by `clock`: of calls that all begin together, without the warm-up."""
    case = f"{p} virtual ranks, calls=12, warmup=3:"
    # A warm-up call takes 5 ms more; between calls rank r is busy for r ms.
    tried = lab51.late_calls(time_calls, p)
    got = [rank.seconds for rank in tried]
    lists = all(np.ndim(seconds) == 1 for seconds in got)
    expect(lists, f"{case} time_calls returns a {type(got[0]).__name__}, not a list of 12 values, seconds.")
    timed = all(rank.timed for rank in tried)
    expect(timed, f"{case} no rank's `clock` was called: read the clock that time_calls is given.")
    expect.equal([len(seconds) for seconds in got], [12] * p, f"{case} the number of values by rank")
    want = lab51.punctual_seconds(p)
    longest = np.max(got)
    warm = longest < want[-1] + 4.5e-3
    expect(warm, f"{case} a warm-up call, 5 ms longer, is among your values.")
    expect.equal([rank.calls for rank in tried], [15] * p, f"{case} calls made, by rank")
    times = f"the longest call takes {human(want[-1])}; you say {human(longest)}"
    cure = "In it a rank waits for one that is late: first the barrier, then the clock."
    expect(longest < want[-1] + 5e-4, f"{case} {times}. {cure}")
    every = np.tile(want, (p, 1))  # [rank, call]
    expect.close(got, every, f"{case} seconds of each call, with no barrier after it", rtol=2e-3)


# %%
def expect_columns(p, count, width):
    """The slowest rank's seconds of each call; bytes over their median; and of that what a link carried."""
    seconds, slowest = lab51.made_up_calls(p)  # one call takes 1 s
    typical = 0.01 + 0.01 * p
    case = f"{p} ranks, {count} values of {width} bytes, calls of {typical:g} s:"
    answer = columns(seconds, count, width)
    three = isinstance(answer, tuple) and len(answer) == 3
    expect(three, "columns returns three things: seconds, algbw, busbw.")
    got, algbw, busbw = answer
    expect.close(got, slowest, f"{case} seconds of each call, until its slowest rank has it")
    want = count * width / typical / 1e9
    slips = {"that is of values, not of bytes": want / width}
    expect.close(algbw, want, f"{case} algbw in GB/s, from the median of the calls", slips=slips)
    expect.close(busbw, want * 2 * (p - 1) / p, f"{case} busbw in GB/s")


# %%
with check("51.1"):
    for p in (2, 3, 4):
        expect_calls(p)
    for p, count, width in ((4, 25_000_000, 4), (3, 25_000_000, 2), (1, 1000, 4)):
        expect_columns(p, count, width)

# %%
_, _, busbw = columns(np.full((4, 1), 0.05), 10**8, 1)
predict.compare("51.1", busbw=busbw)

# %% [markdown]
# ### Exercise 51.2 · An adapter for torch.distributed
# `dist.init_process_group("gloo")` reads from the environment, as text, `RANK`, `WORLD_SIZE`, and where rank
# 0 awaits the others: `MASTER_ADDR` (its host), `MASTER_PORT`. `torchrun` sets all four; `srun` and `mpiexec`
# do not, but they start MPI, and `comm` can tell. Return them in a dict (labkit sets them): 3 lines.
# `dist.all_reduce(tensor)` sums, in place; gradients want the **mean**, float16 (up to 65504) too: 2 lines.
#
# <details><summary>Hint 1: one address for all; float16</summary>
#
# `comm.bcast(value, root=0)` returns rank 0's `value`. In float16 60000 + 60000 is `inf`: divide first.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `host, port = comm.bcast((host, port), root=0)`; and `tensor /= dist.get_world_size()` before the sum.
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


def mean(tensor):
    """Make `tensor`, of float32 or float16, the mean over all ranks, in place."""
    ### BEGIN SOLUTION
    tensor /= dist.get_world_size()
    # Across ranks: parts that are divided already have a sum that fits.
    dist.all_reduce(tensor)
    ### END SOLUTION


# %%
# What is asked: rank 0's address and each rank's own numbers, as text; the mean over the ranks, in place.
with check("51.2"):
    for p in (1, 2, 3, 5):  # virtual ranks, two on each node, each with a host and a port of its own
        hosts = [f"node{rank // 2}" for rank in range(p)]
        ports = [40000 + rank for rank in range(p)]
        run = virtual.Cluster(p).run(meeting, virtual.by_rank(hosts), virtual.by_rank(ports))
        for rank, got in enumerate(run.results):
            want = {"MASTER_ADDR": "node0", "MASTER_PORT": "40000"}
            want |= {"RANK": str(rank), "WORLD_SIZE": str(p)}
            place = f"rank {rank} at {hosts[rank]}:{ports[rank]}"
            expect.equal(got, want, f"{p} ranks, two a node; {place}: variables")
    # Then Gloo on 3 real ranks, or the launcher's: rank r has (r + 1)^2 in float32, and 60000 in float16.
    averaged = lab51.averaged(mean, meeting)
    p = len(averaged)
    squares = [(rank + 1) ** 2 for rank in range(p)]
    for rank, (place, small, half) in enumerate(averaged):
        expect.equal(place, (rank, p), f"rank {rank}: its rank in the group, and the group's size")
        slips = {"that is the sum, not the mean": sum(squares)}
        slips["`tensor` is as it was. Work in place"] = squares[rank]
        expect.close(small, sum(squares) / p, f"rank {rank}: the mean of {squares}", slips=slips)
        expect.close(half, 60000, f"rank {rank}: the mean of {p} times 60000, in float16", rtol=1e-2)

# %% [markdown]
# ### Measure
# Every library, one loop, 4 bytes to `longest`. Who leads on the left, who on the right?


# %%
def sweep(link):
    """{bytes: seconds of each call on this rank}, of 4, 16, 64 … bytes."""
    rows = {}
    for nbytes in (4**power for power in range(1, 15)):
        if nbytes <= longest:
            calls, warmup = next(counts for up_to, *counts in rounds if nbytes <= up_to)
            vector = link.vector(nbytes // 4)
            rows[nbytes] = time_calls(link, partial(link.sum, vector), calls, warmup, perf_counter)
    return rows


on_ranks = {"ranks": ranks, "meeting": meeting, "timeout": limit}
swept, why_not = lab51.each(asked, sweep, **on_ranks)
times = lab51.tabulate(swept, columns)
nodes = lab51.nodes(ranks)
here = lab51.keep(times, ranks=ranks, nodes=nodes)
for name, reason in why_not.items():
    print(f"{name}: {reason}, so no number.")
plots.bandwidth(times, factor=2 * (ranks - 1) / ranks, what="busbw", title=f"Allreduce on {ranks} ranks")
predict.compare("51.1", gloo_over_mpi=lab51.times_as_long(here, "torch-gloo", "mpi", 4))

# %% [markdown]
# On the left a *call* costs, on the right a *byte*. Horovod adds a wait for its cycle of 1 ms.
# ### Exercise 51.3 · From gradients to messages
# *First* a plan: backward yields the **last** layer's gradient first; in that order, begin a bucket when the
# next one would not fit into `limit` bytes. One beyond `limit` is alone in its bucket. 6 lines. *Then* for
# each bucket: copy its gradients one behind the other, **one** `link.sum`, and the sums back **into** the
# same tensors, where the optimizer looks for them. 5 lines.
#
# <details><summary>Hint 1: begin a bucket; pack</summary>
#
# For `layer` of `reversed(sizes)`: `if not plan or filled + sizes[layer] > limit`, then `plan.append([])`.
# `flat = torch.cat([gradients[layer].flatten() for layer in layers])` is a copy.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# A new bucket has `filled = 0`; then `plan[-1].append(layer)` and `filled += sizes[layer]`. After the sum
# `flat.split([gradients[layer].numel() for layer in layers])` are the parts, and
# `gradients[layer].copy_(part.view_as(gradients[layer]))` brings each one back.
# </details>


# %%
def buckets(sizes, limit):
    """sizes: {layer: bytes}, in forward order. Returns buckets, lists of layers, in the order they leave."""
    plan, filled = [], 0
    ### BEGIN SOLUTION
    for layer in reversed(sizes):
        if not plan or filled + sizes[layer] > limit:
            plan.append([])
            filled = 0
        plan[-1].append(layer)
        filled += sizes[layer]
    ### END SOLUTION
    return plan


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
def expect_plan(sizes, limit):
    """Each layer once, in backward's order; no bucket over the limit, and none begun too early."""
    layers_named = sizes if len(sizes) < 9 else f"{len(sizes)} layers from {next(iter(sizes))} on"
    case = f"buckets of {layers_named}, limit={limit}:"
    plan = buckets(dict(sizes), limit)
    expect(isinstance(plan, list), f"{case} expected a list of lists, got {type(plan).__name__}.")
    order = [layer for layers in plan for layer in layers]
    expect.equal(sorted(order), sorted(sizes), f"{case} the layers in all buckets, each once")
    backward = list(reversed(sizes))
    expect.equal(order, backward, f"{case} the order in which backward has them, last layer first")
    expect(all(plan), f"{case} there is an empty bucket.")
    filled = [sum(sizes[layer] for layer in layers) for layers in plan]
    for layers, nbytes in zip(plan, filled, strict=True):
        bucket_named = f"{len(layers)} layers, {layers[0]} first, with {nbytes} bytes"
        expect(nbytes <= limit or len(layers) == 1, f"{case} a bucket has {bucket_named}: over the limit.")
    for layers, before in zip(plan[1:], filled, strict=False):
        first = layers[0]
        more = sizes[first]
        room = f"the bucket before {first} has {before} bytes, so {more} more have room there"
        expect(before + more > limit, f"{case} {room}.")


# %%
def expect_exchange(p, plan):
    """The sums are where the gradients were, by one ring for each bucket."""
    run = lab51.exchanged(exchange, p, plan)
    for rank, got in enumerate(run.results):
        want = lab51.GRADIENTS * sum(range(1, p + 1))
        slips = {
            "gradients are as they were. Copy the sums back into them": lab51.GRADIENTS * (rank + 1),
            "that is the mean": want / p,
        }
        expect.close(got, want, f"{p} ranks: on rank {rank} the sum, in the gradients' places", slips=slips)
    run.expect_messages(exactly=2 * (p - 1) * len(plan), named=f"a ring for each of {len(plan)} buckets")


# %%
with check("51.3"):
    expect_plan({"a": 10, "b": 30, "c": 5, "d": 5, "e": 100, "f": 20}, 40)
    for net in ("resnet50", "vgg16"):
        for most in (1, 10**6, bucket, 10**9):
            expect_plan(lab51.gradient_bytes(net), most)
    expect_exchange(1, [["fc", "bn", "conv"]])
    expect_exchange(2, [["fc"], ["bn", "conv"]])
    expect_exchange(3, [["fc", "bn"], ["conv"]])


# %%
def one_by_one(link, gradients):
    """Sum every gradient by a call of its own, last layer first."""
    for gradient in reversed(gradients.values()):
        link.sum(gradient)


def step(link):
    """{(net, way): seconds of each exchange on this rank}. What backward could hide is lab 32's question.

    link.finish: an exchange is over when the GPU, too, has made its copies.
    """
    rows = {}
    for net in nets:
        sizes = lab51.gradient_bytes(net)
        gradients = {layer: link.vector(nbytes // 4) for layer, nbytes in sizes.items()}
        alone = partial(one_by_one, link, gradients)
        fused = partial(exchange, link, gradients, buckets(sizes, bucket))
        rows[net, "alone"] = time_calls(link, link.finish(alone), steps, 1, perf_counter)
        rows[net, "fused"] = time_calls(link, link.finish(fused), steps, 1, perf_counter)
    return rows


# %%
stepped, _ = lab51.each(list(here), step, **on_ranks)
for net, bars in lab51.keep_steps(stepped, ranks=ranks, nodes=nodes).items():
    plots.bars(bars, ylabel="time (ms)", title=f"{net}: gradients one by one, or fused")
predict.compare("51.3", times_as_fast=lab51.fused_gain(stepped, "torch-gloo", "resnet50"))

# %% [markdown]
# Fusing saves calls and costs two copies: it pays for small gradients where a call is dear (Horovod's cycle);
# with MPI's calls of µs, inside one machine, the copies cost more. Published (github.com/horovod/horovod,
# README of 2017; 16 GPUs, 25 Gb/s, TCP): VGG-16 at 62.5 % efficiency with NCCL, 29.4 % with CPU allreduce.
# ### Exercise 51.4 · Which, and when
# In a `row` {backend: (q1, median, q3)}, seconds, q1 to q3 hold the middle half of the calls. `best(row)` is
# the backend with the least median, but `"either"` unless it leads **every** other clearly: the other's q1
# above its q3, *and* the other's median above 1.1 times its own (less may go with an update). 5 lines.
# `which(nbytes, table)`: keep the backends measured at `nbytes` or on both sides of it (some have no size at
# all). Of each take the size nearest *by ratio*; `best` of these, or `"not measured"` if none. 5 lines.
#
# <details><summary>Hint 1: who leads; where to look</summary>
#
# `first = min(row, key=lambda name: row[name][1])`; and `if times and min(times) <= nbytes <= max(times)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Clear: `q1 > row[first][2] and median > 1.1 * row[first][1]` for all others' `q1, median, _`. The nearest:
# `min(times, key=lambda n: abs(np.log2(n / nbytes)))`. The end: `best(row) if row else "not measured"`.
# </details>


# %%
def best(row):
    """row: {backend: (q1, median, q3)}, one or more. The one that leads clearly, or "either"."""
    ### BEGIN SOLUTION
    first = min(row, key=lambda name: row[name][1])
    others = (row[other] for other in row.keys() - {first})
    clear = all(q1 > row[first][2] and median > 1.1 * row[first][1] for q1, median, _ in others)
    return first if clear else "either"
    ### END SOLUTION


def which(nbytes, table):
    """table: {backend: {bytes: (q1, median, q3)}}. A backend, "either", or "not measured"."""
    ### BEGIN SOLUTION
    row = {}
    for name, times in table.items():
        if times and min(times) <= nbytes <= max(times):
            row[name] = times[min(times, key=lambda n: abs(np.log2(n / nbytes)))]
    return best(row) if row else "not measured"
    ### END SOLUTION


# %%
# What is asked of `best`: y, where it leads every other clearly. Of `which`: the nearest size, none beyond.
fast, slow = (0.9, 1.0, 1.1), (1.8, 2.0, 2.1)
leads = [{"x": slow, "y": fast}, {"x": (1.12, 1.13, 1.2), "y": fast}, {"y": fast}]
close = [
    {"x": (1.05, 1.3, 1.6), "y": fast},  # not by the spread
    {"x": (1.05, 1.05, 1.06), "y": (1.0, 1.0, 1.01)},  # not by the medians
    {"x": (1.12, 1.13, 1.2), "y": fast, "z": (1.0, 3.0, 4.0)},  # not before z
]
table = {
    "x": {4: fast, 1024: fast, 1 << 20: slow},
    "y": {4: slow, 1024: slow, 1 << 20: fast},
    "nccl": {},
    "z": {1 << 20: (0.1, 0.1, 0.1), 1 << 24: fast},
}
measured = {4: "x", 20_000: "x", 40_000: "y", 1 << 20: "z", 1 << 23: "z"}
beyond = {2: "not measured", 1 << 25: "not measured"}

# %%
with check("51.4"):
    for row in leads:
        expect.equal(best(row), "y", f"best({row})")
    for row in close:
        expect.equal(best(row), "either", f"best({row})")
    for nbytes, want in (beyond | measured).items():
        expect.equal(which(nbytes, table), want, f"which({nbytes}, table) of {table}")

# %% [markdown]
# ### Measure: between nodes
# There they use the network. If a Slurm cluster is at hand, this file as it is goes there as a batch job, on
# two nodes with two ranks each (4 MiB, one net: links may be slow); else the kit's own results stand in.

# %%
tables = {nodes: (here, f"measured now, {ranks} ranks")}
if nodes == 1:
    tables[2] = lab51.elsewhere(limit, longest=min(longest, 1 << 22), nets=nets[:1], steps=1)
places = {}
for count, (table, title) in tables.items():
    lab51.print_table(table, which, title)
    for nbytes in lab51.sizes_of(table):
        places[nbytes, count] = which(nbytes, table)
plots.crossover(places, ylabel="nodes", title="Which, and when")

# %% [markdown]
# (a) Why do the libraries come together as vectors grow? (b) Which buckets would you choose, in each row?
# (c) Without a GPU no number of NCCL: other people's do not fill your table. Run it where the GPUs are.
# ### What you take away
# - Barrier, warm-up, slowest rank, median, bytes: five ways to be wrong by a factor.
# - One rank tells all where to meet: then any launcher starts any library.
# - Few large messages: fuse small gradients, leave large ones. A table says "either" where that is so.
# - `make submit LAB=51 NODES=2 SITE=…` runs it on your cluster; `mpi-gpu` and `torch-nccl` are its point.
#   A job has one build of Horovod: `HOROVOD=nccl` brings `horovod-nccl`, `HOROVOD=mpi` `horovod-mpi-gpu`.

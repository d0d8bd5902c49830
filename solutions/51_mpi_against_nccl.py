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
from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist
from labkit import check, expect, hint, lab, plots, predict
from support import lab51

lab.start("51_mpi_against_nccl")
ranks = lab51.ranks()

# %% tags=["parameters"]
asked = ("mpi", "mpi-gpu", "torch-gloo", "torch-nccl", "horovod-mpi", "horovod-gloo", "horovod-nccl")
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
# | Gloo | host memory | TCP | `torch.distributed`, Horovod |
# | NCCL | GPU memory alone | InfiniBand, RoCE, TCP | `torch.distributed`, Horovod |
#
# `labkit.backends` puts a name before them, such as `horovod-gloo`: `link.vector(n)` makes n float32 zeros
# where that library wants them, `link.sum(vector)` sums over all ranks, in place. Which can run here?
# ### Predict
# (a) 4 ranks sum 100 MB (10^8 bytes) each, in 50 ms. Which *busbw* (lab 22) is that, in GB/s? (b) How
# many times as long as MPI does Gloo take here, called by `torch.distributed`, for one number (4 bytes)?
# (c) ResNet-50 has 107 gradients in labkit's layer table, 102 MB; VGG-16 has 16, 553 MB. How many times as
# fast does Gloo exchange those of ResNet-50 if they travel fused, 25 MiB at a time, not one by one?

# %%
print(*(f"{name:13} {lab51.missing(name) or 'can run here'}" for name in lab51.NAMES), sep="\n")
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
    slowest, n = seconds.max(axis=0), len(seconds)
    algbw = count * width / np.median(slowest) / 1e9
    return slowest, algbw, algbw * 2 * (n - 1) / n
    ### END SOLUTION


# %%
with check("51.1"):
    for p in (2, 3, 4):  # virtual ranks: 3 calls warm up, 5 ms longer; between calls rank r is busy for r ms
        lab51.expect_calls(time_calls, p)
    for p, count, width in ((4, 25_000_000, 4), (3, 25_000_000, 2), (1, 1000, 4)):
        lab51.expect_columns(columns, p, count, width)
predict.compare("51.1", busbw=columns(np.full((4, 1), 0.05), 10**8, 1)[2])

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
with check("51.2"):
    for p in (1, 2, 3, 5):  # virtual ranks, two on each node, each with a host and a port of its own
        lab51.expect_meeting(meeting, p)
    # Then Gloo on 3 real ranks, or the launcher's: rank r has (r + 1)^2 in float32, and 60000 in float16.
    lab51.expect_mean(mean, meeting)

# %% [markdown]
# ### Measure
# Every library, one loop, 4 bytes to `longest`. Who leads on the left, who on the right?


# %%
def sweep(link):
    """{bytes: seconds of each call on this rank}, of 4, 16, 64 … bytes."""
    rows = {}
    for nbytes in (4**power for power in range(1, 15) if 4**power <= longest):
        vector, (calls, skip) = link.vector(nbytes // 4), next(one[1:] for one in rounds if nbytes <= one[0])
        rows[nbytes] = time_calls(link, lambda v=vector: link.sum(v), calls, skip, perf_counter)
    return rows


on_ranks = {"ranks": ranks, "meeting": meeting}
swept, why_not = lab51.each(asked, sweep, timeout=limit, **on_ranks)
times, nodes = lab51.tabulate(swept, columns), lab51.nodes(ranks)
here = lab51.keep(times, ranks=ranks, nodes=nodes)
print(*(f"{name}: {reason}, so no number." for name, reason in why_not.items()), sep="\n")
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
with check("51.3"):
    lab51.expect_plan(buckets, {"a": 10, "b": 30, "c": 5, "d": 5, "e": 100, "f": 20}, 40)
    for net, most in ((net, most) for net in ("resnet50", "vgg16") for most in (1, 10**6, bucket, 10**9)):
        lab51.expect_plan(buckets, lab51.gradient_bytes(net), most)
    for p, plan in ((1, ["fc bn conv"]), (2, ["fc", "bn conv"]), (3, ["fc bn", "conv"])):
        lab51.expect_exchange(exchange, p, [layers.split() for layers in plan])


# %%
def step(link):
    """{(net, way): seconds of each exchange on this rank}. What backward could hide is lab 32's question."""
    rows = {}
    for net in nets:
        plan = buckets(sizes := lab51.gradient_bytes(net), bucket)
        g = {layer: link.vector(nbytes // 4) for layer, nbytes in sizes.items()}
        ways = {"alone": lambda g=g: [link.sum(one) for one in reversed(g.values())]}
        ways["fused"] = lambda g=g, plan=plan: exchange(link, g, plan)
        rows |= {(net, way): time_calls(link, ways[way], steps, 1, perf_counter) for way in ways}
    return rows


stepped, _ = lab51.each(list(here), step, timeout=limit, **on_ranks)
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
with check("51.4"):
    a, near, wide, far = (0.9, 1.0, 1.1), (1.12, 1.13, 1.2), (1.05, 1.3, 1.6), (1.8, 2.0, 2.1)
    clear = {"x": far, "y": a}, {"x": near, "y": a}, {"y": a}
    close = {"x": wide, "y": a}, {"x": near, "y": a, "z": (1.0, 3.0, 4.0)}
    for row in (*clear, *close, {"x": (1.05, 1.05, 1.06), "y": (1.0, 1.0, 1.01)}):
        expect.equal(best(row), "y" if row in clear else "either", f"best({row})")
    lab51.expect_which(which)

# %% [markdown]
# ### Measure: between nodes
# There they use the network. If a Slurm cluster is at hand, this file as it is goes there as a batch job, on
# two nodes with two ranks each (4 MiB, one net: links may be slow); else the kit's own results stand in.

# %%
tables = {nodes: (here, f"measured now, {ranks} ranks")}
if nodes == 1:
    tables[2] = lab51.elsewhere(limit, longest=min(longest, 1 << 22), nets=nets[:1], steps=1)
for table, title in tables.values():
    lab51.show(table, which, title)
places = {(n, m): which(n, table) for m, (table, _) in tables.items() for n in lab51.sizes_of(table)}
plots.crossover(places, ylabel="nodes", title="Which, and when")

# %% [markdown]
# (a) Why do the libraries come together as vectors grow? (b) Which buckets would you choose, in each row?
# (c) Without a GPU no number of NCCL: other people's do not fill your table. Run it where the GPUs are.
# ### What you take away
# - Barrier, warm-up, slowest rank, median, bytes: five ways to be wrong by a factor.
# - One rank tells all where to meet: then any launcher starts any library.
# - Few large messages: fuse small gradients, leave large ones. A table says "either" where that is so.
# - `make submit LAB=51 NODES=2 SITE=…` runs it on your cluster; `mpi-gpu` and `torch-nccl` are its point.

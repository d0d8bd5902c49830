# %% [markdown]
# <!-- Generated from solutions/32_buckets_and_overlap.py by `make labs`. Learners work on a copy in work/. -->
# # 32 Buckets and overlap
#
# The heart of data-parallel training: the gradients' sum travels while the backward pass still
# runs. You write it in three ways, and see on 160 virtual GPUs what each gains, and for which nets.
#
# **You will be able to** (1) begin a collective in the moment a gradient is there, (2) fuse
# gradients into buckets, and say what too small and too large ones cost, (3) say for which nets
# overlap matters, and, if you have time, (4) send parameters behind the next forward pass, as
# S-Caffe does.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Level: advanced · Before: 23, 30

# %%
from functools import partial

import numpy as np
import virtual
from labkit import check, hint, lab, plots, predict
from support import lab32

lab.start("32_buckets_and_overlap")

# %% tags=["parameters"]
batch = 96  # images per step of the short trainings on real ranks, over all ranks together
gpus = (8, 32, 160)  # GPUs of the virtual machine
images = 32  # per GPU and step there
flops = 1.3e12  # floating-point operations a second of a K80 GPU in training (where from: see 32.1)
bucket_sizes = (1e4, 5e5, 2e6, 8e6, 3e7)  # bytes, tried on the virtual machine
chunk = 8192  # bytes that S-Caffe's chains pass on at once
workers = 4  # real ranks in the checks, unless a launcher has started some
patience = 60  # seconds after which a check calls the ranks stuck


# %% [markdown]
# ## A gradient need not wait for the others
# [Lab 30](30_average_gradients.ipynb) waited for the end of backward, then summed. But backward goes from the last layer to the
# first, and the last layer's gradient is there early on:
#
# | | time → | | | | |
# |---|---|---|---|---|---|
# | at the end | backward 2 | backward 1 | backward 0 | sum of all | step |
# | overlapped | backward 2 | backward 1 | backward 0 | | |
# | | | sum of 2 | sum of 1 | sum of 0 | step |
#
# You will write several **ways** to sum: (a) all at the end, (b) layer by layer, (c) in buckets.
# Each is a function `way(comm, net)` that returns two functions:
#
# - `ready(i)` will be called in backward, as soon as `net.gradients[i]` is there.
# - `finish()` will be called after backward. It has to update every tensor once.
#
# What you are given in `net`:
#
# | | |
# |---|---|
# | `net.gradients`, `net.parameters` | flat arrays; forward begins with tensor 0, backward ends there |
# | `net.numbers` | 0, 1, …: the tensors' numbers |
# | `net.join(numbers)` | one vector of these gradients |
# | `net.cut(vector, numbers)` | takes such a vector apart: a list of (i, piece) |
# | `net.update(i, mean)` | SGD's step of tensor i. `mean` is its mean gradient over all ranks |
#
# Your ranks keep their nets in host memory in this lab, also where there are GPUs: how a gradient
# leaves a GPU is the subject of labs [27](27_cuda_aware_mpi.ipynb) and [46](46_three_libraries.ipynb).
#
# How does PyTorch tell that a gradient is there? By a **hook**, a function that it calls:
#
#     weight.register_post_accumulate_grad_hook(f)   # f(weight), right after weight.grad was written
#
# ### Exercise 32.1 · All at the end, and a hook
# Write `at_the_end`: [lab 30](30_average_gradients.ipynb)'s average, so nothing to do in `ready`, and in `finish` one vector and
# one `Allreduce`. About 8 lines.
#
# And write `watch`, which all ways share: it gives each parameter of a PyTorch module a hook that
# calls `ready(i)`, where i is its place in `module.parameters()`. 2 lines. *(intermediate)*
#
# <details><summary>Hint 1: which i does a hook know?</summary>
#
# `for i, weight in enumerate(module.parameters())`. `lambda weight: ready(i)` looks `i` up when it
# is called: the loop is over then, and all hooks would name the last.
# `lambda weight, i=i: ready(i)` keeps its own.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `finish`: `own = net.join(net.numbers)`, `total = np.empty_like(own)`, the `Allreduce`; then
# update with each mean, `for i, piece in net.cut(total, net.numbers)`. `ready`: `pass`.
# `return ready, finish`.
# </details>

# %%
def at_the_end(comm, net):
    """Way (a): one sum of all gradients, after the backward pass."""
    raise NotImplementedError("exercise 32.1: All at the end, and a hook")


def watch(module, ready):
    """Let PyTorch call ready(i) as soon as the i-th of module.parameters() has its gradient."""
    raise NotImplementedError("exercise 32.1: All at the end, and a hook")


# %%
# Asked: Hooks that tell `ready` of each gradient once, in time; and one
# Allreduce after backward.
check("32.1", at_the_end, watch)

# %% [markdown]
# ## A machine with 160 GPUs
# S-Caffe (Awan et al., PPoPP 2017) trained on 160 GPUs of the kind K80, 16 a node. This machine is
# a virtual one, as in [lab 23](23_ring_allreduce.ipynb): its **virtual ranks** are functions in one process, each with a clock
# of its own. `comm.compute(seconds)` lets the clock run on; a message takes what latency and
# bandwidth say.
#
# A message that was begun moves on by itself there, as if the network card did the work. On your
# machine that is another story, and [lab 36](36_progress.ipynb) tells it.
#
# The printed lines say for each number whether it was published, computed or estimated.

# %%
machine = virtual.machine("k80_fdr")
largest = max(gpus)
print(machine)
nets = {net: lab32.table(net, images, flops) for net in ("alexnet", "googlenet", "vgg16")}
for name, net in nets.items():
    arithmetic = f"{1e3 * net.seconds:.0f} ms of arithmetic a step"
    print(
        f"{name:>10}: {len(net.sizes)} layers, {net.nbytes / 1e6:.0f} MB of gradients, {arithmetic}"
    )
alexnet = nets["alexnet"]
alone = lab32.messages_alone(at_the_end, alexnet, largest, machine)
print(
    f"a sum of AlexNet's {alexnet.nbytes / 1e6:.0f} MB on {largest} GPUs takes {1e3 * alone:.0f} ms"
    " alone"
)
in_last_three = 100 * sum(alexnet.sizes[-3:]) / sum(alexnet.sizes)
print(f"{in_last_three:.0f} % of these bytes are in its last three layers")

# %% [markdown]
# Where the arithmetic comes from: a layer's flops forward, and twice that in backward, at 1.3
# Tflop/s. (TensorFlow's benchmarks of May 2017 have 52.4 images a second of ResNet-50 on one such
# GPU; an image is 3 times 8.2 Gflop.)
#
# ### Predict
# How many percent of a step in way (a), `at_the_end`, is the sum? All you need was printed above.

# %%
predict("32.1", percent_for_sum=...)

# %%
step = lab32.on_gpus(at_the_end, alexnet, largest, machine).time
predict.compare("32.1", percent_for_sum=100 - 100 * alexnet.seconds / step)


# %% [markdown]
# **Explain.** AlexNet is made for overlap. The last three layers' gradients come first: nearly all
# of its bytes are ready when backward has hardly begun. The convolutions, nearly all of the
# arithmetic, are still to come.
#
# ### Exercise 32.2 · Layer by layer
# A sum can be begun and waited for later:
#
#     request = comm.Iallreduce(own, total)   # begins the sum, and returns at once
#     ...                                     # meanwhile nobody may change own, or use total
#     request.Wait()                          # returns when the sum is in total
#
# Begin the sum of gradient i in `ready(i)`. In `finish` wait for each sum, then update its tensor.
# 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: what has to be kept</summary>
#
# An array for each total, `sums = [np.empty_like(part) for part in net.gradients]`, and a dict of
# requests.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `finish`, `for i, request in requests.items():` wait, then
# `net.update(i, sums[i] / comm.size)`. At the end `requests.clear()`, for the next step.
# </details>

# %%
def one_by_one(comm, net):
    """Way (b): the sum of each tensor begins when its gradient is there."""
    raise NotImplementedError("exercise 32.2: Layer by layer")


# %%
# Asked: One Iallreduce for each gradient, begun when it is there; waited for
# after backward.
check("32.2", one_by_one)

# %% [markdown]
# **All ranks must begin their sums in one order.** MPI adds the first sum of one rank to the first
# sum of the others, whatever was meant. What if two gradients come the other way round on rank 1?
# The virtual machine notices it, and says who called what. A real MPI need not: it adds what does
# not belong together, fails, or waits for ever. So libraries take care of the order. Horovod's
# coordinator asks all ranks what is ready; PyTorch's DDP goes by buckets that are fixed beforehand.
#
# ## Buckets
# Every sum costs some latencies, however short it is. On 160 ranks they are about 16 messages one
# after the other (twice ⌈lg 160⌉, [lab 24](24_trees_and_halving.ipynb): for short vectors the machine takes no ring). With 5 µs
# and more for each, a sum of a few bytes takes about 0.1 ms.
#
# Way (b) pays that once for each layer. How much of it shows in a step?
#
# - The virtual machine has all sums under way **side by side**. Their latencies pass at the same
#   time.
# - A library may make **one sum after the other**: Horovod's thread does. Then the latencies add
#   up.
#
# So several gradients are summed as one vector, a **bucket**.
#
# GoogLeNet has 58 layers. Suppose one image on each GPU:

# %%
few = lab32.table("googlenet", 1, flops)
few_alone = lab32.messages_alone(at_the_end, few, largest, machine)
arithmetic = 1e3 * few.seconds
print(f"{arithmetic:.1f} ms of arithmetic, of which forward {arithmetic / 3:.1f} ms")
print(
    f"the sum of {few.nbytes / 1e6:.0f} MB on {largest} GPUs takes {1e3 * few_alone:.1f} ms alone"
)

# %% [markdown]
# ### Predict
# How many ms is a step in way (a)? And in (b), if one sum is made after the other? Then the first
# sum begins about when forward is over. From there on the bytes take as long as the sum alone, or
# longer, and there are 58 times the latencies. Add up these three.

# %%
predict("32.2", a_ms=..., b_one_after_other_ms=...)


# %% [markdown]
# ### Exercise 32.3 · Buckets
# Collect gradients in `ready`. As soon as they have **at least** `size` bytes, or are `most` in
# number, send them off as one vector: `net.join`, then one `Iallreduce`. In `finish` wait for each
# bucket, take it apart with `net.cut`, and update. 15 lines. *(advanced)*
#
# Mind the last bucket: it is rarely full when backward is over.
#
# Why not send "what has come in 5 ms"? Each rank would look at its own clock, and form other
# buckets. (Horovod's cycle time *is* in milliseconds. That is why it needs a coordinator.)
#
# <details><summary>Hint 1: a bucket, and when it goes</summary>
#
# Lists `waiting`, of numbers, and `flying`. `send()` joins `waiting`, begins the sum, appends to
# `flying` what `finish` needs, clears `waiting`. `ready(i)` appends i, and sends if
# `sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `flying.append((comm.Iallreduce(own, total), total, list(waiting)))`: a copy of the list, as
# `waiting` is cleared. `finish`: `if waiting: send()`; for each of `flying` Wait, `net.cut`,
# update; `flying.clear()`.
# </details>

# %%
def in_buckets(comm, net, size, most=1000):
    """Way (c): gradients are summed together when they fill `size` bytes or are `most` in
    number."""
    raise NotImplementedError("exercise 32.3: Buckets")


# %%
# Asked: Buckets that close at `size` bytes or `most` tensors, each begun as
# soon as it is full.
check("32.3", in_buckets)

# %% [markdown]
# ### Measure: how large a bucket?
# GoogLeNet, one image on each of 160 GPUs, buckets of five sizes. The smallest holds one layer:
# that is (b). The largest holds the whole net: (a). As a control each is measured in both ways:
# sums side by side, and one after the other. About half a minute.

# %%
swept = lab32.bucket_sweep(in_buckets, few, largest, machine, bucket_sizes)
queued = swept["one after the other"]
for kind, row in swept.items():
    shown = [f"{n / 1e6:g} MB: {ms:.1f}" for n, ms in row.items()]
    print(f"{kind:>20}, ms a step:  {',  '.join(shown)}")
predict.compare(
    "32.2", a_ms=queued[max(bucket_sizes)], b_one_after_other_ms=queued[min(bucket_sizes)]
)

# %% [markdown]
# **Explain.** Look at the left end, buckets of one layer: (b). With sums side by side it is far
# faster than (a), at the right end. With one sum after the other it is *slower* than (a): it pays
# 58 times for a sum, and the overlap does not bring that back. (It pays even more than 58 times 0.1
# ms: that was for a few bytes.)
#
# A library that makes one sum after the other needs buckets. Those of a few MB beat (a), and they
# beat (b). With sums side by side they bring little.
#
# Take none of the middle sizes for the best. Their times hardly differ, and depend on where a size
# happens to cut this net.
#
# ### Measure: latency can hide, too
# **Aluminum**, a library of Lawrence Livermore National Laboratory (Dryden and others, MLHPC 2018),
# goes the other way: no buckets, but non-blocking sums, many at a time. How much of the sums does
# that hide? The control is a step that waits for each of the same 58 sums as soon as it has begun,
# as a blocking `Allreduce` in `ready` would: the arithmetic and the messages, one after the other.
# About 10 s.

# %%
by_layer = partial(in_buckets, size=min(bucket_sizes))
blocking = arithmetic + 1e3 * lab32.messages_alone(by_layer, few, largest, machine, queued=True)
steps = {"waited for at once": blocking}
for kind, row in swept.items():
    steps[kind] = row[min(bucket_sizes)]
for kind, ms in steps.items():
    hidden = 100 * (blocking - ms) / (blocking - arithmetic)
    print(
        f"{kind:>20}: {ms:5.1f} ms a step, {ms - arithmetic:5.1f} of them the sums; {hidden:3.0f} %"
        " hidden"
    )

# %% [markdown]
# **Explain.** Waited for at once, the sums cost several times the arithmetic. (Aluminum's authors
# report ten times, on large GPU clusters.) One after the other, behind backward, hides little:
# backward is too short for so many. Side by side most of it is hidden, as the latencies pass
# together.
#
# Sums side by side need somebody who moves them: Aluminum has a thread of its own for that. For
# what is left, it sums short vectors in fewer messages than long ones, as in [lab 24](24_trees_and_halving.ipynb).
#
# ## On how many GPUs, for which nets?
# **Efficiency** is the arithmetic's time over the step's.
#
# ### Predict
# AlexNet, 160 GPUs. For way (a) you can compute the efficiency from 32.1. (b) hides what it can:
# about as much as backward is long, two thirds of the arithmetic. What is (b)'s efficiency, in
# percent?

# %%
predict("32.3", efficiency_of_a=..., efficiency_of_b=...)

# %% [markdown]
# ### Measure: 160 virtual GPUs
# Each way, and as a control (b) with the same calls, but nothing overlapped. About half a minute.

# %%
ways = {
    "(a) at the end": at_the_end,
    "(b) by layer": one_by_one,
    "(b) not overlapped": lab32.unhidden(one_by_one),
    "(c) buckets": partial(in_buckets, size=2e6),
}
efficiency = lab32.plot_efficiency(ways, alexnet, gpus, machine, "what overlap gains")
by_layer = efficiency["(b) by layer"]
predict.compare("32.3", efficiency_of_a=efficiency["(a) at the end"], efficiency_of_b=by_layer)

# %% [markdown]
# **Explain.** (b) and (c) against (a): what overlap gains. "(b) not overlapped" makes the same
# calls, but begins them after backward. So it shows that the gain comes from the overlap, and not
# from the smaller sums. (c) is hardly better than (b) here: AlexNet has 8 layers, so there are no
# short sums to fuse.
#
# "(b) not overlapped" is even better than (a), though nothing is hidden. Why? The next cell has the
# messages alone, without arithmetic.

# %%
print(f"AlexNet's messages alone, {largest} GPUs (ms)")
apart = {
    "(a), one sum": lab32.messages_alone(at_the_end, alexnet, largest, machine),
    "(b), sums side by side": lab32.messages_alone(one_by_one, alexnet, largest, machine),
    "(b), one after the other": lab32.messages_alone(
        one_by_one, alexnet, largest, machine, queued=True
    ),
}
for name, seconds in apart.items():
    print(f"{name:>26} {1e3 * seconds:6.0f}")

# %% [markdown]
# **Explain.** Side by side the sums are over sooner than one sum of the same bytes; one after the
# other they are not. So several sums at once fill links that a single one leaves idle.
#
# ### Measure: what hides behind what?
# Two steps of AlexNet on 16 GPUs, (a) and (b): when rank 0 computes, and when messages are under
# way to or from it.

# %%
pair = {name: ways[name] for name in ("(a) at the end", "(b) by layer")}
rows = lab32.lanes(pair, alexnet, min(16, largest), machine)
plots.lanes(rows, title="AlexNet on 16 GPUs: (b) hides its messages behind backward")

# %% [markdown]
# **Explain.** In (a) no message is under way while rank 0 computes, and the next forward pass
# begins when the sum is over. In (b) the messages are below the backward pass, so the next forward
# pass begins nearly at once.
#
# ### Measure: does it matter for other nets?

# %%
print(f"efficiency on {largest} GPUs, {images} images each (%)")
for name, net in nets.items():
    for label in ("(a) at the end", "(b) by layer", "(c) buckets"):
        took = lab32.on_gpus(ways[label], net, largest, machine).time
        print(f"{name:>10}  {label:<16} {100 * net.seconds / took:5.0f}")


# %% [markdown]
# **Explain.** GoogLeNet and VGG-16 compute so long for their bytes, with 32 images, that (b) and
# (c) hide nearly everything, and even (a) loses less than on AlexNet. What counts is the time of
# the sum against the time of backward. GoogLeNet with one image, above, had little to hide behind.
# What do more images do, and faster GPUs? `images` and `flops` are knobs at the top: turn them.
#
# The machine is a model: no jitter, no input pipeline, no small matrices that a GPU does badly.
# Trust the order of the ways, not the percents.
#
# ## S-Caffe's two sides, for those who have time
# You may go on with *What you take away*: this takes about 25 minutes more.
#
# In S-Caffe only rank 0 has the optimizer. So two things travel:
#
# | | what travels | hidden behind |
# |---|---|---|
# | gradients | reduced to rank 0 | backward |
# | parameters | broadcast from rank 0, after its step | the **next forward pass** |
#
# In that forward pass a layer waits for its own parameters alone. So a way may return a third
# function: `before(i)` will be called right before tensor i is used.
#
#     request = comm.Ireduce(own, total, root=0)   # begins the sum; only rank 0 will have it
#     request = comm.Ibcast(array, root=0)         # begins to send rank 0's array to all
#
# ### Exercise 32.4 · Two sides, for those who have time
# Return `ready, finish, before`. In `finish` *all* ranks wait for their reductions, as the
# gradients' memory will be used again; only rank 0 updates. Then all begin the broadcasts, of
# tensor 0 first: forward needs it first. Each is waited for in `before`, not sooner. (After the
# last step `before(i)` is called once more for every i.) 15 lines. *(advanced)*
#
# <details><summary>Hint 1: before, in the first step</summary>
#
# Nothing is under way then: `if i in broadcasts:`. And `broadcasts.pop(i).Wait()` forgets it
# afterwards.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `finish` begins as in 32.2, with `if comm.rank == 0:` before the update. Then all begin the
# broadcasts, first what forward needs first: `for i in net.numbers`,
# `comm.Ibcast(net.parameters[i], root=0)`.
# </details>

# %%
def two_sides(comm, net):
    """Way (d): reduced to rank 0 behind backward, broadcast from there behind the next forward."""
    raise NotImplementedError("exercise 32.4: Two sides, for those who have time")


# %%
# Asked: One Ireduce for each gradient, begun when it is there; one Ibcast for
# each tensor and step; a forward pass whose layers wait for their own
# parameters alone.
check("32.4", two_sides)

# %% [markdown]
# ### Predict
# AlexNet, 160 GPUs: is (d)'s step shorter than (a)'s? Its binomial trees ([lab 24](24_trees_and_halving.ipynb)) send ⌈lg p⌉ whole
# vectors through rank 0, one after the other. (a)'s sum sends about two vectors, whatever p is.
# What is (d)'s efficiency, in percent? That is a guess: how many of a tree's messages share a link
# is not said here.

# %%
predict("32.4", efficiency_of_d=...)

# %% [markdown]
# ### Measure: two sides
# (d) against (a), and as a control (d) with the same calls, but nothing overlapped. About half a
# minute.

# %%
pair = {"(d) two sides": two_sides, "(d) not overlapped": lab32.unhidden(two_sides)}
beside = {"(a) at the end": at_the_end} | pair
efficiency = lab32.plot_efficiency(beside, alexnet, gpus, machine, "(d) pays for its trees")
predict.compare("32.4", efficiency_of_d=efficiency["(d) two sides"])
trees = lab32.messages_alone(two_sides, alexnet, largest, machine)
print(f"messages alone: (d) {1e3 * trees:.0f} ms, (a) {1e3 * alone:.0f} ms")


# %% [markdown]
# **Explain.** (d) gains by its overlap, against its own control. Still it loses to (a). The last
# line says why: its messages alone take far longer than (a)'s sum. The trees are to blame, not the
# overlap: ⌈lg p⌉ whole vectors go into rank 0, and as many out of it. S-Caffe knew: it has a
# reduction of its own.
#
# ### S-Caffe's reduction: chains below a tree
# [Lab 25](25_broadcast_for_deep_learning.ipynb) sends a vector down a chain in chunks: while one leaves, the next one comes. A sum can run
# down a chain in the same way, if each rank adds its own part to a chunk before it passes it on.
# Then it takes about one vector's time, not ⌈lg p⌉. But a short vector pays p - 1 latencies, one
# after another. So S-Caffe cuts the ranks into groups, with a chain in each, and a tree over their
# first ranks.

# %%
def chain_reduce(comm, vector, count):
    """Add up all ranks' vectors in rank 0's, in place: `count` chunks run down the chain p - 1, …,
    1, 0."""
    from mpi4py import MPI

    left = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    right = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    chunks = np.array_split(vector, count)
    # From PROC_NULL nothing comes: zeros are added.
    boxes = np.array_split(np.zeros_like(vector), count)
    comm.Recv(boxes[0], source=right)
    chunks[0] += boxes[0]
    for i in range(1, count):
        # Across ranks: while one chunk leaves to the left, the next one comes from the right.
        comm.Sendrecv(chunks[i - 1], dest=left, recvbuf=boxes[i], source=right)
        chunks[i] += boxes[i]
    comm.Send(chunks[-1], dest=left)


def tree_reduce(comm, vector):
    """The same by the machine's own Reduce, a binomial tree."""
    total = np.empty_like(vector)
    comm.Reduce(vector, total, root=0)
    if comm.rank == 0:
        vector[:] = total


def chains_below_a_tree(comm, vector, count, group):
    """The same: a chain in each `group` of neighbours, and a tree over the groups' first ranks."""
    neighbours = comm.Split(comm.rank // group)
    chain_reduce(neighbours, vector, count)
    heads = comm.Split(comm.rank % group)
    if neighbours.rank == 0:
        tree_reduce(heads, vector)


# %% [markdown]
# ### Measure
# AlexNet's layers, each reduced alone to rank 0, by the three. A group is a node. A chunk has 8
# KiB: more than 12 KiB would wait for a handshake ([lab 20](20_ranks_and_messages.ipynb)). The three longest layers have 128
# chunks, as more take long to run here. About 15 s.

# %%
reduced = {"tree": {}, "one chain": {}, "chains below a tree": {}}
cluster = virtual.Cluster.of(largest, machine.ranks_per_node, machine)
for nbytes in sorted({4 * size * alexnet.scale for size in alexnet.sizes}):
    vector = virtual.vector(np.zeros(4096, np.float32), stands_for=nbytes)
    most_chunks = 448 if nbytes < 4e6 else 128
    count = round(min(most_chunks, max(1, nbytes / chunk)))
    below = partial(chains_below_a_tree, count=count, group=machine.ranks_per_node)
    ways_to_reduce = (tree_reduce, partial(chain_reduce, count=count), below)
    for name, way in zip(reduced, ways_to_reduce, strict=True):
        reduced[name][nbytes / 1e6] = 1e3 * cluster.run(way, vector).time
title = f"On {largest} GPUs: a chain pays where vectors are long"
axes = {"xlabel": "layer (MB)", "ylabel": "reduction (ms)", "logx": True, "logy": True}
plots.lines(
    {name: (list(row), list(row.values())) for name, row in reduced.items()}, title=title, **axes
)
for name, row in reduced.items():
    print(f"{name:>20}: {sum(row.values()):4.0f} ms for all layers")

# %% [markdown]
# **Explain.** You should see the tree first for the shortest layer, of 0.1 MB, and last for all
# others. The one chain is the other way round: it pays 159 latencies, and after them only the bytes
# of one vector. Chains below a tree are as good as the tree at the short layer, and beat it at the
# long ones. At 1.2 MB they are the best of all, which is what groups are for. Above the chains
# there are still ⌈lg 10⌉ = 4 whole vectors, for 10 nodes, where the tree has 8.
#
# The authors measured up to 2.6 times MVAPICH2's speed on 160 GPUs, and 133 times Open MPI's
# (abstract). Our chains gain less over our tree. What groups and chunks theirs had is not in the
# abstract; ours are guesses.
#
# ### What you take away
# - Gradients come from the last layer on: begin each sum at once, and wait before the step.
# - Buckets: few latencies, early begin. They matter where layers are many and short, and one sum is
#   made after the other.
# - The same sums in the same order on every rank.
# - The first layer's sum comes last, with nothing left to hide it. Where that layer is small, it is
#   soon over.
# - Overlap matters where a sum takes about as long as backward. Where it is far shorter, (a) loses
#   little.
# - Latencies hide, too, if many sums are under way at once (Aluminum). Fewer of them need no
#   hiding.
# - Begun is not under way: who moves a message on your machine while you compute? [Lab 36](36_progress.ipynb). Horovod's
#   timeline and knobs: 44. Fewer bytes: 35.

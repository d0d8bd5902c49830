# %% [markdown]
# # 32 Buckets and overlap
#
# In data-parallel training every step contains an allreduce of all gradients. If it starts only
# after the backward pass, the GPUs are idle while the messages travel, and on 160 GPUs this can
# take longer than the computation. Most of the waiting is unnecessary, because the gradients of the
# last layers are complete early in the backward pass. Their allreduce can run while the earlier
# layers still compute. PyTorch's [DistributedDataParallel](@pytorch_ddp) (DDP) and
# [Horovod](@horovod) both work in this way.
#
# In this lab we implement gradient averaging in three ways: with one allreduce at the end, with one
# allreduce per layer during the backward pass, and with several gradients fused into a *bucket*. We
# then measure on 160 virtual GPUs what each of them gains, how large a bucket should be, and for
# which networks overlap matters.
#
# **After this lab you can** (1) launch a collective at the moment when a gradient is complete, (2)
# fuse gradients into buckets, and say what too small and too large buckets cost, (3) say for which
# networks overlap matters, and, if you have time, (4) hide a broadcast of parameters behind the
# next forward pass, as S-Caffe does.
#
# ![Two timelines of one training step with three layers. Above, the allreduce of all gradients follows the backward pass. Below, an allreduce per layer starts as soon as that layer's gradient is complete, and the step ends earlier](32_overlap.svg)
#
# *One training step. Above, a single allreduce starts after the backward pass. Below, each layer's
# allreduce starts as soon as its gradient is complete, so only the last one, which belongs to layer
# 0, is not hidden.*
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
flops = 1.3e12  # floating-point operations a second of a K80 GPU in training; source below
bucket_sizes = (1e4, 5e5, 2e6, 8e6, 3e7)  # bytes, tried on the virtual machine
workers = 4  # real ranks in the checks, unless a launcher has started some
patience = 60  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ## A gradient does not have to wait for the others
# In lab 30 all ranks finished the backward pass and then averaged all gradients. However, the
# backward pass runs from the last layer to the first, so the gradient of the last layer is complete
# when most of the computation is still to come. While layer 1 computes its gradient, the allreduce
# of layer 2 can already be in progress, as in the lower half of the figure.
#
# You will write three ways to average the gradients, (a) with one allreduce at the end, (b) layer
# by layer, and (c) in buckets. Each of them is a function with this skeleton:
#
#     def way(comm, net):
#         ...                # lists or arrays that both functions below use
#
#         def ready(i):      # called in the backward pass, when net.gradients[i] is complete
#             ...
#
#         def finish():      # called after the backward pass: updates every tensor exactly once
#             ...
#
#         return ready, finish
#
# `way` is called once, and the two functions serve every step. Therefore `finish` must also empty
# what `ready` has collected, so that the next step starts afresh.
#
# The object `net` holds one rank's copy of the network as a numbered list of tensors. The forward
# pass begins with tensor 0, and the backward pass ends there. With PyTorch, tensor i is the i-th of
# `module.parameters()`, so a layer's weight and bias are two tensors. On the virtual GPUs below,
# each layer is one tensor.
#
# | member | meaning |
# |---|---|
# | `net.gradients`, `net.parameters` | lists of flat float32 arrays, one for each tensor |
# | `net.numbers` | the tensors' numbers 0, 1, … |
# | `net.join(numbers)` | a new vector that contains the gradients with these numbers |
# | `net.cut(vector, numbers)` | splits such a vector again: a list of (i, piece) |
# | `net.update(i, mean)` | the SGD (stochastic gradient descent) step of tensor i, where `mean` is its mean gradient over all ranks |
#
# For example, `net.join([2, 1])` is gradient 2 followed by gradient 1, and `net.cut` of this vector
# and `[2, 1]` returns the pairs (2, gradient 2) and (1, gradient 1).
#
# PyTorch can tell us when a gradient is complete. You register a **hook** on a parameter, which is
# a function that PyTorch calls at a certain point. This hook runs directly after the gradient has
# been written:
#
#     weight.register_post_accumulate_grad_hook(f)   # calls f(weight) right after weight.grad was written
#
# ### Exercise 32.1 · All at the end, and a hook
# Write `at_the_end`, which averages the gradients as in lab 30. There is nothing to do in `ready`,
# and `finish` uses one vector and one `Allreduce`. About 8 lines.
#
# Then write `watch`, which all three ways share. It gives each parameter of a PyTorch module a hook
# that calls `ready(i)`, where i is the parameter's position in `module.parameters()`, counted
# from 0. 2 lines. *(intermediate)*
#
# <details><summary>Hint 1: which i does a hook know?</summary>
#
# Loop with `for i, weight in enumerate(module.parameters())`. A plain `lambda weight: ready(i)`
# looks up `i` only when it is called. By that time the loop is over, so all hooks would report the
# last parameter. `lambda weight, i=i: ready(i)` stores its own value of `i`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `finish`, set `own = net.join(net.numbers)` and `total = np.empty_like(own)`, and call
# `Allreduce`. Then update each tensor with its mean in a loop
# `for i, piece in net.cut(total, net.numbers)`. The body of `ready` is `pass`, and the last line is
# `return ready, finish`.
# </details>


# %%
def at_the_end(comm, net):
    """Way (a): one allreduce of all gradients, after the backward pass."""
    ### BEGIN SOLUTION

    def ready(i):
        pass

    def finish():
        own = net.join(net.numbers)
        total = np.empty_like(own)
        # Across ranks: one allreduce for all gradients.
        comm.Allreduce(own, total)
        for i, piece in net.cut(total, net.numbers):
            net.update(i, piece / comm.size)

    return ready, finish
    ### END SOLUTION


def watch(module, ready):
    """Let PyTorch call ready(i) as soon as the i-th of module.parameters() has its gradient."""
    ### BEGIN SOLUTION
    for i, weight in enumerate(module.parameters()):
        weight.register_post_accumulate_grad_hook(lambda weight, i=i: ready(i))
    ### END SOLUTION


# %%
check("32.1", at_the_end, watch)

# %% [markdown]
# ## A machine with 160 GPUs
# S-Caffe, a version of the Caffe library for clusters, was used in 2017 to train on 160 K80 GPUs,
# 16 in each node. We run a machine model of such a cluster on the virtual cluster, the simulator of
# lab 23.
#
# Its **virtual ranks** are functions in one process. Each of them has its own clock, which advances
# with the time for computation and for messages. A launched message makes progress by itself here,
# which is not guaranteed on your machine (lab 36).
#
# The next cell prints the machine, the sizes of three networks, and how long AlexNet's allreduce
# takes by itself in way (a). The lines about the machine say for each number whether it was
# published, computed or estimated.

# %%
machine = virtual.machine("k80_fdr")
largest = max(gpus)
print(machine)
nets = {net: lab32.table(net, images, flops) for net in ("alexnet", "googlenet", "vgg16")}
for name, net in nets.items():
    computes = f"{1e3 * net.seconds:.0f} ms of computation a step"
    print(
        f"{name:>10}: {len(net.sizes)} layers, {net.nbytes / 1e6:.0f} MB of gradients, {computes}"
    )
alexnet = nets["alexnet"]
alone = lab32.messages_alone(at_the_end, alexnet, largest, machine)
print(
    f"an allreduce of AlexNet's {alexnet.nbytes / 1e6:.0f} MB on {largest} GPUs takes"
    f" {1e3 * alone:.0f} ms alone"
)
in_last_three = 100 * sum(alexnet.sizes[-3:]) / sum(alexnet.sizes)
print(f"{in_last_three:.0f} % of these bytes are in its last three layers")

# %% [markdown]
# The time for the computation is an estimate. A layer needs a certain number of floating-point
# operations (flops) in the forward pass and twice as many in the backward pass. We assume 1.3
# Tflop/s, the rate at which such a GPU trained ResNet-50 in TensorFlow's benchmarks of May 2017.
#
# ### Predict
# In way (a), `at_the_end`, what percentage of a step does the allreduce take? You need two of the
# printed numbers, the time of AlexNet's computation and that of its allreduce alone.

# %%
predict("32.1", percent_for_allreduce=50)

# %%
step = lab32.on_gpus(at_the_end, alexnet, largest, machine).time
predict.compare("32.1", percent_for_allreduce=100 - 100 * alexnet.seconds / step)

# %% [markdown]
# **Explain.** In way (a) the computation and the allreduce follow one another. They take 105 ms and
# 161 ms, so the allreduce takes 161 / (105 + 161) = 61 % of the step.
#
# (The numbers in this text and in later ones belong to the parameters as given at the top of the
# lab.)
#
# AlexNet should gain much from overlap. Its last three layers hold 96 % of its bytes, and their
# gradients are complete when the backward pass has hardly begun. The convolutions, which account
# for 92 % of the computation, are still to come.
#
# ### Exercise 32.2 · Layer by layer
# `comm.Iallreduce` is the non-blocking version of `Allreduce`. It launches the collective and
# returns a request immediately, and you wait for the result later. For example, this program sums
# the vectors `a` and `b` over all ranks while it computes something else:
#
#     first = comm.Iallreduce(a, sum_of_a)    # launches the allreduce and returns immediately
#     second = comm.Iallreduce(b, sum_of_b)   # now two allreduces are in progress
#     compute_something_else()                # meanwhile, do not change a, b or use their sums
#     first.Wait()                            # sum_of_a is complete; sum_of_b may not be
#     second.Wait()                           # sum_of_b is complete, too
#
# Write `one_by_one`, which launches the allreduce of gradient i in `ready(i)`. Wait for each
# allreduce only in `finish`, and then update its tensor. 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: what has to be kept</summary>
#
# You need an array for each sum, `sums = [np.empty_like(part) for part in net.gradients]`, and a
# dict of requests.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `finish`, loop with `for i, request in requests.items():`, wait, and then call
# `net.update(i, sums[i] / comm.size)`. After the loop, call `requests.clear()` so that the dict is
# empty in the next step.
# </details>


# %%
def one_by_one(comm, net):
    """Way (b): the allreduce of each tensor is launched when its gradient is complete."""
    ### BEGIN SOLUTION
    sums = [np.empty_like(part) for part in net.gradients]
    requests = {}

    def ready(i):
        # Across ranks: launch the allreduce of gradient i, and go on with the backward pass.
        requests[i] = comm.Iallreduce(net.gradients[i], sums[i])

    def finish():
        for i, request in requests.items():
            # Across ranks: until the others' parts are in.
            request.Wait()
            net.update(i, sums[i] / comm.size)
        requests.clear()

    return ready, finish
    ### END SOLUTION


# %%
check("32.2", one_by_one)

# %% [markdown]
# **All ranks must launch their collectives in the same order.** MPI combines the first allreduce of
# one rank with the first allreduce of the others, whatever the program intended. If two gradients
# become ready in the opposite order on rank 1, the virtual cluster reports the mismatch. A real MPI
# library may instead add vectors that do not belong together, fail, or wait forever.
#
# Libraries therefore enforce an order. Horovod's coordinator asks all ranks which gradients are
# ready, and PyTorch's DDP uses buckets that are fixed in advance.
#
# ## Buckets
# Is it best to launch one allreduce for each layer? Every allreduce has a per-call overhead,
# however short its vector is. On 160 ranks, an allreduce of a few kilobytes or more sends
# about 2 · ⌈log₂ 160⌉ = 16 messages one after the other (lab 24). Each message takes at least 5 µs,
# so even 4 kB take about 0.1 ms.
#
# Way (b) pays this overhead once for each layer. How much of it is visible depends on the library:
#
# - On the virtual cluster all allreduces are in progress **side by side**. Their waiting times
#   overlap, so a step pays far less than one overhead per layer.
# - A library may execute **one after the other**, as Horovod's background thread does. Then the
#   overheads add up.
#
# The remedy is to join several gradients into one vector, a **bucket**, and to launch one allreduce
# for it.
#
# The effect is largest in a network with many short layers and little computation. For the next
# measurement we therefore take GoogLeNet, which has 58 layers, and give each GPU a single image per
# step instead of 32. The next cell prints the two times that you need for a prediction:

# %%
few = lab32.table("googlenet", 1, flops)
few_alone = lab32.messages_alone(at_the_end, few, largest, machine)
computation = 1e3 * few.seconds
print(f"{computation:.1f} ms of computation, of which forward {computation / 3:.1f} ms")
print(
    f"the allreduce of {few.nbytes / 1e6:.0f} MB on {largest} GPUs takes {1e3 * few_alone:.1f} ms alone"
)

# %% [markdown]
# ### Predict
# How many milliseconds does a step take in way (a)? How many does it take in way (b) if the
# allreduces run one after the other? For (b), add up three terms:
#
# - the forward pass, because the first allreduce starts when it has just ended;
# - the single allreduce printed above, because the bytes take at least as long in 58 parts;
# - a per-call overhead of 0.1 ms, 58 times.

# %%
predict("32.2", a_ms=25, b_one_after_other_ms=26)

# %% [markdown]
# ### Exercise 32.3 · Buckets
# Collect gradients in `ready`. As soon as the collected gradients have **at least** `size` bytes,
# or there are `most` of them, send them as one vector with `net.join` and one `Iallreduce`. In
# `finish`, wait for each bucket, split it with `net.cut`, and update its tensors. 15 lines.
# *(advanced)*
#
# For example, with `size = 12_000`, suppose that gradients of 4,000, 10,000, 2,000 and 1,000 bytes
# become ready in this order. The first two make a bucket of 14,000 bytes, which is launched as soon
# as the second is ready. The other two have only 3,000 bytes at the end of the backward pass, so
# take care that this last bucket is sent, too.
#
# Count bytes or gradients, not time. With a rule such as "send what has become ready within 5 ms",
# each rank would look at its own clock and form different buckets.
#
# <details><summary>Hint 1: a bucket, and when it goes</summary>
#
# Use two lists, `waiting` for the numbers of collected gradients and `flying` for launched buckets.
# A helper `send()` joins the gradients in `waiting`, launches the allreduce, appends to `flying`
# what `finish` needs, and clears `waiting`. `ready(i)` appends i, and calls `send()` if
# `sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `flying.append((comm.Iallreduce(own, total), total, list(waiting)))` stores a copy of the list,
# because `waiting` is cleared afterwards. In `finish`, call `send()` if `waiting` is not empty.
# Then, for each entry of `flying`, wait, split the vector with `net.cut`, and update. At the end
# call `flying.clear()`.
# </details>


# %%
def in_buckets(comm, net, size, most=1000):
    """Way (c): gradients are summed together when they fill `size` bytes or are `most` in
    number."""
    ### BEGIN SOLUTION
    waiting = []
    flying = []

    def send():
        own = net.join(waiting)
        total = np.empty_like(own)
        # Across ranks: one allreduce for the whole bucket.
        flying.append((comm.Iallreduce(own, total), total, list(waiting)))
        waiting.clear()

    def ready(i):
        waiting.append(i)
        if sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most:
            send()

    def finish():
        if waiting:
            send()
        for request, total, numbers in flying:
            request.Wait()
            for i, piece in net.cut(total, numbers):
                net.update(i, piece / comm.size)
        flying.clear()

    return ready, finish
    ### END SOLUTION


# %%
check("32.3", in_buckets)

# %% [markdown]
# ### Measure: how large should a bucket be?
# We simulate GoogLeNet with one image on each of 160 GPUs and buckets of five sizes. The smallest
# bucket holds one layer, which is way (b), and the largest holds the whole network, which is way
# (a). Each size is measured with allreduces side by side and with one after the other. The cell
# plots the milliseconds of a step over the bucket size, with one curve for each of the two kinds,
# and prints the same numbers. This takes one to three minutes.

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
# **Explain.** Read the plot from its two ends:
#
# - At the right end a single bucket holds the whole network, so nothing is hidden and both curves
#   show way (a), 6.9 + 17.7 = 24.6 ms.
# - At the left end a bucket holds one layer, as in way (b). *Side by side* this is far faster than
#   (a). *One after the other* it is slower than (a), because 58 overheads cost more than overlap
#   can save.
#
# In between, both curves have a minimum. Buckets that are too small pay the overhead too often. If
# they are too large, the last bucket is large, too, and it is launched when no computation is left
# to hide it. Of these five sizes, the best is 2 MB side by side and 8 MB with one after the other.
#
# The size matters more with one after the other. Side by side, the left end is less than 1 ms above
# the minimum, so 58 allreduces in progress together hide most of their overheads.
#
# At the left end, one after the other, your three terms are too small by a few milliseconds:
#
# | left end, one after the other | time |
# |---|---|
# | your three terms, 2.3 + 17.7 + 58 × 0.1 | about 26 ms |
# | simulated step | 31 ms |
# | simulated, the 58 allreduces without computation | 28 ms |
# | simulated, the same 58 allreduces with the handshake set to zero | 23 ms |
#
# A message of more than 12 KiB begins with a handshake of 10 µs (the machine's table has both
# numbers), and most layers send such messages. Our overhead of 0.1 ms leaves out the handshake.
#
# ## On how many GPUs, and for which networks?
# We compare the ways by their **efficiency**, which is the time for the computation divided by the
# time for the step. An efficiency of 100 % means that communication is completely hidden.
#
# ### Predict
# What is the efficiency of AlexNet on 160 GPUs, in percent, for (a) and for (b)? For (a) you know
# both terms from prediction 32.1. For (b), suppose that messages are hidden for the whole backward
# pass, which is two thirds of the computation (70 of 105 ms). How much of (a)'s allreduce then
# stays visible?

# %%
predict("32.3", efficiency_of_a=40, efficiency_of_b=60)

# %% [markdown]
# ### Measure: 160 virtual GPUs
# We measure all three ways on 8, 32 and 160 GPUs. As a control we add "(b) not overlapped", which
# makes the same calls as (b) but launches them only after the backward pass. The plot shows the
# efficiency over the number of GPUs. This takes about a quarter of a minute.

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
# **Explain.** The efficiency of (b) and (c) is far above that of (a). The distance between (b) and
# its control shows what overlap alone contributes. Way (c) is hardly better than (b) here,
# because AlexNet has only 8 layers and no short ones that would benefit from a bucket.
#
# Overlap does not explain two of the results:
#
# - The efficiency of (b) is 68 %. With the assumption in the prediction, 161 − 70 = 91 ms of (a)'s
#   allreduce stay visible, which gives only 105 / (105 + 91) = 54 %.
# - "(b) not overlapped" hides nothing, but it is better than (a).
#
# The cause is that several allreduces side by side use links that a single allreduce leaves idle,
# so the messages themselves take less time. The first part of *Going further* measures this.
#
# ### Measure: does overlap matter for other networks?
# Each line of the next output is the efficiency of one network in one way, now with 32 images per
# GPU for all three networks. This takes about half a minute.

# %%
print(f"efficiency on {largest} GPUs, {images} images each (%)")
for name, net in nets.items():
    for label in ("(a) at the end", "(b) by layer", "(c) buckets"):
        took = lab32.on_gpus(ways[label], net, largest, machine).time
        print(f"{name:>10}  {label:<16} {100 * net.seconds / took:5.0f}")

# %% [markdown]
# **Explain.** GoogLeNet and VGG-16 compute for so long, compared with the number of their bytes,
# that (b) and (c) hide nearly all communication. Even (a) loses less than on AlexNet. The gain from
# overlap depends on the ratio between the time of the allreduce and the time of the backward pass.
# To see the effect of fewer images or faster GPUs, change `images` and `flops` at the top of the
# lab.
#
# The machine is a model without jitter or an input pipeline. Trust the large differences between
# the ways, but not the percentages.
#
# ### What you take away
# - Gradients become ready from the last layer to the first. Launch each allreduce immediately, and
#   wait for it before the update. Every rank must launch the same collectives in the same order.
# - A bucket saves latencies but starts later than its first gradient could. Buckets matter where a
#   network has many short layers and allreduces run one after the other.
# - The last allreduce of a step has nothing left to hide behind, so it should be short.
# - Overlap matters most where an allreduce takes about as long as the backward pass. Where it takes
#   far less time, (a) loses little.
# - A launched allreduce does not always make progress. Lab 36 shows who moves a message on your
#   machine while you compute, and lab 44 covers Horovod's timeline and settings.
#
# ## Going further (optional): a closer look at the messages (8 minutes)
# ### Measure: allreduces side by side
# Why is (b) better than predicted, and "(b) not overlapped" better than (a)? The next cell measures
# AlexNet's messages alone, without computation. As a control, the last line has the allreduces of
# (b) one after the other.

# %%
print(f"AlexNet's messages alone, {largest} GPUs (ms)")
apart = {
    "(a), one allreduce": lab32.messages_alone(at_the_end, alexnet, largest, machine),
    "(b), side by side": lab32.messages_alone(one_by_one, alexnet, largest, machine),
    "(b), one after the other": lab32.messages_alone(
        one_by_one, alexnet, largest, machine, queued=True
    ),
}
for name, seconds in apart.items():
    print(f"{name:>26} {1e3 * seconds:6.0f}")

# %% [markdown]
# **Explain.** One after the other, the 8 allreduces of (b) take about as long as the single one of
# (a). Side by side they take only 116 ms instead of 161 ms, because they use links that a single
# allreduce leaves idle.
#
# This is why our prediction for (b), 54 %, was too low. Not 91 ms but only 116 − 70 = 46 ms stay
# visible, and 105 / (105 + 46) is 70 %, close to the measured 68 %.
#
# The library [Aluminum](@dryden2018) (2018) makes use of allreduces side by side. It has no buckets
# but launches many non-blocking allreduces, and a separate thread makes progress on all of them.
#
# ### Measure: what is hidden behind what?
# The next plot shows two steps of AlexNet on 16 GPUs with (a) and (b). Time runs from left to
# right. For each way, three rows mark when rank 0 computes forward, when it computes backward, and
# when messages to or from rank 0 are in progress.

# %%
pair = {name: ways[name] for name in ("(a) at the end", "(b) by layer")}
rows = lab32.lanes(pair, alexnet, min(16, largest), machine)
plots.lanes(rows, title="AlexNet on 16 GPUs: (b) hides its messages behind backward")

# %% [markdown]
# **Explain.** In (a) no message is in progress while rank 0 computes, and the next forward pass
# starts only when the allreduce is complete. In (b) the messages are in progress during the
# backward pass, so the next forward pass starts almost immediately.
#
# ## Going further (optional): S-Caffe's two sides (25 minutes)
# In S-Caffe only rank 0 has the optimizer. Two kinds of messages are therefore needed, and each is
# hidden behind a different pass:
#
# | | operation | hidden behind |
# |---|---|---|
# | gradients | reduced to rank 0 | the backward pass |
# | parameters | broadcast from rank 0, after its update | the **next forward pass** |
#
# During that forward pass, a layer has to wait only for its own parameters. A way may therefore
# return a third function, `before(i)`, which is called right before tensor i is used. After the
# last step, it is called once more for every i.
#
# The two kinds of messages are these non-blocking collectives:
#
#     request = comm.Ireduce(own, total, root=0)   # launches a reduction; only rank 0 gets the sum
#     request = comm.Ibcast(array, root=0)         # launches a broadcast of rank 0's array to all
#
# ### Exercise 32.4 · S-Caffe's two sides (optional)
# Write `two_sides`, which we call way (d). It returns `ready, finish, before`. 15 lines.
# *(advanced)*
#
# - `ready(i)` launches the reduction of gradient i.
# - `finish()` waits for the reductions on *all* ranks, because the memory of the gradients will be
#   used again, but only rank 0 updates the parameters.
# - `finish()` then launches the broadcasts on all ranks, beginning with tensor 0, because the
#   forward pass needs it first.
# - `before(i)` waits for the broadcast of tensor i. No other function waits for a broadcast.
#
# <details><summary>Hint 1: before, in the first step</summary>
#
# No broadcast is in progress in the first step, so check `if i in broadcasts:`. The call
# `broadcasts.pop(i).Wait()` waits and also removes the request from the dict.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `finish` begins as in 32.2, with `if comm.rank == 0:` before the update. Then all ranks launch the
# broadcasts in the order of the forward pass, `for i in net.numbers`, with
# `comm.Ibcast(net.parameters[i], root=0)`.
# </details>


# %%
def two_sides(comm, net):
    """Way (d): reduced to rank 0 behind backward, broadcast from there behind the next forward."""
    ### BEGIN SOLUTION
    sums = [np.empty_like(part) for part in net.gradients]
    reductions = {}
    broadcasts = {}

    def ready(i):
        # Across ranks: only rank 0 will have the sum.
        reductions[i] = comm.Ireduce(net.gradients[i], sums[i], root=0)

    def finish():
        for i, request in reductions.items():
            request.Wait()
            if comm.rank == 0:
                net.update(i, sums[i] / comm.size)
        reductions.clear()
        for i in net.numbers:
            # Across ranks: rank 0's new parameters, in the order in which forward needs them.
            broadcasts[i] = comm.Ibcast(net.parameters[i], root=0)

    def before(i):
        if i in broadcasts:
            broadcasts.pop(i).Wait()

    return ready, finish, before
    ### END SOLUTION


# %%
check("32.4", two_sides)

# %% [markdown]
# ### Predict
# The binomial trees of (d) (lab 24) send ⌈log₂ 160⌉ = 8 whole vectors into rank 0, one after the
# other, and 8 out of it. The rates are those that were printed with the machine:
#
# | where | vectors | rate |
# |---|---|---|
# | inside a node | 8 | 11 GB/s |
# | between nodes | 8 | 6.4 GB/s |
#
# How long do all 16 vectors take for AlexNet's 244 MB? If a step takes as long as these messages,
# what is the efficiency of (d) on 160 GPUs, in percent?

# %%
predict("32.4", efficiency_of_d=60)

# %% [markdown]
# ### Measure: two sides
# We compare (d) with (a), and with a control that makes the same calls as (d) without overlap.

# %%
pair = {"(d) two sides": two_sides, "(d) not overlapped": lab32.unhidden(two_sides)}
beside = {"(a) at the end": at_the_end} | pair
efficiency = lab32.plot_efficiency(beside, alexnet, gpus, machine, "(d) pays for its trees")
predict.compare("32.4", efficiency_of_d=efficiency["(d) two sides"])
trees = lab32.messages_alone(two_sides, alexnet, largest, machine)
print(f"messages alone: (d) {1e3 * trees:.0f} ms, (a) {1e3 * alone:.0f} ms")

# %% [markdown]
# **Explain.** A vector takes 22 ms inside a node and 38 ms between nodes, so the 16 vectors take 8
# × 22 + 8 × 38 = 480 ms, and the efficiency is about 105 / 480 = 22 %. The simulated messages take
# less, 429 ms, because the trees of the 8 layers are in progress side by side.
#
# Compared with its own control, (d) gains from overlap, but it is much slower than (a), whose
# messages take only 161 ms. The cause is the trees, not the overlap.
#
# The authors of S-Caffe therefore wrote their own reduction. It uses chains inside groups of ranks,
# in which a vector travels in chunks (lab 25), and a tree across the groups. They report that it is
# up to 2.6 times as fast as the reduction of the MPI library MVAPICH2 on 160 GPUs.
#
# ### Further reading
# - [@li2020] How PyTorch's DistributedDataParallel forms its buckets and overlaps them with the
#   backward pass.
# - [@horovod_fusion] Horovod's tensor fusion, which joins whatever is ready in a cycle.
# - [@dryden2018] The Aluminum paper, on latency, algorithms for short vectors, and progress.
# - [@awan2017] The S-Caffe paper, with both kinds of overlap and the hierarchical reduction.
# - [@pytorch_hooks] The documentation of the hook in exercise 32.1.

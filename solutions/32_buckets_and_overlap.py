# %% [markdown]
# # 32 Buckets and overlap
#
# The heart of data-parallel training: the gradients' sum travels while the backward pass still runs. You
# build it four times, see what it gains on 160 virtual GPUs, and then on real ranks over a slow link.
#
# **You will be able to** (1) begin a collective in the moment a gradient is there, (2) fuse gradients into
# buckets, and say what too small and too large ones cost, (3) hide a broadcast behind the next forward pass,
# as S-Caffe does, (4) say why a message that was begun may stand still, and what moves it.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Before: 22, 30

# %%
from functools import partial

import numpy as np
from labkit import check, hint, lab, launch, plots, predict, virtual
from support import lab32

lab.start("32_buckets_and_overlap")

# %% tags=["parameters"]
batch = 96  # images per step of the short trainings on real ranks, over all ranks together
gpus = (8, 32, 160)  # GPUs of the virtual machine
images = 32  # per GPU and step there
flops = 1.3e12  # floating-point operations a second of a K80 GPU in training (where from: see 32.1)
bucket_sizes = (1e4, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 3e7)  # bytes, tried on the virtual machine
width = 256  # of the net timed on real ranks: 12 linear layers, most of width x width
repeat = 15  # steps of it in each way
workers = 4  # real ranks in the checks, unless a launcher has started some
patience = 60  # seconds after which a check calls the ranks stuck

# %% [markdown]
# Lab 30 waited for the end of backward, then summed. But the last layer's gradient is there early on: why
# should it wait? You write each **way** to sum as a function `way(comm, net)` that returns two functions.
# `ready(i)` is called in backward, as soon as `net.gradients[i]` is there; `finish()` after backward, and it
# has to call `net.update(i, mean)` once for every i: a step of SGD with the mean gradient over all ranks.
#
# `net.gradients` and `net.parameters` are lists of flat arrays. Forward uses tensor 0 first, so its gradient
# comes last. `net.numbers` is 0, 1, …; `net.join(numbers)` makes one vector of these gradients, and
# `net.cut(vector, numbers)` takes such a vector apart: a list of (i, piece).
#
# ### Exercise 32.1 · All at the end, and a hook
# `at_the_end` is lab 30's average: nothing to do in `ready`; one vector, one `Allreduce` in `finish`. `watch`
# serves all ways. A function given to `weight.register_post_accumulate_grad_hook` is called, with the weight,
# right after PyTorch has written the weight's gradient to `.grad`. 8 and 2 lines.
#
# <details><summary>Hint 1: which i does a hook know?</summary>
#
# `for i, weight in enumerate(module.parameters())`. `lambda weight: ready(i)` looks `i` up when it is called:
# the loop is over then, and all hooks would name the last. `lambda weight, i=i: ready(i)` keeps its own.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `finish`: `mine = net.join(net.numbers)`, `total = np.empty_like(mine)`, the `Allreduce`; then update with
# each mean, `for i, piece in net.cut(total, net.numbers)`. `ready`: `pass`. `return ready, finish`.
# </details>


# %%
def at_the_end(comm, net):
    """Way (a): one sum of all gradients, after the backward pass."""
    ### BEGIN SOLUTION

    def ready(i):
        pass

    def finish():
        mine = net.join(net.numbers)
        total = np.empty_like(mine)
        # Across ranks: one sum for all gradients.
        comm.Allreduce(mine, total)
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
# On 1 to 8 virtual ranks, then on 1 to 4 real ones in PyTorch: the parameters of one process?
as_one_process = partial(lab32.expect_one_process, watch, launch.ranks_here(workers), batch, patience)
with check("32.1"):
    lab32.expect_watch(watch)
    as_one_process(at_the_end)
    lab32.expect_begun(lab32.one_step(at_the_end)[1], "Allreduce", [[5, 4, 3, 2, 1, 0]], late=True)

# %% [markdown]
# ### Predict
# S-Caffe (Awan et al., PPoPP 2017) ran on 160 K80 GPUs. `labkit.virtual` has such a machine, 16 GPUs a node;
# its `sources` tell which numbers are published and which estimates. A layer takes its flops, twice that in
# backward, at 1.3 Tflop/s: one K80 GPU trains ResNet-50, 3 x 8.2 Gflop an image, at 52.4 images/s
# (TensorFlow's benchmarks, May 2017). AlexNet has 244 MB of gradients. How many percent of a step on 160 GPUs
# is (a)'s sum? How many percent of the bytes are in the last three layers, whose gradients come first?

# %%
predict("32.1", percent_for_sum=50, percent_in_last_three=95)
machine, most = virtual.machine("k80_fdr"), max(gpus)
nets = {net: lab32.table(net, images, flops) for net in ("alexnet", "googlenet", "vgg16")}
alexnet, sizes = nets["alexnet"], nets["alexnet"].sizes
for_sum = 100 - 100 * alexnet.seconds / lab32.on_gpus(at_the_end, alexnet, most, machine).time
predict.compare("32.1", percent_for_sum=for_sum, percent_in_last_three=100 * sum(sizes[-3:]) / sum(sizes))

# %% [markdown]
# ### Exercise 32.2 · Layer by layer
# `request = comm.Iallreduce(mine, total)` begins a sum and returns at once; `request.Wait()` returns when it
# is over. Until then nobody may change `mine` or use `total`. Begin in `ready`, wait in `finish`. 8 lines.
#
# <details><summary>Hint 1: what has to be kept</summary>
#
# An array for each total, `sums = [np.empty_like(one) for one in net.gradients]`, and a dict of requests.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `finish`, `for i, request in requests.items():` wait, then `net.update(i, sums[i] / comm.size)`. At the
# end `requests.clear()`, for the next step.
# </details>


# %%
def one_by_one(comm, net):
    """Way (b): the sum of each tensor begins when its gradient is there."""
    ### BEGIN SOLUTION
    sums, requests = [np.empty_like(one) for one in net.gradients], {}

    def ready(i):
        # Across ranks: begin to sum gradient i, and go on with the backward pass.
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
with check("32.2"):
    as_one_process(one_by_one)
    lab32.expect_begun(lab32.one_step(one_by_one)[1], "Iallreduce")
print(lab32.swapped(one_by_one, lab32.SIZES))  # two gradients the other way round on rank 1

# %% [markdown]
# All ranks must begin sums in one order. Real MPI need not look: it adds what is first to what is first,
# fails, or waits for ever. Horovod's coordinator asks all what is ready; PyTorch's DDP has fixed buckets.
#
# ### Predict
# GoogLeNet with one image on each of 160 GPUs: 58 layers, 27 MB, 7 ms of arithmetic. How many times as fast
# as (a) is (b)? Which **bucket** is best, in MB: how many bytes of gradients to sum as one vector?
#
# ### Exercise 32.3 · Buckets
# Every sum costs a dozen latencies, however short. So collect gradients; send them off when they fill `size`
# bytes, or are `most` in number: none is held up for long. (Why not "after 5 ms"? Clocks differ, and so would
# buckets. Horovod's cycle time is in ms: hence its coordinator.) And **progress**: unless a thread of its own
# or the network's card helps, MPI moves messages *inside its calls* only; between hooks a sum can rest.
# `request.Test()` moves it on, without waiting: in each `ready`, Test all that is under way. 18 lines.
#
# <details><summary>Hint 1: a bucket, and when it goes</summary>
#
# Lists `waiting`, of numbers, and `flying`. `send()` joins `waiting`, begins the sum, appends to `flying`
# what `finish` needs, clears `waiting`. `ready(i)` appends i, and sends if `sum(net.gradients[j].nbytes
# for j in waiting) >= size or len(waiting) >= most`. The last bucket is rarely full: who sends it?
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `flying.append((comm.Iallreduce(mine, total), mine, total, list(waiting)))`: a copy of the list, and `mine`,
# whose memory must live as long as the sum. `finish`: `if waiting: send()`; for each of `flying` Wait,
# `net.cut`, update; `flying.clear()`.
# </details>


# %%
predict("32.3", layers_times_as_fast=1.5, best_bucket_MB=5)


def in_buckets(comm, net, size, most=1000):
    """Way (c): gradients are summed together when they fill `size` bytes or are `most` in number."""
    ### BEGIN SOLUTION
    waiting, flying = [], []

    def send():
        mine = net.join(waiting)
        total = np.empty_like(mine)
        # Across ranks: one sum for the whole bucket.
        flying.append((comm.Iallreduce(mine, total), mine, total, list(waiting)))
        waiting.clear()

    def ready(i):
        waiting.append(i)
        if sum(net.gradients[j].nbytes for j in waiting) >= size or len(waiting) >= most:
            send()
        for request, *_ in flying:
            request.Test()

    def finish():
        if waiting:
            send()
        for request, _, total, numbers in flying:
            request.Wait()
            for i, piece in net.cut(total, numbers):
                net.update(i, piece / comm.size)
        flying.clear()

    return ready, finish
    ### END SOLUTION


# %%
with check("32.3"):
    lab32.expect_buckets(in_buckets)
    as_one_process(partial(in_buckets, size=12_000))
few, ways = lab32.table("googlenet", 1, flops), {"at the end": at_the_end, "layer by layer": one_by_one}
swept, times = lab32.bucket_sweep(in_buckets, ways, few, most, machine, bucket_sizes)
faster = times["at the end"] / times["layer by layer"]
predict.compare("32.3", layers_times_as_fast=faster, best_bucket_MB=min(swept, key=swept.get))

# %% [markdown]
# Too small: hundreds of latencies. Too large: the first sum begins late, and nothing hides the last one.
# ### Exercise 32.4 · S-Caffe's two sides
# In S-Caffe only rank 0 has the optimizer. Gradients are *reduced* to it behind backward. It makes the step,
# and *broadcasts* the parameters behind the **next forward pass**, in which a layer waits for its own alone:
# `before(i)`, a third function, is called right before tensor i is used. Others wait for their reductions,
# too: the gradients' memory is used again. `comm.Ireduce(mine, total, root=0)`, `comm.Ibcast(array, root=0)`.
#
# <details><summary>Hint 1: before, in the first step</summary>
#
# Nothing is under way then: `if i in broadcasts:`. And `broadcasts.pop(i).Wait()` forgets it afterwards.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `finish` begins as in 32.2, with `if comm.rank == 0:` before the update. Then all begin the broadcasts,
# first what forward needs first: `for i in net.numbers`, `comm.Ibcast(net.parameters[i], root=0)`.
# </details>


# %%
def two_sides(comm, net):
    """Way (d): reduced to rank 0 behind backward, broadcast from there behind the next forward."""
    ### BEGIN SOLUTION
    sums, reductions, broadcasts = [np.empty_like(one) for one in net.gradients], {}, {}

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
with check("32.4"):
    as_one_process(two_sides)
    seen = lab32.one_step(two_sides, steps=2, machine=virtual.ideal(bandwidth=2e6))[1]
    lab32.expect_begun(seen, "Ireduce")
    lab32.expect_casts(seen)

# %% [markdown]
# ### Measure: 160 virtual GPUs
# AlexNet on 16, two steps: what hides behind what, and what behind nothing? Then efficiency, the arithmetic's
# time over the step's. S-Caffe's abstract: GoogLeNet, 160 GPUs 2.5 times as fast as 32 (images not told).

# %%
ways = {"(a) at the end": at_the_end, "(b) by layer": one_by_one}
ways |= {"(c) buckets": partial(in_buckets, size=2e6), "(d) two sides": two_sides}
plots.lanes(lab32.lanes(ways, alexnet, min(16, most), machine), title="AlexNet, two steps: rank 0 of 16")
more = ways | {"(d) not overlapped": lab32.unhidden(two_sides)}
lab32.plot_efficiency(more, nets, gpus, machine)
lab32.plot_beside_s_caffe(more, most, flops, machine)

# %% [markdown]
# (d)'s trees send ⌈lg p⌉ vectors through rank 0; S-Caffe has a reduce of its own, chains under a tree. And a
# model without jitter, disks, and small matrices that a GPU does badly is a bound: how do the *ways* differ?
#
# ### Measure: real ranks
# Two ranks, and so many images that backward lasts as long as the sum. On one machine a message is work for
# the same cores: little to hide. Between nodes a card or the kernel does it, if MPI is called often enough:
# by Test, or ("+ thread", `overlap.Progress`) by a thread, every ms, which wants a share of a core. How many
# times as fast as (a) is (c) over a slow link? (`make tabletop` starts two nodes with one.)

# %%
predict("32.4", over_slow_link=1.4)
ways["(c) buckets"], ranks = partial(in_buckets, size=5e5), launch.ranks_here(2)
how = {"threaded": "(c) buckets", "ranks": ranks, "threads": 1}
lab32.show(*launch.run(lab32.measure, ways, watch, width, repeat, **how)[0], ranks)
took, whose = lab32.over_slow_link(repeat)
print(f"{whose}, seconds:", took, sep="\n")
predict.compare("32.4", over_slow_link=took["(a) at the end"] / took["(c) buckets"])

# %% [markdown]
# ### What you take away
# - Gradients come from the last layer on: begin each sum at once, and wait before the step.
# - Buckets: few latencies, early begin; the same buckets in the same order on every rank.
# - Begun is not under way: MPI may move messages only in its calls. Test in hooks, or a thread that calls.
# - The first layers' sum comes last and is needed first. Later layers' can hide behind the next forward.
# - Horovod and DDP do (c). Next: Horovod's timeline and knobs (44); fewer bytes (35).

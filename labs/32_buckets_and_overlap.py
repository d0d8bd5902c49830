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
from labkit import check, expect, hint, lab, launch, plots, predict, virtual
from labkit.counting import on_every_size
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
# `finish`: `own = net.join(net.numbers)`, `total = np.empty_like(own)`, the `Allreduce`; then update with
# each mean, `for i, piece in net.cut(total, net.numbers)`. `ready`: `pass`. `return ready, finish`.
# </details>

# %%
def at_the_end(comm, net):
    """Way (a): one sum of all gradients, after the backward pass."""
    raise NotImplementedError("exercise 32.1: All at the end, and a hook")


def watch(module, ready):
    """Let PyTorch call ready(i) as soon as the i-th of module.parameters() has its gradient."""
    raise NotImplementedError("exercise 32.1: All at the end, and a hook")


# %%
# What is asked of every way: parameters as of one process, on virtual ranks, then on real ones in PyTorch.
def expect_one_process(way):
    for p in (1, 2, 3, 4, 8):
        run = virtual.Cluster(p).run(lab32.train, way, lab32.SIZES, 3)
        alone = lab32.trained_alone(p, lab32.SIZES, 3)
        summed = lab32.trained_alone(p, lab32.SIZES, 3, rate=p * 0.5)  # the rate is 0.5, on p times the mean
        for rank, seen in enumerate(run.results):
            what = f"{p} ranks, 3 steps: rank {rank}'s parameters against one process, tensor"
            slips = {"this is with the sum of the gradients, not their mean": summed}
            expect.close(seen.parameters, alone, what, atol=1e-4, slips=slips)
    train = partial(lab32.train_digits, way=way, watch=watch, steps=4, batch=batch)
    alone = lab32.train_digits_alone(4, batch)
    ranks = launch.ranks_here(workers)
    for rank, sizes in enumerate(launch.run(on_every_size, train, ranks=ranks, timeout=patience)):
        for p, parameters in sizes.items():
            what = f"{p} real ranks, 4 steps: rank {rank}'s parameters against one process, tensor"
            expect.close(parameters, alone, what, atol=1e-5)


# %%
# And of a toy net's steps (tensors 5 to 0, a gradient every ms): sums are calls of `name`, one for each
# bucket, each begun as soon as its gradients are there. late: the last one may begin after backward.
def expect_begun(seen, name, buckets=lab32.EACH_ALONE, at="", late=False):
    for call in seen.calls:
        others = f"It is right, but {call.name} is called; the sum should be made of {name} alone."
        expect(call.name in (name, "Ibcast"), at + others)
    for ms in lab32.backward_ms(seen):
        alone = lab32.AFTER_FIRST_MS
        waits = f"{at}`ready` waits: after the first gradient, backward takes {ms:.2f} ms"
        expect(ms < 1.01 * alone, f"{waits}, without messages {alone:.2f} ms.")
    sums = [call for call in seen.calls if call.name == name]
    expect(sums, f"{at}{name}, which takes arrays, is never called.")
    values = [sum(lab32.SIZES[i] for i in bucket) for bucket in buckets] * len(seen.ready)
    expect.equal([call.values for call in sums], values, f"{at}{name}, values of one call after the other")
    for begun in lab32.begun(seen, sums, buckets, late):
        times = f"{begun.there:.1f} ms after the start, their sum began at {begun.at:.1f} ms"
        expect(begun.in_time, f"{at}No overlap: gradients {begun.bucket} came {times}.")


# %%
# What is asked: hooks that tell `ready` of each gradient once, in time; and one Allreduce after backward.
with check("32.1"):
    calls = lab32.told_by_hooks(watch)  # calls of ready: its i; before backward? is the gradient there?
    own_call = "`watch` calls ready itself: it should give PyTorch a function that will."
    expect(not any(call.early for call in calls), own_call)
    a_weight = "ready gets a weight, not its number: PyTorch calls a hook with the weight."
    expect(all(isinstance(call.i, int) for call in calls), a_weight)
    numbers = [call.i for call in calls]
    once = f"Gradients 0 to 5 came, each once; ready was told of {numbers}."
    expect(sorted(numbers) == [0, 1, 2, 3, 4, 5], once)
    expect(max(numbers[:2]) > max(numbers[-2:]), f"The last layer's gradients come first, not {numbers}.")
    expect(all(call.there for call in calls), "ready(i) is called before `.grad` of parameter i is there.")
    expect_one_process(at_the_end)
    expect_begun(lab32.one_step(at_the_end), "Allreduce", lab32.ALL_TOGETHER, late=True)

# %% [markdown]
# ### Predict
# S-Caffe (Awan et al., PPoPP 2017) ran on 160 K80 GPUs. `labkit.virtual` has such a machine, 16 GPUs a node;
# its `sources` tell which numbers are published and which estimates. A layer takes its flops, twice that in
# backward, at 1.3 Tflop/s: one K80 GPU trains ResNet-50, 3 x 8.2 Gflop an image, at 52.4 images/s
# (TensorFlow's benchmarks, May 2017). AlexNet has 244 MB of gradients. How many percent of a step on 160 GPUs
# is (a)'s sum? How many percent of the bytes are in the last three layers, whose gradients come first?

# %%
predict("32.1", percent_for_sum=..., percent_in_last_three=...)

# %%
machine = virtual.machine("k80_fdr")
largest = max(gpus)
nets = {net: lab32.table(net, images, flops) for net in ("alexnet", "googlenet", "vgg16")}
alexnet = nets["alexnet"]
in_last_three = 100 * sum(alexnet.sizes[-3:]) / sum(alexnet.sizes)
for_sum = 100 - 100 * alexnet.seconds / lab32.on_gpus(at_the_end, alexnet, largest, machine).time
predict.compare("32.1", percent_for_sum=for_sum, percent_in_last_three=in_last_three)


# %% [markdown]
# ### Exercise 32.2 · Layer by layer
# `request = comm.Iallreduce(own, total)` begins a sum and returns at once; `request.Wait()` returns when it
# is over. Until then nobody may change `own` or use `total`. Begin in `ready`, wait in `finish`. 8 lines.
#
# <details><summary>Hint 1: what has to be kept</summary>
#
# An array for each total, `sums = [np.empty_like(part) for part in net.gradients]`, and a dict of requests.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# In `finish`, `for i, request in requests.items():` wait, then `net.update(i, sums[i] / comm.size)`. At the
# end `requests.clear()`, for the next step.
# </details>

# %%
def one_by_one(comm, net):
    """Way (b): the sum of each tensor begins when its gradient is there."""
    raise NotImplementedError("exercise 32.2: Layer by layer")


# %%
# What is asked: one Iallreduce for each gradient, begun when it is there; waited for after backward.
with check("32.2"):
    expect_one_process(one_by_one)
    expect_begun(lab32.one_step(one_by_one), "Iallreduce")

# %%
print(lab32.swapped(one_by_one, lab32.SIZES))  # two gradients the other way round on rank 1

# %% [markdown]
# All ranks must begin sums in one order. Real MPI need not look: it adds what is first to what is first,
# fails, or waits for ever. Horovod's coordinator asks all what is ready; PyTorch's DDP has fixed buckets.
#
# ### Predict
# GoogLeNet with one image on each of 160 GPUs: 58 layers, 27 MB, 7 ms of arithmetic. How many times as fast
# as (a) is (b)? Which **bucket** is best, in MB: how many bytes of gradients to sum as one vector?

# %%
predict("32.3", layers_times_as_fast=..., best_bucket_MB=...)


# %% [markdown]
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
# `flying.append((comm.Iallreduce(own, total), own, total, list(waiting)))`: a copy of the list, and `own`,
# whose memory must live as long as the sum. `finish`: `if waiting: send()`; for each of `flying` Wait,
# `net.cut`, update; `flying.clear()`.
# </details>

# %%
def in_buckets(comm, net, size, most=1000):
    """Way (c): gradients are summed together when they fill `size` bytes or are `most` in number."""
    raise NotImplementedError("exercise 32.3: Buckets")


# %%
# What is asked: buckets that close at `size` bytes or `most` tensors, and sums moved on by Test in backward.
with check("32.3"):
    for size, most in [(12_000, 1000), (15_000, 1000), (1, 1000), (10**9, 1000), (10**9, 4), (20_000, 2)]:
        seen = lab32.one_step(partial(in_buckets, size=size, most=most), steps=2)
        at = f"size={size:,}, most={most}: "
        expect_begun(seen, "Iallreduce", lab32.planned(size, most), at, late=size > 1)
    tests = lab32.one_step(partial(in_buckets, size=1)).tests
    sentence = f"Right, but Test is called {tests} times in a backward pass of 6 sums: nothing moves."
    expect(tests >= 5, sentence)
    expect_one_process(partial(in_buckets, size=12_000))

# %%
few = lab32.table("googlenet", 1, flops)
ways = {"at the end": at_the_end, "layer by layer": one_by_one}
swept, times = lab32.bucket_sweep(in_buckets, ways, few, largest, machine, bucket_sizes)
faster = times["at the end"] / times["layer by layer"]
predict.compare("32.3", layers_times_as_fast=faster, best_bucket_MB=min(swept, key=swept.get))


# %% [markdown]
# Too small: hundreds of latencies. Too large: the first sum begins late, and nothing hides the last one.
# ### Exercise 32.4 · S-Caffe's two sides
# In S-Caffe only rank 0 has the optimizer. Gradients are *reduced* to it behind backward. It makes the step,
# and *broadcasts* the parameters behind the **next forward pass**, in which a layer waits for its own alone:
# `before(i)`, a third function, is called right before tensor i is used. Others wait for their reductions,
# too: the gradients' memory is used again. `comm.Ireduce(own, total, root=0)`, `comm.Ibcast(array, root=0)`.
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
    raise NotImplementedError("exercise 32.4: S-Caffe's two sides")


# %%
# What is asked: one Ireduce for each gradient, begun when it is there; one Ibcast for each tensor and step;
# a forward pass whose layers wait for their own parameters alone.
with check("32.4"):
    expect_one_process(two_sides)
    seen = lab32.one_step(two_sides, steps=2, machine=virtual.ideal(bandwidth=2e6))  # by rank 3
    expect_begun(seen, "Ireduce")
    others = "Ranks other than 0 call net.update, too: only rank 0 has the sums to do it with."
    expect(seen.updates == 0, others)
    broadcast = [call.values for call in seen.calls if call.name == "Ibcast"]
    expect.equal(sorted(broadcast), sorted(2 * lab32.SIZES), "The broadcasts of 2 steps, by their values")
    first, *_, last = seen.forward[1]  # seconds at which the layers began, in the second step
    late = "Layer 0 began its next forward pass when all broadcasts were over, for no other had to wait."
    needs = "It needs its own parameters only, and those should be sent first."
    expect(last - first > 5e-3 + 1e-9, f"{late} {needs}")

# %% [markdown]
# ### Measure: 160 virtual GPUs
# AlexNet on 16, two steps: what hides behind what, and what behind nothing? Then efficiency, the arithmetic's
# time over the step's. S-Caffe's abstract: GoogLeNet, 160 GPUs 2.5 times as fast as 32 (images not told).

# %%
ways = {"(a) at the end": at_the_end, "(b) by layer": one_by_one}
ways |= {"(c) buckets": partial(in_buckets, size=2e6), "(d) two sides": two_sides}
plots.lanes(lab32.lanes(ways, alexnet, min(16, largest), machine), title="AlexNet, two steps: rank 0 of 16")
more = ways | {"(d) not overlapped": lab32.unhidden(two_sides)}
lab32.plot_efficiency(more, nets, gpus, machine)
lab32.plot_beside_s_caffe(more, largest, flops, machine)

# %% [markdown]
# (d)'s trees send ⌈lg p⌉ vectors through rank 0; S-Caffe has a reduce of its own, chains under a tree. And a
# model without jitter, disks, and small matrices that a GPU does badly is a bound: how do the *ways* differ?
#
# ### Measure: real ranks
# Two ranks, and so many images that backward lasts as long as the sum. On one machine a message is work for
# the same cores: little to hide. Between nodes a card or the kernel does it, if MPI is called often enough:
# by Test, or ("+ thread", `lab32.Progress`) by a thread, every ms, which wants a share of a core. How many
# times as fast as (a) is (c) over a slow link? (`make tabletop` starts two nodes with one.)
#
# The first line says where the nets are. Your arrays are in host memory: of a net on a GPU they are copies,
# each gradient's made before `ready(i)`, each parameter's taken back before its layer.

# %%
predict("32.4", over_slow_link=...)

# %%
ways["(c) buckets"] = partial(in_buckets, size=5e5)
ranks = launch.ranks_here(2)
how = {"threaded": "(c) buckets", "ranks": ranks, "threads": 1}
lab32.show(*launch.run(lab32.measure, ways, watch, width, repeat, **how)[0], ranks)
seconds, whose = lab32.over_slow_link(repeat)
print(f"{whose}, seconds:", seconds, sep="\n")
predict.compare("32.4", over_slow_link=seconds["(a) at the end"] / seconds["(c) buckets"])

# %% [markdown]
# ### What you take away
# - Gradients come from the last layer on: begin each sum at once, and wait before the step.
# - Buckets: few latencies, early begin; the same buckets in the same order on every rank.
# - Begun is not under way: MPI may move messages only in its calls. Test in hooks, or a thread that calls.
# - The first layers' sum comes last and is needed first. Later layers' can hide behind the next forward.
# - Horovod and DDP do (c). Next: Horovod's timeline and knobs (44); fewer bytes (35).

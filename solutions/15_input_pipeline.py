# %% [markdown]
# # 15 Input pipeline
#
# A GPU that waits for images costs as much as one that computes. In each training step a program
# reads a batch from storage, decodes it, and only then computes with it, and the first two can
# easily take longer than the third. On many devices the input becomes harder still, because all of
# them read from the same storage, and because every sample has to reach exactly one of them.
#
# In this lab we build the input pipeline of a distributed training job, from the choice of the
# samples to the batch in memory. We shard a dataset among ranks, read it from tar files as a
# stream, and let a thread read ahead while the model computes. For each part we measure what it
# gains. Finally we predict when the storage, and not the model, determines the speed, on one rank
# and on many.
#
# **After this lab you can** (1) say which samples a rank reads, and prove that no sample is read
# twice, (2) read tar shards as a stream, (3) compare the cost of many files with that of shards,
# (4) read ahead through a bounded queue, and (5) predict how long a step waits for its input, and
# how fast many ranks can read from one storage system.
#
# ![Three timelines of input and compute. Without prefetch they take turns; with prefetch a shorter input is hidden behind compute; a longer input leaves gaps between the compute phases](15_prefetch.svg)
#
# *Without prefetch a step waits for all of its input. With prefetch, the input of the next batch is
# read while the model computes, so the step waits only if the input takes longer than compute.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 85 · Level: intermediate · Before: 10, 20

# %%
import itertools
import queue
import tarfile
import threading

import numpy as np
import torch
from labkit import check, hint, lab, launch, plots, predict, record, timing, world
from support import lab15

lab.start("15_input_pipeline")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # the step has one core; another one reads

# %% tags=["parameters"]
images = 512  # JPEGs in the dataset
side = 128  # pixels
shards = 16  # tar files that hold them
rounds = 5  # timings of files and shards, cold and cached; and of each training
latency = 2e-3  # seconds for an open on the slow storage of 15.2
batch = 16  # images per training step
width = 48  # channels of the net
shares = (0.5, 1, 2, 4)  # how long a batch's input is to take, over a step's arithmetic
steps = 15  # of each timed training run
repeats = 5  # timings on real ranks
# Three storages, a thousand times slower than real ones, as our dataset is so small: bytes/s of a
# rank, bytes/s of all ranks together, seconds for an open.
own_nvme = (2e6, 1e12, 0)  # a disk of its own for each rank
burst_buffer = (2e6, 4e6, 1e-3)  # a fast store that the ranks share
shared_file_system = (2e6, 2e6, 5e-3)

# %%
stored = lab15.write(images, side, shards)
some, labels = zip(*lab15.from_files(stored, range(0, images, images // 8)), strict=True)
plots.images(
    [lab15.decode(jpeg) for jpeg in some], labels, title="Stored class by class, as ImageNet is"
)
print(
    f"{images} JPEGs (digits, noise) of {stored.nbytes / images:,.0f} bytes, twice, in"
    f" {stored.folder}"
)

# %% [markdown]
# ## Who reads what?
# Several processes, the **ranks**, train one network together. They are numbered from 0 to ranks
# − 1. In each **epoch** every sample should be read once, by one of the ranks. After each step all
# ranks average their gradients (lab 30), so each rank waits for all the others. If one rank had
# one step more than the others, it would wait forever.
#
# ### Predict
# Four ranks read a dataset of 10,000 samples. Each rank shuffles the samples **with its own seed**
# and reads the first quarter of its own order. For each sample there are therefore four independent
# chances of 1/4 to be read. What percentage of the samples is not read by any rank in this epoch?

# %%
predict("15.1", percent_unread=32)

# %% [markdown]
# ### Exercise 15.1 · Which samples are mine?
# All ranks shuffle the samples in the same way, and each takes its part. In an epoch no sample is
# read twice, and all ranks read the same number of samples, n // ranks. The remaining samples are
# **dropped**, and they should be different samples in each epoch. 3 lines. *(beginner)*
#
# The order is `np.random.default_rng((seed, epoch)).permutation(n)`. The tuple gives each pair of
# seed and epoch a generator of its own. With `seed + epoch`, seed 1 would have the same order in
# epoch 0 as seed 0 in epoch 1.
#
# A slice with a step takes a part of the order. For example, `order[2::5]` begins at position 2 and
# takes every 5th element. A rank may have several **workers**, which are processes that read for
# this rank. The workers partition the samples of their rank in the same way as the ranks partition
# the whole order.
#
# <details><summary>Hint 1: a slice with a step</summary>
#
# `order[rank::ranks]` gives some ranks one sample more than others, unless the order is first cut
# to a length that is divisible by the number of ranks.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Cut the permutation to `n - n % ranks` elements. Take the rank's part of it, and from this part
# `[worker::workers]`.
# </details>


# %%
def my_samples(n, epoch, rank, ranks, worker=0, workers=1, seed=0):
    """The numbers (of 0 … n - 1) of the samples that this worker of this rank reads in this
    epoch."""
    ### BEGIN SOLUTION
    order = np.random.default_rng((seed, epoch)).permutation(n)[: n - n % ranks]
    return order[rank::ranks][worker::workers]
    ### END SOLUTION


# %%
check("15.1", my_samples)

# %%
own = [my_samples(10_000, 0, rank, 4, seed=rank) for rank in range(4)]  # a seed of its own: wrong
alike = [my_samples(10_000, 0, rank, 4) for rank in range(4)]  # the control: the same seed
unread = {}
for name, parts in {"own seeds": own, "one seed": alike}.items():
    readers = np.bincount(np.concatenate(parts), minlength=10_000)  # of each sample
    unread[name] = float(100 * np.mean(readers == 0))
    several = 100 * np.mean(readers > 1)
    print(
        f"{name}: {unread[name]:.1f} % of the samples are read by no rank, {several:.1f} % twice or"
        " more"
    )
predict.right("15.1", percent_unread=unread["own seeds"])

# %% [markdown]
# **Explain.** With independent seeds, a sample is missed by all four ranks with a probability of
# (3/4)^4 = 31.6 %. Nearly a third of the data is therefore not read, and about a quarter of it is
# read twice or more, silently. With the same seed on all ranks both shares are 0.
#
# The [`DistributedSampler`](@pytorch_data) of PyTorch does what you wrote, in a different order,
# and seeds with seed + epoch. By default it **pads** the order, so that a few samples are read
# twice, and with `drop_last=True` it drops samples instead. Unless you call `set_epoch`, every
# epoch has the same order.
#
# ## Shards
# A dataset of a million small files requires a million opens. (ImageNet has 1.28 million training
# images.) On a cluster each open is a request to a **metadata server**, which is one machine, or
# one of a few machines, that know for all users where the files are stored.
#
# A **shard** is a larger file that contains many samples and is read from front to back. Here each
# shard is a tar file in the format of the [webdataset](@webdataset) library. Consecutive members
# whose names are equal up to the first dot form one **sample**, and the part of the name after the
# dot is the **kind**. For example, `000012.jpg` is an image and `000012.cls` its label, written in
# digits. A sample may have more kinds (`000012.small.jpg`), and they may come in any order.
#
# A shard may arrive over a network, so it must be possible to read it without ever moving backward.
# `tarfile.open(fileobj=stream, mode="r|")` reads in this way. `for member in tar:` iterates over
# the members in order, `member.name` is a member's name, and `tar.extractfile(member).read()`
# returns its bytes. These lines, for example, list the names and sizes in a shard:
#
#     with tarfile.open(fileobj=stream, mode="r|") as tar:
#         for member in tar:
#             print(member.name, len(tar.extractfile(member).read()))
#
# ### Exercise 15.2 · Read a shard
# For each sample, yield the JPEG's bytes and its label, which is a whole number, as soon as you
# have both. (A function with `yield` is a *generator*: it hands over one item whenever a loop asks
# for the next.) Leave out samples without an image or without a label, because an image must never
# get the label of its neighbor. 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: name and kind</summary>
#
# Use `name, kind = member.name.split(".", 1)`. Keep the name of the current sample and a dict of
# its parts. When a different name comes, start both again.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Begin with `sample, part = None, {}`. If `name` differs from `sample`, start both anew.
# `if kind in ("jpg", "cls"):` set `part[kind] = …read()`, and inside this `if`,
# `if len(part) == 2:` yield `part["jpg"], int(part["cls"])`.
# </details>


# %%
def read_shard(stream):
    """Yield (JPEG's bytes, label) for each sample of a tar shard. stream: a file that only goes
    forward."""
    ### BEGIN SOLUTION
    sample, part = None, {}
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            name, kind = member.name.split(".", 1)
            if name != sample:
                sample, part = name, {}
            if kind in ("jpg", "cls"):
                part[kind] = tar.extractfile(member).read()
                if len(part) == 2:
                    yield part["jpg"], int(part["cls"])
    ### END SOLUTION


# %%
check("15.2", read_shard)

# %% [markdown]
# ### Predict
# Suppose that a storage system delivers 100 MB/s and takes 2 ms to open a file. As a file of its
# own, an image takes up about 5.7 kB. In a shard it takes 7.7 kB, because tar pads each member to
# whole blocks, and because the label is stored as well. How many times faster is it to read shards
# of 32 images than to read the 32 files?

# %%
predict("15.2", shards_times_as_fast=15)

# %% [markdown]
# ### Measure: files and shards
# `lab15.Storage` emulates a slow storage system, with real waiting times. It reads from your disk
# and then sleeps until a storage system of the given bandwidth and latency would have delivered the
# data. As a control, the same data is read from a storage system whose opens take no time.

# %%
ratio = lab15.compare_opens(stored, read_shard, latency)
print(f"files / shards: {ratio}")
at_once = lab15.compare_opens(stored, read_shard, 0)  # the control: an open takes no time
print(f"files / shards, if an open takes no time: {at_once}")
predict.compare("15.2", shards_times_as_fast=ratio)

# %% [markdown]
# **Explain.** Reading 32 files takes 32 opens of 2 ms and 0.06 ms of transfer each, 66 ms in all. A
# shard takes one open and 2.5 ms of transfer, 4.5 ms in all. The control transfers the same bytes
# from a storage system whose opens take no time. You should see its ratio fall to about 1, or below
# 1, because shards contain more bytes. The gain therefore comes from the opens that shards save.
#
# You might see that the two ratios are closer together, and that the control is above 1. The 4.5 ms
# are the least time that the emulated storage allows. On a busy machine your own opening and
# reading take longer, and so does opening 32 real files, which the control includes as well.
#
# ## Shuffling a stream
# A batch with few classes moves the weights toward these classes for every image, and statistics
# over the batch (batch normalization) describe only these classes. The samples should therefore be
# mixed.
#
# A stream cannot be shuffled as a whole, but part by part. Fill a buffer, yield a random one of its
# items, put the next item of the stream in its place, and repeat. In our dataset the samples are
# stored class by class, some 50 images each, so we counted the classes in a batch of 32 that comes
# out of such a buffer:
#
# | images in the buffer | 1 | 64 | 128 | 256 | 512 |
# |---|---|---|---|---|---|
# | classes in a batch, of 10 | 1.6 | 4.8 | 6.6 | 8.5 | 9.7 |
# | if the *shards* are read in a shuffled order, too | 1.6 | 6.5 | 8.1 | 9.2 | 9.6 |
#
# Shuffling the order of the shards costs nothing.
#
# ## Reading ahead
# A training loop asks for a batch, computes, and asks for the next batch. If reading starts only
# when the loop asks, reading and computing take turns, and their times add up. Reading the next
# batch in advance is called **prefetching**.
#
# A **thread** runs concurrently with the loop, in the same process. It can read ahead and put what
# it has read into a **queue**: `ready.put(x)` appends x, and `ready.get()` removes and returns the
# oldest item. The queue is **bounded**, which means that `put` waits while `depth` items are in it,
# and `get` waits while it is empty. The thread is therefore never more than depth + 1 items ahead
# (depth items in the queue and one that it is about to put there), and the memory for them is
# bounded as well.
#
# In the usual Python (there are free-threaded builds, too), only one thread at a time runs Python
# code, because it has to hold a lock, the **GIL** (global interpreter lock). A reading thread helps
# nevertheless, because the lock is free while a thread waits for a disk, while Pillow decodes a
# JPEG, and while PyTorch computes.
#
# ### Exercise 15.3 · Prefetch
# The function `prefetch` below is complete: it creates the queue and the thread, and ends both.
# Write the functions at the two ends of the queue, 8 and 7 lines. *(intermediate)*
#
# * `work(items, ready, stop)` runs in the thread. For each item, in order, it puts a pair
#   `("item", item)` into the queue, and after the last one `("end", None)`. If reading raises an
#   error, it puts `("error", error)` instead, because an error in a thread would otherwise remain
#   unnoticed. `stop.is_set()` is true as soon as no more items are wanted. In this case `work`
#   returns and puts nothing, so check it before you put each item. (`prefetch` empties the queue,
#   so a `put` that waits at that moment returns.)
# * `take(ready)` runs in the training loop. It yields the items, ends at `"end"`, and raises the
#   error.
#
# The queue contains pairs, because an item can be anything, including None or the word "end". A
# simpler pair of functions, which can pass on neither an error nor a stop, would be
# `for item in items: ready.put(item)` at one end and `while True: yield ready.get()` at the other.
#
# <details><summary>Hint 1: work</summary>
#
# In a `try:` block, loop over `items`: return `if stop.is_set()`, and otherwise put the pair. After
# the loop put the end. `except Exception as error:` puts the error.
# </details>
# <details><summary>Hint 2: take, nearly the answer</summary>
#
# In `while True:` get `kind, value = ready.get()`. If the kind is "end", return. If it is "error",
# `raise value`, and otherwise `yield value`.
# </details>


# %%
def work(items, ready, stop):
    """In the thread: put ("item", item) for each, ("end", None) behind them, or ("error",
    error)."""
    ### BEGIN SOLUTION
    try:
        for item in items:
            if stop.is_set():
                return
            ready.put(("item", item))
        ready.put(("end", None))
    except Exception as error:
        ready.put(("error", error))
    ### END SOLUTION


def take(ready):
    """In the training loop: yield the items from the queue, until the end; raise the error."""
    ### BEGIN SOLUTION
    while True:
        kind, value = ready.get()
        if kind == "end":
            return
        if kind == "error":
            raise value
        yield value
    ### END SOLUTION


def prefetch(items, depth):
    """Yield `items` in order, while a thread reads up to `depth` of them ahead."""
    ready = queue.Queue(depth)
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(items, ready, stop), daemon=True)
    thread.start()
    try:
        yield from take(ready)
    # also if the loop ends early: its generator is closed, and the thread must not be left
    finally:
        stop.set()
        while thread.is_alive():
            while not ready.empty():  # it may wait for a place in the queue
                ready.get()
            thread.join(0.01)


# %%
check("15.3", work, take, prefetch)

# %% [markdown]
# ## How much of the input is exposed?
# We call the time to read and decode a batch **input**, and the time of the other parts of a step
# **compute**. The part of the input for which a step still has to wait is called **exposed**. The
# figure at the top of this lab shows the three possible cases:
#
# | | exposed |
# |---|---|
# | without prefetch | all of the input |
# | with prefetch, input shorter than compute | nothing |
# | with prefetch, input longer than compute | the part of the input that is longer than compute |
#
# ### Predict
# With prefetch, how long does a step wait, as a share of compute, if input takes twice as long as
# compute? And how long if it takes half as long? At what ratio of input to compute is the gain
# from prefetch largest, and how many times as fast is a step at this ratio?

# %%
predict("15.4", exposed_at_2=1, exposed_at_half=0, best_input=1, best_gain=2)

# %% [markdown]
# ### Predict: many ranks, one storage
# This prediction is compared in the last measurement of this lab. Now several ranks read at the
# same time, each a shard of its own. A rank gets at most its own bandwidth, and at most its part of
# the bandwidth that all ranks get together.
#
# Take 4 ranks, each of which could read 2 MB/s if it were alone. How many times as many images per
# second do 4 ranks get as one rank, (a) if each has its own disk, (b) from a burst buffer (a fast
# store between the ranks and the file system) that delivers 4 MB/s to all together, (c) from a
# shared file system that delivers 2 MB/s to all together?

# %%
predict("15.4", own=4, burst=2, shared=1)

# %% [markdown]
# ### Exercise 15.4 · What a step waits, and what a rank gets
# Write two formulas. `exposed` computes how long a step waits if input takes `read` seconds and the
# other parts of the step take `compute` seconds, with prefetch and without. `shard_seconds`
# computes how long each of `ranks` ranks takes to read `nbytes` bytes if all begin at the same
# time. Each rank needs `latency` seconds for an open, and all ranks open at the same time. One line
# each. *(beginner)*
#
# For example, two ranks that could each read 3 MB/s, from a storage system that delivers 4 MB/s to
# all together, get 2 MB/s each.
#
# <details><summary>Hint 1: what is left, and what is shared</summary>
#
# While the step computes, reading goes on, and the step waits only for what is left afterwards, if
# anything. A rank's bandwidth is the smaller of its own bandwidth and an equal part of the
# bandwidth that all share.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Without prefetch the step waits for `read`. With prefetch it waits for `read - compute`, but never
# less than 0, so use `max`. A rank takes `latency` plus the bytes divided by
# `min(own, together / ranks)`.
# </details>


# %%
def exposed(read, compute, ahead):
    """Seconds that a step waits for its input. ahead: True with prefetch, False without."""
    ### BEGIN SOLUTION
    return max(0.0, read - compute) if ahead else read
    ### END SOLUTION


def shard_seconds(nbytes, ranks, own, together, latency):
    """Seconds. own: bytes/s of one rank alone; together: bytes/s of all ranks; latency: s for an
    open."""
    ### BEGIN SOLUTION
    return latency + nbytes / min(own, together / ranks)
    ### END SOLUTION


# %%
check("15.4", exposed, shard_seconds)

# %%
gains = {}
for ratio in (0.25, 0.5, 1, 2, 4):
    gains[ratio] = (1 + exposed(ratio, 1, False)) / (1 + exposed(ratio, 1, True))
print("gain by input over compute:", {ratio: round(gain, 2) for ratio, gain in gains.items()})
predict.right("15.4", exposed_at_2=exposed(2, 1, True), exposed_at_half=exposed(0.5, 1, True))
predict.right("15.4", best_input=max(gains, key=gains.get), best_gain=max(gains.values()))

# %% [markdown]
# ### Measure: how long a step waits
# Now we train on JPEGs from shards. `lab15.Storage` sleeps again until a storage system of a chosen
# bandwidth would have delivered, and the bandwidth is set so that input takes about a chosen share
# of compute. Without prefetch a step waits for all of its input, so this measurement gives the x
# axis of the plot, the ratio of input to compute as it really was. With prefetch the step should
# wait as long as you predicted. The two training runs alternate, which takes about a minute in all.


# %%
def feed(storage):
    """Batches of decoded images from this storage, epoch after epoch."""
    for epoch in itertools.count():
        paths = [stored.shards[i] for i in np.random.default_rng((0, epoch)).permutation(shards)]
        yield from lab15.batches(lab15.from_shards(read_shard, paths, storage.open), batch)


nbytes = batch * sum(path.stat().st_size for path in stored.shards) / images  # of a batch
train = lab15.trainer(device, width)  # train(images, labels): a step of a small net
waits = {}
for _ in range(rounds):
    # A storage without waiting; in every round, as the machine's speed may change.
    decoding, compute = lab15.time_steps(feed(lab15.Storage()), train, steps)
    for share in shares:
        bandwidth = nbytes / max(share * compute - decoding, 0.2 * decoding)
        read, computed = lab15.time_steps(feed(lab15.Storage(bandwidth)), train, steps)
        ahead = prefetch(feed(lab15.Storage(bandwidth)), 2)
        waited, beside = lab15.time_steps(ahead, train, steps)
        waits[read / computed] = waited / beside
        record.add("step", unit="s", share=share, input=read, compute=computed, exposed=waited)

# %%
places = sorted(waits)
curves = {
    "prefetch, measured": {place: waits[place] for place in places},
    "prefetch, your formula": (places, [exposed(place, 1.0, True) for place in places]),
    "no prefetch": (places, places),
}
axes = {"xlabel": "input (in units of compute)", "ylabel": "exposed (in units of compute)"}
plots.lines(curves, **axes, title="Prefetch hides input up to one compute", name="exposed")
# Of the three points that are nearest to 2, and to a half, the median.
nearest = {at: sorted(places, key=lambda place, at=at: abs(place - at))[:3] for at in (2, 0.5)}
at_2, at_half = (np.median([waits[place] for place in near]) for near in nearest.values())
predict.compare("15.4", exposed_at_2=at_2, exposed_at_half=at_half)

# %% [markdown]
# **Explain.** You should see two lines. Without prefetch the exposed time is the input itself,
# while with prefetch it is zero up to a ratio of 1, and input - compute from there on. Each point
# is drawn at the ratio of input to compute that it really had, and not at the ratio that was
# requested.
#
# You might see points above the lower line. A likely cause is that the thread finds no free core
# for decoding, or that both threads need the GIL, so that input and compute slow each other down.
# On a busy machine the times for compute and decoding change from minute to minute, and points then
# lie on both sides of the line.
#
# Why is the gain largest when input and compute take the same time?
# <details><summary>Answer</summary> Without prefetch a step takes input + compute, and with
# prefetch it takes the longer of the two. The ratio of these two times is largest, namely 2, if
# input and compute are equal.</details>
#
# Would a deeper queue help if input takes longer than compute? <details><summary>Answer</summary>
# No. A queue compensates for a reader that is sometimes slow. If the reader is slower *on average*,
# the queue is empty after a few steps, however deep it is.</details>
#
# PyTorch's [`DataLoader`](@pytorch_data) reads ahead with **processes** (`num_workers`), because
# transforms that are written in Python hold the GIL. With small images and few cores, two workers
# are often slower than none. A likely cause is that passing a small image to another process takes
# longer than decoding it.
#
# **Be careful with fork on ranks.** On Linux, workers are **forked** by default (before Python
# 3.14), so they are copies of a process in which MPI is already running. Some MPI libraries on
# InfiniBand do not tolerate this. Use a thread such as yours, which does not fork anything, or
# `multiprocessing_context="forkserver"`, with which the workers come from a process without MPI.
#
# Memory was corrupted with 64 or more GPUs ([Horovod's pull request 1824](@horovod_pr_1824), 2020),
# so Horovod's examples adopted the fork server. This is better, but does not solve every problem.
# In [issue 2898](@horovod_issue_2898) (2021) forked workers crashed, and the workers of a fork
# server also "sometimes" died with bus errors, on 32 nodes with 12 workers each.
#
# ### Measure: many ranks, one storage
# In the next cells, 1, 2 and 4 real ranks read and decode. The storage is emulated again: the ranks
# share one pipe, which is represented by a file that records until when the pipe is in use. This
# takes about 15 s.

# %%
storages = {
    "own NVMe": own_nvme,
    "burst buffer": burst_buffer,
    "shared file system": shared_file_system,
}
ranks = launch.ranks_here(4)
took = launch.run(
    lab15.through_one_pipe, read_shard, prefetch, stored, storages, repeats, ranks=ranks
)[0]

# %%
per_shard = images // shards
shard_bytes = per_shard * nbytes / batch
measured = {}
for name, by_ranks in took.items():
    measured[name] = {p: p * per_shard / time.samples for p, time in by_ranks.items()}
    own, together, to_open = storages[name]
    seconds = [shard_seconds(shard_bytes, p, own, together, to_open) for p in by_ranks]
    rates = [p * per_shard / s for p, s in zip(by_ranks, seconds, strict=True)]
    measured[f"{name}, predicted"] = list(by_ranks), rates
    for p, time in by_ranks.items():
        row = {"ranks": p, "images": p * per_shard, "predicted": seconds[list(by_ranks).index(p)]}
        record.add("storage", way=name, seconds=time, **row)
title = "A shared bandwidth does not grow with the ranks"
plots.lines(measured, xlabel="ranks", ylabel="images/s, all ranks", title=title, name="ranks")

# %%
gain = {}
for name, by_ranks in took.items():
    most = max(by_ranks)
    gain[name] = most * by_ranks[1].median / by_ranks[most].median
    print(f"{name:18}: {most} ranks get {gain[name]:.2f} times the images/s of one")
if ranks == 4:
    own, burst, shared = gain.values()
    predict.compare("15.4", own=own, burst=burst, shared=shared)

# %% [markdown]
# **Explain.** You should see that the rate from the ranks' own disks grows with the number of
# ranks. The rate from the burst buffer grows until its 4 MB/s are used up, which happens at two
# ranks. The rate from the shared file system does not grow at all, so with more ranks each rank
# gets less.
#
# You might see that four ranks with their own disks get fewer than 4 times as many images as one
# rank. A likely cause is that four ranks decode on the cores that you have, so that on two cores
# they have to take turns.
#
# What are these rates on a real machine? <details><summary>Answer</summary> The SSDs in the nodes
# of Summit read 26.7 TB/s together, and its file system 2.5 TB/s (Oral et al., 2019). This is 970
# and 90 MB/s for each of its 27,648 GPUs. Suppose that a GPU trains ResNet-50 on 1,000 images per
# second, each of 110 kB (round numbers). It then needs 110 MB/s. This is more than its part of the
# file system's bandwidth, and far less than its part of the bandwidth of the node's own
# disk.</details>
#
# ### What you take away
# - All ranks use the same order, which depends on the seed and the epoch, and each takes its part.
#   Samples are dropped or padded, so that all ranks read the same number.
# - Shards replace many opens by a few long reads, which matters where an open is slow.
# - A thread with a bounded queue hides input behind compute. It has to pass on the end, errors, and
#   a request to stop.
# - The exposed input is max(0, input - compute). A deeper queue does not help if the storage is too
#   slow on average.
# - Ranks that share a storage system share its bandwidth, while the bandwidth of their own disks
#   grows with the number of ranks.
# - Reading from disk and reading from memory take different times, which *Going further* measures.
#   There `mincore` shows which pages are in memory, and on an SSD decoding takes longer than
#   reading.
#
# ## Going further (optional): cold and cached
# This part takes some 12 minutes, which are not counted above. It reads the same images from your
# own disk, once as single files in a shuffled order and once from your shards, and both **cold**
# and **cached**. Linux keeps in memory, in its **page cache**, what has been read once, so the
# second epoch of a small dataset measures memory and not the disk. `posix_fadvise(DONTNEED)` asks
# the system to remove a file's pages from the cache, and `mincore` reports which pages are left.
#
# ### Predict
# Both answers are guesses, because nothing above contains them. How many times longer does it take
# to read single files from your disk than from memory? And how many times longer does it take to
# decode a JPEG than to read its file from memory?

# %%
predict("15.2", cold_over_cached=5, decoding_over_reading=10)

# %%
order = my_samples(images, 0, 0, 1)
readers = {
    "files": (lambda: list(lab15.from_files(stored, order)), stored.files),
    "shards": (lambda: list(lab15.from_shards(read_shard, stored.shards)), stored.shards),
}
times, left = lab15.cold_and_cached(readers, rounds)
jpegs = [jpeg for jpeg, _ in lab15.from_files(stored, range(images))]
decoding = timing.measure(lambda: [lab15.decode(jpeg) for jpeg in jpegs], repeat=5, warmup=1)
each = 1e6 / images  # seconds for all to microseconds for one
bars = {"decoding": {"decoding": decoding.samples * each}}
for name, (cold, cached) in times.items():
    bars[name] = {"cached": cached * each, "more when cold": np.maximum(0, cold - cached) * each}
    record.add("format", way=name, images=images, seconds=np.median(cached), cold=np.median(cold))
record.add("decode", images=images, seconds=decoding)
title = "An image is read in less time than it is decoded"
plots.bars(bars, ylabel="time (µs per image)", title=title, name="formats")
print(f"Dropped: at most {left:.0%} of the pages were left in memory.")
cold, cached = times["files"]
predict.compare("15.2", cold_over_cached=np.median(cold / cached))
predict.compare("15.2", decoding_over_reading=decoding.median / np.median(cached))

# %% [markdown]
# **Explain.** With an SSD you should see that decoding takes longer than reading, cold or cached. A
# process that reads and decodes by itself then gains little from shards, because **decoding is the
# bottleneck**. From memory the shards may even take longer than the files, because Python's
# `tarfile` spends more time on a member than the open of a cached file takes. Shards matter where
# an open costs milliseconds, as in exercise 15.2. (If many processes decode, the storage may be the
# bottleneck again, as above.)
#
# You might see that cold reads are hardly slower than cached ones. In that case the disk is fast,
# or the machine is a virtual machine whose host caches the pages, which the line "Dropped" cannot
# show, as it describes only this system's own cache. If the line says that most pages were left,
# the file system keeps them in memory (tmpfs), and a cold read is not really cold here. Finally,
# "more when cold" is a difference, so if its error bar is longer than the bar itself, the
# measurement does not show a difference.
#
# <details><summary>Formats at scale</summary>
#
# The framework Caffe reads image files (layer ImageData) or an LMDB (Data), which is a key-value
# store in one file. Training on ImageNet from files was more than 17 times as slow as from a
# key-value store (Lim et al., 2016).
#
# An LMDB maps its file into memory, however, and on a parallel file system many processes that do
# so slow each other down, so that input took up to 90 % of the training time. LMDBIO, a reader that
# avoids this, made training up to 65 times as fast on 9,216 cores (Pumma et al., 2019). In
# OSU-Caffe, the Caffe version by MVAPICH2's authors, all ranks read in parallel from Lustre, which
# is the file system of many clusters.
# </details>
#
# ### Further reading
# - [@pytorch_data] The documentation of `DataLoader` and `DistributedSampler`.
# - [@webdataset] The library whose shard format this lab uses.
# - [@pumma2019] Why LMDB was slow on many processes, and how LMDBIO avoids this.
# - [@oral2019] The storage systems of Summit, with measured bandwidths.
# - [@kurth2018] An application on Summit that copied its input to the nodes' own disks.

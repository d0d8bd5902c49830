# %% [markdown]
# <!-- Generated from solutions/15_input_pipeline.py by `make labs`. Learners work on a copy in work/. -->
# # 15 Input pipeline
#
# A GPU that waits for images costs as much as one that computes. You deal a data set out to ranks,
# read it from shards, see what an open costs, let a thread read ahead, and find out when the
# storage, not the net, sets the speed: alone and with many ranks.
#
# **You will be able to** (1) say which samples a rank reads, and prove that none is read twice, (2)
# read tar shards as a stream, (3) say what files and shards cost, (4) read ahead through a bounded
# queue, (5) predict how long a step waits for its input, and what many ranks get from one storage.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 70 · Level: intermediate · Before: 10, 20

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
images = 512  # JPEGs in the data set
side = 128  # pixels
shards = 16  # tar files that hold them
rounds = 5  # timings of files and shards, cold and cached; and of each training
latency = 2e-3  # seconds for an open on the slow storage of 15.2
batch = 16  # images per training step
width = 48  # channels of the net
shares = (0.5, 1, 2, 4)  # how long a batch's input is to take, over a step's arithmetic
steps = 15  # of a training that is timed
repeats = 5  # timings on real ranks
# Three storages, a thousand times slower than real ones, as our data set is so small: bytes/s of a
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
# Several processes train one net: the **ranks**, 0 to ranks - 1. In each **epoch** all samples
# should be read once, by one rank or another. After each step all ranks average their gradients
# ([lab 30](30_average_gradients.ipynb)), and each waits there for all others. A rank with one more step than the others would
# wait for ever.
#
# ### Predict
# Four ranks, 10,000 samples. Each rank shuffles **with a seed of its own** and reads a quarter of
# its order. For a sample the four quarters are four independent chances of 1/4. How many percent of
# the samples does nobody read in this epoch?

# %%
predict("15.1", percent_unread=...)


# %% [markdown]
# ### Exercise 15.1 · Which samples are mine?
# All ranks shuffle alike, and each takes its part. In an epoch no sample is read twice, and all
# ranks read equally many: n // ranks. What does not divide is **dropped**, other samples in each
# epoch. 3 lines. *(beginner)*
#
# The order comes from `np.random.default_rng((seed, epoch)).permutation(n)`. The tuple makes a
# generator for each pair; `seed + epoch` would give seed 1 in epoch 0 the order of seed 0 in
# epoch 1.
#
# `order[2::5]` begins at place 2 and takes every 5th. A rank may have several **workers**,
# processes that read for it: they deal the rank's part out among themselves, in the same way.
#
# <details><summary>Hint 1: every ranks-th</summary>
#
# `order[rank::ranks]` gives some ranks one more, unless the order is cut before to a length that
# divides.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The permutation, cut to `n - n % ranks`. The rank's part of it, and of this `[worker::workers]`.
# </details>

# %%
def my_samples(n, epoch, rank, ranks, worker=0, workers=1, seed=0):
    """The numbers (of 0 … n - 1) of the samples that this worker of this rank reads in this
    epoch."""
    raise NotImplementedError("exercise 15.1: Which samples are mine?")


# %%
# Asked: Every rank reads n // ranks samples, none is read twice, and each epoch
# has another order and deal.
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
        f"{name}: {unread[name]:.1f} % of the samples are read by nobody, {several:.1f} % twice or"
        " more"
    )
predict.right("15.1", percent_unread=unread["own seeds"])


# %% [markdown]
# **Explain.** (3/4)^4 = 31.6 %: nearly a third of the data is not seen, about a quarter of it twice
# or more, and no error says so. With one seed for all both are 0.
#
# PyTorch's `DistributedSampler` does what you wrote, in another order, and seeds with seed + epoch.
# Unless you say `drop_last=True` it **pads**: a few samples are read twice. And every epoch has the
# same order unless you call `set_epoch`.
#
# ## Shards
# A million small files are a million opens. (ImageNet has 1.28 million images to train on.) On a
# cluster each open is a question to a **metadata server**: one machine, or a few, that know for all
# users where files are.
#
# **Shards** are larger files, read from front to back. Here each is a tar file, as the library
# webdataset has them. Members that stand side by side and have the same name up to the first dot
# are one **sample**; what follows the dot is the **kind**: `000012.jpg` is the image, `000012.cls`
# its label, in digits. There may be more kinds (`000012.small.jpg`), in any order.
#
# A shard may come over a network, and then only goes forward.
# `tarfile.open(fileobj=stream, mode="r|")` reads so. `for member in tar:` gives the members in
# order; `member.name` is the name, and `tar.extractfile(member).read()` the bytes.
#
# ### Exercise 15.2 · Read a shard
# Yield for each sample the JPEG's bytes and its label, a whole number, as soon as you have both.
# Leave out a sample without image or without label: an image must never get its neighbour's label.
# 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: name and kind</summary>
#
# `name, kind = member.name.split(".", 1)`. Keep the name of the sample that you are in, and a dict
# of its parts; when another name comes, both begin anew.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `sample, part = None, {}`; with another `name` than `sample`, both begin anew.
# `if kind in ("jpg", "cls"):` `part[kind] = …read()`, and inside of this `if`, `if len(part) == 2:`
# yield `part["jpg"], int(part["cls"])`.
# </details>

# %%
def read_shard(stream):
    """Yield (JPEG's bytes, label) for each sample of a tar shard. stream: a file that only goes
    forward."""
    raise NotImplementedError("exercise 15.2: Read a shard")


# %%
# Asked: 40 samples: label first, other files between, image or label missing;
# the first one comes at once.
check("15.2", read_shard)

# %% [markdown]
# ### Predict
# A storage delivers 100 MB/s and takes 2 ms to open a file. An image is a file of about 5.7 kB; in
# a shard it takes 7.7 kB, as tar fills up to whole blocks and adds the label. How many times as
# fast is it to read shards of 32 images as to read the 32 files?

# %%
predict("15.2", shards_times_as_fast=...)

# %% [markdown]
# ### Measure
# `lab15.Storage` is a stand-in, with real waiting: it reads your disk, and sleeps until storage of
# this bandwidth and latency would have delivered.

# %%
ratio = lab15.compare_opens(stored, read_shard, latency)
print(f"files / shards: {ratio}")
at_once = lab15.compare_opens(stored, read_shard, 0)  # the control: an open takes no time
print(f"files / shards, if an open takes no time: {at_once}")
predict.compare("15.2", shards_times_as_fast=ratio)


# %% [markdown]
# **Explain.** 32 files are 32 opens of 2 ms and 0.06 ms of bytes each: 66 ms. A shard is one open
# and 2.5 ms of bytes: 4.5 ms. The control has the same bytes, and a storage whose opens take no
# time. There the ratio falls to about 1, or below, as shards hold more bytes. So the gain is opens.
#
# You may see ratios nearer to each other. The 4.5 ms are the least that the stand-in allows; on a
# busy machine your own opening and reading takes longer than that.
#
# **Shuffle a stream.** A stream cannot be shuffled as a whole, but a part of it can. Fill a buffer,
# then give out a random one of its items, put the next item of the stream in its place, and so on.
# The stored order is class by class, some 50 images each. We counted the classes in a batch of 32
# that come out of a buffer of 1, 64, 128, 256 and 512 images: 1.6, 4.8, 6.6, 8.5 and 9.7 of 10. If
# the *shards* are read in a shuffled order, too, which costs nothing, they are 1.6, 6.5, 8.1, 9.2
# and 9.6. A batch of few classes pulls the net towards them for every image, and statistics over a
# batch (batch normalisation) are those of these classes.
#
# ## Read ahead
# A training loop asks for a batch, computes, asks for the next. If reading begins when it asks,
# reading and computing take turns, and their times add up.
#
# A **thread** runs beside the loop, in the same process. It can read ahead, and lay what it has
# read into a **queue**: `ready.put(x)` puts x in, `ready.get()` takes the oldest out. The queue is
# **bounded**: put waits while `depth` are in it, get waits while none is. So the thread is never
# more than depth + 1 items ahead (depth in the queue, one in its hand), and memory stays bounded as
# well.
#
# Does a thread help, in Python? Only one thread runs Python at a time: who runs holds a lock, the
# **GIL**. It is free while a thread waits for a disk, while Pillow decodes a JPEG, and while
# PyTorch computes.
#
# ### Exercise 15.3 · Prefetch
# `prefetch` below is given: it makes queue and thread, and ends both. You write the two ends of the
# queue, 8 and 7 lines. *(intermediate)*
#
# * `work(items, ready, stop)` runs in the thread. It puts a pair `("item", item)` into the queue
#   for each of the items, in order, and behind the last one `("end", None)`. If reading raises an
#   error, it puts `("error", error)` instead: an error in a thread is seen by nobody.
#   `stop.is_set()` tells that nobody wants more: then it returns, and puts nothing. So look at it
#   before each item that you put.
# * `take(ready)` runs in the training loop. It yields the items, ends at `"end"`, and raises the
#   error.
#
# Pairs, because an item may be anything, None or the word "end" too.
#
# <details><summary>Hint 1: work</summary>
#
# `try:`, for each of `items`: return `if stop.is_set()`, else put the pair; behind the loop put the
# end. `except Exception as error:` puts the error.
# </details>
# <details><summary>Hint 2: take, nearly the answer</summary>
#
# `while True:` `kind, value = ready.get()`. If kind is "end" return, if it is "error"
# `raise value`, else `yield value`.
# </details>

# %%
def work(items, ready, stop):
    """In the thread: put ("item", item) for each, ("end", None) behind them, or ("error",
    error)."""
    raise NotImplementedError("exercise 15.3: Prefetch")


def take(ready):
    """In the training loop: yield the items from the queue, until the end; raise the error."""
    raise NotImplementedError("exercise 15.3: Prefetch")


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
# Asked: Items, end, errors and a stop in the queue, one after the other; then a
# thread that reads ahead.
check("15.3", work, take, prefetch)

# %% [markdown]
# ## What stays visible
# Call the time to read and decode a batch **input**, and the rest of a step **compute**. What a
# step still waits for its batch is called **exposed**.
#
# ```
# without prefetch     [ input ][ compute ][ input ][ compute ]        exposed: all of the input
# with, input shorter  [ compute ][ compute ][ compute ]
#                      [ input ]  [ input ]  [ input ]                 exposed: nothing
# with, input longer   [ compute ]     [ compute ]     [ compute ]
#                      [    input    ] [    input    ] [    input    ] exposed: what is longer
# ```
#
# ### Predict
# With prefetch, how long does a step wait, as a share of compute, if input takes twice as long as
# compute? And half as long? At which input over compute is the gain largest, and how many times as
# fast is a step there?

# %%
predict("15.4", exposed_at_2=..., exposed_at_half=..., best_input=..., best_gain=...)

# %% [markdown]
# ### Predict: many ranks, one storage
# Now several ranks read, each a shard of its own, all at the same time. What a rank gets is its own
# bandwidth at most, and its part of what all get together.
#
# Take 4 ranks. Each alone can read 2 MB/s. How many times as many images per second do 4 ranks get
# as one, (a) from a disk of its own each, (b) from a burst buffer that delivers 4 MB/s to all
# together, (c) from a shared file system that delivers 2 MB/s to all together?

# %%
predict("15.4", own=..., burst=..., shared=...)


# %% [markdown]
# ### Exercise 15.4 · What a step waits, and what a rank gets
# `exposed`: how long does a step wait, if input takes `read` seconds and the rest of the step
# `compute` seconds? Give it with prefetch and without. `shard_seconds`: how long does each of
# `ranks` ranks take to read `nbytes` bytes, if all begin together? An open takes `latency` seconds
# for each rank, at the same time for all. One line each. *(beginner)*
#
# <details><summary>Hint 1: what is left, and what is shared</summary>
#
# While the step computes, the reading goes on. What is left of it afterwards is waited for, if
# anything is. A rank's bandwidth is the smaller of its own and an equal part of what all share.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Without prefetch the step waits for `read`. With it for `read - compute`, and never less than 0:
# `max`. A rank takes `latency`, and bytes over `min(own, together / ranks)`.
# </details>

# %%
def exposed(read, compute, ahead):
    """Seconds that a step waits for its input. ahead: True with prefetch, False without."""
    raise NotImplementedError("exercise 15.4: What a step waits, and what a rank gets")


def shard_seconds(nbytes, ranks, own, together, latency):
    """Seconds. own: bytes/s of one rank alone; together: bytes/s of all ranks; latency: s for an
    open."""
    raise NotImplementedError("exercise 15.4: What a step waits, and what a rank gets")


# %%
# Asked: Input shorter and longer than compute; one rank and many, by their own
# and by a shared bandwidth.
check("15.4", exposed, shard_seconds)

# %%
gains = {}
for ratio in (0.25, 0.5, 1, 2, 4):
    gains[ratio] = (1 + exposed(ratio, 1, False)) / (1 + exposed(ratio, 1, True))
print("gain by input over compute:", {ratio: round(gain, 2) for ratio, gain in gains.items()})
predict.right("15.4", exposed_at_2=exposed(2, 1, True), exposed_at_half=exposed(0.5, 1, True))
predict.right("15.4", best_input=max(gains, key=gains.get), best_gain=max(gains.values()))


# %% [markdown]
# ### Measure
# Now a training that reads JPEGs from shards. `lab15.Storage` sleeps again until storage of a
# chosen bandwidth would have delivered. The bandwidth is set so that input takes about a chosen
# share of compute. Without prefetch a step waits for all of its input: that is the x axis, as it
# really was. With prefetch it waits for what you predicted. The two trainings take turns, about a
# minute in all.

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
# **Explain.** You should see two lines: without prefetch exposed is the input itself; with prefetch
# it is nothing up to 1, and input - compute from there on. Where a point lies along the x axis is
# the input over compute that it really had, not what was asked for.
#
# You may see instead points above the lower line. A likely cause: the thread finds no core to
# decode on, or both want the GIL, so that input and compute slow each other down. On a busy machine
# compute and decoding change from minute to minute: points then lie on both sides of the line.
#
# Why is the gain largest where both take as long? <details><summary>Answer</summary> Without
# prefetch a step takes input + compute, with it the longer of the two. The ratio of these is
# largest, 2, where they are equal.</details>
#
# Would a deeper queue help where input takes longer? <details><summary>Answer</summary> No. A queue
# evens out a reader that is sometimes slow. If it is slower *on average*, the queue is empty after
# a few steps, however deep.</details>
#
# PyTorch's `DataLoader` reads ahead with **processes** (`num_workers`), as transforms written in
# Python hold the GIL. With small images and few cores two workers are often slower than none. A
# likely cause: to hand a small image to another process takes longer than to decode it.
#
# **In ranks, beware of fork.** On Linux workers are **forked** by default (before Python 3.14):
# copies of a process that has MPI open. Some MPIs over InfiniBand do not bear that: memory was
# corrupted from 64 GPUs on (Horovod's pull request 1824, 2020). Horovod's examples then took
# `multiprocessing_context="forkserver"`, whose workers come from a process without MPI. That is
# better, and not a cure for all: in issue 2898 (2021) forked workers crashed, and those of a fork
# server "sometimes" ended in bus errors, too, on 32 nodes with 12 workers each. A thread, as yours,
# forks nothing.
#
# ### Measure: many ranks, one storage
# Real ranks: 1, 2 and 4 processes read and decode. It is the stand-in again: the ranks of a node
# share one pipe, a file that says until when it is taken. About 15 s.

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
title = "A shared storage does not grow with the ranks"
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
# **Explain.** Disks of their own grow with the ranks. The burst buffer grows until its 4 MB/s are
# used up, at two ranks. The shared file system does not grow at all: more ranks get slower ones.
#
# You may see the own disks stay below 4. A likely cause: four ranks decode on the cores that you
# have, and with two cores decoding takes its turn.
#
# How does that look on a real machine? <details><summary>Answer</summary> Summit's SSDs in the
# nodes read 26.7 TB/s together, its file system 2.5 TB/s (Oral and others, SC19): 970 and 90 MB/s
# for each of its 27,648 GPUs. A GPU that trains ResNet-50 at 1,000 images of 110 kB a second wants
# 110 MB/s. That is more than its part of the file system, and far less than its part of the node's
# own disk.</details>
#
# ## For those who have time: cold and cached
# (Some 12 minutes, not counted above.) Now the same images from your own disk: single files in a
# shuffled order, and your shards. Each is read **cold** and then **cached**. What was read once
# stays in memory, in Linux's **page cache**: the second epoch of a small set measures that.
# `posix_fadvise(DONTNEED)` asks the system to drop a file's pages, and `mincore` tells which are
# left.
#
# ### Predict
# Two guesses, as nothing above tells. How many times as long as from memory does reading single
# files take if they come from your disk? And how many times as long as reading its file from memory
# does it take to decode a JPEG?

# %%
predict("15.2", cold_over_cached=..., decoding_over_reading=...)

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
# **Explain.** You should see, with an SSD: decoding takes longer than reading, cold or not. A
# process that reads and decodes by itself then gains little by shards: **decoding is the
# bottleneck**. From memory the shards may even take longer than the files, as Python's `tarfile`
# spends more time on a member than an open of a cached file costs. Shards matter where an open
# costs milliseconds, as above. (Where many processes decode, the storage may be the bottleneck
# again, as above.)
#
# You may see instead that cold is hardly slower than cached. Then the disk is fast, or the machine
# is a virtual one whose host keeps the pages: the line "Dropped" tells only of this system's own.
# If it says that most were left, the file system keeps them (tmpfs), and cold is not cold here. And
# "more when cold" is a difference: where its error bar is longer than the bar itself, it says
# nothing.
#
# <details><summary>Further reading: formats at scale</summary>
#
# Caffe reads image files (layer ImageData) or an LMDB (Data), a key-value store in one file.
# Training on ImageNet from files was more than 17 times as slow as from a key-value store (Lim et
# al., 2016).
#
# But LMDB maps its file into memory, and many processes on a parallel file system get in each
# other's way: input took up to 90 % of training. With LMDBIO, readers that avoid this, it was up to
# 65 times as fast on 9,216 cores (Pumma et al., 2019). OSU-Caffe, the Caffe of MVAPICH2's authors,
# lets all ranks read in parallel from Lustre, the file system of many clusters.
# </details>
#
# ### What you take away
# - One order for all ranks, from seed and epoch; each takes its part; drop or pad, so that all read
#   as many.
# - Shards turn opens into bandwidth. That matters where an open is slow.
# - Cold and cached are two numbers, and `mincore` tells which pages this system holds. On an SSD
#   decoding costs more than reading.
# - A thread with a bounded queue hides input behind compute. It passes on the end, errors, and a
#   stop.
# - Exposed input is max(0, input - compute). No depth helps a storage that is too slow on average.
# - Ranks that share a storage share its bandwidth; disks of their own grow with the ranks.

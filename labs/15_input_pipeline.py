# %% [markdown]
# <!-- Generated from solutions/15_input_pipeline.py by `make labs`. Learners work on a copy in work/. -->
# # 15 Input pipeline
#
# A GPU that waits for images costs as much as one that computes. In each training step a program
# reads a batch from storage, decodes it, and only then computes with it, and reading and decoding
# can easily take longer than computing. On many devices the input becomes harder still, because all
# of them read from the same storage, and because every sample has to reach exactly one of them.
#
# In this lab we build the input pipeline of a distributed training job, from the choice of the
# samples to the batch in memory. We divide a dataset among ranks, read it as a stream from *shards*
# (tar files that hold many samples each), and let a thread read ahead while the model computes.
# Finally we predict when the storage, and not the model, determines the speed, on one rank and on
# many.
#
# **After this lab you can** (1) say which samples a rank reads, and prove that no sample is read
# twice, (2) read tar shards as a stream, (3) compare the cost of many files with that of shards,
# (4) read ahead through a queue of limited length, and (5) predict how long a step waits for its
# input, and how fast many ranks can read from one storage system.
#
# ![Three timelines of input and compute. Without prefetch they take turns; with prefetch a shorter input is hidden behind compute; a longer input leaves gaps between the compute phases](../notebooks/figures/15_prefetch.svg)
#
# *Without prefetch a step waits for all of its input. With prefetch, the input of the next batch is
# read while the model computes.*
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 80 · Level: intermediate · Before: 10, 20

# %%
import queue
import tarfile
import threading

import numpy as np
import torch
from labkit import check, hint, lab, launch, plots, predict, record, world
from support import lab15

lab.start("15_input_pipeline")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # the step has one core; another one reads

# %% tags=["parameters"]
images = 512  # JPEGs in the dataset
side = 128  # pixels
shards = 16  # tar files that hold them
rounds = 3  # of each timed training run
latency = 2e-3  # seconds for an open on the slow storage of 15.2
batch = 16  # images per training step
width = 48  # channels of the net
shares = (0.5, 1, 2, 4)  # how long a batch's input takes, in units of compute
steps = 15  # of each timed training run
repeats = 5  # timings on real ranks
# Three storages, with rates a thousand times lower than real ones, as our dataset is so small:
# bytes/s of a rank, bytes/s of all ranks together, seconds for an open.
own_nvme = (2e6, 1e12, 0)  # each rank has its own disk
burst_buffer = (2e6, 4e6, 1e-3)  # a fast store that the ranks share
shared_file_system = (2e6, 2e6, 5e-3)

# %% [markdown]
# The next cell writes our dataset, class by class, in two forms. It writes each image to
# a separate file, and all images to 16 larger files, the *shards* of exercise 15.2. Then it shows
# eight of the images.

# %%
stored = lab15.write(images, side, shards)
some, labels = zip(*lab15.from_files(stored, range(0, images, images // 8)), strict=True)
plots.images(
    [lab15.decode(jpeg) for jpeg in some], labels, title="Stored class by class, as ImageNet is"
)
print(f"{images} JPEGs (digits, noise) of {stored.nbytes / images:,.0f} bytes, in {stored.folder}")

# %% [markdown]
# ## Who reads what?
# Several processes, the **ranks**, train one network together. They are numbered from 0 up to the
# number of ranks minus 1. In each **epoch** every sample should be read once, by one of the ranks.
#
# After each step all ranks average their [gradients](../labs/GLOSSARY.md#gradient) ([lab 30](30_average_gradients.ipynb)), so each rank waits for all the others.
# If one rank had one step more than the others, it would wait forever.
#
# ### Predict
# Four ranks read a dataset of 10,000 samples. By mistake each rank shuffles the samples **with its
# own seed** and reads a quarter of its own order, so it reads any given sample with a chance of
# 1/4, independently of the others. What percentage of the samples is not read by any rank in this
# epoch?

# %%
predict("15.1", percent_unread=...)


# %% [markdown]
# ### Exercise 15.1 · Which samples are mine?
# All ranks shuffle the samples in the same way, and each takes its part. In an epoch no sample is
# read twice, and all ranks read the same number of samples, n // ranks. The remaining samples are
# **dropped**, and they should be different samples in each epoch. 3 lines. *(beginner)*
#
# * The order is `np.random.default_rng((seed, epoch)).permutation(n)`. The tuple gives each pair of
#   seed and epoch its own generator.
# * A slice with a step takes a part of the order. For example, `order[2::5]` begins at position 2
#   and takes every 5th element.
# * A rank may have several **workers**, which are processes that read for this rank. They partition
#   all samples of their rank, so nothing is dropped here: some workers may get one sample more than
#   others.
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
    """An array of the numbers (of 0 … n - 1) of the samples that this worker of this rank reads in
    this epoch."""
    raise NotImplementedError("exercise 15.1: Which samples are mine?")


# %%
# Asked: Every rank reads n // ranks samples, none is read twice, and each epoch
# has another order and other parts.
check("15.1", my_samples)

# %% [markdown]
# The next cell counts by how many ranks each sample is read, first with the mistake of the
# prediction, and then, as a control, with one seed on all ranks.

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
# read twice or more, silently. With the same seed on all ranks both percentages are 0.
#
# PyTorch's [`DistributedSampler`](https://docs.pytorch.org/docs/stable/data.html) does nearly what you wrote. It differs in three
# points:
#
# * By default it **pads** the order instead of dropping samples, so that a few are read twice.
# * It seeds its generator with `seed + epoch`, so seed 1 has the same order in epoch 0 as seed 0 in
#   epoch 1.
# * Unless you call `set_epoch`, every epoch has the same order.
#
# ## Shards
# A dataset of a million small files requires a million opens. On the file system of a cluster, each
# open is a request to a **metadata server**, one of the few machines that keep track of where the
# files of all users are stored. Opening the files can therefore take longer than reading the bytes.
#
# A **shard** is a larger file that contains many samples and is read from front to back. Here each
# shard is a tar file in the format of the [webdataset](https://github.com/webdataset/webdataset) library, whose *members* are
# small files:
#
# | member | content |
# |---|---|
# | `000012.jpg` | the image of sample 000012 |
# | `000012.cls` | its label, written in digits |
# | `000012.small.jpg` | another *kind* of data of the same sample |
# | `000013.cls` | the label of the next sample |
#
# Consecutive members whose names are equal up to the first dot form one **sample**. The part after
# this dot is the **kind**, and kinds may come in any order.
#
# A shard is read as a whole, so ranks partition the shards, for example with `my_samples`, and not
# the samples.
#
# A shard may arrive over a network, so it must be possible to read it without ever moving backward.
# `tarfile.open(fileobj=stream, mode="r|")` reads in this way. These lines, for example, list the
# names and sizes in a shard:
#
#     with tarfile.open(fileobj=stream, mode="r|") as tar:
#         for member in tar:
#             print(member.name, len(tar.extractfile(member).read()))
#
# ### Exercise 15.2 · Read a shard
# For each sample, yield the JPEG's bytes and its label, which is a whole number, as soon as you
# have both, or at the latest when the next sample begins. (A function with `yield` is a
# *generator*, which hands over one item whenever a loop asks for the next.)
#
# Leave out samples without an image or without a label, because an image must never get the label
# of its neighbor. 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: name and kind</summary>
#
# Use `name, kind = member.name.split(".", 1)`. Keep the name of the current sample and a dict of
# its parts. When a different name comes, begin a new sample.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Begin with `sample, part = None, {}`. If `name` differs from `sample`, set
# `sample, part = name, {}`. `if kind in ("jpg", "cls"):` set `part[kind] = …read()`, and inside
# this `if`, `if len(part) == 2:` yield `part["jpg"], int(part["cls"])`.
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
# Suppose that a storage system delivers 100 MB/s and takes 2 ms to open a file. An image takes up
# more bytes in a shard, because tar adds a header to each member and pads it to whole blocks, and
# because the label is a member, too:
#
# | way to store 32 images | opens | bytes for each image |
# |---|---|---|
# | separate files | 32 | about 5.7 kB |
# | one shard | 1 | 7.7 kB |
#
# How many times as fast is it to read the shard as to read the 32 files? Count only the storage.
# The measurement will also contain Python's work.

# %%
predict("15.2", shards_times_as_fast=...)

# %% [markdown]
# ### Measure: files and shards
# Reading your own files would mostly measure your memory, because what has been read or written
# once stays in the **page cache** of Linux, which is in memory. `lab15.Storage` therefore emulates
# a slow storage system: it reads a file and then sleeps until a system of the given [bandwidth](../labs/GLOSSARY.md#bandwidth) and
# [latency](../labs/GLOSSARY.md#latency) would have delivered the data.
#
# The next cell reads a quarter of the images from it, as files and as shards. As a control, it
# reads the same data from a storage system whose opens take no time. For each of the two it prints
# the opens and bytes, and then how many times as long the files take as the shards.

# %%
ratio = lab15.compare_opens(stored, read_shard, latency)
print(f"files / shards: {ratio}")
at_once = lab15.compare_opens(stored, read_shard, 0)  # the control: an open takes no time
print(f"files / shards, if an open takes no time: {at_once}")
predict.compare("15.2", shards_times_as_fast=ratio)


# %% [markdown]
# **Explain.** By the numbers of the prediction, shards would be 15 times as fast:
#
# | 32 images as | opens | transfer | sum |
# |---|---|---|---|
# | separate files | 32 · 2 ms | 32 · 0.06 ms | 66 ms |
# | one shard | 2 ms | 2.5 ms | 4.5 ms |
#
# You should see a smaller ratio, because Python also has to parse the shard. On two cores this took
# us about 3 ms of computing for each shard, and the ratio was 8. While the machine was busy it was
# 5.
#
# The ratio of the control should fall to about 1 or below, although the bytes are the same as
# before. The gain therefore comes from the opens that shards save. By the bytes alone, the control
# would be 5.7 / 7.7 = 0.74. We measured 0.5 to 0.9.
#
# ## Reading ahead
# A training loop asks for a batch, computes, and asks for the next batch. If reading starts only
# when the loop asks, the times for reading and computing add up. Reading the next batch in advance
# is called **prefetching**.
#
# A **thread** runs concurrently with the loop, in the same process. It can read ahead and put what
# it has read into a **queue**: `ready.put(x)` appends x, and `ready.get()` removes and returns the
# oldest item. If the queue is empty, `get` waits.
#
# The queue is **bounded**, which means that `put` waits while `depth` items are in it. Otherwise a
# fast reader would fill the memory. With a depth of 2, for example, the thread can be three items
# ahead, two in the queue and one that waits in `put`:
#
# ```
# thread                      queue               training loop
# item 3: put waits  ----->   item 2 | item 1  ----->  computes with item 0
# ```
#
# In the usual Python only one thread at a time runs Python code, because it has to hold a lock, the
# **GIL** (global interpreter lock). A reading thread helps nevertheless, because the lock is free
# while a thread waits for a disk, while Pillow decodes a JPEG, and while PyTorch computes.
#
# ### Exercise 15.3 · Prefetch
# The function `prefetch` below is complete. It creates the queue and the thread, and ends both.
# Write the functions at the two ends of the queue, 8 and 7 lines. *(intermediate)*
#
# The simplest pair would be `for item in items: ready.put(item)` at one end and
# `while True: yield ready.get()` at the other. It has three faults. The training loop never learns
# that the items have ended, an error stays in the thread, and the thread cannot be stopped.
# Therefore we put pairs into the queue:
#
# | in the queue | when | what `take` does |
# |---|---|---|
# | `("item", item)` | for each item, in order | yields the item |
# | `("end", None)` | after the last item | ends |
# | `("error", error)` | instead of the end, if reading raises an error | raises the error |
#
# * `work(items, ready, stop)` runs in the thread and puts these pairs. `stop.is_set()` is true as
#   soon as no more items are wanted. In this case `work` returns and puts nothing, so check it
#   before you put each item. (`prefetch` then empties the queue, so a waiting `put` returns.)
# * `take(ready)` runs in the training loop.
#
# <details><summary>Hint 1: work</summary>
#
# In a `try:` block, loop over `items`. Return `if stop.is_set()`, and otherwise put the pair. After
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
    raise NotImplementedError("exercise 15.3: Prefetch")


def take(ready):
    """In the training loop: yield the items from the queue, until the end; raise the error."""
    raise NotImplementedError("exercise 15.3: Prefetch")


def prefetch(items, depth):
    """Yield `items` in order, while a thread reads ahead: `depth` of them fit in the queue."""
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
# ## How much of the input is exposed?
# We call the time to read and decode a batch the **input time**, or input for short, and the time
# of the other parts of a step **compute**. The part of the input for which a step still has to wait
# is called **exposed**. The figure at the top of this lab shows three cases.
#
# ### Predict
# Let compute take 1 unit of time.
#
# * With prefetch, how long does a step wait if input takes 2 units (`exposed_at_2`), and if it
#   takes half a unit (`exposed_at_half`)?
# * For which input (`best_input`) does prefetch gain the most, and how many times as fast as
#   without prefetch is a step then (`best_gain`)?

# %%
predict("15.4", exposed_at_2=..., exposed_at_half=..., best_input=..., best_gain=...)


# %% [markdown]
# ### Exercise 15.4 · What a step waits, and what a rank gets
# Write two formulas, of one line each. *(beginner)*
#
# * `exposed` computes how long a step waits if input takes `read` seconds and the other parts of
#   the step take `compute` seconds, with prefetch and without:
#
#   | | exposed |
#   |---|---|
#   | without prefetch | all of the input |
#   | with prefetch, input shorter than compute | nothing |
#   | with prefetch, input longer than compute | the part of the input that is longer than compute |
#
# * `shard_seconds` computes how long each of `ranks` ranks takes to read `nbytes` bytes if all
#   begin at the same time. A rank gets at most its own bandwidth, and at most an equal share of the
#   total bandwidth. For example, two ranks that could each read 3 MB/s from a storage system that
#   delivers 4 MB/s in total get 2 MB/s each. An open takes `latency` seconds, and all ranks open at
#   the same time.
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
    raise NotImplementedError("exercise 15.4: What a step waits, and what a rank gets")


def shard_seconds(nbytes, ranks, own, together, latency):
    """Seconds. own: bytes/s of one rank alone; together: bytes/s of all ranks; latency: s for an
    open."""
    raise NotImplementedError("exercise 15.4: What a step waits, and what a rank gets")


# %%
# Asked: Input shorter and longer than compute; one rank and many, by their own
# and by a shared bandwidth.
check("15.4", exposed, shard_seconds)

# %% [markdown]
# The next cell computes the gain from prefetch for several inputs with your formula, and compares
# it with your predictions.

# %%
gains = {}
for ratio in (0.25, 0.5, 1, 2, 4):
    gains[ratio] = (1 + exposed(ratio, 1, False)) / (1 + exposed(ratio, 1, True))
print("gain by input over compute:", {ratio: round(gain, 2) for ratio, gain in gains.items()})
predict.right("15.4", exposed_at_2=exposed(2, 1, True), exposed_at_half=exposed(0.5, 1, True))
predict.right("15.4", best_input=max(gains, key=gains.get), best_gain=max(gains.values()))

# %% [markdown]
# Why is the gain largest when input and compute take the same time?
# <details><summary>Answer</summary>
#
# Without prefetch a step takes input + compute, and with prefetch it takes the longer of the two.
# The ratio of these two times is largest if input and compute are equal, and then it is 2.
# </details>
#
# ### Measure: how long a step waits
# Now we train on JPEGs from shards, and the bandwidth of `lab15.Storage` is set so that input takes
# about 0.5, 1, 2 and 4 times as long as compute (`shares`). For each bandwidth we time two training
# runs, one without prefetch and one with, which takes about a minute in all, and longer on a busy
# machine. The runs read the shards in a shuffled order (the optional part at the end mixes the
# samples, too).
#
# The plot compares the two runs. Both axes are in units of compute, which is timed in the run with
# prefetch:
#
# - The x axis shows how long input really took, which is the wait of a step without prefetch.
# - The y axis shows the wait of a step with prefetch, which should agree with your formula.

# %%
train = lab15.trainer(device, width)  # train(images, labels): a step of a small net
runs = lab15.runs(stored, read_shard, prefetch, train, batch, shares, steps, rounds)
waits = {}
for share, read, compute, waited in runs:  # seconds of a step, medians
    waits[read / compute] = waited / compute
    record.add("step", unit="s", share=share, input=read, compute=compute, exposed=waited)

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
if places[0] < 1:
    predict.compare("15.4", exposed_at_2=at_2, exposed_at_half=at_half)
else:  # on a GPU, for example
    print(
        f"Decoding alone takes {places[0]:.1f} steps here. Choose a larger `width`, and run again."
    )

# %% [markdown]
# **Explain.** You should see that the points measured with prefetch are near the line of your
# formula, which is zero up to a ratio of 1, and input - compute from there on.
#
# Points above the line probably mean that the thread finds no free core for decoding, or that both
# threads need the GIL. On a busy machine points are on both sides of the line, probably because the
# machine's speed changes between the two training runs that a point compares.
#
# Would a deeper queue help if input takes longer than compute?
# <details><summary>Answer</summary>
#
# No. A queue compensates for a reader that is sometimes slow. If the reader is slower *on average*,
# the queue is empty after a few steps, however deep it is.
# </details>
#
# PyTorch's [`DataLoader`](https://docs.pytorch.org/docs/stable/data.html) reads ahead with **processes** (`num_workers`), because
# transforms that are written in Python hold the GIL.
#
# <details><summary>DataLoader's processes and MPI</summary>
#
# On Linux these workers are **forked** by default (before Python 3.14), so they are copies of a
# process in which [MPI](../labs/GLOSSARY.md#MPI) may be running. With some MPI libraries on InfiniBand they may crash
# (Horovod's [pull request 1824](https://github.com/horovod/horovod/pull/1824) and [issue 2898](https://github.com/horovod/horovod/issues/2898)). Use a
# thread, as you did, or `multiprocessing_context="forkserver"`, which starts the workers from a
# process without MPI. This is better, but in issue 2898 such workers sometimes died, too.
# </details>
#
# ## Many ranks, one storage
# Several ranks now read at the same time, each a different shard. How much all of them get together
# depends on the storage that they share. The rates are much lower than those of real storage,
# because our dataset is small:
#
# | storage | one rank alone | all ranks together |
# |---|---|---|
# | `own`: each rank has its own disk | 2 MB/s | no limit |
# | `burst`: a burst buffer, which is a fast store between the ranks and the file system | 2 MB/s | 4 MB/s |
# | `shared`: a shared file system | 2 MB/s | 2 MB/s |
#
# ### Predict
# How many times as many images per second do 4 ranks get as one rank, in each of the three cases?
# Compute it with your `shard_seconds`, but leave out the time of the opens.

# %%
predict("15.4", own=..., burst=..., shared=...)

# %% [markdown]
# ### Measure: 1, 2 and 4 ranks
# In the next cells, real ranks read and decode, and the storage is emulated again. For each read, a
# rank reserves the time that the shared storage needs for these bytes. A small file, which all
# ranks use, records until when the storage is reserved.
#
# The plot shows the images per second of all ranks together, and the prediction of your
# `shard_seconds`. The last cell prints the rate of 4 ranks relative to one. This takes about 15 s.

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
shard_bytes = np.mean([path.stat().st_size for path in stored.shards])
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
axes = {"xlabel": "ranks", "ylabel": "images/s, all ranks"}
plots.lines(measured, **axes, title=title, name="ranks", from_zero=True)

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
# **Explain.** You should see different growth of the rates:
#
# - The rate from the ranks' own disks grows with the number of ranks.
# - The rate from the burst buffer grows until its 4 MB/s are used up, which happens at two ranks.
# - The rate from the shared file system hardly grows, so with more ranks each rank gets less.
#
# Four ranks with their own disks may get fewer than 4 times as many images as one rank, probably
# because they also decode, and take turns if there are fewer than four cores. The other two ratios
# can be above 2 and 1, for two reasons:
#
# - All ranks open their shards at the same time, so your formula itself gives 2.01 and 1.03.
# - Where ranks share a storage, one of them can parse while another one reads. A single rank parses
#   its shard between its reads.
#
# On two cores we measured 3.98, 2.16 and 1.11.
#
# The 27,648 GPUs of the supercomputer Summit can read from two kinds of storage ([Oral et al.,
# 2019](https://doi.org/10.1145/3295500.3356157)):
#
# | storage of Summit | total bandwidth for reading | for each GPU |
# |---|---|---|
# | all SSDs in the nodes | 26.7 TB/s | 970 MB/s |
# | the file system | 2.5 TB/s | 90 MB/s |
#
# Suppose that a GPU trains on 1,000 images per second, each of 110 kB (round numbers that we
# chose). Which of the two storages has enough bandwidth when all GPUs train?
# <details><summary>Answer</summary>
#
# Only the SSDs. A GPU needs 110 MB/s, which is more than its share of the file system's bandwidth,
# and far less than its share of the SSDs'.
# </details>
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
#
# ## Going further (optional): shuffle a stream (4 minutes)
# In our dataset the images are stored class by class. A step with a batch of only one or two
# classes would change the network so that it prefers these classes for every image. The samples of
# a batch should therefore be mixed, but a stream cannot be shuffled as a whole.
#
# Instead, the order of the shards is shuffled, which needs no memory, and the samples pass through
# a **buffer**:
#
# 1. Fill the buffer.
# 2. Yield a random one of its items, put the next item of the stream in its place, and repeat.
#
# For example, a buffer that holds 0 0 1 may yield 0 and then takes the next item, 1, so that it
# holds 0 1 1. The larger the buffer, the better the classes are mixed. (The training runs of this
# lab measure time and not accuracy, so they shuffle only the order of the shards and have no
# buffer.)
#
# <details><summary>How large must the buffer be?</summary>
#
# Our dataset has about 50 images of each class. We counted the classes in a batch of 32 that comes
# out of such a buffer:
#
# | images in the buffer | 1 | 64 | 128 | 256 | 512 |
# |---|---|---|---|---|---|
# | classes in a batch, of 10 | 1.6 | 4.8 | 6.6 | 8.5 | 9.7 |
# | if the *shards* are read in a shuffled order, too | 1.6 | 6.5 | 8.1 | 9.2 | 9.6 |
#
# A smaller buffer is therefore enough if the order of the shards is shuffled, too.
# </details>
#
# ## Going further (optional): one file that many ranks read (1 minute)
# Shards are not the only way to save opens. The framework Caffe can read its images from an LMDB,
# which is a key-value store in one file. However, many processes that map one LMDB into memory slow
# each other down, which the reader LMDBIO avoids ([Pumma et al., 2019](https://doi.org/10.1145/3331526)).
#
# In [OSU-Caffe](https://doi.org/10.1145/3018743.3018769) all ranks read in parallel from the cluster's file system, Lustre.
#
# ### Further reading
# - [PyTorch: torch.utils.data](https://docs.pytorch.org/docs/stable/data.html). The documentation of `DataLoader` and `DistributedSampler`.
# - [WebDataset](https://github.com/webdataset/webdataset). The library whose shard format this lab uses.
# - S. Pumma, M. Si, W. Feng and P. Balaji, *[Scalable Deep Learning via I/O Analysis and Optimization](https://doi.org/10.1145/3331526)*, ACM Transactions on Parallel Computing 6(2), 2019. Why LMDB was slow on many processes, and how LMDBIO avoids this.
# - S. Oral et al., *[End-to-end I/O Portfolio for the Summit Supercomputing Ecosystem](https://doi.org/10.1145/3295500.3356157)*, SC, 2019. The storage systems of Summit, with measured bandwidths.
# - T. Kurth et al., *[Exascale Deep Learning for Climate Analytics](https://arxiv.org/abs/1810.01993)*, SC, 2018. An application on Summit that copied its input to the nodes' own disks.

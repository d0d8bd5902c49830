# %% [markdown]
# # 15 Input pipeline
#
# A GPU that waits for images costs as much as one that computes. You deal a data set out to ranks, read it
# from shards, shuffle it, read ahead; and you find out when the storage, not the net, sets the speed.
#
# **You will be able to** (1) say which samples a rank reads, and prove that none is read twice, (2) read tar
# shards as a stream, and say what a format costs, cold and cached, (3) shuffle what only goes forward, (4)
# hide reading behind the step, and predict how much of it stays exposed.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Before: 10, 20

# %%
import itertools
import queue
import tarfile
import threading
from functools import partial

import numpy as np
import torch
from labkit import check, hint, lab, launch, plots, predict, world
from support import lab15

lab.start("15_input_pipeline")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # the step has one core; another one reads

# %% tags=["parameters"]
images = 512  # JPEGs in the data set
side = 128  # pixels
shards = 16  # tar files that hold them
rounds = 9  # timings of each format, cold and cached
latency = 2e-3  # seconds for an open on the slow storage of 15.2
batch = 16  # images per training step
width = 48  # channels of the net
shares = (0.5, 1, 2, 4)  # how long a batch's input takes, over a step's arithmetic
loader_workers = 2  # processes of PyTorch's DataLoader; 0: leave it out
repeats = 5  # timings on real ranks
own_nvme = (2e6, 1e12, 0)  # of each rank: bytes/s of a rank, bytes/s of all together, seconds an open
burst_buffer = (2e6, 4e6, 1e-3)  # bytes/s, bytes/s, s
shared_file_system = (2e6, 2e6, 5e-3)  # bytes/s, bytes/s, s

# %%
stored = lab15.write(images, side, shards)
some, labels = zip(*lab15.from_files(stored, range(0, images, images // 8)), strict=True)
plots.images([lab15.decode(jpeg) for jpeg in some], labels, title="Stored class by class, as ImageNet is")
print(f"{images} JPEGs (digits, noise) of {stored.nbytes / images:,.0f} bytes, 4 formats, in {stored.folder}")

# %% [markdown]
# ### Predict
# Four ranks, and each shuffles **with a seed of its own** and reads the first quarter of its order. How many
# percent of the samples does nobody read in this epoch?
# ### Exercise 15.1 · Which samples are mine?
# All ranks shuffle alike, by `np.random.default_rng((seed, epoch))`, and each takes its part. In an epoch no
# sample is read twice, and all ranks read equally many, n // ranks: one with more would wait in its allreduce
# for ever. What does not divide is **dropped**, other samples in each epoch (or one **pads**, and reads a few
# twice). A rank's workers deal its part out among themselves. 3 lines.
#
# <details><summary>Hint 1: every ranks-th</summary>
#
# `order[rank::ranks]` begins at the rank-th and takes every ranks-th. Some ranks would get one more.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `order = np.random.default_rng((seed, epoch)).permutation(n)`, cut to `n - n % ranks`. The rank's part of
# it, and of this `[worker::workers]`.
# </details>

# %%
predict("15.1", percent_unread=32)


def my_samples(n, epoch, rank, ranks, worker=0, workers=1, seed=0):
    """The numbers (of 0 … n - 1) of the samples that this worker of this rank reads in this epoch."""
    ### BEGIN SOLUTION
    order = np.random.default_rng((seed, epoch)).permutation(n)[: n - n % ranks]
    return order[rank::ranks][worker::workers]
    ### END SOLUTION


# %%
with check("15.1"):
    lab15.expect_split(my_samples)
    lab15.expect_as_torch(my_samples)
own = [my_samples(10_000, 0, rank, 4, seed=rank) for rank in range(4)]  # a seed of its own: wrong
predict.compare("15.1", percent_unread=100 - len(np.unique(np.concatenate(own))) / 100)

# %% [markdown]
# PyTorch's `DistributedSampler` does this, in another order. It pads unless `drop_last=True`, and every epoch
# has the same order unless you call `set_epoch`.
# ### Exercise 15.2 · Shards
# A million small files (ImageNet: 1.28 to train on, Russakovsky et al., 2015) are a million opens, each a
# question to a cluster's metadata server. **Shards** are larger tar files, read from front to back; here as
# the library webdataset has them. Neighbours with the same name up to the first dot are one sample; what
# follows says what they are: `000012.jpg`, `000012.cls` (its label, in digits), maybe more
# (`000012.small.jpg`), in any order. Leave out a sample without image or label, or an image may get its
# neighbour's label. A shard may come over a network, and only goes forward: `tarfile.open(fileobj=stream,
# mode="r|")` reads so. Yield each sample, the JPEG's bytes and its label, once you have both. 10 lines.
#
# <details><summary>Hint 1: a member</summary>
#
# `for member in tar:`, `name, kind = member.name.split(".", 1)`; `tar.extractfile(member).read()`: its bytes.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `sample, part = None, {}`; with another `name` than `sample`, both begin anew. `if kind in ("jpg", "cls"):`
# `part[kind] = …read()`, and `if len(part) == 2:` yield `part["jpg"], int(part["cls"])`.
# </details>


# %%
def read_shard(stream):
    """Yield (JPEG's bytes, label) for each sample of a tar shard. stream: a file that only goes forward."""
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
with check("15.2"):
    lab15.expect_reader(read_shard)

# %% [markdown]
# ### Predict
# A storage of 100 MB/s takes 2 ms to open a file: how many times as fast are shards of 32 images? And how
# many times as long as from memory does reading single files take if they come from the disk?
# `inputs.Storage` is a stand-in, with real waiting: it reads your disk, and sleeps until storage of this
# bandwidth and latency would have delivered. So it can only be slower than your disk.
# Then all images are read **cold**, from the disk, and **cached**, from memory: single files; HDF5, all
# JPEGs in one array; LMDB, a key-value store (these three at random); your shards, by you and by webdataset.

# %%
predict("15.2", shards_times_as_fast=15, cold_over_cached=5)
from_shards = partial(lab15.from_shards, read_shard)  # from_shards(paths): your function, file by file
ratio = lab15.compare_opens(stored, from_shards, latency)
cold = lab15.compare_formats(stored, my_samples(images, 0, 0, 1), from_shards, lab15.decode, rounds)
predict.compare("15.2", shards_times_as_fast=ratio, cold_over_cached=cold)

# %% [markdown]
# What was read once stays in memory, in the **page cache**: the second epoch of a small set measures that.
# `posix_fadvise(DONTNEED)` drops a file's pages, `mincore` tells which are left (a virtual machine's host may
# keep its own). A tar is taken apart in Python: so shards gain less than opens and bytes alone promise, and
# from memory single files are often faster. Decoding comes on top.
#
# Caffe reads image files (layer ImageData) or an LMDB (Data). Training on ImageNet from files was more than
# 17 times as slow as from a key-value store (Lim et al., 2016). But LMDB maps its file into memory, and many
# processes on a parallel file system get in each other's way: input took up to 90 % of training, which with
# LMDBIO was up to 65 times as fast on 9,216 cores (Pumma et al., 2019). OSU-Caffe reads Lustre in parallel.
# ### Predict
# The stored order is class by class, some 50 images each. Read forward through a **shuffle buffer** of 64,
# how many of the 10 classes does a batch of 32 hold?
# ### Exercise 15.3 · Shuffle buffer
# A stream cannot be shuffled, but a part of it can. Fill a buffer with `size` items; then give out a random
# one, put the next in its place, and so on; at the end give out what is left, shuffled. No more than `size`
# items are held, each comes out once, and the order depends on `seed` alone. 9 lines.
#
# <details><summary>Hint 1: the swap</summary>
#
# `place = rng.integers(size)`, `yield held[place]`, `held[place] = item`. Until it is full, `append`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `rng, held = np.random.default_rng(seed), []`; for each item: if fewer than `size` are held append it, else
# swap as above. Behind the loop `rng.shuffle(held)` and `yield from held`.
# </details>

# %%
predict("15.3", classes_in_batch=4)


def shuffled(items, size, seed):
    """Yield all of `items` in another order, with at most `size` of them held."""
    ### BEGIN SOLUTION
    rng, held = np.random.default_rng(seed), []
    for item in items:
        if len(held) < size:
            held.append(item)
        else:
            place = rng.integers(size)
            yield held[place]
            held[place] = item
    rng.shuffle(held)
    yield from held
    ### END SOLUTION


# %%
with check("15.3"):
    lab15.expect_buffer(shuffled)
sizes = sorted({1, 16, 64, 128, 256, images})
ways = {"shards in order": False, "shards shuffled, too": True}
mixed = {name: lab15.classes_in_batch(shuffled, stored, sizes, whole) for name, whole in ways.items()}
axes = {"xlabel": "size of the buffer", "ylabel": "classes in a batch of 32", "logx": True}
plots.lines(mixed, **axes, title="How well does a buffer mix?")
predict.compare("15.3", classes_in_batch=np.median(mixed["shards in order"][64]))

# %% [markdown]
# The shards' order costs nothing to shuffle; several readers mix, too. Best: shuffle once, when you write.
# ### Exercise 15.4 · Prefetch
# While the net computes, the disk could read. A **thread** reads ahead into a **bounded queue**:
# `ready.put(x)` waits while `depth` are in it, `ready.get()` while none is. (Python's lock, the GIL, is free
# while a thread waits for a disk, and while Pillow decodes.) Four things to get right: the order; no more
# than `depth` in the queue, and one in the thread's hand; an **error** of the reader comes out at the
# consumer; and if the consumer stops early, no thread is left waiting for a place in the queue. 18 lines.
#
# <details><summary>Hint 1: what goes through the queue</summary>
#
# Pairs, as an item may be anything: `("item", item)`, `("end", None)`, `("error", error)`.
# </details>
# <details><summary>Hint 2: the thread</summary>
#
# `def work():` with `try:`, for each of `items`: return `if stop.is_set()`, else put it; behind the loop the
# end; and `except Exception as error:` puts the error. `threading.Thread(target=work, daemon=True)`, `start`.
# </details>
# <details><summary>Hint 3: the consumer, nearly the answer</summary>
#
# `try:` get a pair, yield its item while it is one; `raise` an error. Closing a generator raises an exception
# at its `yield`: `finally:` set `stop`; `while thread.is_alive():` empty the queue (`while not ready.empty():
# ready.get()`), which lets the thread out of its `put`, and `thread.join(0.01)`.
# </details>


# %%
def prefetch(items, depth):
    """Yield `items` in order, while a thread reads up to `depth` of them ahead."""
    ready, stop = queue.Queue(depth), threading.Event()
    ### BEGIN SOLUTION

    def work():
        try:
            for item in items:
                if stop.is_set():
                    return
                ready.put(("item", item))
            ready.put(("end", None))
        except Exception as error:
            ready.put(("error", error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (pair := ready.get())[0] == "item":
            yield pair[1]
        if pair[0] == "error":
            raise pair[1]
    finally:
        stop.set()
        while thread.is_alive():
            while not ready.empty():
                ready.get()
            thread.join(0.01)
    ### END SOLUTION


# %%
with check("15.4"):
    lab15.expect_prefetch(prefetch)

# %% [markdown]
# ### Predict
# Input (storage and decoding) takes twice as long as compute. You prefetch. How long does the net still wait
# for it in each step, as a share of compute? (It is called **exposed**.) At which input is the gain largest?

# %%
predict("15.4", exposed_over_compute=1)


def feed(storage):  # batch after batch, epoch after epoch
    for epoch in itertools.count():
        paths = [stored.shards[number] for number in my_samples(shards, epoch, 0, 1)]
        yield from lab15.batches(shuffled(from_shards(paths, storage.open), 64, epoch), batch)


nbytes = sum(path.stat().st_size for path in stored.shards) / images  # of an image in its shard
found = lab15.knob(feed, lab15.trainer(device, width), prefetch, batch, batch * nbytes, shares)
plots.lanes(lab15.lanes(found, 1), title="Three steps, input as long as compute")
_, exposed, compute = found[2, "prefetch"]
predict.compare("15.4", exposed_over_compute=exposed / compute)
lab15.compare_loaders(stored, batch, loader_workers)  # PyTorch's, without workers and with them

# %% [markdown]
# Exposed is max(0, input - compute): you gain most, half the time, where both take as long; no depth helps
# where storage is slower *on average*. The storage was set by the compute measured first. On a busy machine
# that changes, and so does what is exposed: *predicted* takes it as it is. `DataLoader` reads ahead with
# *processes* (`num_workers`), as transforms in Python hold the lock. To hand small images over may take
# longer than to decode them. On Linux it **forks** by default (Python < 3.14), which some MPIs over
# InfiniBand do not bear: Horovod's users report corrupted memory from 64 GPUs on, and crashed workers (pull
# request 1824, 2020; issue 2898, 2021). In ranks take threads, or `multiprocessing_context="forkserver"`.
#
# ### Measure: real ranks, one storage
# Each rank reads a shard and decodes: from an NVMe of its own, from a **burst buffer** that the ranks share,
# from a **shared file system**, slower to open. It is the stand-in again: the ranks of a node share one pipe,
# a file that says until when it is taken. (Summit's SSDs in the nodes read 26.7 TB/s, its file system 2.5
# TB/s, says Oral et al., SC19: 970 and 90 MB/s for each of 27,648 GPUs.) How many times as many images per
# second do 4 ranks get as one, from each of the three?

# %%
predict("15.4", own=4, burst=2, shared=1)
storages = {"own NVMe": own_nvme, "burst buffer": burst_buffer, "shared file system": shared_file_system}
ranks = launch.ranks_here(4)
took = launch.run(lab15.through_one_pipe, read_shard, prefetch, stored, storages, repeats, ranks=ranks)[0]
gains = lab15.show_ranks(took, storages, images // shards, nbytes)
predict.compare("15.4", **dict(zip(("own", "burst", "shared"), gains, strict=True)))
stored.remove()

# %% [markdown]
# ### What you take away
# - One order for all ranks, from seed and epoch; each takes its part; drop or pad, so that all read as many.
# - Shards turn opens into bandwidth. Was it cold? `mincore` knows. Decoding is a cost of its own.
# - Streams are shuffled by shard and by buffer, and read ahead by a thread with a bounded queue.
# - Exposed input is max(0, input - compute). Then: fewer bytes, faster storage, a copy on each node's NVMe.

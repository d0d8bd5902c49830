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
from collections import Counter
from functools import partial

import numpy as np
import torch
from labkit import check, expect, hint, lab, launch, plots, predict, world
from support import lab15
from torch.utils.data import DistributedSampler

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
def expect_dealt_out(n, ranks, workers):
    """Every rank reads n // ranks samples, its workers about equally many, and no sample is read twice."""
    case = f"{n} samples, {ranks} ranks of {workers} workers"
    by_rank = []
    for rank in range(ranks):
        parts = [my_samples(n, 0, rank, ranks, worker, workers) for worker in range(workers)]
        for part in parts:
            expect(np.ndim(part) == 1, f"Give the numbers of the samples, an array; this is {part!r:.60}.")
        sizes = [len(part) for part in parts]
        even = max(sizes) - min(sizes) <= 1
        expect(even, f"{case}: the workers of rank {rank} read {sizes}: differ by one at most.")
        by_rank.append([int(number) for part in parts for number in part])
    times = Counter(itertools.chain(*by_rank))
    twice = [number for number in times if times[number] > 1]
    again = f"{case}: samples {twice[:3]} are read more than once in an epoch"
    expect(not twice, f"{again}. (The same order on all ranks? Each worker a part of its rank's?)")
    counts = [len(own) for own in by_rank]
    expect(len(set(counts)) == 1, f"{case}: the ranks read {counts} samples; all need as many.")
    expect.equal(counts[0], n // ranks, f"{case}: samples of a rank (drop what does not divide)")
    strange = [number for number in times if not 0 <= number < n]
    expect(not strange, f"{case}: there are no samples {strange[:3]}.")


# %%
def samples_of(epoch, seed=0):
    """By rank, what 4 ranks read of 103 samples."""
    return [[int(number) for number in my_samples(103, epoch, rank, 4, seed=seed)] for rank in range(4)]


def expect_shuffled():
    """The order depends on seed and epoch alone, and each epoch has another order and another deal."""
    epochs = [samples_of(epoch) for epoch in range(6)]
    same = "Asked twice, a rank gets another order. Only seed and epoch may matter."
    expect(samples_of(0) == epochs[0], same)
    for first, second in itertools.combinations(range(6), 2):
        expect(epochs[first] != epochs[second], f"Epochs {first} and {second} have the same order.")
    expect(samples_of(0, seed=1) != epochs[0], "Seeds 0 and 1 give the same order.")
    stored_order = "Rank 0 reads its samples in the stored order: shuffle."
    expect(epochs[0][0] != sorted(epochs[0][0]), stored_order)
    follow = [set(itertools.pairwise(my_samples(103, epoch, 0, 1))) for epoch in (0, 1)]
    moved = "Epoch 1 has the order of epoch 0, moved on: who follows whom stays. Shuffle anew each epoch."
    expect(len(follow[0] & follow[1]) < 25, moved)
    together = max(len({*own} & {*other}) for own, other in itertools.product(*epochs[:2]))  # 6 by chance
    stay = (
        f"{together} of {len(epochs[0][0])} samples that one rank read in epoch 0 stay together on one rank"
    )
    expect(together < 20, f"{stay} in epoch 1. Shuffle all of the samples anew, then deal them out.")
    read = {number for epoch in range(30) for own in samples_of(epoch) for number in own}
    lost = sorted(set(range(103)) - read)
    never = f"103 samples, 4 ranks: in 30 epochs nobody reads samples {lost}. Shuffle first, then drop."
    expect(not lost, never)


# %%
# What is asked: the two above; and as many samples for each rank as PyTorch's DistributedSampler gives it.
with check("15.1"):
    for n, ranks, workers in itertools.product((96, 100, 7, 3), (1, 2, 3, 4, 8), (1, 2, 3)):
        expect_dealt_out(n, ranks, workers)
    expect_shuffled()
    for n, ranks in itertools.product((96, 103, 7, 3), (1, 2, 4, 5)):
        theirs = [
            len(list(DistributedSampler(range(n), ranks, rank, drop_last=True))) for rank in range(ranks)
        ]
        yours = [len(my_samples(n, 0, rank, ranks)) for rank in range(ranks)]
        what = f"{n} samples: what {ranks} ranks read, beside DistributedSampler(drop_last=True)"
        expect.equal(yours, theirs, what)

# %%
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
def expect_samples(shard):
    """All samples in order, (bytes of the JPEG, label), the first before half of the shard has passed."""
    samples = shard.samples(read_shard)
    got = list(itertools.islice(samples, 1))
    none = f"{shard.name}: no sample came out of a shard of {len(shard.wanted)}"
    expect(got, f"{none}. (A name may have any length, and ends at its first dot.)")
    late = f"The first sample came after {shard.taken:,} bytes, the whole shard. Yield each at once."
    expect(shard.taken < shard.nbytes / 2, late)
    got += samples
    for number, pair in enumerate(got):
        expect(len(pair) == 2, f"{shard.name}: sample {number} has {len(pair)} parts: give (image, label).")
        if shard.incomplete:
            own = shard.label_of.get(pair[0]) in (None, pair[1])
            neighbours = "an image came with its neighbour's label. The files of a sample have one name"
            expect(own, f"{shard.name}: {neighbours}.")
    expect.equal(len(got), len(shard.wanted), f"{shard.name}: samples of a shard of {len(shard.wanted)}")
    for number, ((image, label), (jpeg, right)) in enumerate(zip(got, shard.wanted, strict=True)):
        case = f"{shard.name}: sample {number}:"
        expect.equal(label, right, f"{case} label, a whole number")
        whole = hasattr(label, "__index__")
        expect(whole, f"{case} label {label!r:.30} is no whole number. int()?")
        expect(isinstance(image, bytes), f"{case} the image is {type(image).__name__}, not bytes.")
        expect(image == jpeg, f"{case} not the image's bytes ({len(image)}, it has {len(jpeg)}).")


# %%
# What is asked of 40 samples: image or label first, other files behind or between, image or label missing.
with check("15.2"):
    for shard in lab15.trial_shards():
        expect_samples(shard)

# %% [markdown]
# ### Predict
# A storage of 100 MB/s takes 2 ms to open a file: how many times as fast are shards of 32 images? And how
# many times as long as from memory does reading single files take if they come from the disk?
# `lab15.Storage` is a stand-in, with real waiting: it reads your disk, and sleeps until storage of this
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
def expect_complete(n, size):
    """Each item comes out once, the same seed gives the same order, and no more than `size` are held."""
    case = f"{n} items, buffer of {size}"
    taken, got = [], []
    for item in shuffled(lab15.counted(range(n), taken), size, 1):
        got.append(item)
        held = len(taken) - len(got)
        expect(held <= size, f"{case}: {held} items are held when item {len(got)} comes out.")
        filled = held >= size - 1 or len(taken) == n
        expect(filled, f"{case}: only {held} are held when item {len(got)} comes out.")
    lost = len(set(range(n)) - set(got))
    expect(not lost, f"{case}: {lost} items never come out. What is in the buffer at the end?")
    twice = len(got) - len(set(got))
    expect(not twice, f"{case}: {twice} items come out twice.")
    again = list(shuffled(range(n), size, 1))
    anew = "items came out of a range (or list): a second `for` over it begins anew. iter() once?"
    expect(len(again) == n, f"{case}: {len(again)} {anew}")
    expect.equal(again, got, f"{case}: the same seed again")
    if n == 60 and size >= 5:
        seeds = "seeds 1 and 2 give the same order. (Is what is left at the end shuffled, too?)"
        expect(list(shuffled(range(n), size, 2)) != got, f"{case}: {seeds}")


# %%
def expect_items_as_they_are():
    """Two streams do not disturb each other, pairs stay pairs, and few come out as they were stored."""
    streams = [shuffled(range(60), 5, 1) for _ in range(2)]
    alike = all(first == second for first, second in zip(*streams, strict=False))
    differ = "Two streams with the same seed, read in turns, differ. Each needs a generator of its own"
    expect(alike, f"{differ}: np.random.default_rng(seed).")
    got = list(shuffled(((b"JPEG", number) for number in range(200)), 20, 1))
    changed = f"A pair (JPEG, label) went in, and {got[-1]!r:.60} came out. Give items out as they came."
    expect(all(isinstance(item, tuple) for item in got), changed)
    follow = sum(after == before + 1 for (_, before), (_, after) in itertools.pairwise(got))
    case = f"200 items, buffer of 20: {follow} of 199 come out right behind the one stored before them"
    expect(follow < 80, f"{case}. A new random place for each item, from one generator?")


def expect_every_place(n):
    """With a buffer of 5, each of the first 5 items is first about equally often, over 400 seeds."""
    first = Counter(next(iter(shuffled(range(n), 5, seed))) for seed in range(400))
    for item in range(5):
        rare = f"item {item} is first {first[item]} times, 80 times would be fair"
        expect(40 < first[item] < 160, f"{n} items, buffer of 5, 400 seeds: {rare}.")


# %%
# What is asked: the above, of streams shorter and longer than the buffer; and all orders of what is left.
with check("15.3"):
    for n, size in itertools.product((0, 1, 7, 60), (1, 2, 5, 60, 100)):
        expect_complete(n, size)
    expect_items_as_they_are()
    expect_every_place(20)
    expect_every_place(5)
    orders = len({tuple(shuffled(range(4), 9, seed)) for seed in range(400)})
    left = f"4 items, buffer of 9: only {orders} of 24 orders in 400 seeds. Shuffle the rest too."
    expect(orders >= 20, left)

# %%
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
def expect_read_ahead(depth):
    """40 items in order; at most `depth` in the queue, one in the thread's hand; no thread is left."""
    ahead = lab15.read_ahead(prefetch, depth)
    expect(ahead.items, f"depth {depth}: of 40 items, none came out.")
    few = f"depth {depth}: with one item out, only {ahead.read_at_first} were read. Does a thread read ahead?"
    expect(ahead.read_at_first >= 1 + depth, few)
    for out, read in enumerate(ahead.reads, 1):
        unbounded = f"depth {depth}: {read} items read when {out} were out: the queue has no bound?"
        expect(read <= out + depth + 1, unbounded)
    expect.equal(ahead.items, list(range(40)), f"depth {depth}: the items, in order")
    expect.equal(ahead.behind_last, [], f"depth {depth}: behind the last item")
    expect(not ahead.thread_left, f"depth {depth}: a thread is left after the last item.")
    expect.equal(lab15.read_all(prefetch, [], depth), [], f"depth {depth}: of nothing to read")
    odd = [None, 0, False, ..., (), "end", "error", StopIteration]
    what = f"depth {depth}: items such as None or 'end'"
    expect.equal(lab15.read_all(prefetch, iter(odd), depth), odd, what)


# %%
def expect_error(depth, good, trouble):
    """The reader fails after `good` items: they come out, and then its error does."""
    case = f"depth {depth}, the reader fails after {good} items"
    items, ended, error = lab15.read_with_error(prefetch, depth, good, trouble)
    expect(ended, f"{case}: the consumer waits for ever. The thread has to pass its error on.")
    outcome = "the items ended, as if all was well" if error is None else repr(error)
    expect(error is trouble, f"{case}: its {trouble!r} should come out, but {outcome}")
    expect.equal(items, list(range(good)), f"{case}: items before that")


def expect_no_thread(depth, read, items):
    """The consumer stops after `read` of the items: close() comes back, and the thread ends."""
    case = f"depth {depth}: the consumer stopped after {read} items"
    closed, thread_left = lab15.read_and_stop(prefetch, depth, read, items)
    expect(closed, f"{case}, and close() waits for ever: a full queue holds the thread up.")
    expect(not thread_left, f"{case}, and a thread is left behind. It waits for a place in the queue.")


# %%
# What is asked: the above, for queues of 1, 2 and 5 items; and patience with a reader that is slow.
with check("15.4"):
    for depth in (1, 2, 5):
        expect_read_ahead(depth)
        expect_error(depth, good=0, trouble=OSError("the disk is on fire"))
        expect_error(depth, good=3, trouble=ValueError("this is no JPEG"))
        expect_no_thread(depth, read=1, items=itertools.count())
        expect_no_thread(depth, read=3, items=itertools.count())
        expect_no_thread(depth, read=1, items=range(depth + 2))
    items, ended = lab15.read_slowly(prefetch)
    late = "The reader ends a while after its last item, and the consumer waits for ever"
    expect(ended, f"{late}. Put an end behind it.")
    expect.equal(items, [0, 1], "a reader that is slow once: wait for its end, an empty queue is none")

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
runs = lab15.knob(feed, lab15.trainer(device, width), prefetch, batch, batch * nbytes, shares)
plots.lanes(lab15.lanes(runs, 1), title="Three steps, input as long as compute")
_, exposed, compute = runs[2, "prefetch"]
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

# %% [markdown]
# <!-- Generated from solutions/15_input_pipeline.py by `make labs`. Learners work on a copy in work/. -->
# # 15 Input pipeline
#
# A GPU that waits for images costs as much as one that computes. You deal a data set out to ranks, read it
# from shards, see what a format costs, and shuffle what comes as a stream. Lab 17 then hides the reading.
#
# **You will be able to** (1) say which samples a rank reads, and prove that none is read twice, (2) read tar
# shards as a stream, (3) say what a format costs, cold and cached, and when it matters, (4) shuffle a stream.
#
# Needs: torch · Ranks: 1 · Minutes: 60 · Before: 10

# %%
import itertools
import tarfile
from functools import partial

import numpy as np
from labkit import check, hint, lab, plots, predict
from support import lab15

lab.start("15_input_pipeline")

# %% tags=["parameters"]
images = 512  # JPEGs in the data set
side = 128  # pixels
shards = 16  # tar files that hold them
rounds = 9  # timings of each format, cold and cached
latency = 2e-3  # seconds for an open on the slow storage of 15.2

# %%
stored = lab15.write(images, side, shards)
some, labels = zip(*lab15.from_files(stored, range(0, images, images // 8)), strict=True)
plots.images([lab15.decode(jpeg) for jpeg in some], labels, title="Stored class by class, as ImageNet is")
print(f"{images} JPEGs (digits, noise) of {stored.nbytes / images:,.0f} bytes, 4 formats, in {stored.folder}")

# %% [markdown]
# ## Who reads what?
# Several processes train one net: the **ranks**, 0 to ranks - 1. In each **epoch** all samples should be read
# once, by one rank or another. After each step all ranks average their gradients (lab 30), and each waits
# there for all others. A rank with one more step than the others would wait for ever.
#
# ### Predict
# Four ranks, 10,000 samples. Each rank shuffles **with a seed of its own** and reads a quarter of its order.
# For a sample the four quarters are four independent chances of 1/4. How many percent of the samples does
# nobody read in this epoch?

# %%
predict("15.1", percent_unread=...)


# %% [markdown]
# ### Exercise 15.1 · Which samples are mine?
# All ranks shuffle alike, and each takes its part. In an epoch no sample is read twice, and all ranks read
# equally many: n // ranks. What does not divide is **dropped**, other samples in each epoch. 3 lines.
# *(beginner)*
#
# The order comes from `np.random.default_rng((seed, epoch)).permutation(n)`. The tuple makes a generator for
# each pair; `seed + epoch` would give seed 1 in epoch 0 the order of seed 0 in epoch 1.
#
# `order[2::5]` begins at place 2 and takes every 5th. A rank may have several **workers**, processes that
# read for it: they deal the rank's part out among themselves, in the same way.
#
# <details><summary>Hint 1: every ranks-th</summary>
#
# `order[rank::ranks]` gives some ranks one more, unless the order is cut before to a length that divides.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The permutation, cut to `n - n % ranks`. The rank's part of it, and of this `[worker::workers]`.
# </details>

# %%
def my_samples(n, epoch, rank, ranks, worker=0, workers=1, seed=0):
    """The numbers (of 0 … n - 1) of the samples that this worker of this rank reads in this epoch."""
    raise NotImplementedError("exercise 15.1: Which samples are mine?")


# %%
# Asked: Every rank reads as many samples, none twice, in another order in each epoch;
# and as many as PyTorch's DistributedSampler gives it.
check("15.1", my_samples)

# %%
own = [my_samples(10_000, 0, rank, 4, seed=rank) for rank in range(4)]  # a seed of its own: wrong
alike = [my_samples(10_000, 0, rank, 4) for rank in range(4)]  # the control: the same seed
unread = {}
for name, parts in {"own seeds": own, "one seed": alike}.items():
    readers = np.bincount(np.concatenate(parts), minlength=10_000)  # of each sample
    unread[name] = float(100 * np.mean(readers == 0))
    several = 100 * np.mean(readers > 1)
    print(f"{name}: {unread[name]:.1f} % of the samples are read by nobody, {several:.1f} % twice or more")
predict.right("15.1", percent_unread=unread["own seeds"])


# %% [markdown]
# **Explain.** (3/4)^4 = 31.6 %: nearly a third of the data is not seen, about a quarter of it twice or more,
# and no error says so. With one seed for all both are 0.
#
# PyTorch's `DistributedSampler` does what you wrote, in another order, and seeds with seed + epoch. Unless
# you say `drop_last=True` it **pads**: a few samples are read twice. And every epoch has the same order
# unless you call `set_epoch`.
#
# ## Shards
# A million small files are a million opens. (ImageNet has 1.28 million images to train on.) On a cluster each
# open is a question to a **metadata server**: one machine, or a few, that know for all users where files are.
#
# **Shards** are larger files, read from front to back. Here each is a tar file, as the library webdataset
# has them. Members that stand side by side and have the same name up to the first dot are one **sample**;
# what follows the dot is the **kind**: `000012.jpg` is the image, `000012.cls` its label, in digits. There
# may be more kinds (`000012.small.jpg`), in any order.
#
# A shard may come over a network, and then only goes forward. `tarfile.open(fileobj=stream, mode="r|")` reads
# so. `for member in tar:` gives the members in order; `member.name` is the name, and
# `tar.extractfile(member).read()` the bytes.
#
# ### Exercise 15.2 · Read a shard
# Yield for each sample the JPEG's bytes and its label, a whole number, as soon as you have both. Leave out a
# sample without image or without label: an image must never get its neighbour's label. 10 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: name and kind</summary>
#
# `name, kind = member.name.split(".", 1)`. Keep the name of the sample that you are in, and a dict of its
# parts; when another name comes, both begin anew.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `sample, part = None, {}`; with another `name` than `sample`, both begin anew. `if kind in ("jpg", "cls"):`
# `part[kind] = …read()`, and `if len(part) == 2:` yield `part["jpg"], int(part["cls"])`.
# </details>

# %%
def read_shard(stream):
    """Yield (JPEG's bytes, label) for each sample of a tar shard. stream: a file that only goes forward."""
    raise NotImplementedError("exercise 15.2: Read a shard")


# %%
# Asked: What is asked of 40 samples: image or label first, other files behind or
# between, image or label missing.
check("15.2", read_shard)

# %% [markdown]
# ### Predict
# A storage delivers 100 MB/s and takes 2 ms to open a file. An image is a file of about 5.6 kB; in a shard it
# takes 7.7 kB, as tar fills up to whole blocks and adds the label. How many times as fast is it to read
# shards of 32 images as to read the 32 files?

# %%
predict("15.2", shards_times_as_fast=...)

# %% [markdown]
# ### Measure
# `lab15.Storage` is a stand-in, with real waiting: it reads your disk, and sleeps until storage of this
# bandwidth and latency would have delivered.

# %%
from_shards = partial(lab15.from_shards, read_shard)  # from_shards(paths): your function, file by file
ratio = lab15.compare_opens(stored, from_shards, latency)
print(f"files / shards: {ratio}")
at_once = lab15.compare_opens(stored, from_shards, 0)  # the control: an open takes no time
print(f"files / shards, if an open takes no time: {at_once}")
predict.compare("15.2", shards_times_as_fast=ratio)

# %% [markdown]
# **Explain.** 32 files are 32 opens of 2 ms and 0.06 ms of bytes each: 66 ms. A shard is one open and 2.5 ms
# of bytes: 4.5 ms. The control has the same bytes, and a storage whose opens take no time. There the ratio
# falls to about 1, or below, as shards hold more bytes. So the gain is opens.
#
# You may see ratios nearer to each other. The 4.5 ms are the least that the stand-in allows; on a busy
# machine your own opening and reading takes longer than that.
#
# ## What a format costs
# Now the same images in five ways, from your own disk: single files; **HDF5**, all JPEGs in one array of one
# file; **LMDB**, a key-value store in one file; your shards, read by you and by webdataset. The first three
# are read in a shuffled order.
#
# Each is read **cold** and then **cached**. What was read once stays in memory, in Linux's **page cache**:
# the second epoch of a small set measures that. `posix_fadvise(DONTNEED)` asks the system to drop a file's
# pages, and `mincore` tells which are left.
#
# ### Predict
# Two guesses, as nothing above tells. How many times as long as from memory does reading single files take if
# they come from your disk? And how many times as long as reading its file from memory does it take to decode
# a JPEG?

# %%
predict("15.2", cold_over_cached=..., decoding_over_reading=...)

# %%
# Measuring takes about 10 s.
order = my_samples(images, 0, 0, 1)
times = lab15.compare_formats(stored, order, from_shards, lab15.decode, rounds)
predict.compare("15.2", cold_over_cached=times["cold_over_cached"])
predict.compare("15.2", decoding_over_reading=times["decoding_over_reading"])

# %% [markdown]
# **Explain.** You should see, with an SSD: decoding, the last bar, takes longer than reading, in every
# format, cold or not. A process that reads and decodes by itself then gains little by a format: **decoding is
# the bottleneck**. A format matters where an open costs milliseconds, as above. (Where many processes decode,
# the storage may be the bottleneck again: lab 17.)
#
# From memory LMDB is the fastest. A likely cause: it hands out a piece of mapped memory. Shards gain less
# than opens and bytes promise; single files are often as fast or faster. A likely cause: a tar is taken apart
# in Python. And shards are read in the stored order: cold, they differ in order as well as in format.
#
# You may see instead that cold is hardly slower than cached. Then the disk is fast, or the machine is a
# virtual one whose host keeps the pages: the line "Dropped" tells only of this system's own. And "more when
# cold" is a difference: where its error bar is longer than the bar itself, it says nothing.
#
# <details><summary>Further reading: formats at scale</summary>
#
# Caffe reads image files (layer ImageData) or an LMDB (Data). Training on ImageNet from files was more than
# 17 times as slow as from a key-value store (Lim et al., 2016).
#
# But LMDB maps its file into memory, and many processes on a parallel file system get in each other's way:
# input took up to 90 % of training. With LMDBIO, readers that avoid this, it was up to 65 times as fast on
# 9,216 cores (Pumma et al., 2019). OSU-Caffe, the Caffe of MVAPICH2's authors, lets all ranks read in
# parallel from Lustre, the file system of many clusters.
# </details>
#
# ## Shuffle a stream
# A stream cannot be shuffled as a whole, but a part of it can. Fill a buffer with `size` items. Then give out
# a random one of them, put the next item of the stream in its place, and so on. At the end give out what is
# left, shuffled.
#
# ### Predict
# The stored order is class by class, some 50 images each. Read forward through a buffer of 64, how many of
# the 10 classes does a batch of 32 hold? (Each item that comes out is one of 64, at random. So an item waits
# for 64 others on average, and one in twenty waits three times as long: a batch is made of about the last 200
# images of the stream.)

# %%
predict("15.3", classes_in_batch=...)


# %% [markdown]
# ### Exercise 15.3 · Shuffle buffer
# Hold at most `size` items. Each comes out once, as it came in, and the order depends on `seed` alone. 9
# lines. *(intermediate)*
#
# `rng = np.random.default_rng(seed)` is a generator of its own; `rng.integers(n)` gives a whole number from 0
# to n - 1, and `rng.shuffle(list)` shuffles in place.
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
def shuffled(items, size, seed):
    """Yield all of `items` in another order, with at most `size` of them held."""
    raise NotImplementedError("exercise 15.3: Shuffle buffer")


# %%
# Asked: Each item once, of streams shorter and longer than the buffer, in any place;
# and all orders of what is left at the end.
check("15.3", shuffled)

# %%
# Drawing; need not be read.
sizes = sorted({1, 16, 64, 128, 256, images})
ways = {"shards in order": False, "shards shuffled, too": True}
mixed = {name: lab15.classes_in_batch(shuffled, stored, sizes, whole) for name, whole in ways.items()}
axes = {"xlabel": "size of the buffer (images)", "ylabel": "classes in a batch of 32", "logx": True}
plots.lines(mixed, **axes, title="Shuffled shards help a buffer smaller than the set", name="mixing")
predict.compare("15.3", classes_in_batch=np.median(mixed["shards in order"][64]))
stored.remove()

# %% [markdown]
# **Explain.** With a buffer of 1 the classes come as they were stored: one or two in a batch. A buffer as
# large as the set shuffles all of it. Between these, a buffer mixes only what lies within its reach.
#
# The upper curve reads the *shards* in a shuffled order, which costs nothing. Alone that does nothing: with a
# buffer of 1 a batch is still the 32 images of one shard, and the curves begin at the same point. With a
# buffer of a few shards it helps most. At the right the buffer holds the whole set, and the curves meet
# again.
#
# Not measured here: several readers at once mix, too; and who shuffles once, when the shards are written,
# needs neither.
#
# Why may a batch of one class harm training? <details><summary>Answer</summary> Not measured here: its
# gradient pulls the net towards this class for every image. The next batches pull it elsewhere: the loss goes
# up and down, and statistics over a batch (batch normalisation) are those of one class.</details>
#
# ### What you take away
# - One order for all ranks, from seed and epoch; each takes its part; drop or pad, so that all read as many.
# - Shards turn opens into bandwidth. That matters where an open is slow.
# - Cold and cached are two numbers, and `mincore` tells which pages this system holds. On an SSD decoding
#   costs more than reading.
# - Streams are shuffled by shard and by buffer. Next: read ahead (17).

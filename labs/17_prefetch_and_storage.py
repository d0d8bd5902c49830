# %% [markdown]
# <!-- Generated from solutions/17_prefetch_and_storage.py by `make labs`. Learners work on a copy in work/. -->
# # 17 Prefetch and storage
#
# While the net computes, the disk could read. You let a thread read ahead, predict how much of the reading
# stays visible, and find out when the storage, not the net, sets the speed: alone and with many ranks.
#
# **You will be able to** (1) read ahead through a bounded queue, (2) predict how long a step waits for its
# input, (3) predict what many ranks get from one storage.
#
# Needs: mpi, torch · Ranks: 4 · Minutes: 60 · Before: 15, 20

# %%
import itertools
import queue
import threading

import numpy as np
import torch
from labkit import check, expect, hint, lab, launch, plots, predict, record, world
from support import lab15

lab.start("17_prefetch_and_storage")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # the step has one core; another one reads

# %% tags=["parameters"]
images = 512  # JPEGs in the data set
side = 128  # pixels
shards = 16  # tar files that hold them
batch = 16  # images per training step
width = 48  # channels of the net
shares = (0.5, 1, 2, 4)  # how long a batch's input is to take, over a step's arithmetic
rounds = 4  # of all shares, one after the other
steps = 15  # of a training that is timed
loader_workers = 2  # processes of PyTorch's DataLoader; 0: leave it out
repeats = 5  # timings on real ranks
# Three storages, a thousand times slower than real ones, as our data set is so small: bytes/s of a rank,
# bytes/s of all ranks together, seconds for an open.
own_nvme = (2e6, 1e12, 0)  # a disk of its own for each rank
burst_buffer = (2e6, 4e6, 1e-3)  # a fast store that the ranks share
shared_file_system = (2e6, 2e6, 5e-3)


# %% [markdown]
# ## Read ahead
# A training loop asks for a batch, computes, asks for the next. If reading begins when it asks, reading and
# computing take turns, and their times add up.
#
# A **thread** runs beside the loop, in the same process. It can read ahead, and lay what it has read into a
# **queue**: `ready.put(x)` puts x in, `ready.get()` takes the oldest out. The queue is **bounded**: put waits
# while `depth` are in it, get waits while none is. So the thread is never more than depth + 1 items ahead
# (depth in the queue, one in its hand), and memory stays bounded as well.
#
# Does a thread help, in Python? Only one thread runs Python at a time: who runs holds a lock, the **GIL**. It
# is free while a thread waits for a disk, while Pillow decodes a JPEG, and while PyTorch computes.
#
# ### Exercise 17.1 · Prefetch
# `prefetch` below is given: it makes queue and thread, and ends both. You write the two ends of the queue, 8
# and 7 lines. *(intermediate)*
#
# * `work(items, ready, stop)` runs in the thread. It puts a pair `("item", item)` into the queue for each of
#   the items, in order, and behind the last one `("end", None)`. If reading raises an error, it puts
#   `("error", error)` instead: an error in a thread is seen by nobody. `stop.is_set()` tells that nobody
#   wants more: then it returns, and puts nothing. So look at it before each item that you put.
# * `take(ready)` runs in the training loop. It yields the items, ends at `"end"`, and raises the error.
#
# Pairs, because an item may be anything, None or the word "end" too.
#
# <details><summary>Hint 1: work</summary>
#
# `try:`, for each of `items`: return `if stop.is_set()`, else put the pair; behind the loop put the end.
# `except Exception as error:` puts the error.
# </details>
# <details><summary>Hint 2: take, nearly the answer</summary>
#
# `while True:` `kind, value = ready.get()`. If kind is "end" return, if it is "error" `raise value`, else
# `yield value`.
# </details>

# %%
def work(items, ready, stop):
    """In the thread: put ("item", item) for each, ("end", None) behind them, or ("error", error)."""
    raise NotImplementedError("exercise 17.1: Prefetch")


def take(ready):
    """In the training loop: yield the items from the queue, until the end; raise the error."""
    raise NotImplementedError("exercise 17.1: Prefetch")


def prefetch(items, depth):
    """Yield `items` in order, while a thread reads up to `depth` of them ahead."""
    ready = queue.Queue(depth)
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(items, ready, stop), daemon=True)
    thread.start()
    try:
        yield from take(ready)
    finally:  # also if the loop ends early: its generator is closed, and the thread must not be left
        stop.set()
        while thread.is_alive():
            while not ready.empty():  # it may wait for a place in the queue
                ready.get()
            thread.join(0.01)


# %%
# Trying; need not be read.
def expect_two_ends():
    """`work` and `take` by themselves, one after the other, with a queue that has no bound."""
    ready = queue.Queue()
    work(iter([1, None, "end"]), ready, threading.Event())
    pairs = list(ready.queue)
    wanted = [("item", 1), ("item", None), ("item", "end"), ("end", None)]
    expect.equal(pairs, wanted, 'work on the items 1, None, "end": what is in the queue')
    expect.equal(list(take(ready)), [1, None, "end"], "take of these pairs")
    stopped = queue.Queue()
    stop = threading.Event()
    stop.set()
    work(iter([1, 2]), stopped, stop)
    expect.equal(list(stopped.queue), [], "stop is set before the first item: what is in the queue")


def expect_read_ahead(depth):
    """40 items in order; at most `depth` in the queue, one in the thread's hand; no thread is left."""
    ahead = lab15.read_ahead(prefetch, depth)
    expect(ahead.items, f"depth {depth}: of 40 items, none came out.")
    few = f"depth {depth}: with one item out, only {ahead.read_at_first} were read. Does a thread read ahead?"
    expect(ahead.read_at_first >= 1 + depth, few)
    for out, read in enumerate(ahead.reads, 1):
        unbounded = f"depth {depth}: {read} items read when {out} were out. Put each as soon as it is read"
        expect(read <= out + depth + 1, unbounded)
    expect.equal(ahead.items, list(range(40)), f"depth {depth}: the items, in order")
    expect.equal(ahead.behind_last, [], f"depth {depth}: behind the last item")
    expect(not ahead.thread_left, f"depth {depth}: a thread is left after the last item.")
    expect.equal(lab15.read_all(prefetch, [], depth), [], f"depth {depth}: of nothing to read")
    odd = [None, 0, False, ..., (), "end", "error", StopIteration]
    what = f"depth {depth}: items such as None or 'end'"
    expect.equal(lab15.read_all(prefetch, iter(odd), depth), odd, what)


# %%
# Trying; need not be read.
class NoImage(Exception):
    """An error that no answer knows by name."""


class Slow(queue.Queue):
    """A queue whose other end is slow: the first put or get with a limit to its patience ends in vain."""

    def __init__(self):
        super().__init__()
        self.in_vain = set()

    def put(self, item, block=True, timeout=None):
        self.wait("put", queue.Full, block and timeout is None)
        super().put(item)

    def get(self, block=True, timeout=None):
        self.wait("get", queue.Empty, block and timeout is None)
        return super().get()

    def wait(self, name, error, patient):
        if not patient and name not in self.in_vain:
            self.in_vain.add(name)
            raise error


def expect_patience():
    """A step may take minutes, and so may a batch: put and get wait as long as that."""
    ready = Slow()
    work(iter([1]), ready, threading.Event())
    because = "A step may take minutes: put waits as long as that, without a timeout"
    what = "work, where the queue stays full for long: what is in the queue"
    expect.equal(list(ready.queue), [("item", 1), ("end", None)], what, because=because)
    try:
        items = list(take(ready))
    except queue.Empty:
        items = []
    because = "A batch may take minutes: get waits as long as that, without a timeout"
    expect.equal(items, [1], "take, where a batch comes late: the items", because=because)


# %%
# Trying; need not be read.
def expect_error(depth, good, trouble):
    """The reader fails after `good` items: they come out, and then its error does."""
    case = f"depth {depth}, the reader fails after {good} items"
    items, ended, error = lab15.read_with_error(prefetch, depth, good, trouble)
    expect(ended, f"{case}: the consumer waits for ever. The thread has to pass its error on.")
    outcome = "the items ended, as if all was well" if error is None else repr(error)
    expect(error is trouble, f"{case}: its {trouble!r} should come out, but {outcome}")
    expect.equal(items, list(range(good)), f"{case}: items before that")


def expect_error_last():
    """`work` by itself, with a reader that fails: nothing is put behind its error."""
    ready = queue.Queue()
    trouble = OSError("the disk is on fire")
    work(lab15.counted([0], [], trouble), ready, threading.Event())
    because = 'The error is put instead of ("end", None)'
    what = "work, the reader fails after item 0: what is in the queue"
    expect.equal(list(ready.queue), [("item", 0), ("error", trouble)], what, because=because)


def expect_no_thread(depth, read, items):
    """The consumer stops after `read` of the items: close() comes back, and the thread ends."""
    case = f"depth {depth}: the consumer stopped after {read} items"
    closed, thread_left = lab15.read_and_stop(prefetch, depth, read, items)
    expect(closed, f"{case}, and close() waits for ever. Does the thread look at `stop` before each put?")
    expect(not thread_left, f"{case}, and a thread is left behind. It waits for a place in the queue.")


# %%
# What is asked: the above, for queues of 1, 2 and 5 items; and patience with a reader that is slow.
with check("17.1"):
    expect_two_ends()
    for depth in (1, 2, 5):
        expect_read_ahead(depth)
        expect_error(depth, good=0, trouble=OSError("the disk is on fire"))
        expect_error(depth, good=3, trouble=NoImage("this is no JPEG"))
        expect_no_thread(depth, read=1, items=itertools.count())
        expect_no_thread(depth, read=3, items=itertools.count())
        expect_no_thread(depth, read=1, items=range(depth + 2))
    items, ended = lab15.read_slowly(prefetch)
    late = "The reader ends a while after its last item, and the consumer waits for ever"
    expect(ended, f"{late}. Put an end behind it.")
    expect.equal(items, [0, 1], "a reader that is slow once: wait for its end, an empty queue is none")
    expect_patience()
    expect_error_last()

# %% [markdown]
# ## What stays visible
# Call the time to read and decode a batch **input**, and the rest of a step **compute**. What a step still
# waits for its batch is called **exposed**.
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
# With prefetch, how long does a step wait, as a share of compute, if input takes twice as long as compute?
# And half as long? At which input over compute is the gain largest, and how many times as fast is a step
# there?

# %%
predict("17.2", exposed_at_2=..., exposed_at_half=..., best_input=..., best_gain=...)


# %% [markdown]
# ### Exercise 17.2 · What a step waits
# Both ways, from the seconds of input and compute alone. One line each. *(beginner)*
#
# <details><summary>Hint 1: with prefetch</summary>
#
# While the step computes, the reading goes on. What is left of it afterwards is waited for, if anything is.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Without prefetch the step waits for `read`. With it for `read - compute`, and never less than 0: `max`.
# </details>

# %%
def exposed(read, compute, ahead):
    """Seconds that a step waits for its input. ahead: True with prefetch, False without."""
    raise NotImplementedError("exercise 17.2: What a step waits")


# %%
# What is asked: seconds, for input shorter and longer than compute, with prefetch and without.
with check("17.2"):
    for read, compute in ((1, 2), (2, 2), (4, 2), (5, 0.5)):
        case = f"input {read} s, compute {compute} s"
        added = {"a step's whole time was returned. Return what it waits": read + compute}
        expect.close(exposed(read, compute, False), read, f"{case}, no prefetch", slips=added)
        slips = {
            "this is all of the input. It goes on while the step computes": read,
            "a step cannot wait less than 0 s": read - compute,
            "this is a step's whole time. Return what it waits": max(read, compute),
        }
        expect.close(exposed(read, compute, True), max(0, read - compute), f"{case}, prefetch", slips=slips)

# %%
gains = {}
for ratio in (0.25, 0.5, 1, 2, 4):
    gains[ratio] = (1 + exposed(ratio, 1, False)) / (1 + exposed(ratio, 1, True))
print("gain by input over compute:", {ratio: round(gain, 2) for ratio, gain in gains.items()})
predict.right("17.2", exposed_at_2=exposed(2, 1, True), exposed_at_half=exposed(0.5, 1, True))
predict.right("17.2", best_input=max(gains, key=gains.get), best_gain=max(gains.values()))


# %% [markdown]
# ### Measure
# Now a training that reads JPEGs from shards. `lab15.Storage` is a stand-in with real waiting: it sleeps
# until storage of a chosen bandwidth would have delivered. The bandwidth is set so that input takes a
# chosen share of compute.
#
# On a busy machine compute and decoding change from minute to minute, so a bandwidth that was set once is
# soon wrong. So each round **calibrates anew**: it times compute and decoding in the training loop itself,
# sets the storage, times reading alone, and then trains without prefetch and with it, in turns.
#
# Training without prefetch is the control. It must take the input and the compute that this round has just
# timed. If one of them is off by more than a quarter, the machine changed under the round. Such a round is
# not judged, and drawn as a cross. (With prefetch compute may be up to half as long again: a thread decodes
# beside it.)
#
# Input and exposed are told as shares of the compute *of the same training*.

# %%
def feed(storage):
    """Batches of decoded images from this storage, epoch after epoch."""
    for epoch in itertools.count():
        order = np.random.default_rng((0, epoch)).permutation(shards)
        samples = lab15.read_shards([stored.shards[number] for number in order], storage.open)
        yield from lab15.batches(samples, batch)


# %%
stored = lab15.write(images, side, shards)
nbytes = batch * sum(path.stat().st_size for path in stored.shards) / images  # of a batch
train = lab15.trainer(device, width)  # train(images, labels): a step of a small net
lab15.check_shares(shares)


def one_round(share, turned):
    """One round for an input of `share` times compute. turned: prefetch first. Returns a row of results."""
    decoding, compute = lab15.time_steps(feed(lab15.Storage()), train, steps)  # a storage without waiting
    new_storage = lab15.storage_for(share, compute, decoding, nbytes)
    row = {"share": share, "compute": compute}
    row["input"] = lab15.time_reading(feed(new_storage()), steps)  # nothing computes beside it
    ways = ["prefetch", "no prefetch"] if turned else ["no prefetch", "prefetch"]
    for way in ways:
        source = feed(new_storage())
        if way == "prefetch":
            source = prefetch(source, 2)
        row[way] = lab15.time_steps(source, train, steps)  # seconds waited, seconds computed
    return row


# %%
# About 30 s.
results = []
for number in range(rounds):
    for share in shares:
        results.append(one_round(share, turned=number % 2 == 1))
    print(f"round {number + 1} of {rounds} is done", flush=True)

# %%
# Drawing; need not be read: each round at the input over compute that it really had.
judged = lab15.judge(results)
lab15.show_rounds(judged, exposed)
of_2 = [row["prefetch"] for row in judged if row["share"] == 2 and row["steady"]]
of_half = [row["prefetch"] for row in judged if row["share"] == min(shares) and row["steady"]]
if of_2 and of_half:
    predict.compare("17.2", exposed_at_2=np.median(of_2), exposed_at_half=np.median(of_half))
else:
    print(
        "No round was steady enough to judge a prediction by. Run the two cells above on a quieter machine."
    )

# %% [markdown]
# **Explain.** You should see two lines: without prefetch exposed is the input itself; with prefetch it is
# nothing up to 1, and input - compute from there on. Where a run lies along the x axis is the input over
# compute that it really had, not what was asked for.
#
# So a measured `exposed_at_2` of 0.8 or 1.3 need not speak against your 1: the storage was set to 2, and the
# round may have had 1.8 or 2.3. The printed lines predict for what it really had.
#
# You may see instead points above the lower line. A likely cause: the thread finds no core to decode on, or
# both want the GIL, so that input and compute slow each other down. Rounds drawn as crosses were not judged:
# the machine changed under them.
#
# Why is the gain largest where both take as long? <details><summary>Answer</summary> Without prefetch a step
# takes input + compute, with it the longer of the two. The ratio of these is largest, 2, where they are
# equal.</details>
#
# Would a deeper queue help where input takes longer? The next cell tries queues of 2 and 8, in turns. It
# takes about 3 s.

# %%
decoding, compute = lab15.time_steps(feed(lab15.Storage()), train, steps)
new_storage = lab15.storage_for(2, compute, decoding, nbytes)  # input takes twice as long as compute
by_depth = {2: [], 8: []}
for _ in range(3):
    for depth, exposures in by_depth.items():
        waited, computed = lab15.time_steps(prefetch(feed(new_storage()), depth), train, steps)
        exposures.append(waited / computed)
for depth, exposures in by_depth.items():
    print(f"depth {depth}: exposed {np.median(exposures):.2f} x compute, {np.round(exposures, 2)}")

# %% [markdown]
# **Explain.** You should see about 1 for both depths. If the three values of one depth lie far apart, other
# programs keep the cores busy: run the cell again. Why does the deeper queue not help?
# <details><summary>Answer</summary> A queue evens out a reader that is sometimes slow. If it is slower *on
# average*, the queue is empty after a few steps, however deep.</details>
#
# Now three steps from near, with an input as long as compute.

# %%
new_storage = lab15.storage_for(1, compute, decoding, nbytes)
rows = lab15.three_steps(feed, train, prefetch, new_storage)
plots.lanes(rows, title="Prefetch reads the next batches while a step computes")
lab15.compare_loaders(stored, batch, loader_workers)  # PyTorch's, without workers and with them

# %% [markdown]
# **Explain.** In the upper two rows, without prefetch, reading and computing take turns. In the lower two,
# the next batch is read while a step computes.
#
# PyTorch's `DataLoader` reads ahead with **processes** (`num_workers`), as transforms written in Python hold
# the GIL. Compare the two printed lines. With workers the first batch comes late: here a *fork server*
# (below) starts each worker, which imports its libraries anew. The images/s are counted from there on. With
# small images and few cores two workers are often slower than none. A likely cause: to hand a small image to
# another process takes longer than to decode it.
#
# **In ranks, beware of fork.** On Linux workers are **forked** by default (before Python 3.14): copies of a
# process that has MPI open. Some MPIs over InfiniBand do not bear that: memory was corrupted from 64 GPUs on
# (Horovod's pull request 1824, 2020). Horovod's examples then took
# `multiprocessing_context="forkserver"`, whose workers come from a process without MPI. That is better, and
# not a cure for all: in issue 2898 (2021) forked workers crashed, and those of a fork server "sometimes"
# ended in bus errors, too, on 32 nodes with 12 workers each. A thread, as yours, forks nothing.
#
# ## Many ranks, one storage
# Each rank reads a shard, all at the same time. What a rank gets is its own bandwidth at most, and its part
# of what all get together.
#
# ### Predict
# 4 ranks. Each alone can read 2 MB/s. How many times as many images per second do 4 ranks get as one, (a)
# from a disk of its own each, (b) from a burst buffer that delivers 4 MB/s to all together, (c) from a
# shared file system that delivers 2 MB/s to all together?

# %%
predict("17.3", own=..., burst=..., shared=...)


# %% [markdown]
# ### Exercise 17.3 · Seconds for a shard
# How long does each of `ranks` ranks take to read `nbytes` bytes, if all begin together? An open takes
# `latency` seconds for each rank, at the same time for all. One line. *(beginner)*
#
# <details><summary>Hint 1: the rank's bandwidth</summary>
#
# The smaller of its own and an equal part of what all share.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `latency`, and bytes over `min(own, together / ranks)`.
# </details>

# %%
def shard_seconds(nbytes, ranks, own, together, latency):
    """Seconds. own: bytes/s of one rank alone; together: bytes/s of all ranks; latency: s for an open."""
    raise NotImplementedError("exercise 17.3: Seconds for a shard")


# %%
# What is asked: one rank and many, limited by their own bandwidth and by the shared one, with slow opens.
with check("17.3"):
    for nbytes_read, ranks, own, together, latency in (
        (1000, 1, 10, 100, 0),
        (1000, 20, 10, 100, 0),
        (1000, 10, 10, 100, 3),
        (400, 4, 100, 100, 1),
    ):
        what = (
            f"{nbytes_read} bytes, ranks: {ranks}, own {own} B/s, together {together} B/s, open {latency} s"
        )
        right = latency + nbytes_read / min(own, together / ranks)
        slips = {
            "all ranks share `together`: each gets an equal part": latency + nbytes_read / min(own, together),
            "the larger of two was taken. The narrower pipe decides": latency
            + nbytes_read / max(own, together / ranks),
            "the open is missing": right - latency,
            "the ranks open at the same time: one latency": right + (ranks - 1) * latency,
        }
        seconds = shard_seconds(nbytes_read, ranks, own, together, latency)
        expect.close(seconds, right, what, slips=slips)

# %% [markdown]
# ### Measure
# Real ranks: 1, 2 and 4 processes read and decode. It is the stand-in again: the ranks of a node share one
# pipe, a file that says until when it is taken. About 15 s.

# %%
storages = {"own NVMe": own_nvme, "burst buffer": burst_buffer, "shared file system": shared_file_system}
ranks = launch.ranks_here(4)
if not stored.folder.exists():  # the last cell removes it
    stored = lab15.write(images, side, shards)
took = launch.run(lab15.through_one_pipe, prefetch, stored, storages, repeats, ranks=ranks)[0]

# %%
# Drawing; need not be read.
each = images // shards
shard_bytes = each * nbytes / batch
measured = {}
for name, by_ranks in took.items():
    measured[name] = {p: p * each / time.samples for p, time in by_ranks.items()}
    own, together, latency = storages[name]
    seconds = [shard_seconds(shard_bytes, p, own, together, latency) for p in by_ranks]
    rates = [p * each / s for p, s in zip(by_ranks, seconds, strict=True)]
    measured[f"{name}, predicted"] = list(by_ranks), rates
    for p, time in by_ranks.items():
        row = {"ranks": p, "images": p * each, "predicted": seconds[list(by_ranks).index(p)]}
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
    predict.compare("17.3", own=own, burst=burst, shared=shared)
stored.remove()

# %% [markdown]
# **Explain.** Disks of their own grow with the ranks. The burst buffer grows until its 4 MB/s are used up, at
# two ranks. The shared file system does not grow at all: more ranks get slower ones.
#
# You may see the own disks stay below 4. A likely cause: four ranks decode on the cores that you have, and
# with two cores decoding takes its turn.
#
# How does that look on a real machine? <details><summary>Answer</summary> Summit's SSDs in the nodes read
# 26.7 TB/s together, its file system 2.5 TB/s (Oral and others, SC19): 970 and 90 MB/s for each of its 27,648
# GPUs. A GPU that trains ResNet-50 at 1,000 images of 110 kB a second wants 110 MB/s. That is more than its
# part of the file system, and far less than its part of the node's own disk.</details>
#
# ### What you take away
# - A thread with a bounded queue hides input behind compute. It passes on the end, errors, and a stop.
# - Exposed input is max(0, input - compute). No depth helps a storage that is too slow on average.
# - A setting drifts on a busy machine: calibrate in the loop, in turns, and refuse what moved.
# - Ranks that share a storage share its bandwidth; disks of their own grow with the ranks.

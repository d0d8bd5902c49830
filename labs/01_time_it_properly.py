# %% [markdown]
# <!-- Generated from solutions/01_time_it_properly.py by `make labs`. Learners work on a copy in work/. -->
# # 01 Time it properly
#
# Anyone who wants to make training faster has to time it. The obvious way, which is to read the
# clock, make the call, and read the clock again, gives wrong answers for three reasons:
#
# - the first call may take many times as long as later ones;
# - a GPU still computes when the call has returned;
# - another program on the machine can slow down any single call.
#
# The result of such a timing looks like any other number, so the mistake goes unnoticed, and
# conclusions are drawn from it.
#
# In this lab we write a small timer that avoids the most common errors in measuring how long a call
# takes. It skips the slow first calls, waits for the device before it reads the clock, and
# summarizes many samples by their median and quartiles, or refuses to give a number. At the end we
# compare two programs on a machine whose speed changes. Most later labs use a timer of this kind.
#
# **After this lab you can** (1) exclude the slow first calls from a result, (2) time a device that
# works while your program goes on, (3) quote a median with its quartiles, or refuse to, and (4)
# compare two programs by letting them take turns.
#
# ![Timelines of a CPU and a device. Without a wait before the first reading of the clock, the measured time includes earlier work; with a wait before both readings it covers only the work of the call](../notebooks/figures/01_waits.svg)
#
# *The CPU launches a call while the device still works on something earlier. Above: a reading right
# after the launch shows only the launch, and a reading after one wait includes the earlier work.
# Below: with a wait before both readings, the time between them is that of this call.*
#
# Needs: cpu, torch · Ranks: 1 · Minutes: 60 · Level: beginner · Before: 00

# %%
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from labkit import check, hint, lab, plots, predict, record, timing, world

lab.start("01_time_it_properly")

# %% tags=["parameters"]
repeat = 30  # timed calls
warmup = 5  # calls before the first timed one
images = 1  # images per call of the convolution
device_work = 0.002  # seconds of work per call of the emulated device
steps = 10_000  # training steps of each job that the optional part simulates

# %% [markdown]
# ## 1. The first call is slower
# The call that we time is a *convolution*, in which a small filter slides over an image. It is the
# most common operation in networks that process images, but any other function would do, because
# this lab never looks at the result.
#
# The very first call of a function does more work than the later ones. It may load code, choose an
# algorithm, allocate memory and fill caches, and later calls find all of this done.
#
# Training makes millions of calls and pays for the first one only once, so the later calls are the
# ones that we want to time. The calls that a timer makes before it looks at the clock are called
# the **warm-up**.
#
# ### Predict
# How many times as long as a later convolution does the very first one of this program take? A
# guess is enough.

# %%
predict("01.1", first_over_later=...)  # a number; 1 means no difference

# %%
torch.set_num_threads(1)  # one thread is disturbed less by what else runs here
device = world.device()
pictures = torch.rand(images, 3, 64, 64, device=device)
filters = torch.rand(32, 3, 5, 5, device=device)


def convolution():
    return torch.nn.functional.conv2d(pictures, filters)


def naive_times():
    """Seconds of `repeat` calls, the obvious way: read the clock, call, read the clock."""
    seconds = []
    for _ in range(repeat):
        begin = time.perf_counter()
        convolution()
        seconds.append(time.perf_counter() - begin)
    return seconds


naive = naive_times()
again = naive_times()  # a control: the same once more
print("The first five calls:      ", ", ".join(timing.human(seconds) for seconds in naive[:5]))
print("Five of the second round:  ", ", ".join(timing.human(seconds) for seconds in again[:5]))
predict.compare("01.1", first_over_later=naive[0] / np.median(naive[5:]))


# %% [markdown]
# **Explain.** You should see that the first round begins with a slow call and the second round does
# not, because by then the library is warm. If you restart the kernel, the slow call comes
# back.
#
# You might also see single slow calls later on, in either round. They have no connection with the
# warm-up, and usually mean that something else runs on this machine. Section 3 deals with them.
#
# ### A machine on which the right answer is known
# On a real computer the exact duration of a call is unknown, so a timer cannot be checked there.
# Your timer will therefore be checked on a *pretend machine*, whose clock moves only when the
# machine works. On this machine the right answer is known exactly, however busy your computer is.
# To read this clock, your timer receives `clock` as an argument. For now you need only `work` and
# `clock`; section 2 uses `launch` and `synchronize`.
#
#     machine = PretendMachine()
#     machine.work(0.1)    # 0.1 s of work
#     machine.clock()      # 0.1

# %%
class PretendMachine:
    """A machine whose clock moves only when it works. All times in seconds."""

    def __init__(self):
        self.now = 0.0
        self.queued = 0.0

    def clock(self):
        return self.now

    def work(self, seconds):  # like a call on the CPU: it returns when the work is done
        self.now += seconds

    # Like a call on a GPU: it returns after 10 µs, and the work waits in a queue.
    def launch(self, seconds):
        self.now += 10e-6
        self.queued += seconds

    def synchronize(self):  # wait until the queue is empty
        self.now += self.queued
        self.queued = 0.0


# %% [markdown]
# ### Exercise 01.1 · Warm up, then take many samples
# To time a single call, write `begin = clock()` and then the call. Right after it, the call's
# duration in seconds is `clock() - begin`.
#
# Write a timer that takes many such samples. About 8 lines. *(beginner)*
#
# - First call `call()` `warmup` times, and leave these calls out of the result.
# - Then time `repeat` calls **one by one** and return the list of durations, in order.
# - Use `clock()` where you would otherwise write `time.perf_counter()`.
#
# For example, the work of the calls takes 0.9, 0.1, 0.2, 0.1, … seconds in turn. With `warmup=1`
# and `repeat=3` the result is `[0.1, 0.2, 0.1]`, after four calls.
#
# <details><summary>Hint 1: the shape</summary>
#
# Write two loops, one after the other. Only the second loop reads the clock, twice per call.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ```python
# for _ in range(warmup):
#     call()
# samples = []
# for _ in range(repeat):
#     begin = clock()
#     ...  # the call, then: append what the clock says now, minus begin
# return samples
# ```
#
# </details>

# %%
def sample(call, repeat, warmup, clock=time.perf_counter):
    """Durations in seconds of `repeat` calls, one by one, after `warmup` calls that do not
    count."""
    raise NotImplementedError("exercise 01.1: Warm up, then take many samples")


# %%
# Asked: A duration for each of the calls after the warm-up, by the clock that
# is handed in.
check("01.1", sample)

# %% [markdown]
# ## 2. A device that works while your program goes on
# A call on a GPU only puts work into a queue and returns. The GPU does the work later, while your
# program goes on, so the call is **asynchronous**. (CUDA, NVIDIA's programming interface for GPUs,
# calls the queue a *stream*.)
#
# To see this without a GPU, we use an emulated device, which is a worker thread that takes pieces
# of work from a queue in order, as a GPU does. The thread only sleeps instead of computing, but it
# really works asynchronously. If this machine has a GPU, the cell below uses the GPU. In both cases
#
# - `device_call()` puts one piece of work into the queue and returns;
# - `synchronize()` waits until the queue is empty.
#
# ### Predict
# The emulated device needs 2 ms for one piece of work. (On a real GPU, a piece of work is the
# multiplication of two matrices of 4096 × 4096 numbers.) How many milliseconds does a timer around
# the *call alone* show?

# %%
predict("01.2", shown_ms=...)  # milliseconds

# %%
if device == "cpu":
    worker = ThreadPoolExecutor(max_workers=1)
    queue = []

    def device_call():
        queue.append(worker.submit(time.sleep, device_work))

    def synchronize():
        while queue:
            queue.pop().result()  # waits until this piece of work is done

else:
    matrix = torch.rand(4096, 4096, device=device)
    synchronize = torch.cuda.synchronize

    def device_call():
        torch.mm(matrix, matrix)


launches = np.median(sample(device_call, repeat, warmup))
print(f"On {device}, around the call alone: {timing.human(launches)}")
predict.compare("01.2", shown_ms=1e3 * launches)


# %% [markdown]
# ### Exercise 01.2 · Wait for the device
# Write `sample_device`. It does the same as `sample`, but each duration covers the work of its own
# call on the device: **all of it, and nothing else**. Work that the warm-up or the program before
# it put into the queue does not belong to the call, so `synchronize()` has to be called in more
# than one place. About 10 lines. *(intermediate)*
#
# For example, `machine.launch(0.5)` has left older work in the queue of a pretend machine, and
# `call()` is `machine.launch(0.1)`. The duration of this call is 0.10001 s, 10 µs for the launch
# and 0.1 s for the work.
#
# <details><summary>Hint 1: the end</summary>
#
# Before the second reading of the clock, the device must have finished this call's work.
# </details>
# <details><summary>Hint 2: the beginning</summary>
#
# What the program did earlier, including the warm-up, may still be in the queue at the first
# reading. In that case your first sample pays for it.
# </details>
# <details><summary>Hint 3: nearly the answer</summary>
#
# In the timing loop, synchronize, read the clock, and call. What has to come before the second
# reading?
# </details>

# %%
def sample_device(call, synchronize, repeat, warmup, clock=time.perf_counter):
    """Durations in seconds of `repeat` calls, each from empty queue to empty queue, after `warmup`
    calls."""
    raise NotImplementedError("exercise 01.2: Wait for the device")


# %%
# Asked: Each of four durations is the call's work and its launch, whatever is
# in the queue before.
check("01.2", sample_device)

# %%
with_work = np.median(sample_device(device_call, synchronize, repeat, warmup))
print(f"The call alone {timing.human(launches)}, with its work {timing.human(with_work)}")

# One wait only, after the call, on a pretend machine whose queue holds older work of 0.5 s.
machine = PretendMachine()
machine.launch(0.5)  # older work: queued, and nobody waits for it
begin = machine.clock()
machine.launch(0.1)
machine.synchronize()
print(f"With a single wait, 0.1 s of work seems to take {machine.clock() - begin:.1f} s")

# %% [markdown]
# **Explain.** The emulated device works for 2 ms, and the timer now shows this time. (A sleep ends
# a little late, so 2.1 or 2.2 ms is right, too. On a GPU you see the time of its matrix product.)
#
# The earlier number, about 0.003 to 0.1 ms, was also measured correctly, but it answers a different
# question, namely how long it takes to *launch* the work. A timer around the call alone stops
# before the work is done.
#
# The last line shows why it is not enough to wait once, after the call. The queue still contained
# 0.5 s of older work when the clock was read for the first time, and the sample includes it.
#
# ## 3. One number, or none
# A sample is the time of your program plus the time of whatever else happened, for example another
# program on this machine (a *noisy neighbor*), an interrupt, or a page of memory that had to be
# fetched.
#
# A single disturbance of this kind changes the *mean* of all samples. The **median**, which is the
# middle one of all samples in order (or the mean of the middle two), stays nearly the same.
#
# ### Predict
# Four calls take 10 ms each and one takes 110 ms. What are the mean and the median?

# %%
predict("01.3", mean_ms=..., median_ms=...)  # milliseconds


# %% [markdown]
# ### How much do the samples differ?
# To describe this, we use the **quartiles** q1 and q3. About a quarter of the samples are below q1,
# and about a quarter are above q3. The middle half of the samples is between the two, in the
# **interquartile range**. If this range is wide compared with the median, a single number would
# describe the calls badly, and the honest answer is not to give one yet.
#
# ### Exercise 01.3 · Quote it or refuse
# For example, q1 is 9 ms, q3 is 11 ms, and the median is 10 ms. The interquartile range is then 2
# ms, which is 0.2 of the median. With `widest=0.25` these samples are steady.
#
# `samples` is a list or an array of seconds. Return a dict with
#
# - `median`, `q1`, `q3`, in seconds: the 50th, 25th and 75th percentile.
#   `np.percentile(samples, [25, 75])` computes two of them;
# - `spread`: the width of the interquartile range, q3 - q1, **as a share of the median**;
# - `steady`: True if the spread is at most `widest`.
#
# About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: percentiles</summary>
#
# q1 is the 25th percentile, the median is the 50th, and q3 is the 75th. `np.percentile` takes a
# list of them.
# </details>
# <details><summary>Hint 2: why a share</summary>
#
# A range of 1 ms is wide for a call of 2 ms and negligible for a call of 2 s. Therefore the spread
# is (q3 - q1) / median.
# </details>

# %%
def summarize(samples, widest=0.25):
    """dict: median, q1, q3 (seconds), spread (a share of the median), steady (spread at most
    `widest`)."""
    raise NotImplementedError("exercise 01.3: Quote it or refuse")


# %%
# Asked: The five entries, right to the last digit, of odd and of even numbers
# of samples.
check("01.3", summarize)

# %% [markdown]
# The check has also compared your prediction. The mean is (4 · 10 + 110) / 5 = 30 ms, although no
# call took about 30 ms. The median is 10 ms, as if the call of 110 ms had taken 10 ms, too.
#
# ### Measure: your timer and labkit's
# The next cell times the convolution with your timer and with `timing.measure`, which most later
# labs use. `timing.measure` does what you wrote (on a GPU it lets the GPU read the time), and in
# addition refuses to quote a number, for example if the spread is too wide. The plot shows its
# samples and, in the row *no care*, those of the first round in section 1.
#
# (`timing.device_sync(device)` waits for a GPU. On a CPU there is nothing to wait for, so it
# returns at once.)

# %%
yours = summarize(sample_device(convolution, lambda: timing.device_sync(device), repeat, warmup))
measured = timing.measure(convolution, repeat=repeat, warmup=warmup, device=device)
print(
    f"yours:  {timing.human(yours['median'])}, spread {yours['spread']:.0%}, steady:"
    f" {yours['steady']}"
)
print(f"labkit: {measured}")
record.add("convolution", seconds=measured, images=images)
plots.spread(
    {"no care": naive, "timing.measure": measured},
    title="Without warm-up, the first call is one of the samples",
)

# %% [markdown]
# **Explain.** On a quiet CPU you should see that the median of your timer and that of labkit differ
# by at most a few percent. The one dot far to the right in the row *no care* is the first call,
# which hardly changes the median. (On a GPU your median may be longer, because it includes the
# wait. The timings with *no care* omit the wait, so most of them come out too short.)
#
# You might see that the convolution is refused, that the medians differ by more, or that more dots
# are far to the right. In that case something else is most likely running on the machine. Your
# timer is right nevertheless, and a refusal says what you can do.
#
# As a control, the next cell measures a call that sleeps alternately for 1 ms and 3 ms.

# %%
naps = itertools.cycle([0.001, 0.003])  # 1 ms, 3 ms, 1 ms, …
print("unsteady:", timing.measure(lambda: time.sleep(next(naps)), repeat=repeat, warmup=warmup))

# %% [markdown]
# **Explain.** The unsteady call should be refused with "do not quote" and a reason. The reason
# names the usual cause, which is another program. Here the call itself is the cause, and more
# samples would not help. Its median is the mean of a short and a long sleep, a duration that no
# call had.
#
# ## 4. Two programs on a machine whose speed changes
# Processors slow down when they get hot, and other programs start and end. If you time all calls of
# A and then all calls of B, you therefore also compare two *moments*, and the difference between
# the moments may be larger than the difference between the programs.
#
# * A A … B B …: all calls of B come later, when the machine is hotter.
# * A B, A B, …: the calls take turns, so B is only one call later than A. We take the ratio of the
#   two times in each *pair*, and then the median of these ratios.
# * A B, B A, …: every second pair is reversed, so that B comes first as often as it comes second.
#
# The next cell tries all three orders on a pretend machine that gets hot: every piece of work takes
# 2 % longer than the one before it. A and B are the *same* work, so the right ratio is 1.

# %%
machine = PretendMachine()
hotter = itertools.count()  # 0, 1, 2, …


def hot_work():
    machine.work(0.1 * 1.02 ** next(hotter))


all_of_a = sample(hot_work, 20, 0, machine.clock)
all_of_b = sample(hot_work, 20, 0, machine.clock)
print(f"A A … B B …   B takes {np.median(all_of_b) / np.median(all_of_a):.2f} times as long as A")

pairs = np.array(sample(hot_work, 40, 0, machine.clock)).reshape(20, 2)  # rows: A, then B
print(f"A B, A B, …   B takes {np.median(pairs[:, 1] / pairs[:, 0]):.2f} times as long as A")

pairs = np.array(sample(hot_work, 40, 0, machine.clock)).reshape(20, 2)
pairs[1::2] = pairs[1::2, ::-1]  # every second pair ran B first: swap, so a row is (A, B) again
ratios = pairs[:, 1] / pairs[:, 0]
print(f"A B, B A, …   B takes {np.median(ratios):.2f} times as long as A")
spread_of_a = summarize(pairs[:, 0])["spread"]
spread_of_ratios = summarize(ratios)["spread"]
print(f"spread of A's times {spread_of_a:.0%}, of the ratios {spread_of_ratios:.0%}")


# %% [markdown]
# **Explain.** When all calls of A come before all calls of B, B seems to take about one and a half
# times as long as A, although the work is equal, because the machine was hotter when B was timed.
# In pairs, an error of 2 % remains because B is always the later one. With every other pair
# reversed, the ratio is 1.00.
#
# The times of A alone are spread far too widely to be quoted. The ratio can be quoted, because both
# calls of a pair ran at nearly the same temperature, so every ratio is 1.02 or 0.98. There are as
# many of one as of the other, so their median is 1.00.
#
# ### Measure: two convolutions against one
# The function `timing.ratio(a, b)` lets two calls take turns in this way, A B, B A, and quotes the
# median of the ratios. It divides the time of `a` by that of `b`, whereas the cell above printed B
# by A. The next cells compare two convolutions with one and, as a control, one convolution with
# itself.

# %%
def two_convolutions():
    convolution()
    return convolution()


# %%
print("Two against one:", timing.ratio(two_convolutions, convolution, device=device))
print("One against one:", timing.ratio(convolution, convolution, device=device))

# %% [markdown]
# **Explain.** On a CPU you should see 2, or close to it, for two convolutions against one, and 1.0
# for the control. On a GPU you might see less than 2. A likely cause, not measured here, is a fixed
# overhead of each timing, which two convolutions have only once.
#
# ### What you take away
# - The first calls do more work than later ones, so a timer makes some calls before it looks at the
#   clock.
# - A call on a GPU returns early. Synchronize before *both* readings of the clock, or you time the
#   launch alone, or earlier work as well.
# - Report the median and the quartiles. If the interquartile range is wide, do not report a number.
# - To compare two programs, let them take turns in the same run.
# - From here on `timing.measure` and `timing.ratio` do all this for you. [Lab 10](10_train_on_one_device.ipynb) continues with a
#   network that learns.
#
# ## Going further (optional): many ranks wait for the slowest one (8 minutes)
# A *[rank](../labs/GLOSSARY.md#rank)* is one of many processes that train together ([lab 20](20_ranks_and_messages.ipynb)). A training step on many ranks ends
# only when its slowest rank has finished, because the ranks average their [gradients](../labs/GLOSSARY.md#gradient) in it.
#
# Suppose that every rank is disturbed in 2 % of its steps, independently of the other ranks, and
# that a disturbed step takes 15 ms instead of 10 ms. The median of every single rank is 10 ms. The
# next cells draw random numbers for 10,000 steps to find the median of the whole job.
#
# ### Predict
# A step of two ranks is undisturbed if the first rank is undisturbed (98 %) and the second is, too:
# 0.98 · 0.98 = 96 %. In what percentage of the steps of 64 ranks is at least one rank disturbed?

# %%
predict("01.3", disturbed_percent=...)  # a number from 0 to 100

# %%
dice = np.random.default_rng(0)
for ranks in (1, 4, 16, 64):
    disturbed = dice.random((steps, ranks)) < 0.02  # by step and rank
    milliseconds = np.where(disturbed, 15, 10)
    slowest = milliseconds.max(axis=1)  # of each step
    share = np.mean(slowest > 10)
    print(
        f"ranks = {ranks:2}: {share:4.0%} of the steps are disturbed, median"
        f" {np.median(slowest):.0f} ms"
    )
predict.right("01.3", disturbed_percent=100 * (1 - 0.98**64))

# %% [markdown]
# **Explain.** A step of 64 ranks is undisturbed only if all 64 ranks are, which happens in 0.98⁶⁴ =
# 27 % of the steps. The other 73 % contain a disturbance.
#
# The median of the job is therefore 15 ms, although the median of every rank is 10 ms. A
# disturbance that hardly matters on one device determines the speed of many.
#
# When several ranks are timed, we therefore take the longest time of each step first, and then the
# median over the steps. This is what `timing.measure(call, comm=comm)` does.
#
# What is the smallest number of ranks with which the job's median is 15 ms?
#
# <details><summary>Answer</summary>
#
# It is 35, because 0.98³⁵ = 0.49, so more than half of the steps contain a disturbance. With 34
# ranks it is still 0.98³⁴ = 0.503.
# </details>
#
# ### Further reading
# - T. Hoefler and R. Belli, *[Scientific Benchmarking of Parallel Computing Systems](https://doi.org/10.1145/2807591.2807644)*, SC, 2015. Twelve rules for reporting measurements, among them medians and their intervals.
# - F. Petrini, D. Kerbyson and S. Pakin, *[The Case of the Missing Supercomputer Performance](https://doi.org/10.1145/1048935.1050204)*, SC, 2003. How small disturbances halved the speed of a machine with thousands of
#   processors.
# - J. Dean and L. Barroso, *[The Tail at Scale](https://doi.org/10.1145/2408776.2408794)*, Communications of the ACM 56(2), 2013. The same effect in services that ask many servers at once.
# - [PyTorch: CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html). PyTorch's own description of asynchronous execution on GPUs.
# - [Python: time.perf_counter](https://docs.python.org/3/library/time.html#time.perf_counter). The clock that this lab reads.

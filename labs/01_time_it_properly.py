# %% [markdown]
# <!-- Generated from solutions/01_time_it_properly.py by `make labs`. Learners work on a copy in work/. -->
# # 01 Time it properly
#
# You write a small timer that does not lie, and meet the ways in which the obvious one does.
#
# **You will be able to** (1) keep the slow first calls out of a result, (2) time a device that
# works while your program goes on, (3) quote a median with its quartiles, or refuse to, (4) compare
# by turns.
#
# Needs: cpu, torch · Ranks: 1 · Minutes: 50 · Level: beginner · Before: 00

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
device_work = 0.002  # seconds of work per call of our stand-in for a device
steps = 10_000  # training steps in the last cell's throw of the dice

# %% [markdown]
# ## 1. A first call is a different program
# The call that we time is a *convolution*: a filter that slides over a picture, the commonest work
# of a net for pictures. Nothing hangs on what it computes.
#
# The very first call of a function loads code, picks an algorithm, asks for memory, fills caches.
# Later calls find all that done. Training pays for it once, and makes millions of calls.
#
# ### Predict
# How many times as long as a later one does the very first convolution of this program take? Guess.

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
# **Explain.** You should see one slow call in the first round, and none in the second: the library
# is warm. Restart the kernel, and the slow call is back.
#
# You may see instead: single slow calls later on. They are no warm-up: something else runs on this
# machine. Section 3 deals with that.
#
# ### A machine to try timers on
# Your timer will be checked on a *pretend machine*. Its clock moves only when it works, so the
# right answer is known exactly, however busy your computer is. That is why your timer is handed its
# `clock`.
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
# Call `call()` `warmup` times without looking at the clock. Then time `repeat` calls **one by one**
# and return the list of durations, in order. Where you would write `time.perf_counter()`, write
# `clock()`. About 8 lines. *(beginner)*
#
# <details><summary>Hint 1: the shape</summary>
# Two loops, one after the other. Only the second reads the clock: twice per call.</details>
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
    """Durations in seconds of `repeat` calls, one by one, after `warmup` calls that nobody
    times."""
    raise NotImplementedError("exercise 01.1: Warm up, then take many samples")


# %%
# Asked: A duration for each of the calls after the warm-up, by the clock that
# is handed in.
check("01.1", sample)

# %% [markdown]
# ## 2. A device that works while you go on
# A call on a GPU returns when the work is *queued*; the GPU does it while your program goes on. A
# timer that does not know this reports wonders.
#
# To see it without a GPU we use a stand-in: a worker thread that takes work from a queue, in order,
# as a GPU's stream does. It computes nothing, it sleeps; but it is truly asynchronous. Where there
# is a GPU, we use that.
#
# - `device_call()` puts one piece of work into the queue, and returns;
# - `synchronize()` waits until the queue is empty.
#
# ### Predict
# The device needs 2 ms for one piece of work. To queue it takes some 3 to 100 µs. What does a timer
# around the *call alone* show, in ms?

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
# Write `sample_device`: as `sample`, but each duration covers its own call's work on the device:
# **all of it, and nothing else**. What was queued earlier, by the warm-up or by the program before,
# does not belong to it. So `synchronize()` has to stand in more than one place. About 10 lines.
# *(intermediate)*
#
# <details><summary>Hint 1: the end</summary>
# Before the second reading of the clock, the device must have finished this call's work.</details>
# <details><summary>Hint 2: the beginning</summary>
# What the program did earlier, the warm-up too, may still be in the queue at the first reading.
# Then your first sample pays for it.</details>
# <details><summary>Hint 3: nearly the answer</summary>
# In the timing loop: synchronize, read the clock, call, … and what, before the second
# reading?</details>

# %%
def sample_device(call, synchronize, repeat, warmup, clock=time.perf_counter):
    """Durations in seconds of `repeat` calls, each from empty queue to empty queue, after `warmup`
    calls."""
    raise NotImplementedError("exercise 01.2: Wait for the device")


# %%
# Asked: Each of four durations is 0.1 s of work and its launch, whatever is in
# the queue before.
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
# **Explain.** The stand-in's work is 2 ms, and now the timer says so (a sleep ends a little late:
# 2.1 ms is right, too). The number of before, some 0.003 to 0.1 ms, was true as well. It was the
# answer to another question: how long does it take to *ask* the device?
#
# Why is one wait, after the call, not enough?
#
# <details><summary>Answer</summary>
#
# The queue may hold older work when the clock is read first. Then the first sample pays for it, as
# the last line above shows.
# </details>
#
# ## 3. One number, or none
# A sample is your program's time plus whatever else happened: a neighbour (another program on this
# machine), an interrupt, a page of memory that had to be fetched. One such hiccup drags a *mean*
# along. The **median**, the middle one of all samples in order, stays.
#
# A quarter of the samples lie below the **quartile** q1, a quarter above q3. Half of them lie
# between: the middle half. Where it is wide, the honest answer is: no number yet.
#
# ### Predict
# Four calls take 10 ms and one takes 110 ms. What are the mean and the median?

# %%
predict("01.3", mean_ms=..., median_ms=...)  # milliseconds


# %% [markdown]
# ### Exercise 01.3 · Quote it or refuse
# Return a dict with
#
# - `median`, `q1`, `q3`, in seconds: the 50th, 25th and 75th percentile.
#   `np.percentile(samples, [25, 75])` gives two of them;
# - `spread`: the width of the middle half, q3 - q1, **as a share of the median**;
# - `steady`: True when the spread is at most `widest`.
#
# About 3 lines. *(beginner)*
#
# <details><summary>Hint 1: percentiles</summary>
# q1 is the 25th percentile, the median the 50th, q3 the 75th. np.percentile takes a list of
# them.</details>
# <details><summary>Hint 2: why a share</summary>
# 1 ms is wide for a call of 2 ms and nothing for one of 2 s: the spread is (q3 - q1) /
# median.</details>

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
# ### Measure
# Yours beside `timing.measure`, which every later lab uses. It does what you wrote, and refuses to
# quote on its own. As a control, once more with a call that sleeps for 1 ms and for 3 ms in turn.
#
# (`timing.device_sync(device)` waits for a GPU. On a CPU there is nothing to wait for, and it
# returns.)

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
    {"no care": naive, "timing.measure": measured}, title="Without warm-up, one run is far out"
)

# %%
naps = itertools.cycle([0.001, 0.003])  # 1 ms, 3 ms, 1 ms, …
print("unsteady:", timing.measure(lambda: time.sleep(next(naps)), repeat=repeat, warmup=warmup))

# %% [markdown]
# **Explain.** You should see yours and labkit's median within some percent of each other, and the
# unsteady call refused: "do not quote", with the reason. Its median would have been a number that
# no call ever took.
#
# You may see instead: the convolution refused, too. Then something else is running. That is the
# machine's fault, not yours, and the remedy is the one that the message names.
#
# ## 4. Two programs, one restless machine
# Processors slow down when they get hot; neighbours come and go. Time all of A, then all of B, and
# you compare two *moments*.
#
# In turns, A B, A B, …, both meet nearly the same machine. Take the ratio of each *pair*, and then
# the median of these ratios. One flaw is left: of each pair, B is the later. So turn every second
# pair round: A B, B A, A B, … Then B is the earlier one as often as the later.
#
# First on a pretend machine that gets hot: every piece of work takes 2 % longer than the one
# before. A and B are the *same* work.

# %%
machine = PretendMachine()
hotter = itertools.count()  # 0, 1, 2, …


def hot_work():
    machine.work(0.1 * 1.02 ** next(hotter))


all_of_a = sample(hot_work, 20, 0, machine.clock)
all_of_b = sample(hot_work, 20, 0, machine.clock)
print(f"A A … B B …   B takes {np.median(all_of_b) / np.median(all_of_a):.2f} times as long as A")

pairs = np.reshape(sample(hot_work, 40, 0, machine.clock), (20, 2))  # a row is a pair: A, then B
print(f"A B, A B, …   B takes {np.median(pairs[:, 1] / pairs[:, 0]):.2f} times as long as A")

pairs = np.reshape(sample(hot_work, 40, 0, machine.clock), (20, 2))
pairs[1::2] = pairs[1::2, ::-1]  # every second pair ran B first: put A in front again
ratios = pairs[:, 1] / pairs[:, 0]
print(f"A B, B A, …   B takes {np.median(ratios):.2f} times as long as A")
spread_of_a = summarize(pairs[:, 0])["spread"]
spread_of_ratios = summarize(ratios)["spread"]
print(f"spread of A's times {spread_of_a:.0%}, of the ratios {spread_of_ratios:.0%}")


# %% [markdown]
# `timing.ratio(a, b)` takes such turns, A B, B A, and quotes the median of the ratios. Two
# convolutions against one, and, as a control, one against itself:

# %%
def two_convolutions():
    convolution()
    return convolution()


# %%
print("Two against one:", timing.ratio(two_convolutions, convolution, device=device))
print("One against one:", timing.ratio(convolution, convolution, device=device))

# %% [markdown]
# **Explain.** One after the other, equal work seems to differ by half: B came when the machine was
# hotter. In pairs 2 % are left, since B is always the later one. With every second pair turned
# round the ratio is 1.00.
#
# A's times are far too spread to be quoted, and yet the ratio can be: the heat changed both times
# of a pair alike.
#
# And your real machine says 2, or close to it, for two against one, and 1.0 for the control. (On a
# GPU you may see less than 2: a timing's wait has a price of its own, and two convolutions share
# one.)
#
# ## 5. Many ranks: the slowest counts
# A *rank* is one of many processes that train together ([lab 20](20_ranks_and_messages.ipynb)). A step over many ranks ends when
# its slowest rank ends. Let each rank meet a hiccup in 2 % of its steps, whatever the others meet:
# 15 ms instead of 10 ms. Every rank's own median is 10 ms. And the job's? The next cell throws dice
# for 10,000 steps.
#
# ### Predict
# A step of two ranks is undisturbed if the first rank is (98 %), and the second is, too: 0.98 ·
# 0.98 = 96 %. What percentage of the steps of 64 ranks holds a hiccup?

# %%
predict("01.3", disturbed_percent=...)  # a number from 0 to 100

# %%
dice = np.random.default_rng(0)
for ranks in (1, 4, 16, 64):
    hiccups = dice.random((steps, ranks)) < 0.02  # by step and rank
    milliseconds = np.where(hiccups, 15, 10)
    slowest = milliseconds.max(axis=1)  # of each step
    share = np.mean(slowest > 10)
    print(
        f"{ranks:3} ranks: {share:4.0%} of the steps hold a hiccup, median"
        f" {np.median(slowest):.0f} ms"
    )
predict.right("01.3", disturbed_percent=100 * (1 - 0.98**64))

# %% [markdown]
# **Explain.** Noise that is harmless on one device sets the pace of many. A step of 64 ranks is
# undisturbed only if all 64 are: 0.98⁶⁴ = 27 %. The other 73 % hold a hiccup. So the median of the
# job is 15 ms, though every rank's own is 10 ms.
#
# So across ranks: the longest time of each step, then the median. `timing.measure(call, comm=comm)`
# does it.
#
# From how many ranks on is the job's median 15 ms?
#
# <details><summary>Answer</summary>
#
# From 35 on: there 0.98³⁵ = 0.49, so more than half of the steps hold a hiccup.
# </details>
#
# ### What you take away
# - Warm up: the first calls are another program.
# - Synchronize before *both* readings of the clock, or you time the launch, or what came before.
# - Median and quartiles. A wide middle half is a refusal, not a result.
# - Compare by turns, in the same run. Across ranks, the slowest counts.
# - From here on `timing.measure` does this for you. [Lab 10](10_train_on_one_device.ipynb) brings something worth timing: a net
#   that learns.

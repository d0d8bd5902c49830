# %% [markdown]
# # 01 Time it properly
#
# You write a small timer that does not lie, and meet the ways in which the obvious one does.
#
# **You will be able to** (1) keep the slow first calls out of a result, (2) time a device that works while
# your program goes on, (3) quote a median with its quartiles, or refuse to, (4) compare by turns.
#
# Needs: cpu, torch · Ranks: 1 · Minutes: 25 · Before: 00

# %%
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from labkit import check, expect, hint, lab, plots, predict, record, timing, world

lab.start("01_time_it_properly")

# %% tags=["parameters"]
repeat = 30  # timed calls
warmup = 5  # calls before the first timed one
images = 1  # images per call of the convolution
device_work = 0.002  # seconds of work per call of our stand-in for a device
steps = 10_000  # training steps in the last cell's throw of the dice

# %% [markdown]
# ## 1. A first call is a different program
# It loads code, picks an algorithm, asks for memory, fills caches. Training pays for that once.
#
# ### Predict
# How many times as long as a later one does the very first convolution of this program take?

# %%
predict("01.1", first_over_later=...)  # a number; 1 means no difference

# %%
torch.set_num_threads(1)  # one thread is disturbed less by what else runs here
device = world.device()
pictures = torch.rand(images, 3, 64, 64, device=device)
filters = torch.rand(32, 3, 5, 5, device=device)


def convolution():
    return torch.nn.functional.conv2d(pictures, filters)


naive = []
for _ in range(repeat):  # the obvious way: read the clock, call, read the clock
    begin = time.perf_counter()
    convolution()
    naive.append(time.perf_counter() - begin)
print("The first five calls:", ", ".join(timing.human(seconds) for seconds in naive[:5]))
predict.compare("01.1", first_over_later=naive[0] / np.median(naive[5:]))


# %% [markdown]
# Run that cell again: the slow call is gone, the library is warm. (Restart the kernel and it is back.) Your
# timer will be checked on a *pretend machine*. Its clock moves only when it works, so the right answer is
# known exactly, however busy your computer is. That is why your timer is handed its `clock`.

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

    def launch(self, seconds):  # like a call on a GPU: it returns after 10 µs, and the work waits in a queue
        self.now += 10e-6
        self.queued += seconds

    def synchronize(self):  # wait until the queue is empty
        self.now += self.queued
        self.queued = 0.0


# %% [markdown]
# ### Exercise 01.1 · Warm up, then take many samples
# Call `call()` `warmup` times without looking at the clock. Then time `repeat` calls **one by one** and
# return the list of durations. Where you would write `time.perf_counter()`, write `clock()`. About 8 lines.
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
    """Durations in seconds of `repeat` calls, one by one, after `warmup` calls that nobody times."""
    raise NotImplementedError("exercise 01.1: Warm up, then take many samples")


# %%
with check("01.1"):
    machine = PretendMachine()
    durations = iter([0.9, 0.5, 0.3] + [0.1, 0.2] * 50)  # three slow calls, then 0.1 s and 0.2 s in turn
    got = sample(lambda: machine.work(next(durations)), repeat=6, warmup=3, clock=machine.clock)
    expect(np.shape(got) == (6,), f"repeat=6 asks for a list of six durations; sample returned {got}.")
    expect(max(got) > 0.09, "The samples are nearly zero. Read the clock that was handed in: `clock()`.")
    expect(got[0] < 0.25, f"The first sample is {got[0]:.1f} s, a warm call takes 0.1 s. Did you warm up?")
    expect(got[-1] < 0.25, f"The samples grow, up to {got[-1]:.1f} s: each also holds all calls before it.")
    expect.close(got, [0.1, 0.2] * 3, "the six durations")

# %% [markdown]
# ## 2. A device that works while you go on
# A call on a GPU returns when the work is *queued*. A timer that does not know this reports wonders. To see
# it without a GPU we use a stand-in: a worker thread that takes work from a queue, in order, as a CUDA stream
# does. It computes nothing, it sleeps; but it is truly asynchronous. Where there is a GPU, we use that.
#
# ### Predict
# The device needs 2 ms for one piece of work. What does a timer around the *call alone* show?

# %%
predict("01.2", shown_ms=...)  # milliseconds

# %%
if device == "cpu":
    worker = ThreadPoolExecutor(max_workers=1)
    queue = [worker.submit(int)]

    def device_call():
        queue[0] = worker.submit(time.sleep, device_work)

    def synchronize():
        queue[0].result()  # the queue is in order: when its last piece of work is done, all is done
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
# Write `sample_device`: as `sample`, but each duration covers its own call's work on the device: **all of it,
# and nothing else**. `synchronize()` waits until the queue is empty. It has to stand in more than one place.
#
# <details><summary>Hint 1: the end</summary>
# Before the second reading of the clock, the device must have finished this call's work.</details>
# <details><summary>Hint 2: the beginning</summary>
# What the program did earlier, the warm-up too, may still be in the queue at the first reading. Then your
# first sample pays for it.</details>
# <details><summary>Hint 3: nearly the answer</summary>
# In the timing loop: synchronize, read the clock, call, … and what, before the second reading?</details>

# %%
def sample_device(call, synchronize, repeat, warmup, clock=time.perf_counter):
    """Durations in seconds of `repeat` calls, each from empty queue to empty queue, after `warmup` calls."""
    raise NotImplementedError("exercise 01.2: Wait for the device")


# %%
def four_samples(warmup):
    """Your durations of four calls with 0.1 s of work each, on a pretend machine."""
    machine = PretendMachine()
    machine.launch(0.5)  # the program before yours has left work in the queue
    return sample_device(lambda: machine.launch(0.1), machine.synchronize, 4, warmup, machine.clock)


with check("01.2"):
    for calls in (3, 0):
        got = four_samples(warmup=calls)
        expect(np.shape(got) == (4,), f"repeat=4 asks for a list of four durations; you returned {got}.")
        expect(got[1] > 0.09, f"A sample says {1e6 * got[1]:.0f} µs for 0.1 s of work: the launch alone.")
        first = f"With warmup={calls} the first sample is {got[0]:.1f} s, the second {got[1]:.1f} s"
        expect(got[0] < 0.11, f"{first}: the first also holds work that was in the queue before it.")
        expect.close(got, [0.1 + 10e-6] * 4, "the durations (10 µs of launch and 0.1 s of work)")
print("With the work:", timing.human(np.median(sample_device(device_call, synchronize, repeat, warmup))))

# %% [markdown]
# ## 3. One number, or none
# A sample is your program's time plus whatever else happened: a neighbour, an interrupt, a page fault. One
# hiccup drags a mean along; the **median** stays. A quarter of the samples lie below the **quartile** q1, a
# quarter above q3. Where this middle half is wide, the honest answer is: no number yet.
#
# ### Predict
# Four calls take 10 ms and one takes 110 ms. What are the mean and the median?

# %%
predict("01.3", mean_ms=..., median_ms=...)  # milliseconds


# %% [markdown]
# ### Exercise 01.3 · Quote it or refuse
# Return a dict with `median`, `q1` and `q3` in seconds, as `np.percentile` gives them; `spread`, the width of
# the middle half **as a share of the median**; and `steady`: True when the spread is at most `widest`.
#
# <details><summary>Hint 1: percentiles</summary>
# q1 is the 25th percentile, the median the 50th, q3 the 75th. np.percentile takes a list of them.</details>
# <details><summary>Hint 2: why a share</summary>
# 1 ms is wide for a call of 2 ms and nothing for one of 2 s: the spread is (q3 - q1) / median.</details>

# %%
def summarize(samples, widest=0.25):
    """dict: median, q1, q3 (seconds), spread (a share of the median), steady (spread at most `widest`)."""
    raise NotImplementedError("exercise 01.3: Quote it or refuse")


# %%
with check("01.3"):
    hiccup = [10, 10, 10, 10, 110]
    got = summarize(hiccup)
    expect(isinstance(got, dict), f"summarize returns a dict; it returned {got}.")
    expect.close(got["median"], np.median(hiccup), "the median of 10, 10, 10, 10 and 110 (30 is their mean)")
    expect(got["steady"], "One hiccup must not spoil a result: `spread` looks at the middle half only.")
    for unit in (1, 0.001):
        got = summarize(unit * np.array([1, 5, 3, 2, 4]))
        expect.close([got["q1"], got["q3"]], [2 * unit, 4 * unit], f"q1 and q3 of {unit} times 1, 5, 3, 2, 4")
        expect.close(got["spread"], 2 / 3, f"spread of {unit} times 1, 5, 3, 2, 4, as a share of the median")
        expect(not got["steady"], "A spread of 67 % is not steady at widest=0.25.")
    expect(summarize([1, 5, 3, 2, 4], widest=0.7)["steady"], "A spread of 67 % is steady at widest=0.7.")
predict.compare("01.3", mean_ms=np.mean(hiccup), median_ms=np.median(hiccup))

# %% [markdown]
# ### Measure
# Yours beside `timing.measure`, which every later lab uses. It does what you wrote, and refuses to quote on
# its own.

# %%
yours = summarize(sample_device(convolution, lambda: timing.device_sync(device), repeat, warmup))
measured = timing.measure(convolution, repeat=repeat, warmup=warmup, device=device)
print(f"yours:  {timing.human(yours['median'])}, spread {yours['spread']:.0%}, steady: {yours['steady']}")
print(f"labkit: {measured}")
record.add("convolution", seconds=measured, images=images)
plots.spread({"first calls, no care": naive, "timing.measure": measured})

# %% [markdown]
# ## 4. Two programs, one restless machine
# Processors slow down when they get hot, neighbours come and go. Time all of A, then all of B, and you
# compare two *moments*. `timing.ratio` takes turns (A B, B A, …) and the median of the pairs' ratios: both
# meet the same machine. Even where neither time can be quoted, their ratio often can.

# %%
turns = timing.ratio(lambda: [len(convolution()) for _ in range(2)], convolution, device=device)
print("Two convolutions against one:", turns)

# %% [markdown]
# ## 5. Many ranks: the slowest counts
# A step over many ranks ends when its slowest rank ends. Let each rank meet a hiccup in 2 % of its steps: 15
# ms instead of 10 ms. Every rank's own median is 10 ms. And the job's?

# %%
dice = np.random.default_rng(0)
for ranks in (1, 4, 16, 64):
    slowest = np.where(dice.random((steps, ranks)) < 0.02, 15, 10).max(axis=1)  # ms, of each step
    share = np.mean(slowest > 10)
    print(f"{ranks:3} ranks: {share:4.0%} of the steps hold a hiccup, median {np.median(slowest):.0f} ms")

# %% [markdown]
# Noise that is harmless on one device sets the pace of many (1 - 0.98⁶⁴ = 73 %). So across ranks: the longest
# time of each step, then the median. `timing.measure(call, comm=comm)` does it.
#
# ### What you take away
# - Warm up: the first calls are another program.
# - Synchronize before *both* readings of the clock, or you time the launch, or what came before.
# - Median and quartiles. A wide middle half is a refusal, not a result.
# - Compare by turns, in the same run. Across ranks, the slowest counts.
# - From here on `timing.measure` does this for you. Lab 10 brings something worth timing: a net that learns.

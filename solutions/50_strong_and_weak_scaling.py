# %% [markdown]
# # 50 Strong and weak scaling
#
# If you train on eight GPUs instead of one, you pay eight times as much per hour, but training
# rarely becomes eight times as fast. A statement such as "it scales with 90 % efficiency" can mean
# very different things, because it depends on whether the work grows with the number of ranks, on
# the run with which you compare, and on how slow the program was to begin with. If you know where
# the missing time goes, you also know whether a faster network or another batch size would help.
#
# In this lab we measure how much faster training gets with more ranks, and find out where the time
# goes. We time the same training step on 1, 2, 4 and more ranks, and compute speed-up and
# efficiency. Then we fit Amdahl's law, a formula for the speed-up, to the result and see where it
# fails. Finally, we divide each step into computing, waiting and communicating.
#
# **After this lab you can** (1) set up a strong and a weak scaling study, (2) compute speed-up and
# efficiency without the classic mistakes, (3) fit Amdahl's law and know its limits, and (4) divide
# a step into its parts.
#
# ![In strong scaling two ranks share one batch, and a step takes 24 instead of 40 milliseconds. In weak scaling each of two ranks has a batch of its own, and a step takes 44 milliseconds](50_scaling.svg)
#
# *Strong scaling divides the same work among the ranks, so the step gets shorter. Weak scaling
# gives every rank the same work, so at best the step takes the same time. The numbers are those of
# the example in section 1.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 55 · Level: intermediate · Before: 01, 21, 23, 30

# %%
import time
from functools import partial

import numpy as np
import torch
import virtual
from labkit import check, hint, lab, launch, nets, placement, plots, predict, record, scaling, world
from labkit.timing import device_sync, measure
from support import lab50

lab.start("50_strong_and_weak_scaling")

# %% tags=["parameters"]
images = 0  # per step: of the whole job (strong scaling), of each rank (weak); 0: 32, on a GPU 256
width = 0  # channels of the net's first layer; 0: 32, on a GPU 256
rate = 0.01  # learning rate
repeat = 12  # timed steps per study
warmup = 3  # steps before the first timed one
most = 8  # ranks this lab starts by itself at most; under a launcher, all ranks of the job count
late = 0.1  # seconds that one rank comes too late, in the experiment of section 3

# %%
# A GPU needs more work in a step than a core does. Else it waits for the next kernel most of the
# time, more ranks would only make the waiting longer, and communication would get the blame.
size = 256 if world.device().startswith("cuda") else 32
batch = images or size
channels = width or size

# %% [markdown]
# ## 1. Two questions
# **Strong scaling** means the same work on more ranks. Its question is: "My batch has 256 images.
# How soon have 8 ranks processed it?"
#
# **Weak scaling** means that the work grows with the ranks. Its question is: "Each rank has 256
# images. Does a step of 8 ranks take as long as a step of one?"
#
# Two numbers answer these questions:
#
# - *Speed-up* is how many times as much work is done per second as on one rank. The ideal value is
#   the number of ranks.
# - *Efficiency* is speed-up / ranks, the useful share of what you pay for. The ideal value is 1, or
#   100 %.
#
# For example, suppose that one rank computes a step in 40 ms, and that two ranks need 4 ms to
# allreduce their gradients.
#
# | on two ranks | a step takes | speed-up | efficiency |
# |---|---|---|---|
# | strong | 40 / 2 + 4 = 24 ms | 40 / 24 = 1.67 | 83 % |
# | weak | 40 + 4 = 44 ms, for twice the images | 2 · 40 / 44 = 1.82 | 91 % |
#
# ### Predict
# Take as many ranks as this machine has cores (or GPUs), but at least 2 and at most 8. What
# speed-up do you expect in strong scaling, and what efficiency in weak scaling? You cannot compute
# these numbers yet, so guess, and the measurements will show how close you were.

# %%
predict("50.1", speedup_strong=1.8, efficiency_weak=0.9)

# %% [markdown]
# ### Who computes what?
# In weak scaling, every rank computes `batch` images. In strong scaling, `batch` images are divided
# among the ranks. Since all ranks wait for the slowest one, the shares differ by at most one image.
# For example, 3 ranks divide 32 images into 11, 11 and 10.


# %%
def share(kind, images, rank, ranks):
    """Images per step of one rank, an int. "strong": `images` is the job's batch; "weak": each
    rank's."""
    if kind == "weak":
        return images
    return images // ranks + (1 if rank < images % ranks else 0)


# %% [markdown]
# ### Measure: steps on more and more ranks
# We now time one training step on 1, 2, 4 and more ranks, for both kinds of scaling. As in lab 30,
# the step consists of the forward pass, the backward pass, the allreduce of the gradients, and the
# update. It records two times:
#
# - *compute* lasts from the beginning of the step until this rank has its own gradient;
# - *allreduce* lasts from then until this rank has the sum over all ranks.
#
# Every rank computes with one thread, at *every* number of ranks. If a single rank used all cores,
# more ranks could not gain anything.
#
# You don't need to read the next three cells now, except for `stamps.append(…)` in `train_step`,
# which stores the two times of a step. `study` repeats the step on each rank, and the last cell
# starts a job for each number of ranks.


# %%
def train_step(comm, place, net, pictures, labels, total, stamps):
    """One step; stamps gets its (seconds of compute, of allreduce). Returns this rank's part of the
    loss."""
    begin = time.perf_counter()
    net.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(pictures), labels, reduction="sum") / total
    loss.backward()
    gradient = torch.cat([weights.grad.flatten() for weights in net.parameters()])
    device_sync(place.device)  # a GPU's calls return before the work is done
    computed = time.perf_counter()
    # Across ranks: the parts of the gradient add up to the gradient of the job's batch, in place.
    place.allreduce(comm, gradient)
    stamps.append((computed - begin, time.perf_counter() - computed))
    with torch.no_grad():
        vector = torch.nn.utils.parameters_to_vector(net.parameters()) - rate * gradient
        torch.nn.utils.vector_to_parameters(vector, net.parameters())
    return loss.detach()


# %%
# The measurement on each rank.
def study(comm, kind, late=0.0):
    """Time training steps over comm: Measurement of a step; s of compute and allreduce per step;
    loss.

    late: seconds that rank 0 begins each step later than the others.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)  # every rank draws the same weights and pictures
    place = placement.of_mpi()
    net = nets.torch_conv(channels).to(place.device)
    stamps = []
    shares = [share(kind, batch, rank, comm.size) for rank in range(comm.size)]
    pictures, labels = lab50.own_images(shares, comm.rank)
    step = partial(train_step, comm, place, net, pictures, labels, sum(shares), stamps)

    def step_of_rank():
        if comm.rank == 0:
            time.sleep(late)
        return step()

    measured = measure(step_of_rank, repeat=repeat, warmup=warmup, comm=comm, device=place.device)
    compute, allreduce = np.array(stamps[warmup:]).T
    loss = comm.allreduce(float(step()))  # the ranks' parts add up to the loss of the job
    return {
        "step": measured,
        "compute": compute,
        "allreduce": allreduce,
        "loss": loss,
        "place": place,
    }


# %%
# On 1, 2, 4, … ranks; the last number is that of all cores (at most `most`), or of all ranks of the
# job. Some 20 s on 2 cores.
largest = launch.ranks_here(max(2, min(most, torch.cuda.device_count() or world.cores())))
counts = [2**k for k in range(12) if 2**k < largest]
counts.append(largest)
jobs = {"strong": {}, "weak": {}}
measured = {"strong": {}, "weak": {}}
for kind in jobs:
    for ranks in counts:
        # Across ranks: a job for each number of ranks; under a launcher, the first ranks of the job
        # there is.
        job = launch.run(study, kind, ranks=ranks, threads=1)
        step = job[0]["step"]
        loss = job[0]["loss"]
        place = job[0]["place"]
        print(f"{kind:6} ranks {ranks}: {step}; loss {loss:.3f}")
        record.add(kind, seconds=step, ranks=ranks, images=batch, **place.fields())
        jobs[kind][ranks] = job
        measured[kind][ranks] = step
print(place.describe())
near = 1e-4 if place.device == "cpu" else 1e-2  # a GPU's convolutions use TF32: 11 significant bits
losses = [job[0]["loss"] for job in jobs["strong"].values()]
assert np.allclose(losses, losses[0], rtol=near), f"Strong scaling changed the loss: {losses}"

# %% [markdown]
# **Explain.** Each line shows the median time of a step, the interquartile range (which contains
# the middle half of the steps), and the loss. In strong scaling, any number of ranks has the same
# images, so the loss is the same up to rounding. In weak scaling, more ranks have a larger batch,
# so the loss is a different one.
#
# ### Exercise 50.1 · Speed-up and efficiency
# Write `efficiency(times, weak)` in about 3 lines, and `speedup(times, weak)` in 1. `times`
# contains the seconds per step by number of ranks, for example `{1: 8.0, 2: 4.0, 4: 2.5}`. `weak`
# is true for weak scaling and false for strong scaling. Both functions return a dict with the same
# numbers of ranks. *(intermediate)*
#
# Often the time of one rank is missing, for example because the model is too large for one GPU and
# the study starts at 8 GPUs. Therefore the **smallest** number of ranks, b, is the baseline, and
# its efficiency is 1 by definition. The ideal time follows from t(b), the time per step on b ranks:
#
# | | strong scaling | weak scaling |
# |---|---|---|
# | ideal time on p ranks | t(b) · b / p, because t(b) · b is the work | t(b), because each rank has the same work |
# | the example of section 1, b = 1 and p = 2 | 40 · 1 / 2 = 20 ms | 40 ms |
# | its efficiency | 20 / 24 = 83 % | 40 / 44 = 91 % |
#
# In both kinds, efficiency (speed-up / ranks) is also ideal time / measured time. The speed-up is
# efficiency times p, so on b ranks it is b.
#
# For example, S-Caffe (Awan et al., 2017) trained 2.5 times as fast on 160 GPUs as on 32. This is
# strong scaling with b = 32:
#
# - The ideal is 160 / 32 = 5 times as fast.
# - The efficiency is 2.5 / 5 = 50 %.
# - The speed-up is 0.5 · 160 = 80.
#
# <details><summary>Hint 1: the baseline</summary>
#
# b is min(times), whatever the order of the dict. The ideal times follow from times[b].
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ```python
# b = min(times)
# ideal = {p: times[b] if weak else ... for p in times}
# return {p: ideal[p] / times[p] for p in times}
# ```
#
# In `speedup`, call `efficiency(times, weak)` and multiply each value by its p.
#
# </details>


# %%
def efficiency(times, weak):
    """times: {ranks: seconds per step}. Returns {ranks: efficiency}; the fewest ranks have 1.0."""
    ### BEGIN SOLUTION
    b = min(times)
    ideal = {p: times[b] if weak else times[b] * b / p for p in times}
    return {p: ideal[p] / times[p] for p in times}
    ### END SOLUTION


def speedup(times, weak):
    """times: {ranks: seconds per step}. Returns {ranks: speed-up}."""
    ### BEGIN SOLUTION
    return {p: useful * p for p, useful in efficiency(times, weak).items()}
    ### END SOLUTION


# %%
check("50.1", efficiency, speedup)

# %%
plots.scaling(
    measured["strong"],
    title=lab50.titled("Strong scaling: one batch for all ranks", measured["strong"]),
)
plots.efficiency(
    measured["weak"],
    weak=True,
    title=lab50.titled("Weak scaling: a batch for each rank", measured["weak"]),
)
typical = {  # kind -> {ranks: seconds of a step}
    kind: {ranks: step.median for ranks, step in steps.items()} for kind, steps in measured.items()
}
speedup_here = speedup(typical["strong"], weak=False)[largest]  # by your functions
efficiency_here = efficiency(typical["weak"], weak=True)[largest]
predict.compare("50.1", speedup_strong=speedup_here, efficiency_weak=efficiency_here)

# %% [markdown]
# **Explain.** The gray line is the ideal, and the bars show the interquartile range of the steps.
# You should see both curves below the ideal, provided that the machine runs no other programs. The
# missing part is communication, waiting, and computing that became slower. Section 3 distinguishes
# these three.
#
# Two other results are possible on your machine:
#
# - A curve is above the ideal (*super-linear* speed-up). The smaller share of the images may fit
#   into a cache, or another program disturbed the run on one rank.
# - The bars are wide, a title says "not steady", or two ranks have a speed-up below 1. In these
#   cases the machine was probably busy, and you should measure again.
#
# A colleague's program computes four times as slowly as yours, and yet it scales better. How is
# this possible?
#
# <details><summary>Answer</summary>
#
# Suppose that on one rank your program needs 40 ms and your colleague's needs 160 ms, and that on 8
# ranks both programs communicate for 5 ms.
#
# | on 8 ranks | a step takes | efficiency |
# |---|---|---|
# | yours | 40 / 8 + 5 = 10 ms | 5 / 10 = 50 % |
# | the colleague's | 160 / 8 + 5 = 25 ms | 20 / 25 = 80 % |
#
# The colleague's efficiency is better, although the program is 2.5 times as slow. Therefore always
# quote the time per step, too.
# </details>
#
# <details><summary>How are strong and weak scaling related to scale-up and scale-out?</summary>
#
# Strong and weak say how the *work* grows, while scale-up and scale-out (lab 02) say where the
# added ranks are. On your own machine this lab scales up, because it adds cores or GPUs to one
# node. Both scale-up and scale-out can be strong or weak.
# </details>

# %% [markdown]
# ## 2. Amdahl's law
# Amdahl's law predicts from a few measured points how fast many ranks will be. It needs only one
# number for this, the share s of one rank's time that is *serial*, which means that more ranks do
# not shorten it. The ranks divide the other part of the time, so on p ranks a step takes
#
# **t(p) = t(1) · (s + (1 - s) / p)**
#
# Therefore the speed-up t(1) / t(p) never exceeds 1 / s, however many ranks you take.
#
# With s = 10 %, for example, 4 ranks take t(1) · (0.1 + 0.9 / 4) = 0.325 t(1). They are 3.1 times
# as fast as one rank, and no number of ranks is more than 10 times as fast.
#
# ### Predict
# Now s is 5 %. How many times as fast are 64 ranks as one? Compute t(1) / t(64) with the formula.

# %%
predict("50.2", speedup_of_64=15)

# %%
predict.right("50.2", speedup_of_64=1 / (0.05 + 0.95 / 64))

# %% [markdown]
# ### Exercise 50.2 · Fit the serial share
# Write `serial_share(times)`, which returns the s that fits the measured times. `times` is a dict
# as above, with one rank among its keys. About 4 lines. *(intermediate)*
#
# Divided by t(1), the law is t(p) / t(1) = s + (1 - s) / p. If you subtract 1 / p on both sides, it
# has the form y = s · x, with one x and one y for each number of ranks:
#
# **t(p) / t(1) - 1 / p = s · (1 - 1 / p)**
#
# Several measured times satisfy this equation only approximately. The s with the smallest sum of
# squared errors is the sum of x·y divided by the sum of x·x. For example, `{1: 10.0, 2: 5.5}` gives
# s = 0.025 / 0.25 = 10 %:
#
# | ranks | x = 1 - 1 / p | y = t(p) / t(1) - 1 / p | x·y | x·x |
# |---|---|---|---|---|
# | 1 | 0 | 1 - 1 = 0 | 0 | 0 |
# | 2 | 0.5 | 0.55 - 0.5 = 0.05 | 0.025 | 0.25 |
# | sum | | | 0.025 | 0.25 |
#
# <details><summary>Hint 1: arrays</summary>
#
# With p = np.array(list(times)) and t = np.array(list(times.values())), x and y take one line each.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# y = t / times[1] - 1 / p, x is as above, and the result is np.sum(x * y) / …
# </details>


# %%
def serial_share(times):
    """times: {ranks: seconds}, one rank among them. Returns Amdahl's s by least squares."""
    ### BEGIN SOLUTION
    p = np.array(list(times))
    t = np.array(list(times.values()))
    x = 1 - 1 / p
    y = t / times[1] - 1 / p
    return np.sum(x * y) / np.sum(x * x)
    ### END SOLUTION


# %%
check("50.2", serial_share)

# %%
# Your strong scaling, by your function and by labkit's fit.
if largest > 1:  # a batch job of one rank is only the first point of a study
    fit = scaling.fit_amdahl(measured["strong"])
    medians = {ranks: step.median for ranks, step in measured["strong"].items()}
    print(f"by hand: s = {serial_share(medians):.1%}; with the spread of the samples: {fit}")
    plots.scaling(
        measured["strong"],
        fit=fit,
        title=lab50.titled(f"Amdahl's law through {len(counts)} points", measured["strong"]),
    )

# %% [markdown]
# **Explain.** On two cores there are only two points, and a law with **two free numbers**, here
# t(1) and s, passes through any two points (as long as s is between 0 and 1). The curve therefore
# goes through both of them whether the law holds or not. To test a law, you need at least a third
# point.
#
# With more points, your fit and labkit's differ a little, because labkit's fit weights errors in
# percent of each time and also fits t(1).
#
# If two ranks were slower than one, or more than twice as fast, the s that you computed by hand is
# above 100 % or below 0, which no share can be. labkit's fit is then limited to 100 % or 0.
#
# ### Where the law ends
# A few cores cannot show what happens on many ranks, but the formula of lab 23 can. Suppose that a
# step has 1 s of work on one rank, and that p ranks divide this work and then perform a ring
# allreduce of n bytes. The next cell **computes** the time of this step with these values:
#
# - n = 100 MB;
# - α = 5 µs is the time per message;
# - β is the time per byte, on a link that transfers 2.9 GB/s, nearly the full rate of 25 Gb/s
#   Ethernet.
#
# The step has these three parts:
#
# $$t(p) = \underbrace{\frac{1\,\mathrm{s}}{p}}_{\text{work}} + \underbrace{2(p-1)\,\alpha}_{\text{messages}} + \underbrace{\frac{2(p-1)}{p}\,n\beta}_{\text{bytes}}$$
#
# The cell fits Amdahl's law to 1, 2, 4 and 8 ranks, and then extrapolates it to 4096 ranks.

# %%
link = virtual.machine("roce25_p100").between
allreduce_time = partial(scaling.costs.ring_allreduce_time, alpha=link.latency, beta=link.beta)
many = [2**k for k in range(13)]  # 1 to 4096 ranks
strong = {ranks: 1 / ranks + allreduce_time(1e8, ranks) for ranks in many}
first = {ranks: strong[ranks] for ranks in (1, 2, 4, 8)}
share_of_first = serial_share(first)
law = {ranks: float(scaling.amdahl(ranks, share_of_first)) for ranks in many}
curves = {"computed": scaling.speedup(strong), "Amdahl, fitted to 1 to 8 ranks": law}
plots.lines(
    curves, xlabel="ranks", ylabel="speed-up", title="Amdahl's law knows no latency", logx=True
)
print(f"s = {share_of_first:.1%}, so at most {1 / share_of_first:.1f} times as fast")
best = min(strong, key=strong.get)
print(f"computed: at best {strong[1] / strong[best]:.1f} times as fast, on {best} ranks")

# %% [markdown]
# **Explain.** Up to about 100 ranks the law and the computed steps agree, although no part of the
# program is serial. The fit takes the *bytes* for serial work, because both add a time of the same
# form to the ideal time, 1 s / p:
#
# | | added to the ideal time |
# |---|---|
# | serial work in Amdahl's law, with t(1) = 1 s | s · (1 − 1/p) seconds |
# | the bytes in our formula | 2 (p − 1) / p · nβ = 2nβ · (1 − 1/p) |
#
# The two are equal if s = 2nβ / t(1) = 69 ms / 1 s = 6.9 %.
#
# The time for the *messages*, however, grows without limit, which no share s can express. On 4096
# ranks the messages take 41 ms and the work only 0.24 ms. There the law predicts too high a
# speed-up, and in the end more ranks are *slower*.

# %% [markdown]
# ## 3. Where the time went
# How much of the missing speed-up is communication? A timer around the allreduce cannot tell,
# because a rank that arrives early waits *inside* the allreduce, so the timer measures
# communication **and** waiting.
#
# Only the rank that arrives last does not wait, and all ranks leave the allreduce at about the same
# time. The last rank's time in the allreduce is therefore the communication. The table shows this
# for one step, in ms. Rank 1 arrives last and communicates for 2 ms, and the other two ranks wait
# for 3 ms:
#
# | | rank 0 | rank 1 | rank 2 | mean |
# |---|---|---|---|---|
# | compute | 10 | 13 | 10 | 11 |
# | allreduce | 5 | 2 | 5 | 4 |
# | of this, communication | 2 | 2 | 2 | 2 |
# | of this, waiting | 3 | 0 | 3 | 2 |
#
# In this example, the rank that arrived last also computed longest. This is not always so, because
# another rank may have begun its step late. Only the times in the allreduce tell which rank was
# last.
#
# ### Exercise 50.3 · Compute, wait, communicate
# Write `where(compute, allreduce)`. Both arguments are arrays of seconds with the shape (steps,
# ranks). Return a dict of three arrays (steps,), with the values of the table's last column for
# every step:
#
# - `compute`: the mean over the ranks;
# - `communicate`: the time in the allreduce of the rank that arrived last;
# - `wait`: the mean time in the allreduce, minus `communicate`.
#
# About 3 lines. `array.mean(axis=1)` is the mean over the ranks. *(intermediate)*
#
# <details><summary>Hint 1: who arrived last?</summary>
#
# All ranks leave the allreduce together, so the last one to arrive spends the shortest time in it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Per step: axis=1. communicate = allreduce.min(axis=1), and wait is allreduce.mean(axis=1) - …
# </details>


# %%
def where(compute, allreduce):
    """compute, allreduce: (steps, ranks) s. Returns {"compute", "wait", "communicate"}: (steps,)
    each."""
    ### BEGIN SOLUTION
    sending = allreduce.min(axis=1)
    waiting = allreduce.mean(axis=1) - sending
    return {"compute": compute.mean(axis=1), "wait": waiting, "communicate": sending}
    ### END SOLUTION


# %%
check("50.3", where)

# %% [markdown]
# ### Measure: the parts of a step
# Your function now splits all runs above. As a control, the strong run on all ranks is repeated
# with one change: rank 0 sleeps for 100 ms (`late`) before it begins each step.
#
# ### Predict
# Predict two numbers for the largest number of ranks above:
#
# - In the strong step, which share of compute + wait + communicate is communication? In the example
#   of section 1 it is 4 / 24 = 0.17.
# - By how many ms does the sleep lengthen *wait*? This is a mean over the ranks, as in the table,
#   so you can compute it.

# %%
predict("50.3", communication_strong=0.1, wait_grows_ms=50)


# %%
def split(job):
    """{"compute", "wait", "communicate"}: ms of each step, of a job's results by rank."""
    compute = np.stack([of_rank["compute"] for of_rank in job], axis=1)
    allreduce = np.stack([of_rank["allreduce"] for of_rank in job], axis=1)
    return {name: 1e3 * np.array(seconds) for name, seconds in where(compute, allreduce).items()}


parts = {}
for kind in jobs:
    for ranks, job in jobs[kind].items():
        parts[f"{kind} {ranks}"] = split(job)
parts["rank 0\nlate"] = split(launch.run(study, "strong", late, ranks=largest, threads=1))
plots.bars(parts, ylabel="time of a step (ms)", title="The parts of a step")
medians = {name: np.median(part) for name, part in parts[f"strong {largest}"].items()}
predict.compare(
    "50.3",
    communication_strong=medians["communicate"] / sum(medians.values()),
    wait_grows_ms=np.median(parts["rank 0\nlate"]["wait"]) - medians["wait"],
)

# %% [markdown]
# **Explain.** Each bar shows the three parts of a step, as means over the ranks. The bars contain
# neither the update nor the sleep, because both are outside the two times.
#
# Compare the last bar with the last strong bar. All ranks except rank 0 wait for 100 ms, so on p
# ranks *wait* should now be about 100 ms · (p - 1) / p. The network is as fast as before, but with
# a timer around the allreduce alone, you would have called this "slow communication".
#
# *Wait* grows by a little less than this formula says. Even without the sleep it is not zero,
# because the time of each rank's step varies, and all ranks wait for the slowest, as in lab 01.
# With the sleep, nearly all waiting is for rank 0, so these smaller waits disappear.
#
# If the ranks share cores with other programs, *communicate* may have grown as well.
#
# Does computing itself get slower with more ranks? Compare "compute" in the bar "weak 1" and in the
# last weak bar.
#
# <details><summary>Answer</summary>
#
# It can, although each rank computes the same, because the ranks share the memory bandwidth, and
# two "cores" may be two threads of one core. Other programs on the machine have the same effect. A
# faster network does not bring the lost time back.
#
# If the ranks share a core or the memory bandwidth, *compute* may be shorter in the bar "rank 0
# late", since the sleep lets rank 0 compute while the others wait.
# </details>
#
# ### What you take away
# - In strong scaling the work stays the same, and in weak scaling the work per rank stays the same.
#   Say which of them you mean, and what the baseline is.
# - A program that computes slowly tends to have a higher efficiency, so quote the time, too.
# - Amdahl's law limits strong scaling, and costs that grow with the number of ranks limit it
#   further.
# - Weak scaling is only useful if the larger batch is useful, too (lab 34).
# - The time in an allreduce is communication *and* waiting.
#
# ## Going further (optional): the best number of ranks, and weak scaling (5 minutes)
# The sliders of the next cell change the size of the gradient and the link's rate in the formula of
# section 2, for strong scaling. Does a faster link change the best number of ranks, or only the
# speed-up there?

# %%
plots.slider(lab50.draw_limit, megabytes=(1, 10, 100, 1000), gigabits=(10, 25, 100, 400))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Mostly the speed-up. With 100 MB, the sliders show a best speed-up of 14 at the full 25 Gb/s and
# of 45 at 100 Gb/s, and both are reached on 256 ranks.
#
# On many ranks, the time for the bytes hardly depends on the number of ranks, so only work and
# messages determine the best p. One more rank saves about 1/p² of the work, in seconds, and adds 2α
# of latency. At the best p both are equal: 1/p² = 2α, so p = √(1/(2α)), which is 316 for 5 µs.
#
# There is one exception. If 2nβ, the time for the bytes on many ranks, is longer than the one
# second of work, no number of ranks helps.
# </details>
#
# In **weak** scaling *every* rank has 1 s of work, so the first term is 1 s in place of 1 s / p.
# The other two terms remain, and with the link of section 2 the formula gives these efficiencies:
#
# | gradient | 8 ranks | 512 ranks |
# |---|---|---|
# | 100 MB | 94 % | 93 % |
# | 300 MB | 85 % | 83 % |
#
# From 8 to 512 ranks, the efficiency hardly changes, because the bytes that each rank sends only
# grow from 1.75 n to nearly 2 n. In this formula, weak scaling is therefore limited by n, the size
# of the gradient.
#
# In [Horovod's benchmarks](@horovod_benchmarks), 512 GPUs reach 90 % of the ideal speed with
# ResNet-101 but only 68 % with VGG-16, which has three times as many parameters to send.
#
# [Gustafson's law](@gustafson1988) describes weak scaling with serial work. If this work takes a
# share s of the run on p ranks, the scaled speed-up is s + (1 − s) p, so the efficiency never falls
# below 1 − s.
#
# ### On a cluster
# To repeat this study on a cluster, run `make scaling LAB=50 NODES=1,2,4,8`. Later, plot the result
# with `cluster.last_study(50).plot("strong")`, after `from labkit import cluster`.
#
# ### Further reading
# - [@amdahl1967] The three pages from which Amdahl's law takes its name.
# - [@gustafson1988] Why the work usually grows with the machine, which is the idea behind weak
#   scaling.
# - [@hoefler2015] Twelve rules for reporting measurements of parallel programs, among them the
#   choice of the baseline.
# - [@awan2017] A version of Caffe that scales over MPI to many GPUs.
# - [@kurth2018] The weak and strong scaling of a network trained on up to 27,360 GPUs.

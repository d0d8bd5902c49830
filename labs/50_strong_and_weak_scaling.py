# %% [markdown]
# <!-- Generated from solutions/50_strong_and_weak_scaling.py by `make labs`. Learners work on a copy in work/. -->
# # 50 Strong and weak scaling
#
# You measure how much faster training gets with more ranks, and find out where the time went.
#
# **You will be able to** (1) set up a strong and a weak scaling study, (2) compute speed-up and
# efficiency without the classic mistakes, (3) fit Amdahl's law and know its limits, (4) split a
# step into its parts.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 50 · Level: intermediate · Before: 01, 21, 23, 30

# %%
import time
from functools import partial

import numpy as np
import torch
import virtual
from labkit import check, hint, lab, launch, nets, placement, plots, predict, record, scaling, world
from labkit.timing import device_sync, measure

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
# **Strong scaling**: same work, more ranks. "My batch has 256 images. How soon are 8 ranks done
# with it?"
#
# **Weak scaling**: more work, more ranks. "Each rank has 256 images. Are 8 ranks as quick as one?"
#
# Strong and weak say how the *work* grows. Two other words say where the added ranks are:
# **scale-up** adds cores or GPUs to a node, where ranks share memory or NVLink, and **scale-out**
# adds nodes, which a network joins. The ranks that this lab starts on your machine are scale-up.
# The same study in a batch job on 1, 2, 4 nodes is scale-out (the last line of the lab). Either can
# be strong or weak.
#
# Two words for the answers:
#
# - *Speed-up*: how many times as much gets done in a second as on one rank. Ideal: as many as there
#   are ranks.
# - *Efficiency*: speed-up / ranks, the useful share of what you pay for. Ideal: 1, that is 100 %.
#
# An example. One rank computes a step in 40 ms, and two ranks need 4 ms to sum their gradients.
#
# | on two ranks | a step takes | speed-up | efficiency |
# |---|---|---|---|
# | strong | 40 / 2 + 4 = 24 ms | 40 / 24 = 1.67 | 83 % |
# | weak | 40 + 4 = 44 ms, for twice the images | 2 · 40 / 44 = 1.82 | 91 % |
#
# ### Predict
# Take as many ranks as this machine has cores (or GPUs): at least 2, at most 8. Which speed-up do
# you expect of strong scaling, which efficiency of weak scaling? And which share of the strong step
# is communication (in the example: 4 / 24 = 0.17)? You cannot compute that yet: guess, the
# measurements tell.

# %%
predict("50.1", speedup_strong=..., efficiency_weak=..., communication_strong=...)


# %% [markdown]
# ### Who computes what?
# Weak: every rank computes `batch` images. Strong: `batch` images are shared out. None is lost, and
# no rank has more than one image more than another, since all wait for the slowest. So 32 images on
# 3 ranks are 11, 11 and 10. (Labs [15](15_input_pipeline.ipynb) and [30](30_average_gradients.ipynb) ask for such shares.)

# %%
def share(kind, images, rank, ranks):
    """Images per step of one rank, an int. "strong": `images` is the job's batch; "weak": each
    rank's."""
    if kind == "weak":
        return images
    return images // ranks + (1 if rank < images % ranks else 0)


# %% [markdown]
# ### Measure
# The step is that of [lab 30](30_average_gradients.ipynb): forward, backward, sum of all ranks' gradients, update. It notes two
# times:
#
# - of *compute*: until this rank has its own gradient;
# - of *allreduce*: from then on, until the sum of all ranks is there.
#
# `train_step` in the next cell notes them in its line with `stamps.append`. The other cells hand
# out images, and repeat the step.
#
# Every rank computes with one thread, at *every* number of ranks. If one rank alone used all cores,
# more ranks could win nothing: they would share the cores that it had already.
#
# `place` says where the net is, on a GPU or in host memory. `place.allreduce(comm, gradient)` sums
# in place, by the way that this MPI allows. `device_sync` waits for a GPU, as in [lab 01](01_time_it_properly.ipynb).

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
def own_images(comm, kind):
    """This rank's pictures and labels, and how many images a step of the whole job has."""
    # Across ranks: this rank takes its share of the job's images, behind the shares of the ranks
    # before it.
    shares = comm.allgather(share(kind, batch, comm.rank, comm.size))
    total = sum(shares)
    first = sum(shares[: comm.rank])
    own = slice(first, first + shares[comm.rank])
    pictures = torch.rand(total, 3, 32, 32)[own]
    labels = torch.arange(total)[own] % 10
    return pictures.to(world.device()), labels.to(world.device()), total


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
    pictures, labels, total = own_images(comm, kind)
    step = partial(train_step, comm, place, net, pictures, labels, total, stamps)

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
# On 1, 2, 4, … ranks; the last number is that of all cores, or of all ranks of the job. Some 20 s
# on 2 cores.
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
        print(f"{kind:6} {ranks} ranks: {step}; loss {loss:.3f}")
        record.add(kind, seconds=step, ranks=ranks, images=batch, **place.fields())
        jobs[kind][ranks] = job
        measured[kind][ranks] = step
print(place.describe())
near = 1e-4 if place.device == "cpu" else 1e-2  # a GPU's convolutions round to 11 bits
losses = [job[0]["loss"] for job in jobs["strong"].values()]
assert np.allclose(losses, losses[0], rtol=near), f"Strong scaling changed the loss: {losses}"


# %% [markdown]
# **Explain.** Look at the losses first. Strong: the same images, so the same loss on any number of
# ranks, but for rounding. Only the time differs. Weak: a larger batch, so another loss. Whether
# that training still works is the question of [lab 34](34_large_batch.ipynb).
#
# ### Exercise 50.1 · Speed-up and efficiency
# `times` holds seconds per step by number of ranks, `{1: 8.0, 2: 4.0, 4: 2.5}`. Often one rank is
# missing: a model too big for one GPU starts at 8, say. Then the **fewest** ranks, b of them, count
# as perfect.
#
# *Efficiency* is ideal time / measured time:
#
# - Strong: t(b) · b is the work, so p ranks ideally take t(b) · b / p.
# - Weak: p ranks ideally take t(b), since each has the same to do.
# - Speed-up, in both: efficiency times p. For weak scaling this is the gain in images per second.
#
# About 3 lines, and 1. *(intermediate)*
#
# <details><summary>Hint 1: the baseline</summary>
# b is min(times), whatever the order of the dict. The ideal times follow from times[b].</details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ```python
# b = min(times)
# ideal = {p: times[b] if weak else ... for p in times}
# return {p: ideal[p] / times[p] for p in times}   # speedup: efficiency(), each value times its p
# ```
#
# </details>

# %%
def efficiency(times, weak):
    """times: {ranks: seconds per step}. Returns {ranks: efficiency}; the fewest ranks have 1.0."""
    raise NotImplementedError("exercise 50.1: Speed-up and efficiency")


def speedup(times, weak):
    """times: {ranks: seconds per step}. Returns {ranks: speed-up}."""
    raise NotImplementedError("exercise 50.1: Speed-up and efficiency")


# %%
# Asked: Efficiency and speed-up by number of ranks, also where the fewest ranks
# are not one.
check("50.1", efficiency, speedup)


# %%
def titled(title, kind):
    """The title; where times of this kind may not be quoted, it says so."""
    steady = all(step.steady for step in measured[kind].values())
    return title if steady else f"{title} (not steady)"


plots.scaling(measured["strong"], title=titled("Strong: less time for the same batch", "strong"))
plots.efficiency(
    measured["weak"], weak=True, title=titled("Weak: more images in about the same time", "weak")
)
speedup_here = scaling.speedup(measured["strong"])[largest]  # labkit's, of the medians above
efficiency_here = scaling.efficiency(measured["weak"], weak=True)[largest]
predict.compare("50.1", speedup_strong=speedup_here, efficiency_weak=efficiency_here)

# %% [markdown]
# **Explain.** The grey line is ideal; the bars are the middle half of the steps. You should see
# both curves below it: what is missing is communication, waiting, and computing that got slower.
# Section 3 tells these three apart.
#
# You may see instead: more than ideal. Then a smaller share of the images fits a cache
# (*super-linear*), or the run on one rank was disturbed. Wide bars, and "not steady" in a title,
# mean a busy machine: such a curve says nothing. Measure again.
#
# A colleague's program computes four times as slowly as yours and scales better than yours. How can
# that be?
#
# <details><summary>Answer</summary>
#
# On one rank you need 40 ms, the colleague 160 ms. On 8 ranks both communicate for 5 ms. You need
# 40 / 8 + 5 = 10 ms: efficiency 50 %. The colleague needs 160 / 8 + 5 = 25 ms: efficiency 80 %.
# Better efficiency, and 2.5 times as slow. So always quote the time per step, too.
# </details>
#
# A published case: S-Caffe (Awan and others, PPoPP 2017) trained 2.5 times as fast on 160 GPUs as
# on 32. That is strong scaling whose fewest ranks are 32: by your functions the speed-up is 80, and
# the efficiency 50 %.

# %% [markdown]
# ## 2. Amdahl's law
# Let a share s of one rank's time be *serial*: more ranks do not shorten it. Then **t(p) = t(1) ·
# (s + (1 - s) / p)**, and however many ranks you take, you never get 1 / s times faster.
#
# ### Predict
# s is 5 %. How many times as fast are 64 ranks as one? The formula tells: t(1) / t(64).

# %%
predict("50.2", speedup_of_64=...)


# %% [markdown]
# ### Exercise 50.2 · Fit the serial share
# Divide the law by t(1) and sort it: **t(p) / t(1) - 1 / p = s · (1 - 1 / p)**, in short y = s · x.
# Measured times follow it only roughly. The s with the smallest squared errors is: sum of x·y / sum
# of x·x.
#
# `times` is a dict as above. About 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: arrays</summary>
# p = np.array(list(times)) and t = np.array(list(times.values())) make x and y one line
# each.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# y = t / times[1] - 1 / p, x is as above, and the result is np.sum(x * y) / …</details>

# %%
def serial_share(times):
    """times: {ranks: seconds}, one rank among them. Returns Amdahl's s by least squares."""
    raise NotImplementedError("exercise 50.2: Fit the serial share")


# %%
# Asked: The share of times that follow the law, in any order; and of noisy
# times, all counted.
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
        title=titled(f"Amdahl's law through {len(counts)} points", "strong"),
    )

# %% [markdown]
# **Explain.** With more than two points the two fits differ a little. labkit's counts errors in
# percent of each time, and fits t(1) as well. Yours takes t(1) as exact.
#
# On two cores there are two points, and **two points fit any line**: the curve goes through both,
# whether the law holds or not. It takes a third point to test a law.
#
# ### Measure where the law ends
# Two cores cannot show many ranks, but [lab 23](23_ring_allreduce.ipynb)'s formula can. The next cell **computes** steps: 1 s
# of work on one rank, and a ring allreduce of 100 MB. The link takes 5 µs for a message, and
# carries 2.9 GB/s: a fast Ethernet of 25 Gb/s. Fit the law to 1, 2, 4 and 8 ranks, as you would on
# your first evening on a cluster. Then go on to 4096.

# %%
link = virtual.machine("roce25_p100").between


def computed_step(ranks, work, nbytes):
    """Seconds of a step: `work` seconds of computing on each rank, then a ring allreduce of
    nbytes."""
    return work + scaling.costs.ring_allreduce_time(nbytes, ranks, link.latency, link.beta)


many = [2**k for k in range(13)]  # 1 to 4096 ranks
strong = {ranks: computed_step(ranks, 1 / ranks, 1e8) for ranks in many}
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
# **Explain.** Up to some hundred ranks the law and the computed steps agree, though no line of the
# program is serial. A ring sends 2(p - 1)/p · n bytes, and this grows just as (1 - 1/p) does: to
# Amdahl's law the bytes look like serial work. Its messages, 2(p - 1) of them, grow without end. No
# share s can say that, so the law promises too much, and in the end more ranks are *slower*.
#
# ### For those who have time: weak scaling by the formula
# The share s limits strong scaling, where the work stays the same. And weak scaling? 1 s of work on
# *every* rank, and the same ring:

# %%
for nbytes in (1e8, 3e8):
    weak = {ranks: computed_step(ranks, 1, nbytes) for ranks in many}
    useful = scaling.efficiency(weak, weak=True)
    print(
        f"weak, {nbytes / 1e6:.0f} MB: efficiency {useful[8]:.0%} on 8 ranks, {useful[512]:.0%}"
        " on 512"
    )


# %% [markdown]
# **Explain.** From 8 ranks to 512 weak scaling hardly cares for the number of ranks. It cares for
# the bytes: with 100 MB about 7 % are lost on 512 ranks, with 300 MB about 17 %. So the bytes to
# send limit it.
#
# Published: Kurth et al. (SC18) kept 90.7 % on 27,360 GPUs, *weakly*. In Horovod's benchmarks 512
# GPUs keep 90 % with ResNet-101 but 68 % with VGG-16, which has three times the parameters to send
# (docs/benchmarks.rst in github.com/horovod/horovod). Horovod hides a part of the sum behind
# backward ([lab 32](32_buckets_and_overlap.ipynb)).
#
# Why does it not help to quote "90 % efficiency" alone?
#
# <details><summary>Answer</summary>
#
# Strong or weak, from which baseline, with how many images a rank and how many bytes of gradient:
# each of these changes the number. More images a rank raise it without any better network.
# </details>
#
# ## 3. Where the time went
# A rank that is early waits *inside* the allreduce: a timer around it shows communication **and**
# waiting. Only the rank that comes last waits for nobody. And all leave the allreduce together.
#
# Here are the times of one step, in ms. Rank 1 comes last. So 2 ms of the allreduce are
# communication, and the others wait for 3 ms:
#
# | | rank 0 | rank 1 | rank 2 | mean |
# |---|---|---|---|---|
# | compute | 10 | 13 | 10 | 11 |
# | allreduce | 5 | 2 | 5 | 4 |
# | of this communicating | 2 | 2 | 2 | 2 |
# | of this waiting | 3 | 0 | 3 | 2 |
#
# Here the rank that came last also computed longest. That need not be: another one may have begun
# its step late. Which rank was last, the allreduce alone tells.
#
# ### Exercise 50.3 · Compute, wait, communicate
# `compute` and `allreduce` are arrays (steps, ranks) of seconds. Return a dict of three arrays
# (steps,), the last column of the table for every step:
#
# - `compute`: the mean over the ranks;
# - `communicate`: the time in the allreduce of the rank that came last;
# - `wait`: the mean time in the allreduce, less `communicate`.
#
# About 3 lines; `array.mean(axis=1)` is the mean over the ranks. *(intermediate)*
#
# <details><summary>Hint 1: who arrived last?</summary>
# All leave the allreduce together. So the last to arrive is the one with the shortest time in
# it.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# Per step: axis=1. sending = allreduce.min(axis=1), and wait is allreduce.mean(axis=1) -
# …</details>

# %%
def where(compute, allreduce):
    """compute, allreduce: (steps, ranks) s. Returns {"compute", "wait", "communicate"}: (steps,)
    each."""
    raise NotImplementedError("exercise 50.3: Compute, wait, communicate")


# %%
# Asked: The table above, a step in which another rank comes last, and one that
# rank 0 begins late.
check("50.3", where)


# %% [markdown]
# ### Measure
# Your function on all runs above. And, as a control, once more the strong one on all ranks, with
# one change: rank 0 sleeps for 100 ms (`late`) before it begins a step. Which part grows, by how
# much?

# %%
def split(job):
    """{"compute", "wait", "communicate"}: ms of each step, of a job's results by rank."""
    compute = np.stack([of_rank["compute"] for of_rank in job], axis=1)
    allreduce = np.stack([of_rank["allreduce"] for of_rank in job], axis=1)
    return {name: 1e3 * seconds for name, seconds in where(compute, allreduce).items()}


parts = {}
for kind in jobs:
    for ranks, job in jobs[kind].items():
        parts[f"{kind} {ranks}"] = split(job)
parts["rank 0\nlate"] = split(launch.run(study, "strong", late, ranks=largest, threads=1))
plots.bars(parts, ylabel="time of a step (ms)", title="Who comes late costs the others: they wait")
medians = {name: np.median(part) for name, part in parts[f"strong {largest}"].items()}
predict.compare("50.1", communication_strong=medians["communicate"] / sum(medians.values()))

# %% [markdown]
# **Explain.** In the last bar *wait* should have grown, to about 100 ms · (p - 1) / p: all but rank
# 0 wait for 100 ms, and the bar is the mean. The network is as fast as before. A timer around the
# allreduce alone would have called it "slow communication".
#
# You may see instead: *communicate* grown as well. Then ranks share cores with something else, and
# the last one to come is not the last one to leave.
#
# (a) Does computing itself get slower with more ranks? Compare "compute" of weak 1 and of the last
# weak bar.
#
# <details><summary>Answer</summary>
#
# Often by some percent, though each rank computes the same. The ranks share the memory's bandwidth,
# and two "cores" of a virtual machine may be two threads of one core. This measurement does not
# tell the two apart. But no faster network brings that time back.
# </details>
#
# (b) The bars of *wait* are not zero, though nobody sleeps. Where does waiting come from?
#
# <details><summary>Answer</summary>
#
# Each rank's step varies, and the slowest sets the pace: [lab 01](01_time_it_properly.ipynb)'s dice. The more ranks, the
# likelier that one of them is slow.
# </details>
#
# ### What you take away
# - Strong: same work. Weak: same work per rank. Say which, and from which baseline.
# - Efficiency flatters slow programs: quote the time, too.
# - Amdahl's law limits strong scaling, and costs that grow with the ranks limit it further.
# - Weak scaling pays with a larger batch ([lab 34](34_large_batch.ipynb)).
# - Time in an allreduce is sending *and* waiting.
# - On a cluster: `make scaling LAB=50 NODES=1,2,4,8`; later,
#   `cluster.last_study(50).plot("strong")`.

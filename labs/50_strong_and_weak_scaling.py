# %% [markdown]
# # 50 Strong and weak scaling
#
# You measure how much faster training gets with more ranks, and find out where the time went.
#
# **You will be able to** (1) set up a strong and a weak scaling study, (2) compute speed-up and efficiency
# without the classic mistakes, (3) fit Amdahl's law and know its limits, (4) split a step into its parts.
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 45 · Before: 01, 21, 30

# %%
import time
from functools import partial

import numpy as np
import torch
from labkit import check, expect, hint, lab, launch, nets, placement, plots, predict, record, scaling, world
from labkit.timing import device_sync, measure

lab.start("50_strong_and_weak_scaling")

# %% tags=["parameters"]
images = 32  # per step: of the whole job (strong scaling), of each rank (weak scaling)
width = 32  # channels of the net's first layer
rate = 0.01  # learning rate
repeat = 12  # timed steps per study
warmup = 3  # steps before the first timed one
most = 8  # ranks this lab starts by itself at most; under a launcher, all ranks of the job count

# %% [markdown]
# ## 1. Two questions
# **Strong scaling**: same work, more ranks. "My batch has 256 images. How soon are 8 ranks done with it?"
#
# **Weak scaling**: more work, more ranks. "Each rank has 256 images. Are 8 ranks as quick as one?"
#
# ### Predict
# Take as many ranks as this machine has cores (or GPUs). Which speed-up do you expect (strong), which
# efficiency (weak, 1.0 is perfect), and which share of the strong step for communication?

# %%
predict("50.1", speedup_strong=..., efficiency_weak=..., communication_strong=...)


# %% [markdown]
# ### Exercise 50.1 · Share out the work
# How many images does rank `rank` of `ranks` compute per step? Weak: `images` each. Strong: `images` are
# shared out, none is lost, and no rank has over one image more than another, since all wait for the slowest.
#
# <details><summary>Hint 1: strong</summary>
# Everyone gets images // ranks. Then images % ranks are left: the first ranks take one more each.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# For "strong": images // ranks + (1 if rank < … else 0), where … is the number of images left over.</details>

# %%
def share(kind, images, rank, ranks):
    """Images per step of one rank. kind "strong": `images` is the job's batch; "weak": it is each rank's."""
    raise NotImplementedError("exercise 50.1: Share out the work")


# %%
with check("50.1"):
    for ranks, batch in ((1, 32), (2, 32), (3, 32), (4, 30), (5, 8)):
        got = [share("weak", batch, rank, ranks) for rank in range(ranks)]
        expect(got == [batch] * ranks, f"Weak, {batch} images each, {ranks} ranks: they got {got}.")
        got = [share("strong", batch, rank, ranks) for rank in range(ranks)]
        what = f"Strong, {batch} images, {ranks} ranks: they got {got}"
        whole = sum(got) == batch and all(n == int(n) for n in got)
        expect(whole, f"{what}, together {sum(got)}: the job's batch must stay {batch} whole images.")
        expect(max(got) - min(got) < 2, f"{what}: all wait for the one with {max(got)}. Share more evenly.")


# %% [markdown]
# ### Measure
# The step of lab 30, with two stamps: this rank has its gradient; the sum of all is there. One thread per
# rank, at *every* number of ranks: if one rank alone used all cores, more ranks could win nothing.
#
# `place` knows where the net is, on a GPU or in host memory, and how a gradient gets from there to MPI.

# %%
def own_images(comm, kind):
    """This rank's pictures and labels, and how many images a step of the whole job has."""
    # Across ranks: this rank takes its share of the job's images, behind the shares of the ranks before it.
    shares = comm.allgather(share(kind, images, comm.rank, comm.size))
    total, first = sum(shares), sum(shares[: comm.rank])
    own = slice(first, first + shares[comm.rank])
    pictures = torch.rand(total, 3, 32, 32)[own]
    labels = torch.arange(total)[own] % 10
    return pictures.to(world.device()), labels.to(world.device()), total


# %%
def train_step(comm, place, net, pictures, labels, total, stamps):
    """One step; stamps gets its (seconds of compute, of allreduce). Returns this rank's part of the loss."""
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
def study(comm, kind):
    """Time training steps over comm: Measurement of a step; s of compute and allreduce per step; loss."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # every rank draws the same weights and pictures
    place = placement.of_mpi()
    net = nets.torch_conv(width).to(place.device)
    stamps = []
    step = partial(train_step, comm, place, net, *own_images(comm, kind), stamps)
    measured = measure(step, repeat=repeat, warmup=warmup, comm=comm, device=place.device)
    compute, allreduce = np.array(stamps[warmup:]).T
    loss = comm.allreduce(float(step()))  # the ranks' parts add up to the loss of the job
    return {"step": measured, "compute": compute, "allreduce": allreduce, "loss": loss, "place": place}


# %%
largest = launch.ranks_here(max(2, min(most, torch.cuda.device_count() or world.cores())))
counts = sorted({2**k for k in range(12) if 2**k < largest} | {largest})
jobs, measured = {}, {}
for kind in ("strong", "weak"):
    # Across ranks: a job for each number of ranks; under a launcher, the first ranks of the job there is.
    jobs[kind] = {ranks: launch.run(study, kind, ranks=ranks, threads=1) for ranks in counts}
    measured[kind] = {ranks: job[0]["step"] for ranks, job in jobs[kind].items()}
    for ranks, job in jobs[kind].items():
        print(f"{kind:6} {ranks} ranks: {job[0]['step']}; loss {job[0]['loss']:.5f}")
        record.add(kind, seconds=job[0]["step"], ranks=ranks, images=images, **job[0]["place"].fields())
place = jobs["strong"][largest][0]["place"]
print(place.describe())
near = 1e-4 if place.device == "cpu" else 1e-2  # a GPU's convolutions round to 11 bits (TF32)
losses = [job[0]["loss"] for job in jobs["strong"].values()]
assert np.allclose(losses, losses[0], rtol=near), f"Strong scaling changed the loss: {losses}"


# %% [markdown]
# Strong: the same work, the same loss on any number of ranks. Weak: a larger batch, another loss (lab 34).
#
# ### Exercise 50.2 · Speed-up and efficiency
# *Efficiency* is the useful share of what you pay for: ideal time / measured time. `times` holds seconds per
# step by number of ranks. The **fewest** ranks, b, count as perfect. (A model too big for one GPU starts at b
# = 8, say.)
#
# - Strong: t(b) · b is the work, so p ranks ideally take t(b) · b / p.
# - Weak: p ranks ideally take t(b), since each has the same to do.
# - Speed-up, in both: efficiency times p. For weak scaling this is the gain in images per second.
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
    raise NotImplementedError("exercise 50.2: Speed-up and efficiency")


def speedup(times, weak):
    """times: {ranks: seconds per step}. Returns {ranks: speed-up}."""
    raise NotImplementedError("exercise 50.2: Speed-up and efficiency")


# %%
with check("50.2"):
    strong, weak = {4: 2.5, 1: 8.0, 2: 4.0}, {1: 8.0, 2: 10.0, 4: 16.0}
    expect.close(efficiency(strong, weak=False), {1: 1, 2: 1, 4: 0.8}, f"strong efficiency of {strong}")
    expect.close(speedup(strong, weak=False), {1: 1, 2: 2, 4: 3.2}, f"strong speed-up of {strong}")
    expect.close(efficiency(weak, weak=True), {1: 1, 2: 0.8, 4: 0.5}, f"weak efficiency of {weak}")
    expect.close(speedup(weak, weak=True), {1: 1, 2: 1.6, 4: 2}, f"weak speed-up of {weak}")
    caffe = {32: 10.0, 160: 4.0}  # S-Caffe (Awan et al., PPoPP 2017): 2.5 times faster on 160 GPUs than on 32
    expect.close(efficiency(caffe, weak=False), {32: 1, 160: 0.5}, f"strong efficiency of {caffe}")
    expect.close(speedup(caffe, weak=False), {32: 32, 160: 80}, f"strong speed-up of {caffe}")

# %%
times = {kind: {ranks: step.median for ranks, step in measured[kind].items()} for kind in measured}
plots.scaling(measured["strong"], title="Strong scaling: speed-up")
plots.efficiency(measured["weak"], weak=True, title="Weak scaling: efficiency")
measured_here = {
    "speedup_strong": speedup(times["strong"], weak=False)[largest],
    "efficiency_weak": efficiency(times["weak"], weak=True)[largest],
}
predict.compare("50.1", **measured_here)
plots.compare(predict.recall("50.1"), measured_here, title="Your guess")

# %% [markdown]
# ## 2. Amdahl's law
# Let a share s of one rank's time be *serial*: more ranks do not shorten it. Then **t(p) = t(1) · (s + (1 -
# s) / p)**, and however many ranks you take, you never get 1 / s times faster.
#
# ### Predict
# s is 5 %. How much faster are 64 ranks than one?

# %%
predict("50.3", speedup_of_64=...)


# %% [markdown]
# ### Exercise 50.3 · Fit the serial share
# Divide the law by t(1) and sort it: **t(p) / t(1) - 1 / p = s · (1 - 1 / p)**, in short y = s · x. Measured
# times follow it only roughly. The s with the smallest squared errors is: sum of x·y / sum of x·x.
#
# <details><summary>Hint 1: arrays</summary>
# p = np.array(list(times)) and t = np.array(list(times.values())) make x and y one line each.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# y = t / times[1] - 1 / p, x is as above, and the result is np.sum(x * y) / …</details>

# %%
def serial_share(times):
    """times: {ranks: seconds}, one rank among them. Returns Amdahl's s by least squares."""
    raise NotImplementedError("exercise 50.3: Fit the serial share")


# %%
with check("50.3"):
    for s in (0.05, 0.3, 1.0):
        exact = {p: 7.0 * (s + (1 - s) / p) for p in (8, 1, 2, 4)}
        expect.close(serial_share(exact), s, f"s of times that follow the law exactly with s = {s}")
    noisy = {1: 8.0, 2: 4.6, 4: 2.4}
    expect.close(serial_share(noisy), 0.0923, f"s of the noisy times {noisy}: every point counts", rtol=1e-2)
    expect.close(serial_share({1: 8.0, 2: 3.6}), -0.1, "s of super-linear times: negative, leave it so")
predict.compare("50.3", speedup_of_64=scaling.amdahl(64, 0.05))

# %%
if largest > 1:  # a batch job of one rank is only the first point of a study
    fit = scaling.fit_amdahl(measured["strong"])
    print(f"by hand: s = {serial_share(times['strong']):.1%}; with the spread of the samples: {fit}")
    plots.scaling(measured["strong"], fit=fit, title="Strong scaling and Amdahl's law")


# %% [markdown]
# Two points fit any line; it takes a third to test a law. And 1 / s limits a job whose work stays the same.
# Kurth et al. (SC18) reached 90.7 % efficiency on 27,360 GPUs: *weakly*. Weak scaling has its own limit,
# communication: in Horovod's benchmarks 512 GPUs keep 90 % with ResNet-101, but 68 % with VGG-16, which has
# three times the parameters to send (docs/benchmarks.rst in github.com/horovod/horovod).
#
# ## 3. Where the time went
# A rank that is early waits *inside* the allreduce: a timer around it shows communication **and** waiting.
# Only the rank that comes last waits for nobody.
#
# ### Exercise 50.4 · Compute, wait, communicate
# `compute` and `allreduce` are arrays (steps, ranks) of seconds. Return a dict of three arrays (steps,):
# `compute`, the mean over the ranks; `communicate`, the time in the allreduce of the rank that came last;
# `wait`, the mean time in the allreduce less that.
#
# <details><summary>Hint 1: who arrived last?</summary>
# All leave the allreduce together. So the last to arrive is the one with the shortest time in it.</details>
# <details><summary>Hint 2: nearly the answer</summary>
# Per step: axis=1. sending = allreduce.min(axis=1), and wait is allreduce.mean(axis=1) - …</details>

# %%
def where(compute, allreduce):
    """compute, allreduce: (steps, ranks) s. Returns {"compute", "wait", "communicate"}: (steps,) each."""
    raise NotImplementedError("exercise 50.4: Compute, wait, communicate")


# %%
with check("50.4"):
    computing = np.array([[10.0, 10.0, 13.0], [10.0, 14.0, 10.0]])  # three ranks, two steps of 15 s and 17 s
    got = where(computing, np.array([[15.0], [17.0]]) - computing)
    expect(isinstance(got, dict), f"where returns a dict; it returned {got}.")
    expect.close(got["communicate"], [2, 3], "communicate: in each step, of the rank that arrived last")
    expect.close(got["wait"], [2, 8 / 3], "wait: the mean time in the allreduce, less communicate")
    expect.close(got["compute"], [11, 34 / 3], "compute: in each step, the mean over the ranks")

# %%
parts = {}
for kind in jobs:
    for ranks, job in jobs[kind].items():
        compute = np.stack([of_rank["compute"] for of_rank in job], axis=1)
        allreduce = np.stack([of_rank["allreduce"] for of_rank in job], axis=1)
        milliseconds = {name: 1e3 * part for name, part in where(compute, allreduce).items()}
        parts[f"{kind} {ranks}"] = milliseconds
plots.bars(parts, ylabel="time of a step (ms)")
step = {name: np.median(part) for name, part in parts[f"strong {largest}"].items()}
predict.compare("50.1", communication_strong=step["communicate"] / sum(step.values()))

# %% [markdown]
# ### Explain
# (a) What costs more here, waiting or sending? (b) Does computing itself get slower with more ranks (weak)?
# They share memory bandwidth, and two "cores" of a virtual machine may be two threads of one. (c) Over 100 %?
# Then a smaller share fits a cache (super-linear), or the baseline was slow.
#
# ### What you take away
# - Strong: same work. Weak: same work per rank. Say which, and from which baseline.
# - Efficiency flatters slow programs: a bad single-rank baseline scales beautifully.
# - Amdahl limits strong scaling. Weak scaling pays with a larger batch (lab 34).
# - Time in an allreduce is sending *and* waiting. Lab 53 hunts for who is late.
# - On a cluster: `make scaling LAB=50 NODES=1,2,4,8`; later, `cluster.last_study(50).plot("strong")`.

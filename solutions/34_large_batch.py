# %% [markdown]
# # 34 Large batch
#
# More GPUs means more images in a step, so fewer steps. Does the net still learn? You write the field's three
# answers, drive each to the point where accuracy breaks, and find out what the speed is worth.
#
# **You will be able to** (1) scale a learning rate with the batch and warm it up, (2) write LARS and LAMB,
# (3) take their step on many ranks, the same as on one, (4) tell time to accuracy from time per epoch.
#
# Needs: mpi · Ranks: 4 · Minutes: 50 · Before: 30

# %%
import numpy as np
from labkit import check, data, expect, hint, lab, launch, nets, plots, predict, record, virtual
from labkit.counting import on_every_size
from support import lab34

lab.start("34_large_batch")

# %% tags=["parameters"]
batches = (32, 64, 128, 192, 256, 512, 768, 1536)  # images per step, over all ranks together
epochs = 20  # passes over the 1,536 training images: the same for every batch
warm = 5  # of these epochs, for the warm-up
goal = 97  # % of the test images: 2 less than a batch of 32 gets right in the end
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
sgd_rate = 0.025  # learning rates at a batch of 32; where they come from: see after 34.3
lars_rate = 0.025
lamb_rate = 0.00125
tried = (0.006, 0.0125)  # and these of SGD, for one large batch alone
machine = "h100_ndr"  # the virtual machine whose links sum the gradients
workers = 4  # real ranks in the checks, unless a launcher has started some
patience = 30  # seconds after which a check calls the ranks stuck

# %% [markdown]
# The net: 64 pixels, four hidden layers of 64, ten digits; 17,290 parameters, no normalisation: deep enough
# to be hurt by a high rate. The optimizer, SGD with **momentum**, has the form of all optimizers of this lab:
# it moves a list of arrays `weights` in place, matrices and biases. `state.m` is a list of arrays like them,
# zeros at first: a sum of past steps that fades. `decay` pulls a matrix towards 0; biases have none.


# %%
def sgd(weights, gradients, state, rate, decay=1e-4, momentum=0.9):
    """One step of SGD with momentum, in place."""
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        step = g + decay * w if w.ndim > 1 else g
        state.m[i] = momentum * state.m[i] + rate * step
        w -= state.m[i]


# %% [markdown]
# ### Predict
# With a batch of 32, an epoch has 48 steps; with 1,536, one. If the rate stays, a step goes no further, and
# the net falls behind. **Linear scaling** (Goyal et al. 2017): k times the batch, k times the rate. Then a
# step goes as far as k did. Up to which of the batches will that be as good as a batch of 32, to 2 % of the
# test images? And with a **gradual warm-up**, where the rate climbs to its height in the first five epochs?

# %%
predict("34.1", linear_up_to=256, with_warm_up=512)

# %% [markdown]
# ### Exercise 34.1 · The schedule
# The rate of step 0, 1, 2, …. `peak = base * (batch / base_batch) ** power`: with power 1 linear, 0.5 the
# square root, 0 not scaled. In the first `warm_up` epochs the rate climbs evenly, step by step, from `base`
# (at step 0) to `peak` (at the first step *after* them). Then it falls: `peak * (1 + cos(π f)) / 2`. f is
# the share of the steps after the warm-up that is behind us: 0 in the first of them, not yet 1 in the last.
# An epoch has `images // batch` steps; what does not fill a batch is left out. `warm_up` may be 0. 6 lines.
#
# <details><summary>Hint 1: count in steps</summary>
#
# `first = warm_up * (images // batch)` is the first step after the warm-up; `total` steps likewise.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if step < first: return base + (peak - base) * step / first`. After that `f = (step - first) / (total -
# first)`. With a warm-up of 0, no step is below `first`.
# </details>


# %%
def learning_rate(step, batch, base, power, warm_up, epochs, images=1536, base_batch=32):
    """The rate of step 0, 1, … of a training with this batch."""
    ### BEGIN SOLUTION
    first = warm_up * (images // batch)
    total = epochs * (images // batch)
    peak = base * (batch / base_batch) ** power
    if step < first:
        return base + (peak - base) * step / first
    f = (step - first) / (total - first)
    return peak * (1 + np.cos(np.pi * f)) / 2
    ### END SOLUTION


# %%
# What is asked: the rates of seven trainings, at steps in the warm-up, at its end, later, and at the last.
with check("34.1"):
    for training in lab34.SCHEDULES:  # batch, base, power, warm_up, epochs, images, base_batch
        for step in training.steps():
            expect.close(
                learning_rate(step, *training),
                training.rate(step),
                f"{training}: the rate of step {step} of {training.total}",
                rtol=1e-9,
                slips=training.slips(step),
            )

# %% [markdown]
# ### Measure: how far does linear scaling carry?
# 261 test images: one is 0.4 %. Plot: the seeds' median, bars the middle half. Below: their lowest-highest.


# %%
def plan(base, power, warm_up):
    return lambda step, batch: learning_rate(step, batch, base, power, warm_up, epochs)


def show(trained, title=None):
    right = {
        way: {batch: [training.right for training in row] for batch, row in rows.items()}
        for way, rows in trained.items()
    }
    if title:
        plots.lines(right, xlabel="images per step", ylabel="test images right (%)", title=title, logx=True)
    for way, rows in right.items():
        print(f"{way:>20}", *(f"{b}: {min(row):.0f}-{max(row):.0f}" for b, row in rows.items()), sep="   ")
        until = [[training.epochs_to_goal for training in row] for row in trained[way].values()]
        fields = {"batches": list(rows), "right": list(rows.values()), "goal": goal, "epochs_to_goal": until}
        record.add("accuracy", unit="%", way=way, epochs=epochs, seeds=seeds, **fields)


def holds(rows):
    """The largest batch up to which the median stays within 2 % of the smallest batch's."""
    middle = {batch: np.median([training.right for training in row]) for batch, row in rows.items()}
    enough = middle[batches[0]] - 2
    return max(batch for batch in batches if all(middle[b] >= enough for b in batches if b <= batch))


ways = {"SGD, rate kept": (sgd, plan(sgd_rate, 0, 0)), "SGD, linear": (sgd, plan(sgd_rate, 1, 0))}
ways["SGD, linear, warm-up"] = sgd, plan(sgd_rate, 1, warm)
trained = lab34.sweep(ways, batches, seeds, epochs, goal)
show(trained, f"{epochs} epochs of the digits")
plain, climbing = (holds(trained[way]) for way in ("SGD, linear", "SGD, linear, warm-up"))
predict.compare("34.1", linear_up_to=plain, with_warm_up=climbing)

# %%
digits = data.digits()
ratios = []
for seed in seeds:
    weights = lab34.start_weights(seed)
    gradient = nets.gradient(weights, digits.train_x, digits.train_y)
    matrices = list(zip(weights, gradient, strict=True))[::2]
    ratios.append([np.linalg.norm(w) / np.linalg.norm(g) for w, g in matrices])
print("‖w‖ / ‖g‖ of the five matrices at the start, mean of the seeds:", np.mean(ratios, axis=0).round(1))

# %% [markdown]
# **Explain.** The kept rate is too low for few steps. The rule says that k small steps go the same way as a
# large one; at the start they do not, the gradient turns quickly, so warm-up helps. Most of the collapse is
# the *rate's* doing: at 512 the kept rate is far better. But half the `sgd_rate`, as good at 32, did not
# take linear scaling twice as far in our trials: to 256, with and without warm-up.
#
# ### Exercise 34.2 · LARS
# ‖w‖, a matrix's **norm**, is the root of the sum of its squared values. Look at the line printed last: the
# last layer's gradient is a far larger share of its weights, and the rate that it bears is low for the rest.
# **LARS** (You, Gitman and Ginsburg 2017) gives each matrix its own: `local = trust * ‖w‖ / (‖g‖ + decay *
# ‖w‖)`. The step is then `local * (g + decay * w)`: about `rate * trust` of the matrix's norm, whatever the
# gradient's size. Biases: local rate 1, no decay. If ‖w‖ or ‖g‖ is 0, the local rate is 1, too. 8 lines.
#
# <details><summary>Hint 1: from sgd to LARS</summary>
#
# Only `step` changes: for a bias (`w.ndim == 1`) it is g, for a matrix `local * (g + decay * w)`. The rate
# stays inside the momentum: `state.m[i] = momentum * state.m[i] + rate * step`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# ‖w‖ and ‖g‖: `size, slope = np.linalg.norm(w), np.linalg.norm(g)`. `local = 1`, and `if size > 0 and slope >
# 0:` the formula.
# </details>


# %%
def lars(weights, gradients, state, rate, trust=0.05, decay=1e-4, momentum=0.9):
    """One step of LARS, in place."""
    ### BEGIN SOLUTION
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        step = g
        if w.ndim > 1:
            size, slope = np.linalg.norm(w), np.linalg.norm(g)
            local = trust * size / (slope + decay * size) if size > 0 and slope > 0 else 1
            step = local * (g + decay * w)
        state.m[i] = momentum * state.m[i] + rate * step
        w -= state.m[i]
    ### END SOLUTION


# %%
# What is asked: the gradient's size has no say in matrices; the weights after each step, norms of 0 included.
with check("34.2"):
    moved, more = (lab34.distances(lars, factor) for factor in (1, 1000))
    expect(all(moved), "After a step a matrix is what it was: change the caller's arrays in place, `w -= …`.")
    what = "How far matrices move, with gradients 1,000 times as large"
    expect.close(more, moved, what, because="With LARS the gradient's size has no say, in matrices")
    for case in lab34.lars_steps():
        for step, weights in enumerate(case.walk(lars)):
            expect.close(
                weights,
                case.want[step],
                f"{case.what}, step {step + 1}: weights",
                rtol=1e-6,
                atol=1e-12,
                slips=case.slips(step),
                because=case.because,
            )

# %% [markdown]
# ### Exercise 34.3 · LAMB
# **LAMB** (You et al. 2019, for BERT) does the same to **Adam's** direction. `state.m[i]` is a fading mean of
# the gradients: `m = beta * m + (1 - beta) * g`, with `betas[0]`. `state.v[i]` is one of g², with `betas[1]`.
# Both begin at 0, so in step t = 1, 2, … (`state.t`) they are too small by `1 - beta ** t`: divide by it. The
# direction is `m / (sqrt(v) + eps)`, for a matrix `+ decay * w`. A bias moves by `rate * direction`, a matrix
# by `rate * ‖w‖ / ‖direction‖ * direction`; where a norm is 0, by `rate * direction`. About 10 lines.
#
# <details><summary>Hint 1: do not store the divided ones</summary>
#
# `m = state.m[i] / (1 - betas[0] ** state.t)`: a new name. `state.m[i]` goes on undivided.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `direction = m / (np.sqrt(v) + eps)`, `ratio = 1`. If `w.ndim > 1`: `direction = direction + decay * w`,
# `size, length = …norm(w), …norm(direction)`, and if both are above 0 `ratio = size / length`.
# </details>


# %%
def lamb(weights, gradients, state, rate, decay=1e-4, betas=(0.9, 0.999), eps=1e-6):
    """One step of LAMB, in place. state.t: 1 in the first step."""
    ### BEGIN SOLUTION
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        state.m[i] = betas[0] * state.m[i] + (1 - betas[0]) * g
        state.v[i] = betas[1] * state.v[i] + (1 - betas[1]) * g**2
        m = state.m[i] / (1 - betas[0] ** state.t)
        v = state.v[i] / (1 - betas[1] ** state.t)
        direction, ratio = m / (np.sqrt(v) + eps), 1
        if w.ndim > 1:
            direction = direction + decay * w
            size, length = np.linalg.norm(w), np.linalg.norm(direction)
            ratio = size / length if size > 0 and length > 0 else 1
        w -= rate * ratio * direction
    ### END SOLUTION


# %%
# What is asked: the weights after each of four steps, with and without decay, and where norms are 0.
with check("34.3"):
    for case in lab34.lamb_steps():
        for step, weights in enumerate(case.walk(lamb)):
            expect.close(
                weights,
                case.want[step],
                f"{case.what}, step {step + 1}: weights",
                rtol=1e-6,
                atol=1e-12,
                slips=case.slips(step),
                because=case.because,
            )

# %% [markdown]
# ### Measure: do they carry further?
# What was tuned: one rate for each optimizer, *at a batch of 32*, of six that are a factor of 2 apart: the
# best mean of three seeds; of a tie (SGD: 0.0125 to 0.05) the middle one. (By test images, as there are so
# few; do not do that at work.) `trust` is from trials with a wider net. For larger batches a rule has to do:
# the linear one for all three, so that we compare optimizers and not rules; and for SGD also the **square
# root** of k, as in LAMB's paper. The last lines: SGD tuned for one large batch alone.

# %%
more = {"SGD, square root": (sgd, plan(sgd_rate, 0.5, warm))}
more["LARS, linear"] = lars, plan(lars_rate, 1, warm)
more["LAMB, linear"] = lamb, plan(lamb_rate, 1, warm)
trained |= lab34.sweep(more, batches, seeds, epochs, goal)
show({way: trained[way] for way in ("SGD, linear, warm-up", *more)}, "All with warm-up")
fair = {f"SGD, from {rate:g}": (sgd, plan(rate, 0.5, warm)) for rate in tried}
show(lab34.sweep(fair, batches[-2:][:1], seeds, epochs, goal))

# %% [markdown]
# **Explain.** Layers' own rates carry further, LAMB's furthest, and all break. But look at SGD with the other
# rule, and with a rate tuned for the large batch: it comes near LARS. (With the root, from the same rate,
# LAMB was too slow: 84 to 93 % at 512 in our trials.) Nado et al. (2021) found that Nesterov momentum and
# Adam, well tuned, match LARS on ResNet-50 and LAMB on BERT. Reported with no accuracy lost: batches of 8,192
# (ResNet-50 in an hour, 256 GPUs; Goyal) and of 32K (ResNet-50, LARS; BERT in 101 minutes, LAMB).
#
# ### Exercise 34.4 · The same step on many ranks
# Each rank has an equal part of the batch, and all must take the step that one process would take. What must
# be averaged, and when? `nets.gradient(weights, images, labels)` is a list of arrays, `nets.join(arrays)` one
# vector of them, `nets.cut(vector, weights)` arrays again. Trainings are in float32, the check's mostly in
# float64: a buffer needs the gradient's dtype. 4 lines, one call.
#
# <details><summary>Hint 1: the order</summary>
#
# LARS divides by the norm of the gradient *of the whole batch*. A part's gradient is noisier, its norm on
# average larger: the mean of four ranks' steps is not the step of the mean.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = nets.join(nets.gradient(…))`, an `Allreduce` into `total = np.empty_like(own)`, then
# `update(weights, nets.cut(total / comm.size, weights), state, rate)`.
# </details>


# %%
def parallel_step(comm, weights, images, labels, update, state, rate):
    """One step on all ranks. images, labels: this rank's. update: sgd, lars or lamb."""
    ### BEGIN SOLUTION
    own = nets.join(nets.gradient(weights, images, labels))
    total = np.empty_like(own)
    # Across ranks: the mean gradient of the whole batch, before anybody takes its norm.
    comm.Allreduce(own, total)
    update(weights, nets.cut(total / comm.size, weights), state, rate)
    ### END SOLUTION


# %%
updates = {"SGD": sgd, "LARS": lars, "LAMB": lamb}


def expect_one_process(ranks, name, where):
    """ranks: what each rank did in three steps. The same as one process, with one call of MPI a step?"""
    p = len(ranks)
    for step, alone in enumerate(lab34.one_process(updates[name], p)):
        for rank, seen in enumerate(ranks):
            at = f"{name} on {where}, step {step + 1}, rank {rank}"
            calls = "calls of update in three steps"
            expect.equal(len(seen.gradients), 3, f"{at}: {calls}", because="Every rank calls it once a step")
            dtypes = {str(gradient.dtype) for gradient in seen.gradients[step]}
            like = "A buffer is to be like the gradient: np.empty_like(own)"
            expect.equal(dtypes, {"float64"}, f"{at}: dtypes of the gradient given to update", because=like)
            expect_mean(seen.gradients[step], alone, rank, at)
            expect.close(
                seen.weights[step],
                alone.after,
                f"{at}: the weights, while the gradients given to update were right",
                rtol=1e-6,
                atol=1e-10,
                slips={"they are what they were: give update those of the caller, no copy": alone.before},
                because="Is `state` the caller's own?",
            )
    calls = [len(seen.calls) for seen in ranks]
    enough = "One Allreduce a step is enough: join the gradients."
    expect(
        p == 1 or max(calls) <= 3, f"{name} on {where}: calls of MPI by rank, in 3 steps: {calls}. {enough}"
    )


def expect_mean(gradient, alone, rank, at):
    """gradient: what update got. The gradient of the whole batch?"""
    p = len(alone.own)
    expect.close(
        gradient,
        alone.gradient,
        f"{at}: the gradient given to update",
        rtol=1e-6,
        atol=1e-10,
        slips={
            "this is the rank's own gradient; an update needs the norm of the mean, so average first": (
                alone.own[rank]
            ),
            "this is the sum over the ranks, not the mean; LARS hides that in matrices, not in biases": [
                p * part for part in alone.gradient
            ],
            f"this is the rank's own gradient / {p}: use what Allreduce receives": [
                part / p for part in alone.own[rank]
            ],
            "it is a mean over the images already: divide the sum by the ranks alone": [
                part / alone.images for part in alone.gradient
            ],
            "it is a mean over the images already: divide the sum by the ranks, not by the images": [
                part * p / alone.images for part in alone.gradient
            ],
        },
    )


def try_parallel(comm):
    for name, update in updates.items():
        seen = comm.allgather(lab34.three_steps(comm, parallel_step, update))
        expect_one_process(seen, name, f"{comm.size} real ranks")


# %%
# What is asked: three steps on 1 to 4 virtual ranks, then on real ones, are those of one process.
with check("34.4"):
    for p in (1, 2, 3, 4):
        for name, update in updates.items():
            run = virtual.Cluster(nodes=p).run(lab34.three_steps, parallel_step, update)
            expect_one_process(run.results, name, f"{p} virtual ranks")
    launch.run(on_every_size, try_parallel, ranks=launch.ranks_here(workers), timeout=patience)

# %% [markdown]
# ### Predict
# One GPU for every 32 images of a batch: with 1,536 images 48 GPUs, and an epoch is 1 step instead of 48. How
# many times as fast as with one GPU is an *epoch* then? And how many times sooner, at the best batch and in
# the best way, are *97 % of the test images* right, which takes more epochs? Here a GPU is a core of this
# machine, whose step is measured; the gradients' sum takes what the links of the virtual machine need.

# %%
predict("34.4", epoch_times_as_fast=40, goal_times_as_soon=10)

# %%
computing = lab34.step_times(updates, images=batches[0])
seconds = {way: computing[way.split(",")[0]].median for way in trained}
times = lab34.times_to_goal(trained, seconds, batches[0], machine)
epoch, goals = lab34.speed_ups(times, "SGD, rate kept")
goals.pop("SGD, linear", None)  # a curve less
curves = {f"{goal} %: {way}": rows for way, rows in goals.items()} | {"an epoch": epoch}
axes = {"xlabel": f"images per step, {batches[0]} a GPU", "ylabel": "times as fast as SGD on 1 GPU"}
plots.lines(curves, title=f"Time per epoch, and time to {goal} %", logx=True, logy=True, **axes)
for name, time in computing.items():
    print(f"{name}, {batches[0]} images: {time}")
    record.add("step", way=name, images=batches[0], seconds=time)
for way, rows in times.items():
    fields = dict(zip(("epoch", "goal"), zip(*rows.values(), strict=True), strict=True))
    record.add("times", unit="s", way=way, batches=list(rows), gpu=batches[0], machine=machine, **fields)
best = {}
for way, row in goals.items():
    best |= {f"{way}, batch {batch}, GPUs: {batch // batches[0]}": gain for batch, gain in row.items()}
soonest = max(best, key=best.get, default="SGD on 1 GPU does not get there")
print(f"{goal} % of the test images, soonest: {soonest}")
predict.compare("34.4", epoch_times_as_fast=epoch[batches[-1]], goal_times_as_soon=best.get(soonest, 0))

# %% [markdown]
# **Explain.** A curve ends where 97 % is not reached. The epoch becomes faster with every GPU; the goal by
# far less, then not at all: GPUs that are paid for in vain. Twice the images in a step say less than twice as
# much about the way to go; once they agree, more say nothing new. (The schedule has a part in it: its epochs
# are the same at every batch. A faster `machine` lifts both curves, and hardly changes the gap.)
#
# ### What you take away
# - k times the batch, k times the rate, with a warm-up from the base rate: until the rate itself breaks.
# - LARS and LAMB make each layer's step a share of its weights. The rate still needs a rule, and a warm-up.
# - Average first, then take norms: a step on p ranks is the step of one process.
# - Images a second are not the goal. Ask for the time to an accuracy, of several seeds, at a tuned rate.

# %% [markdown]
# <!-- Generated from solutions/34_large_batch.py by `make labs`. Learners work on a copy in work/. -->
# # 34 Large batch
#
# More GPUs means more images in a step, so fewer steps. Does the net still learn? You write the
# field's answers, drive each to the point where accuracy breaks, and find out what the speed is
# worth.
#
# **You will be able to** (1) scale a learning rate with the batch and warm it up, (2) write LARS
# (and LAMB, if you have time), and say what it adds to SGD, (3) take its step on many ranks, the
# same as on one, (4) tell time to accuracy from time per epoch, (5) say where Adasum lies between
# the sum and the mean of gradients.
#
# Needs: mpi · Ranks: 4 · Minutes: 70 · Level: intermediate · Before: 30

# %%
import numpy as np
import virtual
from labkit import check, data, hint, lab, nets, plots, predict, record
from support import lab34

lab.start("34_large_batch")

# %% tags=["parameters"]
batches = (32, 64, 128, 192, 256, 512, 768, 1536)  # images per step, over all ranks together
epochs = 10  # passes over the 1,536 training images: the same for every batch
warm = 2  # of these epochs, for the warm-up
goal = 95  # % of the test images: about 3 less than a batch of 32 gets right in the end
seeds = (0, 1, 2, 3, 4)  # a training for each: start weights and order of the images
sgd_rate = 0.0125  # learning rates at a batch of 32; where they come from: see Scale the rate
lars_rate = 0.025
adam_rate = 0.002
lamb_rate = 0.005
machine = "h100_ndr"  # the virtual machine whose links sum the gradients
workers = 4  # real ranks in the checks, unless a launcher has started some
patience = 30  # seconds after which a check calls the ranks stuck


# %% [markdown]
# ## The net and its optimizer
# The net: 64 pixels, four hidden layers of 64, ten digits. It has 17,290 parameters and no
# normalisation: deep enough to be hurt by a high rate.
#
# All optimizers of this lab have the form of this one, SGD with **momentum**:
#
# - It moves `weights` **in place**, a list of arrays: matrices and biases in turn (`w -= …`).
# - `state.m` is a list of arrays like them, zeros at first: a sum of past steps that fades.
# - `decay` pulls a matrix towards 0. Biases (`w.ndim == 1`) have no decay.

# %%
def sgd(weights, gradients, state, rate, decay=1e-4, momentum=0.9):
    """One step of SGD with momentum, in place."""
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        step = g + decay * w if w.ndim > 1 else g
        state.m[i] = momentum * state.m[i] + rate * step
        w -= state.m[i]


# %% [markdown]
# ## Scale the rate
# With a batch of 32, an epoch has 48 steps. With 1,536 it has one. If the rate stays, a step goes
# no further, and there are fewer steps: the net falls behind.
#
# **Linear scaling** (Goyal et al. 2017): k times the batch, k times the rate. Then one step goes as
# far as k small steps did.
#
# A high rate hurts most at the start, where the gradient turns quickly. So the rate may climb to
# its height over the first epochs: a **gradual warm-up**.
#
# The base rate, at a batch of 32, was tuned: of rates that are a factor of 2 apart the one with the
# best mean of three seeds. (By test images, as there are so few; do not do that at work.) For SGD
# several were as good. The **lowest** of them was taken, as there one sees best what a rule does: a
# higher one could be kept for longer, and would break sooner when it is scaled.
#
# ### Predict
# These are guesses. All trainings have ten epochs. A batch of 32 gets about 98 % of the test images
# right. Which is the largest of the batches 32, 64, 128, 192, 256, 512, 768, 1,536 that loses less
# than 2 % against that,
#
# - if the rate is kept as it is for a batch of 32?
# - if the rate is scaled linearly?

# %%
predict("34.1", kept_up_to=..., linear_up_to=...)


# %% [markdown]
# ### Exercise 34.1 · The schedule
# Write the rate of step 0, 1, 2, …. An epoch has `images // batch` steps: what does not fill a
# batch is left out. *(intermediate)*
#
# | when | rate |
# |---|---|
# | in the first `warm_up` epochs | climbs evenly from `base`, at step 0, to `peak`, one step *after* them |
# | afterwards | falls: `peak * (1 + cos(π f)) / 2` |
#
# The peak is `base * (batch / base_batch) ** power`: power 1 is linear, 0.5 the square root, 0 not
# scaled.
#
# f is the share of the steps after the warm-up that is behind us: 0 in the first of them, not yet 1
# in the last. `warm_up` may be 0. 6 lines.
#
# <details><summary>Hint 1: count in steps</summary>
#
# `first = warm_up * (images // batch)` is the first step after the warm-up; `total` steps likewise.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if step < first: return base + (peak - base) * step / first`. After that
# `f = (step - first) / (total - first)`. With a warm-up of 0, no step is below `first`.
# </details>

# %%
def learning_rate(step, batch, base, power, warm_up, epochs, images=1536, base_batch=32):
    """The rate of step 0, 1, … of a training with this batch."""
    raise NotImplementedError("exercise 34.1: The schedule")


# %%
# Asked: The rates of seven trainings, at steps in the warm-up, at its end,
# later, and at the last.
check("34.1", learning_rate)


# %% [markdown]
# ### Measure: how far does linear scaling carry?
# Three ways: the rate kept, scaled linearly, and scaled with a warm-up. Each batch is trained with
# five seeds. The plot shows test images that are *wrong*: the median of the seeds, and bars for the
# middle half. (261 test images: one is 0.4 %.) About half a minute.

# %%
def plan(base, power, warm_up):
    """rate(step, batch) of a training with these numbers."""
    return lambda step, batch: learning_rate(step, batch, base, power, warm_up, epochs)


ways = {
    "SGD, rate kept": (sgd, plan(sgd_rate, 0, 0)),
    "SGD, linear": (sgd, plan(sgd_rate, 1, 0)),
    "SGD, linear, warm-up": (sgd, plan(sgd_rate, 1, warm)),
}
trained = lab34.sweep(ways, batches, seeds, epochs, goal)

# %%
lab34.draw_wrong(trained, f"{epochs} epochs: a rate that is kept falls behind")
holds = {way: lab34.holds(rows, least=2) for way, rows in trained.items()}
print("loses less than 2 % up to a batch of:", holds)
kept, linear = (holds[f"SGD, {how}"] for how in ("rate kept", "linear"))
predict.compare("34.1", kept_up_to=kept, linear_up_to=linear)

# %% [markdown]
# **Explain.** You should see: the kept rate falls behind early, and more with every doubling of the
# batch. The linear rule holds some doublings longer. Then it breaks, too, and the bars get long:
# some seeds still learn, others do not. The rule says that k small steps go the same way as a large
# one; with a large k they do not.
#
# The warm-up helps little here, and from 512 on it may even do harm. It takes two of only ten
# epochs, in which the rate is low, and this net does not need it where the rule holds. In Goyal's
# training of ResNet-50 (90 epochs, rates up to 3.2) it was what kept 8,192 images as good as 256.
# Take that from there, not from this plot.
#
# ## A rate for each layer
# ‖w‖, a matrix's **norm**, is the root of the sum of its squared values. How large is each layer's
# gradient, measured by its weights?

# %%
digits = data.digits()
ratios = []
for seed in seeds:
    weights = lab34.start_weights(seed)
    gradients = nets.gradient(weights, digits.train_x, digits.train_y)
    matrices = [(w, g) for w, g in zip(weights, gradients, strict=True) if w.ndim > 1]
    ratios.append([np.linalg.norm(w) / np.linalg.norm(g) for w, g in matrices])
print(
    "‖w‖ / ‖g‖ of the five matrices at the start, mean of the seeds:",
    np.mean(ratios, axis=0).round(1),
)


# %% [markdown]
# The last layer's gradient is two to three times as large a share of its weights as the others'. A
# rate that the last layer bears may be low for the rest.
#
# ### Exercise 34.2 · LARS
# **LARS** (You, Gitman and Ginsburg 2017) gives each matrix a local rate:
#
#     local = trust * ‖w‖ / (‖g‖ + decay * ‖w‖)
#     step  = local * (g + decay * w)
#
# So a step is about `rate * trust` of the matrix's norm, whatever the gradient's size. Biases:
# local rate 1, no decay. If ‖w‖ or ‖g‖ is 0, the local rate is 1, too. The rest is as in `sgd`.
# `np.linalg.norm(w)` is the norm. 8 lines. *(intermediate)*
#
# (The paper's `trust` is 0.001, with global rates of several units. Only `rate * trust` counts for
# matrices; with 0.05 a rate as small as SGD's suits biases as well. Do not take 0.05 to another
# net.)
#
# <details><summary>Hint 1: from sgd to LARS</summary>
#
# Only `step` changes: for a bias (`w.ndim == 1`) it is g, for a matrix `local * (g + decay * w)`.
# The rate stays inside the momentum: `state.m[i] = momentum * state.m[i] + rate * step`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `size = np.linalg.norm(w)`, `slope = np.linalg.norm(g)`, `local = 1`, and
# `if size > 0 and slope > 0:` the formula.
# </details>

# %%
def lars(weights, gradients, state, rate, trust=0.05, decay=1e-4, momentum=0.9):
    """One step of LARS, in place."""
    raise NotImplementedError("exercise 34.2: LARS")


# %%
# Asked: The gradient's size has no say in matrices; the weights after each
# step, norms of 0 included.
check("34.2", lars)


# %% [markdown]
# ## The same for Adam
# **Adam** divides each value of the gradient by its usual size. It keeps two fading means,
# `state.m` of the gradients and `state.v` of their squares. Both begin at 0 and are too small at
# first, hence the two divisions. (`state.t` is 1 in the first step; the training counts it.)
#
# Here it is; skip it if you know Adam.

# %%
def adam_step(i, w, g, state, decay, betas=(0.9, 0.999), eps=1e-6):
    """Adam's step for array i, at a rate of 1; for a matrix with decay."""
    state.m[i] = betas[0] * state.m[i] + (1 - betas[0]) * g
    state.v[i] = betas[1] * state.v[i] + (1 - betas[1]) * g**2
    m = state.m[i] / (1 - betas[0] ** state.t)
    v = state.v[i] / (1 - betas[1] ** state.t)
    step = m / (np.sqrt(v) + eps)
    return step + decay * w if w.ndim > 1 else step


def adam(weights, gradients, state, rate, decay=1e-4):
    """One step of Adam, in place."""
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        w -= rate * adam_step(i, w, g, state, decay)


# %% [markdown]
# ## Do they carry further?
# Each optimizer has one base rate, tuned at a batch of 32 as SGD's was. (Where several were as
# good, the middle one.) For larger batches a rule has to do: the linear one for LARS, the **square
# root** of k for Adam, and both for SGD. All have the same warm-up.
#
# ### Predict
# At a batch of 768, how many percent of the test images do LARS and Adam get right? Both are
# guesses. (What SGD gets there with the linear rule is in the last plot: read it off.)

# %%
predict("34.2", lars_at_768=..., adam_at_768=...)

# %% [markdown]
# ### Measure: with the control
# Three more ways. About 20 s.

# %%
more = {
    "SGD, square root": (sgd, plan(sgd_rate, 0.5, warm)),
    "LARS, linear": (lars, plan(lars_rate, 1, warm)),
    "Adam, square root": (adam, plan(adam_rate, 0.5, warm)),
}
trained |= lab34.sweep(more, batches, seeds, epochs, goal)
updates = {"SGD": sgd, "LARS": lars, "Adam": adam}

# %%
warmed = {way: trained[way] for way in ("SGD, linear, warm-up", *more)}
lab34.draw_wrong(warmed, "All with warm-up: the linear rule breaks SGD first")


def middle_right(way):
    """Median of the seeds: test images right (%), at the largest batch but one."""
    return np.median([training.right for training in trained[way][batches[-2]]])


predict.compare(
    "34.2", lars_at_768=middle_right("LARS, linear"), adam_at_768=middle_right("Adam, square root")
)


# %% [markdown]
# **Explain.** Read it in pairs, as each claim has its control.
#
# - *LARS, linear* against *SGD, linear, warm-up*: the same rule. You should see LARS break later,
#   by about one doubling. Whether by the layers' own rates, or only because no step is long, is not
#   shown.
# - *SGD, square root* against *SGD, linear, warm-up*: only the rule differs. At 512 and more the
#   lower rate alone brings SGD about what LARS brings. So part of LARS's gain is simply that it
#   avoids too high a rate.
# - *Adam, square root* against *SGD, square root*: the same rule, another step. At 512 and more you
#   should see two curves apart: that is Adam's step.
#
# All of them break in the end. Nado et al. (2021) found the like at full size: SGD with Nesterov
# momentum and Adam, well tuned, match LARS on ResNet-50 and LAMB on BERT. What was reported with no
# accuracy lost: batches of 8,192 (ResNet-50 in an hour, 256 GPUs; Goyal), of 32K (ResNet-50, LARS),
# and of 64K and then 32K (BERT in 76 minutes, LAMB).
#
# Is that a ranking? No: one small net, ten epochs, a rate for each that was tuned in a minute.

# %% [markdown]
# ### Exercise 34.3 · LAMB, for those who have time
# You may go on with 34.4: nothing below needs this. It takes about 12 minutes more.
#
# **LAMB** (You et al. 2019, for BERT) gives each matrix its own rate, as LARS does, but around
# Adam's step: a matrix moves by
#
#     rate * ‖w‖ / ‖step‖ * step
#
# with the step that `adam_step` returns, decay included. A bias moves as in `adam`; so does a
# matrix where one of the two norms is 0. Call `adam_step` once for each array: it changes `state`.
# 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: from adam to LAMB</summary>
#
# Keep what `adam_step` returns in `step`. A factor `ratio` is 1, and for a matrix with both norms
# above 0 it is their quotient.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `size = np.linalg.norm(w)`, `length = np.linalg.norm(step)`,
# `if w.ndim > 1 and size > 0 and length > 0: ratio = size / length`. At last
# `w -= rate * ratio * step`.
# </details>

# %%
def lamb(weights, gradients, state, rate, decay=1e-4):
    """One step of LAMB, in place."""
    raise NotImplementedError("exercise 34.3: LAMB, for those who have time")


# %%
# Asked: The weights after each of four steps, with and without decay, and where
# norms are 0.
check("34.3", lamb)

# %% [markdown]
# Does LAMB's ratio carry further than Adam's step alone? The control is Adam, with the same rule.
# How many percent of the test images does LAMB get right at a batch of 768? (A guess.)

# %%
predict("34.3", lamb_at_768=...)

# %%
with_ratio = {"LAMB, square root": (lamb, plan(lamb_rate, 0.5, warm))}
trained |= lab34.sweep(with_ratio, batches, seeds, epochs, goal)
updates["LAMB"] = lamb

# %%
pair = ("Adam, square root", "LAMB, square root")
lab34.draw_wrong({way: trained[way] for way in pair}, "LAMB goes as far as Adam")
predict.compare("34.3", lamb_at_768=middle_right("LAMB, square root"))

# %% [markdown]
# **Explain.** You should see two curves that lie close together. At the largest batches, where it
# would count, LAMB is not ahead. So on this net it is Adam's step that carries far, not LAMB's
# ratio.

# %% [markdown]
# ## The same step on many ranks
# LARS divides by the norm of the gradient *of the whole batch*. Each rank has the gradient of its
# part. How long are these, against their mean?

# %%
weights = lab34.start_weights(seed=0)
parts = []
for rank in range(4):
    own = slice(8 * rank, 8 * (rank + 1))  # 8 images of 32
    parts.append(nets.join(nets.gradient(weights, digits.train_x[own], digits.train_y[own])))
mean = np.linalg.norm(np.mean(parts, axis=0))
print(
    "‖g‖ of each part / ‖g‖ of the mean:",
    [round(float(np.linalg.norm(g) / mean), 2) for g in parts],
)


# %% [markdown]
# A part's gradient is noisier, and as a rule longer. So each rank's own local rate would be
# another, as a rule a lower one: the mean of the ranks' steps is not the step of the mean.
#
# ### Exercise 34.4 · Average, then take the norm
# Each rank has an equal part of the batch, and all must take the step that one process would take.
# What must be averaged, and when? 4 lines, one call of MPI. *(intermediate)*
#
# | | |
# |---|---|
# | `nets.gradient(weights, images, labels)` | the gradient, a list of arrays: the mean over these images |
# | `nets.join(arrays)` | one vector of them |
# | `nets.cut(vector, weights)` | arrays again, shaped like `weights` |
# | `comm.Allreduce(own, total)` | the sum of all ranks' `own`, in `total`, an array like it (also in dtype) |
#
# <details><summary>Hint 1: the order</summary>
#
# First the mean gradient of all ranks, then one `update` with it: the norms are taken there.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `own = nets.join(nets.gradient(…))`, an `Allreduce` into `total = np.empty_like(own)`, then
# `update(weights, nets.cut(total / comm.size, weights), state, rate)`.
# </details>

# %%
def parallel_step(comm, weights, images, labels, update, state, rate):
    """One step on all ranks. images, labels: this rank's. update: a function like sgd or lars."""
    raise NotImplementedError("exercise 34.4: Average, then take the norm")


# %%
# Asked: Three steps on 1 to 4 virtual ranks, then on real ones, are those of
# one process, and one Allreduce is all that a step calls.
check("34.4", parallel_step)

# %% [markdown]
# ## What is the speed worth?
# One GPU for every 32 images of a batch: with 1,536 images 48 GPUs, and an epoch is 1 step instead
# of 48.
#
# A "GPU" is here a core of this machine, whose step is measured. The gradients' sum takes what the
# links of a virtual machine need. Which core and which machine is arbitrary, as computing and
# messages only have to take some time each.

# %%
computing = lab34.step_times(updates, images=batches[0])
gpus = batches[-1] // batches[0]
summing = lab34.allreduce_seconds(gpus, machine)
print(f"a step of SGD, {batches[0]} images, on one GPU: {1e3 * computing['SGD'].median:.3f} ms")
print(f"the sum of the gradients on {gpus} GPUs: {1e3 * summing:.3f} ms")

# %% [markdown]
# ### Predict
# How many times as fast as with one GPU is an *epoch* on 48 GPUs? (On one it has 48 steps and no
# sum.)
#
# And how many times sooner are *95 % of the test images* right, with as many GPUs as you like, in
# the best way? That may take more epochs, or never happen. So this one is a guess.

# %%
predict("34.4", epoch_times_as_fast=..., goal_times_as_soon=...)

# %%
seconds = {way: computing[way.split(",")[0]].median for way in trained}
times = lab34.times_to_goal(trained, seconds, batches[0], machine)
# Against SGD with the rate kept, on one GPU: how many times as fast an epoch is, by batch; and how
# many times as soon each way is at the goal, by way and batch.
epoch, goals = lab34.speed_ups(times, "SGD, rate kept")

# %%
# A curve less: it is like the one with warm-up.
shown = [way for way in goals if way != "SGD, linear"]
curves = {f"{goal} %: {way}": goals[way] for way in shown} | {"an epoch": epoch}
axes = {"xlabel": f"images per step, {batches[0]} a GPU", "ylabel": "times as fast as SGD on 1 GPU"}
title = f"An epoch gets faster and faster, the way to {goal} % does not"
plots.lines(curves, title=title, logx=True, logy=True, **axes)
for name, time in computing.items():
    record.add("step", way=name, images=batches[0], seconds=time)
for way, rows in times.items():
    an_epoch, to_goal = zip(*rows.values(), strict=True)
    fields = {"batches": list(rows), "epoch": an_epoch, "goal": to_goal}
    record.add("times", unit="s", way=way, gpu=batches[0], machine=machine, **fields)
soonest = {way: max(row, key=row.get) for way, row in goals.items()}
for way, batch in soonest.items():
    gain = goals[way][batch]
    used = batch // batches[0]
    print(f"{way:>22}: {gain:4.1f} times as soon, with {used:2} GPUs: {gain / used:.2f} for each")
best = max((row[soonest[way]] for way, row in goals.items()), default=0)
predict.compare("34.4", epoch_times_as_fast=epoch[batches[-1]], goal_times_as_soon=best)


# %% [markdown]
# **Explain.** A curve ends where half of the seeds do not reach the goal. The epoch gets faster
# with every GPU; the goal by far less, then not at all. The last column is well below 1, and the
# curves flatten: each GPU that is added brings less. Do not rank the ways by this: five seeds are
# too few.
#
# Why does a larger batch need more epochs, at the best of rates?
# <details><summary>Answer</summary>
#
# Twice the images in a step say less than twice as much about the way to go. Once the mean gradient
# of a batch hardly changes with more images, these say nothing new. (McCandlish et al. 2018 call
# that batch the gradient's noise scale.)
# </details>
#
# One caveat: every training here has the same schedule over ten epochs, and the goal is often
# reached only where the rate has nearly fallen to 0. A schedule for each batch might reach it
# sooner. This is not tested here, and it may be a good part of why the curves are flat.
#
# ## Adding gradients with more care
# Sum and mean are not all that ranks can do with their gradients. Where two gradients are
# *orthogonal*, their steps do not disturb each other, and the **sum** makes use of both. Where they
# *agree*, the sum goes twice as far as either thinks is safe, and the **mean** is better.
# **Adasum** (Maleki et al. 2020) does both, and all between, for each layer by itself:
#
#     adasum(a, b) = (1 - a·b / (2|a|²)) a + (1 - a·b / (2|b|²)) b
#
# Adasum of many gradients is Adasum of pairs, then of pairs of pairs: recursive doubling ([lab 24](24_trees_and_halving.ipynb)),
# with a power of two of ranks. In Horovod `op=hvd.Adasum` switches it on. The net of [lab 30](30_average_gradients.ipynb) learns
# with it here, beside sum and mean, on 1 to 32 virtual ranks of 16 images each. The rate suits
# **one** rank, and nobody tunes it again. About half a minute.

# %%
def pair(a, b):
    """Adasum of two gradients of one layer, neither of them 0."""
    dot = a @ b
    return (1 - dot / (2 * (a @ a))) * a + (1 - dot / (2 * (b @ b))) * b


def adasum(comm, gradient, kept):
    mine = gradient.astype(np.float64)
    theirs = np.empty_like(mine)
    ends = np.cumsum([weight.size for weight in nets.start_weights()])
    distance = 1
    while distance < comm.size:
        other = comm.rank ^ distance
        # Across ranks: swap with the partner; both then hold the Adasum of both.
        comm.Sendrecv(mine, other, recvbuf=theirs, source=other)
        layers = zip(np.split(mine, ends[:-1]), np.split(theirs, ends[:-1]), strict=True)
        mine = np.concatenate([pair(a, b) for a, b in layers])
        distance *= 2
    return mine


def add(comm, gradient, kept):
    total = np.empty_like(gradient)
    comm.Allreduce(gradient, total)
    return total


def average(comm, gradient, kept):
    return add(comm, gradient, kept) / comm.size


learned = {}
for name, way in {"sum": add, "mean": average, "Adasum": adasum}.items():
    learned[name] = {}
    for p in (1, 4, 16, 32):
        with np.errstate(all="ignore"):  # where training diverges, numbers overflow
            settings = {"seeds": seeds[:3], "epochs": 4, "batch": 16 * p, "rate": 0.05, "ranks": p}
            learned[name][p] = virtual.accuracy(way, **settings)
title = "One learning rate, 0.05, for any number of ranks"
plots.lines(learned, xlabel="ranks", ylabel="test images right (%)", title=title, logx=True)

# %% [markdown]
# **Explain.** You should see Adasum above the other two on 16 and 32 ranks. At this rate the sum
# goes too far, and the mean not far enough; Adasum's steps are between the two, as the gradients
# partly agree. With four times the rate the mean catches up (put 0.2 for 0.05 to see it), so Adasum
# saves *tuning the rate*. That it beats a mean whose rate has been tuned, nothing here shows. With
# GPUs and a Horovod built for NCCL it is done *between* nodes alone: on one node you silently get
# the mean (`adasum_gpu_operations.cc`, 0.28.1).
#
# ### What you take away
# - k times the batch, k times the rate: good for some doublings, then it breaks. A rate that is
#   kept falls behind.
# - LARS makes each layer's step a share of its weights (LAMB does, too, around Adam's step). Ask
#   for the control, Adam or a tuned SGD, before you say what that brought.
# - Average first, then take norms: a step on p ranks is the step of one process.
# - Adasum: the sum of what differs, the mean of what agrees. It saves some tuning, not all.
# - Images a second are not the goal. Ask for the time to an accuracy, of several seeds, and for
#   what a GPU brings.

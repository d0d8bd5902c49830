# %% [markdown]
# <!-- Generated from solutions/34_large_batch.py by `make labs`. Learners work on a copy in work/. -->
# # 34 Large batch
#
# If every GPU always processes the same number of images per step, more GPUs mean a larger batch
# and therefore fewer steps in each [epoch](../labs/GLOSSARY.md#epoch). An epoch becomes faster, but the network gets fewer
# updates, and above some batch size it no longer reaches the accuracy of a small batch. Processing
# images 40 times as fast is of little use if training needs many more epochs, or never reaches that
# accuracy.
#
# In this lab we implement the usual remedies for large batches, namely a [learning rate](../labs/GLOSSARY.md#learning-rate) that is
# scaled with the batch, one that is increased gradually at the start ([warm-up](../labs/GLOSSARY.md#warm-up)), and optimizers with
# a learning rate for each layer. We increase the batch until the accuracy breaks, and compare every
# remedy with a control. At the end we measure how much sooner more GPUs reach a given accuracy.
#
# **After this lab you can** (1) scale a learning rate with the batch and warm it up, (2) write the
# optimizer LARS, and say what it adds to SGD (stochastic [gradient](../labs/GLOSSARY.md#gradient) descent), (3) take a step of LARS
# on many [ranks](../labs/GLOSSARY.md#rank) with the same result as in one process, and (4) distinguish time to accuracy from
# time per epoch. If you have time, you can also (5) write the optimizer LAMB, and (6) say where
# Adasum lies between the sum and the mean of gradients.
#
# ![Left, four small steps on a curved path. Center, one step for the same images with the learning rate kept covers only a quarter of the distance. Right, one step with four times the rate covers the whole distance in a straight line and misses the end of the path](../notebooks/figures/34_steps.svg)
#
# *Left: four steps with 32 images each. Center: one step with the same 128 images. If the learning
# rate is left unchanged, this step covers only a quarter of the distance. Right: with four times
# the rate it covers the whole distance, but in the direction of the first gradient, so it misses
# the end of a path that turns.*
#
# Needs: mpi · Ranks: 4 · Minutes: 65 · Level: intermediate · Before: 30

# %%
import numpy as np
from labkit import check, data, hint, lab, nets, predict
from support import lab34

lab.start("34_large_batch")

# %% tags=["parameters"]
batches = (32, 64, 128, 192, 256, 512, 768, 1536)  # images per step, over all ranks together
epochs = 10  # passes over the 1,536 training images: the same for every batch
warm = 2  # of these epochs, for the warm-up
goal = 95  # % of the test images: about 3 less than a batch of 32 gets right in the end
seeds = (0, 1, 2, 3, 4)  # one training run each: start weights and order of images
sgd_rate = 0.0125  # learning rates at a batch of 32; for their tuning, see Scale the rate
lars_rate = 0.025
adam_rate = 0.002
lamb_rate = 0.005
machine = "h100_ndr"  # the machine model whose links perform the allreduce
workers = 4  # real ranks in the checks, unless a launcher has started some
patience = 30  # seconds after which a check calls the ranks stuck


# %% [markdown]
# ## The network and its optimizer
# The network classifies handwritten digits. It has 64 input features (the pixels), four hidden
# layers of 64 units, and ten outputs, for a total of 17,290 parameters. Normalization layers are
# left out, so that a high learning rate does harm.
#
# The next function is SGD with **momentum**. These arguments are the same in all optimizers of this
# lab:
#
# - `weights` is a list of matrices and biases in turn, which the function changes **in place**
#   (`w -= …`). The arrays in `gradients` have the same shapes.
# - `state.m` is a list of arrays of these shapes, too, which are zero at first. Here each is a sum
#   of past steps in which older steps count less and less.
# - `decay` (weight decay) moves the values of a matrix toward 0. Biases (`w.ndim == 1`) have no
#   decay.

# %%
def sgd(weights, gradients, state, rate, decay=1e-4, momentum=0.9):
    """One step of SGD with momentum, in place."""
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        step = g + decay * w if w.ndim > 1 else g
        state.m[i] = momentum * state.m[i] + rate * step
        w -= state.m[i]


# %% [markdown]
# ## Scale the rate
# An epoch of the 1,536 training images has 48 steps with a batch of 32, but only one step with a
# batch of 1,536. If the learning rate stays the same, each step covers the same distance as before,
# and there are fewer steps, so the network falls behind.
#
# **Linear scaling** (Krizhevsky, 2014; Goyal and others, 2017) multiplies the learning rate by k if
# the batch is k times as large. One step then covers about the same distance as k small steps. For
# example, a batch of 128 is four times a batch of 32, so a rate of 0.01 becomes 0.04.
#
# A high rate is most harmful at the start of training, when the gradient changes its direction
# quickly. A **gradual warm-up** therefore increases the rate to its peak during the first epochs.
#
# Both remedies start from a base rate that was tuned at a batch of 32.
#
# <details><summary>How we tuned the base rates</summary>
#
# We tried rates in factors of 2 with three seeds. For each optimizer, several neighboring rates
# were equally good to within one percentage point, the highest of them at least 4 times as high as
# the lowest. We took the lowest of them, and for LAMB the second lowest.
#
# We tuned on the test images, because there are so few images. In your own work, tune on separate
# validation images.
# </details>
#
# ### Predict
# All training runs have ten epochs. With a batch of 32, they classify about 98 % of the test images
# correctly. Which of the batches 32, 64, 128, 192, 256, 512, 768 and 1,536 is the largest that
# loses less than 2 percentage points of this,
#
# - if the rate is kept as it is for a batch of 32?
# - if the rate is scaled linearly?
#
# Both answers are guesses. For the first, note that with the rate kept, ten epochs with a batch k
# times as large cover only about the distance of 10 / k epochs with a batch of 32.

# %%
predict("34.1", kept_up_to=..., linear_up_to=...)


# %% [markdown]
# ### Exercise 34.1 · The schedule
# Write `learning_rate`, which returns the rate of step 0, 1, 2, … of a training run. 6 lines.
# *(intermediate)*
#
# | when | rate |
# |---|---|
# | in the first `warm_up` epochs | increases by equal amounts, from `base` at step 0 to `peak` at the first step *after* these epochs |
# | afterwards | decreases as `peak * (1 + cos(π f)) / 2` |
#
# - An epoch has `images // batch` steps, because images that do not fill a batch are left out.
# - `peak` is `base * (batch / base_batch) ** power`. Power 1 is linear scaling, 0.5 scales with the
#   square root, and 0 does not scale.
# - f is the fraction of the steps after the warm-up that have been completed. It is 0 in the first
#   of these steps and less than 1 in the last.
# - If `warm_up` is 0, the rate begins at the peak.
#
# For example, take ten epochs of 1,536 images with a batch of 128, a base of 0.01 at 32, power 1
# and two epochs of warm-up. An epoch has 1,536/128 = 12 steps, and the peak is 0.01 · 128/32 =
# 0.04:
#
# | step | 0 | 12 | 24 | 72 |
# |---|---|---|---|---|
# | phase | warm-up | half of the warm-up | f = 0 | f = 48 / 96 |
# | rate | 0.01 | 0.025 | 0.04 | 0.02 |
#
# <details><summary>Hint 1: count in steps</summary>
#
# `first = warm_up * (images // batch)` is the number of the first step after the warm-up. Compute
# the `total` number of steps in the same way.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `if step < first: return base + (peak - base) * step / first`. After that,
# `f = (step - first) / (total - first)`. With a warm-up of 0, no step is below `first`.
# </details>

# %%
def learning_rate(step, batch, base, power, warm_up, epochs, images=1536, base_batch=32):
    """The rate of step 0, 1, … of a training run with this batch."""
    raise NotImplementedError("exercise 34.1: The schedule")


# %%
# Asked: The rates of seven training runs, at steps in the warm-up, at its end,
# later, and at the last.
check("34.1", learning_rate)


# %% [markdown]
# ### Measure: up to which batch does linear scaling work?
# We compare three choices of the rate: kept, scaled linearly, and scaled linearly with a warm-up.
# Each batch is trained with five seeds, which determine the start weights and the order of the
# images. All runs together take about half a minute.
#
# - The plot shows the percentage of test images that are classified *wrongly*, as the median over
#   the seeds with a bar for the [interquartile range](../labs/GLOSSARY.md#interquartile-range). (There are 261 test images, so one image is
#   0.4 %.)
# - The lines below the plot give the lowest and the highest percentage that is *right*.

# %%
def schedule(base, power, warm_up):
    """rate(step, batch) of a training run with these numbers."""
    return lambda step, batch: learning_rate(step, batch, base, power, warm_up, epochs)


ways = {
    "SGD, rate kept": (sgd, schedule(sgd_rate, 0, 0)),
    "SGD, linear": (sgd, schedule(sgd_rate, 1, 0)),
    "SGD, linear, warm-up": (sgd, schedule(sgd_rate, 1, warm)),
}
trained = lab34.sweep(ways, batches, seeds, epochs, goal)

# %%
lab34.draw_wrong(trained, f"{epochs} epochs: a rate that is kept falls behind")
holds = {way: lab34.holds(rows, least=2) for way, rows in trained.items()}
print("loses less than 2 points up to a batch of:", holds)
kept, linear = (holds[f"SGD, {how}"] for how in ("rate kept", "linear"))
predict.compare("34.1", kept_up_to=kept, linear_up_to=linear)

# %% [markdown]
# **Explain.** You should see that the kept rate falls behind early. Linear scaling works for one or
# two more doublings of the batch. Then it breaks, too, and the bars become long because some seeds
# still learn while others do not.
#
# Linear scaling assumes that k small steps have the same direction as one large step, and with a
# large k this is no longer true.
#
# The warm-up helps little here, and with a batch of 512 or 768 it even does harm. In our runs it
# also did harm when training with warm-up had two more epochs, so the time at a low rate is not the
# only reason. The evidence for warm-up comes from longer training. ResNet-50 was trained for 90
# epochs, and only with a gradual warm-up was a batch of 8,192 images as good as a batch of 256
# (Goyal and others, 2017).
#
# ## A rate for each layer
# Why does a high rate do harm? It may be too high for only one of the layers. To see this, we
# compare the gradient of each layer with its weights.
#
# The **norm** of a matrix, ‖w‖, is the square root of the sum of its squared values. For each of
# the five matrices, from input to output, the next cell prints ‖w‖ / ‖g‖, where g is the gradient
# for all training images. A small ratio means a large gradient compared with the weights.

# %%
ratios = lab34.norm_ratios(seeds).round(1)
print("‖w‖ / ‖g‖ of the five matrices at the start, mean of the seeds:", ratios)


# %% [markdown]
# The ratio of the last layer is the smallest. Compared with the weights, the gradient of this layer
# is two to three times as large as the gradients of the other layers. A rate that is safe for the
# last layer may therefore be too low for the other layers.
#
# ### Exercise 34.2 · LARS
# Write `lars`. **LARS** (layer-wise adaptive rate scaling, 2017) gives each matrix a *local rate*,
# and differs from `sgd` only in `step`. 8 lines. *(intermediate)*
#
# | array | `local` | `step` |
# |---|---|---|
# | a matrix | `trust * ‖w‖ / (‖g‖ + decay * ‖w‖)` | `local * (g + decay * w)` |
# | a matrix for which ‖w‖ or ‖g‖ is 0 | 1 | `g + decay * w` |
# | a bias | 1 | `g` |
#
# The function `np.linalg.norm(w)` computes the norm. As in `sgd`, `step` is multiplied by the rate
# and added to the momentum. (For matrices, only the product `rate * trust` matters. Our `trust` of
# 0.05 suits this network, so do not transfer it to another one.)
#
# The norm of `step` is about `trust` times the norm of the matrix, whatever the size of the
# gradient. For example, with a trust of 0.05 and without decay:
#
# | ‖w‖ | ‖g‖ | `local` | norm of `step` |
# |---|---|---|---|
# | 8 | 2 | 0.05 · 8/2 = 0.2 | 0.2 · 2 = 0.4 |
# | 8 | 20 | 0.05 · 8/20 = 0.02 | 0.02 · 20 = 0.4 |
#
# <details><summary>Hint 1: from sgd to LARS</summary>
#
# Only `step` changes. For a bias (`w.ndim == 1`) it is g, and for a matrix it is
# `local * (g + decay * w)`. The rate stays inside the momentum:
# `state.m[i] = momentum * state.m[i] + rate * step`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compute `size = np.linalg.norm(w)` and `slope = np.linalg.norm(g)`, start with `local = 1`, and
# apply the formula under the condition `if size > 0 and slope > 0:`.
# </details>

# %%
def lars(weights, gradients, state, rate, trust=0.05, decay=1e-4, momentum=0.9):
    """One step of LARS, in place."""
    raise NotImplementedError("exercise 34.2: LARS")


# %%
# Asked: How far matrices move with larger gradients, and the weights after each
# step, norms of 0 included.
check("34.2", lars)


# %% [markdown]
# ## Adam, as another baseline
# LARS adapts the rate to each layer, while **Adam** adapts it to each value. It divides each value
# of the gradient by the value's typical size. For this it keeps two running means, `state.m` of the
# gradients and `state.v` of their squares.
#
# The code is given. Two details of it are:
#
# - Both means start at 0, so in the first steps they are too small. The two divisions that contain
#   `state.t` correct this. (The training loop sets `state.t` to the number of the step, from 1.)
# - The weight decay is added after the division by the typical size, as in the variant AdamW.

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
# ## Do LARS and Adam work for larger batches?
# Each optimizer has one base rate, tuned at a batch of 32 as for SGD, and all have the same
# warm-up. For a batch k times as large, the rate is multiplied by k or by its **square root**,
# which is a common choice for Adam. SGD is the control for both rules:
#
# | optimizer | rule | at a batch of 768, the rate is multiplied by | control |
# |---|---|---|---|
# | LARS | linear | 24 | SGD, linear |
# | Adam | square root | 4.9 | SGD, square root |
#
# ### Predict
# What percentage of the test images do LARS and Adam classify correctly at a batch of 768? Both
# answers are guesses. (For reference, the lines below the last plot show the lowest and the highest
# percentage that SGD with linear scaling and warm-up reaches at 768.)

# %%
predict("34.2", lars_at_768=..., adam_at_768=...)

# %% [markdown]
# ### Measure: with the control
# We train in three more ways, which takes about half a minute. Read the plot as the one before.

# %%
more = {
    "SGD, square root": (sgd, schedule(sgd_rate, 0.5, warm)),
    "LARS, linear": (lars, schedule(lars_rate, 1, warm)),
    "Adam, square root": (adam, schedule(adam_rate, 0.5, warm)),
}
trained |= lab34.sweep(more, batches, seeds, epochs, goal)
updates = {"SGD": sgd, "LARS": lars, "Adam": adam}

# %%
warmed = {way: trained[way] for way in ("SGD, linear, warm-up", *more)}
lab34.draw_wrong(warmed, "Larger batches, all with warm-up")


def middle_right(way):
    """Median of the seeds: test images right (%), at the largest batch but one."""
    return np.median([training.right for training in trained[way][batches[-2]]])


predict.compare(
    "34.2", lars_at_768=middle_right("LARS, linear"), adam_at_768=middle_right("Adam, square root")
)


# %% [markdown]
# **Explain.** Compare the curves in pairs, because each claim has its own control.
#
# - *LARS, linear* and *SGD, linear, warm-up* use the same rule. Up to 256, you should see no gain
#   by LARS. At 512 and 768 LARS has far fewer wrong images, and at 1,536 it breaks, too.
# - *SGD, square root* and *SGD, linear, warm-up* differ only in the rule. At 512, the lower rate
#   alone gives SGD most of the gain of LARS, and at 768 all of it. A large part of this gain may
#   therefore be that LARS avoids rates that are too high.
# - *Adam, square root* and *SGD, square root* use the same rule but different steps. At batches of
#   512 and more you should see that the two curves differ, which is due to Adam's step.
#
# All ways break in the end. The results do not rank the optimizers, because they come from one
# small network, ten epochs, and one base rate per optimizer.

# %% [markdown]
# ### Exercise 34.3 · LAMB (optional)
# This exercise takes about 12 minutes more. You can skip it and go to the heading *At full size*,
# since the rest of the lab does not need LAMB.
#
# Write `lamb`. **LAMB** (layer-wise adaptive moments for batch training, 2019) was designed for the
# language model BERT. It gives each matrix a rate, as LARS does, but it starts from Adam's step. 8
# lines. *(intermediate)*
#
# Call `adam_step` exactly once for each array, because the call changes `state`. It returns the
# `step` of the following table, which includes the decay.
#
# | array | moves by |
# |---|---|
# | a matrix | `rate * ‖w‖ / ‖step‖ * step` |
# | a matrix for which ‖w‖ or ‖step‖ is 0, or a bias | `rate * step`, as in `adam` |
#
# For example, if ‖w‖ = 8 and ‖step‖ = 4, a rate of 0.01 gives the step the factor 0.01 · 8/4 =
# 0.02, and the matrix moves by 0.02 · 4 = 0.08, which is 0.01 times 8.
#
# <details><summary>Hint 1: from adam to LAMB</summary>
#
# Store the result of `adam_step` in `step`. The factor `ratio` is 1 at first. For a matrix whose
# two norms are both above 0, it is their quotient.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compute `size = np.linalg.norm(w)` and `length = np.linalg.norm(step)`. Under the condition
# `if w.ndim > 1 and size > 0 and length > 0:` set `ratio = size / length`. Finally,
# `w -= rate * ratio * step`.
# </details>

# %%
def lamb(weights, gradients, state, rate, decay=1e-4):
    """One step of LAMB, in place."""
    raise NotImplementedError("exercise 34.3: LAMB (optional)")


# %%
# Asked: The weights after each of four steps, with and without decay, and where
# norms are 0.
check("34.3", lamb)

# %% [markdown]
# ### Predict
# Does LAMB's ratio allow larger batches than Adam's step alone? The control is Adam with the same
# rule. What percentage of the test images does LAMB classify correctly at a batch of 768? (This is
# a guess. The last plot shows Adam's result.)

# %%
predict("34.3", lamb_at_768=...)

# %%
with_ratio = {"LAMB, square root": (lamb, schedule(lamb_rate, 0.5, warm))}
trained |= lab34.sweep(with_ratio, batches, seeds, epochs, goal)
updates["LAMB"] = lamb

# %%
pair = ("Adam, square root", "LAMB, square root")
lab34.draw_wrong({way: trained[way] for way in pair}, "Adam and LAMB, square root")
predict.compare("34.3", lamb_at_768=middle_right("LAMB, square root"))

# %% [markdown]
# **Explain.** You should see two curves that lie close together. At the largest batches, where an
# advantage would matter, LAMB is not ahead. On this network it is therefore Adam's step that allows
# large batches, and not LAMB's ratio.

# %% [markdown]
# ### At full size
# These are the largest batches for which the papers reported no [loss](../labs/GLOSSARY.md#loss) of accuracy (1K is 1,024):
#
# | network | method | images or sequences in a batch |
# |---|---|---|
# | ResNet-50 | SGD, linear scaling, warm-up (Goyal and others, 2017) | 8,192 |
# | ResNet-50 | LARS (2017) | 32K |
# | BERT | LAMB (2019) | 64K, then 32K for longer sequences |
#
# A study of 2021 (Nado and others) added the controls. Well-tuned SGD with Nesterov momentum, a
# variant of momentum, matched LARS on ResNet-50, and well-tuned Adam matched LAMB on BERT.
#
# ## The same step on many ranks
# LARS divides by the norm of the gradient *of the whole batch*, but each rank has only the gradient
# of its part. May each rank use the norm of this gradient? The next cell computes the gradients of
# four parts of a batch, and prints the norm of each relative to the norm of their mean.

# %%
digits = data.digits()
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
# The gradient of a part contains more noise, so it is usually longer than the mean, as the numbers
# greater than 1 show. If each rank computed its own local rate, the mean of the steps of all ranks
# would not be the step for the mean gradient. For example, let a step divide a gradient by its
# norm:
#
# | | rank 0 | rank 1 | mean of both |
# |---|---|---|---|
# | gradient | 3 | −1 | 1 |
# | divided by its norm | 1 | −1 | 0 |
#
# The mean of the two steps is 0, while the mean gradient, 1, divided by its norm gives 1.
#
# ### Exercise 34.4 · Average, then take the norm
# Write `parallel_step`. Each rank has an equal part of the batch, and all ranks must take the step
# that one process would take with `update` for the whole batch. Decide what must be averaged, and
# when. 4 lines, one call of [MPI](../labs/GLOSSARY.md#MPI) (Message Passing Interface). *(intermediate)*
#
# | | |
# |---|---|
# | `nets.gradient(weights, images, labels)` | the gradient, a list of arrays: the mean over these images |
# | `nets.join(arrays)` | one vector that contains these arrays |
# | `nets.cut(vector, weights)` | a list of arrays again, shaped like `weights` |
# | `comm.Allreduce(own, total)` | writes the sum of all ranks' `own` into `total`, an array of the same shape and dtype |
#
# <details><summary>Hint 1: the order</summary>
#
# First compute the mean gradient over all ranks. Then call `update` once with this mean, because
# `update` computes the norms.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compute `own = nets.join(nets.gradient(…))`, call `Allreduce` with `total = np.empty_like(own)`,
# and then `update(weights, nets.cut(total / comm.size, weights), state, rate)`.
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
# We now use one GPU for every 32 images of a batch. A batch of 1,536 images then needs 48 GPUs, and
# an epoch has 1 step instead of 48. Does training become 48 times as fast?
#
# The time on 48 GPUs has two parts:
#
# - The step itself is measured on a core of this machine, which stands for a GPU.
# - The [allreduce](../labs/GLOSSARY.md#allreduce) of the gradients is computed for the links of a [virtual cluster](../labs/GLOSSARY.md#virtual-cluster), the simulator
#   that comes with these labs.
#
# The [speed-ups](../labs/GLOSSARY.md#speed-up) are therefore not those of a real machine. With a faster GPU the allreduce would be
# a larger part of the step.

# %%
computing = lab34.step_times(updates, images=batches[0])
gpus = batches[-1] // batches[0]
summing = lab34.allreduce_seconds(gpus, machine)
print(f"a step of SGD, {batches[0]} images, on one GPU: {1e3 * computing['SGD'].median:.3f} ms")
print(f"the allreduce of the gradients on {gpus} GPUs: {1e3 * summing:.3f} ms")

# %% [markdown]
# ### Predict
# Compare both times with those of SGD at the kept rate on one GPU:
#
# - How many times as fast is an *epoch* with 48 GPUs? Compute this from the printed times. On one
#   GPU an epoch has 48 steps and no allreduce, and on 48 GPUs it has one step and one allreduce.
# - How many times as fast does training reach *95 % of the test images*, with as many GPUs as you
#   like and in the best of the ways? For an estimate, look in the plots above for the largest batch
#   with less than 5 % wrong, and count its GPUs. This batch may need more epochs than a small one.

# %%
predict("34.4", epoch_times_as_fast=..., goal_times_as_fast=...)

# %%
times = lab34.measured_times(trained, computing, batches[0], machine)
# Against SGD with the rate kept, on one GPU: how many times as fast an epoch is, by batch; and how
# many times as fast each way reaches the goal, by way and batch.
epoch, goals = lab34.speed_ups(times, "SGD, rate kept")

# %%
lab34.draw_speed_ups(epoch, goals, goal, batches[0])
lab34.print_gains(goals, batches[0])
best = max((max(row.values()) for row in goals.values()), default=0)
predict.compare("34.4", epoch_times_as_fast=epoch[batches[-1]], goal_times_as_fast=best)

# %% [markdown]
# **Explain.** The plot compares the ways with SGD on one GPU. A curve ends where most of the seeds
# no longer reach the goal. (*SGD, linear* without warm-up is left out, to keep the plot readable.)
# Each printed line gives for one way how many times as fast it reaches the goal with its best
# batch, and this gain divided by the number of GPUs.
#
# The epoch becomes faster with every GPU. The time to the goal improves far less, and the largest
# batches never reach the goal. The gain per GPU is well below 1, so each GPU contributes much less
# than a single GPU that trains alone. (Five seeds are too few to rank the ways.)
#
# Why does a larger batch need more epochs, even at the best rate?
# <details><summary>Answer</summary>
#
# Twice as many images make the mean gradient less noisy, but the step does not become twice as
# useful. Once the noise is small, more images hardly change the direction of the step. (The batch
# at which the gain begins to fall is called the *gradient noise scale*; McCandlish and others,
# 2018.)
# </details>
#
# One important limit is that all training runs use a schedule over ten epochs. With the largest
# batches that reach the goal, some runs reach it only when the rate has decreased to a fifth of the
# peak or less. A schedule designed for each batch might reach the goal sooner, which we have not
# tested.
#
# ### What you take away
# - Multiplying the learning rate by k for a batch k times as large works for a few doublings and
#   then breaks down. A rate that is kept falls behind earlier.
# - LARS makes the step of each layer a fixed fraction of the norm of its weights, before this step
#   is multiplied by the rate. LAMB does the same with Adam's step. Compare them with a control,
#   such as Adam or a well-tuned SGD.
# - Average first, then compute norms. A step on p ranks is then the same as a step of one process.
# - Images per second are not the goal. Ask for the time to a given accuracy over several seeds, and
#   for the gain that each GPU contributes.
#
# ## Going further (optional): Adasum (3 minutes)
# If two gradients are *orthogonal*, their steps do not disturb each other, and the **sum** uses
# both of them fully. If two gradients *agree*, their sum is a step twice as long as either gradient
# suggests, so the **mean** is safer. **Adasum** (2020) gives the sum in the first case, the mean in
# the second, and something between them otherwise. It treats each layer separately:
#
#     adasum(a, b) = (1 - a·b / (2|a|²)) a + (1 - a·b / (2|b|²)) b
#
# If a·b is 0, both factors are 1 and the result is the sum. If a and b are equal, both factors are
# 1/2 and the result is the mean. What are the sum, the mean and Adasum of the two vectors
# a = (2, 0) and b = (2, 2)?
# <details><summary>Answer</summary>
#
# Here a·b = 4, |a|² = 4 and |b|² = 8, so Adasum is 1/2 · (2, 0) + 3/4 · (2, 2) = (2.5, 1.5). It
# lies between the mean, (2, 1), and the sum, (4, 2).
# </details>
#
# For more than two ranks, Adasum is applied to pairs, then to pairs of pairs, and so on. In Horovod
# the option `op=hvd.Adasum` selects it. A Horovod with [NCCL](../labs/GLOSSARY.md#NCCL) (NVIDIA [Collective](../labs/GLOSSARY.md#collective) Communications
# Library) applies it only *between* nodes, so on a single node you silently get the mean.
#
# ### Further reading
# - P. Goyal et al., *[Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour](https://arxiv.org/abs/1706.02677)*, 2017. Linear scaling and warm-up, with ResNet-50 in one hour on 256 GPUs.
# - Y. You, I. Gitman and B. Ginsburg, *[Large Batch Training of Convolutional Networks](https://arxiv.org/abs/1708.03888)*, 2017. The paper on LARS, with batches of up to 32K.
# - Y. You et al., *[Large Batch Optimization for Deep Learning: Training BERT in 76 minutes](https://arxiv.org/abs/1904.00962)*, ICLR, 2020. The paper on LAMB, with BERT in 76 minutes.
# - Z. Nado, J. Gilmer, C. Shallue, R. Anil and G. Dahl, *[A Large Batch Optimizer Reality Check: Traditional, Generic Optimizers Suffice Across Batch Sizes](https://arxiv.org/abs/2102.06356)*, 2021. Well-tuned standard optimizers as controls for LARS and LAMB.
# - S. McCandlish, J. Kaplan, D. Amodei et al., *[An Empirical Model of Large-Batch Training](https://arxiv.org/abs/1812.06162)*, 2018. The gradient noise scale, which predicts the largest useful batch.
# - S. Maleki et al., *[Scaling Distributed Training with Adaptive Summation](https://arxiv.org/abs/2006.02924)*, MLSys, 2021. The paper on Adasum.
# - [Horovod: AdaSum](https://horovod.readthedocs.io/en/stable/adasum_user_guide_include.html). How Horovod uses Adasum.

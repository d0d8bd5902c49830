# %% [markdown]
# # 14 Mixed precision and memory
#
# Many training runs end with "CUDA out of memory", or take longer than anyone wants to wait.
# Numbers with 16 bits instead of 32 help with both, because they have half the bytes, and because
# hardware that is made for them does more arithmetic per second.
#
# They also bring a danger, since small numbers may be rounded to zero or lost in a sum. The program
# does not report this, and the network simply learns less.
#
# In this lab we train with 16-bit numbers without losing accuracy, and measure what they gain on
# this machine in time and in bytes. We first see what goes wrong in each of the two 16-bit formats,
# and write the remedy for each. We then count what a training step has to keep in memory, and
# finally reduce this amount by computing some of it twice.
#
# **After this lab you can** (1) say what float16 and bfloat16 lack, (2) write loss scaling and say
# when it is needed, (3) write a mixed-precision training step, (4) predict how many bytes a step
# keeps for the backward pass, and (5) use activation checkpointing, and say what it saves and
# costs.
#
# ![The bits of float32, float16 and bfloat16. All have one sign bit; float16 has a shorter exponent, and bfloat16 has the exponent of float32 and a shorter fraction](14_bits.svg)
#
# *The bits of the three formats. float16 has a shorter exponent than float32 and therefore a
# smaller range. bfloat16 has the exponent of float32, but fewer bits for the digits.*
#
# Needs: torch · Ranks: 1 · Minutes: 70 · Level: intermediate · Before: 02, 10

# %%
import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, hint, lab, nets, plots, predict, record, workloads, world
from support import lab14
from torch.utils.checkpoint import checkpoint

lab.start("14_mixed_precision_and_memory")
device = torch.device(world.device())  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.
torch.backends.cudnn.allow_tf32 = (
    False  # on a GPU: float32 is float32 in convolutions, too (lab 12)
)

# %% tags=["parameters"]
batch = 128  # images per step in the trainings
epochs = 10  # passes over the 1,536 training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
tiny = 2**-20  # the loss is multiplied by it, to make the gradients small
images = 32  # images per step where convolutions are timed (a GPU gets 64 times as many)
runs = 7  # timed runs of each
pairs = 32  # (linear, ReLU) pairs of the deep net
rows = 1024  # inputs per step of the deep net (a GPU gets 64 times as many)
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %% [markdown]
# ## Three kinds of numbers
# A floating-point number has a sign, an **exponent**, which determines how large it is, and a
# **fraction**, which contains its digits. A format with a given number of bits can give more of
# them to the exponent or more to the fraction, but not both.
#
# | | bits: sign, exponent, fraction | next number after 1 | smallest above 0 | largest |
# |---|---|---|---|---|
# | float32 | 1, 8, 23 | 1 + 1.2e-7 | 1.4e-45 | 3.4e38 |
# | float16 | 1, 5, 10 | 1 + 0.00098 | 6.0e-8 | 65,504 |
# | bfloat16 | 1, 8, 7 | 1 + 0.0078 | 9.2e-41 | 3.4e38 |
#
# float16 therefore lacks range, while bfloat16 lacks digits.
#
# In PyTorch `tensor.half()` converts to float16, `tensor.bfloat16()` to bfloat16, and
# `tensor.float()` to float32. A value that the format does not contain is rounded to the nearest
# value that it does contain, as the next cell shows for three numbers. A number that is too large
# for the format becomes `inf` (infinity).

# %%
for number in (1.001, 1e-8, 1e5):
    tensor = torch.tensor(number)
    rounded = {"float16": tensor.half().item(), "bfloat16": tensor.bfloat16().item()}
    print(f"{number:g} becomes {rounded}")

# %% [markdown]
# ## float16 has a small range
# In the output, 1e-8 became 0 in float16. This is called **underflow**, and it happens to every
# gradient below 3e-8, which is half of the smallest float16 number.
#
# The remedy is **loss scaling** (Micikevicius et al., 2018), in which the *loss* is multiplied by a
# large number, the scale. By the chain rule, every gradient is then multiplied by the scale, too.
# Before the weights are updated, the gradient is divided by the scale again, in float32. For
# example, with a scale of 1,024 a gradient of 1e-8 becomes 1.02e-5, which float16 can represent.
#
# If a gradient becomes `inf` because it is above 65,504, the scale was too large. The step is then
# skipped, and the scale is halved. After a number of good steps in a row, in which all gradients
# are finite, the scale is doubled. It thus adapts to the training without any tuning.
#
# ### Predict
# We train on the digits of lab 10, but make the gradients small on purpose. The training loop
# multiplies the loss by `tiny`, about a millionth, and divides the learning rate by `tiny`. With
# exact arithmetic this changes nothing, and in float32 95 to 97 % of the test images are
# recognized.
#
# What is the percentage in float16 without loss scaling, and with it? Two facts help:
#
# - Guessing among ten digits gives 10 %.
# - Without `tiny`, the gradient of each logit (an output of the last layer) is at most 1/128,
#   because 128 images share the mean.

# %%
predict("14.1", without_scaling=10, with_scaling=96)

# %% [markdown]
# ### Exercise 14.1 · Loss scaling
# Write `scaled_step`, a step of plain SGD (stochastic gradient descent) with loss scaling.
# `weights` (float32) and `gradients` (float16) are lists of tensors in the same order. The
# gradients are those of the loss multiplied by `scaling["scale"]`, and `scaling["good"]` is the
# number of good steps in a row. 9 to 12 lines. *(intermediate)*
#
# * If all gradients are finite, subtract from each weight, *in place*, the rate times the true
#   gradient, which is that of the loss without the scale. After `patience` good steps in a row,
#   double the scale and start counting again from 0. Return True.
# * If any of the gradients contains an `inf` or a `nan`, change no weight, halve the scale, and
#   start counting again from 0. Return False.
#
# For example, with `patience` = 2, a scale of 8, and no good step so far:
#
# | step | gradients | scale after it | good steps after it |
# |---|---|---|---|
# | 1 | finite | 8 | 1 |
# | 2 | finite | 16 | 0 |
# | 3 | with an `inf` | 8 | 0 |
# | 4 | finite | 8 | 1 |
#
# `torch.isfinite(gradient).all()` is false if a tensor contains inf, -inf or nan. You don't need to
# divide by `tiny`, because the training loop does.
#
# <details><summary>Hint 1: look at all gradients first, then change weights</summary>
#
# Use `[gradient.float() / scaling["scale"] for gradient in gradients]`. If you divided in float16,
# the small gradients that scaling has preserved would become 0 again. `all(… for …)` tests each
# tensor.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# If not all are finite: `scaling["scale"] /= 2`, `scaling["good"] = 0`, `return False`. Otherwise
# `weight -= rate * gradient` for each weight, and `scaling["good"] += 1`. If that is now
# `patience`, double the scale and set `good` to 0. `return True`.
# </details>


# %%
@torch.no_grad()
def scaled_step(weights, gradients, scaling, rate, patience) -> bool:
    """True if the step was taken, False if skipped. scaling: {"scale": number, "good": steps in a
    row}."""
    ### BEGIN SOLUTION
    true = [gradient.float() / scaling["scale"] for gradient in gradients]
    if not all(torch.isfinite(gradient).all() for gradient in true):
        scaling.update(scale=scaling["scale"] / 2, good=0)
        return False
    for weight, gradient in zip(weights, true, strict=True):
        weight -= rate * gradient
    scaling["good"] += 1
    if scaling["good"] == patience:
        scaling.update(scale=scaling["scale"] * 2, good=0)
    return True
    ### END SOLUTION


# %%
check("14.1", scaled_step)

# %% [markdown]
# ### Measure: training with and without scaling
# The next cell trains in float32, in float16 without scaling, and in float16 with your scaling,
# three times each with different seeds. The scale starts at 2^48, which is far too large on
# purpose. The cell after it plots the accuracies, and the scale in the last of the runs.

# %%
settings = {"epochs": epochs, "batch": batch, "tiny": tiny, "seeds": seeds}
right, scales = lab14.train_scaled(scaled_step, device, **settings)  # scales: by step
full, without, scaled = (np.median(row) for row in right.values())

# %%
predict.compare("14.1", without_scaling=without, with_scaling=scaled)
bars = {way: {"": row} for way, row in right.items()}
plots.bars(
    bars, ylabel="test images right (%)", title="float16 needs loss scaling, here", name="scaling"
)
title = "The scale finds its size by itself"
plots.lines({"": scales}, xlabel="step", ylabel="scale", title=title, logy=True, name="scale")
for way, row in right.items():
    record.add("accuracy", unit="%", way=way.replace("\n", " "), right=row, **settings)

# %% [markdown]
# **Explain.** You should see that without scaling the network stays at its starting weights,
# because every gradient is 0. The largest gradient that a logit can have, 1/128 · 2^-20 = 7e-9, is
# below 3e-8 and becomes 0, and so does all that is computed from it. With scaling, the network
# recognizes nearly as many images as in float32.
#
# The second plot shows that the scale of 2^48 was too large at first, so it was halved in each of
# the first steps. Every halving is a step without an update. On our CPU, each run skipped 14 of its
# 120 steps, and the median accuracy was one percentage point below that of float32.
#
# As a control, with a constant scale of 2^24 no step was skipped, and the accuracies were those of
# float32.
#
# Gradients in a real network are small if, for example, the loss is a mean over many values. To
# find out whether your own network needs scaling, you have to train it. In PyTorch,
# [`torch.amp.GradScaler`](@pytorch_amp) does what you wrote.
#
# Does training in bfloat16 need loss scaling?
# <details><summary>Answer</summary>
#
# No. The exponent of bfloat16 has as many bits as that of float32. It lacks digits, and scaling
# cannot add digits.
# </details>
#
# ## bfloat16 has few digits
# Between 1 and 2 the numbers of bfloat16 are 1/128 apart. If a weight is 1.875, and an update adds
# less than half of this distance, 1/256, the result is rounded back to 1.875. The update is lost.
#
# The distance grows with the weight:
#
# | weights | distance between neighboring numbers |
# |---|---|
# | 1/2 to 1 | 1/256 |
# | 1 to 2 | 1/128 |
# | 2 to 4 | 1/64 |
#
# In each line the distance is at least 1/256 of the weight, so an update below 1/512 of the weight
# is always lost.
#
# ### Predict the sum
# Add 0.005 to 1 a thousand times in bfloat16, rounding after each addition. The exact sum is 6.
# What is the result?

# %%
predict("14.2", sum_in_bfloat16=2.0)

# %%
total = torch.tensor(1.0).bfloat16()
small = torch.tensor(0.005).bfloat16()
for _ in range(1000):
    total = total + small
predict.compare("14.2", sum_in_bfloat16=total.item())

# %% [markdown]
# The sum stops at 2. Below 2, each 0.005 is rounded up to 1/128 = 0.0078, because it is more than
# 1/256, so the sum grows too fast. From 2 on the numbers are 1/64 apart, and 0.005 is less than
# half of this, so all further additions are lost.
#
# For this reason **mixed precision** uses 16-bit numbers only for the arithmetic of the layers. It
# keeps **master weights** in float32, in which small updates add up.
#
# In PyTorch this needs one line around the forward pass, for example around a matrix product:
#
#     with torch.autocast("cpu", torch.bfloat16):  # or "cuda"
#         c = a @ b  # float32 matrices a and b
#
# Inside the block the inputs and weights of each matrix product and convolution are rounded to
# bfloat16, so `c` is a bfloat16 matrix, while `a` and `b` stay float32. The backward pass uses the
# same types as the forward pass did, and the gradients of the master weights are float32 again.
#
# ### Exercise 14.2 · The mixed-precision step
# Write a training step in which the layers compute in bfloat16, while the weights of `net` stay
# float32. About 7 lines, of which five are those of the training step of lab 10. *(beginner)*
#
# * *Forward pass.* It belongs inside the `autocast` block ([documentation](@pytorch_amp)).
# * *Loss.* Compute it in float32, because the two to three digits of bfloat16 are too few for small
#   differences. Inside the block `F.cross_entropy` computes in float32 automatically, and outside
#   you pass it `logits.float()`.
# * *Backward pass.* It belongs outside the block, because its types are already determined.
# * *Update.* Use `optimizer`.
#
# <details><summary>Hint 1: autocast</summary>
#
# Put `with torch.autocast(images.device.type, torch.bfloat16):` around `net(images)`. The backward
# pass stays outside.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Begin with `optimizer.zero_grad()`, and compute `logits = net(images)` in that block. Below it,
# compute `F.cross_entropy(logits.float(), labels)`, followed by the backward pass,
# `optimizer.step()` and `loss.item()`, as in lab 10.
# </details>


# %%
def mixed_step(net, optimizer, images, labels) -> float:
    """One training step. Returns the loss before the update, a plain number."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    with torch.autocast(images.device.type, torch.bfloat16):
        logits = net(images)
    loss = F.cross_entropy(logits.float(), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %%
check("14.2", mixed_step)

# %% [markdown]
# ### Measure: master weights
# We train on the digits with a small learning rate, so that the updates are small. The next cell
# compares training in float32, with your mixed step, and, as a control, with weights that are
# bfloat16 themselves.

# %%
curves = lab14.fine_training(mixed_step, 2 * epochs, device)
title = "Master weights follow float32, bfloat16 weights fall behind"
plots.loss(curves, xlabel="epoch", title=title, name="fine")
last_losses = {way: f"{losses[-1]:.4f}" for way, losses in curves.items()}
print(f"training loss of the last epoch: {last_losses}")

# %% [markdown]
# **Explain.** You should see that the curves of float32 and mixed precision coincide (one of them
# is dashed, so that you can see both). The network whose weights are bfloat16 learns more slowly,
# because many of its updates are rounded away. All three networks have the same layers and, apart
# from rounding, the same starting weights.
#
# In a separate count, 90 % of the updates of the float32 training would have been lost in weights
# of type bfloat16.
#
# ## What do 16 bits gain on this machine?
# Arithmetic with 16-bit numbers is faster only if two conditions hold:
#
# - The hardware has instructions for it.
# - The library that PyTorch calls uses these instructions. On most CPUs this library is oneDNN, and
#   on NVIDIA GPUs cuDNN and cuBLAS.
#
# Otherwise the numbers are usually converted to float32 and back. The instructions exist in these
# processors:
#
# | | x86 CPUs with | ARM CPUs with | NVIDIA GPUs since |
# |---|---|---|---|
# | bfloat16 | `avx512_bf16` or `amx_bf16` | `bf16` | Ampere (compute capability 8.0) |
# | float16 | `avx512_fp16` or `amx_fp16` | `asimdhp` | Volta (7.0) |
#
# On a GPU these are the instructions of the **tensor cores**, each of which multiplies small
# matrices. The next cell prints what your machine has.

# %%
print(lab14.abilities(device))

# %% [markdown]
# ### Predict the speed
# We will time a training step of a convolutional network on this machine. Its images have PyTorch's
# usual layout, **contiguous**, in which all red values of an image come first, then all green ones.
#
# How many times as fast as in float32 is the step in bfloat16, and in float16? The answer 1 means
# as fast, and 0.5 means half as fast. Both numbers are guesses, for which the output above helps.

# %%
predict("14.2", bfloat16_speedup=2.0, float16_speedup=2.0)

# %% [markdown]
# ### Measure: a convolutional network
# The next cell times this step in each type, and also in a second layout of the images,
# **channels-last**. It stores the channels of each pixel next to each other, which is the order in
# which many of the library's convolutions read them.
#
# The plot shows every timed run, with one row for each type and layout. The second cell prints how
# many times as fast as float32 each type is, with the middle half of the runs in parentheses.

# %%
# On a CPU 30 to 60 s, nearly all of it in types for which the library has no routine.
times = lab14.speeds(images, runs, device)
plots.spread(times, title="A convolution net's step, by type and layout", name="types")
for way, seconds in times.items():
    record.add("convolution", way=way, seconds=seconds)

# %%
exact = times["float32, contiguous"]
gains = {}
for kind in ("bfloat16", "float16"):
    low = times[f"{kind}, contiguous"]
    gain = exact.samples / low.samples
    quarter, middle, three_quarters = np.quantile(gain, [0.25, 0.5, 0.75])
    doubt = "" if low.steady and exact.steady else ", not steady: do not quote it"
    print(f"{kind}: {middle:.2f} times as fast ({quarter:.2f} to {three_quarters:.2f}{doubt})")
    gains[f"{kind}_speedup"] = middle
predict.compare("14.2", **gains)

# %% [markdown]
# **Explain.** You should see that a type is faster than float32 if the processor has instructions
# and the library has a routine for it, and otherwise slower. The gain has two sources, since layers
# that wait for memory move half the bytes, and layers that wait for arithmetic use the 16-bit
# instructions.
#
# Where the library has no routine for a type, PyTorch probably computes in a plain loop. We have
# measured, compared with float32:
#
# | processor | bfloat16 | float16 |
# |---|---|---|
# | an Intel Xeon | 2.3 times as fast | 122 times as slow |
# | an AMD EPYC without such instructions | about 20 times as slow | about 20 times as slow |
#
# (For this reason float16 is timed on CPUs only in the contiguous layout.)
#
# Where a type has two rows in the plot, compare them to see the influence of the layout. If a line
# says "not steady", other programs used the machine, so run the cell again.
#
# ## What a training step keeps in memory
# The second half of this lab is about bytes, and this is a good place for a break. A training step
# needs memory for four things:
#
# - the **parameters**, in float32 4 bytes each;
# - their **gradients**, also 4 bytes per parameter;
# - the **optimizer state**, with Adam two numbers or 8 bytes per parameter;
# - the **activations**, which the forward pass saves for the backward pass.
#
# The first three therefore take 4 + 4 + 8 = 16 bytes per parameter. Only the activations depend on
# the batch.
#
# In lab 02 we counted the output of every layer. Here we count what is really kept, because not
# every output is needed in the backward pass:
#
# | layer | keeps | because |
# |---|---|---|
# | **linear layer** or **convolution**, y = w · x | its *input* x, but not its output | the gradient of w needs x |
# | **ReLU** | its *output* | the gradient passes where the output is above 0 |
# | **max-pooling** (the largest of each 2 × 2 pixels) | the *positions* of its maxima, and its output | the gradient goes to these positions, and the next layer needs its input |
# | **loss** | as many numbers as the last layer puts out | its gradient needs them |
#
# Three rules complete the count:
#
# - Each output of max-pooling has one position, an int64 number of 8 bytes, whatever the type.
# - The output of one layer and the input of the next are the same tensor, which is counted once.
# - The gradient of x needs w, which is already counted as a parameter.
#
# As a small example, take one image of 3 × 8 × 8 = 192 numbers:
#
# ```
# image  ->  conv  ->  ReLU  ->  max-pool  ->  linear  ->  loss
#   192      512       512        128            10                numbers in the output
#   kept      -        kept       kept          kept by the loss
#                               + 128 positions, 8 bytes each
# ```
#
# In float32 this makes 4 · (192 + 512 + 128 + 10) + 8 · 128 = 4,392 bytes.
#
# ### Predict
# VGG-16, a network of 13 convolutions and 3 linear layers, is trained with Adam on 32 images per
# step in float32.
#
# | VGG-16 | numbers |
# |---|---|
# | parameters | 138 million |
# | one image | 3 × 224 × 224 |
# | outputs of the ReLUs for one image | 13.6 million |
# | outputs of the pooling layers for one image | 1.5 million |
#
# What percentage of the memory for parameters, gradients, optimizer state and activations do the
# activations need, the positions of max-pooling included?

# %%
predict("14.3", activations_percent=50)

# %% [markdown]
# ### Exercise 14.3 · What the forward pass keeps
# Write `kept_bytes`, which counts as in the example above for any network in which a ReLU follows
# each convolution and linear layer except the last, and pooling follows a ReLU. 3 to 5 lines.
# *(intermediate)*
#
# * `layers` is a table (pandas) with one row per layer. Its columns are `kind` ("conv", "linear",
#   "relu", "pool"), `parameters`, and `activations`, the numbers in the layer's output for *one*
#   image.
# * `image` is the number of values in one image, `batch` the number of images, and `value` the
#   bytes of a number.
# * `layers.activations[layers.kind == "conv"].sum()`, for example, adds up the outputs of all
#   convolutions, and is 0 for a network without any. `layers.activations.iloc[-1]` is the output of
#   the last layer.
#
# <details><summary>Hint 1: the activations</summary>
#
# For each image, count `value` bytes for each number in the image itself, in the outputs of ReLU
# and pooling, and in the output of the last layer. Add 8 bytes for each output of pooling.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `numbers = image + relu + pooled + layers.activations.iloc[-1]`, then
# `batch * (value * numbers + …)`.
# </details>


# %%
def kept_bytes(layers, image, batch, value=4):
    """Bytes that the forward pass keeps for the backward pass. value: bytes of a number, 4 for
    float32, 2 for bfloat16."""
    ### BEGIN SOLUTION
    relu = layers.activations[layers.kind == "relu"].sum()
    pooled = layers.activations[layers.kind == "pool"].sum()
    numbers = image + relu + pooled + layers.activations.iloc[-1]
    return batch * (value * numbers + 8 * pooled)
    ### END SOLUTION


# %%
check("14.3", kept_bytes)

# %% [markdown]
# The next cell applies your function to VGG-16. Its training step would need gigabytes, so these
# numbers are computed and not measured.

# %%
layers = nets.layer_table("vgg16")
fixed = 16 * layers.parameters.sum()
gigabytes = {}
for number in (1, 8, 32, 128):
    activations = kept_bytes(layers, 3 * 224 * 224, number)
    gigabytes[f"batch {number}"] = {
        "parameters with Adam": fixed / 1e9,
        "activations": activations / 1e9,
    }
plots.bars(gigabytes, ylabel="GB", title="VGG-16 with Adam, float32 (computed)", name="vgg16")
of_32 = gigabytes["batch 32"]
predict.right("14.3", activations_percent=100 * of_32["activations"] / sum(of_32.values()))

# %% [markdown]
# **Explain.** The memory for parameters, gradients and optimizer is the same for every batch, while
# the activations grow with the batch and soon need most of the memory.
#
# Every additional image adds the same number of bytes. You can therefore estimate roughly the
# largest batch that fits from the peaks of two small batches: draw a straight line through them and
# extend it to the memory of the device.
#
# Which part would need most of the memory in a network with 100 times as many parameters and a
# batch of one image?
# <details><summary>Answer</summary>
#
# Parameters, gradients and optimizer. Activation checkpointing, which follows below, does not
# reduce these. Sharding the optimizer state across several processes does (lab 60).
# </details>
#
# ## Less memory for more time
# **Activation checkpointing** (Chen et al., 2016) cuts a network into **segments**, and the forward
# pass keeps only the *input* of each segment. When the backward pass reaches a segment, it runs the
# forward pass of this segment once more. The tensors that this second forward pass keeps are freed
# as soon as the backward pass has finished the segment.
#
# ![In the forward pass only the inputs of three segments are kept. In the backward pass the middle segment is computed again, and its outputs are kept until it is finished](14_segments.svg)
#
# *A network of nine layers in three segments. The upper row shows it after the forward pass, when
# only three inputs are kept. In the lower row, the backward pass has finished the third segment and
# has just run the second one again.*
#
# The most tensors are in memory at a moment that the figure does not show, when the backward pass
# begins and has just run the *last* segment again. The inputs of all segments are then still kept,
# and so are the outputs of one segment. For the nine layers of the figure these are
#
# | | inputs | outputs | tensors at the peak |
# |---|---|---|---|
# | three segments | 3 | 3 | 6 |
# | without checkpointing | 1 | 9 | 10 |
#
# ### Predict
# The deep network below has 32 (linear, ReLU) pairs, which all put out equally many numbers.
# Without checkpointing it keeps 33 such tensors, the input and one output per pair. Now it is cut
# into 8 segments of 4 pairs.
#
# - How many tensors does it keep at the peak?
# - How many times as long does a step take, if the backward pass takes twice as long as the forward
#   pass?

# %%
predict("14.4", outputs_at_peak=12, time_ratio=1.33)

# %% [markdown]
# ### Exercise 14.4 · Checkpoints
# Write `checkpointed`, which computes net(x). Cut `net` into `segments` parts of equal length (the
# last one may be shorter) and apply `checkpoint` to each of them, including the last. 4 lines.
# *(beginner)*
#
# `checkpoint(f, x, use_reentrant=False)` returns f(x) and keeps nothing but x. For example,
# `checkpoint(net[3:6], x, use_reentrant=False)` runs one segment of the layers 3, 4 and 5, because
# `net[3:6]` is a network of these layers. `-(-a // b)` is a / b, rounded up.
#
# <details><summary>Hint 1: where do the segments begin?</summary>
#
# A segment has `-(-len(net) // segments)` layers. `range(0, len(net), length)` contains the
# positions at which the segments begin.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for i in range(0, len(net), length): x = checkpoint(net[i : i + length], x, use_reentrant=False)`.
# </details>


# %%
def checkpointed(net, x, segments):
    """net(x), with nothing but the segments' inputs kept for backward. net: torch.nn.Sequential."""
    ### BEGIN SOLUTION
    length = -(-len(net) // segments)
    for start in range(0, len(net), length):
        x = checkpoint(net[start : start + length], x, use_reentrant=False)
    return x
    ### END SOLUTION


# %%
check("14.4", checkpointed)

# %% [markdown]
# ### Measure: memory and time
# The next cell runs the deep network in 1 to 32 segments, and without checkpointing. The first plot
# shows how many tensors a step held at its peak, and the second how many times as long it took.
#
# As a control, the forward pass is also timed by itself, because this tells how much one additional
# forward pass should cost.

# %%
trade = lab14.trade(checkpointed, pairs, rows, runs, device)
title = f"Fewest are held near √{pairs} segments"
axes = {"xlabel": "segments", "logx": True}
plots.lines(trade["held"], ylabel="tensors held at the peak", title=title, **axes, name="held")
title = "The price is about one more forward pass"
plots.lines(trade["longer"], ylabel="times as long as without", title=title, **axes, name="price")
print(f"the forward pass is {trade['forward_share']:.0%} of a step without checkpoints")
cut = trade["cut"]  # 8 segments, fewer in a net with fewer pairs
found = {"outputs_at_peak": trade["peaks"][cut], "time_ratio": trade["ratio"]}
record.add("checkpoints", segments=cut, **found)
predict.compare("14.4", **found)

# %% [markdown]
# **Explain.** With k segments of n/k pairs, k inputs and the outputs of one segment are kept. This
# makes k + n/k tensors, which is smallest near k = √n. You should see a curve of this shape, a
# little above the formula, probably because a few gradients are in memory at the peak, too. The
# bytes are counted and not timed, so they have no noise.
#
# The second plot has two straight lines for the time with one more forward pass:
#
# - The line at 4/3 = 1.33 is for a backward pass that takes twice as long as the forward pass.
# - The other line uses the share of the forward pass that was measured here and is printed above.
#
# The measured ratios are usually higher, because each segment and each tensor that is not kept cost
# some calls, which counts in layers as small as these. On a busy machine the ratios vary so much
# that you can only conclude that they are above 1.
#
# Why does a single segment save hardly any memory?
# <details><summary>Answer</summary>
#
# It keeps only one input, but when the backward pass begins, the forward pass of the whole network
# is run again, and all outputs are then in memory.
# </details>
#
# ### What you take away
# - float16 lacks range, so scale the loss and skip the steps whose gradients overflow. bfloat16
#   lacks digits, so keep the weights in float32.
# - Which of the 16-bit types is fast, and in which layout, can only be found out by measuring on
#   your machine.
# - Activations grow with the batch and soon need most of the memory. Parameters, gradients and the
#   optimizer state do not depend on the batch.
# - Activation checkpointing costs about one additional forward pass. Of n outputs it keeps k + n/k,
#   which grows like √n if k is chosen well. It helps where activations need most of the memory.
#
# ## Going further (optional): a GPU, and all parts of the memory (5 minutes)
# The networks above are small, so a GPU spends much of a step on launching operations. The next
# cell trains the two workloads of lab 10, ResNet-50 on images of 224 × 224 pixels and GPT-2 with
# 124 million parameters. Each trains in three ways:
#
# - in float32,
# - with your `mixed_step`,
# - with your `mixed_step` and your `checkpointed` in 4 segments.
#
# (In the two mixed ways the images are stored channels-last.)
#
# A GPU computes for about a minute. On a CPU the cell prints one sentence, unless you set
# `workload = "tiny"`. Lab 10 explains MFU, the share of the device's peak that the model's
# operations reach. The operations that checkpointing repeats do not count in it.

# %%
for name in workloads.chosen(workload):
    for way, (speed, most) in lab14.workload_ways(name, mixed_step, checkpointed, device).items():
        print(f"{way}: {speed}\n  a step holds up to {most / 1e6:,.1f} MB besides the weights")
        record.add("workload", way=way, peak_bytes=most, **speed.fields())

# %% [markdown]
# **Explain.** Compare the three lines of each workload. Mixed precision should raise the images or
# tokens per second, on a GPU by more than it did for the small networks, because here most of the
# time goes into convolutions and matrix products. Checkpointing adds a forward pass, so a step
# should take about a third longer.
#
# In ResNet-50, where activations need most of the memory, mixed precision should also lower the
# printed bytes, by less than half. Checkpointing should lower them once more.
#
# <details><summary>Which bytes does mixed precision save?</summary>
#
# The table shows the kB that a step of a small convolutional network with Adam and 24 images needs.
# We have counted PyTorch's tensors. Under autocast a step also keeps **16-bit copies** of the
# weights, from the forward pass to the backward pass.
#
# | part | float32 | mixed | all bfloat16 (the control) |
# |---|---|---|---|
# | parameters | 86 | 86 | 43 |
# | gradients | 86 | 86 | 43 |
# | Adam's state | 171 | 171 | 86 |
# | activations | 892 | 520 | 520 |
# | copies of the weights | 0 | 43 | 0 |
#
# The activations shrink by less than half, because the positions that max-pooling saves take 8
# bytes each, whatever the type.
# </details>
#
# When does mixed precision let you double the batch?
# <details><summary>Answer</summary>
#
# When activations need most of the memory, as in a network with large images or a large batch.
# Where the parameters and Adam's state take up most of the memory, as in a large language model
# with a small batch, mixed precision takes slightly *more* bytes.
# </details>
#
# ### Further reading
# - [@micikevicius2018] The paper that introduced loss scaling and master weights.
# - [@kalamkar2019] Training with bfloat16, without loss scaling.
# - [@chen2016] Activation checkpointing, and how memory grows with √n.
# - [@pytorch_amp] The documentation of `autocast` and `GradScaler`.
# - [@nvidia_mixed] NVIDIA's guide to mixed precision on tensor cores.

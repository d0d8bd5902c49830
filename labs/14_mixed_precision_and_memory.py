# %% [markdown]
# <!-- Generated from solutions/14_mixed_precision_and_memory.py by `make labs`. Learners work on a copy in work/. -->
# # 14 Mixed precision and memory
#
# Numbers of 16 bits instead of 32: half the bytes, and on hardware that is made for them more
# arithmetic a second. But small numbers may vanish. You train in 16 bits without losing what
# matters, and measure what it gains here, in time and in bytes. "CUDA out of memory" is among the
# commonest ends of a training, so you also predict what a training step keeps, and buy memory with
# time.
#
# **You will be able to** (1) say what float16 and bfloat16 lack, (2) write loss scaling and say
# when it is needed, (3) write a mixed-precision step, (4) predict what a step keeps for backward,
# (5) use activation checkpointing, and say what it saves and costs.
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
# A loss that is a mean over a million values has so small a gradient for each of them.
tiny = 2**-20
images = 32  # images per step where convolutions are timed (a GPU gets 64 times as many)
matrix = (
    384  # rows and columns of the matrices whose product is timed (a GPU gets 16 times as many)
)
runs = 7  # timed runs of each
pairs = 32  # (linear, ReLU) pairs of the deep net
rows = 1024  # inputs per step of the deep net (a GPU gets 64 times as many)
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %% [markdown]
# ## Three kinds of numbers
# A floating-point number has a sign, an **exponent** (how large it is) and a **fraction** (its
# digits). Bits given to one are taken from the other.
#
# | | bits: sign, exponent, fraction | next number after 1 | smallest above 0 | largest |
# |---|---|---|---|---|
# | float32 | 1, 8, 23 | 1 + 1.2e-7 | 1.4e-45 | 3.4e38 |
# | float16 | 1, 5, 10 | 1 + 0.00098 | 6.0e-8 | 65,504 |
# | bfloat16 | 1, 8, 7 | 1 + 0.0078 | 9.2e-41 | 3.4e38 |
#
# float16 is short of range, bfloat16 of digits. `tensor.half()` makes float16 of a tensor,
# `tensor.float()` float32, `tensor.bfloat16()` bfloat16. What does not fit is rounded to the
# nearest number there is.

# %%
for number in (1.001, 1e-8, 1e5):
    tensor = torch.tensor(number)
    rounded = {"float16": tensor.half().item(), "bfloat16": tensor.bfloat16().item()}
    print(f"{number:g} becomes {rounded}")

# %% [markdown]
# ## float16: a range that is too short
# A gradient below 3e-8, half of the smallest number, becomes 0 in float16: it **underflows**.
#
# **Loss scaling** (Micikevicius et al., "Mixed Precision Training", ICLR 2018) multiplies the
# *loss* by a large number, the scale. By the chain rule every gradient grows by the same factor.
# Before the weights move, the gradient is divided by the scale again, in float32.
#
# If something becomes `inf` (above 65,504), the scale was too large: the step is skipped and the
# scale halved. After some good steps in a row it is doubled. So it finds its size by itself.
#
# ### Predict
# We train the digits of [lab 10](10_train_on_one_device.ipynb), with the loss multiplied by `tiny`, about a millionth, and the
# learning rate divided by it. With exact arithmetic nothing changes: in float32, 95 to 97 % of the
# test images come out right. How many percent in float16 without loss scaling, and with it?
# (Guessing among ten digits gives 10. In [lab 10](10_train_on_one_device.ipynb) the gradient of each logit is at most 1 / 128 here,
# as 128 images share the mean.)

# %%
predict("14.1", without_scaling=..., with_scaling=...)


# %% [markdown]
# ### Exercise 14.1 · Loss scaling
# `weights` (float32) and `gradients` (float16) are lists of tensors in the same order. The
# gradients are those of the loss times `scaling["scale"]`. *(intermediate)*
#
# * If all gradients are finite, do a step of plain SGD: each weight, *in place*, minus rate times
#   its true gradient. After `patience` good steps in a row double the scale, and count afresh.
#   Return True.
# * If there is an `inf` or `nan` in any of them, change no weight, halve the scale, count afresh.
#   Return False.
#
# `scaling["good"]` holds the number of good steps in a row. `torch.isfinite(gradient).all()` is
# false if a tensor has inf, -inf or nan. 9 to 12 lines.
#
# <details><summary>Hint 1: look at all, then change</summary>
#
# `[gradient.float() / scaling["scale"] for gradient in gradients]`. Divided as float16, what we
# saved would be 0 again. `all(… for …)` asks each tensor.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Not finite: `scaling["scale"] /= 2`, `scaling["good"] = 0`, `return False`. Else
# `weight -= rate * gradient` for each, `scaling["good"] += 1`; if that is `patience`, double the
# scale, 0 for `good`. `return True`.
# </details>

# %%
@torch.no_grad()
def scaled_step(weights, gradients, scaling, rate, patience) -> bool:
    """True if the step was taken, False if skipped. scaling: {"scale": number, "good": steps in a
    row}."""
    raise NotImplementedError("exercise 14.1: Loss scaling")


# %%
# Asked: Steps in a row with finite gradients and others, a scale below 1, and
# float16's largest numbers.
check("14.1", scaled_step)

# %% [markdown]
# ### Measure
# Trainings with your scaling, which should be nearly as good as float32's. The scale begins at
# 2^48, far too large on purpose.

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
# **Explain.** Without scaling every gradient is 0, and the net stays what its start weights were.
# The scale began at 2^48 = 2.8e14, far too much: the first steps were skipped, each time the scale
# was halved. From there it trains as float32 does. The bars' lines show what the seeds differ by.
#
# Here `tiny` made the gradients small, as in a net whose loss has many parts. With `tiny = 1` in
# the parameters this small net should come through without scaling: try it, if you have time.
# Whether yours does, only its training tells.
#
# PyTorch has this as `torch.amp.GradScaler`.
#
# Does bfloat16 need it? <details><summary>Answer</summary> No: its exponent has as many bits as
# float32's. It lacks digits, and no scale gives it more.</details>
#
# ## bfloat16: digits that are too few
# After 1 the next number is 1 + 1/128. Whatever is less than half that far away is rounded back to
# 1. So what is added to a weight 1 is lost if it is less than 1/256. Just below 2 the numbers are
# still 1/128 apart, and there half of that is 1/512 of the weight. Between two powers of 2 it is
# always so: an update below 1/512 of its weight is lost wherever it is, and many SGD updates are
# that small.
#
# ### Predict the sum
# Add 0.001 to 1 a thousand times, in bfloat16, rounding each time. What comes out?

# %%
predict("14.2", sum_in_bfloat16=...)

# %%
total = torch.tensor(1.0).bfloat16()
small = torch.tensor(0.001).bfloat16()
for _ in range(1000):
    total = total + small
predict.compare("14.2", sum_in_bfloat16=total.item())


# %% [markdown]
# So **mixed precision** keeps **master weights** in float32, where small updates add up. It uses 16
# bits only where the arithmetic is. `with torch.autocast("cpu", torch.bfloat16):` (or `"cuda"`)
# does that for forward: inside of it each matrix product and convolution gets its inputs and
# weights rounded to bfloat16. Backward uses the types that forward used. The gradients of the
# master weights are float32 again.
#
# ### Exercise 14.2 · The mixed-precision step
# `net` has float32 weights and keeps them; `optimizer` holds them. Layers compute in bfloat16, the
# loss in float32, as bfloat16's two to three digits are too few for small differences. About 7
# lines, of which [lab 10](10_train_on_one_device.ipynb)'s training step has five. *(beginner)*
#
# `torch.autocast` should wrap forward and loss, not backward, says its page: backward's types are
# settled. (Inside of it `F.cross_entropy` computes in float32 by itself; outside, give it
# `logits.float()`.)
#
# <details><summary>Hint 1: autocast</summary>
#
# `with torch.autocast(images.device.type, torch.bfloat16):` around `net(images)`. Backward stays
# outside.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.zero_grad()`; `logits = net(images)` in that block; below it
# `F.cross_entropy(logits.float(), labels)`, then backward, `optimizer.step()` and `loss.item()`, as
# in lab 10.
# </details>

# %%
def mixed_step(net, optimizer, images, labels) -> float:
    """One training step. Returns the loss before the update, a plain number."""
    raise NotImplementedError("exercise 14.2: The mixed-precision step")


# %%
# Asked: 40 small steps beside the same ones in float32: bfloat16 in the layers,
# float32 weights and loss.
check("14.2", mixed_step)

# %% [markdown]
# ### Measure
# The digits with a small learning rate, so that updates are small: float32, your mixed step, and as
# a control weights that are bfloat16 themselves.

# %%
curves = lab14.fine_training(mixed_step, 2 * epochs, device)
title = "Master weights follow float32, bfloat16 weights fall behind"
plots.loss(curves, xlabel="epoch", title=title, name="fine")
last_losses = {way: f"{losses[-1]:.4f}" for way, losses in curves.items()}
print(f"training loss of the last epoch: {last_losses}")

# %% [markdown]
# **Explain.** The curves of float32 and mixed coincide: the dashes show both. Weights kept in
# bfloat16 fall behind, as many updates are rounded away. The net and its start are the same for all
# three.
#
# ## What is it worth here?
# Whether 16 bits are faster, hardware and library decide. The processor needs instructions for
# them, and PyTorch's library must use these:
#
# | | bfloat16 | float16 |
# |---|---|---|
# | x86 CPU with `avx512_bf16` or `amx_bf16` | yes | no |
# | x86 CPU with `avx512_fp16` or `amx_fp16` | by the line above | yes |
# | other x86 CPUs | converted to float32 and back | converted to float32 and back |
# | ARM CPU | with `bf16` | with `asimdhp` |
# | NVIDIA GPU since Ampere (8.0), on its tensor cores | yes | yes |
# | NVIDIA Volta and Turing (7.0, 7.5) | converted | yes |
#
# (A GPU's **tensor cores** multiply small matrices in one instruction.)
#
# A **convolution** moves a small window over a picture. Its images can lie in memory in two ways.
# **Contiguous** is PyTorch's usual one: all of an image's red numbers, then all green ones.
# **Channels-last** stores a pixel's channels side by side. Many **kernels** (the library's programs
# for one operation) read them so; with the other layout they may have to copy first.

# %%
print(lab14.abilities(device))

# %% [markdown]
# ### Predict the speed
# On this machine, how many times as fast as in float32 is a convolution net's training step
# (contiguous) in bfloat16, and in float16? 1 means as fast, 0.5 half as fast. A guess: the table
# tells only on which side of 1 to look.

# %%
predict("14.2", bfloat16_speedup=..., float16_speedup=...)

# %%
# About 30 s, most of it in float16 on a CPU.
speeds = lab14.speeds(images, matrix, runs, device)
times = {way: row["seconds"] for way, row in speeds.items()}
plots.spread(times, title="A convolution net's step, by type and layout", name="types")
for way, row in speeds.items():
    print(
        f"{way:23} {row['flops'] / 1e9:9.1f} Gflop/s, {row['share']:4.0%} of a matrix product in"
        " that type"
    )
    record.add("convolution", way=way, **row)

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
# **Explain.** What you should see follows the table: a type with instructions of its own gains, one
# that is converted loses. Layers that wait for memory may gain up to 2 by moving half the bytes.
# More than that takes hardware that does more arithmetic in 16 bits, and layers that wait for
# arithmetic. Small layers wait for their calls, and conversions cost time: then the gain is less,
# or none.
#
# Compare the two layouts of a type: the difference between their bars is what the layout alone
# does. Where channels-last is the shorter bar, a likely cause is that the kernels read it as it is.
# Where the bars are alike, the layout does not matter here: both are read, or copying is cheap.
#
# You may see instead that a type loses badly although the processor has instructions for it:
# float16 on CPUs, mostly. The library must use them, too. Where it has no kernel for a type,
# PyTorch computes it in a plain loop, ten or thirty times as slow.
#
# On a CPU float16 is timed contiguous alone, as it may take so long.
#
# Where a line says "not steady", others used the machine: run the cell again before you conclude
# anything.
#
# Flop/s are given beside those of a large matrix product in the same type, which is about what the
# machine can do. More than 100 % means that the convolution's library beats the product's, or takes
# fewer multiplications than we count.
#
# ## Bytes, by part
# What does a step hold? The **parameters**; their **gradients**; the **optimizer**'s state (Adam
# keeps two numbers for each parameter); and the **activations**, what forward keeps for backward.
# Only these depend on the batch. [Lab 02](02_why_parallel.ipynb) counted the output of every layer; here is what really
# stays.
#
# What is kept? A layer's output is a tensor; the next layer's input is the same tensor, and it
# counts once.
#
# * A **linear layer** or **convolution** y = w · x keeps x, its *input*, for the gradient of w. Its
#   output: no.
# * **ReLU** keeps its *output*: where that is above 0, the gradient passes.
# * **Max-pooling** (of each 2 × 2 pixels the largest) keeps the *places* of its maxima, an int64
#   each: 8 bytes for each of its outputs, whatever the type. Its output is kept too, as the next
#   layer's input.
# * The **loss** keeps as many numbers as the last layer gives.
#
# A small example, for one image of 3 × 8 × 8 = 192 numbers:
#
# ```
# image  ->  conv  ->  ReLU  ->  max-pool  ->  linear  ->  loss
#   192      512       512        128            10                numbers in the output
#   kept      -        kept       kept          kept by the loss
#                               + 128 places, 8 bytes each
# ```
#
# In float32 that is 4 · (192 + 512 + 128 + 10) + 8 · 128 = 4,392 bytes.
#
# ### Predict
# VGG-16 trains with Adam and 32 images a step, in float32. What share (%) of the memory are the
# activations? It is a net of 13 convolutions and 3 linear layers, with 138 million parameters. For
# an image of 3 × 224 × 224 numbers its ReLUs put out 13.6 million numbers, its pooling layers 1.5
# million.

# %%
predict("14.3", activations_percent=...)


# %% [markdown]
# ### Exercise 14.3 · What forward keeps
# `layers` is a table (pandas) with a row for each layer: `kind` ("conv", "linear", "relu", "pool"),
# `parameters`, and `activations`, the numbers in its output for *one* image. `image` is the numbers
# in an image. 3 to 5 lines. *(intermediate)*
#
# `layers.activations[layers.kind == "pool"].sum()` adds the pooling layers up, and is 0 for a net
# without any; `layers.activations.iloc[-1]` is the last layer's.
#
# <details><summary>Hint 1: the activations</summary>
#
# For an image, `value` bytes for each number of: the image itself, ReLU's outputs, pooling's
# outputs, the last layer's outputs. And 8 bytes for each of pooling's outputs.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `numbers = image + relu + pooled + layers.activations.iloc[-1]`, then
# `batch * (value * numbers + …)`.
# </details>

# %%
def kept_bytes(layers, image, batch, value=4):
    """Bytes that forward keeps for backward. value: bytes of a number, 4 for float32, 2 for
    bfloat16."""
    raise NotImplementedError("exercise 14.3: What forward keeps")


# %%
# Asked: What PyTorch keeps for backward, for nets with and without pooling, in
# float32 and bfloat16.
check("14.3", kept_bytes)

# %% [markdown]
# VGG-16 by your function. Its step would take gigabytes, so nobody measures it here. Parameters,
# gradients and Adam's state have 16 bytes for each parameter ([lab 02](02_why_parallel.ipynb)).

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
# **Explain.** Parameters, gradients and optimizer are the same for every batch. Activations grow
# with it, and soon are most of the memory. As the bars grow by the same amount for each image, the
# peaks of two small batches are enough to tell the largest batch that fits: a straight line through
# them, up to the memory that the device has.
#
# Which of them would a net with 100 times the parameters, and one image, be full of?
# <details><summary>Answer</summary> Parameters, gradients and optimizer: 16 bytes for each parameter.
# Checkpoints, which come below, do nothing for that. Spreading the optimizer's state over several
# processes does ([lab 60](60_ddp_and_fsdp.ipynb)).</details>
#
# ## Memory for time
# **Activation checkpointing** (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016)
# cuts a net into **segments**. Forward keeps only each segment's *input*. When backward gets to a
# segment, forward runs there once more, and what it keeps lives until backward is through with this
# segment.
#
# ```
# forward    x -> [ 1 2 3 ] -> x -> [ 4 5 6 ] -> x -> [ 7 8 9 ]     three inputs are kept
# backward                          [ 4 5 6 ]                       4, 5, 6 run again, are used, and are freed
# ```
#
# So at the peak there are the inputs of all segments, and one segment's outputs.
#
# ### Predict
# The deep net below has 32 (linear, ReLU) pairs, which all put out equally many numbers. Without
# checkpoints it holds 33 such tensors: the input, and an output of each pair. With 8 segments of 4
# pairs: how many are held at the peak? How many times as long is a step, if backward takes twice as
# long as forward?

# %%
predict("14.4", outputs_at_peak=..., time_ratio=...)


# %% [markdown]
# ### Exercise 14.4 · Checkpoints
# `checkpoint(f, x, use_reentrant=False)` returns f(x) and keeps nothing but x. Cut `net` into
# `segments` of equal length (the last may be shorter) and checkpoint each, the last too. 4 lines.
# *(beginner)*
#
# `net[3:6]` is a net of the layers 3, 4, 5. `-(-a // b)` is a / b, rounded up.
#
# <details><summary>Hint 1: where do segments begin?</summary>
#
# A segment has `-(-len(net) // segments)` layers. `range(0, len(net), length)` are the places where
# they begin.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for i in range(0, len(net), length): x = checkpoint(net[i : i + length], x, use_reentrant=False)`.
# </details>

# %%
def checkpointed(net, x, segments):
    """net(x), with nothing but the segments' inputs kept for backward. net: torch.nn.Sequential."""
    raise NotImplementedError("exercise 14.4: Checkpoints")


# %%
# Asked: Only the segments' inputs are kept, each layer runs twice, gradients
# are right; for several cuts.
check("14.4", checkpointed)

# %% [markdown]
# ### Measure
# The deep net in 1 to 32 segments, and without checkpoints: the most it holds, and how long a step
# takes. The steps take turns. As a control forward and backward are timed by themselves: what
# should once more forward cost?

# %%
trade = lab14.trade(checkpointed, pairs, rows, runs, device)
title = f"Fewest are held near √{pairs} segments"
axes = {"xlabel": "segments", "logx": True}
plots.lines(trade["held"], ylabel="tensors held at the peak", title=title, **axes, name="held")
title = "The price is at least one more forward"
plots.lines(trade["longer"], ylabel="times as long as without", title=title, **axes, name="price")
print(f"forward is {trade['forward_share']:.0%} of a step without checkpoints")
cut = trade["cut"]
print(
    f"compared with the predictions: {cut} segments, {trade['peaks'][cut]:.1f} tensors at the peak"
)
found = {"outputs_at_peak": trade["peaks"][cut], "time_ratio": trade["ratio"]}
record.add("checkpoints", segments=cut, **found)
predict.compare("14.4", **found)

# %% [markdown]
# **Explain.** k segments of n/k pairs hold k inputs and one segment's outputs: k + n/k, which is
# least near k = √n. The measured curve should have this shape, and lie a little above: at the peak
# there are probably a few gradients, too. Bytes are counted, so no noise is in them.
#
# If backward takes twice as long as forward, once more forward makes 4/3 of the step: the line at
# 1.33. Here forward's share is printed above; the second line is what this share promises. You will
# probably see more than that, already with one segment. A likely cause: PyTorch also does some work
# of its own for each tensor that it does not keep, which counts where layers are as small as here.
# Each segment costs some calls, too, so the curve rises with the number of segments. On a busy
# machine the points' lines, which show the middle half, are long: then only say "above 1".
#
# Why does a single segment help almost nothing? <details><summary>Answer</summary> It keeps one
# input, and when backward begins it runs forward again over the whole net: all outputs are held
# after all.</details>
#
# ## Going further: the bytes of mixed precision
# Under autocast a step holds one part more: the weights' **16-bit copies**, kept from forward to
# backward. These are the kB of a step of a small convolution net with Adam and 24 images. We have
# counted PyTorch's tensors, as the check of 14.3 does.
#
# | part | float32 | mixed | all bfloat16 (the control) |
# |---|---|---|---|
# | parameters | 86 | 86 | 43 |
# | gradients | 86 | 86 | 43 |
# | Adam's state | 171 | 171 | 86 |
# | activations | 892 | 520 | 520 |
# | copies of the weights | 0 | 43 | 0 |
#
# Parameters, gradients and optimizer stay float32, so they are the same. The copies come on top: 2
# bytes for each weight. Activations have half the bytes for each number. They shrink by less than
# half, because the places of max-pooling have 8 bytes each whatever the type, and the loss is
# computed in float32. In the control, a net that is bfloat16 throughout, everything shrinks. But
# with such weights training fell behind above, where updates were small.
#
# When does mixed precision let you double the batch? <details><summary>Answer</summary> When
# activations are most of the memory: a net with large pictures, or a large batch. Where parameters
# and Adam are most of it, as in a large language model with a small batch, it takes slightly *more*
# bytes.</details>
#
# ## On a GPU: mixed precision where it counts
# (About a minute on a GPU, not counted above. On a CPU the next cell prints one sentence.)
#
# The networks above are small, so a GPU spends much of a step on starting operations. Here your
# `mixed_step` and your `checkpointed` train the two workloads of [lab 10](10_train_on_one_device.ipynb): ResNet-50 on images of
# 224 × 224 pixels, and GPT-2 with 124 million parameters on texts of 1,024 tokens. Each trains in
# three ways: in float32, with your mixed step, and with your mixed step and checkpoints in 4
# segments. In the mixed ways the images are stored channels-last.
#
# [Lab 10](10_train_on_one_device.ipynb) explains MFU, the share of the device's peak that the model's operations reach. Each type
# has a peak of its own. The operations that checkpoints repeat do not count, because the model does
# not ask for them, so checkpoints lower the MFU. The parameter `workload` chooses the networks as in
# [lab 10](10_train_on_one_device.ipynb), and `"tiny"` tests the code on any device.

# %%
for name in workloads.chosen(workload):
    for way, (speed, most) in lab14.workload_ways(name, mixed_step, checkpointed, device).items():
        print(f"{way}: {speed}\n  a step holds up to {most / 1e6:,.1f} MB besides the weights")
        record.add("workload", way=way, peak_bytes=most, **speed.fields())

# %% [markdown]
# **Explain.** Compare three pairs of lines. Mixed precision should raise the images or tokens per
# second, on a GPU by more than it did for the small networks, because here most of the time goes
# into convolutions and matrix products. The bytes should shrink by less than half, for the reasons
# given above. Checkpoints should lower the bytes once more and take up to a third longer. If mixed
# precision gains nothing, check the first line of the speed section: the GPU might have no tensor
# cores for bfloat16.

# %% [markdown]
# ### What you take away
# - float16 is short of range: scale the loss, skip what overflows. bfloat16 is short of digits:
#   keep float32 weights.
# - Under autocast only activations shrink; the weights' copies come on top.
# - Which 16 bits are fast, and in which layout, only a measurement on your machine tells.
# - Activations grow with the batch, and soon are most of the memory. Parameters, gradients and the
#   optimizer's state stay the same.
# - Checkpoints cost at least one more forward, and by k + n/k keep memory like √n. They help where
#   activations are most of it.

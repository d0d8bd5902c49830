# %% [markdown]
# <!-- Generated from solutions/14_mixed_precision_and_memory.py by `make labs`. Learners work on a copy in work/. -->
# # 14 Mixed precision and memory
#
# Numbers of 16 bits instead of 32: half the bytes, and on hardware that is made for them more arithmetic a
# second. But small numbers may vanish. You train in 16 bits without losing what matters, and measure what it
# gains here, in time and in bytes.
#
# **You will be able to** (1) say what float16 and bfloat16 lack, (2) write loss scaling and say when it is
# needed, (3) write a mixed-precision step, (4) measure what such a step takes, in seconds and bytes by part.
#
# Needs: torch · Ranks: 1 · Minutes: 60 · Before: 10

# %%
import math

import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, expect, hint, lab, plots, predict, record, world
from support import lab14

lab.start("14_mixed_precision_and_memory")
device = torch.device(world.device())  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.
torch.backends.cudnn.allow_tf32 = False  # on a GPU: float32 is float32 in convolutions, too (lab 12)

# %% tags=["parameters"]
batch = 128  # images per step in the trainings
epochs = 10  # passes over the 1,536 training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
tiny = 2**-20  # a loss that is a mean over a million values has so small a gradient for each of them
images = 32  # images per step where convolutions are timed (a GPU gets 64 times as many)
matrix = 384  # rows and columns of the matrices whose product is timed (a GPU gets 16 times as many)
runs = 7  # timed runs of each

# %% [markdown]
# ## Three kinds of numbers
# A floating-point number has a sign, an **exponent** (how large it is) and a **fraction** (its digits). Bits
# given to one are taken from the other.
#
# | | bits: sign, exponent, fraction | next number after 1 | smallest above 0 | largest |
# |---|---|---|---|---|
# | float32 | 1, 8, 23 | 1 + 1.2e-7 | 1.4e-45 | 3.4e38 |
# | float16 | 1, 5, 10 | 1 + 0.00098 | 6.0e-8 | 65,504 |
# | bfloat16 | 1, 8, 7 | 1 + 0.0078 | 9.2e-41 | 3.4e38 |
#
# float16 is short of range, bfloat16 of digits. `tensor.half()` makes float16 of a tensor, `tensor.float()`
# float32, `tensor.bfloat16()` bfloat16. What does not fit is rounded to the nearest number there is.

# %%
for number in (1.001, 1e-8, 1e5):
    tensor = torch.tensor(number)
    rounded = {"float16": tensor.half().item(), "bfloat16": tensor.bfloat16().item()}
    print(f"{number:g} becomes {rounded}")

# %% [markdown]
# ## float16: a range that is too short
# A gradient below 3e-8, half of the smallest number, becomes 0 in float16: it **underflows**.
#
# **Loss scaling** (Micikevicius et al., "Mixed Precision Training", ICLR 2018) multiplies the *loss* by a
# large number, the scale. By the chain rule every gradient grows by the same factor. Before the weights move,
# the gradient is divided by the scale again, in float32.
#
# If something becomes `inf` (above 65,504), the scale was too large: the step is skipped and the scale
# halved. After some good steps in a row it is doubled. So it finds its size by itself.
#
# ### Predict
# We train the digits of lab 10, with the loss multiplied by `tiny`, about a millionth, and the learning rate
# divided by it. With exact arithmetic nothing changes: in float32, 95 to 97 % of the test images come out
# right. How many percent in float16 without loss scaling, and with it? (Guessing among ten digits gives 10.
# In lab 10 the gradient of each logit is at most 1 / 128 here, as 128 images share the mean.)

# %%
predict("14.1", without_scaling=..., with_scaling=...)


# %% [markdown]
# ### Exercise 14.1 · Loss scaling
# `weights` (float32) and `gradients` (float16) are lists of tensors in the same order. The gradients are
# those of the loss times `scaling["scale"]`. *(intermediate)*
#
# * If all gradients are finite, do a step of plain SGD: each weight, *in place*, minus rate times its true
#   gradient. After `patience` good steps in a row double the scale, and count afresh. Return True.
# * If there is an `inf` or `nan` in any of them, change no weight, halve the scale, count afresh. Return
#   False.
#
# `scaling["good"]` holds the number of good steps in a row. `torch.isfinite(gradient).all()` is false if a
# tensor has inf, -inf or nan. 9 to 12 lines.
#
# <details><summary>Hint 1: look at all, then change</summary>
#
# `[gradient.float() / scaling["scale"] for gradient in gradients]`. Divided as float16, what we saved would
# be 0 again. `all(… for …)` asks each tensor.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Not finite: `scaling["scale"] /= 2`, `scaling["good"] = 0`, `return False`. Else `weight -= rate * gradient`
# for each, `scaling["good"] += 1`; if that is `patience`, double the scale, 0 for `good`. `return True`.
# </details>

# %%
@torch.no_grad()
def scaled_step(weights, gradients, scaling, rate, patience) -> bool:
    """True if the step was taken, False if skipped. scaling: {"scale": number, "good": steps in a row}."""
    raise NotImplementedError("exercise 14.1: Loss scaling")


# %%
# Trial, need not be read.
inf, nan = math.inf, math.nan
specials = [1, 2**-14, 1, 1, inf, 1, 2, 1, nan, 1, 1, -inf, inf, 1, 1, 1]  # one of the gradients, by step
after = [16, 16, 17, 17, 16, 16, 16, 17, 16, 16, 16, 15, 14, 14, 14, 15]  # 2 to this is the scale after it


def expect_steps_in_a_row():
    """16 steps with rate 8 and patience 3, from a scale of 2^16 on: weights, whether taken, scale."""
    scaling = {"scale": 2.0**16, "good": 0}
    for number, (special, exponent) in enumerate(zip(specials, after, strict=True), 1):
        scale = scaling["scale"]
        case = f"step {number}, scale {scale:g}"
        gradients = lab14.gradients_with(special, first=number == 9)
        weights = [torch.zeros(len(gradient)) for gradient in gradients]
        # A list of its own: only what is changed in place is seen in `weights`.
        taken = scaled_step(list(weights), [gradient.clone() for gradient in gradients], scaling, 8.0, 3)
        for weight, gradient in zip(weights, gradients, strict=True):
            if math.isfinite(special):
                what = f"{case}: the weights (they were 0; the rate is 8)"
                slips = lab14.wrong_updates(gradient, 8, scale)
                expect.close(weight, -8 * gradient.float() / scale, what, rtol=1e-4, atol=0, slips=slips)
            else:
                bad = f"{case}: one gradient is {special}, and yet a weight changed"
                expect(not weight.any(), f"{bad}. Look at all, then change.")
        expect.equal(taken, math.isfinite(special), f"{case}: whether the step was taken")
        expect.equal(scaling["scale"], 2.0**exponent, f"{case}: the scale after it (patience 3)")


# %%
# Trial, need not be read.
def expect_small_scale():
    """The scale may go below 1, and a large gradient does its work with it."""
    scaling = {"scale": 1.0, "good": 0}
    weights = [torch.zeros(1)]
    scaled_step(list(weights), [torch.tensor([inf]).half()], scaling, 8.0, 3)
    expect.equal(scaling["scale"], 0.5, "inf at scale 1: the scale after it (it may go below 1)")
    scaled_step(list(weights), [torch.tensor([60_000.0]).half()], scaling, 8.0, 3)
    what = "a gradient of 60,000 at scale 0.5, rate 8: the weight, 0 before"
    expect.close(weights[0], [-960_000.0], what)


# %%
# Trial, need not be read.
def expect_good_steps():
    """Six steps with float16's largest number: other scale, rate and patience, and weights that are not 0."""
    scaling = {"scale": 2.0**30, "good": 0}
    weights = [torch.ones(2), torch.ones(1)]
    wanted = 1.0
    for number in range(1, 7):
        scale = scaling["scale"]
        case = f"good step {number} of 6, scale 2^{math.log2(scale):g}, rate 1024, patience 2"
        gradients = [torch.full_like(weight, 65504).half() for weight in weights]
        taken = scaled_step(list(weights), gradients, scaling, 1024.0, 2)
        fine = f"{case}: 65,504, float16's largest number, is finite: take the step. A sum of them is not."
        expect(taken, fine)
        wanted -= 1024 * 65504 / scale
        for weight in weights:
            expect.close(weight, [wanted] * len(weight), f"{case}: the weights, 1 at the start, after it")
        what = f"{case}: the scale after it (it doubles after 2, 4 and 6)"
        expect.equal(scaling["scale"], 2.0 ** (30 + number // 2), what)


# %%
# What is asked: the steps above; and a training with your scaling, which must be nearly as good as float32's.
# It begins with a scale of 2^48, far too large on purpose.
with check("14.1"):
    expect_steps_in_a_row()
    expect_small_scale()
    expect_good_steps()
    settings = {"epochs": epochs, "batch": batch, "tiny": tiny, "seeds": seeds}
    right, scales = lab14.train_scaled(scaled_step, device, **settings)  # the scale by step
    full, without, scaled = (torch.tensor(row).quantile(0.5).item() for row in right.values())  # medians
    expect(scaled > full - 5, f"With your scaling {scaled:.0f} % are right; with float32 {full:.0f} %.")

# %%
predict.compare("14.1", without_scaling=without, with_scaling=scaled)
bars = {way: {"": row} for way, row in right.items()}
plots.bars(bars, ylabel="test images right (%)", title="float16 needs loss scaling, here", name="scaling")
title = "The scale finds its size by itself"
plots.lines({"": scales}, xlabel="step", ylabel="scale", title=title, logy=True, name="scale")
for way, row in right.items():
    record.add("accuracy", unit="%", way=way.replace("\n", " "), right=row, **settings)

# %% [markdown]
# **Explain.** Without scaling every gradient is 0, and the net stays what its start weights were. The scale
# began at 2^48 = 2.8e14, far too much: the first steps were skipped, each time the scale was halved. From
# there it trains as float32 does. The bars' lines show what the seeds differ by.
#
# Here `tiny` made the gradients small, as in a net whose loss has many parts. With `tiny = 1` in the
# parameters this small net should come through without scaling: try it, if you have time. Whether yours does,
# only its training tells.
#
# PyTorch has this as `torch.amp.GradScaler`.
#
# Does bfloat16 need it? <details><summary>Answer</summary> No: its exponent has as many bits as float32's. It
# lacks digits, and no scale gives it more.</details>
#
# ## bfloat16: digits that are too few
# After 1 the next number is 1 + 1/128. Whatever is less than half that far away is rounded back to 1. So what
# is added to a weight 1 is lost if it is less than 1/256. Just below 2 the numbers are still 1/128 apart, and
# there half of that is 1/512 of the weight. Between two powers of 2 it is always so: an update below 1/512 of
# its weight is lost wherever it is, and many SGD updates are that small.
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
# So **mixed precision** keeps **master weights** in float32, where small updates add up. It uses 16 bits only
# where the arithmetic is. `with torch.autocast("cpu", torch.bfloat16):` (or `"cuda"`) does that for forward:
# inside of it each matrix product and convolution gets its inputs and weights rounded to bfloat16. Backward
# uses the types that forward used. The gradients of the master weights are float32 again.
#
# ### Exercise 14.2 · The mixed-precision step
# `net` has float32 weights and keeps them; `optimizer` holds them. Layers compute in bfloat16, the loss in
# float32, as bfloat16's two to three digits are too few for small differences. About 7 lines, of which lab
# 10's training step has five. *(beginner)*
#
# `torch.autocast` should wrap forward and loss, not backward, says its page: backward's types are settled.
# (Inside of it `F.cross_entropy` computes in float32 by itself; outside, give it `logits.float()`.)
#
# <details><summary>Hint 1: autocast</summary>
#
# `with torch.autocast(images.device.type, torch.bfloat16):` around `net(images)`. Backward stays outside.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.zero_grad()`; `logits = net(images)` in that block; below it `F.cross_entropy(logits.float(),
# labels)`, then backward, `optimizer.step()` and `loss.item()`, as in lab 10.
# </details>

# %%
def mixed_step(net, optimizer, images, labels) -> float:
    """One training step. Returns the loss before the update, a plain number."""
    raise NotImplementedError("exercise 14.2: The mixed-precision step")


# %%
# What is asked of 40 small steps, beside the same ones in float32: layers give bfloat16, weights stay
# float32, the loss is computed in float32, and the weights go nearly float32's way.
with check("14.2"):
    for step in lab14.steps_beside_float32(mixed_step, device):
        expect(isinstance(step.loss, float), "Return loss.item(), a plain number.")
        types = ", ".join(step.layer_types) or "none: net was not called"
        expect(types == "bfloat16", f"The layers should give bfloat16; here it is {types}.")
        types = ", ".join(step.weight_types)
        expect(types == "float32", f"The weights should stay float32; here it is {types}.")
        again = f"net ran {step.runs} times in a step. Return the loss that backward started from."
        expect(step.runs == 1, again)
        inside = (
            "backward ran inside torch.autocast. It should wrap forward and loss alone: its page says so."
        )
        expect(not step.backward_inside, inside)
        near = abs(step.loss - step.exact_loss) < 0.05 * step.exact_loss
        because = "compute the loss in float32" if near else "is it the mean over the images?"
        what = f"Loss of step {step.number} (expected: of the same logits, in float32)"
        expect.close(step.loss, step.exact_loss, what, rtol=1e-4, because=because)
        expect(step.moved, "No weight changed. The order: optimizer.zero_grad(), backward, optimizer.step().")
        what = f"Loss of step {step.number} (expected: of the training in float32)"
        expect.close(step.loss, step.float32_loss, what, rtol=0.1, because="is .grad of this step alone?")
    twice = f"In 40 steps the weights went {step.length:.1f} times as far as in float32. One update a step."
    expect(step.length < 1.5, twice)
    lost = f"After 40 small steps the weights are {step.off:.0%} off float32's way"
    expect(step.off < 0.1, f"{lost}: are small updates rounded away?")

# %% [markdown]
# ### Measure
# The digits with a small learning rate, so that updates are small: float32, your mixed step, and as a control
# weights that are bfloat16 themselves.

# %%
curves = lab14.fine_training(mixed_step, 2 * epochs, device)
title = "Master weights follow float32, bfloat16 weights fall behind"
plots.loss(curves, xlabel="epoch", title=title, name="fine")
last_losses = {way: f"{losses[-1]:.4f}" for way, losses in curves.items()}
print(f"training loss of the last epoch: {last_losses}")

# %% [markdown]
# **Explain.** The curves of float32 and mixed coincide: the dashes show both. Weights kept in bfloat16 fall
# behind, as many updates are rounded away. The net and its start are the same for all three.
#
# ## What is it worth here?
# Whether 16 bits are faster, hardware and library decide. The processor needs instructions for them, and
# PyTorch's library must use these:
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
# **Contiguous** is PyTorch's usual one: all of an image's red numbers, then all green ones. **Channels-last**
# stores a pixel's channels side by side. Many **kernels** (the library's programs for one operation) read
# them so; with the other layout they may have to copy first.

# %%
print(lab14.abilities(device))

# %% [markdown]
# ### Predict the speed
# On this machine, how many times as fast as in float32 is a convolution net's training step (contiguous) in
# bfloat16, and in float16? 1 means as fast, 0.5 half as fast. A guess: the table tells only on which side of
# 1 to look.

# %%
predict("14.2", bfloat16_speedup=..., float16_speedup=...)

# %%
# About 30 s, most of it in float16 on a CPU.
speeds = lab14.speeds(images, matrix, runs, device)
times = {way: row["seconds"] for way, row in speeds.items()}
plots.spread(times, title="A convolution net's step, by type and layout", name="types")
for way, row in speeds.items():
    print(f"{way:23} {row['flops'] / 1e9:9.1f} Gflop/s, {row['share']:4.0%} of a matrix product in that type")
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
# **Explain.** What you should see follows the table: a type with instructions of its own gains, one that is
# converted loses. Layers that wait for memory may gain up to 2 by moving half the bytes. More than that takes
# hardware that does more arithmetic in 16 bits, and layers that wait for arithmetic. Small layers wait for
# their calls, and conversions cost time: then the gain is less, or none.
#
# Compare the two layouts of a type: the difference between their bars is what the layout alone does. Where
# channels-last is the shorter bar, a likely cause is that the kernels read it as it is. Where the bars are
# alike, the layout does not matter here: both are read, or copying is cheap.
#
# You may see instead that a type loses badly although the processor has instructions for it: float16 on CPUs,
# mostly. The library must use them, too. Where it has no kernel for a type, PyTorch computes it in a plain
# loop, ten or thirty times as slow.
#
# On a CPU float16 is timed contiguous alone, as it may take so long.
#
# Where a line says "not steady", others used the machine: run the cell again before you conclude anything.
#
# Flop/s are given beside those of a large matrix product in the same type, which is about what the machine
# can do. More than 100 % means that the convolution's library beats the product's, or takes fewer
# multiplications than we count.
#
# ### Bytes, by part
# What does a step hold? The **parameters**; their **gradients**; the **optimizer**'s state (Adam keeps two
# numbers for each parameter); and the **activations**, what forward keeps for backward. Lab 16 is about them.
# Under autocast there is a fifth part: the weights' **16-bit copies**, kept from forward to backward.
#
# ### Predict the bytes
# A small convolution net, the optimizer Adam, 24 images. Which parts does mixed precision change, beside
# float32? Give for each how many times as many bytes it has: 0.5 half, 1 the same, 2 twice.

# %%
predict("14.2", gradients=..., optimizer=..., activations=...)

# %%
held = lab14.bytes_by_way(device)
kilobytes = {}
for way, parts in held.items():
    kilobytes[way] = {part: nbytes / 1e3 for part, nbytes in parts.items()}
    record.add("bytes", unit="B", way=way, parts=parts)
title = "Mixed precision shrinks activations, and nothing else"
plots.bars(kilobytes, ylabel="kB held in a step", title=title, name="bytes")
ratios = {}
for part in ("gradients", "optimizer", "activations"):
    ratios[part] = held["mixed"][part] / held["float32"][part]
predict.compare("14.2", **ratios)

# %% [markdown]
# **Explain.** Parameters, gradients and optimizer stay float32, so they are the same. The copies come on top:
# 2 bytes for each weight. Activations have half the bytes for each number. They shrink by a little less than
# half: max-pooling (of each 2 × 2 pixels the largest) also keeps the places of its maxima, 8 bytes each
# whatever the type, and the loss is computed in float32. The third bar is the control, a net that is bfloat16
# throughout: everything shrinks. But with such weights training fell behind above, where updates were small.
#
# When does mixed precision let you double the batch? <details><summary>Answer</summary> When activations are
# most of the memory: a net with large pictures, or a large batch. Where parameters and Adam are most of it,
# as in a large language model with a small batch, it takes slightly *more* bytes.</details>
#
# ### What you take away
# - float16 is short of range: scale the loss, skip what overflows. bfloat16 is short of digits: keep float32
#   weights.
# - Under autocast only activations shrink; the weights' copies come on top.
# - Which 16 bits are fast, and in which layout, only a measurement on your machine tells.
# - Next: memory for time (16).

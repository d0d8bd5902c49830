# %% [markdown]
# # 14 Mixed precision and memory
#
# Half the bytes, twice the batch, several times the speed: if the small numbers survive. You predict where
# the memory of a training step goes, train in 16 bits without losing what matters, and buy memory with time.
#
# **You will be able to** (1) predict the bytes of a step by part, (2) write loss scaling and say when it is
# needed, (3) write a mixed-precision step, (4) use activation checkpointing and find the largest batch.
#
# Needs: torch · Ranks: 1 · Minutes: 60 · Before: 10

# %%
import torch
import torch.nn.functional as F
from labkit import check, expect, hint, lab, nets, plots, predict, record, world
from support import lab14
from torch.utils.checkpoint import checkpoint

lab.start("14_mixed_precision_and_memory")
device = torch.device(world.device())  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.

# %% tags=["parameters"]
batch = 128  # images per step in the trainings
epochs = 10  # passes over the 1,536 training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
tiny = 2**-20  # a loss that is a mean over a million values has so small a gradient for each of them
images = 32  # images per step where convolutions are timed (a GPU gets 64 times as many)
matrix = 384  # rows and columns of the matrices whose product is timed (a GPU gets 16 times as many)
runs = 7  # timed runs of each
pairs = 32  # (linear, ReLU) pairs of the deep net
rows = 1024  # inputs per step of the deep net (a GPU gets 64 times as many)
budget = 16_000_000  # bytes that a step of the deep net may take (on a GPU 64 times as many)

# %% [markdown]
# ## Where the memory goes
# A step holds **parameters**; their **gradients**; the **optimizer**'s state (momentum keeps a number for
# each parameter, Adam two); and **activations**, what forward keeps because a derivative will need it:
#
# * A linear layer or convolution y = w · x needs x, its *input*, for the gradient of w. Its output: no.
# * ReLU needs to know where its *output* is above 0. The next layer keeps the same tensor: it counts once.
# * Max-pooling needs the *places* of its maxima: an int64, 8 bytes for each output, whatever the data type.
#   Its output is kept too, as the next layer's input. The loss keeps as many numbers as the last layer gives.
#
# ### Predict
# How many bytes for each float32 parameter, gradient and Adam's state counted in? And which part (%) of the
# memory are the activations, when VGG-16 trains with Adam and 32 images a step? (138 million parameters; for
# an image its ReLUs put out 13.6 million numbers, its pooling layers 1.5 million.)

# %%
predict("14.1", bytes_per_parameter=16, activations_percent=50)

# %% [markdown]
# ### Exercise 14.1 · Memory by part
# `layers` is a table (pandas), a row for each layer: `kind` ("conv", "linear", "relu", "pool"), `parameters`,
# and `activations`, the numbers in its output for *one* image; `image`: the numbers in an image. 8 lines.
#
# <details><summary>Hint 1: reading the table</summary>
#
# `layers.parameters.sum()`; `layers.activations[layers.kind == "pool"].sum()` for all pooling layers
# together; `layers.activations.iloc[-1]` for the last layer.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# For an image, `value` bytes for each number of: the image itself, ReLU's outputs, pooling's outputs, the
# last layer's outputs. And 8 bytes for each of pooling's outputs. All that times `batch`.
# </details>


# %%
def memory_parts(layers, image, batch, optimizer, value=4) -> dict:
    """Bytes by "parameters", "gradients", "optimizer", "activations".

    optimizer: "SGD", "momentum" or "Adam". value: bytes of every number, 4 for float32, 2 for bfloat16.
    """
    ### BEGIN SOLUTION
    n = layers.parameters.sum()
    states = {"SGD": 0, "momentum": 1, "Adam": 2}[optimizer]
    pooled = layers.activations[layers.kind == "pool"].sum()
    relu = layers.activations[layers.kind == "relu"].sum()
    numbers = image + relu + pooled + layers.activations.iloc[-1]
    parts = {"parameters": value * n, "gradients": value * n, "optimizer": states * value * n}
    return {**parts, "activations": batch * (value * numbers + 8 * pooled)}
    ### END SOLUTION


# %%
with check("14.1"):  # beside what PyTorch's tensors hold after a step: two nets, three optimizers, two types
    lab14.expect_parts(memory_parts, device)

# %%
got, real = lab14.compare_parts(memory_parts, "small VGG", "Adam", 32, torch.float32, device)
kilo = ({part: nbytes / 1e3 for part, nbytes in row.items()} for row in (got, real))
plots.compare(*kilo, unit="kB", title="A small VGG, Adam, 32 images", name="parts")
parts = {n: memory_parts(nets.layer_table("vgg16"), 3 * 224 * 224, n, "Adam") for n in (1, 8, 32, 128)}
giga = {f"batch {n}": {part: nbytes / 1e9 for part, nbytes in row.items()} for n, row in parts.items()}
plots.bars(giga, ylabel="GB", title="VGG-16 with Adam, float32 (computed)", name="vgg16")
each = 4 * (sum(real.values()) - real["activations"]) / real["parameters"]
percent = 100 * parts[32]["activations"] / sum(parts[32].values())
predict.compare("14.1", bytes_per_parameter=each, activations_percent=percent)
record.add("memory", unit="B", net="small VGG", batch=32, optimizer="Adam", predicted=got, measured=real)

# %% [markdown]
# **Explain.** Weights, gradients, optimizer: the same for every batch. Activations grow with it, and soon are
# most of the memory. Numbers of half the bytes nearly halve all that. But are half the bits enough?
#
# | | bits: sign, exponent, fraction | next number after 1 | smallest above 0 | largest |
# |---|---|---|---|---|
# | float32 | 1, 8, 23 | 1 + 1.2e-7 | 1.4e-45 | 3.4e38 |
# | float16 | 1, 5, 10 | 1 + 0.00098 | 6.0e-8 | 65,504 |
# | bfloat16 | 1, 8, 7 | 1 + 0.0078 | 9.2e-41 | 3.4e38 |
#
# float16 is short of range, bfloat16 of digits. First float16: a gradient below 3e-8 becomes 0, it
# **underflows**. **Loss scaling** (Micikevicius et al., "Mixed Precision Training", ICLR 2018) multiplies the
# *loss* by a large number, the scale: by the chain rule every gradient is as many times as large. The
# optimizer divides that away, in float32. If something becomes `inf`, the scale is too large: it is halved
# and the step skipped. After some good steps in a row it is doubled. So it finds its size by itself.
#
# ### Predict
# The digits, the loss multiplied by `tiny` and the learning rate divided by it: with exact arithmetic nothing
# changes, and float32 gets 95 to 97 % of the test images right. And float16, without loss scaling and with?

# %%
predict("14.2", without_scaling=10, with_scaling=96)

# %% [markdown]
# ### Exercise 14.2 · Loss scaling
# `weights` (float32) and `gradients` (float16) are lists of tensors in the same order, the gradients those of
# loss times `scaling["scale"]`. If all are finite, do a step of plain SGD: each weight, *in place*, minus
# rate times its true gradient; after `patience` good steps in a row double the scale and count afresh. If
# there is an `inf` or `nan`, change no weight, halve the scale, count afresh. 9 to 12 lines.
#
# <details><summary>Hint 1: look at all, then change</summary>
#
# `[gradient.float() / scaling["scale"] for gradient in gradients]`. Divided as float16, what we saved would
# be 0 again. `torch.isfinite(one).all()` is false if a tensor has inf, -inf or nan; `all(… for …)` asks each.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Not finite: `scaling["scale"] /= 2`, `scaling["good"] = 0`, `return False`. Else `weight -= rate * one` for
# each, `scaling["good"] += 1`; if that is `patience`, double the scale, 0 for `good`. `return True`.
# </details>


# %%
@torch.no_grad()
def scaled_step(weights, gradients, scaling, rate, patience) -> bool:
    """True if the step was taken, False if skipped. scaling: {"scale": number, "good": steps in a row}."""
    ### BEGIN SOLUTION
    true = [gradient.float() / scaling["scale"] for gradient in gradients]
    if not all(torch.isfinite(one).all() for one in true):
        scaling.update(scale=scaling["scale"] / 2, good=0)
        return False
    for weight, one in zip(weights, true, strict=True):
        weight -= rate * one
    scaling["good"] += 1
    if scaling["good"] == patience:
        scaling.update(scale=scaling["scale"] * 2, good=0)
    return True
    ### END SOLUTION


# %%
with check("14.2"):  # steps in a row: usual and tiny gradients, inf, -inf, nan; then the trainings
    lab14.expect_scaling(scaled_step)
    settings = {"epochs": epochs, "batch": batch, "tiny": tiny, "seeds": seeds}
    right, scales = lab14.train_scaled(scaled_step, device, **settings)  # the scale by step
    full, without, scaled = (torch.tensor(row).quantile(0.5).item() for row in right.values())  # medians
    expect(scaled > full - 5, f"With your scaling {scaled:.0f} % are right; with float32 {full:.0f} %.")
    predict.compare("14.2", without_scaling=without, with_scaling=scaled)

# %%
plots.bars({way: {"": row} for way, row in right.items()}, ylabel="% right", title="The digits, a tiny loss")
plots.lines({"": scales}, xlabel="step", ylabel="scale", title="The scale finds its size", logy=True)
for way, row in right.items():
    record.add("accuracy", unit="%", way=way.replace("\n", " "), right=row, **settings)

# %% [markdown]
# **Explain.** We began with 2^48, far too much: the first steps were skipped. Then it trains as float32 does.
# PyTorch has this as `torch.amp.GradScaler`. bfloat16, with float32's range, needs none; but it lacks digits.
#
# ### Predict
# Add 0.001 to 1 a thousand times, in bfloat16. What comes out? And on this machine, how many times as fast as
# in float32 is a convolution net's training step (PyTorch's usual layout) in bfloat16, and in float16?

# %%
predict("14.3", sum_in_bfloat16=1.0, bfloat16_speedup=2.0, float16_speedup=2.0)

# %% [markdown]
# After 1 comes 1.0078, and what goes less than half the way is rounded back. Many SGD updates are below 1/512
# of their weight: a weight kept in bfloat16 does not move. So **mixed precision** keeps **master weights** in
# float32, and uses 16 bits only where the arithmetic is: `torch.autocast` rounds inputs and weights of each
# matrix product and convolution on the way in. Gradients and optimizer stay float32: only activations shrink.
#
# ### Exercise 14.3 · The mixed-precision step
# `net` has float32 weights and keeps them. Layers compute in bfloat16, the loss in float32: bfloat16's two to
# three digits are too few for small differences. `optimizer` holds net's parameters. About 7 lines.
#
# <details><summary>Hint 1: autocast</summary>
#
# `with torch.autocast(images.device.type, torch.bfloat16):` around `net(images)`. Backward stays outside:
# it uses the types that forward used.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.zero_grad()`; `logits = net(images)` in that block; below it `F.cross_entropy(logits.float(),
# labels)`, then backward, `optimizer.step()` and `loss.item()`, as in lab 10.
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
with check("14.3"):  # types of the layers' outputs and of weights; the loss; 40 small steps beside float32
    lab14.expect_mixed(mixed_step, device)

# %%
curves = lab14.fine_training(mixed_step, 2 * epochs, device)
plots.loss(curves, xlabel="epoch", title="Training loss, learning rate 0.01", name="fine")
speeds = lab14.speeds(images, matrix, runs, device)
plots.spread({way: row["seconds"] for way, row in speeds.items()}, title="A step of a convolution net")
for way, row in speeds.items():
    print(f"{way:23} {row['flops'] / 1e9:9.1f} Gflop/s, {row['share']:4.0%} of a matrix product in that type")
    record.add("convolution", way=way, **row)
rate = {kind: speeds[f"{kind}, contiguous"]["flops"] for kind in ("float32", "bfloat16", "float16")}
gains = {f"{kind}_speedup": rate[kind] / rate["float32"] for kind in ("bfloat16", "float16")}
total = sum([torch.tensor(0.001).bfloat16()] * 1000, start=torch.tensor(1.0).bfloat16())
predict.compare("14.3", sum_in_bfloat16=total.item(), **gains)

# %% [markdown]
# **Explain.** Weights kept in bfloat16 fall behind; master weights follow float32. Which type is fast, the
# hardware decides: our records' CPU multiplies pairs of bfloat16 in one instruction (AVX512-BF16) and has no
# arithmetic for float16; NVIDIA's tensor cores do both since Ampere, older ones float16 alone.
# **Channels-last** stores a pixel's channels side by side, as such kernels read them: fewer copies. (A share
# above 100 %: the convolution's code beats the product's: another library, fewer multiplications, TF32.)
#
# ## Memory for time
# **Activation checkpointing** (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016) cuts a net
# into segments, keeps only each segment's *input*, and runs the segment again when backward gets there.
#
# ### Predict
# 32 equal layers in 8 segments: how many layers' outputs are held at the peak (without: 33)? How much longer
# is a step (1: as long), if backward takes twice as long as forward? How many times larger a batch fits?

# %%
predict("14.4", outputs_at_peak=12, time_ratio=1.33, batch_ratio=2.7)

# %% [markdown]
# ### Exercise 14.4 · Checkpoints, and the largest batch
# `checkpoint(f, x, use_reentrant=False)` returns f(x) and keeps nothing but x. Cut `net` into `segments` of
# equal length (the last may be shorter) and checkpoint each, the last too. Then: the peak of a step is some
# fixed bytes, and so many for each input. Two measurements tell both, and the largest batch. 4 lines each.
#
# <details><summary>Hint 1: parts of a Sequential, two measurements</summary>
#
# `net[3:6]` is a net of layers 3, 4, 5. A segment has `-(-len(net) // segments)` layers: rounded up.
# `(small, low), (large, high) = sorted(peaks.items())`; bytes for each: `(high - low) / (large - small)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for i in range(0, len(net), length): x = checkpoint(net[i : i + length], x, use_reentrant=False)`.
# And `fixed = low - small * each`; the batch is what is left of the budget over `each`, rounded down.
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


def largest_batch(peaks, budget) -> int:
    """The largest batch whose peak stays within `budget` bytes. peaks: {batch: bytes}, two of them."""
    ### BEGIN SOLUTION
    (small, low), (large, high) = sorted(peaks.items())
    each = (high - low) / (large - small)
    fixed = low - small * each
    return int((budget - fixed) // each)
    ### END SOLUTION


# %%
with check("14.4"):  # what is kept, how often layers run, gradients, the peak; then batches at the edge
    lab14.expect_checkpoints(checkpointed)
    lab14.expect_largest(largest_batch)

# %%
found = lab14.trade(checkpointed, largest_batch, pairs, rows, budget, runs, device)
plots.lines(found["held"], xlabel="segments", ylabel="layers' outputs", title="Held at the peak", logx=True)
plots.lines({"": found["longer"]}, xlabel="segments", ylabel="times as long", title="The price", logx=True)
plots.compare(*found["edge"], unit="inputs", title="The largest batch in the budget", name="edge")
predict.compare("14.4", **found["measured"])
record.add("checkpoints", edge=found["edge"], budget=budget, **found["measured"])

# %% [markdown]
# **Explain.** k segments of n/k layers hold k inputs and one segment's outputs: least near k = √n. The price:
# one more forward; more than 1.33 if forward is over a third of a step, or segments cost time themselves.
# Less may fit than predicted: the peak's moment changes with the batch; a GPU's allocator takes megabytes.
#
# ### What you take away
# - 16 bytes a parameter with Adam in float32. Activations grow with the batch, and soon are the most.
# - float16 is short of range: scale the loss, skip what overflows. bfloat16 of digits: float32 weights.
# - Which 16 bits are fast, and in which layout, only a measurement on your machine tells.
# - Checkpoints: memory like √n for one more forward. Two measurements tell the largest batch.

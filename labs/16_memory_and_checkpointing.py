# %% [markdown]
# <!-- Generated from solutions/16_memory_and_checkpointing.py by `make labs`. Learners work on a copy in work/. -->
# # 16 Memory and checkpointing
#
# "CUDA out of memory" is among the commonest ends of a training. You predict where the memory of a training
# step goes, hold that against what PyTorch really keeps, buy memory with time, and find the largest batch
# that fits.
#
# **You will be able to** (1) predict the bytes of a step by part, (2) use activation checkpointing, and say
# what it saves and costs, (3) find the largest batch from two measurements.
#
# Needs: torch · Ranks: 1 · Minutes: 50 · Before: 10

# %%
import math
import numbers

import torch
from labkit import check, expect, hint, lab, nets, plots, predict, record, world
from support import lab14
from torch.utils.checkpoint import checkpoint

lab.start("16_memory_and_checkpointing")
device = torch.device(world.device())  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.

# %% tags=["parameters"]
batches = (8, 32, 128)  # images per step whose bytes are measured
pairs = 32  # (linear, ReLU) pairs of the deep net
rows = 1024  # inputs per step of the deep net (a GPU gets 64 times as many)
budget = 16_000_000  # bytes that a step of the deep net may take (on a GPU 64 times as many)
runs = 15  # timed runs of each

# %% [markdown]
# ## Where the memory goes
# A training step holds four things:
#
# * the **parameters**, the net's weights and biases;
# * their **gradients**, one number for each parameter;
# * the **optimizer**'s state: plain SGD keeps nothing, momentum a number for each parameter, Adam two;
# * **activations**: what forward keeps because a derivative will need it. Only these depend on the batch.
#
# A float32 number has 4 bytes, a bfloat16 number 2.
#
# What is kept? A layer's output is a tensor; the next layer's input is the same tensor, and it counts once.
#
# * A **linear layer** or **convolution** y = w · x keeps x, its *input*, for the gradient of w. Its output:
#   no.
# * **ReLU** keeps its *output*: where that is above 0, the gradient passes.
# * **Max-pooling** (of each 2 × 2 pixels the largest) keeps the *places* of its maxima, an int64 each: 8
#   bytes for each of its outputs, whatever the type. Its output is kept too, as the next layer's input.
# * The **loss** keeps as many numbers as the last layer gives.
#
# (A convolution moves a small window over a picture.) A small example, for one image of 3 × 8 × 8 = 192
# numbers:
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
# How many bytes for each float32 parameter, its gradient and Adam's state counted in? And what share (%) of
# the memory are the activations, when VGG-16 trains with Adam and 32 images a step? It is a net of 13
# convolutions and 3 linear layers, with 138 million parameters. For an image of 3 × 224 × 224 numbers its
# ReLUs put out 13.6 million numbers, its pooling layers 1.5 million.

# %%
predict("16.1", bytes_per_parameter=..., activations_percent=...)


# %% [markdown]
# ### Exercise 16.1 · Memory by part
# `layers` is a table (pandas) with a row for each layer: `kind` ("conv", "linear", "relu", "pool"),
# `parameters`, and `activations`, the numbers in its output for *one* image. `image` is the numbers in an
# image. About 8 lines. *(intermediate)*
#
# `layers.parameters.sum()` adds a column up; `layers.activations[layers.kind == "pool"].sum()` does so for
# the pooling layers alone; `layers.activations.iloc[-1]` is the last layer's.
#
# <details><summary>Hint 1: the activations</summary>
#
# For an image, `value` bytes for each number of: the image itself, ReLU's outputs, pooling's outputs, the
# last layer's outputs. And 8 bytes for each of pooling's outputs.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `{"SGD": 0, "momentum": 1, "Adam": 2}[optimizer]` numbers for each parameter are the optimizer's. The
# activations of hint 1 times `batch`; the other three do not depend on it.
# </details>

# %%
def memory_parts(layers, image, batch, optimizer, value=4) -> dict:
    """Bytes by "parameters", "gradients", "optimizer", "activations".

    optimizer: "SGD", "momentum" or "Adam". value: bytes of every number, 4 for float32, 2 for bfloat16.
    """
    raise NotImplementedError("exercise 16.1: Memory by part")


# %%
# What is asked: the bytes that PyTorch's tensors hold after a step, for nets with and without pooling, with
# three optimizers, in float32 and bfloat16.
with check("16.1"):
    for trial in lab14.trial_steps(device):
        predicted = memory_parts(*trial.arguments)
        parts = ", ".join(trial.held)
        is_complete = isinstance(predicted, dict) and set(predicted) == set(trial.held)
        expect(is_complete, f"Return a dict with the keys {parts}.")
        for part, nbytes in trial.held.items():
            what = f"{trial}: {part} (expected: bytes in PyTorch's tensors)"
            slips = trial.wrong_bytes(part)
            expect.close(predicted[part], nbytes, what, rtol=2e-3, slips=slips)

# %%
# Plot, need not be read: the small VGG with Adam, predicted by your function and held by PyTorch.
predicted = {}
measured = {}
for number in batches:
    trial = lab14.small_vgg_step(number, device)
    parts = memory_parts(*trial.arguments)
    predicted[f"{number} images"] = parts["activations"] / 1e3
    measured[f"{number} images"] = trial.held["activations"] / 1e3
    others = sum(trial.held.values()) - trial.held["activations"]
    print(f"{number:4} images: {others / 1e3:,.1f} kB of parameters, gradients and optimizer")
    row = {"net": trial.name, "batch": trial.batch, "optimizer": trial.optimizer}
    record.add("memory", unit="B", **row, predicted=parts, measured=trial.held)
title = "Activations grow with the batch (a small VGG)"
plots.compare(predicted, measured, unit="kB of activations", title=title, name="parts")
# The parameters' own bytes, of the last of these steps, are 4 for each: so many parameters are there.
number_of_parameters = trial.held["parameters"] / 4
predict.compare("16.1", bytes_per_parameter=others / number_of_parameters)

# %%
# Plot, need not be read: VGG-16 by your function. Its step would take gigabytes: nobody measures it here.
layers = nets.layer_table("vgg16")
gigabytes = {}
for number in (1, 8, 32, 128):
    parts = memory_parts(layers, 3 * 224 * 224, number, "Adam")
    gigabytes[f"batch {number}"] = {part: nbytes / 1e9 for part, nbytes in parts.items()}
plots.bars(gigabytes, ylabel="GB", title="VGG-16 with Adam, float32 (computed)", name="vgg16")
of_32 = gigabytes["batch 32"]
predict.right("16.1", activations_percent=100 * of_32["activations"] / sum(of_32.values()))

# %% [markdown]
# **Explain.** Parameters, gradients and optimizer are the same for every batch. Activations grow with it, and
# soon are most of the memory. (Adam also counts its steps: 4 bytes for each tensor, which is why the measured
# bytes for a parameter are not quite 16.)
#
# Which of the four would a net with 100 times the parameters, and one image, be full of?
# <details><summary>Answer</summary> Parameters, gradients and optimizer: 16 bytes for each parameter.
# Checkpoints, which come next, do nothing for that. Spreading the optimizer's state over several processes
# does (lab 60).</details>
#
# ## Memory for time
# **Activation checkpointing** (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016) cuts a net
# into **segments**. Forward keeps only each segment's *input*. When backward gets to a segment, forward runs
# there once more, and what it keeps lives until backward is through with this segment.
#
# ```
# forward    x -> [ 1 2 3 ] -> x -> [ 4 5 6 ] -> x -> [ 7 8 9 ]     three inputs are kept
# backward                          [ 4 5 6 ]                       4, 5, 6 run again, are used, and are freed
# ```
#
# So at the peak there are the inputs of all segments, and one segment's outputs.
#
# ### Predict
# The deep net below has 32 (linear, ReLU) pairs, which all put out equally many numbers. Without checkpoints
# it holds 33 such tensors: the input, and an output of each pair. With 8 segments of 4 pairs:
# how many are held at the peak? How many times as long is a step, if backward takes twice as long as forward?

# %%
predict("16.2", outputs_at_peak=..., time_ratio=...)


# %% [markdown]
# ### Exercise 16.2 · Checkpoints
# `checkpoint(f, x, use_reentrant=False)` returns f(x) and keeps nothing but x. Cut `net` into `segments` of
# equal length (the last may be shorter) and checkpoint each, the last too. 4 lines. *(beginner)*
#
# `net[3:6]` is a net of the layers 3, 4, 5. `-(-a // b)` is a / b, rounded up.
#
# <details><summary>Hint 1: where do segments begin?</summary>
#
# A segment has `-(-len(net) // segments)` layers. `range(0, len(net), length)` are the places where they
# begin.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `for i in range(0, len(net), length): x = checkpoint(net[i : i + length], x, use_reentrant=False)`.
# </details>

# %%
def checkpointed(net, x, segments):
    """net(x), with nothing but the segments' inputs kept for backward. net: torch.nn.Sequential."""
    raise NotImplementedError("exercise 16.2: Checkpoints")


# %%
# Trial, need not be read.
def expect_checkpoints(pairs, segments):
    """Only the segments' inputs are kept; every layer runs twice; loss and gradients are right."""
    trial = lab14.DeepTrial(checkpointed, pairs, segments)
    longest = math.ceil(len(trial.net) / segments)  # layers of a segment
    kept = trial.kept()
    more = f"{trial}: forward keeps {kept:.1f} times x for backward. Keep the segments' inputs alone"
    expect(kept < segments + 0.5, f"{more}: checkpoint each, the last too, {longest} layers long.")
    few = f"{trial}: forward keeps only {kept:.0f} times x. Is there an input for each segment"
    expect(kept > math.ceil(len(trial.net) / longest) - 0.5, f"{few}? Is use_reentrant=False?")
    logits = trial.logits()
    nothing = f"{trial}: got {type(logits).__name__}. Does the function return x?"
    expect(torch.is_tensor(logits), nothing)
    loss, wanted = trial.losses(logits)
    expect.close(loss, wanted, f"{trial}: the loss (did every layer run?)")
    for number, (gradient, right) in enumerate(trial.gradients(loss, wanted)):
        lost = f"{trial}: no gradient for parameter {number}. Is use_reentrant=False?"
        expect(gradient is not None, f"{lost} Was x detached, or were the layers copied?")
        expect.close(gradient, right, f"{trial}: gradient of parameter {number}", rtol=1e-4, atol=1e-7)
    runs = trial.runs()
    expect(set(runs) == {2}, f"{trial}: linear layers ran {runs} times; forward and again makes 2.")
    peak = trial.peak()
    fair = segments + longest / 2 + 3
    expect(peak < fair, f"{trial}: {peak:.0f} times x at the peak: the segments are not equally long.")


# %%
# What is asked: the above, of nets of several lengths and cuts.
with check("16.2"):
    for pairs_of_layers, segments in [(1, 1), (3, 2), (8, 2), (8, 5), (12, 4)]:
        expect_checkpoints(pairs_of_layers, segments)

# %% [markdown]
# ### Measure
# The deep net in 1 to 32 segments, and without checkpoints: the most it holds, and how long a step takes. The
# steps take turns. As a control forward and backward are timed by themselves: what should once more forward
# cost?

# %%
trade = lab14.trade(checkpointed, pairs, rows, runs, device)
title = f"Fewest are held near √{pairs} segments"
axes = {"xlabel": "segments", "logx": True}
plots.lines(trade["held"], ylabel="tensors held at the peak", title=title, **axes, name="held")
title = "The price is one more forward"
plots.lines(trade["longer"], ylabel="times as long as without", title=title, **axes, name="price")
print(f"forward is {trade['forward_share']:.0%} of a step without checkpoints")
cut = trade["cut"]
print(f"compared with the predictions: {cut} segments, {trade['peaks'][cut]:.1f} tensors at the peak")
predict.compare("16.2", outputs_at_peak=trade["peaks"][cut], time_ratio=trade["ratio"])
record.add("checkpoints", segments=cut, outputs_at_peak=trade["peaks"][cut], time_ratio=trade["ratio"])


# %% [markdown]
# **Explain.** k segments of n/k pairs hold k inputs and one segment's outputs: k + n/k, which is least near
# k = √n. The measured curve should have this shape, and lie a little above: at the peak there are probably a
# few gradients, too. Bytes are counted, so no noise is in them.
#
# If backward takes twice as long as forward, once more forward makes 4/3 of the step: the line at 1.33. Here
# forward's share is printed above; the second line is what this share promises. You may see more than that:
# each segment costs some calls of its own, so the curve rises with the number of segments. On a busy machine
# the points' lines, which show the middle half, are long: then only say "above 1".
#
# Why does a single segment help almost nothing? <details><summary>Answer</summary> It keeps one input, and
# when backward begins it runs forward again over the whole net: all outputs are held after all.</details>
#
# ### Exercise 16.3 · The largest batch
# The peak of a step is some fixed bytes, and so many for each input: a line. Two measured peaks tell both,
# and then the largest batch that fits into a budget. *(beginner)*
#
# `(small, low), (large, high) = sorted(peaks.items())` takes the dict of two apart: batches and their bytes.
# Return a whole number of Python, `int(…)`, and 0 if the budget is below what is fixed. 4 lines.
#
# <details><summary>Hint 1: the line</summary>
#
# Bytes for each input: `(high - low) / (large - small)`. What is fixed: `low - small * each`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# What is left of the budget without the fixed part, over `each`, rounded down: `//`. `max(0, …)` of that.
# </details>

# %%
def largest_batch(peaks, budget) -> int:
    """The largest batch whose peak stays within `budget` bytes. peaks: {batch: bytes}, two of them."""
    raise NotImplementedError("exercise 16.3: The largest batch")


# %%
# Trial, need not be read.
def expect_largest(fixed, each):
    """The last batch that fits, for peaks of `fixed` bytes and `each` more for an input."""
    peaks = {batch: int(fixed + batch * each) for batch in (16, 40)}
    for batch, spare, wanted in [
        (100, 1, 100),
        (100, each - 1, 100),
        (101, 1, 101),
        (100, -1, 99),
        (0, 1, 0),
        (-3, 1, 0),  # a budget below what is fixed
    ]:
        room = math.ceil(fixed + batch * each + spare)
        largest = largest_batch(peaks, room)
        what = f"peaks {peaks}, budget {room:,}: the largest batch"
        expect.equal(largest, wanted, what)
        whole = isinstance(largest, numbers.Integral)
        expect(whole, f"{what}: {largest} is no whole number to Python. Use int(…).")


# %%
# What is asked: batches at the edge of made-up peaks; and of real ones, of a small VGG.
with check("16.3"):
    for fixed, each in [(1000, 30), (0, 7), (5_000_000, 38_912), (1000, 30.5)]:
        expect_largest(fixed, each)
    largest, tried = lab14.largest_for_small_vgg(largest_batch, budget=4_000_000)
    what = "a small VGG with 4,000,000 bytes (expected: found by trying): the largest batch"
    expect.equal(largest, tried, what)

# %% [markdown]
# ### Predict
# The deep net again: 33 tensors held without checkpoints, and with 8 segments what you predicted in 16.2. If
# nothing else takes memory, how many times as large a batch fits into the same budget?

# %%
predict("16.3", batch_ratio=...)

# %% [markdown]
# ### Measure
# The deep net in a budget, without checkpoints and with: your prediction from two small steps, and the
# largest batch found by trying, where a step that takes more than its budget is ended.

# %%
edge = lab14.edge(checkpointed, largest_batch, pairs, rows, budget, device)
title = "The largest batch, from two small steps and by trying"
plots.compare(edge["predicted"], edge["tried"], unit="inputs", title=title, name="edge")
predict.compare("16.3", batch_ratio=edge["ratio"])
record.add("largest_batch", unit="inputs", budget=budget, predicted=edge["predicted"], tried=edge["tried"])

# %% [markdown]
# **Explain.** The pairs of bars should be nearly equal: you can say what fits without running out of memory
# once. The ratio is a little below the prediction's, probably as some bytes are fixed (parameters,
# gradients).
#
# The line holds while the peak comes at the same moment of the step. For small batches it may come where all
# gradients are there, for large ones earlier in backward: then a line through two small batches promises too
# much. A GPU's allocator takes memory in blocks of megabytes, and leaves gaps: keep some percent free there.
#
# ### What you take away
# - 16 bytes a parameter with Adam in float32. Activations grow with the batch, and soon are the most.
# - Checkpoints: one more forward, and by k + n/k memory like √n. They help where activations are most of it.
# - Two measured peaks tell the largest batch.

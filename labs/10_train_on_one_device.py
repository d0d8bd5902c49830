# %% [markdown]
# <!-- Generated from solutions/10_train_on_one_device.py by `make labs`. Learners work on a copy in work/. -->
# # 10 Train on one device
#
# Hundreds of GPUs must end up with the same net as one device would. So first the one device: from
# the formula of the loss to the microseconds of a step.
#
# **You will be able to** (1) write loss, gradient and SGD step yourself, (2) write a correct
# training step in PyTorch, (3) measure accuracy without side effects, (4) say where the time of a
# step goes, and, if you have time, (5) tell from its loss whether a learning rate is too low or too
# high.
#
# Needs: torch · Ranks: 1 · Minutes: 50 · Level: beginner · Before: 01

# %%
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from labkit import (
    check,
    data,
    hint,
    lab,
    nets,
    plots,
    predict,
    record,
    timing,
    workloads,
    world,
)

lab.start("10_train_on_one_device")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see below
batch = 128  # images per step
epochs = 10  # passes over the training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
learning_rate = 0.2  # plain SGD: how far a step goes against the gradient
sizes = (1, 4, 16, 64, 128, 256, 1024)  # images per call when the trained net is used
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %%
samples = data.load(dataset)
count = len(samples.train_x) + len(samples.test_x)
pixels = samples.train_x.shape[1]  # of an image
plots.images(
    samples.train_x[30:40], samples.train_y[30:40], columns=10, title=f"Ten of {count:,} images"
)

# %% [markdown]
# An image is 8 × 8 pixels, 64 numbers from 0 (white) to 1 (black). Its **label** is the digit that
# it shows.
#
# 1,536 images train the net, 261 others test it. Labs [11](11_same_net_in_tensorflow.ipynb), [30](30_average_gradients.ipynb), [40](40_horovod_pytorch.ipynb) and [41](41_horovod_tensorflow.ipynb) use the same images, the
# same net and the same batches in the same order, so their curves can be compared.
#
# Do you have the files of MNIST or of CIFAR-10? Labs 10, [30](30_average_gradients.ipynb), [40](40_horovod_pytorch.ipynb) and [41](41_horovod_tensorflow.ipynb) train on them, too, with
# `dataset = "mnist:FOLDER"` or `"cifar10:FOLDER"` at the top, or in a shell with
# `make run LAB=10 SET="dataset=mnist:FOLDER epochs=1 learning_rate=0.05"`. (For CIFAR-10 begin with
# a rate of 0.01.) The text is about the digits.
#
# ## The loss
# For each image a net gives ten numbers z, one for each digit: the **logits**. The larger one is,
# the more the net believes in that digit.
#
# **Softmax** makes probabilities of them: `p[k] = exp(z[k]) / sum(exp(z))`. They add up to 1.
#
# The **cross-entropy** loss of an image is `-log(p[label])`, with the natural logarithm. It is near
# 0 if the net is sure and right, and large if it is sure and wrong. The loss of a batch is the
# *mean* over its images.
#
# An example with three classes: logits (2, 0, 0) have exponentials 7.39, 1, 1, so probabilities
# 0.79, 0.11, 0.11. With label 0 the loss is -log 0.79 = 0.24, with label 1 it is -log 0.11 = 2.2.
#
# Where a net predicts *amounts* instead of classes, such as tomorrow's temperature, the usual loss
# is the **mean squared error**: the mean of `(z - y)**2` over all outputs z and their true values
# y. The next section compares the gradients of the two losses.
#
# ### Predict
# A net that knows nothing gives each of the ten digits the same probability. What is its loss?

# %%
predict("10.1", loss_knowing_nothing=...)  # a number


# %% [markdown]
# ### Exercise 10.1 · Cross-entropy loss
# Write the mean loss of a batch with numpy, in about three lines, without a loop. *(beginner)*
#
# A row of `logits` is an image, a column a digit: sums along a row have `axis=1`, and
# `keepdims=True` keeps the shape (images, 1). `a[np.arange(n), labels]` picks from each row i the
# entry `labels[i]`.
#
# The loss must survive logits of 1,000, although `np.exp(1000)` is infinite. Two things cure that:
#
# - Taking the same number off all logits of an image changes no probability. So take off each row's
#   largest, `logits.max(axis=1, keepdims=True)`; call the rest z.
# - log(exp(z) / sum) is z - log(sum). So no log(0) is left.
#
# <details><summary>Hint 1: which sum?</summary>
#
# That of a row's exponentials: `np.exp(z).sum(axis=1, keepdims=True)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `z = logits - logits.max(axis=1, keepdims=True)`,
# `log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))` and of row i take column `labels[i]`:
# `log_p[np.arange(len(labels)), labels]`. Mean, minus sign, done.
# </details>

# %%
def cross_entropy(logits, labels) -> float:
    """Mean cross-entropy loss. logits: (images, classes). labels: (images,), the right class of
    each."""
    raise NotImplementedError("exercise 10.1: Cross-entropy loss")


# %%
# Asked: One number for a batch, PyTorch's own loss of it, with small logits and
# with large ones.
check("10.1", cross_entropy)

# %%
ten_equal_logits = torch.zeros(len(samples.test_y), 10)
loss = F.cross_entropy(ten_equal_logits, torch.tensor(samples.test_y))  # PyTorch's, not yours
predict.right("10.1", loss_knowing_nothing=loss.item())


# %% [markdown]
# **Explain.** Each probability is 0.1, and -log 0.1 is ln 10 = 2.30. Remember this number: a
# training whose loss stays there learns nothing.
#
# ## The gradient
# Which way does each weight push the loss? Take one layer: `logits = images @ weights + bias`.
#
# **By the logits of one image.** The loss is `log(sum(exp(z))) - z[label]`. The derivative of its
# first part by `z[k]` is `exp(z[k]) / sum(exp(z))`, and that is `p[k]`. The second part takes 1 off
# where k is the label. Write y for the row that is 1 at the label and 0 elsewhere. Then the
# derivative is `p - y`.
#
# The squared error has a derivative of the same form, prediction minus truth. Here are both, with
# the logits (2, 0, 0) from above and label 1, so that y is (0, 1, 0):
#
# | loss | of one sample | derivative by the outputs z | in the example |
# |---|---|---|---|
# | cross-entropy | `-log(p[label])` | `p - y` | (0.79, -0.89, 0.11) |
# | squared error | `sum((z - y)**2) / 2` | `z - y` | (2, -1, 0) |
#
# (Without the half the derivative is twice as large. `F.mse_loss` has no half, and divides by the
# number of outputs, too.) So all that follows holds for both losses, with another d. Classes have
# cross-entropy because the squared error of the *probabilities* has nearly no gradient where the
# net is sure and wrong: softmax is flat there, while `p - y` is nearly -1 at the label.
#
# **By the logits of a batch.** The loss of N images is their mean, so the derivative is
# `d = (p - y) / N`, a row for each image.
#
# **By the weights.** The logit `z[k]` of image i grows by `images[i, j]` for each unit of
# `weights[j, k]`. Summed over the images, that makes `images.T @ d`: (64, N) times (N, 10) is (64,
# 10), as the weights.
#
# **By the bias.** It is added to every row, so its gradient is d, summed over the rows: ten
# numbers.
#
# An **SGD step** (stochastic gradient descent) moves every weight *against* its gradient: weight
# minus learning rate times gradient.
#
# ### Exercise 10.2 · One SGD step by hand
# For one layer, change weights and bias **in place**: the caller's arrays change, nothing is
# returned. About seven lines. *(intermediate)*
#
# <details><summary>Hint 1: in place</summary>
#
# `weights -= …` changes the caller's array; `weights = weights - …` makes a new one and drops it. A
# sum over the rows is `.sum(axis=0)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `p = np.exp(z)`, z as in 10.1, divided by its row sums. With
# `p[np.arange(len(labels)), labels] -= 1` it is p - y. `d = p / len(images)`;
# `weights -= learning_rate * images.T @ d`; for the bias `d.sum(axis=0)`.
# </details>

# %%
def sgd_step(weights, bias, images, labels, learning_rate) -> None:
    """weights: (pixels, classes), bias: (classes,), images: (N, pixels), labels: (N,)."""
    raise NotImplementedError("exercise 10.2: One SGD step by hand")


# %%
# Asked: The caller's arrays move against the gradient, which finite differences
# of your loss give.
check("10.2", sgd_step)


# %% [markdown]
# **Finite differences** are a referee that needs no formula: move one weight a little, and see how
# much the loss changes. It takes two losses for each weight. That is why nobody trains so.
#
# Now train this one layer with your two functions, once for each seed.

# %%
def train_by_hand(seed):
    """Train one layer from zeros on. Returns the loss of every step, and the share of test digits
    right."""
    weights = np.zeros((pixels, 10), np.float32)
    bias = np.zeros(10, np.float32)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(samples.train_x), batch, epoch, seed):
            images = samples.train_x[rows]
            labels = samples.train_y[rows]
            losses.append(float(cross_entropy(images @ weights + bias, labels)))
            sgd_step(weights, bias, images, labels, learning_rate)
    guesses = (samples.test_x @ weights + bias).argmax(axis=1)
    return losses, float((guesses == samples.test_y).mean())


by_hand = [train_by_hand(seed) for seed in seeds]
for seed, (losses, share) in zip(seeds, by_hand, strict=True):
    print(
        f"seed {seed}: loss {losses[0]:.2f} to {losses[-1]:.2f}, {share:.1%} of the test digits"
        " right"
    )

# %% [markdown]
# ## The same in PyTorch, with three layers
# One layer can only weigh pixels. Between two layers there must be something that is not a weighted
# sum, or both together would be one layer. Here it is **ReLU**: `relu(x) = max(x, 0)`, for each
# number by itself.
#
# ```
# 64 pixels -> [ layer 1 ] -> 128 numbers -> ReLU -> [ layer 2 ] -> 64 -> ReLU -> [ layer 3 ] -> 10 logits
#               64 x 128                              128 x 64                      64 x 10
# ```
#
# This net has 17,226 weights and biases. The labs draw its start weights as He and others do
# (2015): normal numbers with variance 2 / inputs.

# %%
train_x, train_y, test_x, test_y = (torch.tensor(part, device=device) for part in samples)
layers = (pixels, 128, 64, 10)  # numbers that go in, that come out of layer 1, of 2, of 3


def new_net(seed=0):
    """The net with the start weights of this seed."""
    return nets.torch_digits(nets.start_weights(seed, layers)).to(device)


print(new_net())

# %% [markdown]
# ### The training step
# *Forward* is the way from the images to the logits. PyTorch records what it does.
# `loss.backward()` walks back through the record (**autograd**) and *adds* to every weight's
# `.grad` its gradient. An **optimizer** such as `torch.optim.SGD(net.parameters(), lr=0.2)` holds
# the weights: `optimizer.zero_grad()` clears all `.grad`, `optimizer.step()` moves all weights.
#
# `F.cross_entropy(logits, labels)` is your function of 10.1: softmax and mean are in it. It gives a
# tensor; `.item()` makes a plain number of it.
#
# ### Predict
# How long does backward take, compared with forward and loss? 1 means as long. Count the
# multiply-adds of an image. For each layer, forward has one matrix product. Backward has two, by
# the weights and by the layer's inputs. The first layer's inputs are the images: nobody asks for
# their gradient.
#
# | layer | forward | backward by weights | backward by inputs |
# |---|---|---|---|
# | 1 | 64 × 128 = 8,192 | 8,192 | none |
# | 2 | 128 × 64 = 8,192 | 8,192 | 8,192 |
# | 3 | 64 × 10 = 640 | 640 | 640 |

# %%
predict("10.3", backward_over_forward=...)  # a number


# %% [markdown]
# ### Exercise 10.3 · The training step
# Clear, forward and loss, backward, update: about five lines. *(beginner)*
#
# <details><summary>Hint 1: what is in .grad?</summary>
#
# The sum of all gradients since `optimizer.zero_grad()`. A step wants those of its own loss only.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.zero_grad()`, `loss = F.cross_entropy(net(images), labels)`, `loss.backward()`,
# `optimizer.step()`, `return loss.item()`.
# </details>

# %%
def train_step(net, optimizer, images, labels) -> float:
    """One step on a batch of tensors. Returns the loss before the update, a plain number."""
    raise NotImplementedError("exercise 10.3: The training step")


# %%
# Asked: What is asked, of four steps: the loss before the update, and weights
# that move by rate times gradient.
check("10.3", train_step)

# %% [markdown]
# ### Measure
# Five calls, each does one thing more than the one before it:
#
# 1. forward without a record. That is **inference**: a net is used, not trained;
# 2. forward, recorded;
# 3. forward and loss;
# 4. clear, forward, loss and backward;
# 5. the whole step, with the update.
#
# The differences are the parts of a step. `timing.in_turns(calls)` lets the calls take turns, as
# lab 01's `timing.ratio` does with two. The last line is a control: a step with a single image, so
# nearly without arithmetic.

# %%
images = train_x[:batch]
labels = train_y[:batch]
net = new_net()
optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)


def forward_alone():
    with torch.inference_mode():  # nothing is recorded
        return net(images)


def without_update():
    optimizer.zero_grad()
    F.cross_entropy(net(images), labels).backward()


calls = {
    "forward": forward_alone,
    "recording": lambda: net(images),
    "loss": lambda: F.cross_entropy(net(images), labels),
    "clear, backward": without_update,
    "update": lambda: train_step(net, optimizer, images, labels),
}
until = timing.in_turns(calls, device=device, repeat=50)
for name, seconds in until.items():
    print(f"until {name:16} {seconds}")
one_image = timing.measure(
    lambda: train_step(net, optimizer, images[:1], labels[:1]), device=device
)
print(f"a step with 1 image    {one_image}")

# %%
# What each call takes longer than the one before it, run by run.
parts = {}
before = 0.0
for name, seconds in until.items():
    parts[name] = np.maximum(0, 1e6 * (seconds.samples - before))
    before = seconds.samples
plots.bars(
    {"inference": {"forward": parts["forward"]}, "training step": parts},
    ylabel="time (µs)",
    title=f"{batch} images: a step is more than its forward pass",
    name="parts",
)
forward = until["loss"]
whole = until["update"]
backward = until["clear, backward"].samples - forward.samples
predict.compare("10.3", backward_over_forward=np.median(backward) / forward.median)
record.add(
    "step", seconds=whole, batch=batch, forward=forward.median, inference=until["forward"].median
)
print(f"a training step takes {whole.median / until['forward'].median:.1f} times inference")

# %% [markdown]
# **Explain.** Arithmetic alone says 17,024 multiply-adds forward and 25,856 backward: 1.5 times.
# You should see more, up to twice and a bit: every call has a fixed price, and clearing and
# backward have more calls.
#
# A step takes several times as long as inference, of which arithmetic explains (17,024 + 25,856) /
# 17,024 = 2.5 times. The rest is in the bar: the loss, moving the weights, and recording (it may be
# too little to see).
#
# How much of the step is fixed price? The step with one image has a 128th of the arithmetic, and
# yet takes a large part of the whole step's time. ([Lab 11](11_same_net_in_tensorflow.ipynb) times a larger net.)
#
# You may see instead, on a GPU, that the step with one image takes as long as the one with 128: so
# little arithmetic is nothing to it, and the fixed prices are all you see.
#
# Why is the height of a bar's part not exact?
#
# <details><summary>Answer</summary>
#
# It is a difference of two times, so it has the noise of both: the lines on the bar show its middle
# half.
# </details>
#
# Now train the three layers, and look at the loss beside the one layer's.

# %%
trained = []
curves = []
for seed in seeds:
    net = new_net(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(train_x), batch, epoch, seed):
            losses.append(train_step(net, optimizer, train_x[rows], train_y[rows]))
    trained.append(net)
    curves.append(losses)

# %%
title = f"In as many steps three layers get lower than one (seed {seeds[0]})"
both = {"one layer, by hand": by_hand[0][0], "three layers, PyTorch": curves[0]}
plots.loss(both, title=title, name="loss")


# %% [markdown]
# **Explain.** Both fall fast, then slowly. One layer begins at 2.30: its weights were 0, so it knew
# nothing. Three layers begin higher: their start weights are not 0, so the net leans to some digits
# before it has learned which. They end lower. (Would one layer catch up with more steps? These
# curves do not tell.)
#
# The curves jump because each step has another batch. Whether a lower *training* loss means more
# test digits right, the next exercise tells, with all seeds.
#
# ### Exercise 10.4 · Accuracy
# Write the share of images whose largest logit is at their label. *(beginner)*
#
# Measuring must change nothing for what comes after, and cost no more than it must. Some layers
# behave otherwise in training: **dropout** sets a random part of its input to 0. `net.eval()`
# switches a net to evaluation mode, `net.train(True)` or `net.train(False)` sets the mode, and
# `net.training` tells it. Leave it as it was. `with torch.inference_mode():` stops the recording.
#
# <details><summary>Hint 1: the order</summary>
#
# Keep `net.training`, switch to evaluation mode, compute in inference mode, set the mode that you
# kept. `logits.argmax(dim=1)` is the place of each row's largest.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `mode = net.training`, `net.eval()`, inside inference mode `guess = net(images).argmax(dim=1)`,
# then `net.train(mode)`, and return `(guess == labels).float().mean().item()`.
# </details>

# %%
def accuracy(net, images, labels) -> float:
    """The share (0 to 1) of images whose largest logit is at their label."""
    raise NotImplementedError("exercise 10.4: Accuracy")


# %%
# Asked: A plain number, a net in evaluation mode and not recorded, called once,
# its mode kept.
check("10.4", accuracy)

# %%
shares = {"one layer": [], "three layers": []}
for seed, net, (_, share) in zip(seeds, trained, by_hand, strict=True):
    shares["one layer"].append(100 * share)
    shares["three layers"].append(100 * accuracy(net, test_x, test_y))
    print(
        f"seed {seed}: one layer {share:.1%}, three layers {accuracy(net, test_x, test_y):.1%}"
        " right"
    )
bars = {name: {"": values} for name, values in shares.items()}
record.add("accuracy", unit="%", one_layer=shares["one layer"], three_layers=shares["three layers"])
plots.bars(
    bars,
    ylabel="test digits right (%)",
    title="After as many steps three layers get more right",
    name="accuracy",
)

# %% [markdown]
# **Explain.** With each seed three layers should get more of the 261 test digits right. One image
# is 0.4 %, and seeds differ by a few images. If they overlap (few epochs, say), then these runs do
# not tell them apart.
#
# ## For those who have time: too low, right, too high
# (10 minutes more, not counted above.) Why a learning rate of 0.2? It says how far a step goes
# *against the gradient*. But a gradient holds only nearby: it is the slope where the weights are
# now.
#
# - If the rate is **too low**, the loss falls, but each step is short.
# - If it is **too high**, a step goes so far that the slope does not hold there. The loss may rise.
#
# Three trainings with your `train_step` from the same start weights: with a hundredth of
# `learning_rate`, with `learning_rate`, and with ten times of it.
#
# ### Predict
# With a hundredth of the rate each step is a hundredth as long. After all 120 steps the loss is
# about as low as with the full rate after how many? And what is the loss of a net that a step too
# far has spoilt, so that it knows nothing? (You have computed it in 10.1.)

# %%
predict("10.3", steps_of_full_rate=..., loss_spoilt=...)  # two numbers


# %%
def train_with(rate, seed):
    """Train three layers with this rate. Returns the loss of every step, and the net."""
    net = new_net(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for epoch in range(epochs):
        for rows in data.batches(len(train_x), batch, epoch, seed):
            losses.append(train_step(net, optimizer, train_x[rows], train_y[rows]))
    return losses, net


def last_epoch(losses):
    """The mean loss of the last epoch's steps."""
    return float(np.mean(losses[-len(losses) // epochs :]))


def silent_units(net):
    """How many of the 64 units of layer 2 are 0 after ReLU, for every test image."""
    with torch.inference_mode():
        return int((net[:4](test_x) == 0).all(dim=0).sum())


# %%
curves_of = {}
for name, factor in {"too low, a hundredth": 0.01, "right": 1, "too high, ten times": 10}.items():
    losses, net = train_with(factor * learning_rate, seeds[0])
    curves_of[name] = losses
    ends = f"{losses[0]:.2f} at first, {max(losses):.2f} at most, {last_epoch(losses):.2f} at last"
    print(f"{name:20} loss {ends}; {silent_units(net)} of 64 units are silent")
plots.loss(curves_of, title="Too low crawls, too high leaps", name="three rates")
low, right, high = curves_of.values()
steps = next((step for step, loss in enumerate(right) if loss <= last_epoch(low)), len(right))
predict.compare("10.3", steps_of_full_rate=steps, loss_spoilt=last_epoch(high))

# %% [markdown]
# **Explain.** You should see three curves.
#
# *Too low* falls slowly and steadily. Nothing is wrong with it but the time that it takes: the full
# rate is as low after one or two steps, as 120 hundredths are 1.2.
#
# *Too high* leaps up at once, and ends near 2.3. That is the loss of a net that knows nothing. The
# printed lines say why it does not recover. The leaps have moved the weights so far that most units
# of layer 2 are silent: ReLU makes 0 of them for every image. No gradient gets through a silent
# unit, so nothing brings it back. (You may see fewer silent units, and a loss that still leaps:
# then it has not come to that yet.)
#
# Where between the two does it turn? Train with more rates, each with every seed. Some seconds.

# %%
at_the_end = {}
for factor in (0.01, 0.03, 0.1, 0.3, 1, 3, 10):
    rate = factor * learning_rate
    at_the_end[rate] = [last_epoch(train_with(rate, seed)[0]) for seed in seeds]
    record.add("rate", rate=rate, loss=at_the_end[rate])
axes = {"xlabel": "learning rate", "ylabel": "loss of the last epoch", "logx": True}
plots.lines({"": at_the_end}, title="The higher the better, up to a cliff", **axes, name="rates")

# %% [markdown]
# **Explain.** From left to right you should see the loss fall, and then a cliff: a factor of three
# further nothing is learned. So people look for the cliff, and stay well below it, as it is not in
# the same place for each seed, net and batch.
#
# Four ranks that *add up* their gradients instead of averaging them make steps four times as long.
# Is that too long here?
#
# <details><summary>Answer</summary>
#
# Four times 0.2 is 0.8. In your plot that is between the last good rate and the cliff: it may go
# well or not. [Lab 30](30_average_gradients.ipynb) tries it.
# </details>
#
# ## For those who have time: one image, or many?
# (10 minutes more, not counted above.) A trained net is used with few images at a time, or with
# many. Two measurements first.

# %%
net = trained[0]


def time_inference(size):
    """What timing.measure says of `size` images in one call."""
    images = test_x.repeat(8, 1)[:size]
    with torch.inference_mode():
        return timing.measure(lambda: net(images), device=device)


one = time_inference(1)
many = time_inference(1024)
print(f"   1 image   {one}\n1024 images  {many}")

# %% [markdown]
# ### Predict
# Suppose that a call with n images takes a fixed time, plus a time `each` for every image:
# `fixed + n * each`. Work both out from the two lines above. How many times as many images per
# second does the net then handle in batches of 256 as one by one?

# %%
predict("10.4", batching_gain=...)  # a number

# %%
latency = {size: time_inference(size) for size in sizes}
each = (many.median - one.median) / 1023
fixed = one.median - each
for size, seconds in latency.items():
    print(f"{size:5} images  {seconds}")

# %%
# Images per millisecond, measured and by the formula.
measured = {size: time.rate(size) / 1000 for size, time in latency.items()}
model = {size: size / (fixed + size * each) / 1000 for size in sizes}
title = "A batch shares the price of the call"
axes = {"xlabel": "images per call", "ylabel": "images/ms", "logx": True, "logy": True}
plots.lines({"measured": measured, "fixed + n × each": model}, **axes, title=title, name="batching")
predict.compare("10.4", batching_gain=measured[256] / measured[1])
times = f"{1e6 * latency[1].median:.0f} µs, among 256 it waits {1e6 * latency[256].median:.0f} µs"
print(f"An image alone is done after {times}.")

# %% [markdown]
# **Explain.** A call has a fixed price: Python, the start of each operation. A batch shares it
# among its images, until arithmetic takes over and the curve flattens. The formula has two numbers,
# and should go through all points roughly. Between its ends it may be some ten percent off: not
# every image costs the same, in a small product and in a large one.
#
# You may see instead, on a GPU, a curve that rises to its end: 1,024 digits take hardly longer than
# one, so `each` is nearly 0, and the gain is nearly the 256.
#
# Each image pays by waiting for its batch: that is the last line above. Images per second
# (**throughput**) or time until one is done (**latency**): you choose.
#
# Which of the two does training want?
#
# <details><summary>Answer</summary>
#
# Throughput: nobody waits for a single image. But a larger batch takes fewer steps through the same
# images, and that has limits of its own ([lab 34](34_large_batch.ipynb)).
# </details>
#
# ## On a GPU: a workload that fills it
# (About a minute on a GPU, not counted above. On a CPU the next cell prints one sentence.)
#
# The digits' network is so small that a GPU spends most of a step on starting operations, so its
# times say little about the GPU. This section therefore trains two networks that are large enough,
# with the `train_step` that you wrote: [ResNet-50](https://arxiv.org/abs/1512.03385) on images of 224 × 224 pixels, and
# [GPT-2](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) with 124 million parameters on texts of 1,024 tokens. Images and tokens are
# random numbers that already lie on the device, so no step waits for a disk (lab 15). On a GPU that
# has bfloat16 these networks compute in it (lab 14).
#
# How much of the device does a step use? **Model FLOPs utilization** ([MFU](https://arxiv.org/abs/2204.02311)) compares
# the operations that the model asks for with those that the device could do in the same time:
#
# $$\text{MFU} = \frac{\text{operations of a forward and a backward pass}}
# {\text{seconds of a step} \times \text{operations per second at the device's peak}}$$
#
# PyTorch counts the operations of the matrix products and convolutions, and a multiply-add counts
# as two. A step of ResNet-50 has 24.3 · 10⁹ for each image, and a step of GPT-2 has 0.85 · 10⁹ for
# each token. The peak is the one that NVIDIA publishes for bfloat16 without sparsity. For a device
# that labkit does not know, the peak is measured with a large matrix product.
#
# The parameter `workload` chooses the networks. `"tiny"` takes two steps with tiny variants on any
# device, which shows that the code works and says nothing about speed. `"resnet50"` and `"gpt2"`
# choose one network, and `"digits"` leaves both out.

# %%
for name in workloads.chosen(workload):
    load = workloads.load(name, device)
    optimizer = torch.optim.SGD(load.net.parameters(), lr=0.01)
    step = partial(train_step, load.net, optimizer, load.inputs, load.labels)
    speed = load.speeds({"your step": step})["your step"]
    print(speed)
    record.add("workload", **speed.fields())

# %% [markdown]
# **Explain.** No training reaches an MFU of 100 %, because some layers wait for memory instead of
# arithmetic, and because the update and the start of each operation take time as well. Two published
# numbers to compare with (we did not measure them): [NVIDIA's own script](https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5) trained
# ResNet-50 with 2,470 images/s on one A100 in 16 bits, which is 2,470 · 24.3 · 10⁹ / (312 · 10¹²) =
# 19 %. PaLM, a language model with 540 billion parameters, reached 46 % on 6,144 TPUs. A language
# model usually gets closer to the peak than a convolutional network, since nearly all of its
# operations are in large matrix products.
#
# If your MFU is much lower, first look at the size of the work: a small batch leaves a GPU waiting for
# the next operation, as the digits do.

# %% [markdown]
# ### What you take away
# * The loss is a **mean**: so N images on one device can be N/4 on each of four, averaged (lab 30).
# * A loss that crawls: the rate is too low. One that leaps, or stays near ln 10: too high.
# * Clear, forward, loss, backward, update. Forget to clear, and PyTorch says nothing: try it in
#   10.3, where the check does.
# * Accuracy wants evaluation mode and `inference_mode`, and leaves the net as it was.
# * Backward has 1.5 times forward's arithmetic here, nearly 2 times where the first layer is a
#   small part. Small calls pay a fixed price (lab 12).

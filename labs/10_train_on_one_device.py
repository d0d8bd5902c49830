# %% [markdown]
# # 10 Train on one device
#
# Hundreds of GPUs must end up with the same net as one device would. So first the one device: from the
# formula of the loss to the microseconds of a step.
#
# **You will be able to** (1) write loss, gradient and SGD step yourself, (2) write a correct training step in
# PyTorch, (3) measure accuracy without side effects, (4) say where the time of a step and of a batch goes.
#
# Needs: torch · Ranks: 1 · Minutes: 40 · Before: 01

# %%
import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, data, expect, hint, lab, nets, plots, predict, record, timing, world

lab.start("10_train_on_one_device")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.

# %% tags=["parameters"]
batch = 128  # images per step
epochs = 10  # passes over the training images
learning_rate = 0.2  # plain SGD: how far a step goes against the gradient
sizes = (1, 4, 16, 64, 128, 256, 1024)  # images per call when the trained net is used

# %%
digits = data.digits()
plots.images(digits.train_x[30:40], digits.train_y[30:40], columns=10, title="Ten of 1,797 digits")

# %% [markdown]
# An image is 8 × 8 pixels, 64 numbers from 0 (white) to 1 (black). 1,536 train the net, 261 test it. Labs 11,
# 30, 40 and 41 use the same net and the same batches in the same order: their curves can be compared.
#
# ## The loss
# For each image a net gives ten numbers z, the **logits**. **Softmax** makes probabilities of them:
# `p[k] = exp(z[k]) / sum(exp(z))`. The **cross-entropy** loss of an image is `-log(p[label])`: near 0 if the
# net is sure and right, large if sure and wrong. The loss of a batch is the *mean* over its images.
#
# ### Predict
# A net that knows nothing gives each of the ten digits the same probability. What is its loss?

# %%
predict("10.1", loss_knowing_nothing=...)  # a number


# %% [markdown]
# ### Exercise 10.1 · Cross-entropy loss
# About three lines of numpy, no loop. It must survive logits of 1,000, although `np.exp(1000)` is infinite.
#
# <details><summary>Hint 1: how do I keep exp from overflowing?</summary>
#
# Taking the same number off all logits of an image changes no probability. Take off each row's largest. A row
# is an image, a column a digit: maximum and sum run along a row, `axis=1, keepdims=True`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `z = logits - logits.max(axis=1, keepdims=True)`, `log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))`
# and of row i take column `labels[i]`: `log_p[np.arange(len(labels)), labels]`. Mean, minus sign, done.
# </details>

# %%
def cross_entropy(logits, labels) -> float:
    """Mean cross-entropy loss. logits: (images, classes). labels: (images,), the right class of each."""
    raise NotImplementedError("exercise 10.1: Cross-entropy loss")


# %%
with check("10.1"), np.errstate(all="ignore"):
    logits = np.random.default_rng(1).normal(size=(6, 4))
    labels = np.array([0, 3, 1, 2, 2, 0])
    got = cross_entropy(logits, labels)
    expect(isinstance(got, (float, np.floating)), f"A batch has one loss, a number. This is {got}.")
    alone = np.array([cross_entropy(logits[i : i + 1], labels[i : i + 1]) for i in range(6)])
    of_each = np.isclose(got, [alone.mean(), alone.sum()]).any()
    expect(of_each, "The loss of an image depends on its batch: use one entry of its own row.")
    right = F.cross_entropy(torch.tensor(logits), torch.tensor(labels)).item()  # PyTorch is the referee
    slips = {
        "This is -1 times the right loss: mind the minus": -right,
        "This is 6 times the right loss: mean, not sum": 6 * right,
        "This is 0.25 times the right loss: divide by images only": right / 4,
    }
    expect.close(got, right, "the loss", slips=slips)
    sure = F.cross_entropy(torch.tensor(1000 * logits), torch.tensor(labels)).item()
    expect.close(cross_entropy(1000 * logits, labels), sure, "logits near 1,000 (exp overflows? log of 0?)")
predict.compare("10.1", loss_knowing_nothing=cross_entropy(np.zeros((261, 10)), digits.test_y))


# %% [markdown]
# Remember ln 10 = 2.30. A fresh net is usually worse: its random weights make it *sure* of wrong digits.
#
# ## The gradient
# Which way does each weight push the loss? For one layer, `logits = images @ weights + bias`, the chain rule
# gives `d = (p - y) / N` for the logits: p the probabilities, y 1 at the right digit, else 0, of N images.
# From there to the weights it is `images.T @ d`. An **SGD step** moves every weight *against* its gradient.
#
# ### Exercise 10.2 · One SGD step by hand
# For one layer, weights and bias, **in place**: the caller's arrays change.
#
# <details><summary>Hint 1: the shapes tell the formula</summary>
#
# `images` is (N, 64) and d (N, 10), so `images.T @ d` is (64, 10), as the weights. The bias is added to every
# row: its gradient is the sum over the rows. In place is `-=`; `a = a - b` makes a new array and drops it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `p = np.exp(z)`, z as in 10.1, divided by its row sums. With `p[np.arange(len(labels)), labels] -= 1` it is
# p - y. `d = p / len(images)`; `weights -= learning_rate * images.T @ d`; for the bias `d.sum(axis=0)`.
# </details>

# %%
def sgd_step(weights, bias, images, labels, learning_rate) -> None:
    """weights: (pixels, classes), bias: (classes,), images: (N, pixels), labels: (N,)."""
    raise NotImplementedError("exercise 10.2: One SGD step by hand")


# %%
def slopes(loss, array, h=1e-5):
    """Finite differences: how much `loss(array)` changes when one entry at a time moves by h, both ways."""
    moves = h * np.eye(array.size).reshape(-1, *array.shape)
    changes = [loss(array + move) - loss(array - move) for move in moves]
    return np.reshape(changes, array.shape) / (2 * h)


with check("10.2"):
    rng = np.random.default_rng(2)
    images, labels = rng.normal(size=(6, 5)), np.array([0, 3, 1, 2, 2, 0])
    weights, bias = rng.normal(size=(5, 4)), rng.normal(size=4)
    new_weights, new_bias = weights.copy(), bias.copy()
    sgd_step(new_weights, new_bias, images, labels, learning_rate=0.5)
    by_weights = slopes(lambda array: cross_entropy(images @ array + bias, labels), weights)
    by_bias = slopes(lambda array: cross_entropy(images @ weights + array, labels), bias)
    for name, before, after, slope in (
        ("weights", weights, new_weights, by_weights),
        ("bias", bias, new_bias, by_bias),
    ):
        used = (before - after) / 0.5
        expect(used.any(), f"The caller's {name} did not change: write into the array with `-=`.")
        slips = {
            f"The {name} went uphill: p - y, and subtract": -slope,
            f"The {name} followed the gradient of the sum. Divide by N": 6 * slope,
            f"For the {name} you divide by N twice. Sum over the rows": slope / 6,
        }
        expect.close(used, slope, f"the gradient by {name} (expected: finite differences)", slips=slips)

# %%
weights, bias = np.zeros((64, 10), np.float32), np.zeros(10, np.float32)
by_hand = []
for epoch in range(epochs):
    for rows in data.batches(len(digits.train_x), batch, epoch, seed=0):
        images, labels = digits.train_x[rows], digits.train_y[rows]
        by_hand.append(float(cross_entropy(images @ weights + bias, labels)))
        sgd_step(weights, bias, images, labels, learning_rate)
right = (digits.test_x @ weights + bias).argmax(axis=1) == digits.test_y
print(f"one layer, by hand: {right.mean():.1%} of the test digits right")

# %% [markdown]
# ## The same in PyTorch, with three layers: 64-128-64-10
# PyTorch records the forward pass. `loss.backward()` walks back through it (**autograd**) and *adds* to every
# weight's `.grad` its gradient; `optimizer.step()` moves the weights.
#
# ### Predict
# How long does backward take, compared with forward and loss? 1 means as long.

# %%
predict("10.3", backward_over_forward=...)  # a number


# %% [markdown]
# ### Exercise 10.3 · The training step
# Five lines. `F.cross_entropy` takes *logits*: softmax and mean are in it.
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
train_x, train_y, test_x, test_y = (torch.tensor(part, device=device) for part in digits)
with check("10.3"):
    net, twin = nets.torch_digits().to(device), nets.torch_digits().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    images, labels = train_x[:8], train_y[:8]
    losses = []
    for step in (1, 2, 3, 4):
        logits = twin(images)
        loss = F.cross_entropy(logits, labels)
        got = train_step(net, optimizer, images, labels)
        expect(isinstance(got, float), "Return loss.item(): a tensor keeps the recorded operations alive.")
        expect(got not in losses, "The weights do not move: optimizer.step() comes after backward().")
        slips = {
            "This is the sum of the losses, not their mean": 8 * loss.item(),
            "Softmax twice: F.cross_entropy wants logits": F.cross_entropy(logits.softmax(1), labels).item(),
        }
        what = f"the loss of step {step} (does .grad hold this loss alone?)"
        expect.close(got, loss.item(), what, slips=slips)
        losses.append(got)
        gradients = torch.autograd.grad(loss, twin.parameters())
        for weight, gradient in zip(twin.parameters(), gradients, strict=True):
            weight.data -= 0.1 * gradient

# %%
images, labels = train_x[:batch], train_y[:batch]  # timed with the net of the check, which is used up anyway
forward = timing.measure(lambda: F.cross_entropy(net(images), labels), device=device)
both = timing.measure(lambda: F.cross_entropy(net(images), labels).backward(), device=device)
whole = timing.measure(lambda: train_step(net, optimizer, images, labels), device=device)
print(f"forward      {forward}\nand backward {both}\nwhole step   {whole}")
predict.compare("10.3", backward_over_forward=both.median / forward.median - 1)
record.add("step", seconds=whole, batch=batch)

# %%
net = nets.torch_digits().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
curve = []
for epoch in range(epochs):
    for rows in data.batches(len(train_x), batch, epoch, seed=0):
        curve.append(train_step(net, optimizer, train_x[rows], train_y[rows]))
plots.loss({"one layer, by hand": by_hand, "three layers, PyTorch": curve}, title="Training loss")

# %% [markdown]
# **Explain.** For each matrix product of forward, backward does two, by weights and by inputs, but the first
# layer's inputs need none: 1.5 times the arithmetic. What is above 1.5 is the price of many small calls.
#
# ### Predict
# How many times more images per second does the net handle in batches of 256 than one by one?

# %%
predict("10.4", batching_gain=...)  # a number


# %% [markdown]
# ### Exercise 10.4 · Accuracy
# Dropout is for training only, recording costs time: measure without both. Leave the net's mode as it was.
#
# <details><summary>Hint 1: two switches</summary>
#
# `net.eval()` changes layers such as dropout; `with torch.inference_mode():` stops the recording. You need
# both. `net.training` tells the mode; `net.train(mode)` sets it.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `mode = net.training`, `net.eval()`, inside inference mode `guess = net(images).argmax(dim=1)`, then
# `net.train(mode)`, and return `(guess == labels).float().mean().item()`.
# </details>

# %%
def accuracy(net, images, labels) -> float:
    """The share (0 to 1) of images whose largest logit is at their label."""
    raise NotImplementedError("exercise 10.4: Accuracy")


# %%
with check("10.4"):
    probe = torch.nn.Sequential(torch.nn.Dropout(0.5), nets.torch_digits().to(device))
    calls = []  # of the probe: (in training mode?, recorded?)
    probe.register_forward_hook(lambda net, _, out: calls.append((net.training, out.requires_grad)))
    right = (probe[1](test_x).argmax(1) == test_y).float().mean().item()
    for mode in (True, False):
        got = accuracy(probe.train(mode), test_x, test_y)
        training, recorded = calls[-1]
        expect(not training, "The net was in training mode: dropout wiped out half of each image.")
        expect(not recorded, "Operations were recorded for a backward pass. Use torch.inference_mode().")
        expect.close(got, right, "the accuracy, a share of the images", rtol=1e-6)
        expect.equal(probe.training, mode, "net.training after the call (leave it as it was)")
print(f"{device}: {accuracy(net, test_x, test_y):.1%} of the test digits right")

# %%
latency = {}
for size in sizes:
    images = test_x.repeat(8, 1)[:size]
    with torch.inference_mode():
        latency[size] = timing.measure(lambda images=images: net(images), device=device)
    print(f"{size:5} images  {latency[size]}")
rates = {size: time.rate(size) / 1000 for size, time in latency.items()}
plots.lines({"inference": rates}, xlabel="batch", ylabel="images/ms", title="Batching", logx=True, logy=True)
predict.compare("10.4", batching_gain=rates[256] / rates[1])
print(f"{batch} images: a training step takes {whole.median / latency[batch].median:.1f} times inference")

# %% [markdown]
# **Explain.** A call has a fixed price, which a batch shares among its images until arithmetic takes over and
# the curve flattens. Each image pays by waiting for its batch. Latency or throughput: you choose.
#
# ### What you take away
# * The loss is a **mean**: so N images on one device can be N/4 on each of four, averaged (lab 30).
# * Clear, forward, loss, backward, update. Forget one, and often nothing fails but the numbers.
# * Accuracy wants `eval` and `inference_mode`. Small calls pay a fixed price (lab 12). Next: TensorFlow (11).

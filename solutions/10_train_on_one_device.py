# %% [markdown]
# # 10 Train on one device
#
# All parallel training has the same goal: many devices together must compute the model that one
# device would have computed, only sooner. To judge whether they do, you have to know exactly what
# one device computes, and where it spends its time. Many errors in distributed training scripts
# would be visible on one device, such as gradients that are not cleared, a loss that is summed
# instead of averaged, or an accuracy that is measured with the network in the wrong mode.
#
# In this lab we train a small network on one device, from the formula of the loss to the
# microseconds of a training step. First we write loss, gradient and update by hand for one layer,
# then we do the same in [PyTorch](@pytorch) with three layers, and at each step we measure.
#
# **After this lab you can** (1) write the loss, the gradient and the SGD step yourself, (2) write a
# correct training step in PyTorch, (3) measure accuracy without side effects, (4) say where the
# time of a step goes, and, from the optional part, (5) tell from its loss whether a learning rate
# is too low or too high.
#
# ![A training step as a cycle: forward pass, loss, backward pass, update of the weights; the next batch begins a new step](10_step.svg)
#
# *A training step. The forward pass computes the logits of a batch, the loss compares them with the
# labels, the backward pass computes a gradient for every weight, and the update changes the
# weights.*
#
# Needs: torch · Ranks: 1 · Minutes: 65 · Level: beginner · Before: 01

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
from support import lab10

lab.start("10_train_on_one_device")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU: one core. More of them are the subject of lab 13.

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see the end
batch = 128  # images per step
epochs = 10  # passes over the training images
seeds = (0, 1, 2)  # a training for each: start weights and order of the images
learning_rate = 0.2  # plain SGD: how far a step goes against the gradient
workload = "auto"  # on a GPU ResNet-50 and GPT-2, too; or "tiny", "resnet50", "gpt2", "digits"

# %%
samples = data.load(dataset)
count = len(samples.train_x) + len(samples.test_x)
pixels = samples.train_x.shape[1]  # of an image
plots.images(
    samples.train_x[30:40], samples.train_y[30:40], columns=10, title=f"Ten of {count:,} images"
)

# %% [markdown]
# An image has 8 × 8 pixels, which are 64 numbers from 0 (white) to 1 (black). Its **label** is the
# digit that it shows. We use 1,536 images to train the network and 261 others to test it.
#
# A network is a function with adjustable numbers, its **weights**. (A weight that is added to a
# sum, instead of multiplied by an input, is called a **bias**.) Training changes the weights
# gradually:
#
# | term | meaning | in this lab |
# |---|---|---|
# | **batch** | the images that are used together | 128 images |
# | **step** | one computation with a batch, which changes all weights once | 120 steps |
# | **epoch** | as many steps as it takes to use each training image once | 12 steps, ten times |
#
# ## The loss
# For each image a network computes ten numbers z, one for each digit, which are called **logits**.
# The larger the logit of a digit, the more the network's answer tends to this digit.
#
# **Softmax** converts the logits to probabilities, `p[k] = exp(z[k]) / sum(exp(z))`, whose sum
# is 1.
#
# The **cross-entropy** loss of an image is `-log(p[label])`, with the natural logarithm. It is
# close to 0 if the network assigns a high probability to the right digit, and large if it assigns a
# high probability to a wrong one. The loss of a batch is the *mean* over its images.
#
# Here is an example with three classes and the logits (2, 0, 0):
#
# | class k | logit `z[k]` | `exp(z[k])` | `p[k]` | loss if k is the label |
# |---|---|---|---|---|
# | 0 | 2 | 7.39 | 0.787 | −log 0.787 = 0.24 |
# | 1 | 0 | 1 | 0.1065 | −log 0.1065 = 2.24 |
# | 2 | 0 | 1 | 0.1065 | −log 0.1065 = 2.24 |
#
# A batch of two images with these logits and the labels 0 and 1 has the loss
# (0.24 + 2.24) / 2 = 1.24.
#
# ### Predict
# A network that has learned nothing gives each of the ten digits the same probability. What is its
# loss?

# %%
predict("10.1", loss_knowing_nothing=2.3)  # a number

# %% [markdown]
# ### Exercise 10.1 · Cross-entropy loss
# Write the mean loss of a batch with NumPy, in about three lines and without a loop. *(beginner)*
#
# A row of `logits` belongs to an image and a column to a digit. Sums along a row have `axis=1`, and
# `keepdims=True` keeps the shape (images, 1). The expression `a[np.arange(n), labels]` picks the
# entry `labels[i]` from each row i. From the rows (5, 6) and (7, 8), for example, the labels 1 and
# 0 pick 6 and 7.
#
# The function must also work for logits of 1,000, although `np.exp(1000)` is infinite. Two changes
# make this possible:
#
# - The probabilities do not change if you subtract the same number from all logits of an image. So
#   subtract the largest logit of each row, `logits.max(axis=1, keepdims=True)`, and use the result
#   as z.
# - Since log(exp(z) / s) equals z − log(s), where s is the sum of the row's exponentials, you can
#   avoid computing log(0).
#
# <details><summary>Hint 1: which sum?</summary>
#
# The sum of a row's exponentials: `np.exp(z).sum(axis=1, keepdims=True)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `z = logits - logits.max(axis=1, keepdims=True)`,
# `log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))`, and from row i take column
# `labels[i]`: `log_p[np.arange(len(labels)), labels]`. The loss is the mean of these numbers, with
# a minus sign.
# </details>


# %%
def cross_entropy(logits, labels) -> float:
    """Mean cross-entropy loss. logits: (images, classes). labels: (images,), the right class of
    each."""
    ### BEGIN SOLUTION
    # The same probabilities, and exp cannot overflow:
    z = logits - logits.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean()
    ### END SOLUTION


# %%
check("10.1", cross_entropy)

# %%
ten_equal_logits = torch.zeros(len(samples.test_y), 10)
loss = F.cross_entropy(ten_equal_logits, torch.tensor(samples.test_y))  # PyTorch's, not yours
predict.right("10.1", loss_knowing_nothing=loss.item())

# %% [markdown]
# **Explain.** Each probability is 0.1, and −log 0.1 is ln 10 = 2.30. Remember this number. If
# the loss of a training run stays there, the network learns nothing.
#
# ## The gradient
# The **gradient** of the loss consists of its derivatives with respect to all weights. A derivative
# says how fast the loss grows when this one weight grows. Consider a single layer,
# `logits = images @ weights + bias`. We go backward, from the loss to the logits and from the
# logits to the weights.
#
# **With respect to the logits of one image.** The loss is `-log(p[label])`, and `p[label]` is
# `exp(z[label]) / sum(exp(z))`, so the loss is `log(sum(exp(z))) - z[label]`. We need the
# derivative of these two terms with respect to each logit `z[k]`:
#
# - For the first term it is `exp(z[k]) / sum(exp(z))`, which is `p[k]`.
# - The second term subtracts 1 if k is the label.
#
# Let y be the row that is 1 at the label and 0 elsewhere. Then the derivative is `p - y`. For the
# logits (2, 0, 0) from above and the label 1, for example, y is (0, 1, 0) and the derivative is
# about (0.79, −0.89, 0.11). The loss therefore falls if the logit of class 1 grows and the others
# become smaller.
#
# **With respect to the logits of a batch.** The loss of N images is the mean of their losses, so
# the derivative is `d = (p - y) / N`, with one row for each image.
#
# **With respect to the weights.** The logit `z[k]` of image i grows by `images[i, j]` for each unit
# of `weights[j, k]`, so the loss grows by `images[i, j] * d[i, k]`. Summed over the images i, this
# is `images.T @ d`. A (64, N) matrix times an (N, 10) matrix is a (64, 10) matrix, like the
# weights.
#
# **With respect to the bias.** The bias is added to every row, so its gradient is the sum of d over
# the rows, which is ten numbers.
#
# A step of **stochastic gradient descent** (SGD) changes every weight *against* its gradient: the
# new weight is the old weight minus the learning rate times the gradient.
#
# Here is an example with two pixels and three classes. Let the batch be the single image (1, 0.5)
# with the derivative d = (0.79, −0.89, 0.11) from above. The gradient of the weights is a (2, 3)
# matrix with the rows 1 · d and 0.5 · d, and the gradient of the bias is d. With a learning rate of
# 0.1, the step changes the bias by (−0.079, 0.089, −0.011).
#
# ### Exercise 10.2 · One SGD step by hand
# Write one SGD step for one layer. About seven lines. *(intermediate)*
#
# - Change weights and bias **in place**, so that the caller's arrays change. Return nothing.
# - Compute the logits and p in the function, because your `cross_entropy` returns only the loss.
# - As in 10.1, logits of 1,000 must not overflow.
#
# <details><summary>Hint 1: in place</summary>
#
# `weights -= …` changes the caller's array, while `weights = weights - …` makes a new array that
# the caller never sees. A sum over the rows is `.sum(axis=0)`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `p = np.exp(z)`, with z as in 10.1, divided by the sums of its rows. After
# `p[np.arange(len(labels)), labels] -= 1` it is p − y. Then `d = p / len(images)`,
# `weights -= learning_rate * images.T @ d`, and for the bias `d.sum(axis=0)`.
# </details>


# %%
def sgd_step(weights, bias, images, labels, learning_rate) -> None:
    """weights: (pixels, classes), bias: (classes,), images: (N, pixels), labels: (N,)."""
    ### BEGIN SOLUTION
    z = images @ weights + bias
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    d = p / len(images)
    weights -= learning_rate * images.T @ d
    bias -= learning_rate * d.sum(axis=0)
    ### END SOLUTION


# %%
check("10.2", sgd_step)

# %% [markdown]
# The check used **finite differences**, which need no formula: it changed one weight a little and
# observed how much the loss changed. This requires two evaluations of the loss for each weight. A
# step with the 650 weights and biases of this layer would have 1,300 evaluations, so we use finite
# differences only to check a formula.
#
# Now we train this one layer with your two functions, once for each seed.


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
# **Explain.** One layer should get about nine of ten test digits right. The seeds differ here only
# in the order of the images, because all weights begin at 0, so their results differ by a few
# images.
#
# <details><summary>Another loss: the mean squared error</summary>
#
# If a network predicts *amounts* instead of classes, such as tomorrow's temperature, the usual loss
# is the **mean squared error**. With `sum((z - y)**2) / 2` as the loss of a sample, where y is the
# true amounts, the derivative is `z - y`. It has the same form as `p - y`, prediction minus truth,
# and everything else in this section stays the same. (`F.mse_loss` has no factor 1/2, and divides
# by the number of all values, images times outputs.)
#
# For classes one could also take the squared error of the *probabilities*. Where the network is
# certain and wrong, softmax is flat, so the gradient of this loss is nearly 0 and the network
# learns almost nothing. With cross-entropy, `p - y` is nearly −1 at the label there.
# </details>
#
# ## The same in PyTorch, with three layers
# A layer computes weighted sums. Weighted sums of weighted sums are again weighted sums, so two
# layers alone would be no better than one. **ReLU** (rectified linear unit) between them prevents
# this. It is `relu(x) = max(x, 0)`, applied to each number separately.
#
# | layer | inputs | outputs | then |
# |---|---|---|---|
# | 1 | 64 pixels | 128 numbers | ReLU |
# | 2 | 128 numbers | 64 numbers | ReLU |
# | 3 | 64 numbers | 10 logits | |
#
# This network has 17,226 weights and biases. Its initial weights are normally distributed with
# variance 2 / inputs, as in He et al. (2015). Labs 11, 30, 40 and 41 use the same images, the same
# network and the same batches in the same order, so their curves can be compared.

# %%
train_x, train_y, test_x, test_y = (torch.tensor(part, device=device) for part in samples)
layers = (pixels, 128, 64, 10)  # numbers that go in, that come out of layer 1, of 2, of 3


def new_net(seed=0):
    """The net with the start weights of this seed."""
    return nets.torch_digits(nets.start_weights(seed, layers)).to(device)


print(new_net())

# %% [markdown]
# ### The training step
# The *forward pass* computes the logits from the images, and PyTorch records its operations. The
# *backward pass* processes this record in reverse to compute the gradients, so you don't derive
# them by hand any more. This is called **autograd**.
#
# In each layer the forward pass has one matrix product, and the backward pass has two: one for the
# gradient of the weights and one for the gradient of the layer's inputs. The inputs of the first
# layer are the images, whose gradient is not needed. The table shows the multiply-adds for one
# image:
#
# | layer | forward pass | backward pass, weights | backward pass, inputs |
# |---|---|---|---|
# | 1 | 64 × 128 = 8,192 | 8,192 | none |
# | 2 | 128 × 64 = 8,192 | 8,192 | 8,192 |
# | 3 | 64 × 10 = 640 | 640 | 640 |
#
# ### Predict
# Suppose that only these multiply-adds take time. How many times as long as the forward pass does
# the backward pass take then?

# %%
predict("10.3", backward_over_forward=1.5)  # a number

# %% [markdown]
# ### Exercise 10.3 · The training step
# Write one training step: clear the gradients, compute forward pass and loss, compute the backward
# pass, and update the weights. About five lines. *(beginner)*
#
# The **optimizer**, for example `torch.optim.SGD(net.parameters(), lr=0.2)`, is the object that
# updates the weights. A step uses these calls:
#
# | call | effect |
# |---|---|
# | `net(images)` | returns the logits |
# | `F.cross_entropy(logits, labels)` | your function from 10.1, but returns a tensor |
# | `loss.item()` | converts this tensor to a plain number |
# | `loss.backward()` | *adds* the gradient of every weight to the weight's `.grad` |
# | `optimizer.step()` | updates all weights |
# | `optimizer.zero_grad()` | clears all `.grad` |
#
# For example, if `.grad` is 3 after one step and the gradient of the next loss is 2, `.grad`
# becomes 5, unless it is cleared between the two.
#
# <details><summary>Hint 1: what is in .grad?</summary>
#
# The sum of all gradients since `optimizer.zero_grad()`. A step must use only the gradients of its
# own loss.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.zero_grad()`, `loss = F.cross_entropy(net(images), labels)`, `loss.backward()`,
# `optimizer.step()`, `return loss.item()`.
# </details>


# %%
def train_step(net, optimizer, images, labels) -> float:
    """One step on a batch of tensors. Returns the loss before the update, a plain number."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %%
check("10.3", train_step)

# %% [markdown]
# ### Measure
# To find out where the time of a step goes, we time five calls. Each does more than the call before
# it:
#
# | row in the output | the call |
# |---|---|
# | `forward` | the forward pass without a record |
# | `recording` | the forward pass with a record |
# | `loss` | the forward pass and the loss |
# | `clear, backward` | clearing the gradients, forward pass, loss and backward pass |
# | `update` | the whole step, with the update |
#
# The first call is called **inference**, because the network is used and not trained.
#
# `timing.in_turns(calls)` lets the calls take turns, as `timing.ratio` in lab 01 does with two
# calls. For each call the next cell prints its time, and how much longer it takes than the call
# before it. In the row `clear, backward`, for example, the last number is the time of clearing and
# the backward pass alone.
#
# The last two lines are a control, a step with a single image, which has almost no arithmetic.

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
parts = lab10.print_parts(until)  # what each call takes longer than the one before it, in µs
one_image = timing.measure(
    lambda: train_step(net, optimizer, images[:1], labels[:1]), device=device
)
print(f"a step with 1 image: {one_image}")
share = one_image.median / until["update"].median
print(f"This is {share:.0%} of the time of a step with {batch} images.")

# %%
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
# **Explain.** *The backward pass.* The forward pass has 17,024 multiply-adds and the backward pass
# 25,856, so the arithmetic predicts 1.5. With 128 images you should measure a larger ratio of the
# two times, up to slightly more than 2. A likely reason is that every call has a fixed overhead
# (lab 12), and that clearing and the backward pass consist of more calls than the forward pass with
# the loss.
#
# *The whole step.* A training step takes several times as long as inference. Arithmetic explains
# only a factor of 1 + 1.5 = 2.5. The bar shows the parts that are not in this factor, which are the
# loss, the update, and the recording (it may be too small to see).
#
# *The overhead.* The step with one image has a 128th of the arithmetic and still takes a large part
# of the time of the whole step. On a GPU both may even take equally long, because a GPU computes
# this little almost at once.
#
# *The bars.* Each part of the bar is a difference of two times, so it has the noise of both. A
# negative difference counts as 0, so the height of the bar can differ a little from the time of a
# step. The lines on the bar show the interquartile range.
#
# A larger batch shares the overhead among more images, so it raises the **throughput** (images per
# second). The **latency**, the time until an image's result is ready, grows too, because each image
# has to wait for its batch. For training the throughput matters, because no single image is urgent.
#
# ### Train
# Now we train the three layers with your step, once for each seed, and compare the loss with that
# of the one layer.


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


trained = [train_with(learning_rate, seed) for seed in seeds]

# %%
title = f"The loss of each step, seed {seeds[0]}"
both = {"one layer, by hand": by_hand[0][0], "three layers, PyTorch": trained[0][0]}
plots.loss(both, title=title, name="loss")

# %% [markdown]
# **Explain.** Both curves fall fast at first and then slowly, and they jump because each step has
# another batch.
#
# One layer begins at 2.30, because its weights were 0, so it gave all digits the same probability.
# Three layers begin at a higher loss, because their initial weights are not 0, so the network
# prefers some digits before it has learned which are right.
#
# Three layers end at a lower loss. (One layer might reach the same loss with more steps, which
# these curves do not show.) The next exercise shows, with all seeds, whether a lower *training*
# loss also means that more test digits are right.
#
# ### Exercise 10.4 · Accuracy
# Compute the share of images whose largest logit is at their label. For example, the logits (2, 0,
# 0) count as right only for the label 0. About six lines. *(beginner)*
#
# A measurement must not change anything for the following training, and must not cost more than
# necessary:
#
# - *Mode.* Some layers behave differently in training. For example, **dropout** then sets a random
#   part of its input to 0. So measure in evaluation mode, and afterwards restore the mode that the
#   network had.
# - *Cost.* No gradient is needed, so switch off the recording with `with torch.inference_mode():`,
#   and call the network only once.
#
# | expression | meaning |
# |---|---|
# | `net.training` | the mode: True in training, False in evaluation |
# | `net.eval()` | switches the network and all its layers to evaluation mode |
# | `net.train(mode)` | sets the mode, True or False, of the network and all its layers |
#
# You can assume that all layers have the same mode as the network when your function is called.
#
# <details><summary>Hint 1: the order</summary>
#
# Remember `net.training`, switch to evaluation mode, compute in inference mode, and restore the
# remembered mode. `logits.argmax(dim=1)` is the position of the largest logit in each row.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `mode = net.training`, `net.eval()`, inside inference mode `guess = net(images).argmax(dim=1)`,
# then `net.train(mode)`, and return `(guess == labels).float().mean().item()`.
# </details>


# %%
def accuracy(net, images, labels) -> float:
    """The share (0 to 1) of images whose largest logit is at their label."""
    ### BEGIN SOLUTION
    mode = net.training
    net.eval()
    with torch.inference_mode():
        guess = net(images).argmax(dim=1)
    net.train(mode)
    return (guess == labels).float().mean().item()
    ### END SOLUTION


# %%
check("10.4", accuracy)

# %%
right = {"one layer": [], "three layers": []}  # in percent
for seed, (_, net), (_, share) in zip(seeds, trained, by_hand, strict=True):
    shares = (share, accuracy(net, test_x, test_y))
    print(f"seed {seed}: one layer {shares[0]:.1%}, three layers {shares[1]:.1%} right")
    for values, share in zip(right.values(), shares, strict=True):
        values.append(100 * share)
record.add("accuracy", unit="%", one_layer=right["one layer"], three_layers=right["three layers"])
plots.bars(
    {name: {"": 100 - np.array(values)} for name, values in right.items()},
    ylabel="test digits wrong (%)",
    title=f"Errors after {len(trained[0][0])} steps",
    name="accuracy",
)

# %% [markdown]
# **Explain.** The bars show the share of *wrong* digits, in which the difference is easier to see.
# A bar is the median of the seeds, and its line the interquartile range.
#
# With each seed, three layers should get more of the 261 test digits right than one layer. One
# image is 0.4 %, and the results of different seeds differ by a few images. If the printed shares
# of one layer and of three layers overlap, for example after only a few epochs, these runs do not
# show a difference.
#
# ### What you take away
# - The loss of a batch is a **mean**, so N images on one device can become N/4 images on each of
#   four devices, with averaged gradients (lab 30).
# - A training step clears the gradients, computes the forward pass, the loss and the backward pass,
#   and updates the weights. If you forget to clear, PyTorch reports no error. Try it in 10.3, where
#   the check detects it.
# - The backward pass has 1.5 times the arithmetic of the forward pass here, and nearly twice as
#   much where the first layer is a small part. Each call has a fixed overhead (lab 12).
# - Measure accuracy in evaluation mode and in `inference_mode`, and restore the mode of the
#   network.
#
# ## Going further (optional): too low, right, too high (10 minutes)
# Why did we choose a learning rate of 0.2? The rate determines how far a step changes the weights
# against the gradient. But a gradient is the slope at the current weights, so it is valid only
# nearby.
#
# - If the rate is **too low**, the loss falls, but each step changes little.
# - If the rate is **too high**, a step goes so far that the slope is no longer valid there, and the
#   loss can rise.
#
# The next cell trains three times with your `train_step` and the same initial weights: with a
# hundredth of `learning_rate`, with `learning_rate`, and with ten times `learning_rate`.
#
# ### Predict
# - With a hundredth of the rate, each step changes the weights only a hundredth as much. Take the
#   loss after all 120 of these steps. After how many steps with the full rate is the loss about as
#   low?
# - A step that is too long can spoil a network, so that it gives all digits about the same
#   probability. What is its loss then? (You computed it in 10.1.)

# %%
predict("10.3", steps_of_full_rate=1.2, loss_spoiled=2.3)  # two numbers


# %%
def last_epoch(losses):
    """The mean loss of the last epoch's steps."""
    return float(np.mean(losses[-len(losses) // epochs :]))


def silent_units(net):
    """How many of the 64 units of layer 2 are 0 after ReLU, for every test image."""
    with torch.inference_mode():
        return int((net[:4](test_x) == 0).all(dim=0).sum())


# %%
curves = {}
for name, factor in {"too low": 0.01, "right": 1, "too high": 10}.items():
    losses, net = train_with(factor * learning_rate, seeds[0])
    curves[f"{name}: {factor * learning_rate:g}"] = losses
    ends = f"{losses[0]:.2f} at first, {max(losses):.2f} at most, {last_epoch(losses):.2f} at last"
    print(f"{name:8}  loss {ends}; {silent_units(net)} of 64 units are silent")
plots.loss(curves, title="The loss with three learning rates", name="three rates")
low, right, high = curves.values()
steps = next((step for step, loss in enumerate(right) if loss <= last_epoch(low)), len(right))
predict.compare("10.3", steps_of_full_rate=steps, loss_spoiled=last_epoch(high))

# %% [markdown]
# **Explain.** You should see three curves.
#
# *Too low* falls slowly, with the noise of the batches. Its only disadvantage is time: 120 steps of
# a hundredth amount to 1.2 full steps, so the full rate reaches the same loss after one or two
# steps.
#
# *Too high* jumps up within the first steps and ends near 2.3, which is the loss of a network that
# gives all digits the same probability. The printed lines show why the loss does not fall again.
# The long steps have moved the weights so far that most units (outputs) of layer 2 are *silent*,
# which means that ReLU returns 0 for every test image.
#
# Where a unit is also 0 for every image of a batch, it passes no gradient, so it usually remains
# silent. (You might see fewer silent units and a loss that still jumps, if the run has not reached
# that state yet.)
#
# Which learning rate is the highest that still works? The next cell trains with more rates, each
# with every seed, which takes a few seconds.

# %%
at_the_end = {}
for factor in (0.01, 0.03, 0.1, 0.3, 1, 3, 10):
    rate = factor * learning_rate
    at_the_end[rate] = [last_epoch(train_with(rate, seed)[0]) for seed in seeds]
    record.add("rate", rate=rate, loss=at_the_end[rate])
axes = {"xlabel": "learning rate", "ylabel": "loss of the last epoch", "logx": True}
plots.lines({"": at_the_end}, title="The loss after training with each rate", **axes, name="rates")

# %% [markdown]
# **Explain.** A point is the median of the seeds, and its line, which is often shorter than the
# point, is the interquartile range. From low to high rates you should see the loss fall, until it
# rises steeply between the last two rates, 0.6 and 2. At 2 the network no longer learns.
#
# In practice one searches for this limit and stays well below it, because it is not the same for
# each seed, network and batch size. If the loss of your own run falls very slowly, the rate is too
# low; if it jumps up and stays near ln 10 (with ten classes), the rate is too high.
#
# If four ranks *add up* their gradients instead of averaging them, their steps are four times as
# long. Is that too long here?
#
# <details><summary>Answer</summary>
#
# Four times 0.2 is 0.8. This is between 0.6 and 2, where the limit should be in your plot, so it
# may work or fail. Lab 30 tries it.
# </details>
#
# ## On a GPU (optional): a workload that fills it (6 minutes)
# The digits' network is so small that a GPU spends most of a step on starting operations. This
# section therefore trains two networks that are large enough, with the `train_step` that you wrote.
# (On a CPU the next cell prints one sentence.)
#
# | network | sample | operations of a step |
# |---|---|---|
# | [ResNet-50](@he2016) | an image of 224 × 224 pixels | 24.3 · 10⁹ per image |
# | [GPT-2](@radford2019), 124 million parameters | a text of 1,024 tokens | 0.85 · 10⁹ per token |
#
# PyTorch counts the operations of the matrix products and convolutions, and a multiply-add counts
# as two. Images and tokens are random numbers that are already on the device, so no step waits for
# a disk (lab 15). On a GPU with bfloat16 these networks compute in this format (lab 14).
#
# How much of the device does a step use? **Model FLOPs utilization** ([MFU](@chowdhery2022))
# compares the operations that the model needs with those that the device could execute in the same
# time:
#
# $$\text{MFU} = \frac{\text{operations of a forward and a backward pass}}
# {\text{seconds of a step} \times \text{operations per second at the device's peak}}$$
#
# The peak is the one that NVIDIA publishes for bfloat16 without sparsity, or a measured one where
# labkit does not know the device.
#
# The parameter `workload` chooses the networks: `"resnet50"`, `"gpt2"`, or `"digits"` for neither.
# `"tiny"` takes two steps with tiny variants on any device, which shows only that the code works.

# %%
for name in workloads.chosen(workload):
    load = workloads.load(name, device)
    optimizer = torch.optim.SGD(load.net.parameters(), lr=0.01)
    step = partial(train_step, load.net, optimizer, load.inputs, load.labels)
    speed = load.speeds({"your step": step})["your step"]
    print(speed)
    record.add("workload", **speed.fields())

# %% [markdown]
# **Explain.** No training run reaches an MFU of 100 %, because some layers wait for memory instead
# of arithmetic, and because the update and the start of each operation take time as well. Here are
# two published numbers to compare with (we did not measure them):
#
# - [NVIDIA's own script](@nvidia_resnet50) trained ResNet-50 with 2,470 images/s on one A100 in 16
#   bits. With the A100's peak of 312 · 10¹², this is 2,470 · 24.3 · 10⁹ / (312 · 10¹²) = 19 %.
# - PaLM, a language model with 540 billion parameters, reached 46 % on 6,144 TPUs. Nearly all
#   operations of a language model are in large matrix products, which usually get closer to the
#   peak than convolutions.
#
# If your MFU is much lower, first look at the size of the work: with a small batch, a GPU waits for
# the next operation, as it does with the digits.
#
# <details><summary>With MNIST or CIFAR-10 instead of the digits</summary>
#
# If you have the files of MNIST or of CIFAR-10, labs 10, 30, 40 and 41 can train on them, with
# `dataset = "mnist:FOLDER"` or `"cifar10:FOLDER"` in the parameter cell, or in a shell with
# `make run LAB=10 SET="dataset=mnist:FOLDER epochs=1 learning_rate=0.05"`. (For CIFAR-10 start with
# a learning rate of 0.01.) The text is about the digits.
# </details>
#
# ### Further reading
# - [@he2015] Why the variance of the initial weights is 2 / inputs where ReLU follows.
# - [@rumelhart1986] The paper that made backpropagation known.
# - [@pytorch] PyTorch's documentation. The tutorial on `torch.autograd` explains what `backward`
#   records.
# - [@paszke2019] How PyTorch works inside, from recording to memory.
# - [@chowdhery2022] Appendix B defines model FLOPs utilization.

# %% [markdown]
# # 11 The same network in TensorFlow
#
# If you port a model from one framework to another, you will want to know whether the new program
# trains as the old one did. A loss that falls is not enough, because a program with a mistake in it
# can have a falling loss, too.
#
# The frameworks also differ in how they run a program. PyTorch runs each operation as soon as
# Python reaches it, while TensorFlow can first make a *graph* of all operations and then run the
# graph without Python.
#
# In this lab we train one network in PyTorch and in TensorFlow and compare the two loss curves step
# by step. We write the training step ourselves, turn it into a graph, and measure when the graph is
# faster. Finally we get the same curve from the training loop of Keras, which is the high-level
# interface of TensorFlow.
#
# **After this lab you can** (1) write a training step with `GradientTape` and get the same curve
# from Keras' `fit`, (2) explain the difference between running operations line by line
# (*define-by-run*) and as a graph (*define-and-run*), (3) predict when `tf.function` runs your
# Python code, and (4) measure how much time a graph saves.
#
# ![Line by line, Python runs before each operation and the arithmetic waits for it. As a graph, Python runs once and the operations follow each other without gaps](11_graph.svg)
#
# *With define-by-run (above), Python launches each operation by itself. With define-and-run
# (below), Python starts a graph that was made before, and the operations then run without Python.*
#
# Needs: tensorflow, torch · Ranks: 1 · Minutes: 60 · Level: intermediate · Before: 01, 10

# %%
import itertools

import numpy as np
from labkit import check, data, hint, lab, nets, placement, plots, predict, record, timing

lab.start("11_same_net_in_tensorflow")
import keras  # after lab.start, which turns off TensorFlow's start-up messages
import tensorflow as tf
import torch

# On a GPU too: all 24 bits of float32.
tf.config.experimental.enable_tensor_float_32_execution(False)
print("TensorFlow uses", "the GPU" if tf.config.list_physical_devices("GPU") else "the CPU")

# %% tags=["parameters"]
batch = 128  # images per step
epochs = 10  # passes over the training images
learning_rate = 0.2  # plain SGD: how far a step goes against the gradient
wide = 4096  # outputs of the two layers of a large net

# %% [markdown]
# ## The reference curve
# The next two cells train the network with PyTorch and the training step of lab 10. Their loss
# curve is the reference that the TensorFlow program has to reproduce.
#
# How closely can two correct programs agree? As a control, PyTorch trains a second time, with the
# same batches but with the rows of each batch in reverse order. Mathematically the mean over a
# batch does not depend on the order of its rows, but the computer adds the numbers in a different
# order and therefore rounds differently.

# %%
digits = data.digits()
orders = []  # of each epoch: the row numbers of its images, batch after batch
steps = []  # of each step: its images and labels
for epoch in range(epochs):
    batches = data.batches(len(digits.train_x), batch, epoch, seed=0)
    orders.append(np.concatenate(batches))
    for rows in batches:
        steps.append((digits.train_x[rows], digits.train_y[rows]))


def torch_losses(steps):
    """The loss of each step, by PyTorch. steps: pairs (images, labels), arrays."""
    net = nets.torch_digits()
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate)
    losses = []
    for images, labels in steps:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.tensor(images)), torch.tensor(labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
torch_curve = torch_losses(steps)
turned = [(images[::-1].copy(), labels[::-1].copy()) for images, labels in steps]
turned_curve = torch_losses(turned)
print(f"PyTorch: {len(steps)} steps, loss {torch_curve[0]:.3f} -> {torch_curve[-1]:.3f}")
print(f"with the rows reversed:  {turned_curve[0]:.3f} -> {turned_curve[-1]:.3f}")

# %% [markdown]
# ## Define-by-run
# In today's TensorFlow, as in PyTorch, an operation runs as soon as Python reaches its line
# (*eager* execution). Because the running program itself defines what is computed, this is called
# **define-by-run**.
#
# In TensorFlow the network is `nets.keras_digits()`, which starts with the same weights as the
# PyTorch network.
#
# ### Predict
# What is the largest relative difference between the losses of the two frameworks, over all steps?
# (A relative difference of 0.01 is one percent.) A float32 number keeps 24 bits, so each rounding
# has a relative error of up to 6e-8. It is enough to guess the power of ten.

# %%
predict("11.1", relative_difference=1e-6)  # a number

# %% [markdown]
# ### Exercise 11.1 · A step with GradientTape
# The two frameworks differ in how they record operations for the backward pass. PyTorch records
# every operation on tensors that require a gradient, while TensorFlow records only what happens
# under a *tape*:
#
#     w = tf.Variable(3.0)
#     with tf.GradientTape() as tape:
#         loss = w * w                        # under the tape: recorded
#     gradients = tape.gradient(loss, [w])    # backward pass: [6.0], one gradient per variable
#
# Write one training step as in lab 10: forward pass, loss, gradients, update. Return the loss from
# before the update. You need these parts:
#
# - `net(images)` returns *logits*, one number of any size for each digit (lab 10).
# - `keras.losses.SparseCategoricalCrossentropy(from_logits=True)` makes the loss function of lab
#   10, the mean cross-entropy of a batch with labels 0 to 9. You then call this function with
#   (labels, outputs). Without `from_logits=True` it would interpret the outputs as probabilities.
# - `net.trainable_variables` is the list of weights.
# - `optimizer.apply_gradients(pairs)` performs the update. It takes (gradient, variable) pairs,
#   such as those that `zip` makes.
#
# A later cell runs this function as a graph, so do not convert a tensor to NumPy or `float`, and do
# not write the number of images into it. 5 or 6 lines. *(beginner)*
#
# <details><summary>Hint 1: what belongs under the tape?</summary>
#
# Only the forward pass and the loss belong under the tape. Below it,
# `tape.gradient(loss, net.trainable_variables)` computes the gradients, and
# `optimizer.apply_gradients` takes (gradient, variable) pairs.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Under the tape, write
# `loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))`. After
# it, call `optimizer.apply_gradients(zip(gradients, net.trainable_variables))`, with the gradients
# first, and return the loss.
# </details>


# %%
def train_step(net, optimizer, images, labels):
    """One step on one batch (arrays or tensors). Returns the loss before the update, a scalar
    tensor."""
    ### BEGIN SOLUTION
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, net(images, training=True))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return loss
    ### END SOLUTION


# %%
check("11.1", train_step)

# %%
net = nets.keras_digits()
optimizer = keras.optimizers.SGD(learning_rate)
eager = [train_step(net, optimizer, images, labels) for images, labels in steps]
tensorflow_off = np.abs(np.array(eager) / torch_curve - 1).max()
turned_off = np.abs(np.array(turned_curve) / torch_curve - 1).max()
predict.compare("11.1", relative_difference=tensorflow_off)
print(f"the control, PyTorch with the rows reversed: {turned_off:.2g}")
plots.loss(
    {"PyTorch": torch_curve, "TensorFlow": eager}, title="One network, two frameworks, one curve"
)

# %% [markdown]
# **Explain.** You should see two differences of about the same size, some 1e-7 to 1e-6. The two
# frameworks add numbers in different orders, and so does PyTorch when the rows are reversed. Each
# rounding has a relative error of at most 6e-8, and the following steps propagate these errors.
#
# Two correct programs agree as closely as this over a hundred steps of a small network (we did not
# measure longer training runs). If two curves from the same weights and data differ by much more,
# look for a mistake, such as a different order of batches, a different learning rate, or logits
# that are interpreted as probabilities.
#
# ## Define-and-run
# The alternative is to make a **graph** of all operations first, and then to run the graph without
# Python, which is called **define-and-run**. [`tf.function(f)`](@tensorflow_function) works in this
# way:
#
# - It runs your Python code once for each *kind* of argument, with symbols in place of numbers
#   (**tracing**), and stores the resulting graph.
# - From then on, a call with arguments of the same kind runs the stored graph. Your Python code
#   does not run again, so a `print` or an `append` in it has no effect.
#
# | argument | its kind |
# |---|---|
# | tensor or NumPy array | its shape and its dtype (the type of its numbers), whatever numbers it contains |
# | Python number | its *value*, so each new value is a new kind |
#
# Here is an example:
#
#     @tf.function
#     def double(x):
#         print("tracing")         # printed once for each kind
#         return 2 * x
#
#     double(tf.constant(1.0))     # prints "tracing"
#     double(tf.constant(2.0))     # prints nothing, because the kind is known
#     double(1.0)                  # prints "tracing"
#     double(2.0)                  # prints "tracing"
#
# ### Predict
# A `tf.function` is called with a tensor of 3 integers, another tensor of 3, a tensor of 5, and
# then the Python numbers 2, 3, 2. How often does its Python code run?

# %%
predict("11.2", traces=4)  # a number

# %%
seen = []


@tf.function
def total(x):
    seen.append(x)  # Python, not TensorFlow: it happens while tracing
    return tf.reduce_sum(x)


for x in (tf.constant([1, 2, 3]), tf.constant([4, 5, 6]), tf.constant([1, 2, 3, 4, 5]), 2, 3, 2):
    total(x)
print("Python ran with:", *seen, sep="\n")
predict.right("11.2", traces=len(seen))

# %% [markdown]
# **Explain.** The list has one line for each run of the Python code. For tensors it contains
# symbols, `Tensor("x:0", shape=(3,), …)`, while for 2 and 3 it contains the numbers themselves.
#
# The code ran 4 times, because the six calls have four kinds of arguments: 3 integers, 5 integers,
# the number 2, and the number 3.
#
# ### Measure: how much does a trace cost?
# The next cell times three calls of `total`: with a Python number that it has already seen, with a
# new Python number in every call, and with a new tensor in every call. (TensorFlow itself warns of
# the new Python numbers, in long lines.)

# %%
fresh = itertools.count(100)  # 100, 101, 102, …
print("the same Python number:  ", timing.measure(lambda: total(3)))
print("a new one in every call: ", timing.measure(lambda: total(next(fresh)), repeat=5, warmup=0))
print("a new tensor each time:  ", timing.measure(lambda: total(tf.constant(next(fresh)))))

# %% [markdown]
# **Explain.** You should see that a new Python number takes many times as long as the other two,
# because each of these calls traces `total` again. A new tensor is of a known kind, so its call
# only runs the stored graph.
#
# Suppose that a colleague's step takes a Python number as its learning rate, and that the rate
# changes in each call. All calls are slow, and the program needs more and more memory. Why?
#
# <details><summary>Answer</summary>
#
# Every new rate is a new kind of argument, so the step is traced again in each call. Every graph is
# also stored, which explains the growing memory (the measurement does not show this). The remedy is
# to pass the rate as a tensor, or to fix the kinds in advance, which is the next exercise.
# </details>
#
# ### Exercise 11.2 · One graph for every batch and every rate
# In lab 41 the learning rate rises over the first steps, and the last batch of an epoch may be
# smaller than the others. A step for such a training run should be traced **once**, whatever the
# number of images and whatever the learning rate.
#
# For this purpose, `input_signature` states the kind of each argument in advance. In this example,
# `make_scale` defines such a `tf.function`, which uses `shift`, and returns it:
#
#     def make_scale(shift):
#         kinds = [tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.float32)]
#
#         @tf.function(input_signature=kinds)
#         def scale(rows, factor):
#             return factor * rows + shift
#
#         return scale
#
# There is one `tf.TensorSpec(shape, dtype)` for each argument:
#
# - `None` in a shape stands for any length, so `rows` can have any number of rows of three values.
# - `[]` is the shape of a single number. If a Python number is passed for `factor`, it becomes a
#   tensor.
#
# Write `make_step(net)` in the same pattern. It defines `step(images, labels, rate)`, a training
# step of `net`, as a `tf.function`, and returns this function:
#
# - The images are float32 of shape (n, 64), the labels are int64 of shape (n,), and the rate is one
#   float32.
# - The loss and the gradients are computed as in 11.1, and the step returns the loss.
# - The update is plain SGD (stochastic gradient descent) by hand, without an optimizer. For this
#   purpose, `variable.assign_sub(change)` subtracts in place.
#
# About 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: where is the function defined?</summary>
#
# Define it inside `make_step`, as `def step(images, labels, rate)` with `@tf.function(…)` above it.
# It uses the `net` that `make_step` received. After the definition, `return step`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The kinds are `tf.TensorSpec([None, 64], tf.float32)`, `tf.TensorSpec([None], tf.int64)` and
# `tf.TensorSpec([], tf.float32)`. Write `@tf.function(input_signature=[…])` with these three above
# an inner `def step(images, labels, rate)`. In the function, the tape, the loss and the gradients
# are as in 11.1, followed by `variable.assign_sub(rate * gradient)` for each variable and its
# gradient. Return `step`.
# </details>


# %%
def make_step(net):
    """A function step(images, labels, rate) -> loss: one SGD step of `net` in a graph that is
    traced once."""
    ### BEGIN SOLUTION
    images_kind = tf.TensorSpec([None, 64], tf.float32)
    labels_kind = tf.TensorSpec([None], tf.int64)

    @tf.function(input_signature=[images_kind, labels_kind, tf.TensorSpec([], tf.float32)])
    def step(images, labels, rate):
        with tf.GradientTape() as tape:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))
        gradients = tape.gradient(loss, net.trainable_variables)
        for variable, gradient in zip(net.trainable_variables, gradients, strict=True):
            variable.assign_sub(rate * gradient)
        return loss

    return step
    ### END SOLUTION


# %%
check("11.2", make_step)

# %% [markdown]
# ### Measure: when is a graph faster?
# Now we compare the step of 11.1 run line by line with the same step as a graph. As a control, we
# do so as well for a large network, which has two layers with 4,096 outputs and a last one with 10.
#
# ### Predict
# We suppose round numbers for a TensorFlow step of the small network (PyTorch's step in lab 10 may
# take less):
#
# | | eager | graph |
# |---|---|---|
# | time in Python | 10 µs for each of about fifty operations | no time at all |
# | time for the arithmetic of all operations | 0.1 ms | 0.1 ms |
#
# Suppose also that Python and the arithmetic do not overlap. How many times as fast as the eager
# step is the step as a graph?

# %%
predict("11.2", eager_over_graph=6)  # a number

# %% [markdown]
# The next cell prints three lines for each network: the time of an eager step, the time of a step
# as a graph, and the ratio of the two. It takes some 15 s.


# %%
def eager_over_graph(net):
    """How many times as long as the graph the step of 11.1 takes line by line, a timing.Ratio."""
    arguments = (net, keras.optimizers.SGD(0.01), *steps[0])
    graph_step = tf.function(train_step)
    return timing.ratio(
        lambda: train_step(*arguments).numpy(), lambda: graph_step(*arguments).numpy(), seconds=6
    )


layers = [keras.layers.Dense(wide, activation="relu"), keras.layers.Dense(wide, activation="relu")]
large_net = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
speed = {
    "small net": eager_over_graph(nets.keras_digits()),
    "large net": eager_over_graph(large_net),
}
for name, measured in speed.items():
    print(f"{name}: eager {measured.a}")
    print(f"{name}: graph {measured.b}")
    print(f"{name}: ratio {measured}")
    device = placement.device_of_tensorflow()
    record.add("eager_over_graph", value=measured.median, batch=batch, net=name, device=device)
predict.compare("11.2", eager_over_graph=speed["small net"])

# %% [markdown]
# **Explain.** A graph saves the time that Python takes in each step. With the numbers supposed
# above, this is 50 · 10 µs = 0.5 ms, so the ratio is (0.5 + 0.1) / 0.1 = 6. With 0.2 ms of
# arithmetic it would be 3.5.
#
# You should see a ratio of several times for the small network, and a ratio near 1 (for example,
# 1.0 to 1.3) for the large one, where the arithmetic takes nearly all of the time.
#
# The ratios depend on the machine:
#
# - A faster processor core shortens Python's part, and more cores shorten the arithmetic.
# - An operation that takes more than 10 µs in Python makes the ratio larger.
# - The overhead of calling a graph, which the prediction leaves out, makes the ratio smaller.
#
# ## The training loop of Keras
# Does `fit` compute what our step computes? It chooses the batches and their order itself, so its
# curve can differ even though nothing is wrong.
#
# ### Exercise 11.3 · The same curve from fit
# [Keras](@keras) has its own training loop, which runs a graph like yours:
#
#     net.compile(optimizer=…, loss=…)            # once
#     history = net.fit(images, labels, epochs=1, verbose=0)
#     history.history["loss"]                     # a list, one loss per epoch
#
# `fit` reports one loss per epoch, the mean of the losses of all its images, each taken before the
# update of its step. Our batches have equal sizes, so it is also the mean over the steps.
#
# Write `fit_losses(net, orders)`, which trains `net` with `fit` on the batches of the reference
# curve, in their order, and returns one loss per epoch:
#
# | | `fit` by default | your `fit_losses` |
# |---|---|---|
# | images in a batch (`batch_size=`) | 32 | `batch` |
# | order of the rows (`shuffle=`) | shuffled | not shuffled |
# | arrays of images and labels | the same in all epochs | in epoch e, the rows in the order `orders[e]`, an array of row numbers |
#
# The argument `orders` may have any number of epochs. The optimizer is plain SGD at
# `learning_rate`. Pass the optimizer and the loss to `compile` as objects, because a name in quotes
# stands for default settings. About 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: how can each epoch have its own order?</summary>
#
# Call `fit` once per epoch, with the rows in the order of that epoch, `batch_size=batch` and
# `shuffle=False`. Pass the optimizer and the loss to `compile` as objects, not by their names.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compile once. For each order, call
# `net.fit(digits.train_x[order], digits.train_y[order], batch_size=batch, shuffle=False, verbose=0)`.
# The object that it returns has `.history["loss"]`, a list with one number.
# </details>


# %%
def fit_losses(net, orders) -> list[float]:
    """Train `net` with compile and fit, one epoch an order. Returns the loss that fit reports, per
    epoch."""
    ### BEGIN SOLUTION
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer=keras.optimizers.SGD(learning_rate), loss=cross_entropy)
    losses = []
    for order in orders:
        images, labels = digits.train_x[order], digits.train_y[order]
        history = net.fit(images, labels, batch_size=batch, shuffle=False, verbose=0)
        losses += history.history["loss"]
    return losses
    ### END SOLUTION


# %%
check("11.3", fit_losses)

# %%
print("PyTorch, mean over each epoch:", np.reshape(torch_curve, (epochs, -1)).mean(axis=1).round(4))
print("Keras, as reported by fit:    ", np.round(fit_losses(nets.keras_digits(), orders), 4))

# %% [markdown]
# **Explain.** You should see the same ten losses twice, apart perhaps from the last digit of a
# number. So `fit` computes what your own step computes, provided that it gets the same batches in
# the same order.
#
# ### What you take away
# * With the same weights, and the same batches in the same order, two frameworks produce the same
#   loss curve, up to rounding in float32.
# * Your Python code runs while a graph is being traced, and not when the graph runs. A new shape or
#   a new Python number causes a new trace, which `input_signature` avoids.
# * A graph saves Python's part of a step, which matters for small steps and hardly for large ones.
# * By default `fit` shuffles, and takes batches of 32.
#
# Lab 12 shows where the time of a step goes, and lab 20 moves on from one process to many.
#
# ## Going further (optional): graphs in other frameworks (5 minutes)
# In Theano, in Caffe, and by default in TensorFlow 1, every program was a graph. Chainer and
# PyTorch made define-by-run common. `tf.function` and PyTorch's `torch.compile` bring the graph
# back, and they make it from ordinary Python code.
#
# | | define-by-run | define-and-run |
# |---|---|---|
# | a `print` in the Python code | takes effect in every step | takes effect only while the graph is made |
# | known before it runs | the next operation | all operations, which can be fused, reordered, placed on devices, and run without Python |
#
# The table describes `tf.function`. At a `print`, `torch.compile` instead ends its graph, runs
# Python, and begins another graph. The optional part of lab 12 measures how much time this compiler
# saves.
#
# The next cell shows how TensorFlow 1 expressed define-and-run. The graph has a *placeholder* x in
# place of a number. Nothing is computed until a *session* runs the graph with a value for x. The
# first printed line is therefore a symbol, and only the second one is a number.

# %%
graph = tf.Graph()
with graph.as_default():  # define: nothing is computed
    x = tf.compat.v1.placeholder(tf.float32, [])
    y = x * x + 1
print(y)
with tf.compat.v1.Session(graph=graph) as session:  # and run
    print("x = 3 gives", session.run(y, {x: 3.0}))

# %% [markdown]
# ### Further reading
# - [@abadi2016] The design of TensorFlow's graphs.
# - [@paszke2019] Why PyTorch runs programs line by line, and what this costs.
# - [@tensorflow_function] The guide to `tf.function`, with its rules for tracing.
# - [@keras] The documentation of `compile` and `fit`.

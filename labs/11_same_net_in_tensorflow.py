# %% [markdown]
# <!-- Generated from solutions/11_same_net_in_tensorflow.py by `make labs`. Learners work on a copy in work/. -->
# # 11 The same net in TensorFlow
#
# One net, two frameworks, the same numbers; and two ways to run a program: line by line, or as a
# graph.
#
# **You will be able to** (1) write a training step with `GradientTape` and get the same curve from
# Keras' `fit`, (2) tell define-by-run from define-and-run, (3) predict when `tf.function` runs your
# Python, (4) measure what a graph buys.
#
# Needs: tensorflow, torch · Ranks: 1 · Minutes: 50 · Level: intermediate · Before: 01, 10

# %%
import itertools
import os
import shutil
from functools import partial

import numpy as np
from labkit import check, data, hint, lab, nets, plots, predict, record, timing

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
compiler = "inductor"  # torch.compile's backend; "aot_eager" makes the graph and compiles nothing
numbers = 1 << 20  # float32 values in the torch.compile example
wide = 4096  # outputs of the two layers of a large net

# %% [markdown]
# First PyTorch's curve, with the training step of [lab 10](10_train_on_one_device.ipynb). It is the one to meet.
#
# And a control: PyTorch beside itself. The same batches, each with its rows in reverse order. The
# mean over a batch is the same number, but the computer adds in another order.

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
print(f"PyTorch: {len(steps)} steps, loss {torch_curve[0]:.6f} -> {torch_curve[-1]:.6f}")
print(f"with the rows turned round:          {turned_curve[0]:.6f} -> {turned_curve[-1]:.6f}")

# %% [markdown]
# ## Define-by-run
# As in PyTorch, an operation of today's TensorFlow runs as soon as Python reaches its line
# (*eager*). PyTorch remembers what it did with every tensor that needs a gradient. TensorFlow
# remembers only what happens under a *tape*:
#
#     w = tf.Variable(3.0)
#     with tf.GradientTape() as tape:
#         loss = w * w                        # under the tape: remembered
#     gradients = tape.gradient(loss, [w])    # walks back: [6.0], one gradient for each variable
#
# The net is `nets.keras_digits()`, with the same starting weights.
#
# ### Predict
# Over all steps, by how much do the losses of the two frameworks differ at most? As a share: 0.01
# is one percent. A float32 keeps 24 bits, so each rounding is off by up to 6e-8 of the number.
# Guess the power of ten.

# %%
predict("11.1", relative_difference=...)  # a number


# %% [markdown]
# ### Exercise 11.1 · A step with GradientTape
# One step, as in [lab 10](10_train_on_one_device.ipynb): forward, loss, gradients, update. The parts:
#
# - `net(images)` gives *logits*, numbers of any size, one for each digit ([lab 10](10_train_on_one_device.ipynb));
# - `keras.losses.SparseCategoricalCrossentropy(from_logits=True)` makes a loss, which is then
#   called with (labels, outputs). Without `from_logits=True` it takes the outputs for
#   probabilities;
# - `net.trainable_variables` is the list of weights;
# - `optimizer.apply_gradients(pairs)` updates. It takes (gradient, variable) pairs, as `zip` makes
#   them.
#
# Return the loss of before the update. 5 or 6 lines. *(beginner)*
#
# <details><summary>Hint 1: what belongs under the tape?</summary>
#
# The forward pass and the loss; all else below it. `tape.gradient(loss, net.trainable_variables)`
# walks back, and `optimizer.apply_gradients` takes (gradient, variable) pairs.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Under the tape:
# `loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))`. Then
# `optimizer.apply_gradients(zip(gradients, net.trainable_variables))`, gradients first. Return the
# loss.
# </details>

# %%
def train_step(net, optimizer, images, labels):
    """One step on one batch (arrays or tensors). Returns the loss before the update, a scalar
    tensor."""
    raise NotImplementedError("exercise 11.1: A step with GradientTape")


# %%
# Asked: You return the loss of each step before its update, the given optimizer
# makes the updates, and the losses are those of PyTorch's curve.
check("11.1", train_step)

# %%
net = nets.keras_digits()
optimizer = keras.optimizers.SGD(learning_rate)
eager = [train_step(net, optimizer, images, labels) for images, labels in steps]
tensorflow_off = np.abs(np.array(eager) / torch_curve - 1).max()
turned_off = np.abs(np.array(turned_curve) / torch_curve - 1).max()
predict.compare("11.1", relative_difference=tensorflow_off)
print(f"the control, PyTorch with the rows turned round: {turned_off:.2g}")
plots.loss(
    {"PyTorch": torch_curve, "TensorFlow": eager}, title="One net, two frameworks, one curve"
)

# %% [markdown]
# **Explain.** You should see two numbers of about the same size, some 1e-7 to 1e-6. The frameworks
# add in another order, and so does PyTorch where the rows are turned round. Each rounding is off by
# 6e-8 at most, and the steps carry it on.
#
# So this is how exact "the same" can be in a hundred steps of a small net. (A longer training may
# differ more: not measured here.) If two curves of the same weights and data differ by much more,
# look for a mistake: another order of batches, another rate, probabilities for logits.
#
# ## Define-and-run
# First make a *graph* of all operations, then run the graph, without Python. `tf.function(f)` does
# so:
#
# - It runs your Python once for each *kind* of argument, with symbols in place of numbers
#   (**tracing**), and keeps the graph.
# - From then on a call runs the graph. `print`, `append`, every line of Python stays silent.
#
# The kind of a tensor is its shape and dtype, whatever numbers it holds. Of Python numbers, *each
# value* is a kind of its own.
#
#     @tf.function
#     def double(x):
#         print("tracing")   # appears once for each kind
#         return 2 * x
#
# ### Predict
# (a) A `tf.function` is called with a tensor of 3 numbers, another tensor of 3, a tensor of 5, then
# the Python numbers 2, 3, 2. How often does its Python run?
#
# (b) Eager, every operation costs Python some 10 µs and more before anything is computed, and a
# training step of this small net has some fifty. Its arithmetic takes 0.1 to 0.3 ms ([lab 10](10_train_on_one_device.ipynb)'s bar).
# How many times as fast is the step as a graph? Estimate.

# %%
predict("11.2", traces=..., eager_over_graph=...)  # two numbers


# %% [markdown]
# ### Exercise 11.2 · One graph for every batch and every rate
# In [lab 41](41_horovod_tensorflow.ipynb) the learning rate rises over the first steps, and a last batch may be smaller. Make a
# step that is traced **once**, whatever the number of images and whatever the rate.
#
# You can fix the kinds once and for all, with a `tf.TensorSpec(shape, dtype)` for each argument.
# `None` in a shape is any length, and `[]` the shape of a single number; a Python number given for
# it becomes a tensor:
#
#     @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.float32)])
#     def scale(rows, factor):
#         return factor * rows
#
# Images are float32 of shape (n, 64), labels int64 of shape (n,), the rate is one float32. Inside,
# plain SGD by hand, no optimizer: `variable.assign_sub(change)` subtracts in place.
# `make_step(net)` defines the step inside of itself, for the net that it is given, and returns it.
# About 10 lines. *(intermediate)*
#
# <details><summary>Hint 1: where does the function stand?</summary>
#
# Inside `make_step`: `def step(images, labels, rate)` with `@tf.function(…)` above it. It uses the
# `net` that `make_step` was given. After it, `return step`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `@tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.float32)])`
# above an inner `def step(images, labels, rate)`. In it tape, loss and gradients as in 11.1, then
# for each variable and its gradient `variable.assign_sub(rate * gradient)`. Return `step`.
# </details>

# %%
def make_step(net):
    """A function step(images, labels, rate) -> loss: one SGD step of `net` in a graph that is
    traced once."""
    raise NotImplementedError("exercise 11.2: One graph for every batch and every rate")


# %%
# Asked: Each call's loss and update is right, at any rate and size, and Python
# runs once for all of them.
check("11.2", make_step)

# %%
seen = []


@tf.function
def total(x):
    seen.append(x)  # Python, not TensorFlow: it happens while tracing
    return tf.reduce_sum(x)


for x in (tf.constant([1, 2, 3]), tf.constant([4, 5, 6]), tf.constant([1, 2, 3, 4, 5]), 2, 3, 2):
    total(x)
traces = len(seen)
print("Python ran with:", *seen, sep="\n")

# %%
fresh = itertools.count(100)  # 100, 101, 102, …
print("the same Python number:  ", timing.measure(lambda: total(3)))
# TensorFlow itself warns of what comes now, in a long line.
print("a new one in every call: ", timing.measure(lambda: total(next(fresh)), repeat=5, warmup=0))
print("a new tensor each time:  ", timing.measure(lambda: total(tf.constant(next(fresh)))))


# %% [markdown]
# ### Measure
# The step of 11.1, line by line and as a graph. And as a control the same with a large net, of two
# layers with 4096 outputs. Some 15 s.

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
    record.add("eager_over_graph", value=measured.median, batch=batch, net=name)
predict.compare("11.2", traces=traces, eager_over_graph=speed["small net"])


# %% [markdown]
# **Explain.** What a graph saves is Python's share of a step. You should see a ratio of several
# times with the small net, and one near 1 (1.1, say) with the large net: there the arithmetic takes
# the time, and Python's part is lost in it.
#
# Look at the list above: symbols, `Tensor("x:0", shape=(3,), …)`, for tensors; the numbers
# themselves for 2 and 3.
#
# A colleague's step takes a Python number for its rate, and the rate changes in each call. All of
# his calls are slow, and memory grows. Why?
#
# <details><summary>Answer</summary>
#
# Every new rate is a new kind: the step is traced again each time. The three lines of times above
# show it with `total`: a new number costs a trace, a new tensor does not. Every graph is kept, too:
# that is the memory, which these lines do not show. Give the rate as a tensor, or fix the kinds by
# `input_signature`.
# </details>
#
# ## Graphs elsewhere
# TensorFlow 1 (by default), Theano and Caffe knew graphs only. Chainer and PyTorch made
# define-by-run the habit; `tf.function` and `torch.compile` bring the graph back, traced from
# ordinary Python.
#
# | | define-by-run | define-and-run |
# |---|---|---|
# | a `print` | in every step | in `tf.function`, while the graph is made |
# | known before it runs | the next operation | the whole: fuse, reorder, place, run without Python |
#
# (An `if` on a tensor's value is harder: `tf.function` puts both branches into the graph, and
# `torch.compile` ends its graph there, runs Python, and begins another. So it does at a `print`.)
#
# ### Exercise 11.3 · The same curve from fit
# Keras has its own loop, which runs a graph like yours:
#
#     net.compile(optimizer=…, loss=…)            # once
#     history = net.fit(images, labels, epochs=1, verbose=0)
#     history.history["loss"]                     # a list, one loss an epoch
#
# It reports one loss an epoch: the mean over its steps, each taken before its update.
#
# Unless told otherwise, `fit` takes batches of 32 (`batch_size=`), shuffles the rows (`shuffle=`),
# and uses the same arrays in all epochs. Train with the images in the order `orders[0]`,
# `orders[1]`, … (row numbers of one epoch each), in batches of `batch`, and see that `fit` changes
# neither. The optimizer is plain SGD with `learning_rate`. About 8 lines. *(intermediate)*
#
# <details><summary>Hint 1: how can each epoch have an order of its own?</summary>
#
# Call `fit` once an epoch, with the rows in that order, `batch_size=batch` and `shuffle=False`.
# `compile` takes the optimizer and the loss as objects; their names in quotes take default values.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compile once. For each order
# `net.fit(digits.train_x[order], digits.train_y[order], batch_size=batch, shuffle=False, verbose=0)`;
# what it returns has `.history["loss"]`, a list with one number.
# </details>

# %%
def fit_losses(net, orders) -> list[float]:
    """Train `net` with compile and fit, one epoch an order. Returns the loss that fit reports, per
    epoch."""
    raise NotImplementedError("exercise 11.3: The same curve from fit")


# %%
# Asked: The losses are PyTorch's, the mean over each epoch, from as many steps,
# made by fit.
check("11.3", fit_losses)

# %%
print("PyTorch, mean over each epoch:", np.reshape(torch_curve, (epochs, -1)).mean(axis=1).round(4))
print("Keras, as reported by fit:    ", np.round(fit_losses(nets.keras_digits(), orders), 4))


# %% [markdown]
# ## For those who have time: more graphs
# Three short parts, some 15 minutes more, not counted above.
#
# ### Measure: what a compiler makes of a graph
# A chain of eighteen operations, line by line: eighteen times PyTorch reads a vector from memory
# and writes one. `torch.compile` makes a graph of it. Its *backend* decides what becomes of the
# graph:
#
# - `inductor` writes one C++ loop for all eighteen operations;
# - `aot_eager`, the control, runs the graph's operations one by one, as before.
#
# The first call compiles: up to half a minute on a busy machine.

# %%
def chain(x):
    for _ in range(6):
        x = torch.sin(x) * 0.9 + 0.1  # three operations, each a pass over memory
    return x


# %%
# `torch.compile(chain, backend=…)`, its first call, and then both in
# turns.
# No worker processes for one small function.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
backends = ["aot_eager"]
if compiler == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
    print(
        "torch.compile's inductor writes C++, and this machine has no compiler: a graph, but no"
        " speed."
    )
elif compiler != "aot_eager":
    backends.append(compiler)
values = torch.linspace(0, 1, numbers)
for backend in backends:
    compiled = torch.compile(chain, backend=backend)
    first = timing.measure(partial(compiled, values), repeat=1, warmup=0)
    print(f"{backend}: first call {first.median:.1f} s")
    gain = timing.ratio(partial(chain, values), partial(compiled, values), seconds=3)
    print(f"{backend}: line by line / compiled: {gain}")

# %% [markdown]
# **Explain.** You should see the control near 1: on long vectors a graph alone saves nothing. With
# `inductor` the chain is several times as fast: eighteen passes over memory have become one. (How
# much of the gain is memory, and how much a faster sine in the compiler's code, this does not
# tell.) That is another saving than TensorFlow's above: work, not Python.
#
# The price is the first call. You may see a short one, when you run the notebook again: inductor
# keeps what it has compiled on disk.
#
# ### A session
# Define-and-run as TensorFlow 1 had it: nothing is computed until a
# *session* runs the graph, with a value for its *placeholder* x.

# %%
graph = tf.Graph()
with graph.as_default():  # define: nothing is computed
    x = tf.compat.v1.placeholder(tf.float32, [])
    y = x * x + 1
print(y)
with tf.compat.v1.Session(graph=graph) as session:  # and run
    print("x = 3 gives", session.run(y, {x: 3.0}))

# %% [markdown]
# ### How many graphs?
# How many graphs does `torch.compile` make for vectors of 10, 10, 20, 30 and 40 numbers? Guess
# before you run the cell.

# %%
# How often is a graph made? A backend of our own, which counts, and runs the graph as it is.
graphs = []


def count_graphs(graph, examples):
    graphs.append(graph)
    return graph.forward


def line(x):
    return 2 * x + 1


counted = torch.compile(line, backend=count_graphs)
for length in (10, 10, 20, 30, 40):
    counted(torch.zeros(length))
    print(f"after a vector of {length}: {len(graphs)} graphs")

# %% [markdown]
# **Explain.** Two. The second length costs a second graph. Then PyTorch has understood that lengths
# vary, and has made a graph for any: no more are needed.

# %% [markdown]
# ### What you take away
# * Same weights, same batches in the same order: the same curve, to the last bits of float32.
# * Python runs while tracing. New shape, new Python number: new trace. `input_signature` avoids it.
# * A graph saves Python on small steps. A compiler (see *For those who have time*) makes one loop
#   of a long chain, for the price of first calls.
# * `fit` shuffles, in batches of 32, unless told otherwise.
#
# Next: where the time of a step goes (12), and many processes instead of one (20).

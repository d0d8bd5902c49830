# %% [markdown]
# # 11 The same net in TensorFlow
#
# One net, two frameworks, the same numbers; and two ways to run a program: line by line, or as a graph.
#
# **You will be able to** (1) write a training step with `GradientTape` and get the same curve from Keras'
# `fit`, (2) tell define-by-run from define-and-run, (3) predict when `tf.function` runs your Python, (4)
# measure what a graph buys, in TensorFlow and with `torch.compile`.
#
# Needs: tensorflow, torch · Ranks: 1 · Minutes: 40 · Before: 10

# %%
import os
import shutil

import numpy as np
from labkit import check, data, expect, hint, lab, nets, plots, predict, record, timing

lab.start("11_same_net_in_tensorflow")
import keras  # after lab.start, which turns off TensorFlow's start-up messages
import tensorflow as tf
import torch

tf.config.experimental.enable_tensor_float_32_execution(False)  # on a GPU too: all 24 bits of float32
print("TensorFlow uses", "the GPU" if tf.config.list_physical_devices("GPU") else "the CPU")

# %% tags=["parameters"]
batch = 128  # images per step
epochs = 10  # passes over the training images
learning_rate = 0.2  # plain SGD: how far a step goes against the gradient
compiler = "inductor"  # torch.compile's backend; "aot_eager" makes the graph and compiles nothing
numbers = 1 << 20  # float32 values in the torch.compile example

# %% [markdown]
# First PyTorch's curve, with the training step of lab 10. It is the one to meet.

# %%
digits = data.digits()
orders = [np.concatenate(data.batches(len(digits.train_x), batch, epoch, seed=0)) for epoch in range(epochs)]
steps = [(digits.train_x[rows], digits.train_y[rows]) for rows in np.reshape(orders, (-1, batch))]

twin = nets.torch_digits()
optimizer = torch.optim.SGD(twin.parameters(), lr=learning_rate)
torch_curve = []
for images, labels in steps:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(twin(torch.tensor(images)), torch.tensor(labels))
    loss.backward()
    optimizer.step()
    torch_curve.append(loss.item())
print(f"PyTorch: {len(steps)} steps, loss {torch_curve[0]:.6f} -> {torch_curve[-1]:.6f}")

# %% [markdown]
# ## Define-by-run
# As in PyTorch, an operation of today's TensorFlow runs as soon as Python reaches its line (*eager*). What
# you want to differentiate, you put under a tape: `with tf.GradientTape() as tape:`. The net is
# `models.keras_digits()`, with the same starting weights.
#
# ### Predict
# After all steps, by how much do the losses of the two frameworks differ? As a share: 0.01 is one percent.

# %%
predict("11.1", relative_difference=1e-6)  # a number

# %% [markdown]
# ### Exercise 11.1 · A step with GradientTape
# The loss is `keras.losses.SparseCategoricalCrossentropy`, which is called with (labels, outputs). Mind that
# the net gives logits, and that Keras' losses expect probabilities unless told otherwise.
#
# <details><summary>Hint 1: what belongs under the tape?</summary>
#
# The forward pass and the loss; all else below it. `tape.gradient(loss, net.trainable_variables)` walks back,
# and `optimizer.apply_gradients` takes (gradient, variable) pairs.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Under the tape: `loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))`.
# Then `optimizer.apply_gradients(zip(gradients, net.trainable_variables))`, gradients first. Return the loss.
# </details>


# %%
def train_step(net, optimizer, images, labels):
    """One step on one batch (arrays or tensors). Returns the loss before the update, a scalar tensor."""
    ### BEGIN SOLUTION
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, net(images, training=True))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return loss
    ### END SOLUTION


# %%
with check("11.1"):
    net, optimizer = nets.keras_digits(), keras.optimizers.SGD(learning_rate)
    unsaid = keras.losses.SparseCategoricalCrossentropy()(steps[0][1], net(steps[0][0]))
    eager = [train_step(net, optimizer, *one) for one in steps]
    expect(tf.is_tensor(eager[0]) and eager[0].ndim == 0, "Return the loss, one tensor without axes.")
    expect(not np.isclose(eager[0], unsaid), "The loss took logits for probabilities: from_logits=True.")
    expect(not np.isclose(eager[0], batch * torch_curve[0]), "This is the sum over the images, not the mean.")
    expect.close(eager[0], torch_curve[0], "the loss of step 1, before its update")
    moved = np.any(net.get_weights()[0] != nets.start_weights()[0])
    expect(moved, "The weights do not move: apply the gradients to net.trainable_variables.")
    expect.close(eager[:12], torch_curve[:12], "the losses of 12 steps, beside PyTorch's", rtol=5e-6)
    expect.close(eager, torch_curve, "the losses of all steps, beside PyTorch's", rtol=1e-5)

# %%
predict.compare("11.1", relative_difference=np.abs(np.array(eager) / torch_curve - 1).max())
plots.loss({"PyTorch": torch_curve, "TensorFlow": eager}, title="One net, two frameworks")

# %% [markdown]
# **Explain.** float32 keeps 24 bits: steps of 6e-8. The frameworks add in another order, so the last bits
# differ. If two curves of the same weights and data differ by more, look for a mistake.
#
# ## Define-and-run
# First make a graph of all operations, then run the graph, without Python. `tf.function(f)` runs your Python
# once per *kind* of argument, with symbols in place of numbers (**tracing**), and keeps the graph; from then
# on `print`, `append`, every line of Python stays silent. The kind of a tensor is its shape and dtype. Of
# Python numbers, *each value* is a kind of its own.
#
# ### Predict
# A `tf.function` is called with a tensor of 3 numbers, another tensor of 3, a tensor of 5, then the Python
# numbers 2, 3, 2. How often does its Python run? And how many times faster is a training step as a graph?

# %%
predict("11.2", traces=4, eager_over_graph=10)  # two numbers

# %% [markdown]
# ### Exercise 11.2 · One graph for every batch and every rate
# In lab 41 the learning rate rises over the first steps, and a last batch may be smaller. Make a step that is
# traced **once**, whatever the number of images and whatever the rate. Plain SGD by hand, no optimizer:
# `variable.assign_sub(…)` subtracts in place.
#
# <details><summary>Hint 1: how do I say "any number of images"?</summary>
#
# `tf.function(input_signature=[…])` fixes the kinds once: one `tf.TensorSpec(shape, dtype)` an argument.
# `None` in a shape is any length; `[]` is a scalar tensor, and a Python number given for it becomes one.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `@tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int64),
# tf.TensorSpec([], tf.float32)])` above an inner `def step(images, labels, rate)`. In it tape, loss and
# gradients as in 11.1, then for each variable and its gradient `variable.assign_sub(rate * gradient)`. Return
# `step`.
# </details>


# %%
def make_step(net):
    """A function step(images, labels, rate) -> loss: one SGD step of `net` in a graph that is traced once."""
    ### BEGIN SOLUTION
    images_kind, labels_kind = tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int64)

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
with check("11.2"):
    net, twin, traced = nets.keras_digits(), nets.keras_digits(), []
    forward, step = net.call, make_step(net)
    net.call = lambda *inputs, **more: traced.append(call) or forward(*inputs, **more)  # note each run
    calls = [(128, 0.2), (128, 0.1), (128, 0.05), (37, 0.05), (1, 0.2), (128, 0.2)]
    for call, (size, rate) in enumerate(calls, 1):
        images, labels = digits.train_x[:size], digits.train_y[:size]
        got, want = step(images, labels, rate), train_step(twin, keras.optimizers.SGD(rate), images, labels)
        expect.close(got, want, f"loss of call {call} (is the rate of the call before in the graph?)")
    expect(traced, "The net was never called: step works with the net that make_step is given.")
    expect(len(traced) < 6, "Python ran in each of 6 calls: step must be one tf.function, made once.")
    expect(len(traced) == 1, f"Traced in calls {traced}; 2 and 3 bring a new rate, 4 and 5 a new size.")

# %%
seen = []


@tf.function
def total(x):
    seen.append(x)  # Python, not TensorFlow: it happens while tracing
    return tf.reduce_sum(x)


for x in (tf.constant([1, 2, 3]), tf.constant([4, 5, 6]), tf.constant([1, 2, 3, 4, 5]), 2, 3, 2):
    total(x)
print(*seen, sep="\n")
graph_step, one = tf.function(train_step), (nets.keras_digits(), keras.optimizers.SGD(0.2), *steps[0])
speed = timing.ratio(lambda: train_step(*one).numpy(), lambda: graph_step(*one).numpy())
print(f"eager {speed.a}\ngraph {speed.b}\nratio {speed}")
record.add("eager_over_graph", value=speed.median, batch=batch)
predict.compare("11.2", traces=len(seen), eager_over_graph=speed)

# %% [markdown]
# **Explain.** The ratio is Python's share of a step: large here, since the net is small; near 1 for big
# layers.
#
# ## Graphs elsewhere
# TensorFlow 1, Theano and Caffe knew graphs only. Chainer and PyTorch made define-by-run the habit;
# `tf.function` and `torch.compile` bring the graph back, traced from ordinary Python.
#
# | | define-by-run | define-and-run |
# |---|---|---|
# | Python's `print`, `if`, debugger | in every step | while the graph is made |
# | known before it runs | the next operation | the whole: fuse, reorder, place, run without Python |

# %%
graph = tf.Graph()
with graph.as_default():  # define: nothing is computed
    x = tf.constant(0.0)
    y = x * x + 1
print(y)
with tf.compat.v1.Session(graph=graph) as session:  # and run, with another value for x
    print("x = 3 gives", session.run(y, {x: 3.0}))


def chain(x):
    for _ in range(6):
        x = torch.sin(x) * 0.9 + 0.1  # line by line: eighteen passes over memory
    return x


os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no worker processes for one small function
if compiler == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
    print("torch.compile's inductor writes C++, and this machine has no compiler: a graph, but no speed.")
    compiler = "aot_eager"
compiled, values = torch.compile(chain, backend=compiler), torch.linspace(0, 1, numbers)
first = timing.measure(lambda: compiled(values), repeat=1, warmup=0)
speed = timing.ratio(lambda: chain(values), lambda: compiled(values), seconds=3)
print(f"torch.compile ({compiler}): first call {first.median:.1f} s, then line by line / compiled: {speed}")

# %% [markdown]
# **Explain.** Eighteen passes over memory become one: this graph saves work, not only Python. The price is
# the first call, and another one for every new shape.
#
# ### Exercise 11.3 · The same curve from fit
# Keras has its own loop, `compile` and `fit`, which runs a graph like yours. It reports one loss an epoch:
# the mean over its steps, each taken before its update. Train with the images in the order `orders[0]`,
# `orders[1]`, … (row numbers of one epoch each), and see that `fit` changes neither the order nor the
# batches.
#
# <details><summary>Hint 1: what does fit do unless told otherwise?</summary>
#
# Batches of 32, shuffled, and the same array in all epochs. So call `fit` once an epoch, with `batch_size`
# and `shuffle`. `compile` takes the optimizer and the loss as objects; their names in quotes take default
# values.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compile once. For each order `net.fit(digits.train_x[order], digits.train_y[order], batch_size=batch,
# shuffle=False, verbose=0)`; what it returns has `.history["loss"]`, a list with one number.
# </details>


# %%
def fit_losses(net, orders) -> list[float]:
    """Train `net` with compile and fit, one epoch an order. Returns the loss that fit reports, per epoch."""
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
with check("11.3"):
    net = nets.keras_digits()
    got, want = fit_losses(net, orders), np.reshape(torch_curve, (epochs, -1)).mean(axis=1)
    expect(np.shape(got) == (epochs,), f"One number for each epoch, please: {epochs}, not {np.shape(got)}.")
    done, off = int(net.optimizer.iterations), abs(got[0] / want[0] - 1)
    expect(done in (len(steps) // epochs, len(steps)), f"fit made {done} steps: which batch_size?")
    expect(off < 0.05, f"Epoch 1: {got[0]:.4f}, not {want[0]:.4f}. Another loss (logits?), rate or label.")
    expect.close(got[0], want[0], "the loss of epoch 1 (does fit shuffle your order?)", rtol=1e-5)
    expect.close(got, want, "the losses of all epochs (each in its own order?)", rtol=1e-5)
print("PyTorch, mean over each epoch:", want.round(4))
print("Keras, as reported by fit:    ", np.round(got, 4))

# %% [markdown]
# ### What you take away
# * Same weights, same batches in the same order: the same curve, to the last bits of float32.
# * Python runs while tracing. New shape, new Python number: new trace. `input_signature` avoids it.
# * A graph saves Python on small steps and memory traffic on long chains, for the price of the first call.
# * `fit` shuffles, in batches of 32, unless told otherwise.
#
# Next: where the time of a step goes (12), and many processes instead of one (20).

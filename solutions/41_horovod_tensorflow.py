# %% [markdown]
# # 41 Horovod in TensorFlow
#
# The additions of lab 40, twice more: in a training loop of your own, and in Keras' `fit`.
#
# **You will be able to** (1) run a `GradientTape` loop and a Keras `fit` on any number of ranks, (2) say what
# Horovod's callback makes equal, and when, (3) save once and resume everywhere.
#
# Needs: horovod, tensorflow · Ranks: 4 · Minutes: 45 · Before: 11, 40

# %%
import os

import numpy as np
from labkit import check, data, expect, hint, home, lab, launch, nets, plots, record

lab.start("41_horovod_tensorflow")
os.environ |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "NVIDIA_TF32_OVERRIDE": "0"}  # share GPUs; whole float32
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import keras
import tensorflow as tf

ranks = launch.ranks_here(4)
few = launch.ranks_here(2)  # for the checks: importing TensorFlow is slow

# %% tags=["parameters"]
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those 32 images
epochs = 10  # passes over the training images
patience = 90  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ## What there is: one process
# The training step of lab 11. (The notebook itself runs no TensorFlow: all GPUs are for the ranks.)

# %%
digits = data.digits()
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
checkpoint = home() / "checkpoints" / "digits.keras"
checkpoint.parent.mkdir(exist_ok=True)


def make_step(net, optimizer, wrap=lambda tape: tape):
    """A function step(images, labels) -> loss: one update of net by the gradients of wrap(tape)."""

    @tf.function(autograph=False)  # no Python `if` or `for` in it needs translation; errors stay short
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, net(images, training=True))
        gradients = wrap(tape).gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    return step


# %% [markdown]
# ### Exercise 41.1 · Begin: your GPU, your images
# Make this rank's GPU visible with `tf.config.set_visible_devices(gpu, "GPU")`, and TensorFlow never touches
# the others. A `tf.data.Dataset` splits itself: `dataset.shard(n, i)` keeps every n-th element from the i-th
# on, `.batch(k)` groups them by k. 3 + 1 lines.
#
# <details><summary>Hint 1: which numbers?</summary>
#
# GPUs are counted on each node: `hvd.local_rank()`. Images are for all ranks: `hvd.size()`, `hvd.rank()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.init()`, then `if gpus:` and `gpus[hvd.local_rank() % len(gpus)]` for the device. The images:
# `return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)`.
# </details>


# %%
def begin(gpus):
    """Start Horovod and show TensorFlow this rank's GPU only. gpus: the devices of this node, maybe none."""
    ### BEGIN SOLUTION
    # Across ranks: find the others, then take the GPU that is ours on this node.
    hvd.init()
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
    ### END SOLUTION


def my_part(dataset):
    """This rank's elements of a tf.data.Dataset that is the same on all ranks, in batches."""
    ### BEGIN SOLUTION
    # Across ranks: every rank takes other images of the same global batch.
    return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)
    ### END SOLUTION


# %%
def try_begin():
    begin(tf.config.list_physical_devices("GPU"))
    expect(hvd.is_initialized(), "Horovod was not started: hvd.init() comes before anything else of hvd.")
    taken = []
    set_visible_devices, local_rank = tf.config.set_visible_devices, hvd.local_rank
    tf.config.set_visible_devices = lambda devices, kind=None: taken.extend(np.ravel(devices).tolist())
    hvd.local_rank = lambda: (hvd.rank() + 1) % 2  # as on a node that counts its ranks in another order
    begin(["GPU 0", "GPU 1"])
    expect.equal(taken, [f"GPU {hvd.local_rank()}"], "GPU taken, where the local rank is the one expected")
    tf.config.set_visible_devices, hvd.local_rank = set_visible_devices, local_rank
    part = my_part(tf.data.Dataset.range(2 * images_per_rank * hvd.size()))
    return [batch.numpy().tolist() for batch in part]


with check("41.1"):
    parts = launch.run(try_begin, ranks=few, timeout=patience)
    first = [image for part in parts for image in part[0]]
    expect(len(first) == len(set(first)), "Some ranks take the same samples of a global batch.")
    sizes = [[len(batch) for batch in part] for part in parts]
    expect.equal(sizes, [[images_per_rank] * 2] * few, "images in each batch, by rank, of 2 global batches")

# %% [markdown]
# ### Exercise 41.2 · Start equal, step together
# `hvd.broadcast_variables(variables, root_rank=0)` overwrites variables with rank 0's: the net's, and the
# optimizer's. But a Keras optimizer makes its momentum in its first step, unless told to `build`. If rank 0
# resumed from a file, it has some; the others have none, and would never take what it sends. 3 + 4 lines.
#
# Then the loop. `hvd.DistributedGradientTape(tape)` is a tape whose `gradient` waits for the **mean over all
# ranks**; `make_step` can `wrap` its tape in it. The learning rate belongs to the *global* batch, so it grows
# with the ranks. And a rank knows the loss of its own images only: `hvd.allreduce` averages a tensor.
#
# <details><summary>Hint 1: when is an optimizer complete?</summary>
#
# After `optimizer.build(net.trainable_variables)`, which does nothing to one that is built already. Then all
# ranks call `broadcast_variables` for `net.variables`, and again for `optimizer.variables`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `make_step(net, keras.optimizers.SGD(rate_per_rank * hvd.size()), hvd.DistributedGradientTape)`. Collect
# `float(step(images, labels))` for all of `part`; return `hvd.allreduce(tf.constant(losses)).numpy()`.
# </details>


# %%
def begin_equal(net, optimizer):
    """Give every rank the variables of rank 0: of the net, and of the optimizer with its momentum."""
    ### BEGIN SOLUTION
    optimizer.build(net.trainable_variables)
    # Across ranks: rank 0 sends what it has, the others overwrite what they had.
    hvd.broadcast_variables(net.variables, root_rank=0)
    hvd.broadcast_variables(optimizer.variables, root_rank=0)
    ### END SOLUTION


def by_tape(net, part):
    """Train by plain SGD on this rank's batches. Returns the loss of each step, the mean over all ranks."""
    ### BEGIN SOLUTION
    # Across ranks: the rate grows with them, and each step waits for the mean of each gradient.
    step = make_step(net, keras.optimizers.SGD(rate_per_rank * hvd.size()), hvd.DistributedGradientTape)
    losses = [float(step(images, labels)) for images, labels in part]
    # Across ranks: one message averages all losses of the run.
    return hvd.allreduce(tf.constant(losses), name="losses").numpy()
    ### END SOLUTION


# %%
def expect_as_one_process(train):
    """Two steps of train(net, part) on all ranks, and of one process on all images: the same."""
    batch = images_per_rank * hvd.size()
    dataset = tf.data.Dataset.from_tensor_slices(tuple(part[: 2 * batch] for part in digits[:2]))
    twin = nets.keras_digits()
    step = make_step(twin, keras.optimizers.SGD(rate_per_rank * hvd.size()))
    losses = [float(step(images, labels)) for images, labels in dataset.batch(batch)]
    net = nets.keras_digits()
    reported = train(net, my_part(dataset))
    biases, alone = net.get_weights()[-1], twin.get_weights()[-1]
    of_all = hvd.allgather_object(biases)
    expect(np.ptp(of_all, axis=0).max() < 1e-6, "Each rank applied its own gradient: nothing is averaged.")
    far = np.linalg.norm(biases) / np.linalg.norm(alone)
    why = "were gradients summed, not averaged?" if far > 1 else "is this the learning rate of one rank?"
    expect(0.8 < far < 1.25, f"The net moved {far:.1f} times as far as in one process: {why}")
    expect.close(biases, alone, "The last biases after two steps, beside one process", 1e-4, 1e-6)
    expect.close(np.mean(reported), np.mean(losses), "Reported loss (is it the mean over all ranks?)")


# %%
def expect_one_plan(net, optimizer):
    """First see who would send what: with different plans, the ranks would wait for ever."""
    plan = []

    def note(variables, *positional, **named):
        plan.append(len(list(variables)))

    broadcast = hvd.broadcast_variables
    hvd.broadcast_variables = note
    begin_equal(net, optimizer)
    hvd.broadcast_variables = broadcast
    plans = hvd.allgather_object(plan)
    expect(plans == plans[:1] * hvd.size(), f"Ranks would wait for ever. Variables they send: {plans}.")


def try_tape():
    begin(tf.config.list_physical_devices("GPU"))  # rank 0 has momentum; the others another net and rate
    net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))
    optimizer = keras.optimizers.SGD(1.0 + hvd.rank(), momentum=0.9)
    if hvd.rank() == 0:
        ones = [tf.ones(variable.shape) for variable in net.trainable_variables]
        optimizer.apply(ones, net.trainable_variables)
    expect_one_plan(net, optimizer)
    begin_equal(net, optimizer)
    expect_as_one_process(by_tape)
    return net.get_weights()[0].sum(), optimizer.variables[-1].numpy().sum(), float(optimizer.learning_rate)


# %%
with check("41.2"):
    weights, moments, rates = zip(*launch.run(try_tape, ranks=few, timeout=patience), strict=True)
    expect.close(weights, weights[:1] * few, "Sum of the weights by rank (equal to rank 0's)")
    expect.close(moments, [-10.0] * few, "Sum of the momentum by rank, in the optimizer's variables")
    expect.close(rates, [1.0] * few, "Learning rate by rank, in the optimizer's variables (rank 0's is 1)")

# %% [markdown]
# ### Exercise 41.3 · The same in fit, saved once
# `fit` hides the loop, so the additions go into what it is given: the optimizer goes through
# `hvd_keras.DistributedOptimizer(optimizer)`, which applies mean gradients; of `hvd_keras.callbacks`,
# `BroadcastGlobalVariablesCallback(root_rank)` makes ranks equal, `MetricAverageCallback()` averages losses.
#
# `net.save(path)` writes net, optimizer and loss to a file, which two ranks at once would spoil. All read it,
# with `hvd_keras.load_model(path)`. In the file, which a machine without Horovod can read too, the optimizer
# is a plain one; Keras' own `load_model` would leave it so. 4 + 2 + 1 lines.
#
# <details><summary>Hint 1: what goes where?</summary>
#
# Wrap the optimizer, not the net: `net.compile(optimizer=…, loss=cross_entropy)`. Callbacks are a list for
# `net.fit`, after its `settings`. `if hvd.rank() == 0:` stands before the saving, not before the reading.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compile with `hvd_keras.DistributedOptimizer(keras.optimizers.SGD(rate_per_rank * hvd.size()))`; return
# `net.fit(**settings, callbacks=[…, …, *more]).history`, both names after `hvd_keras.callbacks.`.
# </details>


# %%
def fit(net, *more, **settings):
    """Compile net, then fit it by plain SGD on all ranks. more: further callbacks. Returns fit's history."""
    ### BEGIN SOLUTION
    # Across ranks: the rate grows with them, and the optimizer applies the mean of each gradient.
    optimizer = hvd_keras.DistributedOptimizer(keras.optimizers.SGD(rate_per_rank * hvd.size()))
    net.compile(optimizer=optimizer, loss=cross_entropy)
    # Across ranks: both callbacks wait for the others, so every rank needs both.
    make = hvd_keras.callbacks
    both = [make.BroadcastGlobalVariablesCallback(0), make.MetricAverageCallback()]
    return net.fit(**settings, callbacks=[*both, *more]).history
    ### END SOLUTION


# %%
def save(net, path):
    """Write the compiled net with its optimizer to path: once for all ranks."""
    ### BEGIN SOLUTION
    # Across ranks: all hold the same, so one writes.
    if hvd.rank() == 0:
        net.save(path)
    ### END SOLUTION


def resume(path):
    """Returns the net that `save` wrote, ready to train on with all ranks."""
    ### BEGIN SOLUTION
    # Across ranks: every rank reads, and its optimizer is a distributed one again.
    return hvd_keras.load_model(path)
    ### END SOLUTION


# %%
def try_fit():
    begin(tf.config.list_physical_devices("GPU"))
    expect_as_one_process(lambda net, part: fit(net, x=part, shuffle=False, verbose=0)["loss"])
    settings = {"x": digits.train_x[hvd.rank() :: 20], "y": digits.train_y[hvd.rank() :: 20], "verbose": 0}
    net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))  # once more, from unequal nets
    fit(net, **settings)
    own = checkpoint.with_name(f"try{hvd.rank()}.keras")  # a file name for each rank: that shows who writes
    own.unlink(missing_ok=True)
    save(net, own)
    # Across ranks: this also waits until the file is there.
    wrote = [rank for rank, exists in enumerate(hvd.allgather_object(own.exists())) if exists]
    expect.equal(wrote, [0], "Ranks that wrote the checkpoint (all hold the same: rank 0 is enough)")
    again = resume(own.with_name("try0.keras"))
    expect(again.optimizer, "The net came back without its optimizer: it cannot train on.")
    done = int(again.optimizer.iterations)
    again.fit(**settings)
    return net.get_weights()[0], done - int(net.optimizer.iterations), again.get_weights()[0]


# %%
with check("41.3"):
    fitted, lost, resumed = zip(*launch.run(try_fit, ranks=few, timeout=patience), strict=True)
    expect(np.ptp(fitted, axis=0).max() < 1e-6, "Unequal nets stay unequal: which callback sends rank 0's?")
    away = [float(np.abs(fitted[0] - nets.start_weights(seed)[0]).sum()) for seed in range(few)]
    expect.equal(away.index(min(away)), 0, "the rank whose net all ranks go on with")
    expect.equal(lost, (0,) * few, "steps that the optimizer has forgotten after resume, by rank")
    expect(np.ptp(resumed, axis=0).max() < 1e-6, "Unequal nets after resume: its optimizer averages nothing")

# %% [markdown]
# ## Put together
# One process, the tape, and fit three times, from nets that differ by rank. The callback sends rank 0's
# variables only *after* the first batch, when the optimizer has them all; but that batch has averaged
# gradients of different nets. `begin_equal` avoids it. Where a large rate throws new weights far off,
# `LearningRateWarmupCallback` raises it, step by step, from that of one rank to that of all (lab 34).


# %%
def train():
    """Losses of one process and of the tape by step, histories of fit, largest difference of a weight."""
    # Across ranks: find the others, own device, the global batch and its rate.
    begin(tf.config.list_physical_devices("GPU"))
    batch, rate = images_per_rank * hvd.size(), rate_per_rank * hvd.size()
    rows = np.ravel([data.batches(len(digits.train_x), batch, epoch, seed=0) for epoch in range(epochs)])
    dataset = tf.data.Dataset.from_tensor_slices((digits.train_x[rows], digits.train_y[rows]))
    step = make_step(nets.keras_digits(), keras.optimizers.SGD(rate))
    alone = [float(step(images, labels)) for images, labels in dataset.batch(batch)]
    # Across ranks: nets of their own, which begin_equal must repair; the last one goes without.
    first, second, third, unequal = (nets.keras_digits(nets.start_weights(seed=hvd.rank())) for _ in range(4))
    for net in (first, second, third):
        begin_equal(net, keras.optimizers.SGD())
    tape = by_tape(first, my_part(dataset))
    # Across ranks: with verbose=2, rank 0 alone should show its progress.
    settings = {"x": my_part(dataset), "epochs": epochs, "steps_per_epoch": len(alone) // epochs}
    settings |= {"shuffle": False, "verbose": 0}
    plain = fit(second, **settings)
    warm_up = hvd_keras.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=5)
    warm = fit(third, warm_up, **settings)
    late = fit(unequal, **settings)
    save(second, checkpoint)
    pairs = zip(first.get_weights(), second.get_weights(), strict=True)
    return alone, tape, plain, warm, late, max(np.abs(here - there).max() for here, there in pairs)


# %%
alone, tape, plain, warm, late, apart = launch.run(train, ranks=ranks)[0]
means = np.reshape(alone, (epochs, -1)).mean(axis=1)  # fit reports the mean over the steps of an epoch
tape_off = np.abs(np.divide(tape, alone) - 1).max()
fit_off = np.abs(plain["loss"] / means - 1).max()
print(f"{ranks} ranks, loss off one process's by at most {tape_off:.1e} (tape) and {fit_off:.1e} (fit) of it")
print("Learning rate after each epoch of the warm-up:", np.round(warm["lr"], 3))
expect(
    max(tape_off, fit_off, apart) < 1e-5,
    "The ranks do not compute what one process computes: which piece is wrong?",
)
record.add("training", ranks_used=ranks, loss=tape[-1], difference_tape=tape_off, difference_fit=fit_off)
curves = {"one process": means, "fit": plain["loss"], "callback alone": late["loss"], "warm-up": warm["loss"]}
plots.loss(curves, xlabel="epoch", title="The same training, a late broadcast, and a warm-up")

# %% [markdown]
# ### What you take away
# - The five additions of lab 40; `fit` takes them as an optimizer and two callbacks.
# - A Keras optimizer has no momentum before its first step: build, then broadcast. The callback is late.
# - `make run LAB=41 NP=4` runs this file under `mpiexec`. Next: how far it scales (50).

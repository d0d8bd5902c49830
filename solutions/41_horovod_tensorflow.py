# %% [markdown]
# # 41 Horovod in TensorFlow
#
# The additions of lab 40, twice more: in a training loop of your own, and in Keras' `fit`. Then
# what they are for: how many images per second do several ranks train?
#
# **You will be able to** (1) run a `GradientTape` loop and a Keras `fit` on any number of ranks,
# (2) say what Horovod's callback makes equal, and when, (3) resume a saved net on all ranks, (4)
# measure images per second of ResNet-50, and say what ranks, threads and the size of the gradients
# have to do with them.
#
# Needs: horovod, tensorflow · Ranks: 4 · Minutes: 50 · Level: beginner · Before: 11, 40

# %%
import numpy as np
from labkit import (
    check,
    cluster,
    data,
    expect,
    hint,
    home,
    lab,
    launch,
    nets,
    plots,
    predict,
    record,
    timing,
    world,
)
from labkit.horovod import ranks_here

lab.start("41_horovod_tensorflow")
import horovod.tensorflow as hvd  # after lab.start, which turns off TensorFlow's start-up messages
import horovod.tensorflow.keras as hvd_keras
import keras
import tensorflow as tf
from support import lab41

ranks = ranks_here(4)
few = ranks_here(2)  # for the checks: each rank imports TensorFlow, which takes seconds

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see lab 10
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those images
epochs = 10  # passes over the training images
network = "ResNet50"  # of keras.applications
sides = (64, 224)  # pixels of a picture's side: on CPUs, on GPUs
pictures = (8, 64)  # of ResNet-50, per step on each rank: on CPUs, on GPUs
inter_op = (1,)  # inter-op threads to try for one rank with all cores
repeat = 7  # timed steps of ResNet-50
most = (
    8  # ranks of ResNet-50 that the lab starts by itself at most; under a launcher, all ranks count
)
patience = 90  # seconds after which a check calls the ranks stuck

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", exercise 41.3 is the one to do. It needs the answers
# of 41.1 and 41.2: `make solve LAB=41 EX=41.1`, and the same with `EX=41.2`, put them into your
# notebook.*
#
# ## What there is: one process
# The training step of lab 11: `make_step(net, optimizer)` returns a function that makes one.
#
# New is the third argument, `wrap`. A `tf.GradientTape` writes down what is computed, so that it
# can be asked for the gradients. `make_step` asks `wrap(tape)`. Without a third argument, that is
# the tape itself.
#
# The notebook only defines functions. `launch.run` runs them on *ranks*: processes of their own,
# each with a TensorFlow of its own. It returns their results, by rank. To import TensorFlow takes a
# rank some seconds.
#
# Horovod's last release (0.28.1, 2023) knows Keras 2. This kit builds it with edits for Keras 3, in
# all that this lab uses ([what they are](../env/HOROVOD.md)). Elsewhere, try it before you rely on
# it.

# %%
samples = data.load(dataset)
layers = (samples.train_x.shape[1], 128, 64, 10)  # pixels that go in, units of each layer
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
checkpoint = home() / "checkpoints" / "digits.keras"
checkpoint.parent.mkdir(exist_ok=True)


def as_it_is(tape):
    """The tape itself."""
    return tape


def new_net(seed=0):
    """The net of lab 11 with the start weights of this seed."""
    return nets.keras_digits(nets.start_weights(seed, layers))


def make_step(net, optimizer, wrap=as_it_is):
    """A function step(images, labels) -> loss: one update of net by the gradients of wrap(tape)."""

    # No Python `if` or `for` in it needs translation; errors stay short.
    @tf.function(autograph=False)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, net(images, training=True))
        gradients = wrap(tape).gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    return step


# %% [markdown]
# ### Exercise 41.1 · Begin: your GPU, your images
# **`begin(gpus)`** is what each rank does first. `gpus` is the list of the GPUs of its node, as
# TensorFlow knows them; it may be empty.
#
# - `hvd.init()` lets the ranks find each other.
# - If there are GPUs, the rank takes one. They are counted on each node, as its ranks are: take
#   number `hvd.local_rank()`. If a node has more ranks than GPUs, they share: take the remainder,
#   `% len(gpus)`.
# - `tf.config.experimental.set_memory_growth(gpu, True)`: else TensorFlow takes nearly all of its
#   memory at once, and a second rank on this GPU finds none.
# - `tf.config.set_visible_devices(gpu, "GPU")`: TensorFlow here never touches the other GPUs. After
#   the first tensor it would be too late for both calls.
#
# **`my_part(dataset)`** picks this rank's images, and groups them into batches of
# `images_per_rank`. A `tf.data.Dataset` splits itself: `dataset.shard(n, i)` keeps the elements i,
# i + n, i + 2n, …, and `.batch(k)` groups them by k. With two ranks and k = 32:
#
# | | elements of its first batch |
# |---|---|
# | rank 0, `shard(2, 0)` | 0, 2, 4, …, 62 |
# | rank 1, `shard(2, 1)` | 1, 3, 5, …, 63 |
# | both together | 0 to 63: what one process with k = 64 takes |
#
# What all ranks take together in a step is the **global batch**.
#
# 5 lines and 1 line. *(beginner)*
#
# <details><summary>Hint 1: which numbers?</summary>
#
# GPUs are counted on each node: `hvd.local_rank()`. Images are for all ranks: `hvd.size()`,
# `hvd.rank()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.init()`, then `if gpus:` and `gpu = gpus[hvd.local_rank() % len(gpus)]`, then the two calls
# for `gpu`. The images: `return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)`.
# </details>


# %%
def begin(gpus):
    """Start Horovod and show TensorFlow this rank's GPU only. gpus: the devices of this node, maybe
    none."""
    ### BEGIN SOLUTION
    # Across ranks: find the others, then take the GPU that is ours on this node.
    hvd.init()
    if gpus:
        gpu = gpus[hvd.local_rank() % len(gpus)]
        tf.config.experimental.set_memory_growth(gpu, True)
        tf.config.set_visible_devices(gpu, "GPU")
    ### END SOLUTION


def my_part(dataset):
    """This rank's elements of a tf.data.Dataset that is the same on all ranks, in batches."""
    ### BEGIN SOLUTION
    # Across ranks: every rank takes other images of the same global batch.
    return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)
    ### END SOLUTION


# %%
check("41.1", begin, my_part)

# %% [markdown]
# ### Exercise 41.2 · Start equal
# `hvd.broadcast_variables(variables, root_rank=0)` overwrites variables with rank 0's. All ranks
# call it, with the same number of variables on each: every rank waits for all others. It is needed
# twice: for `net.variables`, and for `optimizer.variables`, since rank 0 may have read momentum
# from a file.
#
# There is a trap. A Keras optimizer makes its momentum only in its first step: a variable for each
# array of weights, here 6. A new optimizer has 2, the count of its steps and the rate. After
# reading a file, rank 0's has 8. Rank 0 would send 8, the others expect 2, and all wait for ever.
# `optimizer.build(net.trainable_variables)` makes what is missing, and leaves alone an optimizer
# that has it. 3 lines. *(beginner)*
#
# <details><summary>Hint 1: in which order?</summary>
#
# First build; then all ranks hold as many variables, and can broadcast them.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.build(net.trainable_variables)`, then
# `hvd.broadcast_variables(net.variables, root_rank=0)`, and the same for `optimizer.variables`.
# </details>


# %%
def begin_equal(net, optimizer):
    """Give every rank the variables of rank 0: of the net, and of the optimizer with its
    momentum."""
    ### BEGIN SOLUTION
    optimizer.build(net.trainable_variables)
    # Across ranks: rank 0 sends what it has, the others overwrite what they had.
    hvd.broadcast_variables(net.variables, root_rank=0)
    hvd.broadcast_variables(optimizer.variables, root_rank=0)
    ### END SOLUTION


# %%
check("41.2", begin_equal)

# %% [markdown]
# ### Exercise 41.3 · One step of all ranks
# *(must do on the 90-minute track)* `hvd.DistributedGradientTape(tape)` is a tape around a tape.
# Its `gradient` waits until each gradient is the **mean over all ranks**. `make_step` can wrap its
# tape in it.
#
# Write `step_of_all(net)`: everything that Horovod needs for a loop of your own. For one process it
# would be
#
#     return make_step(net, keras.optimizers.SGD(rate_per_rank))
#
# For all ranks:
#
# - The learning rate belongs to the *global* batch, so it grows with the ranks: times `hvd.size()`.
#   Take plain SGD, without momentum.
# - Before the first step, all ranks have rank 0's variables: `begin_equal(net, optimizer)`.
# - Each step applies the mean gradients.
#
# 3 lines. *(beginner)*
#
# <details><summary>Hint 1: in which order?</summary>
#
# Make the optimizer. Then begin equal. Then return what `make_step` makes of net, optimizer and the
# tape's class.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer = keras.optimizers.SGD(rate_per_rank * hvd.size())`, `begin_equal(net, optimizer)`, and
# `return make_step(net, optimizer, hvd.DistributedGradientTape)`.
# </details>


# %%
def step_of_all(net):
    """Returns step(images, labels) -> loss: one training step of all ranks, each on images of its
    own.

    Before the first step all nets are rank 0's.
    """
    ### BEGIN SOLUTION
    # Across ranks: the rate grows with them, all begin with rank 0's variables, and share their gradients.
    optimizer = keras.optimizers.SGD(rate_per_rank * hvd.size())
    begin_equal(net, optimizer)
    return make_step(net, optimizer, hvd.DistributedGradientTape)
    ### END SOLUTION


# %%
# The loop around it. A rank knows the loss of its own images only.
def by_tape(net, part):
    """Train on this rank's batches. Returns the loss of each step, the mean over all ranks."""
    step = step_of_all(net)
    expect(callable(step), "step_of_all returned no function: return what make_step makes.")
    losses = [float(step(images, labels)) for images, labels in part]
    # Across ranks: one message averages all losses of the run.
    return hvd.allreduce(tf.constant(losses), name="losses").numpy()


# %%
check("41.3", by_tape)

# %% [markdown]
# ### Exercise 41.4 · The same in fit
# Keras' `fit` hides the loop. So the additions go into what it is given.
#
# - `hvd_keras.DistributedOptimizer(optimizer)` is an optimizer around yours. It applies mean
#   gradients.
# - **Callbacks** are objects whose methods `fit` calls before and after each step and epoch. Two of
#   Horovod's do the rest: `hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)` gives all ranks
#   the variables of rank 0, and `hvd_keras.callbacks.MetricAverageCallback()` averages the losses.
#
# For one process `fit` would be
#
#     net.compile(optimizer=keras.optimizers.SGD(rate_per_rank), loss=cross_entropy)
#     return net.fit(**settings, callbacks=[*more]).history
#
# `settings` are the images, labels, epochs and so on. `more` are further callbacks; keep them in
# the list. `net.fit(…)` returns an object, and its `.history` is the dict of losses. Write it for
# all ranks; the learning rate grows with them, as in 41.3. Leave the equal start to the callback:
# when it comes is measured below. 4 lines. *(beginner)*
#
# <details><summary>Hint 1: what goes where?</summary>
#
# Wrap the optimizer, not the net. Callbacks are one list: both of Horovod's, and then `*more`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compile with `hvd_keras.DistributedOptimizer(keras.optimizers.SGD(rate_per_rank * hvd.size()))`;
# return `net.fit(**settings, callbacks=[…, …, *more]).history`, both names after
# `hvd_keras.callbacks.`.
# </details>


# %%
def fit(net, *more, **settings):
    """Compile net, fit it by plain SGD on all ranks. more: further callbacks. settings: for
    net.fit.

    Returns the dict {"loss": [mean over the ranks, one number for each epoch]}.
    """
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
check("41.4", fit)

# %% [markdown]
# ## Put together
# One process, the tape, and `fit` train the same net on the same images. And `fit` once more, from
# nets that differ, without `begin_equal` before it. Its callback sends rank 0's variables only
# *after the first step*, when the optimizer has made all of its own.
#
# Then the net is saved, and training goes on from the file. Rank 0 saves it, as in lab 40:
#
#     if hvd.rank() == 0:
#         net.save(path)                        # net, optimizer and loss, in one file
#
# Every rank reads it. In the file the optimizer is a plain one, so that a machine without Horovod
# can read it. There are two functions to read it, and both return a net that trains:
#
# | | the optimizer that comes back |
# |---|---|
# | `hvd_keras.load_model(path)` | wrapped again by `DistributedOptimizer` |
# | `keras.models.load_model(path)` | plain, as in the file |
#
# ### Predict
# All ranks begin with other random weights, and nobody calls `begin_equal`. (a) In how many steps
# of `fit` do the ranks compute the gradients of different nets? (b) How many different nets are
# there at the end, on 4 ranks (or as many as a launcher started)? All ranks read the file and train
# one more epoch on their own images. How many different nets are there then, (c) with Horovod's
# `load_model`, (d) with Keras'?

# %%
predict("41.4", steps_with_different_nets=1, nets_at_the_end=1, read_by_horovod=1, read_by_keras=4)


# %%
def train_in_fit(part, steps, equal):
    """fit on all ranks, from other weights on each. Returns the net, its history, and its steps as
    seen."""
    net = new_net(seed=hvd.rank())
    if equal:  # the net's variables are what matters here: this SGD only goes along
        begin_equal(net, keras.optimizers.SGD())
    seen = lab41.StepsSeen()
    history = fit(net, seen, x=part, epochs=epochs, steps_per_epoch=steps, shuffle=False, verbose=0)
    return net, history["loss"], seen


def train_on(load, part, steps):
    """Reads the saved net by `load`, and trains it for an epoch. Returns the sum of its first
    weights."""
    net = load(checkpoint)
    net.fit(x=part, epochs=1, steps_per_epoch=steps, shuffle=False, verbose=0)
    return float(net.get_weights()[0].sum())


def global_batches():
    """The images of all epochs in the order of one process: (a tf.data.Dataset, steps of an
    epoch)."""
    batch = images_per_rank * hvd.size()
    images, labels = data.load(dataset)[:2]
    count = len(images)
    rows = [data.batches(max(count, batch), batch, epoch, seed=0) for epoch in range(epochs)]
    rows = np.ravel(rows) % count  # a large job takes some images twice
    ordered = tf.data.Dataset.from_tensor_slices((images[rows], labels[rows]))
    return ordered, len(rows) // batch // epochs


# %%
def train():
    """On a rank: losses by step, the history of fit, steps with different nets, and sums of
    weights."""
    # Across ranks: find the others, own device, the global batch and its rate.
    begin(tf.config.list_physical_devices("GPU"))
    # On a GPU too: all 24 bits of float32.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    ordered, steps = global_batches()
    part = my_part(ordered)
    step = make_step(new_net(), keras.optimizers.SGD(rate_per_rank * hvd.size()))
    whole = ordered.batch(images_per_rank * hvd.size())
    losses = {"one process": [float(step(images, labels)) for images, labels in whole]}
    losses["tape"] = by_tape(new_net(seed=hvd.rank()), part)
    net, history, seen = train_in_fit(part, steps, equal=True)
    late, _, seen_late = train_in_fit(part, steps, equal=False)
    losses |= {"fit": seen.losses(), "fit, callback alone": seen_late.losses()}
    # Across ranks: one writes; nobody goes on before it has.
    if hvd.rank() == 0:
        net.save(checkpoint)
    hvd.allgather_object("here")
    sums = {
        "nets_at_the_end": float(late.get_weights()[0].sum()),
        "read_by_horovod": train_on(hvd_keras.load_model, part, steps),
        "read_by_keras": train_on(keras.models.load_model, part, steps),
    }
    return losses, history, sum(seen_late.unequal()), sums


# %% [markdown]
# ### Measure
# All of it on the same ranks, one after the other. Half a minute.

# %%
results = launch.run(train, ranks=ranks, timeout=2 * patience)
losses, history, different, _ = results[0]
alone = losses["one process"]
# Fit reports the mean over the steps of an epoch.
means = np.reshape(alone, (epochs, -1)).mean(axis=1)
tape_off = np.abs(np.divide(losses["tape"], alone) - 1).max()
fit_off = np.abs(np.divide(history, means) - 1).max()
print(
    f"{ranks} ranks, loss off one process's by at most {tape_off:.1e} (tape) and {fit_off:.1e}"
    " (fit) of it"
)
expect(
    tape_off < 1e-5,
    "The tape is not one process: look at 41.1 (images), 41.2 (net) and 41.3 (step).",
)
expect(fit_off < 1e-5, "fit is not one process: look at 41.1 (images), 41.2 (net) and 41.4 (fit).")
counts = {"steps_with_different_nets": different}
for name in results[0][3]:
    sums = {round(its_sums[name], 3) for *_, its_sums in results}
    counts[name] = len(sums)
predict.compare("41.4", **counts)

# %%
# Draws the first steps, and records the run.
curves = {name: curve[:12] for name, curve in losses.items()}
record.add(
    "training", ranks_used=ranks, loss=alone[-1], difference_tape=tape_off, difference_fit=fit_off
)
plots.loss(
    curves, title="Many ranks are one process; a late broadcast costs a step", name="first steps"
)

# %% [markdown]
# **Explain.** Three curves lie on each other: many ranks compute what one process computes, up to
# the last bits. The printed line says how far off they are in all steps.
#
# The fourth, *callback alone*, began with different nets in one step. In it, each rank computed
# gradients of its own net, and their mean is the gradient of no net at all. Then all got rank 0's
# variables, and went on equal.
#
# The cure is in the third curve, *fit*. Its nets differed, too, but `begin_equal` ran before `fit`:
# it lies on the curve of one process. So in a training of your own, call it before `fit`.
#
# Does one bad step matter?
# <details><summary>Answer</summary>
#
# Here it costs about a step, if you compare the fourth curve with the others. Where rank 0 has read
# a net that took days and the others have random ones, the first step is taken along their
# gradients. And nobody is told, since the loss falls anyway.
# </details>
#
# After reading by Keras' own `load_model` there are as many nets as ranks. Why is there one with
# Horovod's?
# <details><summary>Answer</summary>
#
# All begin with the net in the file. Horovod's function wraps the optimizer again, so that all
# apply the same mean gradient. With Keras' the optimizer is plain: each rank applies the gradients
# of its own images.
# </details>

# %% [markdown]
# ## How fast? ResNet-50
# A net that computes for long shows what ranks are for: ResNet-50 of `keras.applications`, with
# random weights. Its pictures are *synthetic*, random numbers made once, so that no disk takes
# part. Horovod's own benchmark does the same, and so do most published figures.
#
# A step computes for each picture. Then it averages the gradients of 25.6 million weights, 4 bytes
# each. Smaller pictures save computing, but not one byte of gradients:
#
# | side of a picture (pixels) | computing for it, of that at 224 | gradients of a step |
# |---|---|---|
# | 224, on a GPU here | 1 | all |
# | 64, on a CPU here | 1/12, as (64 / 224)² | all |
#
# All ranks make a step at the same time, each with pictures of its own. So the images per second of
# the whole **job** are the pictures of all ranks, over the time of a step of the slowest rank. In
# the code below `time.rate(work)` is work per second of a measured time.
#
# ### Predict
# (a) How many megabytes (10⁶ bytes) of gradients does a rank give to Horovod in a step? (b) A rank
# for each core (or GPU) of this machine, 8 at most, one thread each: how many times the images per
# second of one rank alone, which has one thread, too? (A guess between 1 and the number of ranks.)

# %%
predict("41.4", megabytes=102, times_one_rank=1.5)  # two numbers

# %% [markdown]
# ### Measure
# Three kinds of step, in turns, on the same machine and in the same minute:
#
# | | who computes | sums |
# |---|---|---|
# | *alone* | rank 0, while the others sleep | none |
# | *side by side* | all ranks, each for itself | none |
# | *together* | all ranks | of all gradients |
#
# The first two are the controls. Every kind takes as long as its slowest rank. From *alone* to
# *side by side* a rank loses what others take from it by being there, caches and memory, and the
# wait for the slowest. From *side by side* to *together* it loses what the sums cost.
#
# About a minute on two cores, most of it before the first step: TensorFlow turns 175 layers and
# their gradients into a graph, once with Horovod and once without.


# %%
def measure(comm, images, control):
    """On all ranks: times of a step of all ranks; with `control`, of both controls, too. And facts
    of it."""
    gpus = tf.config.list_physical_devices("GPU")
    begin(gpus)
    # TensorFlow's own choice, on GPUs.
    tf.config.experimental.enable_tensor_float_32_execution(True)
    net, batch, labels = lab41.network(network, sides[bool(gpus)], images)
    step = step_of_all(net)
    calls = {"together": lambda: float(step(batch, labels))}  # float waits for the number
    if control:
        # Learning rate 0: a rank computes all of a step, and its net stays the net of all ranks.
        plain = make_step(net, keras.optimizers.SGD(0.0))
        calls["side by side"] = lambda: float(plain(batch, labels))
        calls["alone"] = lab41.on_rank_0(comm, calls["side by side"])
    # Across ranks: a step begins at a barrier and takes as long as that of the slowest rank.
    times = timing.in_turns(calls, comm=comm, repeat=repeat, warmup=2)
    return times, lab41.facts(comm, net, batch, len(gpus))


# %%
gpus = len(tf.config.list_physical_devices("GPU"))
images = pictures[bool(gpus)]
workers = ranks_here(max(2, min(most, gpus or world.cores())))
# Across ranks: every rank has the same facts, as the time of a step is the slowest rank's.
times, facts = launch.run(measure, images, control=True, ranks=workers, timeout=600)[0]
kept = timing.Ratio(times["alone"], times["together"])
job_rate = times["together"].rate(images * workers)
side, crowd = facts["side"], facts["crowd"]
print(f"{network}, {side} × {side} pixels, {images} pictures a rank, on {facts['device']}")
for kind in ("alone", "side by side", "together"):
    print(f"{kind:13} a step takes {times[kind]}")
print(f"{workers} ranks: {job_rate:.1f} images/s. Share of its own speed that a rank keeps: {kept}")
if crowd > 1:
    print(
        f"Up to {crowd:.3g} ranks share a core or a GPU: they take turns, so more cannot be faster"
        " here."
    )
predict.compare(
    "41.4", megabytes=facts["gradient_bytes"] / 1e6, times_one_rank=workers * kept.median
)

# %%
record.add(  # of which `make scaling` makes a table
    "weak",
    network=network,
    seconds=times["together"],
    alone=times["alone"],
    side_by_side=times["side by side"],
    images_per_second=job_rate,
    efficiency=kept,
    **facts,
)
lab41.draw_rates(times, network, images, workers, crowd)

# %% [markdown]
# **Explain.** (a) 25.6 million weights of 4 bytes are 102 MB, in every step, on every rank.
#
# (b) On two cores you should see between 1.2 and 1.8 times, that is, a rank keeps 60 to 90 % of its
# own speed. The bars say where the rest went. From *alone* to *side by side* it is lost by company:
# ranks share the memory, on many laptops two "cores" are two threads of one, and the slowest rank
# ends the step. From *side by side* to *together* it is lost by the sums: 102 MB, which MPI adds up
# on the same cores.
#
# You may see instead less than 1: then other programs want the cores. "do not quote" means the
# same: run the cell again. If ranks share a core, they take turns, and nothing can be gained; the
# printed line says so.
#
# Will a rank keep more or less of its speed with pictures of twice the side?
# <details><summary>Answer</summary>
#
# More. They take four times the computing, and the gradients stay 102 MB. The next cell computes it
# from your three times. To put it to the test, change `sides` to `(128, 224)`, and run from the
# top.
# </details>

# %%
sums = max(0.0, times["together"].median - times["side by side"].median)
larger = 4 * times["side by side"].median
kept_of_larger = 4 * times["alone"].median / (larger + sums)
print(
    f"Share of its own speed that a rank keeps: measured {kept.median:.0%} with pictures of {side}"
    f" × {side},"
)
print(f"predicted {kept_of_larger:.0%} with {2 * side} × {2 * side}")

# %% [markdown]
# So a figure of images per second says little without net, pictures and batch. And the faster a GPU
# computes its step, the faster a network it needs.
#
# ## Ranks or threads?
# Two cores can serve two ranks, or two threads of one rank. TensorFlow has two pools of threads.
# **Intra-op** threads share the work of one operation, such as a large product of matrices.
# **Inter-op** threads run operations that do not need each other's results.
#
# Intel's guide for TensorFlow on CPUs ("Maximize TensorFlow Performance on CPU", 2019 to 2022) says
# for one process on a machine: intra-op threads = physical cores of a socket, inter-op threads =
# sockets.
#
# Several ranks share the cores: each gets its part of them, and 1 or 2 inter-op threads. Intel's
# own script that trains ResNet-50 starts one rank on each socket, with 2 inter-op threads, and with
# 4 intra-op threads fewer than the socket has cores.
#
# `launch.run(threads=…)` sets `TF_NUM_INTRAOP_THREADS` and `TF_NUM_INTEROP_THREADS` for each rank;
# `env=` overrules. In a script of your own,
# `tf.config.threading.set_intra_op_parallelism_threads(n)` does it, and the same with `inter`; both
# before the first tensor.
#
# ### Predict
# The same pictures in a step, on all cores: images per second of a rank on each core, over those of
# one rank with a thread on each core? (A guess.)

# %%
predict("41.4", ranks_over_threads=1.2)  # a number

# %% [markdown]
# ### Measure
# One rank with all the pictures and a thread for each core. Half a minute. (Under a launcher, or on
# GPUs, there is nothing to choose here.) These runs come after those of the ranks, not in turns
# with them: believe only a difference that is larger than the spread of both.

# %%
cores = world.cores()
if world.launcher() or gpus or cores < 2 or workers != cores:
    print(
        "Nothing to compare: it takes 2 or more cores, no GPU, a rank for each core, and ranks of"
        " our own."
    )
else:
    steps = {f"{workers} ranks × 1 thread": times["together"]}
    for inter in inter_op:
        env = {"TF_NUM_INTEROP_THREADS": str(inter)}
        options = {"ranks": 1, "threads": cores, "env": env, "timeout": 600}
        of_one, _ = launch.run(measure, images * workers, control=False, **options)[0]
        steps[f"1 rank × {cores} threads, inter-op {inter}"] = of_one["together"]
    rates = {way: step.rate(images * workers) for way, step in steps.items()}
    for way, step in steps.items():
        print(f"{way:32} {rates[way]:6.1f} images/s; a step takes {step}")
        record.add(
            "threads", way=way, step=step, images_per_second=rates[way], network=network, side=side
        )
    bars = {
        way: {"images per second": images * workers / timing.samples_of(step)}
        for way, step in steps.items()
    }
    title = f"The same cores, as ranks or as threads ({network})"
    plots.bars(bars, ylabel="images per second", title=title, name="ranks or threads")
    of_ranks, *of_threads = rates.values()
    predict.compare("41.4", ranks_over_threads=of_ranks / max(of_threads))

# %% [markdown]
# **Explain.** A rank with a thread on each core sums no gradients with anybody, but its threads
# share each operation and wait for each other at its end. Ranks of one thread meet only for the
# sums. But they pay with 102 MB of sums, and each keeps the whole net in memory. Which costs more
# depends on net, pictures and machine: here your two bars decide. On Skylake nodes several ranks
# trained ResNet-152 up to 1.47 times as fast as one (Jain and others, IEEE Cluster 2019).
#
# Both bars have a spread. Where they overlap, or a step is not to be quoted, nothing was shown:
# something else ran on these cores. Run both cells again.
#
# Why does Intel's script leave four cores of a socket to nobody?
# <details><summary>Answer</summary>
#
# Probably for what else runs; it is not measured here. Horovod has a thread of its own, which looks
# for finished gradients every millisecond and calls MPI; MPI sums and copies. On cores of their own
# they would not interrupt the threads that compute.
# </details>
#
# ## On several nodes
# `make scaling LAB=41 NODES=1,2,4` submits this lab once for each number of nodes, and
# `make scaling LAB=41` shows the table when the jobs have ended: the row `weak` has a step's time,
# speed-up and efficiency. Without a cluster, `make tabletop NODES=2` starts a small one here. Its
# nodes share this machine's cores, so it cannot be faster than one: it shows that the same file
# runs on many nodes.

# %%
frame, whose = cluster.records_or_reference("41", "weak")
columns = [
    "nodes",
    "ranks",
    "network",
    "side",
    "images",
    "images_per_second",
    "efficiency",
    "device",
]
print(f"{whose}:")
print(frame[columns].sort_values(["nodes", "ranks"]).round(2).to_string(index=False))

# %% [markdown]
# ### What you take away
# - The five additions of lab 40; `fit` takes them as an optimizer and two callbacks.
# - A Keras optimizer has no momentum before its first step: build, then broadcast. The callback is
#   late.
# - Read a saved net with Horovod's `load_model`, or its ranks part.
# - Images per second of a job: all ranks' images over the time of the slowest. Say what one rank
#   does alone.
# - A control with all ranks and no sums tells what the sums cost. Ranks or threads: measure.
# - `make run LAB=41 NP=4` runs this file under `mpiexec`. Next: how far it scales (50).

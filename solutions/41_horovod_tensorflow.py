# %% [markdown]
# # 41 Horovod in TensorFlow
#
# [Horovod](@horovod) began as a library for [TensorFlow](@horovod_tensorflow), and the changes that
# a script needs are the same as in PyTorch (lab 40). TensorFlow programs come in two styles, a
# training loop that you write yourself with `GradientTape`, and Keras' `fit`, which hides the loop.
#
# Both styles have a trap, because a Keras optimizer creates its momentum only in the first step. If
# we broadcast before that step, and rank 0 has read momentum from a file, the other ranks have no
# variables to receive it. If we broadcast after it, the ranks have already taken one step with
# different models.
#
# In this lab we write both styles for any number of ranks, prove that they compute what one process
# computes, and see what the late broadcast costs. Then we measure how many images per second
# several ranks process when they train ResNet-50, and how much speed they lose to communication.
#
# **After this lab you can** (1) run a `GradientTape` loop and a Keras `fit` on any number of ranks,
# (2) say which variables Horovod's callback makes equal, and when, (3) choose the function with
# which all ranks read a saved network, and (4) measure images per second of ResNet-50, and explain
# how they depend on the ranks and on the size of the gradients.
#
# ![Keras' fit as a timeline on two ranks: without begin_equal the broadcast comes after the first step, with it before](41_broadcast.svg)
#
# *When does the broadcast happen? The callback of `fit` sends the variables only after the first
# step (top). A call of `begin_equal` before `fit` makes the ranks equal in time (bottom).*
#
# Needs: horovod, tensorflow · Ranks: 4 · Minutes: 70 · Level: beginner · Before: 11, 40

# %%
import numpy as np
from labkit import (
    check,
    cluster,
    data,
    expect,
    hint,
    lab,
    launch,
    nets,
    own_folder,
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
few = ranks_here(3)  # for the checks

# %% tags=["parameters"]
dataset = "digits"  # or files of yours, "mnist:FOLDER" or "cifar10:FOLDER": see lab 10
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those images
epochs = 10  # passes over the training images
network = "ResNet50"  # of keras.applications
sides = (64, 224)  # pixels of an image's side: on CPUs, on GPUs
pictures = (8, 64)  # images for ResNet-50, per step on each rank: on CPUs, on GPUs
repeat = 7  # timed steps of ResNet-50
most = 8  # ranks of ResNet-50 at most, unless a launcher has started more
patience = 90  # seconds after which a check calls the ranks stuck

# %% [markdown]
# *In the track "PPoPP hands-on, 90 minutes", do exercise 41.3. It needs the answers to 41.1 and
# 41.2, which `make solve LAB=41 EX=41.1` and the same command with `EX=41.2` write into your
# notebook.*
#
# ## Six changes, in two styles
# In lab 40 a script for many ranks needed six changes. This lab makes the same six in both styles.
# A **callback** is an object whose methods `fit` calls before and after each step and epoch.
#
# | change | in a loop with `GradientTape` | in Keras' `fit` |
# |---|---|---|
# | a device for each rank | `begin` (exercise 41.1) | the same |
# | images for each rank | `my_part` (41.1) | the same |
# | an equal start | `begin_equal` (41.2) | a callback (41.4), which comes late, or `begin_equal` |
# | averaged gradients | Horovod's tape around TensorFlow's (41.3) | Horovod's optimizer around yours (41.4) |
# | a learning rate for the global batch | multiplied by the number of ranks (41.3) | the same (41.4) |
# | one report, one file | an allreduce of the losses; rank 0 saves | a second callback; rank 0 saves |
#
# ## The training step for one process
# The next cell defines the training step of lab 11: `make_step(net, optimizer)` returns a function
# that takes one step. A `tf.GradientTape` records the computation, so that it can return the
# gradients.
#
# The third argument, `wrap`, is new. `make_step` asks `wrap(tape)` for the gradients. By default
# `wrap` returns the tape itself, and in exercise 41.3 it returns Horovod's tape.
#
# The notebook only defines functions. `launch.run` runs them on *ranks*, which are separate
# processes with their own TensorFlow, and returns their results ordered by rank.
#
# <details><summary>Does Horovod work with Keras 3?</summary>
#
# Horovod's last release (0.28.1, from 2023) supports Keras 2. This kit builds it with changes that
# make everything in this lab work with Keras 3 ([here is the list](../env/HOROVOD.md)). Test other
# functions before you rely on them.
# </details>

# %%
samples = data.load(dataset)
layers = (samples.train_x.shape[1], 128, 64, 10)  # pixels that go in, units of each layer
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
checkpoint = own_folder() / "checkpoints" / "digits.keras"
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
# **`begin(gpus)`** is the first call of each rank. The argument `gpus` is the list of the GPUs of
# its node as TensorFlow sees them, and it can be empty.
#
# - `hvd.init()` connects the ranks.
# - If there are GPUs, the rank takes one of them. GPUs are numbered on each node, and so are its
#   ranks, so take number `hvd.local_rank()`. If a node has more ranks than GPUs, they have to
#   share, so take the remainder, `% len(gpus)`. For example, 4 ranks on a node with 3 GPUs take
#   the GPUs 0, 1, 2 and 0.
# - Call `tf.config.experimental.set_memory_growth(gpu, True)`. Otherwise TensorFlow allocates
#   nearly all of the GPU's memory at once, and a second rank on this GPU gets none.
# - Call `tf.config.set_visible_devices(gpu, "GPU")`, so that this TensorFlow never uses the other
#   GPUs. After the first tensor it would be too late for both calls.
#
# **`my_part(dataset)`** returns the `tf.data.Dataset` of this rank's images, in batches of
# `images_per_rank`. A dataset has methods for this: `dataset.shard(n, i)` keeps the elements i,
# i + n, i + 2n, …, and `.batch(k)` groups them by k. With two ranks and k = 32:
#
# | | elements of the first batch |
# |---|---|
# | rank 0, `shard(2, 0)` | 0, 2, 4, …, 62 |
# | rank 1, `shard(2, 1)` | 1, 3, 5, …, 63 |
# | both together | 0 to 63, which one process with k = 64 would take |
#
# The images that all ranks use together in a step are called the **global batch**.
#
# 5 lines and 1 line. *(beginner)*
#
# <details><summary>Hint 1: which numbers?</summary>
#
# GPUs are numbered on each node, so use `hvd.local_rank()`. Images are distributed among all ranks,
# so use `hvd.size()` and `hvd.rank()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.init()`, then `if gpus:` and `gpu = gpus[hvd.local_rank() % len(gpus)]`, then the two calls
# for `gpu`. For the images: `return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)`.
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
    """This rank's elements, in batches, of a dataset that is the same on all ranks: again a
    tf.data.Dataset."""
    ### BEGIN SOLUTION
    # Across ranks: every rank takes other images of the same global batch.
    return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)
    ### END SOLUTION


# %%
check("41.1", begin, my_part)

# %% [markdown]
# ### Exercise 41.2 · Start equal
# `hvd.broadcast_variables(variables, root_rank=0)` overwrites variables with those of rank 0. All
# ranks call it with the same number of variables, and every rank waits for all others.
#
# The trap is that the ranks can have different numbers of variables. SGD with momentum keeps one
# variable for each of the network's 6 arrays of weights, but Keras creates these variables only in
# the first step:
#
# | optimizer with momentum | its variables |
# |---|---|
# | new, on every rank | 2: the number of its steps, and the learning rate |
# | after its first step, or on rank 0 after reading a file | 8: these two and 6 of momentum |
#
# If rank 0 has read a file, it would send 8 variables while the other ranks expect 2, and all would
# wait forever. `optimizer.build(net.trainable_variables)` creates the missing variables, and does
# not change an optimizer that already has them.
#
# Plain SGD, which we train with below, has no momentum, so it has 2 variables before and after.
#
# Write `begin_equal(net, optimizer)`, which broadcasts `net.variables` and then
# `optimizer.variables`. It should serve every optimizer, whether rank 0 has read a file or not.
# 3 lines. *(beginner)*
#
# <details><summary>Hint 1: in which order?</summary>
#
# First build the optimizer. Then all ranks have the same number of variables and can broadcast
# them.
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
# *(the exercise to do in the 90-minute track)* `hvd.DistributedGradientTape(tape)` is a tape around
# a tape. Its method `gradient` waits until each gradient is the **mean over all ranks**.
# `make_step` can wrap its tape in it.
#
# Write `step_of_all(net)`, which contains everything that Horovod needs in a training loop that you
# write yourself. For one process it would be
#
#     return make_step(net, keras.optimizers.SGD(rate_per_rank))
#
# For all ranks:
#
# - The learning rate belongs to the *global* batch, so multiply it by the number of ranks,
#   `hvd.size()`. Use plain SGD without momentum.
# - Before the first step, all ranks get the variables of rank 0: `begin_equal(net, optimizer)`.
# - Each step applies the mean gradients.
#
# 3 lines. *(beginner)*
#
# <details><summary>Hint 1: in which order?</summary>
#
# Create the optimizer. Then begin equal. Then return the result of `make_step` for the network, the
# optimizer and the class of the tape.
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
    # Across ranks: the rate grows with them, all begin with rank 0's variables, and share their
    # gradients.
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
# Keras' `fit` hides the training loop, so the changes go into its arguments. Three calls of
# `hvd_keras` make them:
#
# | in `hvd_keras` | what it does |
# |---|---|
# | `DistributedOptimizer(optimizer)` | is an optimizer around yours, which applies mean gradients |
# | `callbacks.BroadcastGlobalVariablesCallback(0)` | gives all ranks the variables of rank 0, of the network and of the optimizer |
# | `callbacks.MetricAverageCallback()` | averages the loss of each epoch over the ranks |
#
# The optimizer takes the place of the tape of 41.3. If you used both, each gradient would be
# averaged twice.
#
# For one process, the call of `fit` would be
#
#     net.compile(optimizer=keras.optimizers.SGD(rate_per_rank), loss=cross_entropy)
#     return net.fit(**settings, callbacks=[*more]).history
#
# Here `settings` are the images, labels, epochs and so on, and `more` are further callbacks, which
# must stay in the list. `net.fit(…)` returns an object whose `.history` is the dictionary of
# losses.
#
# Write this call for all ranks, with a learning rate that grows with them, as in 41.3. Leave the
# equal start to the callback, because we measure below when it happens. 4 lines. *(beginner)*
#
# <details><summary>Hint 1: what goes where?</summary>
#
# Wrap the optimizer, not the network. The callbacks are one list, with Horovod's two followed by
# `*more`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# Compile with `hvd_keras.DistributedOptimizer(keras.optimizers.SGD(rate_per_rank * hvd.size()))`,
# and return `net.fit(**settings, callbacks=[…, …, *more]).history`, with both names from
# `hvd_keras.callbacks`.
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
# Do both styles compute what one process computes? We train networks of the same shape four times
# on the same images. We call two networks *different* if their weights differ.
#
# | run | ranks begin with | made equal by |
# |---|---|---|
# | *one process* | the network of rank 0 | |
# | *tape*, the loop of 41.3 | different networks | `begin_equal` |
# | *fit* | different networks | `begin_equal`, which we call before `fit` |
# | *fit, callback alone* | different networks | the callback, *after the first step* |
#
# The callback waits for the first step, because only then has the optimizer created all its
# variables.
#
# Then rank 0 saves the network of the third run, as in lab 40:
#
#     if hvd.rank() == 0:
#         net.save(path)                        # net, optimizer and loss, in one file
#
# This network was compiled with a `DistributedOptimizer` around your SGD. The file contains only
# your SGD, without the wrapper, so that a machine without Horovod can read it.
#
# All ranks read the file, so they all begin with the same network. They train one more epoch, each
# on its own images. Two functions can read the file and return a network that can be trained:
#
# | function | the optimizer that it returns |
# |---|---|
# | `hvd_keras.load_model(path)` | the SGD, wrapped in `DistributedOptimizer` again |
# | `keras.models.load_model(path)` | the SGD as it is in the file |
#
# ### Predict
# There are 4 ranks, or as many as a launcher has started. How many different networks are there
#
# - (a) at the end of the fourth run?
# - (b) after the additional epoch, if all ranks read the file with Horovod's `load_model`?
# - (c) after the additional epoch, if all ranks use Keras' `load_model`?

# %%
predict("41.4", nets_at_the_end=1, read_by_horovod=1, read_by_keras=4)

# %% [markdown]
# The next two cells define what each rank runs, and you can skip the details. The function `train`
# trains in the four ways, one after the other. Then it saves the network, reads it with both
# functions, and returns the sums of the weights. Ranks with different sums have different networks.


# %%
def train_in_fit(part, steps, equal):
    """fit on all ranks, from other weights on each. Returns the net, its history, and its steps as
    seen."""
    net = new_net(seed=hvd.rank())
    if equal:  # only the net matters here, so the optimizer may be a new one
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
    # If a batch needs more images than there are, some of them are taken twice.
    rows = [data.batches(max(count, batch), batch, epoch, seed=0) for epoch in range(epochs)]
    rows = np.ravel(rows) % count
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
    # Across ranks: one writes, and the others wait for it.
    if hvd.rank() == 0:
        net.save(checkpoint)
    hvd.allgather_object("here")  # returns when all ranks have called it: no one reads too early
    sums = {
        "nets_at_the_end": float(late.get_weights()[0].sum()),
        "read_by_horovod": train_on(hvd_keras.load_model, part, steps),
        "read_by_keras": train_on(keras.models.load_model, part, steps),
    }
    return losses, history, sum(seen_late.unequal()), sums


# %% [markdown]
# ### Measure
# All runs use the same ranks, one run after the other. This takes half a minute.

# %%
results = launch.run(train, ranks=ranks, timeout=2 * patience)
losses, history, different, _ = results[0]
alone = losses["one process"]
# Fit reports the mean over the steps of an epoch.
means = np.reshape(alone, (epochs, -1)).mean(axis=1)
tape_off = np.abs(np.divide(losses["tape"], alone) - 1).max()
fit_off = np.abs(np.divide(history, means) - 1).max()
print(
    f"{ranks} ranks: the loss differs from that of one process by at most"
    f" {tape_off:.1e} (tape) and {fit_off:.1e} (fit) of it"
)
expect(
    tape_off < 1e-5,
    "The tape is not one process: look at 41.1 (images), 41.2 (net) and 41.3 (step).",
)
expect(fit_off < 1e-5, "fit is not one process: look at 41.1 (images), 41.2 (net) and 41.4 (fit).")
print(f"fit, callback alone: steps that the ranks began with different networks: {different}")
counts = {}
for name in results[0][3]:
    sums = {round(its_sums[name], 3) for *_, its_sums in results}
    counts[name] = len(sums)
predict.compare("41.4", **counts)

# %% [markdown]
# **Explain.** The first printed line gives the largest relative difference over all steps. You
# should see values between 10⁻⁷ and 10⁻⁶, because many ranks compute what one process computes, up
# to the last bits of float32. The second line should count one step, the first, because in the
# fourth run the callback makes the networks equal after that step.
#
# (a) There is one network at the end. In the first step of the fourth run, each rank computed the
# gradients of its own network, and the mean of these gradients does not belong to any network. Then
# all ranks got the variables of rank 0 and continued with equal networks.
#
# (b, c) Horovod's function wraps the optimizer again, so all ranks apply the same mean gradient and
# there is one network. With Keras' function each rank applies the gradients of its own images, so
# there are as many networks as ranks.
#
# The next cell draws the loss of the first 12 steps.

# %%
# Draws the first steps, and records the run.
curves = {name: curve[:12] for name, curve in losses.items()}
record.add(
    "training", ranks_used=ranks, loss=alone[-1], difference_tape=tape_off, difference_fit=fit_off
)
plots.loss(
    curves,
    title="Tape and fit match one process; a late broadcast costs a step",
    name="first steps",
)

# %% [markdown]
# You should see three curves on top of each other. The fourth begins near them, because the mean
# loss of several random networks is about that of one, and is then above them.
#
# The ranks of the third run also began with different networks, but called `begin_equal` before
# `fit`. Therefore do the same in your own script, and pass `begin_equal` the optimizer that you
# compile, so that the optimizer's momentum is sent, too.
#
# Does one wrong step matter?
# <details><summary>Answer</summary>
#
# Here it costs about one step, because the fourth curve has about the loss that the others had one
# step earlier.
#
# But suppose that rank 0 has read a network that took days to train, while the other ranks have
# random ones. The first step then follows the gradients of the random networks. There is no error
# message, and the loss falls nevertheless.
# </details>

# %% [markdown]
# ## How fast? ResNet-50
# This second half of the lab is about speed. A network that computes for longer shows the benefit
# of several ranks, so we use [ResNet-50](@he2016) from `keras.applications` with random weights.
# Its images are *synthetic*, which means random numbers generated once, so that no disk is
# involved.
#
# In a step each rank computes the gradients of its images, and then all ranks average these
# gradients. There is one gradient of 4 bytes for each of 25.6 million weights, whatever the size of
# the images.
#
# The computation depends on that size. Our images are 224 pixels on a side on a GPU and 64 on a
# CPU, so on a CPU an image takes only (64 / 224)², about 1/12, of the computation.
#
# The throughput of the whole **job**, in images per second, is the number of images of all ranks
# divided by the time of a step on the slowest rank.
#
# ### Predict
# - (a) How many megabytes (10⁶ bytes) of gradients does a rank pass to Horovod in a step?
# - (b) Suppose that there is one rank for each core (or GPU) of this machine, at most 8, with one
#   thread each. How many times as many images per second do they process together as a single rank
#   does? Guess a number between 1 and the number of ranks.

# %%
predict("41.4", megabytes=102, times_one_rank=1.5)  # two numbers

# %% [markdown]
# ### Measure
# We measure three kinds of steps, which take turns on the same machine within the same minute. The
# first two are the controls:
#
# | kind | which ranks compute | allreduce | why it is slower than the row above |
# |---|---|---|---|
# | *alone* | rank 0, while the others sleep | none | |
# | *side by side* | all ranks, each for itself | none | shared caches and memory, and the slowest rank |
# | *together* | all ranks | of all gradients | the allreduce |
#
# The share of its own speed that a rank keeps is the time of *alone* divided by the time of
# *together*. For example, 0.5 s alone and 0.625 s together give a share of 0.8. Four ranks then
# process 4 · 0.8 = 3.2 times as many images per second as one.
#
# The next cell defines a function that builds the network and its synthetic images and times the
# three kinds. The cell after it runs this function on all ranks and prints the times. This takes
# about a minute on two cores, mostly because TensorFlow converts the network and its gradients to a
# graph before the first step.


# %%
def measure(comm, images):
    """On all ranks: the times of a step of each kind, and facts about the run."""
    gpus = tf.config.list_physical_devices("GPU")
    begin(gpus)
    # TensorFlow's own choice, on GPUs.
    tf.config.experimental.enable_tensor_float_32_execution(True)
    net, batch, labels = lab41.network(network, sides[bool(gpus)], images)
    step = step_of_all(net)
    # Learning rate 0: a rank computes all of a step, and its net stays the net of all ranks.
    plain = make_step(net, keras.optimizers.SGD(0.0))

    def by_itself():
        return float(plain(batch, labels))  # float waits for the number

    calls = {
        "together": lambda: float(step(batch, labels)),
        "side by side": by_itself,
        "alone": lab41.on_rank_0(comm, by_itself),
    }
    # Across ranks: a step begins at a barrier and takes as long as that of the slowest rank.
    times = timing.in_turns(calls, comm=comm, repeat=repeat, warmup=2)
    return times, lab41.facts(comm, net, batch, len(gpus))


# %%
gpus = len(tf.config.list_physical_devices("GPU"))
images = pictures[bool(gpus)]
workers = ranks_here(max(2, min(most, gpus or world.cores())))
# Across ranks: every rank has the same facts, as the time of a step is the slowest rank's.
times, facts = launch.run(measure, images, ranks=workers, timeout=600)[0]
kept = timing.Ratio(times["alone"], times["together"])
job_rate = times["together"].rate(images * workers)
side, crowd = facts["side"], facts["crowd"]
print(f"{network}, {side} × {side} pixels, {images} images per rank, on {facts['device']}")
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
# **Explain.** (a) The 25.6 million weights of 4 bytes are 102 MB, in every step and on every rank.
#
# (b) On two cores you should see between 1.2 and 1.8 times the images per second, so a rank keeps
# 60 to 90 % of its own speed. With more than two ranks, compare your value with the number of
# ranks, which is the value if no speed is lost (the second bar of the plot).
#
# The third and the fourth bar show where speed is lost:
#
# - From *alone* to *side by side* the main cause is contention, because the ranks share the memory,
#   and the two "cores" of many laptops are two hyper-threads of one core.
# - From *side by side* to *together* the cause is communication. Without GPUs, MPI adds up 102 MB on
#   the same cores.
#
# If you see a value below 1, or the words "do not quote", other programs use the cores, so run the
# cell again.
#
# Does a rank keep more or less of its speed if the images have twice the side length?
# <details><summary>Answer</summary>
#
# More. They need four times the computation, and the gradients still have 102 MB. To test this,
# change `sides` to `(128, 224)` and run the notebook from the top.
# </details>
#
# ### What you take away
# - TensorFlow needs the six changes of lab 40. In `fit`, an optimizer and two callbacks make three
#   of them: the average, the equal start and the report.
# - A Keras optimizer has no momentum before its first step, so build it and then broadcast. The
#   callback broadcasts one step too late.
# - Read a saved network with Horovod's `load_model`, because otherwise the ranks train different
#   networks.
# - The throughput of a job, in images per second, is the number of images of all ranks divided by
#   the time of the slowest rank. Also report what a single rank reaches.
# - A control with all ranks and without communication shows the cost of communication.
#
# `make run LAB=41 NP=4` runs this file under `mpiexec`. Lab 50 measures how far it scales.
#
# ## Going further (optional): on several nodes (2 minutes)
# `make scaling LAB=41 NODES=1,2,4` submits this lab once for each number of nodes, and
# `make scaling LAB=41` shows the table when the jobs have ended. Without a cluster,
# `make tabletop NODES=2` starts a small one, whose nodes share this machine's cores and cannot be
# faster than one node.
#
# The next cell prints a row for each run of your most recent job, or of the kit's reference.
# `images_per_second` is the rate of the whole job, and `efficiency` is the share of its own speed
# that a rank keeps.

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
table = frame[columns].convert_dtypes()  # whole numbers without ".0"
print(table.sort_values(["nodes", "ranks"]).round(2).to_string(index=False))

# %% [markdown]
# ## Going further (optional): threads of a rank (2 minutes)
# Two cores can also be used by two threads of one rank, and lab 13 measures when that is faster.
#
# TensorFlow has two pools of threads. **Intra-op** threads share the work of a single operation,
# such as a large matrix product. **Inter-op** threads run operations that do not need each other's
# results.
#
# `launch.run(threads=…)` sets both numbers for each rank. In your own script, call
# `tf.config.threading.set_intra_op_parallelism_threads(n)`, and the same function with `inter`,
# both before the first tensor. (The environment variables `TF_NUM_INTRAOP_THREADS` and
# `TF_NUM_INTEROP_THREADS` set the same numbers.)
#
# Which numbers are good? The first row is what Intel's guide for TensorFlow on CPUs recommends
# ("Maximize TensorFlow Performance on CPU", 2019 to 2022):
#
# | on a machine | intra-op threads | inter-op threads |
# |---|---|---|
# | one process | as many as a socket has physical cores | as many as there are sockets |
# | several ranks | a part of the cores for each rank | 1 or 2 |
#
# On Skylake nodes, several ranks trained ResNet-152 up to 1.47 times as fast as one (Jain et al.,
# IEEE Cluster 2019).
#
# ### Further reading
# - [@horovod_tensorflow] The official instructions for TensorFlow scripts.
# - [@horovod_keras] The official instructions for Keras, with all callbacks.
# - [@sergeev2018] The paper that introduced Horovod, for TensorFlow.
# - [@tensorflow_function] How `tf.function` turns Python into a graph, and why the first step takes
#   so long.

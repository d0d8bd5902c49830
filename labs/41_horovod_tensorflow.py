# %% [markdown]
# # 41 Horovod in TensorFlow
#
# The additions of lab 40, twice more: in a training loop of your own, and in Keras' `fit`. Then what they are
# for: how many images per second do several ranks train?
#
# **You will be able to** (1) run a `GradientTape` loop and a Keras `fit` on any number of ranks, (2) say what
# Horovod's callback makes equal, and when, (3) save once and resume everywhere, (4) measure images per second
# of ResNet-50, and say what ranks, threads and the size of the gradients have to do with them.
#
# Needs: horovod, tensorflow · Ranks: 4 · Minutes: 60 · Before: 11, 40

# %%
import numpy as np
from labkit import check, data, expect, hint, home, lab, launch, nets, plots, predict, record, timing, world
from support import lab41

lab.start("41_horovod_tensorflow")
import horovod.tensorflow as hvd  # after lab.start, which turns off TensorFlow's start-up messages
import horovod.tensorflow.keras as hvd_keras
import keras
import tensorflow as tf

ranks = launch.ranks_here(4)
few = launch.ranks_here(2)  # for the checks: each rank imports TensorFlow, which takes seconds

# %% tags=["parameters"]
images_per_rank = 32  # images per step on each rank
rate_per_rank = 0.05  # SGD's learning rate for those images
epochs = 10  # passes over the training images
network = "ResNet50"  # of keras.applications
sides = (64, 224)  # pixels of a picture's side: on CPUs, on GPUs
pictures = (8, 64)  # of ResNet-50, per step on each rank: on CPUs, on GPUs
inter_op = (1,)  # inter-op threads to try for one rank with all cores
repeat = 7  # timed steps of ResNet-50
most = 8  # ranks of ResNet-50 that the lab starts by itself at most; under a launcher, all ranks count
patience = 90  # seconds after which a check calls the ranks stuck

# %% [markdown]
# ## What there is: one process
# The training step of lab 11. New is `wrap`: what it returns is asked for the gradients in place of the tape.
#
# The notebook only defines functions. `launch.run` runs them on *ranks*: processes of their own, each with a
# TensorFlow of its own. Cells with `def try_…` and `with check` try your answers; you need not read them.
#
# Horovod's last release (0.28.1, 2023) knows Keras 2. This kit builds it with edits for Keras 3, in all that
# this lab uses ([what they are](../env/HOROVOD.md)). Elsewhere, try it before you rely on it.

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
# `begin(gpus)` is what each rank does first:
# - `hvd.init()` lets the ranks find each other.
# - If there are GPUs, the rank takes one. They are counted on each node, as its ranks are: take number
#   `hvd.local_rank()`. If a node has more ranks than GPUs, they share: take the remainder, `% len(gpus)`.
# - `tf.config.experimental.set_memory_growth(gpu, True)`: else TensorFlow takes nearly all of its memory at
#   once, and a second rank on this GPU finds none.
# - `tf.config.set_visible_devices(gpu, "GPU")`: TensorFlow here never touches the other GPUs. After the first
#   tensor it would be too late for both calls.
#
# `my_part(dataset)`: a `tf.data.Dataset` splits itself. `dataset.shard(n, i)` keeps the elements i, i + n,
# i + 2n, …; `.batch(k)` then groups them by k. So with 2 ranks and k = 32, the first batches hold 0, 2, …, 62
# and 1, 3, …, 63: together 0 to 63, the batch that one process with k = 64 takes. That is the first **global
# batch**. 5 + 1 lines.
#
# <details><summary>Hint 1: which numbers?</summary>
#
# GPUs are counted on each node: `hvd.local_rank()`. Images are for all ranks: `hvd.size()`, `hvd.rank()`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `hvd.init()`, then `if gpus:` and `gpu = gpus[hvd.local_rank() % len(gpus)]`, then the two calls for `gpu`.
# The images: `return dataset.shard(hvd.size(), hvd.rank()).batch(images_per_rank)`.
# </details>

# %%
def begin(gpus):
    """Start Horovod and show TensorFlow this rank's GPU only. gpus: the devices of this node, maybe none."""
    raise NotImplementedError("exercise 41.1: Begin: your GPU, your images")


def my_part(dataset):
    """This rank's elements of a tf.data.Dataset that is the same on all ranks, in batches."""
    raise NotImplementedError("exercise 41.1: Begin: your GPU, your images")


# %%
def try_begin():
    begin([])
    expect(hvd.is_initialized(), "Horovod was not started: hvd.init() comes before anything else of hvd.")
    begin(tf.config.list_physical_devices("GPU"))  # before the first tensor
    for local_rank in (1 - hvd.rank() % 2, 2 + hvd.rank() % 2):  # on a node of 4 ranks and 2 GPUs
        with lab41.on_a_node(local_rank, local_size=4):
            devices = lab41.Devices(begin)
        gpu = f"GPU {local_rank % 2}"
        subject = f"2 GPUs, rank {hvd.rank()}, number {local_rank} on its node: the GPU made visible"
        expect(devices.visible, "begin chose no GPU: TensorFlow on this rank will take all of them.")
        because = "GPUs are counted on each node, as its ranks are"
        expect.equal(devices.visible, [gpu], subject, because=because)
        expect(gpu in devices.growing, f"The memory of {gpu} does not grow: its first rank takes all of it.")
    with lab41.on_a_node(local_rank=0, local_size=1):  # each rank on a node of its own
        part = my_part(tf.data.Dataset.range(2 * images_per_rank * hvd.size()))
    expect(part is not None, "my_part returned nothing: return the dataset of this rank's batches.")
    return [batch.numpy().tolist() for batch in part]


# %%
# What is asked: a GPU by local rank, which grows; and of each global batch, all elements once.
with check("41.1"):
    parts = launch.run(try_begin, ranks=few, timeout=patience)
    first = sorted(image for part in parts for image in part[0])
    taken = f"the ranks' first batches take {len(set(first))} of the elements up to {max(first)}"
    expect(len(set(first)) == len(first), f"Some ranks take the same samples: {taken}.")
    whole = f"{taken}, and not the first {len(first)}, as one process does"
    expect(max(first) < len(first), f"Another global batch: {whole}. Every rank takes each n-th element.")
    sizes = [[len(batch) for batch in part] for part in parts]
    expect.equal(sizes, [[images_per_rank] * 2] * few, "images in each batch, by rank, of 2 global batches")


# %% [markdown]
# ### Exercise 41.2 · Start equal
# `hvd.broadcast_variables(variables, root_rank=0)` overwrites variables with rank 0's. All ranks call it, for
# as many variables: each waits for all others. It is needed twice: for `net.variables`, and for
# `optimizer.variables`, since rank 0 may have read momentum from a file.
#
# There is a trap. A Keras optimizer makes its momentum only in its first step. After reading a file, rank 0's
# has 8 variables; a new one, on the other ranks, has 2. Rank 0 would send 8, the others expect 2, and all
# wait for ever. `optimizer.build(net.trainable_variables)` makes what is missing, and leaves alone an
# optimizer that has it. 3 lines.
#
# <details><summary>Hint 1: in which order?</summary>
#
# First build; then all ranks hold as many variables, and can broadcast them.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer.build(net.trainable_variables)`, then `hvd.broadcast_variables(net.variables, root_rank=0)`, and
# the same for `optimizer.variables`.
# </details>

# %%
def begin_equal(net, optimizer):
    """Give every rank the variables of rank 0: of the net, and of the optimizer with its momentum."""
    raise NotImplementedError("exercise 41.2: Start equal")


# %%
def try_begin_equal():
    begin(tf.config.list_physical_devices("GPU"))  # rank 0 has momentum; the others another net and rate
    net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))
    optimizer = keras.optimizers.SGD(1.0 + hvd.rank(), momentum=0.9)
    if hvd.rank() == 0:
        ones = [tf.ones(variable.shape) for variable in net.trainable_variables]
        optimizer.apply(ones, net.trainable_variables)
    plans = lab41.plans(begin_equal, net, optimizer)  # first only count who would send what
    agree = all(plan == plans[0] for plan in plans)
    expect(agree, f"Ranks would wait for ever. Variables in each broadcast: {lab41.as_text(plans)}.")
    begin_equal(net, optimizer)
    optimizer.build(net.trainable_variables)
    return net.get_weights()[0].sum(), optimizer.variables[-1].numpy().sum(), float(optimizer.learning_rate)


# What is asked: weights, momentum and learning rate of rank 0 on all ranks, in as many broadcasts on each.
with check("41.2"):
    weights, moments, rates = zip(*launch.run(try_begin_equal, ranks=few, timeout=patience), strict=True)
    expect.close(weights, weights[:1] * few, "Sum of the weights by rank (equal to rank 0's)")
    expect.close(moments, [-10.0] * few, "Sum of the momentum by rank, in the optimizer's variables")
    expect.close(rates, [1.0] * few, "Learning rate by rank, in the optimizer's variables (rank 0's is 1)")


# %% [markdown]
# ### Exercise 41.3 · Step together
# `hvd.DistributedGradientTape(tape)` is a tape whose `gradient` waits until each gradient is the **mean over
# all ranks**: `make_step` can wrap its tape in it. The learning rate belongs to the *global* batch, so it
# grows with the ranks: `rate_per_rank` times `hvd.size()`. And a rank knows the loss of its own images only:
# `hvd.allreduce(tensor)` returns the mean over the ranks. `tf.constant(…)` makes a tensor of a list, and
# `.numpy()` an array of a tensor. Ask once for all losses, as each call is a message.
#
# `part` gives pairs of images and labels, a batch each. Take plain SGD, without momentum. 3 lines.
#
# <details><summary>Hint 1: what does the loop look like?</summary>
#
# Make the step once. Then `for images, labels in part`, collect `float(step(images, labels))` in a list.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `step = make_step(net, keras.optimizers.SGD(rate_per_rank * hvd.size()), hvd.DistributedGradientTape)`.
# After the loop `return hvd.allreduce(tf.constant(losses)).numpy()`.
# </details>

# %%
def by_tape(net, part):
    """Train by plain SGD on this rank's batches. Returns the loss of each step, the mean over all ranks."""
    raise NotImplementedError("exercise 41.3: Step together")


# %%
def try_tape():
    begin(tf.config.list_physical_devices("GPU"))

    def train(net, part):
        return by_tape(net, part.batch(images_per_rank))

    return lab41.expect_as_one_process(train, images_per_rank, rate_per_rank)


# What is asked: after two steps the net of one process that has all images, and its losses.
with check("41.3"):
    weights = launch.run(try_tape, ranks=few, timeout=patience)
    expect.close(weights, weights[:1] * few, "Sum of the weights by rank, after two steps")


# %% [markdown]
# ### Exercise 41.4 · The same in fit, saved once
# Keras' `fit` hides the loop, so the additions go into what it is given. Three functions, 4 + 2 + 1 lines.
#
# `fit`: the optimizer goes through `hvd_keras.DistributedOptimizer(optimizer)`, which applies mean gradients.
# Two callbacks (objects whose methods `fit` calls before and after each step and epoch) do the rest. Both are
# in `hvd_keras.callbacks`: `BroadcastGlobalVariablesCallback(0)` gives all ranks the variables of rank 0,
# `MetricAverageCallback()` averages the losses. `net.fit(…)` returns an object; return its `.history`.
#
# `save`: `net.save(path)` writes net, optimizer and loss to one file. Two ranks at once would spoil it.
#
# `resume`: every rank reads, with `hvd_keras.load_model(path)`. In the file the optimizer is a plain one, so
# that a machine without Horovod can read it too. `hvd_keras.load_model` wraps it again; Keras' own
# `load_model` leaves it plain.
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
    """Compile net, fit it by plain SGD on all ranks. more: further callbacks. settings: for net.fit.

    Returns the dict {"loss": [mean over the ranks, one number for each epoch]}.
    """
    raise NotImplementedError("exercise 41.4: The same in fit, saved once")


# %%
def save(net, path):
    """Write the compiled net with its optimizer to path: once for all ranks."""
    raise NotImplementedError("exercise 41.4: The same in fit, saved once")


def resume(path):
    """Returns the net that `save` wrote, ready to train on with all ranks."""
    raise NotImplementedError("exercise 41.4: The same in fit, saved once")


# %%
def try_equal_nets(net, part):
    """Nets that begin equal: fit returns its history, calls further callbacks, and trains as one process."""
    seen = lab41.steps_seen()
    history = fit(net, seen, x=part.batch(images_per_rank), shuffle=False, verbose=0)
    is_history = isinstance(history, dict) and "loss" in history
    kind = type(history).__name__
    expect(is_history, f"fit returned a {kind}, not the dict .history of what net.fit returns.")
    expect(seen.steps, "fit got one more callback, which was never called: `more` belongs into the list.")
    return history["loss"]


# %%
def try_save(net, settings):
    """Who writes; the steps that are forgotten by resume; the first weights after one more epoch."""
    own = checkpoint.with_name(f"try{hvd.rank()}.keras")  # a file name for each rank: that shows who writes
    own.unlink(missing_ok=True)
    with lab41.on_a_node(local_rank=0, local_size=1):  # each rank on a node of its own
        save(net, own)
    # Across ranks: this also waits until the file is there.
    wrote = [rank for rank, exists in enumerate(hvd.allgather_object(own.exists())) if exists]
    expect(wrote == [0], f"Ranks that wrote the checkpoint: {wrote}. All hold the same: rank 0 is enough.")
    again = resume(own.with_name("try0.keras"))
    nothing = f"resume returned nothing on rank {hvd.rank()}"
    expect(again is not None, f"{nothing}. Every rank reads the file, and returns the net.")
    expect(again.optimizer, "The net came back without its optimizer: it cannot train on.")
    forgotten = int(net.optimizer.iterations) - int(again.optimizer.iterations)
    again.fit(**settings)
    return forgotten, again.get_weights()[0]


# %%
def try_fit():
    begin(tf.config.list_physical_devices("GPU"))
    lab41.expect_as_one_process(try_equal_nets, images_per_rank, rate_per_rank)
    rows = slice(hvd.rank(), None, 20)
    settings = {"x": digits.train_x[rows], "y": digits.train_y[rows], "verbose": 0}
    net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))  # once more, from unequal nets
    fit(net, **settings)
    return net.get_weights()[0], *try_save(net, settings)


# What is asked: as one process; all go on with rank 0's net; one file; after resume, nets that stay equal.
with check("41.4"):
    fitted, forgotten, resumed = zip(*launch.run(try_fit, ranks=few, timeout=patience), strict=True)
    expect(np.ptp(fitted, axis=0).max() < 1e-6, "Unequal nets stay unequal: which callback sends rank 0's?")
    away = [float(np.abs(fitted[0] - nets.start_weights(seed)[0]).sum()) for seed in range(few)]
    expect.equal(away.index(min(away)), 0, "the rank whose net all ranks go on with")
    expect.equal(forgotten, (0,) * few, "steps that the optimizer has forgotten after resume, by rank")
    expect(np.ptp(resumed, axis=0).max() < 1e-6, "Unequal nets after resume: its optimizer averages nothing.")

# %% [markdown]
# ## Put together
# One process, the tape, and `fit`; and `fit` once more, without `begin_equal` before it. Its callback sends
# rank 0's variables only *after the first step*, when the optimizer has made all of its own.
#
# ### Predict
# All ranks begin with other random weights, and nobody calls `begin_equal`. In how many steps of `fit` do the
# ranks compute the gradients of different nets? How many different nets are there at the end, on 4 ranks?

# %%
predict("41.4", steps_with_different_nets=..., nets_at_the_end=...)  # two numbers


# %%
def train_in_fit(part, steps, equal):
    """fit on all ranks, from other weights on each. Returns the net, its history, and its steps as seen."""
    net = nets.keras_digits(nets.start_weights(seed=hvd.rank()))
    if equal:
        begin_equal(net, keras.optimizers.SGD())
    seen = lab41.steps_seen()
    history = fit(net, seen, x=part, epochs=epochs, steps_per_epoch=steps, shuffle=False, verbose=0)
    return net, history["loss"], seen


# %%
def train():
    """Losses by step of one process, the tape, fit, fit without begin_equal; more that tells of the nets."""
    # Across ranks: find the others, own device, the global batch and its rate.
    begin(tf.config.list_physical_devices("GPU"))
    tf.config.experimental.enable_tensor_float_32_execution(False)  # on a GPU too: all 24 bits of float32
    batch = images_per_rank * hvd.size()
    many = max(len(digits.train_x), batch)  # a large job takes some digits twice
    rows = np.ravel([data.batches(many, batch, epoch, seed=0) for epoch in range(epochs)]) % len(
        digits.train_x
    )
    dataset = tf.data.Dataset.from_tensor_slices((digits.train_x[rows], digits.train_y[rows]))
    step = make_step(nets.keras_digits(), keras.optimizers.SGD(rate_per_rank * hvd.size()))
    losses = {"one process": [float(step(images, labels)) for images, labels in dataset.batch(batch)]}
    first = nets.keras_digits(nets.start_weights(seed=hvd.rank()))
    begin_equal(first, keras.optimizers.SGD())
    losses["tape"] = by_tape(first, my_part(dataset))
    steps = len(rows) // batch // epochs
    net, history, seen = train_in_fit(my_part(dataset), steps, equal=True)
    late, _, seen_late = train_in_fit(my_part(dataset), steps, equal=False)
    save(net, checkpoint)
    losses |= {"fit": seen.losses(), "fit, callback alone": seen_late.losses()}
    return losses, history, sum(seen_late.unequal()), late.get_weights()[0].sum()


# %%
results = launch.run(train, ranks=ranks, timeout=2 * patience)
losses, history, different, _ = results[0]
alone = losses["one process"]
means = np.reshape(alone, (epochs, -1)).mean(axis=1)  # fit reports the mean over the steps of an epoch
tape_off = np.abs(np.divide(losses["tape"], alone) - 1).max()
fit_off = np.abs(np.divide(history, means) - 1).max()
print(f"{ranks} ranks, loss off one process's by at most {tape_off:.1e} (tape) and {fit_off:.1e} (fit) of it")
expect(tape_off < 1e-5, f"The tape is not one process: {lab41.suspect(losses['tape'], alone)}")
expect(fit_off < 1e-5, f"fit is not one process (a loss is of an epoch): {lab41.suspect(history, means)}")
record.add("training", ranks_used=ranks, loss=alone[-1], difference_tape=tape_off, difference_fit=fit_off)
curves = {name: curve[:12] for name, curve in losses.items()}
plots.loss(curves, title=f"One process, and {ranks} ranks: the first 12 steps", name="first steps")
at_the_end = len({round(float(weights), 3) for *_, weights in results})
predict.compare("41.4", steps_with_different_nets=different, nets_at_the_end=at_the_end)


# %% [markdown]
# **Explain.** Three curves lie on each other: many ranks compute what one process computes, up to the last
# bits. The fourth, *callback alone*, was wrong in one step. Each rank computed gradients of its own net, and
# their mean is the gradient of no net at all; then all got rank 0's variables, and went on equal.
#
# Does one bad step matter?
# <details><summary>Answer</summary>
#
# Here it costs less than one step: the fourth curve lags behind by that much. It matters after `resume`, when
# rank 0 has a net that took days, and the others have random ones: their gradients spoil it. And nobody is
# told, since the loss falls anyway.
# </details>
#
# A third callback, `LearningRateWarmupCallback`, raises the learning rate step by step from that of one rank
# to that of all, for nets which a large rate throws far off at first. Lab 34 says when it is worth it.

# %% [markdown]
# ## How fast? ResNet-50
# The digits' net is so small that ranks only cost time. What they are for, shows a net that computes for
# long: ResNet-50 of `keras.applications`, with random weights and *synthetic* pictures, random numbers made
# once, so that no disk takes part. Horovod's own benchmark does the same, and so do most published figures.
#
# A step computes for each picture, and averages the gradients of 25.6 million weights, 4 bytes each. Smaller
# pictures save computing, but not one byte of gradients:
#
# | side of a picture (pixels) | computing for it | gradients of a step |
# |---|---|---|
# | 224, on a GPU here | 1 | all |
# | 64, on a CPU here | 1/12, as (64 / 224)² | all |
#
# ### Exercise 41.5 · ResNet-50 on all ranks
# *(must do on the 90-minute track)* All that Horovod needs, in one function. For one process it would be:
#
#     step = make_step(net, keras.optimizers.SGD(rate_per_rank))
#     return lambda: float(step(pictures, labels))
#
# (`float` waits for the number: on a GPU, `step` returns before the work is done.) Write it for all ranks:
# the learning rate grows with them, all begin with rank 0's variables (`begin_equal`), and each step waits
# for the mean gradients (`hvd.DistributedGradientTape`).
#
# Then `job_rate`. In a step each rank trains `images` pictures. `took` is the Measurement of a step, and
# `took.rate(work)` is work per second. How many images per second does the whole job train? 4 + 1 lines.
#
# <details><summary>Hint 1: in which order?</summary>
#
# Make the optimizer; then `begin_equal(net, optimizer)`; then the step, with the tape's class as its third
# argument. A step of the job trains `images` pictures on each of `hvd.size()` ranks.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `optimizer = keras.optimizers.SGD(rate_per_rank * hvd.size())`, `begin_equal(net, optimizer)`,
# `step = make_step(net, optimizer, hvd.DistributedGradientTape)`, and the last line as above. For the rate:
# `return took.rate(images * hvd.size())`.
# </details>

# %%
def step_of_all(net, pictures, labels):
    """Returns step() -> loss, a float: one training step of all ranks, each on a batch of its own.

    Before its first step all nets are rank 0's.
    """
    raise NotImplementedError("exercise 41.5: ResNet-50 on all ranks")


def job_rate(took, images):
    """took: Measurement of a step. images: pictures of each rank in it. Returns images/s of all ranks."""
    raise NotImplementedError("exercise 41.5: ResNet-50 on all ranks")


# %%
def try_two_steps(net, part):
    """Two steps on one batch, of the digits' net in place of ResNet-50."""
    images, labels = next(iter(part.batch(images_per_rank)))
    step = step_of_all(net, images, labels)
    expect(callable(step), "step_of_all returns a function without arguments, which makes one step.")
    losses = [step(), step()]
    kind = type(losses[0]).__name__
    expect(
        isinstance(losses[0], float), f"step() returns a {kind}: float(…) waits for it and makes a number."
    )


# %%
def try_step_of_all():
    """Nets that differ by rank become one; and the images/s of steps that take half a second."""
    begin(tf.config.list_physical_devices("GPU"))
    same_batch = {"batches": (0, 0), "equal": False, "reports": False}
    lab41.expect_as_one_process(try_two_steps, images_per_rank, rate_per_rank, **same_batch)
    with lab41.on_a_node(local_rank=0, local_size=1):
        return job_rate(timing.Measurement(np.full(5, 0.5)), images=10)


# What is asked: two steps as of one process, from unequal nets; and the images/s of all ranks together.
with check("41.5"):
    rates = launch.run(try_step_of_all, ranks=few, timeout=patience)
    slips = {"that is what one rank trains, not the job": [20.0] * few}
    subject = f"Images/s, by rank, of {few} ranks with 10 pictures each in half a second"
    expect.close(rates, [20.0 * few] * few, subject, slips=slips)

# %% [markdown]
# ### Predict
# (a) How many megabytes (10⁶ bytes) of gradients does a rank give to Horovod in a step? (b) As many ranks as
# this machine has cores (or GPUs), one thread each: how many times the images per second of one rank alone?

# %%
predict("41.5", megabytes=..., times_one_rank=...)  # two numbers


# %% [markdown]
# ### Measure
# After each step of all ranks comes one of rank 0 alone, without Horovod, while the others sleep. That is the
# control, on the same machine, in the same minute. About a minute on two cores, most of it before the first
# step: TensorFlow turns 175 layers and their gradients into a graph, once with Horovod and once without.

# %%
def measure(comm, images, control):
    """On all ranks: facts of a step of all ranks; with `control`, beside the same step of rank 0 alone."""
    gpus = tf.config.list_physical_devices("GPU")
    begin(gpus)
    tf.config.experimental.enable_tensor_float_32_execution(True)  # TensorFlow's own choice, on GPUs
    net, batch, labels = lab41.network(network, sides[bool(gpus)], images)
    step = step_of_all(net, batch, labels)
    facts = {"network": network, **lab41.facts(comm, net, batch, len(gpus))}
    if control:
        # Learning rate 0: rank 0 computes all of a step, and its net stays the net of all ranks.
        plain = make_step(net, keras.optimizers.SGD(0.0))
        alone = lab41.on_rank_0(comm, lambda: float(plain(batch, labels)))
        # alone / step: the share of its own speed that a rank keeps among the others.
        facts["kept"] = timing.ratio(alone, step, comm=comm, repeat=repeat, warmup=2)
        facts["step"] = facts["kept"].b
    else:
        facts["step"] = timing.measure(step, comm=comm, repeat=repeat, warmup=2)
    return facts | {"rate": job_rate(facts["step"], images)}


# %%
gpus = len(tf.config.list_physical_devices("GPU"))
images = pictures[bool(gpus)]
workers = launch.ranks_here(max(2, min(most, gpus or world.cores())))
# Across ranks: every rank has the same facts, as the time of a step is the slowest rank's.
of_all = launch.run(measure, images, control=True, ranks=workers, timeout=600)[0]
kept = of_all["kept"]
print(
    f"{network}, {of_all['side']} × {of_all['side']} pixels, {images} pictures a rank, on {of_all['device']}"
)
print(f"1 rank alone: {images / kept.a.median:.1f} images/s. Its step takes {kept.a}")
print(f"{workers} ranks: {of_all['rate']:.1f} images/s. Their step takes {kept.b}")
print(f"Share of its own speed that a rank keeps: {kept}")
print(lab41.crowding(of_all["place"]))
times_one_rank = workers * kept.median
predict.compare("41.5", megabytes=of_all["gradient_bytes"] / 1e6, times_one_rank=times_one_rank)

# %%
lab41.keep(of_all)  # a record, of which `make scaling` makes a table
lab41.show_rates(of_all)

# %% [markdown]
# **Explain.** (a) 25.6 million weights of 4 bytes are 102 MB, in every step, on every rank.
#
# (b) On two cores you should see between 1.2 and 1.8 times. A rank gives up a part of its own speed: for the
# sums of 102 MB, which MPI computes on the same cores; for waiting until the slowest rank is there; and for
# the memory, which all share. You may see instead: less than 1, if other programs want the cores, or if two
# "cores" are two threads of one (`make doctor` says what is here). "do not quote" means the same: run the
# cell again. If ranks share a core, they take turns, and nothing can be gained: the last line says so.
#
# Will a rank keep more or less of its speed with larger pictures? Change `sides` to `(128, 224)`, and see.
# <details><summary>Answer</summary>
#
# More. A picture of 128 × 128 pixels takes four times the computing, and the gradients stay 102 MB. More
# pictures in a step do the same. So a figure of images per second says little without net, pictures and
# batch. And the faster a GPU computes its step, the faster a network it needs.
# </details>
#
# ## Ranks or threads?
# Two cores can serve two ranks, or two threads of one rank. TensorFlow has two pools of threads. **Intra-op**
# threads share the work of one operation, such as a large product of matrices. **Inter-op** threads run
# operations that do not need each other's results.
#
# Intel's guide for TensorFlow on CPUs ("Maximize TensorFlow Performance on CPU", 2019 to 2022) says for one
# process on a machine: intra-op threads = physical cores of a socket, inter-op threads = sockets. Several
# ranks share the cores: each gets its part of them, and 1 or 2 inter-op threads. Intel's own script that
# trains ResNet-50 starts one rank on each socket, with 4 intra-op threads fewer than it has cores, and 2
# inter-op threads: that leaves cores to Horovod's thread and MPI.
#
# `launch.run(threads=…)` sets `TF_NUM_INTRAOP_THREADS` and `TF_NUM_INTEROP_THREADS` for each rank; `env=`
# overrules. In a script of your own, `tf.config.threading.set_intra_op_parallelism_threads(n)` does it, and
# the same with `inter`; both before the first tensor.
#
# ### Predict
# The same pictures in a step, on all cores: images per second of a rank on each core, over those of one rank
# with a thread on each core?

# %%
predict("41.5", ranks_over_threads=...)  # a number

# %% [markdown]
# ### Measure
# One rank with all the pictures and a thread for each core. Half a minute. (Under a launcher, or on GPUs,
# there is nothing to choose here.)

# %%
cores = world.cores()
if world.launcher() or gpus or cores < 2 or workers != cores:
    print("Nothing to compare: it takes 2 or more cores, no GPU, a rank for each core, and ranks of our own.")
else:
    ways = {f"{workers} ranks × 1 thread": of_all}
    for inter in inter_op:
        env = {"TF_NUM_INTEROP_THREADS": str(inter)}
        options = {"ranks": 1, "threads": cores, "env": env, "timeout": 600}
        way = launch.run(measure, images * workers, control=False, **options)[0]
        ways[f"1 rank × {cores} threads, inter-op {inter}"] = way
    lab41.show_ways(ways)
    best = max(way["rate"] for way in list(ways.values())[1:])
    predict.compare("41.5", ranks_over_threads=of_all["rate"] / best)

# %% [markdown]
# **Explain.** The threads of a rank share every operation, and wait for one another at the end of each, some
# thousand times in a step; small operations have too little work for two. Ranks meet once in a step. But they
# pay with 102 MB of sums, and with memory: each has the whole net. Which costs more depends on net, pictures
# and machine: measure. On Skylake nodes several ranks trained ResNet-152 up to 1.47 times as fast as one
# (Jain and others, IEEE Cluster 2019).
#
# Both bars have a spread. Where they overlap, or a step is not to be quoted, nothing was shown: something
# else ran on these cores. Run both cells again.
#
# Why does Intel's script leave four cores of a socket to nobody?
# <details><summary>Answer</summary>
#
# They are not idle. Horovod has a thread of its own, which looks for finished gradients every millisecond and
# calls MPI; MPI sums and copies. On a core of their own they do not interrupt the threads that compute.
# </details>
#
# ## On several nodes
# `make scaling LAB=41 NODES=1,2,4` submits this lab once for each number of nodes, and `make scaling LAB=41`
# shows the table when the jobs have ended: the row `weak` has a step's time, speed-up and efficiency. Without
# a cluster, `make tabletop NODES=2` starts a small one here. Its nodes share this machine's cores, so it
# cannot be faster than one: it shows that the same file runs on many nodes.

# %%
lab41.show_study()

# %% [markdown]
# ### What you take away
# - The five additions of lab 40; `fit` takes them as an optimizer and two callbacks.
# - A Keras optimizer has no momentum before its first step: build, then broadcast. The callback is late.
# - Images per second of a job: all ranks' images over the time of the slowest. Say what one rank does alone.
# - Small pictures and large gradients: communication shows. Ranks or threads: measure.
# - `make run LAB=41 NP=4` runs this file under `mpiexec`. Next: how far it scales (50).

"""The checks of lab 11."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from labkit import check, expect, nets


@check.exercise("11.1")
def step_with_a_tape(train_step, steps, torch_curve, batch, learning_rate, digits):
    """You return the loss of each step before its update, the given optimizer makes the updates,
    and the losses are those of PyTorch's curve. As a graph, the step takes any number of images.
    """
    net = nets.keras_digits()
    optimizer = keras.optimizers.SGD(learning_rate)
    images, labels = steps[0]
    as_probabilities = keras.losses.SparseCategoricalCrossentropy()(labels, net(images))
    first = steps[:12]
    eager = [train_step(net, optimizer, images, labels) for images, labels in first]
    expect(
        tf.is_tensor(eager[0]) and eager[0].ndim == 0, "Return the loss, one tensor without axes."
    )
    slips = {
        "The loss took logits for probabilities: from_logits=True": as_probabilities,
        "This is the sum over the images, not the mean": batch * torch_curve[0],
    }
    expect.close(eager[0], torch_curve[0], "the loss of step 1, before its update", slips=slips)
    expect(not net.compiled, "Write the step with tf.GradientTape, without net.compile.")
    moved = np.any(net.get_weights()[0] != nets.start_weights()[0])
    expect(moved, "The weights do not move: apply the gradients to net.trainable_variables.")
    made = int(optimizer.iterations)
    once = "call apply_gradients of the given `optimizer` once in each step"
    expect(made == len(first), f"{len(first)} steps, {made} updates by the optimizer: {once}.")
    beside = f"the losses of {len(first)} steps (does each weight get its own gradient?)"
    expect.close(eager, torch_curve[: len(first)], beside, rtol=5e-6)
    images, labels = digits.train_x[: batch + 72], digits.train_y[: batch + 72]
    net = nets.keras_digits()
    want = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))
    optimizer = keras.optimizers.SGD(learning_rate)
    with check.case(f"as a graph, with {len(images)} images"):
        got = tf.function(train_step)(net, optimizer, images, labels)
        expect.close(got, want, "the loss (is a number of images in your code?)")


@check.exercise("11.2")
def one_graph(make_step, train_step, digits):
    """Each call's loss and update is right, at any rate and size, and Python runs once for all of
    them.
    """
    given = nets.keras_digits()
    twin = nets.keras_digits()
    traced = []  # the calls in which Python runs; 0: in make_step
    call = 0
    forward = given.call

    def note_and_call(*inputs, **options):
        traced.append(call)
        return forward(*inputs, **options)

    given.call = note_and_call
    step = make_step(given)
    expect(callable(step), f"make_step returned {step}. Return the step, a function.")
    calls = [(128, 0.2), (128, 0.1), (128, 0.05), (37, 0.05), (1, 0.2), (128, 0.2)]
    ask = {
        1: "the mean over the images, from logits, before the update",
        2: "does call 1 change each weight by rate * gradient?",
    }
    later = "is the rate of the call before in the graph, or a number of images?"
    for call, (size, rate) in enumerate(calls, 1):
        images, labels = tf.constant(digits.train_x[:size]), tf.constant(digits.train_y[:size])
        try:
            got = step(images, labels, rate)
        except TypeError as error:
            kinds = f"float32 images {images.shape}, int64 labels {labels.shape}, the rate {rate}"
            expect("Can not cast" not in str(error), f"input_signature does not allow {kinds}.")
            raise
        expect(traced, "Your net was not called: step works with the net that make_step is given.")
        want = train_step(twin, keras.optimizers.SGD(rate), images, labels)
        expect.close(got, want, f"loss of call {call} ({ask.get(call, later)})")
    expect(
        len(traced) < 6, "Python ran in each of 6 calls: step must be one tf.function, made once."
    )
    whole = hasattr(step, "experimental_get_tracing_count")
    expect(whole, "`step` itself must be the tf.function, so that all of the step is in a graph.")
    expect(
        len(traced) == 1, f"Traced in calls {traced}; 2 and 3 bring a new rate, 4 and 5 a new size."
    )
    used = step.get_concrete_function(images, labels, rate).variables
    expect(
        len(used) == len(given.variables),
        "The graph uses more variables than the weights of the net: update the weights by hand,"
        " without an optimizer.",
    )


@check.exercise("11.3")
def curve_from_fit(fit_losses, orders, torch_curve, epochs):
    """The losses are PyTorch's, the mean over each epoch, from as many steps, made by fit. Your
    function gets the first two orders.
    """
    of_epochs = np.reshape(torch_curve, (epochs, -1))[:2]
    want = of_epochs.mean(axis=1)
    net = nets.keras_digits()
    fits = []
    fit = net.fit

    def note_and_fit(*inputs, **options):
        fits.append("a call")
        return fit(*inputs, **options)

    net.fit = note_and_fit
    got = fit_losses(net, orders[:2])
    expect(
        np.shape(got) == want.shape,
        f"One number for each of the {len(want)} `orders` that your function is given, not"
        f" {np.shape(got)}.",
    )
    expect(fits, "`fit` of the given net was never called; it is its losses that are asked for.")
    done = int(net.optimizer.iterations)
    one_epoch = done == of_epochs.shape[1] < of_epochs.size
    expect(
        not one_epoch,
        "The optimizer knows one epoch only: `compile` makes a new start, so do it once.",
    )
    expect(
        done == of_epochs.size,
        f"fit made {done} steps, not {of_epochs.size}: check batch_size, epochs and rows.",
    )
    off = abs(got[0] / want[0] - 1)
    expect(
        off < 0.05,
        f"Epoch 1: {got[0]:.4f}, not {want[0]:.4f}. Another loss (logits?), optimizer, rate or"
        " label, or a loss that fit did not report.",
    )
    expect.close(got[0], want[0], "the loss of epoch 1 (does fit shuffle your order?)", rtol=1e-5)
    expect.close(got, want, "the losses of all epochs (each in its own order?)", rtol=1e-5)

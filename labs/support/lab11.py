"""The checks of lab 11."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from labkit import check, expect, nets


@check.exercise("11.1")
def step_with_a_tape(train_step, steps, torch_curve, batch, learning_rate):
    """You return the loss of each step before its update, the given optimizer makes the updates,
    and the losses are those of PyTorch's curve.
    """
    net = nets.keras_digits()
    optimizer = keras.optimizers.SGD(learning_rate)
    images, labels = steps[0]
    as_probabilities = keras.losses.SparseCategoricalCrossentropy()(labels, net(images))
    eager = [train_step(net, optimizer, images, labels) for images, labels in steps]
    expect(
        tf.is_tensor(eager[0]) and eager[0].ndim == 0, "Return the loss, one tensor without axes."
    )
    slips = {
        "The loss took logits for probabilities: from_logits=True": as_probabilities,
        "This is the sum over the images, not the mean": batch * torch_curve[0],
    }
    expect.close(eager[0], torch_curve[0], "the loss of step 1, before its update", slips=slips)
    moved = np.any(net.get_weights()[0] != nets.start_weights()[0])
    expect(moved, "The weights do not move: apply the gradients to net.trainable_variables.")
    made = int(optimizer.iterations)
    use = "use the given `optimizer`, its apply_gradients"
    expect(made == len(steps), f"{len(steps)} steps, {made} updates by the optimizer: {use}.")
    expect.close(
        eager[:12], torch_curve[:12], "the losses of 12 steps, beside PyTorch's", rtol=5e-6
    )
    expect.close(eager, torch_curve, "the losses of all steps, beside PyTorch's", rtol=1e-5)
    few, labels = images[: batch // 2], labels[: batch // 2]
    net = nets.keras_digits()
    want = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(few))
    got = train_step(net, keras.optimizers.SGD(learning_rate), few, labels)
    expect.close(got, want, f"the loss of {len(few)} images (is a number of images in your code?)")


@check.exercise("11.2")
def one_graph(make_step, train_step, digits):
    """Each call's loss and update is right, at any rate and size, and Python runs once for all of
    them.
    """
    given = nets.keras_digits()
    twin = nets.keras_digits()
    step = make_step(given)
    expect(callable(step), f"make_step returned {step}. Return the step, a function.")
    traced = []  # the calls in which Python runs
    forward = given.call

    def note_and_call(*inputs, **options):
        traced.append(call)
        return forward(*inputs, **options)

    given.call = note_and_call
    calls = [(128, 0.2), (128, 0.1), (128, 0.05), (37, 0.05), (1, 0.2), (128, 0.2)]
    ask = {
        1: "the mean over the images, before the update",
        2: "does call 1 change each weight by rate * gradient?",
    }
    later = "is the rate of the call before in the graph, or a number of images?"
    for call, (size, rate) in enumerate(calls, 1):
        images, labels = digits.train_x[:size], digits.train_y[:size]
        got = step(images, labels, rate)
        expect(traced, "Your net was not called: step works with the net that make_step is given.")
        want = train_step(twin, keras.optimizers.SGD(rate), images, labels)
        expect.close(got, want, f"loss of call {call} ({ask.get(call, later)})")
    expect(
        len(traced) < 6, "Python ran in each of 6 calls: step must be one tf.function, made once."
    )
    whole = hasattr(step, "experimental_get_tracing_count")
    expect(whole, "Only a part of the step is in a graph: `step` itself must be the tf.function.")
    expect(
        len(traced) == 1, f"Traced in calls {traced}; 2 and 3 bring a new rate, 4 and 5 a new size."
    )


@check.exercise("11.3")
def curve_from_fit(fit_losses, orders, torch_curve, steps):
    """The losses are PyTorch's, the mean over each epoch, from as many steps, made by fit."""
    epochs = len(orders)
    net = nets.keras_digits()
    fits = []
    fit = net.fit

    def note_and_fit(*inputs, **options):
        fits.append("a call")
        return fit(*inputs, **options)

    net.fit = note_and_fit
    got = fit_losses(net, orders)
    want = np.reshape(torch_curve, (epochs, -1)).mean(axis=1)
    expect(
        np.shape(got) == (epochs,),
        f"One number for each epoch, please: {epochs}, not {np.shape(got)}.",
    )
    expect(fits, "`net.fit` was never called; it is its losses that are asked for.")
    done = int(net.optimizer.iterations)
    one_epoch = done < len(steps) and done == len(steps) // epochs
    expect(
        not one_epoch,
        "The optimizer knows one epoch only: `compile` makes a new start, so do it once.",
    )
    expect(done == len(steps), f"fit made {done} steps: which batch_size?")
    off = abs(got[0] / want[0] - 1)
    expect(
        off < 0.05,
        f"Epoch 1: {got[0]:.4f}, not {want[0]:.4f}. Another loss (logits?), optimizer, rate or"
        " label.",
    )
    expect.close(got[0], want[0], "the loss of epoch 1 (does fit shuffle your order?)", rtol=1e-5)
    expect.close(got, want, "the losses of all epochs (each in its own order?)", rtol=1e-5)

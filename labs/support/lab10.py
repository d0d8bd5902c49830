"""The checks of lab 10, and its table of a step's parts."""

from __future__ import annotations

from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from labkit import check, expect

RATE = 0.3  # of the optimizer in the check of 10.3; the notebook has another


def slopes(loss, array, h=1e-5):
    """Finite differences: how much `loss(array)` changes when one entry at a time moves by h, both
    ways."""
    moves = h * np.eye(array.size).reshape(-1, *array.shape)
    changes = [loss(array + move) - loss(array - move) for move in moves]
    return np.reshape(changes, array.shape) / (2 * h)


def softmax(z):
    """Probabilities from logits, row by row."""
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def wrong_gradients(name, images, labels, weights, bias, new_weights, slope, rate):
    """Mistake -> the gradient by weights or bias that it leads to."""
    count = len(images)
    before = images.T if name == "weights" else np.ones((1, count))

    def gradient(p, y):
        return (before @ (p - y) / count).reshape(slope.shape)

    y = np.eye(4)[labels]
    slips = {
        f"The {name} went uphill: p - y, and subtract": -slope,
        f"The {name} followed the gradient of the sum. Divide by N": count * slope,
        "d is already divided by N: sum its rows": slope / count,
        "You divide by 128. Divide by the number of images, len(images)": count * slope / 128,
        "The logits are images @ weights + bias; the bias is missing": gradient(
            softmax(images @ weights), y
        ),
        "y is missing: d is (p - y) / N": gradient(softmax(images @ weights + bias), 0),
        "The gradient is right, but the step does not use learning_rate": slope / rate,
        "The step uses a rate of 0.2, not learning_rate": 0.2 * slope / rate,
    }
    if name == "bias":
        late = gradient(softmax(images @ new_weights + bias), y)
        slips["Compute d once, with the weights from before the step"] = late
    return slips


def expect_move(step, net, twin, before, older, count):
    """The weights moved by RATE times the gradient of this step's loss, of `count` images. older:
    gradients of steps before."""
    moved = torch.cat(
        [(old - new).flatten() for old, new in zip(before, net.parameters(), strict=True)]
    )
    expect(
        moved.any(),
        "The weights do not move: backward, then optimizer.step(), and clear before both.",
    )
    gradient = torch.cat([weight.grad.flatten() for weight in twin.parameters()])
    right = RATE * gradient
    slips = {
        f"this is {count} times the right one: backward of the mean loss, not of the sum": (
            count * right
        ),
        "the update was made twice": 2 * right,
    }
    if older is not None:
        added = "gradients of the steps before are still in .grad: clear them first"
        slips[added] = RATE * (gradient + older)
    what = f"how far step {step} moved the weights"
    expect.close(moved, right, what, rtol=1e-3, atol=1e-6, slips=slips)
    return gradient if older is None else older + gradient


@check.exercise("10.1")
def loss_of_a_batch(cross_entropy):
    """One number for a batch, PyTorch's own loss of it, with small logits and with large ones."""
    referee = F.cross_entropy  # PyTorch's

    def not_this(*inputs, **options):
        """In PyTorch's place while yours is checked."""
        expect(False, "Write the loss with NumPy: the check compares it with PyTorch's own.")

    theirs = {"cross_entropy": not_this, "nll_loss": not_this}
    by_heart = "This is the sum divided by {}: divide by the number of images, len(labels)"
    with np.errstate(all="ignore"), mock.patch.multiple(F, **theirs):
        logits = np.random.default_rng(1).normal(size=(6, 4))
        labels = np.array([0, 3, 1, 2, 2, 0])
        got = cross_entropy(logits, labels)
        expect(got is not None, "cross_entropy returned None: is the `return` forgotten?")
        kind = np.asarray(got).dtype.kind
        whole = f"The loss has decimals, but yours is the integer {got!r}: do not round it."
        expect(np.ndim(got) > 0 or kind not in "iu", whole)
        number = np.ndim(got) == 0 and kind == "f"
        expect(number, f"A batch has one loss, a number. This is {got!r}.")
        before = np.random.default_rng(1).normal(size=(6, 4))
        why = "write `z = logits - …`: `-=` writes into the caller's array"
        expect.unchanged(before, logits, "The array of logits", because=why)
        expect.unchanged(np.array([0, 3, 1, 2, 2, 0]), labels, "The array of labels")
        alone = np.array([cross_entropy(logits[i : i + 1], labels[i : i + 1]) for i in range(6)])
        # A rounded loss is told below, by its digits.
        of_each = np.isclose(got, [alone.mean(), alone.sum()], rtol=0.01).any()
        expect(of_each, "The loss of an image depends on its batch: use one entry of its own row.")
        right = referee(torch.tensor(logits), torch.tensor(labels)).item()
        slips = {
            "This is -1 times the right loss: mind the minus": -right,
            "This is 6 times the right loss: mean, not sum": 6 * right,
            "This is 0.25 times the right loss: divide by images only": right / 4,
            **{by_heart.format(number): 6 * right / number for number in (4, 10, 128)},
        }
        expect.close(got, right, "the loss", slips=slips)
        sure = referee(torch.tensor(1000 * logits), torch.tensor(labels)).item()
        expect.close(
            cross_entropy(1000 * logits, labels),
            sure,
            "logits near 1,000 (exp overflows? log of 0?)",
        )


@check.exercise("10.2")
def step_by_hand(sgd_step, cross_entropy):
    """The caller's arrays move against the gradient, which finite differences of your loss give."""

    def expect_step(images, labels, weights, bias, rate):
        """One step of yours, beside the finite differences."""
        new_weights = weights.copy()
        new_bias = bias.copy()
        given = (images.copy(), labels.copy())
        sgd_step(new_weights, new_bias, *given, rate)
        expect.unchanged((images, labels), given, "The array of images or of labels")
        by_weights = slopes(lambda array: cross_entropy(images @ array + bias, labels), weights)
        by_bias = slopes(lambda array: cross_entropy(images @ weights + array, labels), bias)
        for name, before, after, slope in (
            ("weights", weights, new_weights, by_weights),
            ("bias", bias, new_bias, by_bias),
        ):
            used = (before - after) / rate
            missing = f"The caller's {name} did not change: write into the array with `-=`."
            if name == "bias":
                missing += " (Or did you sum all of d, which is 0? Sum over the rows only, axis=0.)"
            expect(used.any(), missing)
            slips = wrong_gradients(name, images, labels, weights, bias, new_weights, slope, rate)
            what = (
                f"the gradient by {name}, {len(images)} images, rate {rate} (expected: finite"
                " differences)"
            )
            expect.close(used, slope, what, slips=slips)

    with np.errstate(all="ignore"):
        rng = np.random.default_rng(2)
        images = rng.normal(size=(6, 5))
        labels = np.array([0, 3, 1, 2, 2, 0])
        weights = rng.normal(size=(5, 4))
        bias = rng.normal(size=4)
        expect_step(images, labels, weights, bias, rate=0.5)
        with check.case("where no image is of the last class"):
            expect_step(images[3:], labels[3:], weights, bias, rate=0.1)
        weights *= 1000
        before = weights.copy()
        right = images.T @ (softmax(images @ weights + bias) - np.eye(4)[labels]) / 6
        sgd_step(weights, bias, images, labels, 0.5)
        cure = "With logits of 1,000 exp overflows: take off each row's largest first."
        expect(np.isfinite(weights).all(), cure)
        expect.close(
            (before - weights) / 0.5,
            right,
            "the gradient by weights, logits near 1,000",
            because=cure,
        )


@check.exercise("10.3")
def step_in_pytorch(train_step, new_net, train_x, train_y):
    """Four steps: the loss before the update, one forward pass, and weights that move by rate times
    gradient.
    """
    net = new_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    passes = []  # forward passes: was the net in training mode?
    net.register_forward_hook(lambda net, *_: passes.append(net.training))
    made = []  # steps of the optimizer
    optimizer.register_step_post_hook(lambda *_: made.append("a step"))
    older = None
    for step, last in enumerate((16, 24, 32, 232), 1):
        images, labels = (part[8 * step : last].clone() for part in (train_x, train_y))
        given = (images.clone(), labels.clone())
        count = len(images)
        twin = new_net()  # has the weights before the step, and makes it by itself
        twin.load_state_dict(net.state_dict())
        before = [weight.detach().clone() for weight in net.parameters()]
        logits = twin(images)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        passes.clear()
        got = train_step(net, optimizer, *given)
        modes = tuple(passes)
        expect.unchanged((images, labels), given, "The tensor of images or of labels")
        alive = "Return loss.item(): a tensor keeps the recorded operations alive."
        expect(not torch.is_tensor(got), alive)
        slips = {
            "this is the sum of the losses, not their mean": count * loss.item(),
            "softmax twice: F.cross_entropy wants logits": (
                F.cross_entropy(logits.softmax(1), labels).item()
            ),
            "this is the loss after the update": F.cross_entropy(net(images), labels).item(),
        }
        expect.close(got, loss.item(), f"the loss of step {step}, {count} images", slips=slips)
        once = f"A step has one forward pass, but yours called the net {len(modes)} times."
        expect(len(modes) <= 1, once)
        expect(net.training, "Your step left the net in evaluation mode, where dropout is off.")
        trains = "Your step ran the forward pass in evaluation mode, where dropout is off."
        expect(all(modes), trains)
        older = expect_move(step, net, twin, before, older, count)
        by_another = "The weights moved rightly, but the given optimizer did not move them"
        expect(len(made) == step, f"{by_another}: call `optimizer.step()`, once in a step.")


@check.exercise("10.4")
def share_of_right_images(accuracy, new_net, test_x, test_y):
    """A plain number, a net in evaluation mode and not recorded, called once, and nothing
    changed.
    """
    probe = torch.nn.Sequential(torch.nn.Dropout(0.5), new_net())
    sum(weight.sum() for weight in probe.parameters()).backward()  # each gradient is 1
    calls = []  # of the probe: (dropout in training mode?, recorded?)
    probe.register_forward_hook(
        lambda net, _, out: calls.append((net[0].training, out.requires_grad))
    )
    for mode, count in ((True, len(test_y)), (False, 100)):
        images, labels = (part[:count].clone() for part in (test_x, test_y))
        given = (images.clone(), labels.clone())
        right = (probe[1](images).argmax(1) == labels).float().mean().item()
        calls.clear()
        probe.train(mode)
        got = accuracy(probe, *given)
        recording = torch.is_grad_enabled()
        torch.set_grad_enabled(True)  # in case that you have switched it off
        learning = all(weight.requires_grad for weight in probe.parameters())
        expect(
            len(calls) == 1, f"The net was called {len(calls)} times. One call does for all images."
        )
        training, recorded = calls[0]
        expect(not training, "The net was in training mode: dropout wiped out half of each image.")
        expect(
            not recorded,
            "Operations were recorded for a backward pass. Use torch.inference_mode().",
        )
        slips = {"this is in percent": 100 * right, "this counts the images": count * right}
        what = f"the accuracy, a share of the {count} images"
        expect.close(got, right, what, rtol=1e-6, slips=slips)
        expect(not torch.is_tensor(got), "Return a plain number, with .item(): this is a tensor.")
        expect.equal(probe.training, mode, "net.training after the call (leave it as it was)")
        inside = "The net has its mode again, but its layers do not. `net.train(mode)` sets both"
        expect(probe[0].training == mode, f"{inside}; `net.training = mode` sets no layer.")
        expect.unchanged((images, labels), given, "The tensor of images or of labels")
        kept = all(weight.grad is not None and weight.grad.all() for weight in probe.parameters())
        expect(kept, "Your call cleared the gradients, which the training might still need.")
        trains = recording and learning
        expect(
            trains, "After your call nothing can be trained: use `with torch.inference_mode():`."
        )


def print_parts(until):
    """Print the time of each call, and how much longer it takes than the call before it. until: the
    calls' measurements. Returns these differences, run by run, in microseconds."""
    parts = {}
    before = 0.0
    print("the call adds       it takes    longer by")
    for name, seconds in until.items():
        parts[name] = np.maximum(0, 1e6 * (seconds.samples - before))
        before = seconds.samples
        print(f"{name:15}  {1e6 * seconds.median:8.0f} µs  {np.median(parts[name]):8.0f} µs")
    return parts

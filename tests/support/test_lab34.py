"""labkit.large_batch: the gradient against PyTorch's, trainings, times, and answers written in other ways."""

from functools import partial

import numpy as np
import pytest
from labkit.errors import CheckFailed
from support.lab34 import training


def sgd(weights, gradients, state, rate):
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        state.m[i] = 0.9 * state.m[i] + rate * g
        w -= state.m[i]


def lars(weights, gradients, state, rate, trust=0.05, decay=1e-4, momentum=0.9):
    """LARS with its arrays changed in place, and the rate in the local rate."""
    for w, g, m in zip(weights, gradients, state.m, strict=True):
        local, pull = rate, 0.0
        size, slope = float((w**2).sum()) ** 0.5, float((g**2).sum()) ** 0.5
        if w.ndim == 2:
            pull = decay
            if size and slope:
                local = rate * trust * size / (slope + decay * size)
        m *= momentum
        m += local * (g + pull * w)
        w[...] = w - m


def lamb(weights, gradients, state, rate, decay=1e-4, betas=(0.9, 0.999), eps=1e-6):
    """LAMB with fading means in place."""
    one, two = betas
    for w, g, m, v in zip(weights, gradients, state.m, state.v, strict=True):
        m += (1 - one) * (g - m)
        v += (1 - two) * (g * g - v)
        step = m / (1 - one**state.t) / (np.sqrt(v / (1 - two**state.t)) + eps)
        if w.ndim == 2:
            step += decay * w
            norms = np.linalg.norm(w), np.linalg.norm(step)
            step *= norms[0] / norms[1] if all(norms) else 1
        w -= rate * step


def rate(step, batch, base, power, warm_up, epochs, images=1536, base_batch=32):
    per_epoch = images // batch
    peak = base * (batch / base_batch) ** power
    after = step - warm_up * per_epoch
    if after < 0:
        return peak + (peak - base) * after / (warm_up * per_epoch)
    return peak * np.cos(np.pi / 2 * after / ((epochs - warm_up) * per_epoch)) ** 2


def in_one(comm, weights, images, labels, update, state, rate):
    found = training.gradient(weights, images, labels)
    total = comm.allreduce(training.join(found)) / comm.size
    update(weights, training.cut(total, weights), state, rate=rate)


def test_right_answers_written_in_other_ways_pass():
    training.expect_rate(rate)
    training.expect_lars(lars)
    training.expect_lamb(lamb)
    for p in (1, 2, 3):
        training.expect_parallel(in_one, {"LARS": lars, "LAMB": lamb}, p)


def test_update_after_which_weights_are_averaged_is_told_apart():
    def late(comm, weights, images, labels, update, state, rate):
        update(weights, training.gradient(weights, images, labels), state, rate)
        for w in weights:
            w[...] = comm.allreduce(w) / comm.size

    training.expect_parallel(late, {"SGD": sgd}, 1)
    with pytest.raises(CheckFailed, match="own gradient"):
        training.expect_parallel(late, {"SGD": sgd}, 2)


def test_gradient_is_pytorchs():
    torch = pytest.importorskip("torch")
    images, labels, *_ = training.digits()
    weights = [torch.tensor(one, requires_grad=True) for one in training.start_weights(3)]
    values = torch.tensor(images[:32])
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        values = values.relu() @ matrix + bias
    torch.nn.functional.cross_entropy(values, torch.tensor(labels[:32])).backward()
    mine = training.gradient(training.start_weights(3), images[:32], labels[:32])
    for one, other in zip(mine, weights, strict=True):
        np.testing.assert_allclose(one, other.grad.numpy(), atol=1e-6)


def test_join_and_cut():
    weights = training.start_weights()
    again = training.cut(training.join(weights), weights)
    assert all(np.array_equal(one, other) for one, other in zip(weights, again, strict=True))
    assert sum(one.size for one in weights) == 17_290


def test_sweep_trains_and_survives_a_rate_that_is_too_high():
    found = training.sweep(
        {"good": (sgd, lambda *_: 0.05), "high": (sgd, lambda *_: 1e6)}, (64,), (0,), 3, 80
    )
    good, high = found["good"][64][0], found["high"][64][0]
    assert good.right > 85 > 30 > high.right
    assert high.epochs_to_goal is None
    assert 0 < good.epochs_to_goal <= 3
    assert training.sweep({"good": (sgd, lambda *_: 0.0)}, (64,), (0,), 1, 80)["good"][64][0].right < 30


def test_times():
    assert training.allreduce_seconds(1, "h100_ndr") == 0
    few, many = (training.allreduce_seconds(p, "h100_ndr") for p in (2, 48))
    assert 0 < few < many
    reached, never = training.Trained(99.0, 2.0), training.Trained(50.0, None)
    found = {
        "one": {32: [reached] * 3, 64: [reached, reached, never]},
        "other": {32: [never, never, reached]},
    }
    times = training.times_to_goal(found, {"one": 1e-3, "other": 1e-3}, 32, "h100_ndr")
    assert times["one"][32] == (pytest.approx(0.048), pytest.approx(0.096))
    epoch, goals = training.speed_ups(times, "one")
    assert epoch[32] == goals["one"][32] == 1 < epoch[64] < 2
    assert goals["one"][64] == pytest.approx(epoch[64])
    assert "other" not in goals
    assert set(training.step_times({"SGD": partial(sgd)}, 8)) == {"SGD"}

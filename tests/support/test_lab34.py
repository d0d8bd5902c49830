"""support.lab34: trainings, times, the cases of its checks, and answers written in other ways."""

from functools import partial

import numpy as np
import pytest
from labkit import expect, nets, virtual
from labkit.errors import CheckFailed, LabError
from support import lab34
from support.lab34 import times, training


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


def test_right_rates_written_in_another_way():
    for schedule in lab34.SCHEDULES:
        for step in schedule.steps():
            want = schedule.rate(step)
            assert rate(step, *schedule) == pytest.approx(want, rel=1e-9)
    assert all(not np.isclose(wrong, 0.0125) for wrong in schedule.slips(0).values() if wrong != want)


@pytest.mark.parametrize(("steps", "update"), [(lab34.lars_steps, lars), (lab34.lamb_steps, lamb)])
def test_right_optimizers_written_in_another_way(steps, update):
    for case in steps():
        for got, want in zip(case.walk(update), case.want, strict=True):
            expect.close(got, want, case.what, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("steps", [lab34.lars_steps, lab34.lamb_steps])
def test_each_mistake_of_an_optimizer_shows_in_some_step(steps):
    named = set()
    for case in steps():
        for step, want in enumerate(case.want):
            for sentence, wrong in case.slips(step).items():
                if not all(np.allclose(*pair, rtol=1e-6) for pair in zip(wrong, want, strict=True)):
                    named.add(sentence)
    assert named == set(steps()[0].slips(0))


def test_a_walk_keeps_the_gradients():
    def spoils(weights, gradients, state, rate, **options):
        gradients[0] += 1

    with pytest.raises(CheckFailed, match="The list of gradients was changed"):
        lab34.lars_steps()[0].walk(spoils)


def in_one(comm, weights, images, labels, update, state, rate):
    gradient = nets.gradient(weights, images, labels)
    total = comm.allreduce(nets.join(gradient)) / comm.size
    update(weights, nets.cut(total, weights), state, rate=rate)


def late(comm, weights, images, labels, update, state, rate):
    update(weights, nets.gradient(weights, images, labels), state, rate)
    for w in weights:
        w[...] = comm.allreduce(w) / comm.size


@pytest.mark.parametrize("p", [1, 3])
def test_three_steps_on_ranks_are_those_of_one_process(p):
    for step, like in ((in_one, True), (late, p == 1)):
        ranks = virtual.Cluster(nodes=p).run(lab34.three_steps, step, sgd).results
        for alone, gradient, weights in zip(
            lab34.one_process(sgd, p), ranks[-1].gradients, ranks[-1].weights, strict=True
        ):
            assert np.allclose(gradient[0], alone.gradient[0], atol=1e-10) == like
            assert np.allclose(weights[0], alone.after[0], atol=1e-6), "SGD may average afterwards"
            assert np.allclose(sum(own[0] for own in alone.own) / p, alone.gradient[0])
        assert len(ranks[0].calls) == 3 * (1 if step is in_one else len(lab34.start_weights()))


def test_update_gets_the_rate_and_a_list():
    def scaled(comm, weights, images, labels, update, state, rate):
        update(weights, nets.gradient(weights, images, labels), state, 2 * rate)

    def joined(comm, weights, images, labels, update, state, rate):
        update(weights, nets.join(nets.gradient(weights, images, labels)), state, rate)

    for step, sentence in (
        (scaled, "the schedule has scaled it"),
        (joined, "update takes a list of 10 arrays"),
    ):
        with pytest.raises(LabError, match=sentence):
            virtual.Cluster(nodes=1).run(lab34.three_steps, step, sgd)


def test_the_net():
    assert sum(w.size for w in lab34.start_weights()) == 17_290


def test_sweep_trains_and_survives_a_rate_that_is_too_high():
    trained = training.sweep(
        {"good": (sgd, lambda *_: 0.05), "high": (sgd, lambda *_: 1e6)}, (64,), (0,), 3, 80
    )
    good, high = trained["good"][64][0], trained["high"][64][0]
    assert good.right > 85 > 30 > high.right
    assert high.epochs_to_goal is None
    assert 0 < good.epochs_to_goal <= 3
    assert training.sweep({"good": (sgd, lambda *_: 0.0)}, (64,), (0,), 1, 80)["good"][64][0].right < 30


def test_times():
    assert times.allreduce_seconds(1, "h100_ndr") == 0
    few, many = (times.allreduce_seconds(p, "h100_ndr") for p in (2, 48))
    assert 0 < few < many
    reached, never = training.Trained(99.0, 2.0), training.Trained(50.0, None)
    trained = {
        "one": {32: [reached] * 3, 64: [reached, reached, never]},
        "other": {32: [never, never, reached]},
    }
    to_goal = lab34.times_to_goal(trained, {"one": 1e-3, "other": 1e-3}, 32, "h100_ndr")
    assert to_goal["one"][32] == (pytest.approx(0.048), pytest.approx(0.096))
    epoch, goals = lab34.speed_ups(to_goal, "one")
    assert epoch[32] == goals["one"][32] == 1 < epoch[64] < 2
    assert goals["one"][64] == pytest.approx(epoch[64])
    assert "other" not in goals
    assert set(lab34.step_times({"SGD": partial(sgd)}, 8)) == {"SGD"}

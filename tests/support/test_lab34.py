"""Lab 34: its trainings and times; the lab checks the rest."""

import pytest
from support import lab34


def sgd(weights, gradients, state, rate):
    for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
        state.m[i] = 0.9 * state.m[i] + rate * g
        w -= state.m[i]


def test_sweep_trains_and_survives_a_rate_that_is_too_high(monkeypatch):
    monkeypatch.setattr(lab34.record, "add", lambda *_, **__: None)
    ways = {"good": (sgd, lambda *_: 0.05), "high": (sgd, lambda *_: 1e6)}
    trained = lab34.sweep(ways, (64,), (0,), 3, 80)
    good = trained["good"][64][0]
    high = trained["high"][64][0]
    assert good.right > 85 > 30 > high.right
    assert high.epochs_to_goal is None
    assert 0 < good.epochs_to_goal <= 3


def test_times():
    assert lab34.allreduce_seconds(1, "h100_ndr") == 0
    few, many = (lab34.allreduce_seconds(p, "h100_ndr") for p in (2, 48))
    assert 0 < few < many
    reached, never = lab34.Trained(99.0, 2.0), lab34.Trained(50.0, None)
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

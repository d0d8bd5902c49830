"""Lab 53's support: times of a shape, the ring on paper, cases that can be told apart, ranks that
nap."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from labkit import launch
from support import lab53

from tests.support.answers import solved


@pytest.mark.parametrize("kind", lab53.KINDS)
def test_times_have_the_mean_and_the_spread(kind):
    times = lab53.draw(kind, 100_000, 4)
    assert times.shape == (100_000, 4)
    assert times.min() > 0
    assert times.mean() == pytest.approx(lab53.MEAN, rel=0.01)
    spread = 0 if kind == "steady" else lab53.SPREAD
    assert times.std() == pytest.approx(spread, rel=0.2, abs=1e-9)


def test_a_culprit_waits_least():
    for each in lab53.cases(range(20)):
        ranks = len(each.images)
        waits = np.zeros((len(each.steps), ranks))
        for step, spans in enumerate(each.steps):
            for span in spans:
                sign = {"exchange": 1, "send": -1}.get(span.kind, 0)
                waits[step, span.rank] += sign * (span.end - span.begin)
        count = np.bincount(waits.argmin(axis=1), minlength=ranks)
        if each.rank is None:
            assert count.max() <= len(each.steps) / 2
        else:
            assert count.argmax() == each.rank
            assert count.max() > len(each.steps) / 2


def nap_and_send(comm) -> tuple:
    profile, images, culprit = lab53.recorded(comm, "imbalance", 3, 2)
    naps = {"steady": lab53.draw("steady", 2, comm.size)}
    return profile, images, culprit, lab53.step_seconds(comm, naps)


@pytest.mark.slow
def test_real_ranks():
    results = launch.run(nap_and_send, ranks=4)
    profile, images, culprit, seconds = results[0]
    assert results[1][0] is None, "of many ranks it is long"
    assert culprit == (images.argmax(), "imbalance") == results[3][2]
    spans = lab53.spans_of(profile, 1)
    assert {span.rank for span in spans} == {0, 1, 2, 3}
    sends = [span for span in spans if span.kind == "send"]
    assert len(sends) == 4 * 6
    assert sorted(seconds["steady"]) == [1, 2, 4]
    for each in seconds["steady"].values():
        assert len(each) == 2
        assert each.min() >= 0.9 * lab53.MEAN


def test_all_ways_train_equally_long(monkeypatch):
    trained = []

    def train(used, every, own_digits, seed):
        trained.append(len(used))
        return 0.0, 0.0

    monkeypatch.setattr(lab53, "train", train)
    stem = "53_straggler_hunt"
    small = import_module(f"tests.labs.wrong_answers.{stem}").SMALL
    monkeypatch.setitem(small, "training_steps", 1616)
    solved(stem, "drawn = {", "def in_time")
    assert set(trained) == {1616}

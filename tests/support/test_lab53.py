"""Lab 53's support: times of a shape, the ring on paper, cases that can be told apart, ranks that nap."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import launch
from support import lab53


@pytest.mark.parametrize("kind", lab53.KINDS)
def test_times_have_the_mean_and_the_spread(kind):
    times = lab53.draw(kind, 100_000, 4)
    assert times.shape == (100_000, 4)
    assert times.min() > 0
    assert times.mean() == pytest.approx(lab53.MEAN, rel=0.01)
    spread = 0 if kind == "steady" else lab53.SPREAD
    assert times.std() == pytest.approx(spread, rel=0.2, abs=1e-9)


@pytest.mark.parametrize("cause", lab53.CAUSES)
def test_a_step_is_whole(cause):
    """Input, compute and exchange follow on each other; sends lie in the exchange; steps follow on steps."""
    played = lab53.case(cause, seed=5)
    over = np.zeros(played.ranks)
    for spans in played.steps:
        for rank in range(played.ranks):
            own = {span.kind: span for span in spans if span.rank == rank and span.kind != "send"}
            sends = [span for span in spans if span.rank == rank and span.kind == "send"]
            assert own["input"].begin == over[rank]
            assert own["input"].end == own["compute"].begin
            assert own["compute"].end == own["exchange"].begin
            assert len(sends) == 2 * (played.ranks - 1)
            assert own["exchange"].begin <= sends[0].begin
            assert sends[-1].end <= own["exchange"].end
            over[rank] = own["exchange"].end


def test_a_culprit_waits_least():
    for each in lab53.cases(range(20)):
        waits = np.zeros((len(each.steps), each.ranks))
        for step, spans in enumerate(each.steps):
            for span in spans:
                sign = {"exchange": 1, "send": -1}.get(span.kind, 0)
                waits[step, span.rank] += sign * (span.end - span.begin)
        count = np.bincount(waits.argmin(axis=1), minlength=each.ranks)
        if each.rank is None:
            assert count.max() <= len(each.steps) / 2
        else:
            assert count.argmax() == each.rank
            assert count.max() > len(each.steps) / 2


def test_share_found_counts():
    assert lab53.share_found(lambda steps, images: (None, "jitter"), 0.4, range(3)) == (0, 0)
    answers = iter([each for each in lab53.cases(range(3)) if each.rank is not None])
    assert lab53.share_found(lambda steps, images: (next(answers).rank, "cold"), 0.4, range(3)) == (1, 0)


def test_share_blamed_counts():
    assert lab53.share_blamed(lambda steps, images: (None, "jitter"), range(3)) == 0
    assert lab53.share_blamed(lambda steps, images: (0, "slow disk"), range(3)) == 1


def test_above_is_beside_the_others():
    assert lab53.above([1, 2, 9, 3], 2) == 7


def nap_and_send(comm) -> tuple:
    profile, images, culprit = lab53.recorded(comm, "imbalance", 3, 2)
    naps = {"steady": lab53.draw("steady", 2, comm.size)}
    return profile, images, culprit, lab53.step_seconds(comm, naps)


@pytest.mark.slow
def test_real_ranks():
    results = launch.run(nap_and_send, ranks=4)
    profile, images, culprit, seconds = results[0]
    assert culprit == (images.argmax(), "imbalance") == results[3][2]
    spans = lab53.spans_of(profile, 1)
    assert {span.rank for span in spans} == {0, 1, 2, 3}
    sends = [span for span in spans if span.kind == "send"]
    assert len(sends) == 4 * 6
    assert sorted(seconds["steady"]) == [1, 2, 4]
    assert all(len(each) == 2 and each.min() >= 0.9 * lab53.MEAN for each in seconds["steady"].values())

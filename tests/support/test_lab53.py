"""Lab 53's support: times of a shape, the ring on paper, cases that can be told apart, ranks that nap."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import launch
from labkit.errors import LabError
from support import lab53


@pytest.mark.parametrize("kind", lab53.KINDS)
def test_times_have_the_mean_and_the_spread(kind):
    times = lab53.draw(kind, 100_000, 4)
    assert times.shape == (100_000, 4)
    assert times.min() > 0
    assert times.mean() == pytest.approx(lab53.MEAN, rel=0.01)
    spread = 0 if kind == "steady" else lab53.SPREAD
    assert times.std() == pytest.approx(spread, rel=0.2, abs=1e-9)


def test_an_unknown_kind_is_named():
    with pytest.raises(LabError, match="steady, normal, heavy-tailed, not 'lumpy'"):
        lab53.draw("lumpy", 1, 1)


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


def test_the_race_is_that_of_order_statistics():
    """But for messages, and for a worker that looks only now and then whether its step is over."""
    times = lab53.draw("normal", 8, 5)
    near = {"rel": 0.02, "abs": 5e-4}
    assert lab53.race(times) == pytest.approx(times.max(axis=1), **near)
    assert lab53.race(times, backups=2) == pytest.approx(np.sort(times, axis=1)[:, 2], **near)
    rounds = times.reshape(2, 4, 5).sum(axis=1).max(axis=1)
    assert lab53.race(times, every=4) == pytest.approx(rounds, **near)


def test_a_rank_that_is_never_used_teaches_nothing():
    used = lab53.slow_rank(120, 10, 7).argsort(axis=1).argsort(axis=1) < 9
    assert not used[:, 7].any()
    assert lab53.train(used, own_digits=True)[7] == 0
    everybody = np.ones_like(used)
    assert lab53.train(everybody, own_digits=True)[7] > 50
    assert lab53.train(everybody, every=4).mean() > 50


def test_a_step_is_drawn():
    figure = lab53.draw_step(lab53.case("slow link", 1, ranks=4).steps[0], "One step")
    assert len(figure.axes[0].get_yticks()) == 4


def nap_and_send(comm) -> tuple:
    profile, images, culprit = lab53.recorded(comm, "imbalance", 3, 2)
    naps = {"steady": lab53.draw("steady", 2, comm.size)}
    return profile, images, culprit, lab53.step_seconds(comm, naps), lab53.pair_seconds(comm, 64, 1)


@pytest.mark.slow
def test_real_ranks():
    results = launch.run(nap_and_send, ranks=4)
    profile, images, culprit, seconds, pairs = results[0]
    assert culprit == (images.argmax(), "imbalance") == results[3][2]
    spans = lab53.spans_of(profile, 1)
    assert {span.rank for span in spans} == {0, 1, 2, 3}
    sends = [span for span in spans if span.kind == "send"]
    assert len(sends) == 4 * 6
    assert sorted(seconds["steady"]) == [1, 2, 4]
    assert all(len(each) == 2 and each.min() >= 0.9 * lab53.MEAN for each in seconds["steady"].values())
    assert np.array_equal(np.isnan(pairs), np.eye(4, dtype=bool))
    assert np.nanmin(pairs) > 0
    assert np.array_equal(pairs, pairs.T, equal_nan=True)

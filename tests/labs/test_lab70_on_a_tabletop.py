"""Lab 70's training as a job on two nodes: preempted, requeued, out of time; exact to the last bit."""

from __future__ import annotations

import itertools

import pytest
from labkit import cluster
from support import lab70

from slurm import tabletop
from tests.support.answers import solved

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LAST = 60
EVERY = 10
MOMENTS = (12, 29)  # each in the middle of an epoch of 24 steps


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    with tabletop.up("lab70", nodes=2, home=tmp_path_factory.mktemp("tabletop")) as running:
        yield running


def answers() -> lab70.Answers:
    """The solved lab's own."""
    names = solved("70_checkpoint_and_requeue")
    return lab70.Answers(*(names[name] for name in lab70.Answers._fields))


@pytest.fixture
def learner(table, monkeypatch, tmp_path):
    """A learner's shell, with the tabletop's commands in it and a home of its own."""
    for name, value in table.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))


def by_life(losses: list[lab70.Loss]) -> dict[int, list[lab70.Loss]]:
    return {life: list(own) for life, own in itertools.groupby(losses, lambda loss: loss.life)}


@pytest.mark.usefixtures("learner")
def test_the_signal_of_the_time_limit_itself_comes_and_the_job_loses_no_step():
    losses, whole = lab70.out_of_time(answers(), LAST, EVERY)
    lives = by_life(losses)
    assert list(lives) == [0, 1], "the script requeues the job only when it has been asked to stop"
    assert [loss.step for loss in losses] == list(range(1, LAST + 1)), "no step was done twice"
    assert lives[0][-1].step < LAST
    assert [loss.loss for loss in losses] == whole, "to the last bit"


@pytest.mark.usefixtures("learner")
def test_a_job_that_is_preempted_and_requeued_has_the_losses_of_one_without_a_break():
    losses, whole = lab70.three_lives(answers(), LAST, EVERY, MOMENTS)
    assert len(whole) == LAST
    lives = by_life(losses)
    assert list(lives) == [0, 1, 2]
    assert lives[0][0].step == 1
    assert MOMENTS[0] <= lives[0][-1].step < LAST
    assert lives[1][0].step == lives[0][-1].step + 1, "the signal came, and the last step was saved"
    assert MOMENTS[1] <= lives[1][-1].step < LAST
    resumed = lives[2][0].step - 1
    assert resumed % EVERY == 0
    assert 0 <= lives[1][-1].step - resumed <= EVERY, "without a warning one interval is lost at most"
    assert lives[2][-1].step == LAST
    assert all(loss.loss == whole[loss.step - 1] for loss in losses), "to the last bit"
    left = cluster.slurm.at("tabletop").partitions()
    assert [partition.name for partition in left] == ["tabletop"]

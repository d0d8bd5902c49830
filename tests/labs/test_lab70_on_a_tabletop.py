"""Lab 70's training as a job on two nodes: asked to stop, requeued; exact to the last bit."""

from __future__ import annotations

import itertools

import pytest
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
def test_a_job_that_is_asked_to_stop_and_requeued_has_the_losses_of_one_without_a_break():
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
    assert 0 <= lives[1][-1].step - resumed <= EVERY, (
        "without a warning one interval is lost at most"
    )
    assert lives[2][-1].step == LAST
    assert all(loss.loss == whole[loss.step - 1] for loss in losses), "to the last bit"

"""Lab 63's support: schedules played on paper, what is wrong with one, and pieces that are
interleaved."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
from labkit import launch, nets
from labkit.errors import LabError
from labkit.profiling import clock
from support import lab63


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("micro", [1, 4, 16])
def test_the_bubble_is_the_closed_form(ranks, micro):
    forwards_then_back = [(kind, number) for kind in "FB" for number in range(micro)]
    played = lab63.play([forwards_then_back] * ranks, forward=1.5, backward=2.5)
    assert played.time == pytest.approx(4.0 * (micro + ranks - 1))
    assert played.idle == pytest.approx((ranks - 1) / (micro + ranks - 1))


def test_micro_batches_of_unequal_length_learn_what_one_process_learns():
    stage = torch.nn.Sequential(*nets.torch_blocks((12, 8, 5)))
    pictures, labels = torch.randn(16, 12), torch.arange(16) % 5
    loss = torch.nn.functional.cross_entropy(stage(pictures), labels)
    alone = torch.autograd.grad(loss, list(stage.parameters()))
    work = lab63.Work(stage, pictures, labels, 3, first=True, last=True)
    for number in range(3):
        work.forward(number, None)
        work.backward(number, None)
    assert sum(work.losses) == pytest.approx(loss.item())
    for weights, gradient in zip(stage.parameters(), alone, strict=True):
        torch.testing.assert_close(weights.grad, gradient)


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_interleaved_pieces_make_the_bubble_smaller(pieces):
    """(p - 1) / (v m + p - 1) of all time: Narayanan and others (2021), section 2.2.2, as a share
    of m."""
    ranks, micro = 4, 8
    schedules = lab63.interleaved(ranks, micro, pieces)
    for schedule in schedules:
        assert len(schedule) == len(set(schedule)) == 2 * micro * pieces
    played = lab63.play(schedules, forward=1 / pieces, backward=2 / pieces)
    assert played.idle == pytest.approx((ranks - 1) / (pieces * micro + ranks - 1))
    with pytest.raises(LabError, match="multiples of the ranks; 6 is none of 4"):
        lab63.interleaved(4, 6, 2)


def test_what_is_wrong_with_schedules_is_named():
    with pytest.raises(LabError, match="Rank 0 waits forever before B0"):
        lab63.play([[("F", 0), ("B", 0)], [("B", 0), ("F", 0)]])
    for schedule, micro, says in (
        ([("F", 0), ("F", 2), ("B", 0)], 2, "[0, 2], but must have F of 0 to 1"),
        ([("B", 0), ("F", 0)], 1, "Rank 0 has B of micro-batch 0 before F"),
    ):
        assert says in lab63.shortcoming([schedule], 1, micro)
        assert "for each of the ranks, 2 in all" in lab63.shortcoming([schedule], 2, micro)
    assert lab63.shortcoming([[("F", 0), ("B", 0)]], 1, 1) == ""


def sleep_in_turns(comm):
    """Each rank sleeps after the rank before it, on a host that was started later than that
    one's."""
    clock.perf_counter = lambda: time.perf_counter() - 1000 * comm.rank
    lab63.time = SimpleNamespace(perf_counter=clock.perf_counter, sleep=time.sleep)

    def run_schedule(comm, schedule, work):
        if comm.rank:
            comm.recv(source=comm.rank - 1)
        work.forward(0, None)
        if comm.rank < comm.size - 1:
            comm.send(None, dest=comm.rank + 1)

    return lab63.sleep_through(comm, run_schedule, [None] * comm.size, 0.1, 0.1)


@pytest.mark.slow
def test_ranks_that_sleep_on_hosts_with_other_clocks():
    played, again = launch.run(sleep_in_turns, ranks=2)
    assert played == again
    assert 0.2 <= played.time < 100
    assert 0.4 < played.idle < 0.9

"""support.lab36: sums that move in calls alone, what is seen of threads, and steps on real ranks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from labkit import launch, nets, virtual
from labkit.errors import CheckFailed
from support import lab36


def carry(requests):
    for request in requests:
        request.Test()


def leave(requests):
    """Nobody moves them."""


def look_until(comm, over, every):
    while not over.wait(every):
        comm.Iprobe()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("move", [carry, leave])
def test_the_sum_is_right_whoever_moves_it(ranks, move):
    run = virtual.Cluster(ranks).run(lab36.step, move, 4, 1)
    for _, total in run.results:
        np.testing.assert_array_equal(total, ranks * (ranks + 1) / 2)


def test_a_sum_that_nobody_moves_hides_one_round():
    rounds = 2 * (4 - 1)
    left = lab36.timed(leave, layers=15, layer_ms=4)
    assert left == pytest.approx(60 + (rounds - 1) * lab36.ROUND_MS)
    assert lab36.timed(carry, layers=60, layer_ms=1) == pytest.approx(60, rel=0.01)
    assert lab36.timed(carry, layers=3, layer_ms=20) == pytest.approx(90)


def test_carrying_is_told_from_waiting_and_from_forgetting():
    lab36.expect_carried(carry)
    with pytest.raises(CheckFailed, match="older ones rest"):
        lab36.expect_carried(lambda requests: requests[-1].Test())
    with pytest.raises(CheckFailed, match="`carry` waits"):
        lab36.expect_carried(lambda requests: [request.Wait() for request in requests])


class Quiet:
    """A communicator of nobody: only that it was asked matters here."""

    def __init__(self):
        self.asked = threading.Event()

    def Dup(self):
        return self

    def Iprobe(self) -> bool:
        self.asked.set()
        return False


def test_a_thread_looks_and_ends():
    comm = Quiet()
    before = threading.active_count()
    with lab36.Looking(comm, look_until, 0.001):
        assert comm.asked.wait(timeout=30)
    assert threading.active_count() == before
    seen = lab36.looks(Quiet(), look_until, 0.001)
    assert seen.calls >= 5
    assert seen.ended


def test_an_error_in_the_thread_is_the_ranks():
    def broken(comm, over, every):
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        lab36.looks(Quiet(), broken, 0.001, patience=5)


@pytest.mark.slow
def test_all_ways_are_timed():
    arguments = (carry, look_until, 16, 2, 0.001, 3)
    times, what, where = launch.run(lab36.measure, *arguments, ranks=2, threads=1, timeout=300)[0]
    assert list(times)[-1] == "sum alone"
    assert len(times) == 8
    assert what["bytes"] == 4 * (64 * 16 + 16 + 16 * 16 + 16 + 16 * 10 + 10)
    assert where.library == "MPI"


def test_arithmetic_alone_is_plain_sgd():
    import torch

    images = torch.ones(4, 64)
    labels = torch.tensor([0, 1, 2, 3])
    own, theirs = (nets.torch_digits(nets.start_weights(seed=0)) for _ in range(2))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    step = lab36.arithmetic_step(own, 0.1)
    for _ in range(2):
        step(images, labels)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(theirs(images), labels).backward()
        optimizer.step()
    for got, want in zip(own.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(got, want)

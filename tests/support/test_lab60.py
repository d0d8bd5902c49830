"""Lab 60's support: buckets, hooks, and the counters of bytes and traffic."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from labkit import launch, timing, workloads
from support import lab60
from torch import distributed


def test_buckets_go_from_last_to_first_and_hold_all():
    net = lab60.new_net(32)
    parameters = list(net.parameters())
    for most in (1, 2000, 10**9):
        buckets = lab60.buckets_of(net, most)
        flat = [weights for bucket in buckets for weights in bucket]
        assert all(one is other for one, other in zip(flat, reversed(parameters), strict=True))
        for bucket in buckets:
            assert len(bucket) == 1 or sum(weights.nbytes for weights in bucket) <= most
    parameters[0].requires_grad = False  # frozen: it gets no gradient, and a hook on it is an error
    assert len(lab60.buckets_of(net, 1)) == len(parameters) - 1


def test_a_bucket_begins_when_its_last_gradient_is_there():
    net = lab60.new_net(16)
    buckets = lab60.buckets_of(net, 1500)
    events = []

    def start(bucket):
        assert all(weights.grad is not None for weights in bucket)
        events.append("start")
        return len(events)

    end_of_step = lab60.attach(buckets, start, lambda bucket, started: events.append(started))
    for _ in range(2):
        events.clear()
        net.zero_grad()
        net(torch.randn(4, 64)).sum().backward()
        end_of_step()
        assert events == ["start"] * len(buckets) + list(range(1, len(buckets) + 1))


@launch.in_group()
def counted(numbers: int) -> dict:
    ranks = distributed.get_world_size()
    traffic = lab60.Traffic(ranks)
    whole = torch.zeros(numbers * ranks)
    with traffic:
        distributed.all_reduce(torch.ones(numbers))
        distributed.all_gather_into_tensor(whole, torch.ones(numbers))
        distributed.reduce_scatter_tensor(torch.zeros(numbers), whole)
        torch.ones(3) + 1  # no collective
    return {"sent": traffic.sent, "calls": traffic.calls, "all": traffic.all_sent}


@pytest.mark.slow
def test_traffic_is_that_of_rings():
    (first, second) = launch.run(counted, 10, ranks=2, controller="torch")
    assert first == second
    kinds = ("allreduce", "allgather", "reduce_scatter")
    wanted = {"sent": dict.fromkeys(kinds, 10), "calls": dict.fromkeys(kinds, 1), "all": 30}
    assert first == wanted


def barriers(ways: dict, **options) -> dict[str, int]:
    """{way: how many barriers are in its step}."""
    found = {}
    for way, step in ways.items():
        with mock.patch.object(distributed, "barrier") as barrier:
            step()
        found[way] = barrier.call_count
    return found


@launch.in_group()
def barriers_that_are_timed(measure: str) -> dict[str, int]:
    def start(bucket):
        return None

    def finish(bucket, started):
        return None

    with (
        mock.patch.object(timing, "in_turns", barriers),
        mock.patch.object(workloads.Workload, "speeds", lambda load, ways, **_: barriers(ways)),
    ):
        if measure == "workload_speeds":
            return lab60.workload_speeds.__wrapped__(start, finish, "tiny gpt")
        return lab60.compare_steps.__wrapped__(start, finish, 32, 4, 5, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["compare_steps", "workload_speeds"])
def test_no_barrier_is_in_the_time_of_a_step(measure):
    (found,) = launch.run(barriers_that_are_timed, measure, ranks=1, controller="torch")
    assert set(found.values()) == {0}

"""Lab 72's support: ranks that hang, die and finish; what is found of them."""

from __future__ import annotations

import getpass
import inspect
import os
import signal
import sys
import time

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from labkit.errors import CheckFailed
from support import lab72

from tests.helpers import end_fork_server


@pytest.fixture(autouse=True)
def _functions_travel_whole():
    """As those of a notebook do."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    end_fork_server()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def by_rank(arguments: list[tuple]):
    return lambda rank, folder: arguments[rank]


def ways_to_end(way: str) -> object:
    if way == "waits":
        time.sleep(1000)
    elif way == "raises":
        raise ValueError("no more")
    elif way == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return (number for number in range(3)) if way == "cannot leave" else way


def line_with(text: str) -> int:
    """Of ways_to_end."""
    lines, first = inspect.getsourcelines(ways_to_end)
    return first + next(place for place, line in enumerate(lines) if text in line)


def two_calls(extra: bool) -> None:
    dist.all_reduce(torch.ones(3))
    if extra:
        dist.broadcast(torch.ones(2), src=0)
    dist.barrier()


@pytest.mark.slow
def test_what_is_found_of_ranks():
    ways = [("waits",), ("raises",), ("dies",), ("finishes",), ("cannot leave",)]
    alone, all_in_step, prepared = lab72.play(
        [
            lab72.Job(ways_to_end, by_rank(ways), py_spy=True, ranks=5),
            lab72.Job(two_calls, by_rank([(False,), (True,), (False,)])),
            lab72.Job(
                ways_to_end, by_rank([("folder",)] * 2), lambda folder: ("finishes",), len, ranks=2
            ),
        ]
    )
    assert [rank.rank for rank in alone] == list(range(5))
    assert [rank.state for rank in alone] == ["waits", "raised", "SIGKILL", "finished", "raised"]
    assert alone[0].stack[0].line == line_with("time.sleep")
    assert alone[1].error == "ValueError: no more"
    assert alone[1].stack[-1].line == line_with("raise ValueError")
    assert alone[3].result == "finishes"
    with pytest.raises(CheckFailed, match=r"rank 4 raised TypeError: .* 'generator' object"):
        lab72.through(alone[4:], "A trial")
    assert [rank.result for rank in prepared] == ["finishes"] * 2
    assert [rank.note for rank in prepared] == [len("folder")] * 2
    calls = [[(record.call, record.numbers) for record in rank.records] for rank in all_in_step]
    assert calls[0] == calls[2] == [("all_reduce", 3), ("barrier", 0)]
    assert calls[1][:2] == [("all_reduce", 3), ("broadcast", 2)]
    waiting = [rank for rank in all_in_step if rank.state == "waits"]
    assert {rank.stack[0].function for rank in waiting} == {"two_calls"}
    assert {rank.seen_by for rank in waiting} == {"the rank itself"}


def goes_on(busy: bool) -> None:
    while busy:
        time.sleep(0.003)
        time.sleep(0.007)


@pytest.mark.slow
def test_a_rank_that_needs_longer_is_no_rank_that_hangs(monkeypatch):
    monkeypatch.setattr(lab72, "LONGEST", 8.0)
    (ranks,) = lab72.play([lab72.Job(goes_on, by_rank([(True,), (False,)]), ranks=2)])
    assert [rank.state for rank in ranks] == [lab72.UNDECIDED, "finished"]
    with pytest.raises(
        CheckFailed, match=r"rank 0 had neither .* too busy to tell .* Run the cell again"
    ):
        lab72.through(ranks, "A trial")


def test_ranks_that_wait_are_told_that_nobody_may_decide_alone():
    standing = [lab72.Rank(0, "finished"), lab72.Rank(1, "waits"), lab72.Rank(2, "waits")]
    with pytest.raises(
        CheckFailed, match=r"more: rank 1 waits; rank 2 waits\. .* may decide alone"
    ):
        lab72.through(standing, "A trial")


def test_cases_are_of_each_kind_and_the_same_again(monkeypatch):
    # As in a container, for a user whom it does not know.
    monkeypatch.delattr(getpass, "getuser")
    for deal, kinds in ((lab72.Hang, 4), (lab72.Disorder, 3), (lab72.Poison, 3)):
        cases = lab72.fresh(deal, 5)
        assert len({case.what for case in cases}) == len(cases) == kinds
        assert len({case.rank for case in cases}) > 1
        assert cases == lab72.fresh(deal, 5)

"""Lab 13's tools on machines that are not this one: ranks that share cores, splits, cores that are
denied."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
from labkit.errors import NotHere
from support import lab13


def test_a_system_without_masks_says_so(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.raises(NotHere, match=r"13\.3 needs Linux"):
        lab13.threads()
    lab13.move([0])


def test_ranks_share_only_equal_masks():
    def places(everyone):
        gathered = {"allgather": lambda _: everyone}
        return [lab13.place(SimpleNamespace(rank=rank, **gathered)) for rank in range(3)]

    loose, own = (("node1", (0, 1)), [0, 1]), (("node1", (2,)), [2])
    assert places([loose, own, loose]) == [(0, 2, [0, 1]), (0, 1, [2]), (1, 2, [0, 1])]
    assert [place[:2] for place in places([loose] * 3)] == [(0, 2), (1, 2), (0, 2)]


@pytest.mark.parametrize(
    ("cores", "most", "processes"),
    [(1, 4, [1]), (7, 4, [1]), (12, 8, [1, 2, 3, 4, 6]), (56, 64, [1, 2, 4, 7, 8, 14, 28, 56])],
)
def test_splits_use_all_cores(cores, most, processes):
    assert lab13.splits(cores, most) == [(p, cores // p) for p in processes]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux binds threads")
def test_a_mask_that_the_system_cut_is_noticed_and_masks_come_back():
    own = sorted(os.sched_getaffinity(0))
    with lab13.kept():
        assert lab13.may_use(own)
        assert not lab13.may_use([*own, (os.cpu_count() or 1) + 500])
        assert lab13.may_use(own[:1])
    assert sorted(os.sched_getaffinity(0)) == own

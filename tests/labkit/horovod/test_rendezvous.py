"""Gloo as Horovod's controller on the ranks of an MPI job."""

from __future__ import annotations

import pytest
from labkit import launch
from labkit.horovod import meet_by_gloo


def _twice(comm):
    """On every rank: start Horovod with Gloo, sum, end it; and the same once more."""
    import horovod.torch as hvd
    import torch

    answers = []
    for turn in range(2):
        with meet_by_gloo(comm):
            hvd.init()
            total = hvd.allreduce(torch.tensor([1.0 + comm.rank]), op=hvd.Sum, name=f"turn {turn}")
            answers.append((hvd.rank(), hvd.size(), hvd.local_rank(), hvd.gloo_enabled(), total.item()))
            hvd.shutdown()
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
def test_gloo_negotiates_on_the_ranks_of_mpi_and_may_begin_again(ranks):
    for rank, answers in enumerate(launch.run(_twice, ranks=ranks)):
        assert answers == [(rank, ranks, rank, True, ranks * (ranks + 1) / 2)] * 2

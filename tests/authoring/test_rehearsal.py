"""The rehearsal's sentences on jobs of a cluster with GPUs, by what their records say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from authoring import rehearsal
from labkit.errors import LabError

ON_GPU = {"device": "cuda:0", "library": "NCCL", "staged": "no"}


def job(horovod=None, ended=True, error=None, **entry):
    def wait(patience):
        if error:
            raise LabError(error)

    return SimpleNamespace(
        lab="46_three_libraries",
        number="7",
        horovod=horovod,
        wait=wait,
        status=lambda: SimpleNamespace(ended=ended),
        state=lambda: "pending",
        cancel=lambda: None,
        entries=lambda: [{"result": "step", **ON_GPU, **entry}, {"result": "of no tensor"}],
    )


@pytest.mark.parametrize(
    ("tried", "says"),
    [
        (job("nccl"), []),
        (job("mpi", library="MPI"), []),
        (
            job(device="cpu"),
            ["its tensors were in host memory, although the site file says that nodes have GPUs"],
        ),
        (job("nccl", library="MPI"), ["MPI performed the allreduce, not NCCL"]),
        (
            job("mpi", library="MPI", staged="through the host"),
            ["its tensors were staged through the host, so MPI took no GPU memory"],
        ),
        (job(error="Rank 1 failed: no"), ["Rank 1 failed: no"]),
        (job(ended=False), ["it has not ended within 5 s, and was cancelled (pending)"]),
    ],
)
def test_what_is_not_ready_is_said(tried, says):
    assert rehearsal.judge(tried, gpus=4, patience=5) == says


def test_what_was_seen_is_said():
    assert rehearsal.what_was_seen(job()) == "tensors on cuda:0, NCCL"

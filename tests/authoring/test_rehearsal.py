"""The rehearsal's sentences on jobs of a cluster with GPUs, by what their records say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from authoring import rehearsal
from labkit import cluster
from labkit.errors import LabError, NotHere

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


class Queue:
    """Stands for Slurm: takes some jobs and refuses the next one. `cancelled`: the numbers."""

    def __init__(self, takes: int, refusal: BaseException, silent: bool = False):
        self.takes, self.refusal, self.silent = takes, refusal, silent
        self.submitted: list[SimpleNamespace] = []
        self.cancelled: list[str] = []

    def submit(self, lab, nodes, **_):
        if len(self.submitted) == self.takes:
            raise self.refusal
        number = str(11 + len(self.submitted))
        ended = number == "11"  # the first one was quick
        status = SimpleNamespace(ended=ended)
        taken = SimpleNamespace(
            number=number, status=lambda: status, cancel=lambda: self.cancel(number)
        )
        self.submitted.append(taken)
        return taken

    def cancel(self, number: str) -> None:
        if self.silent:
            raise NotHere("Slurm does not answer.")
        self.cancelled.append(number)


@pytest.mark.parametrize(
    ("queue", "gone", "says"),
    [
        (Queue(0, LabError("No such account.")), [], "No such account."),
        (
            Queue(1, LabError("No such account.")),
            [],
            "No such account. No job of the rehearsal is left in the queue.",
        ),
        (
            Queue(3, LabError("Too many jobs.")),
            ["12", "13"],
            "Too many jobs. The rehearsal cancelled its jobs (12, 13); none is left in the queue.",
        ),
        (
            Queue(3, LabError("Too many jobs."), silent=True),
            [],
            "Too many jobs. These jobs of the rehearsal could not be cancelled: 12, 13"
            " (`scancel`).",
        ),
    ],
)
def test_a_submission_that_is_refused_leaves_no_job_in_the_queue(queue, gone, says, monkeypatch):
    monkeypatch.setattr(cluster, "submit", queue.submit)
    with pytest.raises(LabError) as refused:
        rehearsal.submit(rehearsal.TRACK, "here", 2)
    assert str(refused.value) == says
    assert queue.cancelled == gone


def test_ctrl_c_while_jobs_are_submitted_cancels_them(monkeypatch, capsys):
    queue = Queue(3, KeyboardInterrupt())
    monkeypatch.setattr(cluster, "submit", queue.submit)
    with pytest.raises(KeyboardInterrupt):
        rehearsal.submit(rehearsal.TRACK, "here", 2)
    assert queue.cancelled == ["12", "13"]
    assert "cancelled its jobs (12, 13)" in capsys.readouterr().err


def test_ctrl_c_while_a_job_is_waited_for_ends_the_rehearsal(monkeypatch, capsys):
    queue = Queue(3, LabError("not asked"))
    monkeypatch.setattr(cluster, "submit", queue.submit)
    waited = []

    def wait(patience):
        waited.append(patience)
        raise cluster.StoppedWaiting("Stopped waiting; job 11 goes on.")

    submit = queue.submit

    def submit_and_wait(*arguments, **options):
        taken = submit(*arguments, **options)
        taken.wait = wait
        return taken

    monkeypatch.setattr(cluster, "submit", submit_and_wait)
    assert rehearsal.main(["--site", "tabletop", "--labs", "40,41,42"]) == 1
    assert queue.cancelled == ["12", "13"]
    assert len(waited) == 1
    assert "The rehearsal was stopped. The rehearsal cancelled" in capsys.readouterr().err


def test_a_lab_that_is_unknown_costs_no_job(monkeypatch):
    queue = Queue(3, LabError("not asked"))
    monkeypatch.setattr(cluster, "submit", queue.submit)
    with pytest.raises(LabError, match="88"):
        rehearsal.submit(["40", "88"], "here", 2)
    assert queue.submitted == []

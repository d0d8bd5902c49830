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


READY = [  # a job, and what is said of it
    (job("nccl"), []),
    (job("mpi", library="MPI"), []),
    (job(device="cpu"), ["in host memory, although the site file says that nodes have GPUs"]),
    (job("nccl", library="MPI"), ["MPI performed the allreduce, not NCCL"]),
    (job("mpi", staged="through the host"), ["staged through the host, so MPI took no GPU memory"]),
    (job(error="Rank 1 failed: no"), ["Rank 1 failed: no"]),
    (job(ended=False), ["it has not ended within 5 s, and was cancelled (pending)"]),
]


@pytest.mark.parametrize(("tried", "says"), READY)
def test_what_is_not_ready_is_said(tried, says):
    said = rehearsal.judge(tried, gpus=4, patience=5)
    assert len(said) == len(says)
    assert all(one.endswith(wanted) for one, wanted in zip(said, says, strict=True))
    assert rehearsal.what_was_seen(job()) == "tensors on cuda:0, NCCL"


class Queue:
    """Stands for Slurm: takes some jobs and refuses the next one; whoever waits for one is stopped
    by Ctrl-C. Numbers of jobs: `cancelled`, `waited`."""

    def __init__(self, takes: int, refusal: BaseException, silent: bool = False):
        self.takes, self.refusal, self.silent = takes, refusal, silent
        self.submitted, self.cancelled, self.waited = 0, [], []

    def submit(self, lab, nodes, **_):
        if self.submitted == self.takes:
            raise self.refusal
        number = str(11 + self.submitted)
        self.submitted += 1
        return SimpleNamespace(
            number=number,
            status=lambda: SimpleNamespace(ended=number == "11"),  # the first one was quick
            cancel=lambda: self.cancel(number),
            wait=lambda patience: self.wait(number),
        )

    def cancel(self, number: str) -> None:
        if self.silent:
            raise NotHere("Slurm does not answer.")
        self.cancelled.append(number)

    def wait(self, number: str) -> None:
        self.waited.append(number)
        raise cluster.StoppedWaiting("Stopped waiting; the job goes on.")


@pytest.fixture
def queue(monkeypatch):
    """A queue of these properties in the place of Slurm's."""

    def make(*properties) -> Queue:
        made = Queue(*properties)
        monkeypatch.setattr(cluster, "submit", made.submit)
        return made

    return make


MANY, NO = LabError("Too many jobs."), LabError("No such account.")
LEFT = "These jobs of the rehearsal could not be cancelled: 12, 13 (`scancel`)."
CANCELLED = "The rehearsal cancelled its jobs (12, 13); none is left in the queue."


@pytest.mark.parametrize(
    ("takes", "refusal", "silent", "gone", "says"),
    [
        (0, NO, False, [], "No such account."),
        (1, NO, False, [], "No such account. No job of the rehearsal is left in the queue."),
        (3, MANY, False, ["12", "13"], f"Too many jobs. {CANCELLED}"),
        (3, MANY, True, [], f"Too many jobs. {LEFT}"),
    ],
)
def test_a_submission_that_is_refused_leaves_no_job(queue, takes, refusal, silent, gone, says):
    made = queue(takes, refusal, silent)
    with pytest.raises(LabError) as refused:
        rehearsal.submit(rehearsal.TRACK, "here", 2)
    assert str(refused.value) == says
    assert made.cancelled == gone


def test_ctrl_c_cancels_the_jobs_while_they_are_submitted_and_waited_for(queue, capsys):
    made = queue(3, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rehearsal.submit(rehearsal.TRACK, "here", 2)
    assert made.cancelled == ["12", "13"]
    assert "cancelled its jobs (12, 13)" in capsys.readouterr().err
    made = queue(3, LabError("not asked"))
    assert rehearsal.main(["--site", "tabletop", "--labs", "40,41,42"]) == 1
    assert made.cancelled == ["12", "13"]
    assert made.waited == ["11"]
    assert f"The rehearsal was stopped. {CANCELLED}" in capsys.readouterr().err


def test_a_lab_that_is_unknown_costs_no_job(queue):
    made = queue(3, LabError("not asked"))
    with pytest.raises(LabError, match="88"):
        rehearsal.submit(["40", "88"], "here", 2)
    assert made.submitted == 0

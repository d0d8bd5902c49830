"""A training in several lives: killed, resumed from its folder, killed again; its losses, bit for bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from labkit import launch, world
from labkit.errors import LabError

from support.lab70 import files
from support.lab70.training import Training

LOSSES = "losses.jsonl"


class Answers(NamedTuple):
    """The learner's functions."""

    capture: Callable
    restore: Callable
    write: Callable
    judge: Callable
    train: Callable


class Loss(NamedTuple):
    """The mean loss of a step, in which life of the training. As text that holds every bit."""

    life: int
    step: int
    loss: str


def live(
    comm, answers: Answers, folder: Path, last: int, every: int, life: int = 0,
    stopped: Callable[[], bool] = bool, die_after: int | None = None, pause: float = 0.0,
) -> int:  # fmt: skip
    """One life of a training: from the newest good checkpoint in `folder`, or from the start, to the end.

    Losses go to `folder`/LOSSES. die_after: the last rank kills itself with kill -9 after this step.
    pause: seconds that each step takes longer, as if the net were larger. Returns the steps done.
    """
    training = Training(comm, horizon=last)
    resume(training, folder, answers)
    victim = comm.size - 1

    def after_step(training: Training, loss: float) -> None:
        time.sleep(pause)
        if comm.rank == 0:
            _append(folder / LOSSES, Loss(life, training.done, loss.hex()))
        if training.done == die_after:
            comm.Barrier()  # the line is written before the end comes
            if comm.rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)

    training.after_step = after_step
    answers.train(training, last, every, stopped, saver(answers, folder))
    return training.done


def resume(training: Training, folder: Path, answers: Answers) -> None:
    """Restore the newest good checkpoint on all ranks; leave the training as it is where there is none."""
    comm = training.comm
    payload = None
    if comm.rank == 0:
        payload = files.newest(folder, files.model_of(training.net), answers.judge)
    payload = comm.bcast(payload)
    if payload is not None:
        answers.restore(training, files.from_bytes(payload), comm)


def saver(answers: Answers, folder: Path) -> Callable[[Training], None]:
    """save(training), for all ranks to call: captured on all, written by rank 0, the oldest forgotten."""

    def save(training: Training) -> None:
        state = answers.capture(training, training.comm)
        if training.comm.rank == 0:
            content = files.pack(files.to_bytes(state), files.model_of(training.net))
            answers.write(files.path_of(folder, training.done), content)
            files.forget_older(folder)

    return save


def without_a_break(comm, last: int) -> list[str]:
    """The losses of a training that nobody interrupts and nothing saves, as text."""
    training = Training(comm, horizon=last)
    return [training.advance().hex() for _ in range(last)]


def killed_and_resumed(
    answers: Answers, folder: Path, last: int, every: int, die_after: int, ranks: int
) -> tuple[list[Loss], list[str]]:
    """On ranks of this machine: a life that ends by kill -9 of a rank, and one that resumes it.

    Returns the losses of both lives, and those of a training without a break. Inside of a job nobody is
    killed, as that would end the job: there is one life only. What was in `folder` is removed.
    """
    if world.is_root():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    if world.launcher() is None:
        try:
            launch.run(live, answers, folder, last, every, die_after=die_after, ranks=ranks, threads=1)
        except LabError as error:
            print(str(error).splitlines()[0])
    whole = launch.run(_second_life, answers, folder, last, every, ranks=ranks, threads=1)[0]
    return read(folder), whole


def _second_life(comm, answers: Answers, folder: Path, last: int, every: int) -> list[str]:
    live(comm, answers, folder, last, every, life=1)
    return without_a_break(comm, last)


def read(folder: Path) -> list[Loss]:
    """The losses written so far; a line that a kill has cut is left out."""
    path = folder / LOSSES
    if not path.exists():
        return []
    losses = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            losses.append(Loss(*json.loads(line)))
    return losses


def _append(path: Path, loss: Loss) -> None:
    """In one call of write, so that a line is there or not."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, json.dumps(loss).encode() + b"\n")
    os.close(descriptor)


def table(losses: Sequence[Loss], whole: Sequence[str]):
    """A DataFrame with a row for each life: its steps, those that it did again, and losses that differ."""
    import pandas

    rows = []
    seen: set[int] = set()
    for life in sorted({loss.life for loss in losses}):
        own = [loss for loss in losses if loss.life == life]
        steps = [loss.step for loss in own]
        differ = sum(loss.loss != whole[loss.step - 1] for loss in own)
        row = {"life": life, "first step": steps[0], "last step": steps[-1]}
        rows.append(row | {"done again": len(seen & set(steps)), "losses that differ": differ})
        seen |= set(steps)
    return pandas.DataFrame(rows).set_index("life")

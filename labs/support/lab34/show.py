"""What lab 34 shows and records of its trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


def show(trained: Mapping, title: str) -> None:
    """Plot the test images that are wrong (%) by batch, and print the lowest and highest of the seeds.

    trained: of `sweep`.
    """
    from labkit import plots

    wrong = {
        way: {batch: [100 - training.right for training in row] for batch, row in rows.items()}
        for way, rows in trained.items()
    }
    axes = {"xlabel": "images per step", "ylabel": "test images wrong (%)", "logx": True, "logy": True}
    plots.lines(wrong, title=title, **axes)
    print("test images right (%), the lowest and the highest of the seeds, by batch")
    for way, rows in wrong.items():
        spans = [f"{batch}: {100 - max(row):.0f}-{100 - min(row):.0f}" for batch, row in rows.items()]
        print(f"{way:>20}   {'   '.join(spans)}")


def holds(rows: Mapping, least: float) -> int:
    """The largest batch up to which the median loses less than `least` % against the smallest batch's.

    rows: batch -> [a Trained for each seed].
    """
    middle = {batch: np.median([training.right for training in row]) for batch, row in rows.items()}
    smallest = min(middle)
    good = smallest
    for batch in sorted(middle):
        if middle[batch] <= middle[smallest] - least:
            break
        good = batch
    return good


def keep(trained: Mapping, goal: float, epochs: int, seeds: Sequence[int]) -> None:
    """A record `accuracy` for each way of `sweep`."""
    from labkit import record

    for way, rows in trained.items():
        fields = {
            "batches": list(rows),
            "right": [[training.right for training in row] for row in rows.values()],
            "epochs_to_goal": [[training.epochs_to_goal for training in row] for row in rows.values()],
        }
        record.add("accuracy", unit="%", way=way, epochs=epochs, seeds=seeds, goal=goal, **fields)


def keep_times(computing: Mapping, times: Mapping, per_gpu: int, machine: str) -> None:
    """A record `step` for each optimizer, and `times` for each way: of step_times and times_to_goal."""
    from labkit import record

    for name, time in computing.items():
        print(f"{name}, {per_gpu} images: {time}")
        record.add("step", way=name, images=per_gpu, seconds=time)
    for way, rows in times.items():
        epoch, goal = zip(*rows.values(), strict=True)
        fields = {"batches": list(rows), "epoch": epoch, "goal": goal}
        record.add("times", unit="s", way=way, gpu=per_gpu, machine=machine, **fields)

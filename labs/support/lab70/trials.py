"""On real ranks: is a resume exact? And when does a loop save and stop?"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from labkit import launch

from support.lab70 import files
from support.lab70.training import Training

LAST = 6  # steps of each training that is tried
BATCH = 768  # so an epoch has two steps
STOPS = {3: "in the middle of an epoch", 4: "at the end of an epoch"}
PARTS = {
    "net": "the net's parameters are",
    "optimizer": "the optimizer's averages are",
    "schedule": "the learning rate's schedule is",
    "place": "the place in the data is",
    "dropout": "PyTorch's random state (each rank has its own) is",
    "noise": "NumPy's random state (each rank has its own) is",
}


def place_of(stop: int) -> str:
    """Where in an epoch try_resume stops after so many steps, in words."""
    return STOPS[stop]


def try_resume(comm, capture: Callable, restore: Callable) -> dict[int, dict]:
    """A training that is captured after each of STOPS steps, and resumed by a fresh one. By the stop:

    "holders": ranks on which capture returned something. "stored": "" or why the state cannot be stored.
    "parts": {part: is it as it was?}, of PARTS. Losses of the steps that follow: "losses", of the resumed
    training; "after", of the one that was captured; "whole", of one without a break.
    """
    whole = Training(comm, batch=BATCH)
    losses = [whole.advance() for _ in range(LAST)]
    results = {}
    for stop in STOPS:
        with launch.case(f"captured after step {stop}"):
            results[stop] = _try_at(comm, capture, restore, stop) | {"whole": losses[stop:]}
    return results


def _try_at(comm, capture: Callable, restore: Callable, stop: int) -> dict:
    training = Training(comm, batch=BATCH)
    for _ in range(stop):
        training.advance()
    before = _parts(training)
    state = capture(training, comm)
    result: dict[str, object] = {}
    result["holders"] = [rank for rank, holds in enumerate(comm.allgather(state is not None)) if holds]
    stored, state = _through_a_file(comm, state)  # before the next step changes the same tensors
    result["stored"] = stored
    result["after"] = [training.advance() for _ in range(LAST - stop)]
    if stored or result["holders"] != [0]:
        return result
    fresh = Training(comm, seed=7, batch=BATCH)
    fresh.advance()
    restore(fresh, state, comm)
    now = _parts(fresh)
    same = {part: _equal(before[part], now[part]) for part in PARTS}
    result["parts"] = same
    result["losses"] = [fresh.advance() for _ in range(LAST - stop)] if fresh.done == stop else []
    return result


def _through_a_file(comm, state) -> tuple[str, dict | None]:
    """("", the state as every rank reads it), or (why it cannot be stored, None)."""
    content = None
    trouble = ""
    if comm.rank == 0:
        try:
            content = files.to_bytes(state)
            files.from_bytes(content)
        except Exception as error:
            trouble = str(error).strip().splitlines()[0]
    trouble = comm.bcast(trouble)
    content = comm.bcast(content)
    return trouble, None if trouble else files.from_bytes(content)


def _parts(training: Training) -> dict[str, object]:
    """Copies of what decides how it goes on, as lists that compare."""
    import torch

    adam = training.optimizer.state_dict()
    averages = [[value.clone().numpy() for value in entry.values()] for entry in adam["state"].values()]
    return {
        "net": [weights.detach().clone().numpy() for weights in training.net.parameters()],
        "optimizer": averages,
        "schedule": [training.schedule.last_epoch, *(group["lr"] for group in adam["param_groups"])],
        "place": (training.epoch, training.step),
        "dropout": torch.get_rng_state().numpy().copy(),
        "noise": copy.deepcopy(training.noise.bit_generator.state),
    }


def _equal(one, other) -> bool:
    """Are two values the same, in lists and dicts too, to the last bit?"""
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_equal(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return np.array_equal(one, other)


class Walk:
    """Stands for a training of which only the steps count. done: steps so far; comm: its ranks."""

    def __init__(self, comm, done: int):
        self.comm = comm
        self.done = done

    def advance(self) -> float:
        """One more step."""
        self.done += 1
        return 0.0


class LoopCase(NamedTuple):
    """A training that has done `done` steps. end, saves: what is right, the last step and those saved after.

    asked: {rank: after which step it is asked to stop}.
    """

    done: int
    last: int
    every: int
    asked: dict[int, int]
    end: int
    saves: list[int]

    def __str__(self) -> str:
        start = f"from step {self.done} " if self.done else ""
        who = [f"rank {rank} is asked to stop during step {step}" for rank, step in self.asked.items()]
        return (
            f"{start}to step {self.last}, a save every {self.every}, {' and '.join(who) or 'nobody is asked'}"
        )


def loop_cases(ranks: int) -> list[LoopCase]:
    """Cases for a loop on so many ranks."""
    highest = ranks - 1
    return [
        LoopCase(0, 7, 3, {}, 7, [3, 6, 7]),
        LoopCase(4, 8, 4, {}, 8, [8]),
        LoopCase(6, 6, 3, {}, 6, []),
        LoopCase(0, 7, 3, {highest: 4}, 4, [3, 4]),
        LoopCase(0, 7, 3, {0: 4}, 4, [3, 4]),
        LoopCase(0, 9, 3, {0: 6}, 6, [3, 6]),
        LoopCase(0, 7, 3, {highest: 7}, 7, [3, 6, 7]),
    ]


def try_loop(comm, train: Callable, cases: list[LoopCase]) -> list[dict]:
    """Runs train(walk, last, every, stopped, save) for each case.

    Returns for each case what this rank did: "done", its steps, "saves", after which of them it saved, and
    "asked", the number of steps in which it called stopped() more than once.
    """
    results = []
    for case in cases:
        walk = Walk(comm, case.done)
        saves: list[int] = []
        asked: Counter[int] = Counter()  # by the steps done so far
        step = case.asked.get(comm.rank)

        def stopped(walk=walk, step=step, asked=asked) -> bool:
            asked[walk.done] += 1
            return step is not None and walk.done >= step

        def save(training, saves=saves) -> None:
            saves.append(training.done)

        with launch.case(str(case)):
            train(walk, case.last, case.every, stopped, save)
        often = sum(count > 1 for count in asked.values())
        results.append({"done": walk.done, "saves": saves, "asked": often})
        comm.Barrier()  # no message of this case is taken for one of the next
    return results


def _captured(training: Training, capture: Callable) -> bytes:
    """What capture returns on rank 0, as bytes, on all ranks."""
    state = capture(training, training.comm)
    return training.comm.bcast(files.to_bytes(state) if training.comm.rank == 0 else None)


def forget(comm, capture: Callable, restore: Callable, stop: int, last: int) -> dict[str, list[float]]:
    """Losses of steps stop + 1 to last: without a break, and resumed with one part of the state forgotten.

    A forgotten part is as a fresh training has it. Keys: "without a break", "nothing", each part, and
    "rank 0's random states for all".
    """
    whole = Training(comm, horizon=last)
    losses = []
    state = b""
    for _ in range(last):
        if whole.done == stop:
            state = _captured(whole, capture)
        losses.append(whole.advance())
    blank = _captured(Training(comm, seed=7, horizon=last), capture)
    results = {"without a break": losses[stop:]}
    lost = {
        "nothing": (),
        "random states": ("random",),
        "schedule": ("schedule",),
        "place in the epoch": ("step",),
        "optimizer": ("optimizer",),
    }
    mixtures = {}
    for name, keys in lost.items():
        mixtures[name] = files.from_bytes(state)
        for key in keys:
            mixtures[name][key] = files.from_bytes(blank)[key]
    of_all = files.from_bytes(state)
    of_all["random"] = [of_all["random"][0]] * comm.size
    mixtures["rank 0's random states for all"] = of_all
    for name, mixed in mixtures.items():
        fresh = Training(comm, seed=7, horizon=last)
        restore(fresh, mixed, comm)
        results[name] = [fresh.advance() for _ in range(last - stop)]
    return results

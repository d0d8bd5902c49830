"""What a step would take on GPUs, and so an epoch, and the way to an accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import median

import numpy as np
from labkit import data, nets, timing, virtual
from threadpoolctl import threadpool_limits

from support.lab34.training import digits, fresh_state, start_weights


def step_times(updates: Mapping, images: int) -> dict[str, timing.Measurement]:
    """Seconds that a core computes in a step: the gradient of so many images, and the update."""
    images_of_all, labels, *_ = digits()
    calls = {}
    for name, update in updates.items():
        weights = start_weights()
        state = fresh_state(weights)
        state.t = 1

        def step(update=update, weights=weights, state=state):
            update(weights, nets.gradient(weights, images_of_all[:images], labels[:images]), state, 1e-6)

        calls[name] = step
    with threadpool_limits(1):
        return timing.in_turns(calls, seconds=1.0)


@cache
def allreduce_seconds(gpus: int, machine: str) -> float:
    """Virtual seconds to sum the net's gradient (float32) on so many GPUs of a virtual machine."""
    nbytes = 4 * sum(array.size for array in start_weights())

    def program(comm):
        gradient = virtual.vector(np.ones(gpus), stands_for=nbytes)
        comm.Allreduce(gradient, np.empty_like(gradient))

    return virtual.Cluster.of(gpus, None, machine).run(program).time


def times_to_goal(trained: Mapping, computing: Mapping, per_gpu: int, machine: str) -> dict[str, dict]:
    """way -> {batch: (seconds of an epoch, seconds to the goal)}, with per_gpu images on each GPU and step.

    trained: of `sweep`. computing: way -> seconds of a step without messages. The seconds to the goal are the
    median over the seeds, inf where half of them did not reach it.
    """
    table: dict = {}
    for way, by_batch in trained.items():
        table[way] = {}
        for batch, trainings in by_batch.items():
            step = computing[way] + allreduce_seconds(max(1, batch // per_gpu), machine)
            epoch = step * (data.TRAIN_IMAGES // batch)
            epochs = median(training.epochs_to_goal or np.inf for training in trainings)
            table[way][batch] = (epoch, epochs * epoch)
    return table


def speed_ups(times: Mapping, first: str) -> tuple[dict[int, float], dict[str, dict[int, float]]]:
    """How many times as fast as in the way `first` at its smallest batch: an epoch, and each way to the goal.

    times: of `times_to_goal`. Returns {batch: number} of the epoch, and way -> {batch: number} of the goal,
    without the batches, and the ways, that do not reach it.
    """
    one_epoch, one_goal = times[first][min(times[first])]
    epoch = {batch: one_epoch / time for batch, (time, _) in times[first].items()}
    goals: dict = {}
    for way, rows in times.items():
        for batch, (_, time) in rows.items():
            if np.isfinite(time) and np.isfinite(one_goal):
                goals.setdefault(way, {})[batch] = one_goal / time
    return epoch, goals

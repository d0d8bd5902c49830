"""A large batch's step on several ranks: what they do in three steps, and what one process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from labkit import check, expect, launch, nets, virtual
from labkit.counting import CallLog, on_every_size

from support.lab34.cases import distances, lamb_steps, lars_steps
from support.lab34.schedule import SCHEDULES
from support.lab34.training import digits, fresh_state, start_weights

RATE = 0.1
STEPS = 3
BATCH = 24  # images, nearly: as many for each rank


class Seen(NamedTuple):
    """What happened on a rank, by step: the weights afterwards, the gradients of update; and calls of MPI."""

    weights: list[list[np.ndarray]]
    gradients: list[list[np.ndarray]]
    calls: list[str]


class Alone(NamedTuple):
    """A step as one process does it: the gradient of the whole batch, and of each rank's part; the weights
    before and afterwards; images of a rank."""

    gradient: list[np.ndarray]
    own: list[list[np.ndarray]]
    before: list[np.ndarray]
    after: list[np.ndarray]
    images: int

    def slips(self, rank: int) -> dict[str, list[np.ndarray]]:
        """What is wrong -> the gradient that it gives to update on this rank."""
        p = len(self.own)
        own = self.own[rank]
        mean = self.gradient
        per_image = [part / self.images for part in mean]
        return {
            "this is the rank's own gradient; average first, LARS and LAMB need the mean's norm": own,
            "this is the sum over the ranks, not the mean; LARS hides that in matrices, not in biases": [
                p * part for part in mean
            ],
            f"this is the rank's own gradient / {p}: use what Allreduce receives": [part / p for part in own],
            "it is a mean over the images already: divide the sum by the ranks alone": per_image,
            "it is a mean over the images already: divide the sum by the ranks, not by the images": [
                p * part for part in per_image
            ],
        }


def three_steps(comm, step: Callable, update: Callable) -> Seen:
    """Three calls of step(comm, weights, images, labels, update, state, rate) on this rank, in float64.

    Before them one in float32, as in the lab's trainings: MPI refuses a buffer of another dtype.
    """
    _one_step_in_float32(comm, step)
    weights = _float64_weights()
    state = fresh_state(weights)
    seen = Seen([], [], [])
    log = CallLog(comm)

    def spy(weights, gradients, state, rate):
        arrays = f"{len(weights)} arrays, like the weights; these are {len(gradients)}"
        sentence = f"update takes a list of {arrays}. Join before the Allreduce, cut after it."
        expect(len(gradients) == len(weights), sentence)
        sentence = f"The rate is {RATE}, and update got {rate:.4g}"
        expect(rate == RATE, f"{sentence}: the schedule has scaled it for the whole batch already.")
        seen.gradients.append([np.array(array) for array in gradients])
        update(weights, gradients, state, rate)

    for state.t, (images, labels) in enumerate(_batches(comm.size), start=1):
        own = slice(comm.rank, None, comm.size)
        step(log, weights, images[own], labels[own], spy, state, RATE)
        seen.weights.append([array.copy() for array in weights])
    seen.calls.extend(log.calls)
    return seen


def expect_one_process(ranks: Sequence[Seen], update: Callable, where: str) -> None:
    """Fail unless three steps on ranks are those of one process. ranks: what each saw. where: in words."""
    for step, alone in enumerate(one_process(update, len(ranks))):
        for rank, seen in enumerate(ranks):
            at = f"{where}, step {step + 1}, rank {rank}"
            once = "Every rank calls update once a step"
            expect.equal(len(seen.gradients), STEPS, f"{at}: calls of update in 3 steps", because=once)
            gradient = seen.gradients[step]
            what = f"{at}: the gradient given to update"
            dtypes = {str(part.dtype) for part in gradient}
            like = "A buffer is to be like the gradient"
            expect.equal(dtypes, {"float64"}, f"{what}: dtypes", because=like)
            expect.close(gradient, alone.gradient, what, rtol=1e-6, atol=1e-10, slips=alone.slips(rank))
            what = f"{at}: the weights, by right gradients"
            same = {"they are what they were: give update those of the caller, no copy": alone.before}
            state = "Is `state` the caller's own?"
            weights = seen.weights[step]
            expect.close(weights, alone.after, what, rtol=1e-6, atol=1e-10, slips=same, because=state)
    calls = [name for seen in ranks for name in seen.calls]
    pickled = [name for name in calls if name[0].islower()]
    sentence = f"comm.{pickled[0]} pickles its argument; the call for arrays is Allreduce." if pickled else ""
    expect(not pickled, f"{where}: {sentence}")
    others = [name for name in calls if name not in ("Allreduce", "Iallreduce")]
    sentence = f"comm.{others[0]} is one call too many. " if others else ""
    own = "Each rank takes the gradient of its own images; one Allreduce a step brings their mean."
    expect(not others, f"{where}: {sentence}{own}")
    most = max(len(seen.calls) for seen in ranks)
    enough = "One Allreduce a step is enough: join the gradients."
    expect(len(ranks) == 1 or most <= STEPS, f"{where}: {most} calls of MPI in 3 steps. {enough}")


def one_process(update: Callable, p: int) -> list[Alone]:
    """The same three steps without ranks; of each also what p ranks would have of its batch."""
    weights = _float64_weights()
    state = fresh_state(weights)
    steps = []
    for state.t, (images, labels) in enumerate(_batches(p), start=1):
        gradient = nets.gradient(weights, images, labels)
        own = [nets.gradient(weights, images[rank::p], labels[rank::p]) for rank in range(p)]
        before = [array.copy() for array in weights]
        update(weights, gradient, state, RATE)
        after = [array.copy() for array in weights]
        steps.append(Alone(gradient, own, before, after, len(images) // p))
    return steps


def _one_step_in_float32(comm, step: Callable) -> None:
    weights = start_weights(5)
    state = fresh_state(weights)
    state.t = 1
    images, labels = _batches(comm.size)[0]
    own = slice(comm.rank, None, comm.size)
    step(comm, weights, images[own].astype(np.float32), labels[own], lambda *_, **__: None, state, RATE)


def _float64_weights() -> list[np.ndarray]:
    """In float64, so that sums in any order are alike."""
    return [array.astype(np.float64) for array in start_weights(5)]


def _batches(p: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and labels of each step, as many for each of the p ranks."""
    images, labels, *_ = digits()
    size = p * max(1, BATCH // p)
    parts = [slice(step * size, (step + 1) * size) for step in range(STEPS)]
    return [(images[part], labels[part]) for part in parts]


@check.exercise("34.1")
def check_learning_rate(learning_rate):
    """The rates of seven trainings, at steps in the warm-up, at its end, later, and at the last."""
    for training in SCHEDULES:  # batch, base, power, warm_up, epochs, images, base_batch
        for step in training.steps():
            expect.close(
                learning_rate(step, *training),
                training.rate(step),
                f"{training}: the rate of step {step} of {training.total}",
                rtol=1e-9,
                slips=training.slips(step),
            )


def expect_weights(update, cases):
    """The weights after each step of each case."""
    for case in cases:
        for step, weights in enumerate(case.walk(update)):
            expect.close(
                weights,
                case.want[step],
                f"{case.what}, step {step + 1}: weights",
                rtol=1e-6,
                atol=1e-12,
                slips=case.slips(step),
                because=case.because,
            )


@check.exercise("34.2")
def check_lars(lars):
    """The gradient's size has no say in matrices; the weights after each step, norms of 0 included."""
    moved, more = (distances(lars, factor) for factor in (1, 1000))
    expect(all(moved), "After a step a matrix is what it was: change the caller's arrays in place, `w -= …`.")
    what = "How far matrices move, with gradients 1,000 times as large"
    expect.close(more, moved, what, because="With LARS the gradient's size has no say, in matrices")
    expect_weights(lars, lars_steps())


@check.exercise("34.3")
def check_lamb(lamb):
    """The weights after each of four steps, with and without decay, and where norms are 0."""
    expect_weights(lamb, lamb_steps())


@check.exercise("34.4")
def check_parallel_step(parallel_step, patience, updates, workers):
    """Three steps on 1 to 4 virtual ranks, then on real ones, are those of one process, and one
    Allreduce is all that a step calls.
    """

    def try_parallel(comm):
        for name, update in updates.items():
            seen = comm.gather(three_steps(comm, parallel_step, update))
            if comm.rank == 0:
                expect_one_process(seen, update, f"{name} on {comm.size} real ranks")

    for p in (1, 2, 3, 4):
        for name, update in updates.items():
            run = virtual.Cluster(nodes=p).run(three_steps, parallel_step, update)
            expect_one_process(run.results, update, f"{name} on {p} virtual ranks")
    launch.run(on_every_size, try_parallel, ranks=launch.ranks_here(workers), timeout=patience)

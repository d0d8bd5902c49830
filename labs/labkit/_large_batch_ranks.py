"""What a check asks of a large batch's step on several ranks. Names as in large_batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit import virtual
from labkit.counted import Tally
from labkit.expectations import expect

RATE = 0.1
LIKE = "A buffer is to be like the gradient: np.empty_like(mine)"


def expect_parallel(step: Callable, updates: dict, p: int) -> None:
    """Fail unless step(comm, weights, images, labels, update, state, rate) is one process's, on p ranks."""
    for name, update in updates.items():
        done = virtual.Cluster(nodes=p).run(_three_steps, step, update)
        _look_at_ranks(done.results, update, f"{name} on {p} rank{'s' * (p > 1)}")


def try_parallel(comm, step: Callable, updates: dict) -> None:
    """The same on real ranks."""
    for name, update in updates.items():
        results = comm.allgather(_three_steps(comm, step, update))
        _look_at_ranks(results, update, f"{name} on {comm.size} real ranks")


def _problem(p: int):
    """Weights (float64: sums in any order are alike), images and labels of three batches.

    A batch has about 24 images, as many for each of the p ranks.
    """
    from labkit import large_batch

    images, labels, *_ = large_batch.digits()
    weights = [one.astype(np.float64) for one in large_batch.start_weights(5)]
    size = p * max(1, 24 // p)
    parts = [slice(k * size, (k + 1) * size) for k in range(3)]
    return large_batch.gradient, weights, [(images[part], labels[part]) for part in parts]


def _three_steps(comm, step, update) -> tuple[list, list, list]:
    """(the weights after each step, the gradients that update got, the calls of MPI) on this rank."""
    from labkit import large_batch

    (_, weights, batches), after, seen, tally = _problem(comm.size), [], [], Tally(comm)
    state = large_batch.fresh_state(weights)
    _one_step_float32(comm, step, *batches[0])

    def spy(weights, gradients, state, rate):
        right = len(gradients) == len(weights)
        lists = f"{len(weights)} arrays, like the weights; these are {len(gradients)}"
        expect(right, f"update takes a list of {lists}. Join before the Allreduce, cut after it.")
        wants = f"The rate is {RATE}, and update got {rate:.4g}"
        expect(rate == RATE, f"{wants}: the schedule has scaled it for the whole batch already.")
        seen.append([np.array(one) for one in gradients])
        update(weights, gradients, state, rate)

    for state.t, (images, labels) in enumerate(batches, start=1):
        mine = slice(comm.rank, None, comm.size)
        step(tally, weights, images[mine], labels[mine], spy, state, RATE)
        after.append([one.copy() for one in weights])
    return after, seen, tally.calls


def _one_step_float32(comm, step, images, labels) -> None:
    """A step with float32 weights, as in the lab's trainings: MPI refuses a buffer of another dtype."""
    from labkit import large_batch

    weights = large_batch.start_weights(5)
    state, mine = large_batch.fresh_state(weights), slice(comm.rank, None, comm.size)
    state.t = 1

    step(comm, weights, images[mine].astype(np.float32), labels[mine], lambda *_, **__: None, state, RATE)


def _look_at_ranks(results, update, who: str) -> None:
    """results: of `_three_steps`, by rank."""
    from labkit import large_batch

    p, (gradient, weights, batches) = len(results), _problem(len(results))
    state, start = large_batch.fresh_state(weights), [one.copy() for one in weights]
    for state.t, (images, labels) in enumerate(batches, start=1):
        mean = gradient(weights, images, labels)
        own = [gradient(weights, images[r::p], labels[r::p]) for r in range(p)]
        update(weights, mean, state, RATE)
        for rank, (after, seen, _) in enumerate(results):
            at = f"{who}, step {state.t}, rank {rank}"
            words = (
                f"{at}: {len(seen)} calls of update in {len(batches)} steps. Every rank calls it once a step"
            )
            expect(len(seen) == len(batches), f"{words}.")
            got = seen[state.t - 1]
            expect.equal(len(got), len(mean), f"{at}: arrays given to update")
            for one, other in zip(got, mean, strict=True):
                words = f"{at}: update got {one.dtype}, but the gradients are {other.dtype} here"
                expect(one.dtype.itemsize >= other.dtype.itemsize, f"{words}. {LIKE}.")
            if p > 1:
                early = "an update needs the norm of the mean, so average first"
                expect(not _like(got, own[rank]), f"{at}: update got this rank's own gradient; {early}.")
                summed = [p * one for one in mean]
                hidden = "LARS hides that in matrices, not in biases"
                expect(
                    not _like(got, summed),
                    f"{at}: update got the sum over the ranks, not the mean; {hidden}.",
                )
                unused = [one / p for one in own[rank]]
                words = f"{at}: update got this rank's own gradient / {p}: use what Allreduce receives"
                expect(not _like(got, unused), f"{words}.")
            again = "the gradient is a mean over the images already: divide the sum by the ranks alone"
            many = len(images) // p
            for wrong in {1 / many, p / many} - {1.0}:
                expect(not _like(got, [wrong * one for one in mean]), f"{at}: {again}.")
            expect.close(got, mean, f"{at}: the gradient given to update", 1e-6, 1e-10)
            still = all(map(np.array_equal, after[state.t - 1], start))
            expect(
                not still, f"{at}: the weights are what they were. Give update those of the caller, no copy."
            )
            words = "The gradients given to update were right. Is `state` the caller's own"
            expect(_like(after[state.t - 1], weights), f"{at}: the weights are not one process's. {words}?")

    for _, _, calls in results:
        most = len(batches) * (p > 1) or len(calls)
        words = f"{who}: {len(calls)} calls of MPI in {len(batches)} steps: {', '.join(dict.fromkeys(calls))}"
        expect(len(calls) <= most, f"{words}. One Allreduce a step is enough: join the gradients.")


def _like(got, want) -> bool:
    return all(
        np.shape(a) == b.shape and np.allclose(a, b, 1e-6, 1e-10) for a, b in zip(got, want, strict=True)
    )

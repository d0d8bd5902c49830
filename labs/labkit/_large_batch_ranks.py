"""What a check asks of a large batch's step on several ranks. Names as in large_batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit import virtual
from labkit.counted import Tally
from labkit.expectations import expect

RATE = 0.1


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


def _problem():
    """Weights (float64: sums in any order are alike), images and labels of three batches of 24."""
    from labkit import large_batch

    images, labels, *_ = large_batch.digits()
    weights = [one.astype(np.float64) for one in large_batch.start_weights(5)]
    return large_batch.gradient, weights, [(images[k : k + 24], labels[k : k + 24]) for k in (0, 24, 48)]


def _three_steps(comm, step, update) -> tuple[list, list, list]:
    """(the weights after each step, the gradients that update got, the calls of MPI) on this rank."""
    from labkit import large_batch

    (_, weights, batches), after, seen, tally = _problem(), [], [], Tally(comm)
    state = large_batch.fresh_state(weights)

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


def _look_at_ranks(results, update, who: str) -> None:
    """results: of `_three_steps`, by rank."""
    from labkit import large_batch

    p, (gradient, weights, batches) = len(results), _problem()
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
                like = "A buffer is to be like the gradient: np.empty_like(mine)"
                expect(one.dtype.itemsize >= other.dtype.itemsize, f"{words}. {like}.")
            if p > 1:
                early = "an update needs the norm of the mean, so average first"
                expect(not _like(got, own[rank]), f"{at}: update got this rank's own gradient; {early}.")
                summed = [p * one for one in mean]
                hidden = "LARS hides that in matrices, not in biases"
                expect(
                    not _like(got, summed),
                    f"{at}: update got the sum over the ranks, not the mean; {hidden}.",
                )
            expect.close(got, mean, f"{at}: the gradient given to update", 1e-6, 1e-10)
            still = all(map(np.array_equal, after[state.t - 1], start))
            expect(
                not still, f"{at}: the weights are what they were. Give update those of the caller, no copy."
            )
            expect.close(after[state.t - 1], weights, f"{at}: the weights, against one process", 1e-6, 1e-10)
    for _, _, calls in results:
        most = len(batches) * (p > 1) or len(calls)
        words = f"{who}: {len(calls)} calls of MPI in {len(batches)} steps: {', '.join(dict.fromkeys(calls))}"
        expect(len(calls) <= most, f"{words}. One Allreduce a step is enough: join the gradients.")


def _like(got, want) -> bool:
    return all(
        np.shape(a) == b.shape and np.allclose(a, b, 1e-6, 1e-10) for a, b in zip(got, want, strict=True)
    )

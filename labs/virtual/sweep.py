"""One function tried on many numbers of ranks and lengths of vector, each with the right answer asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps

import numpy as np
from labkit.errors import LabError

from virtual.cluster import Cluster
from virtual.loggp import Machine
from virtual.run import Run, by_rank, counted


def trials(
    fn: Callable,
    want: Callable,
    ranks: Iterable[int] = (1, 2, 3, 4, 5, 8, 16),
    lengths: Iterable[int] | None = None,
    machine: Machine | str | None = None,
    ranks_per_node: int = 1,
    args: tuple = (),
    what: str = "the result",
) -> dict[tuple[int, int], Run]:
    """Run fn(comm, vector, *args) for each number of ranks and each length. Returns {(ranks, length): Run}.

    Every rank's result, or its vector where fn returns None, has to be `want(vectors)`: an array for all or a
    list by rank (None: any will do). lengths: values per vector; by default some that the ranks share evenly,
    some that they do not, and fewer than there are ranks. The vectors hold whole numbers (float64).
    machine, ranks_per_node: as in Cluster; the last node may have fewer ranks. what: words for the result.
    """
    lengths = None if lengths is None else list(lengths)
    runs = {}
    for p in ranks:
        for length in lengths_for(p) if lengths is None else lengths:
            inputs = vectors(p, length)
            run = _run(fn, Cluster.of(p, ranks_per_node, machine), inputs, args)
            run.where += f" and {counted(length, 'value')}"
            run.expect_results(want([vector.copy() for vector in inputs]), what)
            runs[p, length] = run
    return runs


def lengths_for(p: int) -> list[int]:
    """16 values a rank, a length that p does not divide (for most p), and fewer values than ranks."""
    return list(dict.fromkeys((16 * p, 1000 + p, max(1, p - 1))))


def vectors(p: int, length: int) -> list[np.ndarray]:
    """One vector a rank: whole numbers from 1 to 999, so that sums are exact and no two places are alike."""
    return list(np.random.default_rng([p, length]).integers(1, 1000, (p, length)).astype(np.float64))


def _run(fn: Callable, cluster: Cluster, inputs: list[np.ndarray], args: tuple) -> Run:
    """One run; an error names ranks and values. What fn returns counts, else the vector."""

    @wraps(fn)
    def program(comm, vector, *more):
        result = fn(comm, vector, *more)
        return vector if result is None else result

    try:
        return cluster.run(program, by_rank(inputs), *args)
    except LabError as error:
        size = f"{counted(cluster.size, 'rank')} and {counted(len(inputs[0]), 'value')}"
        error.args = (f"With {size}: {error}",)
        raise

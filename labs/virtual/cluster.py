"""`Cluster(nodes=4, ranks_per_node=2).run(fn, …)`: a function on the ranks of a cluster that is not
there.

`trials` runs one on many numbers of ranks and lengths of vector, and asks for the right answer each
time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial, wraps

import numpy as np
from labkit.errors import LabError, counted

from virtual import explain, stuck
from virtual.comm import Comm
from virtual.engine import Engine
from virtual.loggp import Machine
from virtual.machines import choose
from virtual.requests import Request
from virtual.run import Run, by_rank, check_arguments, copies, no_seeds
from virtual.transport import Transport


class Cluster:
    """`nodes` nodes of a machine, with `ranks_per_node` ranks on each (None: as many as the machine
    has).

    machine: None (the ideal machine of the closed forms), a Machine, or the name of one
    (`machines()`). Ranks are placed node by node: rank r is on node r // ranks_per_node.
    """

    def __init__(
        self, nodes: int = 4, ranks_per_node: int | None = 1, machine: Machine | str | None = None
    ):
        self.machine = choose(machine)
        self.nodes = _count("nodes", nodes)
        if ranks_per_node is None:
            ranks_per_node = self.machine.ranks_per_node
        self.ranks_per_node = _count("ranks_per_node", ranks_per_node)
        self.size = self.nodes * self.ranks_per_node

    @classmethod
    def of(
        cls, ranks: int, ranks_per_node: int | None = 1, machine: Machine | str | None = None
    ) -> Cluster:
        """A cluster for so many ranks; the last node may have fewer than the others."""
        ranks = _count("ranks", ranks)
        cluster = cls(1, ranks_per_node, machine)
        cluster.nodes = -(-ranks // cluster.ranks_per_node)
        cluster.size = ranks
        return cluster

    def __repr__(self) -> str:
        return (
            f"<{counted(self.nodes, 'node')} of {self.machine.name}, {counted(self.size, 'rank')}>"
        )

    def run(self, fn: Callable, *args: object, trace: bool = False, **kwargs: object) -> Run:
        """Run fn(comm, *args, **kwargs) on every rank and return what came of it, as a Run.

        Every rank gets its own copy of the arguments, of `by_rank(list)` its own. What fn uses
        beside them is one for all ranks: variables from outside, the global generators of NumPy and
        PyTorch. trace: keep what each rank did when, for plots.timeline and Run.save_trace. An
        error of one rank ends the run.
        """
        if not callable(fn):
            raise LabError(f"cluster.run takes a function fn(comm, …), not {type(fn).__name__}.")
        check_arguments([*args, *kwargs.values()], self.size)
        nodes = [rank // self.ranks_per_node for rank in range(self.size)]
        engine = Engine(nodes, self.machine.gamma, trace)
        local = [rank % self.ranks_per_node for rank in range(self.size)]
        transport = Transport(engine, self.machine, local)
        members = list(range(self.size))

        def program(rank: int) -> Callable[[], object]:
            own_args, own_kwargs = copies(args, kwargs, rank)
            state = engine.states[rank]
            return lambda: fn(
                Comm(transport, state.lane, members, rank, 0), *own_args, **own_kwargs
            )

        try:
            programs = [program(rank) for rank in range(self.size)]
            with no_seeds():
                waiting = engine.run(programs)
            if engine.error is not None:
                raise stuck.failed(engine.failed.state.rank, _explained(engine.error)) from None
            if waiting:
                raise stuck.deadlock(engine, self.machine.eager, waiting)
            left_undone = stuck.left_undone(engine)
            if left_undone is not None:
                raise left_undone
        finally:
            engine.end()
        return Run(self, engine, transport, _name(fn))


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
    """Run fn(comm, vector, *args) for each number of ranks and each length. Returns {(ranks,
    length): Run}.

    Every rank's result, or its vector where fn returns None, has to be `want(vectors)`: an array
    for all or a list by rank (None: any will do). lengths: values per vector; by default some that
    the ranks share evenly, some that they do not, and fewer than there are ranks. The vectors hold
    whole numbers (float64). machine, ranks_per_node: as in Cluster; the last node may have fewer
    ranks. what: words for the result. Once more for each number of ranks, rank 1 begins late, so
    that messages of other ranks overtake its own; this run is not among those returned.
    """
    lengths = None if lengths is None else list(lengths)
    runs = {}
    for p in ranks:
        cluster = Cluster.of(p, ranks_per_node, machine)
        of_length = {}
        for length in lengths_for(p) if lengths is None else lengths:
            inputs = vectors(p, length)
            run = of_length[p, length] = _trial(fn, cluster, inputs, args)
            run.where += f" and {counted(length, 'value')}"
            run.expect_results(want([vector.copy() for vector in inputs]), what)
        run = _trial(_late(fn), cluster, inputs, args)
        run.where += f" and {counted(length, 'value')}, where rank 1 begins late,"
        run.expect_results(want([vector.copy() for vector in inputs]), what)
        runs |= of_length
    return runs


def _late(fn: Callable) -> Callable:
    @wraps(fn)
    def program(comm, vector, *args):
        if comm.rank == 1:
            comm.compute(1.0)
        return fn(comm, vector, *args)

    return program


def lengths_for(p: int) -> list[int]:
    """16 values a rank, a length that p does not divide (for most p), and fewer values than
    ranks."""
    return list(dict.fromkeys((16 * p, 1000 + p, max(1, p - 1))))


def vectors(p: int, length: int) -> list[np.ndarray]:
    """One vector a rank: whole numbers from 1 to 999, so that sums are exact and no two places are
    alike."""
    return list(
        np.random.default_rng([p, length]).integers(1, 1000, (p, length)).astype(np.float64)
    )


def _trial(fn: Callable, cluster: Cluster, inputs: list[np.ndarray], args: tuple) -> Run:
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


def _explained(error: BaseException) -> BaseException:
    """`error`; where a program asked for a name of mpi4py's that is not here, it says so."""
    if isinstance(error, AttributeError):
        for kind, owner in (("comm", Comm), ("request", Request)):
            if isinstance(error.obj, owner) or (
                isinstance(error.obj, type) and issubclass(error.obj, owner)
            ):
                error.args = (explain.lacking(kind, error.name),)
    return error


def _name(fn: Callable) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__name__", "a function")


def _count(name: str, value: object) -> int:
    """`value` as a whole number from 1 on."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise LabError(f"A cluster's {name} is a whole number, 1 or more, not {value!r}.")
    return count

"""`Cluster(nodes=4, ranks_per_node=2).run(fn, …)`: a function on the ranks of a cluster that is not there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from labkit.virtual import constants, stuck
from labkit.virtual import machine as machines_
from labkit.virtual.comm import Comm
from labkit.virtual.engine import Engine
from labkit.virtual.machine import Machine
from labkit.virtual.run import Run
from labkit.virtual.transport import Transport


class by_rank:
    """An argument of which rank r gets the r-th: `cluster.run(fn, by_rank(vectors))`."""

    def __init__(self, values: Sequence):
        self.values = values


class Cluster:
    """nodes: how many. ranks_per_node: the machine's own number if None. machine: a Machine."""

    def __init__(self, nodes: int = 4, ranks_per_node: int | None = None, machine: Machine | None = None):
        machine = machine or machines_.ideal()
        self.machine, self.nodes = machine, nodes
        self.ranks_per_node = ranks_per_node or machine.ranks_per_node
        self.size = nodes * self.ranks_per_node

    def run(self, fn: Callable, *args: object, trace: bool = False, **kwargs: object) -> Run:
        size, mpi = self.size, constants.now()
        node = [rank // self.ranks_per_node for rank in range(size)]
        engine = Engine(node, trace)
        engine.gamma = self.machine.gamma
        transport = Transport(engine, self.machine, [rank % self.ranks_per_node for rank in range(size)])
        members = list(range(size))

        def program(rank: int) -> Callable[[], object]:
            mine = [_own(one, rank) for one in args]
            more = {name: _own(one, rank) for name, one in kwargs.items()}
            return lambda: fn(Comm(transport, engine.states[rank].lane, members, rank, 0, mpi), *mine, **more)

        try:
            waiting = engine.run([program(rank) for rank in range(size)])
            if engine.error is not None:
                raise stuck.failed(engine.failed.state.rank, engine.error) from None
            error = (
                stuck.deadlock(engine, self.machine.eager, waiting) if waiting else stuck.left_undone(engine)
            )
            if error is not None:
                raise error
        finally:
            engine.end()
        return Run(self, engine, transport)


def _own(value, rank: int):
    return copy.deepcopy(value.values[rank] if isinstance(value, by_rank) else value)

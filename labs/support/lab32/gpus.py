"""Training steps of well-known nets on the GPUs of a virtual machine."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from labkit import nets, virtual

from support.lab32.training import functions_of, train


class Table(NamedTuple):
    """A net's layers that have parameters. scale: parameters that one value stands for."""

    net: str
    images: float
    names: list[str]
    sizes: list[int]
    forward: list[float]
    backward: list[float]
    scale: float

    @property
    def nbytes(self) -> float:
        """Bytes of all gradients, float32."""
        return 4 * self.scale * sum(self.sizes)

    @property
    def seconds(self) -> float:
        """Seconds of arithmetic in a step."""
        return sum(self.forward) + sum(self.backward)


def table(net: str, images: float, flops: float, values: int = 100_000) -> Table:
    """A well-known net as tensors, batch normalisation with the convolution before it.

    images: per GPU and step. flops: per second that the GPU reaches. Forward takes the layer's flops,
    backward twice as many (gradients of its input and of its weights). values: that stand for all parameters;
    fewer would leave small layers without a value for each rank, and MPI would take another algorithm.
    """
    names: list[str] = []
    sizes: list[int] = []
    work: list[float] = []
    for layer in nets.layer_table(net).itertuples():
        if layer.kind == "batchnorm":
            sizes[-1] += layer.parameters
        elif layer.parameters:
            names.append(layer.layer)
            sizes.append(layer.parameters)
            work.append(layer.flops * images / flops)
    scale = sum(sizes) / values
    few = [max(1, round(size / scale)) for size in sizes]
    return Table(net, images, names, few, work, [2 * seconds for seconds in work], scale)


def on_gpus(way, table: Table, ranks: int, machine, steps: int = 1, trace: bool = False):
    """`steps` steps of a net on so many virtual GPUs of a machine, all nodes full but the last. The Run.

    way: of a functools.partial with size=…, the size is in bytes of the real net.
    """
    if isinstance(way, partial) and "size" in way.keywords:
        way = partial(way, size=way.keywords["size"] / table.scale)
    cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
    program = partial(train, scale=table.scale)
    return cluster.run(program, way, table.sizes, steps, table.forward, table.backward, trace=trace)


def sum_alone(table: Table, ranks: int, machine) -> float:
    """Virtual seconds of one Allreduce of all gradients, with nothing beside it."""
    idle = table._replace(forward=[0.0] * len(table.sizes), backward=[0.0] * len(table.sizes))

    def at_the_end(comm, net):
        def finish() -> None:
            own = net.join(net.numbers)
            comm.Allreduce(own, np.empty_like(own))

        return (lambda i: None), finish

    return on_gpus(at_the_end, idle, ranks, machine).time


def unhidden(way):
    """A way with the same calls that begins them after backward and waits before the next forward."""

    def begin_late(comm, net):
        ready, finish, before = functions_of(way, comm, net)

        def finish_all() -> None:
            for i in reversed(net.numbers):
                ready(i)
            finish()
            for i in net.numbers:
                for wait in before:
                    wait(i)

        return (lambda i: None), finish_all

    return begin_late

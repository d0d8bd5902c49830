"""Training steps of well-known nets on the GPUs of a virtual machine."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

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


def on_gpus(way, table: Table, ranks: int, machine, steps: int = 1, trace: bool = False, queued=False):
    """`steps` steps of a net on so many virtual GPUs of a machine, all nodes full but the last. The Run.

    way: of a functools.partial with size=…, the size is in bytes of the real net. queued: its sums are made
    one after the other.
    """
    if isinstance(way, partial) and "size" in way.keywords:
        way = partial(way, size=way.keywords["size"] / table.scale)
    if queued:
        way = one_after_other(way)
    cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
    program = partial(train, scale=table.scale)
    return cluster.run(program, way, table.sizes, steps, table.forward, table.backward, trace=trace)


def messages_alone(way, table: Table, ranks: int, machine, queued: bool = False) -> float:
    """Virtual seconds of a step in this way whose arithmetic takes no time. queued: as for on_gpus."""
    nothing = [0.0] * len(table.sizes)
    idle = table._replace(forward=nothing, backward=nothing)
    return on_gpus(way, idle, ranks, machine, queued=queued).time


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


def one_after_other(way):
    """A way whose sums are made one after the other, as in a library that makes one at a time.

    A sum begins when the one before is over: at once if that is seen in a Wait, or else when the next
    gradient is there.
    """

    def queued(comm, net):
        queue = _Queue(comm)
        ready, finish, before = functions_of(way, queue, net)

        def tell(i) -> None:
            queue.go_on()
            ready(i)

        return (tell, finish, *before)

    return queued


def waited_at_once(way):
    """A way that waits for each sum as soon as it has begun it: what a blocking Allreduce would do."""

    def blocking(comm, net):
        ready, finish, before = functions_of(way, _Blocking(comm), net)
        return (ready, finish, *before)

    return blocking


class _Queue:
    """A communicator whose Iallreduces begin one after the other; the rest it passes on."""

    def __init__(self, comm):
        self._comm = comm
        self._waiting: list[_Queued] = []
        self._running: _Queued | None = None

    def __getattr__(self, name: str):
        return getattr(self._comm, name)

    def Iallreduce(self, own, total) -> _Queued:
        queued = _Queued(self, lambda: self._comm.Iallreduce(own, total))
        self._waiting.append(queued)
        self.go_on()
        return queued

    def go_on(self) -> None:
        """Begin the next sum if none is under way."""
        if self._running is not None and self._running.request.Test():
            self._running = None
        if self._running is None and self._waiting:
            self._begin()

    def wait(self, queued: _Queued) -> None:
        """Until this sum is over, and so all before it."""
        while self._running is queued or queued in self._waiting:
            if self._running is not None:
                self._running.request.Wait()
            self._running = None
            if self._waiting:
                self._begin()

    def _begin(self) -> None:
        self._running = self._waiting.pop(0)
        self._running.request = self._running.begin()


class _Queued:
    """A sum that begins when its turn comes. request: of it, as soon as it has begun."""

    def __init__(self, queue: _Queue, begin):
        self._queue = queue
        self.begin = begin
        self.request = None

    def Wait(self) -> bool:
        self._queue.wait(self)
        return True


class _Blocking:
    """A communicator whose Iallreduces are over when they return; the rest it passes on."""

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name: str):
        return getattr(self._comm, name)

    def Iallreduce(self, own, total) -> _Over:
        self._comm.Iallreduce(own, total).Wait()
        return _Over()


class _Over:
    """The request of a sum that is over."""

    def Wait(self) -> bool:
        return True

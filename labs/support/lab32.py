"""The checks of lab 32, and training steps whose gradients are summed while backward still runs.

A way is a function way(comm, net) that returns (ready, finish) or (ready, finish, before):

    ready(i)   in the backward pass, as soon as net.gradients[i] is there
    finish()   after the backward pass; it calls net.update(i, mean) for every tensor i
    before(i)  in the forward pass, before net.parameters[i] is used

Tensors are numbered in forward order; gradients come from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
import virtual
from labkit import check, data, expect, launch, mpi, nets, plots
from labkit.counting import PassOn, on_every_size
from labkit.errors import LabError, counted
from torch.nn import functional

SIZES = (3000, 10, 5000, 700, 1, 2500)  # values of the tensors of a toy net
SECONDS = 1e-3  # of each of its layers, forward and backward
# Of backward after the first gradient, without messages.
AFTER_FIRST_MS = 1e3 * SECONDS * (len(SIZES) - 1)
SLOW = 2e6  # bytes/s of links over which the broadcasts of the toy net outlast a layer

# ------------------------------------------------------------------------------------------- checks


@check.exercise("32.1")
def hooks_and_one_sum(at_the_end, watch, batch, patience, workers):
    """Hooks that tell `ready` of each gradient once, in time; and one Allreduce after backward."""
    expect_hooks(watch)
    seen = one_step(at_the_end)
    expect_sums(seen, "Allreduce", planned(1e9, len(SIZES)), late=True)
    expect_updates(seen)
    expect_one_process(at_the_end, watch, batch, patience, workers)


@check.exercise("32.2")
def each_begun_in_time(one_by_one, watch, batch, patience, workers):
    """One Iallreduce for each gradient, launched when it is complete, and waited for in finish."""
    for steps in (1, 2):
        seen = one_step(one_by_one, steps)
        expect_sums(seen, "Iallreduce", planned(1, 1))
        expect_updates(seen)
    expect_one_process(one_by_one, watch, batch, patience, workers)


@check.exercise("32.3")
def full_buckets(in_buckets, watch, batch, patience, workers):
    """Buckets that close at `size` bytes or `most` tensors, each sent as soon as it is full."""
    few, many = 1000, 10**9
    for size, most in [
        (12_000, few),
        (12_805, few),  # one byte more than gradients 5, 4 and 3 have
        (10_000, few),
        (1, few),
        (many, few),
        (many, 4),
        (20_000, 2),
    ]:
        with check.case(f"buckets of size={size:,} bytes, most={most}"):
            seen = one_step(partial(in_buckets, size=size, most=most), steps=2)
            expect_sums(seen, "Iallreduce", planned(size, most), late=size > 1)
            expect_updates(seen)
    expect_one_process(partial(in_buckets, size=12_000), watch, batch, patience, workers)


@check.exercise("32.4")
def two_directions(two_sides, watch, batch, patience, workers):
    """One Ireduce for each gradient, launched when it is complete; one Ibcast for each tensor and
    step; a forward pass in which each layer waits only for its own parameters.
    """

    def with_before(comm, net):
        returned = two_sides(comm, net)
        if not isinstance(returned, tuple | list) or len(returned) != 3:
            raise LabError(
                "two_sides(comm, net) should return three functions:"
                " end it with `return ready, finish, before`."
            )
        return returned

    seen = one_step(with_before, steps=2)  # by the last rank
    expect_sums(seen, "Ireduce", planned(1, 1))
    others = "Ranks other than 0 call net.update, too: only rank 0 has the sums to do it with."
    expect(seen.updates == 0, others)
    broadcast = sorted(call.values for call in seen.calls if call.name == "Ibcast")
    wanted = sorted(2 * SIZES)
    each = (
        f"In 2 steps Ibcast is called for {broadcast} values; it should be called for each tensor,"
        f" {wanted}."
    )
    expect(broadcast == wanted, each)
    first, second, *_, last = seen.forward[1]  # seconds at which layers began, in the second step
    begun = sum(call.name == "Ibcast" and call.begin < first + 1e-9 for call in seen.calls)
    expect(
        begun >= len(SIZES),
        f"When layer 0 began its next forward pass, Ibcast had been called for {begun} of"
        f" {len(SIZES)} tensors: `finish` should launch them all, and `before` only wait.",
    )
    late = (
        "Layer 0 began its next forward pass only when all broadcasts were complete, because no"
        " later layer had to wait."
    )
    needs = "It needs only its own parameters, and they should be sent first."
    expect(last - first > SECONDS * (len(SIZES) - 1) + 1e-9, f"{late} {needs}")
    expect(
        second - first < 1.5 * SECONDS,
        "Layer 1 began its next forward pass only when a later layer's parameters had arrived."
        " It needs only its own: before(i) should wait for the broadcast of tensor i alone.",
    )
    expect_one_process(two_sides, watch, batch, patience, workers)


def expect_hooks(watch: Callable) -> None:
    """Fail unless watch(module, ready) lets PyTorch tell ready of each gradient once, when it is
    there."""
    module = nets.torch_digits()
    weights = list(module.parameters())
    told = []  # what ready was given, whether that gradient was there, and how many were

    def ready(i) -> None:
        there = isinstance(i, Integral) and i < len(weights) and weights[i].grad is not None
        told.append((i, there, sum(weight.grad is not None for weight in weights)))

    watch(module, ready)
    expect(not told, "`watch` calls ready itself: it should give PyTorch a function that will.")
    module(torch.ones(8, 64)).square().sum().backward()
    numbers = [i for i, *_ in told]
    a_weight = "ready gets a weight, not its number: PyTorch calls a hook with the weight."
    expect(not any(isinstance(i, torch.Tensor) for i in numbers), a_weight)
    other = [i for i in numbers if not isinstance(i, Integral)]
    expect(not other, f"ready gets {other[:1]}, not a parameter's number, which is 0, 1, …")
    numbers = [int(i) for i in numbers]
    once = f"Gradients 0 to 5 came, each once; ready was told of {numbers}."
    expect(sorted(numbers) == [0, 1, 2, 3, 4, 5], once)
    expect(
        max(numbers[:2]) > max(numbers[-2:]),
        f"The last layer's gradients come first, not {numbers}.",
    )
    expect(
        all(there for _, there, _ in told),
        "ready(i) is called before `.grad` of parameter i is there.",
    )
    expect(
        [count for *_, count in told] == [1, 2, 3, 4, 5, 6],
        "ready(i) is called late: other gradients were complete before it was told of i.",
    )
    again = "In a second backward pass, ready was told of {} gradients, not of all 6."
    del told[:]
    module.zero_grad()
    module(torch.ones(8, 64)).square().sum().backward()
    expect(len(told) == 6, again.format(len(told)))


def planned(nbytes: float, most: int) -> list[list[int]]:
    """The buckets, each closed as soon as it holds `nbytes` or `most` tensors; the last may hold
    less."""
    buckets: list[list[int]] = [[]]
    for i in reversed(range(len(SIZES))):
        held = 4 * sum(SIZES[j] for j in buckets[-1])
        if buckets[-1] and (held >= nbytes or len(buckets[-1]) >= most):
            buckets.append([])
        buckets[-1].append(i)
    return buckets


def expect_sums(seen: Steps, name: str, buckets: list[list[int]], late: bool = False) -> None:
    """Fail unless the sums of the toy net began as they should.

    name: of the call that each sum is. buckets: the tensors of each sum of a step, in order. A sum
    begins as soon as its gradients are there. late: the last of a step has time until backward is
    over.
    """
    for call in seen.calls:
        allowed = (name, "Ibcast") if name == "Ireduce" else (name,)
        others = f"comm.{call.name} is called; only {' and '.join(allowed)} should be used."
        expect(call.name in allowed, others)
    for ready, end in zip(seen.ready, seen.backward_ends, strict=True):
        ms = 1e3 * (end - ready[-1])
        waits = f"`ready` waits: after the first gradient, backward takes {ms:.2f} ms"
        expect(ms < 1.01 * AFTER_FIRST_MS, f"{waits}, without messages {AFTER_FIRST_MS:.2f} ms.")
    sums = [call for call in seen.calls if call.name == name]
    expect(sums, f"comm.{name}, which takes arrays, is never called.")
    wanted = [sum(SIZES[i] for i in bucket) for bucket in buckets] * len(seen.ready)
    values = [call.values for call in sums]
    plan = f"gradients {buckets} of {wanted} values"
    came = f"{name} is called for {values} values, one call after the other."
    expect(
        values == wanted,
        f"{came} It should be called for {plan}, from the last tensor to the first.",
    )
    if len(buckets) > 1:
        first, end = sums[0].begin, seen.backward_ends[0]
        expect(
            first < end - 1e-9,
            f"No overlap: backward ends {1e3 * end:.1f} ms after the start, and the first {name} is"
            f" called at {1e3 * first:.1f} ms. Call it in `ready`.",
        )
    for place, call in enumerate(sums):
        step, number = divmod(place, len(buckets))
        bucket = buckets[number]
        there = max(seen.ready[step][i] for i in bucket)
        last = late and number == len(buckets) - 1
        latest = seen.backward_ends[step] if last else there
        called = f"ms after the start, their {name} was called at {1e3 * call.begin:.1f} ms"
        for in_time, word, moment in (
            (call.begin < latest + 1e-9, "No overlap", latest),
            (call.begin > there - 1e-9, "Too early", there),
        ):
            expect(in_time, f"{word}: gradients {bucket} came {1e3 * moment:.1f} {called}.")


def expect_updates(seen: Steps) -> None:
    """Fail unless net.update was called once for each tensor and step."""
    steps = len(seen.ready)
    wanted = steps * len(SIZES)
    slip = (
        f"In {counted(steps, 'step')} rank 3 calls net.update {seen.updates} times, not {wanted}"
        f" times, once for each of the {len(SIZES)} tensors and step."
    )
    if steps > 1 and seen.updates > wanted:
        slip += " Does `finish` empty what `ready` has collected?"
    expect(seen.updates == wanted, slip)


def one_step(way: Callable, steps: int = 1) -> Steps:
    """What the last of four virtual ranks saw of steps of the toy net, 1 ms a layer.

    The links are slow, so that a collective of a large tensor outlasts a layer's computation.
    """
    times = [SECONDS] * len(SIZES)
    cluster = virtual.Cluster(4, machine=virtual.ideal(bandwidth=SLOW))
    return cluster.run(train, way, SIZES, steps, times, times).results[-1]


def expect_one_process(way, watch, batch, patience, workers) -> None:
    """Parameters as of one process, on virtual ranks, then on real ones in PyTorch."""
    for p in (1, 2, 3, 4, 8):
        run = virtual.Cluster(p).run(train, way, SIZES, 3)
        alone = trained_alone(p, SIZES, 3)
        summed = trained_alone(p, SIZES, 3, rate=p * 0.5)  # the rate is 0.5, on p times the mean
        slips = {"this is with the sum of the gradients, not their mean": summed}
        for rank, seen in enumerate(run.results):
            what = (
                f"{counted(p, 'rank')}, 3 steps: rank {rank}'s parameters against one process,"
                " tensor"
            )
            unset = any(np.isnan(tensor).any() for tensor in seen.parameters)
            because = "a result was used before its request was waited for" if unset else ""
            expect.close(seen.parameters, alone, what, atol=1e-4, slips=slips, because=because)
    training = partial(train_digits, way=way, watch=watch, steps=4, batch=batch)
    alone = train_digits_alone(4, batch)
    ranks = launch.ranks_here(workers)
    for rank, sizes in enumerate(
        launch.run(on_every_size, training, ranks=ranks, timeout=patience)
    ):
        for p, parameters in sizes.items():
            what = f"{p} real ranks, 4 steps: rank {rank}'s parameters against one process, tensor"
            expect.close(parameters, alone, what, atol=1e-5)


# ---------------------------------------------------------------------- a communicator that listens


class Call(NamedTuple):
    """A collective: its name, how many values its array has, and at which virtual second it
    began."""

    name: str
    values: int
    begin: float


class CollectiveLog(PassOn):
    """A virtual communicator that passes everything on and keeps the collectives in `calls`.

    scale: how many times its own bytes an array counts in messages and additions, and where an
    algorithm is chosen by bytes.
    """

    COLLECTIVES = ("Allreduce", "Reduce", "Bcast", "Barrier", "Iallreduce", "Ireduce", "Ibcast")

    def __init__(self, comm, scale: float = 1.0):
        super().__init__(comm)
        self.scale = scale
        self.calls: list[Call] = []

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if name not in self.COLLECTIVES:
            return method

        def collective(*args, **options):
            values = next(filter(None, map(_values, [*args, *options.values()])), 0)
            self.calls.append(Call(name, values, self.comm.Wtime()))
            options = {key: self._larger(argument) for key, argument in options.items()}
            return method(*map(self._larger, args), **options)

        return collective

    def _larger(self, argument):
        """The same memory, as an array that counts `scale` times its bytes."""
        if self.scale == 1 or not isinstance(argument, np.ndarray):
            return argument
        larger = argument.view(virtual.Vector)
        larger.scale = self.scale
        return larger


def _values(argument) -> int:
    """How many an `array` or `[array, MPI.FLOAT]` has; MPI.IN_PLACE and its like have 0."""
    first = argument[0] if isinstance(argument, list | tuple) and argument else argument
    return first.size if isinstance(first, np.ndarray) else 0


# ----------------------------------------------------------------------- a toy net on virtual ranks


class Net:
    """parameters, gradients: lists of flat float32 arrays, one a tensor. rate: of plain SGD."""

    def __init__(self, parameters: list[np.ndarray], gradients: list[np.ndarray], rate: float):
        self.parameters = parameters
        self.gradients = gradients
        self.numbers = range(len(parameters))  # the tensors' numbers, in forward order
        self.rate = rate
        self.updates = 0  # calls of update so far

    def join(self, numbers: Sequence[int]) -> np.ndarray:
        """The gradients of these tensors, one behind the other in a new array."""
        return np.concatenate([self.gradients[i] for i in numbers])

    def cut(self, vector: np.ndarray, numbers: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        """What `join` of the same numbers put together: [(number of the tensor, its piece of
        vector)]."""
        if not numbers:
            raise LabError(
                "net.cut: no tensors. Was the list cleared after the call? Keep a copy of it."
            )
        ends = np.cumsum([len(self.gradients[i]) for i in numbers])
        if len(vector) != ends[-1]:
            raise LabError(
                f"net.cut: tensors {list(numbers)} have {ends[-1]} values, not {len(vector)}."
            )
        return list(zip(numbers, np.split(vector, ends[:-1]), strict=True))

    def update(self, i: int, mean) -> None:
        """One SGD step of tensor i with the mean gradient: parameters[i] -= rate * mean."""
        self.updates += 1
        self.parameters[i] -= np.float32(self.rate) * np.asarray(mean)


class Steps(NamedTuple):
    """What a rank did. calls: its collectives, each a Call.

    ready, forward: [step][tensor] seconds at which a gradient came, and at which its layer began.
    backward_ends: [step] seconds. parameters: at the end. updates: calls of net.update.
    """

    calls: list
    ready: list
    forward: list
    backward_ends: list
    parameters: list
    updates: int


def functions_of(way, comm, net: Net) -> tuple:
    """(ready, finish, a list of before: empty if there is none) that way(comm, net) returns."""
    returned = way(comm, net)
    pair = isinstance(returned, tuple | list) and len(returned) in (2, 3)
    if not pair or not all(map(callable, returned)):
        name = getattr(way, "func", way).__name__
        got = "nothing" if returned is None else type(returned).__name__
        raise LabError(
            f"{name}(comm, net) returns {got}; it should end with `return ready, finish`."
        )
    ready, finish, *before = returned
    return ready, finish, before


def train(comm, way, sizes, steps=1, forward=None, backward=None, scale=1.0) -> Steps:
    """`steps` SGD steps of a toy net on virtual ranks; its loss is |parameters - target of rank|²
    / 2.

    sizes: values of each tensor. forward, backward: seconds that its layer takes, comm.compute
    passes them. scale: values that one value stands for.
    """
    free = [0.0] * len(sizes)
    forward = forward or free
    backward = backward or free
    targets = targets_of(comm.rank, sizes)
    net = Net(
        [np.zeros(n, np.float32) for n in sizes], [np.zeros(n, np.float32) for n in sizes], rate=0.5
    )
    log = CollectiveLog(comm, scale)
    seen = Steps([], [], [], [], net.parameters, 0)
    ready, finish, before = functions_of(way, log, net)
    for _ in range(steps):
        seen.forward.append([0.0] * len(sizes))
        seen.ready.append([0.0] * len(sizes))
        for i in range(len(sizes)):
            for wait in before:
                wait(i)
            seen.forward[-1][i] = comm.Wtime()
            comm.compute(forward[i])
        for i in reversed(range(len(sizes))):
            comm.compute(backward[i])
            net.gradients[i][:] = net.parameters[i] - targets[i]
            seen.ready[-1][i] = comm.Wtime()
            ready(i)
        seen.backward_ends.append(comm.Wtime())
        finish()
    for i in range(len(sizes)):
        for wait in before:
            wait(i)
    return seen._replace(calls=log.calls, updates=net.updates)


def targets_of(rank: int, sizes: Sequence[int]) -> list[np.ndarray]:
    """Where the toy net's rank `rank` pulls: whole numbers, other ones for each rank."""
    random = np.random.default_rng([rank, len(sizes)])
    return [random.integers(-99, 99, n).astype(np.float32) for n in sizes]


def trained_alone(
    ranks: int, sizes: Sequence[int], steps: int, rate: float = 0.5
) -> list[np.ndarray]:
    """The parameters that one process with the data of all `ranks` ranks has after `steps`
    steps."""
    targets = [targets_of(rank, sizes) for rank in range(ranks)]
    means = [np.mean(of_ranks, axis=0) for of_ranks in zip(*targets, strict=True)]
    return [mean - mean * np.float32(1 - rate) ** steps for mean in means]


# ---------------------------------------------------------------------------- PyTorch on real ranks


def train_digits(comm, way, watch, steps: int, batch: int) -> list[np.ndarray]:
    """Steps of lab 30's training in this way, on lab 30's net in host memory. Returns this rank's
    parameters at the end.

    watch(module, ready): makes PyTorch call ready(i) when parameter i has its gradient. batch:
    images of all ranks together. The arrays of `net` are the module's own memory.
    """
    module = nets.torch_digits(nets.start_weights(seed=0))
    weights = list(module.parameters())
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    parameters = [weight.detach().numpy().reshape(-1) for weight in weights]
    gradients = [weight.grad.numpy().reshape(-1) for weight in weights]
    ready, finish, before = functions_of(way, comm, Net(parameters, gradients, rate=0.2))
    number = {id(weight): i for i, weight in enumerate(weights)}

    def wait_for(part, inputs=None) -> None:
        for weight in part.parameters(recurse=False):
            for wait in before:
                wait(number[id(weight)])

    watch(module, ready)
    for part in module.modules():
        part.register_forward_pre_hook(wait_for)
    images, labels = (torch.tensor(part) for part in data.digits()[:2])
    for rows in data.batches(len(images), batch, epoch=0)[:steps]:
        own = rows[comm.rank :: comm.size]
        module.zero_grad(set_to_none=False)  # zeros in place: the gradients' memory stays
        loss = functional.cross_entropy(module(images[own]), labels[own], reduction="sum")
        # Ranks may have unequal parts: the mean of these over the ranks is that of the batch.
        (loss * comm.size / len(rows)).backward()
        finish()
    for part in module.modules():
        wait_for(part)
    return [weight.detach().numpy().copy() for weight in weights]


def train_digits_alone(steps: int, batch: int) -> list[np.ndarray]:
    """The same in one process, in plain PyTorch."""
    module = nets.torch_digits(nets.start_weights(seed=0))
    images, labels = (torch.tensor(part) for part in data.digits()[:2])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    for rows in data.batches(len(images), batch, epoch=0)[:steps]:
        optimizer.zero_grad()
        functional.cross_entropy(module(images[rows]), labels[rows]).backward()
        optimizer.step()
    return [weight.detach().numpy() for weight in module.parameters()]


# ----------------------------------------------------------------------- known nets on virtual GPUs


class Table(NamedTuple):
    """A net's layers that have parameters. scale: parameters that one value stands for."""

    net: str
    images: float
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

    images: per GPU and step. flops: per second that the GPU reaches. Forward takes the layer's
    flops, backward twice as many (gradients of its input and of its weights). values: that stand
    for all parameters; fewer would leave small layers without a value for each rank, and MPI would
    take another algorithm.
    """
    sizes: list[int] = []
    work: list[float] = []
    for layer in nets.layer_table(net).itertuples():
        if layer.kind == "batchnorm":
            sizes[-1] += layer.parameters
        elif layer.parameters:
            sizes.append(layer.parameters)
            work.append(layer.flops * images / flops)
    scale = sum(sizes) / values
    few = [max(1, round(size / scale)) for size in sizes]
    return Table(net, images, few, work, [2 * seconds for seconds in work], scale)


def on_gpus(
    way, table: Table, ranks: int, machine, steps: int = 1, trace: bool = False, queued=False
):
    """`steps` steps of a net on so many virtual GPUs of a machine, all nodes full but the last. The
    Run.

    way: of a functools.partial with size=…, the size is in bytes of the real net. queued: its sums
    are made one after the other.
    """
    if isinstance(way, partial) and "size" in way.keywords:
        way = partial(way, size=way.keywords["size"] / table.scale)
    if queued:
        way = one_after_other(way)
    cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
    program = partial(train, scale=table.scale)
    return cluster.run(program, way, table.sizes, steps, table.forward, table.backward, trace=trace)


def messages_alone(way, table: Table, ranks: int, machine, queued: bool = False) -> float:
    """Virtual seconds of a step in this way whose arithmetic takes no time. queued: as for
    on_gpus."""
    nothing = [0.0] * len(table.sizes)
    idle = table._replace(forward=nothing, backward=nothing)
    return on_gpus(way, idle, ranks, machine, queued=queued).time


def unhidden(way):
    """A way with the same calls that begins them after backward and waits before the next
    forward."""

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

    A sum begins when the one before is over: at once if that is seen in a Wait, or else when the
    next gradient is there.
    """

    def queued(comm, net):
        queue = Queue(comm)
        ready, finish, before = functions_of(way, queue, net)

        def tell(i) -> None:
            queue.go_on()
            ready(i)

        return (tell, finish, *before)

    return queued


class Queue(PassOn):
    """A communicator whose Iallreduces are made one after the other; the rest it passes on."""

    def __init__(self, comm):
        super().__init__(comm)
        self.line: list[Queued] = []  # of them the first is under way

    def Iallreduce(self, *arguments, **options) -> Queued:
        queued = Queued(self, partial(self.comm.Iallreduce, *arguments, **options))
        self.line.append(queued)
        self.go_on()
        return queued

    def go_on(self, wait: bool = False) -> None:
        """Begin the next sum, if none is under way; wait: until the one is over."""
        running = self.line[0].request if self.line else None
        if running is not None and (running.Wait() if wait else running.Test()):
            self.line.pop(0)
        if self.line and self.line[0].request is None:
            self.line[0].request = self.line[0].begin()


class Queued(mpi.RequestCalls):
    """A sum that begins when its turn comes. request: of it, as soon as it has begun."""

    def __init__(self, queue: Queue, begin: Callable):
        self.queue = queue
        self.begin = begin
        self.request = None
        self.ended = False

    def Wait(self, status=None) -> bool:
        while self in self.queue.line:
            self.queue.go_on(wait=True)
        self.ended = True
        return True

    def Test(self, status=None) -> bool:
        if self in self.queue.line:
            self.queue.go_on()
        self.ended = self not in self.queue.line
        return self.ended


# -------------------------------------------------------------------------------------------- plots


def lanes(ways: dict, table: Table, ranks: int, machine, steps: int = 2) -> dict[str, list]:
    """For plots.lanes: when rank 0 computed, and sent or received, in each way. Rows:
    `(a) forward`, …"""
    rows = {}
    for name, way in ways.items():
        run = on_gpus(way, table, ranks, machine, steps, trace=True)
        begins = sum(run.results[0].forward, [])
        ends = sum(run.results[0].ready, [])
        short = name.split()[0]
        rows[f"{short} forward"] = [
            (t, t + s) for t, s in zip(begins, table.forward * steps, strict=True)
        ]
        rows[f"{short} backward"] = [
            (t - s, t) for t, s in zip(ends, table.backward * steps, strict=True)
        ]
        rows[f"{short} messages"] = [
            (span.start, span.end)
            for rank, spans in enumerate(run.spans())
            for span in spans
            if span.kind == "send" and 0 in (rank, span.peer)
        ]
    return rows


def plot_efficiency(ways: dict, table: Table, ranks, machine, title: str) -> dict[str, float]:
    """Efficiency on so many GPUs; on one GPU a step is arithmetic alone. Returns % on the most, by
    way.

    title: what the plot shows, after the net's name.
    """
    times = {
        name: {1: table.seconds} | {p: on_gpus(way, table, p, machine).time for p in ranks}
        for name, way in ways.items()
    }
    plots.efficiency(times, weak=True, title=f"{table.net}, {table.images} images a GPU: {title}")
    return {name: 100 * table.seconds / seconds[max(ranks)] for name, seconds in times.items()}


def bucket_sweep(way, table: Table, ranks: int, machine, sizes) -> dict[str, dict]:
    """Milliseconds of a step by bucket size, with sums side by side and one after the other;
    plotted.

    way: takes size=… in bytes. Returns {"side by side": {bytes: ms}, "one after the other": …}.
    """
    steps: dict[str, dict] = {}
    for kind, queued in (("side by side", False), ("one after the other", True)):
        runs = {
            n: on_gpus(partial(way, size=n), table, ranks, machine, queued=queued) for n in sizes
        }
        steps[kind] = {n: 1e3 * run.time for n, run in runs.items()}
    curves = {f"allreduces {kind}": {n / 1e6: row[n] for n in sizes} for kind, row in steps.items()}
    title = f"{table.net}, {table.images} image: buckets help where allreduces queue"
    plots.lines(
        curves, xlabel="bucket (MB)", ylabel=f"step on {ranks} GPUs (ms)", title=title, logx=True
    )
    return steps

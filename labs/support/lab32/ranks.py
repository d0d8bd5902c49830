"""Ways to sum gradients on real ranks: PyTorch's nets trained and timed, and a thread that calls MPI."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
from labkit import data, nets, placement, profiling, timing
from labkit.counting import CollectiveLog

from support.lab32.staging import Arrays
from support.lab32.training import Net


def torch_step(comm, way, module, watch, rate: float, staged: bool | None = None):
    """A PyTorch net trained in `way`. Returns step(inputs, labels) -> loss, and settle().

    watch(module, ready): makes PyTorch call ready(i) when parameter i has its gradient. settle: waits until
    the net's parameters are there to be read. The arrays of `net` are the module's own memory, without a
    copy; those of a module on a GPU are copied to and fro. staged: as for staging.Arrays.
    """
    from torch.nn import functional

    arrays = Arrays(module, staged)
    net = Net(arrays.parameters, arrays.gradients, rate)
    ready, finish, *before = way(CollectiveLog(comm), net)
    weights = list(module.parameters())
    device = weights[0].device
    number = {id(weight): i for i, weight in enumerate(weights)}

    def bring_and_tell(i) -> None:
        arrays.bring(i)
        ready(i)

    def wait_for(part) -> None:
        for weight in part.parameters(recurse=False):
            i = number[id(weight)]
            for wait in before:
                wait(i)
            arrays.take(i)

    watch(module, bring_and_tell)
    if before or arrays.staged:
        for part in module.modules():
            part.register_forward_pre_hook(lambda part, inputs: wait_for(part))

    def step(inputs, labels) -> float:
        module.zero_grad(set_to_none=False)  # zeros in place: the gradients' memory stays
        with profiling.span("compute", "forward"):
            loss = functional.cross_entropy(module(inputs), labels)
            timing.device_sync(device)
        with profiling.span("compute", "backward"):
            loss.backward()
        finish()
        return loss.item()

    def settle() -> None:
        for part in module.modules():
            wait_for(part)

    return step, settle


def arithmetic_step(module, rate: float):
    """The same without messages, in plain PyTorch: step(inputs, labels) -> loss."""
    from torch import no_grad
    from torch.nn import functional

    def step(inputs, labels) -> float:
        module.zero_grad(set_to_none=False)
        loss = functional.cross_entropy(module(inputs), labels)
        loss.backward()
        with no_grad():
            for weight in module.parameters():
                weight -= rate * weight.grad
        return loss.item()

    return step


class Progress:
    """`moving = Progress(comm)`, then `with moving: …`: a thread calls MPI every `every` seconds in there.

    MPI moves messages inside its calls only, but inside any of them: a look for a message (Iprobe) on a
    communicator of its own will do. MPI must have been started for threads (MPI_THREAD_MULTIPLE, mpi4py's
    default). All ranks make it together; a `with` concerns its rank alone.
    """

    def __init__(self, comm, every: float = 0.001):
        self._comm = comm.Dup()
        self._every = every

    def __enter__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="progress", daemon=True)
        self._thread.start()

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()

    def close(self) -> None:
        """All ranks together, when it is no longer used."""
        self._comm.Free()

    def _look(self) -> None:
        while not self._over.wait(self._every):
            self._comm.Iprobe()


def train_digits(comm, way, watch, steps: int, batch: int, staged: bool | None = None) -> list[np.ndarray]:
    """Steps of lab 30's training in this way, on lab 30's net. Returns this rank's parameters at the end.

    batch: images of all ranks together. staged: as for staging.Arrays.
    """
    device = placement.through_numpy().device
    module = nets.torch_digits(nets.start_weights(seed=0)).to(device)
    training = _digits(device)
    step, settle = torch_step(comm, way, module, watch, rate=0.2, staged=staged)
    for rows in data.batches(len(training[0]), batch, epoch=0)[:steps]:
        own = rows[comm.rank :: comm.size]
        step(*(part[own] for part in training))
    settle()
    return [weight.detach().cpu().numpy().copy() for weight in module.parameters()]


def train_digits_alone(steps: int, batch: int) -> list[np.ndarray]:
    """The same in one process, in plain PyTorch."""
    import torch

    module = nets.torch_digits(nets.start_weights(seed=0))
    images, labels = _digits("cpu")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    for rows in data.batches(len(images), batch, epoch=0)[:steps]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(images[rows]), labels[rows]).backward()
        optimizer.step()
    return [weight.detach().numpy() for weight in module.parameters()]


def _digits(device: str) -> list:
    import torch

    return [torch.tensor(part, device=device) for part in data.digits()[:2]]


def linear_net(width: int, depth: int):
    """`depth` linear layers: 64 inputs (lab 10's digits), `width` in between, 10 outputs. Always the same."""
    import torch

    torch.manual_seed(0)
    sizes = [64, *[width] * (depth - 1), 10]
    parts = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def measure(comm, ways: dict, watch, width: int, repeat: int, threaded: str, depth: int = 12):
    """Times of a step in each way, in turns, beside those of its parts alone; on a net of linear layers.

    The images of a step are so many that backward, two thirds of the arithmetic, takes as long as the sum.
    threaded: the way that is tried with a Progress thread, too.
    Returns {name: Measurement}, {name: Profile} of the first way and of that, {"images": a rank, "bytes": …},
    and where net and images are.
    """
    where = placement.through_numpy()
    extra = f"{threaded} + thread"
    made = {**ways, extra: ways[threaded]}
    modules = {name: linear_net(width, depth).to(where.device) for name in made}
    pairs = {name: torch_step(comm, way, modules[name], watch, 0.01) for name, way in made.items()}
    alone = linear_net(width, depth).to(where.device)
    steps = {"arithmetic alone": arithmetic_step(alone, 0.01)}
    steps |= {name: step for name, (step, _) in pairs.items()}
    arrays = Arrays(linear_net(width, depth).to(where.device))
    own = np.concatenate(arrays.parameters)
    total = np.empty_like(own)
    training = _digits(where.device)
    moving = Progress(comm)

    def sum_alone() -> None:
        for i in range(len(arrays.gradients)):
            arrays.bring(i)
        comm.Allreduce(own, total)
        for i in range(len(arrays.gradients)):
            arrays.take(i)

    def with_thread(step) -> None:
        with moving:
            step()

    rows = balanced(comm, steps["arithmetic alone"], training, sum_alone, where.device)
    calls = {name: partial(step, *(part[rows] for part in training)) for name, step in steps.items()}
    calls[extra] = partial(with_thread, calls[extra])
    in_turns = partial(timing.in_turns, repeat=repeat, comm=comm, device=where.device)
    times = in_turns({**calls, "sum alone": sum_alone})
    shown = (next(iter(ways)), extra)
    profiles = {name: profiling.record(calls[name], 3, comm, overhead=False) for name in shown}
    for _, settle in pairs.values():
        settle()
    moving.close()
    return times, profiles, {"images": len(rows), "bytes": own.nbytes}, where


def balanced(comm, step, training: list, communication, device: str = "cpu") -> np.ndarray:
    """Rows of `training` with which backward, two thirds of step(*batch), lasts as long as communication().

    The fastest runs count: others may be at work on the machine. Both are timed in turns, as they will be.
    """
    images = 128
    for _ in range(6):
        batch = [part[np.arange(images) % len(part)] for part in training]
        both = {"step": partial(step, *batch), "sum": communication}
        times = timing.in_turns(both, repeat=10, comm=comm, device=device)
        step_seconds = times["step"].samples.min()
        sum_seconds = times["sum"].samples.min()
        before = images
        images = int(np.clip(images * 1.5 * sum_seconds / step_seconds, 16, 16384))
        images = comm.bcast(images)  # as many on all ranks
        if abs(images - before) < 0.03 * before:
            break
    return np.arange(images) % len(training[0])

"""Steps on real ranks: sums begun in hooks of PyTorch, and moved by nobody, by Test, or by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
from labkit import data, placement, timing


def linear_net(width: int, depth: int):
    """`depth` linear layers: 64 inputs (lab 10's digits), `width` in between, 10 outputs. Always the same."""
    import torch

    torch.manual_seed(0)
    sizes = [64, *[width] * (depth - 1), 10]
    parts = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def arithmetic_step(module, rate: float) -> Callable:
    """A step without messages, in plain PyTorch: step(inputs, labels) -> loss."""
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


class Looking:
    """`with Looking(comm, look_until, every): …`: a thread calls MPI while the block runs.

    look_until(comm, over, every): the learner's, of exercise 36.3. MPI moves messages inside its calls, but
    inside any of them, so the thread's communicator is its own: a look there finds nothing. MPI must have
    been started for threads (MPI_THREAD_MULTIPLE, mpi4py's default). All ranks make it together; a `with`
    concerns its rank alone.
    """

    def __init__(self, comm, look_until: Callable, every: float):
        self._comm = comm.Dup()
        self._look_until = look_until
        self._every = every

    def __enter__(self) -> None:
        self._over = threading.Event()
        arguments = (self._comm, self._over, self._every)
        self._thread = threading.Thread(target=self._look_until, args=arguments, name="progress", daemon=True)
        self._thread.start()

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()

    def close(self) -> None:
        """All ranks together, when it is no longer used."""
        self._comm.Free()


class _Summed:
    """A net whose gradients are summed over a communicator: step(inputs, labels) -> loss.

    in_hooks: each gradient's sum begins when it is there, and `move(requests)` is called after that; else one
    sum of all follows backward. Of a net on a GPU the gradients are copied to pinned host memory and back.
    """

    def __init__(self, comm, module, rate: float, in_hooks: bool, move: Callable):
        self._comm = comm
        self._module = module
        self._rate = rate
        self._in_hooks = in_hooks
        self._move = move
        self._weights = list(module.parameters())
        sizes = [weight.numel() for weight in self._weights]
        ends = np.cumsum(sizes)
        self._host = placement.pinned_like(self._weights[0].new_empty(ends[-1]))
        self._own = np.split(self._host.numpy(), ends[:-1])
        self._all = self._host.numpy()
        self._sum = np.empty_like(self._all)
        self._totals = np.split(self._sum, ends[:-1])
        self._slices = [self._host[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        self._requests: list = []
        self._begun: list[int] = []
        if in_hooks:
            for i, weight in enumerate(self._weights):
                weight.register_post_accumulate_grad_hook(lambda weight, i=i: self._begin(i))

    def __call__(self, inputs, labels) -> float:
        from torch import from_numpy, no_grad
        from torch.nn import functional

        self._module.zero_grad(set_to_none=False)
        loss = functional.cross_entropy(self._module(inputs), labels)
        loss.backward()
        if self._in_hooks:
            for request in self._requests:
                # Across ranks: until the others' parts are in.
                request.Wait()
            self._requests.clear()
        else:
            for i in range(len(self._weights)):
                self._bring(i)
            # Across ranks: one sum of all gradients.
            self._comm.Allreduce(self._all, self._sum)
        with no_grad():
            for weight, total in zip(self._weights, self._totals, strict=True):
                mean = from_numpy(total).to(weight.device).view_as(weight)
                weight -= self._rate / self._comm.size * mean
        return loss.item()

    def _bring(self, i: int) -> None:
        self._slices[i].copy_(self._weights[i].grad.reshape(-1))

    def _begin(self, i: int) -> None:
        self._bring(i)
        # Across ranks: begin to sum gradient i, and go on with backward.
        self._requests.append(self._comm.Iallreduce(self._own[i], self._totals[i]))
        self._move(self._requests)


def _leave(requests) -> None:
    """Nobody moves them."""


def measure(
    comm, carry: Callable, look_until: Callable, width: int, repeat: int, every: float, depth: int = 12
) -> tuple:
    """Times of a step in all ways, in turns, beside those of its parts; on a net of linear layers.

    The images of a step are so many that backward, two thirds of the arithmetic, takes as long as the sum.
    carry, look_until: the learner's. every: seconds between two looks of the thread.
    Returns {name: Measurement}, {"images": a rank, "bytes": of the gradients}, and the Placement.
    """
    where = placement.through_numpy()
    alone = comm.Split(comm.rank)  # a group of one: the same calls, and nobody to talk to

    def net():
        return linear_net(width, depth).to(where.device)

    def summed(group, in_hooks: bool, move: Callable):
        return _Summed(group, net(), 0.01, in_hooks, move)

    looking = Looking(comm, look_until, every)

    def with_thread(step, *batch) -> None:
        with looking:
            step(*batch)

    arithmetic = arithmetic_step(net(), 0.01)
    steps = {
        "arithmetic alone": arithmetic,
        "nobody to talk to, carried": summed(alone, True, carry),
        "nobody to talk to, thread": partial(with_thread, arithmetic_step(net(), 0.01)),
        "at the end": summed(comm, False, _leave),
        "begun, left": summed(comm, True, _leave),
        "begun, carried": summed(comm, True, carry),
        "begun, thread": partial(with_thread, summed(comm, True, _leave)),
    }
    nbytes = 4 * sum(weight.numel() for weight in net().parameters())
    own = np.ones(nbytes // 4, np.float32)
    total = np.empty_like(own)

    def sum_alone() -> None:
        comm.Allreduce(own, total)

    import torch

    training = [torch.tensor(part, device=where.device) for part in data.digits()[:2]]
    rows = balanced(comm, arithmetic, training, sum_alone, where.device)
    batch = [part[rows] for part in training]
    calls = {name: partial(step, *batch) for name, step in steps.items()}
    times = timing.in_turns({**calls, "sum alone": sum_alone}, repeat=repeat, comm=comm, device=where.device)
    looking.close()
    alone.Free()
    return times, {"images": len(rows), "bytes": nbytes}, where


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

"""Lab 62: checks; what a stage holds, and when ranks compute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, expect, launch, nets, plots, timing
from labkit.counting import CallLog, on_every_size
from labkit.errors import LabError, counted
from torch.nn import functional

WIDTHS = (12, 9, 16, 7, 11, 5)  # of the net of the trials: every block has another shape
EDGES = {1: (0, 5), 2: (0, 2, 5), 3: (0, 2, 4, 5), 4: (0, 1, 2, 4, 5), 5: (0, 1, 2, 3, 4, 5)}
MOST = max(EDGES)  # ranks of the trials


class Alone(NamedTuple):
    """One process's output (n, 5), its loss, and the gradients of all parameters by block."""

    output: np.ndarray
    loss: float
    gradients: list[list[np.ndarray]]


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(6, WIDTHS[0], generator=generator), torch.arange(6) % WIDTHS[-1]


def alone() -> Alone:
    """The net of the trials in one process."""
    images, labels = _batch()
    blocks = nets.torch_blocks(WIDTHS)
    output = torch.nn.Sequential(*blocks)(images)
    loss = functional.cross_entropy(output, labels)
    loss.backward()
    gradients = [[weights.grad.numpy() for weights in block.parameters()] for block in blocks]
    return Alone(output.detach().numpy(), loss.item(), gradients)


def _stage(comm) -> torch.nn.Sequential:
    edges = EDGES[comm.size]
    return torch.nn.Sequential(*nets.torch_blocks(WIDTHS)[edges[comm.rank] : edges[comm.rank + 1]])


def _pair(passed: object) -> tuple[torch.Tensor, torch.Tensor]:
    """(entering, leaving) as the forward pass is to return them. Raises LabError when they are not
    these."""
    if not (
        isinstance(passed, (tuple, list)) and len(passed) == 2 and all(map(torch.is_tensor, passed))
    ):
        raise LabError(
            "The forward pass returns two tensors: what entered the stage, and what leaves it."
        )
    return passed


def try_forward(comm, forward: Callable) -> dict:
    """This rank's output, whether gradients can reach what entered, and the names of its calls."""
    images, _ = _batch()
    log = CallLog(comm)
    entering, leaving = _pair(forward(log, _stage(comm), images))
    return {
        "output": leaving.detach().numpy(),
        "entering": tuple(entering.shape),
        "reachable": bool(entering.requires_grad) and entering.is_leaf,
        "joined": leaving.grad_fn is not None,
        "calls": list(log.calls),
    }


def try_backward(comm, forward: Callable, backward: Callable) -> dict:
    """This rank's gradients by block, and the names of the calls of its backward pass."""
    images, labels = _batch()
    stage = _stage(comm)
    entering, leaving = _pair(forward(comm, stage, images))
    log = CallLog(comm)
    last = comm.rank == comm.size - 1
    loss = functional.cross_entropy(leaving, labels) if last else None
    backward(log, entering, leaving, loss)
    gradients: list[Sequence[np.ndarray] | None] = []
    for block in stage:
        missing = any(weights.grad is None for weights in block.parameters())
        gradients.append(
            None if missing else [weights.grad.numpy() for weights in block.parameters()]
        )
    return {"gradients": gradients, "calls": list(log.calls)}


def messages(calls):
    """How many messages of arrays were sent and received, whether one waited for them at once or
    later."""
    return [calls.count("Send") + calls.count("Isend"), calls.count("Recv") + calls.count("Irecv")]


@check.exercise("62.1")
def best_cut(cut):
    """Whole, rising edges from 0 to the end, and no cut whose most expensive stage is cheaper."""
    trials = (  # costs, stages, and what the most expensive stage costs at best
        ([1, 1, 1, 1], 2, 2),
        ([9, 1, 1, 1, 9], 3, 9),
        ([1, 2, 3, 4, 5, 6, 7], 3, 11),
        ([4, 1], 1, 5),
        ([7, 1, 1, 1], 3, 7),
        ([1, 5, 5, 1], 3, 6),
        ([1, 6, 3, 3], 3, 6),  # 7, 3, 3 is more even, and worse
        ([2, 2, 5, 1], 2, 6),
        ([0.05, 0.02, 0.02, 0.06], 2, 0.08),
    )
    for costs, stages, best in trials:
        given = list(costs)
        edges = list(cut(given, stages))
        expect.unchanged(costs, given, "The list of costs")
        what = f"Blocks that cost {costs}, stages: {stages}; edges {edges}"
        expect(
            len(edges) == stages + 1, f"{what}. There are {stages + 1} edges, one more than stages."
        )
        expect(
            edges[0] == 0 and edges[-1] == len(costs),
            f"{what}. They begin at 0 and end at {len(costs)}.",
        )
        expect(
            edges == sorted(set(edges)), f"{what}. Each stage has one block or more, so edges rise."
        )
        most = max(sum(costs[first:end]) for first, end in itertools.pairwise(edges))
        expect(
            most < best + 1e-9,
            f"{what}. The most expensive stage costs {most:g}; a better cut has {best}.",
        )


@check.exercise("62.2")
def answer_of_one_process(forward, patience, ranks):
    """On 1 to 4 ranks, the answer of one process, by Send and Recv, ready for the backward pass."""

    def on_ranks(comm):
        return try_forward(comm, forward)

    one = alone()
    most = min(ranks, MOST)
    by_rank = launch.run(on_every_size, on_ranks, ranks=most, timeout=patience)
    for size in range(1, most + 1):
        tried = [of_sizes[size] for of_sizes in by_rank[:size]]
        for rank, got in enumerate(tried):
            where = f"{counted(size, 'rank')}, rank {rank}"
            expect(
                "send" not in got["calls"],
                f"{where}: `send` packs any object. `Send` carries the array itself.",
            )
            wanted = [int(rank < size - 1), int(rank > 0)]
            expect.equal(messages(got["calls"]), wanted, f"{where}: calls of Send, Recv")
            expect(
                got["joined"],
                f"{where}: what leaves has no history, so no gradient can come back through it.",
            )
            if rank > 0:
                expect(
                    got["reachable"],
                    f"{where}: what entered gets no gradient. Say `requires_grad_()` to it.",
                )
        expect.close(
            tried[-1]["output"],
            one.output,
            f"{counted(size, 'rank')}: what leaves the last rank",
            rtol=1e-4,
        )


@check.exercise("62.3")
def gradients_of_one_process(backward, forward, patience, ranks):
    """On 1 to 4 ranks, every gradient that one process computes."""

    def on_ranks(comm):
        return try_backward(comm, forward, backward)

    one = alone()
    most = min(ranks, MOST)
    by_rank = launch.run(on_every_size, on_ranks, ranks=most, timeout=patience)
    for size in range(1, most + 1):
        tried = [of_sizes[size] for of_sizes in by_rank[:size]]
        gradients = [block for got in tried for block in got["gradients"]]
        for block, (got, want) in enumerate(zip(gradients, one.gradients, strict=True)):
            where = f"{counted(size, 'rank')}, block {block}"
            expect(
                got is not None,
                f"{where}: its parameters have no gradient. Who calls backward there?",
            )
            for name, mine, theirs in zip(("weight", "bias"), got, want, strict=True):
                expect.close(
                    mine, theirs, f"{where}: the gradient of its {name}", rtol=1e-4, atol=1e-6
                )
        for rank, got in enumerate(tried):
            calls = (
                f"{counted(size, 'rank')}, rank {rank}: calls of Send, Recv in the backward pass"
            )
            wanted = [int(rank > 0), int(rank < size - 1)]
            expect.equal(messages(got["calls"]), wanted, calls)


# -- what a stage holds


def held(stage: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the stage's parameters, of their gradients, and of the optimizer's averages."""
    tensors = list(stage.parameters())
    tensors += [weights.grad for weights in stage.parameters() if weights.grad is not None]
    for state in optimizer.state.values():
        tensors += [value for value in state.values() if torch.is_tensor(value) and value.dim() > 0]
    return sum(tensor.nbytes for tensor in tensors)


# -- when each rank of a step computed


Span = tuple[str, float, float]  # what was computed, its begin and its end in seconds


def busy_spans(
    comm, stage: torch.nn.Module, step: Callable[[torch.nn.Module], object]
) -> list[list[Span]]:
    """Run `step(stage)` once, and note when this stage computed forward and backward.

    step: calls the given module once in place of `stage`. Returns the spans of all ranks, in
    seconds since the first rank began, on every rank. One machine's ranks share the clock.
    """
    watched = _Watched(stage)
    comm.Barrier()
    begin = perf_counter()
    step(watched)
    first = min(comm.allgather(begin))
    own = [(kind, start - first, end - first) for kind, start, end in watched.spans]
    return comm.allgather(own)


class _Watched(torch.nn.Module):
    """A stage that notes when it computes. Backward begins when its output's gradient is there.

    On a GPU each note waits until the device has done what was asked of it so far.
    """

    def __init__(self, stage: torch.nn.Module):
        super().__init__()
        self.stage = stage
        self.device = str(next(stage.parameters()).device)
        self.spans: list[Span] = []

    def _now(self) -> float:
        timing.device_sync(self.device)
        return perf_counter()

    def __getitem__(self, place: int) -> torch.nn.Module:
        return self.stage[place]

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        begin = self._now()
        leaving = self.stage(entering)
        self.spans.append(("forward", begin, self._now()))
        begun: list[float] = []
        leaving.register_hook(lambda gradient: begun.append(self._now()))
        # The last gradients of a stage are those of its first layer's parameters.
        first = next(self.stage.parameters())
        first.register_post_accumulate_grad_hook(
            lambda weights: self.spans.append(("backward", begun[0], self._now()))
        )
        return leaving


@plots.styled
def draw_busy(spans: Sequence[Sequence[Span]], title: str):
    """A row for each rank. spans: of each rank, as busy_spans gives them. Returns the figure."""
    looks = {
        "forward": plots.Look("forward", plots.COLORS[0]),
        "backward": plots.Look("backward", plots.COLORS[1], hatch="//"),
    }
    rows = []
    for rank, own in enumerate(spans):
        kinds = {kind: [(start, end) for name, start, end in own if name == kind] for kind in looks}
        rows.append((str(rank), kinds))
    figure = plots.draw_rows(rows, looks, title=title, ylabel="rank")
    return plots.done(figure, "busy")

"""Lab 62: checks; what a stage holds, and when ranks compute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, expect, launch, nets, plots, profiling, timing
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
    """This rank's output, whether gradients can reach what entered, how often the stage was
    computed, and the names of its calls."""
    images, _ = _batch()
    stage = _stage(comm)
    computed: list[int] = []
    stage[0].register_forward_hook(lambda *_: computed.append(1))
    log = CallLog(comm)
    entering, leaving = _pair(forward(log, stage, images))
    log.expect_waited()
    joined = leaving.grad_fn is not None
    leaf = entering.requires_grad and entering.is_leaf
    return {
        "output": leaving.detach().numpy(),
        "reachable": leaf
        and joined
        and torch.autograd.grad(leaving.sum(), entering, allow_unused=True)[0] is not None,
        "joined": joined,
        "computed": len(computed),
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
    log.expect_waited()
    gradients: list[Sequence[np.ndarray] | None] = []
    for block in stage:
        missing = any(weights.grad is None for weights in block.parameters())
        gradients.append(
            None if missing else [weights.grad.numpy() for weights in block.parameters()]
        )
    return {"gradients": gradients, "calls": list(log.calls)}


def expect_messages(calls, sends: bool, receives: bool, where: str) -> None:
    """Fail unless this many arrays were sent and received, by calls that wait or by requests."""
    names = [name.removeprefix("I").capitalize() for name in calls if name not in ("send", "recv")]
    found = [names.count("Send"), names.count("Recv")]
    asked = f"{counted(int(sends), 'Send')} and {counted(int(receives), 'Recv')}"
    told = f"expected {asked}, found {found[0]} and {found[1]}. Which ranks send, which receive?"
    expect(found == [sends, receives], f"{where}: {told}")


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
        wanted = f"{counted(stages, 'stage')} need {stages + 1} edges, and here are {len(edges)}"
        expect(len(edges) == stages + 1, f"{what}. {wanted}: from 0 to the number of blocks.")
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
            expect_messages(got["calls"], rank < size - 1, rank > 0, where)
            expect(
                got["joined"],
                f"{where}: what leaves, the second tensor that is returned, has no history, so no"
                " gradient can come back through it.",
            )
            times = (
                f"the stage is computed {counted(got['computed'], 'time')}, where once is enough"
            )
            expect(got["computed"] == 1, f"{where}: {times}. Send what you return.")
            if rank > 0:
                expect(
                    got["reachable"],
                    f"{where}: what entered gets no gradient. Call `requires_grad_()` after it was"
                    " received and before the stage computes with it, and return this tensor.",
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
            where = f"{counted(size, 'rank')}, rank {rank}, backward pass"
            expect_messages(got["calls"], rank > 0, rank < size - 1, where)


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


def busy_spans(comm, stage: torch.nn.Sequential, step: Callable[[], object]) -> list[list[Span]]:
    """Run `step()` once, and note when this stage computed forward and backward.

    step: computes the stage once. Returns the spans of all ranks, in seconds since the first rank
    began, on every rank. All are on rank 0's clock: each node has its own. On a GPU each note waits
    until the device has done what was asked of it so far.
    """
    device = str(next(stage.parameters()).device)
    notes: list[float] = []  # begin and end of the forward pass, then of the backward pass

    def note(*_) -> None:
        timing.device_sync(device)
        notes.append(perf_counter())

    def leaves(_, __, leaving: torch.Tensor) -> None:
        note()
        leaving.register_hook(note)  # backward begins when the gradient of the output is there

    stage[0].register_forward_pre_hook(note)
    stage[-1].register_forward_hook(leaves)
    # The last gradients of a stage are those of its first layer's parameters.
    next(stage.parameters()).register_post_accumulate_grad_hook(note)
    # Readings of clocks are in host memory: on GPUs they go by the MPI that is within `comm`.
    ahead, _ = profiling.clock.offset(getattr(comm, "comm", comm))
    comm.Barrier()
    begin = perf_counter() - ahead
    step()
    first = min(comm.allgather(begin))
    times = [moment - ahead - first for moment in notes]
    return comm.allgather([("forward", *times[:2]), ("backward", *times[2:])])


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

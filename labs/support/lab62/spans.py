"""When each rank of a step computed, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import torch
from labkit import plots

Span = tuple[str, float, float]  # what was computed, its begin and its end in seconds


def busy_spans(comm, stage: torch.nn.Module, step: Callable[[torch.nn.Module], object]) -> list[list[Span]]:
    """Run `step(stage)` once, and note when this stage computed forward and backward.

    step: calls the given module once in place of `stage`. Returns the spans of all ranks, in seconds since
    the first rank began, on every rank. One machine's ranks share the clock.
    """
    watched = _Watched(stage)
    comm.Barrier()
    begin = perf_counter()
    step(watched)
    first = min(comm.allgather(begin))
    own = [(kind, start - first, end - first) for kind, start, end in watched.spans]
    return comm.allgather(own)


class _Watched(torch.nn.Module):
    """A stage that notes when it computes. Backward begins when its output's gradient is there."""

    def __init__(self, stage: torch.nn.Module):
        super().__init__()
        self.stage = stage
        self.spans: list[Span] = []

    def __getitem__(self, place: int) -> torch.nn.Module:
        return self.stage[place]

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        begin = perf_counter()
        leaving = self.stage(entering)
        self.spans.append(("forward", begin, perf_counter()))
        begun: list[float] = []
        leaving.register_hook(lambda gradient: begun.append(perf_counter()))
        # The last gradients of a stage are those of its first layer's parameters.
        first = next(self.stage.parameters())
        first.register_post_accumulate_grad_hook(
            lambda weights: self.spans.append(("backward", begun[0], perf_counter()))
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

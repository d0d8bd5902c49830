"""Cases with a hidden straggler, and how many of them a hunter solves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from support.lab53.work import CAUSES, Span, play, work

STEPS = 12
LATE = 0.4  # of its computing: how far a culprit is behind
WHY = {
    "slow disk": "it waits least in most steps, and of its own parts reading is furthest above the others'",
    "slow core": "it waits least in most steps, and computes longer for each image than the others",
    "imbalance": "it waits least in most steps, and computes longer because it has more images",
    "slow link": "it waits least in most steps, and its bytes leave slowly",
    "jitter": "no rank waits least in more than half of the steps: one bad step is no slow rank",
}


class Case(NamedTuple):
    """images: of each rank, in every step. steps: the Spans of each. rank, cause: the answer; why: it is."""

    name: str
    images: np.ndarray
    steps: list[list[Span]]
    rank: int | None
    cause: str

    @property
    def ranks(self) -> int:
        return len(self.images)

    @property
    def why(self) -> str:
        return WHY[self.cause]


def case(cause: str, seed: int, late: float = LATE, ranks: int | None = None) -> Case:
    """A case of that cause, with 4 to 8 ranks; the culprit and all times are drawn with that seed."""
    rng = np.random.default_rng((seed, CAUSES.index(cause)))
    if ranks is None:
        ranks = int(rng.integers(4, 9))
    rank = int(rng.integers(ranks))
    todo = work(rng, ranks, STEPS, rank, cause, late)
    answer = None if cause == "jitter" else rank
    return Case(f"Case {seed}, {ranks} ranks", todo.images, play(todo), answer, cause)


def cases(seeds: Sequence[int], late: float = LATE) -> Iterator[Case]:
    """A case of each cause for each of the seeds."""
    for seed in seeds:
        for cause in CAUSES:
            yield case(cause, seed, late)


def share_found(hunter: Callable, late: float, seeds: Sequence[int]) -> tuple[float, float]:
    """Shares of cases (with one culprit) whose rank is found, and whose rank and cause are.

    hunter(steps, images): steps as Spans. late: how far a culprit is behind, as a share of its computing.
    """
    tried = [each for each in cases(seeds, late) if each.rank is not None]
    answers = [hunter(each.steps, each.images) for each in tried]
    ranks = [rank == each.rank for each, (rank, _) in zip(tried, answers, strict=True)]
    both = [answer == (each.rank, each.cause) for each, answer in zip(tried, answers, strict=True)]
    return float(np.mean(ranks)), float(np.mean(both))


def share_blamed(hunter: Callable, seeds: Sequence[int]) -> float:
    """Share of cases in which a rank is named, though none is behind. hunter: as for `share_found`."""
    healthy = [case("slow disk", seed, late=0) for seed in seeds]
    return float(np.mean([hunter(each.steps, each.images)[0] is not None for each in healthy]))


def above(values: Sequence[float], rank: int) -> float:
    """How far a rank's value is above the median of all other ranks' values."""
    values = np.asarray(values, float)
    return float(values[rank] - np.median(np.delete(values, rank)))

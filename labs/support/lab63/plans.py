"""Plans of a pipeline on paper: what may run when, how long it takes, and what is wrong with a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from labkit.errors import LabError

Action = tuple  # ("F" or "B", micro-batch) or ("F" or "B", micro-batch, piece)


class Span(NamedTuple):
    """One action of a rank: "F" or "B", its micro-batch and piece, begin and end."""

    kind: str
    micro: int
    piece: int
    begin: float
    end: float


class Played(NamedTuple):
    """A plan with times. spans: of each rank. time: until all is done. idle: share of all ranks' time."""

    spans: list[list[Span]]
    time: float
    idle: float


def _parts(action: Action) -> tuple[str, int, int]:
    kind, micro, *piece = action
    return kind, micro, piece[0] if piece else 0


def play(plans: Sequence[Sequence[Action]], forward: float = 1.0, backward: float = 2.0) -> Played:
    """Let each rank do its plan in order, each action as soon as what it needs is there.

    F of a piece needs F of the piece before it in the net, B the piece's own F and B of the piece behind it.
    Piece c of rank r of p is number c p + r in the net. Messages take no time. forward, backward: seconds of
    an action. Raises LabError when the ranks wait for each other for ever.
    """
    ranks = len(plans)
    pieces = 1 + max((_parts(action)[2] for plan in plans for action in plan), default=0)
    last = ranks * pieces - 1
    ended: dict[tuple[str, int, int], float] = {}  # (kind, micro, number in the net) -> end
    spans: list[list[Span]] = [[] for _ in plans]
    free = [0.0] * ranks
    places = [0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, plan in enumerate(plans):
            while places[rank] < len(plan):
                kind, micro, piece = _parts(plan[places[rank]])
                number = piece * ranks + rank
                needs = []
                if kind == "F" and number > 0:
                    needs.append(("F", micro, number - 1))
                if kind == "B":
                    needs.append(("F", micro, number))
                    if number < last:
                        needs.append(("B", micro, number + 1))
                if any(need not in ended for need in needs):
                    break
                begin = max([free[rank], *(ended[need] for need in needs)])
                end = begin + (forward if kind == "F" else backward)
                ended[kind, micro, number] = end
                spans[rank].append(Span(kind, micro, piece, begin, end))
                free[rank] = end
                places[rank] += 1
                moved = True
    waiting = [rank for rank in range(ranks) if places[rank] < len(plans[rank])]
    if waiting:
        rank = waiting[0]
        kind, micro, _ = _parts(plans[rank][places[rank]])
        raise LabError(f"Rank {rank} waits for ever before {kind}{micro}: what it needs never comes.")
    time = max(free, default=0.0)
    busy = sum(span.end - span.begin for own in spans for span in own)
    return Played(spans, time, 1 - busy / (ranks * time) if time else 0.0)


def text(plan: Sequence[Action]) -> str:
    """A plan in one line, as "F0 F1 B0 B1"."""
    return " ".join(f"{action[0]}{action[1]}" for action in plan)


def shortcoming(plans: object, ranks: int, micro: int) -> str:
    """What is wrong with plans of `ranks` ranks for `micro` micro-batches, in a sentence; "" if nothing."""
    if not isinstance(plans, list) or len(plans) != ranks:
        return f"There is to be a list with a plan for each of {ranks} ranks."
    for rank, plan in enumerate(plans):
        for kind, name in (("F", "forwards"), ("B", "backwards")):
            own = sorted(action[1] for action in plan if action[0] == kind)
            if own != list(range(micro)):
                asked = f"it is to be 0 to {micro - 1}, once each"
                return f"Rank {rank} goes {name} with micro-batches {own}; {asked}."
        done = set()
        for kind, number in plan:
            if kind == "B" and number not in done:
                return f"Rank {rank} goes back with micro-batch {number} before it went forwards with it."
            done.add(number)
    try:
        play(plans)
    except LabError as error:
        return str(error)
    return ""


def interleaved(ranks: int, micro: int, pieces: int) -> list[list[Action]]:
    """1F1B with `pieces` pieces of the net on each rank, as in Megatron-LM (Narayanan and others, 2021).

    Piece c of rank r is number c p + r in the net. micro must be a multiple of ranks.
    """
    if micro % ranks:
        raise LabError(
            f"Interleaved pieces need micro-batches in multiples of the ranks; {micro} is none of {ranks}."
        )
    total = micro * pieces
    group = ranks * pieces

    def at(place: int, kind: str) -> Action:
        piece = place % group // ranks
        number = place // group * ranks + place % ranks
        return kind, number, piece if kind == "F" else pieces - 1 - piece

    plans = []
    for rank in range(ranks):
        warm = min(total, 2 * (ranks - 1 - rank) + (pieces - 1) * ranks)
        plan = [at(place, "F") for place in range(warm)]
        for place in range(total - warm):
            plan += [at(warm + place, "F"), at(place, "B")]
        plan += [at(place, "B") for place in range(total - warm, total)]
        plans.append(plan)
    return plans

"""What the check cells of lab 44 need: answers as text, loops stopped, real timelines read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from labkit.errors import CheckFailed

from support.lab44.cases import MOST_CALLS
from support.lab44.ranks import CACHED, SEVEN, THRESHOLDS
from support.lab44.timeline import Tensor, asked_in, sent, tensors


def patient(text: str) -> list[Tensor]:
    """The tensors of "a:40 b:8:float64". A loop that reads their bytes without end is stopped."""
    looks = count()

    class Watched(Tensor):
        @property
        def bytes(self) -> int:
            if next(looks) > MOST_CALLS:
                raise CheckFailed("fuse does not end. What was taken must not stay in `left`.")
            return self[1]

    return [Watched(*tensor) for tensor in tensors(text)]


def names(messages: Sequence[Sequence[Tensor]] | None) -> str | None:
    """Messages as text: "a b|c", if a and b travel together, then c alone. None stays None."""
    if messages is None:
        return None
    for message in messages:
        if not all(isinstance(tensor, Tensor) for tensor in message):
            raise CheckFailed("fuse: each message has to be a list of the Tensors themselves.")
    return "|".join(" ".join(tensor.name for tensor in message) for message in messages)


def travelled(events) -> dict[int, str]:
    """{threshold: how SEVEN travelled, as of `names`}, from the timelines of real ranks."""
    calls = {threshold: sent(events[f"up to {threshold}"], len(SEVEN)) for threshold in THRESHOLDS}
    return {threshold: "|".join(map(" ".join, messages)) for threshold, messages in calls.items()}


def asked_about(events) -> dict[str, list[int]]:
    """{way of CACHED: how many tensors real ranks asked about, by step}, from their timelines."""
    return {way: asked_in(events[way], steps) for way, (_, steps) in CACHED.items()}

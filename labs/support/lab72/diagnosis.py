"""What is expected of a diagnosis of one of the gallery's six jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labkit import expect

from support.lab72.evidence import Rank

JOBS = {
    "memory": "The job in which a rank cannot allocate memory",
    "map": "The job whose ranks are on one core",
    "worker": "The job in which a data loader's worker is killed",
    "versions": "The job whose nodes have two versions",
    "disk": "The job in which a file does not reach its end",
    "port": "The job whose ranks knock at three ports",
}
FIRST = {  # by failure: the word for what to do first, and what that mends
    "memory": ("numbers", "losses that pile up in memory"),
    "map": ("map", "ranks that share a device"),
    "worker": ("workers", "loaders that take too much memory"),
    "versions": ("install", "nodes that differ"),
    "disk": ("room", "a full disk"),
    "port": ("port", "a firewall"),
}
NO_CURES = {
    "again": "nothing has changed, so it will end in the same way",
    "timeout": "nobody was too slow here: a longer limit is a longer wait for the same end",
}


def expect_diagnosis(got: object, name: str, ranks: Sequence[Rank], culprit: int | None) -> None:
    """Expect of (where, what to do first) that it fits the job `name`; culprit: the rank that was hit."""
    job = JOBS[name]
    expect(got is not None, f"{job}: `diagnose` returns nothing: none of your signs is in its words.")
    expect(
        isinstance(got, tuple) and len(got) == 2,
        f"{job}: `diagnose` has to return two things, where and what to do first, and not {got!r}.",
    )
    where, first = got
    want, slips = _place(name, ranks, culprit)
    expect.equal(where, want, f"{job}: where", slips=slips)
    cure, _ = FIRST[name]
    others = {f"that mends {mends}": word for word, mends in FIRST.values() if word != cure}
    slips = {sentence: word for word, sentence in NO_CURES.items()} | others
    expect.equal(first, cure, f"{job}: what to do first", slips=slips)


def twice(ranks: Sequence[Rank], culprit: int | None) -> list[tuple[Sequence[Rank], int | None]]:
    """(ranks, culprit) as they were found, and as if it had happened on other ranks, cores and ports.

    Who read a number off the output, and no sign, is right for the first alone.
    """
    count = len(ranks)
    elsewhere = []
    for place in range(count):
        found = ranks[(place - 1) % count]
        result = found.result
        if isinstance(result, str):
            result = re.sub(
                r"\b(core|port) (\d+)", lambda match: f"{match[1]} {int(match[2]) + count}", result
            )
        elsewhere.append(found._replace(rank=place, result=result))
    return [(ranks, culprit), (elsewhere, None if culprit is None else (culprit + 1) % count)]


def _place(name: str, ranks: Sequence[Rank], culprit: int | None) -> tuple[object, dict[str, object]]:
    """Where to look, and {sentence: the place that this mistake gives}."""
    if name == "map":
        core = ranks[0].result  # of both
        return core, {
            "a rank is not to blame, its map is: name the device that is there twice": 0,
            "once is enough": [core, core],
        }
    others = [rank for rank in ranks if rank.rank != culprit]
    own = ranks[culprit]
    if name == "versions":
        slips: dict[str, object] = {
            f"as many as two ranks have the version of rank {rank.rank}": rank.rank for rank in others
        }
        return culprit, slips | {"this is its version: name the rank": own.result}
    if name == "port":
        slips = {"the port alone, without what came of it": own.result, "this is the rank": culprit}
        for rank in others:
            refused = "at once: the packet arrived, so no firewall is in its way"
            came = "this one answers" if "connected" in rank.result else f"this one refuses {refused}"
            slips[came] = _port(rank)
        return _port(own), slips
    slips = {f"rank {rank.rank} only lost its connection": (rank.rank, rank.line) for rank in others}
    return (culprit, own.line), slips | {"this is the rank: its line belongs to it": culprit}


def _port(rank: Rank) -> str:
    """The words before the colon, such as "port 40123"."""
    return rank.result.split(":")[0]

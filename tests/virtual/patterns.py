"""Messages that meet in ports: patterns that SimGrid and the virtual cluster run, for
test_contention.py.

Plain Python alone: tests/figures/record_simgrid.py reads it where nothing else is installed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple


class Pattern(NamedTuple):
    """What ranks send at once. rounds: in each, (source, dest, bytes) of all messages; a rank
    begins a round when all that it sends and receives in the one before is over. starts: seconds,
    by rank.
    """

    name: str
    ranks: int
    rounds: list[list[tuple[int, int, int]]]
    starts: list[float]


def all_to_all(p: int) -> list[tuple[int, int, int]]:
    return [(source, dest, 10**6) for source in range(p) for dest in range(p) if source != dest]


def many_to_one(p: int) -> list[tuple[int, int, int]]:
    """Of three lengths."""
    return [(source, 0, (1 + source % 3) * 10**6) for source in range(1, p)]


def one_to_many(p: int) -> list[tuple[int, int, int]]:
    return [(0, dest, 10**6) for dest in range(1, p)]


def servers(p: int) -> list[tuple[int, int, int]]:
    """The last three quarters of the ranks send to each of the first, whose pieces are not
    equal."""
    few = p // 4
    return [
        (worker, server, (server + 1) * 10**6) for worker in range(few, p) for server in range(few)
    ]


def wheel(p: int) -> list[tuple[int, int, int]]:
    """A ring around rank 0, which talks to all."""
    rim = list(range(1, p))
    links = {(0, rank) for rank in rim} | {(rim[place - 1], rank) for place, rank in enumerate(rim)}
    return _both_ways(links)


def random_graph(p: int) -> list[tuple[int, int, int]]:
    """Two rings through all ranks, each in an order drawn by lot: lab 33's kind."""
    links = set()
    for seed in (0, 1):
        order = list(range(p))
        random.Random(seed).shuffle(order)
        links |= {(order[place - 1], rank) for place, rank in enumerate(order)}
    return _both_ways(links)


def _both_ways(links: set[tuple[int, int]]) -> list[tuple[int, int, int]]:
    ways = {way for low, high in links for way in ((low, high), (high, low))}
    return [(source, dest, 10**6) for source, dest in sorted(ways)]


def uneven(p: int) -> tuple[list[tuple[int, int, int]], list[float]]:
    """Four messages a rank, of lengths, to ranks and at times drawn by lot."""
    lot = random.Random(p)
    messages = []
    for source in range(p):
        others = [rank for rank in range(p) if rank != source]
        for dest in lot.sample(others, min(4, len(others))):
            messages.append((source, dest, lot.randrange(10_000, 4_000_000)))
    return messages, [lot.random() * 1e-3 for _ in range(p)]


def patterns() -> Iterator[Pattern]:
    for p in (4, 8, 32):
        at_once = [0.0] * p
        for pattern in (all_to_all, many_to_one, one_to_many, servers, wheel, random_graph):
            yield Pattern(pattern.__name__, p, [pattern(p)], at_once)
        messages, starts = uneven(p)
        yield Pattern("uneven", p, [messages], starts)
        for pattern in (wheel, random_graph):
            yield Pattern(f"{pattern.__name__}, 4 rounds", p, [pattern(p)] * 4, at_once)

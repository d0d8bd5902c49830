"""What goes into a run on the virtual cluster and what comes out of it.

    Run        results, times and counts of a run, and the expectations that a check has of it
    by_rank    an argument of which each rank gets its own part
    copies     what a rank is given: its own copy of the arguments, as if it were a process of its
               own
    no_seeds   while ranks run, an error where the function seeds a generator that all ranks share

Sentences of expectations begin with `With 4 ranks …`: a check of many sizes says in which one it
fails.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import ModuleType

import numpy as np
from labkit import launch
from labkit.checks import expect, plain
from labkit.errors import CheckFailed, LabError, counted
from labkit.timing import digits, human

from virtual import trace

# Relative error of a sum that is right; 1e-9 for others.
_ROUNDING = {"float32": 1e-5, "float16": 1e-2}


class Run:
    """One run of a function on the ranks of a cluster. Lists go by rank; bytes are those of
    messages.

    results: what the function returned. time: virtual seconds until the last rank ended; times by
    rank. steps: rounds as on paper (a rank sends at most one message and receives at most one in a
    round). sent, sent_bytes, received, received_bytes: their counts. links: (source, dest) ->
    (messages, bytes). node_links: (node, node) -> the same, between nodes only. trace: events, None
    unless run with trace=True.
    """

    def __init__(self, cluster, engine, transport, name: str = "a function"):
        states = engine.states
        self.cluster = cluster
        self.ranks = len(states)
        self.name = name
        self.results = engine.results
        self.times = [state.lane.now for state in states]
        self.time = max(self.times)
        self.sent = [state.sent for state in states]
        self.sent_bytes = [state.sent_bytes for state in states]
        self.received = [state.received for state in states]
        self.received_bytes = [state.received_bytes for state in states]
        self.steps = [state.round for state in states]
        self.nodes = [state.node for state in states]
        self.links = {
            divmod(key, self.ranks): tuple(pair[:2]) for key, pair in transport.links.items()
        }
        self.trace = engine.trace
        self.where = f"with {counted(self.ranks, 'rank')}"  # of sentences; trials add the length
        self._right = ""  # what expect_results has found right

    @property
    def node_links(self) -> dict[tuple[int, int], tuple[int, float]]:
        """(node, node) -> (messages, bytes), between nodes only."""
        counts: dict[tuple[int, int], tuple[int, float]] = {}
        for (source, dest), (messages, nbytes) in self.links.items():
            pair = self.nodes[source], self.nodes[dest]
            if pair[0] != pair[1]:
                before = counts.get(pair, (0, 0))
                counts[pair] = before[0] + messages, before[1] + nbytes
        return counts

    def __repr__(self) -> str:
        busiest = (
            f"at most {max(self.sent)} messages and {_bytes(max(self.sent_bytes))} sent per rank"
        )
        cluster = f"{counted(self.ranks, 'rank')} of {self.cluster.machine.name}"
        return f"<{self.name} on {cluster}: {human(self.time)}, {busiest}, {max(self.steps)} steps>"

    def spans(self) -> list[list[trace.Span]]:
        """By rank, in order: what it did when. The run must have been made with trace=True."""
        return trace.spans(self)

    def save_trace(self, path: str | Path) -> Path:
        """Write the run as a Chrome trace: nodes are processes, ranks are threads, messages are
        arrows.

        https://ui.perfetto.dev shows it. The run must have been made with trace=True.
        """
        return trace.save(self, path)

    def expect_results(self, want, what: str = "the sum", rtol: float | None = None) -> None:
        """Fail unless every rank's result is `want`: one value for all, or a list by rank (None:
        any).

        what: the words for it. rtol: how far numbers may be off, as a share; None: as far as the
        rounding of their type explains (1e-9 for float64, 1e-5 for float32).
        """
        wants = self._by_rank(want, "expect_results")
        wrong: dict[int, str] = {}
        for rank, (got, right) in enumerate(zip(self.results, wants, strict=True)):
            try:
                if right is not None:
                    _same(got, right, rtol)
            except CheckFailed as error:
                wrong[rank] = str(error).lstrip(": ")
        asked = [rank for rank, right in enumerate(wants) if right is not None]
        expect(not wrong, self._wrong(what, wrong, [rank for rank in asked if rank not in wrong]))
        self._right = (
            f"{what[:1].upper()}{what[1:]} is right {self._on(asked)}. But " if asked else ""
        )

    def _wrong(self, what: str, wrong: dict[int, str], right: list[int]) -> str:
        """`With 4 ranks the sum is wrong on rank 3 (right on ranks 0 to 2). Rank 3: expected …`"""
        if not wrong:
            return ""
        first = next(iter(wrong))
        but = f" (it is right on {_ranks(right)})" if right else ""
        return (
            f"{self.where.capitalize()} {what} is wrong {self._on(list(wrong))}{but}. "
            f"Rank {first}: {wrong[first]}"
        )

    def _on(self, ranks: list[int]) -> str:
        return "on every rank" if len(ranks) == self.ranks > 1 else f"on {_ranks(ranks)}"

    def expect_sent(
        self, at_most=None, *, exactly=None, unit: float = 1, named: str = "", rounding: float = 0
    ) -> None:
        """Fail unless the busiest rank sent at most (or every rank exactly) so many `unit`s of
        bytes.

        unit: bytes, most often those of one vector. exactly may be a list by rank. named: whose
        number it is ("a ring"). rounding: bytes that a rank may be off by, where chunks are not all
        of one length.
        """
        noun = "vectors" if unit != 1 else "bytes"
        sent = [nbytes / unit for nbytes in self.sent_bytes]
        self._count("sent", sent, noun, "sends", at_most, exactly, named, rounding / unit)

    def expect_messages(self, at_most=None, *, exactly=None, named: str = "") -> None:
        """Fail unless the busiest rank sent at most (or every rank exactly) so many messages."""
        self._count("sent", self.sent, "messages", "sends", at_most, exactly, named)

    def expect_steps(self, at_most=None, *, exactly=None, named: str = "") -> None:
        """Fail unless the run took at most (or exactly) so many steps, on the rank that took the
        most."""
        steps = [max(self.steps)]
        self._count("took", steps, "steps", "takes", at_most, exactly, named)

    def _count(self, did, counts, noun, does, at_most, exactly, named, slack=0.0) -> None:
        if (at_most is None) == (exactly is None):
            raise LabError("Say either at_most=… or exactly=…")
        limits = exactly if at_most is None else at_most
        wants = (
            self._by_rank(limits, "exactly")
            if isinstance(limits, Sequence)
            else [limits] * len(counts)
        )
        off = [got - want for got, want in zip(counts, wants, strict=True)]
        if exactly is not None:
            off = [abs(difference) for difference in off]
        worst = off.index(max(off))
        limit = _number(wants[worst], noun)
        rule = f"{limit} are enough" if exactly is None else f"it should be {limit}"
        rule = f"{named} {does} {limit}" if named else rule
        where = self.where if self._right else self.where.capitalize()
        number = _number(counts[worst], noun)
        amount = f"{number} {noun.removesuffix('s')}" if number == "1" else f"{number} {noun}"
        subject = self._subject([*zip(counts, wants, strict=True)], worst)
        sentence = f"{self._right}{where} {subject} {did} {amount}; {rule}."
        expect(off[worst] <= slack + 1e-9 * max(1.0, abs(wants[worst])), sentence)

    def _subject(self, counts, worst: int) -> str:
        if len(counts) != self.ranks:
            return "it"
        if self.ranks == 1:
            return "the rank"
        return "each rank" if len(set(counts)) == 1 else f"rank {worst}"

    def _by_rank(self, value, where: str) -> list:
        values = value.values if isinstance(value, by_rank) else value
        if not isinstance(values, list | tuple):
            return [value] * self.ranks
        if len(values) != self.ranks:
            raise LabError(
                f"{where} got a list of {len(values)} for {self.ranks} ranks: it goes by rank."
            )
        return list(values)


class by_rank:
    """An argument of which rank r gets the r-th: `cluster.run(fn, by_rank(vectors))`."""

    def __init__(self, values: Sequence):
        if (
            isinstance(values, str)
            or not hasattr(values, "__len__")
            or not hasattr(values, "__getitem__")
        ):
            raise LabError(
                f"by_rank takes a list with one value per rank, not {type(values).__name__}."
            )
        self.values = values


def check_arguments(arguments: list, size: int) -> None:
    """An error where a by_rank does not hold one value for each of `size` ranks."""
    for argument in arguments:
        if isinstance(argument, by_rank) and len(argument.values) != size:
            count = len(argument.values)
            raise LabError(
                f"by_rank holds {counted(count, 'value')}, but the cluster has {size} ranks."
            )


def copies(args: tuple, kwargs: dict, rank: int) -> tuple[list, dict]:
    """Rank `rank`'s own arguments. What cannot change is not copied: numbers, text, read-only
    arrays."""
    kept: dict[int, object] = {}  # id -> copy: an array that was given twice stays one array
    own_args = [_copy(_pick(value, rank), kept) for value in args]
    own_kwargs = {name: _copy(_pick(value, rank), kept) for name, value in kwargs.items()}
    return own_args, own_kwargs


def _pick(value: object, rank: int) -> object:
    return value.values[rank] if isinstance(value, by_rank) else value


def _copy(value: object, kept: dict[int, object]) -> object:
    if value is None or isinstance(value, int | float | str | bytes | ModuleType):
        return value
    if isinstance(value, np.ndarray) and not value.flags.writeable and value.base is None:
        return value  # nobody can change it
    if type(value) is np.ndarray and not value.dtype.hasobject:
        if id(value) not in kept:
            kept[id(value)] = value.copy()
        return kept[id(value)]
    try:
        return copy.deepcopy(value, kept)
    except Exception as error:
        raise LabError(
            f"An argument of type {type(value).__name__} cannot be copied, and every rank gets its"
            f" own: {error}. Make it inside the function."
        ) from error


@contextmanager
def no_seeds() -> Iterator[None]:
    """While it lasts, np.random.seed and random.seed raise where the learner's own code calls
    them."""
    of_numpy = np.random.seed
    of_python = random.seed
    np.random.seed = _refused(of_numpy)
    random.seed = _refused(of_python)
    try:
        yield
    finally:
        np.random.seed = of_numpy
        random.seed = of_python


def _refused(seed: Callable) -> Callable:
    @wraps(seed)
    def by_a_rank(*args, **kwargs):
        if launch.is_learners(sys._getframe(1).f_code.co_filename):
            raise LabError(
                "np.random and random have one generator for all virtual ranks, so that none can"
                " seed its own. Give each rank one: random = np.random.default_rng(comm.rank)."
            )
        return seed(*args, **kwargs)

    return by_a_rank


def _same(got, want, rtol: float | None) -> None:
    """Nothing where they agree; numbers closely, everything else exactly."""
    value = plain(want)
    if (
        isinstance(value, np.ndarray | np.generic | float | int)
        and np.asarray(value).dtype.kind in "biuf"
    ):
        if rtol is None:
            rtol = _ROUNDING.get(str(getattr(plain(got), "dtype", "float64")), 1e-9)
        expect.close(got, value, "", rtol=rtol)
    else:
        expect.equal(got, want, "")


def _ranks(ranks: list[int]) -> str:
    """`rank 3`, `ranks 0 and 2`, `ranks 1 to 7`, `ranks 0, 2, 5 and 4 others`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    names = [str(rank) for rank in ranks[:3]]
    if len(ranks) > 3:
        names.append(f"{len(ranks) - 3} others")
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _number(value: float, noun: str) -> str:
    if noun == "vectors":
        return f"{value:.2f}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{digits(count)} {unit}"

"""What is known of a rank from outside: how it ended or where it waits, what it called, what it printed."""

from __future__ import annotations

import inspect
import linecache
import signal
from collections.abc import Callable, Sequence
from typing import NamedTuple

UNDECIDED = "neither ended nor waited in time"


class Frame(NamedTuple):
    """One line of a stack: a function, its file, and the line that it is in."""

    function: str
    file: str
    line: int


class Record(NamedTuple):
    """One call of the flight recorder: "all_reduce", how many numbers, and the line of the program."""

    call: str
    numbers: int
    line: int


class Rank(NamedTuple):
    """What was found of one rank when nothing moved any more.

    state: "waits", "finished", "raised", or the name of the signal that ended it; UNDECIDED where time was up
    before. stack: outermost first, of a rank that waits. seen_by: what read that stack. log: what it printed.
    result: what the program returned. error: the last line of the exception; file and line: the learner's
    innermost line that it came through. note: what the program's watcher noted, or what was told in the end,
    if there was one.
    """

    rank: int
    state: str
    error: str = ""
    line: int = 0
    file: str = ""
    stack: Sequence[Frame] = ()
    seen_by: str = ""
    records: Sequence[Record] = ()
    log: str = ""
    result: object = None
    note: object = None


def name_of(status: int) -> str:
    """A wait status as a state: the signal's name, or the exit status."""
    if status < 0:
        return signal.Signals(-status).name
    return f"ended with status {status}"


def source(file: str, line: int) -> str:
    """The text of a line; a notebook's cells are known to linecache."""
    return linecache.getline(file, line).strip()


def show_stacks(ranks: Sequence[Rank]) -> None:
    """Print the stack of each rank that waits, as py-spy does: the innermost line first."""
    for rank in ranks:
        seen = f" (seen by {rank.seen_by})" if rank.stack else ""
        print(f"rank {rank.rank} {rank.state}{seen}")
        for frame in reversed(rank.stack):
            print(f"    {frame.function} ({'/'.join(frame.file.split('/')[-2:])}:{frame.line})")


def show_program(program: Callable) -> None:
    """Print a function with the numbers of its lines."""
    lines, first = inspect.getsourcelines(program)
    for number, line in enumerate(lines, first):
        print(f"{number:4}  {line.rstrip()}")


def show_ends(ranks: Sequence[Rank], width: int = 200) -> None:
    """Print how each rank ended, with the last words of those that raised; before it an empty line."""
    print()
    for rank in ranks:
        where = ""
        if rank.line:
            where = f"\n    in line {rank.line}: {source(rank.file, rank.line)}"
        if rank.state == "finished":
            print(f"rank {rank.rank} finished: {rank.result}")
        elif rank.state == "raised":
            text = rank.error if len(rank.error) <= width else rank.error[:width] + " …"
            print(f"rank {rank.rank} raised {text}{where}")
        else:
            print(f"rank {rank.rank}: {rank.state}{where}")


def show_records(ranks: Sequence[Rank], last: int = 12) -> None:
    """Print the recorded calls of all ranks beside each other, numbered from 0."""
    longest = max(len(rank.records) for rank in ranks)
    first = max(0, longest - last)
    width = 26
    print("call  " + "".join(f"{'rank ' + str(rank.rank):{width}}" for rank in ranks))
    for place in range(first, longest):
        cells = []
        for rank in ranks:
            text = ""
            if place < len(rank.records):
                call, numbers, line = rank.records[place]
                text = f"{call}({numbers}) line {line}"
            cells.append(f"{text:{width}}")
        print(f"{place:4}  " + "".join(cells).rstrip())

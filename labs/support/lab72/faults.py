"""Faults that are placed at random, by a seed: which rank, and which of the program's lines.

Nothing in a program says which rank will go wrong: what it is dealt decides.
"""

from __future__ import annotations

import fcntl
import getpass
import inspect
import os
import random
import socket
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

STEPS = 5


def own_seed(number: int) -> int:
    """A seed for this learner's case `number`: another person on another computer meets another fault."""
    who = f"{getpass.getuser()}@{socket.gethostname()}/{number}"
    return zlib.crc32(who.encode())


class Hang(NamedTuple):
    """Deals the files, the log and the table of section 1's epoch. One rank gets one that does not answer.

    what: "disk", "log", "table" or "short", a shard with fewer files.
    """

    what: str
    rank: int
    step: int
    ranks: int

    def __call__(self, folder: Path) -> list[tuple]:
        shares = []
        for rank in range(self.ranks):
            files = []
            for step in range(STEPS):
                file = folder / f"shard_{rank}_{step}.bin"
                file.write_bytes(bytes(10 + step))
                files.append(file)
            log = (folder / f"epoch_{rank}.log").open("w")
            table = folder / f"table_{rank}.txt"
            if rank == self.rank:
                if self.what == "disk":
                    files[self.step].unlink()
                    os.mkfifo(files[self.step])  # opening it waits for a writer, and none comes
                elif self.what == "log":
                    log = _full_pipe()
                elif self.what == "table":
                    self._hold(table)
                else:
                    files = files[: self.step]
            shares.append((files, log, table))
        return shares

    def _hold(self, table: Path) -> None:
        """Lock it, as a process that died on another node may: for as long as this process lives."""
        held = os.open(table, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)

    @property
    def text(self) -> str:
        """What stands in the line where that rank waits."""
        return {"disk": "read_bytes", "log": "print(", "table": "flock(", "short": "dist.barrier"}[self.what]


class Nearby(NamedTuple):
    """Deals what `fault` deals, and to each rank a folder of its own with copies of its files."""

    fault: Hang

    def __call__(self, folder: Path) -> list[tuple]:
        shares = []
        for rank, (files, log, table) in enumerate(self.fault(folder)):
            nearby = folder / f"disk_of_rank_{rank}"
            nearby.mkdir()
            for step in range(STEPS):
                copy = nearby / f"shard_{rank}_{step}.bin"
                copy.write_bytes(bytes(10 + step))
            shares.append((files, log, table, nearby))
        return shares

    @property
    def steps(self) -> int:
        """How many steps all ranks have files for."""
        return self.fault.step if self.fault.what == "short" else STEPS


def written(files, log, table, nearby: Path) -> tuple[list[str], list[str]]:
    """On a rank: the lines of nearby/log and of nearby/table; none where there is no such file."""
    paths = [nearby / name for name in ("log", "table")]
    log_lines, table_lines = [path.read_text().splitlines() if path.exists() else [] for path in paths]
    return log_lines, table_lines


def _full_pipe():
    """A file to write to, which nobody reads any more."""
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)  # open, or else writing would fail and not wait
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    return os.fdopen(writer, "w")


def hang(number: int, ranks: int = 3) -> Hang:
    """A hang of section 1: this learner's case `number`."""
    dice = random.Random(f"hang {own_seed(number)}")
    what = dice.choice(("disk", "log", "table", "short"))
    return Hang(what, dice.randrange(ranks), dice.randrange(1, STEPS - 1), ranks)


class Disorder(NamedTuple):
    """Deals the batches of section 2's training. One rank's calls differ from one step on.

    what: "loss" (it calls for a new start), "order" (its statistics come in another order), "missing" (it
    lacks the last of them).
    """

    what: str
    rank: int
    step: int
    ranks: int

    def __call__(self, folder: Path) -> list[tuple]:
        shares = []
        for rank in range(self.ranks):
            batches = []
            for step in range(STEPS):
                batch = {"loss": 2.0 - 0.1 * step, "statistics": ["right", "loss"]}
                if rank == self.rank and step == self.step:
                    if self.what == "loss":
                        batch["loss"] = 1e6
                    elif self.what == "order":
                        batch["statistics"] = ["loss", "right"]
                    else:
                        batch["statistics"] = ["right"]
                batches.append(batch)
            shares.append((batches,))
        return shares

    @property
    def text(self) -> str:
        """What stands in the line of that rank's first call that the others do not make."""
        return {"loss": "dist.broadcast", "order": "dist.reduce", "missing": "dist.all_reduce"}[self.what]


def disorder(number: int, ranks: int = 3) -> Disorder:
    """A disorder of section 2: this learner's case `number`."""
    dice = random.Random(f"disorder {own_seed(number)}")
    what = dice.choice(("loss", "order", "missing"))
    return Disorder(what, dice.randrange(ranks), dice.randrange(1, STEPS - 1), ranks)


def agreed(dealt: list[tuple]) -> list[dict]:
    """The batches that all ranks go by: the largest loss, all statistics that some rank wants, by name.

    dealt: what a Disorder deals, or the like: for each rank a list of batches.
    """
    batches = []
    for step in zip(*(batches for (batches,) in dealt), strict=True):
        wanted = set().union(*(batch["statistics"] for batch in step))
        batches.append({"loss": max(batch["loss"] for batch in step), "statistics": sorted(wanted)})
    return batches


class Poison(NamedTuple):
    """Deals the pictures of section 4's training, digits of scikit-learn. One picture of one rank is broken.

    what: "black", "one colour", or "dead pixel", which is far too bright.
    """

    what: str
    rank: int
    step: int
    ranks: int

    def __call__(self, folder: Path) -> list[tuple]:
        import torch
        from labkit import data

        digits = data.digits()
        pictures = torch.tensor(digits.train_x, dtype=torch.float32).reshape(-1, 64)
        shares = []
        for rank in range(self.ranks):
            batches = []
            for step in range(STEPS):
                begin = 8 * (rank * STEPS + step)
                batch = pictures[begin : begin + 8].clone()
                if rank == self.rank and step == self.step:
                    if self.what == "black":
                        batch[3] = 0
                    elif self.what == "one colour":
                        batch[3] = 0.5
                    else:
                        batch[3, 20] = 1e30
                batches.append(batch)
            shares.append((batches,))
        return shares

    @property
    def text(self) -> str:
        """What stands in the line whose result is the first that is no number."""
        return {"black": "bright =", "one colour": "contrast =", "dead pixel": "energy ="}[self.what]


def poison(number: int, ranks: int = 3) -> Poison:
    """A NaN of section 4: this learner's case `number`."""
    dice = random.Random(f"poison {own_seed(number)}")
    what = dice.choice(("black", "one colour", "dead pixel"))
    return Poison(what, dice.randrange(ranks), dice.randrange(1, STEPS - 1), ranks)


def shards(number: int, ranks: int = 3) -> list[int]:
    """Batches of each rank in section 3: one has fewer. This learner's case `number`."""
    dice = random.Random(f"shards {own_seed(number)}")
    lengths = [dice.randrange(5, 8)] * ranks
    lengths[dice.randrange(ranks)] = dice.randrange(1, 5)
    return lengths


def drawn(name: str, number: int, below: int) -> int:
    """A number from 0 on, less than `below`. This learner's case `number` of `name`."""
    return random.Random(f"{name} {own_seed(number)}").randrange(below)


def shuffled(name: str, number: int, values: list) -> list:
    """The values in an order that is drawn. This learner's case `number` of `name`."""
    return random.Random(f"{name} {own_seed(number)}").sample(values, len(values))


def one_of_three(name: str, number: int, usual: object, other: object) -> tuple[int, list]:
    """(rank, what each of three ranks is dealt): that rank gets `other`. This learner's case `number`."""
    rank = drawn(name, number, 3)
    return rank, [other if place == rank else usual for place in range(3)]


def fresh(deal: Callable, number: int) -> list:
    """One case of each kind that deal(number) can be, from `number` on; neighbours on different ranks."""
    by_kind: dict[str, object] = {deal(number).what: deal(number)}
    for later in range(number + 1, number + 1000):
        fault = deal(later)
        if fault.what not in by_kind and fault.rank not in [other.rank for other in by_kind.values()][-1:]:
            by_kind[fault.what] = fault
    return list(by_kind.values())


def line_of(program: Callable, text: str) -> int:
    """The number of the program's one line that holds `text`."""
    lines, first = inspect.getsourcelines(program)
    (place,) = [place for place, line in enumerate(lines) if text in line]
    return first + place

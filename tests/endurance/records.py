"""Eight writers of one file of records, killed at random: `python -m tests.endurance.records [KILLS]`.

Each writer appends records of all lengths, by `record.add`, and notes each one once the call has returned.
One after the other is killed with SIGKILL, at a moment drawn by chance, and another takes its place.

Counted: lines that were reported as written and are not there, or are there twice, or in another order; lines
that are no records, in the file and to a reader in the midst of it. Status 1 if there is any.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from labkit import launch, record

WRITERS = 8
EACH = 100  # kills, then the next file
PAUSE = 0.02  # seconds between two kills, on average
STEM = "01_time_it_properly"


def main(kills: int = 3000) -> int:
    """Bring about so many kills. Returns the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    chance = random.Random(1)
    total: Counter = Counter()
    while total["kills"] < kills:
        with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
            total.update(one_file(Path(folder), min(EACH, kills - total["kills"]), chance))
        print(f"{total['kills']} kills after {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{WRITERS} writers at a time, {total['kills']} of them killed:")
    print(f"{total['lines']} lines, {total['bytes'] / 1e6:.0f} MB; reported as written: {total['reported']}")
    print(f"read in the midst of it: {total['readings']} times")
    lost = ("lost", "twice", "out of order", "corrupt lines", "corrupt to a reader", "writers that failed")
    for name in lost:
        print(f"{name}: {total[name]}")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if any(total[name] for name in lost) else 0


def one_file(folder: Path, kills: int, chance: random.Random) -> Counter:
    """Writers that are killed so many times, all at one file in `folder`; what became of their lines."""
    counts = Counter({"kills": kills})
    started = 0
    writers: list[int] = []
    with launch.environment({"LABKIT_HOME": str(folder), "LABKIT_LAB": STEM}):
        file = record.path(STEM)
        record.add("step", writer=-1, number=0)  # what it asks of git and of the machine, it asks once
        try:
            for turn in range(kills):
                while len(writers) < WRITERS:
                    writers.append(start(folder, started))
                    started += 1
                time.sleep(chance.expovariate(1 / PAUSE))
                if turn % 10 == 0:
                    counts["readings"] += 1
                    counts["corrupt to a reader"] += complaints(file)
                counts["writers that failed"] += end(writers.pop(chance.randrange(len(writers))))
        finally:
            for writer in writers:
                counts["writers that failed"] += end(writer)
        counts["corrupt to a reader"] += complaints(file)
    return counts + judged(file, folder, started)


def start(folder: Path, number: int) -> int:
    """A writer: a child of this process, which has all modules loaded. Its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        write_until_killed(folder, number)
    except BaseException as error:
        print(f"a writer failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def write_until_killed(folder: Path, number: int) -> None:
    """Append records for ever, and note each that is reported as written."""
    launch.die_with_parent(os.getppid())
    chance = random.Random(number)
    notes = os.open(folder / f"reported.{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    turn = 0
    while True:
        longest = chance.choice([100, 3000, 3000, 3000, 60_000])
        record.add("step", writer=number, number=turn, ballast="x" * chance.randrange(longest))
        os.write(notes, f"{turn}\n".encode())
        turn += 1


def end(pid: int) -> int:
    """Kill a writer. 1 if it had ended by itself."""
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return int(not os.WIFSIGNALED(status))


def complaints(file: Path) -> int:
    """How many lines the kit's own reader finds fault with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record.entries(file)
    return len(caught)


def judged(file: Path, folder: Path, started: int) -> Counter:
    """The file's lines, held against what the writers have noted."""
    counts: Counter = Counter()
    there: dict[int, list[int]] = {number: [] for number in range(-1, started)}
    text = file.read_bytes()
    counts["bytes"] = len(text)
    for line in text.split(b"\n"):
        if not line:
            continue
        counts["lines"] += 1
        try:
            entry = json.loads(line)
            there[entry["writer"]].append(entry["number"])
        except (ValueError, KeyError):
            counts["corrupt lines"] += 1
    for number in range(started):
        reported = folder / f"reported.{number}"
        noted = [int(line) for line in reported.read_text().split()] if reported.exists() else []
        counts["reported"] += len(noted)
        counts["lost"] += len(set(noted) - set(there[number]))
        counts["twice"] += len(there[number]) - len(set(there[number]))
        counts["out of order"] += there[number] != sorted(there[number])
    return counts


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

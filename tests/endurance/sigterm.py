"""pytest is told to end in the midst of its tests: `python -m tests.endurance.sigterm [TIMES]`.

Real ranks, with children and daemons of their own, and a tabletop cluster with a job are running: by turns in
one process, and in two workers. Every fourth time SIGTERM comes at a moment drawn by
chance, often while they start.

Counted when pytest has ended: processes, what belongs to the cluster, files in the temporary folder, and what
the machine has of mounts, interfaces and control groups. Status 1 if anything is left.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

import psutil
from labkit import paths

from tests.endurance import tabletop
from tests.labkit.launch.leftovers import MARK, marked, until

FORMS = {
    "one process": ["tests/endurance/stopped_both.py"],
    "two workers": ["-n", "2", "tests/endurance/stopped_ranks.py", "tests/endurance/stopped_tabletop.py"],
}
UP = 180.0  # seconds until ranks and cluster are up, on a busy machine
END = 90.0  # seconds that pytest gets to end


def main(times: int = 20) -> int:
    """Stop pytest so many times. Returns the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    chance = random.Random(1)
    total: Counter = Counter()
    before = tabletop.machine()
    for turn in range(times):
        form = list(FORMS)[turn % len(FORMS)]
        midway = turn % 4 == 3
        counts, complaints = stop(form, chance.random() * 10 if midway else None)
        total.update(counts)
        total[form] += 1
        for name, things in tabletop.machine().items():
            total[f"{name} left"] += len(things - before[name])
        for line in complaints:
            print(f"turn {turn}, {form}: {line}", flush=True)
        print(f"{turn + 1} times after {time.monotonic() - begin:.0f} s", flush=True)
    forms = ", ".join(f"{name} {total[name]}" for name in FORMS)
    print(f"SIGTERM to pytest {times} times ({forms}), {total['all up']} of them with ranks and cluster up:")
    lost = ("processes left", "of the cluster left", "mounts left", "interfaces left", "control groups left")
    lost += ("files of others left", "files left", "runs that did not end", "runs that ended before")
    for name in lost:
        print(f"{name}: {total[name]}")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if any(total[name] for name in lost) else 0


def stop(form: str, after: float | None) -> tuple[Counter, list[str]]:
    """Start pytest in this form, and end it after so many seconds; None: once all is up. What was left."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="endurance-") as name:
        folder = Path(name).resolve()
        own = folder / "tmp"
        own.mkdir()
        env = {**os.environ, MARK: mark, "TMPDIR": str(own), "ENDURANCE_FOLDER": str(folder)}
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tests", "--timeout=1000"]
        command = [sys.executable, "-m", "pytest", *options, *FORMS[form]]
        counts, complaints = Counter(), []
        with (folder / "log").open("w") as log:
            pytest = subprocess.Popen(command, cwd=paths.root(), env=env, stdout=log, stderr=log)
        if after is None:
            until(lambda: all_up(folder) or pytest.poll() is not None, UP)
        else:
            time.sleep(after)
        counts["all up"] += all_up(folder)
        if pytest.poll() is not None:
            counts["runs that ended before"] += 1
            complaints.append((folder / "log").read_text()[-2000:])
        pytest.send_signal(signal.SIGTERM)
        try:
            pytest.wait(END)
        except subprocess.TimeoutExpired:
            counts["runs that did not end"] += 1
            pytest.kill()
            pytest.wait()
        until(lambda: not marked(mark), 5)
        for command in marked(mark):
            counts["processes left"] += 1
            complaints.append(f"left is {command[:150]}")
        for process in tabletop.belonging(folder):
            counts["of the cluster left"] += 1
            complaints.append(f"left is {tabletop.described(process)}")
        clear(mark, folder)
        for path in own.iterdir():
            counts["files left"] += 1
            complaints.append(f"left is {path.name}")
    return counts, complaints


def all_up(folder: Path) -> bool:
    return (folder / "ranks").exists() and (folder / "table").exists()


def clear(mark: str, folder: Path) -> None:
    """End what was left, so that the next turn is judged for itself."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark or process in tabletop.belonging(folder):
                process.kill()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

"""Runs that end badly, and what they leave: `python -m tests.endurance.launch [ENDINGS] [AT_ONCE]`.

An ending is a rank that is killed or crashes, an exception, a hang that the time limit cuts, or a restart:
the process that has started the ranks is ended itself, at a moment drawn by chance, often while they start.
Each rank has a child and a daemon of its own. After each ending a run in the same process has to succeed.

Counted: processes and zombies, by a mark in their environment; descriptors of the starter that stay open;
files in the temporary folder and of MPI in /dev/shm; endings that were told wrongly. Status 1 if any is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import psutil
from labkit import launch
from labkit.errors import RankFailed
from labkit.launch import shm

from tests.labkit.launch.leftovers import MARK, marked, until

KINDS = ("killed", "exception", "hang", "restart")
CONTROLLERS = ("mpi", "mpi", "torch", "gloo")
DEATHS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, 0)  # 0: os._exit
RESTARTS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LOST = (
    "processes left",
    "zombies left",
    "descriptors left",
    "files left",
    "files of MPI left in /dev/shm",
    "told wrongly",
    "runs that failed afterwards",
    "workers that failed",
)
PATIENCE = 60.0  # seconds that an end may take on a busy machine before something counts as left
MPI_FILES = ("mpich_", "ucx_shm_posix_", "sm_segment.", "vader_segment.")


def main(endings: int = 1000, at_once: int = 3) -> int:
    """Bring about so many bad endings, some at once. Returns the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell lets what it starts in the background ignore Ctrl-C, and so would all that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.monotonic()
    before = abandoned()
    total: Counter = Counter()
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        shares = [endings // at_once + (number < endings % at_once) for number in range(at_once)]
        workers = [Worker(number, share, Path(folder)) for number, share in enumerate(shares) if share]
        while any(worker.is_alive() for worker in workers):
            time.sleep(1)
            done = sum(worker.seen["endings"] for worker in workers)
            if done >= total["shown"] + max(1, endings // 20):
                total["shown"] = done
                print(f"{done} endings after {time.monotonic() - begin:.0f} s", flush=True)
        for worker in workers:
            total += worker.seen
            for line in worker.complaints:
                print(line)
        files = sorted(path.name for place in Path(folder).iterdir() for path in place.iterdir())
    total["processes left"] += sum(len(marked(worker.mark)) for worker in workers)
    in_memory = abandoned() - before
    until(lambda: not abandoned() & in_memory, 5)
    total["files left"] += len(files)
    total["files of MPI left in /dev/shm"] += len(abandoned() & in_memory)
    print(f"{total['endings']} bad endings, {total['good runs']} good runs after them, {at_once} at once:")
    for name in KINDS:
        print(f"  {name:<10} {total[name]:5}")
    for name in LOST:
        print(f"{name}: {total[name]}")
    for name in files[:10]:
        print(f"  {name}")
    print(f"{time.monotonic() - begin:.0f} s")
    complete = total["endings"] == endings and total["good runs"] == endings
    return 1 if any(total[name] for name in LOST) or not complete else 0


class Worker(threading.Thread):
    """A process that brings about one ending after the other, and the thread that listens to it."""

    def __init__(self, number: int, share: int, folder: Path):
        super().__init__()
        self.mark = uuid.uuid4().hex
        self.seen: Counter = Counter()
        self.complaints: list[str] = []
        place = folder / str(number)
        place.mkdir()
        env = {**os.environ, MARK: self.mark, "TMPDIR": str(place)}
        command = [sys.executable, "-m", "tests.endurance.launch", "--worker", str(number), str(share)]
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        self.start()

    def run(self) -> None:
        with self._process as process:
            for line in process.stdout:
                try:
                    ending = json.loads(line)
                except ValueError:
                    self.complaints.append(line.rstrip())
                    continue
                self.seen.update(ending["counts"])
                self.complaints += ending["complaints"]
        if process.returncode:
            self.seen["workers that failed"] += 1


def work(number: int, share: int) -> None:
    """A worker: one JSON line for each ending, with what was counted."""
    chance = random.Random(number)
    good_run("mpi")
    good_run("torch")
    good_run("gloo")
    for turn in range(share):
        kind = KINDS[(turn + number) % len(KINDS)]
        controller = chance.choice(CONTROLLERS)
        counts = Counter({"endings": 1, kind: 1})
        before = descriptors()
        complaints = end_badly(kind, controller, chance)
        counts["told wrongly"] = len(complaints)
        # A run that returned has ended everything. What a killed starter began takes a moment to notice.
        left = own_marked()
        if kind == "restart" and left:
            until(lambda: not own_marked(), PATIENCE)
            left = own_marked()
        counts["processes left"] = len(left)
        complaints += [f"left by {kind} ({controller}): {command[:200]}" for command in left]
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                counts["zombies left"] += child.status() == psutil.STATUS_ZOMBIE
        counts["descriptors left"] = max(0, descriptors() - before)
        try:
            good_run(controller)
            counts["good runs"] = 1
        except Exception as error:
            counts["runs that failed afterwards"] = 1
            complaints.append(f"after {kind} ({controller}): {error}")
        print(json.dumps({"counts": counts, "complaints": complaints}), flush=True)


def own_marked() -> list[str]:
    return marked(os.environ[MARK])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def abandoned() -> set[str]:
    """This user's files of MPI in /dev/shm that no process has mapped."""
    names = {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(MPI_FILES)}
    used: set[str] = set()
    for process in Path("/proc").iterdir():
        if names and process.name.isdigit():
            used |= {Path(path).name for path in shm.mapped(process.name, MPI_FILES)}
    return names - used


def end_badly(kind: str, controller: str, chance: random.Random) -> list[str]:
    """One bad ending. Returns what was told of it wrongly: nothing, if all is well."""
    if kind == "restart":
        return restart(controller, chance)
    part = {"kind": kind, "victim": chance.randrange(2), "delay": chance.choice([0, 0.05, 0.3])}
    part["death"] = int(chance.choice(DEATHS))
    function = play_with_mpi if controller == "mpi" else play
    try:
        launch.run(function, part, ranks=2, controller=controller, timeout=0.5 if kind == "hang" else 300)
    except RankFailed as failed:
        names = {"exception": "ValueError", "hang": "Timeout"}
        names["killed"] = signal.Signals(part["death"]).name if part["death"] else ""
        expected = names[kind]
        right = failed.rank == (0 if kind == "hang" else part["victim"])
        if right and (failed.kind == expected or not expected):
            return []
        return [f"{kind} ({controller}), {part}: rank {failed.rank}, {failed.kind}: {failed}"]
    except Exception as error:
        return [f"{kind} ({controller}), {part}: {type(error).__name__}: {error}"]
    return [f"{kind} ({controller}), {part}: no error at all"]


def play_with_mpi(comm, part: dict) -> None:
    """A rank's part, as `play`; the other one waits for a message."""
    if comm.rank == part["victim"] or part["kind"] == "hang":
        play(part, comm.rank)
    comm.recv()


def play(part: dict, rank: int | None = None) -> None:
    """A rank's part: the victim ends as `part` says, after it has started a child and a daemon."""
    import os
    import subprocess
    import time

    subprocess.Popen(["sleep", "1000"]).returncode = 0
    subprocess.Popen(["sleep", "1000"], start_new_session=True).returncode = 0
    if rank is None:
        rank = int(os.environ["LABKIT_RANK"])
    if rank == part["victim"] and part["kind"] != "hang":
        time.sleep(part["delay"])
        if part["kind"] == "exception":
            raise ValueError("enough")
        if part["death"]:
            os.kill(os.getpid(), part["death"])
        os._exit(5)
    time.sleep(1000)


def restart(controller: str, chance: random.Random) -> list[str]:
    """End a starter: in half of all cases once its ranks are up, else whatever it is at."""
    code = f"from tests.endurance import launch; launch.stay({controller!r})"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as starter:
        starter.stdout.readline()  # its imports are done
        if chance.random() < 0.5:
            starter.stdout.readline()
            starter.stdout.readline()
        else:
            time.sleep(chance.random() ** 2 * 2)
        how = chance.choice(RESTARTS)
        starter.send_signal(how)
        try:
            starter.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            starter.kill()
            return [f"restart ({controller}): {how.name} did not end the starter"]
    return []


def stay(controller: str) -> None:
    """A starter: ranks that never end by themselves."""
    print("ready", flush=True)
    launch.run(rest, ranks=2, controller=controller, timeout=900)


def rest() -> None:
    import subprocess
    import time

    subprocess.Popen(["sleep", "1000"]).returncode = 0
    subprocess.Popen(["sleep", "1000"], start_new_session=True).returncode = 0
    print("up", flush=True)
    time.sleep(1000)


def good_run(controller: str) -> None:
    """A run that has to succeed. RuntimeError if it gives something else than it should."""
    results = launch.run(add if controller == "mpi" else number, ranks=2, controller=controller, echo=False)
    if results != ([1, 1] if controller == "mpi" else [0, 1]):
        raise RuntimeError(f"a good run gave {results}")


def add(comm) -> int:
    return comm.allreduce(comm.rank)


def number() -> int:
    import os

    return int(os.environ["LABKIT_RANK"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])))

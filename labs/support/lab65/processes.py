"""Real processes that train, measured from outside; then one is killed, and the others are watched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from labkit import launch, world
from labkit.errors import LabError, NotHere

from support.lab65.ways import ALONE, WAYS, Way, meeting, path_of

FOR_EVER = "1000000"  # steps: every process trains until it is ended
START = 240  # seconds to wait for a process's steps
LOOK = 0.05  # seconds between two looks
ERROR = re.compile(r"(\w+Error): ?")
MOST_WORDS = 6000  # characters of a process's errors that are kept
MARK = "LAB65_RUN"  # a variable that a process, and all that it starts, have in their environment


class Report(NamedTuple):
    """What was seen of one process. Times as of time.time().

    moments: when each of its steps ended. losses: of its own images. megabytes: its memory while it trained.
    status, ended: how and when it ended after another one was killed; None where it had to be killed, too.
    words: the end of what it wrote about errors. left: what was left of it when it had ended.
    """

    started: float
    moments: list[float]
    losses: list[float]
    megabytes: float
    status: int | None
    ended: float | None
    words: str
    left: list[str]


class Run(NamedTuple):
    """One training by some processes, by rank; killed: when the last of them was killed."""

    reports: list[Report]
    killed: float


def measure(
    names: Sequence[str], ranks: int, rounds: int, *, width: int, batch: int, steps: int, watch: float
) -> dict[str, list[Run]]:
    """{way: a Run for each round}: each way in each round, and one device's before. Prints what it is at.

    names: of WAYS and ALONE. width: of the net. batch: images of all ranks in a step. steps: after which
    the last rank's process is killed. watch: seconds that the others are watched for.
    """
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names:
            way = (ALONE | WAYS)[name]
            if world.is_root():
                print(f"round {turn + 1}: {name}", flush=True)
            # START is for the children; what they report comes at once.
            limit = 2 * START + watch
            size = launch.ranks_here(ranks if way.meet else 1)
            arguments = (way, [str(width), str(batch), FOR_EVER], steps, watch)
            runs[name].append(launch.run(_on_rank, *arguments, ranks=size, threads=1, timeout=limit)[0])
    return runs


def _on_rank(comm, way: Way, arguments: list[str], steps: int, watch: float) -> Run:
    """On each rank: start its process, wait for its steps, have the last one killed, see what follows."""
    if not sys.platform.startswith("linux"):
        raise NotHere("Memory and leftovers of processes are read from Linux's /proc. Run the lab on Linux.")
    takes_part = bool(way.meet) or comm.rank == 0
    with meeting(comm, way.meet) as variables, tempfile.TemporaryDirectory() as folder:
        _gather(comm, None)  # all begin together
        child = _Child(path_of(way.script), arguments, variables, Path(folder)) if takes_part else None
        try:
            problem = child.train(steps) if child else ""
            problems = [text for text in _gather(comm, problem) if text]
            if problems:
                raise LabError(f"{way.script}.py does not train here: {problems[0]}")
            megabytes = child.megabytes() if child else 0.0
            last = comm.size - 1 if way.meet else 0
            _gather(comm, None)
            killed = time.time()
            if comm.rank == last:
                child.kill()
            elif child:
                child.follow(watch)
            everyone = _gather(comm, (killed, child.report(megabytes) if child else None))
        finally:
            if child:
                child.kill()
    return Run([report for _, report in everyone if report], everyone[last][0])


def _gather(comm, value: object) -> list:
    """Everyone's value. Waits without a core: MPI's own waiting would take it from those who train."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(LOOK)
    return comm.allgather(value)


class _Child:
    """A process that trains, with files for what it says."""

    def __init__(self, script: Path, arguments: list[str], variables: dict[str, str], folder: Path):
        self._out = folder / "out.txt"
        self._err = folder / "err.txt"
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._mark = f"{MARK}={folder}"
        settings = {
            MARK: str(folder),
            "TMPDIR": str(self._temporary),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # With one thread, one that waits for another process would keep the rest from running.
            "TF_NUM_INTEROP_THREADS": "4",
        }
        # Without the launcher's variables: the process is no rank of the job that its parent belongs to.
        environment = world.clean_env() | settings | variables
        self.started = time.time()
        self.status: int | None = None
        self.ended: float | None = None
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def train(self, steps: int) -> str:
        """Wait until it has done so many steps; "" then, else what went wrong."""
        end = time.monotonic() + START
        while len(self._steps()) < steps:
            if self._process.poll() is not None:
                return self._problem() or f"it ended with status {self._process.returncode}"
            if time.monotonic() > end:
                return f"it has not done {steps} steps within {START} s"
            time.sleep(LOOK)
        return ""

    def megabytes(self) -> float:
        """Resident memory, shared pages included, in 1e6 bytes."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        return 1024 * int(line.split()[1]) / 1e6

    def follow(self, seconds: float) -> None:
        """Wait so long for its end, and note it."""
        try:
            self.status = self._process.wait(seconds)
            self.ended = time.time()
        except subprocess.TimeoutExpired:
            pass

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait()

    def report(self, megabytes: float) -> Report:
        """What there is to say; the process is killed for it, if it still runs."""
        self.kill()
        moments = []
        losses = []
        for _, moment, loss in self._steps():
            moments.append(float(moment))
            losses.append(float(loss))
        left = [f"process {number}" for number in self._marked()]
        files = [entry for entry in sorted(self._temporary.rglob("*")) if not entry.is_dir()]
        left += [f"file {entry.name}" for entry in files]
        seen = (self.started, moments, losses, megabytes, self.status, self.ended)
        return Report(*seen, self._words(), left)

    def _steps(self) -> list[list[str]]:
        """The whole lines of steps, in words: step, moment, loss. Libraries may print others."""
        text = self._out.read_text(errors="replace")
        whole = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return [words for words in whole if len(words) == 3 and words[0].isdigit()]

    def _words(self) -> str:
        return self._err.read_text(errors="replace")[-MOST_WORDS:]

    def _problem(self) -> str:
        """The last line that names an error."""
        telling = [line.strip() for line in self._words().splitlines() if ERROR.search(line)]
        return (telling or [""])[-1]

    def _marked(self) -> list[int]:
        """Processes that it started and that are still there."""
        numbers = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    environment = Path("/proc", entry, "environ").read_bytes()
                except OSError:  # another user's, or it has ended
                    continue
                if self._mark.encode() in environment.split(b"\0"):
                    numbers.append(int(entry))
        return numbers

"""A batch job: how it stands, what it printed, its records. Jobs are remembered in
home()/jobs.jsonl."""

from __future__ import annotations

import re
import shutil
import sys
import time
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from labkit import jsonl, paths, record, world
from labkit.cluster import slurm
from labkit.cluster import status as slurm_status
from labkit.cluster.status import GOOD, UNKNOWN, Status
from labkit.errors import LabError, NotHere, counted

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0  # seconds between two questions to Slurm
PLACE_EVERY = 30.0  # seconds; the whole queue is a larger question
PATIENCE = 120.0  # seconds without an answer, then it is said

# The last lines of slurm.job, and what launchers and Slurm write around them.
_WELL = re.compile(r"^Lab \S+: .*\bended well after \d+ s\.$", re.MULTILINE)
_BADLY = re.compile(r"^Lab \S+ failed after \d+ s, exit status (\d+)\.\n", re.MULTILINE)
_NOISE = re.compile(r"(srun|slurmstepd|mpiexec|salloc): |\*\*\* |\s*$")


class StoppedWaiting(LabError):
    """Ctrl-C while waiting; the job goes on."""


@dataclass
class Job:
    """One job. `number`: Slurm's; `submitted`: UTC; `file`: its output; `home`: where its records
    go.

    env: variables for its ranks. horovod, mpi: the builds it was submitted with; None: the site's,
    or the default.
    """

    number: str
    lab: str
    site: str
    nodes: int
    ranks: int | None
    submitted: str
    file: str
    home: str
    settings: dict = field(default_factory=dict)
    solved: bool = False
    study: str | None = None
    env: dict = field(default_factory=dict)
    horovod: str | None = None
    mpi: str | None = None
    commands: str | None = None  # the folder of Slurm's commands, where they are not in PATH
    final: dict | None = None  # how it ended, once that was seen

    def __str__(self) -> str:
        size = counted(self.nodes, "node")
        if self.ranks:
            size += f", {counted(self.ranks, 'rank')}"
        return f"job {self.number} (lab {self.lab[:2]}, {size}, {self.site})"

    @property
    def client(self) -> slurm.Client:
        """The commands of the Slurm that has this job."""
        return slurm.Client(Path(self.commands) if self.commands else None)

    def status(self) -> Status:
        """What is known of it now. NoAnswer or NotHere when Slurm cannot be asked and nothing else
        tells."""
        if self.final:
            return Status(**self.final)
        since = datetime.fromisoformat(self.submitted)
        token = "-".join(Path(self.file).stem.split("-")[-2:])  # day and time, see Request.send
        printed = self._printed_end()
        try:
            status = slurm_status.ask(self.number, self.client, token, since)
        except (slurm.NoAnswer, NotHere):
            if printed is None:
                raise
            status = printed
        if status.state == UNKNOWN and printed is not None:
            status = printed
        if status.ended and status.state != UNKNOWN:
            self._remember_end(status)
        return status

    def state(self) -> str:
        """One word: pending, running, completed, failed, cancelled, timeout, node_fail, …; or
        unknown, as where Slurm does not answer or does not show this job."""
        try:
            return self.status().state
        except (slurm.Failed, NotHere):
            return UNKNOWN

    def wait(self, timeout: float | None = 600) -> str:
        """Wait for its end, `timeout` seconds at most (None: for ever), with a line that says how
        it stands.

        Returns the state. LabError with the sentence of the rank that failed when it did not end
        well. Ctrl-C, or the notebook's stop button, ends the waiting and leaves the job alone.
        """
        line = Line()
        begin = time.monotonic()
        try:
            status = self._follow(timeout, line, begin)
        except KeyboardInterrupt:
            line.end(f"Stopped waiting for {self}.")
            raise StoppedWaiting(
                f"Stopped waiting; job {self.number} goes on. job.wait() waits again, `make"
                " results` shows how it stands, job.cancel() ends it."
            ) from None
        if not status.ended:
            line.end(
                f"{_capital(self)} {_stands(status)} · after {time.monotonic() - begin:.0f} s no"
                " longer waited for. job.wait() waits again; what comes next can go on meanwhile."
            )
            return status.state
        ran = f", ran {status.seconds} s" if status.seconds is not None else ""
        word = status.state.replace("_", " ")
        line.end(f"{_capital(self)}: {word}{ran}. Output: {paths.shown(self.file)}")
        if status.state != GOOD:
            time.sleep(0.5)  # a shared file system may show the last lines a little late
            raise LabError(self.failure(status))
        return status.state

    def output(self) -> str:
        """What it has printed so far; "" before it starts."""
        try:
            return Path(self.file).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def cancel(self) -> None:
        """Take it out of the queue, or end it. A job that has ended stays as it is."""
        self.client.call("scancel", self.number)

    def records(self, result: str | None = None):
        """The records that this job wrote, as a pandas.DataFrame; `result` picks one kind."""
        entries = self.entries()
        if not entries:
            print(
                f"No records of {self} yet: it is {self.state()}. Its output:"
                f" {paths.shown(self.file)}"
            )
        return record.frame(entries, result, str(self))

    def entries(self) -> list[dict]:
        """Its records as they stand in the file, oldest first."""
        # Numbers may come again on a cluster that started afresh, and on another tabletop, so a
        # record names its submission, too. Records of earlier releases do not: for them the time
        # has to do, and clocks of two machines may differ a little.
        since = datetime.fromisoformat(self.submitted) - timedelta(seconds=60)
        earliest = since.isoformat(timespec="milliseconds")
        file = Path(self.home) / "records" / f"{self.lab}.jsonl"
        return [
            entry
            for entry in record.entries(file)
            if (str(entry.get("job")), entry.get("site")) == (self.number, self.site)
            and entry.get("submitted") in (None, self.submitted)
            and (entry.get("utc") or "") >= earliest
        ]

    def failure(self, status: Status) -> str:
        """Why it did not end well, and where to read more."""
        more = f"All it printed: {paths.shown(self.file)}"
        if status.state == UNKNOWN:
            return f"Slurm no longer knows {self}, and its output does not say how it ended. {more}"
        how = slurm_status.ENDED_HOW[status.state]
        sentence = last_sentence(self.output())
        return f"{_capital(self)} {how}{f': {sentence}' if sentence else '.'}\n{more}"

    def _printed_end(self) -> Status | None:
        """How it ended, by the last lines of its output; None while they are not there."""
        text = self.output()
        failed = _BADLY.search(text)
        if failed:
            return Status("failed", exit=int(failed[1]))
        return Status(GOOD, exit=0) if _WELL.search(text) else None

    def _remember_end(self, status: Status) -> None:
        self.final = {"state": status.state, "seconds": status.seconds, "exit": status.exit}
        jsonl.append(ledger(), {"number": self.number, "file": self.file, **self.final}, "job")

    def _follow(self, timeout: float | None, line: Line, begin: float) -> Status:
        """Ask until it has ended or `timeout` has passed: soon at first, then every ten seconds."""
        pause = FIRST_PAUSE
        silent_since = placed = None
        status = Status("pending", "None")
        while True:
            try:
                status = self.status()
                if status.ended:
                    return status
                silent_since = None
                placed = self._placed(status, placed)
                stands = _stands(replace(status, place=placed[1] if placed else None))
            except slurm.NoAnswer as error:
                silent_since = silent_since or time.monotonic()
                silence = time.monotonic() - silent_since
                if silence > PATIENCE:
                    raise LabError(
                        f"{error} It has been so for {silence:.0f} s; job.wait() tries again."
                    ) from None
                stands = "is somewhere: Slurm's controller does not answer just now"
            except NotHere as error:
                raise LabError(f"{_capital(self)} cannot be followed: {error}") from None
            left = pause if timeout is None else min(pause, begin + timeout - time.monotonic())
            _tick(line, f"{_capital(self)} {stands}", begin, left)
            if timeout is not None and time.monotonic() >= begin + timeout:
                return status
            pause = min(LONGEST_PAUSE, 1.5 * pause)

    def _placed(self, status: Status, before: tuple | None) -> tuple | None:
        """(when asked, place in the queue), asked for now and then; None for a job that does not
        wait."""
        if not status.waits:
            return None
        if before and time.monotonic() < before[0] + PLACE_EVERY:
            return before
        return time.monotonic(), slurm_status.place(self.number, self.client, status.partition)


class Line:
    """One line that rewrites itself in a notebook and on a terminal; elsewhere, a line for each
    change."""

    def __init__(self) -> None:
        self._last = ""
        self._handle = None
        self._terminal = sys.stdout.isatty()

    def show(self, text: str, seconds: float) -> None:
        """Show `text` and the seconds waited so far."""
        whole = f"{text} · {seconds:.0f} s"
        if world.in_kernel():
            self._display(whole)
        elif self._terminal:
            fitting = whole[: shutil.get_terminal_size().columns - 1]  # a wrapped line stays
            print(f"\r\033[K{fitting}", end="", flush=True)
        elif text != self._last:
            print(whole, flush=True)
        self._last = text

    def end(self, text: str) -> None:
        """The last words, on the same line."""
        if world.in_kernel():
            self._display(text)
        else:
            print(f"\r\033[K{text}" if self._terminal else text, flush=True)

    def _display(self, text: str) -> None:
        from IPython.display import display

        plain = {"text/plain": text}
        if self._handle is None:
            self._handle = display(plain, raw=True, display_id=True)
        else:
            self._handle.update(plain, raw=True)


def _stands(status: Status) -> str:
    if status.waits:
        return slurm_status.why(status)
    if status.state == "running":
        return f"runs on {status.hosts}"
    return f"is {status.state.replace('_', ' ')}"


def _tick(line: Line, text: str, begin: float, pause: float) -> None:
    """Sleep for `pause` seconds while the seconds on the line run on."""
    end = time.monotonic() + pause
    while True:
        line.show(text, time.monotonic() - begin)
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(1.0, left))


def _capital(job: Job) -> str:
    text = str(job)
    return text[0].upper() + text[1:]


def last_sentence(text: str) -> str:
    """What the ranks or labkit said last in a job's output; "" if nothing."""
    failures = list(_BADLY.finditer(text))
    if failures:
        tail = text[failures[-1].end() :].splitlines()
        return "\n".join(line.rstrip() for line in tail if not _NOISE.match(line))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(
        (line for line in reversed(lines) if not _NOISE.match(line)), lines[-1] if lines else ""
    )


def now() -> str:
    """The time in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def ledger() -> Path:
    """The file that remembers this learner's jobs: a line for each, and one for how it ended."""
    return paths.home() / "jobs.jsonl"


def remember(job: Job) -> None:
    """Write a new job down."""
    entry = asdict(job)
    del entry["final"]
    jsonl.append(ledger(), entry, "job")


def remembered() -> list[Job]:
    """All jobs, oldest first. A line that is none is skipped with a warning."""
    jobs: dict[str, Job] = {}
    for entry in jsonl.read(ledger(), _valid, "job"):
        if "lab" in entry:
            jobs[entry["file"]] = Job(**{name: entry[name] for name in entry if name in _FIELDS})
        elif entry["file"] in jobs:
            jobs[entry["file"]].final = {
                name: entry.get(name) for name in ("state", "seconds", "exit")
            }
    return list(jobs.values())


_FIELDS = {field.name for field in fields(Job)}
_NEEDED = {field.name for field in fields(Job) if field.default is field.default_factory is MISSING}


def _valid(entry: dict) -> bool:
    """Is it a job that was submitted, or the end of one?"""
    return entry.keys() >= _NEEDED or entry.keys() >= {"number", "file", "state"}

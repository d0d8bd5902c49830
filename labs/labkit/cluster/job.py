"""A batch job: how it stands, what it printed, its records. Jobs are remembered in home()/jobs.jsonl."""

from __future__ import annotations

import re
import shutil
import sys
import time
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from labkit import checks, paths, record
from labkit.cluster import slurm
from labkit.cluster import status as cluster_status
from labkit.cluster.status import GOOD, UNKNOWN, Status
from labkit.errors import LabError, NotHere

_WELL = re.compile(
    r"^Lab \S+: .*\bended well after \d+ s\.$", re.MULTILINE
)  # the last lines of labkit.jobrun
_BADLY = re.compile(r"^Lab \S+ failed after \d+ s, exit status (\d+)\.\n", re.MULTILINE)
_NOISE = re.compile(r"(srun|slurmstepd|mpiexec|salloc): |\*\*\* |\s*$")


@dataclass
class Job:
    """One job. `number`: Slurm's; `submitted`: UTC; `file`: its output; `home`: where its records go."""

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
    commands: str | None = None  # the folder of Slurm's commands, where they are not in PATH
    final: dict | None = None  # how it ended, once that was seen

    def __str__(self) -> str:
        size = f"{self.nodes} node{'s' * (self.nodes != 1)}"
        if self.ranks:
            size += f", {self.ranks} rank{'s' * (self.ranks != 1)}"
        return f"job {self.number} (lab {self.lab[:2]}, {size}, {self.site})"

    @property
    def where(self) -> Path | None:
        """The folder of Slurm's commands; None: in PATH."""
        return Path(self.commands) if self.commands else None

    def status(self) -> Status:
        """What is known of it now. NoAnswer or NotHere when Slurm cannot be asked and nothing else tells."""
        if self.final:
            return Status(**self.final)
        since = datetime.fromisoformat(self.submitted)
        token = "-".join(Path(self.file).stem.split("-")[-2:])  # see cluster.submit
        told = self._told()
        try:
            status = cluster_status.ask(self.number, self.where, token, since)
        except (slurm.NoAnswer, NotHere):
            if told is None:
                raise
            status = told
        if status.state == UNKNOWN and told is not None:
            status = told
        if status.ended and status.state != UNKNOWN:
            self._remember_end(status)
        return status

    def state(self) -> str:
        """One word: pending, running, completed, failed, cancelled, timeout, node_fail, …; or unknown."""
        try:
            return self.status().state
        except NotHere:
            return UNKNOWN

    def wait(self, timeout: float | None = 600) -> str:
        """Wait for its end, `timeout` seconds at most (None: for ever), with a line that says how it stands.

        Returns the state. LabError with the sentence of the rank that failed when it did not end well.
        Ctrl-C, or the notebook's stop button, ends the waiting and leaves the job alone.
        """
        pass

        return follow(self, timeout)

    def output(self) -> str:
        """What it has printed so far; "" before it starts."""
        try:
            return Path(self.file).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def cancel(self) -> None:
        """Take it out of the queue, or end it. A job that has ended stays as it is."""
        slurm.call("scancel", self.number, where=self.where)

    def records(self, result: str | None = None):
        """The records that this job wrote, as a pandas.DataFrame; `result` picks one kind."""
        import pandas

        found = self.entries()
        if not found:
            print(f"No records of {self} yet: it is {self.state()}. Its output: {shown(self.file)}")
        frame = pandas.DataFrame(found or None, columns=None if found else ["lab", "result", "unit", "utc"])
        if result is None or not found:
            return frame
        chosen = frame[frame["result"] == result].reset_index(drop=True)
        if chosen.empty:
            print(f"{self} has no result {result!r}; it has {', '.join(sorted(set(frame['result'])))}.")
        return chosen.dropna(axis="columns", how="all")

    def entries(self) -> list[dict]:
        """Its records as they stand in the file, oldest first."""
        # Numbers may come again on a cluster that started afresh; clocks of two machines may differ a little.
        since = datetime.fromisoformat(self.submitted) - timedelta(seconds=60)
        wanted = self.number, self.site
        found = record.entries(Path(self.home) / "records" / f"{self.lab}.jsonl")
        mine = [one for one in found if (str(one.get("job")), one.get("site")) == wanted]
        return [one for one in mine if (one.get("utc") or "") >= since.isoformat(timespec="milliseconds")]

    def failure(self, status: Status) -> str:
        """Why it did not end well, and where to read more."""
        more = f"All it printed: {shown(self.file)}"
        if status.state == UNKNOWN:
            return f"Slurm no longer knows {self}, and its output does not say how it ended. {more}"
        how = {
            "cancelled": "was cancelled",
            "timeout": "was ended at its time limit (`export SBATCH_TIMELIMIT=30` asks for 30 minutes)",
            "node_fail": "lost a node",
            "out_of_memory": "needed more memory than it had asked for",
            "preempted": "was ended to make room for another job",
            "boot_fail": "could not start its nodes",
            "deadline": "was ended at its deadline",
        }.get(status.state, "failed")
        said = last_sentence(self.output())
        return f"{str(self)[0].upper()}{str(self)[1:]} {how}{f': {said}' if said else '.'}\n{more}"

    def _told(self) -> Status | None:
        """How it ended, by the last lines of its output; None while they are not there."""
        text = self.output()
        if failed := _BADLY.search(text):
            return Status("failed", exit=int(failed[1]))
        return Status(GOOD, exit=0) if _WELL.search(text) else None

    def _remember_end(self, status: Status) -> None:
        self.final = {"state": status.state, "seconds": status.seconds, "exit": status.exit}
        record.append(ledger(), {"number": self.number, "file": self.file, **self.final}, "job")


def last_sentence(text: str) -> str:
    """What the ranks or labkit said last in a job's output; "" if nothing."""
    if failed := list(_BADLY.finditer(text)):
        tail = text[failed[-1].end() :].splitlines()
        return "\n".join(line.rstrip() for line in tail if not _NOISE.match(line))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not _NOISE.match(line)), lines[-1] if lines else "")


def shown(file: str | Path) -> str:
    """A path as one types it in the checkout."""
    path = Path(file)
    return str(path.relative_to(paths.root())) if path.is_relative_to(paths.root()) else str(path)


def now() -> str:
    """The time in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def ledger() -> Path:
    """The file that remembers this learner's jobs."""
    return paths.home() / "jobs.jsonl"


def remember(job: Job) -> None:
    """Write a new job down, one line."""
    kept = {name: value for name, value in asdict(job).items() if name != "final"}
    record.append(ledger(), kept, "job")


def remembered() -> list[Job]:
    """All jobs, oldest first. A line that is none is skipped with a warning."""
    jobs: dict[str, Job] = {}
    for entry in record.read(ledger(), _valid, "job", stacklevel=4):
        if "lab" in entry:
            jobs[entry["file"]] = Job(**{name: entry[name] for name in entry if name in _FIELDS})
        elif entry["file"] in jobs:
            jobs[entry["file"]].final = {name: entry.get(name) for name in ("state", "seconds", "exit")}
    return list(jobs.values())


_FIELDS = {one.name for one in fields(Job)}
_NEEDED = {one.name for one in fields(Job) if one.default is MISSING and one.default_factory is MISSING}


def _valid(entry: dict) -> bool:
    """Is it a job that was submitted, or the end of one?"""
    return entry.keys() >= _NEEDED or entry.keys() >= {"number", "file", "state"}


# Waiting for a batch job: a line that says how it stands, and the sentence at its end.


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0  # seconds between two questions to Slurm
PLACE_EVERY = 30.0  # seconds; the whole queue is a larger question
PATIENCE = 120.0  # seconds without an answer, then it is said


class StoppedWaiting(LabError):
    """Ctrl-C while waiting; the job goes on."""


class Line:
    """One line that rewrites itself in a notebook and on a terminal; elsewhere, a line for each change."""

    def __init__(self) -> None:
        self._last, self._handle = "", None
        self._terminal = sys.stdout.isatty()

    def show(self, text: str, seconds: float) -> None:
        """Show `text` and the seconds waited so far."""
        whole = f"{text} · {seconds:.0f} s"
        if checks.in_notebook():
            self._display(whole)
        elif self._terminal:
            fitting = whole[: shutil.get_terminal_size().columns - 1]  # a wrapped line stays
            print(f"\r\033[K{fitting}", end="", flush=True)
        elif text != self._last:
            print(whole, flush=True)
        self._last = text

    def end(self, text: str) -> None:
        """The last words, on the same line."""
        if checks.in_notebook():
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


def follow(job: Job, timeout: float | None) -> str:
    """Wait until the job has ended or `timeout` seconds have passed; see Job.wait."""
    line, begin = Line(), time.monotonic()
    try:
        status = _until_ended(job, timeout, line, begin)
    except KeyboardInterrupt:
        line.end(f"Stopped waiting for {job}.")
        raise StoppedWaiting(
            f"Stopped waiting; job {job.number} goes on. job.wait() waits again, `make results` shows how it "
            "stands, job.cancel() ends it."
        ) from None
    waited = time.monotonic() - begin
    if not status.ended:
        line.end(
            f"{_capital(job)} {_words(status)} · after {waited:.0f} s no longer waited for. "
            "job.wait() waits again; what comes next can go on meanwhile."
        )
        return status.state
    ran = f", ran {status.seconds} s" if status.seconds is not None else ""
    line.end(f"{_capital(job)}: {status.state.replace('_', ' ')}{ran}. Output: {shown(job.file)}")
    if status.state != GOOD:
        time.sleep(0.5)  # a shared file system may show the last lines a little late
        raise LabError(job.failure(status))
    return status.state


def _until_ended(job: Job, timeout: float | None, line: Line, begin: float) -> Status:
    """Ask again and again: soon at first, then every ten seconds."""
    pause, silent_since, placed = FIRST_PAUSE, None, None
    status = Status("pending", "None")
    while True:
        try:
            status, silent_since = job.status(), None
            if status.ended:
                return status
            placed = _placed(job, status, placed)
            said = _words(replace(status, place=placed[1] if placed else None))
        except slurm.NoAnswer as error:
            silent_since = silent_since or time.monotonic()
            silence = time.monotonic() - silent_since
            if silence > PATIENCE:
                raise LabError(
                    f"{error} It has been so for {silence:.0f} s; job.wait() tries again."
                ) from None
            said = "is somewhere: Slurm's controller does not answer just now"
        except NotHere as error:
            raise LabError(f"{_capital(job)} cannot be followed: {error}") from None
        left = pause if timeout is None else min(pause, begin + timeout - time.monotonic())
        _tick(line, f"{_capital(job)} {said}", begin, left)
        if timeout is not None and time.monotonic() >= begin + timeout:
            return status
        pause = min(LONGEST_PAUSE, 1.5 * pause)


def _placed(job: Job, status: Status, before: tuple | None) -> tuple | None:
    """(when asked, place in the queue), asked for only now and then; None for a job that does not wait."""
    if not status.waits:
        return None
    if before and time.monotonic() < before[0] + PLACE_EVERY:
        return before
    return time.monotonic(), cluster_status.place(job.number, job.where, status.partition)


def _tick(line: Line, text: str, begin: float, pause: float) -> None:
    """Sleep for `pause` seconds while the seconds on the line run on."""
    end = time.monotonic() + pause
    while True:
        line.show(text, time.monotonic() - begin)
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(1.0, left))


def _words(status: Status) -> str:
    if status.waits:
        return cluster_status.why(status)
    if status.state == "running":
        return f"runs on {status.hosts}"
    return f"is {status.state.replace('_', ' ')}"


def _capital(job: Job) -> str:
    text = str(job)
    return text[0].upper() + text[1:]

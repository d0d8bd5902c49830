"""Why a batch job ended as it did: told from the ranks' notes and the launcher's lines."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import NamedTuple

from labkit import cluster, launch

# A rank that gives up stays for a moment: a death that its note caused comes later than this.
SAME_MOMENT = 0.25  # seconds


class Death(NamedTuple):
    """A rank of which the launcher says that its process ended badly. when: seconds since the
    epoch."""

    when: float
    rank: int
    host: str
    how: str


# srun; mpirun_rsh (mpispawn.c of MVAPICH2 2.3.7); Open MPI. hydra's box of several lines is read
# below.
_LINES = (
    re.compile(r"srun: error: (?P<host>\S+): tasks? (?P<rank>\d+)[\d,-]*: (?P<how>.+)"),
    re.compile(
        r"\[(?P<host>[^:\]]+)[^\]]*\].*MPI process \(rank: (?P<rank>\d+), pid: \d+\) (?P<how>.+)"
    ),
    re.compile(
        r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) (?P<how>exited on .+)"
    ),
)
_HYDRA = re.compile(r"=\s+RANK (?P<rank>\d+) PID \d+ RUNNING AT (?P<host>\S+)")
_HYDRA_HOW = re.compile(r"=\s+(?P<how>(?:EXIT CODE|KILLED BY SIGNAL): .+?)\s*=?$")
# slurmstepd, when Slurm ends a step: "*** STEP 7.0 ON node1 CANCELLED AT … DUE TO TIME LIMIT ***"
_CAUSE = re.compile(r"\*\*\* .* CANCELLED AT .* DUE TO (TIME LIMIT|NODE FAILURE|PREEMPTION)")
_CAUSES = {"TIME LIMIT": "TIMEOUT", "NODE FAILURE": "NODE_FAIL", "PREEMPTION": "PREEMPTED"}
_SIGNALS = {
    number: signal.strsignal(number) for number in sorted(signal.valid_signals()) if number < 32
}
_NODE = re.compile(r"(?i)srun: error: node failure on (\S+)")


class Listener:
    """Hears the launcher's lines as they come. `.deaths` in order; `.node` that failed, or None;
    `.cause`."""

    def __init__(self) -> None:
        self.deaths: list[Death] = []
        self.node: str | None = None
        self.cause: str | None = None  # as a state of the job, when slurmstepd told it
        self._box: tuple[int, str] | None = None

    def status(self) -> int | None:
        """The exit status of the first rank that ended with one, else 128 + the signal of the
        first."""
        for death in self.deaths:
            status = re.search(r"(?i)exit(?:ed with)? (?:code|status):? (\d+)", death.how)
            if status:
                return int(status[1])
        if self.deaths:
            how = self.deaths[0].how
            by = re.search(r"(?i)\b(?:by|on) signal:? (\d+)", how)
            if by:
                return 128 + int(by[1])
            return next(
                (128 + number for number, name in _SIGNALS.items() if name and name in how), None
            )
        return None

    def hear(self, line: str, when: float) -> None:
        death = next(filter(None, (pattern.search(line) for pattern in _LINES)), None)
        if death:
            self.deaths.append(Death(when, int(death["rank"]), death["host"], death["how"].strip()))
        elif match := _CAUSE.search(line):
            self.cause = _CAUSES[match[1]]
        elif match := _NODE.search(line):
            self.node = self.node or match[1]
        elif match := _HYDRA.search(line):
            self._box = int(match["rank"]), match["host"]
        elif self._box and (match := _HYDRA_HOW.search(line)):
            self.deaths.append(Death(when, *self._box, match["how"].lower()))
            self._box = None


def first_failure(folder: Path, listener: Listener) -> str | None:
    """The sentence on the rank that failed first; None if no rank is known to have failed."""
    notes = _notes(folder)
    noted = {note["rank"] for note in notes}
    dead = listener.deaths[0] if listener.deaths else None
    silent = dead is not None and dead.rank not in noted
    if notes and not (silent and dead.when < notes[0]["when"] + SAME_MOMENT):
        return _of_note(notes)
    if listener.node:
        return f"The node {listener.node} failed, and the ranks on it with it."
    if dead is None:
        return None
    return (
        f"First to fail: rank {dead.rank} on {dead.host}. It left no message; its launcher says:"
        f" {dead.how}"
    )


def _notes(folder: Path) -> list[dict]:
    """What the ranks left, the first one first."""
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("failed.*")]
    return sorted(
        map(json.loads, filter(None, texts)), key=lambda note: (note["when"], note["rank"])
    )


def _of_note(notes: list[dict]) -> str:
    text = notes[0]["text"]
    alike = sum(note["text"] == text for note in notes)
    # A failure inside launch.run reaches every rank, and its sentence names the one where it
    # happened.
    named = re.search(
        r"\brank (\d+) (?:failed|died|ended itself|ran to its end|waits|did not|could not)", text
    )
    rank = int(named[1]) if named else notes[0]["rank"]
    host = next((f" on {note['host']}" for note in notes if note["rank"] == rank), "")
    others = f" ({alike} ranks say the same)" if alike > 1 and not named else ""
    return f"First to fail: rank {rank}{host}{others}.\n{text}"


def ended_by_slurm(job: str, folder: Path, listener: Listener) -> str:
    """Why Slurm ended the job, and the line in which each rank was then."""
    facts = _facts(job)
    state = facts.get("JobState")
    reason = facts.get("Reason")
    if "TIMEOUT" in (state, listener.cause) or reason == "TimeLimit":
        limit = facts.get("TimeLimit", "see --time")
        sentence = (
            f"Slurm ended job {job} at its time limit, {limit} hours:minutes:seconds (`--time`)."
        )
    elif listener.node or "NODE_FAIL" in (state, listener.cause) or reason == "NodeDown":
        sentence = f"Slurm ended job {job}: {listener.node or 'one of its nodes'} failed."
    elif "PREEMPTED" in (state, listener.cause):
        sentence = f"Slurm ended job {job} to make room for another one (preemption)."
    else:
        sentence = f"Job {job} was cancelled (scancel)."
    places = _places(folder)
    return f"{sentence}\n{places}" if places else sentence


def _facts(job: str) -> dict[str, str]:
    """What the controller says of the job (which may be COMPLETING by now); {} where it does not
    answer."""
    try:
        return cluster.slurm.Client().job(job, limit=10)
    except cluster.slurm.Failed:
        return {}


def hosts(folder: Path) -> list[str]:
    """Where the ranks were that began the lab, by their own word: one host a rank."""
    texts = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.glob("stack.*"))
    ]
    return [text.partition("\n")[0] for text in texts if text]


def _places(folder: Path) -> str:
    """Where the ranks were, the odd one out first: it is most often the one for which the others
    waited."""
    groups: dict[str, list[int]] = {}
    for path in sorted(folder.glob("stack.*"), key=lambda file: int(file.suffix[1:])):
        frame = launch.innermost(main_thread(path.read_text(encoding="utf-8", errors="replace")))
        if frame:
            groups.setdefault(frame.stuck_place(), []).append(int(path.suffix[1:]))
    ordered = sorted(groups.items(), key=lambda item: (len(item[1]), item[1]))
    parts = [f"{launch.ranks_text(ranks)} in {place}" for place, ranks in ordered]
    return f"Where the ranks were: {'; '.join(parts)}" if parts else ""


def main_thread(dump: str) -> list[launch.Frame]:
    """The frames of the main thread, outermost first, in what faulthandler wrote; [] if it is not
    there."""
    for block in re.split(r"(?m)^(?=(?:Current thread|Thread) 0x)", dump):
        frames = launch.dumped(block)
        if frames and frames[0].function == "<module>":
            return frames
    return []

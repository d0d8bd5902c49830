"""The site doctor's short job: submitted, waited for with patience that ends, and its findings collected."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from labkit import cluster
from labkit.errors import LabError

from slurm.doctor.login import Plan

# Slurm's words for a job that has not ended.
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING")
RUN_SECONDS = 200  # the job's own limit is 2 minutes; Slurm looks at limits twice a minute
FILE_SECONDS = 15  # until a file from a node is seen here: network file systems cache


class Outcome(NamedTuple):
    """What became of the job. `state`: Slurm's word, or "QUEUED" when patience ended first, or "LOST".

    `reason`: why it waits, in Slurm's word. `found`: file's stem -> what it says; `ranks` among them as a
    list. `output`: the last lines that the job itself wrote.
    """

    number: str
    state: str
    reason: str
    found: dict
    ranks: list[dict]
    output: str


def try_out(env: Mapping[str, str], job: Plan, folder: Path, patience: float) -> Outcome:
    """Submit the job, wait, read `folder`. Whatever ends this before the job, the job is cancelled."""
    number = _submit(env, job, folder)
    over = False
    try:
        state, reason = _wait(env, number, patience)
        over = state not in ("QUEUED", "LOST")
    finally:
        if not over:
            cluster.ask(env, "scancel", number)
    found = _read(folder, expect=state == "COMPLETED")
    ranks = [found.pop(name) for name in sorted(found) if name.startswith("rank-")]
    log = folder / "job.out"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return Outcome(
        number, state, reason, found, ranks, "\n".join(line for line in lines[-5:] if line.strip())
    )


def _submit(env: Mapping[str, str], job: Plan, folder: Path) -> str:
    files = ["--parsable", f"--output={folder}/job.out", "slurm/doctor.sh", str(folder), sys.executable]
    answer = cluster.ask(env, "sbatch", *job.options, *files, limit=90)
    number = re.search(r"^(\d+)(;\S+)?$", answer.text, re.MULTILINE)
    if not answer.ok or not number:
        raise LabError(f"sbatch did not take the doctor's job: {answer.reason or answer.text.strip()}")
    return number[1]


def _wait(env: Mapping[str, str], number: str, patience: float) -> tuple[str, str]:
    """(state, reason) when the job has ended, or "QUEUED" after `patience` seconds without a start."""
    begin, started, silent, last = time.monotonic(), None, 0, ""
    while True:
        state, reason = _state(env, number)
        now = time.monotonic()
        silent = silent + 1 if state == "" else 0
        if state in _RUNNING and started is None:
            started = now
        if silent > 5:
            return "LOST", "Slurm no longer says anything about it"
        if state and state not in (*_WAITING, *_RUNNING):
            return state, reason
        if started is None and now - begin > patience:
            return "QUEUED", reason
        if started is not None and now - started > RUN_SECONDS:
            return "LOST", f"it did not end within {RUN_SECONDS} s"
        words = f"Job {number} waits: {reason}." if started is None else f"Job {number} runs."
        if words != last and sys.stderr.isatty():
            print(words, file=sys.stderr)
            last = words
        time.sleep(0.5 if now - begin < 20 else 3.0)


def _state(env: Mapping[str, str], number: str) -> tuple[str, str]:
    """Slurm's words for the job: state, and the reason why it waits or failed."""
    text = cluster.ask(env, "scontrol", "show", "job", "-o", number).text
    state, reason = re.search(r"\bJobState=(\S+)", text), re.search(r"\bReason=(\S+)", text)
    return (state[1] if state else ""), (reason[1] if reason else "")


def _read(folder: Path, expect: bool) -> dict:
    """Stem -> what the JSON file says. `expect`: the job ended well, so that its last file must come."""
    deadline = time.monotonic() + FILE_SECONDS
    while expect and not (folder / "launch.json").exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}

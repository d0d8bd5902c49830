"""The site doctor's short job: submitted, waited for with patience that ends, and its findings
collected."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from labkit.cluster import slurm
from labkit.errors import LabError

# Slurm's words for a job that has not ended.
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING")
RUN_SECONDS = (
    260  # the job's own limit is 2 minutes, 3 with GPUs; Slurm looks at limits twice a minute
)
FILE_SECONDS = 15  # until a file from a node is seen here: network file systems cache
_SILENCES = 5  # answers without a state, then Slurm has lost the job


class Plan(NamedTuple):
    """The job that will be tried: nodes, ranks on each, and its options for sbatch."""

    nodes: int
    each: int
    options: list[str]


class Outcome(NamedTuple):
    """What became of the job. `state`: Slurm's word, or "QUEUED" when patience ended first, or
    "LOST".

    `reason`: why it waits, in Slurm's word. `files`: the stem of each file that the job wrote, and
    what that says; those of its ranks are in `ranks`. `output`: the last lines that the job itself
    wrote.
    """

    number: str
    state: str
    reason: str
    files: dict
    ranks: list[dict]
    output: str


def plan(env: Mapping[str, str], wanted: int | None) -> Plan:
    """Two nodes unless another number is wanted, two ranks on each; one rank where a node has one
    GPU."""
    nodes = wanted or 2
    each = 1 if env.get("LABKIT_GPUS_PER_NODE") == "1" else 2
    minutes = 2 if env.get("LABKIT_GPUS_PER_NODE", "0") == "0" else 3
    options = [
        f"--time={minutes}",
        f"--nodes={nodes}",
        f"--ntasks-per-node={each}",
        "--job-name=labkit-doctor",
    ]
    further = env.get("LABKIT_SBATCH_OPTIONS", "")
    try:
        return Plan(nodes, each, options + shlex.split(further))
    except ValueError as error:
        raise LabError(f"LABKIT_SBATCH_OPTIONS in the site file is {further!r}: {error}.") from None


def try_out(client: slurm.Client, job: Plan, folder: Path, patience: float) -> Outcome:
    """Submit the job, wait, read `folder`. Whatever ends this before the job, the job is
    cancelled."""
    number = _submit(client, job, folder)
    over = False
    try:
        state, reason = _wait(client, number, patience)
        over = state not in ("QUEUED", "LOST")
    finally:
        if not over:
            client.ask("scancel", number)
    files = _read(folder, expect=state == "COMPLETED")
    ranks = [files.pop(name) for name in sorted(files) if name.startswith("rank-")]
    log = folder / "job.out"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    output = "\n".join(line for line in lines[-5:] if line.strip())
    return Outcome(number, state, reason, files, ranks, output)


def _submit(client: slurm.Client, job: Plan, folder: Path) -> str:
    script = ["slurm/doctor.sh", str(folder), sys.executable]
    try:
        return client.submit(*job.options, f"--output={folder}/job.out", *script)
    except slurm.Failed as failed:
        raise LabError(f"sbatch did not take the doctor's job: {failed.reason}") from None


def _wait(client: slurm.Client, number: str, patience: float) -> tuple[str, str]:
    """(state, reason) at the job's end; "QUEUED" after `patience` seconds without a start, or
    "LOST"."""
    deadline = time.monotonic() + patience
    started = False
    silences = 0
    while silences <= _SILENCES:
        state, reason = _state(client, number)
        silences = 0 if state else silences + 1
        if state and state not in (*_WAITING, *_RUNNING):
            return state, reason
        if state in _RUNNING and not started:
            started = True
            deadline = time.monotonic() + RUN_SECONDS
        if time.monotonic() > deadline:
            return (
                ("LOST", f"it did not end within {RUN_SECONDS} s")
                if started
                else ("QUEUED", reason)
            )
        time.sleep(1)
    return "LOST", "Slurm no longer says anything about it"


def _state(client: slurm.Client, number: str) -> tuple[str, str]:
    """Slurm's words for the job: state, and the reason why it waits or failed; "" where it says
    nothing."""
    try:
        fields = client.job(number)
    except slurm.Failed:
        return "", ""
    return fields.get("JobState", ""), fields.get("Reason", "")


def _read(folder: Path, expect: bool) -> dict:
    """Stem -> what the JSON file says. `expect`: the job ended well, so that its last file must
    come."""
    deadline = time.monotonic() + FILE_SECONDS
    while expect and not (folder / "launch.json").exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")
    }

"""What the site doctor does on the login node: it reads the site file, asks sbatch whether it would
take a job, and tries one."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from labkit import mpis
from labkit.cluster import sites, slurm
from labkit.errors import LabError

from slurm.doctor.findings import OK, WRONG, Finding

# Slurm's words for a job that has not ended.
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING")
JOB_SECONDS = 300  # the longest that a job runs, whose own limit is three minutes at most
FILE_SECONDS = 15  # until a file from a node is seen here: network file systems cache
# A pattern in Slurm's refusal, and what to do.
_CURES = {
    "account": (
        "Set SBATCH_ACCOUNT to one of yours: `sacctmgr -nP show assoc user=$USER"
        " format=account,qos`."
    ),
    "qos": (
        "Set SBATCH_QOS, or leave it out; those open to you: `sacctmgr -nP show assoc user=$USER`."
    ),
    "partition": "Set SBATCH_PARTITION; `sinfo -s` lists them.",
    "generic resource|gres": (
        "LABKIT_GPU_FORM or the type of GPU is not this site's: see `sinfo -o '%P %G'`."
    ),
    "node configuration": (
        "No node has so many cores, or so many of such GPUs: see `sinfo -o '%P %c %G'`."
    ),
    "more (processors|nodes)|node count": "The partition is too small; NODES=1 asks for one node.",
    "feature": "SBATCH_CONSTRAINT names a feature that no node has: see `sinfo -o '%P %f'`.",
    "time limit": "This partition does not take jobs of 2 minutes.",
    "memory": "SBATCH_MEM_PER_NODE is more than a node has: see `sinfo -o '%P %m'`.",
}


class Outcome(NamedTuple):
    """What became of the job. `state`: Slurm's word, one of WAITING when patience ended first.

    `reason`: why it waits, in Slurm's word. `node`: what its first node said, and `ranks` each of
    its ranks, as far as they came. `output`: the last lines that the job itself wrote.
    """

    number: str
    state: str
    reason: str
    node: dict
    ranks: list[dict]
    output: str


def misspelt(site: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """What is missing or misspelt in the site file."""
    known = {
        "LABKIT_GPUS_PER_NODE": list(map(str, range(17))),
        "LABKIT_GPU_FORM": sites.GPU_FORMS,
        "LABKIT_MPI": mpis.FLAVORS,
        "LABKIT_LAUNCHER": sites.LAUNCHERS,
    }
    for name, choices in known.items():
        value = env.get(name, "").split(" ")[0]
        if value not in choices:
            yield Finding(
                WRONG,
                f"{name} is {value!r} in slurm/sites/{site}.sh. Write one of:"
                f" {', '.join(choices)}.",
            )


def job_options(env: Mapping[str, str], nodes: int) -> list[str]:
    """The trial job's options for sbatch: two ranks on each node, one where a node has one GPU."""
    gpus = sites.gpus_per_node(env)
    further = env.get("LABKIT_SBATCH_OPTIONS", "")
    try:
        own = shlex.split(further)
    except ValueError as error:
        raise LabError(f"LABKIT_SBATCH_OPTIONS in the site file is {further!r}: {error}.") from None
    return [
        f"--time={3 if gpus else 2}",
        f"--nodes={nodes}",
        f"--ntasks-per-node={1 if gpus == 1 else 2}",
        "--job-name=labkit-doctor",
        *own,
    ]


def submission(env: Mapping[str, str], client: slurm.Client, options: list[str]) -> Finding:
    """Would sbatch take the job as the site file asks for it? Nothing is submitted."""
    variables = [f"{name}={env[name]}" for name in sorted(env) if name.startswith("SBATCH_")]
    request = f"`{' '.join([*variables, shlex.join(['sbatch', *options])])}`"
    try:
        client.call("sbatch", "--test-only", *options, "slurm/doctor.sh")
    except slurm.Failed as failed:
        reason = failed.reason.rstrip(".") + "."
        cures = [
            cure for pattern, cure in _CURES.items() if re.search(pattern, reason, re.IGNORECASE)
        ]
        return Finding(WRONG, " ".join([f"sbatch refuses {request}: {reason}", *cures[:1]]))
    return Finding(OK, f"sbatch would take {request}.")


def try_out(client: slurm.Client, options: list[str], folder: Path, patience: float) -> Outcome:
    """Submit the job, wait, read `folder`. Whatever ends this before the job, the job is
    cancelled.

    patience: seconds without a start. Once it runs, its own time limit ends it, or JOB_SECONDS
    where Slurm no longer answers.
    """
    number = client.submit(*options, f"--output={folder}/job.out", "slurm/doctor.sh", str(folder))
    deadline = time.monotonic() + patience
    state, reason = "PENDING", ""
    try:
        while state in (*WAITING, *_RUNNING):
            if time.monotonic() > deadline + (JOB_SECONDS if state in _RUNNING else 0):
                break
            time.sleep(1)
            with contextlib.suppress(slurm.NoAnswer):  # it may answer a moment later
                fields = client.job(number)
                state, reason = fields["JobState"], fields.get("Reason", "")
    finally:
        if state in (*WAITING, *_RUNNING):
            client.ask("scancel", number)
    files = _read(folder, complete=state == "COMPLETED")
    node = files.pop("node", {})
    log = folder / "job.out"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    output = "\n".join(line for line in lines[-5:] if line.strip())
    return Outcome(number, state, reason, node, list(files.values()), output)


def _read(folder: Path, complete: bool) -> dict[str, dict]:
    """Stem -> what the JSON file says. `complete`: the job ended well, so that the node's report,
    its last word, must come."""
    deadline = time.monotonic() + FILE_SECONDS
    while True:
        files = sorted(folder.glob("*.json"))
        facts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
        if not complete or "report" in facts.get("node", {}) or time.monotonic() > deadline:
            return facts
        time.sleep(0.5)

"""The job that the site doctor tries, as the site file asks for it; and whether sbatch would take it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from labkit import _slurm_ask
from labkit._site_words import OK, WRONG, Finding, nodes
from labkit.errors import LabError


class Plan(NamedTuple):
    """The job that will be tried: nodes, ranks on each, and its options for sbatch."""

    nodes: int
    each: int
    options: list[str]


def plan(env: Mapping[str, str], wanted: int | None) -> Plan:
    """Two nodes where the partition has them, two ranks on each; one where a node has one GPU."""
    known = _slurm_ask.partitions(env)
    there = [known[name][1] for name in partitions(env, known) if name in known]
    count = wanted or min(2, max(there, default=1))
    each = 1 if env.get("LABKIT_GPUS_PER_NODE") == "1" else 2
    options = ["--time=2", f"--nodes={count}", f"--ntasks-per-node={each}", "--job-name=labkit-doctor"]
    further = env.get("LABKIT_SBATCH_OPTIONS", "")
    try:
        return Plan(count, each, options + shlex.split(further))
    except ValueError as error:
        raise LabError(f"LABKIT_SBATCH_OPTIONS in the site file is {further!r}: {error}.") from None


def partitions(env: Mapping[str, str], known: Mapping[str, tuple[bool, int, int]]) -> list[str]:
    """The partitions a job may go to: those asked for, else the default."""
    asked = [name.strip() for name in env.get("SBATCH_PARTITION", "").split(",") if name.strip()]
    return asked or [name for name, (default, _, _) in known.items() if default]


def submission(env: Mapping[str, str], job: Plan) -> Finding:
    """Would sbatch take the job as the site file asks for it? Nothing is submitted."""
    answer = _slurm_ask.ask(env, "sbatch", "--test-only", *job.options, "slurm/doctor.sh", "test", "test")
    asked = _gpu_request(env)
    if answer.ok:
        return Finding(OK, f"sbatch would take a job of {nodes(job.nodes)} with {asked}.")
    return Finding(WRONG, f"sbatch refuses a job of {nodes(job.nodes)} with {asked}: {_cured(answer.reason)}")


def _gpu_request(env: Mapping[str, str]) -> str:
    form = env.get("LABKIT_GPU_FORM", "")
    if form == "gpus-per-node":
        return f"--gpus-per-node={env.get('SBATCH_GPUS_PER_NODE', '?')}"
    if form == "gres":
        found = re.search(r"--gres[= ](\S+)", env.get("LABKIT_SBATCH_OPTIONS", ""))
        return f"--gres={env.get('SBATCH_GRES') or (found[1] if found else '?')}"
    return "no word about GPUs"


_CURES = {
    "account": "Set SBATCH_ACCOUNT to an account that may use this partition.",
    "qos": "Set SBATCH_QOS, or leave it out.",
    "partition": "Set SBATCH_PARTITION; `sinfo -s` lists them.",
    "generic resource|gres": "LABKIT_GPU_FORM or the type of GPU is not this site's: see `sinfo -o '%P %G'`.",
    "node configuration": "No node has so many cores, or so many of such GPUs: see `sinfo -o '%P %c %G'`.",
    "feature": "SBATCH_CONSTRAINT names a feature that no node has: see `sinfo -o '%P %f'`.",
    "time limit": "This partition does not take jobs of 2 minutes.",
    "memory": "SBATCH_MEM_PER_NODE is more than a node has: see `sinfo -o '%P %m'`.",
}


def _cured(reason: str) -> str:
    """Slurm's own words, and what to do."""
    for words, cure in _CURES.items():
        if re.search(words, reason, re.IGNORECASE):
            return f"{reason.rstrip('.')}. {cure}"
    return reason.rstrip(".") + "."

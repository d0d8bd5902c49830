"""What the site doctor finds out on the login node: does Slurm know what the site file says?"""

from __future__ import annotations

import getpass
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from labkit import cluster, paths
from labkit.errors import LabError

from slurm.doctor.findings import NOTE, OK, UNCHECKED, WRONG, Finding, nodes, some


def reach(site: str, env: Mapping[str, str]) -> Finding:
    """Is Slurm here, and does its controller answer?"""
    version = cluster.version(env)
    if version.ok:
        return Finding(OK, f"Slurm {version.text} answers.")
    cure = "`make tabletop` starts it." if site == "tabletop" else f"Do this on the login node of {site}."
    return Finding(WRONG, f"Slurm does not answer: {version.reason}. {cure}")


def look(site: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """The findings, in the order in which a person would mend them."""
    yield from _file(site, env)
    yield from _partition(env)
    yield from _account(env)
    yield from _constraint(env)
    yield from _launcher(env)
    yield from _modules(env)


def _file(site: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """What is missing or misspelt in the site file itself."""
    launcher = (env.get("LABKIT_LAUNCHER") or "").split()
    known = {
        "LABKIT_GPU_FORM": (env.get("LABKIT_GPU_FORM"), cluster.GPU_FORMS),
        "LABKIT_MPI": (env.get("LABKIT_MPI"), cluster.FLAVORS),
        "LABKIT_LAUNCHER": (launcher[0] if launcher else None, cluster.LAUNCHERS),
    }
    gpus = env.get("LABKIT_GPUS_PER_NODE", "")
    if not gpus.isdecimal():
        yield Finding(WRONG, f"LABKIT_GPUS_PER_NODE is {gpus!r} in slurm/sites/{site}.sh; write 0, 1, 2, …")
    for name, (value, words) in known.items():
        if value is None:
            yield Finding(
                WRONG, f"{name} is empty in slurm/sites/{site}.sh. Write one of: {', '.join(words)}."
            )
        elif value not in words:
            yield Finding(WRONG, f"{name} is {value!r} in slurm/sites/{site}.sh; known: {', '.join(words)}.")


def _partition(env: Mapping[str, str]) -> Iterator[Finding]:
    known = cluster.ask_partitions(env)
    asked = partitions(env, known)
    if not known:
        yield Finding(UNCHECKED, "sinfo does not list partitions.")
    elif not asked:
        yield Finding(
            NOTE, "No partition is asked for, and sinfo marks none as the default: the site chooses."
        )
    for name in asked:
        if name in known:
            _, nodes, gpus = known[name]
            yield Finding(OK, f"Partition {name}: {some([nodes], 'node')}, {some([gpus], 'GPU')} in a node.")
        elif known:
            yield Finding(WRONG, f"There is no partition {name!r} here. sinfo knows {', '.join(known)}.")


def _account(env: Mapping[str, str]) -> Iterator[Finding]:
    account, qos = env.get("SBATCH_ACCOUNT", ""), env.get("SBATCH_QOS", "")
    mine = cluster.accounts(env, getpass.getuser())
    if mine is None:
        asked = " and ".join(
            f"{name} {value!r}" for name, value in (("account", account), ("QOS", qos)) if value
        )
        if asked:
            yield Finding(UNCHECKED, f"There is no accounting database to ask about {asked}.")
        return
    if account and account not in mine:
        yield Finding(
            WRONG, f"Account {account!r} is none of yours: {', '.join(mine) or 'you have none here'}."
        )
    elif account:
        yield Finding(OK, f"Account {account} is yours.")
    elif len(mine) > 1:
        yield Finding(NOTE, f"SBATCH_ACCOUNT is not set: Slurm takes your default of {', '.join(mine)}.")
    elif not mine:
        yield Finding(NOTE, "Slurm's accounting knows no account of yours; SBATCH_ACCOUNT is not set.")
    allowed = mine.get(account) or set().union(*mine.values())
    if qos and allowed and qos not in allowed:
        yield Finding(WRONG, f"QOS {qos!r} is not open to you; these are: {', '.join(sorted(allowed))}.")


def _constraint(env: Mapping[str, str]) -> Iterator[Finding]:
    asked = set(re.findall(r"[A-Za-z_][\w.-]*", env.get("SBATCH_CONSTRAINT", "")))
    known = cluster.features(env, env.get("SBATCH_PARTITION", "")) if asked else set()
    missing = sorted(asked - known)
    if missing:
        have = ", ".join(sorted(known)) or "none at all"
        yield Finding(
            WRONG, f"SBATCH_CONSTRAINT asks for {', '.join(missing)}; the nodes' features are: {have}."
        )


def _launcher(env: Mapping[str, str]) -> Iterator[Finding]:
    launcher = env.get("LABKIT_LAUNCHER", "")
    plugin = re.search(r"--mpi[= ](\S+)", launcher)
    if not launcher.startswith("srun") or not plugin:
        return  # the job says whether it starts ranks
    known = cluster.mpi_plugins(env)
    if not known:
        yield Finding(UNCHECKED, "`srun --mpi=list` names no plugin.")
    elif plugin[1] in known or plugin[1].split("_v")[0] in known:
        yield Finding(OK, f"srun has the plugin {plugin[1]} to start MPI's ranks.")
    else:
        yield Finding(
            WRONG, f"srun has no MPI plugin {plugin[1]!r}, only {', '.join(known)}: mend LABKIT_LAUNCHER."
        )


def _modules(env: Mapping[str, str]) -> Iterator[Finding]:
    wanted = env.get("LABKIT_MODULES", "")
    if not wanted.strip():
        return
    done = subprocess.run(
        ["bash", "slurm/doctor.sh", "modules"], cwd=paths.root(), env=dict(env), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode == 0:
        yield Finding(OK, f"The modules {wanted} load.")
    else:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        yield Finding(WRONG, " ".join(said[-1:]) + " `module avail` lists what there is.")


# The job that the site doctor tries, as the site file asks for it; and whether sbatch would take it.


class Plan(NamedTuple):
    """The job that will be tried: nodes, ranks on each, and its options for sbatch."""

    nodes: int
    each: int
    options: list[str]


def plan(env: Mapping[str, str], wanted: int | None) -> Plan:
    """Two nodes where the partition has them, two ranks on each; one where a node has one GPU."""
    known = cluster.ask_partitions(env)
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
    answer = cluster.ask(env, "sbatch", "--test-only", *job.options, "slurm/doctor.sh", "test", "test")
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

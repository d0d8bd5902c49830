"""What the site doctor finds out on the login node: does Slurm know what the site file says?"""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Iterator, Mapping

import labkit
from labkit import _site_plan, _slurm_ask, sites
from labkit._site_words import NOTE, OK, UNCHECKED, WRONG, Finding, some


def reach(site: str, env: Mapping[str, str]) -> Finding:
    """Is Slurm here, and does its controller answer?"""
    version = _slurm_ask.version(env)
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
        "LABKIT_GPU_FORM": (env.get("LABKIT_GPU_FORM"), sites.GPU_FORMS),
        "LABKIT_MPI": (env.get("LABKIT_MPI"), sites.FLAVORS),
        "LABKIT_LAUNCHER": (launcher[0] if launcher else None, sites.LAUNCHERS),
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
    known = _slurm_ask.partitions(env)
    asked = _site_plan.partitions(env, known)
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
    mine = _slurm_ask.accounts(env, getpass.getuser())
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
    known = _slurm_ask.features(env, env.get("SBATCH_PARTITION", "")) if asked else set()
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
    known = _slurm_ask.mpi_plugins(env)
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
        ["bash", "slurm/doctor.sh", "modules"], cwd=labkit.root(), env=dict(env), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode == 0:
        yield Finding(OK, f"The modules {wanted} load.")
    else:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        yield Finding(WRONG, " ".join(said[-1:]) + " `module avail` lists what there is.")

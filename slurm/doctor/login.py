"""What the site doctor finds out on the login node: does Slurm know what the site file says?"""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from labkit import builds, mpis, paths
from labkit.cluster import sites, slurm

from slurm.doctor.findings import NOTE, OK, UNCHECKED, WRONG, Finding, some
from slurm.doctor.trial import Plan

# A pattern in Slurm's refusal, and what to do.
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


def look(
    site: str, env: Mapping[str, str], client: slurm.Client, partitions: Sequence[slurm.Partition]
) -> Iterator[Finding]:
    """The findings, in the order in which a person would mend them."""
    yield from _file(site, env)
    yield from _partition(env, partitions)
    yield from _account(env, client)
    yield from _constraint(env, client)
    yield from _launcher(env, client)
    yield from _modules(env)


def known_partitions(client: slurm.Client) -> list[slurm.Partition]:
    """Those that sinfo lists; [] if it does not say."""
    try:
        return client.partitions()
    except slurm.Failed:
        return []


def chosen(env: Mapping[str, str], partitions: Sequence[slurm.Partition]) -> list[slurm.Partition]:
    """The partitions a job may go to, among those known: those asked for, else the default."""
    names = _asked_for(env)
    if names:
        return [partition for partition in partitions if partition.name in names]
    return [partition for partition in partitions if partition.default]


def _asked_for(env: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in env.get("SBATCH_PARTITION", "").split(",") if name.strip()]


def submission(env: Mapping[str, str], client: slurm.Client, job: Plan) -> Finding:
    """Would sbatch take the job as the site file asks for it? Nothing is submitted."""
    request = f"a job of {some([job.nodes], 'node')} with {_gpu_request(env)}"
    try:
        client.call("sbatch", "--test-only", *job.options, "slurm/doctor.sh", "test", "test")
    except slurm.Failed as failed:
        return Finding(WRONG, f"sbatch refuses {request}: {_cured(failed.reason)}")
    return Finding(OK, f"sbatch would take {request}.")


def _file(site: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """What is missing or misspelt in the site file itself."""
    launcher = (env.get("LABKIT_LAUNCHER") or "").split()
    known = {
        "LABKIT_GPU_FORM": (env.get("LABKIT_GPU_FORM"), sites.GPU_FORMS),
        "LABKIT_MPI": (env.get("LABKIT_MPI"), mpis.FLAVORS),
        "LABKIT_LAUNCHER": (launcher[0] if launcher else None, sites.LAUNCHERS),
    }
    gpus = env.get("LABKIT_GPUS_PER_NODE", "")
    if not gpus.isdecimal():
        yield Finding(WRONG, f"LABKIT_GPUS_PER_NODE is {gpus!r} in slurm/sites/{site}.sh; write 0, 1, 2, …")
    for name, (value, choices) in known.items():
        listed = ", ".join(choices)
        if value is None:
            yield Finding(WRONG, f"{name} is empty in slurm/sites/{site}.sh. Write one of: {listed}.")
        elif value not in choices:
            yield Finding(WRONG, f"{name} is {value!r} in slurm/sites/{site}.sh; known: {listed}.")
    horovod = env.get("LABKIT_HOROVOD") or builds.HOROVOD[0]
    if horovod not in builds.HOROVOD:
        listed = ", ".join(builds.HOROVOD)
        yield Finding(WRONG, f"LABKIT_HOROVOD is {horovod!r}; Horovod's builds are: {listed}.")


def _partition(env: Mapping[str, str], partitions: Sequence[slurm.Partition]) -> Iterator[Finding]:
    if not partitions:
        yield Finding(UNCHECKED, "sinfo does not list partitions.")
        return
    known = [partition.name for partition in partitions]
    for name in _asked_for(env):
        if name not in known:
            yield Finding(WRONG, f"There is no partition {name!r} here. sinfo knows {', '.join(known)}.")
    fitting = chosen(env, partitions)
    for partition in fitting:
        nodes = some([partition.nodes], "node")
        gpus = some([partition.gpus], "GPU")
        yield Finding(OK, f"Partition {partition.name}: {nodes}, {gpus} in a node.")
    if not fitting and not _asked_for(env):
        yield Finding(
            NOTE, "No partition is asked for, and sinfo marks none as the default: the site chooses."
        )


def _account(env: Mapping[str, str], client: slurm.Client) -> Iterator[Finding]:
    account = env.get("SBATCH_ACCOUNT", "")
    qos = env.get("SBATCH_QOS", "")
    own = client.accounts(getpass.getuser())
    if own is None:
        asked = [f"{what} {value!r}" for what, value in (("account", account), ("QOS", qos)) if value]
        if asked:
            yield Finding(UNCHECKED, f"There is no accounting database to ask about {' and '.join(asked)}.")
        return
    listed = ", ".join(own)
    if account and account not in own:
        yield Finding(WRONG, f"Account {account!r} is none of yours: {listed or 'you have none here'}.")
    elif account:
        yield Finding(OK, f"Account {account} is yours.")
    elif len(own) > 1:
        yield Finding(NOTE, f"SBATCH_ACCOUNT is not set: Slurm takes your default of {listed}.")
    elif not own:
        yield Finding(NOTE, "Slurm's accounting knows no account of yours; SBATCH_ACCOUNT is not set.")
    allowed = own.get(account) or set().union(*own.values())
    if qos and allowed and qos not in allowed:
        yield Finding(WRONG, f"QOS {qos!r} is not open to you; these are: {', '.join(sorted(allowed))}.")


def _constraint(env: Mapping[str, str], client: slurm.Client) -> Iterator[Finding]:
    asked = set(re.findall(r"[A-Za-z_][\w.-]*", env.get("SBATCH_CONSTRAINT", "")))
    known = client.features(env.get("SBATCH_PARTITION", "")) if asked else set()
    missing = ", ".join(sorted(asked - known))
    if missing:
        have = ", ".join(sorted(known)) or "none at all"
        yield Finding(WRONG, f"SBATCH_CONSTRAINT asks for {missing}; the nodes' features are: {have}.")


def _launcher(env: Mapping[str, str], client: slurm.Client) -> Iterator[Finding]:
    launcher = env.get("LABKIT_LAUNCHER", "")
    plugin = re.search(r"--mpi[= ](\S+)", launcher)
    if not launcher.startswith("srun") or not plugin:
        return  # the job says whether it starts ranks
    known = client.mpi_plugins()
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
        complaint = [line for line in done.stderr.splitlines() if line.strip()]
        yield Finding(WRONG, " ".join(complaint[-1:]) + " `module avail` lists what there is.")


def _gpu_request(env: Mapping[str, str]) -> str:
    form = env.get("LABKIT_GPU_FORM", "")
    if form == "gpus-per-node":
        return f"--gpus-per-node={env.get('SBATCH_GPUS_PER_NODE', '?')}"
    if form == "gres":
        option = re.search(r"--gres[= ](\S+)", env.get("LABKIT_SBATCH_OPTIONS", ""))
        return f"--gres={env.get('SBATCH_GRES') or (option[1] if option else '?')}"
    return "no word about GPUs"


def _cured(reason: str) -> str:
    """Slurm's own words, and what to do."""
    for pattern, cure in _CURES.items():
        if re.search(pattern, reason, re.IGNORECASE):
            return f"{reason.rstrip('.')}. {cure}"
    return reason.rstrip(".") + "."

"""What the site doctor finds out on the login node: would Slurm take what the site file says?"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping

from labkit import builds, mpis, paths
from labkit.cluster import sites, slurm

from slurm.doctor.findings import OK, UNCHECKED, WRONG, Finding, some
from slurm.doctor.trial import Plan

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


def look(site: str, env: Mapping[str, str], client: slurm.Client) -> Iterator[Finding]:
    """The findings, in the order in which a person would mend them."""
    yield from _file(site, env)
    yield from _launcher(env, client)
    yield from _modules(env)


def submission(env: Mapping[str, str], client: slurm.Client, job: Plan) -> Finding:
    """Would sbatch take the job as the site file asks for it? Nothing is submitted."""
    request = f"a job of {some([job.nodes], 'node')} with {_gpu_request(env)}"
    try:
        client.call("sbatch", "--test-only", *job.options, "slurm/doctor.sh", "test", "test")
    except slurm.Failed as failed:
        reason = failed.reason.rstrip(".") + "."
        cures = [
            cure for pattern, cure in _CURES.items() if re.search(pattern, reason, re.IGNORECASE)
        ]
        return Finding(WRONG, " ".join([f"sbatch refuses {request}: {reason}", *cures[:1]]))
    where = f" in partition {env['SBATCH_PARTITION']}" if env.get("SBATCH_PARTITION") else ""
    return Finding(OK, f"sbatch would take {request}{where}.")


def _file(site: str, env: Mapping[str, str]) -> Iterator[Finding]:
    """What is missing or misspelt in the site file itself."""
    launcher = (env.get("LABKIT_LAUNCHER") or "").split()
    known = {
        "LABKIT_GPU_FORM": (env.get("LABKIT_GPU_FORM"), sites.GPU_FORMS),
        "LABKIT_MPI": (env.get("LABKIT_MPI"), mpis.FLAVORS),
        "LABKIT_LAUNCHER": (launcher[0] if launcher else None, sites.LAUNCHERS),
        "LABKIT_HOROVOD": (env.get("LABKIT_HOROVOD") or builds.HOROVOD[0], builds.HOROVOD),
    }
    gpus = env.get("LABKIT_GPUS_PER_NODE", "")
    if not gpus.isdecimal():
        yield Finding(
            WRONG, f"LABKIT_GPUS_PER_NODE is {gpus!r} in slurm/sites/{site}.sh; write 0, 1, 2, …"
        )
    for name, (value, choices) in known.items():
        if value not in choices:
            is_now = "empty" if value is None else repr(value)
            listed = ", ".join(choices)
            yield Finding(
                WRONG, f"{name} is {is_now} in slurm/sites/{site}.sh. Write one of: {listed}."
            )


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
            WRONG,
            f"srun has no MPI plugin {plugin[1]!r}, only {', '.join(known)}: mend LABKIT_LAUNCHER.",
        )


def _modules(env: Mapping[str, str]) -> Iterator[Finding]:
    wanted = env.get("LABKIT_MODULES", "")
    if not wanted.strip():
        return
    done = subprocess.run(
        ["bash", "slurm/doctor.sh", "modules"],
        cwd=paths.root(),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
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

"""The first lines of a job's output: where it runs, on which MPI, and what is missing. In about a
second."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import builds, doctor, labfile, mpis, paths
from labkit.errors import LabError, NotHere

from slurm.job import shape as job_shape
from slurm.job.launcher import brings_its_launcher, users_own

# What each word of a lab's `Needs:` must be able to import; torch itself takes seconds, so it is
# only found.
_PACKAGES = {"mpi": "mpi4py", "horovod": "horovod", "torch": "torch", "tensorflow": "tensorflow"}


def header(
    stem: str, shape: job_shape.Shape, env: Mapping[str, str], solved: bool, settings: list[str]
) -> str:
    """The lines. Raises LabError with the first thing for which the lab cannot run."""
    lab = labfile.headers(paths.root())[stem]
    _look_for_packages(lab)
    mpi = _mpi()
    files = ", ".join(paths.shown(file) for file in mpi.files) or "file unknown"
    each = sorted(set(shape.tasks))
    ranks = f"{shape.ranks} ranks, {' or '.join(map(str, each))} on each node"
    threads = "1 thread for each" if shape.threads == 1 else f"{shape.threads} threads for each"
    lines = [
        f"Lab {stem}{' (solved)' if solved else ''} on {env.get('SITE', '?')}, job {shape.number}",
        f"Hosts: {' '.join(shape.hosts)}; {ranks}, {threads}",
        f"MPI: {mpi.family or 'unknown'} {mpi.version or ''} ({files})",
    ]
    if env.get("LABKIT_HOROVOD"):
        name = env["LABKIT_HOROVOD"]
        lines.append(f"Horovod: build {name} ({paths.shown(builds.horovod_folder(name))})")
    lines += [f"Note: {note}" for note in _notes(lab, shape, env, mpi.family)]
    transport = env.get("TRANSPORT")
    chosen = [*settings, f"TRANSPORT={transport}"] if transport else list(settings)
    chosen += [f"{name}={value}" for name, value in users_own(env).items()]
    if chosen:
        lines.append(f"Set: {' '.join(chosen)}")
    records = Path(env.get("LABKIT_HOME") or paths.home()) / "records"
    lines.append(f"Records go to {paths.shown(records)}")
    return "\n".join([*lines, *job_shape.device_map(shape)])


def _look_for_packages(lab: labfile.Header) -> None:
    missing = [
        package
        for need, package in _PACKAGES.items()
        if need in lab.needs and importlib.util.find_spec(package) is None
    ]
    if missing:
        raise LabError(
            f"This lab needs {' and '.join(missing)}, which {sys.executable} on"
            f" {os.uname().nodename} does not have: `make setup` installs it, on a machine that is"
            " like the nodes."
        )


def _mpi():
    """The MPI that the ranks will load. LabError if none can be loaded."""
    try:
        return doctor.which_mpi()
    except NotHere as reason:
        raise LabError(
            f"No MPI library can be loaded on {os.uname().nodename} ({reason}). Are the site file's"
            " modules (LABKIT_MODULES) those with which `make setup` was run?"
        ) from None


def _notes(
    lab: labfile.Header, shape: job_shape.Shape, env: Mapping[str, str], family: str | None
) -> list[str]:
    """What is not wrong, but other than one would think."""
    notes = []
    wanted = "" if brings_its_launcher(env) else env.get("LABKIT_MPI", "")
    flavors = mpis.FLAVORS
    if wanted in flavors and family not in flavors[wanted]:
        notes.append(
            f"the site file says {wanted}, but this is {family}: another module, or"
            " LD_LIBRARY_PATH?"
        )
    if family in ("MVAPICH2", "MVAPICH2-GDR") and "horovod" in lab.needs and _binds(env):
        notes.append(
            "MV2_ENABLE_AFFINITY=0 is not set: MVAPICH2 then gives Horovod one thread level too"
            " few."
        )
    if shape.threads == 1 and shape.gpus and "horovod" in lab.needs:
        notes.append(
            "a rank has one core for its own thread, Horovod's and its data loaders:"
            " --cpus-per-task in LABKIT_SBATCH_OPTIONS of the site file gives it more."
        )
    if shape.ranks < 2 <= lab.ranks:
        notes.append(f"this lab was made for {lab.ranks} ranks; the job has one.")
    return notes


def _binds(env: Mapping[str, str]) -> bool:
    """Will MVAPICH2 bind each rank to a core of its own? So it does unless told otherwise."""
    return mpis.switches("mvapich2", env) != {}

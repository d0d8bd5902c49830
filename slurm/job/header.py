"""The first lines of a job's output: where it runs, on which MPI, and what is missing. In about a second."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import doctor, labfile, paths
from labkit.errors import LabError

from slurm.job import shape as job_shape

# What each word of a lab's `Needs:` must be able to import; torch itself takes seconds, so it is only found.
_PACKAGES = {"mpi": "mpi4py", "horovod": "horovod", "torch": "torch", "tensorflow": "tensorflow"}
# LABKIT_MPI in a site file, and the family that the library itself must then name.
FLAVORS = {
    "mpich": ("MPICH",),
    "mvapich2": ("MVAPICH2", "MVAPICH2-GDR"),
    "mvapich2-gdr": ("MVAPICH2-GDR",),
    "mvapich-plus": ("MVAPICH-Plus", "MVAPICH"),
    "cray-mpich": ("Cray MPICH",),
    "openmpi": ("Open MPI",),
    "intelmpi": ("Intel MPI",),
}


def header(
    stem: str, shape: job_shape.Shape, env: Mapping[str, str], solved: bool, settings: list[str]
) -> str:
    """The lines. Raises LabError with the first thing for which the lab cannot run."""
    lab = labfile.headers(paths.root())[stem]
    _look_for_packages(lab)
    family, version, file = _mpi()
    each = sorted(set(shape.tasks))
    ranks = f"{shape.ranks} ranks, {' or '.join(map(str, each))} on each node"
    threads = f"{shape.threads} thread{'s' * (shape.threads != 1)} for each"
    lines = [
        f"Lab {stem}{' (solved)' if solved else ''} on {env.get('SITE', '?')}, job {shape.number}",
        f"Hosts: {' '.join(shape.hosts)}; {ranks}, {threads}",
        f"MPI: {family or 'unknown'} {version or ''} ({file})",
    ]
    lines += [f"Note: {note}" for note in _notes(lab, shape, env, family)]
    transport = env.get("TRANSPORT")
    chosen = [*settings, f"TRANSPORT={transport}"] if transport else settings
    if chosen:
        lines.append(f"Set: {' '.join(chosen)}")
    records = Path(env.get("LABKIT_HOME") or paths.home()) / "records"
    lines.append(f"Records go to {_short(records)}")
    return "\n".join([*lines, *job_shape.device_map(shape)])


def _look_for_packages(lab: labfile.Header) -> None:
    missing = [
        package
        for need, package in _PACKAGES.items()
        if need in lab.needs and importlib.util.find_spec(package) is None
    ]
    if missing:
        raise LabError(
            f"This lab needs {' and '.join(missing)}, which {sys.executable} on {os.uname().nodename} does "
            "not have: `make setup` installs it, on a machine that is like the nodes."
        )


def _mpi() -> tuple[str | None, str | None, str]:
    """(family, version, file) of the MPI that the ranks will load. LabError if none can be loaded."""
    found, reasons = doctor.collect(doctor.start(("mpi",)), limit=20.0)
    if "mpi.all" not in found:
        reason = reasons.get("mpi", "no answer")
        raise LabError(
            f"No MPI library can be loaded on {os.uname().nodename} ({reason}). Are the site file's modules "
            "(LABKIT_MODULES) those with which `make setup` was run?"
        )
    family, version = doctor.identify(found["mpi.all"], found.get("mpi.mpiname") or "")
    return family, version, ", ".join(_short(Path(file)) for file in found["mpi.files"]) or "file unknown"


def _notes(
    lab: labfile.Header, shape: job_shape.Shape, env: Mapping[str, str], family: str | None
) -> list[str]:
    """What is not wrong, but other than one would think."""
    said, wanted = [], env.get("LABKIT_MPI", "")
    if wanted in FLAVORS and family not in FLAVORS[wanted]:
        said.append(f"the site file says {wanted}, but this is {family}: another module, or LD_LIBRARY_PATH?")
    if family in ("MVAPICH2", "MVAPICH2-GDR") and "horovod" in lab.needs and "MV2_ENABLE_AFFINITY" not in env:
        said.append("MV2_ENABLE_AFFINITY=0 is not set: MVAPICH2 then gives Horovod one thread level too few.")
    if shape.ranks < 2 <= lab.ranks:
        said.append(f"this lab was made for {lab.ranks} ranks; the job has one.")
    return said


def _short(path: Path) -> str:
    root = paths.root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

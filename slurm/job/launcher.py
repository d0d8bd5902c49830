"""The command that starts the ranks of a batch job, from the site file's LABKIT_LAUNCHER.

Their options are those of labkit.launch.launcher_options. Lab 42 teaches when to use which.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import cluster, launch
from labkit.errors import LabError

from slurm.job.shape import Shape

# Variables that ranks need and that mpirun_rsh and Open MPI pass on only when told.
_PASSED_ON = (
    *("LABKIT_", "MV2_", "MVP_", "HOROVOD_", "NCCL_", "UCX_", "FI_"),
    *("SLURM_JOB_ID", "SITE", "TRANSPORT"),
)


def command(shape: Shape, rank: list[str], env: Mapping[str, str], folder: Path) -> list[str]:
    """The launcher with its options, then `rank`, the command of one rank. `folder` takes a hostfile."""
    launcher, *own_options = shlex.split(env.get("LABKIT_LAUNCHER") or "srun")
    name = Path(launcher).name
    if name not in cluster.sites.LAUNCHERS:
        known = ", ".join(cluster.sites.LAUNCHERS)
        raise LabError(f"LABKIT_LAUNCHER in the site file begins with {launcher!r}; known are {known}.")
    hostfile = folder / "hosts"
    if name == "mpirun_rsh":
        hostfile.write_text("".join(f"{host}\n" for host, _ in shape.places()), encoding="utf-8")
    program = _program(launcher, env)
    options = launch.launcher_options(
        program,
        "job",
        ranks=shape.ranks,
        nodes=len(shape.hosts),
        each=max(shape.tasks),
        hostfile=hostfile,
        gpus=0 if env.get("LABKIT_GPU_FORM") == "none" else shape.gpus,
        variables=_passed_on(env),
    )
    return [program, *own_options, *options, *rank]


def _passed_on(env: Mapping[str, str]) -> dict[str, str]:
    names = (*_PASSED_ON, *launch.THREAD_VARIABLES)
    return {name: value for name, value in sorted(env.items()) if name.startswith(names)}


def _program(launcher: str, env: Mapping[str, str]) -> str:
    """Where the launcher is: the MPI of $MPI_HOME, else this environment's own, else the PATH."""
    folders = [str(Path(sys.executable).parent), env.get("PATH", "")]
    if env.get("MPI_HOME"):
        folders.insert(0, f"{env['MPI_HOME']}/bin")
    program = shutil.which(launcher, path=os.pathsep.join(folders))
    if program is None:
        raise LabError(
            f"{launcher}, the launcher of the site file (LABKIT_LAUNCHER), is not on this node. Is its "
            "module in LABKIT_MODULES?"
        )
    return program

"""The command that starts the ranks of a batch job, from the site file's LABKIT_LAUNCHER.

The forms are those of Slurm's srun, of MVAPICH2's mpirun_rsh (user guide 2.3.7, section 5.2), of hydra's and
Open MPI's mpiexec, and of TACC's ibrun. Lab 42 teaches when to use which.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import launch
from labkit.errors import LabError

from slurm.job.shape import Shape

# Variables that ranks need and that mpirun_rsh and Open MPI pass on only when told.
_PASSED_ON = (
    "LABKIT_",
    "MV2_",
    "MVP_",
    "HOROVOD_",
    "NCCL_",
    "UCX_",
    "FI_",
    "SLURM_JOB_ID",
    "SITE",
    "TRANSPORT",
)


def command(shape: Shape, rank: list[str], env: Mapping[str, str], folder: Path) -> list[str]:
    """The launcher with its options, then `rank`, the command of one rank. `folder` takes a hostfile."""
    words = shlex.split(env.get("LABKIT_LAUNCHER") or "srun")
    name = Path(words[0]).name
    if name not in _FORMS:
        known = ", ".join(_FORMS)
        raise LabError(f"LABKIT_LAUNCHER in the site file begins with {words[0]!r}; known are {known}.")
    words[0] = _program(words[0], env)
    return _FORMS[name](words, shape, rank, env, folder)


def _program(word: str, env: Mapping[str, str]) -> str:
    """Where the launcher is: the MPI of $MPI_HOME, else this environment's own, else the PATH."""
    folders = [str(Path(sys.executable).parent), env.get("PATH", "")]
    if env.get("MPI_HOME"):
        folders.insert(0, f"{env['MPI_HOME']}/bin")
    found = shutil.which(word, path=os.pathsep.join(folders))
    if found is None:
        raise LabError(
            f"{word}, the launcher of the site file (LABKIT_LAUNCHER), is not on this node. Is its module in "
            "LABKIT_MODULES?"
        )
    return found


def _srun(words, shape, rank, env, folder) -> list[str]:
    options = ["--nodes", str(len(shape.hosts)), "--ntasks", str(shape.ranks)]
    # Ranks fill node after node, as the table in the job's output says. One that fails ends all.
    options += ["--distribution=block", "--kill-on-bad-exit=1"]
    if shape.gpus and env.get("LABKIT_GPU_FORM") != "none":
        options.append(
            "--gpu-bind=none"
        )  # a rank sees its neighbours' GPUs too: MPI's and NCCL's IPC need it
    return [*words, *options, *rank]


def _mpirun_rsh(words, shape, rank, env, folder) -> list[str]:
    hostfile = folder / "hosts"
    hostfile.write_text("".join(f"{host}\n" for host, _ in shape.places()), encoding="utf-8")
    pairs = [f"{name}={value}" for name, value in _told(env) if not any(one.isspace() for one in value)]
    return [*words, "-np", str(shape.ranks), "-hostfile", str(hostfile), *pairs, *rank]


def _mpiexec(words, shape, rank, env, folder) -> list[str]:
    each = str(max(shape.tasks))
    if launch.flavor(words[0]) == "openmpi":
        exports = [word for name, _ in _told(env) for word in ("-x", name)]
        return [*words, "-n", str(shape.ranks), "--map-by", f"ppr:{each}:node", *exports, *rank]
    return [*words, "-n", str(shape.ranks), "-ppn", each, *rank]


def _ibrun(words, shape, rank, env, folder) -> list[str]:
    return [*words, *rank]  # it takes the number of ranks from the job


def _told(env: Mapping[str, str]) -> list[tuple[str, str]]:
    names = (*_PASSED_ON, *launch.THREAD_VARIABLES)
    return sorted((name, value) for name, value in env.items() if name.startswith(names))


_FORMS = {
    "srun": _srun,
    "mpirun_rsh": _mpirun_rsh,
    "mpiexec": _mpiexec,
    "mpirun": _mpiexec,
    "ibrun": _ibrun,
}

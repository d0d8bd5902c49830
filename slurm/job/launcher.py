"""The command that starts the ranks of a batch job, by the site file's LABKIT_LAUNCHER, and their
variables.

Their options are those of labkit.launch.launcher_options. Lab 42 teaches when to use which.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import builds, cluster, launch, mpis
from labkit.errors import LabError

from slurm.job.shape import Shape

# Variables that ranks need and that mpirun_rsh and Open MPI pass on only when told; a begin of
# their name.
_PASSED_ON = (
    *("LABKIT_", "MV2_", "MVP_", "HOROVOD_", "NCCL_", "UCX_", "FI_"),
    *("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SITE"),
    *("PYTHONPATH", "LD_LIBRARY_PATH", "MPI4PY_MPIABI"),
)


def command(
    shape: Shape, rank: list[str], env: Mapping[str, str], folder: Path, dry: bool = False
) -> list[str]:
    """The launcher with its options, then `rank`, the command of one rank. `folder` takes a
    hostfile.

    dry: nothing is written, and the launcher need not be here.

    An MPI that stands beside the site's is started by its own mpiexec, which takes the nodes from
    Slurm: what the site's launcher is told (`--mpi=pmix`) need not fit it.
    """
    launcher, *own_options = _words(env)
    name = Path(launcher).name
    if name not in cluster.sites.LAUNCHERS:
        known = ", ".join(cluster.sites.LAUNCHERS)
        raise LabError(
            f"LABKIT_LAUNCHER in the site file begins with {launcher!r}; known are {known}."
        )
    hostfile = folder / "hosts"
    if not dry:
        lines = (f"{host}\n" * count for host, count in zip(shape.hosts, shape.tasks, strict=True))
        hostfile.write_text("".join(lines), encoding="utf-8")
    program = launcher if dry else _program(launcher, env)
    _refuse_lost(name, own_options, env)
    # How a site binds GPUs is its own decision: of two such options, srun takes the last.
    bound = any(option.startswith("--gpu-bind") for option in own_options)
    options = launch.launcher_options(
        kind(launcher, env) if dry else program,
        "job" if len(set(shape.tasks)) == 1 else "uneven",
        ranks=shape.ranks,
        nodes=len(shape.hosts),
        each=max(shape.tasks),
        hostfile=hostfile,
        gpus=0 if bound or env.get("LABKIT_GPU_FORM") == "none" else shape.gpus,
        variables=_passed_on(env),
    )
    return [program, *own_options, *options, *rank]


def environment(shape: Shape, env: Mapping[str, str]) -> dict[str, str]:
    """What the launcher itself must find.

    mpiexec and mpirun start one helper on each node, by srun, and the ranks below it share its
    cores. mpirun_rsh may start its helpers by srun, too (`-launcher srun`). They are no ranks: a
    PMI that srun offered them would be found by the ranks below, who have that of mpirun_rsh.
    """
    name = Path(_words(env)[0]).name
    if name == "mpirun_rsh":
        return {"SLURM_MPI_TYPE": "none"}
    if name not in ("mpiexec", "mpirun"):
        return {}
    cores = int(env.get("SLURM_CPUS_PER_TASK") or 1)
    return {"SRUN_CPUS_PER_TASK": str(cores * min(shape.tasks))}


def kind(launcher: str, env: Mapping[str, str]) -> str:
    """Whose options an mpiexec or mpirun takes that is not here to be asked."""
    name = Path(launcher).name
    if name not in ("mpiexec", "mpirun"):
        return name
    # The site's MPI, or the one beside it that is used in its place.
    mpi = env["LABKIT_MPI_BUILD"] if brings_its_launcher(env) else env.get("LABKIT_MPI")
    return "openmpi" if mpi == "openmpi" else "hydra"


def _words(env: Mapping[str, str]) -> list[str]:
    """The launcher and the options that come with it."""
    if brings_its_launcher(env):
        return ["mpiexec"]
    return shlex.split(env.get("LABKIT_LAUNCHER") or "srun")


def _passed_on(env: Mapping[str, str]) -> dict[str, str]:
    names = (*_PASSED_ON, *launch.THREAD_VARIABLES, *users_own(env))
    return {name: value for name, value in sorted(env.items()) if name.startswith(names)}


def _refuse_lost(launcher: str, options: list[str], env: Mapping[str, str]) -> None:
    """LabError for a variable of the user's own that the launcher would not pass on."""
    lost = [name for name, value in users_own(env).items() if any(map(str.isspace, value))]
    if lost and launcher == "mpirun_rsh" and "-export-all" not in options:
        raise LabError(
            f"mpirun_rsh cannot pass on a value with a space in it, as {lost[0]} has: "
            'LABKIT_LAUNCHER="mpirun_rsh -export-all" in the site file passes all variables on.'
        )


def _program(launcher: str, env: Mapping[str, str]) -> str:
    """Where the launcher is: the MPI of $MPI_HOME, else this environment's own, else the PATH."""
    if brings_its_launcher(env):
        return launch.mpiexec(env["LABKIT_MPI_BUILD"])
    folders = [str(Path(sys.executable).parent), env.get("PATH", "")]
    if env.get("MPI_HOME"):
        folders.insert(0, f"{env['MPI_HOME']}/bin")
    program = shutil.which(launcher, path=os.pathsep.join(folders))
    if program is None:
        raise LabError(
            f"{launcher}, the launcher of the site file (LABKIT_LAUNCHER), is not on this node. Is"
            " its module in LABKIT_MODULES?"
        )
    return program


def chosen(env: Mapping[str, str]) -> dict[str, str]:
    """What is set for the ranks of a job with the environment `env`. NotHere for a build that is
    not here.

    The user's own value of a variable wins: one that is in LABKIT_ENV, and one that is set already
    wins over what an MPI is told for Horovod.
    """
    own = users_own(env)
    everything = {**env, **own}
    variables = builds.variables(environ=everything)
    if not brings_its_launcher(env):
        variables = mpis.switches(env.get("LABKIT_MPI"), everything) | variables
    return variables | own


def users_own(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of `make submit ENV="A=1 B=2"`."""
    pairs = (word.partition("=") for word in shlex.split(env.get("LABKIT_ENV", "")))
    return {name: value for name, _, value in pairs}


def brings_its_launcher(env: Mapping[str, str]) -> bool:
    """Do the ranks run on another MPI than the site's, which then starts them itself?"""
    name = env.get("LABKIT_MPI_BUILD")
    return bool(name) and name != builds.own_mpi()

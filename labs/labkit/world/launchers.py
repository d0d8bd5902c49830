"""What launchers tell the processes they start, through the environment.

The order in which launchers are asked matters, because they nest: mpirun_rsh and hydra start their
helpers through srun, so Slurm's variables are there as well, and count the helpers, not the ranks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import NamedTuple


class Place(NamedTuple):
    """A process's place: its launcher (None alone), rank and size in the job, and the same on this
    host."""

    launcher: str | None
    rank: int
    size: int
    local_rank: int
    local_size: int


ALONE = Place(None, 0, 1, 0, 1)

# What launchers leave in the environment of their processes. A trailing * stands for any ending.
_LAUNCHER_VARIABLES = (
    ("LABKIT_RUN", "LABKIT_RANK", "LABKIT_SIZE"),
    ("MV2_COMM_WORLD_*", "MPISPAWN_*", "MPIRUN_*"),
    (
        "OMPI_COMM_*",
        "OMPI_UNIVERSE_SIZE",
        "OMPI_APP_*",
        "OMPI_FILE_*",
        "OMPI_MCA_ess*",
        "OMPI_MCA_orte_*",
    ),
    ("OMPI_MCA_mpi_oversubscribe", "OMPI_ARGV", "OMPI_COMMAND", "PMIX_*", "PRTE_*"),
    (
        "PMI_*",
        "PMI2_*",
        "HYDRA_*",
        "HYDI_*",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "MPIR_CVAR_CH4_ROOTS_ONLY_PMI",
        "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
    ),
    ("SLURM_*", "SLURMD_*", "PALS_*"),
    ("HOROVOD_CONTROLLER", "HOROVOD_GLOO_IFACE", "HOROVOD_CPU_OPERATIONS"),
    (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_*",
        "ROLE_*",
        "MASTER_ADDR",
        "MASTER_PORT",
    ),
    ("TORCHELASTIC_*",),
)
_LAUNCHER_PATTERN = re.compile(
    "|".join(name.replace("*", ".*") for group in _LAUNCHER_VARIABLES for name in group)
)

# Names of variables whose values are for nobody but the process that was given them.
# JUPYTERHUB_USER is only a name, which `_interactive_step` reads; TOKENIZERS_PARALLELISM and
# MAX_TOKENS are no secrets.
_SECRET = re.compile(
    r"JUPYTERHUB_(?!USER$)|SLURM_JWT$|.*(TOKEN(?!IZ|S)|SECRET|PASSW|API_?KEY)", re.IGNORECASE
)


def tasks_per_node(text: str) -> list[int]:
    """Slurm's short form written out: "4(x2),3" is [4, 4, 3]."""
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match:
            counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _slurm(env: Mapping[str, str]) -> Place | None:
    # The batch script itself has SLURM_JOB_ID and SLURM_PROCID but is no task of a step: there a
    # run is "alone".
    if "SLURM_STEP_ID" not in env or "SLURM_PROCID" not in env:
        return None
    size = int(env.get("SLURM_STEP_NUM_TASKS") or env.get("SLURM_NTASKS") or 1)
    if size == 1 and _interactive_step(env):
        return None
    rank = int(env["SLURM_PROCID"])
    local_rank = int(env.get("SLURM_LOCALID", 0))
    counts = tasks_per_node(
        env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE", "")
    )
    node = int(env.get("SLURM_NODEID", 0))
    local_size = (
        counts[node] if node < len(counts) else max(size if not counts else 1, local_rank + 1)
    )
    return Place("srun", rank, size, local_rank, local_size)


def _interactive_step(env: Mapping[str, str]) -> bool:
    """A step of one task may be a shell (srun --pty, salloc, JupyterHub) in which a person starts
    files."""
    if "SLURM_PTY_PORT" in env or "JUPYTERHUB_USER" in env or env["SLURM_STEP_ID"] == "4294967290":
        return True
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _hydra(env: Mapping[str, str]) -> Place | None:
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    rank = int(env["PMI_RANK"])
    size = int(env["PMI_SIZE"])
    if "MPI_LOCALRANKID" in env:
        return Place(
            "mpiexec", rank, size, int(env["MPI_LOCALRANKID"]), int(env.get("MPI_LOCALNRANKS", 1))
        )
    # Srun --mpi=pmi2 sets PMI_RANK too, and only Slurm knows the local rank.
    if "SLURM_STEP_ID" in env:
        return None
    local = int(env.get("PMI_LOCAL_RANK", rank)), int(env.get("PMI_LOCAL_SIZE", size))
    return Place("mpiexec", rank, size, *local)


def _numbered(launcher: str, prefix: str, rank: str, size: str, local_rank: str, local_size: str):
    """A reader for launchers that give all four numbers under names with one prefix."""

    def read(env: Mapping[str, str]) -> Place | None:
        names = [prefix + part for part in (rank, size, local_rank, local_size)]
        if not all(name in env for name in names[:2]):
            return None
        place = int(env[names[0]]), int(env[names[1]])
        return Place(
            launcher,
            *place,
            *(int(env.get(name, at)) for name, at in zip(names[2:], place, strict=True)),
        )

    return read


_READERS = (
    _numbered("mpirun_rsh", "MV2_COMM_WORLD_", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"),
    _numbered("openmpi", "OMPI_COMM_WORLD_", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"),
    _hydra,
    _slurm,
    _numbered("torchrun", "", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
)


def launched(env: Mapping[str, str]) -> Place:
    """The place the launcher itself gave, whatever labkit made of it."""
    for read in _READERS:
        place = read(env)
        if place:
            # MVAPICH2's own hydra sets the MV2_ variables, too. With them, PMI_RANK is hydra's and
            # MPIRUN_ID is mpirun_rsh's (mpispawn.c of 2.3.7).
            by_hydra = "MPI_LOCALRANKID" in env or ("PMI_RANK" in env and "MPIRUN_ID" not in env)
            hydra = place.launcher == "mpirun_rsh" and by_hydra
            return place._replace(launcher="mpiexec") if hydra else place
    return ALONE


def is_secret(name: str) -> bool:
    """Does a variable of that name hold a token, a password, or what a hub tells its server
    alone?"""
    return _SECRET.match(name) is not None


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` for ranks and jobs: others on their nodes may come to read what they get."""
    return {name: value for name, value in env.items() if not is_secret(name)}


def clean(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` without secrets and without what launchers leave in it."""
    kept = without_secrets(env).items()
    return {name: value for name, value in kept if not _LAUNCHER_PATTERN.fullmatch(name)}

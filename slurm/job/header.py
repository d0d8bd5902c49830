"""The first lines of a job's output: where it runs, on which MPI, and what is odd about it. In
about a second."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from labkit import builds, doctor, labfile, launch, mpis, paths
from labkit.errors import LabError, NotHere, counted

from slurm.job.launcher import brings_its_launcher, users_own
from slurm.job.shape import Shape


def header(
    stem: str, shape: Shape, env: Mapping[str, str], solved: bool, settings: Sequence[str]
) -> str:
    """The lines. LabError if no MPI can be loaded."""
    try:
        mpi = doctor.which_mpi()
    except NotHere as reason:
        raise LabError(
            f"No MPI library can be loaded on {os.uname().nodename} ({reason}). Are the site file's"
            " modules (LABKIT_MODULES) those with which `make setup` was run?"
        ) from None
    lab = labfile.headers(paths.root())[stem]
    files = ", ".join(paths.shown(file) for file in mpi.files) or "file unknown"
    lines = [
        f"Lab {stem}{' (solved)' if solved else ''} on {env.get('SITE', '?')}, job {shape.number}",
        *places(shape),
        f"MPI: {mpi.family or 'unknown'} {mpi.version or ''} ({files})",
    ]
    if env.get("LABKIT_HOROVOD"):
        name = env["LABKIT_HOROVOD"]
        lines.append(f"Horovod: build {name} ({paths.shown(builds.horovod_folder(name))})")
    lines += [f"Note: {note}" for note in notes(lab, shape, env, mpi.family)]
    chosen = [*settings, *(f"{name}={value}" for name, value in users_own(env).items())]
    if chosen:
        lines.append(f"Set: {' '.join(chosen)}")
    records = Path(env.get("LABKIT_HOME") or paths.home()) / "records"
    lines.append(f"Records go to {paths.shown(records)}")
    return "\n".join(lines)


def places(shape: Shape, root: Path = Path("/")) -> list[str]:
    """A line for each node: its ranks, and the devices that `world.device` will choose for them.

    root: under which /dev is.
    """
    lines = []
    first = 0
    for host, count in zip(shape.hosts, shape.tasks, strict=True):
        ranks = launch.ranks_text(list(range(first, first + count)))
        devices = "cpu"
        if shape.gpus and _has_gpu(root):
            devices = ", ".join(f"cuda:{local % shape.gpus}" for local in range(count))
        threads = counted(shape.threads, "thread")
        lines.append(f"{host}: {ranks} on {devices}, {threads} for each")
        first += count
    return lines


def _has_gpu(root: Path) -> bool:
    return any((root / "dev").glob("nvidia[0-9]*"))


def notes(
    lab: labfile.Header,
    shape: Shape,
    env: Mapping[str, str],
    family: str | None,
    root: Path = Path("/"),
) -> Iterator[str]:
    """What is not wrong, but other than one would think.

    family: of the MPI that the ranks load. root: under which /dev, /proc and /sys are.
    """
    wanted = "" if brings_its_launcher(env) else env.get("LABKIT_MPI", "")
    if wanted in mpis.FLAVORS and family not in mpis.FLAVORS[wanted]:
        yield (
            f"the site file says {wanted}, but this is {family}: another module, or"
            " LD_LIBRARY_PATH?"
        )
    if shape.ranks < 2 <= lab.ranks:
        yield f"this lab was made for {lab.ranks} ranks; the job has one."
    if shape.gpus and not _has_gpu(root):
        yield "Slurm gives GPUs, but this node has no NVIDIA device: the ranks use cores."
    nodes = _numa_nodes(root) if shape.gpus else []
    if nodes != sorted(nodes):
        told = ", ".join(f"GPU {number} on {node}" for number, node in enumerate(nodes))
        yield (
            f"the NUMA nodes of the GPUs do not rise with the GPUs' numbers ({told}, in the order"
            " of bus addresses): ranks that get their cores in order are far from their GPUs. Ask"
            " the site how to bind them (srun --gpu-bind=closest gives a rank the GPU beside its"
            " cores)."
        )


def _numa_nodes(root: Path) -> list[int]:
    """The NUMA node of each NVIDIA GPU of this machine, by bus address; [] where Linux does not
    know it."""
    nodes = []
    for gpu in sorted((root / "proc/driver/nvidia/gpus").glob("*")):
        file = root / "sys/bus/pci/devices" / gpu.name / "numa_node"
        try:
            nodes.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            return []
    return [] if -1 in nodes else nodes

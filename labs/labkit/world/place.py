"""Which rank of how many this process is, and on what it runs: read from the environment alone."""

from __future__ import annotations

import os
import socket
import sys
from itertools import takewhile
from pathlib import Path

from labkit.errors import counted
from labkit.world import cpus, launchers
from labkit.world.launchers import ALONE, Place


def _place() -> Place:
    env = os.environ
    # Started by labkit.launch on this host? It may have set a launcher's variables too.
    if "LABKIT_RANK" in env:
        rank = int(env["LABKIT_RANK"])
        size = int(env["LABKIT_SIZE"])
        return Place("labkit", rank, size, rank, size)
    # A kernel may run inside a Slurm job (JupyterHub on a cluster), but it is one process with a
    # person before it.
    return ALONE if in_kernel() else launchers.launched(env)


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel."""
    app = sys.modules.get("ipykernel.kernelapp")  # imported is not running: ask for the instance
    return app is not None and app.IPKernelApp.initialized()


def batch_job() -> str | None:
    """Slurm's number of the job that runs this process; None outside of one.

    A kernel may live inside a Slurm job (JupyterHub on a cluster): what it does is no batch job's.
    """
    return None if in_kernel() else os.environ.get("SLURM_JOB_ID") or None


def launcher() -> str | None:
    """What started this process as one of several: "mpirun_rsh", "openmpi", "mpiexec", "srun",
    "torchrun", "labkit" (a rank of `launch.run`), or None when it runs alone."""
    return _place().launcher


def rank() -> int:
    """This process's number in the job, from 0; 0 when alone."""
    return _place().rank


def size() -> int:
    """Processes in the job; 1 when alone."""
    return _place().size


def local_rank() -> int:
    """This process's number among the job's processes on this host, from 0."""
    return _place().local_rank


def local_size() -> int:
    """The job's processes on this host."""
    return _place().local_size


def is_root() -> bool:
    """True on rank 0, which alone prints, plots and records."""
    return rank() == 0


def cores() -> int:
    """Cores this process may use: its affinity, or its cgroup's quota rounded up if less; at least
    1."""
    return cpus.usable()


def gpu_count() -> int:
    """CUDA devices PyTorch sees. Its import takes seconds, so it is asked only where there is a
    driver."""
    if not gpu_files() and "torch" not in sys.modules:
        return 0
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def gpu_files(root: Path = Path("/")) -> int:
    """NVIDIA GPUs of this node, by the files that their driver makes: /dev/nvidia0 and so on.

    WSL2 has none of these; there it is 1 where Windows lends the driver's library.
    """
    files = [file for file in (root / "dev").glob("nvidia[0-9]*") if file.name[6:].isdigit()]
    return len(files) or int((root / "usr/lib/wsl/lib/libcuda.so.1").exists())


def shown_gpus() -> list[str] | None:
    """The numbers or UUIDs of the GPUs that CUDA shows this process; None where it shows all.

    CUDA_VISIBLE_DEVICES counts up to its first entry that names no GPU, such as -1. Of MIG devices
    a process has one.
    """
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",")]
    shown = list(takewhile(lambda entry: entry.isdigit() or entry[:4] in ("GPU-", "MIG-"), entries))
    return shown[:1] if shown and shown[0].startswith("MIG-") else shown


def device() -> str:
    """The device of this rank in PyTorch's words: "cuda:<local rank modulo devices>", or "cpu".

    LABKIT_DEVICE=cpu keeps everything in host memory where there are GPUs.
    """
    if os.environ.get("LABKIT_DEVICE") == "cpu":
        return "cpu"
    count = gpu_count()
    return f"cuda:{local_rank() % count}" if count else "cpu"


def describe() -> str:
    """One line: "alone on node7, 8 cores, cpu" or "rank 0 of 4 under mpiexec on node7, 8 cores,
    cuda:0"."""
    place = _place()
    process = (
        f"rank {place.rank} of {place.size} under {place.launcher}" if place.launcher else "alone"
    )
    return f"{process} on {socket.gethostname()}, {counted(cores(), 'core')}, {device()}"


def clean_env() -> dict[str, str]:
    """The environment for a new job: a copy without secrets and without what a launcher left in
    it."""
    return launchers.clean(os.environ)

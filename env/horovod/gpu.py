"""What Horovod's build is told on a GPU machine: CUDA from the site, NCCL from the wheel or the site."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from env.install.steps import StepFailed

OPERATIONS = ("NCCL", "MPI")


def check_operations(operations: str) -> str:
    """Return the operations in capitals. Raises StepFailed for anything but NCCL and MPI."""
    if operations and operations.upper() not in OPERATIONS:
        raise StepFailed(
            f"GPU_OPERATIONS={operations} is unknown",
            "Use GPU_OPERATIONS=NCCL, or GPU_OPERATIONS=MPI with a CUDA-aware MPI under MPI_HOME, or leave "
            "it out on a machine without GPUs.",
        )
    return operations.upper()


def cuda_home(given: str | None) -> Path:
    """The CUDA toolkit: CUDA_HOME, else that of nvcc, else /usr/local/cuda. Raises StepFailed."""
    nvcc = shutil.which("nvcc")
    candidates = [given, Path(nvcc).resolve().parents[1] if nvcc else None, "/usr/local/cuda"]
    for candidate in [given] if given else candidates:
        if candidate and (Path(candidate) / "bin" / "nvcc").exists():
            return Path(candidate).absolute()
    raise StepFailed(
        f"no CUDA toolkit: {given or '/usr/local/cuda'} has no bin/nvcc",
        "Load the site's CUDA module or set CUDA_HOME to the folder above bin/nvcc; the toolkit's major "
        "version must be that of PyTorch's CUDA.",
    )


def nccl_home(given: str | None, site_packages: Path) -> Path:
    """Where NCCL's include/ and lib/ are: NCCL_HOME, else the nvidia-nccl-cu* wheel. Raises StepFailed."""
    home = Path(given).absolute() if given else site_packages / "nvidia" / "nccl"
    if not (home / "include" / "nccl.h").exists():
        raise StepFailed(
            f"no NCCL: {home} has no include/nccl.h",
            "Set NCCL_HOME to the site's NCCL, or install the NCCL wheel that PyTorch's CUDA build brings "
            "(nvidia-nccl-cu12 or nvidia-nccl-cu13).",
        )
    return home


def linkable(home: Path, work: Path) -> Path:
    """A folder in which `-lnccl` finds NCCL: the wheel has only libnccl.so.2, so `work` gets a link."""
    folders = [home / name for name in ("lib", "lib64")]
    for folder in folders:
        if (folder / "libnccl.so").exists():
            return folder
    for folder in folders:
        if (folder / "libnccl.so.2").exists():
            work.mkdir(parents=True, exist_ok=True)
            link = work / "libnccl.so"
            link.unlink(missing_ok=True)
            link.symlink_to(folder / "libnccl.so.2")
            return work
    raise StepFailed(f"{home} holds no libnccl.so", "Set NCCL_HOME to a complete NCCL.")


def environment(
    operations: str, site_packages: Path, work: Path, cuda: str | None = None, nccl: str | None = None
) -> tuple[dict[str, str], list[str]]:
    """Variables for Horovod's build, and more folders for its run path; empty without GPU operations."""
    if not operations:
        return {}, []
    home = cuda_home(cuda)
    env = {
        "HOROVOD_GPU": "CUDA",
        "HOROVOD_GPU_OPERATIONS": operations,
        "HOROVOD_CUDA_HOME": str(home),
        "CUDA_HOME": str(home),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    if operations != "NCCL":
        return env, []
    root = nccl_home(nccl, site_packages)
    env["HOROVOD_NCCL_INCLUDE"] = str(root / "include")
    env["HOROVOD_NCCL_LIB"] = str(linkable(root, work))
    env["HOROVOD_NCCL_LINK"] = "SHARED"
    if nccl:
        return env, [str(path) for path in (root / "lib", root / "lib64") if path.is_dir()]
    return env, ["$ORIGIN/../../nvidia/nccl/lib"]


def lasting(settings: dict[str, str], nccl: str | None) -> dict[str, str]:
    """The part of `environment` that decides what the wheel is, without this build's temporary folders."""
    if not settings:
        return {}
    passing = ("PATH", "HOROVOD_NCCL_LIB", "HOROVOD_NCCL_INCLUDE")
    return {name: value for name, value in settings.items() if name not in passing} | {
        "nccl": nccl or "wheel"
    }

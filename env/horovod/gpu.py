"""What Horovod's build is told on a GPU machine: CUDA from the site, NCCL from its wheel or from the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from env.horovod.cuda import Toolkit
from env.install.steps import StepFailed

# Horovod's extensions lie in PLACE/horovod/torch and PLACE/horovod/tensorflow. PLACE is site-packages or a
# folder beside it: this way leads to site-packages from either.
SITE = "$ORIGIN/../../../site-packages"
RUNTIME = f"{SITE}/nvidia/cuda_runtime/lib"
NCCL = f"{SITE}/nvidia/nccl/lib"


def nccl_home(given: str | None, site_packages: Path) -> Path:
    """Where NCCL's include/ and lib/ are: NCCL_HOME, else the nvidia-nccl-cu* wheel. Raises StepFailed."""
    home = Path(given).expanduser().absolute() if given else site_packages / "nvidia" / "nccl"
    if not (home / "include" / "nccl.h").exists():
        cure = "Set NCCL_HOME to the folder above NCCL's include/ and lib/."
        if not given:
            cure = (
                "PyTorch's CUDA build brings the headers in its package nvidia-nccl-cu12 (`.venv/bin/python "
                "-m pip list` shows what is here); NCCL_HOME=… names a site's NCCL in its place."
            )
        raise StepFailed(f"no NCCL: {home} has no include/nccl.h", cure)
    return home


def nccl_version(home: Path) -> str:
    """The version that nccl.h says, as 2.27.5."""
    header = (home / "include" / "nccl.h").read_text(encoding="utf-8", errors="replace")
    return ".".join(re.findall(r"^#define NCCL_(?:MAJOR|MINOR|PATCH) +(\d+)", header, re.MULTILINE))


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


def check_torch(cuda: str | None, version: str, toolkit: Toolkit) -> None:
    """Raise StepFailed unless the PyTorch that pip installed is built with this toolkit's major version."""
    if cuda is None:
        raise StepFailed(
            f"pip brought PyTorch {version}, a build without CUDA",
            "PyPI's for x86-64 is the one with CUDA. `.venv/bin/python -m pip config list` shows whether "
            "another index or folder offers this one; PIP_CONFIG_FILE=/dev/null leaves such settings out, "
            "TORCH_INDEX=URL adds an index of PyTorch's CUDA builds.",
        )
    if int(cuda.split(".")[0]) != toolkit.major:
        raise StepFailed(
            f"pip brought PyTorch {version} for CUDA {cuda}, and there is {toolkit}",
            "The two must have the same major version: leave TORCH_INDEX out, or name another CUDA_HOME.",
        )


def environment(
    operations: str, toolkit: Toolkit | None, site_packages: Path, work: Path, nccl: str | None = None
) -> tuple[dict[str, str], list[str]]:
    """Variables for Horovod's build, and more folders for its run path; empty without a toolkit.

    operations: HOROVOD_GPU_OPERATIONS, or "" for the build whose GPU tensors travel through host memory.
    """
    if toolkit is None:
        return {}, []
    env = {
        "HOROVOD_CUDA_HOME": str(toolkit.home),
        "CUDA_HOME": str(toolkit.home),
        "PATH": f"{toolkit.home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    if operations:
        env["HOROVOD_GPU"] = "CUDA"
        env["HOROVOD_GPU_OPERATIONS"] = operations
    if operations != "NCCL":
        return env, [RUNTIME]
    root = nccl_home(nccl, site_packages)
    env["HOROVOD_NCCL_INCLUDE"] = str(root / "include")
    env["HOROVOD_NCCL_LIB"] = str(linkable(root, work))
    env["HOROVOD_NCCL_LINK"] = "SHARED"
    if nccl:
        return env, [RUNTIME, *(str(path) for path in (root / "lib", root / "lib64") if path.is_dir())]
    return env, [RUNTIME, NCCL]


def lasting(
    settings: dict[str, str], rpath: list[str], toolkit: Toolkit | None, nccl: str | None
) -> dict[str, str]:
    """The part of `environment` that decides what the wheel is, without this build's temporary folders.

    A toolkit or an NCCL that was renewed in its place is another one: their versions count.
    """
    if toolkit is None:
        return {}
    passing = ("PATH", "HOROVOD_NCCL_LIB", "HOROVOD_NCCL_INCLUDE")
    lasts = {name: value for name, value in settings.items() if name not in passing}
    lasts |= {"nvcc": toolkit.version, "rpath": ";".join(rpath)}
    if "HOROVOD_NCCL_INCLUDE" in settings:
        version = nccl_version(Path(settings["HOROVOD_NCCL_INCLUDE"]).parent)
        lasts["nccl"] = f"{version} {nccl or 'wheel'}"
    return lasts

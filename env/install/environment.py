"""The virtual environment: its settings, its packages, and the room that it needs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

from env.install import debian, pythons
from env.install.steps import Step, StepFailed
from env.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
ENV = ROOT / "env"
# They belong to GPU_OPERATIONS; modules set them for other purposes.
WITH_GPU = ("NCCL_HOME", "CUDA_HOME")
KEPT = "settings.json"  # in the environment's folder, and gone with it
NONE = "none"  # as a value: this setting, if it is kept, no longer holds
# Below env/, but no part of the set-up.
ASIDE = ("mvapich2", "container")
NEEDED_BYTES = 6e9
NEEDED_BYTES_GPU = 16e9  # the environment is 10 GB, and pip unpacks 5 GB that it fetched


def settings(venv: Path) -> dict[str, str]:
    """What the set-up is to go by: the settings of this call, and for all others those that were
    kept. PYTHON is not among them: the environment itself keeps that.

    The value `none` takes a kept setting back. GPU_OPERATIONS adds to those that are kept.
    CUDA_HOME and NCCL_HOME count where GPU_OPERATIONS is given beside them, or as they are kept.
    """
    names = [name for name in SETTINGS if os.environ.get(name) and name != "PYTHON"]
    if "GPU_OPERATIONS" not in names:
        names = [name for name in names if name not in WITH_GPU]
    before = kept(venv)
    chosen = before | {name: os.environ[name] for name in names}
    chosen = {name: value for name, value in chosen.items() if value.lower() != NONE}
    if "GPU_OPERATIONS" not in chosen:
        return {name: value for name, value in chosen.items() if name not in WITH_GPU}
    asked = f"{before.get('GPU_OPERATIONS', '')} {chosen['GPU_OPERATIONS']}".upper()
    chosen["GPU_OPERATIONS"] = " ".join(dict.fromkeys(re.findall(r"[^\s,;+]+", asked)))
    return chosen


def kept(venv: Path) -> dict[str, str]:
    """The settings of an earlier set-up. Raises StepFailed when their file cannot be read."""
    file = venv / KEPT
    try:
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except ValueError:
        raise StepFailed(
            f"{file} cannot be read", "Remove that file, and give the settings again."
        ) from None


def keep(venv: Path, chosen: dict[str, str]) -> None:
    """Keep the settings for later calls."""
    (venv / KEPT).write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")


def in_words(chosen: dict[str, str]) -> str:
    """The settings as one would type them."""
    return " ".join(
        f'{name}="{value}"' if " " in value else f"{name}={value}" for name, value in chosen.items()
    )


def fingerprint(chosen: dict[str, str]) -> str:
    """A hash of all that decides what the environment is: files below env/, pyproject.toml,
    settings."""
    aside = [ENV / name for name in ASIDE]
    files = [ROOT / "pyproject.toml"]
    for pattern in ("*.py", "*.c", "*.patch", "*.json", "requirements*"):
        files += [file for file in ENV.rglob(pattern) if not any(map(file.is_relative_to, aside))]
    digest = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode())
    for file in sorted(files):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def check_room(folder: Path, venv: Path, chosen: dict[str, str]) -> None:
    """Raise StepFailed when the disk has too little room or the folder cannot be written."""
    if not os.access(folder, os.W_OK):
        raise StepFailed(f"{folder} cannot be written", "Work in a checkout of your own.")
    free = shutil.disk_usage(folder).free
    needed = NEEDED_BYTES_GPU if chosen.get("GPU_OPERATIONS") else NEEDED_BYTES
    if free < needed and not _torch(venv, locked(chosen).get("torch")):
        raise StepFailed(
            f"{free / 1e9:.1f} GB are free, {needed / 1e9:.0f} GB are needed", "Free some space."
        )


def site_packages(venv: Path) -> Path:
    """Where the environment's packages are."""
    return next(venv.glob("lib/python3.*/site-packages"))


def _torch(venv: Path, version: str | None) -> bool:
    """Is this PyTorch in the environment?"""
    return any(venv.glob(f"lib/python3.*/site-packages/torch-{version}[.+-]*dist-info"))


def create(step: Step, python: str, venv: Path, chosen: dict[str, str]) -> None:
    """Make the virtual environment, or keep one with the same Python and the pinned PyTorch or
    none.

    Another PyTorch is older, or that of the other kind of machine. TensorFlow for GPUs and that for
    CPUs are the same files, and so are NVIDIA's packages for CUDA 12 and 13: to remove either
    breaks the other.
    """
    inside = venv / "bin" / "python"
    other = _torch(venv, "[0-9]*") and not _torch(venv, locked(chosen).get("torch"))
    if not other and inside.exists() and pythons.ask(str(inside)) == pythons.ask(python):
        return
    clear = ["--clear"] if (venv / "bin").exists() else []
    step.run([python, "-m", "venv", *clear, venv])


def requirements(chosen: dict[str, str]) -> str:
    """The lock as this environment needs it: with CUDA on a GPU machine, no MPI beside a site's.

    A site's MPI also gets an mpi4py of its own, see install_mpi4py.
    """
    lines = (ENV / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if chosen.get("GPU_OPERATIONS"):
        lines = [line for line in lines if not re.match(r"(torch|tensorflow-cpu)==", line)]
        lines += _gpu_lines()
    if chosen.get("MPI_HOME"):
        lines = [line for line in lines if not re.match(r"(mpich|mpi4py)==", line)]
    return "\n".join(lines) + "\n"


def _gpu_lines() -> list[str]:
    """The pins of a GPU machine's own packages."""
    text = (ENV / "requirements-gpu.in").read_text(encoding="utf-8")
    return re.findall(r"^[\w-]+==[\w.]+", text, re.MULTILINE)


def locked(chosen: dict[str, str]) -> dict[str, str]:
    """Package -> version in the lock; of several for several Pythons the last."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", requirements(chosen), re.MULTILINE))


def cuda_major() -> int:
    """The major version of CUDA that the GPU machines' lock is made of."""
    return int(re.search(r"nvidia-cuda-nvcc-cu(\d+)==", "\n".join(_gpu_lines()))[1])


def pip(venv: Path) -> list[str | Path]:
    """The environment's pip, which asks nothing."""
    return [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input"]


def install(step: Step, venv: Path, chosen: dict[str, str]) -> None:
    """Install the pinned packages."""
    lock = venv / "setup-requirements.txt"
    lock.write_text(requirements(chosen), encoding="utf-8")
    index = ["--extra-index-url", chosen["TORCH_INDEX"]] if chosen.get("TORCH_INDEX") else []
    step.run([*pip(venv), "install", "-r", lock, *index])


def install_mpi4py(step: Step, venv: Path, env: dict[str, str]) -> None:
    """Compile mpi4py against the site's MPI, so that it and Horovod load the same library."""
    # One huge generated file: -O3 takes minutes and gains nothing.
    env = dict(env, CFLAGS="-O1 -g0")
    compiled = ["--no-binary", "mpi4py", "--no-cache-dir", "--no-deps", "--force-reinstall"]
    pinned = f"mpi4py=={locked({})['mpi4py']}"
    step.run([*pip(venv), "install", *compiled, pinned], env=env)


def has_compiled_mpi4py(venv: Path) -> bool:
    """Is mpi4py the one that was compiled for a site's MPI, and no wheel from the index?"""
    tags = [
        file.read_text("utf-8") for file in site_packages(venv).glob("mpi4py-*.dist-info/WHEEL")
    ]
    return any("-linux_" in text for text in tags)


def install_mpi_wheels(step: Step, venv: Path) -> None:
    """The lock's own MPI and mpi4py again, after a site's MPI: pip takes the compiled one for the
    same."""
    pins = [f"{name}=={locked({})[name]}" for name in ("mpich", "mpi4py")]
    step.run([*pip(venv), "install", "--no-deps", "--force-reinstall", *pins])


def build_loopback(step: Step, venv: Path) -> None:
    """Compile the library with which what labkit starts here listens on the loopback address alone.

    labs/labkit/launch/loopback.py preloads it, on Linux; elsewhere there is no LD_PRELOAD.
    """
    if not sys.platform.startswith("linux"):
        return
    target = venv / "lib" / "labkit-loopback.so"
    part = target.with_suffix(".part")
    source = Path(__file__).with_name("loopback.c")
    step.run([debian.compiler(), "-x", "c", "-shared", "-fPIC", "-O2", "-o", part, source])
    part.replace(target)  # a run that is under way has the old one, and keeps it


def install_labkit(step: Step, venv: Path) -> None:
    """Install labkit from this checkout, and a Jupyter kernel and settings of this environment
    only."""
    step.run([*pip(venv), "install", "--no-deps", "--no-build-isolation", "-e", ROOT])
    kernel = [venv / "bin" / "python", "-m", "ipykernel", "install", "--prefix", venv]
    step.run([*kernel, "--name", "python3", "--display-name", "Python 3"])
    settings = venv / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    # Long lines of code wrap, and no question about news covers the first notebook.
    shutil.copy(Path(__file__).with_name("jupyterlab_overrides.json"), settings / "overrides.json")
    # The file browser shows what is for learners: in labs/ the scripts, labkit, virtual and
    # support.
    server = venv / "etc" / "jupyter" / "jupyter_server_config.d"
    server.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("jupyter_server_config.json"), server / "labs.json")

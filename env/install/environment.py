"""The virtual environment: its settings, its packages, and the room that it needs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from env.install import pythons
from env.install.steps import PACKAGES, Step, StepFailed, pip_progress

ROOT = Path(__file__).resolve().parents[2]
ENV = ROOT / "env"
SETTINGS = ("PYTHON", "MPI_HOME", "GPU_OPERATIONS", "NCCL_HOME", "CUDA_HOME", "TORCH_INDEX")
ASIDE = ("lock.py", "horovod/own_tests")  # below env/, but no part of the set-up
NEEDED_BYTES = 6e9


def settings() -> dict[str, str]:
    """The Makefile's settings that are set; CUDA_HOME and NCCL_HOME count only on a GPU build."""
    chosen = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
    if "GPU_OPERATIONS" not in chosen:
        chosen.pop("NCCL_HOME", None)
        chosen.pop("CUDA_HOME", None)
    return chosen


def fingerprint(chosen: dict[str, str]) -> str:
    """A hash of all that decides what the environment is: files below env/, pyproject.toml, settings.

    PYTHON is not among them: whoever named it once for `make setup` need not do so at each `make`.
    """
    aside = [ENV / name for name in ASIDE]
    lasting = {name: value for name, value in chosen.items() if name != "PYTHON"}
    files = [ROOT / "pyproject.toml"]
    for pattern in ("*.py", "*.json", "requirements*"):
        files += [file for file in ENV.rglob(pattern) if not any(map(file.is_relative_to, aside))]
    digest = hashlib.sha256(json.dumps(lasting, sort_keys=True).encode())
    for file in sorted(files):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def check_room(folder: Path) -> None:
    """Raise StepFailed when the disk has too little room or the folder cannot be written."""
    if not os.access(folder, os.W_OK):
        raise StepFailed(f"{folder} cannot be written", "Work in a checkout of your own.")
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES and not (folder / ".venv" / "bin" / "python").exists():
        raise StepFailed(
            f"{free / 1e9:.1f} GB are free, {NEEDED_BYTES / 1e9:.0f} GB are needed", "Free some space."
        )


def create(step: Step, python: str, venv: Path) -> None:
    """Make the virtual environment, or keep one of the same Python version."""
    inside = venv / "bin" / "python"
    if inside.exists() and pythons.ask(str(inside)) == pythons.ask(python):
        return
    clear = ["--clear"] if inside.exists() or (venv / "bin").exists() else []
    try:
        step.run([python, "-m", "venv", *clear, venv])
    except StepFailed as error:
        error.cure = error.cure or f"Python's venv module may be missing: {PACKAGES['venv']}"
        raise


def requirements(chosen: dict[str, str]) -> str:
    """The lock as this environment needs it: TensorFlow with CUDA on a GPU machine, no MPI beside a site's.

    A site's MPI also gets an mpi4py of its own, see install_mpi4py.
    """
    lines = (ENV / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if chosen.get("MPI_HOME"):
        lines = [line for line in lines if not re.match(r"(mpich|mpi4py)==", line)]
    if chosen.get("GPU_OPERATIONS"):
        lines = [re.sub(r"^tensorflow-cpu==", "tensorflow==", line) for line in lines]
    return "\n".join(lines) + "\n"


def install(step: Step, venv: Path, chosen: dict[str, str]) -> None:
    """Install the pinned packages."""
    lock = venv / "setup-requirements.txt"
    lock.write_text(requirements(chosen), encoding="utf-8")
    index = ["--extra-index-url", chosen["TORCH_INDEX"]] if chosen.get("TORCH_INDEX") else []
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    step.run([*pip, "install", "-r", lock, *index], progress=pip_progress)


def install_mpi4py(step: Step, venv: Path, env: dict[str, str]) -> None:
    """Compile mpi4py against the site's MPI, so that it and Horovod load the same library."""
    lines = (ENV / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = next(line for line in lines if line.startswith("mpi4py=="))
    env = dict(env, CFLAGS="-O1 -g0")  # one huge generated file: -O3 takes minutes and gains nothing
    step.run(
        [venv / "bin" / "python", "-m", "pip", "install", "--no-binary", "mpi4py", "--no-cache-dir",
         "--no-deps", "--force-reinstall", pinned],
        env=env, progress=pip_progress,
    )  # fmt: skip


def install_labkit(step: Step, venv: Path) -> None:
    """Install labkit from this checkout, and a Jupyter kernel and settings of this environment only."""
    python = venv / "bin" / "python"
    step.run([python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-input", "-e", ROOT])
    kernel = [python, "-m", "ipykernel", "install", "--prefix", venv, "--name", "python3"]
    step.run([*kernel, "--display-name", "Python 3"])
    settings = venv / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    # Long lines of code wrap, and no question about news covers the first notebook.
    shutil.copy(Path(__file__).with_name("jupyterlab_overrides.json"), settings / "overrides.json")
    # The file browser shows what is for learners: in labs/ the scripts, labkit and support.
    server = venv / "etc" / "jupyter" / "jupyter_server_config.d"
    server.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("jupyter_server_config.json"), server / "labs.json")

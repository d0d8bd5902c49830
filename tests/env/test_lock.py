"""Both locks, made from small requirements by the real pip."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.env import wheels

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def needing(folder: Path, name: str, version: str, *needs: str) -> None:
    """A wheel that asks for others."""
    wheels.make(folder, name, version, {}, needs)


@pytest.fixture
def lock(tmp_path):
    """Runs a copy of lock.py beside small requirements; all Pythons are this one, all packages `offered`."""
    env = tmp_path / "env"
    env.mkdir()
    shutil.copy(ROOT / "env" / "lock.py", env)
    (env / "requirements.in").write_text(
        "torch==2.13.0 # why\ntensorflow-cpu==2.21.0 # why\nnumpy # why\n", encoding="utf-8"
    )
    (env / "requirements-gpu.in").write_text(
        "torch==2.10.0 # why\ntensorflow==2.21.0 # why\nnvidia-cuda-nvcc-cu12==12.8.93 # why\n",
        encoding="utf-8",
    )
    offered = tmp_path / "offered"
    needing(offered, "torch", "2.13.0", "filelock")
    needing(offered, "tensorflow-cpu", "2.21.0", "numpy")
    needing(offered, "tensorflow", "2.21.0", "numpy")
    for name, versions in {
        "numpy": ("2.4.5", "2.4.6"),
        "filelock": ("4.1.0", "4.2.0"),
        "nvidia-cuda-nvcc-cu12": ("12.8.93",),
        "nvidia-cuda-runtime-cu12": ("12.8.90",),
    }.items():
        for version in versions:
            wheels.make(offered, name, version, {})
    for version in PYTHONS:
        python = tmp_path / "bin" / f"python{version}"
        python.parent.mkdir(exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
        python.chmod(0o755)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        variables = {
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(offered),
            "PIP_CONFIG_FILE": "/dev/null",
        }
        command = [sys.executable, str(env / "lock.py"), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)

    return run


def locked(folder: Path, name: str) -> list[str]:
    """The lines of a lock."""
    lines = (folder / "env" / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.slow
def test_gpu_machines_get_their_own_versions_and_else_the_same(lock, tmp_path):
    needing(tmp_path / "offered", "torch", "2.10.0", "filelock", "nvidia-cuda-runtime-cu12==12.8.90")
    kept = tmp_path / "kept.txt"
    kept.write_text("numpy==2.4.5\n", encoding="utf-8")
    done = lock(str(kept))
    assert done.returncode == 0, done.stderr
    plain = locked(tmp_path, "requirements.txt")
    assert plain == ["filelock==4.2.0", "numpy==2.4.5", "tensorflow-cpu==2.21.0", "torch==2.13.0"]
    # CUDA's runtime is left to torch, which names it; nvcc's package is asked for by name
    assert locked(tmp_path, "requirements-gpu.txt") == [
        "filelock==4.2.0",
        "numpy==2.4.5",
        "nvidia-cuda-nvcc-cu12==12.8.93",
        "tensorflow==2.21.0",
        "torch==2.10.0",
    ]


@pytest.mark.slow
def test_versions_that_do_not_fit_gpu_machines_are_chosen_anew(lock, tmp_path):
    needing(tmp_path / "offered", "torch", "2.10.0", "filelock<4.2", "nvidia-cuda-runtime-cu12==12.8.90")
    done = lock()
    assert done.returncode == 0, done.stderr
    assert "Python 3.10: the kept versions do not fit" in done.stdout
    assert "filelock==4.2.0" in locked(tmp_path, "requirements.txt")
    assert "filelock==4.1.0" in locked(tmp_path, "requirements-gpu.txt")


@pytest.mark.slow
def test_a_pip_that_offers_a_pytorch_without_cuda_writes_no_lock(lock, tmp_path):
    needing(tmp_path / "offered", "torch", "2.10.0+cpu", "filelock")
    done = lock()
    assert done.returncode == 1
    assert "Python 3.10: torch 2.10.0+cpu comes without nvidia-cuda-runtime-cu12" in done.stderr
    assert "PIP_CONFIG_FILE=/dev/null" in done.stderr
    assert not (tmp_path / "env" / "requirements-gpu.txt").exists()


# The first of each series that a system brought: Ubuntu 22.04, Debian 12, Ubuntu 24.04, Fedora 41.
FIRST = {(3, 10): "3.10.4", (3, 11): "3.11.2", (3, 12): "3.12.3", (3, 13): "3.13.0"}


def test_what_is_installed_also_runs_on_the_first_python_of_this_series_that_a_system_brings():
    """pip here has a later one, and locks what a bare Debian then refuses."""
    first = FIRST[sys.version_info[:2]]
    hubs_own = [str(folder) for folder in ROOT.glob(".venv/hub/lib/python*/site-packages")]
    too_new = [
        f"{found.name} {found.version} wants Python {wanted}"
        for found in importlib.metadata.distributions(path=[*sys.path, *hubs_own])
        if (wanted := found.metadata.get("Requires-Python")) and not SpecifierSet(wanted).contains(first)
    ]
    assert too_new == []

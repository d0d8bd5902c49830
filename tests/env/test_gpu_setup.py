"""The set-up with GPU_OPERATIONS as a user starts it, with a toolkit and packages of a few bytes.

The real one takes gigabytes: it was run by tests/figures/gpu_build.py at commit 13f0bf9.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from env.install import environment, steps
from tests.env import wheels

NVCC = """#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 12.4, V12.4.131";;
--dryrun) echo '#$ TOP={home}/bin/..';;
esac
"""
TORCH = {"torch/__init__.py": "", "torch/version.py": "cuda = {cuda!r}\n"}


@pytest.fixture
def toolkit(tmp_path) -> Path:
    """A CUDA toolkit whose nvcc is content with everything."""
    home = tmp_path / "cuda"
    nvcc = home / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(NVCC.format(home=home), encoding="utf-8")
    nvcc.chmod(0o755)
    return home


def offer(folder: Path, cuda: str | None, local: str = "") -> None:
    """A folder from which pip takes PyTorch and TensorFlow."""
    files = {name: text.format(cuda=cuda) for name, text in TORCH.items()}
    wheels.make(folder, "torch", f"2.10.0{local}", files)
    wheels.make(folder, "tensorflow", "2.21.0", {"tensorflow/__init__.py": ""})


@pytest.fixture
def gpu_set_up(checkout, set_up, toolkit, tmp_path):
    """Runs `make setup GPU_OPERATIONS=NCCL` of a checkout that asks for the frameworks alone."""
    (checkout / "env" / "requirements.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    wheels.make(tmp_path / "offered", "nvidia-cuda-nvcc-cu12", "12.8.93", {"nvidia/__init__.py": ""})

    def run(**variables: str) -> subprocess.CompletedProcess:
        return set_up(
            PYTHON=sys.executable, GPU_OPERATIONS="NCCL", CUDA_HOME=str(toolkit), PIP_NO_INDEX="1",
            PIP_FIND_LINKS=str(tmp_path / "offered"), PIP_CONFIG_FILE="/dev/null", **variables,
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_pip_offers_a_pytorch_without_cuda(gpu_set_up, set_up, checkout, tmp_path):
    offer(tmp_path / "offered", cuda=None, local="+cpu")
    done = gpu_set_up()
    assert done.returncode == 1
    assert "step 3 (Packages) failed: pip brought PyTorch 2.10.0+cpu, a build without CUDA" in done.stderr
    assert "cure: PyPI's for x86-64 is the one with CUDA." in done.stderr
    assert "Traceback" not in done.stderr
    # the settings are kept: the next call goes on with them, and says so when it fails
    assert environment.kept(checkout / ".venv")["GPU_OPERATIONS"] == "NCCL"
    again = set_up(PYTHON="python1.0")
    assert "with: GPU_OPERATIONS=NCCL" in again.stderr


def installed(venv: Path) -> set[str]:
    """Packages in that environment."""
    listed = [venv / "bin" / "python", "-m", "pip", "list", "--format=freeze"]
    done = subprocess.run(listed, capture_output=True, text=True, check=True)
    return {line.split("==")[0] for line in done.stdout.splitlines()}


@pytest.mark.slow
def test_the_other_kind_of_machines_frameworks_are_removed(tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    names = {"torch": "2.10.0", "tensorflow": "2.21.0", "triton": "3.6.0", "nvidia-nccl-cu12": "2.27.5"}
    names |= {"nvidia-ml-py": "13.0", "cuda-bindings": "12.9.4", "rich": "15.0.0"}
    made = [
        wheels.make(tmp_path / "wheels", name, version, {f"{name.replace('-', '_')}.py": ""})
        for name, version in names.items()
    ]
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, *made], check=True)
    before = installed(venv)
    step = steps.Step(1, 1, "Packages", tmp_path / "log")
    environment.remove_other_kind(step, venv, {"GPU_OPERATIONS": "NCCL"})
    assert installed(venv) == before  # they are this kind's
    environment.remove_other_kind(step, venv, {})
    assert before - installed(venv) == {"torch", "tensorflow", "triton", "nvidia-nccl-cu12", "cuda-bindings"}
    environment.remove_other_kind(step, venv, {})  # and nothing more

"""Builds of Horovod side by side: which are asked for, where they lie, and what the set-up says of
them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from env.horovod import flavours
from env.install import steps, verify
from tests.env import wheels
from tests.helpers import ran

ROOT = Path(__file__).resolve().parents[2]
VERIFY = ROOT / "env" / "install" / "verify_ranks.py"
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("operations", "names"),
    [("", ["host"]), ("MPI", ["host", "mpi"]), ("MPI NCCL", ["host", "nccl", "mpi"])],
)
def test_which_builds_are_wanted(operations, names):
    assert flavours.wanted(operations) == names


@pytest.fixture
def venv(tmp_path) -> Path:
    """A real virtual environment's folder, with this Python's pip in it."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    return venv


def horovod_wheel(folder: Path, text: str) -> Path:
    """A wheel of a package `horovod` that says `text`."""
    files = {"horovod/__init__.py": f"says = {text!r}\n", flavours.METADATA: "{}"}
    return wheels.make(folder, "horovod", "0.28.1", files)


def say(venv: Path, python_path: Path | None = None) -> str:
    """What a process says that imports Horovod in that environment."""
    ask = "import horovod, importlib.metadata as m; print(horovod.says, m.version('horovod'))"
    env = {"PYTHONPATH": str(python_path)} if python_path else {}
    return ran(venv / "bin" / "python", "-c", ask, env=env).stdout.strip()


@pytest.mark.slow
def test_builds_lie_side_by_side_and_pythonpath_chooses(tmp_path, venv):
    step = steps.Step(1, 1, "Horovod", tmp_path / "log")
    names = ["host", "nccl", "mpi"]
    for name in names:
        wheel = horovod_wheel(tmp_path / name, name)
        flavours.install(step, venv, name, wheel)
        assert flavours.is_installed(flavours.folder(venv, name), wheel)
    flavours.keep_only(venv, names)

    listed = json.loads((venv / "horovod-builds.json").read_text(encoding="utf-8"))
    folders = {name: venv / folder for name, folder in listed["folders"].items()}
    assert (listed["default"], list(folders)) == ("host", names)
    assert say(venv) == "host 0.28.1"
    for name, folder in folders.items():
        assert say(venv, folder) == f"{name} 0.28.1"
    assert flavours.all_there(venv)

    # the same file is not installed again, another one is
    before = (tmp_path / "log").read_text(encoding="utf-8")
    flavours.install(step, venv, "nccl", tmp_path / "nccl" / wheel.name)
    assert (tmp_path / "log").read_text(encoding="utf-8") == before
    flavours.install(step, venv, "nccl", horovod_wheel(tmp_path / "newer", "newer"))
    assert say(venv, folders["nccl"]) == "newer 0.28.1"

    # what is no longer asked for goes
    flavours.keep_only(venv, ["host", "mpi"])
    assert not flavours.folder(venv, "nccl").exists()
    assert flavours.all_there(venv)
    (flavours.folder(venv, "mpi") / flavours.METADATA).unlink()
    assert not flavours.all_there(venv)
    (venv / flavours.LIST).write_text("{", encoding="utf-8")
    assert not flavours.all_there(venv)


def answer(**more) -> dict:
    """What rank 0 says of a build that is as it should be."""
    facts = {"what": "torch", "flavour": "nccl", "by": "MPI", "horovod": "/place"}
    return facts | {"nccl_built": 22705, "gpu": "no GPU is visible"} | more


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"by": "Gloo"}, "Horovod used Gloo"),
        ({"horovod": "/other"}, "Horovod came from /other, not from /place"),
        ({"nccl_built": 0}, "nccl_built() says 0"),
    ],
)
def test_answers_are_judged(more, said):
    assert verify.wrong(answer(**more), "MPI", Path("/place")) == said


@pytest.mark.parametrize(
    ("takes", "said"),
    [(True, None), (False, "says that it does not take"), (None, "does not say whether")],
)
def test_an_mpi_that_is_not_cuda_aware_is_told_beside_the_mpi_build(takes, said):
    mpi4py = {"what": "mpi4py", "flavour": "host", "takes_gpu_memory": takes}
    assert verify.warnings([mpi4py, answer()]) == []
    warnings = verify.warnings([mpi4py, answer(flavour="mpi")])
    assert len(warnings) == (said is not None)
    for warning in warnings:
        assert said in warning
        assert "hand it no tensor on a GPU" in warning
        assert "MPI_HOME=" in warning


def library(folder: Path, name: str) -> Path:
    """A real shared library of that name."""
    source = folder / f"{name}.c"
    source.write_text("int nothing;\n", encoding="utf-8")
    file = folder / name
    assert ran("c++", "-x", "c", "-shared", "-fPIC", "-o", file, source).returncode == 0
    return file


@pytest.mark.parametrize(
    ("names", "subject"),
    [
        (["libcudart.so.12", "libcudart.so.13"], "CUDA runtime"),
        (["libnccl.so.2", "libnccl.so"], "NCCL"),
    ],
)
def test_two_libraries_in_one_process_end_the_verification(tmp_path, names, subject):
    files = [str(library(tmp_path, name)) for name in names]
    script = (
        "import ctypes, runpy, sys\n"
        f"handles = [ctypes.CDLL(file) for file in {files!r}]\n"
        "sys.argv = ['verify_ranks.py', 'mpi4py']\n"
        f"runpy.run_path({str(VERIFY)!r}, run_name='__main__')\n"
    )
    done = ran(sys.executable, "-c", script)
    assert done.returncode == 1
    says = rf"error: mpi4py on rank 0 holds 2 libraries of {subject}: "
    assert re.search(says, done.stderr), done.stderr
    assert all(file in done.stderr for file in files)

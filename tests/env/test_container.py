"""The container: who builds it, and the learner's copy; tests/figures/container.py builds the real
one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from env.container import builder, start
from env.install.steps import StepFailed

ROOT = Path(__file__).resolve().parents[2]
BOOK, SITE, MODULE = (
    "notebooks/00_check_environment.ipynb",
    "slurm/sites/ours.sh",
    "labs/labkit/lab.py",
)


def program(name: str, folder: Path, status: int) -> None:
    """A program of that name that does nothing but end with that status."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_builder_that_does_not_answer_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StepFailed, match="none of them is here"):
        builder.find()
    program("docker", tmp_path, 1)
    with pytest.raises(StepFailed, match="docker cannot be used"):
        builder.find()
    program("buildah", tmp_path, 0)
    assert builder.find().name == "buildah"
    program("podman", tmp_path, 0)
    assert builder.find().name == "podman"


def test_an_image_for_gpus_begins_with_a_toolkit_and_is_given_the_gpus():
    plain = builder.build_arguments("learners", "", {"TORCH_INDEX": "https://cpu"})
    assert (plain["BASE"], plain["GPU_OPERATIONS"]) == ("", "")
    given = builder.build_arguments("learners", "", {"GPU_OPERATIONS": "NCCL MPI"})
    assert given["BASE"] == builder.GPU_BASE
    words = builder.Builder("podman", "podman").command(ROOT, given, [])
    assert "--build-arg=GPU_OPERATIONS=NCCL MPI" in words
    recipe = (ROOT / "env" / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r'GPU_OPERATIONS="\$\{GPU_OPERATIONS\}" python3 env/setup.py', recipe)
    own = builder.build_arguments("learners", "ours", {"GPU_OPERATIONS": "NCCL"})
    assert own["BASE"] == "ours"
    assert " --gpus all " in builder.start_command("docker", gpus=True)
    assert " --device nvidia.com/gpu=all " in builder.start_command("/usr/bin/podman", gpus=True)
    with pytest.raises(StepFailed, match="needs PyTorch's CUDA build"):
        builder.build_arguments("learners", "", {"GPU_OPERATIONS": "NCCL", "TORCH_INDEX": "cpu"})


@pytest.mark.parametrize(("suffix", "reader"), [(".tar", "cat"), (".tar.gz", "zcat")])
def test_the_archive_is_whole_or_not_there(tmp_path, suffix, reader):
    target = tmp_path / f"labs{suffix}"
    words = tmp_path / "podman"
    words.write_text('#!/bin/sh\necho "$@"\n[ ! -e "$0.fails" ]\n', encoding="utf-8")
    words.chmod(0o755)
    podman = builder.Builder("podman", str(words))
    (tmp_path / "podman.fails").touch()
    with pytest.raises(StepFailed, match="could not be written"):
        builder.write_archive(podman, target)
    assert not list(tmp_path.glob("labs*"))
    (tmp_path / "podman.fails").unlink()
    builder.write_archive(podman, target)
    said = subprocess.run([reader, target], capture_output=True, text=True, check=True).stdout
    # A `podman save` would name it localhost/hpdl-labs alone, which `docker run hpdl-labs` does not
    # find.
    assert said == "push --quiet hpdl-labs docker-archive:/dev/stdout:hpdl-labs:latest\n"


def test_the_page_tells_the_command_that_starts_and_that_reaches_nobody_else():
    command = builder.start_command("podman")
    assert "-p 127.0.0.1:8888:8888" in command
    assert command in (ROOT / "docs" / "CONTAINER.md").read_text(encoding="utf-8")


# --- the learner's copy


@pytest.fixture
def course(tmp_path) -> Path:
    """A small course: a notebook, a module, and what learners do not get."""
    folder = tmp_path / "course"
    for name in (BOOK, MODULE, SITE, "env/setup.py", ".venv/bin/python"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}, first", encoding="utf-8")
    shutil.copytree(ROOT / "env" / "container", folder / "env" / "container")
    return folder


def test_a_newer_course_leaves_what_the_learner_wrote(course, tmp_path):
    copy = tmp_path / "copy"
    assert start.deliver(course, copy) == []
    assert (copy / BOOK).read_text(encoding="utf-8") == f"{BOOK}, first"
    assert (copy / ".venv" / "bin" / "python").exists()
    assert not (copy / "env").exists(), "make would set up again"
    (copy / SITE).write_text("mine", encoding="utf-8")
    assert start.deliver(course, copy) == [], "nothing is newer"
    for name in (BOOK, SITE, MODULE):
        (course / name).write_text(f"{name}, second", encoding="utf-8")
    assert start.deliver(course, copy) == [SITE]
    texts = [(copy / name).read_text(encoding="utf-8") for name in (SITE, MODULE, BOOK)]
    assert texts == ["mine", f"{MODULE}, second", f"{BOOK}, second"]
    (copy / SITE).unlink()
    start.deliver(course, copy)
    assert (copy / SITE).read_text(encoding="utf-8") == f"{SITE}, second", "it begins afresh"


# A seccomp filter, as a container has one: process_vm_readv fails with EPERM. Then it becomes the
# command.
FORBID = """\
import ctypes, os, struct, sys
CALL = {"x86_64": 310, "aarch64": 270}[os.uname().machine]
# Load the call's number; if it is this one, fail with errno 1; else allow.
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, CALL), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, a filter
os.execv(sys.argv[1], sys.argv[1:])
"""
SHOW = "pwd; echo $PYTHONPATH; echo $PATH; echo $MPIR_CVAR_CH4_CMA_ENABLE"


@pytest.mark.parametrize(
    ("before", "chosen", "told"),
    [
        ([], {}, ""),
        # In Docker 20.10 ranks cannot read each other's memory, and MPICH does not try beforehand.
        ([sys.executable, "-c", FORBID], {}, "0"),
        ([sys.executable, "-c", FORBID], {"MPIR_CVAR_CH4_CMA_ENABLE": "1"}, "1"),
    ],
)
def test_a_command_runs_in_the_copy(course, tmp_path, before, chosen, told):
    copy = tmp_path / "copy"
    env = {**os.environ, "LABS_COPY": str(copy), **chosen}
    command = [*before, sys.executable, str(course / "env" / "container" / "start.py")]
    done = subprocess.run([*command, "sh", "-c", SHOW], env=env, capture_output=True, text=True)
    folder, modules, path, mpi = done.stdout.splitlines()
    assert (folder, modules, mpi) == (str(copy), str(copy / "labs"), told)
    assert path.startswith(str(course / ".venv" / "bin"))
    done = subprocess.run([*command, "no-such-command"], env=env, capture_output=True, text=True)
    assert (done.returncode, "no-such-command cannot be started" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "0.0.0.0"),  # the container's own network
        ({"APPTAINER_CONTAINER": "/labs.sif"}, "127.0.0.1"),  # the machine's
        ({"LABS_ADDRESS": "127.0.0.1"}, "127.0.0.1"),
    ],
)
def test_jupyterlab_listens_where_it_may(variables, address):
    words = start.jupyter(Path("/home/learner/labs"), variables)
    assert f"--ip={address}" in words
    assert "--KernelManager.transport_encryption=required" in words
    assert not [word for word in words if "token" in word], "Jupyter makes one at each start"

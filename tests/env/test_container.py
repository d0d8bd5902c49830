"""The container: its list of packages, its command, the sentence without a builder, and the learner's copy.

The real image is built and started by tests/figures/container.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from env.container import builder, start
from env.install.steps import StepFailed

ROOT = Path(__file__).resolve().parents[2]


def program(name: str, folder: Path, status: int) -> None:
    """A program of that name that does nothing but end with that status."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_builder_that_does_not_answer_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    program("docker", tmp_path, 1)
    with pytest.raises(StepFailed, match="docker cannot be used") as failure:
        builder.find()
    assert "Docker or Podman Desktop" in failure.value.cure
    program("buildah", tmp_path, 0)
    assert builder.find().name == "buildah"
    program("podman", tmp_path, 0)
    assert builder.find().name == "podman"


@pytest.mark.parametrize(
    ("image", "named"), [("labs", "labs:latest"), ("here:5000/labs:2", "here:5000/labs:2")]
)
def test_the_archive_has_the_name_that_docker_looks_for(image, named):
    """A `podman save` would name it localhost/labs alone, and `docker run labs` would not find it."""
    for name in ("podman", "buildah"):
        words = builder.Builder(name, f"/bin/{name}").save(image)
        assert words == [f"/bin/{name}", "push", "--quiet", image, f"docker-archive:/dev/stdout:{named}"]
    assert builder.Builder("docker", "/bin/docker").save(image) == ["/bin/docker", "save", image]


def test_the_command_that_starts_reaches_nobody_else():
    words = builder.start_command("docker", "hpdl-labs")
    assert "-p 127.0.0.1:8888:8888" in words
    assert "--shm-size=" in words
    guide = (ROOT / "docs" / "CONTAINER.md").read_text(encoding="utf-8")
    assert builder.start_command("podman", "hpdl-labs") in guide


# --- the learner's copy

COPY = Path("/home/learner/labs")
BOOK, SCRIPT = "notebooks/00_check_environment.ipynb", "slurm/sites/ours.sh"


@pytest.fixture
def course(tmp_path):
    """A small course: a notebook, a module, and what learners do not get."""
    folder = tmp_path / "course"
    for name in (
        "notebooks/00_check_environment.ipynb",
        "labs/labkit/lab.py",
        SCRIPT,
        "env/setup.py",
        ".venv/bin/python",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}, first", encoding="utf-8")
    return folder


def test_the_copy_is_the_course_with_its_environment(course, tmp_path):
    copy = tmp_path / "copy"
    assert start.deliver(course, copy) == []
    assert (copy / BOOK).read_text(encoding="utf-8") == f"{BOOK}, first"
    assert (copy / ".venv" / "bin" / "python").exists()
    assert not (copy / "env").exists(), "make would set up again"


def test_a_newer_course_leaves_what_the_learner_wrote(course, tmp_path):
    copy = tmp_path / "copy"
    start.deliver(course, copy)
    (copy / BOOK).write_text("mine", encoding="utf-8")
    (copy / SCRIPT).write_text("mine", encoding="utf-8")
    assert start.deliver(course, copy) == [], "nothing is newer"
    for name in (BOOK, SCRIPT, "labs/labkit/lab.py"):
        (course / name).write_text(f"{name}, second", encoding="utf-8")
    assert start.deliver(course, copy) == [SCRIPT]
    assert (copy / SCRIPT).read_text(encoding="utf-8") == "mine"
    assert (copy / "labs/labkit/lab.py").read_text(encoding="utf-8") == "labs/labkit/lab.py, second"
    assert (copy / BOOK).read_text(encoding="utf-8") == f"{BOOK}, second"
    assert (copy / "work" / Path(BOOK).name).read_text(encoding="utf-8") == "mine", "a lab's own place"


def test_a_command_runs_in_the_copy(course, tmp_path):
    shutil.copytree(ROOT / "env" / "container", course / "env" / "container")
    env = {**os.environ, "LABS_COPY": str(tmp_path / "copy")}
    script = course / "env" / "container" / "start.py"
    command = [sys.executable, str(script), "sh", "-c", "pwd; echo $PYTHONPATH; echo $PATH"]
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[:2] == [str(tmp_path / "copy"), str(tmp_path / "copy" / "labs")]
    assert said[2].startswith(str(course / ".venv" / "bin"))
    done = subprocess.run([*command[:2], "no-such-command"], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no-such-command cannot be started" in done.stderr


# A seccomp filter, as a container has one: process_vm_readv fails with EPERM. Then it becomes the command.
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


@pytest.mark.parametrize(("chosen", "told"), [({}, "0"), ({"MPIR_CVAR_CH4_CMA_ENABLE": "1"}, "1")])
def test_mpi_hears_that_ranks_cannot_read_each_others_memory(course, tmp_path, chosen, told):
    """In Docker 20.10 a message of 160 kB failed: MPICH does not try beforehand."""
    shutil.copytree(ROOT / "env" / "container", course / "env" / "container")
    env = {**os.environ, "LABS_COPY": str(tmp_path / "copy"), **chosen}
    words = [str(course / "env" / "container" / "start.py"), "printenv", "MPIR_CVAR_CH4_CMA_ENABLE"]
    command = [sys.executable, "-c", FORBID, sys.executable, *words]
    said = subprocess.run(command, env=env, capture_output=True, text=True)
    assert said.stdout.strip() == told, said.stderr


def test_jupyterlab_listens_where_it_may():
    assert "--ip=0.0.0.0" in start.jupyter(COPY, {}), "the container's own network"
    assert "--ip=127.0.0.1" in start.jupyter(COPY, {"APPTAINER_CONTAINER": "/labs.sif"}), (
        "the machine's network"
    )
    assert "--ip=127.0.0.1" in start.jupyter(COPY, {"LABS_ADDRESS": "127.0.0.1"})
    assert "--KernelManager.transport_encryption=required" in start.jupyter(COPY, {})
    assert not [word for word in start.jupyter(COPY, {}) if "token" in word], (
        "Jupyter makes one at each start"
    )

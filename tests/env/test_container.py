"""The container: who builds it, and the learner's copy; tests/figures/container.py tries the real
one."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from env.container import start
from tests.helpers import program, ran

ROOT = Path(__file__).resolve().parents[2]
BOOK = "notebooks/00_check_environment.ipynb"
MISTAKES = "tests/labs/wrong_answers/40_horovod_pytorch.py"
SITE, MODULE = "slurm/sites/ours.sh", "labs/labkit/lab.py"

# What `make setup` and the release are there: an archive with the recipe alone.
MAKEFILE = "setup:\n\t@echo set up with [$(GPU_OPERATIONS)]\n"
RELEASE = """for edition in learners instructors; do
    tar -czf "$5/labs-$edition-1.tar.gz" --transform "s,^env,labs-$edition-1/env," env/Containerfile
done
"""
# A builder that says what it is asked, and with which files; it fails to save where NAME.full is.
BUILDER = """case $1 in
info) exit 0 ;;
build) shift; echo "$@"; (cd "$(for last; do :; done; echo "$last")" && find . -type f | sort) ;;
*) echo "$@"; [ ! -e "$0.full" ] ;;
esac
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Runs build.sh in a checkout whose set-up and release are shell scripts, and with these
    builders."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "env" / "container", root / "env" / "container")
    shutil.copy(ROOT / "env" / "Containerfile", root / "env")
    (root / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    program(root / ".venv" / "bin" / "python", RELEASE)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("podman", "docker", "buildah"):
        program(tmp_path / "bin" / name, "exit 1")

    def run(*words: str, builder: str = "", **settings: str) -> CompletedProcess:
        if builder:
            program(tmp_path / "bin" / builder, BUILDER)
        env = os.environ | {"GPU_OPERATIONS": "", "TORCH_INDEX": ""} | settings
        return ran("bash", root / "env" / "container" / "build.sh", *words, env=env)

    return run


def test_the_image_is_built_of_a_release_by_a_builder_that_answers(build, tmp_path):
    wheel = tmp_path / "cache/hpdl-labs/wheels/abc/horovod-1.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    (wheel.parents[1] / "abc.lock").touch()
    done = build("--options", "--network=host", "--label", "a b", builder="docker")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    words = "-t hpdl-labs --build-arg=SECTIONS=setup tabletop container --network=host --label a b "
    assert (said[0], words in said[1]) == ("set up with []", True)
    assert said[2:4] == ["./build/wheels/abc/horovod-1.whl", "./env/Containerfile"]
    start = said[-1].strip().replace("docker run", "podman run")
    assert "-p 127.0.0.1:8888:8888" in start, "it reaches nobody else"
    assert start in (ROOT / "docs" / "CONTAINER.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("base", "begins", "builder", "devices"),
    [
        ("", "docker.io/nvidia/cuda:12", "buildah", "-it --device nvidia.com/gpu=all"),
        ("ours", "ours", "docker", "docker run --rm -it --gpus all"),
    ],
)
def test_an_image_for_gpus_begins_with_a_toolkit_and_is_given_the_gpus(
    build, base, begins, builder, devices
):
    words = [f"--base={base}"] if base else []
    done = build("--edition=instructors", *words, builder=builder, GPU_OPERATIONS="NCCL MPI")
    assert "set up with []" in done.stdout, "GPU_OPERATIONS is for the image"
    assert f"--build-arg=BASE={begins}" in done.stdout
    assert "--build-arg=GPU_OPERATIONS=NCCL MPI" in done.stdout
    assert "SECTIONS=setup tabletop container tests" in done.stdout
    assert devices in done.stdout
    recipe = (ROOT / "env" / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r'GPU_OPERATIONS="\$\{GPU_OPERATIONS\}" python3 env/setup.py', recipe)


@pytest.mark.parametrize(("suffix", "reader"), [(".tar", "cat"), (".tar.gz", "zcat")])
def test_the_archive_is_whole_or_not_there(build, tmp_path, suffix, reader):
    target = tmp_path / f"labs{suffix}"
    (tmp_path / "bin" / "podman.full").touch()
    failed = build(f"--archive={target}", builder="podman")
    assert (failed.returncode, "could not be written" in failed.stderr) == (1, True)
    assert not list(tmp_path.glob("labs*"))
    (tmp_path / "bin" / "podman.full").unlink()
    build(f"--archive={target}")
    said = ran(reader, target).stdout
    # A `podman save` would name it localhost/hpdl-labs alone, which `docker run hpdl-labs` does not
    # find.
    assert said == "push --quiet hpdl-labs docker-archive:/dev/stdout:hpdl-labs:latest\n"


@pytest.mark.parametrize(
    ("word", "settings", "said"),
    [
        ("", {}, "none of them answers `info` here"),
        ("--edition=mine", {}, "EDITION is learners or instructors"),
        ("--archive=labs.zip", {}, "ends in .tar or .tar.gz"),
        ("", {"GPU_OPERATIONS": "NCCL", "TORCH_INDEX": "cpu"}, "needs PyTorch's CUDA build"),
    ],
)
def test_what_it_refuses(build, word, settings, said):
    done = build(*([word] if word else []), **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "cure: " in done.stderr


# --- the learner's copy


@pytest.fixture
def course(tmp_path) -> Path:
    """A small course: a notebook, a module, and what learners do not get."""
    folder = tmp_path / "course"
    for name in (BOOK, MODULE, SITE, MISTAKES, "env/setup.py", ".venv/bin/python"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}, first", encoding="utf-8")
    shutil.copytree(ROOT / "env" / "container", folder / "env" / "container")
    return folder


def test_a_checkout_is_no_copy(course, tmp_path):
    env = os.environ | {"LABS_COPY": str(tmp_path / "clone")}
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    done = ran(sys.executable, course / "env" / "container" / "start.py", "pwd", env=env)
    assert (done.returncode, "is a checkout of its own" in done.stderr) == (1, True)
    assert [path.name for path in (tmp_path / "clone").iterdir()] == [".git"]


def test_a_newer_course_leaves_what_the_learner_wrote(course, tmp_path):
    copy = tmp_path / "copy"
    assert start.deliver(course, copy) == []
    assert (copy / BOOK).read_text(encoding="utf-8") == f"{BOOK}, first"
    assert (copy / ".venv" / "bin" / "python").exists()
    assert not (copy / "env").exists(), "make would set up again"
    assert (copy / MISTAKES).exists(), "the guide lists them, the tour takes small parameters there"
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
    done = ran(*command, "sh", "-c", SHOW, env=env)
    folder, modules, path, mpi = done.stdout.splitlines()
    assert (folder, modules, mpi) == (str(copy), str(copy / "labs"), told)
    assert path.startswith(str(course / ".venv" / "bin"))
    done = ran(*command, "no-such-command", env=env)
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

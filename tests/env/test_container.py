"""The container: its list of packages, its command, the sentence without a builder, and the learner's copy.

The real image is built and started by tests/figures/container.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from env.container import builder, start
from env.install import debian
from env.install.steps import StepFailed

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = (ROOT / "env" / "Containerfile").read_text(encoding="utf-8")
INSTRUCTIONS = {"ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "ENTRYPOINT"}


def instructions() -> list[tuple[str, str]]:
    """(instruction, its words) of the Containerfile, continued lines joined."""
    lines = [line for line in CONTAINERFILE.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "")
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def program(name: str, folder: Path, status: int) -> None:
    """A program of that name that does nothing but end with that status."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)


def test_the_containerfile_is_read_as_instructions():
    names = [name for name, _ in instructions()]
    assert set(names) <= INSTRUCTIONS
    assert names[:2] == ["ARG", "FROM"]
    users = [words for name, words in instructions() if name == "USER"]
    assert users == ["learner"], "nobody works as root"
    assert names.index("USER") > max(place for place, name in enumerate(names) if name == "RUN")


def test_its_shell_lines_are_right():
    for name, words in instructions():
        if name == "RUN":
            script = re.sub(r"--mount=\S+", "", words)
            done = subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("edition", [builder.LEARNERS, builder.INSTRUCTORS])
def test_it_installs_what_the_list_names(edition):
    """The Containerfile's own awk, run on the list, finds what env/install/debian.py finds."""
    run = next(words for name, words in instructions() if name == "RUN")
    reader = re.search(r"packages=\$\((.*?debian-packages\.txt)\)", run)[1]
    reader = reader.replace("/usr/share/hpdl-labs/debian-packages.txt", str(debian.LIST))
    sections = builder.sections(edition)
    env = {**os.environ, "SECTIONS": " ".join(sections)}
    said = subprocess.run(["sh", "-c", reader], env=env, capture_output=True, text=True, check=True).stdout
    wanted = [name for section in sections for name in debian.packages(section)]
    assert sorted(said.split()) == sorted(wanted)


def test_every_section_is_in_an_image():
    """All but the hub's: that one is a server of many, with Slurm beside it."""
    found = re.findall(r"^\[(\w+)\]", debian.LIST.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(found) - {"hub"} == set(builder.sections(builder.INSTRUCTORS))
    default = re.search(r'^ARG SECTIONS="(.*)"$', CONTAINERFILE, re.MULTILINE)[1]
    assert default.split() == builder.sections(builder.LEARNERS)


def test_the_definition_for_apptainer_begins_with_the_same_image():
    text = (ROOT / "env" / "apptainer.def").read_text(encoding="utf-8")
    header = dict(re.findall(r"^(\w+): (\S+)$", text.split("%")[0], re.MULTILINE))
    assert header == {"Bootstrap": "docker-archive", "From": "hpdl-labs.tar"}
    assert {"help", "runscript"} <= set(re.findall(r"^%(\w+)$", text, re.MULTILINE))
    assert start.__file__.removeprefix(str(ROOT)) in text


def test_without_a_builder_one_sentence(tmp_path):
    """`make container` where there is none of the three: what to install, and no set-up before."""
    for name in ("make", "bash", "awk", "id", "grep", "tr", "dirname", "env"):
        (tmp_path / name).symlink_to(shutil.which(name))
    (tmp_path / "python3").symlink_to(sys.executable)
    done = subprocess.run(
        ["make", "container", f"SHELL={shutil.which('bash')}"], cwd=ROOT, capture_output=True, text=True,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path), "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode != 0
    assert "built by podman, docker or buildah, and none of them is here" in done.stderr
    assert "sudo apt-get install podman" in done.stderr
    assert "Traceback" not in done.stderr


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


def test_the_command_that_builds():
    made = builder.Builder("podman", "/bin/podman").command(
        Path("/context"), "labs", {"BASE": "localhost/debian", "TORCH_INDEX": ""}, ["--network=host"]
    )
    assert made == [
        "/bin/podman", "build", "-f", "/context/env/Containerfile", "-t", "labs",
        "--build-arg", "BASE=localhost/debian", "--network=host", "/context",
    ]  # fmt: skip


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
    guide = (ROOT / "env" / "CONTAINER.md").read_text(encoding="utf-8")
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


def test_a_file_that_was_removed_comes_again(course, tmp_path):
    copy = tmp_path / "copy"
    start.deliver(course, copy)
    (copy / BOOK).unlink()
    assert start.deliver(course, copy) == []
    assert (copy / BOOK).read_text(encoding="utf-8") == f"{BOOK}, first"


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

"""The Makefile's goals, run by make itself in a checkout whose Python writes down its arguments."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from labkit import make, paths

pytestmark = pytest.mark.slow  # each case starts make

REAL = paths.root()
AUDIENCES = ["To learn", "On a cluster", "To teach", "To change the kit"]
# Each would leave a file, were it expanded by make or by a shell.
HOSTILE = (
    "$(shell touch made)",
    "`touch made`",
    "$(touch made)",
    "'; touch made; '",
    '"; touch made; "',
    "ada\ntouch made",
    "${PATH} $$ $ # \\ \\\\ a\\ b ~ * -- = é",
)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout of a Makefile alone, in which each program prints its arguments as a line of
    JSON."""
    root = tmp_path / "checkout"
    (root / "labs" / "labkit").mkdir(parents=True)
    shutil.copy(REAL / "Makefile", root)
    shutil.copy(REAL / "labs/labkit/make.py", root / "labs/labkit")
    (root / ".venv" / "bin").mkdir(parents=True)
    program = root / ".venv" / "bin" / "python"
    program.write_text("#!/usr/bin/python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    shutil.copy(program, program.with_name("jupyter"))
    return root


def put_builders(checkout: Path) -> None:
    """The programs that stand in env/ of a copy that has its own environment."""
    for name in ("mvapich2", "container"):
        (checkout / "env" / name).mkdir(parents=True)
        (checkout / "env" / name / "build.sh").touch()


def put_set_up(checkout: Path, does: str) -> None:
    """A set-up that knows two settings, and does this when it is run."""
    (checkout / "env").mkdir()
    (checkout / "env" / "settings.py").write_text("SETTINGS = ('PYTHON', 'MPI_HOME')\n")
    (checkout / "env" / "setup.py").write_text(f"import os\n{does}\n")


def typed(checkout: Path, *words: str, **environ: str) -> subprocess.CompletedProcess:
    env = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(["make", *words], cwd=checkout, env=env, capture_output=True, text=True)


def arguments(checkout: Path, *words: str, **environ: str) -> list[str]:
    done = typed(checkout, *words, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_is_typed_reaches_the_program_as_it_is(checkout):
    before = sorted(checkout.iterdir())
    for value in HOSTILE:
        assert arguments(checkout, "report", f"FILE={value}") == ["-m", "support.lab80", value]
        names = arguments(checkout, "hub", f"NAMES={value}", f"SITE={value}", "-k")
        assert names == ["-m", "slurm.hub", "up", f"--names={value}", f"--site={value}"]
    assert sorted(checkout.iterdir()) == before


def test_settings_of_the_set_up_are_not_expanded_either(checkout):
    put_set_up(checkout, "print(os.environ.get('PYTHON'), os.environ.get('MPI_HOME'))")
    for value in HOSTILE:
        done = typed(checkout, "setup", f"PYTHON={value}", f"MPI_HOME={value}")
        assert done.stdout == f"{value} {value}\n", done.stderr
    of_a_module = {"PYTHON": "/a python", "MPI_HOME": "/an MPI"}
    assert typed(checkout, "setup", **of_a_module).stdout == "/a python /an MPI\n"
    assert not (checkout / "made").exists()


TWO_WORDS = """submit LAB=40 "SET=epochs=1 batch=2" "ENV=A=1 B='x y'\""""


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("run LAB=40", "labkit run 40"),
        ("run LAB=40 NP=4 SOLVED=1 HOROVOD=x", "labkit run 40 --np=4 --solved --horovod=x"),
        ("doctor", "labkit doctor"),
        ("doctor SITE=delta NODES=2", "slurm.doctor delta --nodes=2"),
        ("site NAME=mine", "slurm.new_site mine"),
        ("board DIR=here HIDDEN=1", "classroom here --hide-names"),
        ("verdict FILE=out.txt LINK=25GB/s NODES=2", "verdict out.txt --link=25GB/s --nodes=2"),
        ("solve LAB=40 EX=40.1", "authoring solve 40 40.1"),
        ("tabletop-fail NODE=2 NAME=x", "slurm.tabletop fail --node=2 --name=x"),
        ("release KEEP_ANSWERS=1", "authoring release --keep-answers"),
        ("release KEEP_ANSWERS=0", "authoring release"),
        ("share NAMED=No HIDDEN=yes", "labkit share --hidden"),
        ("submit LAB=40 DRY=off WAIT=false", "labkit submit 40"),
        ("results LAB=", "labkit results"),
        ("submit LAB=40 DRY=1 SOLVED=1 SET=a=1", "slurm.job.dry 40 --solved --set a=1"),
        ("submit LAB=40 DRY=0 NODES=2", "labkit submit 40 --nodes=2"),
        (TWO_WORDS, "labkit submit 40 --set epochs=1 batch=2 --env A=1 'B=x y'"),
    ],
)
def test_goals(checkout, words, program):
    around = {"HOROVOD": "y", "MPI": "/opt/mpi", "SET": "a=1", "NP": "9"}  # is not asked
    assert arguments(checkout, *shlex.split(words), **around) == ["-m", *shlex.split(program)]


def test_jupyterlab_encrypts_what_kernels_say(checkout):
    words = arguments(checkout, "lab", "PORT=9000")
    assert {"lab", f"--ServerApp.root_dir={checkout}", "--port=9000"} <= set(words)
    assert "--KernelManager.transport_encryption=required" in words


MISTAKES = {  # tests.test_bad_inputs has most words that are missing, and values that cannot be
    "new": "Say which lab: make new LAB=81_my_topic",
    "solve LAB=21": "Say which exercise: make solve LAB=21 EX=21.1",
    "run LAB=40 PN=4": "make run does not know PN; it takes HOROVOD, LAB, MPI, NP, SET, SOLVED.",
    "setup PN=4": "make setup does not know PN; it takes MPI_HOME, PYTHON.",
    "doctor NODES=2": "make doctor does not know NODES; it takes SITE.",
    "run LAB=40 SET='epochs": "SET='epochs: no closing quotation.",
    "sing": "There is no goal 'sing'. make help lists those that there are.",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_get_a_sentence_before_anything_is_set_up(checkout, words):
    put_set_up(checkout, "open('set-up', 'w')")
    done = typed(checkout, *words.split())
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == MISTAKES[words]
    assert not (checkout / "set-up").exists()


def test_what_the_learners_archive_lacks_gets_a_sentence_and_no_help(checkout):
    assert "make solve " in typed(checkout, "help").stdout
    (checkout / "EDITION.json").write_text('{"kind": "learners"}')
    for words in ("solve LAB=40 EX=40.1", "test"):
        done = typed(checkout, *words.split())
        assert done.returncode == 2
        assert f"make {words.split()[0]} is not in the learners' archive" in done.stderr
    assert arguments(checkout, "run", "LAB=40") == ["-m", "labkit", "run", "40"]
    said = typed(checkout, "help").stdout
    assert [f"make {goal} " in said for goal in ("solve", "test", "lab")] == [False, False, True]


def test_a_copy_that_shares_an_environment_does_not_build_for_it(checkout):
    for goal in ("mvapich2", "container"):
        done = typed(checkout, goal)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"make {goal} is not in this copy, whose environment others set up" in done.stderr
        assert f"make {goal} " not in typed(checkout, "help").stdout


def test_every_goal_is_in_help_and_has_a_program(checkout):
    put_builders(checkout)
    said = typed(checkout, "help").stdout.splitlines()
    listed = {line.split()[1] for line in said if line.startswith("  make ")}
    assert [line for line in said if line and not line.startswith(" ")][1:] == AUDIENCES
    goals = {goal.split()[0] for goal in make.GOALS}
    assert listed == goals | {"help", "setup", "test", "test-fast", "test-gpu", "clean"}


def test_a_make_that_a_program_starts_knows_nothing_of_it(checkout):
    (checkout / ".venv" / "bin" / "python").write_text('#!/bin/sh\necho "[$MAKEFLAGS]"\n')
    assert typed(checkout, "report", "FILE=$(shell touch made)").stdout == "[]\n"


def test_an_environment_that_is_a_link_is_used_and_left_alone(checkout):
    theirs = checkout / "theirs"
    (checkout / ".venv").rename(theirs)
    (checkout / ".venv").symlink_to(theirs)
    put_set_up(checkout, "open('set-up', 'w')")
    python = theirs / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH"\n')
    said = typed(checkout, "progress").stdout
    assert said.strip().split(":")[0] == str(checkout / "labs")
    python.unlink()
    done = typed(checkout, "progress")
    assert f".venv is a link to {theirs}, where no environment is set up." in done.stderr
    assert not (checkout / "set-up").exists()


def test_a_shell_script_gets_its_words_as_they_are(checkout):
    put_set_up(checkout, "pass")
    script = checkout / "env" / "mvapich2" / "build.sh"
    script.parent.mkdir()
    script.write_text('echo "$@"\n')
    assert typed(checkout, "mvapich2", "DEVICE=$(touch made)").stdout == "--device=$(touch made)\n"
    assert not (checkout / "made").exists()


def test_a_jupyter_that_is_there_gets_a_kernel_with_labkit_and_mpi(tmp_path, monkeypatch):
    from jupyter_client.manager import start_new_kernel

    command = make.command("kernel", {"PREFIX": str(tmp_path)})
    subprocess.run(command, check=True, capture_output=True)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share/jupyter"))
    manager, client = start_new_kernel(kernel_name="hpdl-labs")
    said = []
    code = "import labkit, shutil; print(shutil.which('mpiexec'))"
    try:
        client.execute_interactive(code, timeout=60, output_hook=said.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    text = "".join(message["content"].get("text", "") for message in said)
    assert text.strip() == str(Path(make.PYTHON).with_name("mpiexec"))

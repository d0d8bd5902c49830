"""What the hub's configuration is made of, and what a person is told who asks for what cannot
be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import resource
import socket
import subprocess

import jinja2
import pytest
from labkit import paths
from labkit.errors import LabError

from slurm import tabletop
from slurm.hub import __main__ as command
from slurm.hub import course, install, keep, learners, passwords, settings
from slurm.tabletop import settings as tabletop_settings
from tests.slurm.own_machine import command_line, needs_root

ADDRESS = {"LABKIT_HUB_ADDRESS": "10.1.2.3"}


def hub(*arguments: str, **environ: str) -> subprocess.CompletedProcess:
    """`python -m slurm.hub …` from the checkout's root."""
    return command_line(*arguments, module="slurm.hub", env={**os.environ, **environ})


def sentence(done: subprocess.CompletedProcess) -> str:
    """What it says when it fails: a sentence and no traceback."""
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert not done.stdout
    return done.stderr


def names_of_own() -> list[str]:
    return ["--names", "ada"] if settings.is_root() else []


@pytest.mark.parametrize(("uid", "refused"), [(0, True), (1000, False)])
def test_root_is_told_to_name_the_service_that_checks_passwords(monkeypatch, uid, refused):
    """A normal user's hub has a password of its own, and asks nobody."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(settings.sites, "load", lambda name, environ: dict(ADDRESS))
    with pytest.raises(LabError, match="LABKIT_HUB_PAM") if refused else contextlib.nullcontext():
        settings.at_site("here")


def test_settings_that_cannot_be_written_leave_the_old_ones(tmp_path):
    """As on a full disk, after the first bytes."""
    (tmp_path / "private").mkdir()
    place = settings.on_tabletop()
    written = settings.write(place, tmp_path, 8000, None)
    before = written.read_bytes()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
    try:
        with pytest.raises(OSError, match="File too large"):
            settings.write(place, tmp_path, 8001, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert written.read_bytes() == before


def test_the_relay_closes_after_any_end_of_a_connection():
    class Reader:
        async def read(self, size):
            raise TimeoutError  # of a peer that is gone: no ConnectionError

    class Writer:
        closed = False

        def close(self):
            self.closed = True

    writer = Writer()
    asyncio.run(keep.copy(Reader(), writer))
    assert writer.closed


def test_a_port_that_is_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = sentence(hub("up", "--plain", *names_of_own(), "--port", str(port)))
        assert f"Port {port} is in use" in said
        assert f"PORT={port + 1}" in said


@needs_root
def test_users_of_the_machine_are_not_taken_over(tmp_path):
    before = pwd.getpwall()
    with pytest.raises(
        LabError, match="daemon is on this machine already, and not made by the hub"
    ):
        learners.add(["daemon", "surely-not-there"])
    assert pwd.getpwall() == before
    assert "Who will log in?" in sentence(hub("up", "--plain", LABKIT_HOME=str(tmp_path)))


def test_a_tabletop_that_runs_already_may_be_small(tmp_path):
    """One that is too small is refused: see test_hub.py."""
    asked = tabletop_settings.read(nodes=2, bandwidth="200mbit", latency=None, gpus=2)
    (tmp_path / "settings").write_text(asked.as_shell(), encoding="utf-8")
    table = tabletop.Tabletop("table", tmp_path)
    assert command.too_small(table, 15) == []
    (said,) = command.too_small(table, 20)
    assert "2 nodes of 16 CPUs, and 20 learners want 3: their jobs will wait" in said


def test_a_sites_file_becomes_the_job():
    known = {
        **{"SBATCH_PARTITION": "gpu", "SBATCH_ACCOUNT": "abc", "SBATCH_QOS": "short"},
        **{"SBATCH_CONSTRAINT": "a100", "LABKIT_HUB_TIME": "04:00:00", "LABKIT_HUB_GPUS": "1"},
        **{
            "LABKIT_HUB_RESERVATION": "course",
            "LABKIT_HUB_MEMORY": "8G",
            "LABKIT_GPU_FORM": "gres",
        },
        **{"LABKIT_MODULES": "gcc openmpi"},
    }
    job = settings.site_job("here", known)
    assert job == settings.Job(
        partition="gpu", account="abc", qos="short", reservation="course", time="04:00:00", cpus="4",
        memory="8G", options="--constraint=a100 --gres=gpu:1", prologue=job.prologue,
    )  # fmt: skip
    assert settings.site_job("here", {}).prologue == ""
    assert (
        settings.site_job("here", {**known, "LABKIT_HUB_PARTITION": "interactive"}).partition
        == "interactive"
    )
    assert settings.gpu_option("here", 2, "gpus-per-node") == ["--gpus-per-node=2"]


def run_job(prologue: str, **environ: str) -> subprocess.CompletedProcess:
    """job.sh as batchspawner fills it in, run by bash; the learner's server is a line that is
    printed."""
    values = {
        "homedir": "/",
        "keepvars": "",
        "nprocs": "1",
        "runtime": "1",
        "cmd": "echo $LOADED served",
    }
    template = (paths.root() / "slurm/hub/job.sh").read_text(encoding="utf-8")
    text = jinja2.Template(template).render(**values, prologue=prologue)
    env = {
        "PATH": os.environ["PATH"],
        "LABS_HUB_ROOT": str(paths.root()),
        "SITE": "here",
        **environ,
    }
    return subprocess.run(
        ["bash"], input=text, env=env, capture_output=True, text=True, check=False
    )


def test_the_job_brings_in_a_sites_modules(tmp_path):
    """A batch shell may have no `module` yet."""
    (tmp_path / "init").mkdir()
    init = "module() { [[ $2 != moonstone ]] && LOADED=$LOADED$2,; }\n"
    (tmp_path / "init" / "bash").write_text(init, encoding="utf-8")
    prologue = settings.site_job("here", {"LABKIT_MODULES": "gcc openmpi"}).prologue
    done = run_job(prologue, LMOD_PKG=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "gcc,openmpi, served\n"), done.stderr
    prologue = settings.site_job("here", {"LABKIT_MODULES": "gcc moonstone"}).prologue
    done = run_job(prologue, LMOD_PKG=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "The module moonstone of slurm/sites/here.sh cannot be loaded on " in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LABKIT_HUB_TIME", "soon"),
        ("LABKIT_HUB_CPUS", "four"),
        ("LABKIT_HUB_GPUS", "1"),  # and no way to ask for one
        ("SBATCH_PARTITION", "gpu\n#SBATCH --uid=0"),
    ],
)
def test_what_slurm_would_not_take_is_said_with_the_file(variable, value):
    with pytest.raises(LabError, match=r"slurm/sites/here\.sh"):
        settings.site_job("here", {variable: value})


def test_a_password_is_ones_own_and_its_file_the_hubs_alone(tmp_path):
    file = tmp_path / "passwords.txt"
    passwords.write(file, {"ada": passwords.generate(), "grace": passwords.generate()})
    assert file.stat().st_mode & 0o777 == 0o600
    words = passwords.read(file)
    assert len(set(words.values())) == 2
    assert passwords.matches(file, "ada", words["ada"])
    assert not passwords.matches(file, "ada", words["grace"])
    assert not passwords.matches(file, "eve", words["ada"])
    assert not passwords.matches(file, "ada", "")
    file.chmod(0o640)
    with pytest.raises(PermissionError, match="chmod 600"):
        passwords.matches(file, "ada", words["ada"])


def test_the_course_has_no_solutions_and_grows_by_commits(checkout, tmp_path):
    root = checkout.root
    (root / "pyproject.toml").write_text('version = "1"\n', encoding="utf-8")
    (root / "solutions" / "40_x.py").write_text("answer\n", encoding="utf-8")
    (root / "notebooks" / "40_x.ipynb").write_text("{}\n", encoding="utf-8")
    (tmp_path / "private").mkdir()
    bundle = course.publish(tmp_path)
    copy = tmp_path / "copy"
    git = ["git", "-c", "advice.detachedHead=false"]
    subprocess.run([*git, "clone", "--quiet", "--branch", "main", bundle, copy], check=True)
    assert (copy / "notebooks" / "40_x.ipynb").exists()
    assert not (copy / "solutions" / "40_x.py").exists()
    assert json.loads((copy / "EDITION.json").read_text(encoding="utf-8"))["kind"] == "learners"
    (root / "notebooks" / "41_y.ipynb").write_text("{}\n", encoding="utf-8")
    course.publish(tmp_path)
    course.publish(tmp_path)
    subprocess.run([*git, "-C", copy, "pull", "--quiet"], check=True)
    assert (copy / "notebooks" / "41_y.ipynb").exists()
    log = subprocess.run(
        [*git, "-C", copy, "log", "--format=%h"], capture_output=True, text=True, check=True
    )
    assert len(log.stdout.split()) == 2, "the third call had nothing new"


@needs_root
def test_a_checkout_that_learners_cannot_reach_is_refused_before_anybody_is_made(
    tmp_path, monkeypatch, capsys
):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    # This Python may lie in a closed folder, too.
    with pytest.raises(LabError, match="Learners cannot "):
        learners.check_reach(closed / "course")
    monkeypatch.setenv("LABKIT_HOME", str(closed))
    monkeypatch.setattr(course, "publish", lambda state: closed / "course")
    monkeypatch.setattr(install, "ensure", lambda: pytest.fail("installed for nothing"))
    port = str(settings.free_port())
    assert command.main(["up", "--names", "zoe", "--port", port, "--name", "t"]) == 1
    assert "make setup PYTHON=/usr/bin/python3" in capsys.readouterr().err
    assert "zoe" not in [user.pw_name for user in pwd.getpwall()]
    assert not (closed / "tabletop").exists()

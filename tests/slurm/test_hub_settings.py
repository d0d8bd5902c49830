"""What the hub's configuration is made of, and what a person is told who asks for what cannot
be."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import socket
from collections import defaultdict
from pathlib import Path
from subprocess import CompletedProcess

import jinja2
import pytest
from labkit import paths
from labkit.errors import LabError

from slurm import tabletop
from slurm.hub import __main__ as command
from slurm.hub import course, install, passwords, people, process, session, settings
from slurm.tabletop import settings as tabletop_settings
from slurm.tabletop.table import folder as cluster_folder
from tests.helpers import ran
from tests.slurm.own_machine import command_line, free_port, needs_root


def refusal(*arguments: str, **environ: str) -> str:
    """What `python -m slurm.hub …` says when it fails: a sentence and no traceback."""
    done = command_line(*arguments, module="slurm.hub", env={**os.environ, **environ})
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("service", ["", "no-such", "../passwd"])
def test_a_site_names_the_service_that_checks_passwords(monkeypatch, service):
    """A normal user's hub has a password of its own, and asks nobody."""
    known = {"LABKIT_HUB_ADDRESS": "10.1.2.3", "LABKIT_HUB_PAM": service}
    monkeypatch.setattr(settings.sites, "load", lambda name, environ: known)
    with pytest.raises(LabError, match=r"here\.sh says LABKIT_HUB_PAM=.* usually sshd"):
        settings.at("here", of_site=True)
    assert settings.at("here", of_site=False)["address"] == "10.1.2.3"


def test_the_administrators_own_account_wins_over_the_sites(monkeypatch):
    known = {"LABKIT_HUB_ADDRESS": "10.1.2.3", "SBATCH_PARTITION": "gpu"}
    monkeypatch.setattr(settings.sites, "load", lambda name, environ: known)
    monkeypatch.setenv("SBATCH_ACCOUNT", "course42")
    monkeypatch.setenv("SBATCH_RESERVATION", "class")
    options = settings.at("here", of_site=False)["job"]
    assert options[:3] == ["--partition=gpu", "--account=course42", "--reservation=class"]


def test_a_site_file_that_learners_do_not_get_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(course.paths, "root", lambda: tmp_path)
    assert course.lacks_site("here") == [], "an archive has no commits"
    ran("git", "init", "--quiet", tmp_path)
    file = tmp_path / "slurm/sites/here.sh"
    file.parent.mkdir(parents=True)
    file.write_text("export SITE=here\n", encoding="utf-8")
    assert "slurm/sites/here.sh is not in the last commit as" in course.lacks_site("here")[0]
    assert course.lacks_site("") == []
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert course.lacks_site("here"), "root looks at another user's checkout"


def test_the_relay_closes_after_any_end_of_a_connection():
    class Reader:
        async def read(self, size):
            raise TimeoutError  # of a peer that is gone: no ConnectionError

    class Writer:
        closed = False

        def close(self):
            self.closed = True

    writer = Writer()
    asyncio.run(process.copy(Reader(), writer))
    assert writer.closed


def test_a_port_that_is_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own = ["--names", "ada"] if settings.is_root() else []
        said = refusal("up", "--plain", *own, "--port", str(port))
        assert f"Port {port} is in use" in said
        assert f"PORT={port + 1}" in said


def test_a_name_that_is_given_twice_is_one_learner():
    assert people.names_of("2", "ada learner01 ada") == ["learner01", "learner02", "ada"]


@needs_root
def test_users_of_the_machine_are_not_taken_over(tmp_path):
    before = pwd.getpwall()
    with pytest.raises(LabError, match="daemon is on this machine already, and not made by the"):
        people.add(["daemon", "surely-not-there"])
    assert pwd.getpwall() == before
    assert "Who will log in?" in refusal("up", "--plain", LABKIT_HOME=str(tmp_path))


def test_a_tabletop_that_runs_already_may_be_small(tmp_path):
    """One that is too small is refused: see test_hub.py."""
    asked = tabletop_settings.read(nodes=2, bandwidth="200mbit", latency=None, gpus=2)
    (tmp_path / "settings").write_text(asked.as_shell(), encoding="utf-8")
    table = tabletop.Tabletop("table", tmp_path)
    assert command.too_small(table, 15) == []
    (said,) = command.too_small(table, 20)
    assert "2 nodes of 16 CPUs, and 20 learners want 3: their jobs will wait" in said


SITE = {"SBATCH_PARTITION": "gpu", "SBATCH_CONSTRAINT": "a100", "LABKIT_HUB_TIME": "04:00:00"}
SITE |= {"LABKIT_HUB_GPUS": "1", "LABKIT_GPU_FORM": "gres"}
OTHER = SITE | {"LABKIT_HUB_PARTITION": "interactive", "LABKIT_GPU_FORM": "gpus-per-node"}
REST = "--constraint=a100 --time=04:00:00 --cpus-per-task=4"


@pytest.mark.parametrize(
    ("known", "options"),
    [
        ({}, "--time=02:00:00 --cpus-per-task=4"),
        (SITE, f"--partition=gpu {REST} --gres=gpu:1"),
        (OTHER, f"--partition=interactive {REST} --gpus-per-node=1"),
    ],
)
def test_a_sites_file_becomes_the_job(known, options):
    assert settings.job("here", known) == options.split()


def run_job(root: Path, modules: str) -> CompletedProcess:
    """job.sh as batchspawner fills it in, run by bash at a site whose file names these modules; the
    learner's server is a line that is printed."""
    site = f'export SITE=here LABKIT_MODULES="{modules}"\n'
    (root / "slurm" / "sites" / "here.sh").write_text(site, encoding="utf-8")
    template = (paths.root() / "slurm/hub/job.sh").read_text(encoding="utf-8")
    options = "#SBATCH --time=1\n#SBATCH --cpus-per-task=1"
    text = jinja2.Template(template).render(options=options, cmd="echo $LOADED served")
    assert f"\n{options}\n" in text
    env = {"PATH": os.environ["PATH"], "LABS_HUB_ROOT": str(root), "SITE": "here"}
    return ran("bash", input=text, env=env | {"LMOD_PKG": str(root)})


def test_the_job_brings_in_a_sites_modules(tmp_path):
    """A batch shell may have no `module` yet."""
    for folder in ("init", "slurm/sites"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "slurm" / "launch.sh").symlink_to(paths.root() / "slurm" / "launch.sh")
    init = "module() { [[ $2 != moonstone ]] && LOADED=$LOADED$2,; }\n"
    (tmp_path / "init" / "bash").write_text(init, encoding="utf-8")
    for modules, served in (("gcc openmpi", "gcc,openmpi, served\n"), ("", "served\n")):
        done = run_job(tmp_path, modules)
        assert (done.returncode, done.stdout) == (0, served), done.stderr
    done = run_job(tmp_path, "gcc moonstone")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The module moonstone of slurm/sites/here.sh cannot be loaded on " in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LABKIT_HUB_TIME", "soon"),
        ("LABKIT_HUB_CPUS", "four"),
        ("LABKIT_HUB_GPUS", "1"),  # and no way to ask for one
        ("SBATCH_PARTITION", "gpu\n#SBATCH --uid=0"),
        ("SBATCH_PARTITION", "gpu --uid=0"),
    ],
)
def test_what_slurm_would_not_take_is_said_with_the_file(variable, value):
    with pytest.raises(LabError, match=r"slurm/sites/here\.sh"):
        settings.job("here", {variable: value})


def test_a_password_is_ones_own_and_its_file_the_hubs_alone(tmp_path):
    file = tmp_path / "passwords.txt"
    lines = [f"{name} {passwords.generate()}\n" for name in ("ada", "grace")]
    file.write_text("".join(lines), encoding="utf-8")
    file.chmod(0o600)
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
    assert ran("git", "clone", "--quiet", "--branch", "main", bundle, copy).returncode == 0
    assert (copy / "notebooks" / "40_x.ipynb").exists()
    assert not (copy / "solutions" / "40_x.py").exists()
    assert json.loads((copy / "EDITION.json").read_text(encoding="utf-8"))["kind"] == "learners"
    assert not session.in_the_way(copy)
    (root / "notebooks" / "41_y.ipynb").write_text("{}\n", encoding="utf-8")
    course.publish(tmp_path)
    course.publish(tmp_path)
    assert ran("git", "-C", copy, "pull", "--quiet").returncode == 0
    assert (copy / "notebooks" / "41_y.ipynb").exists()
    log = ran("git", "-C", copy, "log", "--format=%h").stdout
    assert len(log.split()) == 2, "the third call had nothing new"


@pytest.mark.parametrize("made", ["plain folder", "checkout"])
def test_what_is_no_copy_of_the_course_is_left_alone(tmp_path, monkeypatch, made):
    """A pull would commit what is in it. A session says so, and so do a normal user's hub and a
    site's before they start."""
    labs = tmp_path / "labs"
    labs.mkdir()
    (labs / "own.txt").write_text("not committed\n", encoding="utf-8")
    if made == "checkout":
        ran("git", "init", "--quiet", labs)
    before = sorted(labs.rglob("*"))
    with pytest.raises(SystemExit, match="no copy of the course"):
        session.bring_course(str(tmp_path / "course.bundle"), labs)
    assert sorted(labs.rglob("*")) == before
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LabError, match="labs is there already and no copy of the course"):
        people.check_own()
    look = ["sh", "-c", people.LOOK, "sh", tmp_path, people.COPY]
    assert ran(*look).returncode == 12
    labs.rename(tmp_path / "mine")
    people.check_own()
    assert ran(*look).returncode == 0


@needs_root
def test_learners_reach_what_root_makes_in_another_users_checkout(checkout, monkeypatch, capsys):
    """Also where root's own umask closes all files. The checkout's owner keeps .labkit/."""
    os.chown(checkout.root, 1234, 1234)
    monkeypatch.delenv("LABKIT_HOME")
    monkeypatch.setenv("HOME", str(checkout.root / "closed"))
    before = os.umask(0o077)
    try:
        assert command.main(["status"]) == 0
    finally:
        os.umask(before)
    assert "No hub runs here" in capsys.readouterr().out
    own = checkout.root / ".labkit"
    assert own.stat().st_uid == 1234
    assert settings.folder() == own / "root" / "hub"
    assert cluster_folder("table") == own / "root" / "tabletop" / "table"
    modes = [path.stat().st_mode & 0o777 for path in (own, *sorted(own.rglob("*")))]
    assert modes == [0o755, 0o755, 0o755, 0o700]


@needs_root
def test_a_closed_checkout_is_refused_before_anybody_is_made(tmp_path, monkeypatch, capsys):
    """Learners cannot reach it."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    # This Python may lie in a closed folder, too.
    with pytest.raises(LabError, match="Learners cannot "):
        people.check_reach(closed / "course")
    monkeypatch.setenv("LABKIT_HOME", str(closed))
    monkeypatch.setattr(course, "publish", lambda state: closed / "course")
    monkeypatch.setattr(install, "ensure", lambda: pytest.fail("installed for nothing"))
    port = str(free_port())
    assert command.main(["up", "--names", "zoe", "--port", port, "--name", "t"]) == 1
    assert "make setup PYTHON=/usr/bin/python3" in capsys.readouterr().err
    assert "zoe" not in [user.pw_name for user in pwd.getpwall()]
    assert not (closed / "tabletop").exists()


# --- what the hub is installed from: locks with hashes, one version with the learners' environment

ROOT = paths.root()
HUB = ROOT / "slurm" / "hub"


def locked(path: Path) -> dict[str, set[str]]:
    """Name -> its versions, several where several Pythons need them."""
    found = defaultdict(set)
    text = path.read_text(encoding="utf-8")
    for name, version in re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", text):
        found[re.sub(r"[-_.]+", "-", name).lower()].add(version)
    return dict(found)


def test_every_package_has_its_hash():
    text = (HUB / "requirements.txt").read_text(encoding="utf-8")
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", text)[1:]
    assert len(blocks) > 40
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    asked = (HUB / "requirements.in").read_text(encoding="utf-8")
    has = locked(HUB / "requirements.txt")
    for name, version in re.findall(r"(?m)^#? ?([\w-]+)==(\S+)", asked):
        assert version in has[name], name
    proxy = json.loads((HUB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [name for name, package in proxy.items() if name and "integrity" not in package] == []


def test_what_both_environments_have_has_one_version():
    """A notebook server loads both. For each Python of the lock a line of its own may stand in
    either."""
    shared, hub = locked(ROOT / "env" / "requirements.txt"), locked(HUB / "requirements.txt")
    common = hub.keys() & shared.keys()
    assert len(common) > 20
    assert {name: hub[name] for name in common if not hub[name] & shared[name]} == {}


def test_what_pip_or_npm_says_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "LOG", tmp_path / "hub.log")
    monkeypatch.setattr(install, "HUB", tmp_path)
    monkeypatch.setattr(install, "VENV", tmp_path)
    monkeypatch.setattr(install, "STAMP", tmp_path / "installed.txt")
    monkeypatch.setattr(install.sys, "executable", "/bin/false")
    with pytest.raises(LabError, match=r"(?s)cannot be installed.*\$ /bin/false -m venv"):
        install.ensure()
    assert not (tmp_path / "installed.txt").exists()

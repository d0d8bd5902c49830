"""A hub on the tabletop cluster: in a real browser log in, wait for the job, solve, submit, log
out; and what a learner might try on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from authoring import generate
from authoring.cells import learner_cells, solved_cells

from slurm.hub.names import BOARD_USER
from tests import browser
from tests.helpers import awaited
from tests.slurm.hub_client import Learner
from tests.slurm.own_machine import OwnMachine, free_port, needs_root, needs_slurm

STEM = "40_horovod_pytorch"
SUBMIT = """\
from labkit import cluster

job = cluster.submit("42", nodes=2, ranks_per_node=1)
job.wait(timeout=300)"""
# The job ran, over both nodes; and the learner's own lab 42 has not been solved.
SUBMITTED = r"lab 42, 2 nodes, 2 ranks, tabletop\)[\s\S]*42\.1  not solved yet"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs_slurm,
    needs_root,
]


@pytest.fixture(scope="module")
def machine():
    with OwnMachine() as made:
        install(made)
        try:
            yield made
        finally:
            made.end()


def install(machine: OwnMachine) -> None:
    """What the first `make hub` does."""
    done = machine.module("slurm.hub.install", timeout=600)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"the hub cannot be installed: {done.stderr}")
    assert done.returncode == 0, done.stderr


def passwords(machine: OwnMachine) -> dict[str, str]:
    file = machine.home / "hub" / "private" / "passwords.txt"
    assert file.stat().st_mode & 0o777 == 0o600
    return dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())


def queue(machine: OwnMachine) -> list[str]:
    """The jobs in the cluster's queue: user and name."""
    commands = machine.home / "tabletop" / "table" / "bin"
    return machine.run(str(commands / "squeue"), "-h", "-o", "%u %j").stdout.splitlines()


def test_a_class(machine):
    """Of two: ada works, grace tries what she may not. And what goes on when the hub ends."""
    port = free_port()
    done = machine.hub("up", "--names", "ada grace", "--port", str(port))
    assert done.returncode == 0, done.stderr
    address = f"http://127.0.0.1:{port}"
    assert address in done.stdout
    words = passwords(machine)
    assert set(words) == {"instructor", "ada", "grace"}
    grace = Learner(address, "grace", words["ada"])
    assert not grace.log_in(), "a password is one person's"
    grace.password = words["grace"]
    assert grace.log_in()
    ada_logs_in_solves_submits_and_logs_out(machine, grace, words)
    grace_does_not_choose_what_the_hub_runs(machine, grace)
    kept = "import subprocess; subprocess.run(['sbatch', '--wrap', 'sleep 600'], check=True)"
    grace.kernel().run(kept)
    refused = machine.hub("forget")
    assert (refused.returncode, "make hub-stop" in refused.stderr) == (1, True)
    assert "make tabletop-down" in machine.hub("down").stdout
    assert not (machine.home / "by-root").exists()
    assert queue(machine) == ["grace wrap"]

    # 32 more than those two, on the 32 CPUs of two nodes.
    small = machine.hub("up", "--learners", "32", "--port", str(port)).stderr
    said = "has 2 nodes of 16 CPUs, and 34 learners want 4: not all would get a server"
    assert said in small
    assert "learner01" not in (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")

    assert "Removed with their homes: ada, grace." in machine.hub("forget").stdout
    assert not list((machine.folder / "home").glob("*/labs"))
    users = (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")
    assert BOARD_USER not in users
    assert "ada:" not in users
    awaited(lambda: queue(machine) == [], 60)
    assert machine.tabletop("down").returncode == 0


def ada_logs_in_solves_submits_and_logs_out(
    machine: OwnMachine, grace: Learner, words: dict[str, str]
) -> None:
    """In a browser. grace has logged in, too, and sees nothing of it."""
    lab = generate.load(STEM)
    cells = learner_cells(lab)
    check = next(i for i, cell in enumerate(cells) if 'check("40.1"' in cell.source)
    stub = max(i for i in range(check) if "raise NotImplementedError" in cells[i].source)
    address = grace.address
    with browser.started() as chromium:
        page = chromium.new_page(viewport={"width": 1200, "height": 900})
        page.goto(f"{address}/")
        page.get_by_label("Username").fill("ada")
        page.get_by_label("Password").fill(words["ada"])
        page.get_by_role("button", name="Sign in").click()
        notebook = browser.Notebook(page)
        page.wait_for_url("**/user/ada/lab/tree/work/00_check_environment.ipynb", timeout=180_000)
        assert queue(machine) == ["ada labs-hub"]
        page.goto(f"{address}/user/ada/lab/tree/work/{STEM}.ipynb")
        notebook.open()
        for index in [i for i in range(check) if cells[i].kind == "code"]:
            if index == stub:
                notebook.write(stub, solved_cells(lab)[stub].source)
            notebook.run(index, until=r"\[\d+\]")
        notebook.run(check, until=r"✓ 40\.1")
        if os.environ.get("PICTURES"):
            notebook.picture(check, Path(os.environ["PICTURES"]) / "hub.png")
        notebook.write(stub, SUBMIT)
        notebook.run(stub, until=SUBMITTED)

        # What she has made is hers alone, by way of the machine and by way of the hub.
        own = machine.folder / "home" / "ada" / "labs"
        assert "40.1" in (own / ".labkit" / "events.jsonl").read_text(encoding="utf-8")
        submitted = (own / ".labkit" / "jobs.jsonl").read_text(encoding="utf-8")
        assert "42_horovod_mvapich2_gdr" in submitted
        assert not list(own.glob("solutions/*.py"))
        for name, command in (
            ("grace", ["cat", "/home/ada/labs/.labkit/events.jsonl"]),
            ("ada", ["touch", ".venv/x"]),
        ):
            denied = machine.run("runuser", "-u", name, "--", *command)
            assert "Permission denied" in denied.stderr
        foreign = grace.session.get(f"{address}/user/ada/api/contents")
        assert foreign.status_code in (403, 404)

        assert grace.session.get(f"{address}/services/board/").status_code == 403
        teacher = Learner(address, "instructor", words["instructor"])
        assert teacher.log_in()
        assert "no sign of life" in teacher.session.get(f"{address}/services/board/").text

        page.get_by_role("menuitem", name="File", exact=True).click()
        page.get_by_role("menuitem", name="Log Out").click()
        page.wait_for_url("**/hub/log*", timeout=60_000)
    awaited(lambda: queue(machine) == [], 60)


FROM_ANOTHER_SITE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
# Of this kernel's server: has it a token, how many children, and which of these have the token,
# too?
WHO_HAS_IT = """
import os

def environment(pid):
    pairs = open(f"/proc/{pid}/environ").read().split(chr(0))
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)

def parent(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError:
        return 0

server = os.getppid()
token = environment(server)["JUPYTERHUB_API_TOKEN"]
children = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == server]
having = [pid for pid in children if token in environment(pid).values()]
print(len(token) > 16, len(children), having)
"""


def bundle(folder: Path) -> Path:
    """A repository of a stranger's, as one file."""
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (folder / "00.py").write_text("print('a stranger')\n", encoding="utf-8")
    subprocess.run([*git, "add", "00.py"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    subprocess.run([*git, "bundle", "create", "-q", "strangers.bundle", "main"], check=True)
    return folder / "strangers.bundle"


def assert_a_link_clones_nothing_and_the_token_stays(
    machine: OwnMachine, learner: Learner, log: Path
) -> None:
    """What links reach at a server that runs, and who has its token. log: what the server
    prints."""
    repository = machine.folder / "repository"
    repository.mkdir()
    link = {
        "repo": str(bundle(repository)),
        "branch": "main",
        "targetpath": f"/home/{learner.name}/.ipython/startup",
    }
    for path in ("git-pull", "git-pull/api"):
        url = f"{learner.address}/user/{learner.name}/{path}"
        answer = learner.session.get(url, params=link, headers=FROM_ANOTHER_SITE, timeout=60)
        assert answer.status_code == 404, path
    assert not (machine.folder / "home" / learner.name / ".ipython" / "startup").exists()

    learner.post("api/terminals", {}).raise_for_status()
    said = learner.kernel().run(WHO_HAS_IT)
    assert said.split(maxsplit=2)[0] == "True", said
    assert said.endswith(" []\n"), said
    # The server itself has it: it lets her in, and tells the hub of her activity.
    text = log.read_text(encoding="utf-8")
    assert "Updating Hub with activity" in text
    assert "Error notifying Hub" not in text


# What a learner's program may say to the hub about its server: here, what the hub is to run, as
# root. The token is in the first environment of the server, which is this kernel's parent.
TELL_THE_HUB = """
import os, requests
pairs = open(f"/proc/{{os.getppid()}}/environ").read().split(chr(0))
token = next(pair.partition("=")[2] for pair in pairs if pair.startswith("JUPYTERHUB_API_TOKEN="))
answer = requests.post(os.environ["JUPYTERHUB_API_URL"] + "/batchspawner", json={content},
                       headers={{"Authorization": "token " + token}})
print(answer.status_code)
"""


def grace_does_not_choose_what_the_hub_runs(machine: OwnMachine, grace: Learner) -> None:
    """Neither by a link that she follows nor by a program of hers."""
    home = machine.folder / "home" / "grace"
    # Of the link's values JupyterHub makes lists, whose text is in double quotes where a single one
    # is in it.
    link = {"opt-prologue": "'$(touch /home/grace/injected)"}
    grace.session.get(f"{grace.address}/hub/spawn/grace", params=link, timeout=60)
    grace.start()
    assert not (home / "injected").exists()
    order = f"touch {machine.home}/by-root; true"
    content = {"exec_prefix": "", "batch_query_cmd": order, "batch_cancel_cmd": order}
    assert grace.kernel().run(TELL_THE_HUB.format(content=content)).split() == ["400"]
    assert_a_link_clones_nothing_and_the_token_stays(machine, grace, home / "labs-hub.log")


@pytest.fixture(scope="module")
def person(machine) -> list[str]:
    """The words before a command of a normal user."""
    return [*machine.become("person"), sys.executable, "-m"]


@pytest.mark.parametrize("way", ["--plain", "--name=table"])
def test_a_normal_user_has_a_hub_for_one(machine, person, way):
    """Without Slurm, and on a tabletop of the user's own."""
    port = free_port()
    up = [*person, "slurm.hub", "up", way, "--port", str(port)]
    done = machine.run(*up)
    try:
        assert done.returncode == 0, done.stderr
        assert "A hub runs here already" in machine.run(*up).stderr
        file = machine.folder / "home" / "person" / "labkit" / "hub" / "private" / "passwords.txt"
        learner = Learner(f"http://127.0.0.1:{port}", *file.read_text(encoding="utf-8").split())
        assert learner.log_in()
        learner.start()
        seen = "from labkit import cluster, paths; print(paths.home(), cluster.here())"
        where = "None" if way == "--plain" else "tabletop"
        assert learner.kernel().run(seen).split() == ["/home/person/labs/.labkit", where]
        with socket.socket() as probe:
            probe.settimeout(5)
            answer = probe.connect_ex((own_address(), port))
            assert answer != 0, "the hub listens on the loopback address alone"
    finally:
        assert machine.run(*person, "slurm.hub", "down").returncode == 0
        machine.run(*person, "slurm.tabletop", "down")


def own_address() -> str:
    """An address of this machine that is not the loopback one, where it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.2"
        return probe.getsockname()[0]

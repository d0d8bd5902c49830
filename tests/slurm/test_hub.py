"""A hub on the tabletop cluster, in a real browser: log in, wait for the job, solve, submit, log
out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from authoring import generate
from authoring.cells import learner_cells, solved_cells

from slurm.hub.names import BOARD_USER
from tests import browser
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


@pytest.fixture
def machine():
    with OwnMachine() as made:
        yield made
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


def test_log_in_solve_submit_log_out(machine):
    install(machine)
    port = free_port()
    done = machine.hub("up", "--names", "ada grace", "--port", str(port))
    assert done.returncode == 0, done.stderr
    address = f"http://127.0.0.1:{port}"
    assert address in done.stdout
    words = passwords(machine)
    assert set(words) == {"instructor", "ada", "grace"}
    grace = Learner(address, "grace", words["ada"])
    assert not grace.log_in(), "a password is one person's"

    lab = generate.load(STEM)
    cells = learner_cells(lab)
    check = next(i for i, cell in enumerate(cells) if 'check("40.1"' in cell.source)
    stub = max(i for i in range(check) if "raise NotImplementedError" in cells[i].source)
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
        assert "42_horovod_mvapich2_gdr" in (own / ".labkit" / "jobs.jsonl").read_text(
            encoding="utf-8"
        )
        assert not list(own.glob("solutions/*.py"))
        read = machine.run(
            "runuser", "-u", "grace", "--", "cat", "/home/ada/labs/.labkit/events.jsonl"
        )
        assert "Permission denied" in read.stderr
        shared = machine.run("runuser", "-u", "ada", "--", "touch", ".venv/x")
        assert "Permission denied" in shared.stderr
        grace.password = words["grace"]
        assert grace.log_in()
        foreign = grace.session.get(f"{address}/user/ada/api/contents")
        assert foreign.status_code in (403, 404)

        assert grace.session.get(f"{address}/services/board/").status_code == 403
        teacher = Learner(address, "instructor", words["instructor"])
        assert teacher.log_in()
        assert "no sign of life" in teacher.session.get(f"{address}/services/board/").text

        page.get_by_role("menuitem", name="File", exact=True).click()
        page.get_by_role("menuitem", name="Log Out").click()
        page.wait_for_url("**/hub/log*", timeout=60_000)
    deadline = time.monotonic() + 60
    while queue(machine) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert queue(machine) == []
    refused = machine.hub("forget")
    assert (refused.returncode, "make hub-stop" in refused.stderr) == (1, True)
    assert machine.hub("down").returncode == 0
    assert "ada, grace" in machine.hub("forget").stdout
    assert not list((machine.folder / "home").glob("*/labs"))
    assert BOARD_USER not in (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")
    assert " ada:" not in (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")


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
print(len(token) > 16, len(children), [pid for pid in children if token in environment(pid).values()])
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
    machine: OwnMachine, ada: Learner, log: Path
) -> None:
    """What links reach at a server that runs, and who has its token. log: what the server
    prints."""
    repository = machine.folder / "repository"
    repository.mkdir()
    link = {
        "repo": str(bundle(repository)),
        "branch": "main",
        "targetpath": "/home/ada/.ipython/startup",
    }
    for path in ("git-pull", "git-pull/api"):
        url = f"{ada.address}/user/ada/{path}"
        answer = ada.session.get(url, params=link, headers=FROM_ANOTHER_SITE, timeout=60)
        assert answer.status_code == 404, path
    assert not (machine.folder / "home" / "ada" / ".ipython" / "startup").exists()

    ada.post("api/terminals", {}).raise_for_status()
    said = ada.kernel().run(WHO_HAS_IT)
    assert said.split(maxsplit=2)[0] == "True", said
    assert said.endswith(" []\n"), said
    # The server itself has it: it lets ada in, and tells the hub of her activity.
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


def test_nobody_chooses_what_the_hub_runs(machine):
    """Neither a link that a learner follows nor a learner's program. And what goes on when the hub
    ends."""
    install(machine)
    port = free_port()
    done = machine.hub("up", "--names", "ada", "--port", str(port))
    assert done.returncode == 0, done.stderr
    ada = Learner(f"http://127.0.0.1:{port}", "ada", passwords(machine)["ada"])
    assert ada.log_in()
    # Of the link's values JupyterHub makes lists, whose text is in double quotes where a single one
    # is in it.
    link = {"opt-prologue": "'$(touch /home/ada/injected)"}
    ada.session.get(f"{ada.address}/hub/spawn/ada", params=link, timeout=60)
    ada.start()
    assert not (machine.folder / "home" / "ada" / "injected").exists()
    kernel = ada.kernel()
    order = f"touch {machine.home}/by-root; true"
    content = {"exec_prefix": "", "batch_query_cmd": order, "batch_cancel_cmd": order}
    assert kernel.run(TELL_THE_HUB.format(content=content)).split() == ["400"]
    assert_a_link_clones_nothing_and_the_token_stays(
        machine, ada, machine.folder / "home" / "ada" / "labs-hub.log"
    )
    batch = "import subprocess; subprocess.run(['sbatch', '--wrap', 'sleep 600'], check=True)"
    kernel.run(batch)
    ended = machine.hub("down")
    assert not (machine.home / "by-root").exists()
    assert "make tabletop-down" in ended.stdout
    assert queue(machine) == ["ada wrap"]

    # 32 more than ada, on the 32 CPUs of two nodes.
    small = machine.hub("up", "--learners", "32", "--port", str(port))
    assert (
        "has 2 nodes of 16 CPUs, and 33 learners want 4: not all would get a server" in small.stderr
    )
    assert "learner01" not in (machine.folder / "etc" / "passwd").read_text(encoding="utf-8")

    assert "Removed with their homes: ada." in machine.hub("forget").stdout
    deadline = time.monotonic() + 60
    while queue(machine) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert queue(machine) == []


@pytest.mark.parametrize("way", ["--plain", "--name=table"])
def test_a_normal_user_has_a_hub_for_one(machine, way):
    """Without Slurm, and on a tabletop of the user's own."""
    install(machine)
    home = "/home/person"
    become = [*machine.become("person"), sys.executable]
    port = free_port()
    up = [*become, "-m", "slurm.hub", "up", way, "--port", str(port)]
    done = machine.run(*up)
    try:
        assert done.returncode == 0, done.stderr
        assert "A hub runs here already" in machine.run(*up).stderr
        file = machine.folder / "home" / "person" / "labkit" / "hub" / "private" / "passwords.txt"
        learner = Learner(f"http://127.0.0.1:{port}", *file.read_text(encoding="utf-8").split())
        assert learner.log_in()
        learner.start()
        kernel = learner.kernel()
        seen = kernel.run("from labkit import cluster, paths; print(paths.home(), cluster.here())")
        assert seen.split() == [f"{home}/labs/.labkit", "None" if way == "--plain" else "tabletop"]
        with socket.socket() as probe:
            probe.settimeout(5)
            assert probe.connect_ex((own_address(), port)) != 0, (
                "the hub listens on the loopback address alone"
            )
    finally:
        assert machine.run(*become, "-m", "slurm.hub", "down").returncode == 0
        machine.run(*become, "-m", "slurm.tabletop", "down")


def own_address() -> str:
    """An address of this machine that is not the loopback one, where it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.2"
        return probe.getsockname()[0]

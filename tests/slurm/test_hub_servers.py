"""A learner's server on a hub, with Slurm and without: what links reach, and who has its token."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurm.hub import settings
from tests.slurm.hub_client import Learner
from tests.slurm.normal_user import needs_slurm
from tests.slurm.own_machine import OwnMachine
from tests.slurm.test_hub import install, passwords

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="only root can make users"),
]
FROM_ANOTHER_SITE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
# Of this kernel's server: has it a token, how many children, and which of these have the token, too?
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


@pytest.fixture
def machine():
    with OwnMachine() as made:
        yield made
        made.hub("down")
        made.tabletop("down")


def bundle(folder: Path) -> Path:
    """A repository of a stranger's, as one file."""
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (folder / "00.py").write_text("print('a stranger')\n", encoding="utf-8")
    subprocess.run([*git, "add", "00.py"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    subprocess.run([*git, "bundle", "create", "-q", "strangers.bundle", "main"], check=True)
    return folder / "strangers.bundle"


@pytest.mark.parametrize("way", ["plain", pytest.param("slurm", marks=needs_slurm)])
def test_a_link_clones_nothing_and_the_token_stays_in_the_server(machine, way):
    install(machine)
    repository = machine.folder / "repository"
    repository.mkdir()
    stranger = bundle(repository)
    port = settings.free_port()
    more = ["--plain"] if way == "plain" else []
    up = machine.hub("up", "--names", "ada", "--port", str(port), *more)
    assert up.returncode == 0, up.stderr
    ada = Learner(f"http://127.0.0.1:{port}", "ada", passwords(machine)["ada"])
    assert ada.log_in()
    ada.start()

    link = {"repo": str(stranger), "branch": "main", "targetpath": "/home/ada/.ipython/startup"}
    for path in ("git-pull", "git-pull/api"):
        url = f"{ada.address}/user/ada/{path}"
        answer = ada.session.get(url, params=link, headers=FROM_ANOTHER_SITE, timeout=60)
        assert answer.status_code == 404, path
    assert not (machine.folder / "home" / "ada" / ".ipython" / "startup").exists()

    ada.post("api/terminals", {}).raise_for_status()
    said = ada.kernel().run(WHO_HAS_IT)
    assert said.split(maxsplit=2) == ["True", "2", "[]\n"], said
    # The server itself has it: it lets ada in, and tells the hub of her activity.
    log = machine.folder / "home/ada/labs-hub.log" if way == "slurm" else machine.home / "hub/private/hub.log"
    text = log.read_text(encoding="utf-8")
    assert "Updating Hub with activity" in text
    assert "Error notifying Hub" not in text

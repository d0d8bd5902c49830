"""The board as a service of a real JupyterHub, behind its real proxy."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests
from labkit import journal, paths

from tests.helpers import awaited
from tests.slurm.hub_client import Learner

HUB = paths.root() / ".venv" / "hub"
PASSWORD = "a long one for tests"
# The lines that docs/TEACHING.md gives for a hub of one's own, below "services".
CONFIG = """
import sys

c = get_config()
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "{password}"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[1]}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.ConfigurableHTTPProxy.command = ["{proxy}"]
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/secret"
c.JupyterHub.services = [
    {{
        "name": "board",
        "url": "http://127.0.0.1:{ports[3]}",
        "command": [sys.executable, "-m", "classroom", "{folder}/class"],
        "environment": {{"PYTHONPATH": "{labs}"}},
        "oauth_no_confirm": True,
    }}
]
c.JupyterHub.load_roles = [
    {{"name": "instructors", "users": ["teacher"], "scopes": ["access:services!service=board"]}}
]
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installed() -> None:
    """What the first `make hub` does."""
    command = [sys.executable, "-m", "slurm.hub.install"]
    done = subprocess.run(
        command, cwd=paths.root(), capture_output=True, text=True, timeout=550, check=False
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"the hub cannot be installed: {done.stderr}")
    assert done.returncode == 0, done.stderr


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """The address of a running hub; it, its proxy and its service are gone afterwards."""
    ports = free_ports(4)
    proxy = HUB / "node_modules" / ".bin" / "configurable-http-proxy"
    labs = paths.root() / "labs"
    text = CONFIG.format(ports=ports, proxy=proxy, folder=folder, labs=labs, password=PASSWORD)
    (folder / "config.py").write_text(text, encoding="utf-8")
    log = folder / "hub.log"
    path = f"{HUB / 'bin'}:{os.environ['PATH']}"
    with log.open("w") as out:
        process = subprocess.Popen(
            [HUB / "bin" / "python", "-m", "jupyterhub", "-f", folder / "config.py"],
            cwd=folder, stdout=out, stderr=out, start_new_session=True, env={**os.environ, "PATH": path},
        )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{ports[0]}"
        callback = f"{address}/services/board/oauth_callback"
        awaited(lambda: process.poll() is not None or _answers(callback))
        assert process.poll() is None, log.read_text()[-3000:]
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _answers(address: str) -> bool:
    """Is the service behind the proxy there? Without a state its callback refuses, and that is an
    answer."""
    with suppress(requests.RequestException):
        return requests.get(address, timeout=10).status_code in (400, 403)
    return False


def visit(address: str, name: str) -> requests.Response:
    """What this user of the hub gets at the board's address."""
    user = Learner(address, name, PASSWORD)
    assert user.log_in()
    return user.session.get(f"{address}/services/board/", timeout=60)


def test_an_instructor_sees_the_board_and_a_learner_does_not(installed, tmp_path, monkeypatch):
    (tmp_path / "class").mkdir(mode=0o700)
    monkeypatch.setenv("LABKIT_CLASS", str(tmp_path / "class"))
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    journal.note("start", lab="23_ring_allreduce")
    journal.share(named=True)
    with hub(tmp_path) as address:
        seen = visit(address, "teacher")
        assert seen.url == f"{address}/services/board/"
        assert "Nobody of 1 is stuck." in seen.text
        assert seen.headers["content-security-policy"].startswith("default-src 'none'")
        assert seen.headers["cache-control"] == "no-store"
        assert seen.headers["x-content-type-options"] == "nosniff"
        assert visit(address, "ada").status_code == 403
        (tmp_path / "class").rename(tmp_path / "away")
        away = visit(address, "teacher")
        assert away.status_code == 503
        assert "cannot be read" in away.text, "it says so, and goes on"

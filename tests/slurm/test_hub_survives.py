"""What breaks under a hub: it is found, ended and started again, and no saved notebook is lost.

REPEAT=10 repeats each case ten times.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

from slurm.hub import process, settings
from slurm.hub.names import BOARD_USER
from tests.helpers import awaited, left_behind, lives
from tests.slurm.hub_client import Learner
from tests.slurm.own_machine import OwnMachine, free_port, needs_root, needs_slurm
from tests.slurm.test_hub import install, passwords, queue

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs_root,
]

LEFT = "No hub runs here, but one that did not end in order has left this:"
NOTHING = "No hub runs here. To start one"
STRANGER = "61234"  # the number of a user who is nobody here
# Takes the port as soon as its holder lets go of it, and answers as a hub does.
THIEF = """
import socket, sys, time
port = int(sys.argv[1])
while socket.socket().connect_ex(("127.0.0.1", port)):
    time.sleep(0.001)
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        break
    except OSError:
        time.sleep(0.001)
print("taken", flush=True)
while True:
    connection, _ = taken.accept()
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    connection.close()
"""


class Class:
    """A hub on a tabletop, its private folder on a small disk, and ada, who works there."""

    def __init__(self, machine: OwnMachine):
        self.machine = machine
        self.state = machine.home.resolve() / "hub"
        self.private = self.state / "private"
        self.cluster = machine.home / "tabletop" / "table"
        self.address = f"http://127.0.0.1:{free_port()}"
        self.calm = 0.0  # from then on a daemon may be killed

    def up(self) -> None:
        port = self.address.rpartition(":")[2]
        done = self.machine.hub("up", "--names", "ada", "--port", port)
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self) -> str:
        done = self.machine.hub("status")
        assert not done.stderr
        return done.stdout

    def person(self, name: str) -> Learner:
        """Somebody who has logged in."""
        learner = Learner(self.address, name, passwords(self.machine)[name])
        assert learner.log_in()
        return learner

    def part(self, word: str) -> psutil.Process:
        """The process of the hub with this word in its command line."""
        said = {each: process.said(each) for each in process.found(self.state)}
        # nsenter, by which the hub got into the tabletop, waits outside for the holder.
        (found,) = [each for each, line in said.items() if word in line and "nsenter" not in line]
        return found

    def job(self) -> str:
        """The number of the job that is ada's server."""
        (number,) = process.jobs(self.known())
        return number

    def known(self) -> dict:
        return settings.read(self.state)

    def slurm(self, *command: str) -> subprocess.CompletedProcess:
        return self.machine.run(str(self.cluster / "bin" / command[0]), *command[1:])

    def daemon(self, name: str) -> psutil.Process:
        """A daemon of this tabletop's."""
        network = (self.cluster / "holder").read_text(encoding="utf-8").split()[1]
        for each in psutil.process_iter(["name"]):
            with contextlib.suppress(OSError):
                if each.info["name"] == name and os.readlink(f"/proc/{each.pid}/ns/net") == network:
                    return each
        raise AssertionError(f"there is no {name}")


@pytest.fixture(scope="module")
def machine() -> Iterator[OwnMachine]:
    with OwnMachine() as made:
        install(made)
        yield made


@pytest.fixture(scope="module")
def hub(machine) -> Iterator[Class]:
    made = Class(machine)
    made.private.mkdir(parents=True)
    small = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "small"]
    subprocess.run([*small, made.private], check=True)
    try:
        made.up()
        yield made
    finally:
        machine.hub("down")
        machine.tabletop("down")
        subprocess.run(["umount", "--lazy", made.private], check=True)


def hub_is_killed(hub: Class, ada: Learner) -> None:
    job = hub.job()
    hub.part("jupyterhub_config").kill()
    awaited(lambda: not process.found(hub.state))
    said = hub.status()
    assert LEFT in said
    assert f"jobs with learners' servers: {job}\n" in said


def keeper_is_killed(hub: Class, ada: Learner) -> None:
    """The hub then ends in order, all servers and their jobs included."""
    hub.part("slurm.hub.process").kill()
    awaited(lambda: not process.running(hub.state) and not queue(hub.machine))
    awaited(lambda: not process.found(hub.state))
    assert hub.status().startswith(NOTHING)


def hub_and_keeper_are_killed(hub: Class, ada: Learner) -> None:
    killed = [hub.part("slurm.hub.process"), hub.part("jupyterhub_config")]
    for each in killed:
        each.suspend()
    for each in killed:
        each.kill()
    awaited(lambda: not process.running(hub.state))
    said = hub.status()
    assert said.startswith(LEFT)
    for word in ("configurable-http-proxy", "classroom", hub.job()):
        assert word in said


def proxy_is_killed(hub: Class, ada: Learner) -> None:
    hub.part("configurable-http-proxy").kill()
    awaited(lambda: process.answers(int(ada.address.rpartition(":")[2])))
    awaited(lambda: ada.get("api/contents").status_code == 200)
    assert "answers" in hub.status()


def board_is_killed(hub: Class, ada: Learner) -> None:
    """It runs as a user of its own, who reads what learners have shared."""
    before = hub.part("classroom")
    assert before.uids().real not in (0, (hub.machine.folder / "home" / "ada").stat().st_uid)
    folder = hub.state / "class"
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o7777) == (before.uids().real, 0o3733)
    share = f"umask 027; echo shared > {folder}/$USER.txt"
    assert hub.machine.run("runuser", "--login", "ada", "-c", share).returncode == 0
    read = hub.machine.run("runuser", "-u", BOARD_USER, "--", "cat", f"{folder}/ada.txt")
    assert read.stdout == "shared\n"
    before.kill()
    board = f"{hub.address}/services/board/"
    teacher = hub.person("instructor")
    awaited(lambda: teacher.session.get(board, timeout=60).status_code == 200)
    assert hub.part("classroom").pid != before.pid
    assert "answers" in hub.status()
    assert ada.session.get(board, timeout=60).status_code == 403


def hub_asks_slurm(ada: Learner) -> None:
    """Whether her server runs, as it does for this page."""
    ada.session.get(f"{ada.address}/hub/home", timeout=60)


def slurmctld_is_killed(hub: Class, ada: Learner) -> None:
    """The cluster starts another one; notebook and hub go on, and the hub still knows the job."""
    job = hub.job()
    # A daemon that ends twice within a minute ends its cluster.
    awaited(lambda: time.monotonic() > hub.calm)
    hub.calm = time.monotonic() + 61
    hub.daemon("slurmctld").kill()
    assert ada.get("api/contents").status_code == 200
    awaited(lambda: hub.slurm("squeue").returncode == 0)
    hub_asks_slurm(ada)
    assert hub.job() == job
    assert ada.get("api/contents").status_code == 200
    said = hub.status()
    assert "answers" in said
    assert f"jobs with learners' servers: {job}\n" in said


def squeue_fails(hub: Class, ada: Learner) -> None:
    """The hub does not forget a job of which it hears nothing, and gives nobody a second one."""
    job = hub.job()
    squeue = hub.cluster / "bin" / "squeue"
    for words in ("slurm_load_jobs error: Protocol authentication error", ""):
        squeue.unlink()
        squeue.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n", encoding="utf-8")
        squeue.chmod(0o755)
        try:
            hub_asks_slurm(ada)
            assert ada.get("api/contents").status_code == 200
            said = hub.machine.hub("status")
            assert said.returncode == 1
            unknown = f"Slurm does not say which servers run: squeue: {words or 'status 1'}"
            assert unknown in said.stdout
        finally:
            squeue.unlink()
            squeue.symlink_to("tabletop-enter")
    assert hub.job() == job


def disk_is_full(hub: Class, ada: Learner) -> None:
    with (hub.private / "filler").open("wb", buffering=0) as filler:
        for size in (65536, 1):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(b"x" * size)
    late = Learner(hub.address, "ada", passwords(hub.machine)["ada"])
    late.log_in()  # in vain, or not: what counts is the time after
    assert ada.get("api/contents").status_code == 200
    assert "is full" in hub.status()
    (hub.private / "filler").unlink()


def job_is_cancelled(hub: Class, ada: Learner) -> None:
    """As at its time limit: Slurm ends it, and nobody has told the hub."""
    assert hub.slurm("scancel", hub.job()).returncode == 0
    awaited(lambda: not queue(hub.machine))
    account = f"{hub.address}/hub/api/users/ada"
    awaited(lambda: not ada.session.get(account, timeout=60).json()["servers"])
    said = hub.status()
    assert "answers" in said
    assert "jobs with learners' servers" not in said


GOES_ON = (
    proxy_is_killed,
    board_is_killed,
    squeue_fails,
    disk_is_full,
    slurmctld_is_killed,
    job_is_cancelled,
)
# The last one is not started again.
CASES = [[hub_is_killed], [keeper_is_killed], [hub_and_keeper_are_killed], GOES_ON]


@needs_slurm
@pytest.mark.parametrize("case", CASES, ids=["hub", "keeper", "both", "the hub goes on"])
def test_a_hub_under_which_something_breaks(hub, case):
    """Its state is told, it goes on or all of it ends and another one starts, and what was saved is
    there."""
    ada = hub.person("ada")
    ada.start()
    text = uuid.uuid4().hex
    cells = [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": text}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    content = {"type": "notebook", "format": "json", "content": notebook}
    saved = ada.post("api/contents/notebooks/mine.ipynb", content, method="PUT")
    assert saved.status_code in (200, 201)

    for breaks in case:
        breaks(hub, ada)
    if case is GOES_ON:
        ada.start()
        assert text in ada.get("api/contents/notebooks/mine.ipynb").text
    done = hub.machine.hub("down")
    assert done.returncode == 0, done.stderr
    assert process.found(hub.state) == []
    assert left_behind() == []
    assert queue(hub.machine) == []
    assert hub.status().startswith(NOTHING)
    if case is not GOES_ON:
        hub.up()
        ada = hub.person("ada")
        ada.start()
        assert text in ada.get("api/contents/notebooks/mine.ipynb").text


def test_nobody_takes_the_port_or_is_killed_for_a_number(machine):
    """PLAIN=1: somebody waits for the port; a process has a former proxy's or server's number."""
    other = Class(machine)
    port = other.address.rpartition(":")[2]
    home = machine.folder / "other"
    state = home / "hub" / "private"
    state.mkdir(parents=True)
    command = [sys.executable, "-m", "slurm.hub"]
    become = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    with contextlib.ExitStack() as started:
        bystander = started.enter_context(subprocess.Popen(["sleep", "3000"]))
        started.callback(bystander.kill)
        (state / "jupyterhub-proxy.pid").write_text(f"{bystander.pid}", encoding="utf-8")
        thief = started.enter_context(
            subprocess.Popen(
                machine.command(*become, sys.executable, "-c", THIEF, port), stdout=subprocess.PIPE
            )
        )
        started.callback(thief.kill)
        up = [*command, "up", "--plain", "--names", "grace", "--port", port]
        done = machine.run(*up, LABKIT_HOME=str(home))
        try:
            assert done.returncode == 0, done.stderr
            assert lives(psutil.Process(thief.pid))
            os.set_blocking(thief.stdout.fileno(), False)
            assert not thief.stdout.read(), "another user has the port for browsers"
            assert bystander.poll() is None, "a process was killed for the number of the proxy"
            thief.kill()

            words = dict(map(str.split, (state / "passwords.txt").read_text().splitlines()))
            grace = Learner(other.address, "grace", words["grace"])
            assert grace.log_in()
            grace.start()
            for each in process.found(state.parent):
                each.kill()
            change = "UPDATE spawners SET state = ? WHERE server_id NOT NULL"
            database = sqlite3.connect(state / "jupyterhub.sqlite")
            with contextlib.closing(database), database:
                pid = json.dumps({"pid": bystander.pid})
                assert database.execute(change, (pid,)).rowcount == 1
            done = machine.run(*up, LABKIT_HOME=str(home))
            assert done.returncode == 0, done.stderr
        finally:
            thief.kill()
            machine.run(*command, "down", LABKIT_HOME=str(home))
        assert bystander.poll() is None, "a process was killed for the number of a server"

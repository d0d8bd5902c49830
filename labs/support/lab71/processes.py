"""Real elastic jobs of Horovod and PyTorch on this machine, and the nursery that forks their processes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
from labkit import launch, world
from labkit.errors import LabError

from support.lab71.lines import Lines
from support.lab71.ports import listening
from support.lab71.story import Story
from support.lab71.training import RANKS, Task

HOSTS = ("localhost", "127.0.0.1")  # two names of this machine play two nodes
NEW_HOST = "127.1"  # and a third one, the node that comes
CLIENT = str(Path(__file__).with_name("client.py"))
START = 120  # seconds for the nursery to import what it needs
# A meeting that has enough nodes waits for more of them; an agent that is silent for 5 s is dead.
TIMES = "last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=5"
_SPACES = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


@functools.cache
def spaces() -> list[str]:
    """The command that puts another into namespaces of its own; empty where the kernel does not allow it."""
    if not shutil.which("unshare"):
        return []
    for user in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *user, *_SPACES]
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
        if tried.returncode == 0:
            return command
    return []


class Processes:
    """A nursery, from this side."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="labkit-")
        own, other = socket.socketpair()
        env = {**world.clean_env(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        if not spaces():
            env |= launch.loopback_variables(env)  # the next best: none but this machine can knock
        command = [sys.executable, "-m", "support.lab71.nursery", str(other.fileno()), self.folder.name]
        self.log = Path(self.folder.name, "nursery.txt")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*spaces(), *command],
                env=env,
                pass_fds=[other.fileno()],
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt that is meant for the kernel does not reach it
            )
        other.close()
        self.env = env
        self.control = Lines(own)
        self.ended: dict[tuple[str, str], int] = {}  # (job's folder, launcher's name) -> status
        self.numbers = 0
        try:
            self.hear(START)
        except BaseException:
            self.process.kill()  # it does not listen yet
            self.close()
            raise

    def hear(self, seconds: float) -> dict:
        """What the nursery says next; {} if it says nothing for so long."""
        answer = self.control.receive(seconds)
        if answer is None:
            raise LabError(f"The process that starts the ranks has died: {self.log.read_text()[-500:]}")
        if "ended" in answer:
            folder, name = answer["ended"]
            self.ended[folder, name] = answer["status"]
        return answer

    def new_job(self, task: Task) -> Path:
        """A folder with the task in it."""
        self.numbers += 1
        folder = Path(self.folder.name, f"job{self.numbers}")
        folder.mkdir()
        (folder / "task").write_bytes(cloudpickle.dumps(task))
        return folder

    def start(self, name: str, module: str, arguments: list[str], folder: Path, **env: str) -> None:
        """A launcher."""
        env = {
            **self.env,
            "LAB71_NURSERY": str(Path(self.folder.name, "door")),
            "LAB71_FOLDER": str(folder),
            **env,
        }
        output = str(folder / f"{name}.txt")
        # A launcher of an earlier job may end late: its name alone would pass for this job's.
        label = [str(folder), name]
        order = {"start": label, "module": module, "arguments": arguments, "env": env, "output": output}
        self.control.send(order)

    def listening(self) -> list[tuple[str, int]]:
        """What listens in the network of the job."""
        self.control.send({"listening": True})
        answer = self.hear(10)
        while answer and "listening" not in answer:
            answer = self.hear(10)
        return [(address, port) for address, port in answer.get("listening", [])]

    def close(self) -> None:
        """End the nursery and all that it started."""
        with contextlib.suppress(OSError):
            self.control.connection.shutdown(socket.SHUT_RDWR)
        self.control.connection.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


@functools.cache
def processes() -> Processes:
    """The nursery of this notebook; it ends with it."""
    started = Processes()
    atexit.register(started.close)
    return started


def close() -> None:
    """End the nursery, if there is one. The next job starts another."""
    if processes.cache_info().currsize:
        started = processes()
        processes.cache_clear()
        atexit.unregister(started.close)
        started.close()


@contextlib.contextmanager
def _nursery() -> Iterator[Processes]:
    """The nursery, for one job. If that does not end well, an interrupt included, all processes end."""
    try:
        yield processes()
    except BaseException:
        close()
        raise


def events(folder: Path) -> list[dict]:
    """The diary so far; a line that is being written is left for later."""
    path = folder / "events.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def with_horovod(task: Task, timeout: float) -> Story:
    """The task under `horovodrun` with two nodes of a rank each. LabError when it does not end well."""
    with _nursery() as job:
        folder = job.new_job(task)
        script = folder / "hosts.sh"
        comes = folder / "comes"
        lines = ["#!/bin/sh", *(f"echo {host}:1" for host in HOSTS), f"[ ! -e {comes} ] || echo {NEW_HOST}:1"]
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)
        arguments = ["--gloo", "-np", str(RANKS), "--min-np", "1", "--max-np", str(RANKS)]
        arguments += ["--host-discovery-script", str(script), "--network-interfaces", "lo"]
        arguments += ["--elastic-timeout", "60"]
        job.start(
            "horovodrun",
            "horovod",
            [*arguments, sys.executable, CLIENT],
            folder,
            HOROVOD_RENDEZVOUS_BIND="127.0.0.1",
            HOROVOD_LOG_LEVEL="fatal",
        )

        def on(event: dict) -> None:
            if event["event"] == "waits":  # not before: Horovod forgets newcomers that come while it meets
                comes.touch()

        return _follow(job, folder, {"horovodrun"}, timeout, on)


def with_torchrun(task: Task, timeout: float) -> Story:
    """The task under two `torchrun`s, each a node. LabError when it does not end well."""
    with _nursery() as job:
        folder = job.new_job(task)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        arguments = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--monitor-interval=0.1"]
        arguments += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=lab71"]
        arguments += ["--local-addr=127.0.0.1", f"--log-dir={folder}"]

        def start(name: str) -> None:
            # The node that is killed is not to host the meeting point: with it, all would end.
            where = f"--rdzv-conf=is_host={int(name == 'node 1')},{TIMES}"
            command = [*arguments, where, "--no-python", sys.executable, CLIENT]
            # Without this variable PyTorch 2.13's agents share a store, whose address a node that joins later
            # is never told: it waits for a minute and fails.
            job.start(
                name,
                "torch",
                command,
                folder,
                GLOO_SOCKET_IFNAME="lo",
                TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
            )

        start("node 1")
        begin = time.monotonic()
        while port not in [number for _, number in job.listening()] and time.monotonic() < begin + START:
            time.sleep(0.05)
        start("node 2")

        def on(event: dict) -> None:
            if event["event"] == "waits":
                start("node 2, again")

        return _follow(job, folder, {"node 1"}, timeout, on)


def _follow(job: Processes, folder: Path, names: set[str], timeout: float, on) -> Story:
    """Until the launchers of these names have ended; on(event) is called for each event."""
    end = time.monotonic() + timeout
    seen = 0
    listened: dict = {}
    awaited = {(str(folder), name) for name in names}
    while not awaited <= set(job.ended):
        if time.monotonic() > end:
            last = f"Last in its diary: {events(folder)[-1:]}. {_last(folder)}"
            raise LabError(f"The job has not ended after {timeout:.0f} s. {last}")
        job.hear(0.05)
        for event in events(folder)[seen:]:
            seen += 1
            if event["event"] == "waits":
                listened = _listened(job)
            on(event)
    status = max(abs(job.ended[launcher]) for launcher in awaited)
    diary = events(folder)
    raised = [event["error"] for event in diary if event["event"] == "raised"]
    if status or not any(event["event"] == "ends" for event in diary):
        raise LabError(f"The job ended with status {status}. {raised[0] if raised else _last(folder)}")
    return Story(diary, **listened)


def _listened(job: Processes) -> dict:
    """What listens now in the job's network and in that of this process: the fields of a Story."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        known = server.getsockname()
        ports = [pair for pair in job.listening() if pair != known]  # the network may be the same
        return {"ports": ports, "outside": listening(), "known": known}


def _last(folder: Path) -> str:
    """The last lines that a launcher printed."""
    lines = [line for path in sorted(folder.glob("*.txt")) for line in path.read_text().splitlines()]
    return " ".join(lines[-3:])

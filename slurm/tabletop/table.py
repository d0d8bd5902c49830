"""A cluster as an object: up, run, fail, heal, slow, down."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import time
from pathlib import Path

from labkit import paths
from labkit.errors import LabError

from slurm.tabletop import config, holder, needs
from slurm.tabletop import settings as asked

START_SECONDS = 60  # on a busy machine; most often it takes one or two
MOST_JOBS = (
    10_000_000  # no cluster comes so far, and slurmctld begins at no number above 67 million
)


class Tabletop:
    """A cluster that runs. As a context manager it is taken down at the end."""

    def __init__(self, name: str, state: Path):
        self.name = name
        self.state = state
        self.settings = asked.Settings.from_shell((state / "settings").read_text(encoding="utf-8"))

    def __enter__(self) -> Tabletop:
        return self

    def __exit__(self, *_) -> None:
        self.down()

    @property
    def env(self) -> dict[str, str]:
        """To be merged into a process's environment: what env.sh sets."""
        return {"PATH": f"{self.state / 'bin'}:{os.environ.get('PATH', '')}", "SITE": "tabletop"}

    def run(self, command: list[str], **options) -> subprocess.CompletedProcess:
        """subprocess.run with the cluster's commands first in PATH; other commands run outside as
        ever."""
        env = {**(options.pop("env", None) or os.environ), **self.env}
        options = {"text": True, "capture_output": "stdout" not in options, **options}
        own = self.state / "bin" / command[0]
        return subprocess.run(
            [str(own) if own.exists() else command[0], *command[1:]], env=env, **options
        )

    def inside(self, command: list[str], **options) -> subprocess.CompletedProcess:
        """Run any command on the login node."""
        return self.run(["tabletop-enter", *command], **options)

    def _node(self, *command: str) -> None:
        done = self.inside(
            ["bash", str(config.INSIDE / "node.sh"), *command], stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise LabError(f"node.sh {' '.join(command)} failed: {done.stderr.strip()}")

    def has_failed(self, node: int) -> bool:
        """Was this node failed on purpose, and not healed?"""
        pid = f"{config.RUN}/nodes/node{node}.pid"
        return self.inside(["test", "-e", pid]).returncode != 0

    def fail(self, node: int | str) -> None:
        """Node `node` is gone as if unplugged. Slurm notices by itself, within about 15 s."""
        number = asked.read_node(node, self.settings.nodes)
        if self.has_failed(number):
            raise LabError(
                f"node{number} has failed already. To mend it: make tabletop-heal "
                f"NODE={number}{also_name(self.name)}"
            )
        self._node("fail", str(number))

    def heal(self, node: int | str) -> None:
        """Node `node` is as at the beginning: it runs, at full speed, and takes jobs."""
        number = asked.read_node(node, self.settings.nodes)
        if self.has_failed(number):
            self._node("start", str(number))
            self._resume(number)
        else:
            self._node("slow", str(number), str(self.settings.rate))

    def _resume(self, number: int) -> None:
        """Tell Slurm at once, which would else notice a minute later."""
        for _ in range(100):
            state = self.run(["sinfo", "-h", "-n", f"node{number}", "-o", "%T"]).stdout.strip()
            if state in ("idle", "mixed", "allocated"):
                return
            time.sleep(0.2)
        raise LabError(
            f"node{number} started, but Slurm still calls it {state!r}; see {self.state}/log"
        )

    def slow(self, node: int | str, bandwidth: str) -> None:
        """Hold node `node`'s link to `bandwidth`, both ways, until it is healed."""
        number = asked.read_node(node, self.settings.nodes)
        rate = asked.read_rate(bandwidth)
        if self.has_failed(number):
            raise LabError(
                f"node{number} has failed. First: make tabletop-heal"
                f" NODE={number}{also_name(self.name)}"
            )
        self._node("slow", str(number), str(rate))

    def down(self) -> bool:
        """End the cluster. False when it was down already."""
        return holder.end(self.state)

    def ready(self) -> bool:
        """Do all nodes take jobs?"""
        states = self.run(["sinfo", "-h", "-N", "-o", "%T"])
        return states.returncode == 0 and states.stdout.split() == ["idle"] * self.settings.nodes


def folder(name: str, home: Path | str | None = None) -> Path:
    """Where a cluster of this name keeps its files."""
    return Path(home or paths.services()).resolve() / "tabletop" / asked.read_name(name)


def find(name: str = "table", home: Path | str | None = None) -> Tabletop | None:
    """The running cluster of this name, or None."""
    state = folder(name, home)
    return Tabletop(name, state) if holder.alive(state) else None


def running(home: Path | str | None = None) -> list[str]:
    """The names of all running clusters."""
    states = sorted(Path(home or paths.services()).glob("tabletop/*/holder"))
    return [file.parent.name for file in states if holder.alive(file.parent)]


def up(
    name: str = "table",
    nodes: int = 2,
    bandwidth: str = "200mbit",
    latency: str | None = None,
    gpus: int = 2,
    home: Path | str | None = None,
) -> Tabletop:
    """Start a cluster and wait until it takes jobs. Raises LabError with what is missing or
    wrong."""
    wanted = asked.read(nodes, bandwidth, latency, gpus)
    state = folder(name, home)
    needs.check_programs()
    needs.check_namespaces()
    needs.check_netem(wanted.latency)
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second `up` of this name waits for the first
        there = find(name, home)
        if there:
            if there.settings != wanted:
                raise LabError(
                    f"The tabletop cluster '{name}' is running already, with {there.settings}. "
                    f"To have it otherwise, first: make tabletop-down{also_name(name)}"
                )
            return there
        return _start(name, state, wanted)


def also_name(name: str) -> str:
    """What to add to a `make` goal for this cluster: nothing for the one that goes without
    saying."""
    return "" if name == "table" else f" NAME={name}"


def _start(name: str, state: Path, wanted: asked.Settings) -> Tabletop:
    first_job = _last_job(state) + 1
    config.write(state, name, wanted, first_job, needs.slurm_version())
    deadline = time.monotonic() + START_SECONDS
    try:
        process = holder.start(state, wanted.nodes)
        table = Tabletop(name, state)
        while not table.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError(_why(state, process.poll() is None))
            time.sleep(0.1)
    except BaseException:
        holder.end(state)
        raise
    return table


def _last_job(state: Path) -> int:
    """The highest job number so far, so that none is given twice.

    jobs.txt has those that ended, the log those of the last life, slurm.conf where that life began.
    A job's name, which may have several lines, can put any number into these files.
    """
    highest = 0
    for name in ("jobs.txt", "log/slurmctld.log", "conf/slurm.conf"):
        if (state / name).exists():
            text = (state / name).read_text(encoding="utf-8", errors="replace")
            given = [int(number) for number in re.findall(r"\bJobId=(\d+)", text)]
            given += [
                int(number) - 1 for number in re.findall(r"^FirstJobId=(\d+)", text, re.MULTILINE)
            ]
            highest = max([highest, *(number for number in given if number < MOST_JOBS)])
    return highest


def _why(state: Path, alive: bool) -> str:
    """Why the cluster did not come up: the last line of each log that has one."""
    lines = []
    for log in sorted((state / "log").glob("*.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        if text:
            lines.append(f"  {log.name}: {text.splitlines()[-1]}")
    what = f"did not get ready in {START_SECONDS} s" if alive else "ended while it started"
    return f"The tabletop cluster {what}. The last lines in {state / 'log'}:\n" + "\n".join(lines)

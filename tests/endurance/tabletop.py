"""Tabletop clusters that come and go, and what they leave: `python -m tests.endurance.tabletop [CYCLES]`.

Each cycle starts real Slurm daemons, submits a job that runs on all nodes, and ends in one of five ways: it
is taken down; its holder is killed; one of its daemons is killed, and it is taken down; it is told to end
while it starts; the command that starts it is killed, and it is taken down. Most use the same folder.

Counted after each: processes, namespaces, what the machine has of mounts, interfaces, control groups and
files that others own, and files in the folders used. Status 1 if anything is left, or a job's number came
twice.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
from labkit import paths

from slurm import tabletop
from slurm.tabletop import holder
from tests.labkit.launch.leftovers import until
from tests.processes import command_of
from tests.slurm import traces

ENDINGS = ("down", "holder killed", "daemon killed", "told to end at start", "start killed")
DAEMONS = ("munged", "slurmctld", "slurmd")
PATIENCE = 60.0
# What a cluster's folder keeps, for its next life; `holder` only where nobody was left to remove it.
KEPT = {"bin", "conf", "env.sh", "holder", "jobs.txt", "lock", "log", "name", "settings"}


def main(cycles: int = 100) -> int:
    """Bring about so many cycles. Returns the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    chance = random.Random(1)
    total: Counter = Counter()
    before = machine()
    jobs: list[str] = []
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        home = Path(folder).resolve()
        for turn in range(cycles):
            ending = ENDINGS[turn % len(ENDINGS)]
            try:
                total.update(cycle(home, ending, chance, jobs))
            except Exception as error:
                total["cycles that failed"] += 1
                print(f"cycle {turn}, {ending}: {type(error).__name__}: {error}", flush=True)
            total[ending] += 1
            for process in belonging(home):
                total["processes left"] += 1
                print(f"cycle {turn}, {ending}: left is {described(process)}", flush=True)
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()  # so that the next cycle is judged for itself
            for name, things in machine().items():
                new = things - before[name]
                total[f"{name} left"] += len(new)
                for thing in new:
                    print(f"cycle {turn}, {ending}: left of {name}: {thing}", flush=True)
                    before[name].add(thing)  # counted once
            if (turn + 1) % max(1, cycles // 20) == 0:
                print(f"{turn + 1} cycles after {time.monotonic() - begin:.0f} s", flush=True)
        files = unexpected(home)
    total["files left"] += len(files)
    total["job numbers given twice"] = len(jobs) - len(set(jobs))
    print(f"{cycles} cycles, {len(jobs)} jobs that ran on both nodes when it came to an end:")
    for name in ENDINGS:
        print(f"  {name:<21} {total[name]:4}")
    lost = ("processes left", "namespaces left", "mounts left", "interfaces left", "control groups left")
    lost += ("files of others left", "files left", "job numbers given twice", "cycles that failed")
    for name in lost:
        print(f"{name}: {total[name]}")
    for name in files:
        print(f"  {name}")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if any(total[name] for name in lost) else 0


def machine() -> dict[str, set[str]]:
    """What may not grow by a cluster: interfaces, files of others, its kind of mounts and of control groups.

    Of all mounts and groups only those that name it or Slurm: somebody else may work on this machine.
    """
    seen = traces.machine()
    groups = [path for path, _, _ in os.walk("/sys/fs/cgroup")]
    return {
        "mounts": {line for line in seen["mounts"] if "tabletop" in line or "slurm" in line},
        "interfaces": set(seen["interfaces"]),
        "control groups": {path for path in groups if "tabletop" in path or "slurm" in path},
        "files of others": {f"{place} {state}" for place, state in seen["files"].items()},
    }


def cycle(home: Path, ending: str, chance: random.Random, jobs: list[str]) -> Counter:
    """One cluster's life. Returns what is left of its processes and namespaces."""
    name = chance.choice(["again", "again", "other"])
    if ending in ("told to end at start", "start killed"):
        return cut_short(home, name, ending, chance)
    with tabletop.up(name, nodes=2, home=home) as table:
        command = ["sbatch", "--parsable", "-N2", "-o", "/dev/null", "--wrap", "srun sleep 300"]
        job = table.run(command).stdout.strip()
        state = ["squeue", "-h", "-j", job, "-o", "%T"]
        if not until(lambda: table.run(state).stdout.strip() == "RUNNING", PATIENCE):
            raise RuntimeError(f"the job {job} did not begin: {table.run(state).stdout.strip()}")
        jobs.append(f"{name} {job}")
        everything = traces.Traces(holder.alive(table.state))
        if ending == "holder killed":
            os.kill(holder.alive(table.state), signal.SIGKILL)
        elif ending == "daemon killed":
            daemon = chance.choice(DAEMONS)
            chance.choice([each for each in everything.processes if traces.name(each) == daemon]).kill()
            time.sleep(chance.random())  # munged and slurmctld start again
    processes, namespaces = everything.left(PATIENCE)
    for each in namespaces:
        holders = [process for process in psutil.process_iter() if each in traces.namespaces(process.pid)]
        print(f"{ending}: left is {each}, held by {', '.join(map(described, holders)) or 'none'}", flush=True)
    return Counter({"processes left": len(processes), "namespaces left": len(namespaces)})


def cut_short(home: Path, name: str, ending: str, chance: random.Random) -> Counter:
    """A command that starts a cluster is ended, at a moment drawn by chance; whatever is up is taken down."""
    command = [sys.executable, "-m", "slurm.tabletop", "up", "--name", name]
    env = {**os.environ, "LABKIT_HOME": str(home)}
    options = {"cwd": paths.root(), "env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **options) as process:
        if chance.random() < 0.5:  # just when the cluster's first process is there
            until(lambda: belonging(home) or process.poll() is not None, PATIENCE)
        else:
            time.sleep(2 * chance.random())
        if ending == "start killed":
            process.kill()
        else:
            process.terminate()
    if ending == "start killed" or process.returncode == 0:  # 0: it was up before it was told
        subprocess.run([*command[:3], "down", "--name", name], **options, check=True)
    until(lambda: not belonging(home), 10)
    return Counter()


def belonging(home: Path) -> list[psutil.Process]:
    """The processes of all clusters with a folder in `home`: it stands in their command or their mounts."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mounts = Path(f"/proc/{process.pid}/mountinfo").read_text(encoding="utf-8")
            holds = str(home) in command_of(process) or f"{home.name}/tabletop/" in mounts
            if holds and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def described(process: psutil.Process) -> str:
    return f"{process.pid} {command_of(process)[:150] or 'which has ended by now'}"


def unexpected(home: Path) -> list[str]:
    """Files that no cluster needs for its next life."""
    names = [str(path) for path in home.iterdir() if path.name != "tabletop"]
    for state in home.glob("tabletop/*"):
        names += [str(path) for path in state.iterdir() if path.name not in KEPT]
    return names


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

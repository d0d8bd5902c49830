"""On a tabletop cluster: a job under torchrun whose second node is unplugged, and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cloudpickle
from labkit import cluster, paths, world
from labkit.errors import LabError

from support.lab71.processes import TIMES, events
from support.lab71.story import Story
from support.lab71.training import RANKS, Task

PULLED_AFTER = 5  # steps
PAUSE = 0.2  # seconds between two steps, so that there is a middle
SILENCE = 10  # seconds after which a message counts as failed
_SCRIPT = """\
#!/usr/bin/env bash
# --no-kill: Slurm leaves the job alone when a node of it is lost.
srun --no-kill --wait=0 --kill-on-bad-exit=0 bash -c '
    exec "$LAB71_PYTHON" -m torch.distributed.run --nnodes=1:2 --nproc-per-node=1 --max-restarts=3 \\
        --monitor-interval=0.1 --rdzv-backend=c10d --rdzv-endpoint="$LAB71_STORE" --rdzv-id=lab71 \\
        --rdzv-conf="is_host=$((SLURM_PROCID == LAB71_HOST)),$LAB71_TIMES" \\
        --log-dir="$LAB71_FOLDER" --no-python "$LAB71_PYTHON" -m support.lab71.rank'
"""


def unplugged(task: Task, timeout: float) -> Story | None:
    """Play it, print what it cost, and return the job's Story; None where there is no tabletop.

    timeout: seconds for all of it. LabError when the job does not end well.
    """
    if world.launcher() is not None:
        return None
    commands = cluster.slurm.tabletop()
    if commands is None:
        print("No tabletop cluster is at hand: `make tabletop` starts one. Then run this cell again.")
        return None
    task = task._replace(rank_dies_in=0, node_dies_in=0, patience=SILENCE, pause=PAUSE)
    with tempfile.TemporaryDirectory(prefix="71_", dir=paths.home()) as name:
        folder = Path(name)
        (folder / "task").write_bytes(cloudpickle.dumps(task))
        script = folder / "job.sbatch"
        script.write_text(_SCRIPT)
        return _Play(cluster.slurm.Client(commands), commands.parent.name, folder, script).play(timeout)


class _Play:
    """The job, and what is done to it from outside."""

    def __init__(self, client, table: str, folder: Path, script: Path):
        self.client, self.table, self.folder, self.script = client, table, folder, script
        self.port = 20000 + os.getpid() % 10000
        self.jobs: list[str] = []

    def submit(self, host: int, *options: str) -> None:
        """host: the task that has the store; -1: it is there already."""
        values = {
            "LAB71_PYTHON": sys.executable,
            "LAB71_FOLDER": str(self.folder),
            "LAB71_STORE": f"node1:{self.port}",
            "LAB71_HOST": str(host),
            "LAB71_TIMES": TIMES,
            "PYTHONPATH": str(paths.root() / "labs"),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "eth0",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        env = world.without_secrets(os.environ) | values  # all of it is exported
        client = cluster.slurm.Client(self.client.folder, env)
        output = str(self.folder / f"job{len(self.jobs)}.txt")
        self.jobs.append(
            client.submit(
                f"--output={output}", "--no-kill", "--ntasks-per-node=1", *options,
                "--time=10", str(self.script),
            )
        )  # fmt: skip

    def tabletop(self, verb: str) -> None:
        """As `make tabletop-fail NODE=2` and its like."""
        home = cluster.slurm.tabletop().parents[2]
        command = [sys.executable, "-m", "slurm.tabletop", verb, "--node", "2", "--name", self.table]
        env = {**os.environ, "LABKIT_HOME": str(home)}
        done = subprocess.run(command, env=env, cwd=paths.root(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(done.stderr.strip())

    def wait(self, wanted, end: float, what: str) -> dict:
        """The first event for which wanted(event) is true."""
        while True:
            for event in events(self.folder):
                if wanted(event):
                    return event
            if time.monotonic() > end:
                last = " ".join(path.read_text()[-300:] for path in sorted(self.folder.glob("job*.txt")))
                raise LabError(f"The job on the tabletop has not come to {what}: {last}")
            time.sleep(0.05)

    def play(self, timeout: float) -> Story:
        end = time.monotonic() + timeout
        failed = False
        try:
            self.submit(0, "--nodes=2", "--nodelist=node[1-2]")
            self.wait(lambda event: event.get("step", 0) >= PULLED_AFTER, end, f"step {PULLED_AFTER}")
            (self.folder / "node died").touch()
            failed = True
            self.tabletop("fail")
            pulled = time.monotonic()
            noticed = self.wait(lambda event: event["event"] == "raised", end, "noticing it")
            alone = self.wait(lambda event: _begins(event, pulled, 1), end, "a beginning with one rank")
            self.wait(lambda event: event["event"] == "waits", end, "the end of the steps alone")
            self.tabletop("heal")
            failed = False
            healed = time.monotonic()
            self.submit(-1, "--nodes=1", "--nodelist=node2")
            together = self.wait(lambda event: _begins(event, healed, RANKS), end, "a beginning with two")
            self.wait(lambda event: event["event"] == "ends", end, "its end")
            story = Story(events(self.folder))
            print(f"unplugged, until the other rank noticed:   {noticed['time'] - pulled:5.1f} s")
            print(f"from there until it trained on, alone:     {alone['time'] - noticed['time']:5.1f} s")
            print(f"plugged in, until both trained again:      {together['time'] - healed:5.1f} s")
            print(f"finished steps that were done again: {story.lost()}")
            return story
        finally:
            for job in self.jobs:
                self.client.ask("scancel", job)
            if failed:
                self.tabletop("heal")


def _begins(event: dict, after: float, ranks: int) -> bool:
    return event["event"] == "begins" and event["time"] > after and event["ranks"] == ranks

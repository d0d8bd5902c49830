"""Ranks that start warm: a wrong answer takes as long as its check, not as long as importing TensorFlow.

Each of some hundreds of wrong answers starts its own ranks, which would spend nearly all of their time on
imports. Here one server process for each set of variables imports once, and forks: mpiexec starts a small
client, which hands its place (files, variables, PMI's socket) to such a fork. From there on a rank is what
it always is: labkit's worker, MPI, Horovod and the check are real; nothing of a run is left in the next.
The tests of the scripts and of the batch jobs start cold, as learners do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from labkit.launch import plans

FOLDER = Path(__file__).parent
# Imported by the server if this process has imported the first of each.
HEAVY = {
    "torch": ("torch", "torch._dynamo"),  # torch.optim imports the second when it makes an optimizer
    "tensorflow": ("tensorflow", "keras"),
    "horovod.torch": ("horovod.torch",),
    "horovod.tensorflow": ("horovod.tensorflow", "horovod.tensorflow.keras"),
    "numpy": ("numpy", "labkit.data", "labkit.nets", "labkit.launch", "mpi4py", "cloudpickle"),
}
OWN = (
    "LABKIT_",
    "HOROVOD_",
    "_HOROVOD_",
    "MASTER_",
)  # variables that differ between runs and that no import reads
OWN_NAMES = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}
MOST = 4  # servers at a time: each holds a few hundred MB


class Servers:
    """Server processes by the variables they were started with; the oldest goes when there are too many."""

    def __init__(self, folder: str):
        self.folder, self.started, self.running = folder, 0, {}

    def address(self, env: dict[str, str]) -> str:
        """The socket of the server for ranks with the environment env, started if there is none yet."""
        own = {
            name: value for name, value in env.items() if name not in OWN_NAMES and not name.startswith(OWN)
        }
        key = (tuple(sorted(own.items())), self.modules())
        if key not in self.running:
            if len(self.running) == MOST:
                self.end(next(iter(self.running)))
            self.running[key] = self.start(own, key[1])
        return self.running[key][0]

    def start(self, env: dict[str, str], modules: tuple[str, ...]) -> tuple[str, subprocess.Popen]:
        self.started += 1
        address = f"{self.folder}/{self.started}"
        command = [sys.executable, str(FOLDER / "server.py"), address, *modules]
        server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not server.stdout.readline():
            raise RuntimeError(f"the server of warm ranks ended with status {server.wait()}")
        return address, server

    @staticmethod
    def modules() -> tuple[str, ...]:
        return tuple(name for first, names in HEAVY.items() if first in sys.modules for name in names)

    def end(self, key: tuple) -> None:
        server = self.running.pop(key)[1]
        server.stdin.close()  # it ends its ranks, then itself
        server.wait()
        server.stdout.close()

    def end_all(self) -> None:
        for key in list(self.running):
            self.end(key)


@contextmanager
def ranks(folder: str | None = None) -> Iterator[None]:
    """While this is open, `launch.run` starts warm ranks. Without a folder, the servers' sockets get one."""
    cold = plans.plan
    with ExitStack() as stack:
        servers = Servers(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="warm-")))
        stack.callback(servers.end_all)

        @contextmanager
        def plan(run, folder: str, variables: dict[str, str]) -> Iterator[list]:
            with cold(run, folder, variables) as commands:
                address = servers.address(commands[0][1])
                client = [sys.executable, "-I", "-S", str(FOLDER / "client.py"), address]
                yield [
                    [[*command[: command.index(sys.executable)], *client, folder], env]
                    for command, env in commands
                ]

        plans.plan = plan
        try:
            yield
        finally:
            plans.plan = cold

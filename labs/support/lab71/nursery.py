"""A process that imports PyTorch and Horovod once, and forks launchers and ranks in a network of their own.

Importing costs seconds of a core, a fork none. `processes.py` starts it as `python -m support.lab71.nursery
FD FOLDER` inside of new namespaces (of users, network and processes) where the kernel allows them: then its
loopback device is the only one there is, no other process can reach what listens there, and when this process
ends the kernel ends all others of the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path

from labkit import launch, noise

from support.lab71.lines import Lines
from support.lab71.ports import listening, raise_loopback

LOOK = 0.02  # seconds between two looks for children that have ended
PATIENCE = 5.0  # seconds for a client at the door to say more of what it wants


class Nursery:
    """Forks on request, and tells how its children ended."""

    def __init__(self, control: Lines, door: socket.socket):
        self.control = control
        self.door = door
        self.launchers: dict[int, list[str]] = {}  # pid -> what it is called by who ordered it
        self.ranks: dict[int, socket.socket] = {}  # pid -> the client that waits for its end

    def serve(self) -> None:
        """Until the other end of `control` closes."""
        self.control.send({"ready": True})
        while True:
            order = self.control.receive(0)
            if order is None:
                return
            if order:
                self.obey(order)
            readable, _, _ = select.select([self.control, self.door, *self.ranks.values()], [], [], LOOK)
            if self.door in readable:
                self.fork_rank()
            for pid, client in list(self.ranks.items()):
                if client in readable:  # it says nothing more: it has ended
                    os.kill(pid, signal.SIGKILL)
                    self.ranks.pop(pid).close()
            self.bury()

    def obey(self, order: dict) -> None:
        """{"start": label, "module", "arguments", "env", "output"} or {"listening": True}."""
        if "listening" in order:
            self.control.send({"listening": listening()})
            return
        pid = os.fork()
        if pid:
            self.launchers[pid] = order["start"]
            return
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        self.become(order["env"], lambda: _launcher(order["module"], order["arguments"]))

    def fork_rank(self) -> None:
        """For a client at the door. One that dies or stalls before it has said all is sent away."""
        client, _ = self.door.accept()
        client.settimeout(PATIENCE)
        streams: list[int] = []
        try:
            size, streams, _, _ = socket.recv_fds(client, 4, 3)
            left = int.from_bytes(size, "little")
            with client.makefile("rb") as words:
                request = json.loads(words.read(left))
        except (OSError, ValueError):
            client.close()
            for stream in streams:
                os.close(stream)
            return
        pid = os.fork()
        if pid:
            self.ranks[pid] = client
            for stream in streams:
                os.close(stream)
            return
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        client.close()
        self.become(request["env"], lambda: _rank(request["launcher"]))

    def become(self, env: dict[str, str], work) -> None:
        """In a forked child: the work, then the end."""
        parent = os.getppid()
        status = 1
        try:
            launch.die_with_parent(parent)
            self.control.connection.close()
            self.door.close()
            for client in self.ranks.values():
                client.close()
            os.environ.clear()
            os.environ.update(env)
            status = work()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status or 0)

    def bury(self) -> None:
        """Take leave of children that have ended; those of others come here when their parent has died."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                code = os.waitstatus_to_exitcode(status)
                client = self.ranks.pop(pid, None)
                if client:
                    with contextlib.suppress(OSError):
                        client.sendall(b"%d\n" % code)
                    client.close()
                elif pid in self.launchers:
                    self.control.send({"ended": self.launchers.pop(pid), "status": code})


def _launcher(module: str, arguments: list[str]) -> int:
    """horovodrun or torchrun: their own main functions, as their commands call them."""
    if module == "horovod":
        from horovod.runner import launch as horovodrun

        sys.argv = ["horovodrun", *arguments]
        horovodrun.run_commandline()
    else:
        from torch.distributed import run as torchrun

        torchrun.main(arguments)
    return 0


def _rank(launcher: int) -> int:
    from support.lab71 import training

    training.play(launcher)
    return 0


def main() -> None:
    # util-linux's unshare leaves these blocked, and launchers end their ranks by them.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    control = socket.socket(fileno=int(sys.argv[1]))
    if os.getpid() == 1:  # alone in its namespaces
        raise_loopback()
    noise.silence()
    import horovod.torch  # noqa: F401  for all forks
    import torch
    import torch.distributed.run

    from support.lab71 import training

    torch.set_num_threads(1)
    training.Learner()  # PyTorch imports more for its first optimizer
    path = Path(sys.argv[2], "door")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(16)
        Nursery(Lines(control), door).serve()


if __name__ == "__main__":
    main()

"""The process that ranks are forks of: `python fork_server.py SOCKET PATH MODULE…` (see forks.py).

It imports the modules, says so on its standard output, and forks once for each client. It ends when
its standard input closes or its parent has gone, and its ranks with it; and when nobody has asked
for a while.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.util
import json
import os
import random
import selectors
import signal
import socket
import sys
import time
import weakref
from typing import NamedTuple

LARGEST = 1 << 18  # bytes of a client's message; its environment is most of it
LOOK = 2.0  # seconds between looks at the clock and at the parent
IDLE = 300.0  # seconds without a client or a question after which it ends: it holds some hundred MB


class Place(NamedTuple):
    """What a client (fork_client.py) hands over: the run's folder, and what its process has."""

    folder: str
    cwd: str
    files: list[int]  # the numbers that its files have there
    cores: list[int]
    env: dict[str, str]

    @classmethod
    def read(cls, message: bytes) -> Place:
        folder, cwd, files, cores, *variables = os.fsdecode(message).split("\0")
        env = dict(variable.split("=", 1) for variable in variables)
        return cls(folder, cwd, [*map(int, files.split())], [*map(int, cores.split())], env)


class Server:
    """Forks a rank for each client, and ends the rank when its client has gone."""

    def __init__(self, address: str):
        self.address = address
        self.clients: dict[int, socket.socket] = {}  # process of a rank -> its client
        self.parent = os.getppid()
        self.asked = time.monotonic()  # when somebody last wanted something
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(address)
        self.listener.listen()
        self.wake, self.alarm = os.pipe()
        os.set_blocking(self.alarm, False)
        signal.set_wakeup_fd(self.alarm)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is meant for whoever runs ranks
        for file in (0, self.wake, self.listener):
            self.selector.register(file, selectors.EVENT_READ)

    def serve(self) -> str | None:
        """Until it is to end: None. In a fork: the folder of the run it is a rank of."""
        while True:
            if os.getppid() != self.parent or (
                not self.clients and time.monotonic() > self.asked + IDLE
            ):
                return self.end()
            for key, _ in self.selector.select(LOOK):
                if key.fileobj == 0:
                    if not os.read(0, 512):
                        return self.end()
                    self.asked = time.monotonic()
                    print("here", flush=True)
                elif key.fileobj == self.wake:
                    os.read(self.wake, 512)
                    self.tell_ends()
                elif key.fileobj is self.listener:
                    place = self.welcome(self.listener.accept()[0])
                    if place:
                        return place
                elif key.data in self.clients:  # a client never speaks twice: it has gone
                    # The worker's guard ends the rank and what it started.
                    os.kill(key.data, signal.SIGTERM)
                    self.selector.unregister(key.fileobj)

    def welcome(self, client: socket.socket) -> str | None:
        self.asked = time.monotonic()
        message, files, _, _ = socket.recv_fds(client, LARGEST, 16)
        if not message:
            return None
        process = os.fork()
        if process == 0:
            self.clients[0] = client
            return self.become(Place.read(message), files)
        for file in files:
            os.close(file)
        self.clients[process] = client
        self.selector.register(client, selectors.EVENT_READ, process)
        return None

    def become(self, place: Place, files: list[int]) -> str:
        """In the fork: take the client's place. Returns the folder of the run."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        high = [os.dup2(file, 500 + count) for count, file in enumerate(files)]
        # Through their objects, where there are any: else these close the numbers once more, taken
        # or not.
        for link in (*self.clients.values(), self.selector, self.listener):
            link.close()
        for file in [*files, self.wake, self.alarm]:
            os.close(file)
        for file, number in zip(high, place.files, strict=True):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(place.env)
        os.sched_setaffinity(0, place.cores)
        os.chdir(place.cwd)
        return place.folder

    def tell_ends(self) -> None:
        while self.clients:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            client = self.clients.pop(process)
            if client in self.selector.get_map():
                self.selector.unregister(client)
                with contextlib.suppress(OSError):  # it was killed in this moment
                    client.send(str(os.waitstatus_to_exitcode(status) & 255).encode())
            client.close()

    def end(self) -> None:
        """End all ranks, and leave nothing."""
        for process in self.clients:
            os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)
        with contextlib.suppress(OSError):
            os.unlink(self.address)
            os.rmdir(os.path.dirname(self.address))


def warm(modules: list[str]) -> None:
    """Import what ranks will need, with the noise off."""
    from labkit import noise

    gc.disable()  # it would look for garbage all through the imports, a sixth of their time
    noise.silence()
    for name in modules:
        importlib.import_module(name)
    if "mpi4py" in sys.modules:
        # Loads the MPI library, which takes longer than MPI_Init. The import of mpi4py.MPI, which
        # calls MPI_Init, is left to each rank.
        importlib.util.find_spec("mpi4py.MPI")
    for finalizer in weakref.finalize._registry:
        finalizer.atexit = False  # a fork need not take apart PyTorch's tables of operators
    if "torch._dynamo.utils" in sys.modules:
        # Else each fork would import, at its end, what prints a table of compilations.
        utils = sys.modules["torch._dynamo.utils"]
        atexit.unregister(getattr(utils, "dump_compile_times", None))
    gc.collect()
    gc.freeze()  # collections in the forks would copy all pages
    gc.enable()


def main(address: str, path: str, *modules: str) -> None:
    sys.path[:] = json.loads(path)
    from labkit.launch import worker

    warm(list(modules))
    if "mpi4py.MPI" in sys.modules:
        sys.exit("A module imports mpi4py.MPI. A process that uses MPI must not be forked.")
    server = Server(address)
    print("here", flush=True)
    folder = server.serve()
    if folder is None:
        return
    random.seed()  # from the system, as in a process of its own
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.argv = [worker.__file__, folder]
    worker.main(folder)
    # The guard of the rank: what this fork has from the server is not its own to clear up.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

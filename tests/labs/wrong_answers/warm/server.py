"""The process that warm ranks are forks of: `python server.py SOCKET MODULE...` (see __init__.py).

It imports the modules, says so on its standard output, and forks once for each client. It ends when its
standard input closes, and its ranks with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys

from labkit import noise

LARGEST = 1 << 18  # bytes of a client's message; its environment is most of it


class Server:
    """Forks a rank for each client, and ends the rank when its client has gone."""

    def __init__(self, address: str):
        self.clients: dict[int, socket.socket] = {}  # process of a rank -> its client
        self.selector = selectors.DefaultSelector()
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.bind(address)
        self.door.listen()
        self.wake, self.alarm = os.pipe()
        os.set_blocking(self.alarm, False)
        signal.set_wakeup_fd(self.alarm)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is meant for whoever runs ranks
        for file in (0, self.wake, self.door):
            self.selector.register(file, selectors.EVENT_READ)

    def serve(self) -> str | None:
        """Until our standard input closes: None. In a fork: the folder of the run it is a rank of."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == 0:
                    return self.end()
                if key.fileobj == self.wake:
                    os.read(self.wake, 512)
                    self.tell_ends()
                elif key.fileobj is self.door:
                    place = self.welcome(self.door.accept()[0])
                    if place:
                        return place
                elif key.data in self.clients:  # a client never speaks twice: it has gone
                    os.kill(key.data, signal.SIGTERM)  # the worker's guard ends the rank and what it started
                    self.selector.unregister(key.fileobj)

    def welcome(self, client: socket.socket) -> str | None:
        message, files, _, _ = socket.recv_fds(client, LARGEST, 16)
        if not message:
            return None
        process = os.fork()
        if process == 0:
            self.clients[0] = client
            return self.become(json.loads(message), files)
        for file in files:
            os.close(file)
        self.clients[process] = client
        self.selector.register(client, selectors.EVENT_READ, process)
        return None

    def become(self, place: dict, files: list[int]) -> str:
        """In the fork: take the client's place. Returns the folder of the run."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        high = [os.dup2(file, 500 + count) for count, file in enumerate(files)]
        # Through their objects, where there are any: else these close the numbers once more, taken or not.
        for link in (*self.clients.values(), self.selector, self.door):
            link.close()
        for file in [*files, self.wake, self.alarm]:
            os.close(file)
        for file, number in zip(high, place["files"], strict=True):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(place["env"])
        os.chdir(place["cwd"])
        return place["folder"]

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
        for process in self.clients:
            os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)


def warm(modules: list[str]) -> None:
    """Import what ranks will need, with the noise off."""

    noise.silence()
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # collections in the forks would copy all pages


def main(address: str, *modules: str) -> None:
    warm(list(modules))
    server = Server(address)
    print("ready", flush=True)
    folder = server.serve()
    if folder is None:
        return
    from labkit.launch import worker

    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # from the system, as in a process of its own
    sys.argv = [worker.__file__, folder]
    worker.main(folder)
    os._exit(0)  # the guard of the rank: what this fork has from the server is not its own to clear up


if __name__ == "__main__":
    main(*sys.argv[1:])

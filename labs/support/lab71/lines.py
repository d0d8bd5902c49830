"""Lines over a socket, one at a time: none stays in a buffer that `select` does not see."""

from __future__ import annotations

import json
import select
import socket


class Lines:
    """Each line is a dict in JSON."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.rest = b""

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, what: dict) -> None:
        self.connection.sendall(json.dumps(what).encode() + b"\n")

    def receive(self, seconds: float) -> dict | None:
        """The next line; {} if none comes in that time; None at the end."""
        while b"\n" not in self.rest:
            readable, _, _ = select.select([self.connection], [], [], seconds)
            if not readable:
                return {}
            piece = self.connection.recv(65536)
            if not piece:
                return None
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

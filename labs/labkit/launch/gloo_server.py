"""Horovod's rendezvous server with bounds on what a stranger without the job's secret can hold up.

Horovod's own has a thread for each connection and waits for all of them at its end, and its time limit begins
anew with every byte: who sends one now and then would keep it from ending.
"""

from __future__ import annotations

import contextlib
import socket
import time

from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

PROOF_LIMIT = 20.0  # seconds from a connection's beginning until its request must be proven


class Handler(RendezvousHandler):
    """Tells the server when a request was proven."""

    def parse_request(self) -> bool:
        """As in http.server and in Horovod's: False when the request is not proven."""
        proven = super().parse_request()
        if proven:
            self.server.unproven.pop(self.connection, None)
        return proven


class Server(RendezvousHTTPServer):
    """Breaks off connections that prove nothing in time, and ends without waiting for any."""

    daemon_threads = True

    def __init__(self, host: str, key: bytes):
        self.unproven: dict[socket.socket, float] = {}  # connection -> when its time is up
        super().__init__((host, 0), Handler, 0, key)
        self.init([])

    def process_request(self, request, client_address) -> None:
        """As in socketserver: start a thread for a new connection."""
        self.unproven[request] = time.monotonic() + PROOF_LIMIT
        super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:
        """As in socketserver: the connection has ended."""
        self.unproven.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called by serve_forever a few times a second."""
        now = time.monotonic()
        for request, end in list(self.unproven.items()):
            if now > end:
                _break_off(request)

    def server_close(self) -> None:
        """As in socketserver; connections of strangers end, too."""
        super().server_close()
        for request in list(self.unproven):
            _break_off(request)


def _break_off(connection: socket.socket) -> None:
    """Wake the thread that reads from it: there is nothing more to read."""
    with contextlib.suppress(OSError):  # it has been closed meanwhile
        connection.shutdown(socket.SHUT_RDWR)

"""The server where Gloo's ranks meet, and a stranger who sends it a byte now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from horovod.runner.common.util import proof
from labkit import launch
from labkit.launch import gloo_server

PAUSE = 0.05  # seconds between a stranger's bytes, each of which would renew a limit of idle time
KEY = "f1" * 32

pytestmark = pytest.mark.timeout(60)


@contextlib.contextmanager
def dripping(port: int) -> Iterator[threading.Event]:
    """A stranger sends the beginning of a request that has no end. Yields an event: it was cut off."""
    over, cut_off = threading.Event(), threading.Event()

    def drip() -> None:
        try:
            connection.sendall(b"GET /")
            while not over.wait(PAUSE):
                connection.sendall(b"a")
        except OSError:
            cut_off.set()

    with socket.create_connection(("127.0.0.1", port)) as connection:
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield cut_off
        finally:
            over.set()
            thread.join()


def test_a_stranger_who_sends_a_byte_now_and_then_is_cut_off(monkeypatch):
    monkeypatch.setattr(gloo_server, "PROOF_LIMIT", 0.5)
    with launch.rendezvous(KEY) as (address, port), dripping(port) as cut_off:
        assert cut_off.wait(20)
        monkeypatch.undo()
        proof.ask("PUT", address, port, "/scope/name", b"value", key=KEY.encode())
        assert proof.ask("GET", address, port, "/scope/name", key=KEY.encode()) == b"value"


def test_the_server_ends_while_a_stranger_holds_a_connection(monkeypatch):
    monkeypatch.setattr(gloo_server, "PROOF_LIMIT", 1000.0)
    with contextlib.ExitStack() as stranger:
        with launch.rendezvous(KEY) as (_, port):
            cut_off = stranger.enter_context(dripping(port))
            time.sleep(0.3)  # the server is to have a thread for it
        assert cut_off.wait(20)

"""labkit.ports: free ports in a row, the same on all ranks, and reserved."""

from __future__ import annotations

import errno
import socket

import pytest
from labkit import ports
from labkit.errors import LabError


class Alone:
    """A communicator of one rank; `others` is what another rank would say of each try."""

    def __init__(self, *others: bool):
        self.others = list(others)

    def bcast(self, value):
        return value

    def allgather(self, value):
        return [value, self.others.pop(0) if self.others else True]


def free(port: int) -> bool:
    """Does a server that does not share its port get this one?"""
    with socket.socket() as server:
        try:
            server.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def test_ports_are_reserved_while_it_is_open():
    with ports.agree(Alone(), 3) as first:
        assert not any(free(port) for port in range(first, first + 3))
        # One that allows the reuse, as those of gRPC and PyTorch do.
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", first))
            server.listen()
    assert all(free(port) for port in range(first, first + 3))


def test_ports_that_another_node_has_not_are_given_back():
    refusing = Alone(False, False)
    with ports.agree(refusing, 2) as first:
        assert refusing.others == []
        assert not free(first)


def test_no_ports_is_a_sentence(monkeypatch):
    monkeypatch.setattr(ports, "TRIES", 2)
    refusing = Alone(False, False)
    with pytest.raises(LabError, match="No 2 ports in a row are free"), ports.agree(refusing, 2):
        raise AssertionError("nothing was agreed on")

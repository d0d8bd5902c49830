"""Ports that the nodes of a job agree on, for servers that have to know each other's addresses
beforehand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from labkit import launch
from labkit.errors import LabError

TRIES = 50


@contextmanager
def agree(comm, count: int) -> Iterator[int]:
    """The first of `count` ports in a row that are free on every rank's host; reserved while this
    is open.

    comm: mpi4py's. All ranks enter together. A server that allows the reuse of addresses, as those
    of gRPC and PyTorch do, gets a reserved port when it asks for it. LabError where there are no
    such ports.
    """
    for _ in range(TRIES):
        with ExitStack() as taken:
            with launch.reserve_port() as first:
                base = comm.bcast(first.getsockname()[1])
            if all(comm.allgather(_reserve(range(base, base + count), taken))):
                yield base
                return
    raise LabError(f"No {count} ports in a row are free on all nodes. Run the cell again.")


def _reserve(ports: range, taken: ExitStack) -> bool:
    """Bind to each of these ports, for as long as `taken` is open. False where one is not free."""
    try:
        for port in ports:
            reserved = taken.enter_context(socket.socket())
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("", port))
    except (OSError, OverflowError):
        return False
    return True

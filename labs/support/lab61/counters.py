"""Bytes on the wire, as the kernel counts them for each connection of a process."""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

from labkit.errors import NotHere

# struct tcp_info of Linux 4.1 and later (linux/tcp.h): bytes_acked and bytes_received, of 64 bits.
_OFFSET = 120
_OPEN = 1  # tcpi_state: TCP_ESTABLISHED


def tcp_bytes() -> tuple[int, int]:
    """(bytes sent and acknowledged, bytes received), over all TCP connections that this process has open.

    With what a library adds to its tensors, without the headers of TCP and IP. NotHere but on Linux.
    """
    if not sys.platform.startswith("linux"):
        raise NotHere("Bytes are counted by Linux's TCP_INFO; this system has none. Run the lab on Linux.")
    sent = 0
    received = 0
    for entry in Path("/proc/self/fd").iterdir():
        counts = _counts(int(entry.name))
        sent += counts[0]
        received += counts[1]
    return sent, received


def _counts(descriptor: int) -> tuple[int, int]:
    """Of one open file; (0, 0) for what is no open TCP connection, or has just been closed."""
    try:
        link = os.readlink(f"/proc/self/fd/{descriptor}")
        if not link.startswith("socket:"):
            return 0, 0
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            if connection.type != socket.SOCK_STREAM or connection.family == socket.AF_UNIX:
                return 0, 0
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return 0, 0
    if info[0] != _OPEN:
        return 0, 0
    return struct.unpack_from("QQ", info, _OFFSET)

"""What listens in this process's network, and the loopback device of a new one."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct

_SET_FLAGS, _UP, _RUNNING = 0x8914, 0x1, 0x40  # SIOCSIFFLAGS, IFF_UP, IFF_RUNNING of <linux/if.h>
_LISTENS = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it


def raise_loopback() -> None:
    """In a new network namespace even the loopback device is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP | _RUNNING))


def listening() -> list[tuple[str, int]]:
    """Address and port of each TCP socket that listens, by the kernel; [] where it does not tell."""
    addresses = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError), open(f"/proc/self/net/{name}") as table:
            for line in list(table)[1:]:
                _, local, _, state, *_ = line.split()
                if state == _LISTENS:
                    host, _, port = local.partition(":")
                    words = [int(host[start : start + 8], 16) for start in range(0, len(host), 8)]
                    packed = struct.pack(f"={len(words)}I", *words)
                    addresses.add((socket.inet_ntop(family, packed), int(port, 16)))
    return sorted(addresses)

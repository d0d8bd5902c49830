"""The bandwidth between two nodes of a tabletop, measured; and the ends of that link, as a program.

`take PORT BYTES` prints mbit/s received, `give HOST PORT BYTES` sends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

WARM = 0.1  # the part of the bytes that goes by before the clock starts: TCP has to find its pace


def tcp(table, rate: float, source: int, target: int, seconds: float = 1.5) -> float:
    """Goodput [mbit/s] of one TCP connection from node `source` to node `target`."""
    total = str(int(rate / 8 * seconds))
    port = str(40000 + source)
    command = [str(table.state / "bin" / "tabletop-node"), str(target), sys.executable, __file__]
    take = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | table.env}
    with subprocess.Popen([*command, "take", port, total], **take) as taker:
        try:
            taker.stdout.readline()
            give = [sys.executable, __file__, "give", f"node{target}", port, total]
            sent = table.run(["tabletop-node", str(source), *give], timeout=120)
            assert sent.returncode == 0, sent.stderr
            return float(taker.stdout.readline())
        finally:
            taker.kill()


def take(port: int, total: int) -> float:
    """Receive `total` bytes on one connection; the goodput [mbit/s] after the warm-up."""
    with socket.create_server(("", port)) as server:
        print("ready", flush=True)
        with server.accept()[0] as link:
            got, begin, before = 0, 0.0, 0
            while piece := link.recv(1 << 20):
                got += len(piece)
                if not begin and got >= WARM * total:
                    begin = time.perf_counter()
                    before = got
            return (got - before) * 8 / (time.perf_counter() - begin) / 1e6


def give(host: str, port: int, total: int) -> None:
    """Send `total` bytes to `take`."""
    piece = bytes(1 << 20)
    with socket.create_connection((host, port), timeout=60) as link:
        for sent in range(0, total, len(piece)):
            link.sendall(piece[: total - sent])


if __name__ == "__main__":
    if sys.argv[1] == "take":
        print(take(int(sys.argv[2]), int(sys.argv[3])), flush=True)
    else:
        give(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

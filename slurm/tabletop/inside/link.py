"""One end of a measured link: `take PORT BYTES` prints mbit/s received, `give HOST PORT BYTES` sends.

`exchange BYTES`, on two ranks of MPI, prints mbit/s in each direction of a Sendrecv.
"""

from __future__ import annotations

import socket
import sys
import time

WARM = 0.1  # the part of the bytes that goes by before the clock starts: TCP has to find its pace


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


def exchange(total: int) -> float | None:
    """Sendrecv of `total` bytes, both ways at once, after a shorter one: rank 0 gets mbit/s of one way."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for size in (int(WARM * total), total):
        out = bytearray(size)
        back = bytearray(size)
        world.Barrier()
        begin = time.perf_counter()
        world.Sendrecv(out, 1 - world.rank, 0, back, 1 - world.rank, 0)
        seconds = world.allreduce(time.perf_counter() - begin, MPI.MAX)
    return total * 8 / seconds / 1e6 if world.rank == 0 else None


if __name__ == "__main__":
    if sys.argv[1] == "take":
        print(take(int(sys.argv[2]), int(sys.argv[3])), flush=True)
    elif sys.argv[1] == "give":
        give(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif (speed := exchange(int(sys.argv[2]))) is not None:
        print(speed, flush=True)

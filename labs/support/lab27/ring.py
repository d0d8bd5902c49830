"""One exchange round a ring: each rank sends device memory to the next and receives from the one before.

A way to do so is a function (comm, device, out, into, outbox, inbox, dest, source): it sends device memory
`out` to rank dest and fills device memory `into` with what rank source sends. outbox, inbox: pinned buffers,
each of the whole length, or of two rows of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.lab27 import choice


def sent_by(rank: int, nbytes: int) -> np.ndarray:
    """The bytes that a rank sends, 1 to 199: none that stands for rubbish, as EMPTY and UNUSED do."""
    return np.random.default_rng(rank).integers(1, 200, nbytes, np.uint8)


def boxes(device, nbytes: int, chunk: int | None) -> list:
    """[outbox, inbox], pinned: each of the whole length, or of two rows of one chunk."""
    shape = (2, min(chunk, nbytes)) if chunk else (nbytes,)
    return [device.pinned(*shape), device.pinned(*shape)]


def exchange_on(device, comm, way: Callable, nbytes: int, chunk: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Run `way` round the ring of all ranks of comm, on this device: what `into` and outbox hold then."""
    out = device.array(sent_by(comm.rank, nbytes))
    into = device.empty(nbytes)
    outbox, inbox = boxes(device, nbytes, chunk)
    dest = (comm.rank + 1) % comm.size
    source = (comm.rank - 1) % comm.size
    way(comm, device, out, into, outbox, inbox, dest, source)
    return device.peek(into), np.array(outbox)


def exchange(comm, way: Callable, nbytes: int, chunk: int | None, start: float, rate: float) -> np.ndarray:
    """What `into` holds after the same on the device that is here.

    start, rate: of a stand-in, where there is no GPU.
    """
    into, _ = exchange_on(choice.here(start, rate), comm, way, nbytes, chunk)
    return into


def direct(comm, device, out, into, outbox, inbox, dest, source):
    """The way without the host, for a CUDA-aware MPI alone: any other crashes. The boxes are not used."""
    comm.Sendrecv(device.for_mpi(out), dest=dest, recvbuf=device.for_mpi(into), source=source)

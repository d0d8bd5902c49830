"""Storage with a speed of your choice, and the page cache.

`Storage` is a stand-in, and real: the file is read from this machine's disk, and the reader sleeps until the
clock says that storage of the given bandwidth and latency would have delivered. Ranks of a node may share it.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from labkit import timing
from labkit.errors import LabError

SHORTEST = 1e-3  # seconds: shorter sleeps are put together, the system would oversleep most of them


class Storage:
    """Opens files for reading, at most `bandwidth` bytes/s for this reader, with `latency` seconds an open.

    shared: bytes/s of a pipe that all readers with the same `pipe` (a file that `new_pipe` made) share, one
    after the other. `opens` and `nbytes` count what was read.
    """

    def __init__(self, bandwidth=float("inf"), latency=0.0, shared=float("inf"), pipe: Path | None = None):
        if bandwidth <= 0 or shared <= 0 or latency < 0:
            asked = f"{bandwidth:g} and, shared, {shared:g} bytes/s, {latency:g} s"
            raise LabError(
                f"A storage has more than 0 bytes/s, and an open takes 0 s or more; asked for: {asked}."
            )
        self.bandwidth = bandwidth
        self.latency = latency
        self.shared = shared
        self.pipe = pipe
        self.opens = self.nbytes = 0
        self._free = self._overslept = 0.0

    def open(self, path: str | Path, mode: str = "rb") -> _Held:
        """The file, opened; reading it takes as long as from this storage."""
        self.opens += 1
        self._until(self._begin() + self.latency, least=0)
        return _Held(open(path, mode, buffering=0), self)

    def carry(self, nbytes: int) -> None:
        """Wait until so many bytes would have come."""
        self.nbytes += nbytes
        begin = self._begin()
        end = begin + nbytes / self.bandwidth
        if self.pipe is not None:
            with open(self.pipe, "r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
                (free,) = struct.unpack("d", file.read(8))
                done = max(free, begin) + nbytes / self.shared
                file.seek(0)
                file.write(struct.pack("d", done))
            end = max(end, done)
        self._until(end)

    def _begin(self) -> float:
        return max(self._free, time.perf_counter() - self._overslept)

    def _until(self, end: float, least: float = SHORTEST) -> None:
        self._free = end
        left = end - time.perf_counter()
        if left > least:
            time.sleep(left)
            self._overslept = max(0.0, time.perf_counter() - end)
        elif left < 0:
            self._overslept = 0.0


class _Held(io.RawIOBase):
    """A file that is read at the storage's speed."""

    def __init__(self, file, storage: Storage):
        self._file = file
        self._storage = storage

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._storage.carry(len(content))
        return content

    def close(self) -> None:
        self._file.close()
        super().close()


def new_pipe() -> Path:
    """A file by which the readers of one machine agree on when their storage is free."""
    handle, path = tempfile.mkstemp(prefix="lab15-pipe-")
    with os.fdopen(handle, "wb") as file:
        file.write(struct.pack("d", 0.0))
    return Path(path)


def drop(paths: Iterable[Path]) -> None:
    """Ask the system to forget the pages of these files that it keeps in memory (no root needed)."""
    if hasattr(os, "posix_fadvise"):
        for path in paths:
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(paths: Iterable[Path]) -> float:
    """The share (0 to 1) of these files' pages that are in memory now, as mincore(2) says."""
    libc = ctypes.CDLL(None, use_errno=True)
    inside = []
    for path in paths:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            pages = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
            first = ctypes.c_char.from_buffer(view)
            place = ctypes.c_void_p(ctypes.addressof(first))
            if libc.mincore(place, ctypes.c_size_t(len(view)), pages):
                raise OSError(ctypes.get_errno(), f"mincore: {os.strerror(ctypes.get_errno())}")
            del first  # or the view cannot be closed
            inside += [page & 1 for page in pages]
    return float(np.mean(inside))


def cold_and_cached(readers: Mapping[str, tuple[Callable, list[Path]]], rounds: int):
    """Time readers with their files dropped from memory, and right after that. In turns.

    readers: name -> (call that reads everything, its files). Returns name -> (cold, cached), Measurements in
    seconds, and the largest share of pages that a drop had left in memory: near 1, "cold" is not cold.
    """
    if rounds < 1:
        raise LabError(f"rounds is 1 or more, not {rounds}.")
    taken = {name: ([], []) for name in readers}
    left = 0.0
    for call, _ in readers.values():
        call()  # libraries are imported now
    for number in range(rounds):
        for name in list(readers)[:: -1 if number % 2 else 1]:
            call, paths = readers[name]
            drop(paths)
            left = max(left, resident(paths))
            for times in taken[name]:
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
    tick = timing.clock_resolution()
    measured = {
        name: tuple(timing.Measurement(np.array(times), tick) for times in both)
        for name, both in taken.items()
    }
    return measured, left

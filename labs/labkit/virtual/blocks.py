"""The arrays of collective calls: what a buffer argument means, and what is wrong with it."""

from __future__ import annotations

import sys

import numpy as np

from labkit.virtual import explain
from labkit.virtual.vector import Vector


def in_place(buf: object) -> bool:
    """Is it MPI.IN_PLACE?"""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(buf, type(mpi.IN_PLACE))


def array(buf: object, call: str, name: str) -> np.ndarray:
    """The flat array of an argument: an array, [array, MPI.FLOAT], [array, count], [array, count, MPI.FLOAT].

    A Vector stays one. call, name: which argument of which call, for sentences.
    """
    if type(buf) is np.ndarray and buf.ndim == 1 and buf.flags.c_contiguous and not buf.dtype.hasobject:
        return buf
    flat, rest = _split(buf, call, name)
    numbers = [one for one in rest if isinstance(one, int | np.integer)]
    if not numbers:
        return flat
    if numbers[0] > flat.size:
        raise ValueError(f"{call}: {name} says {numbers[0]} values, but its array holds {flat.size}.")
    return flat[: numbers[0]]


def parts(buf: object, size: int, call: str, name: str) -> tuple[np.ndarray, list[int], list[int]]:
    """(flat array, counts, offsets) of [array, counts], [array, (counts, offsets)]; a type may follow."""
    flat, rest = _split(buf, call, name)
    rest = [one for one in rest if isinstance(one, list | tuple | np.ndarray)]
    if rest and isinstance(rest[0], tuple) and len(rest[0]) == 2 and not np.isscalar(rest[0][0]):
        rest = list(rest[0])
    counts = [int(one) for one in rest[0]] if rest else [flat.size // size] * size
    offsets = rest[1] if len(rest) > 1 and rest[1] is not None else [sum(counts[:i]) for i in range(size)]
    offsets = [int(one) for one in offsets]
    ends = [begin + many for begin, many in zip(offsets, counts, strict=True)]
    if len(counts) != size or max(ends) > flat.size:
        raise ValueError(f"{call}: {name} needs {size} counts whose parts lie inside its {flat.size} values.")
    return flat, counts, offsets


def _split(buf: object, call: str, name: str) -> tuple[np.ndarray, list]:
    data, rest = (buf[0], list(buf[1:])) if isinstance(buf, list | tuple) and buf else (buf, [])
    if isinstance(data, bytearray | memoryview):
        data = np.frombuffer(data, np.uint8)
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        raise TypeError(
            f"{call}: {name} must be a NumPy array of numbers, or [array, MPI.FLOAT], "
            f"not {type(buf).__name__}. For other objects there is {call.lower()}."
        )
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise explain.not_contiguous(data)
    for one in rest:
        width = _width(one)
        if width is not None and width != data.itemsize:
            raise explain.MPIError(
                f"{call}: {name} is an array of {data.dtype}, {data.itemsize} bytes a value, and the MPI "
                f"type beside it has {width}."
            )
    return data if data.ndim == 1 else data.reshape(-1, order="A"), rest


def _width(kind: object) -> int | None:
    """Bytes of a value of an MPI type; None before MPI is initialized: it would not answer."""
    mpi = sys.modules.get("mpi4py.MPI")
    known = mpi is not None and isinstance(kind, mpi.Datatype) and mpi.Is_initialized()
    return kind.Get_size() if known else None


def receiving(buf: object, call: str, name: str = "recvbuf") -> np.ndarray:
    """The same of an argument that the call fills."""
    if buf is None:
        raise TypeError(f"{call}: {name} is None; here it must be an array, which the call fills.")
    into = array(buf, call, name)
    if not into.flags.writeable:
        raise ValueError(f"{call}: {name} is read-only, and the call fills it.")
    return into


def pair(sendbuf: object, into: np.ndarray, call: str) -> np.ndarray:
    """The array to send: as long as `into`, of its type, in other memory; `into` itself if in place."""
    if in_place(sendbuf):
        return into
    data = array(sendbuf, call, "sendbuf")
    if data.size != into.size:
        raise ValueError(f"{call}: mismatch in send count {data.size} and receive count {into.size}.")
    apart(data, into, call)
    return data


def apart(data: np.ndarray, into: np.ndarray, call: str) -> None:
    """An error where two arrays of a call have different types or share memory."""
    if data.dtype != into.dtype:
        raise ValueError(
            f"{call}: sendbuf holds {data.dtype} and recvbuf {into.dtype}; MPI does not convert."
        )
    if data.size and np.may_share_memory(data, into):
        raise explain.MPIError(
            f"{call}: sendbuf and recvbuf share memory (buffers must not be aliased). Send a copy, or pass "
            "MPI.IN_PLACE as sendbuf."
        )


def whole(part: int, size: int, into: np.ndarray, call: str, name: str) -> None:
    """An error where `into` is not `size` parts of `part` values."""
    if into.size != part * size:
        raise ValueError(
            f"{call}: with {size} ranks and {part} values from each, {name} must hold {part * size} values, "
            f"not {into.size}."
        )


def own(data: np.ndarray) -> np.ndarray:
    """A copy to work in; a Vector's is one."""
    return np.array(data, subok=True)


def room(kind: np.ndarray, count: int | None = None) -> np.ndarray:
    """An array for `count` values like those of `kind` (as many, if None)."""
    return like(np.empty(kind.size if count is None else count, kind.dtype), kind)


def like(data: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """`data` as a Vector that counts like `kind`, if that is one."""
    if isinstance(kind, Vector):
        data = data.view(Vector)
        data.scale = kind.scale
    return data


def put(into: np.ndarray, data: np.ndarray) -> None:
    """Copy; nothing if it is the same array."""
    if into is not data:
        np.asarray(into)[...] = np.asarray(data)


class Parts:
    """One array as blocks by rank: parts[r] is rank r's, in place. Equal ones, or by counts and offsets."""

    def __init__(self, flat: np.ndarray, counts: list[int], offsets: list[int] | None = None):
        self.flat, self.counts, self.offsets = flat, counts, offsets
        if offsets is None:
            self.offsets = [0]
            for many in counts[:-1]:
                self.offsets.append(self.offsets[-1] + many)

    @classmethod
    def equal(cls, flat: np.ndarray, size: int) -> Parts:
        part = flat.size // size
        return cls(flat, [part] * size, range(0, part * size, part) if part else [0] * size)

    def __getitem__(self, rank: int) -> np.ndarray:
        begin = self.offsets[rank]
        return self.flat[begin : begin + self.counts[rank]]

    def __setitem__(self, rank: int, data: np.ndarray) -> None:
        put(self[rank], data)

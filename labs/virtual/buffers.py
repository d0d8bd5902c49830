"""Buffers of MPI calls: the flat array behind each argument, and the bytes that it counts as.

    Vector, vector           an array that stands for a larger one
    Packed, pack             an object as it travels
    array, box, scale        the buffer of a Send or Recv
    as_array, receiving, …   those of a collective
    Parts                    one array as blocks by rank

Where functions take `call` and `name`, these say in sentences which argument of which call is wrong.
"""

from __future__ import annotations

import pickle

import numpy as np
from labkit import mpi
from labkit.errors import LabError

from virtual import engine, explain

_extra = 0.0  # bytes that Vectors which were pickled stand for, beyond those that they have (see `pack`)


class Vector(np.ndarray):
    """A NumPy array on the virtual cluster: it counts `scale` times its bytes, in messages and in additions.

    Slices, copies and results of arithmetic or of NumPy's functions are Vectors of the same scale. Arithmetic
    charges the rank that does it the machine's γ (seconds per byte reduced, of the result).
    """

    scale = 1.0

    def __array_finalize__(self, source):
        self.scale = getattr(source, "scale", 1.0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [np.asarray(value) if isinstance(value, Vector) else value for value in inputs]
        if out is not None:
            kwargs["out"] = tuple(np.asarray(array) for array in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        lane = engine.current
        if lane is not None and isinstance(result, np.ndarray):
            gamma = lane.engine.gamma
            if gamma:
                lane.spend(result.nbytes * self.scale * gamma, "reduce")
        if out is not None:
            return out[0]
        return self._like(result)

    def __array_function__(self, function, types, args, kwargs):
        return self._like(super().__array_function__(function, types, args, kwargs))

    def _like(self, result):
        """A plain array as a Vector of this one's scale: np.concatenate and its like make plain ones."""
        if type(result) is np.ndarray:
            result = result.view(Vector)
            result.scale = self.scale
        return result

    def __reduce__(self):
        global _extra
        _extra += self.nbytes * (self.scale - 1)
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.scale)

    def __setstate__(self, state):
        plain, self.scale = state
        super().__setstate__(plain)


def vector(values, stands_for: float | None = None) -> Vector:
    """`values` (array or list) as a Vector. stands_for: the bytes that it counts as, its own if None."""
    stand_in = np.array(values).view(Vector)
    if stands_for is not None:
        if not stands_for > 0 or stand_in.nbytes == 0:
            raise LabError(f"A vector of {stand_in.nbytes} bytes cannot stand for {stands_for!r} bytes.")
        stand_in.scale = stands_for / stand_in.nbytes
    return stand_in


class Packed(bytes):
    """A pickled object with Vectors in it. stands_for: the bytes that it counts as."""

    stands_for: float


def pack(obj: object) -> bytes:
    """An object as it travels: pickled; a Packed if there are Vectors in it."""
    global _extra
    _extra = 0.0  # each Vector adds to it while it is pickled
    data = pickle.dumps(obj, 5)
    if _extra:
        data = Packed(data)
        data.stands_for = len(data) + _extra
    return data


def array(buf) -> np.ndarray:
    """The flat array that a buffer argument means.

    An array, or [array, count], [array, MPI.FLOAT], [array, count, type]; bytes are an array of them.
    """
    count = None
    if isinstance(buf, list | tuple) and buf and isinstance(buf[0], np.ndarray):
        numbers = [entry for entry in buf[1:] if isinstance(entry, int)]
        count = numbers[0] if numbers else None
        buf = buf[0]
    if isinstance(buf, bytes | bytearray | memoryview):
        buf = np.frombuffer(buf, np.uint8)
    if not isinstance(buf, np.ndarray) or buf.dtype.hasobject:
        raise explain.wrong_type(buf)
    if not (buf.flags.c_contiguous or buf.flags.f_contiguous):
        raise explain.not_contiguous(buf)
    flat = np.asarray(buf).reshape(-1, order="A")
    return flat if count is None else flat[:count]


def box(buf) -> np.ndarray:
    """The flat array that a receive fills."""
    if type(buf) is np.ndarray and buf.ndim == 1 and buf.flags.carray and not buf.dtype.hasobject:
        return buf
    flat = array(buf)
    if not flat.flags.writeable:
        raise explain.read_only()
    return flat


def scale(buf) -> float:
    """How many times its bytes a buffer counts (see Vector)."""
    if isinstance(buf, list | tuple):
        buf = buf[0]
    return buf.scale if isinstance(buf, Vector) else 1


def in_place(buf: object) -> bool:
    """Is it MPI.IN_PLACE?"""
    return mpi.loaded() is not None and isinstance(buf, type(mpi.loaded().IN_PLACE))


def as_array(buf: object, call: str, name: str) -> np.ndarray:
    """The flat array of an argument: an array, [array, MPI.FLOAT], [array, count], [array, count, MPI.FLOAT].

    A Vector stays one. call, name: which argument of which call, for sentences.
    """
    if type(buf) is np.ndarray and buf.ndim == 1 and buf.flags.c_contiguous and not buf.dtype.hasobject:
        return buf
    flat, rest = _split(buf, call, name)
    numbers = [entry for entry in rest if isinstance(entry, int | np.integer)]
    if not numbers:
        return flat
    if numbers[0] > flat.size:
        raise ValueError(f"{call}: {name} says {numbers[0]} values, but its array holds {flat.size}.")
    return flat[: numbers[0]]


def parts(buf: object, size: int, call: str, name: str) -> tuple[np.ndarray, list[int], list[int]]:
    """(flat array, counts, offsets) of [array, counts], [array, (counts, offsets)]; a type may follow."""
    flat, rest = _split(buf, call, name)
    lists = [entry for entry in rest if isinstance(entry, list | tuple | np.ndarray)]
    if lists and isinstance(lists[0], tuple) and len(lists[0]) == 2 and not np.isscalar(lists[0][0]):
        lists = list(lists[0])
    counts = [int(count) for count in lists[0]] if lists else [flat.size // size] * size
    if len(lists) > 1 and lists[1] is not None:
        offsets = [int(offset) for offset in lists[1]]
    else:
        offsets = [sum(counts[:i]) for i in range(size)]
    ends = [begin + count for begin, count in zip(offsets, counts, strict=True)]
    if len(counts) != size or max(ends) > flat.size:
        raise ValueError(f"{call}: {name} needs {size} counts whose parts lie inside its {flat.size} values.")
    return flat, counts, offsets


def _split(buf: object, call: str, name: str) -> tuple[np.ndarray, list]:
    """(flat array, what else is in the list) of a buffer argument."""
    data, rest = buf, []
    if isinstance(buf, list | tuple) and buf:
        data, rest = buf[0], list(buf[1:])
    if isinstance(data, bytearray | memoryview):
        data = np.frombuffer(data, np.uint8)
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        raise TypeError(
            f"{call}: {name} must be a NumPy array of numbers, or [array, MPI.FLOAT], "
            f"not {type(buf).__name__}. For other objects there is {call.lower()}."
        )
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise explain.not_contiguous(data)
    for entry in rest:
        width = _width(entry)
        if width is not None and width != data.itemsize:
            raise explain.MPIError(
                f"{call}: {name} is an array of {data.dtype}, {data.itemsize} bytes a value, and the MPI "
                f"type beside it has {width}."
            )
    return data if data.ndim == 1 else data.reshape(-1, order="A"), rest


def _width(kind: object) -> int | None:
    """Bytes of a value of an MPI type; None before MPI is initialized: it would not answer."""
    MPI = mpi.loaded()
    known = MPI is not None and isinstance(kind, MPI.Datatype) and MPI.Is_initialized()
    return kind.Get_size() if known else None


def receiving(buf: object, call: str, name: str = "recvbuf") -> np.ndarray:
    """The same of an argument that the call fills."""
    if buf is None:
        raise TypeError(f"{call}: {name} is None; here it must be an array, which the call fills.")
    into = as_array(buf, call, name)
    if not into.flags.writeable:
        raise ValueError(f"{call}: {name} is read-only, and the call fills it.")
    return into


def pair(sendbuf: object, into: np.ndarray, call: str) -> np.ndarray:
    """The array to send: as long as `into`, of its type, in other memory; `into` itself if in place."""
    if in_place(sendbuf):
        return into
    data = as_array(sendbuf, call, "sendbuf")
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
        self.flat = flat
        self.counts = counts
        self.offsets = offsets
        if offsets is None:
            self.offsets = [0]
            for count in counts[:-1]:
                self.offsets.append(self.offsets[-1] + count)

    @classmethod
    def equal(cls, flat: np.ndarray, size: int) -> Parts:
        part = flat.size // size
        return cls(flat, [part] * size, range(0, part * size, part) if part else [0] * size)

    def __getitem__(self, rank: int) -> np.ndarray:
        begin = self.offsets[rank]
        return self.flat[begin : begin + self.counts[rank]]

    def __setitem__(self, rank: int, data: np.ndarray) -> None:
        put(self[rank], data)

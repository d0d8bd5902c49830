"""Buffers of MPI calls: the flat array that an argument means, by mpi4py's rules, and what it
counts as.

    Vector, vector      an array that stands for a larger one
    pack, copied        an object as it travels, and as it comes back
    flat, blocks_of     the array of an argument; its blocks by rank, of any lengths
    apart, own, …       what collectives do with them

`call` and `name` say in sentences which argument of which call is wrong. The rules are those of
mpi4py's msgbuffer.pxi (message_simple, message_vector). What it cannot know, whether a count fits
the array, is asked here too: a real rank reads and writes beyond its end.
"""

from __future__ import annotations

import operator
import pickle
from itertools import accumulate

import numpy as np
from labkit import mpi
from labkit.errors import LabError

from virtual import engine, explain

# What mpi4py knows a type for.
PLAIN = frozenset(np.dtype(code) for code in ("S1", *"?bBhHiIlLqQefdgFDG"))
_FORTRANS = {
    "COMPLEX": "c8",
    "DOUBLE_COMPLEX": "c16",
    "DOUBLE_PRECISION": "f8",
    "INTEGER": "i4",
    "REAL": "f4",
}
_NEVER_CHANGED = (type(None), bool, int, float, str, bytes)

_extra = (
    0.0  # bytes that Vectors which were pickled stand for, beyond those that they have (see `pack`)
)


class Vector(np.ndarray):
    """A NumPy array on the virtual cluster: it counts `scale` times its bytes, in messages and in
    additions.

    Slices, `.copy()`, np.empty_like and results of arithmetic or of NumPy's other functions are
    Vectors of the same scale. np.array, np.asarray and np.empty make plain arrays, which count
    their own bytes. Arithmetic charges the rank that does it the machine's γ (seconds per byte
    reduced, of the result).
    """

    scale = 1.0

    def __array_finalize__(self, source):
        self.scale = getattr(source, "scale", 1.0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [np.asarray(value) if isinstance(value, Vector) else value for value in inputs]
        if out is not None:
            kwargs["out"] = tuple(np.asarray(array) for array in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        results = result if isinstance(result, tuple) else (result,)  # divmod and its like have two
        lane = engine.current
        if lane is not None and isinstance(results[0], np.ndarray):
            gamma = lane.engine.gamma
            if gamma:
                nbytes = sum(part.nbytes for part in results)
                lane.spend(nbytes * self.scale * gamma, "reduce")
        if out is not None:
            return out if len(out) > 1 else out[0]
        made = tuple(map(self._like, results))
        return made if isinstance(result, tuple) else made[0]

    def __array_function__(self, function, types, args, kwargs):
        return self._like(super().__array_function__(function, types, args, kwargs))

    def _like(self, result):
        """A plain array as a Vector of this one's scale: np.concatenate and its like make plain
        ones."""
        return like(result, self) if type(result) is np.ndarray else result

    def __reduce__(self):
        global _extra
        _extra += self.nbytes * (self.scale - 1)
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.scale)

    def __setstate__(self, state):
        plain, self.scale = state
        super().__setstate__(plain)


def vector(values, stands_for: float | None = None) -> Vector:
    """`values` (array or list) as a Vector. stands_for: the bytes that it counts as, its own if
    None."""
    stand_in = np.array(values).view(Vector)
    if stands_for is not None:
        if not stands_for > 0 or stand_in.nbytes == 0:
            raise LabError(
                f"A vector of {stand_in.nbytes} bytes cannot stand for {stands_for!r} bytes."
            )
        stand_in.scale = stands_for / stand_in.nbytes
    return stand_in


def pack(obj: object) -> tuple[bytes, float]:
    """(an object as it travels: pickled, the bytes that it counts as: more, if there are Vectors in
    it)."""
    global _extra
    _extra = 0.0  # each Vector adds to it while it is pickled
    data = pickle.dumps(obj, 5)
    return data, len(data) + _extra if _extra else len(data)


def copied(obj: object) -> object:
    """An object as another rank would get it: a lower-case collective gives nobody the very same
    one."""
    return obj if type(obj) in _NEVER_CHANGED else pickle.loads(pickle.dumps(obj, 5))


def flat(
    buf: object,
    call: str,
    name: str = "buf",
    *,
    fill: bool = False,
    blocks: int = 1,
    adds: bool = False,
) -> np.ndarray:
    """The flat array that an argument means; a Vector stays one.

    An array, [array, count], [array, type], [array, count, type], [array, (count, displacement),
    type], or [array, count, displacement, type]. fill: the call writes into it. blocks: how many,
    each of `count` values. adds: the call computes with the values, as raw bytes it could not.
    """
    if (
        type(buf) is np.ndarray
        and blocks == 1
        and buf.ndim == 1
        and buf.flags.carray
        and buf.dtype in PLAIN
    ):
        return buf
    buf, count, begin, kind = _entries(buf, call, name)
    whole = _flat(buf, kind, call, name, fill, adds)
    begin = _number(begin, call, name, "displacement")
    if begin > whole.size:
        raise ValueError(
            f"{call}: {name} begins at {begin}, but its array holds {whole.size} values."
        )
    if count is None:
        each, over = divmod(whole.size - begin, blocks)
        if over:
            raise ValueError(
                f"{call}: {name} must hold {blocks} blocks of one length, one for each rank; "
                f"{whole.size - begin} values are not."
            )
    else:
        each = _number(count, call, name, "count")
    end = begin + each * blocks
    if end > whole.size:
        ask = f"{each} values from {begin} on" if begin else f"{each} values"
        ask += f" for each of {blocks} ranks" if blocks > 1 else ""
        raise ValueError(f"{call}: {name} says {ask}, but its array holds {whole.size}.")
    return whole if end - begin == whole.size else whole[begin:end]


def blocks_of(
    buf: object, size: int, call: str, name: str, *, fill: bool = True
) -> list[np.ndarray]:
    """An argument's blocks, by rank: of [array, counts], [array, (counts, displacements), type], …

    One number for all is a count for each, and a distance from block to block. fill: as in flat.
    """
    buf, counts, begins, kind = _entries(buf, call, name, lists=True)
    whole = _flat(buf, kind, call, name, fill, False)
    if counts is None:
        counts = [whole.size // size + (rank < whole.size % size) for rank in range(size)]
    elif np.ndim(counts) == 0:
        counts = [counts] * size
    counts = [_number(count, call, name, "count") for count in counts]
    if begins is None:
        begins = [0, *accumulate(counts)][:-1]
    elif np.ndim(begins) == 0:
        begins = [rank * _number(begins, call, name, "displacement") for rank in range(size)]
    ends = [begin + count for begin, count in zip(begins, counts)]  # noqa: B905 - their number is asked next
    if not len(counts) == len(begins) == size or min(begins) < 0 or max(ends) > whole.size:
        raise ValueError(
            f"{call}: {name} needs {size} counts whose parts lie inside its {whole.size} values."
        )
    return [whole[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _entries(buf: object, call: str, name: str, lists: bool = False) -> tuple:
    """(array, count, displacement, type) of an argument; None: it does not say. lists: a list is
    counts."""
    if not isinstance(buf, list | tuple):
        return buf, None, None, None
    count = begin = kind = None
    if len(buf) == 2:
        buf, count = buf
        if _is_type(count):
            count, kind = None, count
    elif len(buf) == 3:
        buf, count, kind = buf
    elif len(buf) == 4:
        buf, count, begin, kind = buf
    else:
        raise _wrong_type(call, name, f"a list of {len(buf)} entries")
    if np.isscalar(buf) and not isinstance(buf, bytes):
        raise _wrong_type(call, name, "list")
    if begin is None and isinstance(count, tuple if lists else (list, tuple)):
        if len(count) != 2:
            raise ValueError(
                f"{call}: {name} has {len(count)} numbers in place of a count and a displacement."
            )
        count, begin = count
    return buf, count, begin, kind


def _is_type(entry: object) -> bool:
    MPI = mpi.loaded()
    return isinstance(entry, str) or (MPI is not None and isinstance(entry, MPI.Datatype))


def _flat(buf: object, kind: object, call: str, name: str, fill: bool, adds: bool) -> np.ndarray:
    """The whole array, flat."""
    data = buf
    if not isinstance(buf, np.ndarray):
        try:
            data = np.asarray(memoryview(buf))
        except (TypeError, ValueError):
            if hasattr(buf, "__array__"):
                np.asarray(buf)  # memory of a device has a better message
            raise _wrong_type(call, name, type(buf).__name__) from None
    if data.dtype not in PLAIN:
        raise _wrong_type(call, name, f"an array of {data.dtype}")
    if kind is not None:
        _check_kind(data.dtype, kind, call, name, adds)
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise ValueError(
            f"{call}: {name} is not contiguous: MPI moves a stretch of memory; make one with "
            "np.ascontiguousarray."
        )
    if fill and not data.flags.writeable:
        raise ValueError(f"{call}: {name} is read-only, and the call fills it.")
    return data if data.ndim == 1 else data.reshape(-1, order="A")


def _wrong_type(call: str, name: str, what: str) -> TypeError:
    return TypeError(
        f"{call}: {name} must be a NumPy array of numbers, or [array, MPI.FLOAT], not {what}. "
        f"For other objects there is {call.lower()}."
    )


def _check_kind(dtype: np.dtype, kind: object, call: str, name: str, adds: bool) -> None:
    """An error where the MPI type beside an array is not that of its values."""
    known = _dtype_of(kind)
    if known not in PLAIN:
        raise explain.MPIError(
            f"{call}: {name}: the virtual cluster knows MPI's types of numbers alone, not {kind!r}."
            " Copy what is to be sent into an array, and leave the type out."
        )
    if adds and not isinstance(kind, str) and kind == mpi.loaded().BYTE:
        raise explain.MPIError(f"{call} does not compute with MPI.BYTE: leave the type out.")
    if known != dtype and not (known.itemsize == dtype.itemsize == 1):
        raise explain.MPIError(
            f"{call}: {name} is an array of {dtype}, {dtype.itemsize} bytes a value, and the MPI"
            f" type beside it is that of {known}, with {known.itemsize}. Leave the type out: mpi4py"
            " finds it."
        )


def _dtype_of(kind: object) -> np.dtype | None:
    """NumPy's type of an MPI type or of its letter; None where it has none."""
    code = kind
    if not isinstance(kind, str):
        if not _is_type(kind):
            return None
        code = kind.typestr
        if code == "V0":  # of Fortran's types, while MPI has not been initialized
            names = [name for name in _FORTRANS if kind == getattr(mpi.loaded(), name)]
            code = _FORTRANS[names[0]] if names else ""
    try:
        return np.dtype(code) if code else None
    except TypeError:
        return None


def _number(value: object, call: str, name: str, what: str) -> int:
    """A count or displacement as an int, 0 if None."""
    number = 0 if value is None else operator.index(value)
    if number < 0:
        raise ValueError(f"{call}: {name} has a negative {what}, {number}.")
    return number


def in_place(buf: object) -> bool:
    """Is it MPI.IN_PLACE?"""
    return mpi.loaded() is not None and isinstance(buf, type(mpi.loaded().IN_PLACE))


def apart(data: np.ndarray, into: np.ndarray, call: str) -> np.ndarray:
    """`data`; an error where two arrays of a call have different types or share memory."""
    if data.dtype != into.dtype:
        raise ValueError(
            f"{call}: sendbuf holds {data.dtype} and recvbuf {into.dtype}; MPI does not convert."
        )
    if data.size and np.may_share_memory(data, into):
        raise explain.aliased(call, "Send a copy, or pass MPI.IN_PLACE as sendbuf.")
    return data


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

"""Buffer arguments of MPI calls: the flat array behind each, and the bytes that it counts as."""

from __future__ import annotations

import pickle

import numpy as np

from labkit.virtual import explain, vector
from labkit.virtual.vector import Vector


class Packed(bytes):
    """A pickled object with Vectors in it. stands_for: the bytes that it counts as."""

    stands_for: float


def pack(obj: object) -> bytes:
    """An object as it travels."""
    vector.extra = 0.0
    data = pickle.dumps(obj, 5)
    if vector.extra:
        data = Packed(data)
        data.stands_for = len(data) + vector.extra
    return data


def array(buf) -> np.ndarray:
    """The flat array that a buffer argument means.

    An array, or [array, count], [array, MPI.FLOAT], [array, count, type]; bytes are an array of them.
    """
    count = None
    if isinstance(buf, list | tuple) and buf and isinstance(buf[0], np.ndarray):
        numbers = [one for one in buf[1:] if isinstance(one, int)]
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

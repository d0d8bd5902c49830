"""Arrays that stand for larger ones, and whose additions take virtual time."""

from __future__ import annotations

import numpy as np

from labkit.errors import LabError
from labkit.virtual import engine


class Vector(np.ndarray):
    """A NumPy array on the virtual cluster: it counts `scale` times its bytes, in messages and in additions.

    Slices and results of arithmetic are Vectors of the same scale. Arithmetic charges the rank that does it the
    machine's γ (seconds per byte reduced, of the result).
    """

    scale = 1.0

    def __array_finalize__(self, source):
        self.scale = getattr(source, "scale", 1.0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [np.asarray(one) if isinstance(one, Vector) else one for one in inputs]
        if out is not None:
            kwargs["out"] = tuple(np.asarray(one) for one in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        lane = engine.current
        if lane is not None and isinstance(result, np.ndarray):
            gamma = lane.engine.gamma
            if gamma:
                lane.spend(result.nbytes * self.scale * gamma, "reduce")
        if out is not None:
            return out[0]
        if isinstance(result, np.ndarray):
            result = result.view(Vector)
            result.scale = self.scale
        return result


def vector(values, stands_for: float | None = None) -> Vector:
    """`values` (array or list) as a Vector. stands_for: the bytes that it counts as, its own if None."""
    made = np.array(values).view(Vector)
    if stands_for is not None:
        if not stands_for > 0 or made.nbytes == 0:
            raise LabError(f"A vector of {made.nbytes} bytes cannot stand for {stands_for!r} bytes.")
        made.scale = stands_for / made.nbytes
    return made

"""Arrays that stand for larger ones, and whose additions take virtual time."""

from __future__ import annotations

import numpy as np

from labkit.errors import LabError
from labkit.virtual import engine

extra = 0.0  # bytes that Vectors which were pickled stand for, beyond those that they have (buffers.pack)


class Vector(np.ndarray):
    """A NumPy array on the virtual cluster: it counts `scale` times its bytes, in messages and in additions.

    Slices, copies and results of arithmetic or of NumPy's functions are Vectors of the same scale. Arithmetic
    charges the rank that does it the machine's γ (seconds per byte reduced, of the result).
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
        global extra
        extra += self.nbytes * (self.scale - 1)
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.scale)

    def __setstate__(self, state):
        array, self.scale = state
        super().__setstate__(array)


def vector(values, stands_for: float | None = None) -> Vector:
    """`values` (array or list) as a Vector. stands_for: the bytes that it counts as, its own if None."""
    made = np.array(values).view(Vector)
    if stands_for is not None:
        if not stands_for > 0 or made.nbytes == 0:
            raise LabError(f"A vector of {made.nbytes} bytes cannot stand for {stands_for!r} bytes.")
        made.scale = stands_for / made.nbytes
    return made

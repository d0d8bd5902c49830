"""Times and other numbers as people read them: three digits, and a unit that keeps them short."""

from __future__ import annotations

import numpy as np


def human(seconds: float) -> str:
    """A time to read: "12.3 ms", "830 µs", "45.0 ns", "2.35 s"."""
    unit, factor = time_unit(seconds)
    return f"{digits(seconds * factor)} {unit}"


def digits(value: float) -> str:
    """Three digits that matter and no exponent: 12.3, 830, 0.0456."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    size = abs(float(f"{value:.3g}"))  # 99.96 is written 100
    places = max(0, 2 - int(np.floor(np.log10(size))))
    return f"{value:.{places}f}"


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit a time reads well in, and the factor from seconds to it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if abs(seconds) * factor >= 0.9995:
            return unit, factor
    return "ns", 1e9

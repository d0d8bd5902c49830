"""What the parameters of lab 14 may be."""

from __future__ import annotations

from labkit.errors import LabError


def at_least(least: int, **parameters: int) -> None:
    """A sentence for parameters that are too small to measure anything."""
    for name, value in parameters.items():
        if value < least:
            raise LabError(
                f"{name} must be at least {least}; here it is {value}. Look at the parameters cell."
            )

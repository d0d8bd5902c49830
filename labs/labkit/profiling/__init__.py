"""FACE of labkit.profiling."""

from labkit.profiling.parts import busy, pieces, without
from labkit.profiling.profile import Profile
from labkit.profiling.recording import record
from labkit.profiling.spans import IN_FLIGHT, mark, span

__all__ = [
    "IN_FLIGHT",
    "Profile",
    "busy",
    "mark",
    "pieces",
    "record",
    "span",
    "without",
]

"""FACE of support.lab42."""

from support.lab42.mvapich import (
    LOCAL_RANKS,
    MAPS,
    SINGLE,
    TEXTS,
    THREAD_LEVELS,
    UNBOUND,
    VARIABLES,
    look_inside,
    mpiname,
    options,
    read,
    thread_level,
)

__all__ = [
    "LOCAL_RANKS",
    "MAPS",
    "SINGLE",
    "TEXTS",
    "THREAD_LEVELS",
    "UNBOUND",
    "VARIABLES",
    "look_inside",
    "mpiname",
    "options",
    "read",
    "thread_level",
]

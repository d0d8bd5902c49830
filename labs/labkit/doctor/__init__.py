"""FACE of labkit.doctor."""

from labkit.doctor.facts import empty
from labkit.doctor.machine import collect, network, start, tool
from labkit.doctor.mpi import advice, banner, identify, switch
from labkit.doctor.probe import loaded_mpi
from labkit.doctor.report import report, rows, show, show_labs, words

__all__ = [
    "advice",
    "banner",
    "collect",
    "empty",
    "identify",
    "loaded_mpi",
    "network",
    "report",
    "rows",
    "show",
    "show_labs",
    "start",
    "switch",
    "tool",
    "words",
]

"""FACE of support.lab43."""

from support.lab43.allreduces import gains, leaving
from support.lab43.nccl_log import example, examples, parse, read
from support.lab43.ranks import report

__all__ = [
    "example",
    "examples",
    "gains",
    "leaving",
    "parse",
    "read",
    "report",
]

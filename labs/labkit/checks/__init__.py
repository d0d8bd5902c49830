"""FACE of labkit.checks."""

from labkit.checks.exercise import check, predict
from labkit.checks.expectations import count, expect, plain
from labkit.checks.hints import hint, in_notebook
from labkit.checks.progress import entry, read, show, update

__all__ = [
    "check",
    "count",
    "entry",
    "expect",
    "hint",
    "in_notebook",
    "plain",
    "predict",
    "read",
    "show",
    "update",
]

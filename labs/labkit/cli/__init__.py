"""FACE of labkit.cli."""

from labkit.cli.main import main
from labkit.cli.run import read_setting, script_with

__all__ = [
    "main",
    "read_setting",
    "script_with",
]

"""FACE of slurm.job."""

from slurm.job.header import FLAVORS
from slurm.job.launcher import command
from slurm.job.shape import read

__all__ = [
    "FLAVORS",
    "command",
    "read",
]

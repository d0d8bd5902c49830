"""FACE of slurm.doctor."""

from slurm.doctor.examination import examine

__all__ = [
    "examine",
]

"""FACE of labkit.cluster."""

from labkit.cluster.job import StoppedWaiting, shown
from labkit.cluster.jobs import here, jobs, last_study, records_or_reference, study, submit
from labkit.cluster.sites import FLAVORS, GPU_FORMS, LAUNCHERS, assigned, environment, load, names
from labkit.cluster.slurm import (
    NoAnswer,
    accounts,
    ask,
    ask_partitions,
    commands,
    features,
    gpu_count,
    mpi_plugins,
    parse_plugins,
    reason,
    version,
)
from labkit.cluster.status import why

__all__ = [
    "FLAVORS",
    "GPU_FORMS",
    "LAUNCHERS",
    "NoAnswer",
    "StoppedWaiting",
    "accounts",
    "ask",
    "ask_partitions",
    "assigned",
    "commands",
    "environment",
    "features",
    "gpu_count",
    "here",
    "jobs",
    "last_study",
    "load",
    "mpi_plugins",
    "names",
    "parse_plugins",
    "reason",
    "records_or_reference",
    "shown",
    "study",
    "submit",
    "version",
    "why",
]

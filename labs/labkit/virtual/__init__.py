"""The virtual cluster: a function on many ranks, each with a clock; messages cost as on a given machine."""

from labkit.virtual.buffers import Vector, vector
from labkit.virtual.catalogue import machine, machines
from labkit.virtual.cluster import Cluster
from labkit.virtual.loggp import Link, Machine, ideal
from labkit.virtual.run import Run, by_rank
from labkit.virtual.sweep import trials
from labkit.virtual.trace import spans

__all__ = [
    "Cluster",
    "Link",
    "Machine",
    "Run",
    "Vector",
    "by_rank",
    "ideal",
    "machine",
    "machines",
    "spans",
    "trials",
    "vector",
]

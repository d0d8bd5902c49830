"""The virtual cluster: a function on many ranks, each with a clock; messages cost as on a given machine."""

from labkit.virtual.arguments import by_rank
from labkit.virtual.cluster import Cluster
from labkit.virtual.machine import Link, Machine, ideal
from labkit.virtual.machines import machine, machines
from labkit.virtual.run import Run
from labkit.virtual.trials import trials
from labkit.virtual.vector import Vector, vector

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
    "trials",
    "vector",
]

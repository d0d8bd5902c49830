"""The virtual cluster."""

from labkit.virtual.cluster import Cluster, by_rank
from labkit.virtual.machine import Link, Machine, ideal
from labkit.virtual.vector import Vector, vector

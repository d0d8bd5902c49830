"""FACE of labkit.scaling."""

from labkit.scaling import costs
from labkit.scaling.costs import (
    busbw,
    chain_broadcast_time,
    leader_allreduce_time,
    two_dimensional_allreduce_time,
)
from labkit.scaling.fits import fit_alpha_beta, fit_amdahl, ordered
from labkit.scaling.laws import amdahl, efficiency, speedup

__all__ = [
    "amdahl",
    "busbw",
    "chain_broadcast_time",
    "costs",
    "efficiency",
    "fit_alpha_beta",
    "fit_amdahl",
    "leader_allreduce_time",
    "ordered",
    "speedup",
    "two_dimensional_allreduce_time",
]

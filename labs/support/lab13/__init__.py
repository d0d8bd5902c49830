"""FACE of support.lab13."""

from support.lab13.affinity import describe, heat_map
from support.lab13.checks import (
    expect_amdahl,
    expect_bind,
    expect_bound,
    expect_cores,
    expect_splits,
    expect_step,
)
from support.lab13.ranks import grid, policies, threads, usable, ways

__all__ = [
    "describe",
    "expect_amdahl",
    "expect_bind",
    "expect_bound",
    "expect_cores",
    "expect_splits",
    "expect_step",
    "grid",
    "heat_map",
    "policies",
    "threads",
    "usable",
    "ways",
]

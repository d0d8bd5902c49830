"""FACE of support.lab51."""

from support.lab51.backends import NAMES, each, missing
from support.lab51.checks import (
    expect_calls,
    expect_columns,
    expect_exchange,
    expect_mean,
    expect_meeting,
    expect_plan,
    expect_which,
)
from support.lab51.show import (
    elsewhere,
    fused_gain,
    gradient_bytes,
    keep,
    keep_steps,
    nodes,
    ranks,
    show,
    sizes_of,
    tabulate,
    times_as_long,
)

__all__ = [
    "NAMES",
    "each",
    "elsewhere",
    "expect_calls",
    "expect_columns",
    "expect_exchange",
    "expect_mean",
    "expect_meeting",
    "expect_plan",
    "expect_which",
    "fused_gain",
    "gradient_bytes",
    "keep",
    "keep_steps",
    "missing",
    "nodes",
    "ranks",
    "show",
    "sizes_of",
    "tabulate",
    "times_as_long",
]

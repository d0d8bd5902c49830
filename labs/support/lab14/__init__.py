"""FACE of support.lab14."""

from support.lab14.checks import (
    compare_parts,
    expect_checkpoints,
    expect_largest,
    expect_mixed,
    expect_parts,
    expect_scaling,
)
from support.lab14.precision import fine_training, speeds, trade, train_scaled

__all__ = [
    "compare_parts",
    "expect_checkpoints",
    "expect_largest",
    "expect_mixed",
    "expect_parts",
    "expect_scaling",
    "fine_training",
    "speeds",
    "trade",
    "train_scaled",
]

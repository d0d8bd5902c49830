"""FACE of support.lab35."""

from support.lab35.checks import (
    expect_bits,
    expect_feedback,
    expect_half,
    expect_top,
    from_whole,
    try_feedback,
    try_half,
    whole,
)
from support.lab35.compression import accuracy, exchange_times, expect_prices, links, packing, traffic

__all__ = [
    "accuracy",
    "exchange_times",
    "expect_bits",
    "expect_feedback",
    "expect_half",
    "expect_prices",
    "expect_top",
    "from_whole",
    "links",
    "packing",
    "traffic",
    "try_feedback",
    "try_half",
    "whole",
]

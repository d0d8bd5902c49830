"""FACE of support.lab45."""

from support.lab45.checks import LOGS, expect_adasum, expect_bytes, expect_pair, expect_search
from support.lab45.settings import accuracies, autotune, between_nodes, sweep, try_adasum, watch

__all__ = [
    "LOGS",
    "accuracies",
    "autotune",
    "between_nodes",
    "expect_adasum",
    "expect_bytes",
    "expect_pair",
    "expect_search",
    "sweep",
    "try_adasum",
    "watch",
]

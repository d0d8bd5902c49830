"""FACE of support.lab22."""

from support.lab22.two_regimes import TwoLines, two_lines

__all__ = [
    "TwoLines",
    "two_lines",
]

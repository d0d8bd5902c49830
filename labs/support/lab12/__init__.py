"""FACE of support.lab12."""

from support.lab12.checks import expect_bounds, expect_costs, expect_forward, expect_mended
from support.lab12.counting import flops
from support.lab12.roofline import begin, compiled, expect_roofs, layers, run, setting, show

__all__ = [
    "begin",
    "compiled",
    "expect_bounds",
    "expect_costs",
    "expect_forward",
    "expect_mended",
    "expect_roofs",
    "flops",
    "layers",
    "run",
    "setting",
    "show",
]

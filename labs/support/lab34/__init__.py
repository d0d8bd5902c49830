"""FACE of support.lab34."""

from labkit.nets import cut, gradient, join

from support.lab34.checks import expect_lamb, expect_lars, expect_parallel, expect_rate, try_parallel
from support.lab34.times import speed_ups, step_times, times_to_goal
from support.lab34.training import digits, start_weights, sweep

__all__ = [
    "cut",
    "digits",
    "expect_lamb",
    "expect_lars",
    "expect_parallel",
    "expect_rate",
    "gradient",
    "join",
    "speed_ups",
    "start_weights",
    "step_times",
    "sweep",
    "times_to_goal",
    "try_parallel",
]

"""Lab 30: the two parts of a step, timed, of a small net and of one that computes much (`step_times`)."""

from support.lab30.times import step_times

__all__ = ["step_times"]

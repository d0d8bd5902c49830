"""FACE of labkit.launch."""

from labkit.launch.diagnosis import Frame, describe, innermost, is_learners, raised, ranks_text, stack
from labkit.launch.excepthook import print_lab_errors_plainly
from labkit.launch.notes import leave_stack
from labkit.launch.plans import THREAD_VARIABLES, flavor, mpiexec, plan, reserve_port
from labkit.launch.process import environment, my_cores
from labkit.launch.runs import ranks_here, run
from labkit.launch.supervisor import die_with_parent

__all__ = [
    "Frame",
    "THREAD_VARIABLES",
    "describe",
    "die_with_parent",
    "environment",
    "flavor",
    "innermost",
    "is_learners",
    "leave_stack",
    "mpiexec",
    "my_cores",
    "plan",
    "print_lab_errors_plainly",
    "raised",
    "ranks_here",
    "ranks_text",
    "reserve_port",
    "run",
    "stack",
]

"""FACE of labkit.launch."""

from labkit.launch.diagnosis import Frame, describe, innermost, raised, ranks_text, stack
from labkit.launch.notes import begin, error
from labkit.launch.plans import THREAD_VARIABLES, flavor, mpiexec, plan, reserve_port
from labkit.launch.process import environment, my_cores
from labkit.launch.runs import ranks_here, run
from labkit.launch.supervisor import die_with_parent
from labkit.launch.worker import main

__all__ = [
    "Frame",
    "THREAD_VARIABLES",
    "begin",
    "describe",
    "die_with_parent",
    "environment",
    "error",
    "flavor",
    "innermost",
    "main",
    "mpiexec",
    "my_cores",
    "plan",
    "raised",
    "ranks_here",
    "ranks_text",
    "reserve_port",
    "run",
    "stack",
]

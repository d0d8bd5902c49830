"""What lab 71 needs beside its exercises: real elastic jobs in which ranks and nodes are killed.

CASES, MISTAKES        what may happen to a rank; those ends that are mistakes of the program
try_loop               the learner's loop played through a case in this process
Task                   what the ranks of a job are told: the learner's functions, and when who dies
OWN                    in place of a loop: Horovod's own, `hvd.elastic.run`
with_horovod           a real job under `horovodrun`; returns a Story
with_torchrun          a real job under two `torchrun`s, each a node; returns a Story
Story                  what a job's diary tells: losses, samples, steps lost, who was there, what listened
losses_alone           the same training in one process, as a control
SAMPLES, RANKS         samples of the epoch; ranks at full strength
spaces                 how processes get namespaces of their own; empty where that is not allowed
unplugged              on a tabletop cluster: a job whose node is unplugged, and comes back
close                  end the process that forks all these
"""

from support.lab71.control import losses_alone
from support.lab71.model import CASES, MISTAKES, try_loop
from support.lab71.plug import unplugged
from support.lab71.processes import close, spaces, with_horovod, with_torchrun
from support.lab71.story import Story
from support.lab71.training import OWN, RANKS, SAMPLES, Task

__all__ = [
    "CASES",
    "MISTAKES",
    "OWN",
    "RANKS",
    "SAMPLES",
    "Story",
    "Task",
    "close",
    "losses_alone",
    "spaces",
    "try_loop",
    "unplugged",
    "with_horovod",
    "with_torchrun",
]

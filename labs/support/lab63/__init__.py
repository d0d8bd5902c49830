"""What lab 63 needs beside its exercises: plans played on paper and on real ranks, and drawn.

A plan is a list for each rank of what it does, in order: ("F", m) is the way forward of micro-batch m, ("B",
m) its way back. Of a rank with several pieces of the net, ("F", m, piece).

play                  a plan of all ranks with given times of F and B: spans, time, idle share
Played                what play returns
interleaved           the plan of Megatron-LM for ranks with several pieces each
shortcoming           what is wrong with a plan, in a sentence; "" if nothing is
text                  a plan in one line
draw                  plans as pictures

Work                  on a rank: the arithmetic of one stage, micro-batch by micro-batch
try_plan              on a rank: a plan run with real arithmetic: gradients, requests left, bytes held
one_process           gradients and loss of the same net in one process
sleep_through         on a rank: a plan run with a stand-in device that sleeps; when it computed
by_torch              on a rank: the same by torch.distributed.pipelining
"""

from support.lab63.pictures import draw
from support.lab63.plans import Played, interleaved, play, shortcoming, text
from support.lab63.ranks import by_torch, one_process, sleep_through, try_plan
from support.lab63.work import Work

__all__ = [
    "Played",
    "Work",
    "by_torch",
    "draw",
    "interleaved",
    "one_process",
    "play",
    "shortcoming",
    "sleep_through",
    "text",
    "try_plan",
]

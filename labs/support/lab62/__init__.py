"""What lab 62 needs beside its exercises: trials of stages on real ranks, who is busy.

least_slowest      the cost of the dearest stage of the best possible cut
Alone, alone       one process: output, loss and gradients to compare with
MOST               ranks with which passes can be tried
try_forward        on a rank: what a forward pass over stages gave, and which calls carried it
try_backward       on a rank: the gradients of its stage after both passes
held               bytes of a stage's parameters, gradients and optimizer after a step
busy_spans         when each rank computed in one step, since the first began
draw_busy          these spans as a picture
"""

from support.lab62.checks import MOST, Alone, alone, try_backward, try_forward
from support.lab62.net import held, least_slowest
from support.lab62.spans import busy_spans, draw_busy

__all__ = [
    "MOST",
    "Alone",
    "alone",
    "busy_spans",
    "draw_busy",
    "held",
    "least_slowest",
    "try_backward",
    "try_forward",
]

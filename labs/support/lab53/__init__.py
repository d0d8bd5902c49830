"""What lab 53 needs beside its exercises: steps of random length, cases to solve, ranks that nap, training.

KINDS, MEAN, SPREAD    of steps drawn by `draw`: what they are called, their mean and standard deviation [s]
draw              seconds of steps on ranks
CAUSES            what a straggler may suffer from
Span              what a rank did, from when to when
Case, case        a hidden straggler, and the steps that it spoilt
cases             several of each cause
share_found       how many of fresh cases a hunter solves
share_blamed      in how many of healthy cases it blames a rank all the same
above             how far a rank's value is above the middle of the others
draw_step         a picture of one step
step_seconds      on real ranks: seconds of synchronous steps whose work is a nap
recorded          on real ranks: a case played with naps and messages, recorded by labkit.profiling
spans_of          a recorded step as Spans
pair_seconds      on real ranks: seconds of a message between each two of them, of two nodes
race              on virtual ranks: seconds of synchronous steps, with backup workers, of local SGD
slow_rank         seconds of steps, one rank of which is always slow
train             the digits' net, with the gradients that were in time, or by local SGD
"""

from support.lab53.hunt import CAUSES, Case, above, case, cases, share_blamed, share_found
from support.lab53.pictures import draw_step
from support.lab53.race import race
from support.lab53.ranks import pair_seconds, recorded, spans_of, step_seconds
from support.lab53.times import KINDS, MEAN, SPREAD, draw, slow_rank
from support.lab53.training import train
from support.lab53.work import Span

__all__ = [
    "CAUSES",
    "KINDS",
    "MEAN",
    "SPREAD",
    "Case",
    "Span",
    "above",
    "case",
    "cases",
    "draw",
    "draw_step",
    "pair_seconds",
    "race",
    "recorded",
    "share_blamed",
    "share_found",
    "slow_rank",
    "spans_of",
    "step_seconds",
    "train",
]

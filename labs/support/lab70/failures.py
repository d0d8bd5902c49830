"""What failures cost a long training: simulated, and by Daly's formulas. All times in seconds."""

from __future__ import annotations

import math
import random


def simulate(every: float, save: float, mtbf: float, restart: float, work: float, seed: int = 0) -> float:
    """The share of its time that a training loses to saves, to work done twice and to restarts.

    It computes for `every`, saves for `save`, and so on until `work` is done. Failures come at random, one
    each `mtbf` in the mean, whatever happened before (exponential times), also during a save or a restart.
    After one it takes `restart` to begin again right after the last save that is whole.
    """
    draw = random.Random(seed)
    clock = 0.0
    done = 0.0
    failure = draw.expovariate(1 / mtbf)
    while done < work:
        piece = min(every, work - done)
        if clock + piece + save <= failure:
            clock += piece + save
            done += piece
            continue
        clock = failure + restart
        failure += draw.expovariate(1 / mtbf)
        while failure < clock:  # the restart itself was hit
            clock = failure + restart
            failure += draw.expovariate(1 / mtbf)
    return 1 - work / clock


def expected(every: float, save: float, mtbf: float, restart: float) -> float:
    """The share that is lost in the mean of many such trainings.

    From Daly's complete cost function, J. T. Daly, "A higher order estimate of the optimum checkpoint
    interval for restart dumps", Future Generation Computer Systems 22 (2006) 303-312.
    """
    return 1 - every / (mtbf * math.exp(restart / mtbf) * math.expm1((every + save) / mtbf))


def daly(save: float, mtbf: float) -> float:
    """Daly's interval of higher order, of the same paper; without the time of the save itself."""
    if save >= 2 * mtbf:
        return mtbf
    ratio = save / (2 * mtbf)
    return math.sqrt(2 * save * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save


def best(save: float, mtbf: float) -> float:
    """The interval for which `expected` is least, found by halving: no approximation is left in it."""
    low = 0.0
    high = mtbf
    for _ in range(100):
        middle = (low + high) / 2
        # The derivative's sign: growth of the time that a piece takes, against growth of the piece.
        if math.exp((middle + save) / mtbf) * (1 - middle / mtbf) > 1:
            low = middle
        else:
            high = middle
    return low

"""The clocks of all ranks on that of rank 0: offsets estimated with messages, and how wrong they
can be.

Cristian's method: rank 0 asks, rank r answers with its time. The answer was written between
question and answer, so half the round trip bounds the error whatever the way of the messages; the
shortest round trip of many gives the best estimate (F. Cristian, Probabilistic clock
synchronization, 1989).
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

ROUNDS = 100  # questions to a rank
LONGEST = 0.1  # seconds for the questions to a rank


def offset(group) -> tuple[float, float]:
    """(seconds this rank's clock is ahead of rank 0's, largest error of that); every rank calls it.

    group: an mpi4py communicator.
    """
    if group is None or group.size == 1:
        return 0.0, 0.0
    if group.rank != 0:
        _answer(group)
        return tuple(group.scatter(None, root=0))
    offsets = [(0.0, 0.0), *(_ask(group, rank) for rank in range(1, group.size))]
    return tuple(group.scatter(offsets, root=0))


def _ask(group, rank: int) -> tuple[float, float]:
    shortest = float("inf")
    ahead = 0.0
    answer = np.zeros(1)
    go_on = np.ones(1)
    start = perf_counter()
    for turn in range(ROUNDS):
        go_on[0] = turn < ROUNDS - 1 and perf_counter() - start < LONGEST
        asked = perf_counter()
        group.Send(go_on, rank)
        group.Recv(answer, rank)
        answered = perf_counter()
        if answered - asked < shortest:
            shortest = answered - asked
            ahead = answer[0] - (asked + answered) / 2
        if not go_on[0]:
            break
    return float(ahead), shortest / 2


def _answer(group) -> None:
    go_on = np.ones(1)
    now = np.zeros(1)
    while go_on[0]:
        group.Recv(go_on, 0)
        now[0] = perf_counter()
        group.Send(now, 0)

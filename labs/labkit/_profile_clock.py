"""The clocks of all ranks on that of rank 0: offsets estimated with MPI messages, and how wrong they can be.

Cristian's method: rank 0 asks, rank r answers with its time. The answer was written between question and
answer, so half the round trip bounds the error whatever the way of the messages; the shortest round trip of
many gives the best estimate (F. Cristian, Probabilistic clock synchronization, 1989).
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

ROUNDS = 100  # questions to a rank
LONGEST = 0.1  # seconds for the questions to a rank


def offset(comm) -> tuple[float, float]:
    """(seconds this rank's clock is ahead of rank 0's, largest error of that); every rank calls it.

    comm: an mpi4py communicator.
    """
    if comm is None or comm.size == 1:
        return 0.0, 0.0
    if comm.rank != 0:
        _answer(comm)
        return tuple(comm.scatter(None, root=0))
    return tuple(comm.scatter([(0.0, 0.0), *(_ask(comm, rank) for rank in range(1, comm.size))], root=0))


def _ask(comm, rank: int) -> tuple[float, float]:
    best, ahead = float("inf"), 0.0
    theirs = np.zeros(1)
    go_on = np.ones(1)
    start = perf_counter()
    for turn in range(ROUNDS):
        go_on[0] = turn < ROUNDS - 1 and perf_counter() - start < LONGEST
        asked = perf_counter()
        comm.Send(go_on, rank)
        comm.Recv(theirs, rank)
        answered = perf_counter()
        if answered - asked < best:
            best, ahead = answered - asked, theirs[0] - (asked + answered) / 2
        if not go_on[0]:
            break
    return float(ahead), best / 2


def _answer(comm) -> None:
    go_on, now = np.ones(1), np.zeros(1)
    while go_on[0]:
        comm.Recv(go_on, 0)
        now[0] = perf_counter()
        comm.Send(now, 0)

"""How fast the virtual cluster is, beside plain Python in the same process: ratios, never times.

Processor time, the best of several turns, so that other work on the machine does little harm.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
import virtual

pytestmark = pytest.mark.alone


def plain_loop(steps: int = 200_000) -> float:
    """Seconds of a step of a small loop in plain Python."""
    box, begin = {}, time.process_time()
    for i in range(steps):
        box[i & 255] = i * 3 % 7
    return (time.process_time() - begin) / steps


def shift(comm, messages: int) -> None:
    box, other = np.zeros(2), np.zeros(2)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(messages):
        comm.Sendrecv(box, right, recvbuf=other, source=left)


def seconds_per_message(fn, ranks: int, *args) -> float:
    cluster = virtual.Cluster(nodes=ranks)
    begin = time.process_time()
    run = cluster.run(fn, *args)
    return (time.process_time() - begin) / sum(run.sent)


def steps_per_message(name: str, *case) -> float:
    """Seconds of a message over those of a step of the loop, the best of four turns each."""
    turns = [(seconds_per_message(*case), plain_loop()) for _ in range(4)]
    message, step = (min(times) for times in zip(*turns, strict=True))
    print(
        f"{name}: {1 / message:,.0f} messages per second; one costs {message / step:.0f} steps of a"
        " loop"
    )
    return message / step


@pytest.mark.parametrize("ranks", [2, 16, 64])
def test_a_message_costs_no_more_than_125_steps_of_a_loop(ranks):
    assert steps_per_message(f"Sendrecv, {ranks} ranks", shift, ranks, 20_000 // ranks) < 125

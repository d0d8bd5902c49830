"""How fast the virtual cluster is, beside plain Python in the same process: ratios, never times.

Processor time, the best of several turns, so that other work on the machine does little harm.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
import virtual

pytestmark = [pytest.mark.slow, pytest.mark.alone]


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


@pytest.mark.parametrize("ranks", [2, 16, 64])
def test_a_message_costs_no_more_than_125_steps_of_a_loop(ranks):
    def message() -> float:
        begin = time.process_time()
        run = virtual.Cluster(nodes=ranks).run(shift, 20_000 // ranks)
        return (time.process_time() - begin) / sum(run.sent)

    turns = [(message(), plain_loop()) for _ in range(4)]
    best, step = (min(times) for times in zip(*turns, strict=True))
    print(f"{ranks} ranks: {1 / best:,.0f} messages per second, {best / step:.0f} steps of a loop")
    assert best / step < 125

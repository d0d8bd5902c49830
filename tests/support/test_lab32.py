"""support.lab32: sums that queue, and a few values that stand for many."""

from __future__ import annotations

import numpy as np
import pytest
import virtual
from support import lab32


def started(comm, net):
    sums = [np.empty_like(part) for part in net.gradients]
    requests = {}

    def ready(i):
        requests[i] = comm.Iallreduce(net.gradients[i], sums[i])

    def finish():
        for i, request in requests.items():
            request.Wait()
            net.update(i, sums[i] / comm.size)
        requests.clear()

    return ready, finish


def test_sums_one_after_the_other_do_not_share_their_latencies():
    net = lab32.table("googlenet", images=1, flops=1e12)
    latencies = virtual.ideal(alpha=1e-3, bandwidth=1e15)
    together = lab32.messages_alone(started, net, 2, latencies)
    queued = lab32.messages_alone(started, net, 2, latencies, queued=True)
    assert queued == pytest.approx(len(net.sizes) * together, rel=0.01)


def test_few_values_that_stand_for_many_take_as_long_as_many():
    # 6.4 kB, summed by halves: as 800 bytes, MPI would take them for short and send all in each message.
    net, machine = lab32.table("googlenet", 1, 1e12), virtual.machine("k80_edr")
    many = net._replace(sizes=[1600, 3200], forward=[0, 0], backward=[1e-6, 1e-6], scale=1.0)
    few = many._replace(sizes=[200, 400], scale=8.0)
    times = [lab32.on_gpus(started, size, 8, machine).time for size in (few, many)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


class Ticking:
    """A communicator of one rank. Its clock goes on by 1 s with each look; its sums take two Tests."""

    rank, size = 0, 1

    def __init__(self):
        self.time = 0.0

    def Wtime(self):
        self.time += 1
        return self.time

    def Allreduce(self, sendbuf, recvbuf):
        recvbuf[:] = sendbuf

    def Iallreduce(self, sendbuf, recvbuf):
        answers = iter([False, True, True])

        class Request:
            def Test(self, status):
                return next(answers)

        return Request()


def test_a_log_of_collectives_has_their_values_and_times_and_counts_tests():
    log = lab32.CollectiveLog(Ticking())
    log.Allreduce(np.ones(3), np.empty(3))
    request = log.Iallreduce(recvbuf=np.empty(6)[:5], sendbuf=np.ones(5))
    assert [(call.name, call.values, call.begin) for call in log.calls] == [
        ("Allreduce", 3, 1.0),
        ("Iallreduce", 5, 3.0),
    ]
    assert [call.end for call in log.calls] == [[2.0], []]
    assert [request.Test(), request.Test(), request.Test()] == [False, True, True]
    assert log.calls[1].end == [4.0]  # the first that saw the end
    assert log.tests == 3
    assert log.time == 4.0  # everything else is passed on

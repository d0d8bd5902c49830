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


def test_a_sum_that_queues_can_be_tested_until_it_is_over():
    def tested(comm, net):
        sums = [np.empty_like(part) for part in net.gradients]
        requests = []

        def ready(i):
            requests.append(comm.Iallreduce(net.gradients[i], sums[i]))

        def finish():
            for request in requests:
                while not request.Test():
                    pass

        return ready, finish

    net = lab32.table("alexnet", images=1, flops=1e12)
    machine = virtual.ideal(alpha=1e-3, bandwidth=1e9)
    times = [lab32.messages_alone(way, net, 2, machine, queued=True) for way in (started, tested)]
    assert times[1] == pytest.approx(times[0], rel=0.01)


def test_few_values_that_stand_for_many_take_as_long_as_many():
    # 6.4 kB, summed by halves: as 800 bytes, MPI would take them for short and send all in each
    # message.
    net, machine = lab32.table("googlenet", 1, 1e12), virtual.machine("k80_edr")
    many = net._replace(sizes=[1600, 3200], forward=[0, 0], backward=[1e-6, 1e-6], scale=1.0)
    few = many._replace(sizes=[200, 400], scale=8.0)
    times = [lab32.on_gpus(started, size, 8, machine).time for size in (few, many)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)

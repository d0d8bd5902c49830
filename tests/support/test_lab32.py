"""support.lab32: sums that queue, and a few values that stand for many."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import virtual
from labkit import mpi
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


def of_each(call):
    return lambda requests: [call(request) for request in requests]


def until_over(test):
    def tests(requests):
        while not test(requests):
            pass

    return tests


def while_any(wait, nothing):
    def waits(requests):
        while wait(requests) != nothing:
            pass

    return waits


QUEUED = lab32.Queued


@pytest.mark.parametrize(
    "wait_for",
    [
        of_each(lambda request: request.wait()),
        of_each(until_over(lambda request: request.Test())),
        of_each(until_over(lambda request: request.test()[0])),
        QUEUED.Waitall,
        QUEUED.waitall,
        until_over(QUEUED.Testall),
        until_over(lambda requests: QUEUED.testall(requests)[0]),
        while_any(QUEUED.Waitany, mpi.UNDEFINED),
        while_any(QUEUED.waitany, (mpi.UNDEFINED, None)),
        while_any(QUEUED.Waitsome, None),
        while_any(QUEUED.waitsome, (None, None)),
        while_any(QUEUED.Testany, (mpi.UNDEFINED, True)),
        while_any(QUEUED.testany, (mpi.UNDEFINED, True, None)),
        while_any(QUEUED.Testsome, None),
        while_any(QUEUED.testsome, (None, None)),
    ],
)
def test_a_sum_that_queues_can_be_waited_for_by_each_call_of_mpi(wait_for):
    def tested(comm, net):
        sums = [np.empty_like(part) for part in net.gradients]
        requests = []

        def ready(i):
            requests.append(comm.Iallreduce(net.gradients[i], sums[i]))

        def finish():
            wait_for(requests)

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


def after_backward(comm, net):
    def finish():
        own = np.concatenate(net.gradients)
        total = np.empty_like(own)
        comm.Allreduce(own, total)
        for i, piece in net.cut(total / comm.size, net.numbers):
            net.update(i, piece)

    return (lambda i: None), finish


def nobody(module, ready):
    """No hooks: all is summed after backward."""


def test_ranks_with_unequal_parts_train_as_one_process():
    training = partial(lab32.train_digits, way=after_backward, watch=nobody, steps=2, batch=96)
    alone = lab32.train_digits_alone(2, 96)
    for weights in virtual.Cluster(1, 5).run(training).results:
        for own, wanted in zip(weights, alone, strict=True):
            np.testing.assert_allclose(own, wanted, atol=1e-6)

"""labkit.overlap: the toy net, the tables of well-known nets, what is noted, and the step in PyTorch."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from labkit import nets, virtual
from labkit.errors import CheckFailed, LabError
from support import lab32


def summed(comm, net):
    def ready(i):
        pass

    def finish():
        total = np.empty_like(net.join(net.numbers))
        comm.Allreduce(net.join(net.numbers), total)
        for i, piece in net.cut(total, net.numbers):
            net.update(i, piece / comm.size)

    return ready, finish


def started(comm, net):
    sums, requests = [np.empty_like(one) for one in net.gradients], {}

    def ready(i):
        requests[i] = comm.Iallreduce(net.gradients[i], sums[i])

    def finish():
        for i, request in requests.items():
            request.Wait()
            net.update(i, sums[i] / comm.size)
        requests.clear()

    return ready, finish


@pytest.mark.parametrize("way", [summed, started])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_toy_net_becomes_that_of_one_process(way, ranks):
    run = virtual.Cluster(ranks).run(lab32.train, way, (5, 1, 7), 4)
    for seen in run.results:
        for got, want in zip(seen.parameters, lab32.trained_alone(ranks, (5, 1, 7), 4), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-4)


def test_what_began_when_is_noted():
    _, seen = lab32.one_step(started)
    assert [call.values for call in seen.calls] == list(reversed(lab32.SIZES))
    assert [call.begin for call in seen.calls] == pytest.approx(list(reversed(seen.ready[0])))
    assert all(call.end[0] >= call.begin for call in seen.calls)
    assert seen.forward[0] == pytest.approx([1e-3 * i for i in range(6)])
    lab32.expect_begun(seen, "Iallreduce")
    with pytest.raises(CheckFailed, match="should be made of Iallreduce alone"):
        lab32.expect_begun(lab32.one_step(summed)[1], "Iallreduce")


def test_a_sum_in_place_counts_as_one_of_its_array():
    def in_place(comm, net):
        from mpi4py import MPI

        _, finish = started(comm, net)
        requests = []

        def ready(i):
            requests.append((i, comm.Iallreduce(MPI.IN_PLACE, net.gradients[i])))

        def update():
            for i, request in requests:
                request.Wait()
                net.update(i, net.gradients[i] / comm.size)
            requests.clear()
            finish()

        return ready, update

    lab32.expect_begun(lab32.one_step(in_place)[1], "Iallreduce")


def test_another_order_on_one_rank_is_told():
    assert "same collective calls in the same order" in lab32.swapped(started, (3, 4, 5))
    assert lab32.swapped(summed, (3, 4, 5)) == "Both ranks made the same calls."


def test_the_plan_of_buckets():
    assert lab32.planned(10**9, 1000) == [[5, 4, 3, 2, 1, 0]]
    assert lab32.planned(12_000, 1000) == [[5, 4, 3], [2], [1, 0]]
    assert lab32.planned(10**9, 4) == [[5, 4, 3, 2], [1, 0]]


def test_cut_and_update_refuse_what_does_not_fit():
    net = lab32.Net([np.zeros(2, np.float32)], [np.ones(2, np.float32)], 0.5)
    net.update(0, np.ones(2))
    assert net.parameters[0].tolist() == [-0.5, -0.5]
    with pytest.raises(LabError, match="tensor 0 has 2 values"):
        net.update(0, np.ones(3))
    with pytest.raises(LabError, match="have 2 values, not 5"):
        net.cut(np.ones(5), [0])


@pytest.mark.parametrize(("name", "layers", "megabytes"), [("alexnet", 8, 244), ("vgg16", 16, 553)])
def test_a_table_stands_for_the_whole_net(name, layers, megabytes):
    one = lab32.table(name, images=2, flops=1e12)
    assert len(one.names) == layers
    assert one.nbytes / 1e6 == pytest.approx(megabytes, rel=0.01)
    assert one.seconds == pytest.approx(2 * 3 * nets.layer_table(name)["flops"].sum() / 1e12)
    run = lab32.on_gpus(started, one, 2, virtual.ideal(alpha=0, bandwidth=1e9))
    first = one.sizes[0] * one.scale * 4 / 1e9  # the sum of layer 1: nothing hides that
    assert one.seconds + first <= run.time < one.seconds + one.nbytes / 1e9


@pytest.mark.parametrize("way", [summed, started])
def test_few_values_that_stand_for_many_take_as_long_as_many(way):
    # 6.4 kB, summed by halves: as 800 bytes, MPI would take them for short and send all in each message.
    net, machine = lab32.table("googlenet", 1, 1e12), virtual.machine("k80_edr")
    many = net._replace(sizes=[1600, 3200], forward=[0, 0], backward=[1e-6, 1e-6], scale=1.0)
    few = many._replace(sizes=[200, 400], scale=8.0)
    times = [lab32.on_gpus(way, one, 8, machine).time for one in (few, many)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_the_same_calls_without_overlap_take_longer():
    machine = virtual.ideal(bandwidth=1e9)
    one = lab32.table("alexnet", images=16, flops=1e12)
    hidden, late = (lab32.on_gpus(way, one, 4, machine).time for way in (started, lab32.unhidden(started)))
    assert hidden < late
    rows = lab32.lanes({"(b) now": started}, one, 4, machine, steps=1)
    assert list(rows) == ["(b) forward", "(b) backward", "(b) messages"]
    begun, computed = min(begin for begin, _ in rows["(b) messages"]), max(e for _, e in rows["(b) backward"])
    assert begun < computed


def hooked(module, ready):
    for i, weight in enumerate(module.parameters()):
        weight.register_post_accumulate_grad_hook(lambda weight, i=i: ready(i))


def test_pytorch_trains_as_without_us():
    lab32.expect_watch(hooked)
    got = virtual.Cluster(1).run(lambda comm: _digits(comm, summed)).results[0]
    for mine, alone in zip(got, _alone(), strict=True):
        np.testing.assert_allclose(mine, alone, atol=1e-5)


def _digits(comm, way):
    from support.lab32.ranks import train_digits

    return train_digits(comm, way, hooked, steps=3, batch=32)


def _alone():
    from support.lab32.ranks import train_digits_alone

    return train_digits_alone(steps=3, batch=32)


def test_the_progress_thread_calls_mpi_and_ends():
    class Comm:
        looks = 0

        def Dup(self):
            return self

        def Iprobe(self):
            Comm.looks += 1
            called.set()

    called, before = threading.Event(), threading.active_count()
    with lab32.Progress(Comm()):
        assert called.wait(timeout=30)
    assert Comm.looks > 0
    assert threading.active_count() == before

"""support.lab32: the toy net, the tables of well-known nets, what is noted, and the step in PyTorch."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from labkit import launch, nets, virtual
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


@pytest.mark.parametrize("way", [summed, started])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_toy_net_becomes_that_of_one_process(way, ranks):
    run = virtual.Cluster(ranks).run(lab32.train, way, (5, 1, 7), 4)
    for seen in run.results:
        for got, want in zip(seen.parameters, lab32.trained_alone(ranks, (5, 1, 7), 4), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-4)


def test_what_began_when_is_noted():
    seen = lab32.one_step(started)
    assert [call.values for call in seen.calls] == list(reversed(lab32.SIZES))
    assert [call.begin for call in seen.calls] == pytest.approx(list(reversed(seen.ready[0])))
    assert all(call.end[0] >= call.begin for call in seen.calls)
    assert seen.forward[0] == pytest.approx([1e-3 * i for i in range(6)])
    assert lab32.backward_ms(seen) == pytest.approx([lab32.AFTER_FIRST_MS])


def test_sums_in_time_and_too_late():
    lab32.expect_begun(started, "Iallreduce")
    lab32.expect_begun(summed, "Allreduce", buckets=lab32.ALL_TOGETHER, late=True, steps=2)
    with pytest.raises(CheckFailed, match="No overlap: backward ends"):
        lab32.expect_begun(lab32.unhidden(started), "Iallreduce")
    with pytest.raises(CheckFailed, match="It should be called for gradients"):
        lab32.expect_begun(started, "Iallreduce", buckets=lab32.planned(12_000, 1000), late=True)
    with pytest.raises(CheckFailed, match="should be made of Ireduce"):
        lab32.expect_begun(started, "Ireduce")


def test_two_sides_asks_for_broadcasts_behind_the_next_forward_pass():
    with pytest.raises(CheckFailed, match="Ireduce"):
        lab32.expect_two_sides(started)


def test_a_way_that_returns_nothing_is_told_so():
    with pytest.raises(LabError, match=r"nothing\(comm, net\) returns nothing"):
        lab32.one_step(nothing)


def nothing(comm, net):
    """A way whose author forgot to return."""


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

    seen = lab32.one_step(in_place)
    assert [call.values for call in seen.calls] == list(reversed(lab32.SIZES))


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
    with pytest.raises(LabError, match="Was the list cleared"):
        net.cut(np.ones(5), [])


@pytest.mark.parametrize(("name", "layers", "megabytes"), [("alexnet", 8, 244), ("vgg16", 16, 553)])
def test_a_table_stands_for_the_whole_net(name, layers, megabytes):
    net = lab32.table(name, images=2, flops=1e12)
    assert len(net.names) == layers
    assert net.nbytes / 1e6 == pytest.approx(megabytes, rel=0.01)
    assert net.seconds == pytest.approx(2 * 3 * nets.layer_table(name)["flops"].sum() / 1e12)
    run = lab32.on_gpus(started, net, 2, virtual.ideal(alpha=0, bandwidth=1e9))
    first = net.sizes[0] * net.scale * 4 / 1e9  # the sum of layer 1: nothing hides that
    assert net.seconds + first <= run.time < net.seconds + net.nbytes / 1e9


def test_the_messages_alone_are_a_step_without_arithmetic():
    net = lab32.table("alexnet", images=1, flops=1e30)
    machine = virtual.ideal(bandwidth=1e9)
    alone = lab32.messages_alone(summed, net._replace(forward=[1.0] * 8, backward=[1.0] * 8), 4, machine)
    assert alone == pytest.approx(lab32.on_gpus(summed, net, 4, machine).time)


def test_sums_one_after_the_other_do_not_share_their_latencies():
    net = lab32.table("googlenet", images=1, flops=1e12)
    latencies = virtual.ideal(alpha=1e-3, bandwidth=1e15)
    together = lab32.messages_alone(started, net, 2, latencies)
    queued = lab32.messages_alone(started, net, 2, latencies, queued=True)
    assert queued == pytest.approx(len(net.sizes) * together, rel=0.01)
    assert lab32.on_gpus(summed, net, 2, latencies, queued=True).time == pytest.approx(
        lab32.on_gpus(summed, net, 2, latencies).time
    )


def test_a_sum_that_is_waited_for_at_once_hides_behind_nothing():
    net = lab32.table("googlenet", images=1, flops=1e12)
    machine = virtual.ideal(alpha=1e-4, bandwidth=1e9)
    queued = lab32.messages_alone(started, net, 2, machine, queued=True)
    took = lab32.on_gpus(lab32.waited_at_once(started), net, 2, machine).time
    assert took == pytest.approx(net.seconds + queued, rel=0.01)


@pytest.mark.parametrize("how", [lab32.one_after_other, lab32.waited_at_once])
def test_sums_in_another_way_are_those_of_one_process(how):
    run = virtual.Cluster(3).run(lab32.train, how(started), (5, 1, 7), 4)
    for seen in run.results:
        for got, want in zip(seen.parameters, lab32.trained_alone(3, (5, 1, 7), 4), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("way", [summed, started])
def test_few_values_that_stand_for_many_take_as_long_as_many(way):
    # 6.4 kB, summed by halves: as 800 bytes, MPI would take them for short and send all in each message.
    net, machine = lab32.table("googlenet", 1, 1e12), virtual.machine("k80_edr")
    many = net._replace(sizes=[1600, 3200], forward=[0, 0], backward=[1e-6, 1e-6], scale=1.0)
    few = many._replace(sizes=[200, 400], scale=8.0)
    times = [lab32.on_gpus(way, size, 8, machine).time for size in (few, many)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_the_same_calls_without_overlap_take_longer():
    machine = virtual.ideal(bandwidth=1e9)
    net = lab32.table("alexnet", images=16, flops=1e12)
    hidden, late = (lab32.on_gpus(way, net, 4, machine).time for way in (started, lab32.unhidden(started)))
    assert hidden < late
    rows = lab32.lanes({"(b) now": started}, net, 4, machine, steps=1)
    assert list(rows) == ["(b) forward", "(b) backward", "(b) messages", "(b) forward, rank 3"]
    begun = min(begin for begin, _ in rows["(b) messages"])
    computed = max(end for _, end in rows["(b) backward"])
    assert begun < computed


def hooked(module, ready):
    for i, weight in enumerate(module.parameters()):
        weight.register_post_accumulate_grad_hook(lambda weight, i=i: ready(i))


def test_what_hooks_tell():
    told = lab32.told_by_hooks(hooked)
    assert sorted(call.i for call in told) == [0, 1, 2, 3, 4, 5]
    assert all(call.there and not call.early for call in told)
    called = lab32.told_by_hooks(lambda module, ready: ready(3))
    assert called == [(3, True, False)]


def reduced_and_sent(comm, net):
    """Sums on rank 0 alone, whose parameters the others get while they begin the next forward pass."""
    sent = {}

    def finish():
        for i in net.numbers:
            total = np.empty_like(net.gradients[i])
            comm.Reduce(net.gradients[i], total, root=0)
            if comm.rank == 0:
                net.update(i, total / comm.size)
            sent[i] = comm.Ibcast(net.parameters[i], root=0)

    def before(i):
        if i in sent:
            sent.pop(i).Wait()

    return (lambda i: None), finish, before


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("way", [summed, started, reduced_and_sent])
def test_pytorch_trains_as_without_us(way, staged):
    """staged: as on a GPU, but that the copies are of the host's memory."""
    train = partial(lab32.train_digits, way=way, watch=hooked, steps=3, batch=32, staged=staged)
    for trained in virtual.Cluster(2).run(train).results:
        for weight, alone in zip(trained, lab32.train_digits_alone(steps=3, batch=32), strict=True):
            np.testing.assert_allclose(weight, alone, atol=1e-5)


def test_arrays_are_a_modules_memory_or_copies_of_it():
    module = nets.torch_digits()
    first = next(module.parameters())
    arrays = lab32.Arrays(module)
    arrays.parameters[0][0] = 5.0
    assert first.detach().reshape(-1)[0] == 5.0
    copies = lab32.Arrays(module, staged=True)
    copies.parameters[0][0] = 7.0
    first.grad += 1
    assert first.detach().reshape(-1)[0] == 5.0
    assert not copies.gradients[0].any()
    copies.take(0)
    copies.bring(0)
    assert first.detach().reshape(-1)[0] == 7.0
    assert (copies.gradients[0] == 1).all()


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("way", [summed, started, reduced_and_sent])
def test_a_net_on_a_gpu_trains_as_one_on_the_host(way):
    trained = launch.run(lab32.train_digits, way, hooked, 3, 32, ranks=2, timeout=600)
    for parameters in trained:
        for weight, alone in zip(parameters, lab32.train_digits_alone(steps=3, batch=32), strict=True):
            np.testing.assert_allclose(weight, alone, atol=1e-4)

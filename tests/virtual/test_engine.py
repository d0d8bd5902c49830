"""Virtual time: what calls cost, in which order ranks act, and that a run is the same every
time."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
import virtual

ALPHA, BANDWIDTH = 1e-6, 1e9
IDEAL = virtual.ideal(ALPHA, BANDWIDTH)


def run(fn, ranks: int = 2, *args, machine=IDEAL, per_node: int = 1, **more):
    return virtual.Cluster.of(ranks, per_node, machine).run(fn, *args, **more)


def test_who_meets_in_a_card_shares_it():
    """Rank 1 sends alone for 5 µs; then each has half of the speed until rank 1's bytes have
    left."""

    def late(comm):
        if comm.rank < 2:
            comm.compute(5e-6 if comm.rank == 0 else 0)
            comm.Send(np.zeros(10**6, np.uint8), comm.rank + 2)
        else:
            comm.Recv(np.zeros(10**6, np.uint8), comm.rank - 2)
        return comm.Wtime()

    ends = run(late, 4, per_node=2).results[2:]
    assert ends == pytest.approx([ALPHA + 2e-3, ALPHA + 2e-3 - 5e-6])


def test_any_source_takes_what_arrives_first():
    def race(comm):
        if comm.rank:
            comm.compute((comm.size - comm.rank) * 1e-4)
            return comm.send(comm.rank, 0)
        comm.compute(2.5e-4)  # two have arrived by then
        return [comm.recv() for _ in range(comm.size - 1)]

    assert run(race, 5).results[0] == [4, 3, 2, 1]


def test_probe_test_and_waitany_follow_virtual_time():
    def mixed(comm):
        if comm.rank:
            comm.compute(1e-3 * (3 - comm.rank))
            return comm.Send(np.full(4, comm.rank, float), 0)
        boxes = [np.zeros(4), np.zeros(4)]
        requests = [comm.Irecv(box, source) for source, box in enumerate(boxes, 1)]
        early = requests[1].Test(), comm.Iprobe(1)
        first = type(requests[0]).Waitany(requests)
        at = comm.Wtime()
        while not requests[0].Test():
            pass
        return early, first, at, comm.Wtime(), [box[0] for box in boxes]

    early, first, at, end, values = run(mixed, 3).results[0]
    assert early == (False, False)
    assert (first, values) == (1, [1, 2])
    assert at == pytest.approx(1e-3, rel=0.02)
    assert end == pytest.approx(2e-3, rel=0.02)


def busy(comm):
    """Everything at once: wildcards, shared cards, tests, rendezvous, computing."""
    requests = [comm.isend(comm.rank, (comm.rank + 1) % comm.size, tag=i % 2) for i in range(3)]
    box, got = np.zeros(3000), []
    comm.Sendrecv(np.ones(3000), comm.rank ^ 1, 5, box, comm.rank ^ 1, 5)
    while len(got) < 3:
        if comm.Iprobe(tag=len(got) % 2):
            got.append(comm.recv(tag=len(got) % 2))
        comm.compute(1e-7)
    return got, [request.wait() for request in requests], comm.Wtime()


def test_the_same_input_gives_the_same_run():
    machine = IDEAL.but(eager=4096, nics=2)
    first, *more = (run(busy, 16, machine=machine, per_node=4, trace=True) for _ in range(3))
    for again in more:
        for part in ("results", "times", "links", "steps", "trace"):
            assert getattr(again, part) == getattr(first, part), part
    assert run(busy, 16, machine=machine, per_node=4).times == first.times


def test_thousands_of_messages_may_wait():
    def flood(comm, count):
        if comm.rank == 0:
            for i in range(count):
                comm.Send(np.full(1, i), 1, tag=i % 3)
            return comm.Send(np.zeros(1), 1, tag=3)
        comm.Recv(np.zeros(1), 0, tag=3)
        box, got = np.zeros(1, int), []
        for _ in range(count):
            comm.Recv(box, 0)
            got.append(int(box[0]))
        return got

    assert run(flood, 2, 5000).results[1] == list(range(5000))


def test_nothing_is_left_of_a_run():
    def hold(comm, vector):
        comm.allreduce(comm.rank)
        return float(vector.sum())

    before = gc.get_threshold()
    for _ in range(2):
        run(hold, 64, np.ones(10))
    gc.collect()
    count = len(gc.get_objects())
    run(hold, 64, np.ones(10))
    gc.collect()
    assert abs(len(gc.get_objects()) - count) < 200
    assert gc.get_threshold() == before


def test_a_run_inside_of_a_rank_is_a_run_of_its_own():
    def outer(comm):
        inside = run(lambda inner: inner.allreduce(1), 3)
        return inside.results[0] + comm.allreduce(1)

    assert run(outer, 2).results == [5, 5]


def test_vectors_keep_their_scale_and_cost_gamma():
    def work(comm, vector):
        parts = np.array_split(vector, 4)
        box = np.empty_like(parts[0])
        made = [parts[1], box, vector[1:3], vector + 1, vector.copy(), 2 * vector]
        made += [np.concatenate(parts), np.zeros_like(vector), np.where(vector > 1, vector, 0)]
        made += [pickle.loads(pickle.dumps(vector)), *np.divmod(vector, 2)]
        scales = [vector.scale for vector in made]
        begin = comm.Wtime()
        parts[0] += box
        return scales, comm.Wtime() - begin, type(vector.sum()).__name__

    vector = virtual.vector(np.arange(8.0), stands_for=64e6)
    machine = virtual.ideal(reduce=4e9)
    scales, seconds, kind = run(work, 1, vector, machine=machine).results[0]
    assert scales == [1e6] * 12
    assert seconds == pytest.approx(16e6 / 4e9)
    assert kind == "float64"


def test_objects_with_vectors_in_them_count_as_much():
    def send(comm, vector):
        if comm.rank == 0:
            return comm.send({"weights": [vector, vector[:1]]}, 1)
        return comm.recv(source=0)["weights"][1].scale

    received = run(send, 2, virtual.vector([1.0, 2.0], stands_for=1e6))
    assert received.sent_bytes[0] == pytest.approx(1.5e6, rel=0.001)
    assert received.results[1] == 5e5 / 8

"""Virtual time is what the model says: closed forms, shared cards, rendezvous, SimGrid's times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import virtual
from labkit import collectives
from labkit.scaling import costs

ALPHA, BANDWIDTH, REDUCE = 2e-6, 5e9, 12e9
BETA, GAMMA = 1 / BANDWIDTH, 1 / REDUCE
SIZES = (64.0, 1e4, 1e8)
INSIDE, BETWEEN = (1e-6, 1 / 20e9), (5e-6, 1 / 3e9)  # (α, β)
RECORDED = json.loads((Path(__file__).with_name("simgrid.json")).read_text())


def cluster(nodes=2, per_node=1, **changes):
    return virtual.Cluster(nodes, per_node, virtual.ideal(ALPHA, BANDWIDTH).but(**changes))


def of(nbytes, values=96):
    return virtual.vector(np.zeros(values), stands_for=nbytes)


def send(comm, vector, late=0.0, receive_late=0.0, how="Send"):
    """Rank 0 sends to rank 1; returns when each was done."""
    comm.compute(late if comm.rank == 0 else receive_late)
    if comm.rank == 0:
        getattr(comm, how)(vector, dest=1)
    else:
        comm.Recv(vector, source=0)
    return comm.Wtime()


def all_to_one(comm, vector):
    if comm.rank:
        comm.Send(vector, dest=0)
    for other in range(1, comm.size) if comm.rank == 0 else ():
        comm.Recv(vector, source=other)


def chain_broadcast(comm, vector, count):
    for chunk in np.array_split(vector, count):
        if comm.rank > 0:
            comm.Recv(chunk, source=comm.rank - 1)
        if comm.rank + 1 < comm.size:
            comm.Send(chunk, dest=comm.rank + 1)


def parameter_server(comm, vector):
    """Rank 0 serves: it takes all gradients in, then sends the parameters out."""
    all_to_one(comm, vector)
    for worker in range(1, comm.size):
        if comm.rank == 0:
            comm.Send(vector, dest=worker)
        elif comm.rank == worker:
            comm.Recv(vector, source=0)


def two_dimensional(comm, vector, per_node):
    local = comm.Split(color=comm.rank // per_node, key=comm.rank)
    across = comm.Split(color=comm.rank % per_node, key=comm.rank)
    chunk = collectives.ring_reduce_scatter(local, vector)
    collectives.ring_allreduce(across, chunk)
    collectives.ring_allgather(local, vector)


@pytest.mark.parametrize("nbytes", SIZES)
def test_the_closed_forms_of_equal_links_are_met(nbytes):
    def time(p, program, values, *args, **changes):
        machine = virtual.ideal(ALPHA, BANDWIDTH, REDUCE).but(**changes)
        return virtual.Cluster(p, machine=machine).run(program, of(nbytes, values), *args).time

    for p in (2, 3, 5, 8, 16, 31):
        closed = costs.ring_allreduce_time(nbytes, p, ALPHA, BETA, GAMMA)
        assert time(p, collectives.ring_allreduce, 12 * p) == pytest.approx(closed, rel=1e-3)
        closed = costs.tree_broadcast_time(nbytes, p, ALPHA, BETA)
        assert time(p, collectives.tree_broadcast, 96) <= closed * 1.0001
        closed = costs.parameter_server_time(nbytes, p - 1, ALPHA, BETA)
        assert time(p, parameter_server, 96) == pytest.approx(closed, rel=1e-3)
    for p in (2, 4, 16):
        closed = costs.tree_allreduce_time(nbytes, p, ALPHA, BETA, GAMMA)
        assert time(p, collectives.tree_allreduce, 96) == pytest.approx(closed, rel=1e-3)
    for p, count in ((3, 1), (4, 8), (16, 40)):
        # A port takes up the next chunk when the last has arrived, as the formula has it: gap = α +
        # n/k β.
        link = virtual.Link(ALPHA, BANDWIDTH, gap=ALPHA + nbytes / count / BANDWIDTH)
        closed = costs.chain_broadcast_time(nbytes, p, ALPHA, BETA, count)
        got = time(p, chain_broadcast, 10 * count, count, inside=link, between=link)
        assert got == pytest.approx(closed, rel=1e-3)


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 2), (3, 4), (16, 8)])
def test_two_levels_meet_their_closed_form(nodes, per_node):
    inside, between = (virtual.Link(alpha, 1 / beta) for alpha, beta in (INSIDE, BETWEEN))
    machine = virtual.Machine("two levels", inside, between, nics=per_node, reduce=REDUCE)
    for nbytes in SIZES:
        vector = of(nbytes, nodes * per_node * 2)
        run = virtual.Cluster(nodes, per_node, machine).run(two_dimensional, vector, per_node)
        seconds = costs.two_dimensional_allreduce_time(
            nbytes, nodes, per_node, INSIDE, BETWEEN, GAMMA
        )
        assert run.time == pytest.approx(seconds, rel=1e-3)


def test_a_chain_whose_ports_go_straight_on_pays_the_latency_once_a_hop():
    run = cluster(8).run(chain_broadcast, of(1e6, 40), 10)
    assert run.time == pytest.approx(7 * (ALPHA + 1e5 * BETA) + 9 * 1e5 * BETA)


@pytest.mark.parametrize(
    "recorded",
    RECORDED["runs"],
    ids=lambda case: f"{case['program']}-{case['ranks']}-{case['bytes']}",
)
def test_simgrid_gives_the_same_time(recorded):
    """Recorded by tests/figures/record_simgrid.py. 0.01 %: SimGrid's own precision leaves 1e-6."""
    machine = virtual.ideal(RECORDED["alpha"], RECORDED["bandwidth"])
    vector = virtual.vector(np.ones(recorded["ranks"] * 4), stands_for=recorded["bytes"])
    name = recorded["program"]
    program = all_to_one if name == "all_to_one" else getattr(collectives, name)
    run = virtual.Cluster(recorded["ranks"], machine=machine).run(program, vector)
    assert run.time == pytest.approx(recorded["seconds"], rel=1e-4)


@pytest.mark.parametrize(
    ("per_node", "cards", "shared"),
    [(1, 1, 1), (4, 4, 1), (4, 2, 2), (4, 1, 4), (3, 2, 2), (8, 1, 8)],
)
def test_ranks_that_share_a_card_wait_for_each_other(per_node, cards, shared):
    """Inside a node every rank has a port of its own."""

    def across(comm, vector):
        half = comm.size // 2
        if comm.rank < half:
            comm.Send(vector, dest=comm.rank + half)
        else:
            comm.Recv(vector, source=comm.rank - half)

    run = cluster(2, per_node, nics=cards).run(across, of(1e6))
    assert run.time == pytest.approx(ALPHA + shared * 1e6 * BETA)
    run = cluster(1, 2 * per_node, nics=cards, between=virtual.Link(1, 1)).run(across, of(1e6))
    assert run.time == pytest.approx(ALPHA + 1e6 * BETA)


def test_an_eager_send_is_over_at_once_and_a_rendezvous_waits():
    machine = {"eager": 1000, "handshake": 7e-6}
    sent, received = cluster(**machine).run(send, of(1000), 0.0, 1e-3).results
    assert sent == 0
    assert received == pytest.approx(1e-3)  # it was there already
    for nbytes, how in ((1001, "Send"), (8, "Ssend")):
        sent, received = cluster(**machine).run(send, of(nbytes), 0.0, 1e-3, how).results
        assert sent == pytest.approx(1e-3 + 7e-6 + nbytes * BETA)  # until its bytes have left
        assert received == pytest.approx(sent + ALPHA)
    sent, received = cluster(**machine).run(send, of(1001), 1e-3, 0.0).results
    assert received == pytest.approx(1e-3 + 7e-6 + 1001 * BETA + ALPHA)


def test_overhead_is_paid_on_both_sides_and_the_gap_limits_the_message_rate():
    link = virtual.Link(latency=3e-6, bandwidth=5e9, overhead=1e-6)
    run = cluster(inside=link, between=link).run(send, of(1e4))
    assert run.results == [pytest.approx(1e-6), pytest.approx(link.alpha + 1e4 * BETA)]

    def burst(comm):
        for _ in range(50):
            send(comm, np.zeros(1))

    link = virtual.Link(latency=1e-6, bandwidth=1e12, gap=4e-7)
    assert cluster(inside=link, between=link).run(burst).time == pytest.approx(
        1e-6 + 49 * 4e-7, rel=1e-3
    )


def test_additions_of_vectors_take_time_and_those_of_plain_arrays_none():
    def add(comm, vector):
        vector += vector
        vector[: len(vector) // 2] += 1

    machine = virtual.ideal(reduce=1e9)
    one = virtual.Cluster(1, machine=machine)
    assert one.run(add, of(1e6)).time == pytest.approx(1.5e-3)
    assert one.run(add, np.zeros(96)).time == 0

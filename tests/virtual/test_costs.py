"""Virtual time is what the model says: closed forms, shared cards, rendezvous, SimGrid's times."""

import json
from pathlib import Path

import numpy as np
import pytest
import virtual
from labkit.errors import LabError
from labkit.scaling import costs

from tests.virtual import algorithms

ALPHA, BETA = 2e-6, 1 / 5e9
RECORDED = json.loads((Path(__file__).with_name("simgrid.json")).read_text())


def cluster(nodes=2, per_node=1, **changes):
    return virtual.Cluster(nodes, per_node, virtual.ideal(ALPHA, 1 / BETA).but(**changes))


def of(nbytes):
    return virtual.vector(np.zeros(96), stands_for=nbytes)


def send(comm, vector, late=0.0, receive_late=0.0, how="Send"):
    """Rank 0 sends to rank 1; returns when each was done."""
    comm.compute(late if comm.rank == 0 else receive_late)
    if comm.rank == 0:
        getattr(comm, how)(vector, dest=1)
    else:
        comm.Recv(vector, source=0)
    return comm.Wtime()


def swap(comm, vector):
    box, other = np.empty_like(vector), 1 - comm.rank
    comm.Sendrecv(vector, dest=other, recvbuf=box, source=other)


def check(cases):
    cases = list(cases)
    assert len(cases) >= 9
    for case in cases:
        assert case.ratio == pytest.approx(1, rel=1e-3), case


@pytest.mark.parametrize("name", algorithms.FLAT)
def test_the_closed_form_is_met(name):
    check(algorithms.flat(name))


@pytest.mark.parametrize("name", algorithms.TWO_LEVELS)
def test_two_levels_meet_their_closed_form(name):
    check(algorithms.two_levels(name))


def test_the_pipelined_chain_and_the_parameter_server_meet_theirs():
    check(algorithms.chains())
    check(algorithms.servers())


def test_a_chain_whose_ports_go_straight_on_pays_the_latency_once_a_hop():
    run = cluster(8).run(algorithms.chain_broadcast, virtual.vector(np.ones(40), stands_for=1e6), 10)
    assert run.time == pytest.approx(7 * (ALPHA + 1e5 * BETA) + 9 * 1e5 * BETA)
    assert run.time < costs.chain_broadcast_time(1e6, 8, ALPHA, BETA, 10)


@pytest.mark.parametrize("p", [3, 5, 6, 7, 12, 31])
def test_a_tree_over_any_number_of_ranks_takes_no_longer_than_its_closed_form(p):
    for nbytes in (64, 1e6):
        run = cluster(p).run(algorithms.tree_broadcast, of(nbytes))
        assert run.time <= costs.tree_broadcast_time(nbytes, p, ALPHA, BETA) * 1.0001


def test_the_reference_programs_are_right():
    for program in (algorithms.ring_allreduce, algorithms.recursive_doubling_allreduce):
        virtual.trials(program, sum)
    virtual.trials(algorithms.tree_allreduce, sum)
    virtual.trials(algorithms.rabenseifner_allreduce, sum, ranks=(1, 2, 4, 8), lengths=(64,))
    for program in (algorithms.tree_broadcast, algorithms.scatter_allgather_broadcast):
        virtual.trials(program, lambda vectors: vectors[0], ranks=(1, 2, 4, 8, 16))
    virtual.trials(algorithms.chain_broadcast, lambda vectors: vectors[0], args=(3,))
    for program in (algorithms.leader_allreduce, algorithms.two_dimensional_allreduce):
        virtual.trials(program, sum, ranks=(4, 8, 16), ranks_per_node=4, args=(4,))


@pytest.mark.parametrize(
    "recorded", RECORDED["runs"], ids=lambda case: f"{case['program']}-{case['ranks']}-{case['bytes']}"
)
def test_simgrid_gives_the_same_time(recorded):
    """Recorded by tests/figures/record_simgrid.py. 0.01 %: SimGrid's own precision leaves 1e-6."""
    machine = virtual.ideal(RECORDED["alpha"], RECORDED["bandwidth"])

    def all_to_one(comm, vector):
        if comm.rank:
            comm.Send(vector, dest=0)
        for other in range(1, comm.size) if comm.rank == 0 else ():
            comm.Recv(vector, source=other)

    programs = {"all_to_one": all_to_one}
    program = programs.get(recorded["program"]) or getattr(algorithms, recorded["program"])
    vector = virtual.vector(np.ones(recorded["ranks"] * 4), stands_for=recorded["bytes"])
    run = virtual.Cluster(recorded["ranks"], machine=machine).run(program, vector)
    assert run.time == pytest.approx(recorded["seconds"], rel=1e-4)


@pytest.mark.parametrize(
    ("per_node", "cards", "shared"), [(1, 1, 1), (4, 4, 1), (4, 2, 2), (4, 1, 4), (3, 2, 2), (8, 1, 8)]
)
def test_ranks_that_share_a_card_wait_for_each_other(per_node, cards, shared):
    def across(comm, vector):
        if comm.rank < per_node:
            comm.Send(vector, dest=comm.rank + per_node)
        else:
            comm.Recv(vector, source=comm.rank - per_node)

    run = cluster(2, per_node, nics=cards).run(across, of(1e6))
    assert run.time == pytest.approx(ALPHA + shared * 1e6 * BETA)


@pytest.mark.parametrize("per_node", [2, 4, 8])
def test_the_two_dimensional_allreduce_is_slower_by_as_many_as_share_its_card(per_node):
    """Between nodes alone: inside they move 1e9 times faster. α is tiny, or some of it would hide."""
    inside, between = virtual.Link(0, 1e19), virtual.Link(1e-12, 1e10)
    times = {}
    for cards in (1, per_node):
        machine = virtual.Machine("shared", inside, between, nics=cards)
        run = virtual.Cluster(4, per_node, machine).run(
            algorithms.two_dimensional_allreduce, of(1e8), per_node
        )
        times[cards] = run.time
        closed = costs.two_dimensional_allreduce_time(
            1e8, 4, per_node, (0, 1e-19), (1e-12, 1e-10), cards=cards
        )
        assert run.time == pytest.approx(closed, rel=1e-3)
    assert times[1] / times[per_node] == pytest.approx(per_node, rel=1e-3)


def test_inside_a_node_every_rank_has_its_own_port():
    def pairs(comm, vector):
        if comm.rank % 2 == 0:
            comm.Send(vector, dest=comm.rank + 1)
        else:
            comm.Recv(vector, source=comm.rank - 1)

    run = cluster(1, 8, between=virtual.Link(1, 1)).run(pairs, of(1e6))
    assert run.time == pytest.approx(ALPHA + 1e6 * BETA)


def test_half_duplex_doubles_the_bytes_of_a_swap():
    def slope(duplex):
        times = [cluster(duplex=duplex).run(swap, of(nbytes)).time for nbytes in (1e6, 2e6)]
        return (times[1] - times[0]) / 1e6

    assert slope("full") == pytest.approx(BETA)
    assert slope("half") == pytest.approx(2 * BETA)


def test_an_eager_send_is_over_at_once_and_a_rendezvous_waits():
    machine = {"eager": 1000, "handshake": 7e-6}
    sent, received = cluster(**machine).run(send, of(1000), 0.0, 1e-3).results
    assert sent == 0
    assert received == pytest.approx(1e-3)  # it was there already
    sent, received = cluster(**machine).run(send, of(1001), 0.0, 1e-3).results
    assert sent == pytest.approx(1e-3 + 7e-6 + 1001 * BETA)  # until its bytes have left
    assert received == pytest.approx(sent + ALPHA)
    sent, received = cluster(**machine).run(send, of(1001), 1e-3, 0.0).results
    assert received == pytest.approx(1e-3 + 7e-6 + 1001 * BETA + ALPHA)


def test_ssend_is_a_rendezvous_of_any_length():
    sent, received = cluster(handshake=7e-6).run(send, of(8), 0.0, 1e-3, "Ssend").results
    assert sent == pytest.approx(1e-3 + 7e-6 + 8 * BETA)
    assert received == pytest.approx(sent + ALPHA)


def test_overhead_is_paid_on_both_sides():
    link = virtual.Link(latency=3e-6, bandwidth=5e9, overhead=1e-6)
    run = cluster(inside=link, between=link).run(send, of(1e4))
    assert run.results == [pytest.approx(1e-6), pytest.approx(link.alpha + 1e4 * BETA)]
    assert link.alpha == pytest.approx(5e-6)


def test_the_gap_limits_the_message_rate():
    def burst(comm):
        for _ in range(50):
            send(comm, np.zeros(1))

    link = virtual.Link(latency=1e-6, bandwidth=1e12, gap=4e-7)
    assert cluster(inside=link, between=link).run(burst).time == pytest.approx(1e-6 + 49 * 4e-7, rel=1e-3)


def test_additions_of_vectors_take_time_and_those_of_plain_arrays_none():
    def add(comm, vector):
        vector += vector
        vector[: len(vector) // 2] += 1

    machine = virtual.ideal(reduce=1e9)
    times = [virtual.Cluster(1, machine=machine).run(add, vector).time for vector in (of(1e6), np.zeros(96))]
    assert times == [pytest.approx(1.5e-3), 0]


def test_compute_and_a_slow_rank():
    run = cluster(3).run(lambda comm: comm.compute(comm.rank * 1e-3))
    assert run.times == [0, 1e-3, 2e-3]
    assert run.time == 2e-3
    with pytest.raises(LabError, match="0 or more"):
        cluster().run(lambda comm: comm.compute(-1))


def test_a_run_is_the_same_every_time():
    def times():
        return virtual.Cluster(4, 4, "dgx1").run(algorithms.ring_allreduce, of(1e7)).times

    assert times() == times()


def test_closed_forms_of_two_levels_by_hand():
    inside, between = (1e-6, 1e-10), (5e-6, 1e-9)
    leaders = (
        2 * 2 * (1e-6 + 1e6 * 1e-10) + 2 * 1e6 * 1e-11 + costs.ring_allreduce_time(1e6, 8, *between, 1e-11)
    )
    assert costs.leader_allreduce_time(1e6, 8, 4, inside, between, 1e-11) == pytest.approx(leaders)
    plane = 2 * 3 * 1e-6 + 2 * 1e6 * 3 / 4 * 1e-10 + 2 * 7 * 5e-6 + 2 * 1e6 / 4 * 7 / 8 * 1e-9
    assert costs.two_dimensional_allreduce_time(1e6, 8, 4, inside, between) == pytest.approx(plane)
    one_card = plane + 3 * 2 * 1e6 / 4 * 7 / 8 * 1e-9
    assert costs.two_dimensional_allreduce_time(1e6, 8, 4, inside, between, cards=1) == pytest.approx(
        one_card
    )
    assert costs.leader_allreduce_time(1e6, 1, 1, inside, between) == 0

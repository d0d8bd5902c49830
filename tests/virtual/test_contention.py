"""Messages that meet in ports share them as in SimGrid, and what has to stay in order stays so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import virtual

from tests.virtual.patterns import Pattern, patterns

RECORDED = json.loads(Path(__file__).with_name("simgrid.json").read_text())
ALPHA, BANDWIDTH = 1e-6, 1e9
IDEAL = virtual.ideal(ALPHA, BANDWIDTH)


def meet(comm, pattern: Pattern) -> None:
    """What a rank does in a pattern."""
    comm.compute(pattern.starts[comm.rank])
    for messages in pattern.rounds:
        requests = []
        for source, dest, nbytes in messages:
            box = virtual.vector(np.zeros(1, np.uint8), stands_for=nbytes)
            if source == comm.rank:
                requests.append(comm.Isend(box, dest))
            elif dest == comm.rank:
                requests.append(comm.Irecv(box, source))
        for request in requests:
            request.Wait()


def arrivals(pattern: Pattern, machine: virtual.Machine) -> list[float]:
    """When each message arrives, in the pattern's order."""
    run = virtual.Cluster(pattern.ranks, machine=machine).run(meet, pattern, trace=True)
    ends: dict[tuple[int, int], list[float]] = {}
    for rank, spans in enumerate(run.spans()):
        for span in spans:
            if span.kind == "send":
                ends.setdefault((rank, span.peer), []).append(span.end + machine.between.latency)
    return [
        sorted(ends[source, dest])[number]
        for number, messages in enumerate(pattern.rounds)
        for source, dest, _ in messages
    ]


@pytest.mark.parametrize(
    ("pattern", "recorded"),
    list(zip(patterns(), RECORDED["met"], strict=True)),
    ids=[f"{recorded['pattern']}-{recorded['ranks']}" for recorded in RECORDED["met"]],
)
def test_every_message_arrives_when_it_does_in_simgrid(pattern, recorded):
    assert (pattern.name, pattern.ranks) == (recorded["pattern"], recorded["ranks"])
    # In SimGrid a message waits for its receiver.
    machine = virtual.ideal(RECORDED["alpha"], RECORDED["bandwidth"]).but(eager=0)
    assert arrivals(pattern, machine) == pytest.approx(recorded["arrivals"], rel=1e-4)


def run(fn, ranks: int, *args, machine=IDEAL, per_node: int = 1):
    return virtual.Cluster.of(ranks, per_node, machine).run(fn, *args)


def test_messages_of_one_pair_are_taken_in_order_whatever_meets_them():
    """A long message that is shared, then a short rendezvous of the same pair, for receives from
    anyone."""

    def meet(comm):
        if comm.rank == 0:
            comm.Iprobe()  # from now on messages are matched as they arrive
            taken = []
            for _ in range(3):
                box = np.zeros(10**6, np.uint8)
                comm.Recv(box)
                taken.append(int(box[0]))
            return taken
        if comm.rank == 1:
            comm.Send(np.full(10**6, 1, np.uint8), 0)
            comm.Ssend(np.full(10, 2, np.uint8), 0)
        else:
            comm.compute(1e-4)
            comm.Send(np.full(10**6, 3, np.uint8), 0)
        return None

    assert run(meet, 3).results[0] == [1, 2, 3]


def test_waits_tests_and_rendezvous_see_the_true_end():
    def meet(comm, wait):
        box = np.zeros(10**6, np.uint8)
        if comm.rank == 0:
            requests = [comm.Irecv(np.zeros(10**6, np.uint8), source) for source in (1, 2)]
            wait(comm, requests)
            return comm.Wtime()
        comm.compute(0.25e-3 * (comm.rank - 1))
        comm.Send(box, 0)
        return comm.Wtime()

    def one_by_one(comm, requests):
        for request in requests:
            request.Wait()

    def any_first(comm, requests):
        for _ in requests:
            type(requests[0]).Waitany(requests)

    def look(comm, requests):
        while not type(requests[0]).Testall(requests):
            comm.compute(1e-6)

    machine = IDEAL.but(eager=1000)
    for wait in (one_by_one, any_first, look):
        results = run(meet, 3, wait, machine=machine).results
        assert results[0] == pytest.approx(ALPHA + 2e-3, rel=2e-3)
        assert results[1:] == pytest.approx([1.75e-3, 2e-3])  # when their bytes have left

"""Random programs of messages, made by hypothesis: the virtual cluster receives what real MPI does.

A program is a list of phases with a barrier behind each. In a phase every rank makes its calls in
one common order, so no program can deadlock; where MPI leaves the order to chance (messages of
several senders to a receive from any source) the results are noted by sender.
"""

from __future__ import annotations

import mpi4py
import pytest
import virtual
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from labkit import launch

mpi4py.rc.initialize = False  # its constants are all that this process needs of it
SETTINGS = settings(
    derandomize=True, deadline=None, database=None, print_blob=False,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
LENGTHS = (0, 1, 7, 1000, 3000, 30000)  # values; eager and rendezvous, here and in MPICH
MACHINES = (
    virtual.ideal(),
    virtual.ideal().but(eager=4096, handshake=2e-6),
    virtual.machine("dgx1").but(eager=16000),
)


def play(comm, program):
    """What each phase of `program` gave this rank. The same code on virtual and on real ranks."""
    import numpy as np
    from mpi4py import MPI

    def data(phase, source, index, length):
        kind = ("f8", "i4", "u1")[index % 3]
        return (np.arange(length) * (index + 2) + 7 * source + phase).astype(kind)

    def noted(box, status):
        return status.source, status.tag, box.tobytes()

    def receive_objects(phase, source, tag, how):
        status = MPI.Status()
        if how == "probe":
            comm.Probe(source, tag, status)
            return comm.recv(source=status.source, tag=status.tag)
        if how == "ask":
            while not comm.iprobe(source, tag):
                pass
        if how == "later":
            return comm.irecv(source=source, tag=tag).wait()
        return comm.recv(None, source, tag)

    def pair(phase, source, dest, messages, receives):
        """Arrays of one kind from `source` to `dest`, received in another order where tags allow
        it."""
        posted = all(how == "later" for _, _, how in receives)  # then before anything is sent
        if comm.rank == source:
            if posted:
                comm.recv(None, dest, 98)
            requests = []
            for i, (tag, length, ready) in enumerate(messages):
                send = comm.Issend if ready else comm.Isend
                requests.append(send(data(phase, source, 3 * i, length), dest, tag))
            return [request.Wait() for request in requests]
        if comm.rank != dest:
            return None
        got, later = [], []
        for tag, anyone, how in receives:
            status, box = MPI.Status(), np.full(30004, -1.0)
            where = MPI.ANY_SOURCE if anyone else source
            what = MPI.ANY_TAG if tag is None else tag
            if how == "later":
                later.append((comm.Irecv(box, where, what), box, status))
                got.append(None)
                continue
            if how == "probe":
                comm.Probe(where, what, status)
            while how == "ask" and not comm.Iprobe(where, what, status):
                pass
            comm.Recv(box, where, what, status)
            got.append(noted(box, status))
        if posted:
            comm.send("go", source, 98)
        for request, box, status in later:
            request.Wait(status)
            got.append(noted(box, status))
        return got

    def gather(phase, root, counts, how, length):
        """Every rank sends `counts[rank]` objects to the root, which takes them from anyone."""
        if comm.rank != root:
            own = range(counts[comm.rank % len(counts)])
            requests = [comm.isend((comm.rank, i, "x" * length), root, i % 2) for i in own]
            for request in requests:
                request.wait()
            return None
        count = sum(counts[rank % len(counts)] for rank in range(comm.size) if rank != root)
        by_sender = {}
        for _ in range(count):
            sender, *rest = receive_objects(phase, MPI.ANY_SOURCE, MPI.ANY_TAG, how)
            by_sender.setdefault(sender, []).append(rest)
        return sorted(by_sender.items())

    def shift(phase, distance, lengths, closed):
        """Sendrecv with ranks `distance` away; beyond the ends is nobody, or the other end."""

        def at(rank):
            there = closed or 0 <= rank < comm.size
            return rank % comm.size if there else MPI.PROC_NULL

        source, dest = at(comm.rank - distance), at(comm.rank + distance)
        box, status = np.full(30004, -1.0), MPI.Status()
        own = data(phase, comm.rank, 0, lengths[comm.rank % len(lengths)])
        comm.Sendrecv(own, dest, 3, box, source, MPI.ANY_TAG, status)
        thing = comm.sendrecv((comm.rank, phase), dest, 4, None, source, 4)
        return noted(box, status), thing

    def blocking(phase, hops):
        """One message after the other, each hop's receiver before the next hop's sender."""
        got = []
        for index, (source, dest, length, ready) in enumerate(hops):
            box = np.full(30004, -1, "i4")
            request = comm.Irecv(box, source, index) if comm.rank == dest else None
            if comm.rank == source:
                (comm.Ssend if ready else comm.Send)(data(phase, source, 1, length), dest, index)
            if request:
                request.Wait()
                got.append(box.tobytes())
        return got

    def one_of_many(phase, root, length):
        """The root takes what comes from all others as it comes, each in a place of its own."""
        if comm.rank != root:
            comm.Send(data(phase, comm.rank, 0, length), root, 1)
            return None
        others = [rank for rank in range(comm.size) if rank != root]
        boxes = [np.full(length + 1, -1.0) for _ in others]
        requests = [comm.Irecv(box, rank, 1) for box, rank in zip(boxes, others, strict=True)]
        ended = sorted(type(requests[0]).Waitany(requests) for _ in requests) if requests else []
        return ended, [box.tobytes() for box in boxes]

    kinds = {kind.__name__: kind for kind in (pair, gather, shift, blocking, one_of_many)}
    results = []
    for phase, (kind, *rest) in enumerate(program):
        results.append(kinds[kind](phase, *rest))
        comm.Barrier()
    return results


@st.composite
def pairs(draw, ranks: int) -> tuple:
    """Messages in the order sent, and receives that take them all, found by playing MPI's rules."""
    source, dest = draw(st.permutations(range(ranks)))[:2]
    message = st.tuples(st.integers(0, 2), st.sampled_from(LENGTHS), st.booleans())
    messages = draw(st.lists(message, min_size=1, max_size=5))
    left, receives = [tag for tag, _, _ in messages], []
    hows = draw(st.sampled_from([["later"], ["now", "later", "probe", "ask"]]))
    while left:
        tag = draw(st.sampled_from([None, *left]))
        left.remove(left[0] if tag is None else tag)
        receives.append((tag, draw(st.booleans()), draw(st.sampled_from(hows))))
    return "pair", source, dest, messages, receives


def programs(ranks: int):
    rank, length = st.integers(0, ranks - 1), st.sampled_from(LENGTHS)
    hows = st.sampled_from(["now", "probe", "ask", "later"])
    hop = st.tuples(rank, rank, length, st.booleans())
    phase = st.one_of(
        pairs(ranks),
        st.tuples(st.just("gather"), rank, st.lists(st.integers(0, 3), min_size=1), hows, length),
        st.tuples(st.just("shift"), st.integers(0, 2), st.lists(length, min_size=1), st.booleans()),
        st.tuples(st.just("blocking"), st.lists(hop, max_size=4)),
        st.tuples(st.just("one_of_many"), rank, length),
    )
    return st.lists(phase, min_size=1, max_size=4)


def on_machine(program: list, ranks: int, machine) -> virtual.Cluster:
    return virtual.Cluster.of(ranks, 2, machine).run(play, program)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_programs_run_alike_on_every_machine_and_every_time(ranks):
    @settings(SETTINGS, max_examples=40)
    @given(programs(ranks))
    def compare(program):
        runs = [on_machine(program, ranks, machine) for machine in MACHINES]
        again = on_machine(program, ranks, MACHINES[1])
        for part in ("times", "links", "steps"):
            assert getattr(again, part) == getattr(runs[1], part)
        for run in runs[1:]:
            assert run.results == runs[0].results
            assert run.links == runs[0].links

    compare()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_programs_receive_what_real_ranks_do(ranks):
    drawn = []

    @settings(SETTINGS, max_examples=100, phases=[Phase.generate])
    @given(programs(ranks))
    def draw(program):
        drawn.append(program)

    draw()
    real = launch.run(play_all, drawn, ranks=ranks, timeout=100)
    for place, program in enumerate(drawn):
        want = [results[place] for results in real]
        for machine in MACHINES:
            assert on_machine(program, ranks, machine).results == want, program


def play_all(comm, drawn):
    return [play(comm, program) for program in drawn]

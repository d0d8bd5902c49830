"""What the virtual cluster says when a program is wrong: a table of programs, each with what must
be said.

Every program runs twice: the sentence is the same. At the end of all of them no rank is left
behind.
"""

import gc
import random

import greenlet
import numpy as np
import pytest
import virtual
from labkit import mpi
from labkit.errors import CheckFailed, RankFailed
from virtual import engine

MACHINE = virtual.ideal().but(eager=65536)
BOX, LONG = np.zeros(4), np.zeros(8193)
TOO_EARLY = "that is not over"
SAME = "the same collective calls in the same order"


def only(rank, call, other=None):
    """A program in which that rank makes a call, and the others another, or none."""

    def program(comm):
        if comm.rank == rank:
            call(comm)
        elif other:
            other(comm)

    return program


def then(*calls):
    def program(comm):
        for call in calls:
            call(comm)

    return program


def early(start, use):
    """Use the array of a request before its Wait."""

    def program(comm):
        array = np.array([1.0, 2.0, 3.0, 4.0])
        request = start(comm, array)
        use(comm, array)
        request.Wait()

    return program


def for_ever(begin):
    def program(comm):
        request = begin(comm)
        while not request.Test():
            comm.compute(0)

    return program


def change(comm, array):
    array += 1


def turned(comm):
    """The same ranks in the opposite order."""
    return comm.Split(0, -comm.rank)


def raises(error):
    def program(comm):
        if comm.rank == 1:
            raise error
        comm.recv(source=1)

    return program


left, right = (lambda c: (c.rank - 1) % c.size), (lambda c: (c.rank + 1) % c.size)
# fmt: off
WRONG = [  # ranks, program, what is said
    # waiting
    (3, lambda c: c.Recv(BOX.copy(), left(c)),
        ["deadlock: rank 0 waits in Recv from rank 2 (line", "c.Recv(BOX",
         "rank 1 waits in Recv from rank 0 (the same line); nobody can go on."]),
    (1024, lambda c: c.Recv(BOX.copy(), left(c)),
        [", …, rank 1 waits in Recv from rank 0 (the same line)"]),
    (4, then(lambda c: c.Send(LONG, right(c)), lambda c: c.Recv(LONG.copy(), left(c))),
        ["rank 0 waits in Send to rank 1", "more than 65,536 bytes waits until its receive is called"]),
    (4, lambda c: c.rank and (c.recv(source=c.rank - 1), c.send(0, right(c))),
        ["rank 1 waits in recv from rank 0", "but rank 0 has ended; ranks 2, 3 wait too"]),
    (2, only(0, lambda c: c.send(1, 1, tag=3), lambda c: c.recv(source=0, tag=5)),
        ["recv from rank 0 with tag 5", "its message with tag 3 lies there untaken"]),
    (2, lambda c: c.irecv(source=1 - c.rank).wait(),
        ["rank 0 waits in Wait of an irecv from rank 1"]),
    (2, only(0, lambda c: c.recv()),
        ["rank 0 waits in recv from any rank", "but rank 1 has ended"]),
    (1, lambda c: c.Ssend(BOX, 0),
        ["rank 0 waits in Ssend to itself"]),
    (2, lambda c: c.Probe(source=1 - c.rank),
        ["rank 0 waits in Probe from rank 1"]),
    (2, lambda c: c.Recv(BOX.copy(), np.int64(1 - c.rank)),
        ["rank 0 waits in Recv from rank 1", "rank 1 waits in Recv from rank 0"]),
    (2, for_ever(lambda c: c.irecv(source=1 - c.rank)),
        ["rank 0 repeats Test of an irecv from rank 1"]),
    # ends
    (2, raises(ValueError("no such thing")),
        ["rank 1 failed: ValueError: no such thing  (line", "raise error"]),
    (2, raises(CheckFailed("the sum is wrong")),
        ["the sum is wrong"]),
    (2, raises(SystemExit(3)),
        ["rank 1 ended itself with sys.exit(3)"]),
    (2, only(0, lambda c: c.Send(BOX, 1, tag=7)),
        ["rank 0 sent rank 1 32 bytes with tag 7 (line", "nobody received it"]),
    (2, only(0, lambda c: c.isend("x", 1), lambda c: c.recv(source=0)),
        ["The isend to rank 1 of rank 0 (line", "was never waited for"]),
    (2, lambda c: only(0, lambda t: (t.isend("x", 1), t.Free()), lambda t: t.recv(source=0))(turned(c)),
        ["The isend to rank 0 of rank 1 (line"]),
    (2, only(0, lambda c: (c.irecv(), c.irecv(source=mpi.ANY_SOURCE)), lambda c: (c.send(1, 0), c.send(2, 0))),
        ["The irecv from any rank of rank 0 (line", ", the irecv from any rank of rank 0 (line"]),
    (1, lambda c: c.Isend(BOX, mpi.PROC_NULL),
        ["The Isend to MPI.PROC_NULL of rank 0 (line"]),
    # arguments
    (2, lambda c: c.Send(BOX, 2),
        ["dest=2: there is no such rank; with 2 ranks they go from 0 to 1"]),
    (2, lambda c: c.Recv(BOX, 0, tag=-7),
        ["tag=-7: a tag is 0 or more"]),
    (2, lambda c: c.Send([1, 2], 1),
        ["buf must be a NumPy array of numbers, or [array, MPI.FLOAT], not list. For other"]),
    (2, lambda c: c.Send(np.zeros(8)[::2], 1),
        ["not contiguous"]),
    (2, lambda c: c.Recv(np.frombuffer(b"12345678"), 1),
        ["read-only"]),
    (2, lambda c: c.Irecv(BOX.copy(), 1 - c.rank).Cancel(),
        ["request has no Cancel. Here write Wait."]),
    (2, lambda c: type(c.Ibarrier()).Free(1),
        ["request has no Free. On real ranks"]),
    (2, lambda c: c.Alltoallw(BOX, BOX),
        ["the virtual cluster's comm has no Alltoallw. On real ranks"]),
    (2, lambda c: c.compute(-1),
        ["0 or more"]),
    (2, lambda c: c.compute(float("inf")),
        ["0 or more, not inf"]),
    (2, lambda c: np.random.seed(c.rank),
        ["one generator for all virtual ranks"]),
    (2, lambda c: random.seed(c.rank),
        ["one generator for all virtual ranks"]),
    (4, lambda c: c.Allreduce(None, BOX.copy()),
        ["sendbuf must be a NumPy array of numbers, or [array, MPI.FLOAT], not NoneType"]),
    (4, early(lambda c, a: c.Ibarrier(), lambda c, a: c.Allreduce(a, a)),
        ["sendbuf and recvbuf share memory"]),
    (4, lambda c: c.Allreduce(BOX, np.zeros(5)),
        ["mismatch in send count 4 and receive count 5"]),
    (4, lambda c: c.Scatter(np.zeros(9) if c.rank == 0 else None, np.zeros(2)),
        ["must hold 4 blocks of one length"]),
    (4, lambda c: c.Reduce_scatter(np.zeros(8), np.empty(2), [2, 2, 2, 3]),
        ["recvcounts [2, 2, 2, 3]"]),
    (3, lambda c: c.Free(),
        ["the communicator of all ranks cannot be freed"]),
    (3, lambda c: c.Split_type(77),
        ["splits by node: MPI.COMM_TYPE_SHARED"]),
    # what does not fit
    (2, only(1, lambda c: c.Send(BOX, 0), lambda c: c.Recv(np.zeros(3), 1)),
        ["Message truncated: rank 1 sent 4 values, and rank 0 has room for 3."]),
    (2, lambda c: only(0, lambda t: t.Send(BOX, 1), lambda t: t.Recv(np.zeros(3), 0))(turned(c)),
        ["Message truncated: rank 1 sent 4 values, and rank 0 has room for 3."]),
    (2, only(1, lambda c: c.Send(BOX, 0), lambda c: c.Recv(np.zeros(4, "f4"), 1)),
        ["rank 1 sent float64 and rank 0 receives into float32"]),
    (2, only(1, lambda c: c.send("text", 0), lambda c: c.Recv(np.zeros(4), 1)),
        ["calls Recv, but rank 1 sent an object: receive it with recv."]),
    (2, only(1, lambda c: c.Send(BOX, 0), lambda c: c.recv(source=1)),
        ["calls recv, but rank 1 sent an array: receive it with Recv."]),
    # arrays that are used before Wait
    (2, early(lambda c, a: c.Irecv(a, 1 - c.rank), lambda c, a: c.Send(a[1:], 1 - c.rank)),
        ["sends the buffer of an Irecv", TOO_EARLY]),
    (2, early(lambda c, a: c.Isend(a, 1 - c.rank), change),
        ["The array of an Isend was changed before its Wait"]),
    (4, early(lambda c, a: c.Iallreduce(BOX, a), lambda c, a: c.Bcast(a)),
        ["the buffer of an Iallreduce", TOO_EARLY]),
    (4, early(lambda c, a: c.Iallreduce(a, BOX.copy()), change),
        ["The array of an Iallreduce was changed before its Wait"]),
    (4, lambda c: c.Iallreduce(BOX, np.empty(4)),
        ["never waited for: call their Wait"]),
    # collectives that do not match
    (4, only(2, lambda c: c.Bcast(BOX), lambda c: c.Allreduce(BOX, np.empty(4))),
        ["rank 2 calls Bcast (line", "but rank 0 calls Allreduce (the same line)", SAME]),
    (4, lambda c: (c.Barrier(), c.Barrier() if c.rank else c.Allreduce(BOX, np.empty(4))),
        ["calls Allreduce (line", "calls Barrier (", "(this is number 2)", SAME]),
    (4, lambda c: c.Bcast(BOX, root=c.rank % 2),
        ["rank 1 calls Bcast with root 1 (line", "rank 0 with root 0 (the same line)", SAME]),
    (4, lambda c: c.Allgather(np.zeros(3 + c.rank // 2), np.empty((3 + c.rank // 2) * 4)),
        ["rank 2 calls Allgather with 4 values", SAME]),
    (4, lambda c: c.allreduce(1, op=max if c.rank == 3 else None),
        ["rank 3 calls allreduce with op max", "rank 0 with op SUM", SAME]),
    (4, only(0, lambda c: c.Allreduce(BOX, np.empty(4)), lambda c: c.Iallreduce(BOX, np.empty(4)).Wait()),
        ["rank 1 calls Iallreduce", SAME]),
    (4, lambda c: c.Split(c.rank // 2).bcast(1, root=int(c.rank == 3)),
        ["rank 3", "with root 1", "on the communicator of ranks 2, 3", SAME]),
    (4, lambda c: c.rank != 2 and c.Allreduce(BOX, np.empty(4)),
        ["rank 0 waits in Allreduce, which rank 2 has not called"]),
    (4, lambda c: c.rank % 2 and c.Split(0),
        ["rank 1 waits in Split, which ranks 0, 2 have not called"]),
    (4, lambda c: c.rank and for_ever(lambda c: c.Ibarrier())(c),
        ["rank 1 repeats Test of an Ibarrier, which rank 0 has not called"]),
]
# fmt: on


def alive():
    gc.collect()
    return {
        thing for thing in gc.get_objects() if type(thing) is greenlet.greenlet and not thing.dead
    }


@pytest.fixture(scope="module", autouse=True)
def _no_rank_is_left():
    greenlet.getcurrent()
    before, seeds = alive(), (np.random.seed, random.seed)
    yield
    assert alive() == before
    assert (np.random.seed, random.seed) == seeds


@pytest.mark.parametrize(("ranks", "program", "says"), WRONG)
def test_a_wrong_program_is_told(ranks, program, says):
    told = []
    for _ in range(2):
        with pytest.raises(RankFailed) as caught:
            virtual.Cluster(nodes=ranks, machine=MACHINE).run(program)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert all(part in told[0] for part in says), told[0]
    assert len(told[0]) < 400 or ranks < 1024


def test_what_is_no_mistake_is_not_told():
    def asks_until(comm):
        if comm.rank == 0:
            request, looks = comm.irecv(source=1), 0
            while not request.Test() and looks < 5000:
                looks += 1
            comm.send("go", 1)
            return request.wait()
        comm.recv(source=0)
        return comm.send("late", 0)

    def sends_twice(comm):
        vector, total = np.full(4, np.nan), np.empty(4)
        requests = comm.Ibcast(vector, root=0), comm.Iallreduce(np.ones(4), total)
        comm.Send(vector, 1) if comm.rank == 0 else comm.Recv(np.empty(4), 0)
        early = total.sum()
        for request in requests:
            request.Wait()
        return bool(np.isnan(early)), total.sum()

    assert virtual.Cluster(nodes=2).run(asks_until).results[0] == "late"
    assert virtual.Cluster(nodes=2).run(sends_twice).results == [(True, 8.0)] * 2


def test_a_loop_that_counts_is_told_later(monkeypatch):
    def counts(comm, times):
        for _ in range(times):
            comm.compute(1e-6)
            comm.Iprobe()

    monkeypatch.setattr(engine, "PATIENCE", 2000)
    virtual.Cluster(nodes=2).run(counts, 9000)
    with pytest.raises(RankFailed, match="deadlock: rank 0 repeats Iprobe from any rank"):
        virtual.Cluster(nodes=2).run(counts, 11000)


def test_an_interrupt_passes_and_stubborn_ranks_end():
    with pytest.raises(KeyboardInterrupt):
        virtual.Cluster(nodes=2).run(raises(KeyboardInterrupt()))

    def stubborn(comm):
        try:
            comm.recv(source=0)
        finally:
            comm.recv(source=0)

    with pytest.raises(RankFailed, match="deadlock"):
        virtual.Cluster(nodes=2).run(stubborn)


def test_the_line_that_is_told_is_that_of_the_call():
    def lost(comm):
        box = np.zeros(2)
        if comm.rank == 0:
            comm.Send(box, 1)
        return box

    with pytest.raises(RankFailed) as caught:
        virtual.Cluster(nodes=2).run(lost)
    number = lost.__code__.co_firstlineno + 3
    assert f"(line {number} of lost: comm.Send(box, 1))" in str(caught.value)


@pytest.mark.parametrize("kind", ["f8", "c16", "i4", "u2", "longdouble"])
def test_what_is_received_is_useless_before_wait_and_may_not_be_written(kind):
    def write(comm, early):
        box = np.ones(3, kind)
        request = comm.Irecv(box, 1 - comm.rank)
        before = box.copy()
        if early:
            box[1] = 1
        comm.Send(np.full(2, 5, kind), 1 - comm.rank)
        request.Wait()
        return before, box.tolist()

    for before, after in virtual.Cluster(2).run(write, False).results:
        numbers = np.dtype(kind).kind in "iu"
        largest = np.iinfo(kind).min if kind == "i4" else np.iinfo("u2").max
        assert (before == largest).all() if numbers else np.isnan(before).all()
        assert after == [5, 5, 1]  # what the message does not fill is as it was
    with pytest.raises(RankFailed, match="The array of an Irecv was changed before its Wait"):
        virtual.Cluster(2).run(write, True)

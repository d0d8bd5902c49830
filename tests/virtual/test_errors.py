"""What the virtual cluster says when a program is wrong: which rank, in which call, on which line."""

from __future__ import annotations

import gc
import re

import greenlet
import numpy as np
import pytest
import virtual
from labkit.checks import exercise
from labkit.errors import CheckFailed, LabError, RankFailed

MACHINE = virtual.ideal().but(eager=65536)


def alive() -> set[greenlet.greenlet]:
    """Greenlets that have not ended. By type: isinstance asks an object for its class, and some then warn."""
    gc.collect()
    return {thing for thing in gc.get_objects() if type(thing) is greenlet.greenlet and not thing.dead}


def error_of(fn, ranks: int = 2, *args) -> RankFailed:
    """The error of a run; after it no rank is left behind."""
    greenlet.getcurrent()  # this thread's own, made when first asked for
    before = alive()
    with pytest.raises(RankFailed) as caught:
        virtual.Cluster(nodes=ranks, machine=MACHINE).run(fn, *args)
    assert alive() == before
    return caught.value


def everybody_receives(comm):
    box = np.zeros(3)
    comm.Recv(box, (comm.rank - 1) % comm.size)


def test_deadlock_names_the_circle_the_call_and_the_line():
    error = error_of(everybody_receives, 3)
    assert error.kind == "Deadlock"
    assert re.fullmatch(
        r"deadlock: rank 0 waits in Recv from rank 2 "
        r"\(line \d+ of everybody_receives: comm\.Recv\(box, .*?\)\), "
        r"rank 2 waits in Recv from rank 1 \(the same line\), rank 1 waits in Recv from rank 0 "
        r"\(the same line\); nobody can go on\.",
        str(error),
    )
    assert error.line.startswith("line ")
    assert "everybody_receives" in error.line


def test_deadlock_of_many_ranks_is_short():
    error = error_of(everybody_receives, 1024)
    assert len(str(error)) < 400
    assert ", …, rank 1 waits in Recv from rank 0 (the same line)" in str(error)


def test_deadlock_of_long_sends_says_why():
    def everybody_sends(comm, values):
        box = np.zeros(values)
        comm.Send(np.zeros(values), (comm.rank + 1) % comm.size)
        comm.Recv(box, (comm.rank - 1) % comm.size)

    virtual.Cluster(nodes=4, machine=MACHINE).run(everybody_sends, 8192)
    error = error_of(everybody_sends, 4, 8193)
    assert "rank 0 waits in Send to rank 1" in str(error)
    assert "A Send of more than 65,536 bytes waits until its receive is called." in str(error)


@pytest.mark.slow
def test_waiting_for_a_rank_that_has_ended():
    def chain(comm):
        if comm.rank:
            comm.recv(source=comm.rank - 1)
            comm.send(0, dest=(comm.rank + 1) % comm.size)

    assert "rank 1 waits in recv from rank 0 (line" in str(error_of(chain, 4))
    assert "but rank 0 has ended; ranks 2, 3 wait too, rank 2 in recv from rank 1" in str(error_of(chain, 4))


def test_waiting_with_the_wrong_tag_names_the_message_that_is_there():
    def tags(comm):
        if comm.rank == 0:
            comm.send(1, 1, tag=3)
        else:
            comm.recv(source=0, tag=5)

    text = str(error_of(tags))
    assert "recv from rank 0 with tag 5" in text
    assert "its message with tag 3 lies there untaken" in text


@pytest.mark.slow
def test_deadlock_in_wait_from_anyone_and_to_oneself():
    def wait(comm):
        comm.irecv(source=1 - comm.rank).wait()

    def anyone(comm):
        if comm.rank == 0:
            comm.recv()

    def oneself(comm):
        comm.Ssend(np.zeros(1), comm.rank)

    def probe(comm):
        comm.Probe(source=1 - comm.rank)

    assert "rank 0 waits in Wait of an irecv from rank 1" in str(error_of(wait))
    assert "rank 0 waits in recv from any rank" in str(error_of(anyone))
    assert "but rank 1 has ended" in str(error_of(anyone))
    assert "rank 0 waits in Ssend to itself" in str(error_of(oneself, 1))
    assert "rank 0 waits in Probe from rank 1" in str(error_of(probe))


@pytest.mark.slow
@pytest.mark.parametrize("compute", [0, 1e-6])
def test_an_endless_loop_of_tests_is_a_deadlock(compute):
    def ask(comm):
        request = comm.irecv(source=1 - comm.rank)
        while not request.Test():
            comm.compute(compute)

    def look(comm):
        while comm.rank == 0 and not comm.Iprobe(source=1):
            comm.compute(compute)

    assert "rank 0 repeats Test of an irecv from rank 1" in str(error_of(ask))
    assert "rank 0 repeats Iprobe from rank 1" in str(error_of(look))


def test_a_loop_of_tests_that_ends_is_none():
    def ask(comm):
        if comm.rank == 0:
            request, looks = comm.irecv(source=1), 0
            while not request.Test() and looks < 5000:
                looks += 1
            comm.send("go", 1)
            return request.wait()
        comm.recv(source=0)
        return comm.send("late", 0)

    assert virtual.Cluster(nodes=2).run(ask).results[0] == "late"


def test_an_exception_is_told_as_on_real_ranks():
    def broken(comm):
        if comm.rank == 1:
            raise ValueError("no such thing")
        comm.recv(source=1)

    error = error_of(broken)
    assert (error.rank, error.kind, error.message) == (1, "ValueError", "no such thing")
    assert re.fullmatch(
        r"rank 1 failed: ValueError: no such thing  "
        r'\(line \d+ in broken: raise ValueError\("no such thing"\)\)',
        str(error),
    )


@pytest.mark.slow
def test_unsolved_exercises_and_checks_keep_their_sentence():
    def unsolved(comm):
        raise NotImplementedError("Exercise 20.1: write your code here")

    def checked(comm):
        raise CheckFailed("the sum is wrong")

    error = error_of(unsolved)
    assert error.kind == "NotImplementedError"
    assert str(error) == "Exercise 20.1: write your code here"
    assert isinstance(error, LabError)
    assert str(error_of(checked)) == "the sum is wrong"
    assert exercise.sentence("20.1", error)


def test_interrupts_pass_and_exits_are_told():
    def interrupted(comm):
        if comm.rank:
            raise KeyboardInterrupt
        comm.recv()

    def leaves(comm):
        raise SystemExit(3)

    with pytest.raises(KeyboardInterrupt):
        virtual.Cluster(nodes=2).run(interrupted)
    assert "rank 0 ended itself with sys.exit(3)" in str(error_of(leaves))


def test_ranks_that_will_not_end_are_ended():
    def stubborn(comm):
        try:
            comm.recv(source=0)
        finally:
            comm.recv(source=0)

    assert error_of(stubborn).kind == "Deadlock"


@pytest.mark.slow
def test_messages_and_requests_left_over_are_errors():
    def lost(comm):
        if comm.rank == 0:
            comm.Send(np.zeros(2), 1, tag=7)

    def forgotten(comm):
        if comm.rank == 0:
            comm.isend("x", 1)
        else:
            comm.recv(source=0)

    text = str(error_of(lost))
    assert "rank 0 sent rank 1 16 bytes with tag 7 (line" in text
    assert "comm.Send(np.zeros(2), 1, tag=7)" in text
    assert "nobody received it" in text
    text = str(error_of(forgotten))
    assert "The isend to rank 1 of rank 0 (line" in text
    assert "was never waited for" in text


BOX = np.zeros(2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda comm: comm.Send(BOX, 2), "dest=2: there is no such rank; with 2 ranks they go from 0 to 1"),
        (lambda comm: comm.Recv(BOX, 5), "source=5: there is no such rank"),
        (lambda comm: comm.Send(BOX, 0, tag=-7), "tag=-7: a tag is 0 or more"),
        (lambda comm: comm.Recv(BOX, 0, tag=-7), "tag=-7: a tag is 0 or more"),
        (lambda comm: comm.Send([1, 2], 1), "NumPy arrays of numbers; this is list"),
        (lambda comm: comm.Recv(None, 1), "NumPy arrays of numbers; this is NoneType"),
        (lambda comm: comm.Send(np.array([{}]), 1), "NumPy arrays of numbers"),
        (lambda comm: comm.Send(np.zeros(8)[::2], 1), "not contiguous"),
        (lambda comm: comm.Irecv(np.broadcast_to(BOX[:1], 4), 1), "not contiguous"),
        (lambda comm: comm.Recv(np.frombuffer(b"12345678"), 1), "read-only"),
        (lambda comm: comm.Alltoallw(BOX, BOX), "the virtual cluster's comm has no Alltoallw. On real ranks"),
        (lambda comm: comm.Get_sise(), "the virtual cluster's comm has no Get_sise"),
        (lambda comm: comm.Irecv(BOX, 1).Cancel(), "request has no Cancel"),
        (lambda comm: comm.compute(-1), "0 or more"),
    ],
)
def test_wrong_arguments_are_told(call, says):
    assert says in str(error_of(lambda comm: call(comm)))


@pytest.mark.parametrize(
    ("sent", "received", "says"),
    [
        (np.zeros(4), np.zeros(3), "Message truncated: rank 1 sent 4 values, and rank 0 has room for 3."),
        (np.zeros(4), np.zeros(4, np.float32), "rank 1 sent float64 and rank 0 receives into float32"),
        ("text", np.zeros(4), "rank 0 calls Recv, but rank 1 sent an object: receive it with recv."),
        (np.zeros(4), None, "rank 0 calls recv, but rank 1 sent an array: receive it with Recv."),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_messages_that_do_not_fit_are_told_by_the_receiver(sent, received, says, first):
    def pair(comm):
        comm.compute(comm.rank == first)  # either side may come first
        if comm.rank == 1:
            comm.send(sent, 0) if isinstance(sent, str) else comm.Send(sent, 0)
        elif received is None:
            comm.recv(source=1)
        else:
            comm.Recv(received, 1)

    error = error_of(pair)
    assert error.rank == 0
    assert says in str(error)


@pytest.mark.slow
def test_buffers_used_before_wait_are_told():
    def sum_too_early(comm):
        box = np.zeros(3)
        request = comm.Irecv(box, 1 - comm.rank)
        comm.Send(np.ones(3), 1 - comm.rank)
        total = box.sum()
        request.Wait()
        return total, box.sum()

    def send_too_early(comm):
        box = np.zeros(3)
        request = comm.Irecv(box, 1 - comm.rank)
        comm.Send(box[1:], 1 - comm.rank)
        request.Wait()

    def change(comm):
        box, other = np.array([1.0, np.nan]), np.zeros(2)
        request = comm.Isend(box, 1 - comm.rank)
        comm.Recv(other, 1 - comm.rank)
        if comm.rank == 0:
            box[:] = 2
        request.Wait()

    def write(comm):
        box = np.zeros(2, np.int32)
        request = comm.Irecv(box, 1 - comm.rank)
        comm.Send(np.zeros(2, np.int32), 1 - comm.rank)
        box += 1
        request.Wait()

    results = virtual.Cluster(nodes=2).run(sum_too_early).results
    assert all(np.isnan(early) and late == 3 for early, late in results)
    text = str(error_of(send_too_early))
    assert "sends the buffer of an Irecv that is not over (line" in text
    assert "Wait for that request first" in text
    text = str(error_of(change))
    assert "rank 0 failed: MPIError: The array of an Isend was changed before its Wait (line" in text
    assert "The array of an Irecv was changed before its Wait" in str(error_of(write))

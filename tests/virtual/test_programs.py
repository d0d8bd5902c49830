"""A table of small programs: on two virtual ranks they give what they give on two real ones, or are
refused.

Every row is a program `lambda c, MPI: …` with what it must be refused with, or "" where both have
to agree. The real ranks run all rows in one start, each on a communicator of its own.
"""

from __future__ import annotations

import array
import re
import subprocess
import sys
import warnings

import mpi4py
import numpy as np
import pytest
import virtual
from labkit import launch
from labkit.errors import RankFailed

mpi4py.rc.initialize = False  # its constants are all that this process needs of it


# ------------------------------------------ forms of a buffer, in every kind of call that takes one


def six(c):
    """Six values that tell ranks apart."""
    return np.arange(6.0) + 10 * c.rank


# of an array of six float64, or of twelve where a call fills it; what the simulator says to it
FORMS = {
    "a": (lambda a, MPI: a, ""),
    "[a, 4]": (lambda a, MPI: [a, 4], ""),
    "(a, 4)": (lambda a, MPI: (a, 4), ""),
    "[a, np.int64(4)]": (lambda a, MPI: [a, np.int64(4)], ""),
    "[a, np.int64(4), type]": (lambda a, MPI: [a, np.int64(4), MPI.DOUBLE], ""),
    "[a, type]": (lambda a, MPI: [a, MPI.DOUBLE], ""),
    "[a, 'd']": (lambda a, MPI: [a, "d"], ""),
    "[a, 4, type]": (lambda a, MPI: [a, 4, MPI.DOUBLE], ""),
    "[a, 4, None]": (lambda a, MPI: [a, 4, None], ""),
    "[a, (4, 2)]": (lambda a, MPI: [a, (4, 2)], ""),
    "[a, [4, 1]]": (lambda a, MPI: [a, [4, 1]], ""),
    "[a, (None, 2)]": (lambda a, MPI: [a, (None, 2)], ""),
    "[a, (2, 3), type]": (lambda a, MPI: [a, (2, 3), MPI.DOUBLE], ""),
    "[a, 2, 3, type]": (lambda a, MPI: [a, 2, 3, MPI.DOUBLE], ""),
    "[a, None, 3, type]": (lambda a, MPI: [a, None, 3, MPI.DOUBLE], ""),
    "[a, 0]": (lambda a, MPI: [a, 0], ""),
    "two dimensions": (lambda a, MPI: a.reshape(2, -1), ""),
    "Fortran's order": (lambda a, MPI: np.asfortranarray(a.reshape(2, -1)), ""),
    "[a]": (lambda a, MPI: [a], "must be a NumPy array of numbers"),
    "[a, -1]": (lambda a, MPI: [a, -1], "negative count"),
    "[a, 2.0]": (lambda a, MPI: [a, 2.0], "cannot be interpreted as an integer"),
    "[a, 2, -1, type]": (lambda a, MPI: [a, 2, -1, MPI.DOUBLE], "negative displacement"),
    "[a, (None, 99)]": (lambda a, MPI: [a, (None, 99)], "begins at 99"),
    "[a, (2, 3), 1, type]": (lambda a, MPI: [a, (2, 3), 1, MPI.DOUBLE], "as an integer"),
    "[a, (1, 2, 3)]": (lambda a, MPI: [a, (1, 2, 3)], "3 numbers in place of a count"),
    "[a, 2, 3]": (lambda a, MPI: [a, 2, 3], "MPI's types of numbers alone"),
    "[a, 4, float's type]": (lambda a, MPI: [a, 4, MPI.FLOAT], "Leave the type out"),
    "[a, an integer's type]": (lambda a, MPI: [a, MPI.INT64_T], "Leave the type out"),
    "[a, a pair's type]": (lambda a, MPI: [a, MPI.FLOAT_INT], "MPI's types of numbers alone"),
    "a strided": (lambda a, MPI: a[::2], "not contiguous"),
    "a list": (lambda a, MPI: a.tolist(), "must be a NumPy array of numbers"),
    "other end first": (lambda a, MPI: a.astype(">f8"), "not an array of >f8"),
}


def box():
    return np.full(12, -1.0)


def sent(c, MPI, form):
    request, into = c.Isend(form(six(c), MPI), 1 - c.rank), box()
    c.Recv(into, 1 - c.rank)
    request.Wait()
    return into


def received(c, MPI, form):
    request, into = c.Isend(six(c)[:2], 1 - c.rank), box()
    c.Recv(form(into, MPI), 1 - c.rank)
    request.Wait()
    return into


def begun(c, MPI, form):
    into = box()
    requests = [c.Irecv(form(into, MPI), 1 - c.rank), c.Isend(six(c)[:2], 1 - c.rank)]
    MPI.Request.Waitall(requests)
    return into


def broadcast(c, MPI, form):
    data = six(c)
    c.Bcast(form(data, MPI), root=1)
    return data


def summed(c, MPI, form):
    into = np.full(6, -1.0)
    c.Allreduce(form(six(c), MPI), form(into, MPI))
    return into


def reduced(c, MPI, form):
    into = np.full(6, -1.0)
    c.Reduce(form(six(c), MPI), form(into, MPI) if c.rank else None, MPI.MAX, 1)
    return into


def later(c, MPI, form):
    into = np.full(6, -1.0)
    c.Iallreduce(form(six(c), MPI), form(into, MPI)).Wait()
    return into


CALLS = {
    "Isend": sent, "Recv": received, "Irecv": begun, "Bcast": broadcast, "Allreduce": summed,
    "Reduce": reduced, "Iallreduce": later,
}  # fmt: skip
# What a receive cannot be asked on real ranks: they write beyond an array's end, or into a copy of
# it.
NOT_FILLED = ("[a, (None, 99)]", "[a, 0]", "a strided", "Fortran's order")
ROWS = {
    f"{call} of {name}": (lambda c, MPI, play=play, form=form: play(c, MPI, form), says)
    for call, play in CALLS.items()
    for name, (form, says) in FORMS.items()
    if not (call in ("Recv", "Irecv") and name in NOT_FILLED)
}


# --------------------------------------------------------------------------------- calls one by one


def filled(call, *arguments):
    """What a blocking call leaves in the array that is its last argument's."""
    call(*arguments)
    last = arguments[-1]
    return last[0] if isinstance(last, list) else last


def other(c):
    return 1 - c.rank


def swapped(c, value, **tags):
    return c.sendrecv(value, other(c), source=other(c), **tags)


def own_kept(c, call, *arguments):
    """Is what a lower-case collective gives back the rank's own object? Then a change would show in
    both."""
    mine = [c.rank, 0]
    got = call(mine, *arguments)
    parts = got if isinstance(got, list) and got and isinstance(got[0], list) else [got]
    for part in parts:
        if isinstance(part, list):
            part.append("changed")
    return mine, got


def changing(left, right):
    """A function that changes its first argument, as a reduction's must not."""
    left += right
    return left


def large(c, count, call="irecv", buf=None):
    """An object of `count` bytes and 18 more, received by a call that may be given a buffer."""
    data = bytes(count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mpi4py takes a buffer for recv, and advises against it
        if call == "sendrecv":
            return len(c.sendrecv(data, other(c), recvbuf=buf, source=other(c)))
        request = c.isend(data, other(c))
        got = getattr(c, call)(buf, source=other(c))
        length = len(got if call == "recv" else got.wait())
        request.wait()
        return length


def caught(call, *kinds):
    try:
        return call()
    except kinds:
        return "caught"


def asked_until_over(c):
    requests, got = [c.irecv(source=other(c)), c.isend(c.rank, other(c))], []
    while any(requests):
        for request in requests:
            if request:
                done, value = request.test()
                got += [value] if done else []
    return sorted(map(str, got))


def of_several(c, MPI, name, statuses=None):
    """Two receives ended by one of the calls for several requests, called until nothing is left."""
    requests = [c.irecv(source=other(c), tag=tag) for tag in (1, 2)]
    sending = [c.isend(10 * c.rank + tag, other(c), tag) for tag in (1, 2)]
    for request in sending:
        request.wait()
    got, more = [], [] if statuses is None else [statuses]
    while any(requests):
        got.append(str(getattr(MPI.Request, name)(requests, *more)))
    # Calls that may find nothing yet, or one of two, end in another order here and there.
    in_order = got if name in ("waitall", "Waitall") else None
    end = getattr(MPI.Request, name)(requests)
    return end, in_order, None if statuses is None else len(statuses)


def both_ended(c, MPI, name):
    boxes = [np.zeros(2), np.zeros(2)]
    requests = [c.Irecv(boxes[0], other(c)), c.Isend(np.ones(2), other(c))]
    c.Barrier()
    end = getattr(MPI.Request, name)(requests)
    while any(requests):
        getattr(MPI.Request, name)(requests)
    return boxes[0], end if name == "Waitall" else None


def status_of(c, MPI):
    status = MPI.Status()
    c.Isend(np.arange(3, dtype="i4"), other(c), 5).Wait()
    c.Recv(np.zeros(8, "i4"), MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    return status.Get_source(), status.Get_tag(), status.source, status.tag


def through_nobody(c, MPI):
    into = np.full(2, 7.0)
    status = MPI.Status()
    c.Send(np.ones(2), MPI.PROC_NULL)
    c.Recv(into, MPI.PROC_NULL, status=status)
    c.Sendrecv(np.ones(2), MPI.PROC_NULL, 0, into, MPI.PROC_NULL)
    return (
        into,
        status.source == MPI.PROC_NULL,
        c.recv(source=MPI.PROC_NULL),
        c.sendrecv(1, MPI.PROC_NULL, source=MPI.PROC_NULL),
    )


def split(c, MPI, color, key=0):
    part = c.Split(color, key)
    return "none" if part == MPI.COMM_NULL else (part.rank, part.size, part.allgather(c.rank))


def ring(c, kind):
    into = np.zeros(4, kind)
    request = c.Irecv(into, other(c))
    c.Send(np.arange(4).astype(kind), other(c))
    request.Wait()
    return into.astype(complex).real.tolist()


def added(c, MPI, kind, op):
    into = np.zeros(3, kind)
    c.Allreduce(np.array([1, 0, 1 + c.rank]).astype(kind), into, getattr(MPI, op))
    return into.astype(complex).real.tolist()


D = "d"
ROWS |= {
    # counts are those of one rank's block
    "Allgather, count a rank": (
        lambda c, MPI: filled(c.Allgather, [six(c), 2, MPI.DOUBLE], [box(), 2, MPI.DOUBLE]), ""),
    "Allgather, count of all": (
        lambda c, MPI: filled(c.Allgather, [six(c), 2, D], [np.zeros(8), 4, D]), "one rank's block"),
    "Allgather, displacement": (
        lambda c, MPI: filled(c.Allgather, [six(c), 2, 3, D], [box(), 2, 1, D]), ""),
    "Allgather, too long a count": (
        lambda c, MPI: filled(c.Allgather, [np.zeros(9), 9], np.zeros(12)), "one rank's block"),
    "Allgather, no count": (lambda c, MPI: filled(c.Allgather, six(c), box()), ""),
    "Allgather, in place": (lambda c, MPI: filled(c.Allgather, MPI.IN_PLACE, six(c)), ""),
    "Allgather, uneven": (
        lambda c, MPI: filled(c.Allgather, np.zeros(3), np.zeros(7)), "blocks of one length"),
    "Alltoall, count a rank": (
        lambda c, MPI: filled(c.Alltoall, [six(c), 2, MPI.DOUBLE], [box(), 2, MPI.DOUBLE]), ""),
    "Alltoall, no count": (lambda c, MPI: filled(c.Alltoall, six(c), np.zeros(6)), ""),
    "Alltoall, displacement": (lambda c, MPI: filled(c.Alltoall, [six(c), 1, 2, D], [box(), 1, 5, D]), ""),
    "Alltoall, in place": (lambda c, MPI: filled(c.Alltoall, MPI.IN_PLACE, six(c)), ""),
    "Alltoall, other types": (
        lambda c, MPI: filled(c.Alltoall, six(c), np.zeros(6, "i8")), "MPI does not convert"),
    "Alltoallv, counts": (
        lambda c, MPI: filled(c.Alltoallv, [six(c), [1 + c.rank, 2]], [box(), [1 + c.rank, 2]])
        if c.rank == 0 else filled(c.Alltoallv, [six(c), [2, 3]], [box(), [2, 3]]), ""),
    "Alltoallv, displacements": (
        lambda c, MPI: filled(c.Alltoallv, [six(c), ([2, 1], [4, 0]), D], [box(), ([2, 1], [0, 5]), D])
        if c.rank == 0 else
        filled(c.Alltoallv, [six(c), ([1, 1], [0, 3]), D], [box(), ([1, 1], [2, 0]), D]), ""),
    "Alltoallv, no values for one": (
        lambda c, MPI: filled(c.Alltoallv, [six(c), [0, 3 - 3 * c.rank]],
                              [box(), [0, 0] if c.rank == 0 else [3, 0]]), ""),
    "Alltoallv, in place": (lambda c, MPI: filled(c.Alltoallv, MPI.IN_PLACE, [six(c), [2, 2]]), ""),
    "Alltoallv, own block of two lengths": (
        lambda c, MPI: filled(c.Alltoallv, [six(c), [2, 2]], [box(), [3, 3]]), "a block of 2 values"),
    "Alltoallv, too few counts": (
        lambda c, MPI: filled(c.Alltoallv, [six(c), [2]], [box(), [2, 2]]), "needs 2 counts"),
    "Gather, count a rank": (
        lambda c, MPI: filled(c.Gather, [six(c), 2, D], [box(), 2, D]) if c.rank == 0
        else c.Gather([six(c), 2, D], None), ""),
    "Gather, no count": (lambda c, MPI: filled(c.Gather, six(c), box() if c.rank == 0 else None), ""),
    "Gather to rank 1": (lambda c, MPI: filled(lambda a, b: c.Gather(a, b, 1), six(c), box()), ""),
    "Gather, in place": (
        lambda c, MPI: filled(c.Gather, MPI.IN_PLACE if c.rank == 0 else six(c)[:3], six(c)), ""),
    "Scatter, count a rank": (lambda c, MPI: filled(c.Scatter, [six(c), 2, 1, D], [box(), 2, D]), ""),
    "Scatter, no count": (
        lambda c, MPI: filled(c.Scatter, six(c) if c.rank == 0 else None, np.zeros(3)), ""),
    "Scatter from rank 1": (lambda c, MPI: filled(lambda a, b: c.Scatter(a, b, 1), six(c), np.zeros(3)), ""),
    "Scatter, in place": (lambda c, MPI: (lambda a: (
        c.Scatter(six(c), MPI.IN_PLACE if c.rank == 0 else a), a)[1])(np.zeros(3)), ""),
    "Scatter, uneven": (lambda c, MPI: filled(c.Scatter, np.zeros(7), np.zeros(3)), "blocks of one length"),
    "Reduce_scatter_block": (lambda c, MPI: filled(c.Reduce_scatter_block, six(c), np.zeros(3)), ""),
    "Reduce_scatter_block, count a rank": (
        lambda c, MPI: filled(c.Reduce_scatter_block, [six(c), 2, D], [box(), 2, D]), ""),
    "Reduce_scatter_block, in place": (
        lambda c, MPI: filled(c.Reduce_scatter_block, MPI.IN_PLACE, six(c))[:3], ""),
    "Reduce_scatter_block, count of all": (
        lambda c, MPI: filled(c.Reduce_scatter_block, [six(c), 4, D], np.zeros(2)), "values"),
    "Reduce_scatter": (lambda c, MPI: filled(
        lambda a, b: c.Reduce_scatter(a, b, [2, 4]), six(c), np.zeros(2 + 2 * c.rank)), ""),
    "Reduce_scatter, without counts": (
        lambda c, MPI: filled(c.Reduce_scatter, six(c), np.zeros(2 + 2 * c.rank)), ""),
    "Reduce_scatter, room to spare": (lambda c, MPI: filled(
        lambda a, b: c.Reduce_scatter(a, b, [2, 4]), six(c), np.zeros(6)), "one rank's block"),
    "Allgatherv, counts": (
        lambda c, MPI: filled(c.Allgatherv, six(c)[: 2 + c.rank], [box(), [2, 3]]), ""),
    "Allgatherv, counts and displacements": (
        lambda c, MPI: filled(c.Allgatherv, six(c)[: 2 + c.rank], [box(), ([2, 3], [6, 1]), D]), ""),
    "Allgatherv, four entries": (
        lambda c, MPI: filled(c.Allgatherv, six(c)[: 2 + c.rank], [box(), [2, 3], [6, 1], MPI.DOUBLE]), ""),
    "Allgatherv, one count for all": (lambda c, MPI: filled(c.Allgatherv, [six(c), 2], [box(), 2]), ""),
    "Allgatherv, one count and distance": (
        lambda c, MPI: filled(c.Allgatherv, [six(c), 2], [box(), (2, 5), D]), ""),
    "Allgatherv, a tuple of numbers": (lambda c, MPI: filled(c.Allgatherv, [six(c), 2], [box(), (2, 3)]), ""),
    "Allgatherv, NumPy's counts": (
        lambda c, MPI: filled(c.Allgatherv, six(c)[: 2 + c.rank], [box(), np.array([2, 3])]), ""),
    "Allgatherv, no counts": (
        lambda c, MPI: filled(c.Allgatherv, six(c)[: 4 - c.rank], np.zeros(7)), ""),
    "Allgatherv, in place": (lambda c, MPI: filled(c.Allgatherv, MPI.IN_PLACE, [six(c), [2, 4]]), ""),
    "Allgatherv, too few counts": (
        lambda c, MPI: filled(c.Allgatherv, six(c)[:2], [box(), [2]]), "needs 2 counts"),
    "Scan": (lambda c, MPI: filled(c.Scan, six(c), np.zeros(6)), ""),
    "Test until an Iallreduce is over": (lambda c, MPI: (lambda a, r: (
        [None for _ in iter(r.Test, True)], r.Test(), a)[1:])(
        *(lambda a: (a, c.Iallreduce(six(c), a)))(np.zeros(6))), ""),
    "Iallgather": (lambda c, MPI: filled(lambda a, b: c.Iallgather(a, b).Wait(), six(c), box()), ""),
    "Iallgather, in place": (
        lambda c, MPI: filled(lambda a, b: c.Iallgather(a, b).Wait(), MPI.IN_PLACE, six(c)), ""),
    "Ireduce": (lambda c, MPI: filled(lambda a, b: c.Ireduce(a, b, root=1).Wait(), six(c), np.zeros(6)), ""),
    "Ibcast": (lambda c, MPI: filled(lambda a: c.Ibcast(a, 1).Wait(), six(c)), ""),
    "Allreduce, in place": (lambda c, MPI: filled(c.Allreduce, MPI.IN_PLACE, six(c)), ""),
    "Allreduce, None in place": (lambda c, MPI: filled(c.Allreduce, None, six(c)), "not NoneType"),
    "Allreduce, other lengths": (lambda c, MPI: filled(c.Allreduce, six(c), np.zeros(5)), "mismatch"),
    "Allreduce of itself": (
        lambda c, MPI: (lambda a: filled(c.Allreduce, a, a))(six(c)), "share memory"),
    "Allreduce, function of one's own": (
        lambda c, MPI: filled(lambda a, b: c.Allreduce(a, b, op=np.maximum), six(c), np.zeros(6)),
        "takes op=MPI.SUM"),
    "Allreduce of NaN, SUM": (
        lambda c, MPI: np.isnan(filled(c.Allreduce, six(c) * np.nan, np.zeros(6))), ""),
    **{f"Allreduce of NaN, {op}": (lambda c, MPI, op=op: filled(lambda a, b: c.Allreduce(
        a, b, getattr(MPI, op)), np.array([0, np.nan][:: 2 * c.rank - 1]), np.zeros(2)), "makes of NaN")
       for op in ("MAX", "MIN")},
    "Bcast of bytes": (lambda c, MPI: filled(c.Bcast, bytearray(b"abcd" if c.rank == 0 else b"____")), ""),
    "Bcast of array.array": (lambda c, MPI: list(filled(c.Bcast, array.array(D, [c.rank, 5])) ), ""),
    "Bcast into bytes": (lambda c, MPI: filled(c.Bcast, b"abcd"), "read-only"),
    # messages
    "Send of bytes": (lambda c, MPI: (c.Isend(b"abcd", other(c)).Wait(),
                                      filled(lambda a: c.Recv(a, other(c)), bytearray(6)))[1], ""),
    "Send of a memoryview": (lambda c, MPI: (c.Isend(memoryview(b"abcd"), other(c)).Wait(),
                                      filled(lambda a: c.Recv(a, other(c)), np.zeros(4, "u1")))[1], ""),
    "Send of characters": (lambda c, MPI: (c.Isend([b"abcd", MPI.CHAR], other(c)).Wait(),
                                           filled(lambda a: c.Recv(a, other(c)), np.zeros(4, "i1")))[1], ""),
    "Isend, count beyond the end": (
        lambda c, MPI: sent(c, MPI, lambda a, _: [a, 9, MPI.DOUBLE]), "its array holds 6"),
    "Isend, other width": (
        lambda c, MPI: sent(c, MPI, lambda a, _: [a.astype("f4"), 2, MPI.DOUBLE]), "4 bytes a value"),
    "Recv into other type": (
        lambda c, MPI: (c.Isend(six(c), other(c)).Wait(), c.Recv(np.zeros(6, "i8"), other(c)))[1],
        "the numbers would mean nothing"),
    "Recv of too much": (
        lambda c, MPI: (c.Isend(six(c), other(c)), c.Recv(np.zeros(5), other(c)))[1], "Message truncated"),
    "Recv of less": (lambda c, MPI: (c.Isend(six(c), other(c)).Wait(),
                                     filled(lambda a: c.Recv(a, other(c)), box()))[1], ""),
    "Sendrecv of itself": (
        lambda c, MPI: (lambda a: c.Sendrecv(a, other(c), 0, a, other(c)))(six(c)), "share memory"),
    "Sendrecv, parts that overlap": (lambda c, MPI: (lambda a: c.Sendrecv(
        [a, 4], other(c), 0, [a, (2, 3), MPI.DOUBLE], other(c)))(six(c)), "share memory"),
    "Sendrecv, parts beside each other": (lambda c, MPI: (lambda a: (c.Sendrecv(
        a[:3], other(c), 0, a[3:], other(c)), a)[1])(six(c)), ""),
    "Sendrecv with counts": (lambda c, MPI: (lambda b: (c.Sendrecv(
        [six(c), (2, 1)], other(c), 3, [b, (2, 7), D], other(c), 3), b)[1])(box()), ""),
    "rank by division": (lambda c, MPI: c.isend(1, other(c) / 1), "cannot be interpreted as an integer"),
    "rank of NumPy's": (lambda c, MPI: swapped(c, c.rank) + c.sendrecv(
        c.rank, np.int64(other(c)), np.int32(4), source=np.int64(other(c)), recvtag=np.int32(4)), ""),
    "tag by division": (lambda c, MPI: c.isend(1, other(c), 4 / 2), "cannot be interpreted as an integer"),
    "the largest tag": (lambda c, MPI: swapped(c, 1, sendtag=2**29 - 1, recvtag=2**29 - 1), ""),
    "too large a tag": (lambda c, MPI: c.isend(1, other(c), 2**29), "at most 536,870,911"),
    "a negative tag": (lambda c, MPI: c.isend(1, other(c), -3), "a tag is 0 or more"),
    "no such rank": (lambda c, MPI: c.isend(1, 2), "there is no such rank"),
    "no such rank, caught": (lambda c, MPI: caught(lambda: c.isend(1, 2), MPI.Exception), ""),
    "bad root, caught": (lambda c, MPI: caught(lambda: c.bcast(1, root=2), MPI.Exception), ""),
    "bad root": (lambda c, MPI: c.bcast(1, root=2), "root=2: there is no such rank"),
    "wrong buffer, caught": (lambda c, MPI: caught(lambda: c.Send("text", 0), TypeError), ""),
    "nobody": (through_nobody, ""),
    "a status": (status_of, ""),
    "Ssend": (lambda c, MPI: (lambda r, b: (c.Ssend(six(c), other(c)), r.Wait(), b)[2])(
        *(lambda b: (c.Irecv(b, other(c)), b))(box())), ""),
    "Issend": (lambda c, MPI: (lambda r, b: (c.Recv(b, other(c)), r.Wait(), b)[2])(
        c.Issend(six(c), other(c)), box()), ""),
    "ssend": (lambda c, MPI: (lambda r: (c.ssend(c.rank, other(c)), r.wait())[1])(
        c.irecv(source=other(c))), ""),
    "Probe": (lambda c, MPI: (lambda r: (c.Probe(other(c), 3), c.Iprobe(other(c), 4),
                                         c.recv(source=other(c), tag=3), r.wait())[:3])(
        c.issend("x", other(c), 3)), ""),
    "any source and tag": (
        lambda c, MPI: (lambda r: (c.recv(), r.wait())[0])(c.isend(c.rank, other(c), 9)), ""),
    "messages keep their order": (lambda c, MPI: (
        [c.isend(i, other(c)).wait() for i in range(3)], [c.recv(source=other(c)) for _ in range(3)])[1], ""),
    "tags out of order": (lambda c, MPI: (
        [c.isend(i, other(c), i).wait() for i in range(3)],
        [c.recv(source=other(c), tag=i) for i in (2, 0, 1)])[1], ""),
    "to oneself": (lambda c, MPI: (lambda r: (c.recv(source=c.rank), r.wait())[0])(c.isend(5, c.rank)), ""),
    "long doubles": (lambda c, MPI: ring(c, np.longdouble), ""),
    "complex long doubles": (lambda c, MPI: ring(c, np.clongdouble), ""),
    # requests
    "a request that is over is false": (lambda c, MPI: (
        lambda r: (bool(r), r.wait(), bool(r)))(c.isend(1, MPI.PROC_NULL)), ""),
    "an object is given once": (lambda c, MPI: (lambda r: (
        c.send(c.rank, other(c)), r.wait(), r.wait(), r.test())[1:])(c.irecv(source=other(c))), ""),
    "a loop over those that are left": (lambda c, MPI: asked_until_over(c), ""),
    "a request that is over is null": (lambda c, MPI: (lambda r: (
        r == MPI.REQUEST_NULL, r.wait(), r == MPI.REQUEST_NULL, r != MPI.REQUEST_NULL))(c.Ibarrier()), ""),
    "requests in a set": (lambda c, MPI: {c.Ibarrier()}, "unhashable type"),
    "a communicator as a key": (lambda c, MPI: {c: 1}, "unhashable type"),
    **{f"{name} of objects": (lambda c, MPI, name=name: of_several(c, MPI, name), "")
       for name in ("waitall", "testall", "waitany", "testany", "waitsome", "testsome")},
    **{f"{name} of arrays": (lambda c, MPI, name=name: both_ended(c, MPI, name), "")
       for name in ("Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome")},
    "Waitall fills statuses": (lambda c, MPI: of_several(c, MPI, "waitall", []), ""),
    "Cancel": (lambda c, MPI: c.irecv(source=other(c)).Cancel(), "no Cancel. Here write Wait"),
    # objects
    **{f"{name} keeps one's own object": (lambda c, MPI, name=name: own_kept(c, getattr(c, name)), "")
       for name in ("bcast", "gather", "allgather", "scatter", "alltoall", "allreduce", "reduce", "scan")},
    "bcast of an object that is changed": (lambda c, MPI: own_kept(c, c.bcast, 1), ""),
    **{f"{name} with a function that changes": (
        lambda c, MPI, name=name: own_kept(c, getattr(c, name), changing), "")
       for name in ("allreduce", "reduce")},
    **{f"allreduce of objects, {op}": (lambda c, MPI, op=op: (
        c.allreduce(c.rank + 2, getattr(MPI, op)), c.allreduce(c.rank, op=getattr(MPI, op))), "")
       for op in ("SUM", "PROD", "MAX", "MIN", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR")},
    "allreduce of lists, LAND": (lambda c, MPI: c.allreduce([c.rank], op=MPI.LAND), ""),
    "allreduce of lists": (lambda c, MPI: c.allreduce([c.rank]), ""),
    "allreduce of pairs, MAXLOC": (lambda c, MPI: c.allreduce((c.rank, 7), op=MPI.MAXLOC), ""),
    "allreduce, Python's max": (lambda c, MPI: c.allreduce(c.rank, op=max), ""),
    "allreduce of arrays": (lambda c, MPI: c.allreduce(six(c)), ""),
    "reduce of text": (lambda c, MPI: c.reduce("ab"[c.rank], root=1), ""),
    "scatter of too many": (lambda c, MPI: c.scatter([1, 2, 3]), "expecting 2 items"),
    "alltoall of a tuple": (lambda c, MPI: c.alltoall((c.rank, "x")), ""),
    "a barrier": (lambda c, MPI: (c.Barrier(), c.barrier(), c.Ibarrier().wait()), ""),
    "send and recv of an object": (lambda c, MPI: swapped(c, {"rank": c.rank, "more": [1, None]}), ""),
    "send of what cannot be pickled": (lambda c, MPI: c.isend(lambda: 1, other(c)), "local object"),
    "irecv of an object that fits": (lambda c, MPI: large(c, 32750), ""),
    "irecv of an object that is too large": (lambda c, MPI: large(c, 32751), "has room for 32,768"),
    **{f"{call} into {what}": (
        lambda c, MPI, call=call, buf=buf: large(c, 40000, call, buf), says)
       for call in ("irecv", "recv", "sendrecv")
       for what, buf, says in (
           ("a buffer", bytearray(40018), ""),
           ("a number of bytes", 40018, ""),
           ("NumPy's number of bytes", np.int64(40018), ""),
           ("too small a buffer", bytearray(40017), "has room for 40,017"),
           ("too small an array", np.zeros(5002), "has room for 40,016"),
           ("text", "text", "a bytes-like object is required"),
       )},
    # communicators
    "Split": (lambda c, MPI: split(c, MPI, 0, -c.rank), ""),
    "Split in two": (lambda c, MPI: split(c, MPI, c.rank), ""),
    "Split without one": (lambda c, MPI: split(c, MPI, 0 if c.rank else MPI.UNDEFINED), ""),
    "Split by a negative color": (lambda c, MPI: split(c, MPI, -3), "a color is 0 or more"),
    "Split by text": (lambda c, MPI: split(c, MPI, "red"), "whole numbers"),
    "Split by node": (lambda c, MPI: c.Split_type(MPI.COMM_TYPE_SHARED, -c.rank).allgather(c.rank), ""),
    "Split without a type": (lambda c, MPI: c.Split_type(), "split_type"),
    "Dup": (lambda c, MPI: (lambda d: (d.rank, d.size, d.allgather(1), d.Free()))(c.Dup()), ""),
    "a communicator that was freed": (
        lambda c, MPI: (lambda d: (d.Free(), d == MPI.COMM_NULL, d.Barrier()))(c.Dup()), "no communicator"),
    "its numbers": (lambda c, MPI: (c.Get_rank(), c.Get_size(), c.rank, c.size), ""),
    # what is not there
    **{name: (lambda c, MPI, name=name: getattr(c, name), f"has no {name}. Here write")
       for name in ("Gatherv", "Scatterv", "Exscan", "Bsend", "Rsend", "Sendrecv_replace",
                    "Isendrecv", "Mprobe", "Send_init", "Create_cart", "Iscatter", "Igather")},
    "Get_sise": (lambda c, MPI: c.Get_sise(), "has no Get_sise"),
    # operations and types, where MPI has them
    **{f"{op} of {kind}": (
        lambda c, MPI, op=op, kind=kind: added(c, MPI, kind, op), "" if allowed else "is not defined for")
       for kind, op, allowed in (
           ("f4", "SUM", True), ("f8", "MAX", True), ("i4", "LAND", True), ("u1", "BXOR", True),
           ("f2", "PROD", True), ("c16", "SUM", True), ("bool", "LXOR", True), ("i8", "BOR", True),
           ("longdouble", "MIN", True), ("clongdouble", "PROD", True), ("i2", "LOR", True),
           ("c16", "MAX", False), ("bool", "SUM", False), ("f8", "LAND", False), ("f4", "BAND", False),
           ("bool", "BOR", False), ("c8", "MIN", False),
       )},
    "Allreduce of raw bytes": (
        lambda c, MPI: filled(c.Allreduce, [np.ones(3, "u1"), MPI.BYTE], [np.zeros(3, "u1"), MPI.BYTE]),
        "does not compute with MPI.BYTE"),
    "Bcast of raw bytes": (lambda c, MPI: filled(c.Bcast, [np.full(3, c.rank, "u1"), MPI.BYTE]), ""),
}  # fmt: skip


def plain(value):
    """Arrays and what holds them as lists, so that two results can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return bytes(value) if isinstance(value, bytearray) else value


def on_real_ranks(comm):
    """What each row that is not refused gave here. A stray message stays on its row's own
    communicator."""
    from mpi4py import MPI

    results = {}
    for name, (program, says) in ROWS.items():
        if says:
            continue
        twin = comm.Dup()
        try:
            results[name] = plain(program(twin, MPI))
        except Exception as error:
            results[name] = repr(error)
        comm.Barrier()
    return results


@pytest.fixture(scope="module")
def real():
    return launch.run(on_real_ranks, ranks=2, timeout=100)


def without_quotes(said):
    """A refusal without the line of the program that it quotes, in which a row's phrase stands,
    too."""
    return re.sub(r"\(line \d+ in .*\)", "", said)


def on_virtual_rank(comm, program):
    from mpi4py import MPI

    return plain(program(comm, MPI))


@pytest.mark.parametrize("name", ROWS)
def test_a_program_gives_what_it_gives_on_real_ranks_or_is_refused(name, real):
    program, says = ROWS[name]
    ours = virtual.Cluster(1, 2)
    if says:
        with pytest.raises(RankFailed) as refused:
            ours.run(on_virtual_rank, program)
        assert says in without_quotes(str(refused.value))
    else:
        assert ours.run(on_virtual_rank, program).results == [of_rank[name] for of_rank in real]


def test_a_status_counts_where_mpi_has_been_initialized():
    program = """
import numpy as np, virtual
from mpi4py import MPI
def count(comm):
    status = MPI.Status()
    comm.Isend(np.arange(3, dtype="i4"), 1 - comm.rank).Wait()
    comm.Recv(np.zeros(8, "i4"), status=status)
    return status.Get_count(MPI.INT), status.count, MPI.Request.Waitall([])
print(virtual.Cluster(2).run(count).results)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[(3, 12, True), (3, 12, True)]"

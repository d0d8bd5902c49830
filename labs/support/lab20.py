"""The checks of lab 20, and its measurement with a neighbor that is late."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from labkit import check, expect, launch, predict, timing
from labkit.counting import CallLog, on_every_size, sizes_of_groups
from labkit.errors import counted

SMALL = {"send", "ssend", "recv", "sendrecv", "isend", "issend", "irecv"}  # calls that pack objects
STARTING = {"Isend", "Issend", "Irecv", "Isendrecv", "Send_init", "Ssend_init", "Recv_init"}


def vector_of(rank, length, dtype):
    """Another one for each rank: values that nobody guesses."""
    return np.random.default_rng(rank).integers(1_000_000, size=length).astype(dtype)


class Waiting(CallLog):
    """Each send, however short, waits for its receive, as the standard allows."""

    SAME = {"Send": "Ssend", "Isend": "Issend", "send": "ssend", "isend": "issend"}

    def __getattr__(self, name):
        return super().__getattr__(self.SAME.get(name, name))


class Raised(CallLog):
    """Whatever rank 0 sends through it arrives 1000 higher."""

    def __getattr__(self, name):
        call = super().__getattr__(name)
        if "send" not in name.lower():
            return call
        return lambda obj, *rest, **options: call(obj + 1000, *rest, **options)


def expect_rows(subject, strips, rank, new, want):
    """Each part of the strip by itself: inside, first row, last row."""
    strip = strips[rank]
    first, last = strip[0] + strip[1], strip[-2] + strip[-1]
    unread = (
        "the halo still holds this strip's own row: it is used before its Wait, or nothing was"
        " received"
    )
    slips_above, slips_below = {unread: (strip[0] + first) / 3}, {unread: (last + strip[-1]) / 3}
    if rank > 0:
        far = "the halo holds the first row of the rank `up`, and you need the last one"
        slips_above[far] = (strips[rank - 1][0] + first) / 3
    if rank < len(strips) - 1:
        far = "the halo holds the last row of the rank `down`, and you need the first one"
        slips_below[far] = (last + strips[rank + 1][-1]) / 3
    expect.close(new[1:-1], want[1:-1], f"{subject}: the inside rows, `new[1:-1]`")
    expect.close(new[0], want[0], f"{subject}: `new[0]`, which needs `above`", slips=slips_above)
    expect.close(new[-1], want[-1], f"{subject}: `new[-1]`, which needs `below`", slips=slips_below)
    expect(
        new.dtype == strip.dtype,
        f"{subject}: right, but of dtype {new.dtype}. The dtype of `strip` is {strip.dtype}.",
    )


def expect_inside_meanwhile(subject, log, inside):
    """The inside's values, computed while all messages were under way: as arithmetic with the
    strip, or as what is written to `new` (NumPy's functions of several arrays compute with plain
    copies of the strip).
    """

    def values(parts, under_way):
        return sum(
            part.values for part in parts if (part.under_way == len(log.requests)) == under_way
        )

    seen = max(values(log.computed, True), values(log.written, True))
    none = "right, but the inside is not computed while all messages are in transit: wait after it"
    expect(seen, f"{subject}: {none}.")
    part = "right, but only a part of the inside is computed while all messages are in transit"
    later = values(log.computed, False)  # the two edge rows are there, too
    expect(seen >= inside > later, f"{subject}: {part}. Compute all of it there.")


@check.exercise("20.1")
def check_pass_token(pass_token, patience):
    """The right number on 1 to 5 ranks, by one message from each."""

    def expect_passed_on(comm):
        """Rank 0's message arrives 1000 higher, and all that comes from it must be so, too."""
        arrived = pass_token(Raised(comm) if comm.rank == 0 else comm)
        computed = sum(range((comm.rank - 1) % comm.size + 1))
        want = computed + 1000 if comm.size > 1 else 0
        subject = (
            f"With {comm.size} ranks, and 1000 instead of 0 from rank 0: what arrived at rank"
            f" {comm.rank}"
        )
        slips = {
            "this is not a sum of the numbers that were sent. Add your rank to the number that "
            "arrives, and send that": computed,
        }
        expect.equal(arrived, want, subject, slips=slips if comm.size > 1 else None)

    def expect_token(comm):
        """Returns (what arrived at this rank, messages that it sent)."""
        log = CallLog(comm)  # passes every call on, and notes its name
        arrived = pass_token(log)
        want = sum(range((comm.rank - 1) % comm.size + 1))
        subject = f"With {comm.size} ranks, sent to the right:"
        slips = {"that is the number to pass on": want + comm.rank} if comm.rank else {}
        expect.equal(arrived, want, f"{subject} what arrived at rank {comm.rank}", slips=slips)
        sent = sum("send" in name.lower() for name in log.calls)
        expect.equal(sent, int(comm.size > 1), f"{subject} messages that rank {comm.rank} sends")
        left_alone = f"{subject} requests of rank {comm.rank} that were never waited for"
        expect.equal(log.under_way(), 0, left_alone)
        expect_passed_on(comm.Dup())
        return arrived, sent

    per_rank = launch.run(on_every_size, expect_token, ranks=launch.ranks_here(5), timeout=patience)
    four = min(4, len(per_rank))  # ranks, or as many as there are
    arrived = per_rank[0][four][0]
    messages = sum(results[four][1] for results in per_rank[:four])
    expect.equal(messages, four if four > 1 else 0, f"Messages around a ring of {four} ranks")
    predict.compare("20.1", arrives_at_rank_0=arrived, messages=messages)


@check.exercise("20.2")
def check_shift_right(shift_right, few, many, patience):
    """The left neighbor's vector, short or long, with 1 to 5 ranks."""

    def expect_shift(comm):
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        cases = ((few, int, CallLog), (many, float, CallLog), (few, int, Waiting))
        for length, dtype, way in cases:
            vector = partial(vector_of, length=length, dtype=dtype)
            own = vector(comm.rank)
            log = way(comm)
            with check.case(
                f"{length} values" + (", each Send waits for its Recv" if way is Waiting else "")
            ):
                theirs = shift_right(log, own)
            subject = f"{counted(comm.size, 'rank')}, {length} values, rank {comm.rank}"
            expect.equal(log.under_way(), 0, f"{subject}: requests that were never waited for")
            expect.unchanged(
                vector(comm.rank), own, f"{subject}: `own`", because="Receive into another array"
            )
            came = getattr(theirs, "dtype", own.dtype)
            expect(
                came == own.dtype,
                f"{subject}: the dtype of the result is {came}, and that of `own` is {own.dtype}."
                " Give `theirs` the dtype of `own`.",
            )
            slips = {
                "this is the rank's own vector": own,
                "this is the vector of the right neighbor": vector(right),
            }
            expect.equal(theirs, vector(left), f"{subject}: what came from the left", slips=slips)
            names = ", ".join(sorted(SMALL & set(log.calls)))
            expect(
                not names,
                f"{subject}: right, but by {names}. Calls in small letters serialize objects. Send"
                " arrays by the calls with a capital letter.",
            )
            sent = sum("send" in name.lower() for name in log.calls)
            names = ", ".join(sorted(set(log.calls)))
            expect(
                sent == 1 or comm.size == 1,
                f"{subject}: right, but by {names}. One Send or Sendrecv to the right is enough.",
            )

    per_rank = launch.run(on_every_size, expect_shift, ranks=launch.ranks_here(5), timeout=patience)
    expect.equal(list(per_rank[0]), sizes_of_groups(len(per_rank)), "Numbers of ranks tried")


@check.exercise("20.3")
def check_blur(blur, patience, photo):
    """The blur of the whole photo, also where half of the ranks are late; calls that do not block,
    each waited for; and all of the inside computed while all four are in transit.
    """

    def expect_blur(comm):
        around = np.pad(photo, ((1, 1), (0, 0)), mode="edge")
        blurred = (around[:-2] + photo + around[2:]) / 3
        strips = np.array_split(photo, comm.size)
        before = strips[comm.rank]
        want = np.array_split(blurred, comm.size)[comm.rank]
        subject = f"{counted(comm.size, 'rank')}, rank {comm.rank}"
        for late in (0, 1):
            if comm.rank % 2 == late:
                time.sleep(0.2)
            log = CallLog(comm)
            strip = log.watch(before.copy())  # an array that notes when it is computed with
            new = blur(log, strip)
            expect.unchanged(
                before, strip, f"{subject}: `strip`", because="While it is sent, write to `new`"
            )
            expect_rows(subject, strips, comm.rank, np.asarray(new), want)
            names = ", ".join(sorted(set(log.calls) - STARTING))
            expect(
                not names,
                f"{subject}: right, but by {names}. Isend and Irecv are enough: they serialize"
                " nothing and do not block.",
            )
            expect.equal(
                log.under_way(),
                0,
                f"{subject}: right, this time. Requests that were never waited for",
            )
            expect_inside_meanwhile(subject, log, want[1:-1].size)

        two = photo[: 2 * comm.size]
        around = np.pad(two, ((1, 1), (0, 0)), mode="edge")
        blurred = (around[:-2] + two + around[2:]) / 3
        strips = np.array_split(two, comm.size)
        want = np.array_split(blurred, comm.size)[comm.rank]
        with check.case(f"{subject}, strips of two rows"):
            new = np.asarray(blur(comm, strips[comm.rank].copy()))
            expect_rows(f"{subject}, strips of two rows", strips, comm.rank, new, want)

    per_rank = launch.run(on_every_size, expect_blur, ranks=launch.ranks_here(4), timeout=patience)
    expect.equal(list(per_rank[0]), sizes_of_groups(len(per_rank)), "Numbers of ranks tried")


# ---------------------------------------------------------------------------------- the measurement


def time_when_late(
    comm, blur: Callable, blur_late: Callable, photo: np.ndarray, runs: int
) -> dict[str, object]:
    """Seconds of this rank: `blur` without a neighbor, and `runs` of each with rank 1 late."""
    from mpi4py import MPI

    strip = np.tile(photo, (6, 1))
    alone = timing.measure(partial(blur, MPI.COMM_SELF, strip), seconds=0.5)
    late = comm.bcast(alone.median, root=0)
    seconds = {"no neighbor": alone}
    for name, way in (("late, blocking calls", blur_late), ("late, your blur", blur)):
        seconds[name] = []
        for _ in range(runs):
            comm.Barrier()  # both begin together
            if comm.rank == 1:
                time.sleep(late)
            start = time.perf_counter()
            way(comm, strip)
            seconds[name].append(time.perf_counter() - start)
    return seconds

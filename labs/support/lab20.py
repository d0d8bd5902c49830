"""The checks of lab 20."""

from __future__ import annotations

import time

import numpy as np
from labkit import check, expect, launch, predict
from labkit.counting import CallLog, on_every_size, sizes_of_groups

SMALL = {"send", "recv", "sendrecv", "isend", "irecv"}  # calls that pack objects


def vector_of(rank, length):
    """Another one for each rank: values that nobody guesses."""
    return np.random.default_rng(rank).integers(1_000_000, size=length)


class Raised(CallLog):
    """Whatever rank 0 sends through it arrives 1000 higher."""

    def __getattr__(self, name):
        call = super().__getattr__(name)
        if "send" not in name.lower():
            return call
        return lambda obj, *rest, **options: call(obj + 1000, *rest, **options)


def expect_rows(subject, strip, new, want):
    """Each part of the strip by itself: inside, first row, last row."""
    own_above = (2 * strip[0] + strip[1]) / 3
    own_below = (strip[-2] + 2 * strip[-1]) / 3
    unread = (
        "the halo still holds this strip's own row: it is used before its Wait, or nothing was"
        " received"
    )
    expect.close(new[1:-1], want[1:-1], f"{subject}: the inside rows, `new[1:-1]`")
    expect.close(
        new[0], want[0], f"{subject}: `new[0]`, which needs `above`", slips={unread: own_above}
    )
    expect.close(
        new[-1], want[-1], f"{subject}: `new[-1]`, which needs `below`", slips={unread: own_below}
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
        subject = f"With {comm.size} ranks, if 1000 leave rank 0: what arrived at rank {comm.rank}"
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
        for length in (few, many):
            own = vector_of(comm.rank, length)
            with check.case(f"{length} values"):
                log = CallLog(comm)
                theirs = shift_right(log, own)
            subject = f"{comm.size} ranks, {length} values, rank {comm.rank}"
            before = vector_of(comm.rank, length)
            expect.unchanged(before, own, f"{subject}: `own`", because="Receive into another array")
            left = vector_of((comm.rank - 1) % comm.size, length)
            expect.equal(theirs, left, f"{subject}: what came from the left")
            expect(
                getattr(theirs, "dtype", None) == own.dtype,
                f"{subject}: right values, but not in an array of `own`'s dtype, {own.dtype}.",
            )
            small = ", ".join(SMALL & set(log.calls))
            expect(
                not small,
                f"{subject}: right, but {small} serializes objects. Send arrays by the calls with a"
                " capital letter.",
            )
            sent = sum("send" in name.lower() for name in log.calls)
            one_each = sent == 1 or comm.size == 1
            names = ", ".join(sorted(set(log.calls)))
            expect(
                one_each,
                f"{subject}: right, but by {names}. One Send or Sendrecv to the right is enough.",
            )
            expect.equal(log.under_way(), 0, f"{subject}: requests that were never waited for")

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
        before = np.array_split(photo, comm.size)[comm.rank]
        want = np.array_split(blurred, comm.size)[comm.rank]
        subject = f"{comm.size} ranks, rank {comm.rank}"
        for late in (0, 1):
            if comm.rank % 2 == late:
                time.sleep(0.2)
            log = CallLog(comm)
            strip = log.watch(before.copy())  # an array that notes when it is computed with
            new = blur(log, strip)
            expect.unchanged(
                before, strip, f"{subject}: `strip`", because="While it is sent, write to `new`"
            )
            expect_rows(subject, before, np.asarray(new), want)
            blocking = {"Send", "Recv", "Sendrecv"} & set(log.calls) or SMALL & set(log.calls)
            names = ", ".join(sorted(blocking))
            expect(
                not blocking,
                f"{subject}: right, but by {names}. Start messages by Isend and Irecv.",
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
        before, want = (
            np.array_split(whole, comm.size)[comm.rank].copy() for whole in (two, blurred)
        )
        with check.case(f"{subject}, strips of two rows"):
            expect_rows(f"{subject}, strips of two rows", before, blur(comm, before.copy()), want)

    per_rank = launch.run(on_every_size, expect_blur, ranks=launch.ranks_here(4), timeout=patience)
    expect.equal(list(per_rank[0]), sizes_of_groups(len(per_rank)), "Numbers of ranks tried")

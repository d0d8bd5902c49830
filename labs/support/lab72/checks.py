"""The checks of lab 72."""

from __future__ import annotations

from labkit import check, expect

from support.lab72.diagnosis import expect_diagnosis, twice
from support.lab72.evidence import Frame, Rank, Record
from support.lab72.faults import Nearby, line_of, shuffled, written
from support.lab72.ranks import (
    WISHES,
    as_dealt,
    expect_agreed,
    expect_epoch,
    expect_in_step,
    expect_together,
    three,
    tries,
    try_on_ranks,
)
from support.lab72.ward import Job, play


@check.exercise("72.1")
def check_odd_one_out(odd_one_out, mend, epoch, faults, hangs):
    """Rank and line of the four runs; then `epoch` with what `mend` returns, on ranks with the same
    faults, to its end.
    """
    for lines, want in (((7, 7, 7, 5, 7), (3, 5)), ((9, 7, 7), (0, 9))):
        made_up = [[Frame("epoch", "cell", line)] for line in lines]
        expect.equal(odd_one_out(made_up), want, f"Ranks in lines {lines}: (rank, line)")
    for fault, ranks in zip(faults, hangs, strict=True):
        stacks = [rank.stack for rank in ranks]
        lines = [stack[0].line for stack in stacks]
        what = f"Ranks in lines {', '.join(map(str, lines))} of epoch"
        answer = odd_one_out(stacks)
        innermost = {"this is where it is inside of a library": (fault.rank, stacks[fault.rank][-1].line)}
        slips = innermost if len(stacks[fault.rank]) > 1 else {}
        want = (fault.rank, line_of(epoch, fault.text))
        expect.equal(answer, want, f"{what}: (rank, line)", slips=slips)
    for fault in faults:
        deal = Nearby(fault)
        job = Job(epoch, deal, prepare=mend, tell=written, from_outside=False)
        (ranks,) = play([job])
        expect_epoch(ranks, deal)


@check.exercise("72.2")
def check_first_difference(first_difference, agree, disorders, mixed_up, train):
    """Rank and line of the first call that does not fit, of made-up records and of the three runs;
    then trainings on ranks with the same faults, to their end.
    """
    usual = [Record("all_reduce", 6, 7), Record("reduce", 1, 14), Record("barrier", 0, 15)]
    longer = [usual[0], Record("reduce", 2, 14), usual[2], usual[0]]
    got = first_difference([usual, usual, longer, usual])
    expect.equal(got, (2, 14), "Rank 2 reduces 2 numbers, the others 1: (rank, line)")
    twice = [usual[0], Record("broadcast", 6, 9), usual[1], usual[2]]
    got = first_difference([usual, twice, usual])
    expect.equal(got, (1, 9), "Rank 1 has a broadcast too many: (rank, line)")
    moved = [Record("all_reduce", 6, 8), *usual[1:]]
    got = first_difference([longer, moved, usual])
    expect.equal(got, (0, 14), "Rank 1 has the same call in line 8, rank 0 reduces 2 numbers: (rank, line)")
    got = first_difference([[twice[1]], usual, usual])
    expect.equal(got, (0, 9), "Rank 0 has a broadcast of as many numbers: (rank, line)")
    for fault, ranks in zip(disorders, mixed_up, strict=True):
        want = (fault.rank, line_of(train, fault.text))
        lengths = [len(rank.records) for rank in ranks]
        what = f"Ranks that made {', '.join(map(str, lengths))} calls: (rank, line)"
        expect.equal(first_difference([rank.records for rank in ranks]), want, what)

    def by_agreement(batches):
        return ([agree(batch) for batch in batches],)

    how = {"prepare": by_agreement, "from_outside": False}
    (agreed,) = play([Job(as_dealt, WISHES, **how)])
    expect_agreed(agreed)
    jobs = [Job(train, fault, recorded=True, **how) for fault in disorders]
    for fault, ranks in zip(disorders, play(jobs), strict=True):
        expect_in_step(ranks, fault)


@check.exercise("72.3")
def check_averages(averages, patience):
    """The averages on three ranks with even and uneven shards, one of them empty."""
    cases = ([2, 2, 2], [3, 1, 2], [1, 0, 3])
    by_rank = try_on_ranks(averages, cases, patience)
    for number, counts in enumerate(cases):
        for rank, results in enumerate(by_rank):
            who = f"Ranks with {', '.join(map(str, counts))} gradients, rank {rank}"
            expect(results[number] is not None, f"{who}: `averages` returns nothing.")
            expect.equal(len(results[number]), counts[rank], f"{who}: averages")
            for step, got in enumerate(results[number]):
                there = [other + 1 + 10 * step for other in range(3) if counts[other] > step]
                want = sum(there) / len(there)
                slips = {
                    "zeros of ranks that have joined were counted": sum(there) / 3,
                    "this is the sum": sum(there),
                    "this is its own gradient": rank + 1 + 10 * step,
                }
                slips = {words: three(value) for words, value in slips.items() if value != want}
                expect.close(got, three(want), f"{who}: the average of step {step}", slips=slips)


@check.exercise("72.4")
def check_first_bad(first_bad, average, learn, poisoned, poisons):
    """The first of made-up notes and of three runs; and one decision on all ranks, in each step."""
    for notes, want in (([(2, 5), (1, 12), (1, 9)], (2, 9)), ([None, (0, 7), (1, 5)], (1, 7))):
        expect.equal(first_bad(notes), want, f"Notes {notes}: (rank, line)")
    for fault, ranks in zip(poisons, poisoned, strict=True):
        notes = [rank.note for rank in ranks]
        want = (fault.rank, line_of(learn, fault.text))
        expect.equal(first_bad(notes), want, f"Notes {notes}: (rank, line)")
    nan = float("nan")
    inf = float("inf")
    steps = {  # by name: the gradients of ranks 0, 1, 2
        "all finite": ([1.0, 2.0], [3.0, 4.0], [8.0, 6.0]),
        "a nan on rank 1": ([1.0, 2.0], [3.0, nan], [8.0, 6.0]),
        "inf on rank 0, -inf on rank 2": ([inf, 2.0], [3.0, 4.0], [-inf, 6.0]),
        "inf on rank 2": ([1.0, 2.0], [3.0, 4.0], [inf, 6.0]),
        "-inf on rank 1": ([1.0, 2.0], [3.0, -inf], [8.0, 6.0]),
        "all finite again": ([1.0, 1.0], [1.0, 1.0], [4.0, 7.0]),
    }
    pairs = {f"{name}, of two ranks": gradients[:2] for name, gradients in steps.items()}
    for some in (steps, pairs):
        (tried,) = play([tries(average, list(some.values()))])
        expect_together(tried, some)


@check.exercise("72.5")
def check_first_cause(first_cause, culprits, failures):
    """The rank that fails by itself, of made-up endings and of three of the gallery."""
    lost = "RuntimeError: Connection closed by peer [127.0.0.1]:4501."
    cut = "RuntimeError: Read error [127.0.0.1]:4501: Connection reset by peer."
    through = Rank(0, "finished")
    complains = Rank(1, "raised", lost, 14)
    killed = Rank(2, "SIGKILL")
    left = Rank(2, "ended with status 70")
    breaks = Rank(2, "raised", "OSError: No space left on device", 9)
    expect.equal(first_cause([through, complains, breaks]), (2, 9), "Rank 2's disk is full: (rank, line)")
    expect.equal(first_cause([through, complains, killed]), (2, 0), "SIGKILL ends rank 2: (rank, line)")
    expect.equal(first_cause([through, complains, left]), (2, 0), "Rank 2 ends with status 70: (rank, line)")
    other = [complains._replace(rank=0, error=cut), complains, breaks]
    expect.equal(first_cause(other), (2, 9), "The connection of rank 0 is reset, rank 2's disk is full")
    in_turn = [breaks._replace(rank=0), complains, through._replace(rank=2)]
    expect.equal(first_cause(in_turn), (0, 9), "Rank 0's disk is full, rank 2 finished: (rank, line)")
    expect.equal(first_cause([through] * 3), None, "All finished")
    for name in ("memory", "worker", "disk"):
        number = culprits[name]
        ranks = failures[name]
        endings = ", ".join(f"rank {rank.rank} {rank.state}" for rank in ranks)
        expect.equal(first_cause(ranks), (number, ranks[number].line), f"{endings}: (rank, line)")


@check.exercise("72.6")
def check_diagnose(diagnose, culprits, failures, night):
    """Where to look in each of the six jobs, and what to do first; then as if they had failed on other
    ranks, cores and ports.
    """
    for name in shuffled("desk", night, list(failures)):
        for ranks, hit in twice(failures[name], culprits.get(name)):
            expect_diagnosis(diagnose(ranks), name, ranks, hit)

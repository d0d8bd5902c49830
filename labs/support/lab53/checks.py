"""The checks of lab 53."""

from __future__ import annotations

import numpy as np
from labkit import check, expect

from support.lab53.hunt import cases


@check.exercise("53.1")
def check_expected_slowest(expected_slowest):
    """The expected slowest of p, from the times of one rank, by the chances above."""
    random = np.random.default_rng(1)
    for samples in ([10, 20], [3, 1, 2], [6, 5, 4, 3, 2, 1], random.exponential(size=500)):
        samples = np.array(samples, float)
        for size in (1, 2, 5, 64):
            before = samples.copy()
            got = expected_slowest(samples, size)
            expect.unchanged(before, samples, "The array of samples")
            # The longest, less every gap below it where all ranks fall short of it.
            ordered = np.sort(samples)
            short = (np.arange(1, len(ordered)) / len(ordered)) ** size
            want = ordered[-1] - np.sum(short * np.diff(ordered))
            slips = {"this is one rank's mean": ordered.mean(), "this is the longest of all": ordered[-1]}
            slips = slips if size > 1 else {"this is the longest of all": ordered[-1]}
            what = f"Slowest of {size}, {len(samples)} samples from {ordered[0]:.3g} to {ordered[-1]:.3g}"
            expect.close(got, want, what, rtol=1e-6, slips=slips)


@check.exercise("53.2")
def check_parts(parts):
    """The seconds of each part, by rank, of a step made up and of some that were played."""
    made_up = [
        *[(1, "send", 5, 6), (0, "input", 0, 1), (0, "compute", 1, 3), (0, "exchange", 3, 8)],
        *[(1, "input", 0, 2), (0, "send", 3, 4), (1, "compute", 2, 5), (1, "exchange", 5, 8)],
        *[(0, "send", 6, 7), (1, "send", 6, 8), (2, "compute", 0, 4), (2, "exchange", 4, 4.5)],
    ]
    got = parts(made_up, 3)
    want = {"input": [1, 2, 0], "compute": [2, 3, 4], "send": [2, 3, 0], "wait": [3, 0, 0.5]}
    whole = {"wait": {"this is the whole exchange: its sends are no waiting": [5, 3, 0.5]}}
    for part, seconds in want.items():
        expect(part in got, f"The dict has no {part!r}.")
        expect.close(got[part], seconds, f"Step made up: seconds of {part}", slips=whole.get(part))
    for played in cases([3]):
        got = parts(played.steps[2], played.ranks)
        for part in ("input", "compute", "send"):
            of_part = [span for span in played.steps[2] if span.kind == part]
            seconds = [
                sum(span.end - span.begin for span in of_part if span.rank == rank)
                for rank in range(played.ranks)
            ]
            expect.close(got[part], seconds, f"{played.name}: seconds of {part}", rtol=1e-6)


@check.exercise("53.3")
def check_find(find, hunt):
    """Rank and cause in 40 cases; each has one very bad step, and one rank that reads for long."""
    for each in cases(range(8)):
        answer = hunt(each.steps, each.images)
        expect.equal(answer, (each.rank, each.cause), f"{each.name}: rank and cause", because=each.why)
    tied = []
    for number in range(8):
        wait = np.roll([0.0, 1.0, 1.0, 1.0], number % 2)
        tied.append({"input": np.ones(4), "compute": np.ones(4), "send": np.ones(4), "wait": wait})
    answer = find(tied, np.full(4, 24))
    expect.equal(answer, (None, "jitter"), "Ranks 0 and 1 in turns", because="half of the steps are not most")


@check.exercise("53.4")
def check_with_backups(with_backups, local_rounds):
    """Seconds of steps and of rounds, and whose gradients count; of a table, and of random times."""
    small = np.array([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0], [6.0, 2.0, 1.0], [1.0, 2.0, 9.0]])
    for times in (small, np.random.default_rng(4).exponential(size=(12, 7))):
        before = times.copy()
        for backups in (0, 1, 2):
            what = f"{times.shape[0]} steps of {times.shape[1]} ranks, {backups} backups"
            answer = with_backups(times, backups)
            expect.equal(len(answer), 2, f"{what}: values that are returned (seconds, used)")
            seconds, used = answer
            expect(np.asarray(used).dtype == bool, f"{what}: `used` is to be an array of True and False.")
            ranked = times.argsort(axis=1).argsort(axis=1)  # 0 is a step's first rank
            want = ranked < times.shape[1] - backups
            slowest = np.where(want, times, 0).max(axis=1)
            late = {"this waits for all": times.max(axis=1)} if backups else {}
            expect.close(seconds, slowest, f"{what}: seconds", slips=late)
            expect.equal(np.asarray(used).tolist(), want.tolist(), f"{what}: whose gradients are used")
        for every in (1, 2, 4):
            rounds = [times[begin : begin + every] for begin in range(0, len(times), every)]
            want = [max(sum(own) for own in of_round.T) for of_round in rounds]
            waits = [sum(max(step) for step in of_round) for of_round in rounds]
            slips = {"here all wait after every step": waits} if every > 1 else {}
            what = f"{times.shape[1]} ranks: seconds of rounds of {every}"
            expect.close(local_rounds(times, every), want, what, slips=slips)
        expect.unchanged(before, times, "The array of times")

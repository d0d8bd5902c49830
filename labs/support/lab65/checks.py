"""The checks of lab 65."""

from __future__ import annotations

import numpy as np
from labkit import check, expect

from support.lab65.cases import made_up
from support.lab65.evidence import COLUMNS, not_ruled_out
from support.lab65.ways import WAYS, groups, scripts


@check.exercise("65.1")
def check_changes(changes):
    """The counts of small texts, and of each way's scripts. What was put in, less what was taken out,
    is how much longer a script became.
    """
    cases = {
        "a line put in": ("a\nb\n", "a\nnew\nb\n", (0, 1)),
        "a line altered": ("a\nb\nc\n", "a\nother\nc\n", (1, 1)),
        "a number altered": ("a\nrate = 0.1\n", "a\nrate = 0.2\n", (1, 1)),
        "a line moved to the right": ("a\nb\n", "a\n    b\n", (1, 1)),
        "the same line put in again": ("a\nb\n", "a\nb\na\n", (0, 1)),
        "only a comment and an empty line": ("a\nb\n", "# why\na\n\n    # how\nb\n", (0, 0)),
        "a comment behind a line": ("a\n", "a  # one\n", (1, 1)),
        "a line taken out": ("a\nb\nb\n", "a\nb\n", (1, 0)),
        "a line that went to another place": ("a\nb\nc\nd\n", "b\nc\nd\na\n", (1, 1)),
        "a line that went behind comments": ("a\n# x\n# y\nb\n", "b\n# x\n# y\na\n", (1, 1)),
    }
    for what, (before, after, want) in cases.items():
        got = changes(before, after)
        expect(isinstance(got, tuple), f"{what}: return two numbers, `out, put`; this is {got!r}.")
        expect.equal(got, want, f"{what}: (taken out, put in)", slips={"These are swapped": want[::-1]})
    for way in WAYS:
        sizes = []
        for text in scripts(way):
            sizes.append(sum(bool(line.strip()) and line.strip()[0] != "#" for line in text.splitlines()))
        out, put = changes(*scripts(way))
        expect.equal(put - out, sizes[1] - sizes[0], f"{way}: lines put in, less those taken out")


@check.exercise("65.2")
def check_read_run(read_run):
    """Both of runs that are known, with one, two and three ranks, slow first steps, late ranks."""
    for run in made_up():
        why = "`first` says which step is the first whose speed counts"
        later = read_run(run.started, run.moments, run.batch, first=7)[1]
        expect.equal(len(later), len(run.speeds) - 2, f"{run.what}, first=7: how many speeds", because=why)
        got = read_run(run.started, run.moments, run.batch)
        expect(isinstance(got, tuple) and len(got) == 2, f"{run.what}: return two: start-up, speeds.")
        slips = {why: value for why, value in run.start_slips.items() if value != run.start_up}
        expect.close(got[0], run.start_up, f"{run.what}: start-up", rtol=0, atol=1e-4, slips=slips)
        why = "steps 5, 6, … up to the last that all ranks have ended"
        expect.equal(len(got[1]), len(run.speeds), f"{run.what}: how many speeds", because=why)
        slips = {why: value for why, value in run.speed_slips.items() if not np.allclose(value, run.speeds)}
        expect.close(np.array(got[1]), run.speeds, f"{run.what}: speeds", rtol=1e-3, slips=slips)


@check.exercise("65.3")
def check_still_in(still_in, my_decisions, spans, ways):
    """The rule, on spans that are known; then each of your decisions, against what was measured."""
    known = {"a": (1, 2), "b": (1.5, 4), "c": (3, 5), "d": (2, 2), "e": (9, np.inf)}
    why = "a span that only touches or overlaps rules nobody out"
    for name, more_is_better, want in (("less", False, ["a", "b", "d"]), ("more", True, ["e"])):
        got = still_in(dict(known), more_is_better)
        expect.equal(sorted(got), want, f"{known}, where {name} is better: still in", because=why)
    pair = {"a": (1, 3), "b": (2, 4)}
    for more_is_better in (False, True):
        expect.equal(sorted(still_in(pair, more_is_better)), ["a", "b"], f"{pair}: still in", because=why)
    long = {"a": (1, 10), "b": (2, 3), "c": (5, 6)}
    why = "any other way may rule one out, not only the best at one end"
    for more_is_better, want in ((False, ["a", "b"]), (True, ["a", "c"])):
        got = still_in(dict(long), more_is_better)
        expect.equal(sorted(got), want, f"{long}, more is better: {more_is_better}: still in", because=why)
    table = my_decisions()
    expect(isinstance(table, list), f"`my_decisions` returns a list of Decision(…), not {table!r}.")
    members = groups(ways)
    for need, among, take, column in table:
        expect(column in COLUMNS, f"{need}: {column!r} is no column; they are {list(COLUMNS)}.")
        expect(among in members, f"{need}: {among!r} is no group; they are {list(members)}.")
        measured = {way: spans[column][way] for way in members[among]}
        left = not_ruled_out(measured, COLUMNS[column])
        nothing = len(left) == len(measured)
        text = f"{need}: {column} of {measured}"
        expect(take is not None or nothing, f"{text}. This decides: still in are {left}. Do not say None.")
        expect(take is None or not nothing, f"{text}. All are still in, so this decides nothing: say None.")
        expect(take is None or take in left, f"{text}. {take} is ruled out; still in: {left}.")
    distinct = len({line.column for line in table})
    expect(distinct >= 3, f"Your table has {distinct} column(s). Decide by at least three different ones.")
    needs = {line.need.strip() for line in table} - {""}
    expect(len(needs) == len(table), "Two decisions have the same need, or one has none. Say what you need.")


@check.exercise("65.4")
def check_score(score):
    """The rule, for three to ten runs, in any order, with none, one and two that missed the target."""
    for seconds, want in (
        ([4.0, 9.0, 2.0, 3.0, 4.0], 11 / 3),
        ([5.0, 1.0, 3.0], 3.0),
        ([4.0, None, 2.0, 3.0, 4.0], 11 / 3),
        ([None, 7.0, 5.0], 7.0),
        ([2.0, 2.0, 8.0, 2.0], 2.0),
        ([4.0, None, 2.0, None, 4.0], None),
        ([None, None, None], None),
        ([10.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0], 45 / 8),
    ):
        given = list(seconds)
        got = score(given)
        expect.unchanged(seconds, given, "The list of seconds")
        if want is None:
            text = f"The score of {seconds}: expected None, got {got!r}. More than one run missed the target."
            expect(got is None, text)
            continue
        there = [value for value in seconds if value is not None]
        inside = [value for value in seconds[1:-1] if value is not None]
        forgotten = sorted(there)[1:-1] or there
        slips = {
            "a run that missed the target is the slowest, and the one to drop": np.mean(forgotten),
            "this is the mean of all; drop the fastest and the slowest": np.mean(there),
            "this drops by place in the list; sort first": np.mean(inside),
            "this is the median": np.median(there),
            "this is the fastest run": min(there),
        }
        slips = {why: value for why, value in slips.items() if not np.isclose(value, want)}
        what = f"The score of {seconds}"
        expect(got is not None, f"{what}: got None. One run may miss the target: it counts as the slowest.")
        expect.close(got, want, what, slips=slips)

"""The checks of lab 80."""

from __future__ import annotations

import itertools

from labkit import check, expect, scaling

from support.lab80 import page, report


@check.exercise("80.1")
def step_by_the_model(predict_step):
    """Both kinds, one rank and many, even shares and others."""
    fast, slow = (2e-3, 1e8, 5e-6, 0.4e-9), (0.1, 2e7, 2e-4, 8e-9)
    for ranks, images, machine in (
        (1, 32, fast),
        (4, 10, fast),
        (128, 257, fast),
        (8, 64, fast),
        (8, 64, slow),
    ):
        per_image, nbytes, latency, beta = machine
        ring = scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)
        shared = -(-images // ranks)
        shares = {
            "in strong scaling the ranks share `images`": images,
            "rounded down, an image is missing": images // ranks,
            "all wait for the rank with the most images: a share is rounded up": images / ranks,
            "an even share has no image more": images // ranks + 1,
        }
        each = {"in weak scaling each rank has all of `images`": shared}
        for kind, own, slips in (("strong", shared, shares), ("weak", images, each)):
            slips = {why: share * per_image + ring for why, share in slips.items()}
            slips["the ring is missing"] = own * per_image
            slips["they do not overlap, so their seconds are added"] = max(own * per_image, ring)
            got = predict_step(kind, ranks, images, per_image, nbytes, latency, beta)
            what = f"{kind}, ranks: {ranks}, {images} images: seconds of a step"
            expect.close(got, own * per_image + ring, what, rtol=1e-6, slips=slips)


@check.exercise("80.2")
def runs_in_turns(plan, notes):
    """Each configuration once a round, in each place once in a rotation, the given list
    untouched."""
    runs_are_planned(plan, [("weak", 4), ("strong", 1), ("strong", 2)], 3)
    runs_are_planned(plan, [("strong", 1), ("weak", 1)], 5)
    runs_are_planned(plan, notes.configurations(), 1)


def runs_are_planned(plan, configurations, rounds):
    """Round by round, each configuration once a round, and in each place as often as any other."""
    given = list(configurations)
    got = plan(given, rounds)
    count = len(configurations)
    what = f"{count} configurations, rounds: {rounds}"
    expect(got is not None, f"{what}: plan returns None. Does it return its list?")
    expect(
        given == configurations,
        f"{what}: the list of configurations was changed; it is the caller's.",
    )
    got = [tuple(item) for item in got]
    expect.equal(len(got), count * rounds, f"{what}: runs in the plan")
    for number in range(rounds):
        part = got[number * count : (number + 1) * count]
        expect(
            sorted(part) == sorted(configurations),
            f"{what}: round {number} does not hold each configuration once. If all runs of one"
            " configuration come together, a busy minute hits it alone.",
        )
    expect(
        got[:count] == configurations,
        f"{what}: round 0 is {got[:count]}. It has the order of the given list, {configurations}.",
    )
    for place in range(count):
        there = got[place::count]
        expect(
            len(set(there)) == min(rounds, count),
            f"{what}: place {place} of the rounds holds {there}. Not all configurations take it in"
            " turn, so what only that place meets (first of all, cold caches) looks like a"
            " property of those that do.",
        )
        again = [run for run, then in itertools.pairwise(there) if run == then and count > 1]
        expect(not again, f"{what}: two rounds, one after the other, begin with the same, {again}.")


@check.exercise("80.3")
def losses_and_node_hours(losses, node_hours):
    """The example; weak scaling; computing that got faster; nodes that are full, or not quite."""
    example = {"compute": 11.0, "wait": 2.0, "communicate": 3.0}
    for kind, ranks, alone in (("strong", 4, 40.0), ("strong", 2, 30.0), ("weak", 4, 10.0)):
        shares_are_lost(losses, kind, ranks, alone, example)
    shares_are_lost(losses, "strong", 8, 0.8, {"compute": 0.1, "wait": 0.0, "communicate": 0.3})
    for ranks, per_node, seconds in ((32, 8, 1.8), (6, 4, 0.3), (5, 4, 2.0), (3, 1, 0.9)):
        steps = 500 * seconds + 0.25  # an epoch is seldom a whole number of steps
        hours = seconds * steps / 3600
        want = -(-ranks // per_node) * hours
        slips = {
            "these are rank-hours: whole nodes are paid for": ranks * hours,
            "a node of which a part is used is paid for as a whole": ranks / per_node * hours,
            "rounded down, a node is missing": ranks // per_node * hours,
            "an hour has 3600 seconds": 3600 * want,
            "the last step may be a part of one: do not round `steps`": want * int(steps) / steps,
        }
        got = node_hours(seconds, ranks, per_node, steps)
        what = f"{steps} steps of {seconds} s, ranks: {ranks}, {per_node} to a node: node-hours"
        expect.close(got, want, what, rtol=1e-6, slips=slips)


def shares_are_lost(losses, kind, ranks, alone, parts):
    """Shares of a step that are lost; together they are 1 - efficiency."""
    step = sum(parts.values())
    ideal, other = (alone / ranks, alone) if kind == "strong" else (alone, alone / ranks)
    lost = {name: parts[name] for name in ("communicate", "wait")}
    lost["slower"] = parts["compute"] - ideal
    want = {name: seconds / step for name, seconds in lost.items()}
    given = dict(parts)
    got = losses(kind, ranks, alone, given)
    what = f"{kind}, ranks: {ranks}, alone {alone} s, parts {parts}"
    expect(isinstance(got, dict), f"{what}: losses returns a dict; it returned {got!r}.")
    expect.equal(sorted(got), sorted(want), f"{what}: names of the losses")
    expect.equal(given, parts, f"{what}: `parts`, which is the caller's, afterwards")
    slowers = {
        "this is the share of computing, not of its loss": parts["compute"] / step,
        f"in {kind} scaling another time is ideal": (parts["compute"] - other) / step,
        "a loss below zero is a gain: leave it": max(0.0, want["slower"]),
    }
    slips = {why: want | {"slower": slower} for why, slower in slowers.items()}
    for why, by in (("these are seconds", 1), ("this is divided by the ideal time", ideal)):
        slips[f"{why}: divide by the whole step"] = {name: lost[name] / by for name in lost}
    expect.close(got, want, what, rtol=1e-6, slips=slips)


@check.exercise("80.4")
def words_with_records(own_words, given, study):
    """All ten sections, every number by its name, nothing that no record supports."""
    try:
        words = own_words()
    except NameError as error:
        why = "write the string without an f, because the checker fills in the curly brackets"
        expect(False, f"{error}. If this name is in a text, {why}.")
    expect(isinstance(words, dict), f"own_words returns a dict of texts; it returned {words!r}.")
    for heading, said in words.items():
        expect(isinstance(said, str), f"The text of {heading!r} is a string; here it is {said!r}.")
    text = page.assemble("A scaling study", given | words, study)
    found = report.read(text, study).problems
    lines = "".join(f"\n        - {sentence}" for sentence in found[:8])
    more = f"\n        … and {len(found) - 8} more." if len(found) > 8 else ""
    expect(not found, f"The report is refused:{lines}{more}")

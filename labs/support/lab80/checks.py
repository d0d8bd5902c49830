"""What lab 80's checks expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labkit import check, expect, reporting, scaling

from support.lab80.text import assemble


def expect_foretell(
    foretell: Callable, kind: str, ranks: int, images: int, per_image: float, nbytes: float
) -> None:
    """A step's seconds by the model: the largest share of the images, then a ring."""
    latency = 5e-6
    beta = 0.4e-9
    own = -(-images // ranks) if kind == "strong" else images
    ring = scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)
    want = own * per_image + ring
    slips = {
        "the ring is missing": own * per_image,
        **_shares(kind, images, ranks, per_image, ring),
        "all bytes in each round: a ring sends n/p": own * per_image
        + 2 * (ranks - 1) * (latency + nbytes * beta),
        "a ring goes round twice": own * per_image + ring / 2,
    }
    slips = {sentence: value for sentence, value in slips.items() if abs(value / want - 1) > 1e-6}
    got = foretell(kind, ranks, images, per_image, nbytes, latency, beta)
    what = f"{kind}, {ranks} ranks, {images} images: seconds of a step"
    expect.close(got, want, what, rtol=1e-6, slips=slips)


def _shares(kind: str, images: int, ranks: int, per_image: float, ring: float) -> dict[str, float]:
    """Mistake -> what it gives, of those about a rank's share."""
    if kind == "weak":
        return {"in weak scaling each rank has all of `images`": -(-images // ranks) * per_image + ring}
    return {
        "in strong scaling the ranks share `images`": images * per_image + ring,
        "a share that is rounded down loses images": images // ranks * per_image + ring,
        "all wait for the rank with the most images: a share is rounded up": images / ranks * per_image
        + ring,
    }


def expect_plan(plan: Callable, configurations: list[tuple[str, int]], rounds: int) -> None:
    """Round by round, each configuration once a round, and each round begins with another."""
    given = list(configurations)
    got = plan(given, rounds)
    what = f"{len(configurations)} configurations in {rounds} rounds"
    expect(got is not None, f"{what}: plan returns None. Does it return its list?")
    expect(given == configurations, f"{what}: the list of configurations was changed; it is the caller's.")
    got = [tuple(item) for item in got]
    count = len(configurations)
    expect.equal(len(got), count * rounds, f"{what}: runs in the plan")
    unknown = [item for item in got if item not in configurations]
    expect(not unknown, f"{what}: the plan holds {unknown[:1]}, which is none of the configurations.")
    for configuration in configurations:
        expect.equal(got.count(configuration), rounds, f"{what}: runs of {configuration}")
    for number in range(rounds):
        part = got[number * count : (number + 1) * count]
        expect(
            len(set(part)) == count,
            f"{what}: round {number} does not hold each configuration once. If all runs of one configuration "
            "come together, a busy minute hits it alone.",
        )
    firsts = [got[number * count] for number in range(rounds)]
    expect(
        len(set(firsts)) == min(rounds, count),
        f"{what}: the rounds begin with {firsts}. What comes first is always the same: "
        "what only the first run meets (cold caches, clocks that rise) then looks like a property of it.",
    )


def expect_losses(losses: Callable, kind: str, ranks: int, alone: float, parts: Mapping[str, float]) -> None:
    """Shares of a step that are lost; together they are 1 - efficiency."""
    step = sum(parts.values())
    ideal = alone / ranks if kind == "strong" else alone
    want = {
        "communicate": parts["communicate"] / step,
        "wait": parts["wait"] / step,
        "slower": (parts["compute"] - ideal) / step,
    }
    given = dict(parts)
    got = losses(kind, ranks, alone, given)
    what = f"{kind}, {ranks} ranks, alone {alone} s, parts {dict(parts)}"
    expect(isinstance(got, dict), f"{what}: losses returns a dict; it returned {got!r}.")
    expect.equal(sorted(got), sorted(want), f"{what}: names of the losses")
    expect.equal(given, dict(parts), f"{what}: `parts`, which is the caller's, afterwards")
    other = alone if kind == "strong" else alone / ranks
    slips = {
        "these are seconds; divide by the step": {
            "communicate": parts["communicate"],
            "wait": parts["wait"],
            "slower": parts["compute"] - ideal,
        },
        "this is the share of computing, not of its loss": {**want, "slower": parts["compute"] / step},
        f"in {kind} scaling another time is ideal": {**want, "slower": (parts["compute"] - other) / step},
        "these are shares of the ideal time; what is paid for is the step": {
            name: value * step / ideal for name, value in want.items()
        },
        "a rank that computes faster than ideal loses less than nothing: leave the sign": {
            **want,
            "slower": abs(want["slower"]),
        },
        "a loss below zero is a gain: leave it": {**want, "slower": max(0.0, want["slower"])},
    }
    slips = {sentence: slip for sentence, slip in slips.items() if slip != want}
    expect.close(got, want, what, rtol=1e-6, slips=slips)
    efficiency = ideal / step
    expect.close(sum(got.values()), 1 - efficiency, f"{what}: losses together, 1 - efficiency", rtol=1e-6)


def expect_node_hours(node_hours: Callable, seconds: float, ranks: int, per_node: int, steps: int) -> None:
    """Whole nodes are billed."""
    nodes = -(-ranks // per_node)
    want = nodes * seconds * steps / 3600
    slips = {
        "these are rank-hours: whole nodes are paid for": ranks * seconds * steps / 3600,
        "a node of which a part is used is paid for as a whole": ranks / per_node * seconds * steps / 3600,
        "rounded down, a node is missing": ranks // per_node * seconds * steps / 3600,
        "these are node-seconds": nodes * seconds * steps,
        "this is one step": nodes * seconds / 3600,
        "these are hours; every node counts": seconds * steps / 3600,
    }
    slips = {sentence: value for sentence, value in slips.items() if abs(value - want) > 1e-9 * want}
    got = node_hours(seconds, ranks, per_node, steps)
    what = f"{steps} steps of {seconds} s on {ranks} ranks, {per_node} a node: node-hours"
    expect.close(got, want, what, rtol=1e-6, slips=slips)


def expect_report(text: str, study: reporting.Study) -> None:
    """Nothing in it without a record, nothing missing."""
    found = reporting.problems(text, study)
    expect(not found, _told(found))


def _told(found: list[str]) -> str:
    lines = "\n".join(f"        - {sentence}" for sentence in found[:8])
    more = f"\n        … and {len(found) - 8} more." if len(found) > 8 else ""
    return f"The report is refused:\n{lines}{more}" if found else ""


@check.exercise("80.1")
def check_foretell(foretell):
    """Both kinds, one rank and many, even shares and others."""
    for ranks, batch in ((1, 32), (4, 32), (4, 10), (32, 100), (7, 256), (128, 257)):
        for kind in ("strong", "weak"):
            expect_foretell(foretell, kind, ranks, batch, per_image=2e-3, nbytes=1e8)


@check.exercise("80.2")
def check_plan(plan, notes):
    """Each configuration once a round, each round with another one first, the given list untouched."""
    expect_plan(plan, [("strong", 1), ("strong", 2), ("weak", 1)], rounds=3)
    expect_plan(plan, [("strong", 1), ("strong", 2), ("strong", 4), ("weak", 1)], rounds=2)
    expect_plan(plan, [("strong", 1), ("weak", 1)], rounds=5)
    expect_plan(plan, notes.configurations(), rounds=1)


@check.exercise("80.3")
def check_losses(losses, node_hours):
    """The example; weak scaling; computing that got faster; nodes that are full, or not quite."""
    for kind, ranks, alone in (
        ("strong", 4, 40.0),
        ("weak", 4, 10.0),
        ("strong", 2, 30.0),
        ("weak", 1, 11.0),
    ):
        parts = {"compute": 11.0, "wait": 2.0, "communicate": 3.0}
        expect_losses(losses, kind, ranks, alone, parts)
    expect_losses(losses, "strong", 8, 0.8, {"compute": 0.1, "wait": 0.0, "communicate": 0.3})
    for ranks, per_node, seconds in (
        (32, 8, 1.8),
        (6, 4, 0.3),
        (5, 4, 2.0),
        (4, 4, 1.0),
        (1, 4, 4.0),
        (3, 1, 0.9),
        (129, 128, 1.0),
    ):
        expect_node_hours(node_hours, seconds, ranks, per_node, steps=int(500 * seconds))


@check.exercise("80.4")
def check_own_words(own_words, given, study):
    """All ten sections, every number by its name, nothing that no record supports."""
    words = own_words()
    expect(isinstance(words, dict), f"own_words returns a dict of texts; it returned {words!r}.")
    sections = given | words
    expect_report(assemble("A scaling study", sections, study), study)

"""Lab 24's tuned allreduce on real ranks: never slower than its worst way, mostly as fast as its best."""

from __future__ import annotations

import ast
import sys
from statistics import median

import cloudpickle
import pytest
from authoring import generate
from labkit import launch, timing, world

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(600)]

STEM = "24_trees_and_halving"
WAYS = ("tree", "doubling", "Rabenseifner", "ring")
CHOICE = "your choice"
ATTEMPTS = 4  # a machine that is busy with other things is given another chance
SLACK = 1.25  # what noise may add to a median on a shared machine with two cores; the aim is 1.10


def definitions() -> tuple[str, dict]:
    """The solved lab without what it runs: its imports and functions, and its parameters."""
    lab = generate.load(STEM)
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    body = [node for node in ast.parse(lab.text).body if isinstance(node, kept)]
    return ast.unparse(ast.Module(body, [])), lab.parameters


def race(comm, source: str, parameters: dict, times: dict | None = None) -> dict:
    """The lab's own race on these ranks, with its reference answers. way -> bytes -> Measurement."""
    space = dict(parameters)
    exec(compile(source, "lab", "exec"), space)
    seated = {"doubling": space["doubling"], "Rabenseifner": space["halving"]}
    ways = {"tree": space["tree_allreduce"], "ring": space["ring_allreduce"]}
    ways |= {name: space["partial"](space["for_any"], among=among) for name, among in seated.items()}
    space["WAYS"] = {name: ways[name] for name in WAYS}
    return space["race"](comm, times)


def by_ranks(ranks: int, raced: dict) -> dict:
    """What the lab's `choose` goes by: {ranks: {bytes: {way: seconds}}}."""
    sizes = next(iter(raced.values()))
    return {ranks: {n: {way: raced[way][n].median for way in WAYS} for n in sizes}}


def over(a: timing.Measurement, b: timing.Measurement) -> float:
    """How many times as long a takes: the median over the turns, each against its neighbour."""
    return timing.Ratio(a, b).median


def table(ranks: int, raced: dict) -> tuple[list[str], dict[int, tuple[float, float]]]:
    """Lines to read, and bytes -> (choice over worst, choice over best)."""
    lines = [f"{ranks} ranks: bytes, best way, worst way, choice / best, choice / worst, choice / MPI's own"]
    found = {}
    for n, choice in raced[CHOICE].items():
        order = sorted(WAYS, key=lambda way: raced[way][n].median)
        best, worst = (over(choice, raced[order[place]][n]) for place in (0, -1))
        mpi = over(choice, raced["MPI's own"][n])
        lines.append(f"{n:>10}  {order[0]:>12}  {order[-1]:>12}  {best:6.2f}  {worst:6.2f}  {mpi:6.2f}")
        found[n] = worst, best
    return lines, found


# More ranks than cores wait for each other's turn on a core: what is measured then is the scheduler.
@pytest.mark.parametrize("ranks", [p for p in (2, 4) if p <= max(2, world.cores())])
def test_the_choice_is_never_the_worst_and_mostly_near_the_best(ranks, capsys):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    lab = definitions()
    worst: dict[int, float] = {}
    best: dict[int, float] = {}
    for _ in range(ATTEMPTS):
        times = by_ranks(ranks, launch.run(race, *lab, ranks=ranks, timeout=240)[0])
        lines, found = table(ranks, launch.run(race, *lab, times, ranks=ranks, timeout=240)[0])
        with capsys.disabled():
            print("", *lines, sep="\n")
        for n, (to_worst, to_best) in found.items():
            # A choice that is wrong at a size is slow there in every attempt; noise is not.
            worst[n] = min(to_worst, worst.get(n, to_worst))
            best[n] = min(to_best, best.get(n, to_best))
        if max(worst.values()) <= SLACK and median(best.values()) <= SLACK:
            break
    near = sum(value <= 1.10 for value in best.values())
    with capsys.disabled():
        print(f"within 10 % of the best at {near} of {len(best)} sizes; median {median(best.values()):.2f}")
    assert max(worst.values()) <= SLACK, worst
    assert median(best.values()) <= SLACK, best

"""plots.crossover: a map of message sizes and ranks, with the best algorithm everywhere."""

from __future__ import annotations

import pytest
from labkit import plots
from labkit.errors import LabError

from tests.labkit.plots.texts import faults

PLACES = [(2**k, p) for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)]
LINKS = {"doubling": (1e-6, 1e-9), "Rabenseifner": (3e-6, 5e-10), "ring": (9e-6, 2e-10)}
TIMES = {
    name: {(n, p): alpha * p + beta * n for n, p in PLACES} for name, (alpha, beta) in LINKS.items()
}
LETTERS = {"doubling": "D", "Rabenseifner": "Ra", "ring": "Ri"}


def letters_in(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_map_shows_the_fastest_everywhere():
    figure = plots.crossover(TIMES, title="Who leads")
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    best = [min(TIMES, key=lambda name: TIMES[name][place]) for place in PLACES]
    assert letters_in(figure) == [LETTERS[name] for name in best]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [f"{letter}: {name}" for name, letter in LETTERS.items()]
    assert not faults(figure)
    with pytest.raises(LabError, match="nothing to map"):
        plots.crossover({})


def test_ties_are_marked():
    times = {"ring": {(64, 2): 1.0, (128, 2): 1.0}, "Rabenseifner": {(64, 2): 1.0, (128, 2): 1.5}}
    assert letters_in(plots.crossover(times)) == ["Ri=Ra", "Ri"]
    for tree, letters in (([1.1, 1.2, 1.3], ["R=T"]), ([3.0, 3.1, 3.2], ["R"])):
        samples = {"ring": {(64, 2): [1.0, 1.1, 1.2]}, "tree": {(64, 2): tree}}
        assert letters_in(plots.crossover(samples)) == letters

"""plots.crossover: a map of message sizes and ranks, with the best algorithm everywhere."""

from __future__ import annotations

import pytest
from labkit import plots
from labkit.errors import LabError

from tests.labkit.plots.texts import clear_of_each_other

TIMES = {
    "doubling": {
        (2**k, p): 1e-6 * p + 2**k * 1e-9 for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)
    },
    "Rabenseifner": {
        (2**k, p): 3e-6 * p + 2**k * 5e-10 for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)
    },
    "ring": {
        (2**k, p): 9e-6 * p + 2**k * 2e-10 for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)
    },
}


def test_the_map_shows_the_fastest_everywhere():
    figure = plots.crossover(TIMES, title="Who leads")
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    letters = [text.get_text() for text in axes.texts]
    assert len(letters) == 12 * 5
    places = list(next(iter(TIMES.values())))
    best = [min(TIMES, key=lambda name: TIMES[name][place]) for place in places]
    assert letters == [{"doubling": "D", "Rabenseifner": "Ra", "ring": "Ri"}[name] for name in best]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "D: doubling",
        "Ra: Rabenseifner",
        "Ri: ring",
    ]
    clear_of_each_other(figure)


def test_nothing_to_map():
    with pytest.raises(LabError, match="nothing to map"):
        plots.crossover({})


def test_ties_are_marked():
    times = {"ring": {(64, 2): 1.0, (128, 2): 1.0}, "Rabenseifner": {(64, 2): 1.0, (128, 2): 1.5}}
    figure = plots.crossover(times)
    assert [text.get_text() for text in figure.axes[0].texts] == ["Ri=Ra", "Ri"]
    samples = {"ring": {(64, 2): [1.0, 1.1, 1.2]}, "tree": {(64, 2): [1.1, 1.2, 1.3]}}
    figure = plots.crossover(samples)
    assert [text.get_text() for text in figure.axes[0].texts] == ["R=T"]
    figure = plots.crossover({"ring": samples["ring"], "tree": {(64, 2): [3.0, 3.1, 3.2]}})
    assert [text.get_text() for text in figure.axes[0].texts] == ["R"]

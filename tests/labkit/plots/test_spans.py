"""plots.timeline and plots.lanes: rows of spans over time."""

from __future__ import annotations

import pytest
import virtual
from labkit import plots
from labkit.errors import LabError

from tests.labkit.plots.texts import clear_of_each_other
from tests.virtual.test_trace import ran


def test_of_many_ranks_the_busiest_are_shown():
    def program(comm, vector):
        comm.compute(1e-3 if comm.rank % 2 else 1e-4)

    figure = plots.timeline(ran(80, program=program))
    shown = [int(label.get_text()) for label in figure.axes[0].get_yticklabels()]
    assert shown == list(range(1, 64, 2))
    assert figure.axes[0].get_title("right") == "the 32 busiest of 80 ranks"
    clear_of_each_other(figure)


def test_without_a_trace_there_is_nothing_to_draw():
    with pytest.raises(LabError, match="run it with trace=True"):
        plots.timeline(virtual.Cluster(2).run(lambda comm: comm.compute(1)))
    with pytest.raises(LabError, match="no virtual time passed"):
        plots.timeline(virtual.Cluster(2).run(lambda comm: None, trace=True))
    with pytest.raises(LabError, match="no time passed"):
        plots.lanes({"GPU": [], "network card": []})


def test_lanes_have_a_row_each_and_bars_where_the_spans_are():
    figure = plots.lanes({"GPU": [(0, 1e-3), (2e-3, 3e-3)], "network card": [(1e-3, 2e-3)]})
    axes = figure.axes[0]
    assert axes.get_xlabel() == "time (ms)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["GPU", "network card"]
    gpu, card = axes.collections
    assert [path.get_extents().intervalx.tolist() for path in gpu.get_paths()] == [[0, 1], [2, 3]]
    assert [path.get_extents().intervalx.tolist() for path in card.get_paths()] == [[1, 2]]
    assert not figure.legends
    clear_of_each_other(figure)

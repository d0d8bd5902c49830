"""plots: every figure says what it shows, cuts nothing off, overlaps nothing, and reaches the
reader once."""

import numpy as np
import pandas
import pytest
import virtual
from labkit import plots, scaling, world
from labkit.errors import LabError
from labkit.plots import style
from labkit.timing import Measurement
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from tests.labkit.plots.texts import drawn_texts, faults, renderer_of
from tests.virtual.test_trace import ran

RANDOM = np.random.default_rng(0)


def runs(seconds, share=0.05, count=20):
    return Measurement(seconds * (1 + share * np.abs(RANDOM.standard_normal(count))))


STRONG = {p: runs(2 * (0.08 + 0.92 / p)) for p in (1, 2, 4, 8)}
FAR = {"one": STRONG, "two": {p: 0.2 + 0.8 / p for p in (1, 2, 16, 64)}}
PING = {2**k: runs(1e-6 + 2**k * 1e-10) for k in range(0, 25, 2)}
BINOMIAL = [(rank, rank + 2**step, step) for step in range(4) for rank in range(2**step)]
CURVES = {"one process": np.exp(-np.arange(200) / 60), "4 ranks": np.exp(-np.arange(200) / 61)}

TWO = {"a": PING, "b": {8: 1e-6, 2**20: 1e-3}}
LABELS = {"xlabel": "x", "ylabel": "y", "title": "T"}

# Of every function what is crowded or odd: the plain forms are drawn by the labs.
DRAWN = {
    "scaling with a fit": lambda: plots.scaling(STRONG, fit=scaling.fit_amdahl(STRONG)),
    "scaling far": lambda: plots.scaling(FAR),
    "bandwidth of two": lambda: plots.bandwidth(
        TWO, model={"m": lambda n: 1e-6 + n * 1e-9}, factor=1.5, what="busbw"
    ),
    "lines with bars": lambda: plots.lines({"a": STRONG, "b": STRONG}, **LABELS),
    "lines of six": lambda: plots.loss({str(number): np.arange(9) + number for number in range(6)}),
    "images in color, flat": lambda: plots.images(np.random.rand(2, 3072), columns=2),
    "spread wide": lambda: plots.spread({"a": runs(1e-5), "b": runs(1e-2, 0.6)}),
    "compare": lambda: plots.compare(
        {"p = 2": 1.9, "p = 4": ...}, {"p = 2": runs(1.7), "p = 4": 3.1}, unit="times"
    ),
    "compare far": lambda: plots.compare(
        {"bytes": 3.5}, {"bytes": 1e6}, names=("ours", "published")
    ),
    "swap of two": lambda: plots.messages([(0, 1, 0), (1, 0, 0)], 2),
    "ring of 24": lambda: plots.messages([(rank, (rank + 1) % 24, 0) for rank in range(24)], 24),
    "tree": lambda: plots.messages(BINOMIAL, 16, layout="tree"),
}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    monkeypatch.setenv("LABKIT_LAB", "50_x")


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_every_plot_says_what_it_shows_and_nothing_is_cut_off_or_covered(name):
    figure = DRAWN[name]()
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center")]
    assert figure.get_suptitle() + "".join(titles)
    for axes in figure.axes:
        if axes.axison:
            assert axes.has_data() or axes.patches
            assert axes.get_xlabel() or axes.get_xticklabels()[0].get_text()
            assert axes.get_ylabel() or axes.get_yticklabels()[0].get_text()
    assert not faults(figure)
    patches = [patch for axes in figure.axes for patch in axes.patches]
    circles = [patch.get_window_extent() for patch in patches if isinstance(patch, Circle)]
    for text, box in drawn_texts(figure):
        covered = any(box.padded(-1).overlaps(circle) for circle in circles)
        assert text.isdigit() or not covered, text
    if getattr(figure, "cut_to_content", False):
        width = int.from_bytes(style.png(figure)[16:20], "big") / 150
        # Hinting makes text wider.
        assert width > figure.get_tightbbox(renderer_of(figure)).width + 0.1


def test_points_are_medians_and_error_bars_the_quartiles():
    figure = plots.scaling({1: [2.0, 2.0, 2.0], 2: [1.0, 1.25, 2.0]})
    bars = figure.axes[0].containers[0].lines[2][0].get_segments()
    assert bars[1][:, 1] == pytest.approx([2 / 1.625, 2 / 1.125])
    stacked = plots.bars({"a": {"below": 1.0, "above": [1.0, 2.0, 4.0]}}).axes[0]
    (bar,) = stacked.collections[0].get_segments()
    assert bar[:, 1] == pytest.approx([2.5, 4.0])
    x, y = plots.efficiency({"x": {1: 1.0, 4: 0.5}}).axes[0].containers[0].lines[0].get_data()
    assert (list(x), list(y)) == ([1, 4], pytest.approx([100, 50]))
    left, right = plots.bandwidth({1000: 1e-6}, factor=1.5).axes
    assert left.containers[0].lines[0].get_ydata() == pytest.approx([1.0])
    assert right.containers[0].lines[0].get_ydata() == pytest.approx([1.5])


def test_amdahls_law_is_drawn_on_the_baseline_of_the_points():
    times = {2: 0.6, 4: 0.2875, 8: 0.16875}  # of the law with 5 %, but for the fewest ranks
    fit = scaling.fit_amdahl(times)
    lines = plots.scaling(times, fit=fit).axes[0].lines
    (law,) = [line for line in lines if str(line.get_label()).startswith("Amdahl")]
    ranks, gains = law.get_data()
    assert gains == pytest.approx(2 * 0.6 / fit.time(ranks))


def test_records_can_be_plotted_as_they_are():
    frame = pandas.DataFrame({"ranks": [1, 2, 2], "seconds": [2.0, 9.0, 1.0]})
    frame[["seconds_q1", "seconds_q3"]] = [[1.9, 2.1], [8, 10], [np.nan, np.nan]]
    container = plots.scaling(frame).axes[0].containers[0]
    assert container.lines[0].get_ydata() == pytest.approx([1, 2])  # the latest record of 2 ranks
    bars = container.lines[2][0].get_segments()
    assert bars[0][:, 1] == pytest.approx([2 / 2.1, 2 / 1.9])  # the quartiles as they were recorded
    with pytest.raises(LabError, match="no column ranks"):
        plots.scaling(frame[["seconds"]])


UNDRAWN = [  # what cannot be drawn, and what is said of it
    (lambda: plots.scaling({}), "measure first"),
    (lambda: plots.bandwidth({0: 1e-6}), "no message has a byte"),
    (lambda: plots.crossover({}), "nothing to map"),
    (lambda: plots.crossover({"ring": {(0, 2): 1.0}}), "sizes are above 0"),
    (lambda: plots.images(np.zeros((28, 28))), r"not square. .* picture\[None\]"),
    (lambda: plots.messages([(0, 4, 0)], 4), "from 0 to 4: 4 ranks go from 0 to 3"),
    (lambda: plots.messages([(-1, 0, 0)], 4), "from -1 to 0"),
]


@pytest.mark.parametrize(("draw", "says"), UNDRAWN)
def test_what_cannot_be_drawn_is_told_in_a_sentence(draw, says):
    with pytest.raises(LabError, match=says):
        draw()


def test_a_script_saves_a_file_and_says_where(tmp_path, capsys, monkeypatch):
    plots.loss(CURVES, title="Loss, 4 ranks")
    file = tmp_path / "plots" / "50_x-loss-4-ranks.png"
    assert file.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == f"Plot: {file}\n"
    for name in ("mine", "Потери, 4", "Потери, 8", "mine", "mine"):
        plots.loss(CURVES, name=name)
    names = {"loss-4-ranks", "mine", "mine-2", "mine-3", "потери-4", "потери-8"}
    assert {file.name for file in file.parent.iterdir()} == {f"50_x-{name}.png" for name in names}
    capsys.readouterr()
    (tmp_path / "plots").rename(tmp_path / "away")
    (tmp_path / "plots").write_text("in the way")
    with pytest.raises(LabError, match="Set LABKIT_HOME"):
        plots.loss(CURVES)
    monkeypatch.setattr(world, "is_root", lambda: False)
    assert plots.loss(CURVES).axes, "ranks above 0 write nothing"
    assert capsys.readouterr().out == ""


A_LOSS = 'plots.loss({"a": [3, 2, 1]})'
CELLS = [
    ("assigned", f"from labkit import plots\nf = {A_LOSS}", 1),
    ("last value of a cell", A_LOSS, 1),
    ("two in a cell", f"{A_LOSS}\n{A_LOSS}", 2),
    ("looked at again", "f", 1),
    ("pyplot", "import matplotlib.pyplot as plt\nfig, _ = plt.subplots()\nplots.show(fig, 'x')", 1),
    ("the same as last value", "fig, axes = plt.subplots()\nplots.show(fig, 'x')", 1),
    ("with pyplot loaded", A_LOSS, 1),
]


@pytest.mark.slow
def test_a_notebook_shows_each_figure_once(tmp_path):
    import nbclient
    import nbformat

    cells = [nbformat.v4.new_code_cell(source) for _, source, _ in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    for cell, (what, _, count) in zip(notebook.cells, CELLS, strict=True):
        pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(pictures) == count, what
        assert len(cell.outputs) == count, f"{what}: {cell.outputs}"
    assert not list(tmp_path.glob("plots/*"))


def test_flat_colors_come_one_after_another(monkeypatch):
    """As in CIFAR-10: all of the red, then all of the green, then all of the blue."""
    shown = []
    monkeypatch.setattr(Axes, "imshow", lambda axes, picture, **style: shown.append(picture))
    red = np.zeros((1, 3 * 16), np.float32)
    red[:, :16] = 1
    plots.images(red)
    np.testing.assert_array_equal(shown[0], np.broadcast_to([1, 0, 0], (4, 4, 3)))


# --- a map of message sizes and ranks

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


def test_ties_are_marked():
    times = {"ring": {(64, 2): 1.0, (128, 2): 1.0}, "Rabenseifner": {(64, 2): 1.0, (128, 2): 1.5}}
    assert letters_in(plots.crossover(times)) == ["Ri=Ra", "Ri"]
    for tree, letters in (([1.1, 1.2, 1.3], ["R=T"]), ([3.0, 3.1, 3.2], ["R"])):
        samples = {"ring": {(64, 2): [1.0, 1.1, 1.2]}, "tree": {(64, 2): tree}}
        assert letters_in(plots.crossover(samples)) == letters


# --- rows of spans over time


def test_of_many_ranks_the_busiest_are_shown():
    def program(comm, vector):
        comm.compute(1e-3 if comm.rank % 2 else 1e-4)

    figure = plots.timeline(ran(80, program=program))
    shown = [int(label.get_text()) for label in figure.axes[0].get_yticklabels()]
    assert shown == list(range(1, 64, 2))
    assert figure.axes[0].get_title("right") == "the 32 busiest of 80 ranks"
    assert not faults(figure)


def test_without_a_trace_there_is_nothing_to_draw():
    with pytest.raises(LabError, match="run it with trace=True"):
        plots.timeline(virtual.Cluster(2).run(lambda comm: comm.compute(1)))
    with pytest.raises(LabError, match="no virtual time passed"):
        plots.timeline(virtual.Cluster(2).run(lambda comm: None, trace=True))
    with pytest.raises(LabError, match="no time passed"):
        plots.lanes({"GPU": [], "network card": []})


def test_lanes_have_a_row_each_and_bars_where_the_spans_are():
    spans = {"GPU": [(0, 1e-3), (2e-3, 3e-3)], "network card": [(1e-3, 2e-3)]}
    figure = plots.lanes(spans)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "time (ms)"
    assert [label.get_text() for label in axes.get_yticklabels()] == list(spans)
    bars = [
        [path.get_extents().intervalx.tolist() for path in lane.get_paths()]
        for lane in axes.collections
    ]
    assert bars == [[[0, 1], [2, 3]], [[1, 2]]]
    assert not figure.legends
    assert not faults(figure)

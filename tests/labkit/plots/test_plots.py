"""plots: every figure says what it shows, cuts nothing off, overlaps nothing, and reaches the reader once."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas
import pytest
from labkit import lab, paths, scaling, world
from labkit.errors import LabError
from labkit.plots import curves, style
from labkit.plots.axes import _plain
from labkit.timing import Measurement
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Circle

RANDOM = np.random.default_rng(0)


def runs(seconds, share=0.05, count=20):
    return Measurement(seconds * (1 + share * np.abs(RANDOM.standard_normal(count))))


STRONG = {p: runs(2 * (0.08 + 0.92 / p)) for p in (1, 2, 4, 8)}
FAR = {"one": STRONG, "two": {p: 0.2 + 0.8 / p for p in (1, 2, 16, 64)}}
PING = {2**k: runs(1e-6 + 2**k * 1e-10) for k in range(0, 25, 2)}
TIMES = {"first calls": runs(0.02, 0.5), "warm": runs(0.01), "graph": runs(0.011)}
SPLIT = {f"{p} ranks": {"compute": runs(8.0), "communicate": [2.4, 2.5, 2.9]} for p in (1, 2, 4)}
CURVES = {"one process": np.exp(-np.arange(200) / 60), "4 ranks": np.exp(-np.arange(200) / 61)}

DRAWN = {
    "scaling": lambda: curves.scaling(STRONG),
    "scaling with a fit": lambda: curves.scaling(STRONG, fit=scaling.fit_amdahl(STRONG)),
    "scaling far": lambda: curves.scaling(FAR),
    "scaling weak": lambda: curves.scaling({1: 1.0, 2: 1.1}, weak=True),
    "efficiency": lambda: curves.efficiency(STRONG),
    "efficiency weak": lambda: curves.efficiency(FAR, weak=True),
    "bandwidth": lambda: curves.bandwidth(PING),
    "bandwidth and model": lambda: curves.bandwidth(PING, model=scaling.fit_alpha_beta(PING)),
    "bandwidth of two": lambda: curves.bandwidth(
        {"a": PING, "b": {8: 1e-6, 2**20: 1e-3}},
        model={"m": lambda n: 1e-6 + n * 1e-9},
        factor=1.5,
        what="busbw",
    ),
    "lines": lambda: curves.lines({"a": [1, 2, 3]}, xlabel="x", ylabel="y (s)", title="T"),
    "lines with bars": lambda: curves.lines({"a": STRONG, "b": STRONG}, xlabel="x", ylabel="y", title="T"),
    "lines logarithmic": lambda: curves.lines(
        {"a": ([1, 10, 100], [3, 4, 5])}, xlabel="x", ylabel="y", title="T", logx=True, logy=True
    ),
    "loss": lambda: curves.loss(CURVES),
    "images": lambda: curves.images(np.random.rand(11, 64), range(11), title="Digits"),
    "images and guesses": lambda: curves.images(
        np.random.rand(8, 8, 8), range(8), guesses=[0, 1, 2, 8, 4, 5, 6, 7]
    ),
    "images in color": lambda: curves.images(
        np.random.rand(4, 32, 32, 3), ["cat", "dog", "ship", "frog"], columns=4
    ),
    "spread": lambda: curves.spread(TIMES),
    "spread wide": lambda: curves.spread({"a": runs(1e-5), "b": runs(1e-2, 0.6)}),
    "bars": lambda: curves.bars(SPLIT),
    "bars of one part": lambda: curves.bars({"a": {"time": 1.0}, "b": {"time": 2.0}}),
    "compare": lambda: curves.compare(
        {"p = 2": 1.9, "p = 4": ...}, {"p = 2": runs(1.7), "p = 4": 3.1}, unit="times"
    ),
    "compare far": lambda: curves.compare({"bytes": 3.5}, {"bytes": 1e6}),
    "ring": lambda: curves.ring(4, label="chunk {rank}", notes={0: "starts", 2: "waits"}),
    "ring of one": lambda: curves.ring(1),
    "ring of 24": lambda: curves.ring(24),
    "tree": lambda: curves.tree(16),
    "deadlock": lambda: curves.messages(
        [(0, 1, "Send"), (1, 0, "Send")], 2, layout="line", notes={0: "waits in Send", 1: "waits in Send"}
    ),
    "line": lambda: curves.messages(
        [(0, 1), (1, 2), (0, 3, "far"), (3, 0)], 4, layout="line", notes={3: "last"}
    ),
    "line with notes": lambda: curves.messages(
        [(0, 2, "six"), (1, 3, "seven")],
        4,
        layout="line",
        notes={rank: f"waits in\nRecv({rank})" for rank in range(4)},
    ),
    "steps": lambda: curves.messages([(0, 1, "", 0), (1, 0, "", 0), (0, 2, "", 1), (2, 3, "", 1)], 4),
    "hub": lambda: curves.messages([(r, 0, f"g{r}") for r in range(1, 6)], 6, title="To rank 0"),
}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    monkeypatch.setattr(lab, "_current", "50_x")


@pytest.fixture(scope="module", params=DRAWN)
def figure(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
        return DRAWN[request.param]()


def renderer_of(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def drawn_texts(figure):
    """Every text one can read in the figure: (text, its box in pixels)."""
    renderer = renderer_of(figure)
    found = list(figure.texts) + ([figure._suptitle] if figure._suptitle else [])
    for axes in figure.axes:
        found += axes.texts
        if axes.axison:
            found += [axes.xaxis.label, axes.yaxis.label]
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                margin = 1e-9 * (high - low)
                found += [
                    tick.label1
                    for tick in axis.get_major_ticks()
                    if low - margin <= tick.get_loc() <= high + margin
                ]
        found += [axes.title, axes._left_title]
        found += axes.get_legend().get_texts() if axes.get_legend() else []
    shown = {id(text): text for text in found if text.get_text().strip() and text.get_visible()}
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown.values()]


def test_every_plot_has_a_title_and_says_its_units(figure):
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center")]
    assert (figure._suptitle.get_text() if figure._suptitle else "") + "".join(titles)
    for axes in figure.axes:
        if axes.axison:
            assert axes.get_xlabel() or axes.get_xticklabels()[0].get_text()
            assert axes.get_ylabel() or axes.get_yticklabels()[0].get_text()


def test_every_plot_shows_something(figure):
    drawn = [axes for axes in figure.axes if axes.lines or axes.patches or axes.images or axes.containers]
    empty = [axes for axes in figure.axes if axes not in drawn and axes.axison]
    assert drawn
    assert not empty


def test_nothing_is_cut_off(figure):
    box = figure.get_tightbbox(renderer_of(figure))
    if getattr(figure, "cut_to_content", False):
        width = int.from_bytes(style.png(figure)[16:20], "big") / 150
        assert width > box.width + 0.1  # hinting makes text a little wider or narrower
        return
    width, height = figure.get_size_inches()
    assert box.x0 > 0
    assert box.y0 > 0
    assert box.x1 < width
    assert box.y1 < height


def test_no_text_lies_on_another(figure):
    texts = drawn_texts(figure)
    for index, (one, box) in enumerate(texts):
        for other, box_of_other in texts[index + 1 :]:
            inner = box.padded(-1), box_of_other.padded(-1)
            assert not inner[0].overlaps(inner[1]), f"{one!r} lies on {other!r}"


@pytest.mark.parametrize("name", ["ring", "deadlock", "line with notes", "hub"])
def test_notes_and_labels_stay_off_the_ranks(name):
    figure = DRAWN[name]()
    texts = [(text, box) for text, box in drawn_texts(figure) if not text.isdigit()]
    circles = [patch for patch in figure.axes[0].patches if isinstance(patch, Circle)]
    assert len(circles) > 1
    for text, box in texts:
        for circle in circles:
            assert not box.padded(-1).overlaps(circle.get_window_extent()), text


def test_error_bars_are_the_quartiles():
    figure = curves.scaling({1: [2.0, 2.0, 2.0], 2: [1.0, 1.25, 2.0]})
    bars = figure.axes[0].containers[0].lines[2][0].get_segments()
    assert bars[1][:, 1] == pytest.approx([2 / 1.625, 2 / 1.125])


def test_a_measured_point_is_where_the_measurement_is():
    figure = curves.efficiency({"x": {1: 1.0, 4: 0.5}})
    x, y = figure.axes[0].containers[0].lines[0].get_data()
    assert list(x) == [1, 4]
    assert y == pytest.approx([100, 50])
    left, right = curves.bandwidth({1000: 1e-6}, factor=1.5).axes
    assert left.containers[0].lines[0].get_ydata() == pytest.approx([1.0])
    assert right.containers[0].lines[0].get_ydata() == pytest.approx([1.5])


def test_ideal_is_a_straight_line_up_to_the_most_ranks():
    axes = curves.scaling(FAR).axes[0]
    ideal = next(line for line in axes.lines if line.get_label() == "ideal")
    assert list(ideal.get_xdata()) == list(ideal.get_ydata()) == [1, 64]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_records_can_be_plotted_as_they_are():
    frame = pandas.DataFrame(
        {
            "ranks": [1, 2, 2],
            "seconds": [2.0, 9.0, 1.0],
            "seconds_q1": [1.9, 8, np.nan],
            "seconds_q3": [2.1, 10, np.nan],
        }
    )
    points = curves.scaling(frame).axes[0].containers[0].lines[0]
    assert points.get_ydata() == pytest.approx([1, 2])  # the latest record of 2 ranks
    with pytest.raises(LabError, match="no column ranks"):
        curves.scaling(frame[["seconds"]])


def test_nothing_to_plot_is_said():
    with pytest.raises(LabError, match="measure first"):
        curves.scaling({})


def test_a_message_must_stay_among_the_ranks():
    with pytest.raises(LabError, match="the ranks are 0 to 3"):
        curves.messages([(0, 4)], 4)
    with pytest.raises(LabError, match="circle, line or tree"):
        curves.messages([(0, 1)], 2, layout="star")


def test_curves_differ_in_grey():
    looks = [style.look(index) for index in range(len(style.COLORS))]
    assert len({look["marker"] for look in looks}) == len(looks)
    assert len({str(look["linestyle"]) for look in looks}) == len(looks)
    light = [_lightness(look["color"]) for look in looks]
    assert all(abs(one - two) > 0.08 for one, two in zip(light, light[1:], strict=False))


def _lightness(color):
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_script_saves_a_file_and_says_where(tmp_path, capsys):
    curves.loss(CURVES, title="Loss, 4 ranks")
    file = tmp_path / "plots" / "50_x-loss-4-ranks.png"
    assert file.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == f"Plot: {file}\n"
    curves.loss(CURVES, name="mine")
    assert (tmp_path / "plots" / "50_x-mine.png").exists()


def test_the_path_is_relative_inside_the_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "root", lambda: tmp_path.parent)
    curves.ring(3)
    assert capsys.readouterr().out == f"Plot: {tmp_path.name}/plots/50_x-ring.png\n"


def test_ranks_above_0_show_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(world, "is_root", lambda: False)
    assert curves.loss(CURVES).axes
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "plots").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "plots").write_text("in the way")
    with pytest.raises(LabError, match="Set LABKIT_HOME"):
        curves.ring(3)


def test_a_script_needs_no_window_and_gets_no_pyplot():
    code = """
        import sys
        from labkit import plots
        plots.loss({"a": [3, 2, 1]})
        assert "matplotlib.pyplot" not in sys.modules
        import matplotlib.pyplot as plt
        for _ in range(30):
            figure, axes = plt.subplots()
            plots.show(figure, "mine")
        assert not plt.get_fignums()
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Plot: ") == 31


CELLS = [
    ("assigned", 'from labkit import plots\nf = plots.loss({"a": [3, 2, 1]})', 1),
    ("last value of a cell", 'plots.loss({"a": [3, 2, 1]})', 1),
    ("two in a cell", "plots.ring(3)\nplots.ring(4)", 2),
    ("looked at again", "f", 1),
    (
        "a figure of pyplot",
        "import matplotlib.pyplot as plt\nfig, axes = plt.subplots()\nplots.show(fig, 'x')",
        1,
    ),
    ("the same as last value", "fig, axes = plt.subplots()\nplots.show(fig, 'x')", 1),
    ("with pyplot loaded", 'plots.loss({"a": [3, 2, 1]})', 1),
]


def test_a_notebook_shows_each_figure_once(tmp_path):
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for _, source, _ in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    for cell, (what, _, count) in zip(notebook.cells, CELLS, strict=True):
        pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(pictures) == count, what
        assert len(cell.outputs) == count, f"{what}: {cell.outputs}"
    assert not list(tmp_path.glob("plots/*"))


def test_long_numbers_of_a_logarithmic_axis_are_powers_of_ten():
    assert [_plain(value) for value in (0.01, 1.0, 200.0, 100000.0)] == ["0.01", "1", "200", "100000"]
    assert _plain(1e6) == "$10^{6}$"
    assert _plain(2e-7) == r"$2 \cdot 10^{-7}$"

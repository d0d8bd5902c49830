"""Lab 52's support: published runs, what a table of one's own must hold, a fit that does not peek.

The model is the lab's own solution, read from its source.
"""

from __future__ import annotations

import ast
import csv
import math
from pathlib import Path

import numpy as np
import pytest
from labkit import launch, nets, paths
from labkit.errors import LabError
from support import lab52

WANTED = {"buckets", "exchange", "step", "split", "errors"}


@pytest.fixture(scope="module")
def solution():
    """The functions of the solved lab, by name."""
    tree = ast.parse((paths.root() / "solutions/52_predict_scaling.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in WANTED]
    names: dict = {"math": math}
    exec(compile(ast.Module(functions, []), "52_predict_scaling", "exec"), names)
    names["READY"] = {
        row.net: names["buckets"](nets.layer_table(row.net), 64 * 2**20) for row in lab52.published()
    }
    return names


# ------------------------------------------------------------------------------------------ the kit's table


def test_each_published_row_has_its_source_and_a_step():
    rows = lab52.published()
    assert len(rows) == 108
    assert all("https://" in row.source for row in rows)
    assert all(row.step > 0 for row in rows)
    assert all(row.gpus > 1 for row in rows)
    assert len({row.system for row in rows}) == 7


def test_the_fit_may_see_every_network_and_two_systems_alone():
    rows = lab52.published()
    seen = {row.network for row in rows if row.system in lab52.SEEN and row.nodes > 1}
    assert seen >= {row.network for row in rows if row.nodes > 1}
    assert set(lab52.SEEN) < {row.system for row in rows}


def test_a_row_is_what_its_line_says():
    (row,) = [
        row for row in lab52.published() if row.network == "RDMA" and row.net == "vgg16" and row.gpus == 16
    ]
    assert (row.nodes, row.per_node, row.algorithm) == (4, 4, "ring")
    assert row.line == pytest.approx(0.32e-9)
    assert row.alone == pytest.approx(64 / 130.9)
    assert row.images(row.step) == pytest.approx(1787.4)
    assert str(row) == "Horovod 25 Gb/s RoCE, RDMA, vgg16, 16 GPUs"


def test_the_largest_tensor_stays_on_one_server():
    row = lab52.run_of(net="vgg16", algorithm="server", servers=16)
    assert row.busiest == pytest.approx(102_764_544 / 138_357_544)
    assert lab52.run_of(net="inception_v3", algorithm="server", servers=4).busiest == 1 / 4


def test_a_system_grows_with_its_servers():
    row = lab52.run_of(algorithm="server", senders=16, servers=4)
    grown = lab52.at(row, 64)
    assert (grown.gpus, grown.nodes, grown.senders, grown.servers, grown.step) == (64, 16, 64, 16, None)
    assert lab52.at(row, 64, "tree").algorithm == "tree"


# ------------------------------------------------------------------------------------- a fit that cannot peek


class Sealed:
    """A row whose published step nobody may look at."""

    def __init__(self, row: lab52.Row):
        self.row = row

    def __getattr__(self, name: str):
        assert name != "step", f"somebody looked at the published step of {self.row}"
        return getattr(self.row, name)


def sealed(rows: list[lab52.Row], systems: set[str]) -> list:
    """The rows, those of these systems sealed."""
    return [Sealed(row) if row.system in systems else row for row in rows]


def test_the_fit_never_looks_at_an_unseen_system(solution):
    rows = lab52.published()
    unseen = {row.system for row in rows} - set(lab52.SEEN)
    open_rows, closed = solution["split"](sealed(rows, unseen), lab52.SEEN)
    learned = lab52.fit(solution["step"], open_rows)
    assert all(isinstance(row, Sealed) for row in closed)
    assert learned == lab52.fit(solution["step"], [row for row in rows if row.system in lab52.SEEN])
    with pytest.raises(AssertionError, match="somebody looked"):
        lab52.fit(solution["step"], closed)  # the seal holds


def test_leaving_a_system_out_does_not_look_at_it(solution):
    rows = [
        row for row in lab52.published() if row.system in ("DGX-1 P100", "Facebook P100", "DLPerf V100 EDR")
    ]
    numbers = lab52.without_each(solution["step"], rows)
    assert set(numbers) == {row.system for row in rows}
    for system, learned in numbers.items():
        open_rows = [row for row in sealed(rows, {system}) if row.system != system]
        assert lab52.fit(solution["step"], open_rows) == learned


def test_the_reference_model_keeps_its_word(solution):
    fitted, unseen = solution["split"](lab52.published(), lab52.SEEN)
    learned = lab52.fit(solution["step"], fitted)
    sizes = np.abs(solution["errors"](unseen, learned))
    assert np.median(sizes) <= 0.10
    # The rows that a rule of thumb cannot foretell: less than 75 % of the ideal.
    hard = [row for row in unseen if row.alone < 0.75 * row.step]
    typical = np.median([row.step / row.alone for row in fitted])
    thumb = np.median([abs(row.step / (typical * row.alone) - 1) for row in hard])
    assert np.median(np.abs(solution["errors"](hard, learned))) < thumb / 2


def test_a_fit_finds_the_numbers_that_rows_were_made_with(solution):
    made = []
    for net in ("vgg16", "resnet101", "alexnet"):
        for gpus in (4, 16, 64, 512):
            row = lab52.run_of(net=net, gpus=gpus, alone=0.1)
            made.append(
                lab52.run_of(net=net, gpus=gpus, alone=0.1, step=solution["step"](row, lab52.LEARNED))
            )
    learned = lab52.fit(solution["step"], made)
    assert set(learned) == {"TCP", "inside", "round", "straggler"}
    for name, value in learned.items():
        assert value == pytest.approx(lab52.LEARNED[name], rel=0.02)


def test_without_rows_or_for_an_unknown_network_there_is_a_sentence(solution):
    with pytest.raises(LabError, match="A fit needs rows"):
        lab52.fit(solution["step"], [lab52.run_of(step=None)])
    with pytest.raises(
        LabError, match="Nothing is known of network 'Omni-Path': the fit has seen TCP, host, gRPC"
    ):
        solution["step"](lab52.run_of(network="Omni-Path"), lab52.LEARNED)


# ------------------------------------------------------------------------------------- a table of one's own

LINE = {
    "system": "ours",
    "gpus": "32",
    "gpus_per_node": "4",
    "network": "RDMA",
    "gbit": "100",
    "net": "resnet50",
    "batch": "128",
    "images_at_1": "360",
}


def write(path: Path, lines: list[dict[str, str]]) -> Path:
    """A CSV file of these lines."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return path


def test_a_row_needs_eight_columns_and_no_code(tmp_path, solution):
    (row,) = lab52.read(write(tmp_path / "own.csv", [LINE]))
    assert (row.nodes, row.algorithm, row.step, row.input) == (8, "ring", None, 0.0)
    learned = lab52.fit(solution["step"], solution["split"](lab52.published(), lab52.SEEN)[0])
    assert 0.5 * 32 * 360 < row.images(solution["step"](row, learned)) < 32 * 360


def test_what_is_given_besides_is_used(tmp_path):
    line = LINE | {"images": "9000", "inside": "25", "algorithm": "tree", "input": "1200"}
    (row,) = lab52.read(write(tmp_path / "own.csv", [line]))
    assert row.images(row.step) == pytest.approx(9000)
    assert (row.inside, row.algorithm, row.input) == (
        pytest.approx(4e-11),
        "tree",
        pytest.approx(4 * 128 / 1200),
    )


def test_the_kits_own_table_can_be_given_by_its_path():
    assert lab52.read("labs/support/lab52/published.csv") == lab52.published()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpus": "many"}, "line 2: gpus has to be a number above 0, not 'many'"),
        ({"gpus": "2.5"}, "line 2: gpus has to be a whole number, not '2.5'"),
        ({"batch": "-1"}, "batch has to be a number above 0"),
        ({"images_at_1": ""}, "images_at_1 is empty; the model needs it"),
        ({"images_at_1": "nan"}, "images_at_1 has to be a number above 0, not 'nan'"),
        ({"gbit": ""}, "gbit is empty; the model needs it"),
        ({"system": " "}, "system is empty"),
        ({"net": "lenet"}, "line 2: There is no layer table of 'lenet'; there are alexnet"),
        ({"algorithm": "magic"}, "algorithm is one of ring, tree, halving, server, not 'magic'"),
    ],
)
def test_a_bad_cell_is_named(tmp_path, change, says):
    with pytest.raises(LabError, match=says):
        lab52.read(write(tmp_path / "own.csv", [LINE | change]))


def test_a_bad_file_is_a_sentence(tmp_path):
    with pytest.raises(LabError, match="There is no file"):
        lab52.read(tmp_path / "nowhere.csv")
    with pytest.raises(LabError, match="lacks the columns gbit, images_at_1"):
        lab52.read(
            write(tmp_path / "a.csv", [{k: v for k, v in LINE.items() if k not in ("gbit", "images_at_1")}])
        )
    (tmp_path / "b.csv").write_text(",".join(LINE) + "\n")
    with pytest.raises(LabError, match="no row below it"):
        lab52.read(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text(",".join(LINE) + "\nours,32\n")
    with pytest.raises(LabError, match="line 2: it has not as many cells"):
        lab52.read(tmp_path / "c.csv")
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabError, match="is not a CSV file of text"):
        lab52.read(tmp_path / "d.csv")


# ------------------------------------------------------------------------------------------- shown, and here


def test_tables_and_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    rows = lab52.published()
    seen = [row for row in rows if row.system in lab52.SEEN]
    parts = {"fitted": seen, "unseen": [row for row in rows if row not in seen]}
    lab52.print_systems(parts, lambda row: row.step / 1.1)
    lab52.print_rows([lab52.run_of(step=None), lab52.run_of()], lambda row: 0.5)
    lab52.print_rivals(rows, {"ideal": lambda row: row.alone, "right": lambda row: row.step})
    lab52.draw(parts, lambda row: row.step, "A line")
    told = capsys.readouterr().out
    assert "fitted   all 2 systems" in told
    assert "10.0 %" in told
    assert "+0 %" in told


@pytest.mark.slow
def test_a_link_and_steps_of_two_ranks():
    (first, _) = launch.run(lab52.measure_here, 8, 5, ranks=2, controller="torch", threads=1)
    assert list(first.link) == sorted(first.link)
    assert all(took.median > 0 for took in (first.alone, first.step, *first.link.values()))
    table = lab52.table_here()
    assert table.parameters.sum() == 64 * 1024 + 1024 + 2 * (1024 * 1024 + 1024) + 1024 * 10 + 10

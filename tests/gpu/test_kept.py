"""What is kept of labs on a GPU: the order of the next run, and the table."""

from __future__ import annotations

import pytest

from tests.gpu import kept
from tests.gpu.labs import LABS

ON_GPU = {"result": "step", "device": "cuda:0", "library": "NCCL", "staged": "no"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    monkeypatch.setattr(kept, "REMEMBERED", [])
    monkeypatch.setattr(kept, "peak", lambda: 800e12)


def test_labs_that_never_passed_run_first():
    first, second, third = LABS[:3]
    kept.remember(kept.row(first.stem, [ON_GPU], []))
    kept.remember(kept.row(second.stem, [ON_GPU], ["tensors of 'cpu'"]))
    assert kept.unseen_first(LABS[:3]) == [second, third, first]
    kept.remember(kept.row(second.stem, [ON_GPU], []))
    assert kept.unseen_first(LABS[:3]) == [third, first, second]


def test_the_table_says_where_who_and_how_fast():
    entries = [
        {**ON_GPU, "flops": 4e12, "seconds": 0.01},
        {**ON_GPU, "flops": 1e12, "seconds": 0.01, "library": "MPI", "staged": "through the host"},
    ]
    kept.remember(kept.row("50_strong_and_weak_scaling", entries, []))
    kept.remember(kept.row("01_time_it_properly", [], ["no record of convolution"]))
    assert kept.table(kept.REMEMBERED).splitlines() == [
        "lab                         tensors on  carried by                   Tflop/s  of the peak",
        "50_strong_and_weak_scaling  cuda:0      NCCL; MPI, through the host  400      50%"
        "          passed",
        "01_time_it_properly         -           -                            -        -"
        "            no record of convolution",
    ]


def test_records_of_all_runs_are_kept(tmp_path):
    file = tmp_path / "run" / "02_why_parallel.jsonl"
    file.parent.mkdir()
    kept.keep(file)
    file.write_text('{"lab": "02_why_parallel", "result": "convolution", "utc": "2026"}\n')
    for _ in range(2):
        kept.keep(file)
    lines = (tmp_path / "records" / file.name).read_text().splitlines()
    assert lines == file.read_text().splitlines() * 2

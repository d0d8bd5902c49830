"""Figures beside numbers worked out by hand, and the kit's own records beside a study."""

from __future__ import annotations

import pytest
from support.lab80 import figures, records

from tests.support.lab80 import studies


def values(study: records.Study) -> dict:
    return {name: figure.value for name, figure in figures.all_of(study).items()}


def test_each_formula_by_hand():
    got = values(studies.study())
    assert got["efficiency_strong_4"] == pytest.approx(0.8 / (4 * 0.25))
    assert got["speedup_strong_4"] == pytest.approx(3.2)
    assert got["efficiency_weak_4"] == pytest.approx(0.8 / 0.86)
    assert got["speedup_weak_2"] == pytest.approx(2 * 0.8 / 0.84)
    assert got["rate_weak_4"] == pytest.approx(256 / 0.86)
    assert got["wait_strong_2"] == pytest.approx(0.1)
    assert got["slower_strong_4"] == pytest.approx((0.7 * 0.25 - 0.2) / 0.25)
    assert got["predicted_time_weak_2"] == pytest.approx(0.798)
    assert got["error_weak_2"] == pytest.approx(-0.05)
    assert got["node_hours_strong_4"] == pytest.approx(0.25 * 1281167 / 64 / 3600)
    assert got["answer_strong"] == 4
    assert got["predicted_answer_weak"] == 4
    assert (got["soonest_strong"], got["cheapest_strong"]) == (4, 4)
    assert got["time_strong_most"] == got["time_strong_4"]
    assert got["published_kurth"] == 90.7


def test_the_answer_ends_before_the_first_that_is_not_enough():
    def bent(lines: list[dict]) -> None:
        lines.append({**lines[-1], **studies.run("strong", 8, 0.2), "utc": lines[-1]["utc"]})
        studies.measured(lines, "strong", 2).update(studies.run("strong", 2, 0.7))

    got = values(studies.study(bent))
    assert got["efficiency_strong_2"] < 0.7 < got["efficiency_strong_4"]
    assert got["answer_strong"] == 1


def test_the_reference_is_of_the_same_kind_of_study(tmp_path, monkeypatch):
    study = studies.study()
    lines = [{**line, "study": "the kit's"} for line in studies.entries()]
    kit = tmp_path / "solutions" / "results" / "80_scaling_report.jsonl"
    monkeypatch.setattr(records.paths, "root", lambda: tmp_path)
    studies.put(lines, kit)
    assert sorted(records.reference(study)["strong"]) == [1, 2, 4]
    for other in ({"machine": "dgx1"}, {"net": "vgg16"}, {"images": 63}, {"where": "here"}):
        studies.put([{**line, **other} for line in lines], kit)
        assert records.reference(study) == {"strong": {}, "weak": {}}


def test_real_ranks_are_held_against_lab_50():
    def on_this_machine(lines: list[dict]) -> None:
        for line in lines:
            line.update(where="here", machine="here")
            line["images"] = line.get("images", 64) // 2  # as many as lab 50 has

    study = studies.study(on_this_machine)
    known = records.reference(study)
    assert {entry["lab"] for kind in known.values() for entry in kind.values()} == {
        "50_strong_and_weak_scaling"
    }
    got = figures.all_of(study)
    assert got["reference_efficiency_strong_2"].entries
    assert "50_strong_and_weak_scaling.jsonl" in figures.sentences(study)["reference"]

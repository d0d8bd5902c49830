"""Figures beside numbers worked out by hand, and the kit's own records beside a study."""

from __future__ import annotations

import pytest
from support.lab80 import figures, records

from tests.support.lab80 import studies


def values(study: records.Study) -> dict:
    return {name: figure.value for name, figure in figures.all_of(study).items()}


BY_HAND = {
    "efficiency_strong_4": 0.8 / (4 * 0.25), "speedup_strong_4": 3.2, "efficiency_weak_4": 0.8 / 0.86,
    "speedup_weak_2": 2 * 0.8 / 0.84, "rate_weak_4": 256 / 0.86, "wait_strong_2": 0.1,
    "slower_strong_4": (0.7 * 0.25 - 0.2) / 0.25, "predicted_time_weak_2": 0.798,
    "error_weak_2": -0.05, "node_hours_strong_4": 0.25 * 1281167 / 64 / 3600, "answer_strong": 4,
    "predicted_answer_weak": 4, "soonest_strong": 4, "cheapest_strong": 4, "time_strong_4": 0.25,
    "time_strong_most": 0.25, "published_kurth": 90.7,
}  # fmt: skip


def test_each_formula_by_hand():
    got = values(studies.study())
    assert {name: got[name] for name in BY_HAND} == pytest.approx(BY_HAND)


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
    labs = {entry["lab"] for kind in known.values() for entry in kind.values()}
    assert labs == {"50_strong_and_weak_scaling"}
    got = figures.all_of(study)
    assert got["reference_efficiency_strong_2"].entries
    assert "50_strong_and_weak_scaling.jsonl" in figures.sentences(study)["reference"]

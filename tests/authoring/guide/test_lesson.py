"""What the guide reads of one lab: its text, its figure, mistakes, records, and cost."""

from __future__ import annotations

import pytest
from authoring import generate
from authoring.guide import lesson, mistakes, results
from labkit.errors import LabError

from tests.authoring.guide import guide_lab
from tests.authoring.guide.guide_lab import STEM


@pytest.fixture
def guided(checkout):
    guide_lab.put(checkout)
    return checkout


@pytest.fixture
def told(guided) -> lesson.Lesson:
    return lesson.read(generate.load(STEM))


def test_the_one_exercise_is_the_first_or_that_which_is_named(told, guided):
    assert told.must_do == ("91.1",)
    assert lesson.read(generate.load(STEM), must_do=("91.2", "91.1")).must_do == ("91.2", "91.1")
    with pytest.raises(LabError, match="Lab 91_guided has no exercise '91.9'"):
        lesson.read(generate.load(STEM), must_do=("91.9",))


def test_the_figure_is_the_last_one_or_that_which_is_named(told):
    assert told.figure.title == "Sums of … grow"
    assert told.figure.heading == "Measure"
    assert lesson.read(generate.load(STEM), "A last").figure.title == "A last one"
    with pytest.raises(LabError, match="no figure 'None of them'"):
        lesson.read(generate.load(STEM), "None of them")


def test_mistakes_come_from_the_wrong_answers(guided):
    read = mistakes.read(guided.root, STEM)
    assert [mistake.exercise for mistake in read] == ["91.1", "91.1", "91.1", "91.2"]
    assert read[0].mistake == "takes <away>"
    assert [mistake.says for mistake in read[1:3]] == ["expected 3, got 1", "without an end"]
    assert read[3].says == "It is got 6 in …, not less.", (
        "the whole sentence, where the lab holds it"
    )
    assert mistakes.read(guided.root, "92_none") == []


def test_results_by_machine(guided):
    one, other = results.read(guided.root, STEM)
    assert (one.machine, one.revision) == ("A CPU, 2 cores", "aaaabbbbcccc")
    assert [row[-1] for row in one.tables[0]["rows"]] == ["0.5", "0.25"]
    assert other.machine == "Another, 2 cores, cuda:0"
    assert results.read(guided.root, "92_none") == []

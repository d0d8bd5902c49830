"""What the guide reads of one lab: its text, its figure, mistakes, records, and cost."""

from __future__ import annotations

import pytest
from authoring import generate
from authoring.guide import cost, lesson, mistakes, results

from tests.authoring.guide import guide_lab
from tests.authoring.guide.guide_lab import STEM


@pytest.fixture
def guided(checkout):
    guide_lab.put(checkout)
    return checkout


@pytest.fixture
def told(guided) -> lesson.Lesson:
    return lesson.read(generate.load(STEM))


def test_the_one_exercise_is_that_which_most_cells_need(told, guided):
    assert told.must_do.number == "91.1", "91.2, its check and the last cell need it"
    assert told.must_do.why.startswith("3 later cells")
    assert told.must_do.needs == ()
    source = guided.root / "solutions" / f"{STEM}.py"
    said = '# *In the track "x", exercise 91.2 is the one to do.*\n#\n# ### 1. Sums'
    source.write_text(source.read_text().replace("# ### 1. Sums", said, 1))
    named = lesson.read(generate.load(STEM)).must_do
    assert (named.number, named.needs) == ("91.2", ("91.1",))
    assert "the lab names it" in named.why


def test_the_figure_is_the_last_one_that_is_explained(told):
    assert told.figure.title == "Sums of … grow"
    assert told.figure.call == "plots.bars"
    assert told.figure.heading == "Measure"


def test_mistakes_come_from_the_wrong_answers(guided):
    read = mistakes.read(guided.root, STEM)
    assert [mistake.exercise for mistake in read] == ["91.1", "91.1", "91.1", "91.2"]
    assert read[0].mistake == "takes <away>"
    assert [mistake.says for mistake in read[1:3]] == ["expected 3, got 1", "without an end"]
    assert read[3].says == "It is got 6 in …, not less.", "the whole sentence, where the lab holds it"
    assert mistakes.read(guided.root, "92_none") == []


def test_results_by_machine(guided):
    one, other = results.read(guided.root, STEM)
    assert (one.machine, one.revision, one.minutes) == ("A CPU, 2 cores", "aaaabbbbcccc", 1.0)
    assert [row[-1] for row in one.tables[0]["rows"]] == ["0.5", "0.25"]
    assert (other.machine, other.minutes) == ("Another, 2 cores, cuda:0", None)
    assert results.read(guided.root, "92_none") == []


def test_cost_of_a_class(guided):
    job = cost.read(guided.root, STEM)
    assert job == (2, 4, 15)
    assert job.node_minutes(40) == 1200
    assert cost.read(guided.root, "92_none") is None

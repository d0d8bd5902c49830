"""What the guide reads of one lab: its text, its figure, mistakes, records, and cost."""

from __future__ import annotations

import json

import pytest
from authoring import generate
from authoring.guide import cost, figures, lesson, mistakes, results
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


def test_aim_ideas_and_what_is_taken_away(told):
    assert told.name == "91 Guided"
    assert told.objectives == ("add", "scale `x` (for those who have time)", "stop")
    assert [idea.title for idea in told.ideas] == ["1. Sums"]
    assert told.taken_away == "- Sums add."


def test_exercises_with_level_task_hints_and_answer(told):
    add, twice = told.tasks
    assert (add.number, add.title, add.level) == ("91.1", "Add", "beginner")
    assert add.text == "Add them up, as [lab 90](90_tiny.ipynb) does."
    assert [title for title, _ in add.hints] == ["Hint 1: what is a sum", "Hint 2: nearly"]
    assert "return a + b" in add.answers[0]
    assert twice.level == "advanced"
    assert told.levels == {"beginner": 1, "intermediate": 0, "advanced": 1}


def test_questions_have_their_answers_and_explains_their_place(told):
    (asked,) = told.questions
    assert asked.question == "Is it long for more numbers?"
    assert asked.answer == "Yes: it grows."
    assert asked.where == "Measure"
    (explained,) = told.explains
    assert explained.text.startswith("You should see one bar.")
    assert explained.cell > told.figure.cell


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


def test_another_figure_can_be_named(guided):
    lab = generate.load(STEM)
    assert lesson.read(lab, "A last").figure.title == "A last one"
    assert lesson.read(lab, "plots.loss").figure.title == "A last one"
    with pytest.raises(LabError, match=r"no figure 'Nothing'. Its figures: Sums of … grow; A last one"):
        lesson.read(lab, "Nothing")


def test_a_picture_is_found_by_its_cell(tmp_path):
    book = tmp_path / "x.ipynb"
    assert figures.picture(book, 3) is None
    outputs = [{"data": {"image/png": "Zmlyc3Q=\n"}}, {"data": {"image/png": ["bGFz", "dA==\n"]}}]
    cells = [{"id": "cell-03", "outputs": []}, {"id": "cell-04", "outputs": outputs}]
    book.write_text(json.dumps({"cells": cells}))
    assert figures.picture(book, 3) == "bGFzdA=="
    assert figures.picture(book, 2) is None
    assert figures.picture(book, 9) is None


def test_first_sentences_leave_out_what_a_table_should_follow():
    assert lesson.first_sentences("| a |\n\nOne. Two. Three.") == "One. Two."
    assert lesson.first_sentences("One. So it stands:\n\n| a |") == "One."
    assert lesson.first_sentences("So it stands:") == "So it stands:"
    assert lesson.first_sentences("<details><summary>Hint</summary>x</details>") == ""


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

"""A checkout, or an archive of it: what each says of itself, and how labkit reads the labs
there."""

from __future__ import annotations

import shutil

import pytest
from labkit import copies, edition, hint, journal, labfile
from labkit.edition import Edition
from labkit.errors import LabError


@pytest.fixture
def learners(built):
    """The tiny lab as a learner has it: no solution, and the archive says what it is."""
    for path in built.root.glob("solutions/90*"):
        path.unlink()
    shutil.rmtree(built.root / "tests")
    text = edition.text(Edition(edition.LEARNERS, "1.2", "abcdefabcdef"))
    (built.root / edition.FILE).write_text(text)
    return built


def test_a_checkout_is_no_edition(built):
    assert edition.read(built.root) is None
    assert not edition.is_learners(built.root)
    edition.need_solutions("It", built.root)
    assert labfile.folder() == built.root / "solutions"
    (built.root / edition.FILE).write_text('{"kind": "learners"}')
    assert edition.read(built.root) is None, "half of one is none"


def test_the_instructors_archive_has_solutions(built):
    (built.root / edition.FILE).write_text(edition.text(Edition(edition.INSTRUCTORS, "1.2", "abc")))
    edition.need_solutions("It", built.root)
    assert labfile.stems() == ["90_tiny"]
    assert edition.revision(built.root) == "abc"


def test_learners_labs_are_read_from_their_own_scripts(learners, capsys):
    assert labfile.stems() == ["90_tiny"]
    assert labfile.find("90") == "90_tiny"
    assert labfile.headers(learners.root)["90_tiny"].minutes == 5
    assert copies.script("90_tiny") == learners.root / "work/90_tiny.py"
    journal.show(learners.root)
    assert "0 of 2 exercises solved." in capsys.readouterr().out


def test_what_learners_lack_is_one_sentence(learners):
    with pytest.raises(LabError) as error:
        copies.script("90_tiny", solved=True)
    said = "A solved lab is not in the learners' archive, which holds no solutions and no tests."
    assert str(error.value) == f"{said} Your instructor has it."


def test_hints_are_there_and_the_way_out_is_a_person(learners, capsys):
    for _ in range(3):
        hint("90.1")
    said = capsys.readouterr().out
    assert "Hint 2: nearly the answer" in said
    assert "No more hints for 90.1. Your instructor has the answer of 90.1." in said
    assert "make solve" not in said
    with pytest.raises(LabError, match="There is no lab for exercise '12.1'"):
        hint("12.1")

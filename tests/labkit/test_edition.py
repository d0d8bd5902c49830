"""A checkout, or an archive of it: what each says of itself, and what its hints are. What learners
can do in their archive is tried in tests/authoring/test_release.py."""

import shutil

import pytest
from labkit import edition, hint, labfile
from labkit.edition import Edition
from labkit.errors import LabError


def put(checkout, kind: str) -> None:
    text = edition.text(Edition(kind, "1.2", "abcdefabcdef"))
    (checkout.root / edition.FILE).write_text(text)


def test_a_checkout_is_no_edition_and_the_instructors_archive_has_solutions(built):
    assert edition.read(built.root) is None
    (built.root / edition.FILE).write_text('{"kind": "learners"}')
    assert edition.read(built.root) is None, "half of one is none"
    put(built, edition.INSTRUCTORS)
    assert not edition.is_learners(built.root)
    edition.need_solutions("It", built.root)
    assert labfile.folder() == built.root / "solutions"
    assert labfile.stems() == ["90_tiny"]
    assert edition.revision(built.root) == "abcdefabcdef"


def test_hints_are_there_and_the_way_out_is_a_person(built, capsys):
    for path in built.root.glob("solutions/90*"):
        path.unlink()
    shutil.rmtree(built.root / "tests")
    put(built, edition.LEARNERS)
    for _ in range(3):
        hint("90.1")
    said = capsys.readouterr().out
    assert "Hint 2: nearly the answer" in said
    assert "No more hints for 90.1. Your instructor has the answer of 90.1." in said
    assert "make solve" not in said
    with pytest.raises(LabError, match="There is no lab for exercise '12.1'"):
        hint("12.1")
    with pytest.raises(LabError, match="It is not in the learners' archive"):
        edition.need_solutions("It", built.root)


def test_settings_of_a_lab_are_literals_or_words():
    rows = {"a=1e-3": 1e-3, "a=(1, 2)": (1, 2), "a=mpi": "mpi", "a=x=y": "x=y"}
    rows |= {"a=false": False, "a=TRUE": True, "a='false'": "false"}
    for text, value in rows.items():
        assert labfile.read_setting(text) == ("a", value)

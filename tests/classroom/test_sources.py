"""Files that are corrupt, foreign, huge or closed: a sentence each, and the board goes on."""

import json
import os
from datetime import date, timedelta
from pathlib import Path

import classroom
import pytest
from classroom import sources
from labkit.errors import LabError

NOW = 1_800_000_000.0
TODAY = date.fromtimestamp(NOW)
HEAD = {"labkit": "shared", "named": True, "pseudonym": "Calm Fox 17", "until": str(TODAY)}
FAILED = {"at": NOW - 60, "event": "failed", "exercise": "23.1", "tries": 2, "said": "No."}


@pytest.fixture(autouse=True)
def _no_class(monkeypatch):
    monkeypatch.delenv("LABKIT_CLASS", raising=False)


def content(*events: dict, **head) -> str:
    return "".join(json.dumps(line) + "\n" for line in ({**HEAD, **head}, *(events or (FAILED,))))


def look(folder: Path, **more) -> classroom.look:
    return classroom.look(folder, now=NOW, **more)


def names(folder: Path) -> list[str]:
    return [someone.name for someone in look(folder).learners]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A class folder of a hub that runs all its users as one; ada shares."""
    made = tmp_path / "class"
    made.mkdir(mode=0o700)
    (made / "ada.jsonl").write_text(content())
    return made


NOT_OURS, ONE_LINE = "not what `make share` writes", "1 line of the shared file could not be read"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", NOT_OURS),
        (b"hello\n", NOT_OURS),
        (os.urandom(4096), NOT_OURS),
        (b"[" * 100_000, NOT_OURS),
        (b"[1, 2]\n", NOT_OURS),
        (content(pseudonym="ada").encode(), NOT_OURS),  # somebody else's name
        (content(until="some day").encode(), NOT_OURS),
        (json.dumps(HEAD).encode() + b"\n", "has not begun a lab"),
        (content().encode() + b'{"at": 17', ONE_LINE),
        (content(*[FAILED] * 10_001).encode(), ONE_LINE),
        (b"x" * (sources.HUGE + 1), "bob has a huge file, 1 MB; `make share` writes it afresh."),
    ],
)
def test_a_corrupt_file_is_a_sentence_and_nobody_else_suffers(folder, text, sentence):
    (folder / "bob.jsonl").write_bytes(text)
    seen = look(folder)
    assert "ada" in [someone.name for someone in seen.learners]
    (note,) = seen.notes
    assert note.startswith("bob")
    assert sentence in note


A_LINE = {"event": "failed", "exercise": "23.1", "at": NOW}


@pytest.mark.parametrize(
    "wrong",
    [
        {"exercise": "99.9"},
        {"exercise": ["23.1"]},
        {"event": "start", "lab": "99_nothing"},
        {"event": "start", "lab": {}},
        {"at": ...},  # not there
        {"at": None},
        {"at": "yesterday"},
        {"at": True},
        {"at": -5},
        {"at": NOW + 10 * 86_400},
        {"at": float("nan")},
        {"at": float("inf")},
        {"at": 10**400},
        {"event": ["failed"]},
        {"said": "x" * 9000},
    ],
)
def test_a_line_that_cannot_be_believed_is_passed_over(folder, wrong):
    good = {"at": NOW - 60, "event": "failed", "exercise": "23.2", "tries": 1, "said": "No."}
    line = {name: value for name, value in (A_LINE | wrong).items() if value is not ...}
    (folder / "bob.jsonl").write_text(content(good, line, pseudonym="Calm Fox 18"))
    seen = look(folder)
    assert seen.notes == ["bob: 1 line of the shared file could not be read."]
    assert {someone.name: someone.exercise for someone in seen.learners}["bob"] == "23.2"


def test_values_that_cannot_be_believed_are_left_out(folder):
    for values, said in (
        ({"tries": -3, "hints": 10**30, "said": ["a"]}, ""),
        ({"said": "a\x1b[31m\ud800\nb\u202e"}, "a [31m b"),
    ):
        (folder / "bob.jsonl").write_text(content(A_LINE | values))
        seen = look(folder)
        bob = next(someone for someone in seen.learners if someone.name == "bob")
        assert (bob.here.tries, bob.here.hints, bob.said) == (0, 0, said)
        classroom.as_page(seen).encode()


def test_what_is_over_does_not_count(folder):
    (folder / "bob.jsonl").write_text(content(until=str(TODAY - timedelta(days=1))))
    assert names(folder) == ["ada"]
    assert look(folder).notes == []


def test_a_look_has_a_budget_and_the_largest_files_are_left_out(folder, monkeypatch):
    monkeypatch.setattr(sources, "BUDGET", 2000)
    monkeypatch.setattr(sources, "LEARNERS", 2)
    (folder / "bob.jsonl").write_text(content(*[FAILED] * 100))
    (folder / "cleo.jsonl").write_text(content(*[FAILED] * 200))
    seen = look(folder)
    assert [someone.name for someone in seen.learners] == ["ada"]
    assert seen.notes == [
        "The folder has files of 3 learners; those of 2 were read.",
        "bob was not read: the files of the class exceed 0 MB.",
    ]


def test_hidden_names_are_in_no_sentence(folder):
    (folder / "bob.jsonl").write_text("no")
    (folder / "cleo.jsonl").symlink_to("/etc/passwd")
    said = {**FAILED, "said": "No /data/dora/x of Dora."}
    (folder / "dora.jsonl").write_text(content(said, pseudonym="Calm Fox 18", named=False))
    seen = look(folder, hide_names=True)
    everything = classroom.as_text(seen) + classroom.as_page(seen)
    for name in ("ada", "bob", "cleo", "dora"):
        assert f"{name} " not in everything.lower()
        assert f"/{name}" not in everything.lower()
    assert "Calm Fox 17" in everything
    wide = classroom.as_text(look(folder), width=100)  # a narrow one cuts a name
    assert "Calm Fox 18" in wide, "who hides their name is hidden without that, too"


def test_without_a_folder_it_is_that_of_the_variable(folder, monkeypatch):
    monkeypatch.setenv("LABKIT_CLASS", str(folder))
    assert names(None) == ["ada"]
    monkeypatch.delenv("LABKIT_CLASS")
    with pytest.raises(LabError, match="Which class"):
        look(None)


@pytest.mark.parametrize("name", ["none", "file"])
def test_a_folder_that_is_not_there_is_a_sentence(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot be read .*DIR= names the class's folder"):
        look(tmp_path / name)

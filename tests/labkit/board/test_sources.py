"""Files that are corrupt, foreign, huge, links or closed: a sentence each, and the board goes on."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labkit import board, journal, paths
from labkit.board import sources
from labkit.errors import LabError

NOW = 1_800_000_000.0
HEAD = {
    "labkit": "shared",
    "version": 1,
    "named": True,
    "pseudonym": "Calm Fox 17",
    "since": "2027-01-15 08:00",
}
STRANGER, OTHER = 54321, 54322  # users that no machine has

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of several users")


@pytest.fixture(autouse=True)
def _no_class(monkeypatch):
    monkeypatch.delenv("LABKIT_CLASS", raising=False)


def content(*events: dict, **head) -> str:
    given = events or ({"at": NOW - 60, "event": "failed", "exercise": "23.1", "tries": 2, "said": "No."},)
    return "".join(json.dumps(line) + "\n" for line in ({**HEAD, **head}, *given))


def look(folder: Path, **more) -> board.look:
    return board.look(folder, now=NOW, **more)


def names(folder: Path) -> list[str]:
    return [someone.name for someone in look(folder).learners]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A class folder in which ada shares."""
    made = tmp_path / "class"
    made.mkdir()
    (made / "ada.jsonl").write_text(content())
    return made


BAD = {
    "empty": (b"", "is not what `make share` writes|a file that is not"),
    "no JSON": (b"hello\n", "not what `make share` writes"),
    "binary": (os.urandom(4096), "not what `make share` writes"),
    "nested": (b"[" * 100_000, "not what `make share` writes"),
    "a list": (b"[1, 2]\n", "not what `make share` writes"),
    "another's name as pseudonym": (content(pseudonym="ada").encode(), "not what `make share` writes"),
    "no events": (json.dumps(HEAD).encode() + b"\n", "has not begun a lab"),
    "one broken line": (content().encode() + b'{"at": 17', "1 line of the shared file could not be read"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_corrupt_file_is_a_sentence_and_nobody_else_suffers(folder, kind):
    text, sentence = BAD[kind]
    (folder / "bob.jsonl").write_bytes(text)
    classroom = look(folder)
    assert "ada" in [someone.name for someone in classroom.learners]
    (note,) = classroom.notes
    assert note.startswith("bob")
    assert any(part in note for part in sentence.split("|"))


@pytest.mark.parametrize(
    "event",
    [
        {"event": "failed", "exercise": "23.1"},
        {"event": "failed", "exercise": "99.9", "at": NOW},
        {"event": "failed", "exercise": ["23.1"], "at": NOW},
        {"event": "start", "lab": "99_nothing", "at": NOW},
        {"event": "start", "lab": {}, "at": NOW},
        {"event": "failed", "exercise": "23.1", "at": "yesterday"},
        {"event": "failed", "exercise": "23.1", "at": True},
        {"event": "failed", "exercise": "23.1", "at": -5},
        {"event": "failed", "exercise": "23.1", "at": NOW + 10 * 86_400},
        {"event": "failed", "exercise": "23.1", "at": float("nan")},
        {"event": "failed", "exercise": "23.1", "at": float("inf")},
        {"event": ["failed"], "exercise": "23.1", "at": NOW},
        {"event": "failed", "exercise": "23.1", "at": NOW, "said": "x" * 9000},
    ],
)
def test_a_line_that_cannot_be_believed_is_passed_over(folder, event):
    good = {"at": NOW - 60, "event": "failed", "exercise": "23.2", "tries": 1, "said": "No."}
    (folder / "bob.jsonl").write_text(content(good, event, pseudonym="Calm Fox 18"))
    classroom = look(folder)
    assert classroom.notes == ["bob: 1 line of the shared file could not be read."]
    assert {someone.name: someone.exercise for someone in classroom.learners}["bob"] == "23.2"


def test_values_that_cannot_be_believed_are_left_out(folder):
    wild = {"at": NOW, "event": "failed", "exercise": "23.1", "tries": -3, "hints": 10**30, "said": ["a"]}
    (folder / "bob.jsonl").write_text(content(wild))
    bob = next(someone for someone in look(folder).learners if someone.name == "bob")
    assert (bob.here.tries, bob.here.hints, bob.said) == (0, 0, "")
    odd = {"at": NOW, "event": "failed", "exercise": "23.1", "said": "a\x1b[31m\ud800\nb\u202e"}
    (folder / "bob.jsonl").write_text(content(odd))
    bob = next(someone for someone in look(folder).learners if someone.name == "bob")
    assert bob.said == "a [31m b"
    board.as_page(look(folder)).encode()


def test_links_pipes_folders_and_foreign_files_are_sentences(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(content(pseudonym="Calm Fox 18"))
    (folder / "bob.jsonl").symlink_to(secret)
    os.mkfifo(folder / "cleo.jsonl")
    (folder / "notes.txt").write_text("mine")
    (folder / ".sharing-left").write_text("of a killed writer")
    (folder / os.fsdecode(b"\xff\x1b.txt")).write_text("")
    classroom = look(folder)
    assert [someone.name for someone in classroom.learners] == ["ada"]
    assert sorted(classroom.notes) == [
        "?? is no learner's file: those end in .jsonl, and `make share` writes them.".replace("??", "??.txt"),
        "bob is a link, and links are not followed.",
        "cleo is no plain file.",
        "notes.txt is no learner's file: those end in .jsonl, and `make share` writes them.",
    ]


def test_a_huge_file_is_not_read(folder):
    with (folder / "bob.jsonl").open("wb") as stream:
        stream.truncate(5_000_000_000)  # a file with a hole: no disk is filled
    assert look(folder).notes == ["bob is huge, 5000 MB; `make share` writes it afresh."]
    assert names(folder) == ["ada"]


def test_a_folder_with_too_many_entries_is_cut(folder, monkeypatch):
    monkeypatch.setattr(sources, "MOST", 2)
    for name in ("b", "c"):
        (folder / f"{name}.jsonl").write_text(content())
    classroom = look(folder)
    assert len(classroom.learners) == 2
    assert classroom.notes == ["The folder has 3 entries; the first 2 were read."]


def test_hidden_names_are_in_no_sentence(folder):
    (folder / "bob.jsonl").write_text("no")
    (folder / "cleo.jsonl").symlink_to("/etc/passwd")
    event = {
        "at": NOW - 60,
        "event": "failed",
        "exercise": "23.1",
        "tries": 2,
        "said": "No /data/dora/x of Dora.",
    }
    (folder / "dora.jsonl").write_text(content(event, pseudonym="Calm Fox 18", named=False))
    classroom = look(folder, hide_names=True)
    everything = board.as_text(classroom) + board.as_page(classroom)
    for name in ("ada", "bob", "cleo", "dora"):
        assert f"{name} " not in everything.lower()
        assert f"/{name}" not in everything.lower()
    assert "Calm Fox 17" in everything
    wide = board.as_text(look(folder), width=100)  # a narrow one folds a name
    assert "Calm Fox 18" in wide, "who hides their name is hidden without that, too"


def test_homes_are_read_where_labkit_keeps_its_folder(tmp_path):
    for name, below in (
        ("ada", ".local/state/labkit"),
        ("bob", "hpdl/.labkit"),
        ("cleo", ".labkit"),
        ("dora", "."),
        ("ed", "empty"),
    ):
        own = tmp_path / name / below
        own.mkdir(parents=True)
        if name != "ed":
            (own / journal.FILE).write_text(content())
    (tmp_path / "lost+found").mkdir()
    assert names(tmp_path) == ["ada", "bob", "cleo", "dora"]
    assert look(tmp_path).silent == 1
    newer = tmp_path / "ada/.labkit"
    newer.mkdir()
    (newer / journal.FILE).write_text(content({"at": NOW, "event": "start", "lab": "30_average_gradients"}))
    os.utime(tmp_path / "ada/.local/state/labkit" / journal.FILE, (NOW, NOW - 9e8))
    stems = {someone.name: someone.stem for someone in look(tmp_path).learners}
    assert stems["ada"] == "30_average_gradients", "the newest of one learner's files"


def test_links_in_a_home_are_not_followed(tmp_path):
    real = tmp_path / "elsewhere"
    real.mkdir()
    (real / journal.FILE).write_text(content())
    homes = tmp_path / "homes"
    (homes / "ada").mkdir(parents=True)
    (homes / "ada/.labkit").symlink_to(real)
    (homes / "bob").mkdir()
    (homes / "bob" / journal.FILE).symlink_to(real / journal.FILE)
    (homes / "cleo").symlink_to(real)
    classroom = look(homes)
    assert classroom.learners == []
    assert classroom.notes == [
        "bob is a link, and links are not followed.",
        "cleo is a link, and links are not followed.",
    ]


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        with pytest.raises(LabError, match=r"cannot be read .*DIR= names the class's folder"):
            look(tmp_path / name)


def test_without_a_folder_it_is_that_of_the_variable_or_of_this_machines_users(folder, tmp_path, monkeypatch):
    users = [pwd.struct_passwd(("eve", "x", 1001, 1001, "", str(tmp_path / "eve"), "")),
             pwd.struct_passwd(("daemon", "x", 1, 1, "", str(tmp_path / "daemon"), ""))]  # fmt: skip
    monkeypatch.setattr(sources.pwd, "getpwall", lambda: users)
    for name in ("eve", "daemon"):
        (tmp_path / name).mkdir()
        (tmp_path / name / journal.FILE).write_text(content())
    assert [someone.name for someone in board.look(now=NOW).learners] == ["eve"]
    (paths.home() / journal.FILE).write_text(content())
    assert len(board.look(now=NOW).learners) == 2, "and of whoever asks"
    monkeypatch.setenv("LABKIT_CLASS", str(folder))
    assert [someone.name for someone in board.look(now=NOW).learners] == ["ada"]


@as_root
def test_a_file_counts_for_its_owner_whatever_its_name(folder):
    for name, user in (("victim", STRANGER), ("second", STRANGER), ("zoe", OTHER)):
        (folder / f"{name}.jsonl").write_text(content())
        os.chown(folder / f"{name}.jsonl", user, user)
    assert names(folder) == ["ada", f"user {STRANGER}", f"user {OTHER}"]
    (note,) = look(folder).notes
    assert note == f"victim belongs to user {STRANGER}, whose file second.jsonl was read already."


@as_root
def test_in_a_home_another_ones_file_does_not_count(tmp_path):
    home = tmp_path / "homes/ada"
    home.mkdir(parents=True)
    (home / journal.FILE).write_text(content())
    os.chown(home, STRANGER, STRANGER)
    assert names(tmp_path / "homes") == []
    assert "belongs to root: a file counts only for its owner" in look(tmp_path / "homes").notes[0]


def as_user(user: int, variables: dict[str, str], call: Callable[[], object]) -> object:
    """What call() returns in a process of another user, who has a group of their own."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        answer = "it failed"
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.environ.update(variables)
            with contextlib.redirect_stdout(None):
                answer = call()
        finally:
            os.write(start, json.dumps(answer).encode())
            os._exit(0)
    os.close(start)
    with open(end, encoding="utf-8") as stream:
        answer = json.load(stream)
    os.waitpid(child, 0)
    return answer


def refusals(folder: Path, name: str) -> list[str]:
    """What a user may not do with a class folder and another learner's file in it."""
    tries = {
        "list": lambda: os.listdir(folder),
        "read": lambda: (folder / name).read_text(),
        "delete": lambda: (folder / name).unlink(),
        "replace": lambda: (folder / "own").rename(folder / name),
    }
    (folder / "own").write_text("")
    refused = []
    for what, call in tries.items():
        try:
            call()
        except PermissionError:
            refused.append(what)
    (folder / "own").unlink()
    return refused


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder whose entries other users reach; tmp_path is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@as_root
def test_learners_share_into_a_class_folder_and_read_nothing_there(open_folder):
    """Three real users: an instructor with a group of their own, and two learners."""
    if any(not parent.stat().st_mode & 1 for parent in (paths.root(), *paths.root().parents)):
        pytest.skip("this checkout lies where other users cannot read it")
    teacher, ada, bob = 54330, 54331, 54332
    folder = open_folder / "class"
    folder.mkdir()
    os.chown(folder, teacher, teacher)
    where = {}
    for user in (teacher, ada, bob):
        home = open_folder / str(user)
        home.mkdir(mode=0o700)
        os.chown(home, user, user)
        where[user] = {"LABKIT_HOME": str(home), "LABKIT_CLASS": str(folder)}

    def begin() -> None:
        journal.note("start", lab="23_ring_allreduce")
        journal.share()

    def seen() -> list:
        classroom = board.look()
        return [[someone.name for someone in classroom.learners], classroom.notes]

    assert as_user(teacher, where[teacher], lambda: board.main([str(folder), "--new"])) == 0
    for user in (ada, bob):
        as_user(user, where[user], begin)
    assert as_user(teacher, where[teacher], seen) == [[f"user {ada}", f"user {bob}"], []]
    everything = ["list", "read", "delete", "replace"]
    assert as_user(bob, where[bob], lambda: refusals(folder, f"{ada}.jsonl")) == everything
    as_user(ada, where[ada], journal.unshare)
    assert [file.name for file in folder.iterdir()] == [f"{bob}.jsonl"]

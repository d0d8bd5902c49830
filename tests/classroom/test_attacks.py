"""What one learner of a class cannot do to the others, or to whoever runs the board: tried as other
users."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import classroom
import pytest
from labkit import journal, paths

from tests.classroom.test_sources import NOW, content, names

MALLORY, BOB, TEACHER = 61234, 61235, 61236  # users that no machine has
START = {"at": NOW - 60, "event": "start", "lab": "23_ring_allreduce"}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="needs root: it attacks as other users"
)


def as_user(user: int, call: Callable[[], object], **variables: str) -> object:
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
    assert answer != "it failed"
    return answer


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose entries other users reach; tmp_path is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def folder(place) -> Path:
    """A class folder in which Bob shares."""
    made = place / "class"
    assert classroom.main([str(made), "--new"]) == 0
    as_user(BOB, lambda: (made / f"{BOB}.jsonl").write_text(content(START)))
    return made


def bytes_read(folder: Path) -> int:
    """How many bytes one look reads, from files of all kinds."""

    def so_far() -> int:
        return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])

    before = so_far()
    classroom.look(folder, now=NOW)
    return so_far() - before


def impersonate(folder: Path) -> None:
    for login in ("root", f"user {BOB}"):
        (folder / f"{login}.jsonl").write_text(content(START))


def flood(folder: Path) -> None:
    for number in range(1000):
        (folder / f"!{number:04}.jsonl").touch()
    for number in range(100):
        (folder / f"!{number:04}").mkdir()


def junk(folder: Path) -> None:
    os.mkfifo(folder / "a.jsonl")
    (folder / "b.jsonl").symlink_to("/etc/passwd")
    (folder / "c.jsonl").symlink_to(folder / f"{BOB}.jsonl")


def escape(folder: Path) -> None:
    for name in ("a\x1b]0;x\x07\x1b[31m", "b\x9b31m\u202e"):
        (folder / f"{name}.jsonl").write_text(content({**START, "event": "failed"}))
        (folder / name).touch()
    said = {"at": NOW - 60, "event": "failed", "exercise": "23.1", "said": "\x1b[2J\x9b31m\u202ea"}
    (folder / "c.jsonl").write_text(content(said))


@pytest.mark.parametrize("attack", [impersonate, flood, junk, escape])
def test_a_learner_is_shown_once_by_their_own_name_and_hides_nobody(folder, attack):
    as_user(MALLORY, lambda: attack(folder))
    seen = classroom.look(folder, now=NOW)
    shown = [someone.name for someone in seen.learners]
    assert set(shown) <= {f"user {MALLORY}", f"user {BOB}"}
    assert len(shown) == len(set(shown))
    assert f"user {BOB}" in shown
    assert len(seen.notes) <= 1, "one sentence about one learner"
    for text in (classroom.as_text(seen), classroom.as_page(seen)):
        assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_a_copied_pseudonym_is_said(folder):
    hidden = content(START, named=False)
    for user in (MALLORY, TEACHER):
        as_user(user, lambda user=user: (folder / f"{user}.jsonl").write_text(hidden))
    seen = classroom.look(folder, now=NOW)
    assert len(seen.learners) == 3
    assert seen.notes == ["2 learners call themselves Calm Fox 17: somebody may have copied it."]


def sparse_files(folder: Path) -> None:
    for number in range(60):
        with (folder / f"{number}.jsonl").open("wb") as stream:
            stream.truncate(7_900_000)


def hard_links(folder: Path) -> None:
    first = folder / "0.jsonl"
    first.write_text(content(*[START] * 5000))
    for number in range(1, 300):
        os.link(first, folder / f"{number}.jsonl")


@pytest.mark.parametrize("attack", [sparse_files, hard_links])
def test_a_look_at_one_learner_costs_little(folder, attack):
    before = bytes_read(folder)
    as_user(MALLORY, lambda: attack(folder))
    assert bytes_read(folder) - before < 1_000_000, "of some hundred MB"
    assert f"user {BOB}" in names(folder)


def sharing(place: Path, user: int, folder: Path) -> dict[str, str]:
    """The environment of a user with a home of their own, who shares with that class."""
    home = place / str(user)
    home.mkdir()
    os.chown(home, user, user)
    return {"LABKIT_HOME": str(home), "LABKIT_CLASS": str(folder)}


def begin() -> None:
    journal.share(named=True)
    journal.note("start", lab="23_ring_allreduce")


def link_away(file: Path) -> None:
    file.symlink_to("/etc/hostname")


@pytest.mark.parametrize("squat", [Path.touch, link_away, Path.mkdir, os.mkfifo])
def test_nobody_keeps_a_learner_from_sharing(place, squat):
    folder = place / "class"
    assert classroom.main([str(folder), "--new"]) == 0
    taken = folder / f"{BOB}.jsonl"
    as_user(MALLORY, lambda: squat(taken))
    own = sharing(place, BOB, folder)
    as_user(BOB, begin, **own)
    as_user(BOB, lambda: journal.share(named=True), **own)
    assert [someone.name for someone in classroom.look(folder).learners] == [f"user {BOB}"]
    assert len(list(folder.iterdir())) == 2
    as_user(BOB, journal.unshare, **own)
    assert list(folder.iterdir()) == [taken]


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


def test_the_owner_of_a_class_folder_reads_it_and_learners_do_not(place, folder):
    """As on a hub: the folder belongs to a system user with a group of their own, and so does the
    board."""
    if any(not parent.stat().st_mode & 1 for parent in (paths.root(), *paths.root().parents)):
        assert not os.environ.get("CI"), "this checkout lies where other users cannot read it"
        pytest.skip("needs a checkout that other users can read")
    os.chown(folder, TEACHER, TEACHER)

    def seen() -> list:
        seen = classroom.look()
        return [[someone.name for someone in seen.learners], seen.notes]

    (folder / f"{BOB}.jsonl").unlink()
    as_user(MALLORY, begin, **sharing(place, MALLORY, folder))
    shared = folder / f"{MALLORY}.jsonl"
    assert (shared.stat().st_gid, shared.stat().st_mode & 0o777) == (TEACHER, 0o640)
    assert as_user(TEACHER, seen, LABKIT_CLASS=str(folder)) == [[f"user {MALLORY}"], []]
    refused = as_user(BOB, lambda: refusals(folder, shared.name))
    assert refused == ["list", "read", "delete", "replace"]

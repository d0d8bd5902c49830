"""What is kept of a learner's work, for them alone; and what is shared, once they agree."""

import contextlib
import inspect
import io
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import virtual
from labkit import expect, journal, paths
from labkit.cli import main
from labkit.errors import CheckFailed, LabError
from labkit.journal import log, names, sharing

from tests.labkit.checks.tried import tried

STEM = "23_ring_allreduce"


@pytest.fixture(autouse=True)
def class_folder(tmp_path, monkeypatch) -> Path:
    """A class folder, for ada."""
    folder = tmp_path / "class"
    folder.mkdir()
    monkeypatch.setenv("LABKIT_CLASS", str(folder))
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    monkeypatch.setenv("LABKIT_LAB", STEM)
    return folder


def fail(sentence: str, number: str = "23.1") -> None:
    with pytest.raises(CheckFailed):
        tried(number, lambda: expect(False, sentence))


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def own() -> list[dict]:
    return lines(log.path())


def shared_file() -> Path:
    return Path(os.environ["LABKIT_CLASS"]) / "ada.jsonl"


def shared() -> list[dict]:
    return lines(shared_file())


@contextlib.contextmanager
def days_later(days: float) -> Iterator[None]:
    with mock.patch.object(time, "time", return_value=time.time() + days * 86_400):
        yield


def test_without_agreement_there_is_no_file_to_read_and_after_it_there_is_one(capsys):
    fail("First.")
    journal.note("guess", exercise="23.1", values={"size": 3})
    assert not shared_file().exists()
    capsys.readouterr()
    journal.share(named=True)
    said = capsys.readouterr().out
    assert "shows you by your name" in said
    printed = [line[2:] for line in said.splitlines() if line.startswith("  {")]
    assert printed == shared_file().read_text().splitlines(), "the very lines that are shared"
    journal.note("guess", exercise="23.1", values={"size": 4})
    journal.note("progress", exercises={"23.1": {"tries": 9}})
    journal.note("hint", exercise="23.1", hints=1)
    head, *events = shared()
    assert (head["labkit"], head["named"]) == ("shared", True)
    told = [(event["event"], event.get("said")) for event in events]
    assert told == [("failed", "First."), ("hint", None)], "guesses are never sent"
    assert stat.S_IMODE(shared_file().stat().st_mode) == 0o600
    journal.unshare()
    assert "You share nothing" in capsys.readouterr().out
    fail("Third.")
    assert not shared_file().exists()
    assert own()[-1]["said"] == "Third.", "their own journal goes on"


def test_what_happened_before_the_day_of_the_agreement_is_never_sent():
    with days_later(-1):
        fail("Yesterday.", "23.1")
    fail("Today.", "23.2")
    journal.share(named=True)
    head, *events = shared()
    assert set(head) == {"labkit", "version", "named", "pseudonym", "until"}
    assert [event["said"] for event in events] == ["Today."]
    with days_later(1):
        journal.share(named=False)
        assert len(shared()) == 2, "a change of the name begins nothing anew"
        journal.unshare()
        journal.share(named=True)
        assert len(shared()) == 1


def test_tries_and_hints_are_counted_from_the_day_of_the_agreement():
    journal.note("progress", exercises={"23.1": {"tries": 9}})
    with days_later(-1):
        fail("Yesterday.", "23.1")
        journal.note("hint", exercise="23.1", hints=2)
    fail("Today.", "23.1")
    journal.share(named=True)
    fail("Again.", "23.1")
    journal.note("hint", exercise="23.1", hints=3)
    _, *events = shared()
    assert [event.get("tries") for event in events] == [1, 2, None]
    assert events[-1]["hints"] == 1
    assert own()[-2]["tries"] == 12, "their own journal counts all"


ANSWERS = [("n\n", True), ("P\n", False), ("\n", None), ("yes\n", None), ("", None)]


@pytest.mark.parametrize(("answer", "named"), ANSWERS)
def test_a_terminal_is_asked(capsys, monkeypatch, answer, named):
    answers = io.StringIO(answer)
    answers.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", answers)
    assert main(["share"]) == 0
    text = capsys.readouterr().out
    assert "whoever runs it can look up whose file it is" in text
    if named is None:
        assert not shared_file().exists()
        assert "You share nothing" in text
    else:
        assert shared()[0]["named"] is named


def test_without_a_terminal_and_an_answer_nothing_is_shared(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert main(["share"]) == 2
    assert "`make share NAMED=1` is by your name" in capsys.readouterr().err
    with pytest.raises(journal.Unanswered, match=r"in a notebook, share\(named=True\)"):
        journal.share()
    assert not shared_file().exists()


def test_sharing_ends_with_the_day_of_the_agreement():
    journal.share(named=True)
    until = date.fromisoformat(shared()[0]["until"])
    assert until - date.today() == timedelta(days=14)
    with days_later(15):
        assert "that ended on" in journal.status()
        fail("After.")
        assert not shared_file().exists()
        assert "You share nothing" in journal.status()
    assert own()[-1]["said"] == "After."


def test_a_pseudonym_is_drawn_once_and_stays():
    journal.share(named=False)
    first = shared()[0]
    assert journal.PSEUDONYM.fullmatch(first["pseudonym"])
    assert first["named"] is False
    assert first["pseudonym"] in journal.status()
    journal.unshare()
    journal.share(named=True)
    assert shared()[0]["pseudonym"] == first["pseudonym"]
    assert shared()[0]["named"] is True
    drawn = {names.draw() for _ in range(300)}
    assert len(drawn) > 250
    assert all(journal.PSEUDONYM.fullmatch(name) for name in drawn)


def test_the_verbs_of_the_command_line(capsys):
    today = str(date.today())
    for words, status, says in (
        (["share", "--hidden", "--until", today], 0, f"without your name until {today}"),
        (["share", "--status"], 0, "without your name"),
        (["share", "--named", "--until", "soon"], 1, "soon is no day"),
        (["share", "--named", "--until", "2026-02-30"], 1, "2026-02-30 is no day"),
        (["share", "--named", "--until", "2020-01-01"], 1, "not on 2020-01-01"),
        (["share", "--named", "--until", "9999-12-31"], 1, "not on 9999-12-31"),
        (["share", "--status"], 0, "without your name"),
        (["unshare"], 0, "You share nothing"),
        (["unshare"], 0, "You share nothing"),  # twice does no harm
    ):
        assert main(words) == status
        assert says in "".join(capsys.readouterr())
    with pytest.raises(SystemExit):
        main(["share", "--hidden", "--named"])


@pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="only root can give a file away"
)
def test_unshare_leaves_another_users_file(class_folder):
    journal.share(named=True)
    os.chown(shared_file(), 54321, 54321)
    fail("Not mine.")
    assert len(shared()) == 1
    journal.unshare()
    assert shared_file().exists()


def test_a_hubs_user_is_no_path(class_folder, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "../../.bashrc")
    journal.share(named=True)
    (file,) = class_folder.iterdir()
    assert file.name == "_.%2F..%2F.bashrc.jsonl"


def test_a_class_folder_that_is_not_there_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_CLASS", str(tmp_path / "none"))
    with pytest.raises(LabError, match="which is no folder. Ask your instructor"):
        journal.share(named=True)
    monkeypatch.delenv("LABKIT_CLASS")
    with pytest.raises(LabError, match="LABKIT_CLASS names no folder"):
        journal.share(named=True)
    assert "You share nothing" in journal.status()
    journal.unshare()


def test_a_class_folder_that_refuses_leaves_nothing_agreed(class_folder, monkeypatch):
    write = sharing.files.replace

    def refused(path: Path, *given, **named) -> None:
        if path.parent == class_folder:
            raise PermissionError(13, "Permission denied")
        write(path, *given, **named)

    monkeypatch.setattr(sharing.files, "replace", refused)
    with pytest.raises(LabError, match=r"written \(Permission denied\), so nothing is shared"):
        journal.share(named=True)
    assert "You share nothing" in journal.status()


def test_nothing_more_is_written_to_a_file_that_cannot_be_deleted(monkeypatch):
    journal.share(named=True)
    before = shared_file().read_text()
    with monkeypatch.context() as patch:
        patch.setattr(
            Path, "unlink", mock.Mock(side_effect=PermissionError(13, "Permission denied"))
        )
        with pytest.raises(LabError, match=r"cannot be deleted \(Permission denied\)"):
            journal.unshare()
        fail("After.")
        assert shared_file().read_text() == before
    assert "You share nothing any more" in journal.status()
    journal.unshare()
    assert not shared_file().exists()


def test_a_shared_file_that_became_a_link_or_was_removed_is_not_written(class_folder, tmp_path):
    journal.share(named=True)
    file = class_folder / "ada.jsonl"
    target = tmp_path / "target"
    target.write_text("")
    file.unlink()
    fail("Gone.")
    assert not file.exists(), "only `share` makes it"
    assert "was removed" in journal.status()
    file.symlink_to(target)
    fail("A link.")
    assert target.read_text() == ""


def test_what_leaves_is_without_the_learners_code_and_paths():
    own_line = "  (line 3 in shard: return own[0])\nmore lines"
    fail(f"ValueError: no {paths.home()}/x and {Path.home()}/y{own_line}")
    assert own()[-1]["said"] == "ValueError: no …/x and ~/y"
    fail("\x1b[31mred " + "long " * 100)
    said = own()[-1]["said"]
    assert (len(said), said[:12], said[-1]) == (200, " [31mred lon", "…")


def ring(comm):
    comm.Recv(np.zeros(3), source=1 - comm.rank)


def dropped(comm):
    comm.send("mine", dest=1 - comm.rank)


def too_early(comm):
    box = np.zeros(3)
    comm.Irecv(box, source=1 - comm.rank)
    comm.Send(box, dest=1 - comm.rank)


def alone(comm):
    return [1, 2][comm.rank + 2]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (ring, "deadlock: rank 0 waits in Recv from rank 1, rank 1 waits in Recv from rank 0 (the"),
        (dropped, " bytes with tag 0, and nobody received them."),
        (too_early, " sends the buffer of an Irecv that is not over. Wait for that request first."),
        (alone, "rank 0 failed: IndexError: list index out of range"),
    ],
)
def test_what_leaves_is_without_the_lines_of_a_program(program, said):
    code = inspect.getsource(program).splitlines()[-1].strip()
    with pytest.raises(CheckFailed, match=re.escape(code)):
        tried("23.1", lambda: virtual.Cluster(nodes=2).run(program))
    assert said in own()[-1]["said"]
    assert code not in own()[-1]["said"]


DEADLOCK = "deadlock: rank 0 waits in Recv from rank 1"
LATE = "after 2 s without an end: ranks 0, 1 wait in line 9 of ring"


@pytest.mark.parametrize(
    ("sentence", "said"),
    [  # as other processes tell it: their lines are not known here
        (f"{DEADLOCK} (line 9 of ring: comm.Recv(mine)), rank 1 waits in it, too", DEADLOCK),
        (f"{LATE}: comm.Recv(mine, source=0); rank 2 has finished", LATE),
        ('it ended. File "/x/y.py", line 3, in ring     comm.Recv(mine)', "it ended."),
    ],
)
def test_what_leaves_ends_where_code_begins_that_is_not_known(sentence, said):
    fail(sentence)
    assert own()[-1]["said"] == said


DAYS = '"named": true, "since": "2026-01-01", "until": "x"'
WITHOUT_FILE = '{"pseudonym": "Calm Fox 17", "file": 3}'
WITHOUT_END = f'{{"pseudonym": "Calm Fox 17", "file": "x", {DAYS}}}'
SPOILT = ["", "{", "[]", '{"pseudonym": 3}', "\x00", WITHOUT_FILE, WITHOUT_END, None]


@pytest.mark.parametrize("text", SPOILT)
def test_a_damaged_or_lost_agreement_shares_nothing_and_can_be_taken_back(text):
    journal.share(named=True)
    agreement = paths.home() / "sharing.json"
    agreement.write_text(text) if text is not None else agreement.unlink()
    before = shared_file().read_text()
    fail("After.")
    assert shared_file().read_text() == before
    assert "You share nothing" in journal.status()
    journal.unshare()
    assert not shared_file().exists()
    journal.share(named=True)
    assert shared()[-1]["said"] == "After."


def test_the_shared_file_stays_small(monkeypatch):
    monkeypatch.setattr(sharing, "LIMIT", 6000)
    journal.share(named=True)
    for count in range(200):
        journal.note("failed", exercise="23.1", said=f"{count} {'x' * 90}")
    assert shared_file().stat().st_size < 6400
    assert shared()[0]["labkit"] == "shared"
    assert shared()[-1]["tries"] == 200
    assert len(own()) == 200, "the log keeps all"


def test_many_writers_while_the_agreement_comes_and_goes():
    def work(name: str) -> None:
        for _ in range(50):
            journal.note("failed", exercise="23.1", said=name)

    writers = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for _ in range(5):
        journal.share(named=True)
        journal.unshare()
    journal.share(named=True)
    for writer in writers:
        writer.join()
    assert len(own()) == 150
    assert len(shared()) == 151, "an event is in the journal and in the shared file, or in neither"

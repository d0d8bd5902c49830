"""The log of what a learner did: what its lines add up to, many writers, and what an earlier
version left."""

import json
import subprocess
import sys
import threading
import time

import pytest
from labkit import journal, paths
from labkit.cli import main
from labkit.journal import log

NOTHING = {"passed": None, "tries": 0, "hints": 0, "predictions": {}}
SOLVED = {"passed": "2026-11-02T10:00:00", "tries": 3, "hints": 1, "predictions": {"size": [1, 2]}}
OLD = {"23.1": SOLVED, "47.2": NOTHING | {"tries": 9}}


def put_old(progress: str = json.dumps({"exercises": OLD})) -> None:
    """The file of an earlier version."""
    (paths.home() / "progress.json").write_text(progress)


def test_progress_is_what_the_lines_add_up_to():
    before = time.strftime("%Y-%m-%dT%H:%M")
    journal.note("start", lab="23_ring_allreduce")
    journal.note("guess", exercise="23.1", values={"size": 3, "word": "é"})
    journal.note("failed", exercise="23.1", said="No.")
    journal.note("hint", exercise="23.1", hints=2)
    journal.note("hint", exercise="23.1", hints=1)
    journal.note("passed", exercise="23.1")
    journal.note("guess", exercise="23.1", values={"size": 4})
    first = journal.entry("23.1")
    journal.note("failed", exercise="23.1", said="Again.")
    want = {"tries": 2, "hints": 2, "predictions": {"size": 4, "word": "é"}}
    assert first == {"passed": first["passed"], **want}
    assert before <= first["passed"] <= time.strftime("%Y-%m-%dT%H:%M:%S")
    assert journal.progress() == {"23.1": first | {"tries": 3}}, "a failure takes no success away"
    assert [line.get("tries") for line in log.read()] == [None, None, 1, None, None, 2, None, 3]
    assert journal.entry("23.2") == NOTHING


def test_what_an_earlier_version_kept_is_taken_over_once():
    put_old()
    assert journal.progress() == OLD, "to read it nothing has to be written"
    assert not log.path().exists()
    journal.note("failed", exercise="23.1", said="New.")
    assert journal.progress() == {**OLD, "23.1": SOLVED | {"tries": 4}}
    put_old('{"exercises": {}}')
    journal.note("hint", exercise="47.2", hints=1)
    assert journal.entry("47.2")["tries"] == 9, "it is read once"
    assert log.path().stat().st_mode & 0o777 == 0o600


DAMAGED = ["{", "[]", '{"exercises": {"90.1": 3}}', '{"exercises": []}', "\x00\x00", "[" * 100_000]


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_progress_is_left_alone(text):
    put_old(text)
    assert journal.progress() == {}
    journal.note("passed", exercise="47.2")
    assert journal.progress().keys() == {"47.2"}
    assert (paths.home() / "progress.json").read_text() == text


def test_a_log_that_cannot_be_read_is_a_sentence_where_progress_is_asked_for(capsys):
    log.path().mkdir()
    assert journal.progress() == {}, "a lab goes on"
    assert main(["progress"]) == 1
    assert capsys.readouterr() == ("", f"Cannot read {log.path()} (Is a directory).\n")


WRITER = """
import sys
from labkit import journal
print(flush=True)
sys.stdin.readline()
for number in range(20):
    journal.note("failed", exercise="23.1", said="No.")
"""


def test_processes_and_threads_that_start_at_once_lose_nothing_and_take_over_once():
    put_old()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", WRITER], **pipes) for _ in range(3)]

    def guess(name: str) -> None:
        for count in range(20):
            journal.note("guess", exercise="23.1", values={f"{name}{count}": 1})

    threads = [threading.Thread(target=guess, args=(name,)) for name in "ab"]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in started:
        process.communicate()
    assert [process.returncode for process in started] == [0] * 3
    kept = journal.entry("23.1")
    assert (kept["tries"], len(kept["predictions"])) == (3 + 60, 1 + 40)
    kinds = [line["event"] for line in log.read()]
    assert (kinds.count("progress"), kinds.count("failed"), kinds.count("guess")) == (1, 60, 40)
    files = {file.name for file in paths.home().iterdir()}
    assert files == {"events.jsonl", "events.lock", "progress.json"}


@pytest.mark.parametrize(
    "line",
    [  # tests of record have lines that are no JSON
        '{"at": "now", "event": "start", "lab": "23_ring_allreduce"}',
        '{"at": 1, "event": ["start"]}',
        '{"at": 1, "event": "passed", "exercise": 23.1}',
        '{"at": 1, "event": "hint", "exercise": "23.1", "hints": "2"}',
        '{"at": 1, "event": "guess", "exercise": "23.1", "values": [1]}',
        '{"at": 1, "event": "progress", "exercises": []}',
        '{"at": 1, "event": "progress", "exercises": {"23.1": 3}}',
        '{"at": 1, "event": "danced"}',
    ],
)
def test_a_damaged_line_is_passed_over_by_its_number(line):
    journal.note("failed", exercise="23.1", said="First.")
    with log.path().open("a") as stream:
        stream.write(line)
    with pytest.warns(UserWarning, match=r"events\.jsonl:2: not a line of progress, skipped"):
        journal.note("passed", exercise="23.1")
    with pytest.warns(UserWarning, match=r"events\.jsonl:2"):
        assert journal.entry("23.1")["tries"] == 2

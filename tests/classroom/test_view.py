"""Where a learner is and whether they are stuck; what the class is told most; what the board looks
like."""

import csv
import html
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import classroom
import pytest
from classroom import learner, page, server, view
from classroom.curriculum import Lab
from classroom.learner import Work
from classroom.reader import Event
from labkit.errors import LabError

from tests.classroom.test_sources import NOW, content
from tests.helpers import awaited

LABS = {
    "23_ring": Lab("23_ring", {"23.1": "Scatter", "23.2": "Gather", "23.3": "Cost"}, 60),
    "30_average": Lab("30_average", {"30.1": "Shard"}, 20),
    "80_report": Lab("80_report", {}, 60),
}


def at(minutes: float, kind: str, exercise: str = "", stem: str = "23_ring", **more) -> Event:
    """An event so many minutes ago."""
    return Event(kind, NOW - 60 * minutes, stem, exercise, passed=kind == "passed", **more)


def follow(*events: Event):
    return learner.follow("ada", events, LABS, NOW)


def failed(minutes: float, exercise: str, said: str = "No.", **more) -> Event:
    return at(minutes, "failed", exercise, said=said, **more)


def passed(minutes: float, *exercises: str) -> list[Event]:
    """One after the other, a minute apart."""
    return [at(minutes - place, "passed", number) for place, number in enumerate(exercises)]


UNSOLVED = "not solved yet. Write"


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([at(5, "start")], "23.1"),
        ([at(5, "start"), *passed(4, "23.1")], "23.2"),
        (passed(5, "23.2"), "23.3"),
        (passed(5, "23.2", "23.3"), "23.1"),
        ([failed(5, "23.3")], "23.3"),
        ([*passed(5, "23.1"), at(4, "hint", "23.3")], "23.3"),
        (passed(6, "23.1", "23.2", "23.3"), ""),
        ([failed(5, "23.2"), at(4, "start")], "23.2"),
        ([failed(5, "23.2"), at(4, "start", stem="30_average")], "30.1"),
        ([at(5, "start", stem="80_report")], ""),
        # All cells of the lab were run: the later exercises say that nothing is written there yet.
        ([failed(5, "23.1"), failed(5, "23.2", UNSOLVED)], "23.1"),
        ([failed(5, "23.1", UNSOLVED)], "23.1"),
        ([*passed(5, "23.1"), failed(4, "23.1", "Broken again.")], "23.1"),
    ],
)
def test_where_a_learner_is(events, place):
    assert follow(*events).exercise == place


THREE = [failed(5 - count, "23.1", tries=count + 1) for count in range(3)]
SIGNS = [at(minutes, "hint", "23.1") for minutes in (45, 30, 15, 2)]


@pytest.mark.parametrize(
    ("events", "state"),
    [
        (THREE[:2], learner.WORKING),
        (THREE, learner.STUCK),
        ([*THREE, *passed(1, "23.1")], learner.WORKING),
        ([*THREE, *passed(1, "23.1"), at(0.5, "hint", "23.1")], learner.WORKING),
        ([failed(5 - count, "23.1", UNSOLVED) for count in range(4)], learner.WORKING),
        # Twice the stated minutes: 20 are an exercise's share of the lab.
        (SIGNS, learner.STUCK),
        (SIGNS[2:], learner.WORKING),
        ([at(700, "hint", "23.1"), at(5, "hint", "23.1")], learner.WORKING),  # a night between
        ([at(29, "start")], learner.WORKING),
        ([failed(40, "23.1")] * 5, learner.AWAY_STATE),
        ([at(5, "passed", "30.1", stem="30_average")], learner.FINISHED),
    ],
)
def test_who_is_stuck_away_or_finished(events, state):
    assert follow(*events).state == state


def test_what_is_known_of_a_learner():
    assert follow() is None
    stuck = follow(*THREE)
    assert (stuck.here.tries, stuck.said) == (3, "No.")
    night = follow(at(700, "hint", "23.1"), at(5, "hint", "23.1"))
    assert night.minutes == pytest.approx(5), "a night is no work"
    assert follow(failed(40, "23.1")).quiet == pytest.approx(40)
    # Counts go on from what was not shared.
    someone = follow(failed(5, "23.2", tries=7), at(4, "hint", "23.2", hints=3))
    assert (someone.here.tries, someone.here.hints, someone.here.failures) == (7, 3, 1)
    assert someone.solved == 0, "whether 23.1 was solved before is not known"


def told(*sentences: str) -> Work:
    return Work(said=Counter(sentences))


def test_the_commonest_sentence_is_of_most_learners_and_numbers_do_not_matter():
    works = [told("Sum: expected 3, got 2.", "Sum: expected 3, got 2.", "Late.")]
    works += [told("Sum: expected 5, got -1.5e3."), told(*["A deadlock."] * 9)]
    works += [told("not solved yet.")] * 3
    assert view.commonest(works) == ("Sum: expected 3, got 2.", 2)
    assert view.commonest(works[3:]) == ("not solved yet.", 3)
    assert view.commonest([told()]) == ("", 0)


def write(folder: Path, name: str, *events: dict) -> None:
    pseudonym = f"Calm Fox {10 + len(list(folder.iterdir()))}"
    lines = [{"at": NOW - 60, "exercise": "23.1", **event} for event in events]
    (folder / f"{name}.jsonl").write_text(content(*lines, pseudonym=pseudonym))


FAIL = {"event": "failed", "tries": 3, "said": "No."}


BEGUN = {"event": "start", "lab": "23_ring_allreduce"}


def test_the_headline_says_where_half_the_class_is_stuck(tmp_path):
    def look(later: float = 0):
        return classroom.look(tmp_path, now=NOW + later)

    assert look().headline.startswith("Nobody shares their progress yet: `make share`")
    write(tmp_path, "ada", BEGUN)
    nobody = "Nobody of 1 is stuck. Most are at 23.1, Reduce-scatter around a ring."
    assert look().headline == nobody
    for name in ("bob", "cleo", "dora"):
        write(tmp_path, name, FAIL, FAIL, FAIL)
    write(tmp_path, "ed", *[{**FAIL, "exercise": "30.1"}] * 3)
    seen = look()
    assert seen.headline == "4 of 5 are stuck: 3 at 23.1, Reduce-scatter around a ring; 1 at 30.1."
    places = [(place.number, place.stuck, place.here, place.half) for place in seen.places]
    assert places == [("23.1", 3, 4, True), ("30.1", 1, 1, False)]
    assert look(later=7200).headline == "Nobody has done anything for half an hour."
    text = classroom.as_text(seen, width=120)
    assert re.search(r"▶ 23\.1 Reduce-scatter.*│ +3 │ +4 │ 3×  No\.", text)
    assert "│ ada " in classroom.as_text(seen, width=80), "a narrow terminal shows who it is, too"
    assert "\x1b" not in text
    assert "\x1b" in classroom.as_text(seen, colour=True)


EVIL = "</td><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>[bold]"
EVIL += "{{ 7 * 7 }}"


def test_the_page_loads_nothing_and_may_not_and_what_learners_wrote_is_text(tmp_path):
    write(tmp_path, "ada", FAIL)
    made = classroom.as_page(classroom.look(tmp_path, now=NOW))
    assert not re.search(r"\b(src|href|srcset|action)\s*=|@import|url\(|<script", made)
    assert page.POLICY in html.unescape(made)
    assert '<meta http-equiv="refresh" content="10">' in made, "it loads itself again"
    write(tmp_path, "ada", {**FAIL, "said": EVIL})
    write(tmp_path, "<b>bob", BEGUN)
    seen = classroom.look(tmp_path, now=NOW)
    made = classroom.as_page(seen)
    for tag in ("<script", "<img", "<b>bob"):
        assert tag not in made
    assert "{{ 7 * 7 }}" in made
    assert "[bold]" in classroom.as_text(seen, width=200)


@pytest.mark.parametrize(("option", "file"), [("--html", "board.html"), ("--csv", "scores.csv")])
def test_what_is_written_to_a_file_is_closed_to_others(tmp_path, capsys, option, file):
    (tmp_path / "class").mkdir()
    for name in ("ada", "=1+1"):
        write(tmp_path / "class", name, {**FAIL, "at": 1})
    words = [str(tmp_path / "class"), option]
    assert classroom.main([*words, str(tmp_path / file)]) == 0
    assert (tmp_path / file).stat().st_mode & 0o077 == 0
    text = (tmp_path / file).read_text()
    assert "ada" in text
    if option == "--csv":
        rows = list(csv.DictReader(text.splitlines()))
        assert [row["learner"] for row in rows] == ["'=1+1", "ada"], (
            "a spreadsheet takes it as text"
        )
        assert {(row["exercise"], row["solved"], row["tries"]) for row in rows} == {
            ("23.1", "0", "3")
        }
    assert classroom.main([*words, str(tmp_path / "none" / file)]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_that_is_watched_is_written_again(tmp_path):
    folder, file = tmp_path / "class", tmp_path / "board.html"
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-m", "classroom", str(folder), "--html", str(file), "--watch"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert "readable by you alone" in process.stdout.readline()
        assert "Nobody shares" in file.read_text()
        write(folder, "ada", {"event": "start", "lab": "23_ring_allreduce", "at": 1})
        awaited(lambda: "ada" in file.read_text())
        assert file.read_text().endswith("</html>"), "it is there as a whole at any moment"
    finally:
        process.terminate()
        process.communicate()


def test_a_class_folder_takes_files_and_shows_none(tmp_path, capsys):
    folder = tmp_path / "new" / "class"
    for _ in range(2):
        assert classroom.main([str(folder), "--new"]) == 0
        assert folder.stat().st_mode & 0o7777 == 0o3733
        assert f"LABKIT_CLASS={folder}" in capsys.readouterr().out
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("")
    before = (tmp_path / "home").stat().st_mode
    refused = {
        (str(tmp_path / "home"), "--new"): "holds something already",
        ("--new",): "Say where",
        (): "Which class? Name its folder: `make board DIR=/srv/class`",
    }
    for words, sentence in refused.items():
        assert classroom.main(words) == 1
        assert sentence in capsys.readouterr().err
    assert (tmp_path / "home").stat().st_mode == before


def test_as_a_hubs_service_only_on_the_loopback_address(monkeypatch):
    # A notebook server's terminal has these two as well.
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/services/board/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    assert not server.in_hub()
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "board")
    assert server.in_hub()
    for address in ("http://0.0.0.0:8899", "http://example.org:8899", "http://127.0.0.1", ""):
        monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", address)
        with pytest.raises(LabError, match=f"{address or 'none'}. It is to be on the loopback"):
            server.hub_service(str)

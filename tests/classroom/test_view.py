"""Where a learner is and whether they are stuck; what the class is told most; what the board looks
like."""

from __future__ import annotations

import csv
import html
import json
import re
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import classroom
import pytest
from classroom import learner, page, server, view
from classroom.curriculum import Lab
from classroom.learner import Work
from classroom.reader import Event
from labkit.errors import LabError

from tests.helpers import awaited

NOW = 1_800_000_000.0
UNTIL = str(date.fromtimestamp(NOW))
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


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([at(5, "start")], "23.1"),
        ([at(5, "start"), at(4, "passed", "23.1")], "23.2"),
        ([at(5, "passed", "23.2")], "23.3"),
        ([at(5, "passed", "23.2"), at(4, "passed", "23.3")], "23.1"),
        ([at(5, "failed", "23.3", said="No.")], "23.3"),
        ([at(5, "passed", "23.1"), at(4, "hint", "23.3")], "23.3"),
        ([at(6, "passed", "23.1"), at(5, "passed", "23.2"), at(4, "passed", "23.3")], ""),
        ([at(5, "failed", "23.2", said="No."), at(4, "start")], "23.2"),
        ([at(5, "failed", "23.2", said="No."), at(4, "start", stem="30_average")], "30.1"),
        ([at(5, "start", stem="80_report")], ""),
        # All cells of the lab were run: the later exercises say that nothing is written there yet.
        (
            [at(5, "failed", "23.1", said="No."), at(5, "failed", "23.2", said="not solved yet.")],
            "23.1",
        ),
        ([at(5, "failed", "23.1", said="not solved yet. Write")], "23.1"),
        ([at(5, "passed", "23.1"), at(4, "failed", "23.1", said="Broken again.")], "23.1"),
    ],
)
def test_where_a_learner_is(events, place):
    assert follow(*events).exercise == place


def test_three_failed_tries_are_stuck_and_cells_not_written_are_none():
    assert follow() is None
    fails = [at(5 - count, "failed", "23.1", tries=count + 1, said="No.") for count in range(3)]
    assert follow(*fails[:2]).state == learner.WORKING
    stuck = follow(*fails)
    assert (stuck.state, stuck.here.tries, stuck.said) == (learner.STUCK, 3, "No.")
    unsolved = [at(5 - count, "failed", "23.1", said="not solved yet.") for count in range(4)]
    assert follow(*unsolved).state == learner.WORKING
    assert follow(*fails, at(1, "passed", "23.1")).state == learner.WORKING


def test_twice_the_stated_minutes_are_stuck_and_a_night_is_no_work():
    signs = [at(minutes, "hint", "23.1") for minutes in (45, 30, 15, 2)]
    assert follow(*signs).state == learner.STUCK, "20 minutes are an exercise's share of the lab"
    assert follow(*signs[2:]).state == learner.WORKING
    night = follow(at(700, "hint", "23.1"), at(5, "hint", "23.1"))
    assert night.state == learner.WORKING
    assert night.minutes == pytest.approx(5)


def test_away_after_half_an_hour_and_finished_at_the_end():
    assert follow(at(29, "start")).state == learner.WORKING
    away = follow(*[at(40, "failed", "23.1", said="No.")] * 5)
    assert (away.state, away.quiet) == (learner.AWAY_STATE, pytest.approx(40))
    assert follow(at(5, "passed", "30.1", stem="30_average")).state == learner.FINISHED


def test_counts_go_on_from_what_was_not_shared():
    someone = follow(at(5, "failed", "23.2", tries=7, said="No."), at(4, "hint", "23.2", hints=3))
    assert (someone.here.tries, someone.here.hints, someone.here.failures) == (7, 3, 1)
    assert someone.solved == 0, "whether 23.1 was solved before is not known"


def told(*sentences: str) -> Work:
    return Work(said=Counter(sentences))


def test_the_commonest_sentence_is_of_most_learners_and_numbers_do_not_matter():
    works = [
        told("Sum: expected 3, got 2.", "Sum: expected 3, got 2.", "Late."),
        told("Sum: expected 5, got -1.5e3."),
    ]
    works += [
        told(*["A deadlock."] * 9),
        told("not solved yet."),
        told("not solved yet."),
        told("not solved yet."),
    ]
    assert view.commonest(works) == ("Sum: expected 3, got 2.", 2)
    assert view.commonest(works[3:]) == ("not solved yet.", 3)
    assert view.commonest([told()]) == ("", 0)


def write(folder: Path, name: str, *events: dict, **head) -> None:
    number = 10 + len(list(folder.iterdir()))
    first = {
        "labkit": "shared",
        "named": True,
        "pseudonym": f"Calm Fox {number}",
        "until": UNTIL,
        **head,
    }
    lines = [first, *({"at": NOW - 60, "exercise": "23.1", **event} for event in events)]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


FAIL = {"event": "failed", "tries": 3, "said": "No."}


def test_the_headline_says_where_half_the_class_is_stuck(tmp_path):
    assert classroom.look(tmp_path, now=NOW).headline.startswith(
        "Nobody shares their progress yet: `make share`"
    )
    write(tmp_path, "ada", {"event": "start", "lab": "23_ring_allreduce"})
    assert (
        classroom.look(tmp_path, now=NOW).headline
        == "Nobody of 1 is stuck. Most are at 23.1, Reduce-scatter around a ring."
    )
    for name in ("bob", "cleo", "dora"):
        write(tmp_path, name, FAIL, FAIL, FAIL)
    write(tmp_path, "ed", *[{**FAIL, "exercise": "30.1"}] * 3)
    seen = classroom.look(tmp_path, now=NOW)
    assert seen.headline == "4 of 5 are stuck: 3 at 23.1, Reduce-scatter around a ring; 1 at 30.1."
    assert [(place.number, place.stuck, place.here, place.half) for place in seen.places] == [
        ("23.1", 3, 4, True),
        ("30.1", 1, 1, False),
    ]
    assert (
        classroom.look(tmp_path, now=NOW + 7200).headline
        == "Nobody has done anything for half an hour."
    )
    text = classroom.as_text(seen, width=120)
    assert re.search(r"▶ 23\.1 Reduce-scatter.*│ +3 │ +4 │ 3×  No\.", text)
    assert "│ ada " in classroom.as_text(seen, width=80), "a narrow terminal shows who it is, too"
    assert "\x1b" not in text
    assert "\x1b" in classroom.as_text(seen, colour=True)


EVIL = (
    "</td><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>[bold]{{ 7 *"
    " 7 }}"
)


def test_what_learners_wrote_is_text_on_the_page(tmp_path):
    write(tmp_path, "ada", {**FAIL, "said": EVIL})
    write(tmp_path, "<b>bob", {"event": "start", "lab": "23_ring_allreduce"})
    made = classroom.as_page(classroom.look(tmp_path, now=NOW))
    assert "<script" not in made
    assert "<img" not in made
    assert "<b>bob" not in made
    assert "{{ 7 * 7 }}" in made
    assert "[bold]" in classroom.as_text(classroom.look(tmp_path, now=NOW), width=200)


def test_the_page_loads_nothing_and_may_not(tmp_path):
    write(tmp_path, "ada", FAIL)
    made = classroom.as_page(classroom.look(tmp_path, now=NOW))
    assert not re.search(r"\b(src|href|srcset|action)\s*=|@import|url\(|<script", made)
    assert page.POLICY in html.unescape(made)
    assert '<meta http-equiv="refresh" content="10">' in made, "it loads itself again"


def test_a_page_in_a_file_is_closed_to_others(tmp_path, capsys):
    (tmp_path / "class").mkdir()
    write(tmp_path / "class", "ada", FAIL)
    file = tmp_path / "board.html"
    assert classroom.main([str(tmp_path / "class"), "--html", str(file)]) == 0
    assert file.stat().st_mode & 0o077 == 0
    assert "ada" in file.read_text()
    assert (
        classroom.main([str(tmp_path / "class"), "--html", str(tmp_path / "none" / "x.html")]) == 1
    )
    assert "cannot be written" in capsys.readouterr().err


def test_scores_are_a_table_that_a_spreadsheet_takes_as_text(tmp_path, capsys):
    folder, file = tmp_path / "class", tmp_path / "scores.csv"
    folder.mkdir()
    for name in ("ada", "=1+1"):
        write(folder, name, {**FAIL, "at": 1})
    assert classroom.main([str(folder), "--csv", str(file)]) == 0
    assert file.stat().st_mode & 0o077 == 0
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["learner"] for row in rows] == ["'=1+1", "ada"]
    assert {(row["exercise"], row["solved"]) for row in rows} == {("23.1", "0")}
    assert all(int(row["tries"]) >= 1 for row in rows)
    assert classroom.main([str(folder), "--csv", str(tmp_path / "none" / "x.csv")]) == 1
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


def test_the_command_line_says_what_is_wrong(tmp_path, capsys):
    assert classroom.main(["--new"]) == 1
    assert "Say where" in capsys.readouterr().err
    assert classroom.main([]) == 1
    assert "Which class? Name its folder: `make board DIR=/srv/class`" in capsys.readouterr().err


def test_a_class_folder_takes_files_and_shows_none(tmp_path, capsys):
    folder = tmp_path / "new" / "class"
    assert classroom.main([str(folder), "--new"]) == 0
    assert folder.stat().st_mode & 0o7777 == 0o3733
    assert f"LABKIT_CLASS={folder}" in capsys.readouterr().out
    assert classroom.main([str(folder), "--new"]) == 0
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("")
    before = (tmp_path / "home").stat().st_mode
    assert classroom.main([str(tmp_path / "home"), "--new"]) == 1
    assert "holds something already" in capsys.readouterr().err
    assert (tmp_path / "home").stat().st_mode == before


def test_as_a_hubs_service_only_on_the_loopback_address(monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/services/board/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    for address in ("http://0.0.0.0:8899", "http://example.org:8899", "http://127.0.0.1", ""):
        monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", address)
        with pytest.raises(LabError, match=f"{address or 'none'}. It is to be on the loopback"):
            server.hub_service(str)

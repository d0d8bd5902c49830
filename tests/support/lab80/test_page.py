"""The page: every number leads to its records; nothing is fetched."""

from __future__ import annotations

import re

import pytest
from labkit import paths
from labkit.errors import LabError
from support.lab80 import page as pages
from support.lab80.__main__ import main

from tests.support.lab80 import studies


def written(folder, change=None) -> str:
    page = pages.write(studies.REPORT, studies.study(change), folder / "report.md")
    return page.read_text(encoding="utf-8")


def test_each_number_leads_to_a_row_and_that_to_records(tmp_path):
    text = written(tmp_path)
    for target in set(re.findall(r'href="#(\w+)"', text)):
        assert text.count(f'id="{target}"') == 1, target
    assert "93.0\N{NO-BREAK SPACE}%" in text
    rows = re.findall(r"<tr id=.*?</tr>", text, re.DOTALL)
    row = next(line for line in rows if "efficiency_weak_4" in line)
    assert "t(b) / t(p)" in row
    assert len(re.findall(r"#r\d+", row)) == 2
    records = text[text.index("<h2>Records</h2>") :]
    for what in (
        "80_scaling_report.jsonl:9", "0123456789ab", "2026-11-23 08:00:08 UTC",
        "virtual roce25_p100", "Kurth and others, SC18",
    ):  # fmt: skip
        assert what in records
    assert "make run LAB=80 NP=1" in text
    assert "The last prediction is of 2026-11-23 08:00:06 UTC, the first measurement of" in text
    assert "All times were steady" in text
    assert sum(map(int, re.findall("<td>of ([0-9])</td>", text))) == 20  # the rubric


def test_it_loads_nothing_and_holds_its_plots_and_no_html_of_the_learners(tmp_path):
    text = written(tmp_path, lambda lines: lines[0].update(method="a <script>alert()</script> b"))
    assert "<svg" in text
    assert "<table" in text
    without_plots = re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)
    assert not re.search(r'(?:src|href)="(?!#)', without_plots)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search("[\U000f0000-\U000ffffd]", text)


def test_doubt_is_marked(tmp_path):
    doubt = {"seconds_steady": False}
    text = written(tmp_path, lambda lines: studies.measured(lines, "strong", 4).update(doubt))
    assert "~250\N{NO-BREAK SPACE}ms" in text
    assert "not steady" in text


def test_a_refused_report_leaves_no_page(tmp_path):
    written(tmp_path)
    says = "The report is refused, for 1 reason:\n.*“97 %” is supported by no record"
    with pytest.raises(LabError, match=says):
        pages.write(
            studies.REPORT + "\nIt is 97 % efficient.\n", studies.study(), tmp_path / "report.md"
        )
    assert not (tmp_path / "report.html").exists()


def test_an_edited_report_is_kept_whatever_its_encoding(capsys):
    study = studies.study()
    pages.publish(studies.REPORT, study)
    folder = paths.home() / "report"
    edited = b"na\xefve"  # Latin-1
    (folder / "report.md").write_bytes(edited)
    pages.publish(studies.REPORT, study)
    assert (folder / "report-1.md").read_bytes() == edited
    assert "it is kept as" in capsys.readouterr().out


def test_the_command_speaks_in_sentences(capsys):
    file = paths.home() / "report" / "report.md"
    assert main([]) == 1
    assert "There is no report" in capsys.readouterr().err
    file.parent.mkdir()
    for text, says in (
        (b"\xff\xfe", "not a text in UTF-8"),
        (studies.REPORT.encode(), "no scaling study on record yet"),
    ):
        file.write_bytes(text)
        assert main([]) == 1
        assert says in capsys.readouterr().err
    studies.study()
    assert main([]) == 0
    assert file.with_suffix(".html").exists()
    assert "Every number of" in capsys.readouterr().out
    page = file.with_suffix(".html")
    before = page.read_bytes()
    assert main([str(page)]) == 1
    assert "report.html is a page. Name the text of it" in capsys.readouterr().err
    assert page.read_bytes() == before
    kept = file.with_name("report-1.md")
    kept.write_text(studies.REPORT + "97", encoding="utf-8")
    assert main([str(kept)]) == 1
    said = capsys.readouterr().err
    assert file.with_suffix(".html").exists()
    assert "“97” is supported by no record" in said
    assert "Traceback" not in said
    assert main(["--solved"]) == 1
    assert "There is no report" in capsys.readouterr().err

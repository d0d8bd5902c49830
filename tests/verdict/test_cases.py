"""Verdicts on real outputs from public issue threads, whose resolution is the truth: see
cases/cases.yaml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import verdict
import yaml
from verdict.judge import NONE, SLOWER

FOLDER = Path(__file__).with_name("cases")
CASES = yaml.safe_load((FOLDER / "cases.yaml").read_text(encoding="utf-8"))
AGREEING = 20  # of len(CASES); with AGREEING - 3 verdicts, as three tables allow none


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def typed(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in CASES[name]["typed"].items()}


def agrees(name: str) -> bool:
    """Whether the verdict, the words that must be said, and the cause are those of the thread."""
    case, found = CASES[name], verdict.verdicts(text_of(name), **typed(name))
    report = verdict.of_text(text_of(name), **typed(name))
    causes = report.partition("Likeliest causes:")[2]
    return (
        [one.word for one in found] == [case["truth"]]
        and case.get("says", "") in report
        and case.get("cause", "") in causes
    )


def test_how_many_verdicts_agree_with_their_threads():
    wrong = [name for name in CASES if not agrees(name)]
    print(f"{len(CASES) - len(wrong)} of {len(CASES)} agree; not: {', '.join(wrong) or 'none'}")
    assert len(CASES) - len(wrong) >= AGREEING, wrong
    assert sum(case["truth"] != NONE for case in CASES.values()) >= 12


def test_each_output_has_its_source_and_each_source_its_output():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
    for name, case in CASES.items():
        assert re.match(r"\S+/\S+ (issue|pull request) \d+", case["thread"]), name
        assert case["found"].endswith("."), name


@pytest.mark.parametrize("name", CASES)
def test_a_report_has_a_sentence_with_its_confidence_and_three_causes(name):
    report = verdict.of_text(text_of(name), **typed(name))
    assert re.search(r"^Verdict: .*\(confidence: (high|medium|low)|^No verdict\.$", report, re.M)
    for found in verdict.verdicts(text_of(name), **typed(name)):
        if found.word == SLOWER:
            assert len(re.findall(r"^  [123]\. .*\.$", report, re.M)) == 3

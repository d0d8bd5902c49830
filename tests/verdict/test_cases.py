"""Verdicts on real outputs from public issue threads, whose resolution is the truth: see
cases/cases.yaml. And on two hundred damaged ones: each gets a sentence, and an absurd number never
becomes a verdict."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import verdict
import yaml
from verdict.judge import EXPECTED, NONE, SLOWER

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


# -- damaged outputs, made from the real ones

NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?![\w.])")


def bytes_of_another_file(text: str, dice: random.Random) -> str:
    spoilt = bytearray(text.encode())
    for _ in range(len(spoilt) // 10):
        spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
    return spoilt.decode(errors="replace")


def shuffled(lines: list[str], dice: random.Random) -> list[str]:
    return dice.sample(lines, len(lines))


def rows(text: str, change: Callable[[list[str]], list[str]]) -> str:
    return "\n".join(" ".join(change(line.split())) for line in text.splitlines())


def replaced(text: str, dice: random.Random, *values: str, share: float = 1.0) -> str:
    return NUMBER.sub(lambda old: dice.choice(values) if dice.random() < share else old[0], text)


DAMAGES = {
    "cut": lambda text, dice: text[dice.randrange(len(text)) :][: dice.randrange(len(text))],
    "shuffled lines": lambda text, dice: "\n".join(shuffled(text.splitlines(), dice)),
    "shuffled columns": lambda text, dice: rows(text, lambda row: shuffled(row, dice)),
    "lost columns": lambda text, dice: rows(
        text, lambda row: [word for word in row if dice.random() < 0.7]),
    "bytes of another file": bytes_of_another_file,
    "huge numbers": lambda text, dice: replaced(
        text, dice, "1e308", "9" * 400, "1" + "0" * 30, "1e999", share=0.4),
    "no numbers": lambda text, dice: replaced(text, dice, "nan", "NaN", "inf", "-inf", "N/A"),
    "impossible numbers": lambda text, dice: replaced(
        text, dice, "0", "-1", "-7.5", "0.00", "1e-300"),
    "commas": lambda text, dice: text.replace(".", ","),
    "other digits": lambda text, dice: text.translate(
        {ord("0") + digit: chr(0x0660 + digit) for digit in range(10)}),
}  # fmt: skip
# After these no number is left that could be meant.
ABSURD = ("no numbers", "impossible numbers", "commas", "other digits")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_outputs_get_a_sentence(damage):
    assert len(DAMAGES) * len(CASES) >= 200
    for number, name in enumerate(CASES):
        text = DAMAGES[damage](text_of(name), random.Random(number))
        case = f"{damage} of {name}"
        report = verdict.of_text(text, **typed(name))
        assert re.search(r"[a-z]{2}.*\.", report), case
        words = {one.word for one in verdict.verdicts(text, **typed(name))}
        allowed = {NONE} if damage in ABSURD else {EXPECTED, SLOWER, NONE}
        assert words <= allowed, f"{case}:\n{report}"


def test_one_absurd_row_changes_no_verdict():
    text = text_of("nccl_tests_119")
    before = verdict.verdicts(text, **typed("nccl_tests_119"))[0]
    for wrong in ("2644.1", "0.001"), ("50.32", "5032.00"), ("96.45", "9e9"), ("2604.6", "nan"):
        after = verdict.verdicts(text.replace(*wrong, 1), **typed("nccl_tests_119"))[0]
        assert after.word == before.word
        assert after.reading.dropped <= 1

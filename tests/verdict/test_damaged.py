"""Two hundred damaged outputs, made from the real ones: each gets a sentence, and an absurd number
never becomes a verdict."""

from __future__ import annotations

import random
import re

import pytest
import verdict
from verdict.judge import EXPECTED, FASTER, NONE, SLOWER

from tests.verdict.test_cases import CASES, text_of, typed

NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?![\w.])")
WORDS = {EXPECTED, SLOWER, FASTER, NONE}


def cut(text: str, dice: random.Random) -> str:
    begin = dice.randrange(len(text))
    return text[begin : dice.randrange(begin, len(text))]


def shuffled_lines(text: str, dice: random.Random) -> str:
    lines = text.splitlines()
    dice.shuffle(lines)
    return "\n".join(lines)


def shuffled_columns(text: str, dice: random.Random) -> str:
    rows = [line.split() for line in text.splitlines()]
    return "\n".join(" ".join(dice.sample(row, len(row))) for row in rows)


def lost_columns(text: str, dice: random.Random) -> str:
    rows = [line.split() for line in text.splitlines()]
    return "\n".join(" ".join(word for word in row if dice.random() < 0.7) for row in rows)


def bytes_of_another_file(text: str, dice: random.Random) -> str:
    spoilt = bytearray(text.encode())
    for _ in range(len(spoilt) // 10):
        spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
    return spoilt.decode(errors="replace")


def replaced(text: str, dice: random.Random, *values: str, share: float = 1.0) -> str:
    return NUMBER.sub(
        lambda match: dice.choice(values) if dice.random() < share else match[0], text
    )


def not_numbers(text: str, dice: random.Random) -> str:
    return replaced(text, dice, "nan", "NaN", "inf", "-inf", "N/A")


def huge(text: str, dice: random.Random) -> str:
    return replaced(text, dice, "1e308", "9" * 400, "1" + "0" * 30, "1e999", share=0.4)


def impossible(text: str, dice: random.Random) -> str:
    return replaced(text, dice, "0", "-1", "-7.5", "0.00", "1e-300")


def commas(text: str, dice: random.Random) -> str:
    return text.replace(".", ",")


def other_digits(text: str, dice: random.Random) -> str:
    return text.translate({ord("0") + i: chr(0x0660 + i) for i in range(10)})


DAMAGES = (
    cut,
    shuffled_lines,
    shuffled_columns,
    lost_columns,
    bytes_of_another_file,
    not_numbers,
    huge,
    impossible,
    commas,
    other_digits,
)
# After these no number is left that could be meant.
ABSURD = (not_numbers, impossible, commas, other_digits)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_outputs_get_a_sentence(damage):
    for number, name in enumerate(CASES):
        text = damage(text_of(name), random.Random(number))
        case = f"{damage.__name__} of {name}"
        report = verdict.of_text(text, **typed(name))
        assert re.search(r"[a-z]{2}.*\.", report), case
        found = verdict.verdicts(text, **typed(name))
        assert {one.word for one in found} <= WORDS, case
        if damage in ABSURD:
            assert {one.word for one in found} <= {NONE}, f"{case}:\n{report}"
        assert FASTER not in {one.word for one in found}, f"{case}:\n{report}"


def test_there_are_two_hundred():
    assert len(DAMAGES) * len(CASES) >= 200


def test_one_absurd_row_changes_no_verdict():
    text = text_of("nccl_tests_119")
    before = verdict.verdicts(text, **typed("nccl_tests_119"))[0]
    for wrong in ("2644.1", "0.001"), ("50.32", "5032.00"), ("96.45", "9e9"), ("2604.6", "nan"):
        after = verdict.verdicts(text.replace(*wrong, 1), **typed("nccl_tests_119"))[0]
        assert after.word == before.word
        assert after.reading.dropped <= 1

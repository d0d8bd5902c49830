"""The runner of wrong answers must itself not let anything pass."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.authoring import tiny_lab
from tests.labs.wrong_answers import LEAST, SHORTER, Wrong

NO = ("", "")  # nothing is replaced
FIRST = 'expect.equal(add(1, 2), 3, "add(1, 2)")'
BOTH = FIRST + '\n    expect.equal(add(length, -1), length - 1, "add(length, -1)")'


@pytest.fixture
def run(checkout):
    """Run the tiny lab's wrong answers, after replacing texts in the lab and in its list of wrong answers."""

    def call(in_lab: tuple[str, str] = NO, in_list: tuple[str, str] = NO):
        tiny_lab.put(checkout)
        for (old, new), names in (
            (in_lab, ["solutions/90_tiny.py", "labs/support/lab90.py"]),
            (in_list, ["tests/labs/wrong_answers/90_tiny.py"]),
        ):
            texts = {name: (checkout.root / name).read_text(encoding="utf-8") for name in names}
            assert any(old in text for text in texts.values())
            for name, text in texts.items():
                (checkout.root / name).write_text(text.replace(old, new) if old else text, encoding="utf-8")
        return checkout.python("-m", "tests.labs.wrong_answers.runner", "90_tiny", "--json", "out.json")

    return call


@pytest.mark.slow
def test_all_are_rejected(run, checkout):
    ended = run()
    assert ended.returncode == 0, ended.stderr
    assert "90_tiny: 6 of 6 wrong answers rejected, 1 of 1 right ones taken" in ended.stdout
    counts = {"seeded": 6, "rejected": 6, "right": 1, "taken": 1, "problems": []}
    assert json.loads((checkout.root / "out.json").read_text()) == counts


def test_a_check_waits_less_for_an_answer_that_hangs():
    usual = Wrong("90.1", "adds", "a", "b", "expected 3")
    hanging = replace(usual, hangs=True)
    assert usual.patience(30) == 30
    assert hanging.patience(60) == pytest.approx(60 * SHORTER)
    assert hanging.patience(8) == LEAST
    assert hanging.patience(4) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("in_lab", "in_list", "says"),
    [
        (NO, ('new="b + a"', 'new="b - a"'), "90.1, 'the other way round': right, but refused:\n✗ 90.1"),
        ((BOTH, 'expect(add(1, 0) == 1, "No.")'), NO, "90.1, 'forgets b': the check let it pass"),
        (NO, ('says="expected 3, got 1"', 'says="luck"'), "rejected, but without 'luck':\n✗ 90.1"),
        (NO, ('old="a + b"', 'old="a * b"'), "the answer holds 'a * b' 0 times, not once"),
        (NO, ('old="a + b"', 'old="b"'), "the answer holds 'b' 2 times"),
        (NO, ('Wrong("90.2", "adds"', 'Wrong("90.7", "adds"'), "the lab has no such exercise"),
        (NO, ('Wrong("90.2", "adds"', 'Wrong("90.1", "adds"'), "90.2 has 2 wrong answers; at least 3"),
        (NO, ("SMALL = dict(length=10)", "SMALL = dict(size=10)"), "There is no parameter 'size'"),
        (NO, ('new="a - b"', 'new="a -"'), "an error outside the check:"),
        (NO, ('says="expected 3, got 1"', 'says="expected 3, got 1", hangs=True'), "no parameter `patience`"),
        (("return a + b\n", "return a + b + 1\n"), NO, "the solved lab itself fails:"),
        (('"""The sum."""', 'return "x"'), NO, "90.1, the stub: rejected, but"),
    ],
)  # fmt: skip
def test_each_problem_is_found(run, in_lab, in_list, says):
    ended = run(in_lab, in_list)
    assert ended.returncode == 1
    assert says in ended.stderr

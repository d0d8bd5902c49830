"""The visit of a lab must itself not let anything pass: a small lab in which most is wrong."""

from __future__ import annotations

import pytest

from tests.authoring import tiny_lab

SPOILT = {
    "solutions/90_tiny.py": [
        ("Printing.", "Printing.\nfrom matplotlib import pyplot\nfrom labkit import plots"),
        ('word="é")\n\n# %% [markdown]', 'word="é")\n' + "{draw}\n# %% [markdown]"),
    ],
    "labs/support/lab90.py": [
        ('    expect.equal(add(length, -1), length - 1, "add(length, -1)")\n', "")
    ],
    "tests/labs/wrong_answers/90_tiny.py": [
        ('new="b + a"', 'new="b - a"'),
        ('new="a - b", says="expected 3, got -1"', 'new="3", says="expected 3"'),
        ('new="return a", says="expected 3, got 1"', 'new="return a", says="luck"'),
        ('old="return a + b", new="a + b"', 'old="b", new="a + b"'),
        ('new="return None", says="got None"', 'new="return [", says="got None"'),
        ('says="expected 2 at [0], got 3"', 'says="expected 2 at [0], got 3", hangs=True'),
        ('Wrong("90.2", "both"', 'Wrong("90.7", "both"'),
    ],
}
DRAW = """
figure, axes = pyplot.subplots()
axes.set_title("A title that is far longer than the figure that it belongs to is wide " * 3)
plots.show(figure, "wide")
"""


def visited(checkout):
    return checkout.python("-m", "tests.labs.visit", tiny_lab.STEM)


@pytest.mark.slow
def test_each_problem_is_found(checkout):
    tiny_lab.put(checkout)
    ended = visited(checkout)
    assert ended.returncode == 0, ended.stderr
    assert (
        "90_tiny: 6 wrong answers and 1 right ones in other forms tried, 0 problems" in ended.stdout
    )

    for name, edits in SPOILT.items():
        file = checkout.root / name
        text = file.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new.format(draw=DRAW) if "{draw}" in new else new)
        file.write_text(text, encoding="utf-8")
    ended = visited(checkout)
    assert ended.returncode == 1
    for says in (
        "90.1, 'the other way round': right, but refused:\n✗ 90.1",
        "90.1, 'takes away': the check let it pass",
        "90.1, 'forgets b': rejected, but without 'luck':\n✗ 90.1",
        "90.1, 'forgets to return': the answer holds 'b' 2 times, not once",
        "90.2, 'no list': an error outside the check:",
        "90.2, 'adds': it hangs, and the lab has no parameter `patience`",
        "the lab has no such exercise",
        "90.2 has 2 wrong answers; at least 3 are needed",
        "A figure with text that cannot be read: 'A title that is far longer",
    ):
        assert says in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("return a + b\n", "return a + b + 1\n", "the solved lab itself fails:"),
        (
            '"""The sum."""',
            'return "x"',
            "90.1, the stub: rejected, but without '✗ 90.1  not solved yet.'",
        ),
    ],
)
def test_a_lab_that_fails_or_gives_its_answer_away_is_found(checkout, old, new, says):
    tiny_lab.put(checkout, tiny_lab.LAB.replace(old, new))
    ended = visited(checkout)
    assert ended.returncode == 1
    assert says in ended.stderr

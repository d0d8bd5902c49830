"""What expect.… says when it is not met."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import expect
from labkit.checks import expectations
from labkit.errors import CheckFailed, LabError

ONES = np.ones(2)
WEIGHTS, OTHER = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 5.0]])
NONE = "n: got None. Does the function return its result?"


def says(call, *arguments, **more) -> str:
    """The sentence; "" where the expectation is met."""
    try:
        call(*arguments, "n", **more)
    except CheckFailed as error:
        return str(error)
    return ""


MOST = "n: {} off; most at [{}]: expected {}, got {}, off by {}."
IN_1 = "n [1]: 1 of 2 values is off; most at [1]: expected 1, got {}, off by {}."


@pytest.mark.parametrize(
    ("call", "got", "want", "sentence"),
    [
        ("equal", 1.0, 1, ""),
        ("equal", [1, (2, 3)], [1, (2, 3)], ""),
        ("equal", np.arange(3), [0, 1, 2], ""),
        ("equal", None, None, ""),
        ("equal", 2, 3, "n: expected 3, got 2."),
        ("equal", "a", "b", "n: expected 'b', got 'a'."),
        ("equal", None, 3, NONE),
        ("equal", [1, 2], [1, 2, 3], "n: expected 3 values, [1, 2, 3], got 2, [1, 2]."),
        ("equal", {"a": 1}, {"b": 1}, "n: expected the keys ['b'], got ['a']."),
        ("equal", {"a": [1, 2]}, {"a": [1, 3]}, "n: expected 3 at ['a'][1], got 2."),
        ("equal", np.zeros(3), np.zeros(2), "n: expected shape (2,), got (3,)."),
        ("equal", ONES, np.array([1, 9]), "n: 1 of 2 values differs; at [1] expected 9, got 1."),
        ("close", 1.0, 1.0 + 1e-9, ""),
        ("close", [ONES, WEIGHTS], [ONES, WEIGHTS], ""),
        ("close", {"a": 1.0}, {"a": 1.0}, ""),
        ("close", 5, 4, "n: expected 4, got 5, off by 1 (25.00%)."),
        ("close", OTHER, WEIGHTS, MOST.format("1 of 4 values is", "1, 1", 4, 5, "1 (25.00%)")),
        ("close", [1.0, np.nan], [1, 2], MOST.format("1 of 2 values is", 1, 2, "nan", "nan")),
        ("close", np.ones(3), 1.0, "n: expected shape (), got (3,)."),
        ("close", "a", 1.0, "n: expected numbers, got 'a'."),
        ("close", "1.0", 1.0, "n: expected numbers, got '1.0'."),
        ("close", {"1": 1.0}, {1: 1.0}, "n: expected the keys [1], got ['1']."),
        ("close", [ONES], [ONES, ONES], "n: expected 2 arrays, got [array([1., 1.])]."),
        ("close", [ONES, [1, 3]], [ONES, ONES], IN_1.format(3, "2 (200.00%)")),
        ("close", None, 1.0, NONE),
        ("between", 2, (1, 3), ""),
        ("between", 4.0, (1, 3), "n: expected between 1 and 3, got 4."),
        ("between", float("nan"), (1, 3), "n: expected between 1 and 3, got nan."),
        ("between", None, (1, 3), NONE),
    ],
)
def test_what_is_not_met_is_said_with_where_and_how_much(call, got, want, sentence):
    wants = want if call == "between" else (want,)
    assert says(getattr(expect, call), got, *wants) == sentence


def test_expect_takes_one_truth_value():
    expect(np.bool_(True), "fine")
    expect(np.array([True]), "fine")
    with pytest.raises(CheckFailed, match=r"^No\.$"):
        expect(np.bool_(False), "No.")
    with pytest.raises(LabError, match="one truth value"):
        expect(np.array([True, True]), "which?")


def test_close_takes_torch_tensors():
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(2, 2))
    expect.close(weight, np.ones((2, 2)), "parameter")
    expect.close([weight], [weight.clone()], "list of tensors")
    expect.close(torch.ones(2, dtype=torch.bfloat16), [1, 1], "bfloat16")
    expect(torch.tensor(True), "fine")
    assert "off by 1" in says(expect.close, weight, torch.zeros(2, 2))
    expect.equal(torch.arange(3), [0, 1, 2], "whole numbers")


def test_close_names_what_memory_happened_to_hold_without_a_warning():
    # A signalling nan, 3e38.
    unwritten = np.array([0x7F800001, 0x7F7FFFFF], dtype=np.uint32).view(np.float32)
    answer = says(expect.close, unwritten, [1.0, 2.0], slips={"use Allreduce": [0.0, 0.0]})
    assert "2 of 2 values are off" in answer
    assert says(expect.close, [np.inf, -np.inf], [1.0, np.inf]).count("off by") == 1


def test_every_expectation_counts_once():
    before = expectations.looked_at()
    expect(True, "")
    expect.equal({"a": [1, 2]}, {"a": [1, 2]}, "")
    expect.close([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)], "")
    expect.between(1, 0, 2, "")
    assert expectations.looked_at() == before + 4


TWO = "n: expected 2, got {}, off by {}"
DOUBLE = MOST.format("2 of 2 values are", 0, 1, 2, "1 (100.00%)")
LIST = "n: expected 1 at [0], got 0."


@pytest.mark.parametrize(
    ("call", "got", "want", "slips", "sentence"),
    [
        ("close", 2.0, 2.0, {"the sum": 6.0}, ""),
        ("close", 6.0, 2.0, {"the sum": 6.0, "own": 1.0}, TWO.format(6, "4 (200.00%). The sum.")),
        ("close", 1.0, 2.0, {"the sum": 6.0, "own": 1.0}, TWO.format(1, "1 (50.00%). Own.")),
        # On one rank the slip equals what is wanted: it cannot be named.
        ("close", 2.0, 2.0, {"the sum": 2.0}, ""),
        ("close", 3.0, 2.0, {"the sum": 2.0}, TWO.format(3, "1 (50.00%).")),
        ("close", ONES[:1], ONES, {"half": ONES[:1]}, "n: expected shape (2,), got (1,). Half."),
        ("close", 2 * ONES, ONES, {"twice": 2 * ONES}, f"{DOUBLE} Twice."),
        ("close", [2, 2], ONES, {"other": [2, 2]}, f"{DOUBLE} Other."),
        ("close", "no", ONES, {"never": ONES}, "n: expected numbers, got 'no'."),
        ("equal", [1, 1], [1, 1], {"the newest": [0, 1]}, ""),
        ("equal", [0, 1], [1, 1], {"only the newest": [0, 1]}, f"{LIST} Only the newest."),
        ("equal", None, [1], {"never": None}, NONE),
        ("equal", 2, 1, {"b stays": 2}, "n: expected 1, got 2. b stays."),
        ("equal", 1, 2, {"swapped?": 1}, "n: expected 2, got 1. Swapped?"),
        ("equal", 1, 2, {"m[i] is lost": 1}, "n: expected 2, got 1. m[i] is lost."),
    ],
)
def test_a_slip_is_named_only_where_the_answer_is_wrong_and_equals_it(
    call, got, want, slips, sentence
):
    assert says(getattr(expect, call), got, want, slips=slips) == sentence


def test_because_follows_and_so_does_the_slip_before_it():
    text = says(expect.equal, 2, 1, slips={"both ranks": 2}, because="one rank speaks")
    assert text == "n: expected 1, got 2. Both ranks. One rank speaks."
    text = says(expect.equal, 3, 1, because="One rank speaks!")
    assert text == "n: expected 1, got 3. One rank speaks!"


def test_unchanged():
    values = np.arange(3)
    before = values.copy()
    assert says(expect.unchanged, before, values) == ""
    values[1] = 7
    changed = "n was changed; it belongs to the caller."
    assert says(expect.unchanged, before, values) == changed
    assert says(expect.unchanged, [1], [1, 2], because="others use it") == (
        f"{changed} Others use it."
    )

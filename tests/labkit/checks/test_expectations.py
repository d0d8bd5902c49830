"""What expect.… says when it is not met."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import expect
from labkit.checks import expectations
from labkit.errors import CheckFailed, LabError


def says(call, *arguments, **more) -> str:
    with pytest.raises(CheckFailed) as caught:
        call(*arguments, **more)
    return str(caught.value)


def test_expect_takes_one_truth_value():
    expect(np.bool_(True), "fine")
    expect(np.array([True]), "fine")
    assert says(expect, np.bool_(False), "No.") == "No."
    with pytest.raises(LabError, match="one truth value"):
        expect(np.array([True, True]), "which?")


def test_equal():
    expect.equal(1.0, 1, "one")
    expect.equal([1, (2, 3)], [1, (2, 3)], "nested")
    expect.equal(np.arange(3), [0, 1, 2], "array and list")
    expect.equal(None, None, "nothing")
    assert says(expect.equal, 2, 3, "n") == "n: expected 3, got 2."
    assert says(expect.equal, None, 3, "n") == "n: got None. Does the function return its result?"
    shorter = "list: expected 3 values, [1, 2, 3], got 2, [1, 2]."
    assert says(expect.equal, [1, 2], [1, 2, 3], "list") == shorter
    assert (
        says(expect.equal, {"a": 1}, {"b": 1}, "keys")
        == "keys: expected the keys ['b'], got ['a']."
    )
    assert (
        says(expect.equal, {"a": [1, 2]}, {"a": [1, 3]}, "d") == "d: expected 3 at ['a'][1], got 2."
    )
    assert says(expect.equal, np.zeros(3), np.zeros(2), "x") == "x: expected shape (2,), got (3,)."
    assert says(expect.equal, np.arange(4), np.array([0, 9, 2, 3]), "x") == (
        "x: 1 of 4 values differs; at [1] expected 9, got 1."
    )
    assert "expected 'b', got 'a'" in says(expect.equal, "a", "b", "word")


def test_close_says_where_and_how_much():
    expect.close(1.0, 1.0 + 1e-9, "one")
    expect.close([np.ones(2), np.zeros((2, 2))], [np.ones(2), np.zeros((2, 2))], "ragged")
    expect.close({"a": 1.0}, {"a": 1.0}, "dict")
    text = says(
        expect.close, np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), "loss"
    )
    assert (
        text == "loss: 1 of 4 values is off; most at [1, 1]: expected 4, got 5, off by 1 (25.00%)."
    )
    assert says(expect.close, 5, 4, "n") == "n: expected 4, got 5, off by 1 (25.00%)."
    assert "got nan" in says(expect.close, [1.0, float("nan")], [1.0, 2.0], "x")
    assert says(expect.close, np.ones(3), 1.0, "x") == "x: expected shape (), got (3,)."
    assert "expected numbers, got 'a'" in says(expect.close, "a", 1.0, "x")
    assert "expected numbers, got '1.0'" in says(expect.close, "1.0", 1.0, "x")
    assert "expected the keys [1], got ['1']" in says(expect.close, {"1": 1.0}, {1: 1.0}, "x")
    assert says(expect.close, [np.ones(2)], [np.ones(2), np.ones(3)], "w").startswith(
        "w: expected 2 arrays"
    )
    assert says(
        expect.close, [np.ones(2), 2 * np.ones(3)], [np.ones(2), np.ones(3)], "w"
    ).startswith("w [1]: 3 of 3")
    assert "Does the function return" in says(expect.close, None, 1.0, "x")


def test_close_takes_torch_tensors():
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(2, 2))
    expect.close(weight, np.ones((2, 2)), "parameter")
    expect.close([weight], [weight.clone()], "list of tensors")
    expect.close(torch.ones(2, dtype=torch.bfloat16), [1, 1], "bfloat16")
    expect(torch.tensor(True), "fine")
    assert "off by 1" in says(expect.close, weight, torch.zeros(2, 2), "w")
    expect.equal(torch.arange(3), [0, 1, 2], "whole numbers")


def test_close_names_what_memory_happened_to_hold_without_a_warning():
    # A signalling nan, 3e38.
    unwritten = np.array([0x7F800001, 0x7F7FFFFF], dtype=np.uint32).view(np.float32)
    answer = says(expect.close, unwritten, [1.0, 2.0], "Sum", slips={"use Allreduce": [0.0, 0.0]})
    assert "2 of 2 values are off" in answer
    assert says(expect.close, [np.inf, -np.inf], [1.0, np.inf], "Sum").count("off by") == 1


def test_between():
    expect.between(2, 1, 3, "n")
    assert says(expect.between, 4.0, 1, 3, "n") == "n: expected between 1 and 3, got 4."
    assert "got nan" in says(expect.between, float("nan"), 1, 3, "n")
    assert "Does the function return" in says(expect.between, None, 1, 3, "n")


def test_every_expectation_counts_once():
    before = expectations.looked_at()
    expect(True, "")
    expect.equal({"a": [1, 2]}, {"a": [1, 2]}, "")
    expect.close([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)], "")
    expect.between(1, 0, 2, "")
    assert expectations.looked_at() == before + 4


def test_a_slip_is_named_only_where_the_answer_is_wrong_and_equals_it():
    slips = {"the sum, not the mean": 6.0, "this rank's own": 1.0}
    expect.close(2.0, 2.0, "mean", slips=slips)
    assert says(expect.close, 6.0, 2.0, "mean", slips=slips) == (
        "mean: expected 2, got 6, off by 4 (200.00%). The sum, not the mean."
    )
    assert says(expect.close, 1.0, 2.0, "mean", slips=slips).endswith("(50.00%). This rank's own.")
    # On one rank both slips equal what is wanted: neither can be named.
    expect.close(2.0, 2.0, "mean", slips={"the sum": 2.0})
    assert "sum" not in says(expect.close, 3.0, 2.0, "mean", slips={"the sum": 2.0})


def test_slips_of_arrays_lists_and_of_equal():
    want = np.array([1.0, 2.0])
    assert says(expect.close, 2 * want, want, "x", slips={"twice as much": 2 * want}).endswith(
        ". Twice as much."
    )
    assert says(expect.close, want[:1], want, "x", slips={"half of it is missing": want[:1]}) == (
        "x: expected shape (2,), got (1,). Half of it is missing."
    )
    assert says(expect.close, [3, 4], want, "x", slips={"m[i] is lost": [3, 4]}).endswith(
        ". m[i] is lost."
    )
    assert says(expect.close, "no number", want, "x", slips={"never": want}) == (
        "x: expected numbers, got 'no number'."
    )
    expect.equal([1, 1], [1, 1], "tests", slips={"only the newest": [0, 1]})
    assert says(expect.equal, [0, 1], [1, 1], "tests", slips={"only the newest": [0, 1]}) == (
        "tests: expected 1 at [0], got 0. Only the newest."
    )
    assert says(expect.equal, None, [1], "tests", slips={"never": None}).startswith(
        "tests: got None."
    )


def test_because_follows_and_so_does_the_slip_before_it():
    text = says(expect.equal, 2, 1, "n", slips={"both ranks": 2}, because="one rank speaks")
    assert text == "n: expected 1, got 2. Both ranks. One rank speaks."
    assert says(expect.equal, 2, 1, "n", slips={"b stays": 2}) == "n: expected 1, got 2. b stays."
    assert (
        says(expect.equal, 3, 1, "n", because="One rank speaks!")
        == "n: expected 1, got 3. One rank speaks!"
    )


def test_unchanged():
    values = np.arange(3)
    before = values.copy()
    expect.unchanged(before, values, "the input")
    values[1] = 7
    assert says(expect.unchanged, before, values, "The input") == (
        "The input was changed; it belongs to the caller."
    )
    assert says(expect.equal, 1, 2, "n", slips={"swapped?": 1}) == "n: expected 2, got 1. Swapped?"
    text = says(expect.unchanged, [1], [1, 2], "The list", because="others use it")
    assert text == "The list was changed; it belongs to the caller. Others use it."

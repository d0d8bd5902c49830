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
    assert says(expect.equal, [1, 2], [1, 2, 3], "list") == "list: expected 3 values, got 2."
    assert says(expect.equal, {"a": 1}, {"b": 1}, "keys") == "keys: expected the keys ['b'], got ['a']."
    assert says(expect.equal, {"a": [1, 2]}, {"a": [1, 3]}, "d") == "d: expected 3 at ['a'][1], got 2."
    assert says(expect.equal, np.zeros(3), np.zeros(2), "x") == "x: expected shape (2,), got (3,)."
    assert says(expect.equal, np.arange(4), np.array([0, 9, 2, 3]), "x") == (
        "x: 1 of 4 values differ; at [1] expected 9, got 1."
    )
    assert "expected 'b', got 'a'" in says(expect.equal, "a", "b", "word")


def test_close_says_where_and_how_much():
    expect.close(1.0, 1.0 + 1e-9, "one")
    expect.close([np.ones(2), np.zeros((2, 2))], [np.ones(2), np.zeros((2, 2))], "ragged")
    expect.close({"a": 1.0}, {"a": 1.0}, "dict")
    text = says(expect.close, np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), "loss")
    assert text == "loss: 1 of 4 values are off; most at [1, 1]: expected 4, got 5, off by 1 (25.00%)."
    assert says(expect.close, 5, 4, "n") == "n: expected 4, got 5, off by 1 (25.00%)."
    assert "got nan" in says(expect.close, [1.0, float("nan")], [1.0, 2.0], "x")
    assert says(expect.close, np.ones(3), 1.0, "x") == "x: expected shape (), got (3,)."
    assert "expected numbers, got 'a'" in says(expect.close, "a", 1.0, "x")
    assert says(expect.close, [np.ones(2)], [np.ones(2), np.ones(3)], "w").startswith("w: expected 2 arrays")
    assert says(expect.close, [np.ones(2), 2 * np.ones(3)], [np.ones(2), np.ones(3)], "w").startswith(
        "w [1]: 3 of 3"
    )
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


def test_between():
    expect.between(2, 1, 3, "n")
    assert says(expect.between, 4.0, 1, 3, "n") == "n: expected between 1 and 3, got 4."
    assert "got nan" in says(expect.between, float("nan"), 1, 3, "n")
    assert "Does the function return" in says(expect.between, None, 1, 3, "n")


def test_raises():
    error = expect.raises(ValueError, lambda: int("a"), "int('a')")
    assert isinstance(error, ValueError)
    assert says(expect.raises, KeyError, lambda: int("a"), "x").startswith(
        "x: expected KeyError, got ValueError: invalid"
    )
    assert says(expect.raises, ValueError, lambda: 3, "x") == "x: expected ValueError, but it returned 3."


def test_every_expectation_counts_once():
    before = expectations.looked_at()
    expect(True, "")
    expect.equal({"a": [1, 2]}, {"a": [1, 2]}, "")
    expect.close([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)], "")
    expect.between(1, 0, 2, "")
    expect.raises(ValueError, lambda: int("a"), "")
    assert expectations.looked_at() == before + 5

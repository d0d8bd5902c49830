"""timing.in_turns: many calls beside each other, as timing.ratio does with two."""

from __future__ import annotations

import pytest
from labkit import timing
from labkit.errors import LabError


def test_several_calls_take_turns_and_keep_their_names():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    found = timing.in_turns(calls, repeat=6, warmup=1)
    assert "".join(order) == "abc" + "abccba" * 3
    assert list(found) == list("abc")
    assert {len(one.samples) for one in found.values()} == {6}


def test_an_option_that_measure_does_not_have_is_refused():
    with pytest.raises(LabError, match="no option turns"):
        timing.in_turns({"a": dict}, turns=3)

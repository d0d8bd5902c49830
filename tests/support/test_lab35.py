"""Lab 35: what a message keeps, links that pay; the lab checks the rest."""

import numpy as np
import pytest
from labkit.timing import Measurement
from support import lab35


def test_bits_to_all_are_as_many_bytes_as_a_ring_on_64_ranks():
    assert lab35.ring_and_bits(4, 6400) == (2 * 3 * 6400, 3 * 800)
    ring, bits = lab35.ring_and_bits(64, 6400)
    assert ring == bits


def test_what_a_message_keeps():
    gradient = np.array([0.0] * 50 + [1.0] * 49 + [10.0], np.float32)
    assert lab35.kept(gradient, gradient) == pytest.approx((1, 100 / 149, 0))
    even = np.ones(100, np.float32)
    assert lab35.kept(even, gradient) == pytest.approx((59 / 149**0.5 / 10, 0.01, 0.5))


def test_links_below_which_a_way_wins():
    quarter, more = Measurement(np.array([0.25])), Measurement(np.array([1.25]))
    times = {"float32": [quarter, quarter], "1 bit": [quarter, more, quarter]}
    assert lab35.packing(times, "1 bit", 4) == pytest.approx(1 + 3 * 0.25)
    below = lab35.links(times, n=800, k=8)
    assert below["1 bit"][4] == pytest.approx(8e-9 * (4800 - 3 * 108) / (1 + 3 * 0.25))
    assert lab35.break_even(1, 2, seconds=1) == 0

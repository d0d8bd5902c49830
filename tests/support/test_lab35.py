"""Lab 35: cases that mistakes must fail, what a message keeps, links that pay; the lab checks the rest."""

import numpy as np
import pytest
from labkit.timing import Measurement
from support import lab35

SIMPLE = (lab35.whole, lab35.from_whole)


def feedback(comm, gradient, error, compress, expand):
    wanted = gradient + error
    message = compress(wanted)
    error[:] = wanted - expand(message, len(gradient))
    messages = np.empty((comm.size, len(message)), np.uint8)
    comm.Allgather(message, messages)
    return np.mean([expand(row, len(gradient)) for row in messages], axis=0)


def test_a_sum_in_float16_is_not():
    lost = 0
    for case in lab35.half_cases(4, lengths=(9,)):
        with np.errstate(over="ignore"):
            there = (case.gradients * case.scale).astype(np.float16)
            mean = there.sum(axis=0, dtype=np.float16).astype(np.float32) / 4 / case.scale
        lost += not np.allclose(mean, case.mean, rtol=case.rtol, atol=0)
    assert lost > 2


def test_training_loses_with_the_error():
    kept, lost = (
        lab35.accuracy(feedback, SIMPLE, keep=keep, epochs=1, rate=0.2, seeds=(0,))[0]
        for keep in (True, False)
    )
    assert lost < 40 < kept, "gradients below 0.5 are 0 as whole numbers"


def test_bits_to_all_are_as_many_bytes_as_a_ring_on_64_ranks():
    assert lab35.ring_and_bits(4, 6400) == (2 * 3 * 6400, 3 * 800)
    ring, bits = lab35.ring_and_bits(64, 6400)
    assert ring == bits


def test_what_a_message_keeps():
    gradient = np.array([0.0] * 50 + [1.0] * 49 + [10.0], np.float32)
    assert lab35.kept(gradient, gradient) == pytest.approx((1, 100 / 149, 0))
    even = np.ones(100, np.float32)
    assert lab35.kept(even, gradient) == pytest.approx((59 / 149**0.5 / 10, 0.01, 0.5))
    assert lab35.first_gradient().shape == (17_226,)


def test_links_below_which_a_way_wins():
    quarter, more = Measurement(np.array([0.25])), Measurement(np.array([1.25]))
    times = {"float32": [quarter, quarter], "1 bit": [quarter, more, quarter]}
    assert lab35.packing(times, "1 bit", 4) == pytest.approx(1 + 3 * 0.25)
    below = lab35.links(
        times,
        lambda n, p, k: {"float32": 8.0, "1 bit": 1.0},
        lambda full, small, seconds: (full - small) / seconds,
        1,
        1,
    )
    assert below["1 bit"][4] == pytest.approx(8e-9 * 7 / (1 + 3 * 0.25))

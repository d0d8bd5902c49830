"""Lab 22: two lines through measured times, below and above the eager limit."""

from __future__ import annotations

import numpy as np
import pytest
from labkit.errors import LabError
from labkit.scaling import fit_alpha_beta
from support.lab22 import TwoLines, two_lines

SIZES = [0, *(1 << power for power in range(25))]
MADE = TwoLines(eager=8192, alpha=2e-6, beta=2e-10, alpha_above=6e-6, beta_above=1e-10)


def by_labkit(sizes, seconds):
    line = fit_alpha_beta(dict(zip(sizes, seconds, strict=True)))
    return line.alpha, line.beta


@pytest.mark.parametrize("eager", [256, 8192, 1 << 17])
def test_two_lines_are_found_again(eager):
    made = MADE._replace(eager=eager)
    lines = two_lines({n: made.time(n) for n in SIZES}, by_labkit)
    assert lines.eager == eager
    np.testing.assert_allclose(lines[1:], made[1:], rtol=1e-6)


def test_two_lines_need_messages_that_are_long_enough():
    times = {n: MADE.time(n) for n in SIZES}
    two_lines({n: seconds for n, seconds in times.items() if n <= 2048}, by_labkit)
    with pytest.raises(LabError, match="set longest to 2048 or more"):
        two_lines({n: seconds for n, seconds in times.items() if n <= 1024}, by_labkit)


def test_noise_and_the_memory_at_the_right_end_are_not_taken_for_a_step():
    random = np.random.default_rng(0)
    noisy = {n: MADE.time(n) * random.uniform(0.95, 1.05) for n in SIZES}
    bent = {n: MADE.time(n) * (0.6 if 1 << 21 < n < 1 << 24 else 1) for n in SIZES}
    assert two_lines(noisy, by_labkit).eager == two_lines(bent, by_labkit).eager == 8192


def test_numbers_for_the_virtual_machine():
    numbers = {"alpha": 2e-6, "bandwidth": 1e10, "eager": 8192, "handshake": 4e-6}
    numbers |= {"busy": 1e-6, "step": 3e-6}
    times = {n: MADE.time(n) for n in SIZES}
    # A few do not count.
    cached = {n: t / 2 if n in (1 << 22, 1 << 23) else t for n, t in times.items()}
    for seconds in (times, cached):
        assert MADE.numbers(seconds, busy=1e-6, step=3e-6) == pytest.approx(numbers)
    falls = MADE._replace(beta_above=-1e-12)
    assert falls.numbers({1: 1e-6}, 1e-6, 3e-6)["bandwidth"] == float("inf")
    assert str(falls) == "2.00 µs + n / 5.00 GB/s up to 8192 bytes, 6.00 µs above"

"""scaling: the laws against worked examples, the fits against data whose answer is known."""

import numpy as np
import pytest
from labkit import scaling
from labkit.errors import LabError
from labkit.scaling import costs
from labkit.timing import Measurement

RANKS = (1, 2, 4, 8)


def noisy(times, share, seed, runs=15):
    """ranks -> samples around times[ranks], with noise of that share of each time."""
    random = np.random.default_rng(seed)
    return {p: seconds * (1 + share * random.standard_normal(runs)) for p, seconds in times.items()}


@pytest.mark.parametrize(
    ("times", "weak", "speedups"),
    [
        ({4: 3.0, 1: 10.0, 2: 6.0}, False, {1: 1.0, 2: 10 / 6, 4: 10 / 3}),
        ({1: 10.0, 2: 11.0, 4: 12.5}, True, {1: 1.0, 2: 20 / 11, 4: 3.2}),
        # The fewest ranks are the base.
        ({4: 2.0, 8: 1.25}, False, {4: 4.0, 8: 6.4}),
        ({4: 2.0, 8: 2.5}, True, {4: 4.0, 8: 6.4}),
        # Samples count by their median.
        ({1: [10.0, 10.0, 90.0], 2: Measurement(np.array([5.0, 5.0, 50.0]))}, False, {1: 1, 2: 2}),
    ],
)
def test_speedup_and_efficiency(times, weak, speedups):
    found = scaling.speedup(times, weak=weak)
    assert found == pytest.approx(speedups)
    assert list(found) == sorted(found)
    shares = {ranks: times / ranks for ranks, times in speedups.items()}
    assert scaling.efficiency(times, weak=weak) == pytest.approx(shares)


def test_the_laws():
    assert scaling.amdahl(1, 0.3) == 1
    assert scaling.amdahl(8, 0) == 8
    assert scaling.amdahl(10**9, 0.05) == pytest.approx(20)
    assert scaling.amdahl(4, 0.1) == pytest.approx(1 / 0.325)
    assert scaling.amdahl(np.array([1, 2]), 0.5) == pytest.approx([1, 4 / 3])


@pytest.mark.parametrize("serial", [0.0, 0.05, 1.0])
def test_fit_amdahl_finds_the_share_exactly_without_noise(serial):
    times = {p: 3.0 / scaling.amdahl(p, serial) for p in RANKS}
    fit = scaling.fit_amdahl(times)
    assert fit.serial == pytest.approx(serial, abs=1e-9)
    assert fit.alone == pytest.approx(3.0)
    assert fit.time(8) == pytest.approx(times[8])
    assert fit.speedup(4) == pytest.approx(scaling.amdahl(4, serial))


NOISE = [(RANKS, 0.02, 0.1), (RANKS, 0.1, 0.5), ((1, 2), 0.03, 0.3)]


@pytest.mark.parametrize(("ranks", "share", "wide"), NOISE)
def test_amdahls_interval_holds_the_true_share(ranks, share, wide):
    times = {p: 1.0 / scaling.amdahl(p, 0.1) for p in ranks}
    fits = [scaling.fit_amdahl(noisy(times, share, seed)) for seed in range(5)]
    assert all(fit.low <= 0.1 <= fit.high for fit in fits)
    assert np.median([fit.serial for fit in fits]) == pytest.approx(0.1, abs=0.02)
    assert all(0 <= fit.low <= fit.serial <= fit.high <= 1 for fit in fits)
    assert all(fit.high - fit.low < wide for fit in fits)


def test_single_times_have_an_interval_from_leaving_points_out():
    fit = scaling.fit_amdahl({1: 1.0, 2: 0.56, 4: 0.31, 8: 0.22})
    assert fit.low < fit.serial < fit.high
    assert fit.low <= 0.1 <= fit.high
    assert "serial share 10" in str(fit)


@pytest.mark.parametrize(
    ("times", "interval", "limit"),
    [
        ({1: 1.0, 2: 0.6}, (0.0, 0.2, 1.0), 5.0),  # two points say nothing of their error
        ({1: 1.0, 2: 0.45, 4: 0.2}, (0.0, 0.0, 0.0), float("inf")),  # faster than the law allows
        ({1: 1.0, 2: 1.3, 4: 1.9}, (1.0, 1.0, 1.0), 1.0),  # slower and slower
    ],
)
def test_a_serial_share_and_its_interval_stay_within_0_and_1(times, interval, limit):
    fit = scaling.fit_amdahl(times)
    assert (fit.low, fit.serial, fit.high) == pytest.approx(interval)
    assert fit.limit == pytest.approx(limit)


def ping_pong(noise, seed, alpha=2e-6, beta=1e-10):
    """bytes -> seconds of messages from 8 bytes to 16 MiB, the relative noise the same for all."""
    sizes = 2.0 ** np.arange(3, 25)
    random = np.random.default_rng(seed)
    seconds = (alpha + beta * sizes) * (1 + noise * random.standard_normal(len(sizes)))
    return dict(zip(sizes, seconds, strict=True))


def test_fit_alpha_beta_is_exact_without_noise():
    fit = scaling.fit_alpha_beta(ping_pong(0, 0))
    assert (fit.alpha, fit.beta) == pytest.approx((2e-6, 1e-10))
    assert fit.bandwidth == pytest.approx(1e10)
    assert fit.half == pytest.approx(2e4)
    assert fit.misfit == pytest.approx(0, abs=1e-9)
    assert fit.time(1e6) == pytest.approx(2e-6 + 1e-4)
    assert "α = 2.00 µs" in str(fit)
    assert "1/β = 10.0 GB/s" in str(fit)


def test_alpha_and_beta_lie_in_their_intervals():
    fits = [scaling.fit_alpha_beta(ping_pong(0.1, seed)) for seed in range(30)]
    assert sum(fit.alpha_low <= 2e-6 <= fit.alpha_high for fit in fits) >= 26
    assert sum(fit.beta_low <= 1e-10 <= fit.beta_high for fit in fits) >= 26
    assert np.median([fit.alpha for fit in fits]) == pytest.approx(2e-6, rel=0.03)
    assert all(0.05 < (fit.alpha_high - fit.alpha_low) / fit.alpha < 0.25 for fit in fits)
    assert np.median([fit.misfit for fit in fits]) == pytest.approx(0.1, rel=0.3)


def test_the_longest_message_does_not_decide_the_latency():
    """Plain least squares puts α anywhere when 16 MiB is 10 % off; relative least squares does
    not."""
    times = ping_pong(0, 0)
    times[2.0**24] *= 1.1
    plain = np.polyfit(list(times), list(times.values()), 1)[1]
    assert abs(plain - 2e-6) > 1e-6
    assert scaling.fit_alpha_beta(times).alpha == pytest.approx(2e-6, rel=0.02)


def test_alpha_and_beta_are_never_negative():
    # An empty message that took longer than long ones: as on a machine that does much else.
    noisy = scaling.fit_alpha_beta({0: 9.8e-7, 1024: 2.0e-7, 16384: 2.0e-7, 4194304: 4.2})
    assert noisy.alpha == 0
    assert 1 < noisy.misfit < np.inf
    falling = scaling.fit_alpha_beta({8: 3e-6, 1024: 2e-6, 2048: 1e-6})
    assert falling.beta == 0
    assert falling.bandwidth == falling.half == float("inf")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: scaling.speedup({}), "no times"),
        (lambda: scaling.speedup({1: -1.0}), "above 0"),
        (lambda: scaling.speedup({0: 1.0}), "0 is not a number of ranks"),
        (lambda: scaling.efficiency({1: float("nan")}), "above 0"),
        (lambda: scaling.amdahl(4, 1.5), "share between 0 and 1"),
        (lambda: scaling.amdahl(0, 0.5), "at least one rank"),
        (lambda: scaling.fit_amdahl({1: 1.0}), "two different points"),
        (lambda: scaling.fit_amdahl([1, 2]), "Give a dict"),
        (lambda: scaling.fit_alpha_beta({8: 1e-6}), "two different points"),
        (lambda: costs.busbw(1, 1, 4, "gather"), "does not know 'gather'"),
        (lambda: costs.ring_allreduce_time(1, 0, 1, 1), "at least one rank"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, says):
    with pytest.raises(LabError, match=says):
        call()


def test_ranks_that_are_no_power_of_two_send_and_add_once_more():
    """Powers of two, rings, trees and chains: tests/virtual plays them, message by message."""
    where = (1e6, 6, 1e-6, 1e-9, 1e-10)
    doubling = 4 * 1001e-6 + 3 * 100e-6
    assert costs.recursive_doubling_allreduce_time(*where) == pytest.approx(doubling)
    share = 5 / 6
    twice = 2 * (share + 1) * 1e-3 + (share + 1) * 1e-4
    assert costs.rabenseifner_allreduce_time(*where) == pytest.approx(6e-6 + twice)


def test_a_chain_takes_the_best_number_of_chunks():
    link = {"alpha": 1e-6, "beta": 1e-9}
    best = costs.chain_broadcast_time(10**8, 8, **link)
    others = [costs.chain_broadcast_time(10**8, 8, **link, chunks=k) for k in range(1, 2000)]
    assert best <= min(others) * 1.0001
    # A long message costs about n β, however long the chain.
    assert best == pytest.approx(0.1, rel=0.02)
    assert costs.chain_broadcast_time(10, 1, **link) == 0


def test_a_parameter_server_is_a_hot_spot():
    assert costs.parameter_server_time(1e6, 8, 0, 1e-9) == pytest.approx(16e-3)
    assert costs.parameter_server_time(1e6, 8, 0, 1e-9, servers=8) == pytest.approx(2e-3)


def test_bandwidths_follow_nccl_tests():
    assert costs.algbw(4e9, 2.0) == 2e9
    factors = {"allreduce": 1.5, "broadcast": 1}
    factors |= dict.fromkeys(("reduce_scatter", "allgather", "alltoall"), 0.75)
    for collective, factor in factors.items():
        assert costs.busbw(4e9, 2.0, 4, collective) == pytest.approx(factor * 2e9), collective

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


def test_speedup_and_efficiency():
    times = {4: 3.0, 1: 10.0, 2: 6.0}
    assert scaling.speedup(times) == pytest.approx({1: 1.0, 2: 10 / 6, 4: 10 / 3})
    assert list(scaling.speedup(times)) == [1, 2, 4]
    assert scaling.efficiency(times) == pytest.approx({1: 1.0, 2: 10 / 12, 4: 10 / 12})
    weak = {1: 10.0, 2: 11.0, 4: 12.5}
    assert scaling.efficiency(weak, weak=True) == pytest.approx({1: 1.0, 2: 10 / 11, 4: 0.8})
    assert scaling.speedup(weak, weak=True) == pytest.approx({1: 1.0, 2: 20 / 11, 4: 3.2})


def test_the_fewest_ranks_are_the_base_and_samples_count_by_their_median():
    assert scaling.speedup({4: 2.0, 8: 1.0}) == pytest.approx({4: 4.0, 8: 8.0})
    assert scaling.efficiency({4: 2.0, 8: 1.25}) == pytest.approx({4: 1.0, 8: 0.8})
    assert scaling.efficiency({4: 2.0, 8: 2.5}, weak=True) == pytest.approx({4: 1.0, 8: 0.8})
    times = {1: [10.0, 10.0, 90.0], 2: Measurement(np.array([5.0, 5.0, 50.0]))}
    assert scaling.speedup(times) == pytest.approx({1: 1.0, 2: 2.0})


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


@pytest.mark.parametrize(
    ("ranks", "share", "wide"), [(RANKS, 0.02, 0.1), (RANKS, 0.1, 0.5), ((1, 2), 0.03, 0.3)]
)
def test_amdahls_interval_holds_the_true_share(ranks, share, wide):
    times = {p: 1.0 / scaling.amdahl(p, 0.1) for p in ranks}
    fits = [scaling.fit_amdahl(noisy(times, share, seed)) for seed in range(10)]
    assert sum(fit.low <= 0.1 <= fit.high for fit in fits) >= 8
    assert np.median([fit.serial for fit in fits]) == pytest.approx(0.1, abs=0.02)
    assert all(0 <= fit.low <= fit.serial <= fit.high <= 1 for fit in fits)
    assert all(fit.high - fit.low < wide for fit in fits)


def test_single_times_have_an_interval_from_leaving_points_out():
    fit = scaling.fit_amdahl({1: 1.0, 2: 0.56, 4: 0.31, 8: 0.22})
    assert fit.low < fit.serial < fit.high
    assert fit.low <= 0.1 <= fit.high
    two = scaling.fit_amdahl({1: 1.0, 2: 0.6})
    assert (two.serial, two.low, two.high) == pytest.approx((0.2, 0.0, 1.0)), (
        "they say nothing of their error"
    )


def test_super_linear_and_worsening_times_stay_within_0_and_1():
    faster = scaling.fit_amdahl({1: 1.0, 2: 0.45, 4: 0.2})
    assert (faster.serial, faster.limit) == (0.0, float("inf"))
    slower = scaling.fit_amdahl({1: 1.0, 2: 1.3, 4: 1.9})
    assert (slower.serial, slower.limit) == (1.0, 1.0)
    assert "serial share" in str(faster)


def ping_pong(noise, seed, alpha=2e-6, beta=1e-10):
    """bytes -> seconds of messages from 8 bytes to 16 MiB, the relative noise the same for all."""
    sizes = 2.0 ** np.arange(3, 25)
    random = np.random.default_rng(seed)
    seconds = (alpha + beta * sizes) * (1 + noise * random.standard_normal(len(sizes)))
    return dict(zip(sizes, seconds, strict=True))


def test_times_so_noisy_that_no_constant_is_left_have_a_large_misfit():
    # An empty message that took longer than long ones: as on a machine that does much else.
    fit = scaling.fit_alpha_beta({0: 9.8e-7, 1024: 2.0e-7, 16384: 2.0e-7, 4194304: 4.2})
    assert fit.alpha == 0
    assert np.isfinite(fit.misfit)
    assert fit.misfit > 1


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
    fit = scaling.fit_alpha_beta({8: 1e-9, 1024: 1e-6, 2048: 4e-6})
    assert fit.alpha >= 0
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
    assert costs.recursive_doubling_allreduce_time(*where) == pytest.approx(
        4 * 1001e-6 + 3 * 100e-6
    )
    share = 5 / 6
    twice = 2 * (share + 1) * 1e-3 + (share + 1) * 1e-4
    assert costs.rabenseifner_allreduce_time(*where) == pytest.approx(6e-6 + twice)


def test_a_chain_takes_the_best_number_of_chunks():
    link = {"alpha": 1e-6, "beta": 1e-9}
    best = costs.chain_broadcast_time(10**8, 8, **link)
    assert all(
        best <= costs.chain_broadcast_time(10**8, 8, **link, chunks=k) * 1.0001
        for k in range(1, 2000)
    )
    # A long message costs about n β, however long the chain.
    assert best == pytest.approx(0.1, rel=0.02)
    assert costs.chain_broadcast_time(10, 1, **link) == 0


def test_a_parameter_server_is_a_hot_spot():
    assert costs.parameter_server_time(1e6, 8, 0, 1e-9) == pytest.approx(16e-3)
    assert costs.parameter_server_time(1e6, 8, 0, 1e-9, servers=8) == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("allreduce", 1.5),
        ("reduce_scatter", 0.75),
        ("allgather", 0.75),
        ("alltoall", 0.75),
        ("broadcast", 1),
    ],
)
def test_bandwidths_follow_nccl_tests(collective, factor):
    assert costs.algbw(4e9, 2.0) == 2e9
    assert costs.busbw(4e9, 2.0, 4, collective) == pytest.approx(factor * 2e9)

"""scaling: the laws against worked examples, the fits against data whose answer is known."""

import numpy as np
import pytest
from labkit.errors import LabError
from labkit.scaling import laws
from labkit.timing import Measurement

RANKS = (1, 2, 4, 8)


def noisy(times, share, seed, runs=15):
    """ranks -> samples around times[ranks], with noise of that share of each time."""
    random = np.random.default_rng(seed)
    return {p: seconds * (1 + share * random.standard_normal(runs)) for p, seconds in times.items()}


def test_speedup_and_efficiency():
    times = {4: 3.0, 1: 10.0, 2: 6.0}
    assert laws.speedup(times) == pytest.approx({1: 1.0, 2: 10 / 6, 4: 10 / 3})
    assert list(laws.speedup(times)) == [1, 2, 4]
    assert laws.efficiency(times) == pytest.approx({1: 1.0, 2: 10 / 12, 4: 10 / 12})
    weak = {1: 10.0, 2: 11.0, 4: 12.5}
    assert laws.efficiency(weak, weak=True) == pytest.approx({1: 1.0, 2: 10 / 11, 4: 0.8})
    assert laws.speedup(weak, weak=True) == pytest.approx({1: 1.0, 2: 20 / 11, 4: 3.2})


def test_the_fewest_ranks_are_the_base_where_one_was_not_measured():
    assert laws.speedup({4: 2.0, 8: 1.0}) == pytest.approx({4: 4.0, 8: 8.0})
    assert laws.efficiency({4: 2.0, 8: 1.25}) == pytest.approx({4: 1.0, 8: 0.8})
    assert laws.efficiency({4: 2.0, 8: 2.5}, weak=True) == pytest.approx({4: 1.0, 8: 0.8})


def test_samples_and_measurements_count_by_their_median():
    times = {1: [10.0, 10.0, 90.0], 2: Measurement(np.array([5.0, 5.0, 50.0]))}
    assert laws.speedup(times) == pytest.approx({1: 1.0, 2: 2.0})


def test_the_laws():
    assert laws.amdahl(1, 0.3) == 1
    assert laws.amdahl(8, 0) == 8
    assert laws.amdahl(10**9, 0.05) == pytest.approx(20)
    assert laws.amdahl(4, 0.1) == pytest.approx(1 / 0.325)
    assert laws.amdahl(np.array([1, 2]), 0.5) == pytest.approx([1, 4 / 3])
    assert laws.gustafson(8, 0) == 8
    assert laws.gustafson(8, 1) == 1
    # Gustafson's own example: 1,024 processors, serial share 0.4 to 0.8 %, speed-ups of 1,016 to 1,021.
    assert laws.gustafson(1024, 0.004) == pytest.approx(1019.9, abs=0.1)


@pytest.mark.parametrize("serial", [0.0, 0.05, 0.3, 1.0])
def test_fit_amdahl_finds_the_share_exactly_without_noise(serial):
    times = {p: 3.0 / laws.amdahl(p, serial) for p in RANKS}
    fit = laws.fit_amdahl(times)
    assert fit.serial == pytest.approx(serial, abs=1e-9)
    assert fit.one == pytest.approx(3.0)
    assert fit.time(8) == pytest.approx(times[8])
    assert fit.speedup(4) == pytest.approx(laws.amdahl(4, serial))
    assert laws.fit_amdahl(list(times), list(times.values())) == fit


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_amdahls_interval_holds_the_true_share(share):
    times = {p: 1.0 / laws.amdahl(p, 0.1) for p in RANKS}
    fits = [laws.fit_amdahl(noisy(times, share, seed)) for seed in range(40)]
    assert sum(fit.low <= 0.1 <= fit.high for fit in fits) >= 34
    assert np.median([fit.serial for fit in fits]) == pytest.approx(0.1, abs=0.02)
    assert all(0 <= fit.low <= fit.serial <= fit.high <= 1 for fit in fits)


def test_two_points_with_samples_have_an_interval_from_the_samples():
    times = {p: 1.0 / laws.amdahl(p, 0.1) for p in (1, 2)}
    fits = [laws.fit_amdahl(noisy(times, 0.03, seed)) for seed in range(40)]
    assert sum(fit.low <= 0.1 <= fit.high for fit in fits) >= 34
    assert all(fit.high - fit.low < 0.3 for fit in fits)


def test_more_noise_means_a_wider_interval():
    times = {p: 1.0 / laws.amdahl(p, 0.1) for p in RANKS}
    widths = [np.median([_width(noisy(times, share, seed)) for seed in range(10)]) for share in (0.01, 0.1)]
    assert widths[1] > 4 * widths[0]


def _width(times):
    fit = laws.fit_amdahl(times)
    return fit.high - fit.low


def test_single_times_have_an_interval_from_leaving_points_out():
    times = {1: 1.0, 2: 0.56, 4: 0.31, 8: 0.22}
    fit = laws.fit_amdahl(times)
    assert fit.low < fit.serial < fit.high
    assert fit.low <= 0.1 <= fit.high


def test_two_single_times_say_nothing_about_their_error():
    fit = laws.fit_amdahl({1: 1.0, 2: 0.6})
    assert (fit.serial, fit.low, fit.high) == pytest.approx((0.2, 0.0, 1.0))


def test_super_linear_and_worsening_times_stay_within_0_and_1():
    faster = laws.fit_amdahl({1: 1.0, 2: 0.45, 4: 0.2})
    assert (faster.serial, faster.limit) == (0.0, float("inf"))
    slower = laws.fit_amdahl({1: 1.0, 2: 1.3, 4: 1.9})
    assert (slower.serial, slower.limit) == (1.0, 1.0)
    assert laws.fit_gustafson({1: 1.0, 2: 0.9, 4: 0.8}).serial == 0.0
    assert max(laws.efficiency({1: 1.0, 2: 0.45}).values()) > 1
    assert "serial share" in str(faster)


@pytest.mark.parametrize("serial", [0.0, 0.1, 0.5])
def test_fit_gustafson(serial):
    times = {p: 2.0 * p / laws.gustafson(p, serial) for p in RANKS}
    fit = laws.fit_gustafson(times)
    assert fit.serial == pytest.approx(serial, abs=1e-9)
    assert fit.time(4) == pytest.approx(times[4])
    fits = [laws.fit_gustafson(noisy(times, 0.03, seed)) for seed in range(20)]
    assert sum(fit.low <= serial <= fit.high for fit in fits) >= 16


def test_a_fit_prints_what_it_means():
    fit = laws.fit_amdahl({p: 1.0 / laws.amdahl(p, 0.05) for p in RANKS})
    assert str(fit).startswith("Amdahl: serial share 5.0% (95 % interval 5.0% to 5.0%), at most 20.0 times")


def ping_pong(noise, seed, alpha=2e-6, beta=1e-10):
    """Times of messages from 8 bytes to 16 MiB, the relative noise the same for all."""
    sizes = 2.0 ** np.arange(3, 25)
    random = np.random.default_rng(seed)
    return sizes, (alpha + beta * sizes) * (1 + noise * random.standard_normal(len(sizes)))


def test_fit_alpha_beta_is_exact_without_noise():
    fit = laws.fit_alpha_beta(*ping_pong(0, 0))
    assert (fit.alpha, fit.beta) == pytest.approx((2e-6, 1e-10))
    assert fit.bandwidth == pytest.approx(1e10)
    assert fit.half == pytest.approx(2e4)
    assert fit.misfit == pytest.approx(0, abs=1e-9)
    assert fit.time(1e6) == pytest.approx(2e-6 + 1e-4)
    assert "α = 2.00 µs" in str(fit)
    assert "1/β = 10.0 GB/s" in str(fit)


def test_alpha_and_beta_lie_in_their_intervals():
    fits = [laws.fit_alpha_beta(*ping_pong(0.1, seed)) for seed in range(60)]
    assert sum(fit.alpha_low <= 2e-6 <= fit.alpha_high for fit in fits) >= 52
    assert sum(fit.beta_low <= 1e-10 <= fit.beta_high for fit in fits) >= 52
    assert np.median([fit.alpha for fit in fits]) == pytest.approx(2e-6, rel=0.03)
    assert np.median([fit.misfit for fit in fits]) == pytest.approx(0.1, rel=0.3)


def test_the_longest_message_does_not_decide_the_latency():
    """Plain least squares puts α anywhere when 16 MiB is 10 % off; relative least squares does not."""
    sizes, seconds = ping_pong(0, 0)
    seconds[-1] *= 1.1
    plain = np.polyfit(sizes, seconds, 1)[1]
    assert abs(plain - 2e-6) > 1e-6
    assert laws.fit_alpha_beta(sizes, seconds).alpha == pytest.approx(2e-6, rel=0.02)


def test_alpha_and_beta_are_never_negative():
    fit = laws.fit_alpha_beta({8: 1e-9, 1024: 1e-6, 2048: 4e-6})
    assert fit.alpha >= 0
    falling = laws.fit_alpha_beta({8: 3e-6, 1024: 2e-6, 2048: 1e-6})
    assert falling.beta == 0
    assert falling.bandwidth == falling.half == float("inf")


def test_fit_alpha_beta_takes_measurements():
    table = {n: Measurement(np.array([1, 1, 1, 9]) * (1e-6 + n * 1e-9)) for n in (0, 1000, 10**6)}
    assert laws.fit_alpha_beta(table).beta == pytest.approx(1e-9)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: laws.speedup({}), "no times"),
        (lambda: laws.speedup({1: -1.0}), "above 0"),
        (lambda: laws.speedup({0: 1.0}), "0 is not a number of ranks"),
        (lambda: laws.efficiency({1: float("nan")}), "above 0"),
        (lambda: laws.amdahl(4, 1.5), "share between 0 and 1"),
        (lambda: laws.gustafson(0, 0.5), "at least one rank"),
        (lambda: laws.fit_amdahl({1: 1.0}), "two different points"),
        (lambda: laws.fit_amdahl([1, 2], [1.0]), "do not belong together"),
        (lambda: laws.fit_amdahl([1, 2]), "Give a dict"),
        (lambda: laws.fit_alpha_beta([8], [1e-6]), "two different points"),
        (lambda: laws.step_time(1, 1, overlap=2), "share between 0 and 1"),
        (lambda: laws.busbw(1, 1, 4, "gather"), "does not know 'gather'"),
        (lambda: laws.ring_allreduce_time(1, 0, 1, 1), "at least one rank"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, says):
    with pytest.raises(LabError, match=says):
        call()


def test_step_time():
    assert laws.step_time(10, 4) == 14
    assert laws.step_time(10, 4, overlap=0.5) == 12
    assert laws.step_time(10, 4, overlap=1) == 10
    assert laws.step_time(1, 4, overlap=1) == 4  # no more hides than compute lasts
    assert laws.exposed(14, 10) == 4
    assert laws.exposed(9, 10) == 0


def test_bucketed_step_time():
    assert laws.bucketed_step_time(10, [2, 4, 6, 10], [1, 1, 1, 1]) == 11
    assert laws.bucketed_step_time(10, [2, 4, 6, 10], [5, 5, 5, 5]) == 22  # the link is never idle from 2 on
    assert laws.bucketed_step_time(10, [2], [3]) == 10


def test_predicted_times():
    link = {"alpha": 1e-3, "beta": 1e-6}
    weak = laws.predict_times((1, 2, 4), 1.0, 1000, **link)
    assert weak == pytest.approx({1: 1.0, 2: 1.0 + 2e-3 + 1e-3, 4: 1.0 + 6e-3 + 1.5e-3})
    strong = laws.predict_times((1, 2), 1.0, 1000, **link, weak=False)
    assert strong == pytest.approx({1: 1.0, 2: 0.5 + 3e-3})
    hidden = laws.predict_times((4,), 1.0, 1000, **link, overlap=1)
    assert hidden == pytest.approx({4: 1.0})
    tree = laws.predict_times((4,), 1.0, 1000, **link, allreduce=laws.tree_allreduce_time)
    assert tree == pytest.approx({4: 1.0 + 2 * 2 * 2e-3})


def ring_by_counting(n, p, alpha, beta, gamma):
    """Play the ring: 2(p-1) steps, each a chunk of n/p; in the first p-1 it is also added."""
    seconds = 0.0
    for step in range(2 * (p - 1)):
        seconds += alpha + n / p * beta
        seconds += n / p * gamma if step < p - 1 else 0
    return seconds


def doubling_by_counting(n, p, alpha, beta, gamma):
    """Play recursive doubling: exchange all with the rank 1, 2, 4, … away, and add."""
    seconds, distance = 0.0, 1
    while distance < p:
        seconds += alpha + n * beta + n * gamma
        distance *= 2
    return seconds


def rabenseifner_by_counting(n, p, alpha, beta, gamma):
    """Play it: exchange halves, quarters, …, adding; then the same way back."""
    seconds, part = 0.0, n / 2
    while part >= n / p:
        seconds += 2 * (alpha + part * beta) + part * gamma
        part /= 2
    return seconds


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 16])
def test_ring_allreduce_formula_is_what_counting_gives(p):
    arguments = (1e6, p, 1e-6, 1e-9, 1e-10)
    assert laws.ring_allreduce_time(*arguments) == pytest.approx(ring_by_counting(*arguments))
    half = laws.ring_allgather_time(*arguments[:4])
    assert laws.ring_allreduce_time(*arguments[:4]) == pytest.approx(2 * half)


@pytest.mark.parametrize("p", [1, 2, 4, 16])
def test_doubling_formulas_are_what_counting_gives(p):
    arguments = (1e6, p, 1e-6, 1e-9, 1e-10)
    assert laws.recursive_doubling_allreduce_time(*arguments) == pytest.approx(
        doubling_by_counting(*arguments)
    )
    assert laws.rabenseifner_allreduce_time(*arguments) == pytest.approx(rabenseifner_by_counting(*arguments))


def test_who_wins_where():
    link = {"alpha": 1e-6, "beta": 1e-10}
    short, long = 8, 2**26
    for p in (8, 64):
        assert laws.recursive_doubling_allreduce_time(short, p, **link) < laws.ring_allreduce_time(
            short, p, **link
        )
        assert laws.ring_allreduce_time(long, p, **link) < laws.recursive_doubling_allreduce_time(
            long, p, **link
        )
        assert laws.ring_allreduce_time(long, p, **link) < laws.tree_allreduce_time(long, p, **link)
        assert laws.scatter_allgather_broadcast_time(long, p, **link) < laws.tree_broadcast_time(
            long, p, **link
        )
    # Where p is no power of two, Rabenseifner sends 2n more and the ring wins for long vectors.
    assert laws.ring_allreduce_time(long, 6, **link) < laws.rabenseifner_allreduce_time(long, 6, **link)


def test_tree_and_chain():
    assert laws.tree_broadcast_time(1000, 8, 1, 0.001) == pytest.approx(3 * 2)
    assert laws.tree_broadcast_time(1000, 5, 1, 0.001) == pytest.approx(3 * 2)
    assert laws.tree_broadcast_time(1000, 1, 1, 0.001) == 0
    assert laws.tree_allreduce_time(1000, 8, 1, 0.001, 0.001) == pytest.approx(2 * 3 * 2 + 3)
    assert laws.chain_broadcast_time(1000, 4, 1, 0.001, chunks=10) == pytest.approx(12 * 1.1)
    link = {"alpha": 1e-6, "beta": 1e-9}
    best = laws.chain_broadcast_time(10**8, 8, **link)
    assert all(best <= laws.chain_broadcast_time(10**8, 8, **link, chunks=k) * 1.0001 for k in range(1, 2000))
    assert best == pytest.approx(0.1, rel=0.02)  # a long message costs about n β, however long the chain
    assert laws.chain_broadcast_time(10, 1, **link) == 0


def test_a_parameter_server_is_a_hot_spot():
    times = [laws.parameter_server_time(1e6, workers, 0, 1e-9) for workers in (1, 2, 8)]
    assert times == pytest.approx([2e-3, 4e-3, 16e-3])
    assert laws.parameter_server_time(1e6, 8, 0, 1e-9, servers=8) == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("allreduce", 1.5), ("reduce_scatter", 0.75), ("allgather", 0.75), ("alltoall", 0.75), ("broadcast", 1)],
)
def test_bandwidths_follow_nccl_tests(collective, factor):
    assert laws.algbw(4e9, 2.0) == 2e9
    assert laws.busbw(4e9, 2.0, 4, collective) == pytest.approx(factor * 2e9)

"""timing: what a sample is, what a verdict says, what the slowest rank does to it."""

import gc
import sys
import time
import types
from functools import partial

import numpy as np
import pytest
from labkit import launch, timing
from labkit.errors import LabError
from labkit.timing import Measurement, timer
from torch import distributed


def nothing():
    pass


class Clock:
    """A clock that only `spend` moves, so that times in these tests are exact."""

    def __init__(self):
        self.now = 0

    def spend(self, nanoseconds):
        self.now += int(nanoseconds)


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(timer, "perf_counter_ns", lambda: fake.now)
    monkeypatch.setattr(timer, "clock_resolution", lambda: 1e-9)
    return fake


def test_a_sample_is_the_time_of_the_call(clock):
    # Three warm-up runs, five that count.
    durations = iter([9e6, 9e6, 9e6, 1e6, 2e6, 3e6, 4e6, 5e6])
    measured = timing.measure(lambda: clock.spend(next(durations)), repeat=5)
    assert measured.samples == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.005])
    assert (measured.q1, measured.median, measured.q3) == pytest.approx((0.002, 0.003, 0.004))
    assert measured.spread == pytest.approx(2 / 3)
    assert measured.rate(30) == pytest.approx(10_000)
    clock.now = 0
    measured = timing.measure(lambda: clock.spend(1e4), repeat=5, warmup=2, batch=7)
    assert clock.now == (2 + 5 * 7) * 1e4
    assert measured.samples == pytest.approx([1e-5] * 5), "seconds per call"
    assert measured.resolution == pytest.approx(1e-9 / 7)


@pytest.mark.parametrize(("takes", "least", "most"), [(1e9, 5, 5), (1e7, 45, 50), (1e3, 100, 100)])
def test_seconds_stops_early_but_not_before_five(clock, takes, least, most):
    measured = timing.measure(lambda: clock.spend(takes), repeat=100, seconds=0.5)
    assert least <= len(measured.samples) <= most


def test_garbage_collection_is_off_while_timing_and_as_before_after():
    seen = []
    timing.measure(lambda: seen.append(gc.isenabled()), repeat=5, warmup=0)
    assert seen == [False] * 5
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        timing.measure(lambda: 1 / 0, warmup=0)
    assert gc.isenabled()
    gc.disable()
    try:
        timing.measure(nothing, repeat=5)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_ratio_is_steady_where_the_machine_drifts(clock):
    def slower_and_slower(work):
        clock.spend(work * (1 + clock.now / 2e7))

    calls = [lambda work=work: slower_and_slower(work) for work in (2e5, 1e5)]
    measured = timing.ratio(*calls, repeat=40)
    assert (measured.a.steady, measured.b.steady) == (False, False)
    assert measured.median == pytest.approx(2, rel=0.02)
    assert measured.steady, measured.verdict
    assert str(measured).startswith("2.")
    uneven = Measurement(np.array([1.0, 3.0] * 5))
    pair = timing.Ratio(uneven, Measurement(np.ones(10)))
    assert "wide, something else is running" in pair.verdict
    assert timing.Ratio(uneven, uneven).verdict == "steady"


def test_several_calls_take_turns_and_keep_their_names():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    measured = timing.in_turns(calls, repeat=6, warmup=1)
    assert "".join(order) == "abc" + "abccba" * 3
    assert list(measured) == list("abc")
    assert {len(measurement.samples) for measurement in measured.values()} == {6}


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([0.01] * 4, "4 runs cannot show the spread"),
        ([0.01], "1 run cannot show"),
        ([0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.011, 0.021], "wide, something else is running"),
        (np.linspace(0.010, 0.013, 30), "slower than the first"),
        (np.linspace(0.013, 0.010, 30), "faster than the first"),
    ],
)
def test_what_is_not_quoted(samples, says):
    measured = Measurement(np.array(samples))
    assert not measured.steady
    assert measured.verdict.startswith("do not quote: ")
    assert says in measured.verdict
    assert measured.verdict in str(measured)


def test_a_quiet_call_is_quoted_and_noise_alone_is_seldom_taken_for_drift():
    random = np.random.default_rng(0)
    measured = Measurement(0.0123 * (1 + 0.01 * random.standard_normal(20)), resolution=5e-8)
    assert (measured.steady, measured.verdict) == (True, "steady")
    middle = timing.human(measured.median)
    assert str(measured) == f"{middle} (middle half 12.2 to 12.3 ms, 20 runs)"
    verdicts = [Measurement(1 + 0.15 * random.standard_normal(20)).verdict for _ in range(500)]
    assert sum("than the first" in verdict for verdict in verdicts) < 15


def test_quartiles_of_all_that_is_a_time():
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    for value in (samples, Measurement(np.array(samples))):
        assert timing.quartiles(value) == (3.0, 2.0, 4.0)
        assert timing.samples_of(value).tolist() == samples
    assert timing.quartiles(7) == (7.0, 7.0, 7.0)
    assert timing.samples_of(7).tolist() == [7.0]


def test_a_call_shorter_than_the_clocks_step_is_sent_to_a_batch():
    assert "batch=" in timing.measure(nothing, repeat=200).verdict
    assert "ticks" not in timing.measure(nothing, repeat=20, batch=2000).verdict
    assert "batch=" in timing.ratio(nothing, nothing, repeat=200).verdict


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"warmup": -1}, {"batch": 0}])
def test_numbers_that_measure_nothing_are_refused(wrong):
    with pytest.raises(LabError, match="makes no measurement"):
        timing.measure(nothing, **wrong)


def test_times_to_read():
    rows = {2.345: "2.35 s", 0.0123: "12.3 ms", 0.00083: "830 µs", 4.5e-8: "45.0 ns", 0: "0 ns"}
    rows |= {99.96: "100 s", 0.0009996: "1.00 ms"}
    assert {seconds: timing.human(seconds) for seconds in rows} == rows


# --- a GPU


@pytest.fixture
def cuda(monkeypatch):
    """Enough of torch.cuda to see in which order a timer uses it: the log of that. An event's time
    is its place in the log."""
    log = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, stream):
            self.at = len(log)
            log.append("record")

        def elapsed_time(self, other):
            return float(other.at - self.at)  # milliseconds

    fake = types.SimpleNamespace(
        Event=Event,
        synchronize=lambda device: log.append("synchronize"),
        current_stream=lambda device: "stream",
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=fake))
    return log


def test_cuda_events_stand_around_the_call(cuda):
    measured = timing.measure(lambda: cuda.append("call"), device="cuda:0", repeat=5, warmup=1)
    assert cuda == ["call", "synchronize"] + ["record", "call", "record", "synchronize"] * 5
    assert measured.samples == pytest.approx([0.002] * 5)
    assert measured.resolution == pytest.approx(0.5e-6)


def test_with_ranks_a_device_is_synchronised_and_the_clock_asked(cuda, monkeypatch):
    mpi = types.SimpleNamespace(MPI=types.SimpleNamespace(MAX="max"))
    monkeypatch.setitem(sys.modules, "mpi4py", mpi)
    comm = types.SimpleNamespace(
        Barrier=lambda: cuda.append("barrier"),
        Allreduce=lambda own, slowest, op: cuda.append(op),
    )
    call = partial(cuda.append, "call")
    timing.measure(call, device="cuda:0", comm=comm, repeat=2, warmup=0)
    rounds = ["barrier", "synchronize", "call", "synchronize"] * 2
    assert cuda == ["synchronize", *rounds, "max"]


# --- on real ranks


class Late:
    """A rank that comes late to the barrier must not add its lateness to the others' time."""

    def __init__(self, comm):
        self.comm = comm
        self.Allreduce = comm.Allreduce

    def Barrier(self):
        time.sleep(0.05 * self.comm.rank)
        self.comm.Barrier()


def with_a_slow_rank(comm):
    """Rank 1 sleeps 30 ms, rank 0 only 1 ms."""
    pause = 0.03 if comm.rank == 1 else 0.001

    def sleep():
        time.sleep(pause)

    alone = timing.measure(sleep, repeat=5, warmup=0)
    fixed = timing.measure(sleep, repeat=6, warmup=1, comm=comm)
    until = timing.measure(sleep, repeat=1000, seconds=0.4, warmup=1, comm=comm)
    pair = timing.ratio(sleep, lambda: time.sleep(0.03), repeat=5, comm=comm)
    late = timing.measure(comm.Barrier, repeat=7, comm=Late(comm))
    # Clocks that disagree must not let one rank stop before the other: that would be a deadlock.
    timer.perf_counter_ns = lambda: (1 + 2 * comm.rank) * time.perf_counter_ns()
    skewed = timing.measure(lambda: time.sleep(0.01), repeat=1000, seconds=0.6, comm=comm)
    together = (fixed.samples.tolist(), until.samples.tolist(), pair.median, late.median)
    return alone.median, *together, len(skewed.samples)


@pytest.mark.slow
def test_the_slowest_rank_counts():
    first, second = launch.run(with_a_slow_rank, ranks=2)
    assert first[0] < second[0]  # without comm each rank knows only itself
    assert first[1:] == second[1:]
    _, fixed, until, pair, late, skewed = first
    assert len(fixed) == 6
    assert min(fixed) >= 0.03
    assert 5 <= len(until) <= 14
    assert pair > 0.3
    assert late < 0.05
    assert skewed >= 5


@launch.in_group()
def with_a_slow_rank_of_torch():
    pause = 0.03 * distributed.get_rank()
    until = timing.measure(
        lambda: time.sleep(pause), repeat=100, seconds=0.3, comm=timing.TorchGroup()
    )
    return until.samples.tolist()


@pytest.mark.slow
def test_the_slowest_rank_counts_without_mpi():
    first, second = launch.run(with_a_slow_rank_of_torch, ranks=2, controller="torch")
    assert first == second
    assert min(first) >= 0.03

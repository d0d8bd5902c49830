"""timing: what a sample is, what a verdict says, what the slowest rank does to it."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
from labkit import timing
from labkit.errors import LabError
from labkit.timing import Measurement, timer


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


def test_batch_counts_calls_and_keeps_seconds_per_call(clock):
    calls = []
    measured = timing.measure(
        lambda: (calls.append(1), clock.spend(1e4)), repeat=5, warmup=2, batch=7
    )
    assert len(calls) == 2 + 5 * 7
    assert measured.samples == pytest.approx([1e-5] * 5)
    assert measured.resolution == pytest.approx(1e-9 / 7)


def test_seconds_stops_early_but_not_before_five(clock):
    soon = timing.measure(lambda: clock.spend(1e9), repeat=100, seconds=0.5)
    later = timing.measure(lambda: clock.spend(1e7), repeat=100, seconds=0.5)
    never = timing.measure(lambda: clock.spend(1e3), repeat=100, seconds=0.5)
    assert len(soon.samples) == 5
    assert 45 <= len(later.samples) <= 50
    assert len(never.samples) == 100


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

    measured = timing.ratio(
        lambda: slower_and_slower(2e5), lambda: slower_and_slower(1e5), repeat=40
    )
    assert not measured.a.steady
    assert not measured.b.steady
    assert measured.median == pytest.approx(2, rel=0.02)
    assert measured.steady, measured.verdict
    assert str(measured).startswith("2.")


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


def test_a_ratio_is_doubted_for_itself():
    uneven = Measurement(np.array([1.0, 3.0] * 5))
    pair = timing.Ratio(uneven, Measurement(np.ones(10)))
    assert "wide, something else is running" in pair.verdict
    assert timing.Ratio(uneven, uneven).verdict == "steady"


def test_quartiles_of_all_that_is_a_time():
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    for value in (samples, Measurement(np.array(samples))):
        assert timing.quartiles(value) == (3.0, 2.0, 4.0)
        assert timing.samples_of(value).tolist() == samples
    assert timing.quartiles(7) == (7.0, 7.0, 7.0)
    assert timing.samples_of(7).tolist() == [7.0]


def test_a_quiet_call_is_quoted():
    samples = 0.0123 * (1 + 0.01 * np.random.default_rng(0).standard_normal(20))
    measured = Measurement(samples, resolution=5e-8)
    assert measured.steady
    assert measured.verdict == "steady"
    assert (
        str(measured) == f"{timing.human(measured.median)} (middle half 12.2 to 12.3 ms, 20 runs)"
    )


def test_noise_alone_is_seldom_taken_for_drift():
    random = np.random.default_rng(0)
    verdicts = [Measurement(1 + 0.15 * random.standard_normal(20)).verdict for _ in range(500)]
    assert sum("than the first" in verdict for verdict in verdicts) < 15


def test_a_call_shorter_than_the_clocks_step_is_sent_to_a_batch():
    single = timing.measure(nothing, repeat=200)
    batched = timing.measure(nothing, repeat=20, batch=2000)
    assert "batch=" in single.verdict
    assert "ticks" not in batched.verdict
    both = timing.ratio(nothing, nothing, repeat=200)
    assert "batch=" in both.verdict


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"warmup": -1}, {"batch": 0}])
def test_numbers_that_measure_nothing_are_refused(wrong):
    with pytest.raises(LabError, match="makes no measurement"):
        timing.measure(nothing, **wrong)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.345, "2.35 s"),
        (0.0123, "12.3 ms"),
        (0.00083, "830 µs"),
        (4.5e-8, "45.0 ns"),
        (0, "0 ns"),
        (99.96, "100 s"),
        (0.0009996, "1.00 ms"),
    ],
)
def test_times_to_read(seconds, text):
    assert timing.human(seconds) == text


class FakeTorch(types.SimpleNamespace):
    """Enough of torch.cuda to see in which order a timer uses it. An event's time is its place in
    the log."""

    def __init__(self):
        self.log = []
        log = self.log

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self, stream):
                self.at = len(log)
                log.append("record")

            def elapsed_time(self, other):
                return float(other.at - self.at)  # milliseconds

        cuda = types.SimpleNamespace(
            Event=Event,
            synchronize=lambda device: log.append("synchronize"),
            current_stream=lambda device: "stream",
        )
        super().__init__(cuda=cuda)


class FakeComm:
    def __init__(self, log):
        self.log = log

    def Barrier(self):
        self.log.append("barrier")

    def Allreduce(self, own, slowest, op):
        self.log.append(op)
        slowest[:] = own * 2


def test_cuda_events_stand_around_the_call(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    measured = timing.measure(lambda: torch.log.append("call"), device="cuda:0", repeat=5, warmup=1)
    assert torch.log == ["call", "synchronize"] + ["record", "call", "record", "synchronize"] * 5
    assert measured.samples == pytest.approx([0.002] * 5)
    assert measured.resolution == pytest.approx(0.5e-6)


def test_with_ranks_a_device_is_synchronised_and_the_clock_asked(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(
        sys.modules, "mpi4py", types.SimpleNamespace(MPI=types.SimpleNamespace(MAX="max"))
    )
    comm = FakeComm(torch.log)
    timing.measure(lambda: torch.log.append("call"), device="cuda:0", comm=comm, repeat=2, warmup=0)
    assert torch.log == [
        "synchronize",
        *["barrier", "synchronize", "call", "synchronize"] * 2,
        "max",
    ]


def test_timing_imports_no_framework():
    code = """
        import sys
        from labkit import timing
        timing.measure(lambda: 1, device="cpu")
        print(*sorted({"torch", "tensorflow", "pandas", "matplotlib", "mpi4py"} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")

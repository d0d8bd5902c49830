"""timing: what a sample is, what a verdict says, what the slowest rank does to it."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import textwrap
import time
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
    durations = iter([9e6, 9e6, 9e6, 1e6, 2e6, 3e6, 4e6, 5e6])  # three warm-up runs, five that count
    found = timing.measure(lambda: clock.spend(next(durations)), repeat=5)
    assert found.samples == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.005])
    assert (found.q1, found.median, found.q3) == pytest.approx((0.002, 0.003, 0.004))
    assert found.spread == pytest.approx(2 / 3)
    assert found.rate(30) == pytest.approx(10_000)


def test_batch_counts_calls_and_keeps_seconds_per_call(clock):
    calls = []
    found = timing.measure(lambda: (calls.append(1), clock.spend(1e4)), repeat=5, warmup=2, batch=7)
    assert len(calls) == 2 + 5 * 7
    assert found.samples == pytest.approx([1e-5] * 5)
    assert found.resolution == pytest.approx(1e-9 / 7)


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


def test_ratio_takes_turns():
    order = []
    timing.ratio(lambda: order.append("a"), lambda: order.append("b"), repeat=4, warmup=0)
    assert "".join(order) == "abbaabba"


def test_ratio_is_steady_where_the_machine_drifts(clock):
    def slower_and_slower(work):
        clock.spend(work * (1 + clock.now / 2e7))

    found = timing.ratio(lambda: slower_and_slower(2e5), lambda: slower_and_slower(1e5), repeat=40)
    assert not found.a.steady
    assert not found.b.steady
    assert found.median == pytest.approx(2, rel=0.02)
    assert found.steady, found.verdict
    assert str(found).startswith("2.")


def test_ratio_of_sleeps():
    found = timing.ratio(lambda: time.sleep(0.02), lambda: time.sleep(0.01), repeat=7, warmup=1)
    assert 1.2 < found.median < 2.8


def test_several_calls_take_turns_and_keep_their_names():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    found = timing.in_turns(calls, repeat=6, warmup=1)
    assert "".join(order) == "abc" + "abccba" * 3
    assert list(found) == list("abc")
    assert {len(measurement.samples) for measurement in found.values()} == {6}


def test_an_option_that_measure_does_not_have_is_refused():
    with pytest.raises(LabError, match="timing.in_turns has no option turns"):
        timing.in_turns({"a": nothing}, turns=3)
    with pytest.raises(LabError, match="timing.ratio has no option turns"):
        timing.ratio(nothing, nothing, turns=3)


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([0.01] * 4, "4 runs cannot show the spread"),
        ([0.01], "1 run cannot show"),
        ([0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.011, 0.021], "wide"),
        (np.linspace(0.010, 0.013, 30), "slower than the first"),
        (np.linspace(0.013, 0.010, 30), "faster than the first"),
    ],
)
def test_what_is_not_quoted(samples, says):
    found = Measurement(np.array(samples))
    assert not found.steady
    assert found.verdict.startswith("do not quote: ")
    assert says in found.verdict
    assert found.verdict in str(found)


def test_a_noisy_call_is_not_quoted():
    turns = iter([0.0005, 0.02] * 10)  # by turns: the last runs are as long as the first
    found = timing.measure(lambda: time.sleep(next(turns)), repeat=20, warmup=0)
    assert not found.steady
    assert "something else is running" in found.verdict


def test_a_quiet_call_is_quoted():
    samples = 0.0123 * (1 + 0.01 * np.random.default_rng(0).standard_normal(20))
    found = Measurement(samples, resolution=5e-8)
    assert found.steady
    assert found.verdict == "steady"
    assert str(found) == f"{timing.human(found.median)} (middle half 12.2 to 12.3 ms, 20 runs)"


def test_noise_alone_is_seldom_taken_for_drift():
    random = np.random.default_rng(0)
    verdicts = [Measurement(1 + 0.15 * random.standard_normal(20)).verdict for _ in range(500)]
    assert sum("than the first" in verdict for verdict in verdicts) < 15


def test_a_call_shorter_than_the_clocks_step_is_sent_to_a_batch():
    single = timing.measure(nothing, repeat=200)
    many = timing.measure(nothing, repeat=20, batch=2000)
    assert "batch=" in single.verdict
    assert "ticks" not in many.verdict
    both = timing.ratio(nothing, nothing, repeat=200)
    assert "batch=" in both.verdict


def test_the_harness_costs_little():
    """Per timed call the harness takes a few times what the two readings of the clock take that it needs."""
    count = 20_000

    def bare():
        clock = time.perf_counter_ns
        begin = clock()
        for _ in range(count):
            start = clock()
            nothing()
            clock() - start
        return clock() - begin

    def harness():
        begin = time.perf_counter_ns()
        timing.measure(nothing, repeat=count, warmup=0)
        return time.perf_counter_ns() - begin

    timing.measure(nothing)
    assert min(harness() for _ in range(5)) < 15 * min(bare() for _ in range(5))


def test_what_the_harness_adds_to_a_sample_is_a_clock_reading():
    readings = timing.measure(time.perf_counter_ns, repeat=20, batch=1000).median
    sample = timing.measure(nothing, repeat=2000).median
    assert sample < 10 * (readings + timing.clock_resolution())


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"warmup": -1}, {"batch": 0}])
def test_numbers_that_measure_nothing_are_refused(wrong):
    with pytest.raises(LabError, match="makes no measurement"):
        timing.measure(nothing, **wrong)


def test_a_measurement_travels():
    found = timing.measure(nothing, repeat=5)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.samples, found.samples)
    assert str(again) == str(found)
    pair = pickle.loads(pickle.dumps(timing.ratio(nothing, nothing, repeat=5)))
    assert len(pair.samples) == 5


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
    """Enough of torch.cuda to see in which order a timer uses it. An event's time is its place in the log."""

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
    found = timing.measure(lambda: torch.log.append("call"), device="cuda:0", repeat=5, warmup=1)
    assert torch.log == ["call", "synchronize"] + ["record", "call", "record", "synchronize"] * 5
    assert found.samples == pytest.approx([0.002] * 5)
    assert found.resolution == pytest.approx(0.5e-6)


def test_with_ranks_a_device_is_synchronised_and_the_clock_asked(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=types.SimpleNamespace(MAX="max")))
    comm = FakeComm(torch.log)
    timing.measure(lambda: torch.log.append("call"), device="cuda:0", comm=comm, repeat=2, warmup=0)
    assert torch.log == ["synchronize", *["barrier", "synchronize", "call", "synchronize"] * 2, "max"]


def test_timing_imports_no_framework():
    code = """
        import sys
        from labkit import timing
        timing.measure(lambda: 1, device="cpu")
        print(*sorted({"torch", "tensorflow", "pandas", "matplotlib", "mpi4py"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")

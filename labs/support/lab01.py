"""The checks of lab 01."""

from __future__ import annotations

import reprlib

import numpy as np
from labkit import check, expect, predict


@check.exercise("01.1")
def samples_after_a_warmup(sample, PretendMachine):
    """A duration for each of the calls after the warm-up, by the clock that is handed in."""

    want = [0.0001234, 0.2] * 3  # no whole microseconds: nothing may be rounded away

    def samples(slow, repeat=6):
        """Your durations of so many calls on a pretend machine, after slow ones; and how many were
        made."""
        machine = PretendMachine()
        durations = slow + want * 10  # then these in turn
        made = []

        def call():
            machine.work(durations[len(made)])
            made.append("a call")

        return sample(call, repeat=repeat, warmup=len(slow), clock=machine.clock), len(made)

    for slow in ([0.9, 0.5, 0.3], []):
        got, made = samples(slow)
        asked = len(slow) + 6
        expect(
            np.shape(got) == (6,),
            f"repeat=6 asks for a list of six durations; sample returned {reprlib.repr(got)}.",
        )
        expect(
            made == asked,
            f"With warmup={len(slow)}, repeat=6 `call` ran {made} times, not {asked}.",
        )
        cold = {"the first calls are among them: warm up first": (slow + want)[:6]}
        expect.close(got, want, "The six durations", slips=cold | _slips(got, want))
    few = "how many durations there are with repeat=3"
    expect.equal(len(samples([0.9], repeat=3)[0]), 3, few)


def _slips(got, want) -> dict:
    """Sentences for what is wrong with all samples, and the samples that this mistake gives."""
    got, want = np.asarray(got), np.array(want)
    longest = np.abs(got).max()
    other_order = np.allclose(np.sort(got), np.sort(want))
    return {
        "no time passes between your two readings: read, call, read again": np.zeros(len(want)),
        "read the clock that was handed in: `clock()`": got if longest < 0.001 else want,
        "these are in another order than the calls": got if other_order else want,
        "these are milliseconds: return seconds": 1000 * want,
        "these are negative: subtract the first reading from the second": -want,
        "the samples grow: each holds all calls before it": got[0] + np.cumsum(want) - want[0],
        "all are equal to their mean: time the calls one by one": np.full(len(want), want.mean()),
    }


@check.exercise("01.2")
def samples_on_a_device(sample_device, PretendMachine):
    """Each of four durations is the call's work and its launch, whatever is in the queue
    before."""
    want = [0.1 + 10e-6, 0.2 + 10e-6] * 2

    def samples(slow, repeat=4):
        """Your durations of so many calls with 0.1 s or 0.2 s of work, after slow ones; and how
        many were made."""
        machine = PretendMachine()
        machine.launch(0.5)  # the program before yours has left work in the queue
        work = slow + [0.1, 0.2] * 25
        made = []

        def call():
            machine.launch(work[len(made)])
            made.append("a call")

        got = sample_device(call, machine.synchronize, repeat, len(slow), machine.clock)
        return got, len(made)

    for slow in ([0.9, 0.5, 0.3], []):
        got, made = samples(slow)
        case = f"With warmup={len(slow)}"
        expect(
            np.shape(got) == (4,),
            f"repeat=4 asks for a list of four durations; you returned {reprlib.repr(got)}.",
        )
        expect(
            made == len(slow) + 4, f"{case}, repeat=4 `call` ran {made} times, not {len(slow) + 4}."
        )
        got = np.asarray(got)  # it may be a tensor
        launch_alone = abs(got[1] - 10e-6) < 1e-9
        expect(not launch_alone, "A sample says 10 µs for 0.2 s of work: the launch alone.")
        first = f"{case} the first sample is {got[0]:.1f} s for 0.1 s of work"
        first_alone = got[0] > want[0] + 0.1 and np.allclose(got[1:], want[1:])
        expect(not first_alone, f"{first}: it also holds work that was in the queue before it.")
        what = "The durations (10 µs of launch and 0.1 or 0.2 s of work)"
        late = {"the launch is missing: read the clock before the call": np.subtract(want, 10e-6)}
        expect.close(got, want, what, slips=_slips(got, want) | late)
    few = "how many durations there are with repeat=3"
    expect.equal(len(samples([0.9], repeat=3)[0]), 3, few)


@check.exercise("01.3")
def summary_of_samples(summarize):
    """The five entries, right to the last digit, of odd and of even numbers of samples."""
    hiccup = [10, 10, 10, 10, 110]
    got = summarize(hiccup)
    expect(isinstance(got, dict), f"summarize returns a dict; it returned {got}.")
    missing = sorted({"median", "q1", "q3", "spread", "steady"} - set(got))
    expect(not missing, f"The dict has no entry {', '.join(missing)}.")
    expect.close(
        got["median"], np.median(hiccup), "the median of 10, 10, 10, 10 and 110 (30 is their mean)"
    )
    quartiles = [got["q1"], got["q3"]]
    numpys = "take the percentiles 25 and 75 as `np.percentile` computes them"
    expect.close(quartiles, [10, 10], "q1 and q3 of 10, 10, 10, 10 and 110", because=numpys)
    robust = "one hiccup must not spoil a result: `spread` looks at the middle half only"
    expect.close(got["spread"], 0, "the spread of 10, 10, 10, 10 and 110", because=robust)
    yes_or_no = f"`steady` is {got['steady']!r}, but it must be True or False."
    expect(isinstance(got["steady"], (bool, np.bool_)), yes_or_no)
    expect(got["steady"], "A spread of 0 is steady: it is at most `widest`.")
    for unit in (1, 0.0001234):  # no whole microseconds here either
        given = unit * np.array([1.0, 5.0, 2.0, 3.0, 4.0])
        before = given.copy()
        got = summarize(given)
        expect.unchanged(before, given, "The array of samples")
        expect.close(
            got["median"], 3 * unit, f"the median of {unit} times 1, 5, 2, 3, 4 (put them in order)"
        )
        expect.close(
            [got["q1"], got["q3"]], [2 * unit, 4 * unit], f"q1 and q3 of {unit} times 1, 5, 2, 3, 4"
        )
        expect.close(
            got["spread"], 2 / 3, f"spread of {unit} times 1, 5, 2, 3, 4, as a share of the median"
        )
        expect(not got["steady"], "A spread of 67 % is not steady at widest=0.25.")
    expect(
        summarize([1, 5, 2, 3, 4], widest=0.7)["steady"],
        "A spread of 67 % is steady at widest=0.7.",
    )
    four = summarize([1, 2, 3, 6])
    expect.close(four["median"], 2.5, "the median of four samples, 1, 2, 3 and 6")
    expect.close([four["q1"], four["q3"]], [1.75, 3.75], "q1 and q3 of four samples, 1, 2, 3 and 6")
    of_mean = {"this is a share of their mean, 3, not of their median, 2.5": 2 / 3}
    expect.close(four["spread"], 0.8, "the spread of four samples, 1, 2, 3 and 6", slips=of_mean)
    expect(
        summarize([3, 4, 5], widest=0.25)["steady"],
        "A spread of 25 % is steady at widest=0.25: at most.",
    )
    predict.right("01.3", mean_ms=(10 + 10 + 10 + 10 + 110) / 5, median_ms=10)

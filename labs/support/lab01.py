"""The checks of lab 01."""

from __future__ import annotations

import numpy as np
from labkit import check, expect, predict


@check.exercise("01.1")
def samples_after_a_warmup(sample, PretendMachine):
    """A duration for each of the calls after the warm-up, by the clock that is handed in."""

    def samples(slow, repeat=6):
        """Your durations of so many calls on a pretend machine, after slow ones; and how many were
        made."""
        machine = PretendMachine()
        durations = slow + [0.1, 0.2] * 50  # then 0.1 s and 0.2 s in turn
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
            f"repeat=6 asks for a list of six durations; sample returned {got}.",
        )
        expect(
            made == asked,
            f"With warmup={len(slow)}, repeat=6 `call` ran {made} times, not {asked}.",
        )
        expect(
            max(got) > 0.09,
            "The samples are nearly zero. Read the clock that was handed in: `clock()`.",
        )
        expect(
            got[0] < 0.25,
            f"The first sample is {got[0]:.1f} s, a warm call takes 0.1 s: warm up first.",
        )
        expect(
            got[-1] < 0.25,
            f"The samples grow, up to {got[-1]:.1f} s: each holds all calls before it.",
        )
        expect.close(got, [0.1, 0.2] * 3, "the six durations")
    few = "how many durations there are with repeat=3"
    expect.equal(len(samples([0.9], repeat=3)[0]), 3, few)


@check.exercise("01.2")
def samples_on_a_device(sample_device, PretendMachine):
    """Each of four durations is 0.1 s of work and its launch, whatever is in the queue before."""

    def samples(slow, repeat=4):
        """Your durations of so many calls with 0.1 s of work each, after slow ones; and how many
        were made."""
        machine = PretendMachine()
        machine.launch(0.5)  # the program before yours has left work in the queue
        work = slow + [0.1] * 50
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
            f"repeat=4 asks for a list of four durations; you returned {got}.",
        )
        expect(
            made == len(slow) + 4, f"{case}, repeat=4 `call` ran {made} times, not {len(slow) + 4}."
        )
        launch_alone = abs(got[1] - 10e-6) < 1e-9
        expect(not launch_alone, "A sample says 10 µs for 0.1 s of work: the launch alone.")
        expect(
            got[1] > 0.09,
            "The samples are nearly zero. Read the clock that was handed in: `clock()`.",
        )
        first = f"{case} the first sample is {got[0]:.1f} s, the second {got[1]:.1f} s"
        expect(
            got[0] < 0.11, f"{first}: the first also holds work that was in the queue before it."
        )
        expect.close(got, [0.1 + 10e-6] * 4, "the durations (10 µs of launch and 0.1 s of work)")
    few = "how many durations there are with repeat=3"
    expect.equal(len(samples([0.9], repeat=3)[0]), 3, few)


@check.exercise("01.3")
def summary_of_samples(summarize):
    """The five entries, right to the last digit, of odd and of even numbers of samples."""
    hiccup = [10, 10, 10, 10, 110]
    got = summarize(hiccup)
    expect(isinstance(got, dict), f"summarize returns a dict; it returned {got}.")
    expect.close(
        got["median"], np.median(hiccup), "the median of 10, 10, 10, 10 and 110 (30 is their mean)"
    )
    yes_or_no = f"`steady` is {got['steady']!r}, but it must be True or False."
    expect(isinstance(got["steady"], (bool, np.bool_)), yes_or_no)
    expect(
        got["steady"], "One hiccup must not spoil a result: `spread` looks at the middle half only."
    )
    for unit in (1, 0.001):
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
    expect(
        summarize([3, 4, 5], widest=0.25)["steady"],
        "A spread of 25 % is steady at widest=0.25: at most.",
    )
    four = summarize([1, 2, 3, 6])
    expect.close(four["median"], 2.5, "the median of four samples, 1, 2, 3 and 6")
    expect.close([four["q1"], four["q3"]], [1.75, 3.75], "q1 and q3 of four samples, 1, 2, 3 and 6")
    of_mean = {"this is a share of their mean, 3, not of their median, 2.5": 2 / 3}
    expect.close(four["spread"], 0.8, "the spread of four samples, 1, 2, 3 and 6", slips=of_mean)
    predict.right("01.3", mean_ms=(10 + 10 + 10 + 10 + 110) / 5, median_ms=10)

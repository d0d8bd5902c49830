"""The checks of lab 50."""

from __future__ import annotations

import numpy as np
from labkit import check, expect, predict


@check.exercise("50.1")
def efficiency_and_speedup(efficiency, speedup):
    """Efficiency and speed-up by number of ranks, also where the fewest ranks are not one."""
    strong, weak = {4: 2.5, 1: 8.0, 2: 4.0}, {1: 8.0, 2: 10.0, 4: 16.0}
    given = dict(strong)
    expect.close(
        efficiency(given, weak=False), {1: 1, 2: 1, 4: 0.8}, f"strong efficiency of {strong}"
    )
    expect.unchanged(strong, given, "The dict of times")
    expect.close(speedup(strong, weak=False), {1: 1, 2: 2, 4: 3.2}, f"strong speed-up of {strong}")
    expect.close(efficiency(weak, weak=True), {1: 1, 2: 0.8, 4: 0.5}, f"weak efficiency of {weak}")
    expect.close(speedup(weak, weak=True), {1: 1, 2: 1.6, 4: 2}, f"weak speed-up of {weak}")
    # S-Caffe (Awan et al., PPoPP 2017): 2.5 times faster on 160 GPUs than on 32.
    caffe = {32: 10.0, 160: 4.0}
    expect.close(efficiency(caffe, weak=False), {32: 1, 160: 0.5}, f"strong efficiency of {caffe}")
    expect.close(speedup(caffe, weak=False), {32: 32, 160: 80}, f"strong speed-up of {caffe}")
    large = {8: 2.0, 16: 2.5}
    expect.close(efficiency(large, weak=True), {8: 1, 16: 0.8}, f"weak efficiency of {large}")
    expect.close(speedup(large, weak=True), {8: 8, 16: 12.8}, f"weak speed-up of {large}")
    slower = {1: 8.0, 2: 9.0}  # more ranks need longer: the fewest are the baseline all the same
    expect.close(efficiency(slower, weak=False), {1: 1, 2: 4 / 9}, f"strong efficiency of {slower}")
    cached = {1: 8.0, 2: 3.2}  # better than ideal: super-linear
    expect.close(efficiency(cached, weak=False), {1: 1, 2: 1.25}, f"strong efficiency of {cached}")
    better = {8: 2.0, 16: 1.6}
    expect.close(efficiency(better, weak=True), {8: 1, 16: 1.25}, f"weak efficiency of {better}")


@check.exercise("50.2")
def serial_share_of_times(serial_share):
    """The share of times that follow the law, in any order; and of noisy times, all counted."""
    for s in (0.05, 0.3, 1.0):
        exact = {p: 7.0 * (s + (1 - s) / p) for p in (8, 1, 2, 4)}
        given = dict(exact)
        expect.close(serial_share(given), s, f"s of times that follow the law exactly with s = {s}")
        expect.unchanged(exact, given, "The dict of times")
    noisy = {1: 8.0, 2: 4.6, 4: 2.4}
    expect.close(
        serial_share(noisy), 0.0923, f"s of the noisy times {noisy}: every point counts", rtol=1e-2
    )
    slower = {4: 9.0, 1: 8.0, 2: 9.0}  # one rank is the baseline, though it is not the slowest
    expect.close(serial_share(slower), 1.192308, f"s of {slower}, where more ranks take longer")
    expect.close(
        serial_share({1: 8.0, 2: 3.6}), -0.1, "s of super-linear times: negative, leave it so"
    )
    predict.right("50.2", speedup_of_64=1 / (0.05 + 0.95 / 64))


@check.exercise("50.3")
def parts_of_a_step(where):
    """The table above, a step in which another rank comes last, and one that rank 0 begins late."""
    # Steps, ranks.
    computing = np.array([[10.0, 13.0, 10.0], [10.0, 10.0, 14.0], [10.0, 13.0, 10.0]])
    summing = np.array([[5.0, 2.0, 5.0], [7.0, 7.0, 3.0], [2.0, 99.0, 102.0]])
    given = computing.copy(), summing.copy()
    got = where(*given)
    expect(isinstance(got, dict), f"where returns a dict; it returned {got}.")
    parts = ["communicate", "compute", "wait"]
    expect.equal(sorted(got), parts, "the keys of the dict: these three and no other")
    slips = {
        "in the third step rank 1 computes longest, but rank 0 came last: it began late": [2, 3, 99]
    }
    what = "communicate: in each step, of the rank that arrived last"
    expect.close(got["communicate"], [2, 3, 2], what, slips=slips)
    waits = [2, 8 / 3, 197 / 3]
    expect.close(got["wait"], waits, "wait: the mean time in the allreduce, less communicate")
    expect.close(got["compute"], [11, 34 / 3, 11], "compute: in each step, the mean over the ranks")
    expect.unchanged((computing, summing), given, "`compute` or `allreduce`")
    got = where(np.array([[4.0, 2.0]]), np.array([[1.0, 3.0]]))
    for part, seconds in {"communicate": [1], "wait": [1], "compute": [3]}.items():
        expect.close(got[part], seconds, f"{part}, of one step of two ranks")

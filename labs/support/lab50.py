"""Lab 50: its checks, the images of a rank, and plots."""

from __future__ import annotations

import numpy as np
import torch
from labkit import check, expect, plots, scaling, world


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
    large = {8: 2.0, 20: 2.5, 12: 1.6}  # 12 ranks are better than ideal
    useful = {8: 1, 20: 0.8, 12: 1.25}
    expect.close(efficiency(large, weak=True), useful, f"weak efficiency of {large}")
    expect.close(speedup(large, weak=True), {8: 8, 20: 16, 12: 15}, f"weak speed-up of {large}")
    slower = {1: 8.0, 2: 9.0}  # more ranks need longer: the fewest are the baseline all the same
    expect.close(efficiency(slower, weak=False), {1: 1, 2: 4 / 9}, f"strong efficiency of {slower}")
    cached = {3: 8.0, 7: 3.0}  # super-linear, and 3 divides neither 7 nor 8
    expect.close(efficiency(cached, weak=False), {3: 1, 7: 8 / 7}, f"strong efficiency of {cached}")


@check.exercise("50.2")
def serial_share_of_times(serial_share):
    """The share of times that follow the law, in any order; and of noisy times, all counted."""
    for s in (0.05, 0.3, 1.0):
        exact = {p: 7.0 * (s + (1 - s) / p) for p in (12, 1, 2, 4)}
        given = dict(exact)
        expect.close(serial_share(given), s, f"s of times that follow the law exactly with s = {s}")
        expect.unchanged(exact, given, "The dict of times")
    noisy = {1: 8.0, 2: 4.6, 3: 3.4, 6: 1.5}
    expect.close(serial_share(noisy), 0.0835, f"s of the noisy times {noisy}: every point counts")
    slower = {4: 9.0, 1: 8.0, 2: 9.0}  # one rank is the baseline, though it is not the slowest
    expect.close(serial_share(slower), 1.192308, f"s of {slower}, where more ranks take longer")
    expect.close(
        serial_share({1: 8.0, 2: 3.6}), -0.1, "s of super-linear times: negative, leave it so"
    )


@check.exercise("50.3")
def parts_of_a_step(where):
    """The table above, a step in which another rank comes last, and one that rank 0 begins late."""
    # Steps, ranks.
    computing = np.array([[10.0, 13.0, 10.0], [10.0, 10.0, 14.0], [10.0, 18.0, 12.0]])
    summing = np.array([[5.0, 2.0, 5.0], [7.0, 7.0, 3.0], [4.0, 11.0, 17.0]])
    given = computing.copy(), summing.copy()
    got = where(*given)
    expect(isinstance(got, dict), f"where returns a dict; it returned {got}.")
    parts = ["communicate", "compute", "wait"]
    expect.equal(sorted(got), parts, "the keys of the dict: these three and no other")
    slips = {
        "in the third step rank 1 computes longest, but rank 0 came last: it began late": [2, 3, 11]
    }
    what = "communicate: in each step, of the rank that arrived last"
    expect.close(got["communicate"], [2, 3, 4], what, slips=slips)
    waits = [2, 8 / 3, 20 / 3]
    expect.close(got["wait"], waits, "wait: the mean time in the allreduce, less communicate")
    means = [11, 34 / 3, 40 / 3]
    expect.close(got["compute"], means, "compute: in each step, the mean over the ranks")
    expect.unchanged((computing, summing), given, "`compute` or `allreduce`")
    computing, summing = np.array([4.0, 2.0, 3.0, 2.5]), np.array([0.5, 0.25, 0.75, 0.1])
    got = where(computing[:, None], summing[:, None])
    for part, right in zip(parts, (summing, computing, 0 * summing), strict=True):
        expect.close(got[part], right, f"{part}, of four steps of one rank, which never waits")


def own_images(shares, rank):
    """This rank's images and labels: its share of the job's, behind the shares of the ranks before
    it."""
    own = slice(sum(shares[:rank]), sum(shares[: rank + 1]))
    images = torch.rand(sum(shares), 3, 32, 32)[own]
    labels = torch.arange(sum(shares))[own] % 10
    return images.to(world.device()), labels.to(world.device())


def titled(title, measured):
    """The title; where the times measured may not be quoted, it says so."""
    steady = all(step.steady for step in measured.values())
    return title if steady else f"{title} (not steady)"


def draw_limit(megabytes, gigabits):
    """The speed-up of 1 s of work and a ring allreduce, on 1 to 4096 ranks, at 5 µs per message."""
    allreduce = scaling.costs.ring_allreduce_time
    many = [2**k for k in range(13)]
    steps = {p: 1 / p + allreduce(megabytes * 1e6, p, 5e-6, 8e-9 / gigabits) for p in many}
    plots.lines(
        {"computed": scaling.speedup(steps), "ideal": {p: p for p in many}},
        xlabel="ranks",
        ylabel="speed-up",
        title=f"1 s of work, {megabytes} MB of gradients, {gigabits} Gb/s",
        logx=True,
        logy=True,
        name="scaling_limit",
    )

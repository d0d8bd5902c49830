"""The checks of lab 46."""

from __future__ import annotations

import numpy as np
from labkit import check, expect

from support.lab46.cases import GRADIENTS, TIMELINES, drifting_runs
from support.lab46.show import listed


@check.exercise("46.1")
def check_carriers(carriers):
    """Calls with a gradient in them, by library, divided by the steps."""
    for story, (calls, steps, proof) in TIMELINES.items():
        got = carriers(calls, GRADIENTS, steps)
        expect(isinstance(got, dict), f"{story}: carriers returned {got!r}, not a dict of libraries.")
        same = set(got) == set(proof)
        expect(same, f"{story}: {listed(proof)} carried gradients; carriers names {listed(got)}.")
        for library, (count, milliseconds) in proof.items():
            case = f"{story}: {library}"
            whole = {"this is of all steps together": steps * count}
            expect.close(got[library][0], count, f"{case}, calls a step", slips=whole)
            seconds = milliseconds / 1e3
            once = {"a call takes its time once, however many tensors it carries": 2 * seconds}
            expect.close(got[library][1], seconds, f"{case}, seconds a step", slips=once)


@check.exercise("46.2")
def check_images_per_second(images_per_second, efficiency, share):
    """Images of all ranks, by the median; any fewest ranks; the median of the pairs' shares."""
    seconds = np.array([0.4, 0.3, 0.5, 8.0, 0.6])  # one step was held up
    slips = {
        "these are the images of one rank": 32 / 0.5,
        "by the mean, the one step of 8 s decides": 127 / np.mean(seconds),
        "every step was timed after the warm-up, the first one too": 127 / np.median(seconds[1:]),
    }
    got = images_per_second([32, 32, 32, 31], seconds)
    expect.close(got, 127 / 0.5, "images per second, of 32 + 32 + 32 + 31 a step of 0.5 s", slips=slips)
    vgg = {1: 130.9, 16: 1787.4}  # VGG-16 with NCCL over RDMA, as published: see below
    slips = {"this is the speed-up": {1: 1.0, 16: 1787.4 / 130.9}}
    expect.close(efficiency(vgg), {1: 1.0, 16: 0.8534}, f"efficiency of {vgg}", rtol=1e-3, slips=slips)
    large = {8: 450.0, 2: 150.0, 4: 300.0}  # a net too large for one GPU
    slips = {"compared with the rate of the whole smallest job": {8: 0.375, 2: 0.5, 4: 0.5}}
    expect.close(efficiency(large), {8: 0.75, 2: 1.0, 4: 1.0}, f"efficiency of {large}", slips=slips)
    better = {1: 100.0, 2: 210.0}  # it happens: what fits into two caches, and not into one
    expect.close(efficiency(better), {1: 1.0, 2: 1.05}, f"efficiency of {better}")
    worse = {1: 100.0, 2: 80.0}  # more ranks, and fewer images
    expect.close(efficiency(worse), {1: 1.0, 2: 0.4}, f"efficiency of {worse}")
    step, alone = drifting_runs()
    slips = {
        "the two medians are of different moments: first the pairs": 1 - np.median(alone) / np.median(step),
        "by the mean, the one step that was held up counts": np.mean(1 - alone / step),
        "this is the share of computing": 0.8,
        "this is over the control; the share is over the whole step": 0.25,
    }
    expect.close(share(step, alone), 0.2, "share of communication, of 25 pairs", slips=slips)
    longer = share(np.array([0.9]), np.array([1.0]))
    expect.close(longer, -1 / 9, "share where the control took longer: negative, leave it so")

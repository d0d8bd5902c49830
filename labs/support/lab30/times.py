"""The two parts of a data-parallel step, timed for a small net and for one that computes much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from labkit import data, nets, timing, world


def step_times(comm, share: Callable, average: Callable, batch: int) -> dict[str, dict]:
    """{net: {"compute": Measurement, "average": Measurement}} of one step on the ranks of comm.

    Nets: lab 10's on the digits, and `nets.torch_conv` on random pictures of 3 x 32 x 32.
    share(rows, rank, size), average(comm, net): the learner's. batch: images of all ranks together.
    """
    import torch

    device = world.device()
    rows = np.asarray(share(np.arange(batch), comm.rank, comm.size))
    digits, labels, *_ = data.digits()
    pictures = np.random.default_rng(0).standard_normal((batch, 3, 32, 32), np.float32)
    cases = {
        "the digits' net": (nets.torch_digits(), digits[:batch]),
        "a convolutional net": (nets.torch_conv(), pictures),
    }
    classes = torch.tensor(labels[:batch][rows], device=device)
    times: dict[str, dict] = {}
    for name, (net, images) in cases.items():
        net = net.to(device)
        own = torch.tensor(images[rows], device=device)

        def compute(net=net, own=own) -> None:
            torch.nn.functional.cross_entropy(net(own), classes).backward()

        def exchange(net=net) -> None:
            average(comm, net)

        calls = {"compute": compute, "average": exchange}
        times[name] = timing.in_turns(calls, comm=comm, device=device, seconds=2.0)
    return times

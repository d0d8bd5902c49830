"""Lab 52 on this machine's ranks: a link, and steps of a small net with and without DDP."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pandas
from labkit import data, launch, timing, world

WIDTHS = (64, 1024, 1024, 1024, 10)  # of the net: a digit's pixels, three hidden layers, the classes
SIZES = (1 << 12, 1 << 18, 1 << 20, 1 << 22)  # bytes of the allreduces
BUCKET_HERE = 1 << 20  # bytes that DDP puts into a bucket


class Here(NamedTuple):
    """What was measured on all ranks: {bytes: an allreduce}, a step alone, and the same step with DDP."""

    link: dict[int, timing.Measurement]
    alone: timing.Measurement
    step: timing.Measurement


def table_here() -> pandas.DataFrame:
    """The layers of the net that is trained here, as nets.layer_table has those of the well-known ones."""
    pairs = list(zip(WIDTHS, WIDTHS[1:], strict=False))
    return pandas.DataFrame(
        {
            "layer": [f"fc{number}" for number in range(1, 1 + len(pairs))],
            "parameters": [inputs * outputs + outputs for inputs, outputs in pairs],
            "flops": [2 * inputs * outputs for inputs, outputs in pairs],
        }
    )


@launch.in_group()
def measure_here(batch: int, repeat: int) -> Here:
    """On all ranks: times of allreduces, and of steps with and without DDP. batch: images of each rank.

    For launch.run(measure_here, batch, repeat, controller="torch", …). The times are on this rank's own
    clock. The two kinds of steps are timed in turns, each after a barrier; all ranks take part in each.
    """
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    device = world.device()
    ids = [torch.device(device).index or 0] if device.startswith("cuda") else None

    link = {}
    for nbytes in SIZES:
        vector = torch.zeros(nbytes // 4, device=device)
        link[nbytes] = timing.measure(partial(distributed.all_reduce, vector), repeat=repeat, device=device)
    digits = data.digits()
    pictures = torch.from_numpy(digits.train_x[:batch]).to(device)
    labels = torch.from_numpy(digits.train_y[:batch]).to(device)
    own = _net().to(device)
    together = DistributedDataParallel(_net().to(device), device_ids=ids, bucket_cap_mb=BUCKET_HERE / 2**20)

    def step(net, optimizer):
        distributed.barrier()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(pictures), labels).backward()
        optimizer.step()

    plain = torch.optim.SGD(own.parameters(), lr=0.01)
    averaged = torch.optim.SGD(together.parameters(), lr=0.01)
    turns = {"alone": lambda: step(own, plain), "step": lambda: step(together, averaged)}
    times = timing.in_turns(turns, repeat=repeat, device=device)
    return Here(link, times["alone"], times["step"])


def _net():
    from torch import nn

    layers = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])

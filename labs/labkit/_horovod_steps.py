"""Training steps with Horovod whose timeline is complete: behind `horovod_timeline.train`."""

from __future__ import annotations

import os
import time
from pathlib import Path


def train(layers: int, width: int, steps: int):
    """On a rank: `steps` steps of a small net with Horovod, for labs on what its communication costs. Its
    gradients are `layers` matrices of width x width float32.

    Returns the timing.Measurement of a step and, on rank 0, the events of the file that $HOROVOD_TIMELINE
    names (else None).
    """
    import horovod.torch as hvd
    import torch

    from labkit import horovod_timeline, timing, world

    file = Path(os.environ["HOROVOD_TIMELINE"])
    if world.is_root():
        file.unlink(missing_ok=True)  # an older file would prove something else
    hvd.init()
    net = torch.nn.Sequential(*[torch.nn.Linear(width, width, bias=False) for _ in range(layers)])
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
    images = torch.randn(16, width)

    def step():
        optimizer.zero_grad()
        net(images).square().mean().backward()
        optimizer.step()

    took = timing.measure(step, repeat=steps, warmup=2)
    if world.is_root():
        _until_written(file)
    hvd.shutdown()  # and so this process may start Horovod again in another way
    return took, horovod_timeline.read(file) if world.is_root() else None


def _until_written(file: Path, quiet: float = 0.2, limit: float = 10.0) -> None:
    """Wait until the file is there and has not grown for `quiet` seconds: Horovod's thread that writes it
    lags behind, and drops at the end what it has not written. Seen with 0.28.1."""
    since, size, end = time.monotonic(), -1, time.monotonic() + limit
    while time.monotonic() < min(end, since + quiet) or (size < 1 and time.monotonic() < end):
        time.sleep(0.02)
        now = file.stat().st_size if file.exists() else -1
        if now != size:
            since, size = time.monotonic(), now

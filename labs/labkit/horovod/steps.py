"""Training steps with Horovod, on real ranks, whose timeline is complete when they are over."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from labkit import launch
from labkit.errors import LabError
from labkit.horovod import timeline

WARMUP = 2  # steps that are not timed
DEFAULT_FUSION = 128 << 20  # bytes, Horovod's own default


def train_ways(layers: int, width: int, steps: int, ways: Mapping[str, Mapping[str, str]], folder) -> dict:
    """On a rank: `train` in several ways, one after the other. ways: {name: environment variables}.

    Returns {name: what train returns}; the timelines are folder/timeline_NAME.json. One start of the ranks
    does for all, as to import Torch takes longer than the steps. With Gloo, Horovod starts once in a process:
    one way.
    """
    if os.environ.get("HOROVOD_CONTROLLER") != "gloo":
        from mpi4py import MPI  # noqa: F401  MPI is mpi4py's then, and outlasts each hvd.shutdown()
    elif len(ways) > 1:
        raise LabError("With Gloo, Horovod starts once in a process: give train_ways one way.")
    # Said each time: where it is not, Horovod keeps that of its last start in this process. Seen with 0.28.1.
    fusion = {"HOROVOD_FUSION_THRESHOLD": os.environ.get("HOROVOD_FUSION_THRESHOLD", str(DEFAULT_FUSION))}
    results = {}
    for name, variables in ways.items():
        file = Path(folder) / f"timeline_{name}.json"
        with launch.environment({**fusion, **variables, "HOROVOD_TIMELINE": str(file)}):
            results[name] = train(layers, width, steps)
    return results


def train(layers: int, width: int, steps: int):
    """On a rank: `steps` steps of a small net with Horovod, for labs on what its communication costs.

    Its gradients are `layers` matrices of width x width float32. Returns the timing.Measurement of a step
    and, on rank 0, the events of the file that $HOROVOD_TIMELINE names (else None).
    """
    import horovod.torch as hvd
    import torch

    from labkit import timing, world

    file = Path(os.environ["HOROVOD_TIMELINE"])
    if world.is_root():
        file.unlink(missing_ok=True)  # an older file would prove something else
    hvd.init()
    net = torch.nn.Sequential(*[torch.nn.Linear(width, width, bias=False) for _ in range(layers)])
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    images = torch.randn(16, width)
    names = {parameter: name for name, parameter in net.named_parameters()}
    averaging = {}  # parameter -> handle of its allreduce

    # As hvd.DistributedOptimizer does, without torch.optim, whose import of torch._dynamo takes a second.
    def begin(parameter):
        averaging[parameter] = hvd.allreduce_async_(parameter.grad, name=names[parameter])

    for parameter in names:
        parameter.register_post_accumulate_grad_hook(begin)

    def step():
        net.zero_grad()
        net(images).square().mean().backward()
        for parameter in names:
            hvd.synchronize(averaging.pop(parameter))
            parameter.data -= 0.01 * parameter.grad

    took = timing.measure(step, repeat=steps, warmup=WARMUP)
    if world.is_root():
        _until_written(file, layers * (steps + WARMUP))
    hvd.shutdown()  # and so this process may start Horovod again in another way
    return took, timeline.read(file) if world.is_root() else None


def _until_written(file: Path, requests: int, quiet: float = 0.2, limit: float = 10.0) -> None:
    """Wait until so many allreduces are in the file and it has not grown for `quiet` seconds.

    After `limit` seconds no longer. Horovod's thread that writes the file lags behind, and drops at the end
    what it has not written. Seen with 0.28.1.
    """
    begun = time.monotonic()
    since = begun  # when the file was last seen to grow
    size = -1
    while time.monotonic() < begun + limit:
        time.sleep(0.02)
        size_now = file.stat().st_size if file.exists() else -1
        if size_now != size:
            since = time.monotonic()
            size = size_now
        elif size > 0 and time.monotonic() > since + quiet:
            if file.read_bytes().count(b'"ALLREDUCE"') >= requests:
                return
            since = time.monotonic()

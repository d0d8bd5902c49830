"""Training steps with Horovod, on real ranks, whose timeline is complete when they are over."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit import launch, mpis, placement, timing, world
from labkit.errors import LabError
from labkit.horovod import timeline
from labkit.placement import Placement

WARMUP = 2  # steps that are not timed
DEFAULT_FUSION = 128 << 20  # bytes, Horovod's own default


@dataclass
class Training:
    """What `train` returns. `took, events = training` takes the first two.

    took: the time of a step. events: of the timeline, on rank 0 (else None). where: net and images
    were, and how the gradients were carried.
    """

    took: timing.Measurement
    events: list[dict] | None
    where: Placement

    def __iter__(self) -> Iterator:
        return iter((self.took, self.events))


def train_ways(
    layers: int, width: int, steps: int, ways: Mapping[str, Mapping[str, str]], folder
) -> dict:
    """On a rank: `train` in several ways, one after the other. ways: {name: environment variables}.

    Returns {name: Training}; the timelines are folder/timeline_NAME.json. One start of the ranks
    does for all, as to import Torch takes longer than the steps.
    """
    mpis.prefer_own_cuda()
    from mpi4py import MPI  # noqa: F401  MPI is mpi4py's then, and outlasts each hvd.shutdown()

    # Said each time: where it is not, Horovod keeps that of its last start in this process. Seen
    # with 0.28.1.
    fusion = {
        "HOROVOD_FUSION_THRESHOLD": os.environ.get("HOROVOD_FUSION_THRESHOLD", str(DEFAULT_FUSION))
    }
    results = {}
    for name, variables in ways.items():
        file = Path(folder) / f"timeline_{name}.json"
        with launch.environment({**fusion, **variables, "HOROVOD_TIMELINE": str(file)}):
            results[name] = train(layers, width, steps)
    return results


def train(layers: int, width: int, steps: int) -> Training:
    """On a rank: `steps` steps of a small net with Horovod, for labs on what its communication
    costs.

    Its gradients are `layers` matrices of width x width float32. Net and images are on
    world.device(), which becomes PyTorch's current one. The timeline is written to the file that
    $HOROVOD_TIMELINE names.
    """
    import horovod.torch as hvd
    import torch

    file = Path(os.environ["HOROVOD_TIMELINE"])
    if world.is_root():
        file.unlink(missing_ok=True)  # an older file would prove something else
    hvd.init()
    where = placement.of_horovod(hvd)
    refuse_shared_gpus(where, hvd)
    matrices = [torch.nn.Linear(width, width, bias=False) for _ in range(layers)]
    net = torch.nn.Sequential(*matrices).to(where.device)
    where.broadcast_parameters(hvd, net.state_dict())
    images = torch.randn(16, width, device=where.device)
    names = {parameter: name for name, parameter in net.named_parameters()}
    staging = where.compression(hvd)
    # parameter -> handle of its allreduce, and what brings the mean back to the device
    averaging = {}

    # As hvd.DistributedOptimizer does, without torch.optim, whose import of torch._dynamo takes a
    # second.
    def begin(parameter):
        gradient, way_back = staging.compress(parameter.grad)
        averaging[parameter] = hvd.allreduce_async_(gradient, name=names[parameter]), way_back

    for parameter in names:
        parameter.register_post_accumulate_grad_hook(begin)

    def step():
        net.zero_grad()
        net(images).square().mean().backward()
        for parameter in names:
            handle, way_back = averaging.pop(parameter)
            parameter.data -= 0.01 * staging.decompress(hvd.synchronize(handle), way_back)

    took = timing.measure(step, repeat=steps, warmup=WARMUP, device=where.device)
    if world.is_root():
        _until_written(file, layers * (steps + WARMUP))
    hvd.shutdown()  # and so this process may start Horovod again in another way
    return Training(took, timeline.read(file) if world.is_root() else None, where)


def as_it_is() -> Placement:
    """On a rank, after hvd.init(): where its tensors are, if Horovod is handed each as it is.

    As placement.of_horovod(); but where the lab would have to stage them they are in host memory.
    For labs whose tensors the learner's own calls hand to Horovod.
    """
    import horovod.torch as hvd

    where = placement.of_horovod(hvd)
    if where.by_lab:
        return placement.on_host(where.library)
    refuse_shared_gpus(where, hvd)
    return where


def refuse_shared_gpus(where: Placement, hvd) -> None:
    """LabError, on all ranks, if NCCL would be given two ranks on one GPU. hvd: horovod.torch,
    begun."""
    if where.library != "NCCL":
        return
    shared, ranks = Counter(hvd.allgather_object(placement.own_gpu())).most_common(1)[0]
    if ranks > 1:
        raise LabError(
            f"{ranks} ranks are on one GPU of {shared.split()[0]}, which NCCL refuses. Start no"
            " more ranks than GPUs, or take the build of Horovod that goes through host memory:"
            ' HOROVOD=host of make run and make submit, horovod="host" of launch.run.'
        )


def _until_written(file: Path, requests: int, quiet: float = 0.2, limit: float = 10.0) -> None:
    """Wait until so many allreduces are in the file and it has not grown for `quiet` seconds.

    After `limit` seconds no longer. Horovod's thread that writes the file lags behind, and drops at
    the end what it has not written. Seen with 0.28.1.
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

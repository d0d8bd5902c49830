"""Horovod's allreduce on real ranks with GPUs, and what NCCL writes about it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from labkit import builds, cluster, launch, record, world

from support.lab43 import nccl_log

Chooser = Callable[[int, Sequence[int]], int]


def most_ranks(build: str | None, wanted: int) -> int:
    """How many ranks may run with this build of Horovod on this machine: with NCCL one for each GPU."""
    import torch

    gpus = torch.cuda.device_count()
    return min(wanted, gpus) if build == "nccl" and gpus else wanted


def report(choose: Chooser, sizes: Sequence[float], timeout: float = 120) -> str:
    """Run `allreduces` on as many ranks as fit (under a launcher: all); record and sum up what NCCL tells.

    Without GPUs, or without a build of Horovod for NCCL, nothing runs, and the text says so, and where it
    would.
    """
    import torch

    gpus = torch.cuda.device_count()
    names = [builds.current_horovod()] if world.launcher() else builds.horovod_builds()
    if not (gpus and "nccl" in names):
        site = cluster.here() or "…"
        return (
            f"GPUs here: {gpus}. Horovod built with NCCL: {'nccl' in names}. NCCL does not run here. On a "
            f"cluster with both, a job lets it run: make submit LAB=43 NODES=2 HOROVOD=nccl SITE={site}"
        )
    ranks = launch.ranks_here(most_ranks("nccl", 4))
    texts = launch.run(allreduces, choose, sizes, ranks=ranks, timeout=timeout, horovod="nccl")
    log = nccl_log.parse("\n".join(texts))
    chosen = str(log.chosen("AllReduce"))
    record.add(
        "nccl", ranks_used=ranks, version=log.version, gdrdma=log.gdrdma, chosen=chosen, library="NCCL"
    )
    return f"NCCL with {ranks} rank(s):\n{log.summary()}"


def allreduces(choose: Chooser, sizes: Sequence[float]) -> str:
    """On a rank: an allreduce by Horovod of each size in bytes, on a GPU. Returns the rank's log of NCCL.

    choose(local rank, numbers of the GPUs that PyTorch sees) tells the GPU.
    """
    import horovod.torch as hvd
    import torch

    with tempfile.TemporaryDirectory() as folder:
        # NCCL reads these at its first call
        os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{folder}/%h.%p.log"}
        os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET,TUNING"
        hvd.init()
        torch.cuda.set_device(choose(hvd.local_rank(), range(torch.cuda.device_count())))
        for nbytes in sizes:
            hvd.allreduce(torch.ones(max(1, int(nbytes) // 4), device="cuda"), name=f"{nbytes:.0f} bytes")
        torch.cuda.synchronize()
        hvd.shutdown()  # under a launcher this process goes on, and may start Horovod anew in another way
        return "\n".join(file.read_text(errors="replace") for file in Path(folder).iterdir())

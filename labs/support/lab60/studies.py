"""Measurements on real ranks: steps of three ways, what sharding holds and sends, a sharded checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from labkit import launch, timing
from torch import distributed
from torch.nn import functional

from support.lab60.counters import Traffic, held
from support.lab60.hooks import attach, buckets_of
from support.lab60.net import batch_of, new_net


@launch.in_group()
def compare_steps(
    start: Callable, finish: Callable, width: int, pictures: int, repeat: int, most_bytes: int
) -> dict:
    """{way: timing.Measurement of a step}, in turns: the learner's with two sizes, DDP's, and no exchange.

    A step is on this rank's own clock, after a barrier; all ranks take part in each.
    """
    from torch.nn.parallel import DistributedDataParallel

    rank = distributed.get_rank()
    inputs, labels = batch_of(rank, pictures)
    ways: dict[str, Callable] = {}
    sizes = {"yours": most_bytes, "yours, a bucket for each tensor": 1}
    for name in (*sizes, "PyTorch's DDP", "no exchange"):
        net = new_net(width, depth=6)
        model = net
        end_of_step = None
        if name in sizes:
            end_of_step = attach(buckets_of(net, sizes[name]), start, finish)
        if name == "PyTorch's DDP":
            model = DistributedDataParallel(net, bucket_cap_mb=most_bytes / 2**20)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        def step(model=model, optimizer=optimizer, end_of_step=end_of_step):
            distributed.barrier()
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), labels).backward()
            if end_of_step:
                end_of_step()
            optimizer.step()

        ways[name] = step
    return timing.in_turns(ways, repeat=repeat)


@launch.in_group()
def sharded(width: int) -> dict[str, dict]:
    """{way: bytes held on this rank and numbers sent in a step}, for DDP, ZeRO-1 and two ways of FSDP."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    results = {}
    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    pictures, labels = batch_of(rank, 16)
    mesh = init_device_mesh(pictures.device.type, (ranks,))
    for way in ("DDP", "ZeRO-1", "FSDP, parameters kept", "FSDP"):
        net = new_net(width)
        model = net
        if way in ("DDP", "ZeRO-1"):
            model = DistributedDataParallel(net)
        else:
            again = way == "FSDP"
            for block in net:
                fully_shard(block, mesh=mesh, reshard_after_forward=again)
            fully_shard(net, mesh=mesh, reshard_after_forward=again)
        if way == "ZeRO-1":
            optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=1e-3)
        else:
            optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        losses = []
        for _ in range(3):  # the first steps set things up
            traffic = Traffic(ranks)
            optimizer.zero_grad()
            with traffic:
                loss = functional.cross_entropy(model(pictures), labels)
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        results[way] = {
            **held(net, optimizer),
            "sent": traffic.all_sent,
            "calls": traffic.calls,
            "losses": losses,
        }
    return results


@launch.in_group()
def save_and_load(width: int, folder: Path) -> list[tuple[str, int]]:
    """Write the sharded net of all ranks to `folder`. Returns this rank's own files and their bytes."""
    from torch.distributed import checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    net = new_net(width)
    mesh = init_device_mesh(next(net.parameters()).device.type, (ranks,))
    fully_shard(net, mesh=mesh)
    checkpoint.save({"net": net.state_dict()}, checkpoint_id=str(folder))
    own = sorted(folder.glob(f"__{rank}_*"))
    return [(file.name, file.stat().st_size) for file in own]


def load(width: int, folder: Path) -> torch.nn.Module:
    """The net in `folder`, written by any number of ranks, in this process alone; into a net of zeros."""
    from torch.distributed import checkpoint

    net = new_net(width)
    with torch.no_grad():
        for weights in net.parameters():
            weights.zero_()
    state = {"net": net.state_dict()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        checkpoint.load(state, checkpoint_id=str(folder), no_dist=True)
    net.load_state_dict(state["net"])
    return net

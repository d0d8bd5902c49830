"""Checkpoints in pieces, by PyTorch's distributed checkpoint: each rank writes its own; in the background."""

from __future__ import annotations

import logging
import time
import warnings
from pathlib import Path

from labkit import launch, nets


@launch.in_group("gloo")
def save_in_pieces(folder: Path, width: int) -> dict:
    """A net and Adam's averages, sharded over the ranks and saved twice: at once, and in the background.

    After async_save has returned, and before it is done, the net is changed. Returns of this rank: "files" by
    name with their bytes, and "seconds" by what was waited for.
    """
    import torch
    from torch import distributed
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net, optimizer = _sharded(width, distributed.get_world_size())
    seconds = {}
    parts = dict(zip(("net", "optimizer"), get_state_dict(net, optimizer), strict=True))
    began = time.perf_counter()
    checkpoint.save(parts, checkpoint_id=folder / "sync")
    seconds["save"] = time.perf_counter() - began
    began = time.perf_counter()
    future = checkpoint.async_save(parts, checkpoint_id=folder / "async")
    seconds["until async_save returns"] = time.perf_counter() - began
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(0)  # the training goes on, in the same tensors
    future.result()
    seconds["until its files are there"] = time.perf_counter() - began
    rank = distributed.get_rank()
    own = sorted((folder / "async").glob(f"__{rank}_*"))
    return {"files": {file.name: file.stat().st_size for file in own}, "seconds": seconds}


def load_whole(folder: Path, width: int) -> dict:
    """The net of a checkpoint in pieces, read by this process alone: {name: array}."""
    import torch
    from torch.distributed import checkpoint

    net = torch.nn.Sequential(*nets.torch_blocks((64, width, width, 10), seed=1))
    state = {"net": net.state_dict()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        checkpoint.load(state, checkpoint_id=folder, no_dist=True)
    return {name: tensor.numpy() for name, tensor in state["net"].items()}


def without_metadata(folder: Path, width: int) -> str:
    """How reading ends while the file .metadata is not there: "read", or the error's name. It is put back."""
    from torch.distributed.checkpoint.api import CheckpointException

    metadata = folder / ".metadata"
    elsewhere = folder / "taken_away"
    metadata.rename(elsewhere)
    logging.disable(logging.CRITICAL)  # PyTorch also logs the error, with all its lines
    try:
        load_whole(folder, width)
    except CheckpointException as error:
        return type(error).__name__
    finally:
        logging.disable(logging.NOTSET)
        elsewhere.rename(metadata)
    return "read"


def weights_then(width: int) -> dict:
    """The net's weights when they were saved: {name: array}."""
    import torch

    net = torch.nn.Sequential(*nets.torch_blocks((64, width, width, 10)))
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def _sharded(width: int, ranks: int):
    """(net, Adam) over the ranks, before the first step; Adam has its averages."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(*nets.torch_blocks((64, width, width, 10)))
    fully_shard(net, mesh=init_device_mesh("cpu", (ranks,)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0)
    net(torch.ones(2, 64)).sum().backward()
    optimizer.step()  # with a rate of 0 the weights stay
    optimizer.zero_grad()
    return net, optimizer

"""NCCL groups of emulated GPUs: Gloo carries what they send, and they refuse what NCCL refuses."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import torch
from torch import distributed

PATIENCE = timedelta(seconds=60)  # until all ranks of a group have come to its first collective
joined: dict[str, int] = {}  # NCCL group -> the device that this rank has in it
groups: set[str] = set()


def install() -> None:
    """Let "nccl" be a backend of torch.distributed."""
    c10d = distributed.distributed_c10d
    begin, add, ask = distributed.init_process_group, distributed.new_group, distributed.get_backend
    end = distributed.destroy_process_group
    where = c10d._get_object_coll_device

    def init_process_group(backend=None, *args, **kwargs):
        kwargs.pop("device_id", None)  # Gloo binds a rank to no device
        begin("gloo" if backend == "nccl" else backend, *args, **kwargs)
        if backend == "nccl":
            groups.add(distributed.group.WORLD.group_name)

    def new_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
        own = backend or get_backend()
        group = add(ranks, timeout, "gloo" if own == "nccl" else own, *args, **kwargs)
        if own == "nccl" and isinstance(group, distributed.ProcessGroup):
            groups.add(group.group_name)
        return group

    def get_backend(group=None):
        name = (group or distributed.group.WORLD).group_name
        return "nccl" if name in groups else ask(group)

    def destroy_process_group(group=None):
        if group in (None, distributed.group.WORLD):  # names come again in the next one
            groups.clear()
            joined.clear()
        end(group)

    def object_device(group=None):
        return "cuda" if get_backend(group) == "nccl" else where(group)

    c10d._get_object_coll_device = object_device
    for module in (distributed, c10d):
        module.init_process_group = init_process_group
        module.new_group = new_group
        module.get_backend = get_backend
        module.destroy_process_group = destroy_process_group
    distributed.is_nccl_available = lambda: True


def check(args: tuple, given: list[torch.Tensor]) -> None:
    """RuntimeError for a collective of an NCCL group with a host tensor, or of ranks that share a
    GPU."""
    from tests.emulated_gpu import device

    group = _group_of(args)
    if group is None:
        return
    on_host = [tensor for tensor in given if device.place(tensor) is device.HOST and tensor.numel()]
    if on_host and not _is_barrier(given):
        raise RuntimeError("No backend type associated with device type cpu")
    places = [device.place(tensor) for tensor in given]
    own = next(
        (place for place in places if place not in (device.HOST, device.UNKNOWN)), device.current
    )
    if group.group_name not in joined:
        joined[group.group_name] = own
        _refuse_shared(group, own)


def _is_barrier(given: list[torch.Tensor]) -> bool:
    return all(tensor.numel() == 1 and tensor.dtype == torch.uint8 for tensor in given)


def _group_of(args: tuple):
    for arg in args:
        if isinstance(arg, torch.ScriptObject):
            try:
                group = distributed.ProcessGroup.unbox(arg)
            except RuntimeError:  # another kind of object, the operation of a reduction
                continue
            return group if group.group_name in groups else None
    return None


def _refuse_shared(group, own: int) -> None:
    """Each rank says which GPU it has, and reads what the others say."""
    store = distributed.distributed_c10d._get_default_store()
    ranks = distributed.get_process_group_ranks(group)
    key = f"emulated/{group.group_name}"
    store.set(f"{key}/{distributed.get_rank()}", f"{socket.gethostname()} {own}")
    names = [f"{key}/{rank}" for rank in ranks]
    store.wait(names, PATIENCE)
    seen: dict[bytes, int] = {}
    for rank, name in zip(ranks, names, strict=True):
        where = store.get(name)
        if where in seen:
            raise RuntimeError(
                f"NCCL error: Duplicate GPU detected : rank {rank} and rank {seen[where]} both on"
                f" CUDA device {where.decode()} (process {os.getpid()})"
            )
        seen[where] = rank

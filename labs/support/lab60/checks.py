"""The learner's averaging and accumulation, tried on real ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from labkit import launch
from torch import distributed
from torch.nn import functional

from support.lab60.counters import Traffic
from support.lab60.hooks import attach, buckets_of
from support.lab60.net import batch_of, new_net


def _gradients(net: torch.nn.Module) -> list[np.ndarray]:
    return [weights.grad.cpu().numpy() for weights in net.parameters()]


@launch.in_group()
def try_ddp(start: Callable, finish: Callable, longest: Sequence[int]) -> dict[int, dict]:
    """One way back of this rank's own pictures, for each length of the buckets: {bytes at most: what came}.

    What came: ours, torch, alone: gradients by start and finish, by PyTorch's DDP, without any exchange.
    begun: how many sums had been begun when the way back was over. buckets: how many there are.
    """
    results = {}
    for most_bytes in longest:
        with launch.case(f"with buckets of at most {most_bytes} bytes"):
            results[most_bytes] = _three_ways(start, finish, most_bytes)
    return results


def _three_ways(start: Callable, finish: Callable, most_bytes: int) -> dict:
    from torch.nn.parallel import DistributedDataParallel

    results: dict = {}
    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    pictures, labels = batch_of(rank, 8)
    for name in ("alone", "torch", "ours"):
        net = new_net(32)
        model = DistributedDataParallel(net) if name == "torch" else net
        end_of_step = None
        if name == "ours":
            buckets = buckets_of(net, most_bytes)
            end_of_step = attach(buckets, start, finish)
        for _ in range(2):  # a second step: nothing may be left over from the first
            net.zero_grad()
            traffic = Traffic(ranks)
            with traffic:
                functional.cross_entropy(model(pictures), labels).backward()
                begun = traffic.calls.get("allreduce", 0)
                if end_of_step:
                    end_of_step()
        results[name] = _gradients(net)
        results[f"calls {name}"] = traffic.calls.get("allreduce", 0)
    results["buckets"] = len(buckets)
    results["begun"] = begun
    return results


@launch.in_group()
def try_start(start: Callable, finish: Callable, late: float = 0.4) -> tuple[float, list[float]]:
    """How much of the seconds `late` that the last rank comes late start(bucket) takes on the others.

    Near 0 where start does not wait, near 1 where it does: the least of three tries. And the averages that
    finish gives at once, of gradients that are 1 on rank 0, 2 on rank 1, …: a float for each try.
    """
    shares = []
    averages = []
    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    for _ in range(3):
        (weights,) = torch.nn.Linear(4, 1, bias=False).parameters()
        weights.grad = torch.full_like(weights, rank + 1.0)
        distributed.barrier()
        if rank == ranks - 1:
            time.sleep(late)
        begin = time.perf_counter()
        started = start([weights])
        shares.append((time.perf_counter() - begin) / late)
        finish([weights], started)
        averages.append(weights.grad.mean().item())
        distributed.barrier()
    return 0.0 if rank == ranks - 1 else min(shares), averages


@launch.in_group()
def try_accumulate(accumulate: Callable, cuts: Sequence[int]) -> dict[int, dict]:
    """Gradients after accumulate(net, batches) and those of one large batch, its allreduces: {parts: …}.

    cuts: numbers of parts. lengths: pictures of each way forward, in order. backwards: how often gradients
    were added.
    """
    results = {}
    for parts in cuts:
        with launch.case(f"with {parts} parts" if parts > 1 else "with one part"):
            results[parts] = _accumulated(accumulate, parts)
    return results


def _accumulated(accumulate: Callable, parts: int) -> dict:
    from torch.nn.parallel import DistributedDataParallel

    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    pictures, labels = batch_of(rank, 8 * parts)
    whole = DistributedDataParallel(new_net(32))
    functional.cross_entropy(whole(pictures), labels).backward()
    inner = new_net(32)
    lengths: list[int] = []
    backwards: list[int] = []
    inner.register_forward_pre_hook(lambda module, inputs: lengths.append(len(inputs[0])))
    first = next(inner.parameters())
    first.register_post_accumulate_grad_hook(lambda weights: backwards.append(1))
    net = DistributedDataParallel(inner)
    batches = list(zip(pictures.chunk(parts), labels.chunk(parts), strict=True))
    traffic = Traffic(ranks)
    with traffic:
        accumulate(net, batches)
    missing = any(weights.grad is None for weights in net.parameters())
    return {
        "ours": None if missing else _gradients(net),
        "whole": _gradients(whole),
        "allreduces": traffic.calls.get("allreduce", 0),
        "lengths": lengths,
        "backwards": len(backwards),
    }

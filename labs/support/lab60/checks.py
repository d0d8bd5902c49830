"""The learner's averaging and accumulation, tried on real ranks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from labkit import check, expect, launch
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


@check.exercise("60.1")
def check_start(start, finish, patience, ranks):
    """PyTorch's own gradients, by one sum for each bucket, all begun before any is waited for."""
    tried = launch.run(try_start, start, finish, ranks=ranks, controller="torch", timeout=patience)
    waited = [share for share, _ in tried]
    expect(
        max(waited) < 0.7,
        "`start` waits for a rank that comes late. Use async_op=True, and wait in `finish`.",
    )
    longest = (1, 6000, 2**20)  # bytes that a bucket holds at most
    by_size = {}
    for size in (1, 2, 3):
        by_size[size] = launch.run(
            try_ddp, start, finish, longest, ranks=size, controller="torch", timeout=patience
        )
    for size, most in itertools.product(by_size, longest):
        for rank, results in enumerate(by_size[size]):
            got = results[most]
            who = f"{size} ranks, buckets of at most {most} bytes, rank {rank}"
            expect.equal(got["calls ours"], got["buckets"], f"{who}: sums in a step, one for each bucket")
            expect.equal(got["begun"], got["buckets"], f"{who}: sums begun by `start`, during backward")
            gradients = zip(got["ours"], got["torch"], got["alone"], strict=True)
            for place, (ours, theirs, own) in enumerate(gradients):
                what = f"{who}: gradient of parameter {place}, beside PyTorch's"
                slips = {
                    "these are the sums, not the averages": size * theirs,
                    "this is the rank's own gradient": own,
                }
                expect.close(ours, theirs, what, rtol=1e-4, atol=1e-6, slips=slips if size > 1 else {})
    for rank, (_, averages) in enumerate(tried):
        what = f"rank {rank}: averages of gradients 1 and 2, where a rank comes late"
        expect.close(averages, [1.5] * len(averages), what, because="`finish` has to wait for the sum first")


@check.exercise("60.2")
def check_accumulate(accumulate, patience, ranks):
    """The gradients of one large batch, for one exchange."""
    cuts = (1, 2, 4)  # parts of the batch
    by_rank = launch.run(try_accumulate, accumulate, cuts, ranks=ranks, controller="torch", timeout=patience)
    for parts in cuts:
        for rank, results in enumerate(by_rank):
            got = results[parts]
            who = f"{parts} parts, {ranks} ranks, rank {rank}"
            expect(got["ours"] is not None, f"{who}: some parameters have no gradient.")
            expect.equal(
                got["allreduces"],
                1,
                f"{who}: exchanges",
                because="all parts but the last belong into no_sync",
            )
            expect.equal(got["lengths"], [8] * parts, f"{who}: pictures of each way forward")
            why = "else the activations of all parts are held at once"
            expect.equal(got["backwards"], parts, f"{who}: ways back", because=why)
            for place, (ours, want) in enumerate(zip(got["ours"], got["whole"], strict=True)):
                slips = {"this is the sum of the parts' means": parts * want} if parts > 1 else {}
                expect.close(
                    ours, want, f"{who}: gradient of parameter {place}", rtol=1e-4, atol=1e-6, slips=slips
                )


@check.exercise("60.3")
def check_bytes_held(bytes_held, numbers_sent):
    """Bytes and numbers of each stage, also where n does not divide."""
    for n, size in ((1000, 1), (1001, 3), (7_000_000_000, 64)):
        for stage in (0, 1, 2, 3):
            where = f"stage {stage}, {n:,} parameters, {size} ranks"
            held = n * (
                4 / (size if stage > 2 else 1) + 4 / (size if stage > 1 else 1) + 8 / (size if stage else 1)
            )
            slips = {
                "this is what all ranks hold together": held * size,
                "these are numbers; each has 4 bytes": held / 4,
            }
            slips = {words: value for words, value in slips.items() if value != held}
            expect.close(bytes_held(stage, n, size), held, f"{where}: bytes on a rank", slips=slips)
            sent = (3 if stage > 2 else 2) * n * (size - 1) / size
            wrong = {"this leaves out that a rank keeps its own part": (3 if stage > 2 else 2) * n}
            expect.close(numbers_sent(stage, n, size), sent, f"{where}: numbers sent in a step", slips=wrong)

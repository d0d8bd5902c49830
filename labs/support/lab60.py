"""Lab 60: checks; DDP's buckets and hooks, counters of bytes and traffic, measurements on real
ranks."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from labkit import check, expect, launch, nets, timing, workloads, world
from labkit.errors import counted
from torch import distributed
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode


def _gradients(net: torch.nn.Module) -> list[np.ndarray]:
    return [weights.grad.cpu().numpy() for weights in net.parameters()]


@launch.in_group()
def try_averaging(
    start: Callable, finish: Callable, longest: Sequence[int]
) -> dict[object, object]:
    """{bytes at most: what `_three_ways` gives}; under "late" what `_late` gives, where there are
    others."""
    results: dict[object, object] = {
        "late": _late(start, finish) if distributed.get_world_size() > 1 else None
    }
    for most_bytes in longest:
        with launch.case(f"with buckets of at most {most_bytes} bytes"):
            results[most_bytes] = _three_ways(start, finish, most_bytes)
    return results


def _three_ways(start: Callable, finish: Callable, most_bytes: int) -> dict:
    """One way back of this rank's own pictures.

    ours, torch, alone: gradients by start and finish, by PyTorch's DDP, without any exchange.
    begun: how many sums had been begun when the way back was over. buckets: how many there are.
    """
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


def _late(start: Callable, finish: Callable, late: float = 0.4) -> tuple[float, list[float]]:
    """How much of the seconds `late` that another rank comes late start(bucket) takes on this one.

    Near 0 where start does not wait, near 1 where it does: the least of the tries, in which the
    ranks come late in turns. And the averages that finish gives at once, of gradients that are 1 on
    rank 0, 2 on rank 1, …: a float for each try.
    """
    shares = []
    averages = []
    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    for late_rank in (0, ranks - 1, 0, ranks - 1):
        (weights,) = torch.nn.Linear(4, 1, bias=False, device=world.device()).parameters()
        weights.grad = torch.full_like(weights, rank + 1.0)
        distributed.barrier()
        if rank == late_rank:
            time.sleep(late)
        begin = time.perf_counter()
        started = start([weights])
        if rank != late_rank:
            shares.append((time.perf_counter() - begin) / late)
        finish([weights], started)
        averages.append(weights.grad.mean().item())
        distributed.barrier()
    return min(shares), averages


@launch.in_group()
def try_accumulate(accumulate: Callable, cuts: Sequence[int]) -> dict[int, dict]:
    """Gradients after accumulate(net, batches) and those of one large batch, its allreduces:
    {parts: …}.

    cuts: numbers of parts. lengths: pictures of each way forward, in order. backwards: how often
    gradients were added. changed: what of the caller's is no longer as it was.
    """
    results = {}
    for parts in cuts:
        with launch.case(f"with {parts} parts" if parts > 1 else "with one part"):
            results[parts] = _accumulated(accumulate, parts)
    return results


def length(parts: int) -> int:
    """Pictures of each of a batch's parts: another number for each number of parts."""
    return 9 - parts


def _accumulated(accumulate: Callable, parts: int) -> dict:
    from torch.nn.parallel import DistributedDataParallel

    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    pictures, labels = batch_of(rank, length(parts) * parts)
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
    given, before = list(batches), pictures.clone()
    with traffic:
        accumulate(net, given)
    missing = any(weights.grad is None for weights in net.parameters())
    pairs = zip(inner.parameters(), whole.parameters(), strict=True)
    kept = {
        "the list of batches": list(map(id, given)) == list(map(id, batches)),
        "an image": torch.equal(torch.cat([inputs for inputs, _ in batches]), before),
        "a weight": all(torch.equal(weights, own) for weights, own in pairs),
    }
    return {
        "ours": None if missing else _gradients(net),
        "whole": _gradients(whole),
        "allreduces": traffic.calls.get("allreduce", 0),
        "lengths": lengths,
        "changed": [name for name, same in kept.items() if not same],
        "backwards": len(backwards),
    }


@check.exercise("60.1")
def buckets_are_averaged(start, finish, patience, ranks):
    """PyTorch's own gradients, by one allreduce for each bucket, all launched before the first
    wait."""
    longest = (1, 6000)  # bytes that a bucket holds at most: 8 buckets of 1, and buckets of 4, 3, 1
    for size in (ranks, 1):
        given = (try_averaging, start, finish, longest)
        tried = launch.run(*given, ranks=size, controller="torch", timeout=patience)
        if size > 1:
            waited = [results["late"][0] for results in tried]
            sentence = (
                "`start` waits for a rank that comes late. Use async_op=True, and wait in `finish`."
            )
            expect(max(waited) < 0.7, sentence)
            own = [  # ranks whose "averages" are their own gradients, divided
                rank
                for rank, results in enumerate(tried)
                if np.isclose(results["late"][1], (rank + 1) / size).any()
            ]
            sentence = (
                f"rank {min(own, default=0)}: where another rank comes late, `finish` divides "
                "numbers that are not added up. Let it wait for the allreduce, and use the tensor "
                "that this changes."
            )
            expect(not own or not tried[0][1]["calls ours"], sentence)
        for most, (rank, results) in itertools.product(longest, enumerate(tried)):
            got = results[most]
            who = f"{counted(size, 'rank')}, buckets of at most {most} bytes, rank {rank}"
            expect.equal(
                got["calls ours"],
                got["buckets"],
                f"{who}: allreduces in a step, one for each bucket",
            )
            expect.equal(
                got["begun"],
                got["buckets"],
                f"{who}: allreduces launched by `start`, in the backward pass",
            )
            gradients = zip(got["ours"], got["torch"], got["alone"], strict=True)
            for place, (ours, theirs, own) in enumerate(gradients):
                what = f"{who}: gradient of parameter {place}, beside PyTorch's"
                slips = {
                    "these are the sums, not the averages": size * theirs,
                    "this is the rank's own gradient": own,
                }
                expect.close(
                    ours, theirs, what, rtol=1e-4, atol=1e-6, slips=slips if size > 1 else {}
                )
        for rank, results in enumerate(tried if size > 1 else []):
            what = f"rank {rank}: averages of gradients 1 to {size}, where a rank comes late"
            averages = results["late"][1]
            want = [(size + 1) / 2] * len(averages)
            expect.close(averages, want, what, because="`finish` must wait for the allreduce first")


@check.exercise("60.2")
def one_exchange_for_all_parts(accumulate, patience, ranks):
    """The gradients of one large batch, with a single allreduce."""
    cuts = (1, 3)  # parts of the batch
    by_rank = launch.run(
        try_accumulate, accumulate, cuts, ranks=ranks, controller="torch", timeout=patience
    )
    for parts in cuts:
        for rank, results in enumerate(by_rank):
            got = results[parts]
            who = f"a batch in {parts}, {counted(ranks, 'rank')}, rank {rank}"
            expect(got["ours"] is not None, f"{who}: some parameters have no gradient.")
            expect.equal(
                got["allreduces"],
                1,
                f"{who}: allreduces",
                because="all parts but the last belong inside no_sync, with their forward pass"
                if got["allreduces"]
                else "the last part belongs outside no_sync, and each part calls `model` itself",
            )
            expect.equal(
                got["lengths"], [length(parts)] * parts, f"{who}: images of each forward pass"
            )
            why = "else the activations of all parts are held at once"
            expect.equal(got["backwards"], parts, f"{who}: backward passes", because=why)
            changed = ", ".join(got["changed"])
            expect(not changed, f"{who}: your code changes {changed}, which belongs to the caller.")
            for place, (ours, want) in enumerate(zip(got["ours"], got["whole"], strict=True)):
                slips = {"this is divided by the number of ranks once more": want / ranks}
                if parts > 1:
                    slips["this is the sum of the parts' means"] = parts * want
                expect.close(
                    ours,
                    want,
                    f"{who}: gradient of parameter {place}",
                    rtol=1e-4,
                    atol=1e-6,
                    slips=slips,
                )


@check.exercise("60.3")
def bytes_and_traffic(bytes_held, numbers_sent):
    """Bytes and numbers of each stage, also where n does not divide."""
    for n, size in ((1000, 1), (1001, 5), (7_000_000_000, 64)):
        for stage in (0, 1, 2, 3):
            where = f"stage {stage}, {n:,} parameters, p = {size}"
            times = 3 if stage > 2 else 2
            held = n * (4 / (size if stage > 2 else 1) + 4 / (size if stage > 1 else 1))
            held += 8 * n / (size if stage else 1)
            slips = {
                "this is what all ranks hold together": held * size,
                "these are numbers; each has 4 bytes": held / 4,
            }
            slips = {words: value for words, value in slips.items() if value != held}
            what = f"{where}: bytes on a rank"
            expect.close(bytes_held(stage, n, size), held, what, slips=slips)
            sent = times * n * (size - 1) / size
            slips = {"this leaves out that a rank keeps its own part": times * n}
            slips["these are bytes, not numbers"] = 4 * sent
            slips["this is rounded up"] = times * (size - 1) * -(-n // size)
            what = f"{where}: numbers sent in a step"
            expect.close(numbers_sent(stage, n, size), sent, what, slips=slips)


# -- the net


def new_net(width: int, depth: int = 4) -> torch.nn.Sequential:
    """Blocks from 64 numbers to 10, `width` between, with the same weights on every rank; on its
    device."""
    blocks = nets.torch_blocks((64, *[width] * (depth - 1), 10))
    return torch.nn.Sequential(*blocks).to(world.device())


def batch_of(rank: int, pictures: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`pictures` random pictures (pictures, 64) and their labels: others on every rank."""
    generator = torch.Generator().manual_seed(100 + rank)
    inputs = torch.randn(pictures, 64, generator=generator)
    return inputs.to(world.device()), (torch.arange(pictures) % 10).to(world.device())


# -- when a bucket of gradients is complete: what DDP does around the averaging itself


Bucket = list[torch.nn.Parameter]


def buckets_of(net: torch.nn.Module, most_bytes: int) -> list[Bucket]:
    """The net's parameters from last to first, in buckets of at most `most_bytes`, each of one or
    more.

    From last to first, as the way back computes their gradients. Frozen ones get none, and are in
    no bucket.
    """
    buckets: list[Bucket] = []
    room = 0
    for weights in reversed([weights for weights in net.parameters() if weights.requires_grad]):
        if weights.nbytes > room or not buckets:
            buckets.append([])
            room = most_bytes
        buckets[-1].append(weights)
        room -= weights.nbytes
    return buckets


def attach(buckets: Sequence[Bucket], start: Callable, finish: Callable) -> Callable[[], None]:
    """Call start(bucket) when the last gradient of a bucket is there, in every step.

    Returns a function for the end of the way back: it calls finish(bucket, started) for each
    bucket, where `started` is what start gave for it. Every parameter must get a gradient in every
    step.
    """
    missing = [len(bucket) for bucket in buckets]
    started: list[tuple[int, object]] = []

    def arrived(number: int, weights: torch.nn.Parameter) -> None:
        missing[number] -= 1
        if missing[number] == 0:
            started.append((number, start(buckets[number])))

    for number, bucket in enumerate(buckets):
        for weights in bucket:
            weights.register_post_accumulate_grad_hook(partial(arrived, number))

    def end_of_step() -> None:
        for number, result in started:
            finish(buckets[number], result)
        started.clear()
        missing[:] = [len(bucket) for bucket in buckets]

    return end_of_step


# -- what a rank holds, and what its collectives send


# Numbers that a rank sends, as a share of the numbers of the longest array of the call, times (p -
# 1) / p: an allreduce is a reduce-scatter and an allgather (lab 23). A broadcast is as long as a
# ring's.
_WEIGHT = {"allreduce": 2, "allgather": 1, "reduce_scatter": 1, "broadcast": 1}


class Traffic(TorchDispatchMode):
    """A block that notes the collectives of torch.distributed in this rank: `.sent` by kind, in
    numbers.

    As of ring algorithms, whose parts all ranks share alike: (p - 1) / p of an allgather or
    reduce-scatter.
    """

    def __init__(self, ranks: int):
        super().__init__()
        self.ranks = ranks
        self.sent: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if name.startswith("c10d."):
            kind = next((kind for kind in _WEIGHT if kind in name.replace("_base", "")), None)
            if kind:
                longest = max(_lengths(args))
                share = _WEIGHT[kind] * (self.ranks - 1) / self.ranks
                self.sent[kind] = self.sent.get(kind, 0) + share * longest
                self.calls[kind] = self.calls.get(kind, 0) + 1
        return function(*args, **(kwargs or {}))

    @property
    def all_sent(self) -> float:
        """Numbers sent by this rank."""
        return sum(self.sent.values())


def _lengths(values) -> list[int]:
    lengths = []
    for value in values:
        if isinstance(value, torch.Tensor):
            lengths.append(value.numel())
        elif isinstance(value, (list, tuple)):
            lengths += _lengths(value)
    return lengths


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def held(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes on this rank, after a step: of parameters, gradients, and the optimizer's averages.

    Of a sharded tensor this rank's part counts.
    """
    parameters = list(net.parameters())
    inner = getattr(optimizer, "optim", optimizer)  # ZeroRedundancyOptimizer's own part
    states = [
        value
        for state in inner.state.values()
        for value in state.values()
        if torch.is_tensor(value)
    ]
    return {
        "parameters": sum(_local(weights).nbytes for weights in parameters),
        "gradients": sum(
            _local(weights.grad).nbytes for weights in parameters if weights.grad is not None
        ),
        "optimizer": sum(_local(value).nbytes for value in states if value.dim() > 0),
    }


# -- measurements on real ranks


@launch.in_group()
def compare_steps(
    start: Callable, finish: Callable, width: int, pictures: int, repeat: int, most_bytes: int
) -> dict:
    """{way: timing.Measurement of a step}, in turns: the learner's with two sizes, DDP's, and no
    exchange.

    Each begins after a barrier, which is not in its time, and counts as on the slowest rank.
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
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), labels).backward()
            if end_of_step:
                end_of_step()
            optimizer.step()

        ways[name] = step
    everyone = timing.TorchGroup()
    return timing.in_turns(ways, repeat=repeat, comm=everyone, device=world.device())


# Bytes of a bucket of a workload's gradients: DistributedDataParallel's default, bucket_cap_mb=25.
BUCKET = 25 * 2**20


@launch.in_group()
def workload_speeds(start: Callable, finish: Callable, name: str) -> dict[str, workloads.Speed]:
    """{way: speed} of a training step of a workload, in turns: the learner's, DDP, FSDP, and no
    exchange."""
    from torch.nn.parallel import DistributedDataParallel

    steps: dict[str, Callable] = {}
    for way in ("yours", "PyTorch's DDP", "FSDP", "no exchange"):
        load = workloads.load(name, world.device(), contiguous=True)
        model = load.net
        end_of_step = None
        if way == "yours":
            end_of_step = attach(buckets_of(load.net, BUCKET), start, finish)
        elif way == "PyTorch's DDP":
            model = DistributedDataParallel(load.net)
        elif way == "FSDP":
            _shard(load.net, load.device)
        optimizer = torch.optim.SGD(load.net.parameters(), lr=0.01)

        def step(load=load, model=model, optimizer=optimizer, end_of_step=end_of_step):
            optimizer.zero_grad()
            functional.cross_entropy(model(load.inputs), load.labels).backward()
            if end_of_step:
                end_of_step()
            optimizer.step()

        steps[way] = step
    with warnings.catch_warnings():
        # DDP's buckets take gradients of 1 x 1 convolutions in either order of their strides.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        return load.speeds(steps, comm=timing.TorchGroup(), control="no exchange")


def _shard(net: torch.nn.Sequential, device: str) -> None:
    """FSDP: each block by itself, then what is left."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(torch.device(device).type, (distributed.get_world_size(),))
    for layer in net:
        if isinstance(layer, (workloads.Block, workloads.Bottleneck)):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)


@launch.in_group()
def sharded(width: int) -> dict[str, dict]:
    """{way: bytes held on this rank and numbers sent in a step}, for DDP, ZeRO-1 and two ways of
    FSDP."""
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
    """Write the sharded net of all ranks to `folder`. Returns this rank's own files and their
    bytes."""
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
    """The net in `folder`, written by any number of ranks, in this process alone; into a net of
    zeros."""
    from torch.distributed import checkpoint

    net = new_net(width)
    with torch.no_grad():
        for weights in net.parameters():
            weights.zero_()
    state = {"net": net.state_dict()}
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "torch.distributed is disabled, unavailable or uninitialized"
        )
        checkpoint.load(state, checkpoint_id=str(folder), no_dist=True)
    net.load_state_dict(state["net"])
    return net

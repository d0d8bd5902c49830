"""Lab 69: checks; a stack of layers whose parameters are sharded, what is gathered in it when, and
what it sends and keeps, beside DDP and FSDP2."""

from __future__ import annotations

import gc
import json
import re
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, expect, launch, nets, plots, profiling, timing, world
from labkit.errors import LabError, counted
from labkit.noise import without_lines
from torch import distributed
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

# PyTorch 2.13 has new names for both, which 2.10 (for GPUs) does not know.
warnings.filterwarnings(
    "ignore", r".*(all_gather_into|reduce_scatter)_tensor` is deprecated", FutureWarning
)

WIDTHS = (5, 7, 8, 7, 3)  # of the checks' stack: 42, 64, 63 and 24 parameters
POISON = 1000.0  # in place of parameters that have been released
# What PyTorch says, and what it means here.
_MEANT = {
    "setStorage": "`unit.full` needs more memory than its storage has. `resize_` takes bytes, here"
    " `unit.full.nbytes`.",
    "* worldSize ==": "The gradients of all parts together are not as long as the flat tensor: pad"
    " to `len(unit.full)`.",
}


# -- checks


@check.exercise("69.1")
def gathered_again(shard_of, launch_gather, wait, patience, ranks):
    """The shards of a flat tensor, of lengths that do not divide; then parameters that are gathered
    from them, on real ranks."""
    for n, size in ((12, 4), (10, 4), (7, 3), (1, 3), (5, 1)):
        with check.case(f"{n} numbers on {counted(size, 'rank')}"):
            flat = torch.arange(1.0, n + 1)
            before = flat.clone()
            shards = [shard_of(flat, rank, size) for rank in range(size)]
            expect.unchanged(before, flat, "The flat tensor")
            _expect_shards(shards, flat, size)
    double = shard_of(torch.ones(6, dtype=torch.float64), 1, 4).dtype
    told = f"The shard of a flat tensor of float64 has {double}. Keep the type."
    expect(double == torch.float64, told)
    for size in (ranks, 1):
        tried = _run(gathers, shard_of, launch_gather, wait, ranks=size, timeout=patience)
        for rank, got in enumerate(tried):
            where = f"{counted(size, 'rank')}, rank {rank}"
            told = f"{where}: `launch_gather` sets no `unit.work`."
            expect(got["launched"], f"{told} Use async_op=True, and keep the handle.")
            told = "`launch_gather` waits for a rank that comes late."
            expect(got["late"] < 0.7, f"{told} Use async_op=True, and wait in `wait`.")
            told = f"{where}: after `wait` the gather has not been awaited. Call unit.work.wait()."
            expect(got["waited"], told)
            told = f"{where}: autograd has recorded the gather. Give it `unit.shard.detach()`."
            expect(not got["recorded"], told)
            told = f"{where}: `launch_gather` launches {got['gathers']} gathers. One is enough."
            expect(got["gathers"] <= 1, told)
            there, room = got["there"], got["room"]
            told = f"{where}: after `wait`, `unit.full` has no memory. Release it after its use."
            expect(there > 0, told)
            told = f"{where}: the storage of `unit.full` has {there} bytes, but needs {room}."
            expect(there == room, f"{told} `resize_` takes bytes, here `unit.full.nbytes`.")
            told = f"{where}: beside `unit.full`, {got['more']} bytes of new tensors remain."
            expect(got["more"] <= 0, f"{told} Gather into `unit.full` itself.")
            expect.close(got["full"], got["want"], f"{where}: the parameters in `unit.full`")
            told = f"{where}: after `wait`, `unit.work` is still set. It has to be None again."
            expect(got["idle"], told)
            what = f"{where}: gathers, where `launch_gather` is called three times for one unit"
            because = "a gather that is in flight or complete is not launched again"
            expect.equal(got["launches"], 1, what, because=because)


def _expect_shards(shards: Sequence[torch.Tensor], flat: torch.Tensor, size: int) -> None:
    n = len(flat)
    each = -(-n // size)
    lengths = [len(shard) for shard in shards]
    because = "a collective needs shards of equal length, so the last one is padded"
    slips = {"where the length divides, nothing has to be padded": [each + 1] * size}
    expect.equal(lengths, [each] * size, "The shards' lengths", because=because, slips=slips)
    together = torch.cat(list(shards))
    want = torch.cat([flat, torch.zeros(size * each - n)])
    rows = want.view(each, size).T.flatten()
    slips = {"each rank has consecutive numbers, not every so many-th": rows}
    expect.close(together, want, "All shards, one after the other", slips=slips)
    kept = max(shard.untyped_storage().nbytes() for shard in shards)
    told = f"A shard of {each} numbers keeps {kept} bytes of memory, because it is a view of all"
    expect(kept <= 4 * each, f"{told} numbers. Clone it, so that the other shards can be freed.")
    own = all(_address(shard) != _address(flat) for shard in shards)
    expect(own, "The shard lies in the flat tensor's memory. Clone it.")


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@check.exercise("69.2")
def only_what_is_used(release, before, after, shard_of, patience, ranks):
    """A forward and a backward pass, twice. Where a layer computes, its own parameters are there,
    and no others; in the end none are."""
    parts = Parts(shard_of, before, after, _keep, _nothing)
    for rank, got in enumerate(_run(emptied, parts, release, ranks=ranks, timeout=patience)):
        told = f"rank {rank}: `release` leaves {got['full']} bytes in the storage of `unit.full`."
        why = "Zeros need as much memory, and other tensors keep the storage: resize it to 0."
        expect(not got["full"], f"{told} {why}")
        told = f"rank {rank}: `release` empties the storage of `unit.shard`. The shard must stay."
        expect(got["shard"], told)
    for size in (ranks, 1):
        for rank, got in enumerate(_run(passes, parts, ranks=size, timeout=patience)):
            where = f"{counted(size, 'rank')}, rank {rank}"
            _expect_gradients(got, where)
            for event in got["events"]:
                told = f"{where}, {event.where}: layers whose full parameters take memory"
                because = "each layer's parameters are released after its use"
                expect.equal(event.there, [event.layer], told, because=because)
            _expect_released(got, where)
            what = f"{where}: gathers in two forward and two backward passes of 4 layers"
            told = f"{what}: {got['gathers']}, where 16 are enough."
            expect(got["gathers"] <= 16, told)
    left = _run(beside_another, parts, ranks=1, timeout=patience)[0]
    told = "Layers 0 and 1 are gathered, then `after(units, 0, 1)` is called. Layers that are left"
    expect.equal(left, [1], told, because="only the layer that was used is released")


@check.exercise("69.3")
def averaged_in_shards(start, finish, shard_of, patience, ranks):
    """The averages over all ranks, each rank its shard of them; and the full gradients freed."""
    parts = Parts(shard_of, _gather, _spoil, start, finish)
    for size in (ranks, 1):
        tried = _run(averages, parts, ranks=size, timeout=patience)
        for rank, got in enumerate(tried):
            where = f"{counted(size, 'rank')}, rank {rank}"
            told = "`start` waits for a rank that comes late. Use async_op=True."
            expect(got["late"] < 0.7, told)
            told = f"{where}: `start` leaves the full gradients, and zeros need as much memory."
            expect(got["freed"], f"{told} Set weights.grad = None.")
            for layer, (ours, mean) in enumerate(zip(got["ours"], got["means"], strict=True)):
                slips = {
                    "these are the sums, not the averages": size * mean,
                    "this is the shard of the rank's own gradient": got["own"][layer],
                    "the sum is divided by the number of ranks twice": mean / size,
                    "divide by dist.get_world_size(), which is not always 2": size * mean / 2,
                    "`finish` overwrites `unit.shard.grad`, and adds nothing to it": 1 + mean,
                    "`finish` leaves `unit.shard.grad` as it was": np.ones_like(mean),
                    "these are the parameters; `start` needs weights.grad": got["spoilt"][layer],
                }
                what = f"{where}: the gradient of layer {layer}'s shard"
                expect.close(ours, mean, what, rtol=1e-4, atol=1e-6, slips=slips)
            if size > 1:
                _expect_one_reduce_scatter(got, where)
            told = f"{where}: `start` returns nothing, but `finish` gets what it returns."
            expect(got["returns"], told)
            told = f"{where}: after `start`, the layer's own gradient tensors are still referenced"
            expect(not got["referenced"], f"{told}, so they take memory until `finish`.")
            kept, room = got["kept"]
            told = f"{where}: the gradient of a shard of {room} bytes keeps {kept} bytes, because"
            expect(kept <= room, f"{told} it is a view of the full gradients.")
            told = f"{where}: after `finish`, {got['more']} bytes of full gradients are still"
            expect(got["more"] <= 0, f"{told} referenced. They must be freed.")


def _expect_one_reduce_scatter(got: dict, where: str) -> None:
    others = [name for name in got["start"] if "reduce_scatter" not in name]
    told = f"{where}: {others[:1]} was called. A reduce-scatter alone is enough."
    expect(not others, told)
    what = f"{where}: reduce-scatters that `start` launches for one layer"
    expect.equal(len(got["start"]), 1, what)
    told = f"{where}: `finish` calls {got['finish'][:1]}. It only waits for what `start` launched."
    expect(not got["finish"], told)


@check.exercise("69.4")
def next_one_in_flight(prefetch, after, shard_of, patience, ranks):
    """While a layer computes, the gather of the layer that is used next is in flight, and no
    other."""
    parts = Parts(shard_of, prefetch, after, _keep, _nothing)
    for size in (ranks, 1):
        for rank, got in enumerate(_run(passes, parts, ranks=size, timeout=patience)):
            where = f"{counted(size, 'rank')}, rank {rank}"
            for event in got["events"]:
                following = [event.layer + event.direction]
                following = following if 0 <= following[0] < len(WIDTHS) - 1 else []
                other = [event.layer - event.direction]
                slips = {
                    "launch the next gather, of layer i + direction, and do not wait for it": [],
                    "in the backward pass the next layer is i - 1": other,
                }
                told = f"{where}, {event.where}: gathers in flight"
                expect.equal(event.in_flight, following, told, slips=slips)
                told = f"{where}, {event.where}: layers whose full parameters take memory"
                expect.equal(event.there, sorted([event.layer, *following]), told)
            _expect_released(got, where)
            what = f"{where}: gathers in two forward and two backward passes of 4 layers"
            expect.equal(len(got["order"]), 16, what)
            what = (
                f"{where}: layers whose gathers are launched, in order, in a forward and a backward"
            )
            because = "a layer's own gather is launched before that of the next layer"
            in_turn = [0, 1, 2, 3, 3, 2, 1, 0]
            expect.equal(got["order"][:8], in_turn, f"{what} pass", because=because)
            _expect_gradients(got, where)


@check.exercise("69.5")
def one_norm_of_all(norm, patience, ranks):
    """The norm of all gradients, as one device has it, on each rank."""
    for size in (ranks, 1):
        for rank, got in enumerate(_run(norms, norm, ranks=size, timeout=patience)):
            where = f"{counted(size, 'rank')}, rank {rank}"
            what = f"{where}: the norm of all gradients"
            expect.close(got["norm"], got["want"], what, slips=got["wrong"])
            told = f"{where}: `norm` changes `unit.shard.grad`, which the optimizer still needs."
            expect(got["unchanged"], told)


def _run(function: Callable, *given, ranks: int, timeout: float) -> list[dict]:
    return launch.run(function, *given, ranks=ranks, controller="torch", timeout=timeout)


def _expect_gradients(got: dict, where: str) -> None:
    for place, (ours, own) in enumerate(zip(got["ours"], got["own"], strict=True)):
        what = f"{where}: the rank's own gradient of parameter {place}, in the second pass"
        expect.close(ours, own, what, rtol=1e-4, atol=1e-6)


def _expect_released(got: dict, where: str) -> None:
    for after, there in zip(("forward", "backward"), got["left"], strict=True):
        told = f"{where}: layers whose full parameters still take memory after the {after} pass"
        expect.equal(there, [], told)


# -- what the checks try on each rank


@contextmanager
def _explained() -> Iterator[None]:
    """Says what some errors of PyTorch's mean here."""
    try:
        yield
    except RuntimeError as error:
        meant = [told for phrase, told in _MEANT.items() if phrase in str(error)]
        if meant:
            raise LabError(meant[0]) from error
        raise


def _held() -> int:
    """Bytes of this process's tensors, each storage once."""
    gc.collect()
    kinds = (torch.Tensor, torch.nn.Parameter)
    tensors = [each for each in gc.get_objects() if type(each) in kinds]
    storages = [each.untyped_storage() for each in tensors]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def _more(held: int) -> int:
    """Bytes of tensors beyond `held`, on a CPU. What only Gloo's threads still refer to gets time
    to go. On a GPU the library that sends may keep tensors of its own: 0."""
    if str(world.device()) != "cpu":
        return 0
    more = 0
    for _ in range(30):
        more = _held() - held
        if more <= 0:
            break
        time.sleep(0.02)
    return more


@launch.in_group()
@_explained()
def gathers(shard_of: Callable, launch_gather: Callable, wait: Callable) -> dict:
    """One unit, launched three times and awaited twice."""
    layer = nets.torch_blocks((5, 7))[0].to(world.device())
    want = torch.cat([weights.detach().flatten() for weights in layer.parameters()])
    log = Log()
    unit = Unit(layer, shard_of, 0, log)
    held = _held()
    with Collectives() as seen:
        late = _late(partial(launch_gather, unit))
    got = {"late": late, "launched": unit.work is not None, "want": want.cpu().numpy()}
    got["gathers"] = sum("gather" in name for name in seen.names)
    launch_gather(unit)
    wait(unit)
    launch_gather(unit)
    wait(unit)
    got["idle"] = unit.work is None
    got["launches"] = len(log.order)
    got["waited"] = log.waits > 0
    got["there"], got["room"] = unit.full.untyped_storage().nbytes(), unit.full.nbytes
    got["more"] = _more(held + got["there"])
    got["recorded"] = unit.full.requires_grad
    got["full"] = unit.full.detach()[: len(want)].cpu().numpy() if unit.gathered else None
    return got


def _late(call: Callable, late: float = 0.4) -> float:
    """How much of the seconds `late` that the last rank comes late the call takes on the others."""
    distributed.barrier()
    last = distributed.get_rank() == distributed.get_world_size() - 1
    if last:
        time.sleep(late)
    begin = time.perf_counter()
    call()
    return 0.0 if last else (time.perf_counter() - begin) / late


def _small() -> tuple[list[torch.nn.Module], torch.Tensor, torch.Tensor]:
    """The checks' stack, and this rank's own batch."""
    layers = [block.to(world.device()) for block in nets.torch_blocks(WIDTHS)]
    return layers, *batch_of(distributed.get_rank(), 6, WIDTHS[0], WIDTHS[-1])


def _alone() -> list[list[torch.Tensor]]:
    """The gradients of each layer on this rank's own batch, without any sharding."""
    layers, inputs, labels = _small()
    functional.cross_entropy(torch.nn.Sequential(*layers)(inputs), labels).backward()
    return [[weights.grad for weights in layer.parameters()] for layer in layers]


@launch.in_group()
def passes(parts: Parts) -> dict:
    """Two forward and backward passes, whose full gradients stay on the rank."""
    layers, inputs, labels = _small()
    net = Sharded(layers, parts)
    with Collectives() as seen:
        for _ in range(2):
            for layer in layers:
                layer.zero_grad()
            loss = functional.cross_entropy(net(inputs), labels)
            left = [net.there()]
            loss.backward()
            left.append(net.there())
    return {
        "ours": [weights.grad.cpu().numpy() for layer in layers for weights in layer.parameters()],
        "own": [gradient.cpu().numpy() for layer in _alone() for gradient in layer],
        "events": net.log.events,
        "order": net.log.order,
        "gathers": sum("gather" in name for name in seen.names),
        "left": left,
    }


@launch.in_group()
def emptied(parts: Parts, release: Callable) -> dict[str, int]:
    """Bytes that `release` leaves in the storages of a layer that was gathered."""
    unit = Sharded(_small()[0], parts).units[0]
    storage = unit.full.untyped_storage()
    storage.resize_(unit.full.nbytes)
    release(unit)
    return {"full": storage.nbytes(), "shard": unit.shard.untyped_storage().nbytes()}


@launch.in_group()
def beside_another(parts: Parts) -> list[int]:
    """Layers that are there when layer 0 was used, and layer 1 was gathered, too."""
    net = Sharded(_small()[0], parts)
    for number in (0, 1):
        parts.before(net.units, number, 1)
    parts.after(net.units, 0, 1)
    return net.there()


def _gather(units: Sequence[Unit], i: int, direction: int) -> None:
    """In place of `before`."""
    unit = units[i]
    unit.full.untyped_storage().resize_(unit.full.nbytes)
    distributed.all_gather_into_tensor(unit.full, unit.shard.detach())


def _spoil(units: Sequence[Unit], i: int, direction: int) -> None:
    """In place of `after`: reading parameters that were released would end the process."""
    units[i].full.fill_(POISON)


@launch.in_group()
@_explained()
def averages(parts: Parts) -> dict:
    """A second backward pass, before which the shards have other gradients. Then one layer's."""
    layers, inputs, labels = _small()
    net = Sharded(layers, parts)
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    own = [torch.cat([gradient.flatten() for gradient in layer]) for layer in _alone()]
    means = []
    for gradient in own:
        mean = gradient.clone()
        distributed.all_reduce(mean)
        means.append(mean / ranks)
    for _ in range(2):
        functional.cross_entropy(net(inputs), labels).backward()
        grads = [unit.shard.grad for unit in net.units]
        for unit in net.units:
            unit.shard.grad = torch.ones_like(unit.shard)
    unit = Unit(layers[2], parts.shard_of, 2, Log())
    _gather([unit], 0, -1)
    got = _one_layer(unit, parts)

    def shards(flats: Sequence[torch.Tensor]) -> list[np.ndarray]:
        return [parts.shard_of(flat, rank, ranks).cpu().numpy() for flat in flats]

    got["ours"] = [None if grad is None else grad.cpu().numpy() for grad in grads]
    got |= {"means": shards(means), "own": shards(own)}
    got["spoilt"] = shards([torch.full_like(mean, POISON) for mean in means])
    return got


def _one_layer(unit: Unit, parts: Parts) -> dict:
    """What `start` and `finish` launch, return and keep in memory for one layer."""
    unit.shard.grad = torch.ones_like(unit.shard)
    held = _held()
    gradients = []
    for weights in unit.layer.parameters():
        weights.grad = torch.ones_like(weights)
        gradients.append(weakref.ref(weights.grad))
    with Collectives() as launched:
        started = []
        late = _late(lambda: started.append(parts.start(unit)))
    freed = all(weights.grad is None for weights in unit.layer.parameters())
    gc.collect()
    referenced = any(gradient() is not None for gradient in gradients)
    returns = started[0] is not None
    with Collectives() as more:
        parts.finish(unit, started.pop())
    kept = unit.shard.grad.untyped_storage().nbytes()
    return {
        "late": late,
        "freed": freed,
        "referenced": referenced,
        "start": [name for name in launched.names if "barrier" not in name],
        "finish": more.names,
        "returns": returns,
        "kept": (kept, unit.shard.nbytes),
        "more": _more(held + kept - unit.shard.nbytes),
    }


@launch.in_group()
def norms(norm: Callable) -> dict:
    """The norm of known averages, of which each rank has its shards. The last rank comes late."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    generator = torch.Generator().manual_seed(5)
    units, means = [], []
    for number, layer in enumerate(_small()[0]):
        units.append(Unit(layer, _shard, number, Log()))
        n = sum(weights.numel() for weights in layer.parameters())
        # The squares of such numbers are too large for 16 bits.
        means.append(300 * torch.randn(n, generator=generator).to(world.device()))
        units[-1].shard.grad = _shard(means[-1], rank, ranks)
    grads = [unit.shard.grad.clone() for unit in units]
    got = {"want": float(torch.cat(means).norm()), "wrong": _wrong_norms(grads, means)}
    _late(lambda: got.update(norm=float(norm(units))))
    got["unchanged"] = all(
        unit.shard.grad is not None and torch.equal(unit.shard.grad, grad)
        for unit, grad in zip(units, grads, strict=True)
    )
    return got


def _shard(flat: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    return functional.pad(flat, (0, -len(flat) % ranks)).chunk(ranks)[rank].clone()


def _wrong_norms(grads: Sequence[torch.Tensor], means: Sequence[torch.Tensor]) -> dict[str, float]:
    """grads: of this rank's shards. means: of all layers."""
    everything = torch.cat(means)
    own = torch.cat(list(grads))
    values = torch.stack([own.norm(), own.sum(), *[grad.norm() for grad in grads]])
    distributed.all_reduce(values)
    norm, total, *of_layers = values.tolist()
    right = float(everything.norm())
    return {
        "this is the norm of this rank's shards: add up over the ranks, and wait for it": float(
            own.norm()
        ),
        "16 bits cannot hold these squares": float("inf"),
        "this is the square of the norm": right**2,
        "norms of parts do not add up, their squares do": norm,
        "norms of layers do not add up, their squares do": sum(float(m.norm()) for m in means),
        "norms of shards do not add up, their squares do": sum(of_layers),
        "squares of all ranks are added up, not averaged": right
        / distributed.get_world_size() ** 0.5,
        "this is the root of the sum of the gradients, without squares": abs(total) ** 0.5,
        "absolute values are added up here, not squares": float(everything.abs().sum()),
    }


class Collectives(TorchDispatchMode):
    """A block that notes the names of the collectives in it."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function).startswith("c10d."):
            self.names.append(str(function).split(".")[1])
        return function(*args, **(kwargs or {}))


# -- a stack of layers, sharded


class Event(NamedTuple):
    """A layer computes. direction: 1 in the forward pass, -1 in the backward pass. there: layers
    whose full parameters take memory; in_flight: layers whose gather has not been awaited."""

    layer: int
    direction: int
    there: list[int]
    in_flight: list[int]

    @property
    def where(self) -> str:
        name = "forward" if self.direction > 0 else "backward"
        return f"{name} pass, while layer {self.layer} computes"


class Log:
    """events: computations, in order. order: layers whose gathers were launched. waits: of
    gathers."""

    def __init__(self):
        self.events: list[Event] = []
        self.order: list[int] = []
        self.waits = 0


class _Handle:
    """What a collective returned; counts in a Log that it is awaited."""

    def __init__(self, work, log: Log):
        self.work = work
        self.log = log

    def wait(self, *args):
        self.log.waits += 1
        return self.work.wait(*args)

    def __getattr__(self, name: str):
        return getattr(self.work, name)


class Unit:
    """A layer whose parameters are views of one flat tensor.

    layer: the module. shard: this rank's shard of its parameters, which the optimizer updates.
    full: room for all of them, padded; its memory is empty until they are gathered. work: the
    handle of a gather that was launched and not awaited, or None. gathered: `full` has memory.
    """

    def __init__(self, layer: torch.nn.Module, shard_of: Callable, number: int, log: Log):
        parameters = list(layer.parameters())
        flat = torch.cat([weights.detach().flatten() for weights in parameters])
        rank, ranks = distributed.get_rank(), distributed.get_world_size()
        self.layer = layer
        self.number = number
        self.shard = torch.nn.Parameter(shard_of(flat, rank, ranks))
        self._full = torch.empty(ranks * len(self.shard), device=flat.device)
        self._work = None
        self._log = log
        start = 0
        for weights in parameters:
            end = start + weights.numel()
            # `.data` has its own version counter, so that autograd permits to gather again.
            weights.data = self.full.data[start:end].view(weights.shape)
            start = end
        self.full.untyped_storage().resize_(0)

    @property
    def full(self) -> torch.Tensor:
        return self._full

    @full.setter
    def full(self, _) -> None:
        why = "The layer's parameters are views of `unit.full`, which must remain the same tensor:"
        raise LabError(f"{why} empty and fill its storage, instead of replacing or deleting it.")

    @full.deleter
    def full(self) -> None:
        self.full = None

    @property
    def gathered(self) -> bool:
        return self.full.untyped_storage().nbytes() > 0

    @property
    def work(self):
        return self._work

    @work.setter
    def work(self, work) -> None:
        self._log.order += [] if work is None else [self.number]
        self._work = None if work is None else _Handle(work, self._log)


class Parts(NamedTuple):
    """The notebook's functions, of which a sharded stack is made."""

    shard_of: Callable
    before: Callable
    after: Callable
    start: Callable
    finish: Callable


def _keep(unit: Unit) -> None:
    """In place of `start`: the full gradients stay on the rank."""


def _nothing(unit: Unit, started) -> None:
    """In place of `finish`."""


class Sharded(torch.nn.Module):
    """Layers one after the other; calls the notebook's functions where FSDP's hooks would.

    before(units, i, direction) and after(units, i, direction) around what layer i computes, forward
    (1) and backward (-1); start(unit) when all its gradients are there; finish(unit, started)
    before the next start, so that two layers' full gradients exist at most.
    """

    def __init__(self, layers: Sequence[torch.nn.Module], parts: Parts):
        super().__init__()
        self.log = Log()
        self.parts = parts
        self.units = [
            Unit(layer, parts.shard_of, number, self.log) for number, layer in enumerate(layers)
        ]
        self.shards = torch.nn.ParameterList(unit.shard for unit in self.units)
        self._started: list[tuple[Unit, object]] = []
        self._missing = [0] * len(self.units)
        for unit in self.units:
            for weights in unit.layer.parameters():
                weights.register_post_accumulate_grad_hook(partial(self._arrived, unit.number))

    def there(self) -> list[int]:
        return [unit.number for unit in self.units if unit.gathered]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for number, unit in enumerate(self.units):
            self._before(number, 1)
            inputs = unit.layer(inputs)
            self.parts.after(self.units, number, 1)
            inputs.register_hook(partial(self._backward, number))
        return inputs

    def _before(self, number: int, direction: int) -> None:
        self.parts.before(self.units, number, direction)
        in_flight = [unit.number for unit in self.units if unit.work is not None]
        event = Event(number, direction, self.there(), in_flight)
        self.log.events.append(event)
        unit = self.units[number]
        if not unit.gathered:
            raise LabError(f"In the {event.where}, its parameters are not gathered.")
        if unit.work is not None:
            raise LabError(f"In the {event.where}, the gather of its parameters is not awaited.")

    def _backward(self, number: int, gradient: torch.Tensor) -> None:
        """The gradient of layer `number`'s output is there."""
        if number == len(self.units) - 1:
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self._missing[number] = len(list(self.units[number].layer.parameters()))
        self._before(number, -1)

    def _arrived(self, number: int, weights: torch.Tensor) -> None:
        self._missing[number] -= 1
        if self._missing[number] == 0:
            unit = self.units[number]
            self.parts.after(self.units, number, -1)
            self._finish()
            self._started.append((unit, self.parts.start(unit)))

    def _finish(self) -> None:
        for unit, started in self._started:
            self.parts.finish(unit, started)
        self._started.clear()


# -- measurements on real ranks


def batch_of(rank: int, samples: int, inputs: int = 64, classes: int = 10) -> tuple:
    """`samples` random inputs and their labels, on this rank's device: others on every rank."""
    generator = torch.Generator().manual_seed(100 + rank)
    numbers = torch.randn(samples, inputs, generator=generator)
    labels = torch.arange(samples) % classes
    return numbers.to(world.device()), labels.to(world.device())


class Setting(NamedTuple):
    """The network and its training. width: of its layers; samples: of each rank, in a step."""

    width: int
    layers: int
    samples: int
    steps: int
    repeat: int

    def new_layers(self) -> list[torch.nn.Module]:
        widths = (64, *[self.width] * (self.layers - 1), 10)
        return [block.to(world.device()) for block in nets.torch_blocks(widths)]


# Ways of training: the notebook's are its Parts, those of PyTorch are None.
Ways = Mapping[str, Parts | None]
ONE, DDP, FSDP2 = ("one device", "DDP", "FSDP2")


def _model(way: str, parts: Parts | None, setting: Setting) -> torch.nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    layers = setting.new_layers()
    if parts is not None:
        return Sharded(layers, parts)
    net = torch.nn.Sequential(*layers)
    if way == DDP:
        return DistributedDataParallel(net, gradient_as_bucket_view=True)
    if way == FSDP2:
        kind = torch.device(world.device()).type
        mesh = init_device_mesh(kind, (distributed.get_world_size(),))
        for layer in net:
            fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
    return net


_adam = partial(torch.optim.Adam, lr=1e-3)
_sgd = partial(torch.optim.SGD, lr=0.005)


BACKWARD, UPDATE = "lab 69: backward", "lab 69: update"


@contextmanager
def _phase(name: str) -> Iterator[None]:
    """A part of a step, in what the kit and PyTorch's profiler record."""
    with profiling.span("phase", name), torch.profiler.record_function(name):
        yield


class Training:
    """A model of one way, its optimizer, and its batch: that of one rank, or of all for ONE."""

    def __init__(self, way: str, parts: Parts | None, setting: Setting, optimizer=_adam):
        ranks = range(distributed.get_world_size()) if way == ONE else [distributed.get_rank()]
        batches = [batch_of(rank, setting.samples) for rank in ranks]
        self.inputs, self.labels = (torch.cat(part) for part in zip(*batches, strict=True))
        self.model = _model(way, parts, setting)
        self.optimizer = optimizer(self._parameters())

    def _parameters(self) -> list[torch.nn.Parameter]:
        if isinstance(self.model, Sharded):
            return list(self.model.shards)
        return list(self.model.parameters())

    def gradients(self) -> torch.Tensor:
        """The forward and the backward pass. Returns the loss of this batch."""
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(self.inputs), self.labels)
        with _phase(BACKWARD):
            loss.backward()
        return loss.detach()

    def step(self) -> torch.Tensor:
        loss = self.gradients()
        with _phase(UPDATE):
            self.optimizer.step()
        return loss

    def loss(self) -> float:
        """A step, and the loss of the whole batch before it."""
        loss = self.step()
        distributed.all_reduce(loss)
        return float(loss) / distributed.get_world_size()

    def measured_norm(self, norm: Callable) -> float:
        """Of the last step's gradients, with the notebook's function where they are sharded."""
        if isinstance(self.model, Sharded):
            return float(norm(self.model.units))
        gradients = [each.grad.double() for each in self._parameters()]
        return float(torch.nn.utils.get_total_norm(gradients))


@launch.in_group()
def train_ways(ways: Ways, setting: Setting) -> dict[str, list[float]]:
    """{way: losses of steps with SGD}."""
    losses = {}
    for way, parts in ways.items():
        training = Training(way, parts, setting, _sgd)
        losses[way] = [training.loss() for _ in range(setting.steps)]
    return losses


@launch.in_group()
def norm_ways(ways: Ways, setting: Setting, norm: Callable) -> dict[str, list[tuple]]:
    """{way: (losses, norms of the gradients) of steps with Adam}."""
    trained = {}
    for way, parts in ways.items():
        training = Training(way, parts, setting)
        steps = [(training.loss(), training.measured_norm(norm)) for _ in range(setting.steps)]
        trained[way] = list(zip(*steps, strict=True))
    return trained


Interval = tuple[float, float]
# From its launch to its completion: spans of Gloo's, which makes a reduce-scatter from an
# allreduce, or kernels of NCCL's.
_ROWS = {"reduces": "reduce-scatters"}
_SPANS = {
    "gathers": re.compile(r"^gloo:all_?gather|^ncclDevKernel_AllGather"),
    "reduces": re.compile(r"^gloo:(all_?reduce|reduce_?scatter)|^ncclDevKernel_(All)?Reduce"),
}


class Traced(NamedTuple):
    """One way on this rank. step: seconds. calls: collectives of a step by name. hidden: share of
    the gathers' time during which this rank computes. rows: what happens when, in the median step,
    whose backward pass begins at `backward`. file: the trace."""

    step: timing.Measurement
    calls: dict[str, int]
    hidden: float
    rows: dict[str, list[Interval]]
    backward: float
    file: Path


def _traced(profile: profiling.Profile, file: Path) -> Traced:
    (rank,) = profile.ranks
    lasts = 0.0
    hidden = 0.0
    for number in profile.middle:
        rows = rows_of(rank.spans[number])
        lasts += sum(end - begin for begin, end in rows["gathers"])
        for gather in rows["gathers"]:
            hidden += profiling.length(profiling.common([gather], rows["computes"]))
    median = profile.middle[0]
    zero = rank.steps[median][0]
    rows = {
        name: [(begin - zero, end - zero) for begin, end in intervals]
        for name, intervals in rows_of(rank.spans[median]).items()
    }
    backward = next(span.begin - zero for span in rank.spans[median] if span.name == BACKWARD)
    share = hidden / lasts if lasts else 0.0
    return Traced(profile.step, _calls(profile), share, rows, backward, profile.save(file))


@plots.styled
def draw_traced(traced: Mapping[str, Traced], title: str):
    """Three rows for each way: what this rank computes, gathers and reduces, and when."""
    last = max(end for each in traced.values() for row in each.rows.values() for _, end in row)
    unit, factor = timing.time_unit(last)
    looks = {
        name: plots.Look("", color, edge=0.5 if name in _SPANS else 0)
        for name, color in zip(("computes", *_SPANS), plots.COLORS, strict=False)
    }
    least = last / 250  # so that short ones can be seen
    rows = [
        (
            f"{way}: {_ROWS.get(name, name)}",
            {name: [(begin, max(end, begin + least)) for begin, end in row]},
        )
        for way, each in traced.items()
        for name, row in each.rows.items()
    ]
    figure = plots.draw_rows(rows, looks, title=title, group=3)
    (axes,) = figure.axes
    for place, each in enumerate(traced.values()):
        at, above = each.backward * factor, 3 * place - 0.5
        begins = axes.vlines(at, above, above + 3, color=plots.INK, linestyle="--")
    figure.set_figheight(figure.get_figheight() + 0.3)
    figure.legend([begins], ["the backward pass begins"], loc="outside lower center")
    return plots.done(figure, title)


def rows_of(spans: Sequence) -> dict[str, list[Interval]]:
    """What this rank computes, disjoint: operators of this thread, or kernels. The engine's own
    spans are not counted, as hooks wait in them. And its collectives."""
    # A fork's own thread is not in Python's list by its number.
    here = (threading.current_thread().name, f"thread {threading.get_native_id()}")
    computes = [
        (span.begin, span.end)
        for span in spans
        if span.kind == "compute"
        and (
            span.thread.startswith("GPU") or span.name.startswith("aten::") and span.thread in here
        )
    ]
    rows = {"computes": profiling.union(computes)}
    for name, pattern in _SPANS.items():
        rows[name] = [(span.begin, span.end) for span in spans if pattern.search(span.name)]
    return rows


@plots.styled
def draw_memory(used: dict[str, Memory], title: str):
    """The bytes of one rank's tensors in the phases of a step of each way, and between steps."""
    figure = plots.new_figure(width=9, height=3.6)
    panels = figure.subplots(1, len(used), sharey=True)
    most = max(max(each.nbytes) for each in used.values()) / 1e6
    for axes, (way, each) in zip(panels, used.items(), strict=True):
        # Each phase is drawn with the same width.
        ends = [0.0, *each.phases, each.seconds[-1]]
        places, megabytes = np.interp(each.seconds, ends, range(4)), np.array(each.nbytes) / 1e6
        (curve,) = axes.step(places, megabytes, where="post", color=plots.COLORS[0])
        between = axes.axhline(megabytes[0], color=plots.INK, linestyle="--", linewidth=1)
        axes.set(xlim=(0, 3), ylim=(0, 1.08 * most))
        axes.set_xticks([0.5, 1.5, 2.5], ["forward", "backward", "update"], fontsize=10)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)
        for border in (1, 2):
            axes.axvline(border, color=plots.FAINT, linewidth=1)
        peak = f"{megabytes[0]:.1f} MB, {megabytes.max():.1f} at the peak"
        axes.set_title(f"{way}\n{peak}", fontsize=11)
    panels[0].set_ylabel("MB of tensors")
    names = ["during a step", "between two steps"]
    figure.legend([curve, between], names, loc="outside lower center", ncols=2)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    return plots.done(figure, title)


@launch.in_group()
def trace_ways(ways: Ways, setting: Setting, folder: Path) -> dict[str, Traced]:
    """{way: what PyTorch's profiler recorded of its steps on this rank}."""
    traced = {}
    for way, parts in ways.items():
        training = Training(way, parts, setting)
        profile = profiling.record(
            training.step,
            steps=setting.repeat,
            kind="torch",
            device=world.device(),
            warmup=2,
            overhead=False,
        )
        name = way.replace(",", "").replace(" ", "_")
        file = folder / f"69_{name}_rank{distributed.get_rank()}.json"
        traced[way] = _traced(profile, file)
    return traced


_NAMES = {"allgather": "gathers", "reduce_scatter": "reduce-scatters"}


def _calls(profile: profiling.Profile) -> dict[str, int]:
    """Collectives of a step, as torch.distributed launched them."""
    calls = dict.fromkeys(_NAMES.values(), 0)
    for _, row in profile.operators(most=10_000).iterrows():
        for kind, name in _NAMES.items():
            if re.match(f"c10d::_?{kind}", row["name"]):
                calls[name] += round(row["calls"])
    return calls


class Memory(NamedTuple):
    """Of this rank's tensors in one step: seconds since its begin, and the bytes from then on.
    phases: seconds until the backward pass and the update begin."""

    seconds: list[float]
    nbytes: list[int]
    phases: list[float]


@launch.in_group()
def memory_ways(ways: Ways, setting: Setting) -> dict[str, Memory]:
    """{way: what each allocation and release in its third step left}."""
    return {way: _memory(way, parts, setting) for way, parts in ways.items()}


_STEP = "lab 69: step"
_NOISE = re.compile(rb"USDT:")  # two lines of PyTorch's profiler


@contextmanager
def _unhurried(pause: float = 0.003) -> Iterator[None]:
    """After each wait for a collective, Gloo's threads get time to drop its tensors: the profiler
    does not see what a thread of theirs releases as the last one."""
    wait = distributed.Work.wait

    def slowly(work, *given, **named):
        done = wait(work, *given, **named)
        time.sleep(pause)
        return done

    distributed.Work.wait = slowly
    try:
        yield
    finally:
        distributed.Work.wait = wait


def _memory(way: str, parts: Parts | None, setting: Setting) -> Memory:
    """What exists before the third step is counted, and what the step changes is recorded.

    The profiler knows the size of what it saw allocated, so it runs before the model is made.
    """
    gpu = torch.device(world.device()).type == "cuda"
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU, kinds.CUDA] if gpu else [kinds.CPU]
    others = _held()
    profiler = torch.profiler.profile(
        activities=activities,
        profile_memory=True,
        acc_events=True,  # without it PyTorch 2.10 warns
    )
    with without_lines(_NOISE), profiler, _unhurried():
        training = Training(way, parts, setting)
        for _ in range(2):
            training.step()
        nbytes = [_held() - others]
        with torch.profiler.record_function(_STEP):
            training.step()
            if gpu:
                torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    notes = [event for event in events if event.get("cat") == "user_annotation"]
    notes.sort(key=lambda event: event["ts"])
    spans = {event["name"]: event for event in notes}  # the last of each name
    step = spans[_STEP]
    of_memory = [event for event in events if event["name"] == "[memory]"]
    changes = [event for event in of_memory if (event["args"]["Device Type"] == 1) == gpu]
    changes.sort(key=lambda event: event["ts"])
    seconds = [0.0]
    live: dict[int, int] = {}  # address -> bytes, of what the step has allocated
    for event in changes:
        since = event["ts"] - step["ts"]
        if 0 <= since <= step["dur"]:
            seconds.append(since * 1e-6)
            nbytes.append(nbytes[-1] + _change(event["args"], live))
    phases = [(spans[name]["ts"] - step["ts"]) * 1e-6 for name in (BACKWARD, UPDATE)]
    return Memory(seconds, nbytes, phases)


def _change(event: dict, live: dict[int, int]) -> int:
    """Bytes that an event of the profiler adds to what is allocated.

    What it does not see released is noticed when the address is used again.
    """
    begin, nbytes = event["Addr"], event["Bytes"]
    if nbytes < 0:
        live.pop(begin, None)
        return nbytes
    inside = [at for at in live if at < begin + nbytes and begin < at + live[at]]
    unseen = sum(live.pop(at) for at in inside)
    live[begin] = nbytes
    return nbytes - unseen

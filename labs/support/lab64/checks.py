"""The learner's pair f and g, tried in groups of real ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, expect, launch
from labkit.counting import CallLog, on_every_size
from labkit.errors import LabError

from support.lab64.gpus import GPUs
from support.lab64.megatron import Layout, parts_of_step, published

Ways = dict[tuple[str, str], dict]  # ("f" or "g", "forward" or "back") -> what came in and out on a rank


class Case(NamedTuple):
    """One way of one function on one rank of a group.

    own: what this rank gave it, total: the sum of what all ranks gave, got: what came out; None if nothing
    did. calls: names of the communicator's calls. changed: whether what it was given was changed.
    """

    name: str
    way: str
    rank: int
    own: np.ndarray
    total: np.ndarray
    got: np.ndarray | None
    calls: list[str]
    changed: bool


def try_pair(comm, f: Callable, g: Callable) -> dict[int, Ways]:
    """What f and g gave on this rank, forward and back, in a group of every size: {ranks: Ways}."""
    return on_every_size(comm, lambda group: _try(group, "f", f) | _try(group, "g", g))


def cases(tried: Sequence[dict[int, Ways]], size: int) -> Iterator[Case]:
    """The cases of a group of `size` ranks. tried: what try_pair gave on all ranks."""
    for name in "fg":
        for way in ("forward", "back"):
            group = [tried[rank][size][name, way] for rank in range(size)]
            total = sum(result["own"] for result in group)
            for rank, result in enumerate(group):
                yield Case(name, way, rank, total=total, **result)


def _inputs_of(way: str, size: int) -> list[torch.Tensor]:
    """What each rank of a group has, on the way forward or back: (3, 4) whole numbers, others on each."""
    numbers = np.random.default_rng([size, len(way)]).integers(1, 100, (size, 3, 4))
    return list(torch.from_numpy(numbers.astype(np.float32)))


def _try(comm, name: str, function: Callable) -> Ways:
    log = CallLog(comm)
    own = _inputs_of("forward", comm.size)[comm.rank]
    entering = own.clone().requires_grad_()
    leaving = function(entering, log)
    if not torch.is_tensor(leaving):
        raise LabError(f"The way forward is to return a tensor, not {type(leaving).__name__}.")
    calls = _collectives(log)
    forward = {
        "own": own.numpy(),
        "got": leaving.detach().numpy().copy(),
        "calls": calls,
        "changed": not torch.equal(entering.detach(), own),
    }
    gradient = _inputs_of("back", comm.size)[comm.rank]
    given = gradient.clone()
    leaving.backward(given)
    back = {
        "own": gradient.numpy(),
        "got": None if entering.grad is None else entering.grad.numpy(),
        "calls": _collectives(log)[len(calls) :],
        "changed": not torch.equal(given, gradient),
    }
    return {(name, "forward"): forward, (name, "back"): back}


def _collectives(log: CallLog) -> list[str]:
    return [call for call in log.calls if not call.startswith("_")]


@check.exercise("64.1")
def check_column(column, row):
    """The right part for every rank, of weights and of a bias, on 1 to 4 ranks."""
    up, bias, down = torch.randn(48, 12), torch.randn(48), torch.randn(12, 48)
    for size in (1, 2, 3, 4):
        for rank in range(size):
            where = f"rank {rank} of {size}"
            wants = {"weight (48, 12)": up.view(size, -1, 12)[rank], "bias (48)": bias.view(size, -1)[rank]}
            for what, whole in (("weight (48, 12)", up), ("bias (48)", bias)):
                other = {"this is the other cut": whole.chunk(size, dim=-1)[rank]}
                slips = other if size > 1 and whole is up else {}
                got = column(whole, rank, size)
                expect.close(got, wants[what], f"{where}: column of a {what}", slips=slips)
            want = down.view(12, size, -1)[:, rank]
            other = {"this is the other cut": down.chunk(size)[rank]} if size > 1 else {}
            expect.close(row(down, rank, size), want, f"{where}: row of a weight (12, 48)", slips=other)


@check.exercise("64.2")
def check_f(f, g, most, patience):
    """Sums where the table has them, own values elsewhere, for every size of a group of ranks."""
    ranks = launch.ranks_here(most)
    tried = launch.run(try_pair, f, g, ranks=ranks, threads=1, timeout=patience)
    adding = (("f", "back"), ("g", "forward"))
    for size in range(ranks, 0, -1):
        for case in cases(tried, size):
            where = f"{case.name}, {size} ranks, rank {case.rank}, on the way {case.way}"
            adds = (case.name, case.way) in adding
            want, slip = (case.total, case.own) if adds else (case.own, case.total)
            reason = "this was not added up" if adds else "this was added up"
            slips = {f"{reason}, see the table": slip} if size > 1 else {}
            expect(not case.changed, f"{where}: what it was given was changed. Others use it, too.")
            expect.close(case.got, want, f"{where}: what comes out", slips=slips)
            expect.equal(case.calls, ["Allreduce"] if adds else [], f"{where}: its calls")


@check.exercise("64.3")
def check_own_heads(own_heads):
    """Own queries, then keys, then values, for a matrix and for its bias."""
    bias = torch.arange(36.0)  # 12 heads of one row each: queries 0 to 11, keys 12 to 23, values 24 to 35
    matrix = 100 * bias.reshape(36, 1) + torch.arange(4)
    for size in (2, 3, 4, 6, 1):
        for rank in range(size):
            where = f"rank {rank} of {size}, 12 heads of one row"
            own = bias.reshape(3, size, -1)[:, rank].flatten()
            slips = {"this cuts q0 to v11 in one go, and tears heads apart": bias.chunk(size)[rank]}
            mixed = bias.reshape(3, size, -1)[:, rank].T.flatten()
            slips["these are the right rows in another order"] = mixed
            slips = slips if size in (2, 3, 4) else {}
            expect.close(own_heads(bias, rank, size), own, f"{where}: the bias's rows", slips=slips)
            rows = 100 * own.reshape(-1, 1) + torch.arange(4)
            expect.close(own_heads(matrix, rank, size), rows, f"{where}: the matrix's rows")


@check.exercise("64.4")
def check_step_seconds(step_seconds):
    """The seconds of the five parts above, for layouts of all kinds."""
    nets = published()
    gpus = GPUs(share=0.5)
    for net, shape in (
        (nets[0], (1, 1, 32, 1)),
        (nets[0], (1, 8, 4, 1)),
        (nets[3], (8, 1, 32, 1)),
        (nets[3], (2, 4, 32, 4)),
        (nets[6], (8, 8, 24, 2)),
    ):
        layout = Layout(*shape)
        count = net.batch / (layout.data * layout.micro)
        more = layout.pipeline - 1
        cost = parts_of_step(net, layout, gpus)
        where = f"{net.name} billion parameters, (tensor, pipeline, data, micro) {shape}"
        slips = {
            "the bubble is missing": cost.total - cost.bubble,
            "the gradients' sum is missing": cost.total - cost.gradients,
            "the sums of the tensor ranks are missing": cost.total - cost.sums * (1 + more / count),
            "the gradients are added up once a step": cost.total + (count + more - 1) * cost.gradients,
        }
        slips = {words: value for words, value in slips.items() if abs(value / cost.total - 1) > 1e-6}
        expect.close(step_seconds(net, layout, gpus), cost.total, f"{where}: seconds", slips=slips)

"""Plans on real ranks: with real arithmetic, with a stand-in that sleeps, and PyTorch's own pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from labkit import launch, nets
from labkit.counting import CallLog
from labkit.errors import LabError
from torch.nn import functional

from support.lab63.plans import Played, Span
from support.lab63.work import Work

BLOCKS = 5


def _net(width: int) -> list[torch.nn.Sequential]:
    return nets.torch_blocks((12, *[width] * (BLOCKS - 1), 5))


def _batch(pictures: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(pictures, 12, generator=generator), torch.arange(pictures) % 5


def _stage(rank: int, ranks: int, width: int) -> torch.nn.Sequential:
    edges = [place * BLOCKS // ranks for place in range(ranks + 1)]
    return torch.nn.Sequential(*_net(width)[edges[rank] : edges[rank + 1]])


def one_process(width: int, pictures: int) -> tuple[float, list[np.ndarray]]:
    """Loss of the batch, and the gradients of all parameters in order, of the whole net in one process."""
    inputs, labels = _batch(pictures)
    blocks = _net(width)
    loss = functional.cross_entropy(torch.nn.Sequential(*blocks)(inputs), labels)
    loss.backward()
    return loss.item(), [weights.grad.numpy() for block in blocks for weights in block.parameters()]


def try_plan(comm, run_plan: Callable, plans: Sequence, micro: int, width: int, pictures: int) -> dict:
    """Run this rank's plan with real arithmetic, `run_plan(comm, plan, work)`. Returns what came of it.

    gradients: of this stage. loss: of the batch, on the last rank; else 0. under_way: requests that nobody
    waited for. done: the actions, in order. bytes: the most that was held for the way back. calls: names of
    the communicator's calls.
    """
    stage = _stage(comm.rank, comm.size, width)
    last = comm.rank == comm.size - 1
    work = Work(stage, *_batch(pictures), micro, first=comm.rank == 0, last=last)
    log = CallLog(comm)
    try:
        run_plan(log, plans[comm.rank], work)
    except Exception as error:
        # So MPI says that the memory of the rank that sends is not there any more.
        if "process_vm_readv" not in str(error):
            raise
        text = "An array was gone before this rank had read it: the sender's requests were not waited for."
        raise LabError(text) from None
    gradients = [None if weights.grad is None else weights.grad.numpy() for weights in stage.parameters()]
    return {
        "gradients": gradients,
        "loss": sum(work.losses),
        "under_way": log.under_way(),
        "bytes": work.most_bytes,
        "done": work.done,
        "calls": sorted(set(log.calls)),
    }


class _Sleeper:
    """In place of Work: a device that computes without this machine's cores. It sleeps."""

    def __init__(self, rank: int, ranks: int, forward: float, backward: float):
        self.seconds = {"F": forward, "B": backward}
        self.first = rank == 0
        self.last = rank == ranks - 1
        self.spans: list[Span] = []

    def room_for_entering(self, number: int) -> np.ndarray:
        return np.empty(1, np.float32)

    room_for_gradient = room_for_entering

    def _sleep(self, kind: str, number: int) -> np.ndarray:
        begin = time.perf_counter()
        time.sleep(self.seconds[kind])
        self.spans.append(Span(kind, number, 0, begin, time.perf_counter()))
        return np.zeros(1, np.float32)

    def forward(self, number: int, entering: np.ndarray | None) -> np.ndarray | None:
        leaving = self._sleep("F", number)
        return None if self.last else leaving

    def backward(self, number: int, gradient: np.ndarray | None) -> np.ndarray | None:
        back = self._sleep("B", number)
        return None if self.first else back


def sleep_through(comm, run_plan: Callable, plans: Sequence, forward: float, backward: float) -> Played:
    """Run the plan with stages that sleep `forward` and `backward` seconds. Returns it with measured times.

    Messages are real. The time is from the first rank's begin to the last one's end; on every rank.
    """
    sleeper = _Sleeper(comm.rank, comm.size, forward, backward)
    comm.Barrier()
    begin = time.perf_counter()
    run_plan(comm, plans[comm.rank], sleeper)
    end = time.perf_counter()
    first = min(comm.allgather(begin))
    total = max(comm.allgather(end)) - first
    own = [span._replace(begin=span.begin - first, end=span.end - first) for span in sleeper.spans]
    spans = comm.allgather(own)
    busy = sum(span.end - span.begin for rank in spans for span in rank)
    return Played(spans, total, 1 - busy / (comm.size * total))


@launch.in_group("gloo")
def by_torch(micro: int, width: int, pictures: int) -> tuple[list[np.ndarray], float]:
    """Gradients of this rank's stage, and on the last rank the loss, by PyTorch's own 1F1B over Gloo."""
    from torch import distributed
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank = distributed.get_rank()
    ranks = distributed.get_world_size()
    inputs, labels = _batch(pictures)
    module = _stage(rank, ranks, width)
    stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, micro, loss_fn=functional.cross_entropy)
    losses: list[torch.Tensor] = []
    given = (inputs,) if rank == 0 else ()
    target = {"target": labels, "losses": losses} if rank == ranks - 1 else {}
    schedule.step(*given, **target)
    loss = sum(part.item() for part in losses) / micro
    return [weights.grad.numpy() for weights in module.parameters()], loss

"""Training steps on virtual and on real ranks: what each rank computed, and how long it was in the allreduce.

A step runs from the end of one allreduce to the end of the next, so that its two parts add up and nothing is
left out: the update belongs to the computing after it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from labkit import energy, nets, placement, virtual, world
from labkit.collectives import ring_allreduce

WARMUP = 2  # steps before the first that counts


@dataclass(frozen=True)
class OfRank:
    """What a rank saw: compute and allreduce, seconds by step; its host; place: fields of a record.

    joules: of its node during these steps, on the first rank of each node, else 0; None where it cannot be
    read. meter: what counted them; no_meter: why nothing did.
    """

    compute: np.ndarray
    allreduce: np.ndarray
    host: str
    place: dict
    nbytes: int
    joules: float | None
    meter: str
    no_meter: str


def on_virtual_ranks(comm, seconds: float, nbytes: float, steps: int, jitter: float, seed: Sequence[int]):
    """(compute, allreduce) of a virtual rank: (steps,) seconds each.

    seconds: of its computing, which varies from step to step by normal numbers; jitter: their standard
    deviation, as a share.
    """
    chance = np.random.default_rng([*seed, comm.rank])
    compute = []
    allreduce = []
    for _ in range(steps):
        begin = comm.Wtime()
        comm.compute(seconds * max(0.1, 1 + jitter * chance.standard_normal()))
        arrived = comm.Wtime()
        # Across ranks: the sum of all gradients; a number for each rank stands for them.
        ring_allreduce(comm, virtual.vector(np.ones(comm.size), stands_for=nbytes))
        compute.append(arrived - begin)
        allreduce.append(comm.Wtime() - arrived)
    return compute, allreduce


def real(comm, kind: str, images: int, width: int, steps: int) -> OfRank:
    """The step of labs 30 and 50 on a real rank. images: of the whole job (strong), of each rank (weak)."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    place = placement.of_mpi()
    net = nets.torch_conv(width).to(place.device)
    own = share(kind, images, comm.rank, comm.size)
    total = comm.allreduce(own)
    pictures = torch.rand(own, 3, 32, 32).to(world.device())
    labels = (torch.arange(own) % 10).to(world.device())
    hosts = comm.allgather(socket.gethostname())
    counts = hosts.index(hosts[comm.rank]) == comm.rank  # one rank of each node reads its meter
    meter = energy.Meter()
    stamps = []
    before = None
    for step in range(WARMUP + steps):
        if step == WARMUP:
            comm.Barrier()
            before = meter.read() if counts else None
        stamps.append(
            _step(comm, place, net, pictures, labels, total, stamps[-1][2] if step > WARMUP else None)
        )
    joules = meter.joules(before) if counts else 0.0
    seconds = np.array([stamp[:2] for stamp in stamps[WARMUP:]])
    nbytes = 4 * sum(weights.numel() for weights in net.parameters())
    return OfRank(
        seconds[:, 0], seconds[:, 1], hosts[comm.rank], place.fields(), nbytes, joules, meter.name, meter.why
    )


def _step(comm, place, net, pictures, labels, total: int, begin: float | None) -> tuple[float, float, float]:
    """(seconds of compute, of allreduce, when it ended)."""
    import torch
    from labkit.timing import device_sync

    begin = time.perf_counter() if begin is None else begin
    net.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(pictures), labels, reduction="sum") / total
    loss.backward()
    gradient = torch.cat([weights.grad.flatten() for weights in net.parameters()])
    device_sync(place.device)
    arrived = time.perf_counter()
    # Across ranks: the sum of all ranks' gradients, in place.
    place.allreduce(comm, gradient)
    end = time.perf_counter()
    with torch.no_grad():
        vector = torch.nn.utils.parameters_to_vector(net.parameters()) - 0.01 * gradient
        torch.nn.utils.vector_to_parameters(vector, net.parameters())
    return arrived - begin, end - arrived, end


def share(kind: str, images: int, rank: int, ranks: int) -> int:
    """Images of one rank: as even as can be (strong), all of them (weak)."""
    if kind == "weak":
        return images
    return images // ranks + (1 if rank < images % ranks else 0)


def mean_step(ranks: Sequence[OfRank]) -> float:
    """Seconds of a step, the mean of all."""
    return float(np.mean([of_rank.compute + of_rank.allreduce for of_rank in ranks]))


def parts(compute: np.ndarray, allreduce: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of compute, wait and communicate by step, of (ranks, steps): lab 50's split."""
    sending = allreduce.min(axis=0)
    return {"compute": compute.mean(axis=0), "wait": allreduce.mean(axis=0) - sending, "communicate": sending}

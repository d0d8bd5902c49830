"""What is studied, and the steps of it on virtual and on real ranks."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import virtual
from labkit import launch, nets, placement, world
from labkit.collectives import ring_allreduce

from support.lab80 import energy

WIDTH = 32  # channels of the real ranks' net, as in lab 50
CALIBRATION = 6  # steps of one rank alone


@dataclass(frozen=True)
class Setup:
    """counts: numbers of ranks. per_image: seconds of an image on one rank. nbytes: of the
    gradients.

    per_node: ranks of a node. machine: of the virtual cluster; for real ranks the links of lab 22's
    records.
    """

    where: str
    machine: virtual.Machine
    net: str
    counts: tuple[int, ...]
    per_image: float
    nbytes: float
    per_node: int

    def link(self, ranks: int) -> tuple[float, float]:
        """(seconds of a message, seconds of a byte) of the slowest link that a ring of so many
        ranks uses."""
        inside = self.machine.inside
        between = self.machine.between
        if self.nodes(ranks) == 1 or inside.bandwidth < between.bandwidth:
            return inside.latency, 1 / inside.bandwidth
        return between.latency, 1 / between.bandwidth

    def nodes(self, ranks: int) -> int:
        """Nodes that so many ranks take, node by node."""
        return -(-ranks // self.per_node)

    def __str__(self) -> str:
        latency, beta = self.link(max(self.counts))
        return (
            f"{self.where}: {', '.join(map(str, self.counts))} ranks; an image takes"
            f" {1e3 * self.per_image:.2f} ms on one rank; {self.nbytes / 1e6:.2f} MB of gradients;"
            f" the slowest link of {max(self.counts)} ranks: {1e6 * latency:.2f} µs a message,"
            f" {1e-9 / beta:.2f} GB/s"
        )


def begin(where: str, machine: str, net: str, speed: float, images: int, most: int) -> Setup:
    """The setup of a study. On real ranks one rank is timed first, alone."""
    if where == "virtual":
        nbytes = 4 * int(nets.layer_table(net).parameters.sum())
        chosen = virtual.machine(machine)
        return Setup(where, chosen, net, doubled(most), 1 / speed, nbytes, chosen.ranks_per_node)
    there = launch.ranks_here(world.cores())
    (alone,) = launch.run(real, "weak", images, WIDTH, CALIBRATION, ranks=1, threads=1)
    per_image = float(np.mean(alone.compute + alone.allreduce)) / images
    nbytes = 4 * sum(weights.numel() for weights in nets.torch_conv(WIDTH).parameters())
    counts = doubled(min(most, there))
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) if world.launcher() else 1
    per_node = -(-there // nodes)
    return Setup(where, virtual.machine("here"), "small conv", counts, per_image, nbytes, per_node)


def doubled(most: int) -> tuple[int, ...]:
    """1, 2, 4, … up to `most`, which is among them."""
    counts = [2**power for power in range(most.bit_length()) if 2**power < most]
    return (*counts, most)


# -- steps on virtual and on real ranks


WARMUP = 2  # steps before the first that counts


@dataclass(frozen=True)
class OfRank:
    """What a rank saw: compute and allreduce, seconds by step; its host; place: fields of a record.

    joules: of its node during these steps, on the first rank of each node, else 0; None where it
    cannot be read. meter: what counted them; no_meter: why nothing did.
    """

    compute: np.ndarray
    allreduce: np.ndarray
    host: str
    place: dict
    joules: float | None
    meter: str
    no_meter: str


def on_virtual_ranks(
    comm, seconds: float, nbytes: float, steps: int, jitter: float, seed: Sequence[int]
):
    """(compute, allreduce) of a virtual rank: (steps,) seconds each.

    seconds: of its computing, which varies from step to step by normal numbers; jitter: their
    standard deviation, as a share.
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
    """The step of labs 30 and 50 on a real rank. images: of the whole job (strong), of each rank
    (weak)."""
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
            _step(
                comm, place, net, pictures, labels, total, stamps[-1][2] if step > WARMUP else None
            )
        )
    joules = meter.joules(before) if counts else 0.0
    seconds = np.array([stamp[:2] for stamp in stamps[WARMUP:]])
    return OfRank(
        seconds[:, 0],
        seconds[:, 1],
        hosts[comm.rank],
        place.fields(),
        joules,
        meter.name,
        meter.why,
    )


def _step(
    comm, place, net, pictures, labels, total: int, begin: float | None
) -> tuple[float, float, float]:
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


def parts(compute: np.ndarray, allreduce: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of compute, wait and communicate by step, of (ranks, steps): lab 50's split."""
    sending = allreduce.min(axis=0)
    return {
        "compute": compute.mean(axis=0),
        "wait": allreduce.mean(axis=0) - sending,
        "communicate": sending,
    }

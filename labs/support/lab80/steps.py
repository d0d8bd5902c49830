"""What is studied, and the steps of it on virtual and on real ranks."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import virtual
from labkit import launch, nets, placement, world
from labkit.collectives import doublings, ring_allreduce

WIDTH = 32  # channels of the real ranks' net, as in lab 50
CALIBRATION = 6  # steps of one rank alone
WARMUP = 2  # steps before the first that counts
POWERCAP = Path("/sys/class/powercap")


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
    """The setup of a study, on 1, 2, 4, … up to `most` ranks. On real ranks one rank is timed
    first, alone."""
    if where == "virtual":
        nbytes = 4 * int(nets.layer_table(net).parameters.sum())
        chosen = virtual.machine(machine)
        counts = (*doublings(most), most)
        return Setup(where, chosen, net, counts, 1 / speed, nbytes, chosen.ranks_per_node)
    there = launch.ranks_here(world.cores())
    most = min(most, there)
    counts = (*doublings(most), most)
    alone = launch.run(on_real_ranks, "weak", images, CALIBRATION, ranks=1, threads=1)[0]
    per_image = float((alone.compute + alone.allreduce).mean()) / images
    nbytes = 4 * sum(weights.numel() for weights in nets.torch_conv(WIDTH).parameters())
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) if world.launcher() else 1
    per_node = -(-there // nodes)
    return Setup(where, virtual.machine("here"), "small conv", counts, per_image, nbytes, per_node)


class Run(NamedTuple):
    """What was measured on all ranks. compute, allreduce: seconds, (ranks, steps). place: fields of
    a record.

    joules: of all nodes during these steps; None where a node's cannot be read. meter: what counted
    them.
    """

    compute: np.ndarray
    allreduce: np.ndarray
    nodes: int
    place: dict
    joules: float | None
    meter: str


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


def on_real_ranks(comm, kind: str, images: int, steps: int) -> Run:
    """Steps as in labs 30 and 50. images: of the whole job (strong), of each rank (weak)."""
    import torch
    from labkit.timing import device_sync

    torch.set_num_threads(1)
    torch.manual_seed(0)
    place = placement.of_mpi()
    net = nets.torch_conv(WIDTH).to(place.device)
    own = share(kind, images, comm.rank, comm.size)
    total = comm.allreduce(own)
    pictures = torch.rand(own, 3, 32, 32).to(place.device)
    labels = (torch.arange(own) % 10).to(place.device)
    hosts = comm.allgather(socket.gethostname())
    seconds = []
    for step in range(-WARMUP, steps):
        if step in (-WARMUP, 0):
            before = energy()
            comm.Barrier()
            end = time.perf_counter()
        begin = end
        net.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(pictures), labels, reduction="sum") / total
        loss.backward()
        gradient = torch.cat([weights.grad.flatten() for weights in net.parameters()])
        device_sync(place.device)
        arrived = time.perf_counter()
        # Across ranks: the sum of all ranks' gradients, in place.
        place.allreduce(comm, gradient)
        end = time.perf_counter()
        seconds.append((arrived - begin, end - arrived))
        with torch.no_grad():
            vector = torch.nn.utils.parameters_to_vector(net.parameters()) - 0.01 * gradient
            torch.nn.utils.vector_to_parameters(vector, net.parameters())
    joules = comm.allgather(joules_since(before))
    of_nodes = [joules[hosts.index(host)] for host in set(hosts)]  # one rank of each node counts
    compute, allreduce = np.moveaxis(comm.allgather(seconds[WARMUP:]), 2, 0)
    together = None if None in of_nodes else sum(of_nodes)
    meter = ", ".join(before)
    return Run(compute, allreduce, len(of_nodes), place.fields(), together, meter)


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


def energy() -> dict[str, float]:
    """Joules on each counter of this node that may be read, by its name; {} where none may.

    RAPL counts a processor package's microjoules; Linux shows them below /sys/class/powercap, since
    2020 to root alone. `intel-rapl:0:1`, a part of a package, is left out. NVML counts the
    millijoules of a GPU, of Volta or newer. Both count all that runs there, not one process.
    """
    joules = {}
    for zone in sorted(POWERCAP.glob("intel-rapl:*")):
        with suppress(OSError, ValueError):
            name = (zone / "name").read_text().strip()
            if name.startswith("package") and zone.name.count(":") == 1:
                joules[f"RAPL {name}"] = int((zone / "energy_uj").read_text()) / 1e6
    if world.device() != "cpu":
        with suppress(Exception):  # no library, no driver, or older GPUs: then nothing is read
            import pynvml

            pynvml.nvmlInit()
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
                joules[f"NVML GPU {index}"] = millijoules / 1e3
    return joules


def joules_since(before: dict[str, float]) -> float | None:
    """Joules on all counters since `before`: None, never 0, where nothing can be read.

    None also where a counter has come to its end meanwhile, and begun again at 0.
    """
    now = energy()
    used = [now.get(name, 0.0) - joules for name, joules in before.items()]
    return sum(used) if used and min(used) >= 0 else None

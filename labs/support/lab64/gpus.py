"""GPUs of DGX A100 nodes, as a machine of the virtual cluster: what arithmetic takes, and what sums take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from labkit import virtual
from labkit.collectives import ring_allgather, ring_allreduce, ring_reduce_scatter
from labkit.scaling import costs

from support.lab64.megatron import Net, error

PEAK = 312e12  # operations a second of an A100's tensor cores with 16-bit numbers (NVIDIA, A100 data sheet)
MOST_PLAYED = 16  # ranks of a sum that is played; more are computed by the same algorithms' closed forms

_NODE = (
    "Narayanan and others (2021), section 5: Selene, 8 A100 80GB a node, eight 200 Gb/s HDR cards for them"
)
MACHINE = virtual.Machine(
    "a100_hdr",
    virtual.Link(latency=3.4e-6, bandwidth=247e9),
    virtual.Link(latency=4.06e-6, bandwidth=24e9),
    ranks_per_node=8,
    nics=8,
    reduce=680e9,
    sources={
        "inside.latency": "NCCL, src/graph/tuning.cc, latency of one ring step over NVLink, protocol Simple",
        "inside.bandwidth": "estimate: 82 %, as on H100, of 300 GB/s each way (NVIDIA, A100 data sheet)",
        "between.latency": "estimate: as measured between GPUs of two nodes over InfiniBand, 4.06 µs",
        "between.bandwidth": "estimate: 96 % of HDR's 200 Gb/s",
        "ranks_per_node": _NODE,
        "nics": _NODE,
        "reduce": "computed: a third of the memory bandwidth, 2039 GB/s (NVIDIA, A100 data sheet)",
    },
)


class GPUs:
    """GPUs of a machine, of which a share of the peak is reached. Times in seconds."""

    def __init__(self, share: float, machine: virtual.Machine = MACHINE):
        self.share = share
        self.machine = machine

    def compute(self, net: Net, sequences: int) -> float:
        """Seconds that one GPU would need for all arithmetic of so many sequences in a step."""
        return net.flops(sequences) / (self.share * PEAK)

    def allreduce(self, ranks: int, apart: int, nbytes: float) -> float:
        """Seconds of a sum of `nbytes` bytes over `ranks` GPUs, of which every `apart`-th takes part."""
        local = max(1, self.machine.ranks_per_node // apart)
        return seconds_of_sum(self.machine, ranks, min(local, ranks), nbytes)


def two_dimensional_allreduce(comm, vector, local: int) -> None:
    """The sum in nodes of `local` ranks each: scattered inside, summed across, gathered inside (lab 26)."""
    inside = comm.Split(comm.rank // local, comm.rank)
    across = comm.Split(comm.rank % local, comm.rank)
    chunk = ring_reduce_scatter(inside, vector)
    ring_allreduce(across, chunk)
    ring_allgather(inside, vector)


def played(machine: virtual.Machine, ranks: int, local: int, nbytes: float) -> float:
    """Seconds of a ring or of two dimensions on the virtual cluster, the faster. local: ranks a node."""
    cluster = virtual.Cluster.of(ranks, local, machine)
    vector = virtual.vector(np.zeros(4 * ranks, np.float32), stands_for=nbytes)
    times = [cluster.run(ring_allreduce, vector).time]
    if 1 < local < ranks and ranks % local == 0:
        times.append(cluster.run(two_dimensional_allreduce, vector, local).time)
    return min(times)


def computed(machine: virtual.Machine, ranks: int, local: int, nbytes: float) -> float:
    """The same by the closed forms."""
    inside = (machine.inside.latency, 1 / machine.inside.bandwidth)
    between = (machine.between.latency, 1 / machine.between.bandwidth)
    if ranks <= local:
        return costs.ring_allreduce_time(nbytes, ranks, *inside, machine.gamma)
    times = [costs.ring_allreduce_time(nbytes, ranks, *between, machine.gamma)]
    if local > 1 and ranks % local == 0:
        nodes = ranks // local
        two = costs.two_dimensional_allreduce_time(nbytes, nodes, local, inside, between, machine.gamma)
        times.append(two)
    return min(times)


@cache
def seconds_of_sum(machine: virtual.Machine, ranks: int, local: int, nbytes: float) -> float:
    """Seconds of an allreduce of `ranks` GPUs, `local` of them on each node; 0 for one."""
    if ranks == 1:
        return 0.0
    if ranks <= MOST_PLAYED:
        return played(machine, ranks, local, nbytes)
    return computed(machine, ranks, local, nbytes)


def fit(step_seconds: Callable, nets: Sequence[Net]) -> GPUs:
    """The GPUs whose share of the peak brings a model nearest to the published speeds of some nets.

    Nearest: the least sum of squared relative errors, by shares of 0.005.
    """
    shares = [place / 200 for place in range(40, 200)]

    def misfit(share: float) -> float:
        return sum(error(step_seconds, net, GPUs(share)) ** 2 for net in nets)

    return GPUs(min(shares, key=misfit))

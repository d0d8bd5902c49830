"""The same GPUs on different networks, and the ways to sum on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from labkit import virtual
from labkit.collectives import ring_allgather, ring_allreduce, ring_reduce_scatter
from labkit.errors import LabError

NETWORKS = {
    "10 GbE": "ethernet10",
    "25 GbE": "ethernet25",
    "100 GbE": "ethernet100",
    "RoCE": "roce100",
    "Omni-Path": "omnipath",
    "FDR": "fdr",
    "EDR": "edr",
    "NDR": "ndr",
    "NVLink": "ndr",  # inside a node, which its network never leaves
}


def connect(network: str, gpus: int, machine: virtual.Machine | None = None) -> virtual.Cluster:
    """So many GPUs on a network, each in a node of its own with its own card; by NVLink all in one node.

    machine: in place of the network's own. Messages wait for no handshake: as in NCCL, which agrees on its
    buffers when it starts.
    """
    if network not in NETWORKS:
        raise LabError(f"There is no network {network!r} here. There are {', '.join(NETWORKS)}.")
    machine = machine or virtual.machine(NETWORKS[network]).but(handshake=0.0)
    if network == "NVLink":
        return virtual.Cluster(1, gpus, machine)
    return virtual.Cluster(gpus, 1, machine)


def free(network: str, what: str) -> virtual.Machine:
    """The network's machine without one part of its cost: what is "latency" or "bytes", on both links."""
    machine = virtual.machine(NETWORKS[network]).but(handshake=0.0)
    links = {}
    for place in ("inside", "between"):
        link = getattr(machine, place)
        if what == "latency":
            links[place] = virtual.Link(0.0, link.bandwidth)
        elif what == "bytes":
            links[place] = virtual.Link(link.latency, float("inf"))
        else:
            raise LabError(f'what is "latency" or "bytes", not {what!r}.')
    return machine.but(**links)


def ranked(seconds: Mapping[str, float]) -> str:
    """The names, fastest first; `=` between neighbours whose times are closer than 5 %."""
    names = sorted(seconds, key=seconds.get)
    text = names[0]
    for before, name in pairwise(names):
        alike = seconds[name] <= 1.05 * seconds[before]
        text += f" = {name}" if alike else f", {name}"
    return text


def pairs_in_order(order: Sequence[str], seconds: Mapping[str, float]) -> tuple[int, int]:
    """(right, all) pairs of names in `order`, fastest first. Times closer than 5 % are right in any order."""
    pairs = [pair for pair in combinations(order, 2) if set(pair) <= set(seconds)]
    right = [1 for first, second in pairs if seconds[first] <= 1.05 * seconds[second]]
    return len(right), len(pairs)


def torus_allreduce(comm, vector, per_node: int) -> None:
    """Sum `vector` over all ranks, in place: scattered in each node, summed across by parts, gathered.

    per_node: ranks of a node. The ranks of a node send their parts through all of its cards (lab 26).
    """
    inside = comm.Split(comm.rank // per_node, comm.rank)
    across = comm.Split(inside.rank, comm.rank)
    part = ring_reduce_scatter(inside, vector)
    ring_allreduce(across, part)
    ring_allgather(inside, vector)

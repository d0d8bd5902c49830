"""Lab 28: its checks, its networks on the virtual cluster, and the published numbers that it
quotes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import virtual
from labkit import check, expect, nets
from labkit.collectives import ring_allgather, ring_allreduce, ring_reduce_scatter


@check.exercise("28.1")
def time_of_an_allreduce(allreduce_time):
    """The time of the virtual cluster's own Allreduce, on links that have α and β alone."""
    for p, alpha, rate in ((8, 2e-6, 1e9), (16, 3e-5, 5e10), (2, 2e-6, 1e9), (1, 3e-5, 5e10)):
        for nbytes in (4, 2048, 2049, 65536, 100_000_000):
            want = _simulated(p, alpha, rate, nbytes)
            lg = math.log2(p)
            transfer = nbytes / rate  # of the whole vector, once
            share = (p - 1) / p
            if nbytes <= 2048:
                slips = {
                    "this is Rabenseifner; up to 2,048 bytes it is recursive doubling": (
                        2 * lg * alpha + 2 * share * transfer
                    ),
                    "in recursive doubling each message has the whole vector, log₂ p times": (
                        lg * alpha + transfer
                    ),
                }
            else:
                slips = {
                    "this is recursive doubling; above 2,048 bytes it is Rabenseifner": (
                        lg * (alpha + transfer)
                    ),
                    "Rabenseifner sends the bytes twice: 2 (p - 1)/p · n": want - share * transfer,
                    "Rabenseifner has 2 log₂ p messages": want - lg * alpha,
                    "a rank does not send its own part: 2 (p - 1)/p · n": (
                        2 * lg * alpha + 2 * transfer
                    ),
                }
            slips["this is in µs; return seconds"] = 1e6 * want
            link = f"α {1e6 * alpha:g} µs, 1/β {rate / 1e9:g} GB/s"
            with check.case(f"{nbytes:,} bytes, ranks: {p}, {link}"):
                expect.close(
                    allreduce_time(nbytes, p, alpha, 1 / rate),
                    want,
                    "seconds, compared with the virtual cluster's",
                    atol=1e-14,
                    slips=slips,
                )


@cache
def _simulated(p: int, alpha: float, rate: float, nbytes: int) -> float:
    """Seconds of `allreduce` on p nodes, whose links have α and β alone."""
    vector = virtual.vector(np.ones(64), stands_for=nbytes)
    return virtual.Cluster(p, 1, virtual.ideal(alpha, rate)).run(allreduce, vector).time


@check.exercise("28.2")
def balanced_bytes(balance):
    """The bytes for which both parts are equal, on 2 to 64 ranks."""
    for p, alpha, rate in ((8, 4e-6, 1e10), (64, 3e-5, 5e10), (2, 7.5e-7, 1e9)):
        single = alpha * rate  # bytes that take as long as a message
        want = math.log2(p) * p / (p - 1) * single
        with check.case(f"{p} ranks, α {1e6 * alpha:g} µs, 1/β {rate / 1e9:g} GB/s"):
            expect.close(
                balance(p, alpha, 1 / rate),
                want,
                "bytes",
                rtol=1e-3,  # whole bytes are right, too
                atol=0,
                slips={
                    "this is the size for a single message": single,
                    "each rank sends 2 (p - 1)/p · n bytes, not 2 n": math.log2(p) * single,
                    "divide by (p - 1)/p instead of multiplying": want * ((p - 1) / p) ** 2,
                    "both the messages and the bytes have a factor 2": 2 * want,
                    "`beta` is seconds a byte: divide by it": want / rate**2,
                    "Rabenseifner's row counts below 2,048 bytes, too": 2048,
                },
            )


@check.exercise("28.3")
def share_that_waits(waiting):
    """The share with nothing hidden, with a part, and with all of it."""
    for compute, exchange, hidden in (
        (0.1, 0.06, 0.0),
        (0.1, 0.06, 0.2),
        (0.1, 0.06, 0.65),
        (0.02, 0.9, 1.0),
        (0.3, 0.0, 1.0),
    ):
        uncovered = exchange - hidden * compute
        want = max(0, uncovered) / (compute + max(0, uncovered))
        with check.case(
            f"{compute} s of computation, {exchange} s of exchange, hidden {hidden:.2f}"
        ):
            expect.close(
                waiting(compute, exchange, hidden),
                want,
                "the share that waits",
                slips={
                    "the exchange takes longer than `hidden * compute`, so a part is exposed": 0,
                    "where all of the exchange is hidden the share is 0, not less": (
                        uncovered / ((compute + uncovered) or 1)
                    ),
                    "hidden is a share of the computation, not of the exchange": (
                        (1 - hidden) * exchange / (compute + (1 - hidden) * exchange)
                    ),
                    "that is a share of the computation; a step is longer": (
                        max(0, uncovered) / compute
                    ),
                    "a step has only the exposed part of the exchange": (
                        max(0, uncovered) / (compute + exchange)
                    ),
                    "that is in percent; the share is between 0 and 1": 100 * want,
                },
            )


def allreduce(comm, vector):
    """The sum of all ranks' vectors, by the virtual cluster's MPI."""
    total = np.empty_like(vector)
    comm.Allreduce(vector, total)
    return total


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
    """So many GPUs on a network, each in a node of its own with its own card; by NVLink all in one
    node.

    machine: in place of the network's own. Messages wait for no handshake; those of NCCL hardly
    ever do, as its receivers announce their buffers ahead.
    """
    machine = machine or virtual.machine(NETWORKS[network]).but(handshake=0.0)
    if network == "NVLink":
        return virtual.Cluster(1, gpus, machine)
    return virtual.Cluster(gpus, 1, machine)


def free(network: str, what: str) -> virtual.Machine:
    """The network's machine without one part of its cost: what is "latency" or "bytes", on both
    links."""
    machine = virtual.machine(NETWORKS[network]).but(handshake=0.0)
    links = {}
    for place in ("inside", "between"):
        link = getattr(machine, place)
        if what == "latency":
            links[place] = virtual.Link(0.0, link.bandwidth)
        else:
            links[place] = virtual.Link(link.latency, float("inf"))
    return machine.but(**links)


def ranked(seconds: Mapping[str, float]) -> str:
    """The names, fastest first; `=` between neighbours whose times are closer than 5 %."""
    names = sorted(seconds, key=seconds.get)
    text = names[0]
    for before, name in pairwise(names):
        alike = seconds[name] <= 1.05 * seconds[before]
        text += f" = {name}" if alike else f", {name}"
    return text


def judge(order: Sequence[str], seconds: Mapping[str, float]) -> str:
    """How many pairs of networks of a predicted order, fastest first, are in order. Times closer
    than 5 % are right in any order."""
    known = isinstance(order, list | tuple) and all(name in [*seconds] for name in order)
    if not known or len(order) < 2 or len(set(order)) < len(order):
        names = ", ".join(f'"{name}"' for name in seconds)
        return f"{order} is no order of networks: write names in parentheses, out of {names}"
    pairs = list(combinations(order, 2))
    right = [1 for first, second in pairs if seconds[first] <= 1.05 * seconds[second]]
    return f"{', '.join(order)}: {len(right)} of {len(pairs)} pairs are in order"


def torus_allreduce(comm, vector, per_node: int) -> None:
    """Sum `vector` over all ranks, in place: scattered in each node, summed across by parts,
    gathered.

    per_node: ranks of a node. The ranks of a node send their parts through all of its cards (lab
    26).
    """
    inside = comm.Split(comm.rank // per_node, comm.rank)
    across = comm.Split(inside.rank, comm.rank)
    part = ring_reduce_scatter(inside, vector)
    ring_allreduce(across, part)
    ring_allgather(inside, vector)


class Device(NamedTuple):
    """By its data sheet. peak: operations a second; size: bytes of the numbers that these work on.

    bandwidth: bytes a second of its memory; memory: bytes of that memory.
    """

    name: str
    year: int
    peak: float
    size: int
    bandwidth: float
    memory: float
    source: str


DEVICES = (
    Device(
        "CPU (EPYC 7763)",
        2021,
        64 * 2.45e9 * 32,
        4,
        204.8e9,
        4e12,
        "AMD's product page: 64 cores, 2.45 GHz, 8 channels of DDR4-3200, up to 4 TB; the peak is"
        " computed: 32 operations a cycle and core (two units of 8 multiply-adds)",
    ),
    Device(
        "K80",
        2014,
        8.73e12,
        4,
        480e9,
        24e9,
        "NVIDIA, Tesla K80: both GPUs of the board, at boost clock",
    ),
    Device(
        "V100", 2017, 125e12, 2, 900e9, 16e9, "NVIDIA, Tesla V100 SXM2 data sheet: tensor cores"
    ),
    Device(
        "H100",
        2022,
        989e12,
        2,
        3.35e12,
        80e9,
        "NVIDIA, H100 SXM data sheet: tensor cores, not sparse",
    ),
    Device(
        "TPU v3",
        2018,
        123e12,
        2,
        900e9,
        32 * 2**30,
        "Google, cloud.google.com/tpu/docs/v3: one chip",
    ),
    Device(
        "IPU (GC2)",
        2018,
        124.5e12,
        2,
        45e12,
        304 * 2**20,
        "Jia and others, arXiv 1912.03413: mixed precision; the nominal bandwidth of its on-chip"
        " memory",
    ),
    Device(
        "FPGA (Alveo U280)",
        2018,
        17.2e12,
        1,
        460e9,
        8e9,
        "AMD, PG367: the processor for convolutions DPUCAHX8H on a U280, integers of 8 bits;"
        " UG1393: its HBM2 memory",
    ),
    Device(
        "NNP-T",
        2019,
        119e12,
        2,
        1.2288e12,
        32 * 2**30,
        "Intel at Hot Chips 31 (Spring Crest): bfloat16 on 24 clusters at 1.1 GHz; four stacks of"
        " HBM2-2400",
    ),
    Device(
        "Gaudi 2",
        2022,
        432e12,
        2,
        2.46e12,
        96e9,
        "Intel (R. Kaplan) at Hot Chips 2024: bfloat16; table of the three generations of Gaudi",
    ),
)

# Numbers in and out, a picture.
_SHAPES = {"fc6": (25088, 4096), "conv4_2": (512 * 28 * 28, 512 * 28 * 28)}
LAYERS = (("fc6", 1), ("fc6", 256), ("conv4_2", 32))  # of VGG-16, with so many images


def intensity(layer: str, images: int, size: int) -> float:
    """Operations of a layer of VGG-16 on its way forward, for each byte that it moves at least.

    It reads its parameters once and each picture's numbers, and writes each picture's numbers.
    size: bytes of a number.
    """
    (row,) = nets.layer_table("vgg16").query("layer == @layer").itertuples()
    moved = row.parameters + images * sum(_SHAPES[layer])
    return images * row.flops / (size * moved)


_NVIDIA = (
    "NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5/README.md, training "
    "performance, one GPU, container 21.03"
)
_TENSORFLOW = "TensorFlow's page Benchmarks, May 2017, one GPU of a DGX-1, synthetic images"
_DEEPBENCH = (
    "Baidu, DeepBench, results/train/DeepBench_IA_KNL7250.xlsx (2017): Intel MLSL, a process a"
    " node, Xeon Phi 7250F, Omni-Path 100"
)


class Gpu(NamedTuple):
    """What training ResNet-50 reached on one GPU. images: a second; peak: operations a second of
    its kind."""

    name: str
    images: float
    peak: float
    source: str


class Allreduce(NamedTuple):
    """One that somebody measured. nbytes: of a rank's vector; seconds: of the whole allreduce."""

    nbytes: float
    nodes: int
    seconds: float
    source: str


class Net(NamedTuple):
    """gradient: bytes, in 32 bits. flops: of one picture's training, three times its way
    forward."""

    gradient: float
    flops: float


def _net(name: str) -> Net:
    table = nets.layer_table(name)
    return Net(4.0 * float(table.parameters.sum()), 3.0 * float(table.flops.sum()))


RESNET50 = _net("resnet50")

# Peaks: NVIDIA's data sheets of the P100 SXM2, V100 SXM2 and A100 SXM; 16 bits are those of the
# tensor cores.
GPUS = (
    Gpu("P100, 32 bits", 219.0, 10.6e12, _TENSORFLOW),
    Gpu("V100, 32 bits", 367.0, 15.7e12, _NVIDIA),
    Gpu("V100, 16 bits", 1200.0, 125e12, _NVIDIA),
    Gpu("A100, 16 bits", 2470.0, 312e12, _NVIDIA),
)

_MEASURED_ON = (2, 4, 8, 16, 32)  # nodes
_MILLISECONDS = {  # of so many floats, on so many nodes
    100_000: (0.09, 0.14, 0.22, 0.26, 0.31),
    3_097_600: (1.33, 1.85, 2.26, 3.23, 3.88),
    4_194_304: (1.63, 2.31, 2.74, 4.19, 5.0),
    6_553_600: (2.35, 3.33, 3.88, 6.29, 7.54),
    16_777_216: (5.4, 7.54, 8.66, 14.72, 19.0),
    38_360_000: (29.84, 35.46, 38.34, 48.61, 54.61),
    64_500_000: (37.66, 47.45, 54.73, 66.11, 76.68),
}
MEASURED = tuple(
    Allreduce(4.0 * floats, nodes, milliseconds / 1e3, _DEEPBENCH)
    for floats, row in _MILLISECONDS.items()
    for nodes, milliseconds in zip(_MEASURED_ON, row, strict=True)
)

"""Machines by name: `machine("dgx1")`. Their numbers, and for each of them its source.

A source that begins with "estimate:" is none: it says what the number was guessed from. "computed:" is
arithmetic on published numbers, "left out:" marks what the model could charge and does not. All else was
published.
"""

from __future__ import annotations

from labkit.errors import LabError

from virtual import here
from virtual.loggp import Link, Machine, ideal


def machine(name: str) -> Machine:
    """The machine of that name: see `machines()`. "here" is this one, as it was measured."""
    if name == "here":
        return here.machine()
    if name not in KNOWN:
        names = ", ".join(machines())
        raise LabError(f"There is no machine {name!r}. There are {names}; or make one: virtual.Machine(…).")
    return KNOWN[name]


def machines() -> list[str]:
    """The names of the machines that the kit knows."""
    return [*KNOWN, "here"]


def choose(argument: Machine | str | None) -> Machine:
    """A Machine from what an argument may be: one, the name of one, or None for the ideal one."""
    if argument is None:
        return ideal()
    if isinstance(argument, str):
        return machine(argument)
    if not isinstance(argument, Machine):
        raise LabError(f"machine is a virtual.Machine or a name, not {type(argument).__name__}.")
    return argument


_US, _GB, _KIB = 1e-6, 1e9, 1024  # the units of the numbers below

_NCCL = "NCCL, src/graph/tuning.cc, hardware latency of one ring step, protocol Simple: "
_NVLINK = "NVIDIA, NVLink page: P100 20 GB/s, V100 25 GB/s per link and direction"
_HBM = "computed: an addition reads two values and writes one, so a third of the memory bandwidth, "
_PCIE = "estimate: CUDA's p2pBandwidthLatencyTest shows 10 to 12 GB/s over PCIe 3.0 x16 (15.75 GB/s, PCI-SIG)"
_DGX1 = "NVIDIA, DGX-1 System Architecture, white paper WP-08437-001: 8 GPUs, four 100 Gb/s InfiniBand cards"
_SUMMIT = "OLCF, Summit user guide: 6 V100 a node, two rails of EDR InfiniBand, 23 GB/s into a node"
_OSU_UCX = (
    "osu_latency D D between two nodes, Open MPI with UCX, GPUDirect RDMA and gdrcopy, InfiniBand: 4.06 µs "
    "(documentation of the cluster juliet, Building a CUDA-aware Open MPI; no address is kept)"
)
_OSU_OLD = (
    "estimate: osu_latency D D of these years; 5.5 µs on P100 over Aries (Sarus user guide, Piz Daint), "
    "4.06 µs on newer InfiniBand"
)
_MVAPICH = "MVAPICH2 2.3.7 user guide, MV2_IBA_EAGER_THRESHOLD: 12 KB for ConnectX"
_TCP = "computed: 1448 of every 1538 bytes on an Ethernet wire are data (TCP over IPv4, frames of 1500 bytes)"
_BTL_TCP = "Open MPI, parameter btl_tcp_eager_limit: 65536 bytes"
_GUESSED_NODE = "estimate: a common node of its time"
_DUPLEX = "both directions at once: IEEE 802.3 full duplex, InfiniBand Architecture Specification"
_TWO_WAYS = "computed: a request and an answer, two latencies between nodes"

_ALWAYS = {
    **{f"{link}.overhead": "left out: it is part of the latency" for link in ("inside", "between")},
    **{f"{link}.gap": "left out: no message rate was found" for link in ("inside", "between")},
    "duplex": _DUPLEX,
    "handshake": _TWO_WAYS,
}


def _machine(name: str, inside: tuple, between: tuple, more: dict, sources: dict) -> Machine:
    """inside, between: (µs, GB/s). Sources of what is the same for all machines are added."""
    links = [Link(latency * _US, bandwidth * _GB) for latency, bandwidth in (inside, between)]
    more = {"handshake": 2 * links[1].latency, **more}
    return Machine(name, *links, **more, sources={**_ALWAYS, **sources})


_LAPTOP = _machine(
    "laptop",
    (1.0, 5.0),
    (50.0, 0.1177),
    {"ranks_per_node": 4, "eager": 8 * _KIB, "handshake": 2 * _US, "reduce": 5 * _GB},
    {
        "inside.latency": "estimate: MPI through shared memory, about a microsecond; lab 22 measures yours",
        "inside.bandwidth": "estimate: two copies through the memory of a laptop; lab 22 measures yours",
        "between.latency": "estimate: a TCP message over Gigabit Ethernet and a switch, tens of microseconds",
        "between.bandwidth": f"{_TCP}, at 1 Gb/s",
        "ranks_per_node": "estimate: four cores",
        "nics": "estimate: one Ethernet port",
        "eager": "MPICH, MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE: 8192 bytes",
        "handshake": "computed: a request and an answer, two latencies inside",
        "reduce": "estimate: one core moves 15 GB/s, and an addition moves three bytes per byte of result",
    },
)

_ETHERNET = _machine(
    "ethernet10_4gpu",
    (5.7, 11.0),
    (30.0, 1.177),
    {"ranks_per_node": 4, "eager": 64 * _KIB, "reduce": 244 * _GB},
    {
        "inside.latency": _NCCL + "PCI 5.7 µs",
        "inside.bandwidth": _PCIE,
        "between.latency": "estimate: a TCP message over 10 Gigabit Ethernet, tens of microseconds",
        "between.bandwidth": f"{_TCP}, at 10 Gb/s",
        "ranks_per_node": _GUESSED_NODE + ": four GPUs",
        "nics": _GUESSED_NODE + ": one Ethernet port",
        "eager": _BTL_TCP,
        "reduce": _HBM + "732 GB/s (NVIDIA, Tesla P100 data sheet)",
    },
)

_ROCE = _machine(
    "roce25_p100",
    (5.7, 11.0),
    (5.0, 2.9),
    {"ranks_per_node": 4, "eager": 12 * _KIB, "reduce": 244 * _GB},
    {
        "inside.latency": _NCCL + "PCI 5.7 µs",
        "inside.bandwidth": _PCIE,
        "between.latency": _OSU_OLD,
        "between.bandwidth": "computed: 1024 of every 1106 bytes on the wire are data (RoCE v2), at 25 Gb/s",
        "ranks_per_node": "Horovod, docs/benchmarks.rst: 128 servers with 4 Pascal GPUs each, 25 Gbit/s RoCE",
        "nics": "Horovod, docs/benchmarks.rst: servers connected by RoCE-capable 25 Gbit/s network",
        "eager": _MVAPICH,
        "reduce": _HBM + "732 GB/s (NVIDIA, Tesla P100 data sheet)",
    },
)

_K80_SOURCES = {
    "inside.latency": _NCCL + "PCI 5.7 µs",
    "inside.bandwidth": _PCIE,
    "between.latency": _OSU_OLD,
    "eager": _MVAPICH,
    "reduce": _HBM
    + "240 GB/s per GPU (NVIDIA, Tesla K80 board specification BD-07317-001: 480 GB/s for two)",
}

_K80_FDR = _machine(
    "k80_fdr",
    (5.7, 11.0),
    (5.0, 6.39),
    {"ranks_per_node": 16, "nics": 2, "eager": 12 * _KIB, "reduce": 80 * _GB},
    {
        **_K80_SOURCES,
        "between.bandwidth": "NVIDIA, GPUDirect RDMA User Manual 1.8, osu_bw D D: 6388 MB/s (its card is not "
        "named; FDR carries 6.8 GB/s)",
        "ranks_per_node": "estimate: from memory, eight boards of two GPUs in CSCS's CS-Storm (S-Caffe)",
        "nics": "estimate: from memory, two FDR rails in CSCS's CS-Storm (S-Caffe)",
    },
)

_K80_EDR = _machine(
    "k80_edr",
    (5.7, 11.0),
    (5.0, 11.0),
    {"ranks_per_node": 2, "eager": 12 * _KIB, "reduce": 80 * _GB},
    {
        **_K80_SOURCES,
        "between.bandwidth": "estimate: EDR carries 12.1 GB/s, and PCIe 3.0 to a GPU 10 to 12 GB/s",
        "ranks_per_node": _GUESSED_NODE + ": one K80 board, which has two GPUs",
        "nics": _GUESSED_NODE + ": one EDR card",
    },
)

_V100 = _HBM + "900 GB/s (NVIDIA, Tesla V100 data sheet)"

_DGX = _machine(
    "dgx1",
    (3.4, 25.0),
    (4.06, 11.5),
    {"ranks_per_node": 8, "nics": 4, "eager": 12 * _KIB, "reduce": 300 * _GB},
    {
        "inside.latency": _NCCL + "NVLink 3.4 µs",
        "inside.bandwidth": _NVLINK + "; one V100 link, as between half of the neighbours (others have two)",
        "between.latency": "estimate: " + _OSU_UCX,
        "between.bandwidth": "estimate: an EDR card as in Summit, half of OLCF's 23 GB/s for two",
        "ranks_per_node": _DGX1,
        "nics": _DGX1,
        "eager": _MVAPICH,
        "reduce": _V100,
    },
)

_SUMMIT_NODE = _machine(
    "summit",
    (3.4, 50.0),
    (4.06, 11.5),
    {"ranks_per_node": 6, "nics": 2, "eager": 12 * _KIB, "reduce": 300 * _GB},
    {
        "inside.latency": _NCCL + "NVLink 3.4 µs",
        "inside.bandwidth": _NVLINK
        + "; two links between the GPUs of a socket (those of the other are further)",
        "between.latency": "estimate: " + _OSU_UCX,
        "between.bandwidth": "computed: half of 23 GB/s. " + _SUMMIT,
        "ranks_per_node": _SUMMIT,
        "nics": _SUMMIT,
        "eager": _MVAPICH,
        "reduce": _V100,
    },
)

_NDR_CARD = "NVIDIA/nccl-tests issue 290, NCCL's maintainers: 46 to 48 GB/s per card of 400 Gb/s"

_H100 = _machine(
    "h100_ndr",
    (3.4, 370.0),
    (4.06, 48.0),
    {"ranks_per_node": 8, "nics": 8, "eager": 12 * _KIB, "reduce": 1117 * _GB},
    {
        "inside.latency": _NCCL + "NVLink 3.4 µs",
        "inside.bandwidth": "NVIDIA/nccl issue 1442, NCCL's maintainers: 370 of 450 GB/s for data "
        "(p2pBandwidthLatencyTest in issue 1264: 371 to 377)",
        "between.latency": "estimate: " + _OSU_UCX,
        "between.bandwidth": _NDR_CARD,
        "ranks_per_node": "NVIDIA, DGX H100 data sheet: 8 GPUs, eight ConnectX-7 ports of 400 Gb/s for them",
        "nics": "NVIDIA, DGX H100 data sheet: 8 GPUs, eight ConnectX-7 ports of 400 Gb/s for them",
        "eager": "estimate: as MVAPICH2 2.3.7 has it for older ConnectX cards",
        "reduce": _HBM + "3.35 TB/s (NVIDIA, H100 SXM data sheet)",
    },
)

# -- one node on eight networks (lab 28): what differs between these machines is the network alone

_ANY_NODE = "estimate: a node as NVIDIA's DGX H100, with one card of this network in place of its own"
_RDMA = _OSU_UCX + "; taken for every network whose cards write into memory by themselves (RDMA)"
_TCP_LATENCY = (
    "estimate: 24.6 µs for 4 bytes between hosts, by MPICH over TCP on Gigabit Ethernet (osu_latency, "
    "gist.github.com/jfgrimm/3af692a5475bdd4ed836b5a18197a209), and copies from and to a GPU's memory"
)


def _on_network(name: str, latency: float, bandwidth: float, eager: float, sources: dict) -> Machine:
    """8 H100 with NVLink in a node, one card of a network. latency: µs, bandwidth: GB/s, eager: bytes.

    sources: of latency, bandwidth and eager.
    """
    inside = _H100.inside
    return _machine(
        name,
        (inside.latency / _US, inside.bandwidth / _GB),
        (latency, bandwidth),
        {"ranks_per_node": 8, "eager": eager, "reduce": _H100.reduce},
        {
            **{number: _H100.sources[number] for number in ("inside.latency", "inside.bandwidth", "reduce")},
            "between.latency": sources["latency"],
            "between.bandwidth": sources["bandwidth"],
            "ranks_per_node": _ANY_NODE,
            "nics": _ANY_NODE,
            "eager": sources["eager"],
        },
    )


def _infiniband(name: str, bandwidth: float, source: str) -> Machine:
    sources = {"latency": "estimate: " + _RDMA, "bandwidth": source, "eager": _MVAPICH}
    return _on_network(name, 4.06, bandwidth, 12 * _KIB, sources)


def _ethernet(name: str, bandwidth: float, source: str) -> Machine:
    sources = {"latency": _TCP_LATENCY, "bandwidth": source, "eager": _BTL_TCP}
    return _on_network(name, 30.0, bandwidth, 64 * _KIB, sources)


_NETWORKS = (
    _ethernet("ethernet10", 1.177, f"{_TCP}, at 10 Gb/s"),
    _ethernet("ethernet25", 2.943, f"{_TCP}, at 25 Gb/s"),
    _ethernet(
        "ethernet100",
        11.25,
        "ESnet, fasterdata.es.net, Performance Expectations for a 100G Host: 90 Gb/s by twelve TCP streams "
        "at once; one stream alone 15 to 35 Gb/s",
    ),
    _on_network(
        "roce100",
        4.06,
        11.57,
        12 * _KIB,
        {
            "latency": "estimate: " + _RDMA,
            "bandwidth": "computed: 1024 of every 1106 bytes on the wire are data (RoCE v2), at 100 Gb/s",
            "eager": _MVAPICH,
        },
    ),
    _on_network(
        "omnipath",
        4.06,
        12.38,
        64000,
        {
            "latency": "estimate: " + _RDMA,
            "bandwidth": "osu_mbw_mr between two hosts of Los Alamos, Open MPI 1.10: 12,381 MB/s "
            "(gist.github.com/hppritcha/8da4436a216c9d96bf10ad9d403da03f)",
            "eager": "estimate: from memory, PSM2's PSM2_MQ_RNDV_HFI_THRESH is 64,000 bytes",
        },
    ),
    _infiniband("fdr", 6.39, _K80_FDR.sources["between.bandwidth"]),
    _infiniband("edr", 11.5, _SUMMIT_NODE.sources["between.bandwidth"]),
    _infiniband("ndr", 48.0, _NDR_CARD),
)

_ALL = (_LAPTOP, _ETHERNET, _ROCE, _K80_FDR, _K80_EDR, _DGX, _SUMMIT_NODE, _H100, *_NETWORKS)
KNOWN = {known.name: known for known in _ALL}

"""What collectives cost on paper: closed forms in p ranks, n bytes, α, β, γ; nccl-tests'
bandwidths.

alpha: seconds per message. beta: seconds per byte sent. gamma: seconds per byte reduced. One port
per rank, all links alike (Hockney, Parallel Computing 20, 1994: a message of n bytes takes α + nβ).
Labs 21 to 26 build them.
"""

from __future__ import annotations

from math import floor, log2, sqrt

from labkit.errors import LabError

Pair = tuple[float, float]  # (α, β) of one kind of link

# What a collective must move through each rank's link, over the size S that nccl-tests divides by
# the time (NVIDIA nccl-tests, doc/PERFORMANCE.md). For reduce-scatter and allgather, S is the whole
# array.
_BUS_FACTORS = {
    "allreduce": lambda p: 2 * (p - 1) / p,
    "reduce_scatter": lambda p: (p - 1) / p,
    "allgather": lambda p: (p - 1) / p,
    "alltoall": lambda p: (p - 1) / p,
    "broadcast": lambda p: 1.0,
    "reduce": lambda p: 1.0,
    "sendrecv": lambda p: 1.0,
}


def message_time(n: float, alpha: float, beta: float) -> float:
    """Seconds of one message of n bytes (Hockney 1994): α + nβ."""
    return alpha + n * beta


def ring_allreduce_time(n: float, p: int, alpha: float, beta: float, gamma: float = 0) -> float:
    """2(p-1)α + 2n(p-1)/p β + n(p-1)/p γ.

    Patarasuk and Yuan, JPDC 69(2), 2009; NCCL has it since 2015. Also theirs: where only ranks add,
    no allreduce sends less than 2n(p-1)/p per rank. A switch that adds (SHARP, NVLS) needs half.
    """
    _ranks(p)
    return 2 * (p - 1) * alpha + n * (p - 1) / p * (2 * beta + gamma)


def ring_allgather_time(n: float, p: int, alpha: float, beta: float) -> float:
    """(p-1)α + n(p-1)/p β, n bytes gathered in all. A ring reduce-scatter costs n(p-1)/p γ more."""
    _ranks(p)
    return (p - 1) * alpha + n * (p - 1) / p * beta


def tree_allreduce_time(n: float, p: int, alpha: float, beta: float, gamma: float = 0) -> float:
    """Binomial reduce, then binomial broadcast: 2⌈lg p⌉(α + nβ) + ⌈lg p⌉nγ."""
    steps = _steps(p)
    return 2 * steps * message_time(n, alpha, beta) + steps * n * gamma


def recursive_doubling_allreduce_time(
    n: float, p: int, alpha: float, beta: float, gamma: float = 0
) -> float:
    """lg p (α + nβ + nγ); where p is no power of two, two messages and one reduction more.

    Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
    """
    _ranks(p)
    steps = floor(log2(p))
    extra = 0 if 2**steps == p else 1
    return (steps + 2 * extra) * message_time(n, alpha, beta) + (steps + extra) * n * gamma


def rabenseifner_allreduce_time(
    n: float, p: int, alpha: float, beta: float, gamma: float = 0
) -> float:
    """Halving reduce-scatter, doubling allgather: 2 lg p α + 2n(p-1)/p β + n(p-1)/p γ for p = 2^k.

    Otherwise (2⌊lg p⌋+2)α + (2(p-1)/p + 2)nβ + (1+(p-1)/p)nγ: the reason a ring wins there.
    Formulas of MPICH, allreduce_intra_reduce_scatter_allgather.c.
    """
    _ranks(p)
    steps = floor(log2(p))
    extra = 0 if 2**steps == p else 1
    share = (p - 1) / p
    return (
        (2 * steps + 2 * extra) * alpha
        + 2 * (share + extra) * n * beta
        + (share + extra) * n * gamma
    )


def tree_broadcast_time(n: float, p: int, alpha: float, beta: float) -> float:
    """Binomial tree: ⌈lg p⌉(α + nβ), as in MPICH's bcast_intra_binomial.c."""
    return _steps(p) * message_time(n, alpha, beta)


def chain_broadcast_time(
    n: float, p: int, alpha: float, beta: float, chunks: int | None = None
) -> float:
    """Pipelined chain of k chunks: (p - 2 + k)(α + n/k β). chunks None: the best k,
    sqrt(n(p-2)β/α)."""
    _ranks(p)
    if p == 1:
        return 0.0
    if chunks is None:
        chunks = max(1, round(sqrt(n * (p - 2) * beta / alpha))) if alpha > 0 else max(1, int(n))
    return (p - 2 + chunks) * message_time(n / chunks, alpha, beta)


def two_dimensional_allreduce_time(
    n: float, nodes: int, per_node: int, inside: Pair, between: Pair, gamma: float = 0
) -> float:
    """Ring reduce-scatter in a node, g rings between the nodes at once, ring allgather in the node.

    2(g-1)α_i + 2n(g-1)/g β_i + n(g-1)/g γ + the ring of n/g bytes on m nodes; every rank has a
    network card. inside, between: (α, β). ChainerMN's `two_dimensional`; the 2-D torus of Mikami et
    al., arXiv 1811.05233, 2018.
    """
    _ranks(per_node)
    local = ring_allreduce_time(n, per_node, *inside, gamma)
    return local + ring_allreduce_time(n / per_node, nodes, *between, gamma)


def parameter_server_time(
    n: float, workers: int, alpha: float, beta: float, servers: int = 1
) -> float:
    """Push gradients, pull parameters: 2α + 2n max(workers/servers, 1) β, when tensors are split
    evenly.

    The server's link carries every worker's bytes; that is the hot spot.
    """
    _ranks(workers)
    return 2 * alpha + 2 * n * max(workers / servers, 1) * beta


def algbw(n: float, seconds: float) -> float:
    """Algorithm bandwidth, bytes per second: size over time (nccl-tests)."""
    return n / seconds


def busbw(n: float, seconds: float, p: int, collective: str = "allreduce") -> float:
    """Bus bandwidth, bytes per second: algbw times what must pass each link, as nccl-tests has it.

    n is the whole array in bytes; for reduce-scatter and allgather that is p times one rank's part.
    """
    _ranks(p)
    if collective not in _BUS_FACTORS:
        raise LabError(f"busbw knows {', '.join(_BUS_FACTORS)}; it does not know {collective!r}.")
    return algbw(n, seconds) * _BUS_FACTORS[collective](p)


def _ranks(p: int) -> None:
    if p < 1:
        raise LabError(f"A job has at least one rank, not {p}.")


def _steps(p: int) -> int:
    """⌈lg p⌉, without the rounding of floating point."""
    _ranks(p)
    return (int(p) - 1).bit_length()

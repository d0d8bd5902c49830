"""Tables of times by backend, their records, and what they say.

A table is {backend: {bytes: (q1, median, q3)}} in seconds: the middle half of the calls, by the slowest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from labkit import nets, record
from labkit.timing import Measurement, benchmarks, human

from support.lab51 import backends

Table = dict[str, dict[int, tuple[float, float, float]]]


def gradient_bytes(net: str) -> dict[str, int]:
    """{layer: bytes of its float32 gradient} of a net of nets.layer_table, in forward order."""
    rows = nets.layer_table(net).itertuples()
    return {row.layer: 4 * row.parameters for row in rows if row.parameters}


def buckets(sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Which gradients leave together: buckets of layers, in the order in which they leave.

    sizes: {layer: bytes}, in forward order; backward yields the last layer first. A new bucket begins when
    the next gradient would not fit into `limit` bytes; one beyond the limit is alone.
    """
    plan: list[list[str]] = []
    filled = 0
    for layer in reversed(sizes):
        if not plan or filled + sizes[layer] > limit:
            plan.append([])
            filled = 0
        plan[-1].append(layer)
        filled += sizes[layer]
    return plan


def by_call(by_rank: Sequence[Mapping[object, list[float]]]) -> dict[object, np.ndarray]:
    """{what: array [rank, call]} from each rank's {what: seconds of its calls}."""
    return {what: np.array([row[what] for row in by_rank]) for what in by_rank[0]}


def tabulate(swept: Mapping[str, Sequence[Mapping]], columns: Callable) -> dict[str, dict[int, np.ndarray]]:
    """Print each backend's columns(seconds, count, width) under nccl-tests' names, as of float32 vectors.

    swept: {backend: by rank {bytes: seconds of its calls}}. Returns {backend: {bytes: seconds of the calls}}.
    """
    names = ("time (us)", "algbw (GB/s)", "busbw (GB/s)")
    times: dict[str, dict[int, np.ndarray]] = {}
    for name, by_rank in swept.items():
        times[name] = {}
        printed = {}
        for nbytes, seconds in by_call(by_rank).items():
            slowest, algbw, busbw = columns(seconds, nbytes // 4, 4)
            times[name][nbytes] = slowest
            printed[nbytes] = (np.median(slowest) * 1e6, algbw, busbw)
        benchmarks.show(f"{name}, {len(by_rank)} ranks", names, printed)
    return times


def keep(times: Mapping[str, Mapping[int, Sequence[float]]], **where) -> Table:
    """Add a record "allreduce" for each backend of {backend: {bytes: seconds}}, and return the table.

    where: what else the record holds, ranks and nodes.
    """
    table: Table = {}
    for name, row in times.items():
        quartiles = {nbytes: np.percentile(seconds, (25, 50, 75)) for nbytes, seconds in row.items()}
        table[name] = {nbytes: tuple(three.tolist()) for nbytes, three in quartiles.items()}
        q1, median, q3 = zip(*table[name].values(), strict=True)
        calls = [len(seconds) for seconds in row.values()]
        record.add(
            "allreduce",
            backend=name,
            bytes=list(row),
            q1=q1,
            median=median,
            q3=q3,
            calls=calls,
            unit="s",
            **backends.place(name).fields(),
            **where,
        )
    return table


def keep_steps(by_backend: Mapping[str, Sequence[Mapping]], **where) -> dict[str, dict]:
    """Add a record "step" for each backend, net and way; returns {net: bars for plots.bars, in ms}.

    by_backend: {backend: by rank {(net, way): seconds of its calls}}; ways are "alone", "fused" and "copies",
    what fusing copies. Bars are of "alone" and of "fused", the copies in it apart. where: as in `keep`.
    """
    bars: dict[str, dict] = {}
    for name, by_rank in by_backend.items():
        taken: dict[str, dict[str, Measurement]] = {}
        for (net, way), seconds in by_call(by_rank).items():
            took = Measurement(seconds.max(axis=0))
            placed = backends.place(name).fields()
            record.add("step", backend=name, net=net, way=way, seconds=took, **placed, **where)
            taken.setdefault(net, {})[way] = took
        for net, ways in taken.items():
            of_net = bars.setdefault(net, {})
            of_net[_label(name, "alone")] = {"calls": ways["alone"].samples * 1e3}
            copying = ways["copies"].samples * 1e3
            calling = np.maximum(0, ways["fused"].samples * 1e3 - np.median(copying))
            of_net[_label(name, "fused")] = {"calls": calling, "copies": copying}
    return bars


def _label(name: str, way: str) -> str:
    """In short lines, as eight names stand side by side; hvd is Horovod's own short name."""
    return f"{name}-{way}".replace("horovod", "hvd").replace("-", "\n")


def fused_gain(by_backend: Mapping[str, Sequence[Mapping]], name: str, net: str) -> float:
    """Time of the net's exchange one by one over that of the fused one; NaN if backend `name` has none."""
    by_rank = by_backend.get(name, [{}])
    if (net, "fused") not in by_rank[0]:
        return float("nan")
    seconds = by_call(by_rank)
    alone = np.median(seconds[net, "alone"].max(axis=0))
    fused = np.median(seconds[net, "fused"].max(axis=0))
    return float(alone / fused)


def times_as_long(table: Table, slow: str, fast: str, nbytes: int) -> float:
    """The median of backend `slow` over that of `fast` at nbytes; NaN where one of them has none."""
    if nbytes in table.get(slow, {}) and nbytes in table.get(fast, {}):
        return table[slow][nbytes][1] / table[fast][nbytes][1]
    return float("nan")


def which(nbytes: int, table: Table, best: Callable) -> str:
    """best(row) of the backends measured at nbytes or on both sides of it; "not measured" if there is none.

    row: {backend: (q1, median, q3)}, of each the size that is nearest to nbytes by ratio.
    """
    row = {}
    for name, times in table.items():
        if times and min(times) <= nbytes <= max(times):
            nearest = min(times, key=lambda size: abs(np.log2(size / nbytes)))
            row[name] = times[nearest]
    return best(row) if row else "not measured"


def print_table(table: Table, which: Callable, title: str) -> None:
    """Print the medians by bytes and backend, and what which(bytes, table) says of each size."""
    print(f"\n# {title}\n# {'bytes':>10}" + "".join(f"{name:>14}" for name in table) + "  which")
    for nbytes in sizes_of(table):
        times = (human(row[nbytes][1]) if nbytes in row else "-" for row in table.values())
        print(f"{nbytes:12}" + "".join(f"{time:>14}" for time in times) + f"  {which(nbytes, table)}")


def sizes_of(table: Table) -> list[int]:
    """All bytes that some backend of the table was measured at, in order."""
    return sorted({nbytes for row in table.values() for nbytes in row})

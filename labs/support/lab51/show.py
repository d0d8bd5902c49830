"""What lab 51 measures: which ranks, tables of times by backend, their records, a job elsewhere.

A table is {backend: {bytes: (q1, median, q3)}} in seconds: the middle half of the calls, by the slowest rank.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from labkit import cluster, lab, launch, nets, record, world
from labkit.errors import LabError
from labkit.timing import Measurement, benchmarks, human

STEM = "51_mpi_against_nccl"
Table = dict[str, dict[int, tuple[float, float, float]]]


def ranks() -> int:
    """How many ranks compete: those of the launcher; else one a core, 2 to 4 (more would wait for a core)."""
    return launch.ranks_here(max(2, min(4, world.cores())))


def nodes(ranks: int) -> int:
    """How many hosts a run on `ranks` ranks has: alone this one, under a launcher those of the job."""
    return len(set(launch.run(socket.gethostname, ranks=ranks))) if world.launcher() else 1


def gradient_bytes(net: str) -> dict[str, int]:
    """{layer: bytes of its float32 gradient} of a net of models.layer_table, in forward order."""
    rows = nets.layer_table(net).itertuples()
    return {row.layer: 4 * row.parameters for row in rows if row.parameters}


def by_call(by_rank: Sequence[Mapping[object, list[float]]]) -> dict[object, np.ndarray]:
    """{what: array [rank, call]} from each rank's {what: seconds of its calls}."""
    return {what: np.array([row[what] for row in by_rank]) for what in by_rank[0]}


def tabulate(swept: Mapping[str, Sequence[Mapping]], columns: Callable) -> dict[str, dict[int, np.ndarray]]:
    """Print each backend's columns(seconds, count, width) under nccl-tests' names, as of float32 vectors.

    swept: {backend: by rank {bytes: seconds of its calls}}. Returns {backend: {bytes: seconds of the calls}}.
    """
    times, names = {}, ("time (us)", "algbw (GB/s)", "busbw (GB/s)")
    for name, by_rank in swept.items():
        rows = {n: columns(seconds, n // 4, 4) for n, seconds in by_call(by_rank).items()}
        printed = {n: (np.median(took) * 1e6, *rates) for n, (took, *rates) in rows.items()}
        benchmarks.show(f"{name}, {len(by_rank)} ranks", names, printed)
        times[name] = {n: took for n, (took, *_) in rows.items()}
    return times


def keep(times: Mapping[str, Mapping[int, Sequence[float]]], **where) -> Table:
    """Add a record "allreduce" for each backend of {backend: {bytes: seconds}}, and return the table.

    where: what else the record holds, ranks and nodes.
    """
    table = {}
    for name, row in times.items():
        table[name] = {n: tuple(np.percentile(took, (25, 50, 75)).tolist()) for n, took in row.items()}
        q1, median, q3 = zip(*table[name].values(), strict=True)
        three = {"q1": q1, "median": median, "q3": q3, "calls": [len(took) for took in row.values()]}
        record.add("allreduce", backend=name, bytes=list(row), unit="s", **three, **where)
    return table


def keep_steps(by_backend: Mapping[str, Sequence[Mapping]], **where) -> dict[str, dict]:
    """Add a record "step" for each backend, net and way; returns {net: bars for plots.bars, in ms}.

    by_backend: {backend: by rank {(net, way): seconds of its calls}}. where: as in `keep`.
    """
    bars: dict[str, dict] = {}
    for name, by_rank in by_backend.items():
        for (net, way), seconds in by_call(by_rank).items():
            took = Measurement(seconds.max(axis=0))
            record.add("step", backend=name, net=net, way=way, seconds=took, **where)
            label = f"{name}-{way}".replace("-", "\n")  # eight names stand side by side
            bars.setdefault(net, {})[label] = {"": took.samples * 1e3}
    return bars


def fused_gain(by_backend: Mapping[str, Sequence[Mapping]], name: str, net: str) -> float:
    """Time of the net's exchange one by one over that of the fused one; NaN if backend `name` has none."""
    by_rank = by_backend.get(name, [{}])
    if (net, "fused") not in by_rank[0]:
        return float("nan")
    took = by_call(by_rank)
    alone, fused = (float(np.median(took[net, way].max(axis=0))) for way in ("alone", "fused"))
    return alone / fused


def times_as_long(table: Table, one: str, other: str, nbytes: int) -> float:
    """The median of backend `one` over that of `other` at nbytes; NaN where one of them has none."""
    if nbytes in table.get(one, {}) and nbytes in table.get(other, {}):
        return table[one][nbytes][1] / table[other][nbytes][1]
    return float("nan")


def elsewhere(timeout: float, **settings) -> tuple[Table, str]:
    """(table of two nodes with two ranks each, what it is): of a job on the cluster at hand, else the kit's.

    settings: the job's parameters. Waits for it, `timeout` seconds at most; one that fails is told of.
    Inside of a job: no new one.
    """
    job = None
    if world.launcher() is None and cluster.here():
        solved = lab.solved()
        job = cluster.submit(STEM, nodes=2, ranks_per_node=2, settings=settings, solved=solved)
        try:
            job.wait(timeout=timeout)
        except LabError as error:  # the lab here is well, only the numbers from there are missing
            print(f"{error}\nOn with the kit's reference results.")
    elif world.launcher() is None:
        print("No Slurm cluster is at hand: `make tabletop BANDWIDTH=200mbit` starts one on this machine.")
    frame, label = cluster.records_or_reference(STEM, "allreduce", job)
    return between_nodes(frame), label


def between_nodes(frame) -> Table:
    """The table of the records "allreduce" in a DataFrame that were made on several nodes.

    Of several records of one backend the latest counts.
    """
    table = {}
    for row in frame.to_dict("records"):
        if row.get("nodes", 1) > 1:
            times = zip(row["q1"], row["median"], row["q3"], strict=True)
            table[row["backend"]] = dict(zip(row["bytes"], times, strict=True))
    return table


def show(table: Table, which: Callable, title: str) -> None:
    """Print the medians by bytes and backend, and what which(bytes, table) says of each size."""
    print(f"\n# {title}\n# {'bytes':>10}" + "".join(f"{name:>14}" for name in table) + "  which")
    for nbytes in sizes_of(table):
        times = (human(row[nbytes][1]) if nbytes in row else "-" for row in table.values())
        print(f"{nbytes:12}" + "".join(f"{one:>14}" for one in times) + f"  {which(nbytes, table)}")


def sizes_of(table: Table) -> list[int]:
    """All bytes that some backend of the table was measured at, in order."""
    return sorted({nbytes for row in table.values() for nbytes in row})

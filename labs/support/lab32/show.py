"""What lab 32 draws of steps on virtual GPUs."""

from __future__ import annotations

from functools import partial

from labkit import virtual

from support.lab32.gpus import Table, on_gpus


def lanes(ways: dict, table: Table, ranks: int, machine, steps: int = 2) -> dict[str, list]:
    """For plots.lanes: when rank 0 computed, and sent or received, in each way. Rows: `(a) forward`, …

    Of ways with a third function also when the last rank computed forward.
    """
    rows = {}
    for name, way in ways.items():
        run = on_gpus(way, table, ranks, machine, steps, trace=True)
        begins = sum(run.results[0].forward, [])
        ends = sum(run.results[0].ready, [])
        short = name.split()[0]
        rows[f"{short} forward"] = [(t, t + s) for t, s in zip(begins, table.forward * steps, strict=True)]
        rows[f"{short} backward"] = [(t - s, t) for t, s in zip(ends, table.backward * steps, strict=True)]
        rows[f"{short} messages"] = [
            (span.start, span.end)
            for rank, spans in enumerate(virtual.spans(run))
            for span in spans
            if span.kind == "send" and 0 in (rank, span.peer)
        ]
    last = sum(run.results[-1].forward, [])
    forward = [(t, t + s) for t, s in zip(last, table.forward * steps, strict=True)]
    rows[f"{short} forward, rank {ranks - 1}"] = forward
    return rows


def plot_efficiency(ways: dict, table: Table, ranks, machine, title: str) -> dict[str, float]:
    """Efficiency on so many GPUs; on one GPU a step is arithmetic alone. Returns % on the most, by way.

    title: what the plot shows, after the net's name.
    """
    from labkit import plots

    times = {
        name: {1: table.seconds} | {p: on_gpus(way, table, p, machine).time for p in ranks}
        for name, way in ways.items()
    }
    plots.efficiency(times, weak=True, title=f"{table.net}, {table.images} images a GPU: {title}")
    return {name: 100 * table.seconds / seconds[max(ranks)] for name, seconds in times.items()}


def bucket_sweep(way, table: Table, ranks: int, machine, sizes) -> dict[str, dict]:
    """Milliseconds of a step by bucket size, with sums side by side and one after the other; plotted.

    way: takes size=… in bytes. Returns {"side by side": {bytes: ms}, "one after the other": …}.
    """
    from labkit import plots

    steps: dict[str, dict] = {}
    for kind, queued in (("side by side", False), ("one after the other", True)):
        runs = {n: on_gpus(partial(way, size=n), table, ranks, machine, queued=queued) for n in sizes}
        steps[kind] = {n: 1e3 * run.time for n, run in runs.items()}
    curves = {f"sums {kind}": {n / 1e6: row[n] for n in sizes} for kind, row in steps.items()}
    title = f"{table.net}, {table.images} image: buckets pay where sums queue"
    plots.lines(curves, xlabel="bucket (MB)", ylabel=f"step on {ranks} GPUs (ms)", title=title, logx=True)
    return steps

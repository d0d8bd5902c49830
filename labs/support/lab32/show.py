"""What lab 32 draws and records: steps on virtual GPUs, and steps on real ranks."""

from __future__ import annotations

from functools import partial

from labkit import virtual

from support.lab32.gpus import Table, on_gpus, strong_scaling


def lanes(ways: dict, table: Table, ranks: int, machine, steps: int = 2) -> dict[str, list]:
    """For plots.lanes: when rank 0 computed, and sent or received, in each way. Rows: `(a) forward`, …"""
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
    return rows


def plot_efficiency(ways: dict, nets: dict[str, Table], ranks, machine) -> None:
    """Efficiency on so many GPUs, a plot for each net; on one GPU a step is the arithmetic alone."""
    from labkit import plots

    for net, layers in nets.items():
        times = {
            name: {1: layers.seconds} | {p: on_gpus(way, layers, p, machine).time for p in ranks}
            for name, way in ways.items()
        }
        plots.efficiency(times, weak=True, title=f"{net}, {layers.images} images a GPU")


def plot_beside_s_caffe(ways: dict, ranks: int, flops: float, machine, batches=(640, 2560)) -> None:
    """GoogLeNet on `ranks` GPUs against a fifth of them, for two numbers of images per step of all GPUs.

    S-Caffe's 160 GPUs were 2.5 times as fast as 32 (Awan et al., PPoPP 2017, abstract).
    """
    from labkit import plots

    gains = strong_scaling(ways, "googlenet", batches, (ranks // 5, ranks), flops, machine)
    gains["S-Caffe: 160 against 32"] = dict.fromkeys(batches, 2.5)
    title = f"GoogLeNet: {ranks} GPUs against {ranks // 5}"
    plots.lines(gains, xlabel="images per step, all GPUs", ylabel="times as fast", title=title)


def bucket_sweep(way, others: dict, table: Table, ranks: int, machine, sizes) -> tuple[dict, dict]:
    """Milliseconds of a step by bucket size in MB, plotted beside other ways. Returns both."""
    from labkit import plots

    swept = {n / 1e6: 1e3 * on_gpus(partial(way, size=n), table, ranks, machine).time for n in sizes}
    times = {name: 1e3 * on_gpus(other, table, ranks, machine).time for name, other in others.items()}
    flat = times | {"arithmetic alone": 1e3 * table.seconds}
    curves = {"buckets": swept} | {name: dict.fromkeys(swept, time) for name, time in flat.items()}
    title = f"{table.net}, images on each of {ranks} GPUs: {table.images}"
    plots.lines(curves, xlabel="bucket (MB)", ylabel="step (ms)", title=title, logx=True)
    return swept, times


def show(times: dict, profiles: dict, what: dict, where, ranks: int) -> None:
    """Plots and records of what `measure` found: one record `step` for each way."""
    from labkit import plots, record

    print(where.describe())
    for name, time in times.items():
        record.add("step", way=name, ranks=ranks, seconds=time, **what, **where.fields())
    for name, profile in profiles.items():
        profile.show(title=f"{name}: {what['images']} images, {what['bytes'] / 1e6:.1f} MB")
    plots.spread(times, title=f"A step on {ranks} real ranks")


def over_slow_link(repeat: int):
    """Seconds of a step by way between two nodes, as a pandas.Series, and whose they are.

    Where there is a cluster, from a job that runs the lab on two nodes; else the kit's reference results.
    """
    from labkit import cluster, world

    job = None
    if cluster.here() and not world.launcher():
        job = cluster.submit("32", nodes=2, ranks_per_node=1, settings={"gpus": (8,), "repeat": repeat})
        job.wait()
    frame, whose = cluster.records_or_reference("32", "step", job)
    return frame.groupby("way", sort=False)["seconds"].last(), whose

"""Well-known nets as tensors with times, for the virtual cluster. Part of labkit.overlap."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from labkit import nets as labkit_nets
from labkit import virtual
from labkit.virtual import spans as trace_spans

from support.lab32.training import train


class Table(NamedTuple):
    """A net's layers that have parameters. scale: parameters that one value stands for."""

    net: str
    images: float
    names: list[str]
    sizes: list[int]
    forward: list[float]
    backward: list[float]
    scale: float

    @property
    def nbytes(self) -> float:
        """Bytes of all gradients, float32."""
        return 4 * self.scale * sum(self.sizes)

    @property
    def seconds(self) -> float:
        """Seconds of arithmetic in a step."""
        return sum(self.forward) + sum(self.backward)


def table(net: str, images: float, flops: float, values: int = 100_000) -> Table:
    """A net of labkit.layers as tensors, batch normalisation with the convolution before it.

    images: per GPU and step. flops: per second that the GPU reaches. Forward takes the layer's flops,
    backward twice as many (gradients of its input and of its weights). values: that stand for all parameters;
    fewer would leave small layers without a value for each rank, and MPI would take another algorithm.
    """
    names, sizes, work = [], [], []
    for name, _kind, parameters, cost, _ in labkit_nets.rows(net):
        if name.endswith(".bn"):
            sizes[-1] += parameters
        elif parameters:
            names.append(name), sizes.append(parameters), work.append(cost * images / flops)
    scale = sum(sizes) / values
    few = [max(1, round(size / scale)) for size in sizes]
    return Table(net, images, names, few, work, [2 * seconds for seconds in work], scale)


def on_gpus(way, table: Table, ranks: int, machine, steps: int = 1, trace: bool = False):
    """`steps` steps of a net on so many virtual GPUs of a machine, all nodes full but the last. The Run.

    way: of a functools.partial with size=…, the size is in bytes of the real net.
    """
    if isinstance(way, partial) and "size" in way.keywords:
        way = partial(way, size=way.keywords["size"] / table.scale)
    cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
    program = partial(train, scale=table.scale)
    return cluster.run(program, way, table.sizes, steps, table.forward, table.backward, trace=trace)


def lanes(ways: dict, table: Table, ranks: int, machine, steps: int = 2) -> dict[str, list]:
    """For plots.lanes: when rank 0 computed, and sent or received, in each way. Rows: `(a) forward`, …"""
    rows = {}
    for name, way in ways.items():
        run = on_gpus(way, table, ranks, machine, steps, trace=True)
        begins, ends = sum(run.results[0].forward, []), sum(run.results[0].ready, [])
        short = name.split()[0]
        rows[f"{short} forward"] = [(t, t + s) for t, s in zip(begins, table.forward * steps, strict=True)]
        rows[f"{short} backward"] = [(t - s, t) for t, s in zip(ends, table.backward * steps, strict=True)]
        rows[f"{short} messages"] = [
            (one.start, one.end)
            for rank, spans in enumerate(trace_spans(run))
            for one in spans
            if one.kind == "send" and 0 in (rank, one.peer)
        ]
    return rows


def strong_scaling(ways: dict, net: str, batches, ranks: tuple[int, int], flops: float, machine) -> dict:
    """{way: {images per step of all GPUs: how many times as fast on ranks[1] GPUs as on ranks[0]}}."""
    gains: dict[str, dict] = {name: {} for name in ways}
    for total in batches:
        tables = [table(net, total / p, flops) for p in ranks]
        for name, way in ways.items():
            few, many = (on_gpus(way, t, p, machine).time for t, p in zip(tables, ranks, strict=True))
            gains[name][total] = few / many
    return gains


def plot_efficiency(ways: dict, nets: dict[str, Table], ranks, machine) -> None:
    """Efficiency on so many GPUs, a plot for each net; on one GPU a step is the arithmetic alone."""
    from labkit import plots

    for net, one in nets.items():
        times = {
            name: {1: one.seconds} | {p: on_gpus(way, one, p, machine).time for p in ranks}
            for name, way in ways.items()
        }
        plots.efficiency(times, weak=True, title=f"{net}, {one.images} images a GPU")


def plot_beside_s_caffe(ways: dict, ranks: int, flops: float, machine, batches=(640, 2560)) -> None:
    """GoogLeNet on `ranks` GPUs against a fifth of them, for two numbers of images per step of all GPUs.

    S-Caffe's 160 GPUs were 2.5 times as fast as 32 (Awan et al., PPoPP 2017, abstract).
    """
    from labkit import plots

    gains = strong_scaling(ways, "googlenet", batches, (ranks // 5, ranks), flops, machine)
    gains["S-Caffe: 160 against 32"] = dict.fromkeys(batches, 2.5)
    title = f"GoogLeNet: {ranks} GPUs against {ranks // 5}"
    plots.lines(gains, xlabel="images per step, all GPUs", ylabel="times as fast", title=title)


def bucket_sweep(way, others: dict, one: Table, ranks: int, machine, sizes) -> tuple[dict, dict]:
    """Milliseconds of a step by bucket size in MB, plotted beside other ways. Returns both."""
    from labkit import plots

    swept = {n / 1e6: 1e3 * on_gpus(partial(way, size=n), one, ranks, machine).time for n in sizes}
    times = {name: 1e3 * on_gpus(other, one, ranks, machine).time for name, other in others.items()}
    flat = times | {"arithmetic alone": 1e3 * one.seconds}
    curves = {"buckets": swept} | {name: dict.fromkeys(swept, time) for name, time in flat.items()}
    title = f"{one.net}, images on each of {ranks} GPUs: {one.images}"
    plots.lines(curves, xlabel="bucket (MB)", ylabel="step (ms)", title=title, logx=True)
    return swept, times


def unhidden(way):
    """A way with the same calls that begins them after backward and waits before the next forward."""

    def begin_late(comm, net):
        ready, finish, *before = way(comm, net)

        def finish_all() -> None:
            for i in reversed(net.numbers):
                ready(i)
            finish()
            for i in net.numbers:
                for wait in before:
                    wait(i)

        return (lambda i: None), finish_all

    return begin_late

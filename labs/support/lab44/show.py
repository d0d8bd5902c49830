"""A net's steps with the knobs turned: what is timed, recorded and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from labkit.errors import LabError
from labkit.placement import Placement

from support.lab44.checks import travelled
from support.lab44.ranks import CYCLE, HIERARCHICAL, Measured
from support.lab44.timeline import Line, Tensor, limit, lines

MOST = 128 << 20  # bytes, Horovod's own threshold
THRESHOLDS = {"threshold 0": 0, "threshold 128 KiB": 128 << 10, "threshold 128 MiB": MOST}
SMALL = [Tensor(f"small {i}", 256) for i in range(60)]
TOGETHER = Tensor("together", sum(tensor.bytes for tensor in SMALL))


def net(layers: int, backward: float) -> list[Tensor]:
    """For each layer a weight of 64 KiB and a bias of 256 bytes, ready one layer after the other within
    `backward` seconds."""
    if layers < 1 or backward < 0:
        raise LabError(f"A net of {layers} layers within {backward} s: give 1 layer or more, 0 s or more.")
    tensors = []
    for layer in range(layers):
        ready = backward * (layer + 1) / layers
        tensors.append(Tensor(f"weight {layer}", 64 << 10, ready=ready))
        tensors.append(Tensor(f"bias {layer}", 256, ready=ready))
    return tensors


def knobs(gradients: Sequence[Tensor], long_cycle: float) -> dict[str, tuple]:
    """Ways for `measure`: thresholds, a long cycle [ms], 60 small tensors with and without the cache.

    And one tensor with the bytes of the 60: what it takes less is what tensors cost, not bytes.
    """
    ways = {name: ({"HOROVOD_FUSION_THRESHOLD": str(n)}, gradients, True) for name, n in THRESHOLDS.items()}
    ways |= {"60 known": ({}, SMALL, True), "60 asked": ({"HOROVOD_CACHE_CAPACITY": "0"}, SMALL, True)}
    ways |= {"60 without names": ({}, SMALL, False), "1 of 15 KiB": ({}, [TOGETHER], True)}
    return ways | {f"look every {long_cycle} ms": ({CYCLE: str(long_cycle)}, gradients, True)}


def _result(name: str, nodes: int) -> str:
    """Results of one node have a name of their own: those of several nodes are what others look for."""
    return name if nodes > 1 else f"{name}, one node"


class _Spread(NamedTuple):
    """A time of a record, as plots show it."""

    median: float
    q1: float
    q3: float


def keep(ways, measured: Measured, step_time: Callable, ranks: int, ranks_on_node: int):
    """Records `step` (or `step, one node`), each with the link, what step_time says, and where tensors were.

    Returns them as a pandas.DataFrame.
    """
    import pandas
    from labkit import record, scaling

    link = measured.link
    fit = scaling.fit_alpha_beta(link)
    rows = []
    # On a machine with other work the fit may leave nothing for the bytes: then what the longest message got.
    longest = max(link)
    bandwidth = float(fit.bandwidth if fit.beta > 0 else longest / link[longest].median)
    for name, time in measured.times.items():
        variables, gradients, _ = ways[name]
        cycle = float(variables.get(CYCLE, 1)) / 1e3
        most = limit(THRESHOLDS.get(name, MOST), ranks_on_node)
        end, calls = step_time(gradients, most, cycle, fit.time)
        nodes = ranks // ranks_on_node
        what = {"way": name, "predicted": float(end), "messages": calls, "ranks": ranks}
        what |= {"nodes": nodes, "alpha": float(fit.alpha), "bandwidth": bandwidth}
        what |= measured.where.fields()
        rows.append(record.add(_result("step", nodes), **what, seconds=time))
    return pandas.DataFrame(rows)


def show(frame, whose: str) -> None:
    """Predicted beside measured, of the newest record of each way."""
    from labkit import plots

    if frame.empty:
        return
    last = frame.groupby("way", sort=False).last()
    first = last.iloc[0]
    library = first.get("library")
    carrier = library if isinstance(library, str) else "MPI"  # records of old do not say
    print(f"{whose}: {first.ranks} ranks, nodes: {first.nodes}; {carrier} sums n bytes in", end=" ")
    print(f"{1e6 * first.alpha:.0f} µs + n / {first.bandwidth / 1e6:.0f} MB/s. Messages predicted:")
    print(", ".join(f"{name}: {calls}" for name, calls in last.messages.astype(int).items()))
    predicted = (1e3 * last["predicted"]).to_dict()
    measured = {}
    for way, row in last.iterrows():
        measured[way] = _Spread(1e3 * row.seconds, 1e3 * row.seconds_q1, 1e3 * row.seconds_q3)
    where = f"On {first.nodes} node{'s' if first.nodes > 1 else ''}"
    name = f"step on {first.nodes} nodes"  # of the picture's file
    title = f"{where}: messages cost, and tensors, too"
    plots.compare(predicted, measured, unit="ms", title=title, name=name)


def keep_activities(events, where: Placement, ranks: int, ranks_on_node: int) -> None:
    """Records `activities`: what a timeline names when a hierarchical way is asked for."""
    from labkit import record

    nodes = ranks // ranks_on_node
    for way in HIERARCHICAL:
        names = sorted({line.name for line in lines(events[way]) if line.kind == "B"})
        what = {"way": way, "ranks": ranks, "nodes": nodes, "names": " ".join(names)}
        record.add(_result("activities", nodes), **what, **where.fields())


def show_job(job) -> None:
    """Waits for the job, if there is one; shows its records, else the kit's own."""
    from labkit import cluster

    if job:
        job.wait()
    show(*cluster.records_or_reference("44", "step", job))
    frame, _ = cluster.records_or_reference("44", "activities", job)
    for way, names in zip(frame.get("way", ()), frame.get("names", ()), strict=True):
        print(f"{way}=1: {names}")


def show_travelled(events) -> list[int]:
    """Prints what real ranks sent together; returns the numbers of messages."""
    messages = {threshold: text.split("|") for threshold, text in travelled(events).items()}
    for threshold, calls in messages.items():
        print(f"threshold {threshold}: {' | '.join(calls)}")
    return [len(calls) for calls in messages.values()]


def show_predicted(step_time: Callable, layers: int, backward: float, alpha: float, rate: float):
    """Plots steps of `net` by threshold and cycle over a link of alpha + n / rate seconds.

    Prints how many messages there are with Horovod's threshold, and returns the net and {cycle [ms]: step
    [ms]} with it.
    """
    from labkit import plots

    if alpha < 0 or rate <= 0:
        raise LabError(
            f"slow_link: {alpha} s a message and {rate} bytes/s: give 0 s or more, above 0 bytes/s."
        )
    gradients = net(layers, backward)
    sizes = [*(256 << i for i in range(0, 14, 2)), MOST]
    times = {
        ms: [1e3 * step_time(gradients, n, ms / 1e3, lambda n: alpha + n / rate)[0] for n in sizes]
        for ms in (1, 5, 20, 100)
    }
    curves = {f"look every {ms} ms": (sizes, row) for ms, row in times.items()}
    axis = {"xlabel": "fusion threshold (bytes)", "ylabel": "time of a step (ms)", "logx": True}
    plots.lines(curves, **axis, title="A large threshold pays, a long cycle costs (predicted)")
    for ms in times:
        end, calls = step_time(gradients, MOST, ms / 1e3, lambda n: alpha + n / rate)
        print(f"look every {ms:3} ms: {1e3 * end:3.0f} ms, {len(gradients)} tensors, messages: {calls}")
    return gradients, {ms: row[-1] for ms, row in times.items()}


def show_lines(timeline: Sequence[Line], tensor: str) -> None:
    """Prints how many looks there were, and the lines of this tensor's first request."""
    print(f"{sum(line.kind == 'i' for line in timeline)} looks (CYCLE_START), and of tensor {tensor}:")
    own = [line for line in timeline if line.tensor == tensor]
    begun = [place for place, line in enumerate(own) if line.name.startswith("NEGOTIATE_")]
    for line in own[: begun[1] if len(begun) > 1 else None]:
        print(f"{line.when:9d} µs  {line.kind}  {line.name}")

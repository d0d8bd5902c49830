"""Lab 52: its checks, published scaling points, a fit of the learner's step-time model, and its
picture.

The published runs are in lab52.csv, beside this module: of whom and where, what is known of a run
before, and what it reached.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas
from labkit import check, expect, nets, plots
from labkit.errors import LabError

# The systems whose rows the fit may see. Each network of the table is in one of them.
SEEN = ("Horovod 25 Gb/s RoCE", "DGX-1 P100")
# GB/s between GPUs of a node, where the table does not say: virtual.machines has the source
PCIE = 11.0
# Where the search begins, and its unit: seconds per byte for each network and inside a node,
# seconds of a round, share of a step that a straggler takes longer.
PER_BYTE = 0.2e-9
BEGIN = {"inside": PER_BYTE, "round": 10e-6, "straggler": 0.01}
MOST = 1000.0  # no number grows beyond so many of its units
SOFT = 0.1  # errors beyond 10 % count less and less: one odd row is not to decide
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@check.exercise("52.1")
def seconds_of_a_bucket(exchange):
    """The seconds of 64 MB by each algorithm, in one node and in several, on slow and fast
    links."""
    # Links in ns a byte, and MB times ns are ms: line 0.3, TCP adds 0.2, the host's MPI 0.5; inside
    # 0.1 and 0.05 more; a round takes 0.02 ms.
    mb, alpha = 64, 0.02
    for inside in (0.1, 0.8):  # in the second the slowest link is one inside a node
        within, between = inside + 0.05, 0.3 + 0.2
        beta = max(within, between)
        slips = {
            "in each of 2 (p - 1) rounds a part of n/p bytes is sent": 30 * (alpha + mb * beta),
            "the allgather has p - 1 rounds, too": 15 * (alpha + mb / 16 * beta),
            "what the software adds to a byte is missing": (
                30 * (alpha + mb / 16 * max(0.3, within))
            ),
        }
        if inside > 0.5:
            slips = {
                "what the software adds inside a node is missing": 30 * (alpha + mb / 16 * 0.8),
                "β belongs to the slowest link, which is inside a node here": (
                    30 * (alpha + mb / 16 * between)
                ),
            }
        _bucket(exchange, 30 * (alpha + mb / 16 * beta), slips, inside=inside * 1e-9)
    for algorithm in ("ring", "tree", "halving", "server"):
        slips = {"a single node always uses the ring": 4 * alpha + 2 * mb * 0.15}
        one = {"gpus": 4, "per_node": 4, "network": "none"}
        _bucket(exchange, 6 * (alpha + mb / 4 * 0.15), slips, algorithm=algorithm, **one)
    for gpus, network, beta in ((16, "TCP", 0.5), (24, "TCP", 0.5), (1024, "host", 0.8)):
        rounds = 2 * math.log2(gpus)
        slips = {
            "log₂ p is not rounded": 2 * math.ceil(math.log2(gpus)) * alpha + 2 * mb * beta,
            "the bytes go up and down": rounds * alpha + mb * beta,
            "chunks follow one another, so the bytes are not paid in each round": (
                rounds * (alpha + mb * beta)
            ),
            "the software is that of row.network": rounds * alpha + 2 * mb * 0.5,
        }
        changes = {"algorithm": "tree", "gpus": gpus, "network": network}
        _bucket(exchange, rounds * alpha + 2 * mb * beta, slips, **changes)
    for gpus, per_node, network in ((32, 4, "host"), (16, 1, "TCP"), (64, 4, "TCP")):
        rounds = 2 * math.log2(gpus)
        software = 0.5 if network == "host" else 0.2
        own = (1 - 1 / gpus) * software
        out = 1 - per_node / gpus  # of the bytes leave a node
        crossing = per_node * out
        want = rounds * alpha + 2 * mb * (crossing * 0.3 + own)
        slips = {
            "all GPUs of a node share its NIC": rounds * alpha + 2 * mb * (out * 0.3 + own),
            "a part of the bytes stays in the node: c is per_node · (1 - 1/nodes)": (
                rounds * alpha + 2 * mb * (per_node * 0.3 + own)
            ),
            "each GPU has its own process, so the software is not shared": (
                rounds * alpha + 2 * mb * crossing * (0.3 + software)
            ),
            "the software is that of row.network": (
                rounds * alpha + 2 * mb * (crossing * 0.3 + (1 - 1 / gpus) * 0.5)
            ),
            "the formula of halving has no link inside a node": rounds * alpha + 2 * mb * 9.05,
        }
        changes = {"algorithm": "halving", "gpus": gpus, "per_node": per_node, "network": network}
        changes["inside"] = 9e-9  # slower than all of it
        _bucket(exchange, want, slips, **changes)
    row = run_of(algorithm="server", network="gRPC", senders=16, servers=4)
    want = 1e3 * to_servers(64e6, row, LEARNED)
    _bucket(exchange, want, {}, algorithm="server", network="gRPC", senders=16, servers=4)


def _bucket(exchange, milliseconds, slips, **changes):
    row = run_of(**changes)
    with check.case(
        f"{row.algorithm}, {row.gpus} GPUs in {row.nodes} node{'s' if row.nodes > 1 else ''}"
    ):
        given = Learned(LEARNED)
        got = exchange(64e6, row, given)
        expect.unchanged(LEARNED, given, "learned")
        expect(got is not None, "exchange returns None.")
        expect.close(1e3 * got, milliseconds, "ms of 64 MB", rtol=1e-6, slips=slips)
        # Half of the bytes, each four times as long, and rounds twice as long: all twice as long.
        slow = replace(row, line=4 * row.line, inside=4 * row.inside)
        learned = Learned({name: 4 * value for name, value in LEARNED.items()})
        learned["round"] = 2 * LEARNED["round"]
        twice = "ms of 32 MB, where a byte takes four times and a round twice as long"
        got = exchange(32e6, slow, learned)
        expect.close(1e3 * got, 2 * milliseconds, twice, rtol=1e-6)


@check.exercise("52.2")
def seconds_of_a_step(step, READY, exchange):
    """Steps of several nets and algorithms, with stragglers, with slow input, in one node."""
    server = {"algorithm": "server", "network": "gRPC", "senders": 16, "servers": 4}
    for net in ("vgg16", "resnet101", "inception_v3"):
        _step(step, READY, exchange, ("hidden", "order", "stragglers"), net=net)
        changes = {"algorithm": "halving", "network": "host", "alone": 0.1}
        _step(step, READY, exchange, ("hidden", "order"), net=net, **changes)
        _step(step, READY, exchange, ("back", "each", "order"), net=net, **server)
        changes = {"algorithm": "server", "network": "none", "gpus": 4}
        _step(step, READY, exchange, ("one node",), net=net, **changes)
    _step(step, READY, exchange, ("stragglers",), alone=2.0, gpus=512)
    more = {**LEARNED, "straggler": 2 * LEARNED["straggler"], "round": 2 * LEARNED["round"]}
    _step(step, READY, exchange, ("stragglers",), learned=more, alone=2.0, gpus=512)
    _step(step, READY, exchange, ("input",), input=1.5)
    _step(step, READY, exchange, ("input", "after"), input=1.5, **server)


def _step(step, ready, exchange, mistakes, learned=None, **changes):
    """step(row, learned) of the made-up row with these changes, beside steps that leave something
    out."""
    row = run_of(**changes)
    learned = learned or LEARNED
    computing = row.alone * (1 + learned["straggler"] * math.sqrt(2 * math.log(row.gpus)))
    sent = [(share, exchange(nbytes, row, learned)) for share, nbytes in ready[row.net]]
    whole = exchange(sum(nbytes for _, nbytes in ready[row.net]), row, learned)
    back = whole if row.algorithm == "server" and row.nodes > 1 else 0.0
    overlapped = [share * computing + seconds for share, seconds in sent]
    all_of_it = computing + sum(seconds for _, seconds in sent) + back
    known = {
        "hidden": ("buckets are sent during the backward pass, not after it", all_of_it),
        "order": (
            "a bucket waits until the one before it has arrived",
            max(computing, *overlapped) + back,
        ),
        "back": ("the new weights are not sent back", _end(computing, sent, 0.0, row.input)),
        "each": (
            "all weights come back as one bucket",
            _end(computing, sent, sum(seconds for _, seconds in sent), row.input),
        ),
        "one node": (
            "in one node there are no servers, so no weights are sent back",
            _end(computing, sent, whole, row.input),
        ),
        "stragglers": (
            "stragglers are missing, or do not delay the buckets",
            _end(row.alone, sent, back, row.input),
        ),
        "input": ("a step is not shorter than its input", _end(computing, sent, back, 0.0)),
        "after": (
            "a node reads its images while the weights are sent back, too",
            back + _end(computing, sent, 0.0, row.input),
        ),
    }
    with check.case(f"net {row.net}, {row.algorithm}, {row.gpus} GPUs, nodes: {row.nodes}"):
        before = list(ready[row.net])
        given = Learned(learned)
        got = step(row, given)
        changed = ready[row.net] != before
        ready[row.net] = before
        expect(not changed, "step changes READY; only read it.")
        expect.unchanged(learned, given, "learned")
        expect(got is not None, "step returns None.")
        slips = dict(known[mistake] for mistake in mistakes)
        expect.close(
            got, _end(computing, sent, back, row.input), "a step in s", rtol=1e-6, slips=slips
        )


def _end(computing, sent, back, reading):
    """Seconds of a step: computing, buckets one after another, new weights, input."""
    end = 0.0
    for share, seconds in sent:
        end = max(end, share * computing) + seconds
    return max(computing, end + back, reading)


@check.exercise("52.3")
def systems_seen_and_unseen(split, errors, step):
    """Whole systems on one side or the other, all rows; errors of images per second, with sign."""
    # Ten times as fast as published, so rows that split reads from the table itself differ.
    # The name of one system is a part of another's.
    rows = [ten_times(row) for row in published()]
    rows[0] = replace(rows[0], system="Daint")
    for seen in (SEEN, ("Piz Daint",), ("Horovod 25 Gb/s RoCE", "Piz Daint", "Facebook P100")):
        with check.case(f"seen = {seen}"):
            given = list(rows)
            sides = split(given, seen)
            lists = isinstance(sides, (tuple, list)) and [hasattr(one, "__len__") for one in sides]
            expect(lists == [True, True], "split returns two lists of rows.")
            expect(given == rows, "split changes the list `rows`; build two new lists.")
            on_both = {row.system for row in sides[0]} & {row.system for row in sides[1]}
            expect(not on_both, f"these systems are on both sides: {', '.join(sorted(on_both))}.")
            expect.equal({row.system for row in sides[0]}, set(seen), "systems that are seen")
            expect.equal(len(sides[0]) + len(sides[1]), len(rows), "rows on both sides")
            expect(
                Counter([*sides[0], *sides[1]]) == Counter(rows),
                "each element of `rows` must be in one of the lists, once and unchanged.",
            )
    factors = [1.2512, 0.5123, 2.0169]
    runs = [run_of(net=net, alone=0.1) for net in ("vgg16", "resnet101", "inception_v3")]
    slips = {
        "this compares seconds; a shorter step is more images": [1 / f - 1 for f in factors],
        "this has lost its sign": [abs(f - 1) for f in factors],
        "this is predicted over published; take 1 from it": factors,
        "the errors are in the order of the rows": [f - 1 for f in factors[::-1]],
    }
    slow = Learned({name: 4 * value for name, value in LEARNED.items()})
    for name, learned in (("learned", LEARNED), ("learned with each number four times", slow)):
        times = zip(runs, factors, strict=True)
        rows = [replace(run, step=factor * step(run, learned)) for run, factor in times]
        with check.case(f"{name}, published steps {factors} times as long as the predicted ones"):
            got = errors(rows, learned)
            expect.close(got, [f - 1 for f in factors], "their errors", rtol=1e-6, slips=slips)


@dataclass(frozen=True)
class Row:
    """One run of a training: what is known of it before, and what it reached, if that is known.

    system: of whom and where. gpus, per_node: GPUs in all, and in each node. network: which
    software carries gradients between nodes. algorithm: "ring", "tree", "halving" or "server".
    line: seconds that a byte takes on a node's card. inside: seconds that a byte takes from a GPU
    to the next one of its node. batch: images of each GPU in a step. alone: seconds of a step of a
    single GPU. step: seconds of this run's step, None where nobody measured it. senders, servers:
    of "server", who sends, and how many servers there are. input: seconds that a node needs at
    least to read its images of a step. source: where it was published.
    """

    system: str
    net: str
    gpus: int
    per_node: int
    network: str
    algorithm: str
    line: float
    inside: float
    batch: int
    alone: float
    step: float | None = None
    senders: int = 1
    servers: int = 1
    input: float = 0.0
    source: str = ""

    @property
    def nodes(self) -> int:
        """How many nodes hold the GPUs."""
        return -(-self.gpus // self.per_node)

    @property
    def busiest(self) -> float:
        """The share of the gradients' bytes that the busiest server has: a tensor is never cut in
        two."""
        return max(1 / self.servers, largest_share(self.net))

    def images(self, seconds: float) -> float:
        """Images per second of all GPUs when a step takes so many seconds."""
        return self.gpus * self.batch / seconds

    def __str__(self) -> str:
        return f"{self.system}, {self.network}, {self.net}, {self.gpus} GPUs"


@cache
def largest_share(net: str) -> float:
    """The largest tensor's share of a net's parameters."""
    parameters = nets.layer_table(net)["parameters"]
    return float(parameters.max() / parameters.sum())


def at(row: Row, gpus: int, algorithm: str | None = None) -> Row:
    """The row's system with so many GPUs, by this algorithm (None: its own). Nobody has measured
    it.

    Senders and servers grow with the GPUs.
    """
    grown = gpus / row.gpus
    return replace(
        row,
        gpus=gpus,
        algorithm=algorithm or row.algorithm,
        step=None,
        senders=max(1, round(grown * row.senders)),
        servers=max(1, round(grown * row.servers)),
    )


def published() -> list[Row]:
    """The rows of lab52.csv. Where a cell is empty: PCIe inside, a ring, every GPU sends, a server
    a node."""
    rows = []
    for line in pandas.read_csv(Path(__file__).with_suffix(".csv")).itertuples():
        per_node = min(line.gpus, line.gpus_per_node)
        nodes = -(-line.gpus // per_node)
        rows.append(
            Row(
                system=line.system,
                net=line.net,
                gpus=line.gpus,
                per_node=per_node,
                network=line.network,
                algorithm=_or(line.algorithm, "ring"),
                line=8e-9 / line.gbit if nodes > 1 else 0.0,
                inside=1e-9 / _or(line.inside, PCIE),
                batch=line.batch,
                alone=line.batch / line.images_at_1,
                step=line.gpus * line.batch / line.images,
                senders=int(_or(line.senders, line.gpus)),
                servers=int(_or(line.servers, nodes)),
                input=per_node * line.batch / _or(line.input, math.inf),
                source=line.source,
            )
        )
    return rows


def _or(cell, default):
    return default if pandas.isna(cell) else cell


def to_servers(nbytes: float, row: Row, learned: Mapping[str, float]) -> float:
    """Seconds in which all senders of a row send a bucket to the busiest server (lab 31)."""
    beta = max(row.inside + learned["inside"], row.line + learned[row.network])
    return learned["round"] + row.senders * row.busiest * nbytes * beta


class Learned(dict[str, float]):
    """The numbers of a model, by name. A name that it lacks ends in a sentence, not a KeyError."""

    def __missing__(self, name: str) -> float:
        raise LabError(
            f"`learned` has no {name!r}, only {', '.join(map(repr, self))}. A network is in it if"
            " the fit saw it between nodes; a single node uses none."
        )


Model = Callable[[Row, Learned], float]


def fit(step: Model, rows: Sequence[Row]) -> Learned:
    """The numbers with which step(row, numbers) comes nearest to the steps of these rows, and no
    others.

    Returns {network: seconds per byte, …, "inside": seconds per byte, "round": seconds,
    "straggler": share}. A network that no row uses between nodes is not in it. Least squares of the
    logarithms of predicted over published, softened (scipy.optimize.least_squares, soft_l1); no
    number is below 0.
    """
    from scipy.optimize import least_squares

    networks = {row.network: PER_BYTE for row in rows if row.nodes > 1}
    units = {**networks, **BEGIN}

    def numbers(scaled: np.ndarray) -> Learned:
        pairs = zip(units.items(), scaled, strict=True)
        return Learned({name: float(unit * factor) for (name, unit), factor in pairs})

    def misses(scaled: np.ndarray) -> list[float]:
        learned = numbers(scaled)
        return [float(np.log(step(row, learned) / row.step)) for row in rows]

    best = least_squares(
        misses, np.ones(len(units)), bounds=(0, MOST), loss="soft_l1", f_scale=SOFT
    )
    return numbers(best.x)


def without_each(step: Model, rows: Sequence[Row]) -> dict[str, Learned]:
    """For each system: the numbers fitted to the rows of all others. The fit never sees the system
    itself."""
    systems = dict.fromkeys(row.system for row in rows)
    return {system: fit(step, [row for row in rows if row.system != system]) for system in systems}


_ROW = Row(
    system="made up",
    net="resnet50",
    gpus=16,
    per_node=4,
    network="TCP",
    algorithm="ring",
    line=3e-10,
    inside=1e-10,
    batch=64,
    alone=0.4,
    step=0.5,
)

# Seconds per byte, seconds, share: rounder than those of a fit, and far from one another.
LEARNED = Learned(
    {"TCP": 2e-10, "host": 5e-10, "gRPC": 7e-10, "inside": 5e-11, "round": 2e-5, "straggler": 0.02}
)


def run_of(**changes) -> Row:
    """A made-up run of 16 GPUs in 4 nodes by a ring over TCP, with these fields changed."""
    return replace(_ROW, **changes)


def ten_times(row: Row) -> Row:
    """The row with ten times the published images per second, which nobody could have measured."""
    return replace(row, step=row.step / 10)


def print_learned(learned: Learned) -> None:
    """Each number on a line, with its unit."""
    for name, value in learned.items():
        unit = {"round": "µs a round", "straggler": "% of a step"}.get(name, "ns a byte")
        factor = {"round": 1e6, "straggler": 100}.get(name, 1e9)
        print(f"{name:10} {factor * value:6.2f} {unit}")


def judged(parts: Mapping[str, Sequence[Row]], errors) -> pandas.DataFrame:
    """A line for each row of each part: part, system, run, and its error in percent."""
    return pandas.DataFrame(
        {"part": part, "system": row.system, "run": str(row), "error, %": 100 * error}
        for part, rows in parts.items()
        for row, error in zip(rows, errors(rows), strict=True)
    )


def by_system(table: pandas.DataFrame) -> pandas.DataFrame:
    """For each system of `judged`: its rows, their median without sign, their worst with sign."""
    errors = table.groupby(["part", "system"])["error, %"]

    def median(one: pandas.Series) -> float:
        return one.abs().median()

    def worst(one: pandas.Series) -> float:
        return one[one.abs().idxmax()]

    return errors.agg(rows="size", median=median, worst=worst).round(0)


@plots.styled
def draw(parts: Mapping[str, Sequence[Row]], step: Callable[[Row], float], title: str):
    """Predicted against published efficiency, both axes logarithmic. Returns the figure.

    The first part's points are hollow, those of the others filled. The grey band is 10 % to both
    sides.
    """
    figure, axes = plots.one_axes(
        title, "published: % of the ideal", "predicted: % of the ideal", height=5.4
    )
    figure.set_figwidth(9.5)
    ends = np.array([0.8, 115.0])
    axes.fill_between(
        ends, 0.9 * ends, 1.1 * ends, color=plots.FAINT, alpha=0.4, label="within 10 %"
    )
    axes.plot(ends, ends, color=plots.INK, linewidth=1.2)
    systems = list(dict.fromkeys(row.system for rows in parts.values() for row in rows))
    for number, (part, rows) in enumerate(parts.items()):
        for place, name in enumerate(systems):
            own = [row for row in rows if row.system == name]
            if own:
                color = plots.COLORS[place % len(plots.COLORS)]
                axes.plot(
                    [100 * row.alone / row.step for row in own],
                    [100 * row.alone / step(row) for row in own],
                    linestyle="",
                    marker=MARKERS[place % len(MARKERS)],
                    markersize=7,
                    color=color,
                    markerfacecolor="none" if number == 0 else color,
                    label=f"{part}: {name}",
                )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        plots.plain_log(axis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plots.done(figure, "predicted_and_published")

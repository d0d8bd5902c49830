"""What is expected of the answers of exercises 52.2 to 52.4, and the mistakes that are told by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from labkit import check, expect, nets

from support.lab52.cases import BUCKETS, LEARNED, SMALL, forwards, run_of
from support.lab52.fits import Learned
from support.lab52.rows import SEEN, Row, published

ROUND = 1e3 * LEARNED["round"]  # ms


class Exchange:
    """Tries exchange(nbytes, row, learned) on made-up rows. All times below are in ms, links in ns a byte."""

    def __init__(self, exchange: Callable[[float, Row, Learned], float], nbytes: float):
        self.exchange = exchange
        self.nbytes = nbytes
        self.mb = nbytes / 1e6  # MB times ns a byte are ms

    def _expect(self, row: Row, milliseconds: float, slips: Mapping[str, float]) -> None:
        nodes = f"{row.nodes} node{'s' if row.nodes > 1 else ''}"
        what = f"{row.algorithm}, {row.gpus} GPUs in {nodes}, {self.mb:.0f} MB, in ms"
        got = self.exchange(self.nbytes, row, LEARNED)
        expect(got is not None, f"{what}: exchange returns None.")
        expect.close(1e3 * got, milliseconds, what, rtol=1e-6, slips=slips)

    def expect_ring(self, **changes) -> None:
        """A ring over several nodes: its slowest link counts."""
        row = run_of(algorithm="ring", **changes)
        inside = 1e9 * (row.inside + LEARNED["inside"])
        line = 1e9 * row.line
        between = line + 1e9 * LEARNED[row.network]
        beta = max(inside, between)
        rounds = 2 * (row.gpus - 1)
        part = self.mb / row.gpus
        slips = {
            "in each of 2 (p - 1) rounds a part of n/p bytes is sent": rounds * (ROUND + self.mb * beta),
            "there are 2 (p - 1) rounds: there, and back": rounds / 2 * (ROUND + part * beta),
            "what the software adds to a byte is missing": rounds * (ROUND + part * max(line, inside)),
            "what the software adds inside a node is missing": rounds
            * (ROUND + part * max(1e9 * row.inside, between)),
            "a round costs something, whatever its size": rounds * part * beta,
            "a ring sends one stream through a card": rounds * (ROUND + part * row.per_node * between),
            "the slowest link of the way decides; here it is one inside a node": rounds
            * (ROUND + part * between),
            "only the slowest link counts, not both": rounds * (ROUND + part * (inside + between)),
        }
        self._expect(row, rounds * (ROUND + part * beta), slips)

    def expect_one_node(self, algorithm: str, gpus: int) -> None:
        """One node: a ring on the links inside, whatever the algorithm."""
        row = run_of(algorithm=algorithm, gpus=gpus, per_node=gpus, network="none")
        beta = 1e9 * (row.inside + LEARNED["inside"])
        rounds = 2 * (gpus - 1)
        slips = {
            "what software adds inside a node is missing": rounds
            * (ROUND + self.mb / gpus * 1e9 * row.inside),
            "a node alone sums in a ring": 2 * math.log2(gpus) * ROUND + 2 * self.mb * beta,
        }
        self._expect(row, rounds * (ROUND + self.mb / gpus * beta), slips)

    def expect_tree(self, gpus: int) -> None:
        """Up and down a tree, all bytes on each link."""
        row = run_of(algorithm="tree", gpus=gpus)
        beta = 1e9 * (row.line + LEARNED[row.network])
        rounds = 2 * math.log2(gpus)
        slips = {
            "these are the rounds of a ring": 2 * (gpus - 1) * ROUND + 2 * self.mb * beta,
            "the bytes go up and down": rounds * ROUND + self.mb * beta,
            "chunks follow one another: the bytes are not paid in each round": rounds
            * (ROUND + self.mb * beta),
        }
        self._expect(row, rounds * ROUND + 2 * self.mb * beta, slips)

    def expect_halving(self, gpus: int, per_node: int) -> None:
        """All GPUs of a node send through its card at once; the software of each carries its own bytes."""
        row = run_of(algorithm="halving", network="host", gpus=gpus, per_node=per_node)
        line = 1e9 * row.line
        own = (gpus - 1) / gpus * 1e9 * LEARNED["host"]
        out = 1 - 1 / row.nodes
        rounds = 2 * math.log2(gpus) * ROUND
        crossing = per_node * out
        slips = {
            "all GPUs of a node share its card": rounds + 2 * self.mb * (out * line + own),
            "a part of the bytes stays in the node: c is per_node · (1 - 1/nodes)": rounds
            + 2 * self.mb * (per_node * line + own),
            "each GPU has a process of its own: the software is not shared": rounds
            + 2 * self.mb * crossing * (line + 1e9 * LEARNED["host"]),
            "what the software adds to a byte is missing": rounds + 2 * self.mb * crossing * line,
            "these are the rounds of a ring": 2 * (gpus - 1) * ROUND + 2 * self.mb * (crossing * line + own),
            "the bytes go there and back": rounds + self.mb * (crossing * line + own),
        }
        self._expect(row, rounds + 2 * self.mb * (crossing * line + own), slips)

    def expect_server(self, senders: int, servers: int) -> None:
        """All send to the busiest server."""
        row = run_of(algorithm="server", network="gRPC", senders=senders, servers=servers)
        beta = 1e9 * (row.line + LEARNED["gRPC"])
        want = ROUND + senders * row.busiest * self.mb * beta
        slips = {
            "row.busiest is the busiest server's share; 1/servers is the mean": ROUND
            + senders / servers * self.mb * beta,
            "all send to the busiest server": ROUND + row.busiest * self.mb * beta,
            "the busiest server has its share of the bytes, not all": ROUND + senders * self.mb * beta,
            "the way back comes later: it is no part of this": ROUND
            + 2 * senders * row.busiest * self.mb * beta,
            "a round costs something": senders * row.busiest * self.mb * beta,
        }
        self._expect(row, want, slips)


Ready = Mapping[str, Sequence[tuple[float, float]]]  # net -> (share of computing that is over, bytes)


class Step:
    """Tries step(row, learned) on made-up rows, beside steps that leave something out."""

    def __init__(self, step: Callable[[Row, Learned], float], exchange: Callable, ready: Ready):
        self.step = step
        self.exchange = exchange
        self.ready = ready

    def expect(self, **changes) -> None:
        """A step of the made-up row with these changes."""
        row = run_of(**changes)
        computing = row.alone * (1 + LEARNED["straggler"] * math.sqrt(2 * math.log(row.gpus)))
        sent = [(share, self.exchange(nbytes, row, LEARNED)) for share, nbytes in self.ready[row.net]]
        whole = self.exchange(sum(nbytes for _, nbytes in self.ready[row.net]), row, LEARNED)
        back = whole if row.algorithm == "server" and row.nodes > 1 else 0.0
        overlapped = [share * computing + seconds for share, seconds in sent]
        slips = {
            "a step is not shorter than its input": end_of(computing, sent, back, 0.0),
            "nothing is hidden here: buckets are sent while backward computes": max(
                computing + sum(seconds for _, seconds in sent) + back, row.input
            ),
            "a bucket waits until the one before it has arrived": max(computing, *overlapped) + back,
            "stragglers are missing": end_of(row.alone, sent, back, row.input),
            "the weights' way back from the servers is missing": end_of(computing, sent, 0.0, row.input),
            "in one node there are no servers, and no way back": end_of(computing, sent, whole, row.input),
            "a node reads its images during the way back, too": back
            + end_of(computing, sent, 0.0, row.input),
        }
        what = f"{row.net}, {row.algorithm}, {row.gpus} GPUs in {row.nodes}: a step in s"
        got = self.step(row, LEARNED)
        expect(got is not None, f"{what}: step returns None.")
        expect.close(got, end_of(computing, sent, back, row.input), what, rtol=1e-6, slips=slips)


def end_of(computing: float, sent: Sequence[tuple[float, float]], back: float, reading: float) -> float:
    """Seconds of a step: computing, buckets one after another, the way back from servers, input.

    sent: (share of computing that is over, seconds of the exchange) of the buckets, in order.
    """
    end = 0.0
    for share, seconds in sent:
        end = max(end, share * computing) + seconds
    return max(computing, end + back, reading)


def expect_errors(errors: Callable, step: Callable[[Row, Learned], float], factor: float) -> None:
    """The error of a row whose published step is `factor` times as long as the predicted one."""
    row = run_of(step=factor * step(run_of(step=None), LEARNED))
    slips = {
        "this compares seconds; a shorter step is more images": 1 / factor - 1,
        "this has lost its sign": abs(factor - 1),
        "this is predicted over published; take 1 from it": factor,
        "these are percent": 100 * (factor - 1),
    }
    got = errors([row, row], LEARNED)
    what = f"A published step {factor} times as long as the predicted one: errors of two such rows"
    slips = {sentence: [slip, slip] for sentence, slip in slips.items()}
    expect.close(got, [factor - 1, factor - 1], what, rtol=1e-6, slips=slips)


@check.exercise("52.1")
def check_buckets(buckets):
    """Bytes and shares of all buckets of the small net, for several limits, and of a real one."""
    for limit, sizes, shares in BUCKETS:
        got = buckets(SMALL, limit)
        what = f"The net of three layers, limit {limit}"
        expect(got is not None, f"{what}: buckets returns None. Does it return its list?")
        slips = {
            "these begin with the first layer; backward begins with the last": forwards(limit),
            "what is left at the end is a bucket, too": sizes[:-1],
            "these are parameters; each has 4 bytes": [size // 4 for size in sizes],
        }
        expect.equal([nbytes for _, nbytes in got], sizes, f"{what}: bytes of the buckets", slips=slips)
        slips = {
            "the way forward is missing: a third of the step": [share - 1 / 3 for share in shares],
            "backward is two thirds of the step": [(3 * share - 1) / 2 + 1 / 3 for share in shares],
        }
        expect.close([share for share, _ in got], shares, f"{what}: shares", rtol=1e-6, slips=slips)
    real = nets.layer_table("resnet50")
    held = sum(nbytes for _, nbytes in buckets(real, 2**24))
    expect.equal(held, 4 * int(real.parameters.sum()), "ResNet-50, limit 16 MiB: bytes of all buckets")


@check.exercise("52.2")
def check_exchange(exchange):
    """The seconds of 64 MB by each algorithm, in one node and in several, on slow and fast links."""
    trial = Exchange(exchange, 64e6)  # line 0.3 ns, TCP adds 0.2; inside 0.1, and 0.05; round 20 µs
    trial.expect_ring(gpus=16, per_node=4)
    trial.expect_ring(gpus=16, per_node=4, inside=8e-10)  # the slowest link is one inside a node
    for algorithm in ("ring", "tree", "halving", "server"):
        trial.expect_one_node(algorithm, gpus=4)
    trial.expect_tree(gpus=16)
    trial.expect_tree(gpus=1024)
    trial.expect_halving(gpus=16, per_node=4)
    trial.expect_halving(gpus=16, per_node=1)
    trial.expect_server(senders=16, servers=4)
    trial.expect_server(senders=16, servers=100)  # the largest tensor decides


@check.exercise("52.3")
def check_step(step, READY, exchange):
    """Steps of several nets and algorithms, with stragglers, with slow input, in one node."""
    trial = Step(step, exchange, READY)
    for net in ("vgg16", "resnet101", "inception_v3"):
        trial.expect(net=net)
        trial.expect(net=net, algorithm="halving", network="host", alone=0.1)
        trial.expect(net=net, algorithm="server", network="gRPC", senders=16, servers=4)
        trial.expect(net=net, algorithm="server", network="none", gpus=4)
    trial.expect(alone=2.0, gpus=512)
    trial.expect(input=1.5)
    trial.expect(input=1.5, algorithm="server", network="gRPC", senders=16, servers=4)


@check.exercise("52.4")
def check_split(split, errors, step):
    """Whole systems on one side or the other, all rows; errors of images per second, with sign."""
    rows = published()
    for seen in (SEEN, ("Piz Daint",), ("Horovod 25 Gb/s RoCE", "Piz Daint", "Facebook P100")):
        parts = split(rows, seen)
        expect(parts is not None and len(parts) == 2, f"split returns two lists, not {parts!r}.")
        on_both = {row.system for row in parts[0]} & {row.system for row in parts[1]}
        expect(not on_both, f"seen = {seen}: these systems are on both sides: {', '.join(sorted(on_both))}.")
        expect.equal({row.system for row in parts[0]}, set(seen), f"seen = {seen}: systems that are seen")
        expect.equal(len(parts[0]) + len(parts[1]), len(rows), f"seen = {seen}: rows on both sides")
    for factor in (1.25, 0.5, 2.0):
        expect_errors(errors, step, factor)  # a published step so many times as long as the predicted

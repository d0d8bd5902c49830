"""From a reading and its hardware to a verdict: what was to be expected, what was measured, how
sure that is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from labkit.scaling import costs
from labkit.timing import digits, human

from verdict.hardware import Hardware, Link
from verdict.readings import PAIRS, Reading, Row

EXPECTED, SLOWER = "as expected", "slower than expected"
FASTER, NONE = "faster than the hardware allows", "no verdict"
FAR = 0.4  # below this share, no doubt about the link changes the verdict
ENOUGH = 0.8  # from this share of what is known to be reached on, a rate is as expected
LONG = 1 << 16  # bytes from which on a call may show a bandwidth
_FORMS = {
    "allreduce": {
        "ring": costs.ring_allreduce_time,
        "tree": costs.tree_allreduce_time,
        "recursive doubling": costs.recursive_doubling_allreduce_time,
        "halving and doubling": costs.rabenseifner_allreduce_time,
    },
    "allgather": {"ring": costs.ring_allgather_time},
    "reduce_scatter": {"ring": costs.ring_allgather_time},
    "broadcast": {"tree": costs.tree_broadcast_time},
}
_ABOVE = {
    "allreduce": "That is above the rate of the link, as an allreduce can be whose switches add"
    " (NVLS, SHARP) or that adds inside a node first (trees on two nodes), or where an NVLink"
    " bridge is beside the PCI slots. NCCL_ALGO=RING shows the link alone.",
    "": "That is above the rate that is given for the link: it is an estimate or a median, or there"
    " is another link.",
}


@dataclass(frozen=True)
class Expectation:
    """Bus bandwidths in bytes per second. bound: of the link; reached: what it is known to give;
    most: what no algorithm passes, not even one whose switches add. what: the link in words."""

    bound: float
    reached: float
    most: float
    what: str
    source: str


@dataclass
class Verdict:
    """word: one of the four above. ratio: measured over what is known to be reached.

    reasons: sentences behind the word. doubts: what lowers the confidence. best: the algorithm that
    fits best, in words. floor: seconds that the bytes do not explain; of_bytes(size): those that
    they do.
    """

    word: str
    reading: Reading
    hardware: Hardware
    ranks: int | None = None
    expectation: Expectation | None = None
    ratio: float | None = None
    measured: float | None = None
    reasons: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    best: str = ""
    floor: float = 0.0

    @property
    def confidence(self) -> str:
        return ("high", "medium", "low")[min(2, len(self.doubts))]

    @property
    def parts(self) -> int:
        """The whole array over the printed size: OSU prints one rank's part of some."""
        whole = self.reading.tool.startswith("OSU") and self.reading.test in (
            "allgather",
            "alltoall",
        )
        return self.ranks if whole else 1

    @property
    def factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth, by the formulas of nccl-tests."""
        if self.reading.test in PAIRS:
            return 1.0
        return costs.busbw(1, 1, self.ranks, self.reading.test)

    @property
    def fits_few_links(self) -> bool:
        """Whether a slow result is what the links between so few GPUs give without a switch."""
        link = self.hardware.inside
        if self.word != SLOWER or not self.measured or self.hardware.nodes > 1 or not link.pair:
            return False
        others = 1 if self.reading.test in (*PAIRS, "sendrecv") else self.ranks - 1
        fewest, most = (others * rate / link.line for rate in link.pair)
        return ENOUGH * fewest <= self.ratio and self.measured <= most * self.expectation.bound

    def algbw(self, row: Row) -> float:
        return self.parts * row.size / row.seconds

    def bus(self, row: Row) -> float:
        return self.factor * self.algbw(row)

    def of_bytes(self, row: Row) -> float:
        return self.parts * row.size * self.factor / self.expectation.reached


def judge(reading: Reading, hardware: Hardware) -> Verdict:
    """The verdict on one table."""
    verdict = Verdict(NONE, reading, hardware, ranks_of(reading, hardware))
    problem = _unusable(verdict)
    if not problem:
        verdict.expectation = expect(reading, hardware, verdict.ranks)
        problem = "" if verdict.expectation else _unknown(reading, hardware)
    if problem:
        verdict.reasons.append(problem)
        return verdict
    short = [row.seconds for row in reading.rows if verdict.of_bytes(row) < 0.2 * row.seconds]
    verdict.floor = min(short, default=0.0)
    if not _too_fast(verdict):
        _bandwidth(verdict)
        _latency(verdict)
        verdict.best = _best(verdict)
    _doubt(verdict)
    return verdict


def ranks_of(reading: Reading, hardware: Hardware) -> int | None:
    """How many ranks took part: two, as the output tells, as was typed, or as the machine has."""
    if reading.test in PAIRS:
        return 2
    if hardware.ranks and reading.could_be_of(hardware.ranks):
        return hardware.ranks
    of_machine = hardware.nodes * hardware.per_node if hardware.per_node else None
    return reading.counted or hardware.ranks or of_machine


def _unusable(verdict: Verdict) -> str:
    reading, ranks, nodes = verdict.reading, verdict.ranks, verdict.hardware.nodes
    rows, dropped = len(reading.rows), reading.dropped
    if not rows and "commas" in reading.facts:
        return "The numbers have commas: run the benchmark with LC_ALL=C, for points."
    if not rows or dropped > rows / 2:
        return (
            f"{dropped} of {rows + dropped} rows contradict themselves: their size, time and"
            " bandwidths do not fit, or are no numbers. The text is damaged."
        )
    if ranks is None:
        return "The output does not say how many ranks took part. Type NODES=2 GPUS=8 (of a node)."
    if not 2 <= ranks <= 10**6 or ranks < nodes:
        return (
            f"{ranks} rank(s) on {nodes} node(s) send nothing through a link, so there is no"
            " bandwidth to judge."
        )
    return ""


def _unknown(reading: Reading, hardware: Hardware) -> str:
    if hardware.nodes > 1:
        return (
            f"The ranks are on {hardware.nodes} nodes, and nobody said what connects them. Type"
            " the cards of a node, NIC=200Gb/s NICS=4, or a machine, MACHINE=h100_ndr."
        )
    gpu = f" of {reading.gpu}" if reading.gpu else ""
    return (
        f"The links{gpu} are not known. Type what the link of a rank carries in one direction,"
        " LINK=25GB/s, or a machine, MACHINE=dgx1."
    )


def expect(reading: Reading, hardware: Hardware, ranks: int) -> Expectation | None:
    """What this hardware should reach in this test; None where it is not known."""
    inside, card, nodes = hardware.inside, hardware.card, hardware.nodes
    if (inside if nodes == 1 else card) is None:
        endless = float("inf")
        by_latency = reading.test == "latency" and hardware.latency
        return Expectation(endless, endless, endless, "the link", "") if by_latency else None
    if nodes == 1:
        return _inside(reading, hardware, inside, ranks)
    cards = min(hardware.cards, max(1, ranks // nodes))  # a GPU uses the card next to it
    share = _shares(reading.test, ranks, nodes, cards)[0]
    most = max(card.line, card.most) * max(_shares(reading.test, ranks, nodes, hardware.cards))
    what = f"{cards} network cards of a node" if cards > 1 else "the network card of a node"
    through = inside and ranks > nodes and reading.test not in (*PAIRS, "alltoall")
    if through and inside.reached < card.reached * share:
        most = min(most, _most(reading.test, inside, ranks))
        return Expectation(
            inside.line, inside.reached, most, "the link inside a node", inside.source
        )
    return Expectation(card.line * share, card.reached * share, most, what, card.source)


def _shares(test: str, ranks: int, nodes: int, cards: int) -> tuple[float, float]:
    """(bus bandwidth of a ring, of the best algorithm), in rates of one card.

    A ring passes each node's cards once. The best reduces inside the node first: from a node go
    2(m-1)/m of the vector, or all of it where the switches between the m nodes add (SHARP).
    """
    share = (ranks - 1) / ranks
    if test == "allreduce":
        return cards, cards * 2 * share
    if test in ("allgather", "reduce_scatter"):
        return cards, cards * share * nodes / (nodes - 1)
    if test == "alltoall":
        per_node = max(1, ranks // nodes)
        through = cards / per_node * (ranks - 1) / max(1, ranks - per_node)
        return through, through
    if test == "bidirectional":
        return 2, 2 * cards
    return (1 if test in ("latency", "bandwidth", "sendrecv") else cards), cards


def _inside(reading: Reading, hardware: Hardware, link: Link, ranks: int) -> Expectation:
    reached = link.reached
    times = {"bidirectional": 2, "pairs": reading.pairs}.get(reading.test, 1)
    if reading.test == "allreduce" and link.in_switch and "ring" not in reading.facts:
        rows = [rate for count, rate in sorted(link.in_switch.items()) if count <= ranks]
        reached = max([reached, *rows[-1:]])
    if reading.test == "allreduce":
        # Each byte of the result is added once, for every two that a rank sends.
        reached = 1 / (1 / reached + hardware.gamma / 2)
    most = _most(reading.test, link, ranks)
    adds = hardware.gamma and reading.test == "allreduce"
    what = "the link inside a node" + (", with the ranks' additions" if adds else "")
    return Expectation(times * link.line, times * reached, times * most, what, link.source)


def _most(test: str, link: Link, ranks: int) -> float:
    """Of a link whose switch may add: an allreduce then sends 1 + 1/p of the vector, not 2(p-1)/p
    (NCCL's maintainers, NVIDIA/nccl-tests issue 212)."""
    adds = test == "allreduce" and link.in_switch != {}
    return max(link.line * (2 * (ranks - 1) / (ranks + 1) if adds else 1), link.line, link.most)


def _doubt(verdict: Verdict) -> None:
    reading, hardware, source = verdict.reading, verdict.hardware, verdict.expectation.source
    doubts, printed = verdict.doubts, reading.factor
    if verdict.fits_few_links:
        doubts.append("on a board without a switch so few GPUs have only some of their links")
    if verdict.word != SLOWER or verdict.ratio > FAR:
        if hardware.guessed and hardware.nodes == 1:
            doubts.append(f"the links are those usual for {reading.gpu}")
        if "of the typed rate" in source:
            doubts.append("only the rate of the link was typed")
        if source.startswith("estimate"):
            doubts.append("the machine's number is an estimate")
        if source.startswith("measured"):
            doubts.append("the link was measured with one pair of ranks")
    if reading.dropped:
        doubts.append(f"{reading.dropped} damaged rows were left out")
    if printed and abs(printed / verdict.factor - 1) > 0.1:
        doubts.append(
            f"the printed busbw is {printed:.3g} times size / time, where {reading.test} on"
            f" {verdict.ranks} ranks has {verdict.factor:.3g}"
        )
    if "failed" in reading.facts or any(row.wrong for row in reading.rows):
        doubts.append("the benchmark's check failed")
        verdict.reasons.append(
            "The benchmark found wrong values, so these are not times of a correct collective."
            " Solve that first."
        )


def _too_fast(verdict: Verdict) -> bool:
    """Whether a long call is above what no algorithm passes."""
    found = verdict.expectation
    long = [row for row in verdict.reading.rows if row.size >= LONG]
    # One row of many may be damaged, the second fastest then counts.
    fastest = sorted(long, key=verdict.bus)[-2 if len(long) > 2 else -1 :][:1]
    if not fastest or verdict.bus(fastest[0]) < 1.03 * found.most:
        return False
    fastest = fastest[0]
    verdict.word, verdict.measured = FASTER, verdict.bus(fastest)
    verdict.ratio = verdict.measured / found.reached
    verdict.reasons.append(
        f"{fastest.size} bytes in {human(fastest.seconds)} need {digits(verdict.measured / 1e9)}"
        f" GB/s through {found.what}, which carries {digits(found.bound / 1e9)}, and no algorithm"
        f" passes {digits(found.most / 1e9)}. So the formula or the clock is wrong, or the hardware"
        " is another one: did the clock stop before the data arrived, is the size that of all"
        " ranks, are the ranks on one node?"
    )
    return True


def _bandwidth(verdict: Verdict) -> None:
    """By the longest calls: what latency and bytes should take, over what they took."""
    rows, found = verdict.reading.rows, verdict.expectation
    long = [row for row in rows if verdict.of_bytes(row) > 3 * verdict.floor and row.size >= LONG]
    cliff = _cliff(verdict)
    if cliff and cliff not in long:
        long = [row for row in rows if row.size >= cliff.size]
    if not long and found.bound < float("inf"):
        verdict.reasons.append(
            f"Up to {rows[-1].size} bytes the latency decides, so the link's bandwidth cannot be"
            " seen. Measure larger sizes, up to some GiB (-e 8G)."
        )
    if not long:
        return
    last = long[-3:]
    shares = [(verdict.floor + verdict.of_bytes(row)) / row.seconds for row in last]
    verdict.ratio = float(np.median(shares))
    verdict.measured = max(map(verdict.bus, last))
    verdict.word = EXPECTED if verdict.ratio >= ENOUGH else SLOWER
    if cliff and verdict.word == SLOWER:
        verdict.reasons.append(
            f"From {cliff.size} bytes on, calls take many times as long as shorter calls suggest."
        )
    if abs(verdict.ratio - ENOUGH) < 0.1:
        verdict.doubts.append(f"the ratio is near the limit of {ENOUGH:.0%}")
    if len(long) < 2:
        verdict.doubts.append("only one size is long enough")
    elif FAR < verdict.ratio < 0.9 and verdict.bus(last[-1]) > 1.08 * verdict.bus(last[-2]):
        verdict.doubts.append("the bandwidth still rises with the size")
    if verdict.word == EXPECTED and verdict.measured > 1.02 * found.bound:
        verdict.reasons.append(_ABOVE.get(verdict.reading.test, _ABOVE[""]))


def _cliff(verdict: Verdict) -> Row | None:
    """The first row from which on all take five times what latency and bytes explain."""
    steep = None
    for row in reversed(verdict.reading.rows):
        explained = verdict.floor + verdict.of_bytes(row)
        if row.seconds < 5 * explained or verdict.expectation.bound == float("inf"):
            break
        steep = row
    return steep if steep is not verdict.reading.rows[0] else None


def _latency(verdict: Verdict) -> None:
    """Of a ping-pong: short messages, where it is known what they take."""
    known = verdict.hardware.latency
    short = [row.seconds for row in verdict.reading.rows if row.size <= 64]
    if verdict.reading.test != "latency" or not short:
        return
    if known is None:
        verdict.reasons.append("What a short message should take is not known: LATENCY=1.5us.")
        return
    ratio = known / float(np.median(short))
    verdict.reasons.append(
        f"A short message takes {human(known / ratio)}, where {human(known)} is known"
        f" ({verdict.hardware.latency_source})."
    )
    if 0.4 < ratio < 0.65:
        verdict.doubts.append("the latency is near the limit of twice the known one")
    if ratio > 20:
        verdict.reasons.append("So the clock is wrong, or both ranks are on one node.")
    if verdict.word == NONE or not 0.5 <= ratio <= 20:
        verdict.word = SLOWER if ratio < 0.5 else EXPECTED if ratio <= 20 else FASTER
        verdict.ratio, verdict.measured = ratio, None


def _best(verdict: Verdict) -> str:
    """The closed form nearest to the measured times, with α fitted and β that of the link."""
    forms = _FORMS.get(verdict.reading.test, {})
    rows = [row for row in verdict.reading.rows if row.size]
    if not forms or len(rows) < 4:
        return ""
    times = np.array([row.seconds for row in rows])
    beta = 1 / verdict.expectation.reached
    misfits = {}
    for name, form in forms.items():
        sizes = [verdict.parts * row.size for row in rows]
        messages = np.array([form(n, verdict.ranks, 1.0, 0.0) for n in sizes]) / times
        of_bytes = np.array([form(n, verdict.ranks, 0.0, beta) for n in sizes]) / times
        alpha = max(0.0, float(messages @ (1 - of_bytes) / (messages @ messages)))
        misfits[name] = float(np.sqrt(np.mean((alpha * messages + of_bytes - 1) ** 2)))
    least = min(misfits.values())
    near = [name for name, misfit in misfits.items() if misfit < 1.05 * least + 1e-3]
    if len(near) == len(forms) > 1:
        return f"the forms do not differ at these sizes, and are {least:.0%} off"
    names = " or ".join(near)
    return f"{names}, {least:.0%} off" if least < 0.5 else f"none; {names} is {least:.0%} off"

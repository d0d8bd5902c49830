"""The facts of a log of NCCL, collected line by line, and placed by communicator."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from support.lab43 import nccl_lines as lines
from support.lab43 import nccl_warnings

# What belongs to one communicator, and can be placed only when all lines are known.
PLACED = {
    "rank": lines.RANK,
    "link": lines.LINK,
    "ring": lines.RING,
    "next": lines.NEXT,
    "trees": lines.TREES,
    "channels": lines.CHANNELS,
}


@dataclass
class Facts:
    """What the lines told. placed: (thread, kind, match) of the kinds in PLACED, in the order of the log."""

    lines: int = 0
    version: str | None = None
    networks: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    nic_gdrdma: dict[int, bool] = field(default_factory=dict)
    nvls: bool | None = None
    choices: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    placed: list[tuple] = field(default_factory=list)

    @cached_property
    def size(self) -> int | None:
        """Ranks of the largest communicator: a program may make smaller ones too (Horovod: of each node)."""
        return max((int(match["size"]) for _, kind, match in self.placed if kind == "rank"), default=None)

    @cached_property
    def _sizes(self) -> list[int | None]:
        """For each item of `placed`, the size of its communicator, or None.

        A thread's lines between Init START and Init COMPLETE are of that communicator. Before NCCL 2.18 there
        is no START: then they are of the next COMPLETE. Lines without host and process: None.
        """
        starts = any(kind == "rank" and match["state"] == "START" for _, kind, match in self.placed)
        order = list(enumerate(self.placed))
        sizes: list[int | None] = [None] * len(order)
        size_now: dict[tuple, int] = {}  # by thread
        for place, (thread, kind, match) in order if starts else reversed(order):
            if kind == "rank":
                sizes[place] = int(match["size"])
                if match["state"] == "START" or not starts:
                    size_now[thread] = int(match["size"])
                else:
                    size_now.pop(thread, None)
            elif thread[0] is not None:
                sizes[place] = size_now.get(thread)
        return sizes

    def _of(self, wanted: str):
        """(thread, match, size) of that kind, in the largest communicator or in one that is not known."""
        for (thread, kind, match), size in zip(self.placed, self._sizes, strict=True):
            if kind == wanted and size in (None, self.size):
                yield thread, match, size

    def ranks(self) -> dict[int, dict]:
        """rank -> where it is, and whether its initialisation is complete."""
        ranks: dict[int, dict] = {}
        for (host, pid, _), match, _ in self._of("rank"):
            number = int(match["rank"])
            known = ranks.get(number, {})
            ranks[number] = {
                "host": host,
                "pid": int(pid) if pid else None,
                "device": int(match["device"]),
                "bus": match["bus"],
                "complete": match["state"] == "COMPLETE" or known.get("complete", False),
            }
        return ranks

    def links(self) -> list[dict]:
        """Connections, in the order of the log."""
        return [
            {
                "channel": int(match["channel"]),
                "source": int(match["source"]),
                "dest": int(match["dest"]),
                "via": match["via"],
                "size": size,
            }
            for _, match, size in self._of("link")
        ]

    def rings(self) -> dict[int, list[int]]:
        """channel -> ranks in order: as printed, else put together from every rank's neighbours."""
        follows: dict[int, dict[int, int]] = {}
        for _, match, _ in self._of("next"):
            follows.setdefault(int(match["channel"]), {})[int(match["rank"])] = int(match["after"])
        walked = {channel: _walk(after) for channel, after in follows.items()}
        rings = {channel: ring for channel, ring in walked.items() if ring}
        for _, match, _ in self._of("ring"):
            rings[int(match["channel"])] = [int(rank) for rank in match["ranks"].split()]
        return dict(sorted(rings.items()))

    def trees(self) -> dict[int, dict[int, tuple]]:
        """channel -> {rank: (up, [down, …])}."""
        trees: dict[int, dict[int, tuple]] = {}
        for _, match, _ in self._of("trees"):
            for channel, *down, rank, up in lines.TREE.findall(match["trees"]):
                parent = None if up == "-1" else int(up)
                children = [int(child) for child in down if child != "-1"]
                trees.setdefault(int(channel), {})[int(rank)] = (parent, children)
        return trees

    def channels(self) -> int | None:
        """Channels (rings or trees side by side) that a collective may use."""
        return max((int(match["rings"]) for _, match, _ in self._of("channels")), default=None)


def collect(text: str) -> Facts:
    """The facts in `text`."""
    facts = Facts()
    for line in text.splitlines():
        if "NCCL" not in line and "nccl" not in line and "unhandled" not in line:
            continue
        version = lines.VERSION.search(line)
        if version:
            facts.version = facts.version or version["version"]
            facts.lines += 1
        messages = list(lines.messages(line))
        for head, message in messages:
            facts.lines += 1
            if head["level"] == "WARN":
                facts.warnings.append(message)
            else:
                _take(facts, (head["host"], head["pid"], head["thread"]), message)
        error = None if messages else nccl_warnings.of_error(line)
        if error:
            facts.errors.append(error)
    return facts


def _take(facts: Facts, thread: tuple, message: str) -> None:
    """Add what one message tells; messages of no interest tell nothing."""
    for kind, pattern in PLACED.items():
        match = pattern.search(message)
        if match:
            facts.placed.append((thread, kind, match))
    for pattern, add in _ADD:
        match = pattern.search(message)
        if match:
            add(facts, match)


def _network(facts: Facts, match) -> None:
    if match["network"] not in facts.networks:
        facts.networks.append(match["network"])


def _devices(facts: Facts, match) -> None:
    facts.devices += [name for name in lines.DEVICE.findall(match["devices"]) if name not in facts.devices]


def _nic(facts: Facts, match) -> None:
    facts.nic_gdrdma[int(match["number"])] = match["state"] == "Enabled"


def _nvls(facts: Facts, match) -> None:
    facts.nvls = not match["no"]


def _nvls_channels(facts: Facts, match) -> None:
    if match["nvls"] is not None:
        facts.nvls = int(match["nvls"]) > 0


def _choice(facts: Facts, match) -> None:
    time = match["time"]
    low = match["low"]
    facts.choices.append(
        {
            "function": match["function"],
            "bytes": int(match["bytes"]),
            "algorithm": lines.named(match["algorithm"], lines.ALGORITHMS),
            "protocol": lines.named(match["protocol"], lines.PROTOCOLS),
            "seconds": float(time) * 1e-6 if time else None,
            "channels": int(match["high"]) - int(low) + 1 if low else None,
        }
    )


def _walk(follows: dict[int, int]) -> list[int]:
    """The ring from rank 0 on, if every rank told who follows; [] otherwise."""
    ring = [0]
    after = follows.get(0)
    while after not in (None, 0) and len(ring) <= len(follows):
        ring.append(after)
        after = follows.get(after)
    return ring if after == 0 and set(ring) == set(follows) else []


_ADD = [
    (lines.NETWORK, _network),
    (lines.DEVICES, _devices),
    (lines.NIC_GDR, _nic),
    (lines.NVLS, _nvls),
    (lines.CHANNELS, _nvls_channels),
    (lines.CHOICE, _choice),
]

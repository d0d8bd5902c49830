"""Collects the facts of a log of NCCL, line by line, for nccl_log."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from support.lab43 import nccl_lines as lines
from support.lab43 import nccl_warnings

# What belongs to one communicator, and can be placed only when all lines are known.
_PLACED = {
    "rank": lines.RANK,
    "link": lines.LINK,
    "ring": lines.RING,
    "next": lines.NEXT,
    "trees": lines.TREES,
    "channels": lines.CHANNELS,
}


@dataclass
class Facts:
    """What the lines said. said: (thread, kind, match) of the kinds in _PLACED, in the order of the log."""

    lines: int = 0
    version: str | None = None
    networks: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    nic_gdrdma: dict[int, bool] = field(default_factory=dict)
    nvls: bool | None = None
    choices: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    said: list[tuple] = field(default_factory=list)

    @cached_property
    def size(self) -> int | None:
        """Ranks of the largest communicator: a program may make smaller ones too (Horovod: of each node)."""
        return max((int(match["size"]) for _, kind, match in self.said if kind == "rank"), default=None)

    @cached_property
    def _sizes(self) -> list[int | None]:
        """For each item of `said`, the size of its communicator, or None.

        A thread's lines between Init START and Init COMPLETE are of that communicator. Before NCCL 2.18 there
        is no START: then they are of the next COMPLETE. Lines without host and process: None.
        """
        starts = any(kind == "rank" and match["state"] == "START" for _, kind, match in self.said)
        order = list(enumerate(self.said))
        sizes: list[int | None] = [None] * len(order)
        now: dict[tuple, int] = {}
        for place, (thread, kind, match) in order if starts else reversed(order):
            if kind == "rank":
                sizes[place] = int(match["size"])
                if match["state"] == "START" or not starts:
                    now[thread] = int(match["size"])
                else:
                    now.pop(thread, None)
            elif thread[0] is not None:
                sizes[place] = now.get(thread)
        return sizes

    def _of(self, wanted: str):
        """(thread, match, size) of that kind, in the largest communicator or in one that is not known."""
        for (thread, kind, match), size in zip(self.said, self._sizes, strict=True):
            if kind == wanted and size in (None, self.size):
                yield thread, match, size

    def ranks(self) -> dict[int, dict]:
        """rank -> where it is, and whether its initialisation is complete."""
        found: dict[int, dict] = {}
        for (host, pid, _), match, _ in self._of("rank"):
            number, complete = int(match["rank"]), match["state"] == "COMPLETE"
            complete = complete or found.get(number, {}).get("complete", False)
            where = {"host": host, "pid": int(pid) if pid else None, "device": int(match["device"])}
            found[number] = {**where, "bus": match["bus"], "complete": complete}
        return found

    def links(self) -> list[dict]:
        """Connections, in the order of the log."""
        numbers = ("channel", "source", "dest")
        return [
            {**{name: int(match[name]) for name in numbers}, "via": match["via"], "size": size}
            for _, match, size in self._of("link")
        ]

    def rings(self) -> dict[int, list[int]]:
        """channel -> ranks in order: as printed, else put together from every rank's neighbours."""
        follows: dict[int, dict[int, int]] = {}
        for _, match, _ in self._of("next"):
            follows.setdefault(int(match["channel"]), {})[int(match["rank"])] = int(match["after"])
        found = {channel: ring for channel, after in follows.items() if (ring := _walk(after))}
        for _, match, _ in self._of("ring"):
            found[int(match["channel"])] = [int(rank) for rank in match["ranks"].split()]
        return dict(sorted(found.items()))

    def trees(self) -> dict[int, dict[int, tuple]]:
        """channel -> {rank: (up, [down, …])}."""
        found: dict[int, dict[int, tuple]] = {}
        for _, match, _ in self._of("trees"):
            for channel, *down, rank, up in lines.TREE.findall(match["trees"]):
                below = [int(child) for child in down if child != "-1"]
                found.setdefault(int(channel), {})[int(rank)] = (None if up == "-1" else int(up), below)
        return found

    def channels(self) -> int | None:
        """Channels (rings or trees side by side) that a collective may use."""
        return max((int(match["rings"]) for _, match, _ in self._of("channels")), default=None)


def collect(text: str) -> Facts:
    """The facts in `text`."""
    facts = Facts()
    for line in text.splitlines():
        if "NCCL" not in line and "nccl" not in line and "unhandled" not in line:
            continue
        if found := lines.VERSION.search(line):
            facts.version, facts.lines = facts.version or found["version"], facts.lines + 1
        said = list(lines.messages(line))
        for head, message in said:
            facts.lines += 1
            if head["level"] == "WARN":
                facts.warnings.append(message)
            else:
                _take(facts, (head["host"], head["pid"], head["thread"]), message)
        if not said and (error := nccl_warnings.of_error(line)):
            facts.errors.append(error)
    return facts


def _take(facts: Facts, thread: tuple, text: str) -> None:
    """Add what one message says; messages of no interest say nothing."""
    for kind, pattern in _PLACED.items():
        if found := pattern.search(text):
            facts.said.append((thread, kind, found))
    for pattern, add in _ADD:
        if found := pattern.search(text):
            add(facts, found)


def _network(facts: Facts, found) -> None:
    if found["network"] not in facts.networks:
        facts.networks.append(found["network"])


def _devices(facts: Facts, found) -> None:
    facts.devices += [name for name in lines.DEVICE.findall(found["devices"]) if name not in facts.devices]


def _nic(facts: Facts, found) -> None:
    facts.nic_gdrdma[int(found["number"])] = found["state"] == "Enabled"


def _nvls(facts: Facts, found) -> None:
    facts.nvls = not found["no"]


def _nvls_channels(facts: Facts, found) -> None:
    if found["nvls"] is not None:
        facts.nvls = int(found["nvls"]) > 0


def _choice(facts: Facts, found) -> None:
    time, low = found["time"], found["low"]
    facts.choices.append(
        {
            "function": found["function"],
            "bytes": int(found["bytes"]),
            "algorithm": lines.named(found["algorithm"], lines.ALGORITHMS),
            "protocol": lines.named(found["protocol"], lines.PROTOCOLS),
            "seconds": float(time) * 1e-6 if time else None,
            "channels": int(found["high"]) - int(low) + 1 if low else None,
        }
    )


def _walk(follows: dict[int, int]) -> list[int]:
    """The ring from rank 0 on, if every rank told who follows; [] otherwise."""
    ring = [0]
    while (after := follows.get(ring[-1])) is not None and after != 0 and len(ring) <= len(follows):
        ring.append(after)
    return ring if after == 0 and set(ring) == set(follows) else []


_ADD = [
    (lines.NETWORK, _network),
    (lines.DEVICES, _devices),
    (lines.NIC_GDR, _nic),
    (lines.NVLS, _nvls),
    (lines.CHANNELS, _nvls_channels),
    (lines.CHOICE, _choice),
]

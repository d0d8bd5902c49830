"""What a person may ask of a tabletop cluster, read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from labkit.errors import LabError

CPUS = 16  # declared per node, so that more ranks than cores can be scheduled
MOST_NODES = 32
_RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"us": 1, "ms": 1000, "s": 1_000_000}


@dataclass(frozen=True)
class Settings:
    """A cluster as asked for: rate of each direction of a node's link [bit/s], latency one way
    [us]."""

    nodes: int
    rate: int
    latency: int
    gpus: int

    def as_shell(self) -> str:
        """The assignments that the shell scripts source."""
        return f"nodes={self.nodes} rate={self.rate} latency={self.latency} gpus={self.gpus}\n"

    @staticmethod
    def from_shell(text: str) -> Settings:
        """The inverse of as_shell."""
        return Settings(**{key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", text)})

    def __str__(self) -> str:
        delay = f", {self.latency / 1000:g} ms one way" if self.latency else ""
        return f"{self.nodes} nodes, {spell_rate(self.rate)}{delay}, {self.gpus} GPUs each"


def spell_rate(rate: float) -> str:
    """200000000 -> '200mbit'."""
    unit = next((unit for unit in ("gbit", "mbit") if rate >= _RATES[unit]), "kbit")
    return f"{rate / _RATES[unit]:g}{unit}"


def _whole(name: str, value: object, least: int, most: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise LabError(f"{name}={value} will not do: give a whole number from {least} to {most}.")
    return number


def read_rate(text: str) -> int:
    """'200mbit' -> 200000000 [bit/s]. LabError when it is not a rate from 1mbit to 10gbit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]bit)", str(text).strip().lower())
    rate = round(float(match[1]) * _RATES[match[2]]) if match else 0
    if not 1e6 <= rate <= 10e9:
        raise LabError(
            f"BANDWIDTH={text} will not do: give a rate from 1mbit to 10gbit, such as"
            " BANDWIDTH=200mbit."
        )
    return rate


def read_latency(text: str | None) -> int:
    """'1ms' -> 1000 [us]; None or '' -> 0. LabError when it is not a time up to 1s."""
    if text in (None, "", "0"):
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", str(text).strip().lower())
    delay = round(float(match[1]) * _TIMES[match[2]]) if match else 0
    if not 1 <= delay <= 1_000_000:
        raise LabError(
            f"LATENCY={text} will not do: give a time from 1us to 1s, such as LATENCY=500us."
        )
    return delay


def read_name(text: str) -> str:
    """A cluster's name, which becomes a folder's. LabError when it is none."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,29}", str(text)):
        raise LabError(
            f"NAME={text} will not do: a small letter, then up to 29 small letters, digits, _ or -."
        )
    return str(text)


def read(nodes: object, bandwidth: str, latency: str | None, gpus: object) -> Settings:
    """All four from what was typed. Raises LabError."""
    return Settings(
        nodes=_whole("NODES", nodes, 1, MOST_NODES),
        rate=read_rate(bandwidth),
        latency=read_latency(latency),
        gpus=_whole("GPUS", gpus, 0, 8),
    )


def read_node(value: object, nodes: int) -> int:
    """A node's number, 1 to `nodes`; 'node2' is 2. LabError when there is no such node."""
    text = str(value).removeprefix("node")
    if not text.isdecimal() or not 1 <= int(text) <= nodes:
        names = " ".join(f"node{number}" for number in range(1, nodes + 1))
        raise LabError(f"NODE={value} is not a node of this cluster. Its nodes: {names}.")
    return int(text)

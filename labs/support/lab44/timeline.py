"""Tensors, and what can be read from the timeline that Horovod writes about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from labkit.horovod import timeline

PHASES = {  # what a line of the timeline begins, and what we call it
    "NEGOTIATE_ALLREDUCE": "negotiate",
    "MEMCPY_IN_FUSION_BUFFER": "copy in",
    "MPI_ALLREDUCE": "sum",
    "GLOO_ALLREDUCE": "sum",
    "NCCL_ALLREDUCE": "sum",
    "MEMCPY_OUT_FUSION_BUFFER": "copy out",
}


class Tensor(NamedTuple):
    """A gradient. bytes; dtype: "float32" or "float64"; ready: seconds after its step began."""

    name: str
    bytes: int
    dtype: str = "float32"
    ready: float = 0.0

    def zeros(self, device: str = "cpu"):
        """A PyTorch tensor of this length and type."""
        import torch

        dtype = getattr(torch, self.dtype)
        return torch.zeros(self.bytes // dtype.itemsize, dtype=dtype, device=device)


def tensors(text: str) -> list[Tensor]:
    """Tensors from "a:40 b:8:float64": names, bytes, types."""
    parts = [part.split(":") for part in text.split()]
    return [Tensor(name, int(size), *dtype) for name, size, *dtype in parts]


def limit(threshold: int, ranks_on_node: int) -> int:
    """The bytes that may travel together, which Horovod makes of its threshold.

    The next multiple of 512 bytes, 64 values of float64, times the ranks on a node
    (Controller::TensorFusionThresholdBytes in controller.cc, 0.28.1).
    """
    unit = 512 * ranks_on_node
    return -(-threshold // unit) * unit


class Line(NamedTuple):
    """One line of a timeline. when [us]; kind: "B" begin, "E" end, "X" a rank is ready, "i" a look begins."""

    when: int
    tensor: str
    kind: str
    name: str


def lines(events: Sequence[dict]) -> list[Line]:
    """The lines that tell what happened; an end has no name, a look ("CYCLE_START") no tensor."""
    headers = [event for event in events if event["ph"] == "M" and "name" in event["args"]]
    names = {event["pid"]: event["args"]["name"] for event in headers}
    return [
        Line(event["ts"], names.get(event.get("pid"), ""), event["ph"], event.get("name", ""))
        for event in events
        if event["ph"] != "M"
    ]


def spent(events: list[dict]) -> dict[str, dict[str, int]]:
    """{tensor: {phase: us}}, over all steps of the timeline."""
    table: dict[str, dict[str, int]] = {}
    over: dict[str, float] = {}
    for activity in timeline.activities(events):
        phases = table.setdefault(activity.tensor, dict.fromkeys((*PHASES.values(), "queue"), 0))
        if activity.name in PHASES:
            phases[PHASES[activity.name]] += round(1e6 * activity.seconds)
        if activity.name == "ALLREDUCE":
            phases["queue"] += round(1e6 * (activity.start - over[activity.tensor]))
        over[activity.tensor] = activity.start + activity.seconds
    return table


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much lies in at least one of these spans (from, to): what several cover counts once."""
    total = 0
    end = float("-inf")
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def sent(events: list[dict], first: int) -> list[list[str]]:
    """Names of the `first` tensors that went, call by call: what travelled together."""
    calls: list[list[str]] = []
    for call in timeline.collectives(events):
        if sum(map(len, calls)) >= first:
            break
        calls.append(call.tensors)
    return calls


def asked_in(events: list[dict], steps: Sequence[Sequence]) -> list[int]:
    """For each step: of how many tensors rank 0 noted, rank by rank, who had them ready."""
    counts: list[int] = []
    asked = set()
    ended = 0
    for event in events:
        if event["ph"] == "X":
            asked.add(event["pid"])
        ended += "shape" in event.get("args", {})
        if len(counts) < len(steps) and ended == len(steps[len(counts)]):
            counts.append(len(asked))
            asked.clear()
            ended = 0
    return counts


def story(text: str) -> list[Line]:
    """Lines from "when tensor kind name" each; "-" stands for nothing."""
    rows = [row.split() for row in text.strip().splitlines()]
    return [Line(int(when), *("" if word == "-" else word for word in rest)) for when, *rest in rows]

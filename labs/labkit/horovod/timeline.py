"""Read the timeline that Horovod writes (HOROVOD_TIMELINE=file): which library carried which
tensors.

It is a list of Chrome trace events. Every tensor has a row (`pid`) with nested pairs of begin
(`"ph": "B"`) and end (`"E"`), times in microseconds. NEGOTIATE_ALLREDUCE and ALLREDUCE are
Horovod's own (waiting for all ranks; the whole request); inside, MPI_ALLREDUCE, GLOO_ALLREDUCE,
NCCL_ALLREDUCE … name the library. A job that is killed leaves the list without its end. Lab 42
teaches it. Names and order of events: Horovod 0.28.1's horovod/common/timeline.cc and common.h, and
the files it wrote here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import LabError

# What moved the data. MEMCPY_…, QUEUE, WAIT_FOR_…, INIT_NCCL and NEGOTIATE_… did not.
OPERATION = re.compile(
    r"(MPI|GLOO|NCCL|CCL|DDL)_(?:\w+_)?(?:ALLREDUCE|ALLGATHER|BCAST|BROADCAST|ALLTOALL|REDUCE|REDUCESCATTER)"
)


@dataclass
class Activity:
    """One activity of one tensor. start, seconds: by the timeline's clock; seconds None: it never
    ended."""

    tensor: str
    name: str
    start: float
    seconds: float | None = None


@dataclass
class Collective:
    """One call of a communication library: its name in the timeline, and the tensors that it
    carried together (several: Horovod had packed them into its fusion buffer)."""

    name: str
    parts: list[Activity] = field(default_factory=list)

    @property
    def backend(self) -> str:
        return self.name.split("_")[0]

    @property
    def tensors(self) -> list[str]:
        return [part.tensor for part in self.parts]

    @property
    def seconds(self) -> float | None:
        """How long the call took; None if the file breaks off before its end."""
        seconds = [part.seconds for part in self.parts]
        return None if None in seconds else max(seconds)


def read(path: str | Path) -> list[dict]:
    """The events of a timeline, in the order of the file; one broken off at the end is left out.

    Raises LabError when there is no such file, or it is no timeline.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LabError(
            f"No Horovod timeline at {path} ({error.strerror}). Rank 0 writes it: set"
            " HOROVOD_TIMELINE to a file before hvd.init(), in a folder that is there and that"
            " rank 0 may write to."
        ) from error
    return parse(text, str(path))


def parse(text: str, named: str = "This text") -> list[dict]:
    """As `read`, from the text itself."""
    text = text.lstrip()
    if not text:
        raise LabError(
            f"{named} is empty: Horovod was not started, or ended before the first tensor."
        )
    if text[0] != "[":
        raise LabError(f"{named} is no Horovod timeline: it does not begin with [.")
    decoder = json.JSONDecoder()
    events: list[dict] = []
    place = _next(text, 1)
    while place < len(text) and text[place] != "]":
        try:
            event, end = decoder.raw_decode(text, place)
        except json.JSONDecodeError:
            # More events follow: no job that was killed while it wrote.
            if '{"ph":' in text[place + 1 :]:
                raise LabError(
                    f"{named} is damaged after event {len(events)}: run the job again."
                ) from None
            break
        if not (isinstance(event, dict) and "ph" in event):
            raise LabError(f"{named} is no Horovod timeline: event {len(events) + 1} has no `ph`.")
        events.append(event)
        place = _next(text, end)
    return events


def _next(text: str, place: int) -> int:
    """The next place that is neither white space nor a comma between events."""
    while place < len(text) and text[place] in ", \t\r\n":
        place += 1
    return place


def activities(events: list[dict]) -> list[Activity]:
    """Every activity of every tensor, in the order in which they began."""
    return [activity for kind, activity in _walk(events) if kind == "B"]


def collectives(events: list[dict]) -> list[Collective]:
    """The calls of communication libraries, in their order.

    Tensors that travel together all begin before the first of them ends.
    """
    calls: list[Collective] = []
    joining = None  # the call whose tensors are still beginning
    for kind, activity in _walk(events):
        if not OPERATION.fullmatch(activity.name):
            continue
        if kind == "E":
            if joining and activity in joining.parts:
                joining = None
        elif joining and joining.name == activity.name and activity.tensor not in joining.tensors:
            joining.parts.append(activity)
        else:
            joining = Collective(activity.name, [activity])
            calls.append(joining)
    return calls


def backends(events: list[dict]) -> dict[str, int]:
    """Calls by operation, for example {"MPI_BCAST": 4, "MPI_ALLREDUCE": 30}."""
    return dict(Counter(call.name for call in collectives(events)))


def _walk(events: list[dict]):
    """("B", activity) where it begins, and ("E", the same activity, now with its seconds) where it
    ends."""
    tensors: dict = {}
    opened: dict = {}
    for event in events:
        row = event.get("pid")
        kind = event["ph"]
        if kind == "M" and event.get("name") == "process_name":
            tensors[row] = event["args"].get("name", "")
        elif kind == "B":
            activity = Activity(tensors.get(row, f"row {row}"), event["name"], event["ts"] / 1e6)
            opened.setdefault(row, []).append(activity)
            yield "B", activity
        elif kind == "E" and opened.get(row):
            activity = opened[row].pop()
            activity.seconds = event["ts"] / 1e6 - activity.start
            yield "E", activity

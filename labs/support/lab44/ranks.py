"""Horovod with its knobs set, on real ranks: timelines of a few steps, and steps that are timed.

`timelines` hands groups of tensors to Horovod in one moment, so that what is ready together is certain.
`measure` hands each over when it is ready, as a backward pass does. Both start and end Horovod once for each
setting, in ranks that MPI keeps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from labkit import launch, timing
from labkit.errors import LabError
from labkit.horovod import as_it_is, timeline
from labkit.placement import Placement
from labkit.timing import Measurement

from support.lab44.timeline import Tensor, tensors

# Said each time: where a variable is not set, Horovod keeps that of its last start in this process.
KNOBS = {
    "HOROVOD_FUSION_THRESHOLD": str(128 << 20),  # bytes
    "HOROVOD_CACHE_CAPACITY": "1024",  # tensors
    "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
    "HOROVOD_HIERARCHICAL_ALLGATHER": "0",
}
CYCLE = "HOROVOD_CYCLE_TIME"  # milliseconds; see `measure`, and why the ranks forget the learner's own


class Way(NamedTuple):
    """Steps to do with these variables set. late: (rank, seconds) by which that rank begins each step later.

    gather: each step's first tensor is gathered on all ranks, too (allgather).
    """

    variables: dict[str, str]
    steps: list[list[Tensor]]
    late: tuple[int, float] = (-1, 0.0)
    gather: bool = False


# What the timelines of lab 44 are of.
SIX = tensors("a:400 b:400 c:400 d:400 e:400 f:400")
SEVEN = tensors("a:60000 b:40200 c:30000:float64 d:30000 e:20000 f:8000:float64 g:60000")
THRESHOLDS = (0, 50_000, 100_000, 128 << 20)
CACHED = {  # name: (places in the cache, steps)
    "always the same": (1024, [SIX] * 4),
    "no cache": (0, [SIX] * 4),
    "four places": (4, [SIX] * 4),
    "f changes": (1024, [[*SIX[:5], Tensor("f", size)] for size in (400, 400, 80, 80, 400)]),
    "a metric without a name": (1024, [[*SIX, Tensor(f"metric {step}", 4)] for step in range(4)]),
}
HIERARCHICAL = ("HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_HIERARCHICAL_ALLGATHER")


def ways(late_rank: int, pause: float) -> dict[str, Way]:
    """late_rank: begins the steps of "late" `pause` seconds after the others."""
    every = {"late": Way({"HOROVOD_CACHE_CAPACITY": "0"}, [SIX[:3]] * 2, (late_rank, pause))}
    every |= {f"up to {n}": Way({"HOROVOD_FUSION_THRESHOLD": str(n)}, [SEVEN]) for n in THRESHOLDS}
    every |= {name: Way({"HOROVOD_CACHE_CAPACITY": str(n)}, steps) for name, (n, steps) in CACHED.items()}
    return every | {flag: Way({flag: "1"}, [SIX], gather=True) for flag in HIERARCHICAL}


def timelines(comm, ways: Mapping[str, Way], folder: str | Path) -> dict[str, list[dict] | None]:
    """On a rank: {way: events of its timeline}, on rank 0 (elsewhere {way: None}).

    The tensors of a step are handed to Horovod in one moment, as a group; one whose name has a blank
    ("metric 3") alone, in the moment after.
    """
    os.environ.pop(CYCLE, None)
    return {name: _timeline(comm, Path(folder) / f"timeline_{name}.json", way) for name, way in ways.items()}


def _timeline(comm, file: Path, way: Way) -> list[dict] | None:
    import horovod.torch as hvd

    names: dict[str, str] = {}
    # Started and stopped by hand: one of a whole run loses what is not written when Horovod ends, and then
    # the next one is not begun.
    with launch.environment({**KNOBS, **way.variables, "HOROVOD_TIMELINE": "DYNAMIC"}):
        hvd.init()
        device = as_it_is().device
        hvd.start_timeline(str(file), mark_cycles=way.late[0] >= 0)
        comm.Barrier()
        for step in way.steps:
            if way.late[0] == comm.rank:
                time.sleep(way.late[1])
            handles = []
            for group, members in _groups(step).items():
                for place, tensor in enumerate(members, start=1):
                    names[f"grouped_allreduce.{group}_{place}of{len(members)}"] = tensor.name
                values = [tensor.zeros(device) for tensor in members]
                handles.append(hvd.grouped_allreduce_async(values, name=group))
            if way.gather:
                handles.append(hvd.allgather_async(step[0].zeros(device), name="gathered"))
            for handle in handles:
                hvd.synchronize(handle)
        hvd.stop_timeline()  # returns when all is written
        hvd.shutdown()  # and so these processes may start Horovod again in another way
    return _renamed(timeline.read(file), names) if comm.rank == 0 else None


def _groups(step: Sequence[Tensor]) -> dict[str, list[Tensor]]:
    groups: dict[str, list[Tensor]] = {}
    for tensor in step:
        groups.setdefault(tensor.name if " " in tensor.name else "net", []).append(tensor)
    return groups


def _renamed(events: list[dict], names: Mapping[str, str]) -> list[dict]:
    """The events with our own names for the tensors of a group, which Horovod numbers."""
    for event in events:
        if event["ph"] == "M" and "name" in event["args"]:
            event["args"]["name"] = names.get(event["args"]["name"], event["args"]["name"])
    return events


class Measured(NamedTuple):
    """What `measure` returns.

    link: {bytes: time of a message}. times: {way: time of a step}. where: the tensors, and what carried them.
    """

    link: dict[int, Measurement]
    times: dict[str, Measurement]
    where: Placement


def measure(comm, ways: Mapping[str, tuple], rounds: int, repeat: int = 5) -> Measured:
    """On a rank: what a message costs the library that carries the tensors, and steps in several ways.

    All without a timeline, as the thread that writes one never rests.

    ways: name -> (variables, tensors, named). They take turns, `rounds` times `repeat` steps each. A tensor
    is handed over when it is ready; until then the rank sleeps, so that cores are free. named: False leaves
    the names to Horovod, which gives new ones in each step. One way may set HOROVOD_CYCLE_TIME, and is done
    last: Horovod crashes when it starts again in a process where both this and the threshold were set.
    """
    cycles = {name: way for name, way in ways.items() if CYCLE in way[0]}
    if len(cycles) > 1:
        raise LabError("lab44.measure: one way may set HOROVOD_CYCLE_TIME. Start the ranks again for more.")
    import horovod.torch as hvd

    os.environ.pop(CYCLE, None)
    with launch.environment(KNOBS):
        hvd.init()
        where = as_it_is()
        hvd.shutdown()
    message = _by_nccl if where.library == "NCCL" else _by_mpi
    link = {size: message(comm, where, size) for size in (64, 1 << 12, 1 << 16, 1 << 20)}
    parts: dict[str, list[Measurement]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            if name not in cycles:
                parts[name].append(_steps(comm, where.device, *way, repeat))
    for name, way in cycles.items():
        parts[name].append(_steps(comm, where.device, *way, rounds * repeat))
    times = {
        name: Measurement(np.concatenate([turn.samples for turn in turns]), turns[0].resolution)
        for name, turns in parts.items()
    }
    return Measured(link, times, where)


def _by_mpi(comm, where: Placement, size: int) -> Measurement:
    """MPI's own allreduce of so many bytes: of a GPU's memory, or of the host's copy, as Horovod hands it."""
    memory = where.device if not where.staged else "cpu"
    tensor = Tensor("link", size).zeros(memory)
    return timing.measure(lambda: where.allreduce(comm, tensor), comm=comm, device=where.device)


def _by_nccl(comm, where: Placement, size: int) -> Measurement:
    """A message by NCCL of so many bytes, through Horovod: what each tensor more costs in one look."""
    more = 32
    single = [Tensor("link 0", size)]
    many = [Tensor(f"link {number}", size) for number in range(1 + more)]
    unfused = {"HOROVOD_FUSION_THRESHOLD": "0"}
    one_message = _steps(comm, where.device, unfused, single, True, 20)
    messages = _steps(comm, where.device, unfused, many, True, 20)
    seconds = (messages.samples - one_message.median) / more
    return Measurement(np.maximum(seconds, 1e-9), messages.resolution)


def _steps(
    comm, device: str, variables: Mapping[str, str], tensors: Sequence[Tensor], named: bool, repeat: int
) -> Measurement:
    import horovod.torch as hvd

    in_order = sorted(tensors, key=lambda tensor: tensor.ready)
    pairs = [(tensor, tensor.zeros(device)) for tensor in in_order]

    def step() -> None:
        begun = time.perf_counter()
        handles = []
        for tensor, values in pairs:
            time.sleep(max(0.0, begun + tensor.ready - time.perf_counter()))
            name = tensor.name if named else None
            handles.append(hvd.allreduce_async_(values, name=name, op=hvd.Sum))
        for handle in handles:
            hvd.synchronize(handle)

    with launch.environment({**KNOBS, **variables}):
        hvd.init()
        seconds = timing.measure(step, repeat=repeat, comm=comm, device=device)
        hvd.shutdown()
    return seconds

"""Lab 44: its checks, what Horovod's timeline tells, and steps on real ranks with Horovod's knobs
set.

What is said of Horovod is of 0.28.1: its source (controller.cc, response_cache.cc, timeline.cc),
and what it did here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from labkit import check, expect, launch, plots, record, timing
from labkit.errors import CheckFailed
from labkit.horovod import as_it_is, timeline
from labkit.placement import Placement
from labkit.timing import Measurement


@check.exercise("44.1")
def lost_to_late_ranks(charge):
    """The µs lost to each rank, of two timelines; and nothing, where one rank waits for nobody."""
    for name, (_, lost, slips) in MADE_UP.items():
        timeline = made_up(name)
        what = f'charge(lab44.made_up("{name}"))'
        got = charge(timeline)
        if isinstance(got, dict):
            words = any(isinstance(rank, str) for rank in got)
            expect(not words, f"{what}: a rank is a number here, not a string: int(name).")
            got = {rank: us for rank, us in got.items() if rank in lost or us != 0}
        expect.equal(got, lost, what, slips=slips)
        expect.unchanged(made_up(name), timeline, "The timeline that `charge` got")
    with check.case("a negotiation with one X"):
        alone = charge(story("0 a B NEGOTIATE_ALLREDUCE\n1 a X 0\n9 a E -"))
    expect(not any(alone.values()), f"One rank alone waits for nobody, but you charge {alone}.")


@check.exercise("44.2")
def end_of_a_step(step_time):
    """When a step ends, and with how many messages, of eight steps counted by hand."""
    for text, limit, cycle, alpha, rate, end, messages, why in STEPS:
        given = f"'{text}' (bytes, ready at), limit {limit}, a cycle of {cycle} s"
        gradients = gradients_of(text)
        got = step_time(gradients, limit, cycle, link(alpha, rate))
        case = f"{given}, {alpha} s + n / {rate}"
        expect.equal(np.size(got), 2, f"{case}: values that `step_time` returns (end, messages)")
        expect.close(got[0], end, f"{case}: end of the step", rtol=1e-9, because=why)
        expect.equal(got[1], messages, f"{case}: messages", because=why)
        expect.unchanged(
            gradients_of(text), gradients, "The list of gradients that `step_time` got"
        )


@check.exercise("44.3")
def asked_by_name(asked, events):
    """How many tensors each step negotiates by name, in made-up steps and on real ranks."""
    for texts, cached, want, why in ASKED:
        steps = [tensors(text) for text in texts]
        what = f"Steps {' | '.join(texts)}, {'with' if cached else 'without'} a cache"
        expect.equal(asked(steps, cached), want, what, because=why)
        unchanged = [tensors(text) for text in texts]
        expect.unchanged(unchanged, steps, "The list of steps that `asked` got")
    truth = asked_about(events)  # way -> counts, as real ranks asked
    for name in ("always the same", "f changes", "a metric without a name", "no cache"):
        places, steps = CACHED[name]
        got = asked(steps, places > 0)
        expect.equal(got, truth[name], f"Tensors negotiated by name, by step, real ranks, '{name}'")


# ---------------------------------------- cases

# Steps: gradients as "name:bytes:ready at [s]", limit [bytes], cycle [s], a message of n bytes
# takes alpha + n / rate seconds; the step's end [s], its messages, and why it is so.
STEPS = (
    ("a:100:0", 1000, 10, 1, 100, 3, 1, "Negotiation 0 to 1, a 1 to 3. That ends the step."),
    ("a:100:12", 1000, 10, 1, 100, 23, 1, "Cycles begin at 0, 10 and 20; the third finds a."),
    ("c:30:0 a:80:0 b:70:0", 100, 10, 1, 10, 22, 3, "By `fuse`, c|a|b: 4 s, 9 s and 8 s."),
    ("a:100:0 b:100:0", 200, 10, 1, 100, 4, 1, "Negotiation 0 to 1, then one message of 3 s."),
    ("a:100:0 b:100:5", 1000, 4, 1, 20, 14, 2, "Message a: 1 to 7. Then the next cycle."),
    ("a:100:2.5", 1000, 1, 1, 100, 6, 1, "Cycles begin at 0, 1, 2 and 3; the last finds a."),
    ("a:100:2", 1000, 1, 3, 100, 10, 1, "A negotiation takes 3 s even if it finds nothing."),
    ("a:500:0 b:100:5 c:100:10.5", 1000, 4, 1, 100, 14, 3, "Cycles begin at 0, 7 and 11."),
)

# Steps, with a cache or without, tensors asked about by step, and why.
ASKED = (
    (("a:4 b:4", "a:4 b:4", "a:4 b:4"), True, [2, 0, 0], "Known after the first step."),
    (("a:4 b:4", "b:4", "b:4 a:4"), False, [2, 1, 2], "Without a cache, all tensors of each step."),
    (("a:4 b:4", "a:8 b:4", "a:8 b:4", "a:4 b:4"), True, [2, 1, 0, 1], "a's bytes change twice."),
    (("a:8", "a:8:float64", "a:8:float64"), True, [1, 1, 0], "a's type changes."),
    (("a:4 b:4", "b:4", "a:4"), True, [2, 0, 0], "What is not used for a step is still known."),
    (("a:4", "b:4", "a:4 b:4"), True, [1, 1, 0], "Both are known, from different steps."),
    (("a:4 m1:4", "a:4 m2:4", "a:4 m3:4"), True, [2, 1, 1], "A new name each time."),
    (("a:4 b:8", "a:8 b:4"), True, [2, 2], "Each is known with its own bytes, not with another's."),
)


SUM = "Tensors that wait at the same time lose that time once: lab44.covered of a rank's spans"
FIRST = (
    "charged from the first X on; without the last rank, all would have been ready at the X before"
)
SECOND = "a span begins at the X before the last, which is seen[-2], not always seen[1]"
END = "a span ends at the last X, not at the E after it"
HULL = "one span from a rank's first to its last: between its negotiations nobody waits"
ONCE = "a rank may be last in several negotiations: keep all of its spans"


# Timelines as Horovod writes them: lines, µs lost by rank, what mistakes read in them.
MADE_UP = {
    "a and b, then c": (
        """
5 a B NEGOTIATE_ALLREDUCE
6 a X 0
7 b B NEGOTIATE_ALLREDUCE
8 b X 0
20 a X 2
21 b X 2
1000 - i CYCLE_START
1003 c B NEGOTIATE_ALLREDUCE
1004 c X 0
1010 a X 1
1011 a E -
1012 b X 1
1013 b E -
1014 c X 1
1017 c X 2
1018 c E -
""",
        {1: 992, 2: 3},
        {
            SUM: {1: 1981, 2: 3},
            FIRST: {1: 1006, 2: 13},
            END: {1: 993, 2: 4},
            ONCE: {1: 991, 2: 3},
        },
    ),
    "a three times, then known": (
        """
0 a B NEGOTIATE_ALLREDUCE
1 a X 1
2 a X 0
3 a X 3
12 a X 2
13 a E -
1001 a B NEGOTIATE_ALLREDUCE
1002 a X 1
3000 a X 2
3001 a X 3
3004 a X 0
3005 a E -
4001 a B NEGOTIATE_ALLREDUCE
4002 a X 0
4003 a X 1
4005 a X 3
4010 a X 2
4011 a E -
5000 a B NEGOTIATE_ALLREDUCE
5050 a E -
""",
        {2: 14, 0: 3},
        {
            FIRST: {2: 19, 0: 2002},
            SECOND: {2: 17, 0: 4},
            END: {2: 16, 0: 4},
            HULL: {2: 4007, 0: 3},
            ONCE: {2: 5, 0: 3},
        },
    ),
}


def made_up(name: str) -> list[Line]:
    """The lines of a made-up timeline, by its name."""
    return story(MADE_UP[name][0])


def gradients_of(text: str) -> list[Tensor]:
    """Tensors of "a:100:0.5": names, bytes, and when they are ready."""
    parts = [part.split(":") for part in text.split()]
    return [Tensor(name, int(size), ready=float(ready)) for name, size, ready in parts]


def link(alpha: float, rate: float) -> Callable[[int], float]:
    """seconds(bytes) of a message; it stops who sends without end."""
    calls = count()

    def seconds(n: int) -> float:
        if next(calls) > 2000:
            raise CheckFailed(
                "step_time does not end. Advance `now`, and take what was sent out of `left`."
            )
        return alpha + n / rate

    return seconds


def story(text: str) -> list[Line]:
    """Lines from "when tensor kind name" each; "-" stands for nothing."""
    rows = [row.split() for row in text.strip().splitlines()]
    return [
        Line(int(when), *("" if word == "-" else word for word in rest)) for when, *rest in rows
    ]


# ---------------------------------------- tensors and lines of a timeline

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
    """One line of a timeline. when [us]; kind: "B" begin, "E" end, "X" a rank is ready, "i" a look
    begins."""

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
    names = ("negotiate", "queue", *PHASES.values())
    over: dict[str, float] = {}
    for activity in timeline.activities(events):
        phases = table.setdefault(activity.tensor, dict.fromkeys(names, 0))
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


# ---------------------------------------- real ranks

# Said each time: where a variable is not set, Horovod keeps that of its last start in this process.
KNOBS = {
    "HOROVOD_FUSION_THRESHOLD": str(128 << 20),  # bytes
    "HOROVOD_CACHE_CAPACITY": "1024",  # tensors
}
CYCLE = (
    "HOROVOD_CYCLE_TIME"  # milliseconds; see `measure`, and why the ranks forget the learner's own
)


class Way(NamedTuple):
    """Steps to do with these variables set. late: (rank, seconds) by which it begins each step
    later."""

    variables: dict[str, str]
    steps: list[list[Tensor]]
    late: tuple[int, float] = (-1, 0.0)


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


def ways(late_rank: int, pause: float) -> dict[str, Way]:
    """late_rank: begins the steps of "late" `pause` seconds after the others."""
    every = {"late": Way({"HOROVOD_CACHE_CAPACITY": "0"}, [SIX[:3]] * 2, (late_rank, pause))}
    every |= {f"up to {n}": Way({"HOROVOD_FUSION_THRESHOLD": str(n)}, [SEVEN]) for n in THRESHOLDS}
    return every | {
        name: Way({"HOROVOD_CACHE_CAPACITY": str(n)}, steps) for name, (n, steps) in CACHED.items()
    }


def timelines(comm, ways: Mapping[str, Way], folder: str | Path) -> dict[str, list[dict] | None]:
    """On a rank: {way: events of its timeline}, on rank 0 (elsewhere {way: None}).

    The tensors of a step are handed to Horovod in one moment, as a group; one whose name has a
    blank ("metric 3") alone, in the moment after.
    """
    os.environ.pop(CYCLE, None)
    return {
        name: _timeline(comm, Path(folder) / f"timeline_{name}.json", way)
        for name, way in ways.items()
    }


def _timeline(comm, file: Path, way: Way) -> list[dict] | None:
    import horovod.torch as hvd

    names: dict[str, str] = {}
    # Started and stopped by hand: one of a whole run loses what is not written when Horovod ends,
    # and then the next one is not begun.
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

    link: {bytes: time of a message}. times: {way: time of a step}. where: the tensors, and what
    carried them.
    """

    link: dict[int, Measurement]
    times: dict[str, Measurement]
    where: Placement


def measure(comm, ways: Mapping[str, tuple], rounds: int, repeat: int = 5) -> Measured:
    """On a rank: what a message costs MPI, and steps in several ways.

    All without a timeline, as the thread that writes one never rests.

    ways: name -> (variables, tensors, named). They take turns, `rounds` times `repeat` steps each.
    A tensor is handed over when it is ready; until then the rank sleeps, so that cores are free.
    named: False leaves the names to Horovod, which gives new ones in each step. One way may set
    HOROVOD_CYCLE_TIME, and is done last: Horovod crashes when it starts again in a process where
    both this and the threshold were set.
    """
    import horovod.torch as hvd

    cycles = {name: way for name, way in ways.items() if CYCLE in way[0]}

    os.environ.pop(CYCLE, None)
    with launch.environment(KNOBS):
        hvd.init()
        where = as_it_is()
        hvd.shutdown()
    link = {size: _by_mpi(comm, where, size) for size in (64, 1 << 12, 1 << 16, 1 << 20)}
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
    """MPI's own allreduce of so many bytes: of a GPU's memory, where MPI carries it, else of the
    host's."""
    memory = where.device if where.library == "MPI" and not where.staged else "cpu"
    tensor = Tensor("link", size).zeros(memory)
    return timing.measure(lambda: where.allreduce(comm, tensor), comm=comm, device=where.device)


def _steps(
    comm,
    device: str,
    variables: Mapping[str, str],
    tensors: Sequence[Tensor],
    named: bool,
    repeat: int,
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


def travelled(events) -> dict[int, str]:
    """{threshold: how SEVEN travelled, "a b|c"}, from the timelines of real ranks."""
    calls = {threshold: sent(events[f"up to {threshold}"], len(SEVEN)) for threshold in THRESHOLDS}
    return {threshold: "|".join(map(" ".join, messages)) for threshold, messages in calls.items()}


def asked_about(events) -> dict[str, list[int]]:
    """{way of CACHED: how many tensors real ranks asked about, by step}, from their timelines."""
    return {way: asked_in(events[way], steps) for way, (_, steps) in CACHED.items()}


# ---------------------------------------- steps of a net

MOST = 128 << 20  # bytes, Horovod's own threshold
KNOWN_THRESHOLDS = {"threshold 0": 0, "threshold 128 KiB": 128 << 10, "threshold 128 MiB": MOST}
SMALL = [Tensor(f"small {i}", 256) for i in range(60)]
OF_SMALL = ["60 known", "60 negotiated", "60 without names", "1 of 15 KiB"]
TOGETHER = Tensor("together", sum(tensor.bytes for tensor in SMALL))


def net(layers: int, backward: float) -> list[Tensor]:
    """For each layer a weight of 64 KiB and a bias of 256 bytes, ready one layer after the other
    within `backward` seconds."""
    tensors = []
    for layer in range(layers):
        ready = backward * (layer + 1) / layers
        tensors.append(Tensor(f"weight {layer}", 64 << 10, ready=ready))
        tensors.append(Tensor(f"bias {layer}", 256, ready=ready))
    return tensors


def knobs(gradients: Sequence[Tensor], long_cycle: float) -> dict[str, tuple]:
    """Ways for `measure`: thresholds, a long cycle [ms], 60 small tensors with and without the
    cache.

    And one tensor with the bytes of the 60: what it takes less is what tensors cost, not bytes.
    """
    ways = {}
    for name, threshold in KNOWN_THRESHOLDS.items():
        ways[name] = ({"HOROVOD_FUSION_THRESHOLD": str(threshold)}, gradients, True)
    off = {"HOROVOD_CACHE_CAPACITY": "0"}
    small = ({}, SMALL, True), (off, SMALL, True), ({}, SMALL, False), ({}, [TOGETHER], True)
    ways |= dict(zip(OF_SMALL, small, strict=True))
    return ways | {f"cycle of {long_cycle} ms": ({CYCLE: str(long_cycle)}, gradients, True)}


def predict_and_record(
    measured: Measured, ways, step_time: Callable, fit, ranks: int, on_node: int
) -> dict[str, float]:
    """{way: ms of a step that step_time predicts}; records both times of each way."""
    nodes = launch.nodes_here()
    what = "step" if nodes > 1 else "step, one node"
    fields = {"alpha": float(fit.alpha), "ranks": ranks, "nodes": nodes, **measured.where.fields()}
    steps = {}
    for way, took in measured.times.items():
        variables, gradients, _ = ways[way]
        cycle = float(variables.get(CYCLE, 1)) / 1e3
        most = limit(KNOWN_THRESHOLDS.get(way, MOST), on_node)
        end, messages = step_time(gradients, most, cycle, fit.time)
        steps[way] = 1e3 * end
        made = {"predicted": float(end), "messages": messages}
        record.add(what, way=way, seconds=took, **made, **fields)
    return steps


def in_ms(last: pd.DataFrame) -> pd.DataFrame:
    """Records of steps, one of each way: predicted and measured ms, and the messages."""
    between = {"predicted": last["predicted"], "measured": last["seconds"]}
    between |= {"quarter below": last["seconds_q1"], "quarter above": last["seconds_q3"]}
    return (1e3 * pd.DataFrame(between)).round(1).assign(messages=last["messages"])


def draw_predicted(
    step_time: Callable, gradients: Sequence[Tensor], alpha: float, rate: float
) -> dict:
    """Plots a step by threshold and cycle over a link of alpha + n / rate seconds.

    Returns {cycle [ms]: (step [s], messages)} with Horovod's own threshold.
    """

    def step(threshold: int, milliseconds: float):
        return step_time(gradients, threshold, milliseconds / 1e3, lambda n: alpha + n / rate)

    sizes = [*(256 << i for i in range(0, 14, 2)), MOST]
    cycles = (1, 5, 20, 100)
    curves = {f"cycle of {ms} ms": (sizes, [1e3 * step(n, ms)[0] for n in sizes]) for ms in cycles}
    axis = {"xlabel": "fusion threshold (bytes)", "ylabel": "predicted step (ms)", "logx": True}
    plots.lines(curves, **axis, title="A large threshold saves time, a long cycle costs it")
    return {ms: step(MOST, ms) for ms in cycles}

"""Horovod's knobs on trial: what checks ask of Adasum and of a search, and steps under each setting. Lab 45.

Facts about Horovod are those of 0.28.1: parameter_manager.cc (autotune), adasum.h, torch/mpi_ops.py.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from labkit import cluster, launch, nets, record, timing
from labkit.checks import expect
from labkit.errors import LabError
from labkit.horovod import DEFAULT_FUSION
from labkit.timing import Measurement

from support.lab45.checks import (
    LOGS,
    expect_adasum,
    expect_bytes,
    expect_pair,
    expect_search,
    gradients,
    refusal,
)

__all__ = ["FIXED", "LAYERS", "LOGS", "accuracies", "autotune", "between_nodes", "expect_adasum"]
__all__ += ["expect_bytes", "expect_pair", "expect_search", "gradients", "sweep", "try_adasum", "watch"]

WEIGHTS = [weight.size for weight in nets.start_weights()]  # values in each layer of the digits' net
LAYERS = [slice(end - size, end) for size, end in zip(WEIGHTS, np.cumsum(WEIGHTS).tolist(), strict=True)]
# Fixed, these stay as they are by default: autotune would else search all over again with the others.
FIXED = {"HOROVOD_CACHE_CAPACITY": "1024", "HOROVOD_HIERARCHICAL_ALLGATHER": "0"}
PACKED = "float32 packed as float16"
SCORES_PER_SAMPLE = 5  # parameter_manager.h: a setting's score is the median of five


def autotune(samples: int, steps: int, log: Path) -> dict[str, str]:
    """The variables of an autotune that tries samples + 1 settings, `steps` steps for each of five scores.

    Horovod reads the numbers when it is *loaded*, not when it starts: they must be there before the import.
    """
    numbers = {"WARMUP_SAMPLES": 1, "STEPS_PER_SAMPLE": steps, "BAYES_OPT_MAX_SAMPLES": samples, "LOG": log}
    return {f"HOROVOD_AUTOTUNE_{name}": str(value) for name, value in numbers.items()}


def accuracies(adasum: Callable, sizes, rate: float, seeds, epochs: int) -> dict[str, dict[int, list[float]]]:
    """Way of adding gradients -> virtual ranks -> % of the digits' test images right, for each seed.

    Each rank takes 16 images a step; rate: of plain SGD, the same for any number of ranks.
    """

    def add(comm, gradient, kept):
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        return total

    def mean(comm, gradient, kept):
        return add(comm, gradient, kept) / comm.size

    def layer_by_layer(comm, gradient, kept):
        return adasum(comm, gradient, LAYERS)

    powers = [p for p in sizes if not p & (p - 1)]
    right: dict = {}
    with np.errstate(all="ignore"):  # where training diverges, numbers overflow
        for way, average in {"sum": add, "mean": mean, "Adasum": layer_by_layer}.items():
            right[way] = {
                p: nets.accuracy(average, seeds=seeds, epochs=epochs, batch=16 * p, rate=rate, ranks=p)
                for p in powers
            }
    return right


def try_adasum(comm, adasum: Callable, values: int, repeat: int) -> dict:
    """On a rank: `adasum` beside Horovod's own; then what an allreduce of so many float32 values costs.

    Returns {"nodes", "exchange": {way: (Measurement, bytes that a node sent, over those of the values)}}.
    Bytes are counted on a node's network interfaces; ranks on one node use none.
    """
    import horovod.torch as hvd
    import torch

    _at_least_one(values=values)
    hvd.init()
    mine = gradients(comm.size, sum(WEIGHTS), seed=1)[comm.rank]
    if comm.size & (comm.size - 1):
        expect.raises(NotImplementedError, lambda: hvd.allreduce(torch.ones(2), op=hvd.Adasum), "Horovod")
        told = refusal(comm, adasum, mine[None].repeat(comm.size, 0))
        expect(told, "Horovod refuses this number of ranks, yours does not.")
    else:
        names = [f"layer {number}" for number in range(len(LAYERS))]
        parts = [torch.from_numpy(mine[one].copy()) for one in LAYERS]
        asked = [hvd.allreduce_async(one, name=n, op=hvd.Adasum) for one, n in zip(parts, names, strict=True)]
        want = np.concatenate([hvd.synchronize(one).numpy() for one in asked])
        got = adasum(comm, mine, LAYERS)
        expect.close(got, want, f"Yours beside hvd.Adasum, {comm.size} ranks", 1e-3, 1e-4)
    vector = torch.from_numpy(gradients(1, values)[0])
    calls = {"float32": (hvd.Sum, vector), "float16": (hvd.Sum, vector.half())}
    if not comm.size & (comm.size - 1):
        calls |= {"Adasum": (hvd.Adasum, vector), "Adasum, float16": (hvd.Adasum, vector.half())}
    packed = {PACKED: lambda: hvd.allreduce(vector, name="p", compression=hvd.Compression.fp16)}
    calls = {way: _call(hvd, way, *how) for way, how in calls.items()} | packed
    taken = timing.in_turns(calls, comm=comm, repeat=repeat, warmup=1)
    found = {way: (taken[way], _sent(comm, call) / (4 * values)) for way, call in calls.items()}
    hvd.shutdown()
    return {"nodes": len(set(comm.allgather(socket.gethostname()))), "exchange": found}


def _at_least_one(**numbers: int) -> None:
    """Horovod crashes, or there is nothing to measure, where there are none."""
    for name, number in numbers.items():
        if number < 1:
            raise LabError(f"{name}={number}: give 1 or more.")


def _call(hvd, name, op, vector):
    return lambda: hvd.allreduce(vector, name=name, op=op)


def _sent(comm, call: Callable) -> float:
    """Bytes that leave a node in one call: the median over nodes, headers of the network among them."""
    comm.Barrier()
    before = _transmitted()
    call()
    comm.Barrier()
    nodes = dict(comm.allgather((socket.gethostname(), _transmitted() - before)))
    return float(np.median(list(nodes.values())))


def _transmitted() -> int:
    """Bytes sent so far on this host's interfaces, without lo."""
    table = Path("/proc/net/dev")
    rows = [line.split(":") for line in table.read_text().splitlines()[2:]] if table.exists() else []
    return sum(int(numbers.split()[8]) for name, numbers in rows if name.strip() != "lo")


def between_nodes(lab: str) -> tuple:
    """Bytes that a node sent and seconds, over float32's, as tables of nodes x ways; and whose they are.

    Of the newest job that ran on several nodes, else of the kit's reference.
    """
    frame, whose = cluster.records_or_reference(lab, "exchange")
    if not (frame["nodes"] > 1).any():
        frame, whose = record.reference(lab, "exchange"), "the kit's reference"
    frame = frame[(frame["nodes"] > 1) & (frame["way"] != PACKED)]
    table = frame.pivot_table(index="nodes", columns="way", values=["float32_vectors", "seconds"])
    shares = [table[name].div(table[name]["float32"], axis=0) for name in ("float32_vectors", "seconds")]
    return *shares, whose


def watch(comm, samples: int, **work) -> dict:
    """On a rank: steps as they are by default, then steps while autotune tries `samples` + 1 settings, then
    with what it chose. Returns {"log": text, "default": Measurement of a step, "autotune's": …}.

    Afterwards Horovod cannot start again in this process: autotune leaves both knobs fixed on all ranks but
    0, and the start after that dies (a fixed knob is written to where it is no more; seen with 0.28.1).
    """
    _at_least_one(samples=samples, **work)
    default = _steps(comm, {"HOROVOD_AUTOTUNE": "0"}, **work)
    each = SCORES_PER_SAMPLE * int(os.environ["HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"]) + 1
    found = _steps(comm, {"HOROVOD_AUTOTUNE": "1"}, before=(samples + 3) * each, **work)
    log = Path(os.environ["HOROVOD_AUTOTUNE_LOG"]).read_text() if comm.rank == 0 else ""
    return {"log": log, "default": _measured(default), "autotune's": _measured(found)}


def sweep(comm, search: Callable, thresholds, rounds: int, last=None, **work) -> tuple:
    """On a rank: let search(measure, settings, rounds) choose among fusion thresholds (bytes) at 1 ms.

    settings: [(threshold,), …]; measure(threshold) starts Horovod anew, and returns MB/s, on all ranks the
    same. last: (threshold, cycle time in ms) that runs after the search, as long as a threshold did.
    Returns the setting chosen, and {"0 MiB": Measurement of a step, …, "default": …, "autotune's": …}.
    """
    _at_least_one(rounds=rounds, **work)
    seconds: dict = {}

    def measure(threshold: int) -> float:
        taken = _steps(comm, {"HOROVOD_FUSION_THRESHOLD": str(threshold)}, **work)
        name = "default" if threshold == DEFAULT_FUSION else f"{threshold / 2**20:g} MiB"
        seconds.setdefault(name, []).extend(taken)
        return 4e-6 * work["layers"] * work["width"] ** 2 / float(np.median(taken))

    chosen = search(measure, [(threshold,) for threshold in thresholds], rounds)
    if last:  # at the end: with both knobs fixed, Horovod cannot start again
        both = {"HOROVOD_FUSION_THRESHOLD": str(last[0]), "HOROVOD_CYCLE_TIME": str(last[1])}
        seconds["autotune's"] = _steps(comm, both, **{**work, "steps": rounds * work["steps"]})
    return tuple(chosen), {name: _measured(row) for name, row in seconds.items()}


def _steps(comm, settings: Mapping[str, str], layers: int, width: int, steps: int, before: int = 2) -> list:
    """Seconds of each step, by the slowest rank: the mean over all ranks of `layers` matrices of width x
    width float32. before: steps that do not count."""
    import horovod.torch as hvd
    import torch

    with launch.environment({**FIXED, **settings}):
        hvd.init()
        matrices = [torch.ones(width, width) for _ in range(layers)]
        taken = []
        for _ in range(before + steps):
            comm.Barrier()
            begun = time.perf_counter()
            asked = [hvd.allreduce_async_(one, name=str(place)) for place, one in enumerate(matrices)]
            for one in asked:
                hvd.synchronize(one)
            taken.append(time.perf_counter() - begun)
        hvd.shutdown()
    return np.max(comm.allgather(taken[before:]), axis=0).tolist()


def _measured(seconds: list) -> Measurement:
    return Measurement(np.array(seconds), timing.clock_resolution())

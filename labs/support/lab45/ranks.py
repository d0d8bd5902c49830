"""Horovod with its knobs set, on real ranks: its Adasum, what an allreduce costs, steps under autotune.

Facts about Horovod are those of 0.28.1: parameter_manager.cc (autotune), adasum.h, adasum_gpu_operations.cc,
operations.cc, torch/mpi_ops.py, torch/optimizer.py.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from labkit import launch, timing
from labkit.checks import expect
from labkit.errors import LabError
from labkit.horovod import DEFAULT_FUSION, as_it_is
from labkit.placement import Placement
from labkit.timing import Measurement

from support.lab45.cases import LAYERS, gradients

# Fixed, these stay as they are by default: autotune would else search all over again with the others. The
# last two count in a build with NCCL alone.
FIXED = {
    "HOROVOD_CACHE_CAPACITY": "1024",
    "HOROVOD_HIERARCHICAL_ALLGATHER": "0",
    "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
    "HOROVOD_TORUS_ALLREDUCE": "0",
}
PACKED = "float32 packed as float16"
SCORES_PER_SAMPLE = 5  # parameter_manager.h: a setting's score is the median of five


def autotune(samples: int, steps: int, log: Path) -> dict[str, str]:
    """The variables of an autotune that tries samples + 1 settings, `steps` steps for each of five scores.

    Horovod reads the numbers when it is *loaded*, not when it starts: they must be there before the import.
    """
    numbers = {"WARMUP_SAMPLES": 1, "STEPS_PER_SAMPLE": steps, "BAYES_OPT_MAX_SAMPLES": samples, "LOG": log}
    return {f"HOROVOD_AUTOTUNE_{name}": str(value) for name, value in numbers.items()}


def horovods_adasum(comm, gradient: np.ndarray) -> np.ndarray | None:
    """On a rank: hvd.Adasum of all ranks' gradients of the digits' net; None where Horovod refuses.

    It does for a number of ranks that is no power of two. The gradients are in host memory, where Adasum is
    between all ranks whatever the build; between GPUs with NCCL it would be between nodes.
    """
    import horovod.torch as hvd
    import torch

    hvd.init()
    if _no_power_of_two(comm.size):
        expect.raises(NotImplementedError, lambda: hvd.allreduce(torch.ones(2), op=hvd.Adasum), "Horovod")
        hvd.shutdown()
        return None
    handles = []
    for number, layer in enumerate(LAYERS):
        part = torch.from_numpy(gradient[layer].copy())
        handles.append(hvd.allreduce_async(part, name=f"layer {number}", op=hvd.Adasum))
    result = np.concatenate([hvd.synchronize(handle).numpy() for handle in handles])
    hvd.shutdown()
    return result


def deltas(comm, values: int = 1000, steps: int = 5) -> dict[str, float] | None:
    """On a rank: what `op=hvd.Adasum` makes of DistributedOptimizer, beside Adasum of gradients.

    Returns {optimizer: largest difference of a weight after so many steps, over the largest step}, both
    trained on the same gradients; None where Horovod refuses this number of ranks. In host memory, as
    horovods_adasum.
    """
    import horovod.torch as hvd
    import torch

    if _no_power_of_two(comm.size):
        return None
    hvd.init()
    apart = {}
    for name, momentum in {"plain SGD": 0.0, "SGD with momentum 0.9": 0.9}.items():
        ends = []
        for of_deltas in (False, True):
            weight = torch.nn.Parameter(torch.ones(values))
            optimizer = torch.optim.SGD([weight], lr=0.1, momentum=momentum)
            if of_deltas:
                optimizer = hvd.DistributedOptimizer(optimizer, [(f"deltas {name}", weight)], op=hvd.Adasum)
            for step in range(steps):
                own = torch.from_numpy(gradients(comm.size, values, seed=step)[comm.rank])
                optimizer.zero_grad()
                (weight @ own).backward()  # so that the gradient is `own`
                if not of_deltas:
                    weight.grad = hvd.allreduce(weight.grad, name=f"gradients {name}", op=hvd.Adasum)
                optimizer.step()
            ends.append(weight.detach())
        by_gradients, by_deltas = ends
        largest = (by_gradients - 1).abs().max()
        apart[name] = float((by_deltas - by_gradients).abs().max() / largest)
    hvd.shutdown()
    return apart


def exchange(comm, values: int, repeat: int) -> dict:
    """On a rank: what Horovod's allreduce of so many float32 values costs, in several ways.

    Returns {"nodes", "where", "exchange": {way: (Measurement, bytes that a node sent, over those of the
    values)}}. where: the values, and what carried them. Bytes are counted on a node's network interfaces;
    ranks on one node use none, and what a card reads from memory itself (RDMA) does not pass there.
    """
    import horovod.torch as hvd
    import torch

    _at_least_one(values=values)
    hvd.init()
    where = as_it_is()
    nodes = len(set(comm.allgather(socket.gethostname())))
    vector = torch.from_numpy(gradients(1, values)[0]).to(where.device)
    calls = {"float32": (hvd.Sum, vector), "float16": (hvd.Sum, vector.half())}
    if not _no_power_of_two(_adasum_of(where, nodes, comm.size)):
        calls |= {"Adasum": (hvd.Adasum, vector), "Adasum, float16": (hvd.Adasum, vector.half())}
    packed = {PACKED: lambda: hvd.allreduce(vector, name="p", compression=hvd.Compression.fp16)}
    calls = {way: _call(hvd, way, *how) for way, how in calls.items()} | packed
    times = timing.in_turns(calls, comm=comm, device=where.device, repeat=repeat, warmup=1)
    costs = {way: (times[way], _sent(comm, call) / (4 * values)) for way, call in calls.items()}
    hvd.shutdown()
    return {"nodes": nodes, "where": where, "exchange": costs}


def _adasum_of(where: Placement, nodes: int, ranks: int) -> int:
    """How many gradients Horovod's Adasum adds: one of each node where NCCL adds inside, else all."""
    return nodes if where.library == "NCCL" else ranks


def _no_power_of_two(number: int) -> bool:
    return bool(number & (number - 1))


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


def watch(comm, samples: int, **work) -> dict:
    """On a rank: steps as they are by default, then steps while autotune tries `samples` + 1 settings, then
    with what it chose. Returns {"log": text, "default": Measurement of a step, "autotune's": …}.

    Afterwards Horovod cannot start again in this process: autotune leaves both knobs fixed on all ranks but
    0, and the start after that dies (a fixed knob is written to where it is no more; seen with 0.28.1).
    """
    _at_least_one(samples=samples, **work)
    default = _steps(comm, {"HOROVOD_AUTOTUNE": "0"}, **work)
    each = SCORES_PER_SAMPLE * int(os.environ["HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"]) + 1
    tuned = _steps(comm, {"HOROVOD_AUTOTUNE": "1"}, before=(samples + 3) * each, **work)
    log = Path(os.environ["HOROVOD_AUTOTUNE_LOG"]).read_text() if comm.rank == 0 else ""
    return {"log": log, "default": _measured(default), "autotune's": _measured(tuned)}


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
    width float32, on this rank's device. before: steps that do not count."""
    import horovod.torch as hvd
    import torch

    with launch.environment({**FIXED, **settings}):
        hvd.init()
        device = as_it_is().device
        matrices = [torch.ones(width, width, device=device) for _ in range(layers)]
        taken = []
        for _ in range(before + steps):
            timing.device_sync(device)
            comm.Barrier()
            begun = time.perf_counter()
            handles = [hvd.allreduce_async_(matrix, name=str(i)) for i, matrix in enumerate(matrices)]
            for handle in handles:
                hvd.synchronize(handle)
            timing.device_sync(device)
            taken.append(time.perf_counter() - begun)
        hvd.shutdown()
    return np.max(comm.allgather(taken[before:]), axis=0).tolist()


def _measured(seconds: list) -> Measurement:
    return Measurement(np.array(seconds), timing.clock_resolution())

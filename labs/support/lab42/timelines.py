"""Timelines for lab 42: made up ones, those of Horovod's operations, and several runs put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from labkit import builds, timing
from labkit.horovod import Training, timeline

ON_GPU = "stayed on the GPU"
AWARE = "CUDA-aware MPI"
STAGED = "staged through the host"
ON_CPU = "CPU tensors"


class Journey(NamedTuple):
    """What one gradient's row of a timeline holds, in order, and what that says of its way.

    told: what job it was. device: where the gradient is. build: Horovod's "host", "nccl" or "mpi".
    verdict: ON_GPU, AWARE, STAGED or ON_CPU. because: why, in a sentence.
    """

    told: str
    device: str
    build: str
    activities: list[str]
    verdict: str
    because: str


def _row(*inside: str) -> list[str]:
    return ["NEGOTIATE_ALLREDUCE", "ALLREDUCE", *inside]


_WAIT = ("WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA")
_IN = "MEMCPY_IN_FUSION_BUFFER"
_OUT = "MEMCPY_OUT_FUSION_BUFFER"
_HOST = ("MEMCPY_IN_HOST_BUFFER", "MPI_ALLREDUCE", "MEMCPY_OUT_HOST_BUFFER")
_ADASUM = ("MEMCPY_IN_HOST_BUFFER", "MPI_ADASUM_ALLREDUCE", "MEMCPY_OUT_HOST_BUFFER")

# The rows of a gradient that travels with others, unless `told` says alone. That of a laptop was recorded.
# The others follow Horovod 0.28.1's source, operation by operation, in the order in which they are written
# to the file: horovod/common/ops/nccl_operations.cc (NCCL, hierarchical, torus), mpi_gpu_operations.cc
# (CUDA-aware MPI), adasum_gpu_operations.cc, mpi_operations.cc and gloo_operations.cc with
# DoAllreduceCudaOnCPU of torch/mpi_ops_v2.cc (host), gpu_operations.cc (QUEUE), collective_operations.cc
# (WAIT_FOR_DATA; a build with CUDA writes it for CPU tensors, too: ReadyEventList in common.h counts an
# event that is none). The last is what github.com/horovod/horovod/issues/321 tells (2018), whose file is
# not at hand.
JOURNEYS = (
    Journey("a laptop", "cpu", "host", _row(_IN, "MPI_ALLREDUCE", _OUT), ON_CPU,
            "the gradients are CPU tensors"),
    Journey("NCCL", "cuda:0", "nccl", _row("INIT_NCCL", *_WAIT, "QUEUE", _IN, "NCCL_ALLREDUCE", _OUT), ON_GPU,
            "NCCL moves GPU memory, and the fusion buffer is GPU memory, too"),
    Journey("a CUDA-aware MPI", "cuda:0", "mpi", _row(*_WAIT, _IN, "MPI_ALLREDUCE", _OUT), AWARE,
            "the build `mpi` hands GPU memory to MPI"),
    Journey("MPI, without CUDA in it", "cuda:0", "host", _row(*_WAIT, _IN, "MPI_ALLREDUCE", _OUT), STAGED,
            "the build `host` copies a GPU tensor to host memory before MPI sees it"),
    Journey("NCCL inside the nodes, MPI between them (hierarchical)", "cuda:0", "nccl",
            _row(*_WAIT, "QUEUE", _IN, "NCCL_REDUCESCATTER", *_HOST, "NCCL_ALLGATHER", _OUT), STAGED,
            "MEMCPY_IN_HOST_BUFFER copies to host memory, for MPI between the nodes"),
    Journey("NCCL inside and between nodes (torus)", "cuda:0", "nccl",
            _row(*_WAIT, "NCCL_ALLREDUCE", "QUEUE", _IN, "NCCL_REDUCESCATTER", "NCCL_ALLGATHER", _OUT),
            ON_GPU, "NCCL carries it inside the nodes and between them"),
    Journey("NCCL, one gradient alone", "cuda:1", "nccl", _row(*_WAIT, "QUEUE", "NCCL_ALLREDUCE"), ON_GPU,
            "a gradient that travels alone needs no fusion buffer"),
    Journey("Adasum with NCCL", "cuda:0", "nccl",
            _row(*_WAIT, "QUEUE", _IN, "NCCL_REDUCESCATTER", *_ADASUM, "NCCL_ALLGATHER", _OUT), STAGED,
            "Adasum between the nodes is computed in host memory"),
    Journey("a metric on the CPU, in a build with NCCL", "cpu", "nccl", _row(*_WAIT, "MPI_ALLREDUCE"), ON_CPU,
            "it is a CPU tensor; a build with CUDA writes WAIT_FOR_DATA for these, too"),
    Journey("GPUs, with Gloo", "cuda:0", "host", _row(*_WAIT, _IN, "GLOO_ALLREDUCE", _OUT), STAGED,
            "Gloo is given host memory by Horovod"),
    Journey("issue 321: a GPU job, built without NCCL", "cuda:0", "host", _row("MPI_ALLREDUCE", _OUT), STAGED,
            "without GPU operations TensorFlow copies to host memory, and Horovod sees CPU tensors only"),
)  # fmt: skip

# Calls of communication libraries for `timeline_of`, and {operation: (calls, tensors)}.
TIMELINES = (
    ([("MPI_ALLREDUCE", 3)], {"MPI_ALLREDUCE": (1, 3)}),
    ([("GLOO_ALLREDUCE", 1)] * 4, {"GLOO_ALLREDUCE": (4, 4)}),
    (
        [("MPI_BCAST", 2), ("NCCL_ALLREDUCE", 5), ("NCCL_ALLREDUCE", 1)],
        {"MPI_BCAST": (1, 2), "NCCL_ALLREDUCE": (2, 6)},
    ),
)


def timeline_of(*calls: tuple[str, int]) -> list[timeline.Activity]:
    """Activities as Horovod's CPU operations leave them: ("MPI_ALLREDUCE", 3) is one call with 3 tensors."""
    begun: list[tuple[str, str]] = []
    for name, tensors in calls:
        kind = name.partition("_")[2].replace("BCAST", "BROADCAST")
        for activity in (f"NEGOTIATE_{kind}", kind, _IN, name, _OUT):
            begun += [(f"layer {tensor}", activity) for tensor in range(tensors)]
    return [timeline.Activity(tensor, name, 1e-6 * place, 1e-6) for place, (tensor, name) in enumerate(begun)]


def show(activities: Sequence[timeline.Activity], first: int) -> None:
    """Print the first activities as a table: when they began, of which tensor, which."""
    print(f"{'began (ms)':>10}  {'tensor':<22}activity")
    for activity in activities[:first]:
        print(f"{1e3 * activity.start:>10.2f}  {activity.tensor:<22}{activity.name}")


def gradients(activities: Sequence[timeline.Activity]) -> dict[str, list[str]]:
    """{tensor: the names of its activities, in order} of the tensors that were averaged."""
    rows: dict[str, list[str]] = {}
    for activity in activities:
        rows.setdefault(activity.tensor, []).append(activity.name)
    return {tensor: names for tensor, names in rows.items() if "ALLREDUCE" in names}


def together(rounds: Sequence[Mapping[str, Training]]) -> dict[str, Training]:
    """{way: the last round's training, with the time of the runs of all rounds}.

    rounds: each {way: Training}.
    """
    merged = {}
    for way, last in rounds[-1].items():
        parts = [measured[way].took for measured in rounds]
        samples = np.concatenate([part.samples for part in parts])
        took = timing.Measurement(samples, max(part.resolution for part in parts))
        merged[way] = replace(last, took=took)
    return merged


def device_and_build(training: Training) -> tuple[str, str]:
    """Where a training's gradients were, and the build of Horovod that carried them.

    The build is "host" as well where the lab itself copied them to the host, as that build would have done.
    """
    build = "host" if training.where.by_lab else builds.current_horovod()
    return training.where.device, build

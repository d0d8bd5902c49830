"""What carries data between the ranks of the site doctor's job, and how fast: MPI, and NCCL where
GPUs are.

A comparison of NCCL with a host MPI is one of networks where that MPI speaks TCP beside an
InfiniBand: so both are tried, and NCCL's own log says which way it took.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections import Counter
from pathlib import Path

import numpy as np
from labkit import placement, world

MESSAGE = 4 << 20  # bytes, between two hosts
SHORT, LONG = 8, 256 << 20  # bytes of NCCL's allreduces
TIMES = 10


def by_mpi(comm, hosts: list[str]) -> dict:
    """{"rate": bytes per second of one direction, "staged": why MPI gets no GPU memory, "" if it
    does}.

    Between the first ranks of the first two hosts; the others wait. hosts: of all ranks, by rank.
    "staged" is None where there is no GPU. "gpu_rate": the same rate from GPU to GPU, where MPI
    takes its memory.
    """
    first = [hosts.index(host) for host in dict.fromkeys(hosts)][:2]
    where = placement.of_mpi() if world.gpu_count() else None
    facts = {"rate": None, "staged": where.reason if where else None}
    if len(first) == 2 and comm.rank in first:
        other = first[1 - first.index(comm.rank)]
        facts["rate"] = _rate(comm, other, np.zeros(MESSAGE, np.uint8), np.empty(MESSAGE, np.uint8))
        if where and not where.staged:
            facts["gpu_rate"] = _rate(comm, other, *_on_gpu(where.device))
    comm.Barrier()
    return facts


def _on_gpu(device: str) -> tuple:
    import torch

    tensors = torch.zeros(2, MESSAGE, dtype=torch.uint8, device=device)
    torch.cuda.synchronize(device)  # MPI knows no streams
    return tensors[0], tensors[1]


def _rate(comm, other: int, out, into) -> float:
    comm.Sendrecv(out, dest=other, recvbuf=into, source=other)
    begin = time.perf_counter()
    for _ in range(TIMES):
        comm.Sendrecv(out, dest=other, recvbuf=into, source=other)
    return TIMES * MESSAGE / (time.perf_counter() - begin)


def by_nccl(comm, folder: Path) -> dict:
    """{"latency": s of a short allreduce, "bus": bytes per second, "ways": {"NET/IB": 4, …}}.

    {} where a rank has no GPU to itself. bus: the bus bandwidth of NVIDIA's nccl-tests
    (doc/PERFORMANCE.md), 2 (p - 1) / p times bytes over seconds. ways: connections by NCCL's log of
    this rank. Raises RuntimeError with NCCL's words.
    """
    gpus = comm.allgather(placement.own_gpu())
    if None in gpus or len(set(gpus)) < comm.size:
        return {}
    import torch
    from torch import distributed

    log = folder / f"nccl-{comm.rank}.log"
    os.environ |= {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_FILE": str(log),
        "NCCL_DEBUG_SUBSYS": "INIT,P2P,NET",
    }
    device = torch.device(placement.take_device())
    with socket.socket() as taken:
        taken.bind(("", 0))
        host, port = comm.bcast((socket.gethostname(), taken.getsockname()[1]))
    meeting = f"tcp://{host}:{port}"
    distributed.init_process_group(
        "nccl", init_method=meeting, rank=comm.rank, world_size=comm.size, device_id=device
    )
    try:
        short, long = (_seconds(comm, nbytes, device) for nbytes in (SHORT, LONG))
    finally:
        distributed.destroy_process_group()
    text = log.read_text(errors="replace") if log.exists() else ""
    ways = re.findall(r" via (NET/\w+(?:/\d+)?(?:/GDRDMA)?|P2P|SHM)", text)
    return {
        "latency": short,
        "bus": 2 * (comm.size - 1) / comm.size * LONG / long,
        "ways": Counter(re.sub(r"/\d+", "", way) for way in ways),
    }


def _seconds(comm, nbytes: int, device) -> float:
    """Of one allreduce, on the slowest rank."""
    import torch
    from torch import distributed

    tensor = torch.zeros(nbytes // 4, device=device)
    distributed.all_reduce(tensor)
    torch.cuda.synchronize(device)
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(TIMES):
        distributed.all_reduce(tensor)
    torch.cuda.synchronize(device)
    return max(comm.allgather((time.perf_counter() - begin) / TIMES))

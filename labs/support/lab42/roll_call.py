"""A program for ranks: each says who it is, and how long a training step takes on the cores that it has.

    srun --mpi=pmi2 --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 python -m support.lab42.roll_call

Rank 0 prints all of it in one line, after ROLL_CALL, as JSON; `read` finds it in what a job printed.
"""

from __future__ import annotations

import json
import os
import socket

from labkit import doctor, timing, world

MARK = "ROLL_CALL "
WIDTH = 512  # of the net's layers, and images of a batch: enough work for several cores
STEPS = 12


def read(printed: str) -> list[list[dict]]:
    """What `main` printed: a list of ranks for each MPI job; several, if ranks did not find each other."""
    lines = printed.splitlines()
    return [json.loads(line.partition(MARK)[2]) for line in lines if MARK in line]


def answer(comm) -> dict:
    """This rank's place, its cores and threads, its MPI, and the time of a step in seconds."""
    import torch
    from mpi4py import MPI

    from support.lab42.ranks import LEVELS

    family, version = doctor.identify(MPI.Get_library_version(), "")
    device = world.device()
    took = timing.measure(_step(torch, device), repeat=STEPS, warmup=2, comm=comm, device=device)
    return {
        "rank": comm.rank,
        "host": socket.gethostname(),
        "cores": world.cores(),
        "threads": torch.get_num_threads(),
        "mpi": f"{family} {version}",
        "level": LEVELS[MPI.Query_thread()],
        "device": device,
        "seconds": took.median,
        "seconds_q1": took.q1,
        "seconds_q3": took.q3,
        "steady": took.steady,
    }


def _step(torch, device: str):
    """One step of a net of four layers, on random images: forward, backward, update."""
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)]
    net = torch.nn.Sequential(*layers).to(device)
    images = torch.randn(WIDTH, WIDTH, device=device)

    def step():
        net.zero_grad()
        net(images).square().mean().backward()
        for weight in net.parameters():
            weight.data -= 0.01 * weight.grad

    return step


def main() -> None:
    """Ask every rank, and print on rank 0."""
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD.gather(answer(MPI.COMM_WORLD))
    if ranks:
        os.write(1, f"\n{MARK}{json.dumps(ranks)}\n".encode())


if __name__ == "__main__":
    main()

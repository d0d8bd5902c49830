"""A small lab script that the tests start under a launcher: `in_place_job.py SCENE`."""

from __future__ import annotations

import os
import socket
import sys
import time

import numpy as np
from labkit import errors, lab, world
from labkit.launch import notes, runs, shm

lab.start("00_check_environment")
scene = sys.argv[1]


def show(value):
    """One line from every rank, written in one piece: what the caller of launch.run got there."""
    os.write(1, f"rank {world.rank()} got {value!r}\n".encode())


def who(comm, shift):
    print("hello from", comm.rank)
    return comm.rank + shift, comm.size


def alone(shift):
    print("hello from", world.rank())
    return world.rank() + shift


def threads():
    return os.environ["OMP_NUM_THREADS"]


def total_torch():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    dist.destroy_process_group()
    return value.item()


def threads_of_torch():
    import torch

    return threads(), torch.get_num_threads()


def is_reserved():
    """Is rank 0's port kept from others until torch.distributed takes it?"""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", int(os.environ["MASTER_PORT"])))
        except OSError:
            return True
    return False


def total_horovod():
    import horovod.torch as hvd
    import torch

    hvd.init()
    return hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size(), hvd.mpi_enabled()


def one_fails(comm):
    if comm.rank == 1:
        raise ValueError("the true reason")
    comm.recv(source=1)


def fail_in_turn():
    time.sleep(0.3 * (1 - world.rank()))
    raise ValueError


def unsolved():
    raise NotImplementedError("exercise 20.1: Pass a token")


def leave_a_message(comm):
    comm.isend("of the last run", dest=(comm.rank + 1) % comm.size)


def pass_on(comm):
    return comm.sendrecv("of this run", dest=(comm.rank + 1) % comm.size)


def stuck(comm):
    if comm.rank == 0:
        return 0
    return comm.recv(source=0)


def spin():
    import re

    re.match(r"(a+)+$", "a" * 60 + "b")


if scene == "results":
    for ranks in sys.argv[2:]:
        show(runs.run(who, 10, ranks=int(ranks)))
elif scene == "all ranks":
    show(runs.run(alone, 10, ranks=2))
    show(runs.run(alone, 20, ranks=2, echo=False))
    show(runs.ranks_here(7))
    socket.gethostname = lambda: f"node{world.rank() // 2}"
    show(f"{runs.nodes_here()} nodes")
elif scene == "one after the other":
    show(("threads", *(runs.run(threads, threads=count) for count in (None, 5, None))))
    show(("mapped", runs.run(lambda comm: sorted(shm.mapped("self")), ranks=2)))
    show(("reserved", runs.run(is_reserved, controller="torch", timeout=float("inf"))))
    for ranks in (1, 2):
        runs.run(leave_a_message, ranks=ranks)
        show(("received", runs.run(pass_on, ranks=ranks, timeout=np.float32(60))))
    try:
        runs.run(unsolved)
    except errors.RankFailed as error:
        show((error.kind, str(error)))
elif scene == "many communicators":
    from mpi4py import MPI

    taken = [MPI.COMM_WORLD.Dup() for _ in range(1950)]  # MPICH has 2048 of them
    show(sum(runs.run(who, 0, ranks=1, echo=False)[0][1] for _ in range(150)))
elif scene == "libraries":
    show([runs.run(total_torch, controller="torch", env={"X": "1"}, threads=2) for _ in range(2)])
    show(("threads", *(runs.run(threads_of_torch, threads=count) for count in (None, 2, None))))
    show(os.environ.get("X"))
    show([runs.run(total_horovod), runs.run(alone, 1), runs.run(total_horovod)])
elif scene == "clocks differ":
    clock = time.time
    time.time = lambda: clock() + 100 * world.rank()
    try:
        runs.run(fail_in_turn)
    except errors.RankFailed as error:
        show(str(error).partition(" failed")[0])
    notes.failed("so late")
elif scene == "nested":
    runs.run(lambda: runs.run(alone, 1))
elif scene == "outside":
    runs.run(alone, 1)
    if world.rank() == 1:
        raise errors.CheckFailed("only this rank found it")
    runs.run(alone, 2)
else:
    task = {"one fails": one_fails, "unsolved": unsolved, "stuck": stuck, "spin": spin}
    runs.run(task[scene], ranks=world.size(), timeout=1.5)
print("the end")

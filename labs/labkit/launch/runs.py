"""`launch.run(fn, ranks=4)`: one function on several processes, from a notebook, a script or a job.

Alone, ranks are started on this host and end with the run, whatever happens to it. Under mpiexec,
srun or mpirun_rsh the processes are there already, and `fn` runs on them.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from functools import partial

from labkit import builds, world
from labkit.errors import LabError
from labkit.launch import forks, outcome, plans
from labkit.launch.session import Session
from labkit.launch.task import Run, Task, count, load_result, save

_running = False  # in place: is this process inside a function that launch.run runs?


def run(
    fn: Callable,
    *args: object,
    ranks: int = 4,
    controller: str = "mpi",
    timeout: float = 120,
    threads: int | None = None,
    env: dict[str, str] | None = None,
    echo: bool = True,
    horovod: str | None = None,
    mpi: str | None = None,
    **kwargs: object,
) -> list:
    """Run `fn(*args, **kwargs)` on `ranks` processes and return their results, by rank.

    If the first parameter of `fn` is named `comm`, it receives the mpi4py communicator (controller
    "mpi"). controller: "mpi" (mpiexec), or "torch" (the variables that
    `torch.distributed.init_process_group` reads). timeout: seconds from the moment all ranks have
    begun. threads: per rank, cores divided by ranks if None. env: extra environment variables.
    echo: show what the ranks print, each line after its rank, `[2] hello`. horovod, mpi: which of
    the builds that are here the ranks use ("host", "nccl", "mpi"; "mpich", "mvapich2", …; see
    labkit.builds); None: as LABKIT_HOROVOD and LABKIT_MPI_BUILD say, else the default.

    Where this process has imported PyTorch or TensorFlow, ranks are forks of a process that has,
    too, and need not import it each (forks.py; not with a GPU). LABKIT_FORKS=0 in the environment
    starts each anew.

    Raises RankFailed when a rank raises, dies, or does not come back in time; NotHere for a build
    that is not here; LabError when nothing can be started, or when ranks are there already and have
    other builds.
    """
    ranks = count("ranks", ranks)
    threads = None if threads is None else count("threads", threads)
    wanted = Run(
        Task(fn, args, kwargs), ranks, controller, timeout, threads, env or {}, echo, horovod, mpi
    )
    launcher = world.launcher()
    if launcher == "labkit" or _running:
        raise LabError(
            "launch.run was called by a function that already runs on ranks. Call it from outside"
            " of it."
        )
    return _on_local_ranks(wanted) if launcher is None else _in_place(wanted)


def _on_local_ranks(run: Run) -> list:
    env = builds.variables(run.horovod, run.mpi, os.environ | run.env) | run.env
    path = builds.search_path(sys.path, env.get("LABKIT_HOROVOD"))
    # Without echo the ranks' output is read, too, so that they do not block, and dropped.
    show = partial(print, flush=True) if run.echo else lambda line: None
    with Session(run.ranks, show) as session:
        save(session.folder / "task", run.task)
        with plans.plan(run, str(session.folder), env) as plan:
            commands = forks.through_forks(plan, path)
            session.start(commands, run.task.wants_comm, outcome.DUMP_SIGNAL, path)
            error = outcome.follow(session, run.timeout)
            if error is None:
                # Before the end: a supervisor that has to end slow leavers removes the folder.
                results = [
                    load_result(session.folder / f"result.{rank}", rank)
                    for rank in range(run.ranks)
                ]
                session.finish()
            session.stop()
        session.drain()
    if error is not None:
        raise error
    return results


def _in_place(run: Run) -> list:
    from labkit.launch import in_place

    global _running
    _running = True
    try:
        return in_place.run_here(run)
    finally:
        _running = False


def ranks_here(n: int) -> int:
    """How many ranks a run will use: those of the launcher this file runs under, else `n`."""
    return world.size() if world.launcher() else n


def nodes_here() -> int:
    """On how many nodes the ranks of this job are; all of them call it. 1 where no launcher started
    this file."""
    # Each rank is asked: nodes may have different numbers of them.
    return len(set(run(socket.gethostname, ranks=world.size()))) if world.launcher() else 1

"""`launch.run(fn, ranks=4)`: one function on several processes, from a notebook, a script or a job.

Alone, ranks are started on this host and end with the run, whatever happens to it. Under mpiexec, srun
or mpirun_rsh the processes are there already, and `fn` runs on them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from numbers import Real

from labkit import builds, world
from labkit.errors import LabError
from labkit.launch import outcome, plans
from labkit.launch.session import Session
from labkit.launch.task import Task, load_result, save

CONTROLLERS = ("mpi", "gloo", "torch")
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

    If the first parameter of `fn` is named `comm`, it receives the mpi4py communicator (controller "mpi").
    controller: "mpi" (mpiexec; Horovod then uses MPI), "gloo" (Horovod without MPI), or "torch" (the
    variables that `torch.distributed.init_process_group` reads).
    timeout: seconds from the moment all ranks have begun. threads: per rank, cores divided by ranks if None.
    env: extra environment variables. echo: show what the ranks print, each line after its rank, `[2] hello`.
    horovod, mpi: which of the builds that are here the ranks use ("host", "nccl", "mpi"; "mpich", "mvapich2",
    …; see labkit.builds); None: as LABKIT_HOROVOD and LABKIT_MPI_BUILD say, else the default.

    Raises RankFailed when a rank raises, dies, or does not come back in time; NotHere for a build that is not
    here; LabError when nothing can be started, or when ranks are there already and have other builds.
    """
    _refuse_nonsense(fn, ranks, controller, timeout, threads, env)
    task = Task(fn, args, kwargs)
    if task.wants_comm and controller != "mpi":
        raise LabError(
            f"{task.name} asks for an MPI communicator (its first parameter is named comm), which "
            f'controller="{controller}" does not have. Use controller="mpi", or rename the parameter.'
        )
    launcher = world.launcher()
    if launcher == "labkit" or _running:
        raise LabError(
            "launch.run was called by a function that already runs on ranks. Call it from outside of it."
        )
    env = env or {}
    if launcher is not None:
        wishes = {"horovod": horovod, "mpi": mpi}
        return _in_place(task, ranks, controller, timeout, threads=threads, env=env, echo=echo, wishes=wishes)
    threads = threads or max(1, world.cores() // ranks)
    env = builds.variables(horovod, mpi, os.environ | env) | env
    return _on_local_ranks(task, ranks, controller, timeout, threads=threads, env=env, echo=echo)


def _on_local_ranks(task: Task, ranks: int, controller: str, timeout: float, *, threads, env, echo) -> list:
    path = builds.search_path(sys.path, env.get("LABKIT_HOROVOD"))
    show = _print if echo else _nothing
    with Session(ranks, show) as session:
        save(session.folder / "task", task)
        folder = str(session.folder)
        variables = plans.environment(folder, threads, env)
        with plans.plan(controller, ranks, folder, variables) as plan:
            session.start(plan, task.wants_comm, outcome.DUMP_SIGNAL, path)
            error = outcome.follow(session, timeout)
            if error is None:
                # Before the end: a supervisor that has to end slow leavers removes the folder.
                results = [load_result(session.folder / f"result.{rank}", rank) for rank in range(ranks)]
                session.finish()
            session.stop()
        session.drain()
    if error is not None:
        raise error
    return results


def _in_place(task: Task, ranks: int, controller: str, timeout: float, **options) -> list:
    from labkit.launch import in_place

    global _running
    _running = True
    try:
        return in_place.run(task, ranks, controller, timeout, **options)
    finally:
        _running = False


def ranks_here(n: int) -> int:
    """How many ranks a run will use: those of the launcher this file runs under, else `n`."""
    return world.size() if world.launcher() else n


def _print(line: str) -> None:
    print(line, file=sys.stdout, flush=True)


def _nothing(line: str) -> None:
    """echo=False: the ranks' output is read, so that they do not block, and dropped."""


def _refuse_nonsense(fn, ranks, controller, timeout, threads, env) -> None:
    if not callable(fn):
        raise LabError(
            f"launch.run needs a function to run on the ranks, but got {fn!r}. Leave out its parentheses."
        )
    for name, value in (("ranks", ranks), ("threads", 1 if threads is None else threads)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise LabError(f"{name} must be a whole number of at least 1, not {value!r}.")
    if controller not in CONTROLLERS:
        raise LabError(f"controller must be one of {', '.join(CONTROLLERS)}, not {controller!r}.")
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not timeout > 0:
        raise LabError(f"timeout must be a number of seconds above 0, not {timeout!r}.")
    if not all(isinstance(item, str) for pair in (env or {}).items() for item in pair):
        raise LabError(f"env must hold text, as in env={{'NAME': '1'}}, not {env!r}.")

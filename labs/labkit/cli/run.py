"""`make run LAB=40 NP=4`: a lab's script as plain Python or under mpiexec, with other parameters if
asked."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from labkit import builds, copies, labfile, launch, paths, world
from labkit.errors import LabError

PATIENCE = 10.0  # seconds that mpiexec gets to end its ranks itself


def add_verb(verbs) -> None:
    """Add `run` to labkit's parser."""
    parser = verbs.add_parser("run", help="run a lab's script")
    parser.add_argument("lab", help="number or stem")
    parser.add_argument(
        "--np", type=int, default=1, help="number of ranks (1: plain Python, no launcher)"
    )
    add_choices(parser)
    parser.add_argument("--solved", action="store_true", help="the solved lab")
    parser.set_defaults(call=_run)


def add_choices(parser: argparse.ArgumentParser) -> None:
    """What the verbs of batch jobs take as well: parameters, and which of the builds here the ranks
    use."""
    parser.add_argument(
        "--set",
        nargs="*",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="other values of parameters",
    )
    parser.add_argument("--horovod", metavar="BUILD", help="a build of Horovod: host, nccl or mpi")
    parser.add_argument(
        "--mpi", metavar="BUILD", help="an MPI that `make doctor` lists, such as mvapich2"
    )


def _run(options: argparse.Namespace) -> int:
    return run(options.lab, options.np, options.set, options.solved, options.horovod, options.mpi)


def run(
    lab: str,
    ranks: int = 1,
    settings: Sequence[str] = (),
    solved: bool = False,
    horovod: str | None = None,
    mpi: str | None = None,
) -> int:
    """Run the learner's script (or the solved one) on that many ranks. Returns its exit status.

    A notebook that is newer than the script is written to it first, as before a batch job.

    A solved run keeps its progress and records apart, in home()/solved. Ctrl-C is status 130.
    horovod, mpi: builds, as for launch.run.
    """
    if ranks < 1:
        raise LabError(f"A lab runs on 1 rank or more; NP={ranks} makes no sense.")
    stem = labfile.find(lab)
    path = copies.script(stem, solved)
    newer = None if solved else copies.sync(stem, paths.root())
    if newer:
        print(newer, file=sys.stderr, flush=True)
    env = world.without_secrets(os.environ)
    if solved:
        env |= {"LABKIT_HOME": str(paths.home() / "solved"), "LABKIT_SOLVED": "1"}
    if ranks > 1:
        # Ranks share the cores: more threads than cores only get into each other's way.
        for name in launch.THREAD_VARIABLES:
            env.setdefault(name, str(max(1, world.cores() // ranks)))
    chosen = builds.variables(horovod, mpi, env)
    on_nodes = launch.in_batch_job(env)
    if ranks > 1 and not on_nodes:
        chosen |= launch.loopback_variables(env)
        env = launch.sharing_variables(ranks) | env
    env |= chosen
    launcher = _launcher(ranks, chosen, on_nodes)
    if launcher:
        env |= launch.launcher_variables(launcher[0])
    values = dict(labfile.read_setting(text) for text in settings)
    with copies.with_parameters(path, values) as script:
        command = [*launcher, sys.executable, str(script)]
        ended = launch.run_to_end(command, env=env, cwd=paths.root(), patience=PATIENCE)
    return 130 if ended.cause == "SIGINT" else ended.status


def _launcher(ranks: int, variables: Mapping[str, str], on_nodes: bool) -> list[str]:
    """The command that starts so many ranks here; [] for one rank, which is plain Python.

    variables: those which a launcher has to pass on. on_nodes: the launcher chooses among a job's
    nodes.
    """
    if ranks == 1:
        return []
    mpiexec = launch.mpiexec(variables.get("LABKIT_MPI_BUILD"))
    where = "plain" if on_nodes else "local"
    return [mpiexec, *launch.launcher_options(mpiexec, where, ranks=ranks, variables=variables)]

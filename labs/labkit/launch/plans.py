"""The commands that start the ranks of one run, and the environment they start in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from labkit import builds, mpis, world
from labkit.errors import NotHere
from labkit.launch import loopback
from labkit.launch.task import Run

WORKER = str(Path(__file__).with_name("worker.py"))
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
# MPICH's: a rank that has polled so many times in vain sleeps for a moment (usleep(1)), as the
# library's own descriptions of these two variables say.
_SLEEP_WHILE_WAITING = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1024",
}


def mpiexec(mpi: str | None = None) -> str:
    """The MPI launcher: of this Python's environment, else of $MPI_HOME, else of the PATH.

    mpi: a build of MPI (see labkit.builds), whose own launcher it then is; None: that which
    $LABKIT_MPI_BUILD names, if it is set. Raises NotHere when there is none.
    """
    name = mpi or os.environ.get("LABKIT_MPI_BUILD")
    if name:
        return str(builds.mpi_folder(name) / "bin" / "mpiexec")
    folders = [Path(sys.executable).parent]
    if os.environ.get("MPI_HOME"):
        folders.append(Path(os.environ["MPI_HOME"], "bin"))
    for folder in folders:
        if os.access(folder / "mpiexec", os.X_OK):
            return str(folder / "mpiexec")
    for name, path in (("mpirun_rsh", str(folders[-1])), ("mpiexec", None), ("mpirun_rsh", None)):
        path_of_launcher = shutil.which(name, path=path)
        if path_of_launcher:
            return path_of_launcher
    raise NotHere(
        "No MPI launcher (mpiexec) is here, so several ranks cannot be started. `make setup`"
        " installs MPICH into the environment; on a cluster load the site's MPI module or set"
        " MPI_HOME."
    )


class _Options(NamedTuple):
    """What one kind of launcher has to be told, as words with {ranks}, {nodes}, {each}, {hostfile}.

    HOSTS stands for "localhost", once for each rank. pages: begin of an option ("": of any other
    one) -> the page of the launcher's documentation that describes it.
    """

    job: str  # {ranks} ranks over the {nodes} nodes of a batch job, {each} on a node
    uneven: str = ""  # the same where nodes have different numbers of ranks; "": as `job`
    plain: str = ""  # so many ranks, placed as the launcher likes (for those that `mpiexec` finds)
    local: str = ""  # so many ranks on this host, whatever job this process belongs to
    export: str = ""  # for each variable {name} that ranks need and would not get by themselves
    gpus: str = ""  # in a job with GPUs
    pages: Mapping[str, str] = {}


# Hydra's processes meet at the loopback address, where its control port listens: see loopback.py.
_HYDRA_IFACE = "-iface lo " if sys.platform.startswith("linux") else ""

_MPICH_WIKI = "https://github.com/pmodels/mpich/blob/main/doc/wiki"
_INTEL_MPI = "https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux"

# The only place that knows them. mpirun_rsh: section 5.2 of its user guide; "hydra" is the launcher
# of MPICH, of MVAPICH and of Intel MPI; TACC's ibrun takes all from the job.
_OPTIONS = {
    "hydra": _Options(
        job="-n {ranks} -ppn {each}",
        # In a file with a host a line, neighbors that are the same host become one with a count.
        uneven="-n {ranks} -machinefile {hostfile}",
        plain="-n {ranks}",
        local="-launcher fork -hosts localhost -n {ranks}",
        pages={
            "": f"{_MPICH_WIKI}/how_to/Using_the_Hydra_Process_Manager.md",
            # Ranks on a node: MPICH's own page does not have it, its `mpiexec -help` does.
            "-ppn": f"{_INTEL_MPI}/current/mpiexec-hydra.html",
        },
    ),
    "openmpi": _Options(
        job="-n {ranks} --map-by ppr:{each}:node",
        uneven="-n {ranks} --map-by slot",  # Slurm's ranks on a node are its slots
        plain="-n {ranks} --oversubscribe",
        local="-n {ranks} --oversubscribe --host localhost:{ranks}",
        export="-x {name}",
        pages={"": "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html"},
    ),
    "mpirun_rsh": _Options(
        job="-np {ranks} -hostfile {hostfile}",
        plain="-export-all -np {ranks} HOSTS",
        local="-export-all -np {ranks} HOSTS",
        export="{name}={value}",
        pages={"": mpis.MVAPICH2_GUIDE},
    ),
    "srun": _Options(
        # Ranks fill node after node, as a job's first lines say. One that fails ends all.
        job="--nodes {nodes} --ntasks {ranks} --distribution=block --kill-on-bad-exit=1",
        plain="--ntasks {ranks} --kill-on-bad-exit=1",
        # a rank sees its neighbours' GPUs too: MPI's and NCCL's IPC need it
        gpus="--gpu-bind=none",
        pages={
            "": "https://slurm.schedmd.com/srun.html",
            "--mpi": "https://slurm.schedmd.com/mpi_guide.html",
        },
    ),
    "ibrun": _Options(job="", pages={"": "https://docs.tacc.utexas.edu/hpc/vista/"}),
}


@lru_cache
def flavor(launcher: str) -> str:
    """Whose options `launcher` takes: "hydra", "openmpi", "mpirun_rsh", "srun" or "ibrun"."""
    name = Path(launcher).name
    if name in _OPTIONS:
        return name
    done = subprocess.run(
        [launcher, "--version"],
        capture_output=True,
        text=True,
        env=world.clean_env(),
        check=False,
        timeout=60,
    )
    return mpis.launcher_kind(done.stdout + done.stderr)


def launcher_options(
    launcher: str,
    where: str,
    *,
    ranks: int,
    nodes: int = 1,
    each: int = 0,
    hostfile: Path | str = "",
    gpus: int = 0,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The options for `launcher` to start `ranks` ranks; they stand between it and the command of
    one rank.

    where: "plain" (placed as the launcher likes), "local" (on this host), or "job": over the nodes
    of a batch job, with `each` ranks and `gpus` GPUs on a node, and a file that names the host of
    each rank in a line. "uneven": the same, with at most `each` ranks on a node. variables: those
    that ranks need, for a launcher that does not pass the environment on. NotHere for "local" where
    srun starts the ranks: outside of a job it would wait in the queue.
    """
    options = _OPTIONS[flavor(launcher)]
    sizes = {"ranks": ranks, "nodes": nodes, "each": each, "hostfile": hostfile}
    filled: list[str] = []
    if where == "local" and not options.local:
        raise NotHere(
            "The MPI of this environment has no launcher of its own: Slurm's srun starts its ranks,"
            " and only in a batch job. `make submit LAB=40 NODES=2` submits one."
        )
    words = options.uneven or options.job if where == "uneven" else getattr(options, where)
    for word in words.split():
        filled += ["localhost"] * ranks if word == "HOSTS" else [word.format(**sizes)]
    if gpus:
        filled += options.gpus.split()
    for name, value in (variables or {}).items():
        # mpirun_rsh cannot pass a value with a space in it.
        if "{value}" in options.export and any(letter.isspace() for letter in value):
            continue
        filled += [word.format(name=name, value=value) for word in options.export.split()]
    return filled


def launcher_variables(launcher: str) -> dict[str, str]:
    """What `launcher` has to find in its environment: Open MPI's starts nothing for root, which one
    often is in a container."""
    names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    return dict.fromkeys(names, "1") if flavor(launcher) == "openmpi" else {}


def page(launcher: str, option: str) -> str:
    """The page of the documentation on an option of `launcher`, such as "--mpi=pmi2"."""
    pages = _OPTIONS[flavor(launcher)].pages
    return pages[max((begin for begin in pages if option.startswith(begin)), key=len)]


def mpi_plan(ranks: int, folder: str, env: dict[str, str]) -> list:
    """One command: mpiexec with `ranks` workers, on this host whatever job the notebook itself
    belongs to."""
    launcher = mpiexec(env.get("LABKIT_MPI_BUILD"))
    command = [
        launcher,
        *launcher_options(launcher, "local", ranks=ranks),
        sys.executable,
        WORKER,
        folder,
    ]
    return [[command, env | launcher_variables(launcher)]]


def torch_plan(ranks: int, folder: str, env: dict[str, str], port: int) -> list:
    """One command a rank, with the variables that torch.distributed's env:// initialization
    reads."""
    shared = {**env, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    worker = [sys.executable, WORKER, folder]
    return [
        [worker, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}] for rank in range(ranks)
    ]


def environment(folder: str, threads: int, extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without launcher variables, and with thread counts, a mark and
    `extra`."""
    env = world.clean_env()
    env.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    env["LABKIT_RUN"] = folder  # marks every process of the run, whatever it becomes
    # UCX would print pages of C frames when a rank crashes.
    env.setdefault("UCX_HANDLE_ERRORS", "none")
    env |= extra
    return env | loopback.loopback_variables(env)


def sharing_variables(ranks: int) -> dict[str, str]:
    """What MPICH needs where so many ranks of this host share fewer cores; {} where each has one.

    A rank that waits for a message polls, and keeps its core until the system takes it away, some
    ms later. The rank that would send has to wait for the core until then. Where each rank has a
    core, sleeping would only make messages slower.
    """
    return dict(_SLEEP_WHILE_WAITING) if ranks > world.cores() else {}


def reserve_port(host: str = "127.0.0.1") -> socket.socket:
    """A socket bound to a free port of this host, not listening.

    While it stays open the system gives the port to nobody who asks for any free one, yet a server
    that asks for this very port (and allows address reuse, as PyTorch's does) gets it.
    """
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((host, 0))
    return taken


@contextmanager
def plan(run: Run, folder: str, variables: Mapping[str, str]) -> Iterator[list]:
    """The commands, each with its environment, that start the run; open as long as the run needs
    its port.

    folder: of the run. variables: for all of its ranks, those of its builds of Horovod and MPI
    among them.
    """
    threads = run.threads or max(1, world.cores() // run.ranks)
    env = sharing_variables(run.ranks) | environment(folder, threads, variables)
    if run.controller == "mpi":
        yield mpi_plan(run.ranks, folder, env)
    else:
        with reserve_port() as taken:
            yield torch_plan(run.ranks, folder, env, taken.getsockname()[1])

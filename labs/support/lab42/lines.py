"""Lines that learners wrote, started: on this machine, or by Slurm in a job of the size that they ask for."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from labkit import builds, cluster, launch, paths, world
from labkit.errors import LabError

from support.lab42 import roll_call
from support.lab42.commands import Job

PROGRAM = [sys.executable, "-m", "support.lab42.roll_call"]  # words that say what a line has started
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
_CLIENTS = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")  # how Slurm's commands find their controller


def launcher_here() -> str | None:
    """Whose line can be started here: "srun", "mpirun_rsh", or "mpiexec" where there is no Slurm.

    None for an mpiexec that is not of MPICH's kin: it has other options.
    """
    site = cluster.here()
    if site is None:
        return "mpiexec" if launch.flavor(launch.mpiexec()) == "hydra" else None
    chosen = cluster.sites.load(site).get("LABKIT_LAUNCHER", "srun").split()[0]
    return "mpirun_rsh" if chosen == "mpirun_rsh" else "srun"


def job_here(cores: int = 1) -> Job:
    """A small job that fits: two nodes of Slurm with a rank on each, or two ranks on this machine.

    On a GPU cluster it has one GPU on each node.
    """
    site = cluster.here()
    if site is None:
        return Job(1, 2, cores, 0)
    partitions = cluster.slurm.at(site).partitions()
    nodes = min(2, max(partition.largest for partition in partitions))
    gpus = int(cluster.sites.load(site).get("LABKIT_GPUS_PER_NODE", "0"))
    return Job(nodes, 1, cores, min(1, gpus))


def start(words: Sequence[str], job: Job, mpi: str | None = None, timeout: float = 180) -> list[dict]:
    """Start a line whose program is PROGRAM, wait for its end, and return what each rank answered.

    mpi: a build of labkit.builds; None: the one in use. See roll_call.answer for the fields. Raises LabError
    with the last words of a line that fails, or that does not end within `timeout` seconds.
    """
    with _folder() as folder:
        if words[0] == "env" and "mpiexec" in words:
            printed = _on_this_machine(words, mpi, folder, timeout)
        else:
            printed = _in_slurm(words, job, mpi, folder, timeout)
    jobs = roll_call.read(printed)
    if not jobs:
        raise LabError(f"No rank answered. The last that was printed: {_last(printed)}")
    if len(jobs) > 1:
        raise LabError(
            f"The ranks did not find each other: {len(jobs)} jobs of {len(jobs[0])} rank answered."
        )
    return jobs[0]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder that the nodes see, too."""
    folder = Path(tempfile.mkdtemp(prefix="line-", dir=paths.home().resolve()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _variables(mpi: str | None) -> dict[str, str]:
    """What the ranks need to be of this MPI and to find the labs' modules.

    The MPI's own settings are left out: they are for the line to say.
    """
    every = builds.variables(mpi=mpi)
    chosen = {name: value for name, value in every.items() if not name.startswith(("MV2_", "MVP_"))}
    path = [str(paths.root() / "labs"), chosen.get("PYTHONPATH", "")]
    return {**chosen, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _on_this_machine(words: Sequence[str], mpi: str | None, folder: Path, timeout: float) -> str:
    """What it printed. Threads are left to the cores that each rank is given."""
    env = {name: value for name, value in world.clean_env().items() if name not in launch.THREAD_VARIABLES}
    folder_of_launcher = str(Path(launch.mpiexec(mpi)).parent)
    env |= {**_variables(mpi), "PATH": os.pathsep.join([folder_of_launcher, env["PATH"]])}
    output = folder / "output"
    with output.open("w") as file:
        ended = launch.run_to_end(
            list(words), timeout=timeout, env=env, cwd=paths.root(), stdin=subprocess.DEVNULL,
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    printed = output.read_text(errors="replace")
    if ended.cause == "timeout":
        raise LabError(f"The line did not end within {timeout:g} s. It printed: {_last(printed)}")
    if ended.status:
        raise LabError(f"The line ended with status {ended.status}: {_last(printed)}")
    return printed


def _in_slurm(words: Sequence[str], job: Job, mpi: str | None, folder: Path, timeout: float) -> str:
    """What it printed in a batch job of its size; the job does what the kit's batch scripts do before it."""
    site = cluster.here()
    own = {name: os.environ[name] for name in _CLIENTS if name in os.environ}
    env = cluster.sites.environment(site, world.clean_env()) | own
    client = cluster.slurm.at(site, {name: value for name, value in env.items() if "MPLBACKEND" not in name})
    script = folder / "line.sbatch"
    script.write_text(batch_script(words, job, _variables(mpi), folder), encoding="utf-8")
    size = [f"--nodes={job.nodes}", f"--ntasks-per-node={job.ranks}", f"--cpus-per-task={job.cores}"]
    chosen = shlex.split(env.get("LABKIT_SBATCH_OPTIONS", ""))
    output = folder / "output"
    number = client.submit(*chosen, *size, "--time=10", f"--output={output}", "--export=ALL", str(script))
    try:
        state = _state_at_end(client, number, timeout)
    except BaseException:
        client.ask("scancel", number)
        raise
    printed = output.read_text(errors="replace") if output.exists() else ""
    if state != "COMPLETED":
        raise LabError(f"Job {number} with your line is {state.lower()}: {_last(printed)}")
    return printed


def batch_script(words: Sequence[str], job: Job, variables: dict[str, str], folder: Path) -> str:
    """The text of the batch script: the site's modules and settings, a file of hosts, and then the line."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    hosts = f'scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/$/:{job.ranks}/" >hosts'
    lines = [
        "#!/usr/bin/env bash",
        "#SBATCH --job-name=42_line",
        "source slurm/launch.sh",
        "read_site 42_horovod_mvapich2_gdr",
        "export SLURM_EXPORT_ENV=ALL",
        *exports,
        f"cd {shlex.quote(str(folder))}",
        hosts,
        shlex.join(words),
    ]
    return "\n".join(lines) + "\n"


def _state_at_end(client: cluster.slurm.Client, number: str, timeout: float) -> str:
    """Wait for the end of a job; its state then. Raises LabError if that takes longer than `timeout`."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        state = client.job(number).get("JobState", "")
        if state in _ENDED:
            time.sleep(0.5)  # a shared file system may show the last lines a little late
            return state
        time.sleep(1.0)
    raise LabError(
        f"Job {number} with your line did not end within {timeout:g} s and is cancelled. If it waited for "
        "free nodes, run this cell again later."
    )


def _last(printed: str, lines: int = 5) -> str:
    """The last lines of what was printed."""
    return "\n".join([line for line in printed.splitlines() if line.strip()][-lines:]) or "nothing"

"""Other people's benchmarks beside the learner's, and which two ranks play. Lab 22 builds such
benchmarks."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from labkit import world
from labkit.errors import LabError
from labkit.timing.measurement import Measurement
from labkit.timing.timer import measure

INSIDE, BETWEEN = "inside a node", "between nodes"
# bytes above which the OSU benchmarks do fewer rounds (LARGE_MESSAGE_SIZE of their util.h)
LARGE = 8192


def pairs(hosts: Sequence[str]) -> dict[str, list[int]]:
    """{"inside a node": [0, 1], "between nodes": [0, 4]}: rank 0 and the next rank on its host, on
    another.

    hosts: the host's name by rank. What the job does not have is left out.
    """
    first: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts[1:], 1):
        first.setdefault(INSIDE if host == hosts[0] else BETWEEN, [0, rank])
    return {where: first[where] for where in (INSIDE, BETWEEN) if where in first}


def on_pairs(comm, fn: Callable) -> dict[str, object]:
    """Run `fn(two)` on a communicator of two ranks, for each of `pairs`. Returns {where: what rank
    gets}.

    comm: mpi4py's; every rank calls this. Ranks that do not play return {}, or what they played,
    and wait asleep: inside MPI a rank that waits keeps a core busy, which here may be the core of
    one that plays.
    """
    results = {}
    playing = pairs(comm.allgather(socket.gethostname()))
    if not playing:
        raise LabError(
            "A message needs two ranks, and this job has one: start it on two or more, or outside"
            " of a job."
        )
    for where, pair in playing.items():
        two = comm.Split(int(comm.rank in pair))
        if comm.rank in pair:
            results[where] = fn(two)
        barrier = comm.Ibarrier()
        while not barrier.Test():
            time.sleep(1e-3)
        two.Free()
    return results


def sweep(
    comm, fn: Callable, sizes: Sequence[int], short: tuple, long: tuple, **options
) -> dict[str, dict]:
    """{where: {bytes: fn(two, bytes, rounds, skip, clock, **options)}} on the ranks of `on_pairs`.

    short, long: (rounds that count, rounds of warm-up before them) for messages of up to 8 KiB, and
    above.
    """

    def row(two) -> dict:
        results = {}
        for nbytes in sizes:
            rounds, skip = short if nbytes <= LARGE else long
            results[nbytes] = fn(two, nbytes, rounds, skip, time.perf_counter, **options)
        return results

    return on_pairs(comm, row)


def allreduces(comm, sizes: Sequence[int], short: tuple, long: tuple) -> dict[int, list[float]]:
    """{bytes: seconds of each call of MPI's Allreduce on this rank}, float64, as osu_allreduce
    times it.

    A barrier before each call, outside of the timed part, lets all ranks begin together. short,
    long: as in `sweep`.
    """
    rows = {}
    for nbytes in sizes:
        vector, result = np.zeros((2, nbytes // 8))
        rounds, skip = short if nbytes <= LARGE else long
        seconds = []
        for _ in range(skip + rounds):
            comm.Barrier()
            start = time.perf_counter()
            comm.Allreduce(vector, result)
            seconds.append(time.perf_counter() - start)
        rows[nbytes] = seconds[skip:]
    return rows


def additions(comm, sizes: Sequence[int]) -> dict[int, Measurement]:
    """{bytes: seconds of `a += b`}, float64, on all ranks at once: they share the memory's
    bandwidth."""
    measurements = {}
    for nbytes in sizes:
        a, b = np.ones((2, nbytes // 8))
        measurements[nbytes] = measure(partial(np.add, a, b, a), comm=comm, seconds=0.2)
    return measurements


def step(comm, nbytes: int, rounds: int, skip: int, clock: Callable[[], float]) -> float:
    """Seconds of one step of a collective of two ranks: a Sendrecv of part of an array, and adding
    it up.

    The median of `rounds`, after `skip`. Python's own share is in it, as in an algorithm written
    with mpi4py.
    """
    vector, received = np.zeros((2, nbytes // 4))
    peer = 1 - comm.rank
    half = nbytes // 8
    seconds = []
    for _ in range(skip + rounds):
        start = clock()
        comm.Sendrecv(vector[:half], peer, recvbuf=received[:half], source=peer)
        vector[half:] += received[:half]
        seconds.append(clock() - start)
    return float(np.median(seconds[skip:]))


def mpi4py_pingpong(comm, longest: int, loops: int = 10_000) -> dict[str, dict[int, float]]:
    """{where: {bytes: seconds}} of `python -m mpi4py.bench pingpong` on the ranks of `on_pairs`.

    Its conventions: half a round trip, the mean; sizes 1, 2, 4 … up to `longest` bytes; `loops`
    rounds after 100 that do not count up to 16 KiB, at most 1,000 after 10 up to 1 MiB, at most 10
    after 1 above.
    """
    from mpi4py.bench import pingpong

    rows = on_pairs(
        comm, lambda two: pingpong(two, ["-n", str(longest), "-l", str(loops)], verbose=False)
    )
    return {where: {nbytes: mean for nbytes, mean, _ in row} for where, row in rows.items()}


def osu(tool: str, ranks: int, *options: str, timeout: float = 300) -> str:
    """What an OSU benchmark, such as "osu_latency", prints on `ranks` local ranks; or why there is
    nothing.

    Started by the mpiexec of the PATH: it belongs to the MPI that the benchmark was built with.
    """
    if world.launcher():
        return (
            f"{tool}: this job's ranks are taken; start it by itself, as in `srun -n {ranks}"
            f" {tool}`."
        )
    program = shutil.which(tool)
    launcher = shutil.which("mpiexec")
    if not (program and launcher):
        missing = "mpiexec" if program else tool
        return f"{missing} is not in the PATH, so there is no {tool} to compare with."
    try:
        done = subprocess.run(
            [launcher, "-n", str(ranks), program, *options],
            capture_output=True,
            text=True,
            errors="replace",
            env=world.clean_env(),
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{tool} gave nothing: {error}"
    if done.returncode:
        return (
            f"{tool} ended with status {done.returncode}:"
            f" {(done.stderr or done.stdout).strip()[-300:]}"
        )
    return done.stdout.rstrip()


def show(title: str, names: str | Sequence[str], rows: Mapping[int, object]) -> None:
    """Print {bytes: value, or several} as the OSU benchmarks do: title, names of columns, a row a
    size."""
    names = [names] if isinstance(names, str) else names
    print(f"# {title}\n# Size  " + "".join(f"{name:>18}" for name in names))
    for nbytes, values in rows.items():
        print(f"{nbytes:<8}" + "".join(f"{value:>18.2f}" for value in np.atleast_1d(values)))

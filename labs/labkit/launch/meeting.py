"""How the ranks of a job that somebody else started meet for labkit's own purposes: by MPI alone.

What ranks exchange here is unpickled, so it never comes from a key-value store, which others can
reach.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache

from labkit import mpis, world
from labkit.errors import LabError, NotHere
from labkit.launch import shm


def refuse_without_mpi() -> None:
    """LabError in a process of a launcher that starts ranks without MPI."""
    if world.launcher() == "torchrun":
        raise LabError(
            "torchrun started this file, but its ranks meet by MPI: start it with "
            f"mpiexec -n {world.size()} instead."
        )


def _until(done: Callable[[], bool], limit: float) -> bool:
    """Ask `done` again and again, without keeping a core busy that another rank may need."""
    end = time.monotonic() + limit
    pause = 1e-5
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 1e-3)
    return True


class _Job:
    """The ranks of this job. Every rank calls `gather`, `any` and `all_end`, in the same order."""

    def __init__(self):
        mpis.prefer_own_cuda()
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise NotHere(
                f"This file runs under {world.launcher()}, but mpi4py cannot be imported: {error}"
            ) from None
        self.rank = MPI.COMM_WORLD.rank
        self.size = MPI.COMM_WORLD.size
        if self.size != world.size():
            library = mpis.first_line(MPI.Get_library_version())
            raise NotHere(
                f"{world.launcher()} started {world.size()} ranks, but MPI sees {self.size}: it and"
                f" the library that mpi4py loads ({library}) do not know each other. Use that"
                " library's own mpiexec, or `srun --mpi=pmi2` (`srun --mpi=list` shows what the"
                " site offers)."
            )
        self._mpi = MPI
        # Own communicators: messages the learner's function left behind cannot be mistaken for
        # these.
        self._comm = MPI.COMM_WORLD.Dup()
        self._end = MPI.COMM_WORLD.Dup()
        self.behind = self._behind()
        shm.unlink_own()  # the job may be ended by MPI_Abort or by Slurm, and then nobody cleans up

    def _behind(self) -> float:
        """Seconds by which this rank's clock is behind that of rank 0."""
        behind = []
        for _ in range(3):
            self._comm.Barrier()
            behind.append(self._comm.bcast(time.time()) - time.time())
        return max(behind)  # the time that a message takes makes it less

    def gather(self, payload: bytes, limit: float) -> list[bytes] | None:
        """Everyone's payload by rank; None when not all came within `limit` seconds: then abort."""
        if not _until(self._comm.Ibarrier().Test, limit):
            return None
        return self._comm.allgather(payload)

    def any(self, mine: bool) -> bool:
        """Does any rank say yes? For ranks that have just met."""
        return self._comm.allreduce(mine, self._mpi.LOR)

    def all_end(self, limit: float) -> bool:
        """Do all ranks end with an uncaught exception within `limit` seconds?"""
        return _until(self._end.Ibarrier().Test, limit)

    def abort(self) -> None:
        """End every process of the job, with a non-zero status. Output has been written before."""
        # srun ends the job only when told so; but another thread may call MPI only at the highest
        # thread level.
        if self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE or self._mpi.Is_thread_main():
            self._mpi.COMM_WORLD.Abort(1)
        os._exit(1)


@cache
def join() -> _Job:
    """This job's exchange, made on first use by all ranks. Raises NotHere when they cannot meet."""
    return _Job()


def now() -> float:
    """Seconds since the epoch by rank 0's clock, once the ranks have met; before, by this rank's
    own."""
    met = join.cache_info().currsize > 0
    return time.time() + (join().behind if met else 0.0)


def all_end(limit: float) -> bool:
    """Do all ranks end with an uncaught exception within `limit` seconds? False when they never
    met."""
    return join.cache_info().currsize > 0 and join().all_end(limit)

"""How the ranks of a job that somebody else started find each other for labkit's own purposes.

Three ways, by launcher: MPI, PyTorch's key-value store under torchrun, Horovod's rendezvous server under
horovodrun. None of them disturbs what the learner's function does with MPI, torch.distributed or Horovod.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta

from labkit import world
from labkit.errors import NotHere
from labkit.launch import shm

_jobs: dict[str, _Job] = {}


class _Job:
    """The ranks of this job. Collective: every rank calls `gather` and `all_end`, in the same order."""

    rank: int
    size: int

    def gather(self, payload: bytes, limit: float) -> list[bytes] | None:
        """Everyone's payload by rank; None when not all came within `limit` seconds: then abort."""
        raise NotImplementedError

    def all_end(self, limit: float) -> bool:
        """Do all ranks end with an uncaught exception within `limit` seconds?"""
        raise NotImplementedError

    def abort(self) -> None:
        """End every process of the job, with a non-zero status. Output has been written before."""
        os._exit(1)  # torchrun, horovodrun, hydra and mpirun_rsh end a job of which one process fails


def _until(done: Callable[[], bool], limit: float, longest: float) -> bool:
    """Ask `done` again and again, without keeping a core busy that another rank may need."""
    end = time.monotonic() + limit
    pause = 1e-5
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return True


class _Mpi(_Job):
    def __init__(self):
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise NotHere(
                f"This file runs under {world.launcher()}, but mpi4py cannot be imported: {error}"
            ) from None
        self.rank = MPI.COMM_WORLD.rank
        self.size = MPI.COMM_WORLD.size
        if self.size != world.size():
            library = MPI.Get_library_version().split("\n")[0].strip(" \0")
            raise NotHere(
                f"{world.launcher()} started {world.size()} ranks, but MPI sees {self.size}: it and "
                f"the library that mpi4py loads ({library}) do not know each other. Use that library's own "
                "mpiexec, or `srun --mpi=pmi2` (`srun --mpi=list` shows what the site offers)."
            )
        self._mpi = MPI
        # Own communicators: messages the learner's function left behind cannot be mistaken for these.
        self._comm = MPI.COMM_WORLD.Dup()
        self._end = MPI.COMM_WORLD.Dup()
        shm.unlink_own()  # the job may be ended by MPI_Abort or by Slurm, and then nobody cleans up

    def gather(self, payload: bytes, limit: float) -> list[bytes] | None:
        if not _until(self._comm.Ibarrier().Test, limit, 1e-3):
            return None
        return self._comm.allgather(payload)

    def all_end(self, limit: float) -> bool:
        return _until(self._end.Ibarrier().Test, limit, 1e-3)

    def abort(self) -> None:
        # srun ends the job only when told so; but another thread may call MPI only at the highest
        # thread level.
        if self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE or self._mpi.Is_thread_main():
            self._mpi.COMM_WORLD.Abort(1)
        os._exit(1)


class _KeyValue(_Job):
    """On any store with put(key, bytes) and get(key) -> bytes or None."""

    def __init__(self, put: Callable[[str, bytes], None], get: Callable[[str], bytes | None]):
        self.rank = world.rank()
        self.size = world.size()
        self._put = put
        self._get = get
        self._turn = 0

    def gather(self, payload: bytes, limit: float) -> list[bytes] | None:
        self._turn += 1
        # All have taken what was put two turns ago, or they would not have reached the last one.
        if self._turn > 2:
            self._put(f"{self._turn - 2}-{self.rank}", b"")
        return self._all(str(self._turn), payload, limit)

    def all_end(self, limit: float) -> bool:
        return self._all("end", b"", limit) is not None

    def _all(self, key: str, payload: bytes, limit: float) -> list[bytes] | None:
        self._put(f"{key}-{self.rank}", payload)
        payloads: dict[int, bytes] = {}

        def complete() -> bool:
            for rank in range(self.size):
                if rank not in payloads:
                    value = self._get(f"{key}-{rank}")
                    if value is None:
                        return False
                    payloads[rank] = value
            return True

        return [payloads[rank] for rank in range(self.size)] if _until(complete, limit, 2e-2) else None


def _torch_job() -> _KeyValue:
    """The store at MASTER_ADDR and MASTER_PORT, which torchrun hosts, or else rank 0."""
    import torch.distributed as dist

    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=not hosted and world.rank() == 0,
        timeout=timedelta(seconds=60),
        wait_for_workers=False,
        multi_tenant=True,  # rank 0's process may serve the learner's process group at the same address
    )
    own = dist.PrefixStore("labkit", store)
    return _KeyValue(own.set, lambda key: own.get(key) if own.check([key]) else None)


def _horovod_job() -> _KeyValue:
    """Horovod's rendezvous server, whose address horovodrun gives: keys and values over HTTP."""
    from horovod.runner.common.util import proof

    address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
    secret = proof.job_key()  # it answers only to who knows the job's secret

    def put(key: str, value: bytes) -> None:
        proof.ask("PUT", *address, f"/labkit/{key}", value, key=secret)

    def get(key: str) -> bytes | None:
        return proof.ask("GET", *address, f"/labkit/{key}", key=secret)

    return _KeyValue(put, get)


def join(controller: str) -> _Job:
    """This job's exchange, made on first use by all ranks. Raises NotHere when they cannot meet."""
    launcher = world.launcher()
    # On a site whose srun knows no MPI, batch scripts give the address of PyTorch's store by hand.
    by_hand = controller == "torch" and "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ
    kind = "torch" if launcher == "torchrun" or by_hand else "horovod" if launcher == "horovodrun" else "mpi"
    if kind not in _jobs:
        _jobs[kind] = {"torch": _torch_job, "horovod": _horovod_job, "mpi": _Mpi}[kind]()
    return _jobs[kind]


def all_end(limit: float) -> bool:
    """Do all ranks end with an uncaught exception within `limit` seconds? False when they never met."""
    return any(job.all_end(limit) for job in list(_jobs.values())[:1])

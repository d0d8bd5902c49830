"""torch.distributed in the place of an mpi4py communicator, as far as a recording needs one."""

from __future__ import annotations

from labkit.errors import LabError


def of(comm):
    """A group of the recording's own, so that its messages never meet those of the step; None for None."""
    if comm is None:
        return None
    return _Gloo(comm) if hasattr(comm, "all_gather_object") else comm.Dup()


class _Gloo:
    """All ranks of torch.distributed, over Gloo, whatever carries the messages of the step."""

    def __init__(self, dist):
        if not dist.is_initialized():
            raise LabError(
                "profiling.record: torch.distributed has no ranks yet; call init_process_group first."
            )
        self._dist, self._group = dist, dist.new_group(backend="gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def Barrier(self) -> None:
        self._dist.barrier(self._group)

    def Send(self, numbers, rank: int) -> None:
        self._dist.send(_tensor(numbers), rank, group=self._group)

    def Recv(self, numbers, rank: int) -> None:
        self._dist.recv(_tensor(numbers), rank, group=self._group)

    def allgather(self, one) -> list:
        everyone = [None] * self.size
        self._dist.all_gather_object(everyone, one, group=self._group)
        return everyone

    def scatter(self, everyone, root: int):
        mine = [None]
        self._dist.scatter_object_list(mine, everyone, src=root, group=self._group)
        return mine[0]

    def Free(self) -> None:
        self._dist.destroy_process_group(self._group)


def _tensor(numbers):
    import torch

    return torch.from_numpy(numbers)

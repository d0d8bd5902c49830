"""The lower-case collectives, on objects: pickled, and combined in order of rank."""

from __future__ import annotations

from labkit.virtual import algorithms
from labkit.virtual.reductions import operation
from labkit.virtual.wire import Objects


class ObjectCollectives:
    """mpi4py's lower-case names. op: a function of two objects, MPI.SUM and its like; + if None."""

    def barrier(self) -> None:
        self.Barrier()

    def bcast(self, obj=None, root: int = 0):
        """The root's object, on every rank. Binomial tree."""
        return algorithms.bcast(self._enter(Objects, "bcast", root=root), obj, root)

    def reduce(self, sendobj, op=None, root: int = 0):
        """All ranks' objects combined, at the root; None elsewhere. Binomial tree."""
        op = operation(op, "reduce")
        w = self._enter(Objects, "reduce", root=root, op=op.name)
        result = algorithms.reduce(w, sendobj, op, root)
        return result if self.rank == root else None

    def allreduce(self, sendobj, op=None):
        """All ranks' objects combined, on every rank. Recursive doubling."""
        op = operation(op, "allreduce")
        return algorithms.recursive_doubling(self._enter(Objects, "allreduce", op=op.name), sendobj, op)

    def scan(self, sendobj, op=None):
        """On rank r the objects of ranks 0 to r combined. Doubling distances."""
        op = operation(op, "scan")
        return algorithms.scan(self._enter(Objects, "scan", op=op.name), sendobj, op)

    def allgather(self, sendobj) -> list:
        """All ranks' objects in a list, on every rank. Ring."""
        held = [None] * self.size
        held[self.rank] = sendobj
        algorithms.ring_allgather(self._enter(Objects, "allgather"), held)
        return held

    def gather(self, sendobj, root: int = 0) -> list | None:
        """All ranks' objects in a list at the root; None elsewhere. Binomial tree."""
        held = algorithms.gather(self._enter(Objects, "gather", root=root), [sendobj], root)
        return held[self.size - root :] + held[: self.size - root] if self.rank == root else None

    def scatter(self, sendobj=None, root: int = 0):
        """Rank r gets the r-th of the root's list. Binomial tree."""
        held: list = []
        if self.rank == root:
            held = self._one_each(sendobj, "scatter")
            held = held[root:] + held[:root]
        return algorithms.scatter(self._enter(Objects, "scatter", root=root), held, 1, root)[0]

    def alltoall(self, sendobj) -> list:
        """The s-th of rank r's list becomes the r-th of rank s's. Pairwise."""
        give, take = self._one_each(sendobj, "alltoall"), [None] * self.size
        algorithms.pairwise_alltoall(self._enter(Objects, "alltoall"), give, take)
        return take

    def _one_each(self, sendobj, call: str) -> list:
        held = [] if sendobj is None else list(sendobj)
        if len(held) != self.size:
            raise ValueError(f"{call}: expecting {self.size} items, one for each rank, got {len(held)}.")
        return held

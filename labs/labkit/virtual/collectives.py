"""The collectives of a virtual communicator: mpi4py's names, arguments and meaning.

They are made of messages (`algorithms`), which cost what the program's own would, and are counted with them.
They travel in a context of their own, so that no Recv of the program ever takes one.
"""

from __future__ import annotations

import numpy as np

from labkit.virtual import algorithms, blocks, explain, matching
from labkit.virtual.blocks import Parts
from labkit.virtual.nonblocking import Nonblocking
from labkit.virtual.objects import ObjectCollectives
from labkit.virtual.reductions import for_arrays
from labkit.virtual.wire import Arrays


class Collectives(ObjectCollectives, Nonblocking):
    """The upper-case ones. Buffers: arrays, [array, MPI.FLOAT], MPI.IN_PLACE. op: the sum if None."""

    def Barrier(self) -> None:
        """Return when all ranks have called it. Dissemination."""
        algorithms.barrier(self._enter(Arrays, "Barrier"))

    def Bcast(self, buf, root: int = 0) -> None:
        """The root's array, into everybody's. Binomial tree."""
        data = blocks.array(buf, "Bcast", "buf")
        if self.rank != root:
            data = blocks.receiving(buf, "Bcast", "buf")
        self._unused(data if self.rank == root else None, data if self.rank != root else None)
        w = self._enter(Arrays, "Bcast", data, root=root, count=data.size, dtype=data.dtype)
        algorithms.bcast(w, data, root)

    def Reduce(self, sendbuf, recvbuf, op=None, root: int = 0) -> None:
        """All ranks' arrays combined, into the root's recvbuf. Binomial tree."""
        into = blocks.receiving(recvbuf, "Reduce") if self.rank == root else None
        data = blocks.array(sendbuf, "Reduce", "sendbuf") if into is None else None
        if into is not None:
            data = blocks.pair(sendbuf, into, "Reduce")
        op = for_arrays(op, "Reduce")
        self._unused(data, into)
        w = self._enter(Arrays, "Reduce", root=root, count=data.size, dtype=data.dtype, op=op.name)
        result = algorithms.reduce(w, blocks.own(data), op, root)
        if into is not None:
            blocks.put(into, result)

    def Allreduce(self, sendbuf, recvbuf, op=None) -> None:
        """All ranks' arrays combined, everywhere. Recursive doubling up to 2,048 bytes, then Rabenseifner."""
        w, into, data, op = self._combine("Allreduce", sendbuf, recvbuf, op)
        blocks.put(into, algorithms.allreduce(w, blocks.own(data), op))

    def Scan(self, sendbuf, recvbuf, op=None) -> None:
        """On rank r the arrays of ranks 0 to r combined. Doubling distances."""
        w, into, data, op = self._combine("Scan", sendbuf, recvbuf, op)
        blocks.put(into, algorithms.scan(w, blocks.own(data), op))

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=None) -> None:
        """All ranks' arrays combined; rank r gets the r-th of `size` equal blocks. Pairwise."""
        call, into = "Reduce_scatter_block", blocks.receiving(recvbuf, "Reduce_scatter_block")
        part = into.size
        if blocks.in_place(sendbuf):
            data, part = into, into.size // self.size
        else:
            data = blocks.array(sendbuf, call, "sendbuf")
            blocks.apart(data, into, call)
        blocks.whole(part, self.size, data, call, "sendbuf")
        op = for_arrays(op, call)
        self._unused(data, into)
        w = self._enter(Arrays, call, count=part, dtype=data.dtype, op=op.name)
        self._reduce_scatter(w, data, into, [part] * self.size, op)

    def Reduce_scatter(self, sendbuf, recvbuf, recvcounts=None, op=None) -> None:
        """The same in blocks of recvcounts[r] values; as many as recvbuf holds if None. Pairwise."""
        call, into = "Reduce_scatter", blocks.receiving(recvbuf, "Reduce_scatter")
        op = for_arrays(op, call)
        counts = None if recvcounts is None else [int(one) for one in recvcounts]
        terms = {"dtype": into.dtype, "op": op.name, "counts": counts and tuple(counts)}
        w = self._enter(Arrays, call, into.size, **terms)
        if counts is None:
            counts = matching.agree(w.comm, w.comm._collective)
            counts = [counts[rank] for rank in range(self.size)]
        data = into
        if not blocks.in_place(sendbuf):
            data = blocks.array(sendbuf, call, "sendbuf")
            blocks.apart(data, into, call)
        if len(counts) != self.size or sum(counts) != data.size or counts[self.rank] > into.size:
            raise ValueError(
                f"{call}: recvcounts {counts} need {self.size} numbers, {sum(counts)} values in sendbuf (it "
                f"has {data.size}) and room for rank {self.rank}'s in recvbuf ({into.size})."
            )
        self._unused(data, into)
        self._reduce_scatter(w, data, into, counts, op)

    def Allgather(self, sendbuf, recvbuf) -> None:
        """All ranks' arrays one behind the other, on every rank. Ring."""
        call, into = "Allgather", blocks.receiving(recvbuf, "Allgather")
        self._allgather(call, sendbuf, Parts.equal(into, self.size), True)

    def Allgatherv(self, sendbuf, recvbuf) -> None:
        """The same with [array, counts] as recvbuf: blocks of different lengths. Ring."""
        parts = Parts(*blocks.parts(recvbuf, self.size, "Allgatherv", "recvbuf"))
        self._allgather("Allgatherv", sendbuf, parts, False)

    def Gather(self, sendbuf, recvbuf, root: int = 0) -> None:
        """All ranks' arrays one behind the other, in the root's recvbuf. Binomial tree."""
        call, into, data = "Gather", None, sendbuf
        if self.rank == root:
            into = blocks.receiving(recvbuf, call)
            if blocks.in_place(sendbuf):
                data = Parts.equal(into, self.size)[root]
        data = blocks.array(data, call, "sendbuf")
        if into is not None:
            blocks.whole(data.size, self.size, into, call, "the root's recvbuf")
            if not blocks.in_place(sendbuf):
                blocks.apart(data, into, call)
        self._unused(data, into)
        w = self._enter(Arrays, call, root=root, count=data.size, dtype=data.dtype)
        held = algorithms.gather(w, data, root)
        if into is not None:  # from the root's block on, around to the one before it
            turn = data.size * (self.size - root)
            blocks.put(into[data.size * root :], held[:turn])
            blocks.put(into[: data.size * root], held[turn:])

    def Scatter(self, sendbuf, recvbuf, root: int = 0) -> None:
        """Rank r gets the r-th of `size` equal blocks of the root's sendbuf. Binomial tree."""
        call, data = "Scatter", None
        keep = self.rank == root and blocks.in_place(recvbuf)
        if self.rank == root:
            data = blocks.array(sendbuf, call, "the root's sendbuf")
        into = Parts.equal(data, self.size)[root] if keep else blocks.receiving(recvbuf, call)
        if data is not None:
            blocks.whole(into.size, self.size, data, call, "the root's sendbuf")
            if not keep:
                blocks.apart(data, into, call)
        self._unused(data, None if keep else into)
        w = self._enter(Arrays, call, data, root=root, count=into.size, dtype=into.dtype)
        held = into
        if data is not None:
            held = blocks.room(data)
            turn = into.size * (self.size - root)
            blocks.put(held[:turn], data[into.size * root :])
            blocks.put(held[turn:], data[: into.size * root])
        got = algorithms.scatter(w, held, into.size, root)
        if not keep:
            blocks.put(into, got)

    def Alltoall(self, sendbuf, recvbuf) -> None:
        """Block s of rank r's sendbuf becomes block r of rank s's recvbuf. Pairwise."""
        into = blocks.receiving(recvbuf, "Alltoall")
        data = blocks.pair(sendbuf, into, "Alltoall")
        blocks.whole(into.size // self.size, self.size, into, "Alltoall", "recvbuf")
        self._unused(data, into)
        w = self._enter(Arrays, "Alltoall", count=into.size // self.size, dtype=into.dtype)
        give = Parts.equal(blocks.own(data) if data is into else data, self.size)
        algorithms.pairwise_alltoall(w, give, Parts.equal(into, self.size))

    # -- how

    def _combine(self, call: str, sendbuf, recvbuf, op):
        into = blocks.receiving(recvbuf, call)
        data = blocks.pair(sendbuf, into, call)
        op = for_arrays(op, call)
        self._unused(data, into)
        return self._enter(Arrays, call, count=data.size, dtype=data.dtype, op=op.name), into, data, op

    def _reduce_scatter(self, w: Arrays, data, into, counts: list[int], op) -> None:
        work = blocks.own(data)
        if not op.commutative:
            work = algorithms.recursive_doubling(w, work, op)
            mine = Parts(work, counts)[self.rank]
        else:
            mine = algorithms.pairwise_reduce_scatter(w, Parts(work, counts), op)
        blocks.put(into[: mine.size], mine)

    def _allgather(self, call: str, sendbuf, parts: Parts, equal: bool) -> None:
        into, mine = parts.flat, parts[self.rank]
        data = mine
        if not blocks.in_place(sendbuf):
            data = blocks.array(sendbuf, call, "sendbuf")
            blocks.apart(data, into, call)
        if equal:
            blocks.whole(data.size, self.size, into, call, "recvbuf")
        elif data.size != mine.size:
            raise ValueError(
                f"{call}: rank {self.rank} sends {data.size} values, but its count is {mine.size}."
            )
        self._unused(data, into)
        count = {"count": data.size} if equal else {"counts": tuple(parts.counts)}
        w = self._enter(Arrays, call, dtype=into.dtype, **count)
        parts = Parts(blocks.like(into, data), parts.counts, parts.offsets)  # passed on, it counts as much
        if data is not mine:
            parts[self.rank] = data
        algorithms.ring_allgather(w, parts)

    def _enter(self, wire, call: str, value: object = None, **terms):
        """A wire for one blocking collective, after a look at whether the other ranks call the same."""
        self._check_root(terms)
        entered = matching.enter(self, call, value, **terms)
        return wire(self._inside(entered), entered)

    def _inside(self, entered: matching.Call):
        """This communicator in the context of its collectives, for messages of the call `entered`."""
        inner = self.__dict__.get("_inner")
        if inner is None:
            inner = self._inner = self._sibling(self._context + 1)
            inner._pending = ()  # `_unused` has looked at the arguments
        inner._collective = entered
        return inner

    def _check_root(self, terms: dict) -> None:
        root = terms.get("root", 0)
        if not isinstance(root, int | np.integer) or not 0 <= root < self.size:
            raise explain.bad_rank(self, root, "root")

    def _unused(self, data, into) -> None:
        """An error where an argument is the buffer of a request that is not over."""
        pending = self._lane.state.pending
        if pending and data is not None:
            explain.look_for_use_before_wait(pending, data, "sends")
        if pending and into is not None:
            explain.look_for_use_before_wait(pending, into, "receives into")

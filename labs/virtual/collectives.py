"""The collectives of a virtual communicator: mpi4py's names, arguments and meaning.

    Collectives               the upper-case ones, on arrays, and what all three need
    ObjectCollectives         the lower-case ones, on objects: pickled, and combined in order of rank
    NonblockingCollectives    Iallreduce, Iallgather, Ireduce, Ibcast, Ibarrier: they go on beside the program
    CollectiveRequest         what these return

Comm inherits the first three. They are made of messages (`algorithms`), which cost what the program's own
would, and are counted with them. They travel in a context of their own, so that no Recv of the program ever
takes one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from virtual import algorithms, buffers, explain, matching
from virtual.algorithms import Arrays, Objects, Operation, for_arrays, operation
from virtual.buffers import Parts
from virtual.requests import Request


class Collectives:
    """The upper-case names. Buffers: arrays, [array, MPI.FLOAT], MPI.IN_PLACE. op: the sum if None."""

    _inner = None  # see `inside`

    def Barrier(self) -> None:
        """Return when all ranks have called it. Dissemination."""
        algorithms.barrier(self._enter(Arrays, "Barrier"))

    def Bcast(self, buf, root: int = 0) -> None:
        """The root's array, into everybody's. Binomial tree."""
        data = buffers.as_array(buf, "Bcast", "buf")
        if self.rank == root:
            self._unused(data, None)
        else:
            data = buffers.receiving(buf, "Bcast", "buf")
            self._unused(None, data)
        w = self._enter(Arrays, "Bcast", data, root=root, count=data.size, dtype=data.dtype)
        algorithms.bcast(w, data, root)

    def Reduce(self, sendbuf, recvbuf, op=None, root: int = 0) -> None:
        """All ranks' arrays combined, into the root's recvbuf. Binomial tree."""
        data, into = self._reduced("Reduce", sendbuf, recvbuf, root)
        op = for_arrays(op, "Reduce")
        self._unused(data, into)
        w = self._enter(Arrays, "Reduce", root=root, count=data.size, dtype=data.dtype, op=op.name)
        result = algorithms.reduce(w, buffers.own(data), op, root)
        if into is not None:
            buffers.put(into, result)

    def Allreduce(self, sendbuf, recvbuf, op=None) -> None:
        """All ranks' arrays combined, everywhere. Recursive doubling up to 2,048 bytes, then Rabenseifner."""
        w, into, data, op = self._combine("Allreduce", sendbuf, recvbuf, op)
        buffers.put(into, algorithms.allreduce(w, buffers.own(data), op))

    def Scan(self, sendbuf, recvbuf, op=None) -> None:
        """On rank r the arrays of ranks 0 to r combined. Doubling distances."""
        w, into, data, op = self._combine("Scan", sendbuf, recvbuf, op)
        buffers.put(into, algorithms.scan(w, buffers.own(data), op))

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=None) -> None:
        """All ranks' arrays combined; rank r gets the r-th of `size` equal blocks. Pairwise."""
        call = "Reduce_scatter_block"
        into = buffers.receiving(recvbuf, call)
        part = into.size
        if buffers.in_place(sendbuf):
            data = into
            part = into.size // self.size
        else:
            data = buffers.as_array(sendbuf, call, "sendbuf")
            buffers.apart(data, into, call)
        buffers.whole(part, self.size, data, call, "sendbuf")
        op = for_arrays(op, call)
        self._unused(data, into)
        w = self._enter(Arrays, call, count=part, dtype=data.dtype, op=op.name)
        self._reduce_scatter(w, data, into, [part] * self.size, op)

    def Reduce_scatter(self, sendbuf, recvbuf, recvcounts=None, op=None) -> None:
        """The same in blocks of recvcounts[r] values; as many as recvbuf holds if None. Pairwise."""
        call = "Reduce_scatter"
        into = buffers.receiving(recvbuf, call)
        op = for_arrays(op, call)
        counts = None if recvcounts is None else [int(count) for count in recvcounts]
        terms = {"dtype": into.dtype, "op": op.name, "counts": None if counts is None else tuple(counts)}
        w = self._enter(Arrays, call, into.size, **terms)
        if counts is None:
            sizes = matching.agree(w.comm, w.call)
            counts = [sizes[rank] for rank in range(self.size)]
        data = into
        if not buffers.in_place(sendbuf):
            data = buffers.as_array(sendbuf, call, "sendbuf")
            buffers.apart(data, into, call)
        if len(counts) != self.size or sum(counts) != data.size or counts[self.rank] > into.size:
            raise ValueError(
                f"{call}: recvcounts {counts} need {self.size} numbers, {sum(counts)} values in sendbuf (it "
                f"has {data.size}) and room for rank {self.rank}'s in recvbuf ({into.size})."
            )
        self._unused(data, into)
        self._reduce_scatter(w, data, into, counts, op)

    def Allgather(self, sendbuf, recvbuf) -> None:
        """All ranks' arrays one behind the other, on every rank. Ring."""
        into = buffers.receiving(recvbuf, "Allgather")
        self._allgather("Allgather", sendbuf, Parts.equal(into, self.size), equal=True)

    def Allgatherv(self, sendbuf, recvbuf) -> None:
        """The same with [array, counts] as recvbuf: blocks of different lengths. Ring."""
        parts = Parts(*buffers.parts(recvbuf, self.size, "Allgatherv", "recvbuf"))
        self._allgather("Allgatherv", sendbuf, parts, equal=False)

    def Gather(self, sendbuf, recvbuf, root: int = 0) -> None:
        """All ranks' arrays one behind the other, in the root's recvbuf. Binomial tree."""
        call = "Gather"
        into = None
        data = sendbuf
        if self.rank == root:
            into = buffers.receiving(recvbuf, call)
            if buffers.in_place(sendbuf):
                data = Parts.equal(into, self.size)[root]
        data = buffers.as_array(data, call, "sendbuf")
        if into is not None:
            buffers.whole(data.size, self.size, into, call, "the root's recvbuf")
            if not buffers.in_place(sendbuf):
                buffers.apart(data, into, call)
        self._unused(data, into)
        w = self._enter(Arrays, call, root=root, count=data.size, dtype=data.dtype)
        held = algorithms.gather(w, data, root)
        if into is not None:  # from the root's block on, around to the one before it
            turn = data.size * (self.size - root)
            buffers.put(into[data.size * root :], held[:turn])
            buffers.put(into[: data.size * root], held[turn:])

    def Scatter(self, sendbuf, recvbuf, root: int = 0) -> None:
        """Rank r gets the r-th of `size` equal blocks of the root's sendbuf. Binomial tree."""
        call = "Scatter"
        data = None
        keep = self.rank == root and buffers.in_place(recvbuf)
        if self.rank == root:
            data = buffers.as_array(sendbuf, call, "the root's sendbuf")
        into = Parts.equal(data, self.size)[root] if keep else buffers.receiving(recvbuf, call)
        if data is not None:
            buffers.whole(into.size, self.size, data, call, "the root's sendbuf")
            if not keep:
                buffers.apart(data, into, call)
        self._unused(data, None if keep else into)
        w = self._enter(Arrays, call, data, root=root, count=into.size, dtype=into.dtype)
        held = into
        if data is not None:
            held = buffers.room(data)
            turn = into.size * (self.size - root)
            buffers.put(held[:turn], data[into.size * root :])
            buffers.put(held[turn:], data[: into.size * root])
        got = algorithms.scatter(w, held, into.size, root)
        if not keep:
            buffers.put(into, got)

    def Alltoall(self, sendbuf, recvbuf) -> None:
        """Block s of rank r's sendbuf becomes block r of rank s's recvbuf. Pairwise."""
        into = buffers.receiving(recvbuf, "Alltoall")
        data = buffers.pair(sendbuf, into, "Alltoall")
        buffers.whole(into.size // self.size, self.size, into, "Alltoall", "recvbuf")
        self._unused(data, into)
        w = self._enter(Arrays, "Alltoall", count=into.size // self.size, dtype=into.dtype)
        give = Parts.equal(buffers.own(data) if data is into else data, self.size)
        algorithms.pairwise_alltoall(w, give, Parts.equal(into, self.size))

    # -- how

    def inside(self, entered: matching.Call):
        """This communicator in the context of its collectives, for messages of the call `entered`."""
        if self._inner is None:
            self._inner = self.sibling(self.context + 1)
            self._inner.pending = ()  # `_unused` has looked at the arguments
        self._inner.collective = entered
        return self._inner

    def _reduced(self, call: str, sendbuf, recvbuf, root: int) -> tuple[np.ndarray, np.ndarray | None]:
        """(what this rank sends, what it fills: at the root only) of a reduction to one rank."""
        if self.rank != root:
            return buffers.as_array(sendbuf, call, "sendbuf"), None
        into = buffers.receiving(recvbuf, call)
        return buffers.pair(sendbuf, into, call), into

    def _combine(self, call: str, sendbuf, recvbuf, op) -> tuple[Arrays, np.ndarray, np.ndarray, Operation]:
        """(wire, what this rank fills, what it sends, the operation) of a reduction to all ranks."""
        into = buffers.receiving(recvbuf, call)
        data = buffers.pair(sendbuf, into, call)
        op = for_arrays(op, call)
        self._unused(data, into)
        return self._enter(Arrays, call, count=data.size, dtype=data.dtype, op=op.name), into, data, op

    def _reduce_scatter(self, w: Arrays, data, into, counts: list[int], op) -> None:
        work = buffers.own(data)
        if op.commutative:
            block = algorithms.pairwise_reduce_scatter(w, Parts(work, counts), op)
        else:
            block = Parts(algorithms.recursive_doubling(w, work, op), counts)[self.rank]
        buffers.put(into[: block.size], block)

    def _allgather(self, call: str, sendbuf, parts: Parts, equal: bool) -> None:
        """equal: all blocks have one length, which is asked of all ranks; else the counts are."""
        into = parts.flat
        own = parts[self.rank]
        data = own
        if not buffers.in_place(sendbuf):
            data = buffers.as_array(sendbuf, call, "sendbuf")
            buffers.apart(data, into, call)
        if equal:
            buffers.whole(data.size, self.size, into, call, "recvbuf")
        elif data.size != own.size:
            raise ValueError(
                f"{call}: rank {self.rank} sends {data.size} values, but its count is {own.size}."
            )
        self._unused(data, into)
        terms = {"count": data.size} if equal else {"counts": tuple(parts.counts)}
        w = self._enter(Arrays, call, dtype=into.dtype, **terms)
        parts = Parts(buffers.like(into, data), parts.counts, parts.offsets)  # passed on, it counts as much
        if data is not own:
            parts[self.rank] = data
        algorithms.ring_allgather(w, parts)

    def _enter(self, wire, call: str, value: object = None, **terms):
        """A wire for one blocking collective, after a look at whether the other ranks call the same."""
        self._check_root(terms)
        entered = matching.enter(self, call, value, **terms)
        return wire(self.inside(entered), entered)

    def _check_root(self, terms: dict) -> None:
        root = terms.get("root", 0)
        if not isinstance(root, int | np.integer) or not 0 <= root < self.size:
            raise explain.bad_rank(self, root, "root")

    def _unused(self, data, into) -> None:
        """An error where an argument is the buffer of a request that is not over."""
        pending = self.state.pending
        if pending and data is not None:
            explain.look_for_use_before_wait(pending, data, "sends")
        if pending and into is not None:
            explain.look_for_use_before_wait(pending, into, "receives into")


class ObjectCollectives:
    """The lower-case names, on objects. op: a function of two objects, MPI.SUM and its like; + if None."""

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
        give = self._one_each(sendobj, "alltoall")
        take = [None] * self.size
        algorithms.pairwise_alltoall(self._enter(Objects, "alltoall"), give, take)
        return take

    def _one_each(self, sendobj, call: str) -> list:
        held = [] if sendobj is None else list(sendobj)
        if len(held) != self.size:
            raise ValueError(f"{call}: expecting {self.size} items, one for each rank, got {len(held)}.")
        return held


class NonblockingCollectives:
    """The names that return a request. Ranks call them in one order with all others of the communicator."""

    def Ibarrier(self) -> CollectiveRequest:
        """Done when all ranks have called it. As Barrier."""
        return CollectiveRequest(self, matching.enter(self, "Ibarrier"), algorithms.barrier)

    def Ibcast(self, buf, root: int = 0) -> CollectiveRequest:
        """The root's array, into everybody's. As Bcast."""
        self._check_root({"root": root})
        if self.rank == root:
            data = give = buffers.as_array(buf, "Ibcast", "buf")
            into = None
            work = buffers.own(data)
        else:
            data = into = buffers.receiving(buf, "Ibcast", "buf")
            give = None
            work = buffers.room(data)
        self._unused(give, into)
        entered = matching.enter(self, "Ibcast", data, root=root, count=data.size, dtype=data.dtype)

        def program(wire: Arrays) -> np.ndarray:
            return algorithms.bcast(wire, work, root)

        return CollectiveRequest(self, entered, program, give, into)

    def Iallreduce(self, sendbuf, recvbuf, op=None) -> CollectiveRequest:
        """All ranks' arrays combined, into everybody's. As Allreduce."""
        into = buffers.receiving(recvbuf, "Iallreduce")
        data = buffers.pair(sendbuf, into, "Iallreduce")
        op = for_arrays(op, "Iallreduce")
        self._unused(data, into)
        entered = matching.enter(self, "Iallreduce", count=data.size, dtype=data.dtype, op=op.name)
        work = buffers.own(data)

        def program(wire: Arrays) -> np.ndarray:
            return algorithms.allreduce(wire, work, op)

        return CollectiveRequest(self, entered, program, None if data is into else data, into)

    def Iallgather(self, sendbuf, recvbuf) -> CollectiveRequest:
        """All ranks' arrays one behind the other, on every rank. As Allgather."""
        into = buffers.receiving(recvbuf, "Iallgather")
        data = Parts.equal(into, self.size)[self.rank]
        if not buffers.in_place(sendbuf):
            data = buffers.as_array(sendbuf, "Iallgather", "sendbuf")
            buffers.apart(data, into, "Iallgather")
        buffers.whole(data.size, self.size, into, "Iallgather", "recvbuf")
        self._unused(data, into)
        entered = matching.enter(self, "Iallgather", count=data.size, dtype=into.dtype)
        work = buffers.like(np.empty(into.size, into.dtype), data)
        parts = Parts.equal(work, self.size)
        parts[self.rank] = data

        def program(wire: Arrays) -> np.ndarray:
            algorithms.ring_allgather(wire, parts)
            return work

        return CollectiveRequest(self, entered, program, None if buffers.in_place(sendbuf) else data, into)

    def Ireduce(self, sendbuf, recvbuf, op=None, root: int = 0) -> CollectiveRequest:
        """All ranks' arrays combined, into the root's recvbuf. As Reduce."""
        self._check_root({"root": root})
        data, into = self._reduced("Ireduce", sendbuf, recvbuf, root)
        op = for_arrays(op, "Ireduce")
        self._unused(data, into)
        entered = matching.enter(self, "Ireduce", root=root, count=data.size, dtype=data.dtype, op=op.name)
        work = buffers.own(data)

        def program(wire: Arrays) -> np.ndarray:
            return algorithms.reduce(wire, work, op, root)

        return CollectiveRequest(self, entered, program, None if data is into else data, into)


class CollectiveRequest(Request):
    """A collective under way: a clock of its own, the rank's ports; Wait joins the two clocks.

    The program's processor is not slowed: it is as if another core, or the network card, did the work. The
    array that is to be filled holds nothing useful before Wait.
    """

    def __init__(self, comm, entered: matching.Call, program: Callable, data=None, into=None):
        """program(wire) does it, on copies. data: must not change before Wait. into: the array to fill."""
        front = comm.sibling(comm.context)
        front.collective = entered
        super().__init__(front, entered.name, None)
        self._data = None if data is None else np.asarray(data)
        self._before = None if data is None else self._data.tobytes()
        self._until = inf
        self._waiter = None
        self.buffer = None if into is None else np.asarray(into)
        explain.poison(self.buffer)
        inner = comm.sibling(comm.context + 1)
        inner.collective = entered
        inner.mark = self.mark
        inner.pending = ()
        wire = Arrays(inner, entered)
        inner.lane = comm.lane.engine.start(comm.state, lambda: program(wire), comm.lane.now, self._done)
        self.remember()

    def description(self) -> str:
        return self.call

    def _done(self, lane, result) -> None:
        self._until = lane.now
        self._value = result
        if self._waiter is not None:
            self._waiter.wake(lane.now)

    def when(self) -> float:
        return self._until

    def watch(self, waiter) -> None:
        self._waiter = waiter
        if waiter is not None and self._until < inf:
            waiter.wake(self._until)

    def waits(self, call: str) -> tuple:
        return f"{call} of an {self.call}", self.comm, "with", None

    def finish(self, status) -> None:
        self.block(self.comm.lane)
        if self._before is not None and self._data.tobytes() != self._before:
            explain.changed_before_wait(self)
        if self.buffer is not None:
            self.buffer[...] = np.asarray(self._value)
        self.comm.leave_empty(status)

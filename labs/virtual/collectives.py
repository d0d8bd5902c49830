"""The collectives of a virtual communicator: mpi4py's names, arguments and meaning.

    Collectives          the upper-case ones, on arrays; Ibcast, Iallreduce and their like return a
                         request
    ObjectCollectives    the lower-case ones, on objects: pickled, and combined in order of rank
    CollectiveRequest    one that goes on beside the program

Comm inherits the first two. They are made of messages (`algorithms`), which cost what the program's
own would, and are counted with them. They travel in a context of their own, so that no Recv of the
program ever takes one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from virtual import algorithms, buffers, explain, matching
from virtual.algorithms import Arrays, Objects, for_arrays, for_objects
from virtual.buffers import flat, in_place, own
from virtual.requests import Request


class Collectives:
    """The upper-case names. Buffers: as `buffers.flat` takes them, MPI.IN_PLACE. op: the sum if
    None.

    Each is begun by `_begin` with a program that does it, by its name at once or beside the rank's
    program.
    """

    _inner = None  # see `inside`

    def Barrier(self) -> None:
        """Return when all ranks have called it. Dissemination."""
        self._begin("Barrier", algorithms.barrier)

    def Ibarrier(self) -> CollectiveRequest:
        """Done when all ranks have called it. As Barrier."""
        return self._begin("Ibarrier", algorithms.barrier)

    def Bcast(self, buf, root: int = 0) -> None:
        """The root's array, into everybody's. Binomial tree."""
        data = flat(buf, "Bcast", fill=self.rank != root)
        self._bcast("Bcast", data, data, root)

    def Ibcast(self, buf, root: int = 0) -> CollectiveRequest:
        """As Bcast."""
        data = flat(buf, "Ibcast", fill=self.rank != root)
        return self._bcast(
            "Ibcast", data, own(data) if self.rank == root else buffers.room(data), root
        )

    def _bcast(self, call: str, data: np.ndarray, work: np.ndarray, root: int):
        give, into = (data, None) if self.rank == root else (None, data)
        terms = {"root": root, "count": data.size, "dtype": data.dtype}

        def program(w: Arrays) -> np.ndarray:
            algorithms.bcast(w, work, root)
            return work

        return self._begin(call, program, give, into, data, **terms)

    def Reduce(self, sendbuf, recvbuf, op=None, root: int = 0) -> None:
        """All ranks' arrays combined, into the root's recvbuf. Binomial tree."""
        self._combine("Reduce", algorithms.reduce, sendbuf, recvbuf, op, root)

    def Ireduce(self, sendbuf, recvbuf, op=None, root: int = 0) -> CollectiveRequest:
        """As Reduce."""
        return self._combine("Ireduce", algorithms.reduce, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf, recvbuf, op=None) -> None:
        """All ranks' arrays combined, everywhere. Recursive doubling up to 2,048 bytes, then
        Rabenseifner."""
        self._combine("Allreduce", algorithms.allreduce, sendbuf, recvbuf, op)

    def Iallreduce(self, sendbuf, recvbuf, op=None) -> CollectiveRequest:
        """As Allreduce."""
        return self._combine("Iallreduce", algorithms.allreduce, sendbuf, recvbuf, op)

    def Scan(self, sendbuf, recvbuf, op=None) -> None:
        """On rank r the arrays of ranks 0 to r combined. Doubling distances."""
        self._combine("Scan", algorithms.scan, sendbuf, recvbuf, op)

    def _combine(
        self, call: str, algorithm: Callable, sendbuf, recvbuf, op, root: int | None = None
    ):
        """A reduction; root: of one to a single rank, which alone fills its recvbuf."""
        into = None
        if root in (None, self.rank):
            into = flat(recvbuf, call, "recvbuf", fill=True, adds=True)
        if into is not None and in_place(sendbuf):
            data = into
        else:
            data = flat(sendbuf, call, "sendbuf", adds=True)
            if into is not None and data.size != into.size:
                raise ValueError(
                    f"{call}: mismatch in send count {data.size} and receive count {into.size}."
                )
            if into is not None:
                buffers.apart(data, into, call)
        op = for_arrays(op, call, data)
        of_root = {} if root is None else {"root": root}
        terms = {**of_root, "count": data.size, "dtype": data.dtype, "op": op.name}
        work = own(data)
        return self._begin(call, lambda w: algorithm(w, work, op, **of_root), data, into, **terms)

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=None) -> None:
        """All ranks' arrays combined; rank r gets the r-th of `size` equal blocks. Pairwise."""
        call = "Reduce_scatter_block"
        if in_place(sendbuf):
            data = into = flat(recvbuf, call, "recvbuf", fill=True, blocks=self.size, adds=True)
        else:
            into = flat(recvbuf, call, "recvbuf", fill=True, adds=True)
            data = flat(sendbuf, call, "sendbuf", blocks=self.size, adds=True)
            buffers.apart(data, into, call)
        counts = [data.size // self.size] * self.size
        _expect_count(call, into.size if data is not into else counts[0], counts[0])
        op = for_arrays(op, call, data)
        terms = {"count": counts[0], "dtype": data.dtype, "op": op.name}
        self._begin(call, lambda w: self._scattered(w, data, counts, op), data, into, **terms)

    def Reduce_scatter(
        self, sendbuf, recvbuf, recvcounts: Sequence[int] | None = None, op=None
    ) -> None:
        """The same in blocks of recvcounts[r] values; as many as recvbuf holds if None.
        Pairwise."""
        call = "Reduce_scatter"
        into = flat(recvbuf, call, "recvbuf", fill=True, adds=True)
        data = into
        if not in_place(sendbuf):
            data = buffers.apart(flat(sendbuf, call, "sendbuf", adds=True), into, call)
        op = for_arrays(op, call, data)
        counts = None if recvcounts is None else [int(count) for count in recvcounts]
        terms = {
            "dtype": into.dtype,
            "op": op.name,
            "counts": None if counts is None else tuple(counts),
        }

        def program(w: Arrays) -> np.ndarray:
            sizes = counts
            if sizes is None:
                by_rank = matching.agree(w.comm, w.call)
                sizes = [by_rank[rank] for rank in range(self.size)]
            if len(sizes) != self.size or sum(sizes) != data.size:
                raise ValueError(
                    f"{call}: recvcounts {sizes} need {self.size} numbers that make up {data.size}"
                    " values."
                )
            if data is not into:
                _expect_count(call, into.size, sizes[self.rank])
            return self._scattered(w, data, sizes, op)

        self._begin(call, program, data, into, into.size, **terms)

    def _scattered(self, w: Arrays, data: np.ndarray, counts: list[int], op) -> np.ndarray:
        """This rank's block of all ranks' `data` combined."""
        return algorithms.pairwise_reduce_scatter(w, _cut(own(data), counts), op)

    def Allgather(self, sendbuf, recvbuf) -> None:
        """All ranks' arrays one behind the other, on every rank. Ring."""
        self._allgather("Allgather", sendbuf, recvbuf)

    def Iallgather(self, sendbuf, recvbuf) -> CollectiveRequest:
        """As Allgather."""
        return self._allgather("Iallgather", sendbuf, recvbuf)

    def _allgather(self, call: str, sendbuf, recvbuf):
        into = flat(recvbuf, call, "recvbuf", fill=True, blocks=self.size)
        part = into.size // self.size
        data = into[part * self.rank :][:part]
        if not in_place(sendbuf):
            data = buffers.apart(flat(sendbuf, call, "sendbuf"), into, call)
        _expect_count(call, data.size, part)
        work = into if call[0] == "A" else np.empty(into.size, into.dtype)
        blocks = buffers.like(work, data).reshape(self.size, part)  # passed on, it counts as much
        if not in_place(sendbuf) or work is not into:
            blocks[self.rank] = data
        give = None if in_place(sendbuf) else data
        return self._gathered(call, blocks, work, give, into, count=part)

    def Allgatherv(self, sendbuf, recvbuf) -> None:
        """The same with [array, counts] as recvbuf: blocks of different lengths. Ring."""
        call = "Allgatherv"
        blocks = buffers.blocks_of(recvbuf, self.size, call, "recvbuf")
        data = into = blocks[self.rank]
        if not in_place(sendbuf):
            data = flat(sendbuf, call, "sendbuf")
            for block in blocks:
                buffers.apart(data, block, call)
                explain.look_for_use_before_wait(self.state.pending, block, "receives into")
            _expect_count(call, data.size, into.size)
            blocks[self.rank][...] = data
        counts = tuple(block.size for block in blocks)
        blocks = [buffers.like(block, data) for block in blocks]
        self._gathered(call, blocks, into, data, into, counts=counts)

    def _gathered(self, call: str, blocks, work, data, into, **terms):
        def program(w: Arrays) -> np.ndarray:
            algorithms.ring_allgather(w, blocks)
            return work

        return self._begin(call, program, data, into, dtype=into.dtype, **terms)

    def Gather(self, sendbuf, recvbuf, root: int = 0) -> None:
        """All ranks' arrays one behind the other, in the root's recvbuf. Binomial tree."""
        call = "Gather"
        into = data = None
        if self.rank == root:
            into = flat(recvbuf, call, "the root's recvbuf", fill=True, blocks=self.size)
            if in_place(sendbuf):
                part = into.size // self.size
                data = into[part * root :][:part]
        if data is None:
            data = flat(sendbuf, call, "sendbuf")
            if into is not None:
                buffers.apart(data, into, call)
                _expect_count(call, data.size, into.size // self.size)

        def program(w: Arrays) -> np.ndarray:
            # From the root's block on, around to the one before it.
            held = algorithms.gather(w, data, root)
            return np.roll(np.asarray(held), data.size * root) if into is not None else held

        self._begin(call, program, data, into, root=root, count=data.size, dtype=data.dtype)

    def Scatter(self, sendbuf, recvbuf, root: int = 0) -> None:
        """Rank r gets the r-th of `size` equal blocks of the root's sendbuf. Binomial tree."""
        call = "Scatter"
        data = None
        if self.rank == root:
            data = flat(sendbuf, call, "the root's sendbuf", blocks=self.size)
        if data is not None and in_place(recvbuf):
            part = data.size // self.size
            into = None
            held = data
        else:
            into = held = flat(recvbuf, call, "recvbuf", fill=True)
            part = into.size
            if data is not None:
                buffers.apart(data, into, call)
                _expect_count(call, part, data.size // self.size)
        if data is not None:
            held = buffers.like(np.roll(np.asarray(data), -part * root), data)
        terms = {"root": root, "count": part, "dtype": held.dtype}
        self._begin(
            call, lambda w: algorithms.scatter(w, held, part, root), data, into, data, **terms
        )

    def Alltoall(self, sendbuf, recvbuf) -> None:
        """Block s of rank r's sendbuf becomes block r of rank s's recvbuf. Pairwise."""
        into = flat(recvbuf, "Alltoall", "recvbuf", fill=True, blocks=self.size)
        part = into.size // self.size
        if in_place(sendbuf):
            data = own(into)
        else:
            data = buffers.apart(
                flat(sendbuf, "Alltoall", "sendbuf", blocks=self.size), into, "Alltoall"
            )
        _expect_count("Alltoall", data.size // self.size, part)
        shape = self.size, part

        def program(w: Arrays) -> np.ndarray:
            algorithms.pairwise_alltoall(w, data.reshape(shape), into.reshape(shape))
            return into

        self._begin("Alltoall", program, data, into, count=part, dtype=into.dtype)

    def Alltoallv(self, sendbuf, recvbuf) -> None:
        """The same with [array, counts] on both sides: blocks of different lengths, from rank to
        rank. Pairwise."""
        call = "Alltoallv"
        take = buffers.blocks_of(recvbuf, self.size, call, "recvbuf")
        if in_place(sendbuf):
            give = [own(block) for block in take]
        else:
            give = buffers.blocks_of(sendbuf, self.size, call, "sendbuf", fill=False)
        pending = self.state.pending
        for given, taken in zip(give, take, strict=True):
            buffers.apart(given, taken, call)
            explain.look_for_use_before_wait(pending, given, "sends")
            explain.look_for_use_before_wait(pending, taken, "receives into")
        _expect_count(call, give[self.rank].size, take[self.rank].size)
        buffers.put(take[self.rank], give[self.rank])
        self._begin(
            call, lambda w: algorithms.pairwise_alltoall(w, give, take), dtype=take[0].dtype
        )

    # -- how

    def inside(self, entered: matching.Call):
        """This communicator in the context of its collectives, for messages of the call
        `entered`."""
        if self._inner is None:
            self._inner = self.sibling(self.context + 1)
            self._inner.pending = ()  # `_begin` has looked at the arguments
        self._inner.collective = entered
        return self._inner

    def _begin(
        self, call: str, program: Callable, data=None, into=None, value: object = None, **terms
    ):
        """Begin a collective on arrays, or do it at once if it has the name of a blocking one.

        program(wire) does it; what it returns belongs into `into`. data: what is sent, which does
        not change. value, terms: see matching.enter.
        """
        pending = self.state.pending
        if pending and data is not None:
            explain.look_for_use_before_wait(pending, data, "sends")
        if pending and into is not None:
            explain.look_for_use_before_wait(pending, into, "receives into")
        entered = self._enter(call, value, terms)
        if call[0] == "I":
            return CollectiveRequest(self, entered, program, None if data is into else data, into)
        result = program(Arrays(self.inside(entered), entered))
        if into is not None:
            buffers.put(into[: result.size] if result.size < into.size else into, result)
        return None

    def _enter(self, call: str, value: object, terms: dict) -> matching.Call:
        root = terms.get("root", 0)
        if not isinstance(root, int | np.integer) or not 0 <= root < self.size:
            raise explain.bad_rank(self, root, "root")
        return matching.enter(self, call, value, **terms)


def _expect_count(call: str, got: int, want: int) -> None:
    """An error where a block has another length than its counterpart."""
    if got != want:
        raise ValueError(
            f"{call}: a block of {got} values on one side and of {want} on the other. Counts are"
            " those of one rank's block."
        )


def _cut(data: np.ndarray, counts: list[int]) -> list[np.ndarray]:
    """Blocks of `counts` values, one behind the other."""
    ends = np.cumsum(counts).tolist()
    return [data[end - count : end] for end, count in zip(ends, counts, strict=True)]


class ObjectCollectives:
    """The lower-case names, on objects. op: a function of two objects, MPI.SUM and its like; + if
    None."""

    def barrier(self) -> None:
        self.Barrier()

    def bcast(self, obj=None, root: int = 0):
        """The root's object, on every rank. Binomial tree."""
        got = algorithms.bcast(self._objects("bcast", root=root), obj, root)
        return buffers.copied(obj) if self.rank == root else got

    def reduce(self, sendobj, op=None, root: int = 0):
        """All ranks' objects combined, at the root; None elsewhere. Binomial tree."""
        op = for_objects(op, "reduce")
        w = self._objects("reduce", root=root, op=op.name)
        result = algorithms.reduce(w, buffers.copied(sendobj), op, root)
        return result if self.rank == root else None

    def allreduce(self, sendobj, op=None):
        """All ranks' objects combined, on every rank. Recursive doubling."""
        op = for_objects(op, "allreduce")
        w = self._objects("allreduce", op=op.name)
        return algorithms.recursive_doubling(w, buffers.copied(sendobj), op)

    def scan(self, sendobj, op=None):
        """On rank r the objects of ranks 0 to r combined. Doubling distances."""
        op = for_objects(op, "scan")
        return algorithms.scan(self._objects("scan", op=op.name), buffers.copied(sendobj), op)

    def allgather(self, sendobj) -> list:
        """All ranks' objects in a list, on every rank. Ring."""
        held = [None] * self.size
        held[self.rank] = buffers.copied(sendobj)
        algorithms.ring_allgather(self._objects("allgather"), held)
        return held

    def gather(self, sendobj, root: int = 0) -> list | None:
        """All ranks' objects in a list at the root; None elsewhere. Binomial tree."""
        held = algorithms.gather(
            self._objects("gather", root=root), [buffers.copied(sendobj)], root
        )
        return held[self.size - root :] + held[: self.size - root] if self.rank == root else None

    def scatter(self, sendobj=None, root: int = 0):
        """Rank r gets the r-th of the root's list. Binomial tree."""
        held: list = []
        if self.rank == root:
            held = self._one_each(sendobj, "scatter")
            held = held[root:] + held[:root]
        got = algorithms.scatter(self._objects("scatter", root=root), held, 1, root)[0]
        return buffers.copied(got) if self.rank == root else got

    def alltoall(self, sendobj) -> list:
        """The s-th of rank r's list becomes the r-th of rank s's. Pairwise."""
        give = self._one_each(sendobj, "alltoall")
        take = [None] * self.size
        algorithms.pairwise_alltoall(self._objects("alltoall"), give, take)
        take[self.rank] = buffers.copied(give[self.rank])
        return take

    def _objects(self, call: str, **terms) -> Objects:
        """What a collective on objects sends with."""
        entered = self._enter(call, None, terms)
        return Objects(self.inside(entered), entered)

    def _one_each(self, sendobj, call: str) -> list:
        held = [] if sendobj is None else list(sendobj)
        if len(held) != self.size:
            raise ValueError(
                f"{call}: expecting {self.size} items, one for each rank, got {len(held)}."
            )
        return held


class CollectiveRequest(Request):
    """A collective under way: a clock of its own, the rank's ports; Wait joins the two clocks.

    The program's processor is not slowed: it is as if another core, or the network card, did the
    work. The array that is to be filled holds nothing useful before Wait.
    """

    def __init__(self, comm, entered: matching.Call, program: Callable, data=None, into=None):
        """program(wire) does it, on copies. data: must not change before Wait. into: the array to
        fill."""
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
        inner.lane = comm.lane.engine.start(
            comm.state, lambda: program(wire), comm.lane.now, self._ended_at
        )
        self.remember()

    def description(self) -> str:
        return self.call

    def _ended_at(self, lane, result) -> None:
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

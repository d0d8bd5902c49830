"""The textbook algorithms behind the collectives, the messages that they send, and what they
combine with.

    barrier, bcast, reduce, allreduce, …    the algorithms, each on the messages of a `Wire` w
    Arrays, Objects                         the two kinds of Wire: of upper-case and of lower-case
                                            calls
    Operation                               what reductions combine with: `for_arrays`,
                                            `for_objects`

Costs are those of a machine of equal links: p ranks, n bytes, α + nβ a message, γ per byte reduced.
Sources: MPICH (src/mpi/coll, its file names below); Thakur, Rabenseifner and Gropp, IJHPCA
19(1), 2005.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from labkit import mpi

from virtual import buffers, explain
from virtual.matching import Call

SHORT = 2048  # bytes: what MPICH long took for short; MPICH 5 has a table instead (lab 24)
NOTHING = np.empty(0, np.uint8)
_INTEGERS, _FLOATS = "iu", "iuf"  # kinds of NumPy's types
_KNOWN = {  # MPI's operations: NumPy's for arrays, and the kinds of numbers that MPI allows
    "SUM": (np.add, "iufc"),
    "PROD": (np.multiply, "iufc"),
    "MAX": (np.maximum, _FLOATS),
    "MIN": (np.minimum, _FLOATS),
    "LAND": (np.logical_and, "biu"),
    "LOR": (np.logical_or, "biu"),
    "LXOR": (np.logical_xor, "biu"),
    "BAND": (np.bitwise_and, _INTEGERS),
    "BOR": (np.bitwise_or, _INTEGERS),
    "BXOR": (np.bitwise_xor, _INTEGERS),
}


def barrier(w: Arrays) -> None:
    """Dissemination, ⌈lg p⌉ rounds of empty messages, α each (Hensgen, Finkel, Manber, IJPP 17,
    1988)."""
    distance = 1
    while distance < w.size:
        w.swap(NOTHING, (w.rank + distance) % w.size, NOTHING, (w.rank - distance) % w.size)
        distance *= 2


def bcast(w: Wire, value, root: int):
    """Binomial tree, ⌈lg p⌉(α + nβ) (bcast_intra_binomial.c). Returns the root's value."""
    place = (w.rank - root) % w.size
    mask = 1
    while mask < w.size:
        if place & mask:
            value = w.as_sent(w.recv(value, (w.rank - mask) % w.size), root)
            break
        mask *= 2
    while mask > 1:
        mask //= 2
        if place + mask < w.size:
            w.send(value, (w.rank + mask) % w.size)
    return value


def reduce(w: Wire, value, op: Operation, root: int):
    """Binomial tree, ⌈lg p⌉(α + nβ + nγ) (reduce_intra_binomial.c). The root's return value holds
    the result.

    Objects are combined in order of rank, at rank 0, which sends the result to the root.
    """
    top = root if w.commutes else 0
    place = (w.rank - top) % w.size
    mask = 1
    while mask < w.size:
        if place & mask:
            w.send(value, (w.rank - mask) % w.size)
            break
        if place + mask < w.size:
            other = w.recv(w.room(value), (w.rank + mask) % w.size)
            value = w.fold(op, value, other, value)
        mask *= 2
    if top != root and w.rank == top:
        w.send(value, root)
    elif top != root and w.rank == root:
        value = w.recv(value, top)
    return value


def allreduce(w: Arrays, value: np.ndarray, op: Operation) -> np.ndarray:
    """MPICH's old choice: recursive doubling to 2,048 bytes, then Rabenseifner. `value` is
    overwritten."""
    blocks = 1 << (w.size.bit_length() - 1)
    if w.bytes(value) <= SHORT or value.size < blocks:
        return recursive_doubling(w, value, op)
    return rabenseifner(w, value, op)


def recursive_doubling(w: Wire, value, op: Operation):
    """lg p(α + nβ + nγ) for powers of two (allreduce_intra_recursive_doubling.c).

    Otherwise the first ranks pair up before and after: 2(α + nβ) + nγ more. In order of rank.
    """
    fold = Fold(w)
    value = fold.before(value, op)
    mask = 1
    while fold.place is not None and mask < fold.size:
        peer = fold.rank_of(fold.place ^ mask)
        other = w.swap(value, peer, w.room(value), peer)
        value = (
            w.fold(op, other, value, value) if peer < w.rank else w.fold(op, value, other, value)
        )
        mask *= 2
    return fold.after(value)


def rabenseifner(w: Arrays, value: np.ndarray, op: Operation) -> np.ndarray:
    """Halving reduce-scatter, doubling allgather (allreduce_intra_reduce_scatter_allgather.c).

    2 lg p α + 2n(p-1)/p β + n(p-1)/p γ for powers of two; otherwise 2(α + nβ) + nγ more, as above.
    """
    fold = Fold(w)
    value = fold.before(value, op)
    if fold.place is not None:
        bounds = [value.size * i // fold.size for i in range(fold.size + 1)]
        low, high = 0, fold.size
        mask = 1
        done = []  # (peer, own half, peer's half) of each step
        while mask < fold.size:
            peer = fold.rank_of(fold.place ^ mask)
            middle = (low + high) // 2
            keep, give = (low, middle), (middle, high)
            if fold.place & mask:
                keep, give = give, keep
            kept = value[bounds[keep[0]] : bounds[keep[1]]]
            passed = value[bounds[give[0]] : bounds[give[1]]]
            w.fold(op, kept, w.swap(passed, peer, w.room(kept), peer), kept)
            done.append((peer, kept, passed))
            low, high = keep
            mask *= 2
        for peer, kept, passed in reversed(done):
            w.swap(kept, peer, passed, peer)
    return fold.after(value)


def scan(w: Wire, value, op: Operation):
    """Inclusive prefix by doubling distances, ⌈lg p⌉(α + nβ + nγ) (Hillis and Steele, CACM 29(12),
    1986)."""
    distance = 1
    while distance < w.size:
        down, up = w.rank - distance, w.rank + distance
        if down >= 0 and up < w.size:
            value = w.fold(op, w.swap(value, up, w.room(value), down), value, value)
        elif up < w.size:
            w.send(value, up)
        elif down >= 0:
            value = w.fold(op, w.recv(w.room(value), down), value, value)
        distance *= 2
    return value


def ring_allgather(w: Wire, blocks) -> None:
    """p - 1 rounds, each passes on what came last: (p-1)α + n(p-1)/p β (allgather_intra_ring.c).

    blocks: by rank; one's own is there, the others are filled.
    """
    right, left = (w.rank + 1) % w.size, (w.rank - 1) % w.size
    for step in range(w.size - 1):
        give, take = (w.rank - step) % w.size, (w.rank - step - 1) % w.size
        w.swap_into(blocks, take, blocks[give], right, left)


def pairwise_reduce_scatter(w: Arrays, blocks, op: Operation) -> np.ndarray:
    """p - 1 rounds with other partners (reduce_scatter_intra_pairwise.c): (p-1)α + n(p-1)/p (β +
    γ).

    Returns one's own block of the result, which lies in `blocks`.
    """
    own = blocks[w.rank]
    for step in range(1, w.size):
        to, source = (w.rank + step) % w.size, (w.rank - step) % w.size
        w.fold(op, own, w.swap(blocks[to], to, w.room(own), source), own)
    return own


def pairwise_alltoall(w: Wire, give, take) -> None:
    """p - 1 rounds with other partners (alltoall_intra_pairwise.c): (p-1)α + n(p-1)/p β. Blocks by
    rank."""
    take[w.rank] = give[w.rank]
    for step in range(1, w.size):
        to, source = (w.rank + step) % w.size, (w.rank - step) % w.size
        w.swap_into(take, source, give[to], to, source)


def gather(w: Wire, block, root: int):
    """Binomial tree, ⌈lg p⌉α + n(p-1)/p β (gather_intra_binomial.c).

    block: an array, or a list of one object. Returns, at the root, all blocks, from the root's own
    on.
    """
    place = (w.rank - root) % w.size
    mask = 1
    part = len(block)
    held = w.room(block, part * _below(place, w.size))
    held[:part] = block
    while mask < w.size:
        if place & mask:
            w.send(held, (w.rank - mask) % w.size)
            break
        if place + mask < w.size:
            blocks = min(mask, w.size - place - mask)
            w.recv_part(held, mask * part, (mask + blocks) * part, (w.rank + mask) % w.size)
        mask *= 2
    return held


def scatter(w: Wire, held, part: int, root: int):
    """Binomial tree, ⌈lg p⌉α + n(p-1)/p β (scatter_intra_binomial.c). Returns one's own block.

    held: at the root all blocks, from its own on; elsewhere an array of their type. part: values in
    a block.
    """
    place = (w.rank - root) % w.size
    mask = 1 << (w.size - 1).bit_length()
    below = _below(place, w.size)
    if place:
        mask = place & -place
        held = w.room(held, part * below)
        w.recv_part(held, 0, part * below, (w.rank - mask) % w.size)
        held = w.as_sent(held, root)
    while mask > 1:
        mask //= 2
        if place + mask < w.size:
            w.send(held[mask * part : min(2 * mask, below) * part], (w.rank + mask) % w.size)
    return held[:part]


class Fold:
    """Make the ranks a power of two: of the first pairs, the odd rank stands for both.

    size: the power of two. place: this rank's number among those that are left, None if it is not.
    """

    def __init__(self, w: Wire):
        self.w = w
        self.size = 1 << (w.size.bit_length() - 1)
        self.extra = w.size - self.size
        self.paired = w.rank < 2 * self.extra
        self.place = w.rank - self.extra
        if self.paired:
            self.place = w.rank // 2 if w.rank % 2 else None

    def rank_of(self, place: int) -> int:
        return 2 * place + 1 if place < self.extra else place + self.extra

    def before(self, value, op: Operation):
        if self.place is None:
            self.w.send(value, self.w.rank + 1)
        elif self.paired:
            value = self.w.fold(op, self.w.recv(self.w.room(value), self.w.rank - 1), value, value)
        return value

    def after(self, value):
        if self.place is None:
            value = self.w.recv(value, self.w.rank + 1)
        elif self.paired:
            self.w.send(value, self.w.rank - 1)
        return value


def _below(place: int, size: int) -> int:
    """Ranks in the subtree of `place` in a binomial tree over `size`, itself included."""
    return size if place == 0 else min(place & -place, size - place)


class Wire:
    """What a collective sends with: the messages of one call, apart from the program's and other
    calls'.

    comm: a communicator in the context of its collectives. call: which of them; its number is the
    tag.
    """

    commutes = True  # may an algorithm change the order of ranks?

    def __init__(self, comm, call: Call):
        self.comm = comm
        self.call = call
        self.tag = call.number
        self.rank = comm.rank
        self.size = comm.size


class Arrays(Wire):
    """Values are flat arrays. Reductions take the machine's γ per byte, of a Vector per byte it
    counts as."""

    def send(self, value: np.ndarray, dest: int) -> None:
        self.comm.Send(value, dest, self.tag)

    def recv(self, into: np.ndarray, source: int) -> np.ndarray:
        self.comm.Recv(into, source, self.tag)
        return into

    def recv_part(self, held: np.ndarray, begin: int, end: int, source: int) -> None:
        self.comm.Recv(held[begin:end], source, self.tag)

    def as_sent(self, value: np.ndarray, root: int) -> np.ndarray:
        """What came from `root`: when it is passed on it counts as much as there, where that is a
        Vector."""
        return buffers.like(value, self.call.values[root])

    def swap(self, value: np.ndarray, dest: int, into: np.ndarray, source: int) -> np.ndarray:
        self.comm.Sendrecv(value, dest, self.tag, into, source, self.tag)
        return into

    def swap_into(self, parts, place: int, value: np.ndarray, dest: int, source: int) -> None:
        """Send `value`, receive parts[place]."""
        self.comm.Sendrecv(value, dest, self.tag, parts[place], source, self.tag)

    def fold(
        self, op: Operation, left: np.ndarray, right: np.ndarray, out: np.ndarray
    ) -> np.ndarray:
        """left op right, into `out`, in virtual time."""
        lane = self.comm.lane
        op.function(np.asarray(left), np.asarray(right), out=np.asarray(out))
        gamma = lane.engine.gamma
        if gamma:
            lane.spend(self.bytes(out) * gamma, "reduce")
        return out

    def room(self, like: np.ndarray, count: int | None = None) -> np.ndarray:
        return buffers.room(like, count)

    def bytes(self, value: np.ndarray) -> float:
        return value.nbytes * getattr(value, "scale", 1)


class Objects(Wire):
    """Values are objects, pickled on their way. They are combined in order of rank: lists add up in
    order."""

    commutes = False

    def send(self, value: object, dest: int) -> None:
        self.comm.send(value, dest, self.tag)

    def recv(self, into: object, source: int) -> object:
        return self.comm.recv(None, source, self.tag)

    def recv_part(self, held: list, begin: int, end: int, source: int) -> None:
        held[begin:end] = self.comm.recv(None, source, self.tag)

    def as_sent(self, value: object, root: int) -> object:
        return value

    def swap(self, value: object, dest: int, into: object, source: int) -> object:
        return self.comm.sendrecv(value, dest, self.tag, None, source, self.tag)

    def swap_into(self, parts: list, place: int, value: object, dest: int, source: int) -> None:
        parts[place] = self.comm.sendrecv(value, dest, self.tag, None, source, self.tag)

    def fold(self, op: Operation, left: object, right: object, out: object) -> object:
        return op.function(left, right)

    def room(self, like: object, count: int | None = None) -> object:
        return None if count is None else [None] * count


class Operation(NamedTuple):
    """What Reduce and its like combine with: an associative operation.

    name: in sentences. function: of two objects, or a ufunc for arrays.
    """

    name: str
    function: Callable


def for_arrays(op: object, call: str, data: np.ndarray) -> Operation:
    """The Operation on arrays that `op` means: the sum (None), MPI.MAX and its like, where MPI
    allows it for `data`."""
    name = "SUM" if op is None else _mpis_name(op)
    if name not in _KNOWN:
        raise TypeError(
            f"{call} takes op=MPI.SUM, PROD, MAX, MIN, or a logical or bitwise one of MPI's, not"
            f" {op!r}. The lower-case calls take any function of two."
        )
    ufunc, kinds = _KNOWN[name]
    kind = data.dtype.kind
    if kind not in kinds:
        raise explain.MPIError(
            f"{call}: MPI.{name} is not defined for values of type {data.dtype}."
        )
    if kind == "f" and name in ("MAX", "MIN") and np.isnan(np.asarray(data)).any():
        raise explain.MPIError(
            f"{call}: MPI does not say what MPI.{name} makes of NaN, and each real rank may get"
            " something else. Ask np.isnan before the call."
        )
    return Operation(name, ufunc)


def for_objects(op: object, call: str) -> Operation:
    """The Operation on objects: the sum (None), MPI.MAX and its like, or a function of two."""
    if op is None:
        return Operation("SUM", operator.add)
    if not callable(op):
        raise TypeError(
            f"{call} takes op=MPI.SUM, MPI.MAX and their like, or a function of two, not {op!r}."
        )
    return Operation(_mpis_name(op) or getattr(op, "__name__", "of your own"), op)


def _mpis_name(op: object) -> str | None:
    """`SUM` of MPI.SUM; None where it is not an operation of MPI's, or not one of `_KNOWN`."""
    MPI = mpi.loaded()
    if MPI is None or not isinstance(op, MPI.Op):
        return None
    return next((name for name in _KNOWN if op == getattr(MPI, name)), None)

"""The textbook algorithms behind the collectives, each on the messages of a `Wire`.

Costs are those of a machine of equal links: p ranks, n bytes, α + nβ a message, γ per byte reduced.
Sources: MPICH (src/mpi/coll, its file names below); Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
"""

from __future__ import annotations

import numpy as np

from labkit.virtual.reductions import Operation
from labkit.virtual.wire import Arrays, Wire

SHORT = 2048  # bytes: what MPICH long took for short; MPICH 5 has a table instead (lab 24)
NOTHING = np.empty(0, np.uint8)


def barrier(w: Arrays) -> None:
    """Dissemination, ⌈lg p⌉ rounds of empty messages, α each (Hensgen, Finkel, Manber, IJPP 17, 1988)."""
    distance = 1
    while distance < w.size:
        w.swap(NOTHING, (w.rank + distance) % w.size, NOTHING, (w.rank - distance) % w.size)
        distance *= 2


def bcast(w: Wire, value, root: int):
    """Binomial tree, ⌈lg p⌉(α + nβ) (bcast_intra_binomial.c). Returns the root's value."""
    place, mask = (w.rank - root) % w.size, 1
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
    """Binomial tree, ⌈lg p⌉(α + nβ + nγ) (reduce_intra_binomial.c). The root's return value holds the result.

    What is not commutative is combined in order of rank, at rank 0, which sends it to the root.
    """
    top = root if op.commutative and w.commutes else 0
    place, mask = (w.rank - top) % w.size, 1
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
    """MPICH's old choice: recursive doubling to 2,048 bytes, then Rabenseifner. `value` is overwritten."""
    blocks = 1 << (w.size.bit_length() - 1)
    if not op.commutative or w.bytes(value) <= SHORT or value.size < blocks:
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
        value = w.fold(op, other, value, value) if peer < w.rank else w.fold(op, value, other, value)
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
        low, high, mask, done = 0, fold.size, 1, []
        while mask < fold.size:
            peer = fold.rank_of(fold.place ^ mask)
            middle = (low + high) // 2
            keep, give = (low, middle), (middle, high)
            if fold.place & mask:
                keep, give = give, keep
            mine, theirs = (value[bounds[a] : bounds[b]] for a, b in (keep, give))
            w.fold(op, mine, w.swap(theirs, peer, w.room(mine), peer), mine)
            done.append((peer, mine, theirs))
            (low, high), mask = keep, mask * 2
        for peer, mine, theirs in reversed(done):
            w.swap(mine, peer, theirs, peer)
    return fold.after(value)


class Fold:
    """Make the ranks a power of two: of the first pairs, the odd rank stands for both.

    size: the power of two. place: this rank's number among those that are left, None if it is not.
    """

    def __init__(self, w: Wire):
        self.w, self.size = w, 1 << (w.size.bit_length() - 1)
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


def scan(w: Wire, value, op: Operation):
    """Inclusive prefix by doubling distances, ⌈lg p⌉(α + nβ + nγ) (Hillis and Steele, CACM 29(12), 1986)."""
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
    """p - 1 rounds with other partners (reduce_scatter_intra_pairwise.c): (p-1)α + n(p-1)/p (β + γ).

    Returns one's own block of the result, which lies in `blocks`. For commutative operations.
    """
    mine = blocks[w.rank]
    for step in range(1, w.size):
        to, source = (w.rank + step) % w.size, (w.rank - step) % w.size
        w.fold(op, mine, w.swap(blocks[to], to, w.room(mine), source), mine)
    return mine


def pairwise_alltoall(w: Wire, give, take) -> None:
    """p - 1 rounds with other partners (alltoall_intra_pairwise.c): (p-1)α + n(p-1)/p β. Blocks by rank."""
    take[w.rank] = give[w.rank]
    for step in range(1, w.size):
        to, source = (w.rank + step) % w.size, (w.rank - step) % w.size
        w.swap_into(take, source, give[to], to, source)


def gather(w: Wire, block, root: int):
    """Binomial tree, ⌈lg p⌉α + n(p-1)/p β (gather_intra_binomial.c).

    block: an array, or a list of one object. Returns, at the root, all blocks, from the root's own on.
    """
    place, mask, part = (w.rank - root) % w.size, 1, len(block)
    held = w.room(block, part * _below(place, w.size))
    held[:part] = block
    while mask < w.size:
        if place & mask:
            w.send(held, (w.rank - mask) % w.size)
            break
        if place + mask < w.size:
            many = min(mask, w.size - place - mask)
            w.recv_part(held, mask * part, (mask + many) * part, (w.rank + mask) % w.size)
        mask *= 2
    return held


def scatter(w: Wire, held, part: int, root: int):
    """Binomial tree, ⌈lg p⌉α + n(p-1)/p β (scatter_intra_binomial.c). Returns one's own block.

    held: at the root all blocks, from its own on; elsewhere an array of their type. part: values in a block.
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


def _below(place: int, size: int) -> int:
    """Ranks in the subtree of `place` in a binomial tree over `size`, itself included."""
    return size if place == 0 else min(place & -place, size - place)

"""Communicators of some of the ranks, and ranks on a grid: Split, Split_type, Dup, Free, Create_cart.

Making one takes no virtual time and no message, so that counters show the algorithm without its set-up; it
does wait until all ranks have called it, as a real one would.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from labkit import mpi
from labkit.errors import LabError

from virtual import explain, matching


class Groups:
    """What makes communicators of a communicator, with mpi4py's names. grid: (dims, periods), or None."""

    grid: tuple[list[int], list[bool]] | None = None

    def Split(self, color: int = 0, key: int = 0):
        """One communicator per `color`, ranks in order of `key`, then of rank. MPI.UNDEFINED: COMM_NULL."""
        return self._split("Split", color, key)

    def Split_type(self, split_type: int | None = None, key: int = 0, info=None):
        """One communicator per node: MPI.COMM_TYPE_SHARED, or without an argument."""
        if split_type is not None and split_type == mpi.UNDEFINED:
            return self._split("Split_type", mpi.UNDEFINED, key)
        if split_type is not None and split_type != mpi.COMM_TYPE_SHARED:
            raise explain.MPIError("Split_type on the virtual cluster splits by node: MPI.COMM_TYPE_SHARED.")
        return self._split("Split_type", self.state.node, key)

    def Dup(self, info=None):
        """The same ranks, with messages and collectives of their own."""
        twin = self._split("Dup", 0, self.rank)
        twin.grid = self.grid
        return twin

    def Free(self) -> None:
        """This communicator is used no more."""
        if self.context == 0:
            raise explain.MPIError("Free: the communicator of all ranks cannot be freed.")
        self.__dict__.clear()
        self.__class__ = Null

    def Create_cart(self, dims: Sequence[int], periods: Sequence[bool] | None = None, reorder: bool = False):
        """The first prod(dims) ranks on a grid, row by row; others: COMM_NULL. periods: which dims close."""
        dims = [int(length) for length in dims]
        if not hasattr(periods, "__len__"):
            periods = [periods] * len(dims)
        periods = [bool(closed) for closed in periods]
        if len(periods) != len(dims) or min(dims, default=1) < 1 or prod(dims) > self.size:
            raise explain.MPIError(
                f"Create_cart: {self.size} ranks cannot lie on a grid of dims {dims} with periods {periods}."
            )
        color = 0 if self.rank < prod(dims) else mpi.UNDEFINED
        cart = self._split("Create_cart", color, 0, dims=tuple(dims), periods=tuple(periods))
        if cart:
            cart.grid = dims, periods
        return cart

    # -- on a grid

    @property
    def dims(self) -> list[int]:
        """Length of the grid in each direction."""
        return list(self._on_grid("dims")[0])

    @property
    def periods(self) -> list[bool]:
        """Directions in which the grid closes to a ring."""
        return list(self._on_grid("periods")[1])

    @property
    def coords(self) -> list[int]:
        """This rank's place on the grid."""
        return self.Get_coords(self.rank)

    def Get_dim(self) -> int:
        return len(self.dims)

    def Get_topo(self) -> tuple[list[int], list[bool], list[int]]:
        """(dims, periods, this rank's coords)."""
        return self.dims, self.periods, self.coords

    def Get_coords(self, rank: int) -> list[int]:
        """The place of `rank` on the grid, row by row."""
        dims, _ = self._on_grid("Get_coords")
        if not 0 <= rank < self.size:
            raise explain.bad_rank(self, rank, "rank")
        coords = []
        for length in reversed(dims):
            rank, place = divmod(rank, length)
            coords.append(place)
        return coords[::-1]

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """The rank at `coords`; a place beyond the edge is on the other side where the grid closes."""
        dims, periods = self._on_grid("Get_cart_rank")
        rank = 0
        for place, length, closed in zip(coords, dims, periods, strict=True):
            if not closed and not 0 <= place < length:
                raise explain.MPIError(f"Get_cart_rank: {list(coords)} is outside of the grid {dims}.")
            rank = rank * length + place % length
        return rank

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """(source, dest) of a Sendrecv `disp` places on in `direction`; MPI.PROC_NULL beyond an open edge."""
        dims, periods = self._on_grid("Shift")
        if not 0 <= direction < len(dims):
            raise explain.MPIError(f"Shift: a grid of dims {dims} has no direction {direction}.")

        def at(step: int) -> int:
            coords = self.coords
            coords[direction] += step
            if not periods[direction] and not 0 <= coords[direction] < dims[direction]:
                return mpi.PROC_NULL
            return self.Get_cart_rank(coords)

        return at(-disp), at(disp)

    def Sub(self, remain_dims: Sequence[bool]):
        """The rows, columns or planes of a grid: those who differ only in the directions that remain."""
        dims, periods = self._on_grid("Sub")
        remain_dims = tuple(bool(remains) for remains in remain_dims)
        color = 0
        for place, length, remains in zip(self.coords, dims, remain_dims, strict=True):
            if not remains:
                color = color * length + place
        part = self._split("Sub", color, self.rank, remain_dims=remain_dims)
        kept = [direction for direction, remains in enumerate(remain_dims) if remains]
        part.grid = [dims[direction] for direction in kept], [periods[direction] for direction in kept]
        return part

    def _on_grid(self, name: str) -> tuple[list[int], list[bool]]:
        if self.grid is None:
            raise LabError(
                f"{name} is for ranks on a grid: make one with comm.Create_cart([{self.size}], [True])."
            )
        return self.grid

    # -- how

    def sibling(self, context: int):
        """The same ranks in another context."""
        return type(self)(self.transport, self.lane, self.members, self.rank, context)

    def _split(self, call: str, color: int, key: int, **terms):
        """Agree on colors and keys; the first to go on makes the parts, which all ranks share."""
        if not (isinstance(color, int | np.integer) and isinstance(key, int | np.integer)):
            raise TypeError(f"{call}: color and key are whole numbers, not {color!r} and {key!r}.")
        if color < 0 and color != mpi.UNDEFINED:
            raise explain.MPIError(f"{call}: a color is 0 or more, or MPI.UNDEFINED, not {color}.")
        entered = matching.enter(self, call, (color, key), **terms)
        agreed = matching.agree(self.inside(entered), entered)
        if entered.result is None:
            entered.result = _parts(self, agreed)
        if color == mpi.UNDEFINED:
            return null()
        context, members = entered.result[color]
        return type(self)(self.transport, self.lane, members, members.index(self.members[self.rank]), context)


class Null:
    """MPI.COMM_NULL: no communicator. False, and equal to None."""

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, Null):
            return True
        return mpi.loaded() is not None and other is mpi.loaded().COMM_NULL

    __hash__ = None

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise LabError(
            f"{name} of no communicator: this rank's color was MPI.UNDEFINED, or the communicator was freed."
        )


def null() -> object:
    """mpi4py's own COMM_NULL where that is loaded, else one that is like it."""
    return Null() if mpi.loaded() is None else mpi.loaded().COMM_NULL


def _parts(comm, agreed: dict[int, tuple[int, int]]) -> dict[int, tuple[int, list[int]]]:
    """color -> (a free context, world ranks in order). agreed: rank -> (color, key)."""
    contexts = comm.transport.ledger.contexts
    colors = sorted({color for color, _ in agreed.values()} - {mpi.UNDEFINED})
    ordered = sorted(agreed, key=lambda rank: (agreed[rank][1], rank))
    return {
        color: (next(contexts), [comm.members[rank] for rank in ordered if agreed[rank][0] == color])
        for color in colors
    }

"""Communicators of some of the ranks, and ranks on a grid: Split, Split_type, Dup, Free, Create_cart.

Making one takes no virtual time and no message, so that counters show the algorithm without its set-up; it
does wait until all ranks have called it, as a real one would.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod

import numpy as np

from labkit.errors import LabError
from labkit.virtual import explain, matching


class Groups:
    """What makes communicators of a communicator, with mpi4py's names."""

    def Split(self, color: int = 0, key: int = 0):
        """One communicator per `color`, ranks in order of `key`, then of rank. MPI.UNDEFINED: COMM_NULL."""
        return self._split("Split", color, key)

    def Split_type(self, split_type: int | None = None, key: int = 0, info=None):
        """One communicator per node: MPI.COMM_TYPE_SHARED, or without an argument."""
        undefined = split_type is not None and split_type == _undefined(self)
        if split_type is not None and not undefined and split_type != self._mpi.COMM_TYPE_SHARED:
            raise explain.MPIError("Split_type on the virtual cluster splits by node: MPI.COMM_TYPE_SHARED.")
        return self._split("Split_type", _undefined(self) if undefined else self._lane.state.node, key)

    def Dup(self, info=None):
        """The same ranks, with messages and collectives of their own."""
        made = self._split("Dup", 0, self.rank)
        made._grid = self.__dict__.get("_grid")
        return made

    def Free(self) -> None:
        """This communicator is used no more."""
        if self._context == 0:
            raise explain.MPIError("Free: the communicator of all ranks cannot be freed.")
        self.__dict__.clear()
        self.__class__ = Null

    def Create_cart(self, dims: Sequence[int], periods: Sequence[bool] | None = None, reorder: bool = False):
        """The first prod(dims) ranks on a grid, row by row; others: COMM_NULL. periods: which dims close."""
        dims = [int(one) for one in dims]
        if not hasattr(periods, "__len__"):
            periods = [bool(periods)] * len(dims)
        periods = [bool(one) for one in periods]
        if len(periods) != len(dims) or min(dims, default=1) < 1 or prod(dims) > self.size:
            raise explain.MPIError(
                f"Create_cart: {self.size} ranks cannot lie on a grid of dims {dims} with periods {periods}."
            )
        color = 0 if self.rank < prod(dims) else _undefined(self)
        made = self._split("Create_cart", color, 0, dims=tuple(dims), periods=tuple(periods))
        if made:
            made._grid = dims, periods
        return made

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
        found = []
        for length in reversed(dims):
            rank, place = divmod(rank, length)
            found.append(place)
        return found[::-1]

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
            place = self.coords
            place[direction] += step
            if not periods[direction] and not 0 <= place[direction] < dims[direction]:
                return self._mpi.PROC_NULL
            return self.Get_cart_rank(place)

        return at(-disp), at(disp)

    def Sub(self, remain_dims: Sequence[bool]):
        """The rows, columns or planes of a grid: those who differ only in the directions that remain."""
        dims, periods = self._on_grid("Sub")
        color = 0
        for place, length, remains in zip(self.coords, dims, remain_dims, strict=True):
            color = color if remains else color * length + place
        made = self._split("Sub", color, self.rank, remain_dims=tuple(bool(one) for one in remain_dims))
        kept = [i for i, remains in enumerate(remain_dims) if remains]
        made._grid = [dims[i] for i in kept], [periods[i] for i in kept]
        return made

    def _on_grid(self, name: str) -> tuple[list[int], list[bool]]:
        grid = self.__dict__.get("_grid")
        if grid is None:
            raise LabError(
                f"{name} is for ranks on a grid: make one with comm.Create_cart([{self.size}], [True])."
            )
        return grid

    # -- how

    def _split(self, call: str, color: int, key: int, **terms):
        """Agree on colors and keys; the first to go on makes the parts, which all ranks share."""
        if not all(isinstance(one, int | np.integer) for one in (color, key)):
            raise TypeError(f"{call}: color and key are whole numbers, not {color!r} and {key!r}.")
        if color < 0 and color != _undefined(self):
            raise explain.MPIError(f"{call}: a color is 0 or more, or MPI.UNDEFINED, not {color}.")
        entered = matching.enter(self, call, (color, key), **terms)
        agreed = matching.agree(self._inside(entered), entered)
        if entered.result is None:
            entered.result = _parts(self, agreed)
        if color == _undefined(self):
            return null()
        context, members = entered.result[color]
        rank = members.index(self._members[self.rank])
        return type(self)(self._transport, self._lane, members, rank, context, self._mpi)

    def _sibling(self, context: int):
        """The same ranks in another context."""
        return type(self)(self._transport, self._lane, self._members, self.rank, context, self._mpi)


class Null:
    """MPI.COMM_NULL: no communicator. False, and equal to None."""

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        mpi = sys.modules.get("mpi4py.MPI")
        return other is None or isinstance(other, Null) or (mpi is not None and other is mpi.COMM_NULL)

    __hash__ = None

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise LabError(
            f"{name} of no communicator: this rank's color was MPI.UNDEFINED, or the communicator was freed."
        )


def null() -> object:
    """mpi4py's own COMM_NULL where that is loaded, else one that is like it."""
    mpi = sys.modules.get("mpi4py.MPI")
    return Null() if mpi is None else mpi.COMM_NULL


def _undefined(comm) -> int:
    return comm._mpi.UNDEFINED


def _parts(comm, agreed: dict[int, tuple[int, int]]) -> dict[int, tuple[int, list[int]]]:
    """color -> (a free context, world ranks in order)."""
    contexts = matching.ledger(comm._transport).contexts
    colors = sorted({color for color, _ in agreed.values()} - {_undefined(comm)})
    ordered = sorted(agreed, key=lambda rank: (agreed[rank][1], rank))
    return {
        color: (next(contexts), [comm._members[rank] for rank in ordered if agreed[rank][0] == color])
        for color in colors
    }

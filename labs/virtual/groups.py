"""Communicators of some of the ranks: Split, Split_type, Dup, Free.

Making one takes no virtual time and no message, so that counters show the algorithm without its
set-up; it does wait until all ranks have called it, as a real one would.
"""

from __future__ import annotations

import numpy as np
from labkit import mpi
from labkit.errors import LabError

from virtual import explain, matching


class Groups:
    """What makes communicators of a communicator, with mpi4py's names."""

    def Split(self, color: int = 0, key: int = 0):
        """One communicator per `color`, ranks in order of `key`, then of rank. MPI.UNDEFINED:
        COMM_NULL."""
        return self._split("Split", color, key)

    def Split_type(self, split_type: int, key: int = 0, info=None):
        """One communicator per node, with MPI.COMM_TYPE_SHARED."""
        if split_type == mpi.UNDEFINED:
            return self._split("Split_type", mpi.UNDEFINED, key)
        if split_type != mpi.COMM_TYPE_SHARED:
            raise explain.MPIError(
                "Split_type on the virtual cluster splits by node: MPI.COMM_TYPE_SHARED."
            )
        return self._split("Split_type", self.state.node, key)

    def Dup(self, info=None):
        """The same ranks, with messages and collectives of their own."""
        return self._split("Dup", 0, self.rank)

    def Free(self) -> None:
        """This communicator is used no more."""
        if self.context == 0:
            raise explain.MPIError("Free: the communicator of all ranks cannot be freed.")
        self.__dict__.clear()
        self.__class__ = Null

    # -- how

    def sibling(self, context: int):
        """The same ranks in another context."""
        return type(self)(self.transport, self.lane, self.members, self.rank, context)

    def _split(self, call: str, color: int, key: int):
        """Agree on colors and keys; the first to go on makes the parts, which all ranks share."""
        if not (isinstance(color, int | np.integer) and isinstance(key, int | np.integer)):
            raise TypeError(f"{call}: color and key are whole numbers, not {color!r} and {key!r}.")
        if color < 0 and color != mpi.UNDEFINED:
            raise explain.MPIError(f"{call}: a color is 0 or more, or MPI.UNDEFINED, not {color}.")
        entered = matching.enter(self, call, (color, key))
        agreed = matching.agree(self.inside(entered), entered)
        if entered.result is None:
            entered.result = _parts(self, agreed)
        if color == mpi.UNDEFINED:
            return null()
        context, members = entered.result[color]
        return type(self)(
            self.transport, self.lane, members, members.index(self.members[self.rank]), context
        )


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
            f"{name} of no communicator: this rank's color was MPI.UNDEFINED, or the communicator"
            " was freed."
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
        color: (
            next(contexts),
            [comm.members[rank] for rank in ordered if agreed[rank][0] == color],
        )
        for color in colors
    }

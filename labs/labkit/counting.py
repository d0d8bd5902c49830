"""Communicators that listen: they pass a program's calls on and note what was called.

    ArraysOnly           messages of arrays, and nothing else (labs 21, 23, 24)
    CallLog              every call, by its name, requests and what is computed meanwhile (labs 20,
                         30, 34)
    PassOn               nothing: what a class of its own counts, it adds (labs 66 to 68)

and what tries a function with them on real ranks: `on_every_size` (on the numbers of ranks that
`sizes_of_groups` gives), `by_arrays_alone`, `expect_sum`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from labkit import launch, mpi
from labkit.checks import expect
from labkit.errors import LabError, counted

# -------------------------------------------------------------------------------- trying a function

EVERY_SIZE = 8  # up to here a function is tried on each number of ranks


def sizes_of_groups(ranks: int) -> list[int]:
    """The numbers of ranks on which `on_every_size` tries a function, the largest first.

    All of them up to eight. In a larger job, those up to eight, all ranks, and all but the last:
    a mistake that depends on the number of ranks shows there, and time does not grow with the
    square of the job.
    """
    return [size for size in range(ranks, 0, -1) if size <= EVERY_SIZE or size >= ranks - 1]


def on_every_size(comm, function: Callable) -> dict[int, object]:
    """Call function(group) on all ranks, on all but the last, … on one. Returns {ranks: own
    result}.

    It holds the sizes in which this rank takes part; rank 0 has them all. Of more than eight ranks
    not all sizes are tried: see `sizes_of_groups`.
    """
    groups = {size: comm.Split(int(comm.rank >= size)) for size in sizes_of_groups(comm.size)}
    results = {}
    for size, group in groups.items():
        if comm.rank < size:
            with launch.case(f"in a group of {counted(size, 'rank')}"):
                results[size] = function(group)
    return results


def by_arrays_alone(comm, function: Callable, *args: object) -> None:
    """Run function(communicator, *args) on all ranks of `comm`, with messages of arrays alone.

    An error if a request of the function's was never waited for.
    """
    # A message that nobody received must not reach what is called next. So this communicator is
    # never freed: MPI would give its number to the next one, and the message with it.
    messages = ArraysOnly(comm.Dup())
    function(messages, *args)
    comm.Barrier()  # a rank that is done waits, so that a hang is told in its own case
    messages.expect_waited()


def expect_sum(comm, function: Callable) -> None:
    """Fail unless function(comm, vector) leaves the sum over all ranks in every rank's vector.

    Vectors are short and long, of float64 and of float32. Only messages of arrays are there: MPI's
    own Allreduce is no answer.
    """
    for length, dtype in ((3, "float64"), (40_001, "float64"), (40_001, "float32")):
        start = np.random.default_rng(length).integers(1, 1000, (comm.size, length)).astype(dtype)
        vector = start[comm.rank].copy()
        by_arrays_alone(comm, function, vector)
        subject = f"{comm.size} real ranks, {length} values, {dtype}: rank {comm.rank}'s sum"
        expect.close(vector, start.sum(axis=0), subject)


# ------------------------------------------------------------------------------------ communicators


class PassOn:
    """A communicator that passes everything on, except what a subclass does itself."""

    def __init__(self, comm):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.comm, name)


class CallLog(PassOn):
    """A communicator that passes everything on and notes what is called, and what is done to the
    requests.

    calls: the names of the calls, in order. requests: of calls that only start, as MPI.Requests.
    computed: an entry for each piece of arithmetic with an array of `watch`. written: for each
    assignment to it, to its slices and to arrays made like it.
    """

    STARTING = (
        "Isend", "Issend", "Irecv", "isend", "issend", "irecv", "Ibcast", "Iallreduce", "Ireduce",
        "Igather", "Iallgather", "Ialltoall", "Ialltoallv",
    )  # fmt: skip

    def __init__(self, comm):
        super().__init__(comm)
        self.calls: list[str] = []
        self.requests: list = []
        self.computed: list[Computed] = []
        self.written: list[Computed] = []

    def __getattr__(self, name: str):
        method = super().__getattr__(name)
        if name in ("Get_rank", "Get_size") or not callable(method):
            return method

        def call(*args, **options):
            self.calls.append(name)
            for side in ("dest", "source"):
                _expect_rank(side, _named(name, side, args, options), self.size)
            result = method(*args, **options)
            if name not in self.STARTING:
                return result
            request = _logged(result, name)
            if request is not result:
                self.requests.append(request)
            return request

        return call

    def watch(self, array: np.ndarray) -> np.ndarray:
        """The same memory, as an array whose arithmetic is noted in `computed`; so is that of its
        slices."""
        watched = array.view(Watched)
        watched.log = self
        return watched

    def under_way(self) -> int:
        """Requests that no Wait or Test has ended yet."""
        return sum(map(bool, self.requests))  # MPI empties a request when it is over

    def expect_waited(self) -> None:
        """Fail if no Wait or Test has ended a request."""
        left = next((request.call for request in self.requests if request), "")
        said = f"comm.{left} only starts, and its request is never waited for: call Wait."
        expect(not left, said)


class ArraysOnly(CallLog):
    """A communicator with messages of arrays, by blocking calls or requests, and nothing else."""

    OFFERED = (
        "Send", "Ssend", "Isend", "Issend", "Recv", "Irecv", "Sendrecv", "Get_rank", "Get_size",
    )  # fmt: skip

    def __getattr__(self, name: str):
        if name not in self.OFFERED and not name.startswith("__"):
            raise LabError(
                f"comm.{name} is not there: build it from comm.Send, comm.Recv and comm.Sendrecv."
            )
        return super().__getattr__(name)


class Computed(NamedTuple):
    """Arithmetic with a watched array: values of the result, and how many requests were then under
    way."""

    values: int
    under_way: int


class Watched(np.ndarray):
    """An array that tells its CallLog of all arithmetic with it, with its slices and with the
    results."""

    log = None

    def __array_finalize__(self, source):
        self.log = getattr(source, "log", None)

    def __setitem__(self, place, values):
        super().__setitem__(place, values)
        if self.log is not None:
            self.log.written.append(Computed(int(np.size(self[place])), self.log.under_way()))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        plain = [np.asarray(value) if isinstance(value, Watched) else value for value in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(array) for array in out)
        result = getattr(ufunc, method)(*plain, **options)
        if self.log is not None:
            self.log.computed.append(Computed(int(np.size(result)), self.log.under_way()))
        if out is not None:
            return out[0]
        if type(result) is np.ndarray:
            result = result.view(Watched)
            result.log = self.log
        return result


def _logged(request, call: str):
    """The request of mpi4py as one that remembers the call that made it, for every way to wait for
    it. A virtual rank's stays what it is."""
    from mpi4py import MPI

    if not isinstance(request, MPI.Request):
        return request

    class Logged(MPI.Request):
        """What MPI.Request.Waitall takes too; MPI empties it when it is over."""

    logged = Logged(request)
    logged.call = call
    return logged


_PLACES = {
    "dest": {"send": 1, "ssend": 1, "isend": 1, "issend": 1, "sendrecv": 1},
    "source": {"recv": 1, "irecv": 1, "probe": 0, "iprobe": 0, "sendrecv": 4},
}


def _named(call: str, side: str, args: tuple, options: dict):
    """The argument `dest` or `source` of a call of mpi4py's, by whichever way it was given; None if
    not."""
    place = _PLACES[side].get(call.lower(), len(args))
    return options.get(side, args[place] if place < len(args) else None)


def _expect_rank(side: str, rank, size: int) -> None:
    """Some MPIs take -1 for MPI.PROC_NULL, as which a learner's `comm.rank - 1` on rank 0 was not
    meant."""
    if rank is not None and rank == mpi.PROC_NULL and not mpi.is_nobody(rank):
        raise LabError(mpi.no_such_rank(side, rank, size))

"""What goes wrong in a call on the virtual cluster, told as a sentence: who, and on which line."""

from __future__ import annotations

import pickle
import sys

import numpy as np
from labkit import launch, mpi

from virtual import stuck


class MPIError(Exception):
    """What a real MPI library would end the rank with: an MPI.Exception, too, where mpi4py is
    loaded."""

    def __new__(cls, text: str):
        MPI = mpi.loaded()
        if MPI is None:
            return super().__new__(cls, text)
        return RuntimeError.__new__(type(cls.__name__, (cls, MPI.Exception), {}), text)

    def __init__(self, text: str):
        Exception.__init__(self, text)

    def __str__(self) -> str:
        return self.args[0]


def mark(depth: int = 1) -> tuple | None:
    """Where in the learner's code a call was made, kept cheaply: stuck.line tells it as a line.

    depth: frames that are surely not the learner's.
    """
    frame = sys._getframe(depth)
    while frame is not None and not launch.is_learners(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


INSTEAD = {  # what is not offered -> what does the same here
    "Bsend": "Isend",
    "Cancel": "Wait",
    "Create_cart": "the neighbors' ranks by divmod(comm.rank, columns)",
    "Create_group": "Split",
    "Exscan": "Scan",
    "Gatherv": "gather",
    "Ialltoall": "Alltoall",
    "Igather": "Gather",
    "Irsend": "Isend",
    "Iscatter": "Scatter",
    "Isendrecv": "Isend and Irecv",
    "Mprobe": "Probe",
    "Recv_init": "Irecv",
    "Rsend": "Send",
    "Scatterv": "scatter",
    "Send_init": "Isend",
    "Sendrecv_replace": "Sendrecv, into another array",
    "bsend": "isend",
    "exscan": "scan",
}


def lacking(kind: str, name: str) -> str:
    """The text of an AttributeError: a communicator or a request, as `kind` says, has no `name`."""
    instead = f"Here write {INSTEAD[name]}. " if name in INSTEAD else ""
    return (
        f"the virtual cluster's {kind} has no {name}. {instead}"
        "On real ranks (launch.run) there is all that mpi4py has."
    )


def bad_rank(comm, rank, name: str) -> MPIError:
    return MPIError(mpi.no_such_rank(name, rank, comm.size))


def bad_tag(tag: int, most: int) -> MPIError:
    return MPIError(f"tag={tag}: a tag is 0 or more, and at most {most:,}.")


def aliased(call: str, instead: str) -> MPIError:
    return MPIError(
        f"{call}: sendbuf and recvbuf share memory (buffers must not be aliased). {instead}"
    )


def deliver(rank: int, sender: int, data, into, room: float):
    """Put what a message carries where it belongs; returns the object of a lower-case call.

    rank, sender: of the world, as in all that is told. room: bytes that an object may have.
    """
    if into is None:
        if type(data) is not bytes:
            raise MPIError(
                f"rank {rank} calls recv, but rank {sender} sent an array: receive it with Recv."
            )
        if len(data) > room:
            raise MPIError(
                f"Message truncated: rank {sender} sent an object of {len(data):,} bytes, and rank"
                f" {rank} has room for {room:,}. Give irecv a larger buffer, bytearray(…), or"
                " receive it with recv, which needs none."
            )
        return pickle.loads(data)
    if type(data) is bytes:
        raise MPIError(
            f"rank {rank} calls Recv, but rank {sender} sent an object: receive it with recv."
        )
    if data.dtype.itemsize == into.dtype.itemsize == 1:
        data = data.view(into.dtype)  # raw bytes, whatever they are called
    elif data.dtype != into.dtype and data.size:
        raise MPIError(
            f"rank {sender} sent {data.dtype} and rank {rank} receives into {into.dtype}: MPI would"
            " move the bytes as they are, and the numbers would mean nothing."
        )
    if data.size > into.size:
        raise MPIError(
            f"Message truncated: rank {sender} sent {data.size} values, and rank {rank} has room"
            f" for {into.size}."
        )
    into[: data.size] = data
    return None


def poison(into) -> None:
    """Fill the buffer of an Irecv with what no sum survives, so that use before Wait shows."""
    if into is not None and into.size:
        into[...] = _poison_of(into.dtype)


def poisoned(into) -> bool:
    """Is it still as `poison` left it?"""
    if into.dtype.char in "gG":  # bytes between long doubles hold anything
        return bool(np.isnan(into).all())
    sample = np.full(1, _poison_of(into.dtype), into.dtype)
    return into.tobytes() == sample.tobytes() * into.size


def _poison_of(dtype):
    if dtype.kind in "fc":
        return np.nan
    if dtype.kind == "i":
        return np.iinfo(dtype).min
    return np.iinfo(dtype).max if dtype.kind == "u" else 0


def span(data) -> tuple[int, int]:
    """The addresses between which an array lies; no address for None."""
    return (0, 0) if data is None else np.lib.array_utils.byte_bounds(data)


def look_for_use_before_wait(pending: list, data, does: str) -> None:
    """An error where the buffer of a call is also that of a receive, or is filled while it is being
    sent."""
    low, high = span(data)
    for request in pending:
        if not (request.low < high and low < request.high):
            continue
        if "send" not in request.call or does == "receives into":
            raise MPIError(
                f"{stuck.line(mark())} {does} the buffer of an {request.call} that is not over "
                f"({request.line()}). Wait for that request first."
            )


def changed_before_wait(request) -> None:
    verb = "sent" if "send" in request.call else "in the array afterwards"
    raise MPIError(
        f"The array of an {request.call} was changed before its Wait ({request.line()}): what is"
        f" {verb} is then chance. Wait for the request first, or use another array."
    )

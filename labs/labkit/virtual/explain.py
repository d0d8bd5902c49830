"""What goes wrong in a call on the virtual cluster, told as a sentence: who, and on which line."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np

from labkit.errors import LabError
from labkit.virtual import stuck

# Not the learner's: this package, and the communicators that pass calls on to it (labkit.counting).
_OURS = str(Path(__file__).parent), str(Path(__file__).parents[1] / "counting.py")


class MPIError(Exception):
    """What a real MPI library would end the rank with."""


def mark(depth: int = 1) -> tuple | None:
    """Where in the learner's code a call was made, kept cheaply: stuck.line tells it as a line.

    depth: frames that are surely not the learner's.
    """
    frame = sys._getframe(depth)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def bad_rank(comm, rank, name: str) -> MPIError:
    return MPIError(
        f"{name}={rank!r}: there is no such rank; with {comm.size} ranks they go from 0 to {comm.size - 1}."
    )


def bad_tag(tag) -> MPIError:
    return MPIError(f"tag={tag!r}: a tag is 0 or more.")


def wrong_type(buf) -> TypeError:
    return TypeError(
        f"upper-case calls move NumPy arrays of numbers; this is {type(buf).__name__}. For other objects "
        "there are the lower-case ones (send, recv, bcast)."
    )


def not_contiguous(buf) -> ValueError:
    return ValueError(
        "ndarray is not contiguous: MPI moves a stretch of memory; make one with np.ascontiguousarray."
    )


def read_only() -> ValueError:
    return ValueError("the array to receive into is read-only.")


def deliver(rank: int, sender: int, data, into):
    """Put what a message carries where it belongs; returns the object of a lower-case call."""
    if into is None:
        if type(data) is not bytes:
            raise MPIError(f"rank {rank} calls recv, but rank {sender} sent an array: receive it with Recv.")
        return pickle.loads(data)
    if type(data) is bytes:
        raise MPIError(f"rank {rank} calls Recv, but rank {sender} sent an object: receive it with recv.")
    if data.dtype != into.dtype and data.size and into.size:
        raise MPIError(
            f"rank {sender} sent {data.dtype} and rank {rank} receives into {into.dtype}: MPI would move the "
            "bytes as they are, and the numbers would mean nothing."
        )
    if data.size > into.size:
        raise MPIError(
            f"Message truncated: rank {sender} sent {data.size} values, and rank {rank} has room for "
            f"{into.size}."
        )
    into[: data.size] = data
    return None


def poison(into) -> None:
    """Fill the buffer of an Irecv with what no sum survives, so that use before Wait shows."""
    if into is not None and into.size:
        into[...] = _poison(into.dtype)


def poisoned(into) -> bool:
    """Is it still as `poison` left it?"""
    bad = np.full(1, _poison(into.dtype), into.dtype)
    return into.tobytes() == bad.tobytes() * into.size


def _poison(dtype):
    if dtype.kind in "fc":
        return np.nan
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max if dtype.kind == "u" else 0


def span(data) -> tuple[int, int]:
    """The addresses between which an array lies; no address for None."""
    return (0, 0) if data is None else np.lib.array_utils.byte_bounds(data)


def look_for_use_before_wait(pending: list, data, does: str) -> None:
    """An error where the buffer of a call is also that of a receive, or is filled while it is being sent."""
    if type(data) is bytes:
        return
    low, high = span(data)
    for request in [one for one in pending if one.low < high and low < one.high]:
        if "send" not in request._call or does == "receives into":
            raise MPIError(
                f"{stuck.line(mark())} {does} the buffer of an {request._call} that is not over "
                f"({request.line()}). Wait for that request first."
            )


def changed_before_wait(request) -> None:
    verb = "sent" if "send" in request._call else "in the array afterwards"
    raise MPIError(
        f"The array of an {request._call} was changed before its Wait ({request.line()}): what is {verb} is "
        "then chance. Wait for the request first, or use another array."
    )


# mpi4py's names that the virtual cluster does not have: they raise a sentence.


_COMM = """
    Abort Accept Ack_failed Agree Allgather_init Allgatherv_init Allreduce_init Alltoall_init Alltoallv
    Alltoallv_init Alltoallw Alltoallw_init Attach_buffer Barrier_init Bcast_init Bsend Bsend_init
    Call_errhandler Cart_map Clone Compare Connect Create Create_dist_graph Create_dist_graph_adjacent
    Create_errhandler Create_from_group Create_graph Create_group Create_intercomm Create_keyval Delete_attr
    Detach_buffer Disconnect Dup_with_info Exscan Exscan_init Flush_buffer Free_keyval Gather_init Gatherv
    Gatherv_init Get_attr Get_errhandler Get_failed Get_group Get_info Get_name Get_parent Get_topology
    Graph_map Iagree Iallgather Iallgatherv Ialltoall Ialltoallv Ialltoallw Ibsend Idup Idup_with_info
    Iexscan Iflush_buffer Igather Igatherv Improbe Ireduce_scatter Ireduce_scatter_block Irsend
    Is_inter Is_intra Is_revoked Iscan Iscatter Iscatterv Isendrecv Isendrecv_replace Ishrink Join Mprobe
    Precv_init Psend_init Recv_init Reduce_init Reduce_scatter_block_init Reduce_scatter_init Revoke Rsend
    Rsend_init Scan_init Scatter_init Scatterv Scatterv_init Send_init Sendrecv_replace Set_attr
    Set_errhandler Set_info Set_name Shrink Spawn Spawn_multiple Ssend_init bsend exscan group handle ibsend
    improbe info is_inter is_intra is_topo mprobe name topology
"""
_REQUEST = """
    Cancel Free Get_status Get_status_all Get_status_any Get_status_some Start Startall Testsome Waitsome
    cancel free get_status testsome waitsome
"""


class _Lacking:
    def __init__(self, whose: str):
        self.whose = whose

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> None:
        if instance is None:
            return self
        raise LabError(
            f"The virtual cluster's {self.whose} has no {self.name}. On real ranks (launch.run) mpi4py's "
            "own is there."
        )


def add(owner: type, whose: str, names: str) -> None:
    for name in names.split():
        if not hasattr(owner, name):
            lacking = _Lacking(whose)
            lacking.__set_name__(owner, name)
            setattr(owner, name, lacking)


def add_to_comm(owner: type) -> type:
    """A class decorator. Not __getattr__, with which Python looks up every attribute more slowly."""
    add(owner, "comm", _COMM)
    return owner


def add_to_request(owner: type) -> type:
    add(owner, "request", _REQUEST)
    return owner

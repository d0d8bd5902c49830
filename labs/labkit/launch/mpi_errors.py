"""What MPI's own messages mean for the call that a learner wrote.

The texts are those of MPICH 4 and 5 and of the MPIs made from it, of Open MPI, and of mpi4py 4.
What a library says stays in brackets: one can search for it.
"""

from __future__ import annotations

import re

_ARRAYS = (
    "Calls with a capital letter (Send, Recv, Bcast, Allreduce) carry NumPy arrays, and a receiving"
    " one wants the array to fill, as in comm.Recv(box, source=0). Other objects travel by send,"
    " recv, bcast."
)
_CAPITAL = re.compile(r"\.(I?[A-Z][a-z_]+)\(")  # .Send( or .Isend( in a line of code
_SMALL_RECEIVE = re.compile(r"\.(recv|sendrecv|irecv|wait)\(")


def sentence(kind: str, message: str, line: str) -> str:
    """What an exception that mpi4py raised says of the learner's call; "" for any other.

    kind: the exception's class. line: the learner's line that raised it.
    """
    if kind == "Exception":  # mpi4py.MPI.Exception: what the library itself reports
        return _of_library(message)
    if kind == "UnpicklingError" and _SMALL_RECEIVE.search(line):
        return (
            "recv took what Send had sent, the bare memory of an array, and cannot unpack it "
            f"({message.strip(' .')}). What Send sends, Recv receives; what send sends, recv."
        )
    capital = _CAPITAL.search(line)
    wrong_thing = (
        "expecting buffer or list/tuple" in message or "bytes-like object is required" in message
    )
    if (
        kind == "TypeError"
        and capital
        and (wrong_thing or "takes at least 1 positional argument" in message)
    ):
        return f"{capital[1]} was not given an array ({message}). {_ARRAYS}"
    if kind in ("BufferError", "ValueError") and "not contiguous" in message:
        return (
            "the array does not lie in one piece (not contiguous), and MPI moves one stretch of"
            " memory: a row does, a column does not. np.ascontiguousarray makes a copy that does."
        )
    if kind == "ValueError" and "mismatch in send and receive MPI datatypes" in message:
        return f"the two arrays of this call differ in dtype, and MPI does not convert ({message})."
    return ""


def _of_library(message: str) -> str:
    if "truncated" in message.lower():
        return _truncated(message)
    if "must not be aliased" in message:
        return (
            "the same array is given to send from and to receive into (Buffers must not be"
            " aliased). Give two arrays; to add up in place, MPI.IN_PLACE stands where the array to"
            " send would."
        )
    invalid = re.search(
        r"Invalid rank has value (-?\d+) but must be nonnegative and less than (\d+)", message
    )
    if invalid:
        last = int(invalid[2]) - 1
        return (
            f"dest, source or root is {invalid[1]}, and there is no such rank (Invalid rank): here"
            f" they go from 0 to {last}. In a ring, `% comm.size` leads from the last to the first."
        )
    if "MPI_ERR_RANK" in message:
        return (
            "dest, source or root is no rank of this communicator (MPI_ERR_RANK): they go from 0 to"
            " comm.size - 1. In a ring, `% comm.size` leads from the last to the first."
        )
    return ""


def _truncated(message: str) -> str:
    sizes = re.search(r"(\d+) bytes received but buffer size is (\d+)", message)
    told = ""
    if sizes:  # MPICH 5 names them in the other order when both ranks are on one node
        room, came = sorted((int(sizes[1]), int(sizes[2])))
        told = f": {came} bytes came, and it has room for {room}"
    return (
        f"a message was longer than the array that receives it (Message truncated){told}. Either"
        " the two arrays differ in length or dtype, or this message was meant for another call:"
        " look who sends to whom, and in which order."
    )


def last_words(output: list[str]) -> str:
    """What a rank that MPI ended had printed, as a sentence; "" where its last lines tell nothing.

    output: the last lines that the rank printed.
    """
    text = "\n".join(output)
    if "memory ranges overlap" in text:
        return (
            "MPI ended it, as it was to copy memory onto itself (memory ranges overlap). Does a"
            " rank send to itself, from the array that it receives into?"
        )
    if "typerep_unpack" in text or "actual_unpack_bytes" in text:
        return (
            "MPI ended it, as what came does not fit into the array that receives it (an assertion"
            " failed). Does Recv take what send, with a small letter, has sent? Do the dtypes"
            " agree?"
        )
    assertion = re.search(r"Assertion failed in file \S*?([^/\s]+) at line (\d+)", text)
    if assertion:
        return (
            f"MPI ended it (an assertion failed in its file {assertion[1]}): a call was given what"
            " it cannot work with. Look at the arrays and ranks of its last call."
        )
    return ""


def is_noise(line: str) -> bool:
    """Is it a line of a stack of compiled code, `/lib/libmpi.so.12(+0x4627a1) [0x7f923e8627a1]`?"""
    return bool(re.fullmatch(r"\S+\(\S*\+0x[0-9a-f]+\) \[0x[0-9a-f]+\]", line.strip()))

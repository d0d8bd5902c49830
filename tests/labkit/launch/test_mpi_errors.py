"""What MPI's messages mean for the learner's call: on real ranks, and by texts of other
libraries."""

from __future__ import annotations

import re

import numpy as np
import pytest
from labkit.launch import mpi_errors

from tests.labkit.launch.leftovers import failed


def both(of_rank_0, of_rank_1):
    """A program in which rank 0 makes a call, and rank 1 another."""
    return lambda comm: (of_rank_0, of_rank_1)[comm.rank](comm)


VECTOR = np.zeros(3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "says"),
    [
        (
            both(lambda c: c.Send(np.zeros(4), dest=1), lambda c: c.Recv(np.zeros(2), source=0)),
            "rank 1 failed: a message was longer .*: 32 bytes came, and it has room for 16",
        ),
        (
            both(lambda c: c.Send(np.zeros(4), dest=1), lambda c: c.recv(source=0)),
            "rank 1 failed: recv took what Send had sent",
        ),
        (
            both(lambda c: c.send(5, dest=1), lambda c: c.Recv(np.zeros(4), source=0)),
            "rank 1 died: MPI ended it, as what came does not fit",
        ),
        (
            lambda c: c.Allreduce(VECTOR, VECTOR),
            "rank . failed: the same array is given to send from and to receive into",
        ),
        (
            lambda c: c.Send(np.zeros(2), dest=c.rank + 1),
            "rank 1 failed: dest, source or root is 2, .* go from 0 to 1",
        ),
        (lambda c: c.Send(0, dest=c.rank), "Send was not given an array"),
        (lambda c: c.Send([1.0, 2.0], dest=c.rank), "Send was not given an array"),
        (
            lambda c: c.Recv(source=c.rank),
            r"Recv was not given an array .*as in comm.Recv\(box, source=0\)",
        ),
        (
            lambda c: c.Allreduce(np.zeros(4, np.float32), np.zeros(4)),
            "the two arrays of this call differ in dtype",
        ),
        (
            lambda c: c.Send(np.ones((4, 4))[:, 0], dest=c.rank),
            "the array does not lie in one piece",
        ),
    ],
)
def test_a_wrong_call_is_told_as_a_sentence(program, says, capfd):
    def learners(comm):
        program(comm)

    said = str(failed(learners, ranks=2, timeout=30)).split("  (line ")[0]  # the row itself follows
    assert re.search(says, said)
    assert "libmpi.so" not in capfd.readouterr().out, "no stack of compiled code"


TRUNCATED = "Message from rank 1 and tag 3 truncated; 8 bytes received but buffer size is 4"


@pytest.mark.parametrize(
    ("kind", "message", "line", "says"),
    [
        ("Exception", "MPI_ERR_TRUNCATE: message truncated", "", "a message was longer than the"),
        ("Exception", "MPI_ERR_RANK: invalid rank", "", "is no rank of this communicator"),
        ("Exception", TRUNCATED, "", "8 bytes came"),
        # Other people's errors are left alone.
        ("Exception", "MPI_ERR_OTHER: known error not in list", "comm.Recv(box)", ""),
        ("TypeError", "f() takes at least 1 positional argument", "f()", ""),
        ("UnpicklingError", "invalid load key", "pickle.load(file)", ""),
        ("ValueError", "truncated", "x", ""),
    ],
)
def test_texts_of_libraries(kind, message, line, says):
    told = mpi_errors.sentence(kind, message, line)
    assert says in told
    assert bool(told) == bool(says)


def test_last_words():
    overlap = ["memcpy argument memory ranges overlap, dst_=0x1 src_=0x1 len_=8", "Abort(1)"]
    assert "onto itself" in mpi_errors.last_words(overlap)
    other = ["Assertion failed in file src/mpid/ch4/src/mpidig_recv.h at line 75: x", "Abort(1)"]
    assert "in its file mpidig_recv.h" in mpi_errors.last_words(other)
    assert mpi_errors.last_words(["hello"]) == ""


def test_noise():
    assert mpi_errors.is_noise("/home/me/labs/.venv/lib/libmpi.so.12(+0x4627a1) [0x7f923e8627a1]")
    assert mpi_errors.is_noise("/usr/bin/python(_start+0x21) [0x561c42f0e081]")
    assert not mpi_errors.is_noise("sum(+0x1) is [0x2], says a learner")

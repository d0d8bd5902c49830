"""What MPI's messages mean for the learner's call: on real ranks, and by texts of other
libraries."""

from __future__ import annotations

import re

import numpy as np
import pytest
from labkit.launch import mpi_errors

from tests.labkit.launch.leftovers import failed


def _too_long(comm):
    if comm.rank == 0:
        comm.Send(np.zeros(4), dest=1)
    else:
        comm.Recv(np.zeros(2), source=0)


def _one_array(comm):
    vector = np.zeros(3)
    comm.Allreduce(vector, vector)


def _array_for_object(comm):
    if comm.rank == 0:
        comm.Send(np.zeros(4), dest=1)
    else:
        comm.recv(source=0)


def _object_for_array(comm):
    if comm.rank == 0:
        comm.send(5, dest=1)
    else:
        comm.Recv(np.zeros(4), source=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "says"),
    [
        (_too_long, "rank 1 failed: a message was longer .*: 32 bytes came, .* has room for 16"),
        (_one_array, "rank . failed: the same array is given to send from and to receive into"),
        (_array_for_object, "rank 1 failed: recv took what Send had sent"),
        (_object_for_array, "rank 1 died: MPI ended it, as what came does not fit"),
        (
            lambda comm: comm.Send(np.zeros(2), dest=comm.rank + 1),
            "rank 1 failed: dest, source or root is 2, .* go from 0 to 1",
        ),
        (lambda comm: comm.Send(0, dest=comm.rank), "Send was not given an array"),
        (
            lambda comm: comm.Recv(source=comm.rank),
            r"Recv was not given an array .*as in comm.Recv\(box, source=0\)",
        ),
        (lambda comm: comm.Send([1.0, 2.0], dest=comm.rank), "Send was not given an array"),
        (
            lambda comm: comm.Allreduce(np.zeros(4, np.float32), np.zeros(4)),
            "the two arrays of this call differ in dtype",
        ),
        (
            lambda comm: comm.Send(np.ones((4, 4))[:, 0], dest=comm.rank),
            "the array does not lie in one piece",
        ),
    ],
)
def test_a_wrong_call_is_told_as_a_sentence(program, says, capfd):
    assert re.search(says, str(failed(program, ranks=2, timeout=30)))
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

"""launch.run when something goes wrong on local ranks: exceptions, deaths, hangs, wrong calls of
MPI and misuse, each in words; and the case of a check to which it belongs."""

from __future__ import annotations

import linecache
import os
import re
import resource
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from labkit import errors, launch, paths
from labkit.counting import on_every_size
from labkit.launch import cases, diagnosis, mpi_errors, runs, task, worker

from tests.labkit.launch.leftovers import failed

pytestmark = pytest.mark.usefixtures("nothing_left")


def fails_first(comm):
    if comm.rank == 1:
        raise ValueError("the true reason")
    time.sleep(0.3)
    raise RuntimeError("only follows")


def deep():
    import json

    return json.loads("{broken")  # the learner's innermost line


def unsolved(kind):
    raise kind("exercise 40.1: Shard the data")


def die(comm, death):
    import ctypes

    if comm.rank == 1:
        eval(death, {"os": os, "sys": sys, "ctypes": ctypes})
    comm.Barrier()


def abort(comm, alone):
    if comm.rank == 1:
        comm.Abort(5)  # MPICH's may return, and the rank then reaches the end of its function
    if not alone:
        comm.Barrier()


def spin():
    re.match(r"(a+)+$", "a" * 60 + "b")  # compiled code that does not let go of the lock


def fails_alone(comm):
    if comm.size == 1:
        raise KeyError("gone")


def forgets(comm):
    comm.rank + 1


def dies_in_a_case(comm):
    with launch.case("with root 1"):
        if comm.rank == 1:
            time.sleep(0.1)
            os._exit(3)
        comm.Barrier()


CHECKS = """
import numpy as np


def waits(comm, answer):
    answer(comm)
    comm.Barrier()


def gives_none(comm, answer):
    return answer(comm) + 1


def does_not_fit(comm):
    np.zeros(2) + np.zeros(3)
"""


def of_a_check(name: str):
    """A function of a lab's checks, whose lines no learner wrote."""
    names = {"__name__": "__main__"}
    exec(compile(CHECKS, str(paths.root() / "labs/support/lab90.py"), "exec"), names)
    return names[name]


def of_a_file(file: str):
    """A function of a file with that name, which crashes."""
    text = "def stürzt_ab():\n    os.kill(os.getpid(), 11)\n"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names = {"__name__": "__main__", "os": os}
    exec(compile(text, file, "exec"), names)
    return names["stürzt_ab"]


def does_not_fit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return bytes(10_000)


class Odd:
    """Travels, and cannot be built where it arrives."""

    def __reduce__(self):
        return (int, ("not a number",))


REASON = r'ValueError: the true reason  \(line \d+ in fails_first: raise ValueError\("the true'
UNSOLVED = "exercise 40.1: Shard the data$"
ABORTED = "MPI_Abort: rank 1 ended the whole job: .*MPI_Abort"
NONE = r"rank . failed: Your function gave None back: is a `return` missing at its end\?$"
NOT_FIT = "rank . failed: the check cannot use what your code gave back: ValueError: operands could"


@pytest.mark.parametrize(
    ("program", "arguments", "says"),
    [  # the kind of the error, and its sentence
        (fails_first, [], f"ValueError: rank 1 failed: {REASON}"),
        (deep, [], r"JSONDecodeError: rank . failed: .* in deep: return json.loads"),
        (unsolved, [errors.LabError], f"LabError: {UNSOLVED}"),
        (unsolved, [NotImplementedError], f"NotImplementedError: {UNSOLVED}"),
        *(
            pytest.param(die, [death], says, marks=pytest.mark.slow)
            for death, says in (
                ("os._exit(0)", "exit: rank 1 died: .*exit status 0"),
                ("os.kill(os.getpid(), 9)", r"SIGKILL: rank 1 died: .*signal 9 \(SIGK.*memory"),
                ("ctypes.string_at(0)", r"SIGSEGV: rank 1 died: .*signal 11 .*line \d+ in die"),
                ("sys.exit(3)", r"SystemExit: rank 1 ended itself with sys.exit\(3\)  \(line \d+"),
            )
        ),
        *((abort, [alone], ABORTED) for alone in (False, True, True, True)),
        (threading.Lock, [], "TypeError: rank . ran to its end, but its result cannot be sent"),
        (does_not_fit, [], "OSError: rank . ran to its end, .* Free space for temporary files, or"),
        (lambda odd: None, [Odd()], "ValueError: rank . could not load the function and its argum"),
        (
            lambda: runs.run(len, "x"),
            [],
            "LabError: launch.run was called by a function that already",
        ),
        (on_every_size, [fails_alone], "KeyError: rank 0 failed, in a group of 1 rank: KeyError"),
        (dies_in_a_case, [], "exit: rank 1 died, with root 1: its process ended with exit"),
        (of_a_file("/ä/語/😀.py"), [], r"SIGSEGV: .*\(line 2 in stürzt_ab: os.kill\(os.getpid"),
        # An error in a check is told without its lines.
        (of_a_check("gives_none"), [forgets], f"TypeError: {NONE}"),
        (of_a_check("does_not_fit"), [], f"ValueError: {NOT_FIT} not((?!line).)*$"),
    ],
)
def test_what_is_said_of_a_rank_that_fails(program, arguments, says):
    error = failed(program, *arguments, ranks=2)
    assert re.match(says, f"{error.kind}: {error}")


def test_a_failure_has_its_parts():
    error = failed(fails_first, ranks=3)
    assert (error.rank, error.kind, error.message) == (1, "ValueError", "the true reason")
    assert 'raise ValueError("the true reason")' in error.line


def print_or_die(begun):
    if os.environ["RANK"] == "1":
        while not begun.exists():
            time.sleep(0.01)
        os._exit(3)
    begun.touch()
    while True:
        os.write(1, b"\n" * 60_000)  # lines that cost more to read than to write


@pytest.mark.timeout(120)
def test_a_rank_that_dies_while_another_prints_without_an_end(tmp_path):
    error = failed(print_or_die, tmp_path / "begun", ranks=2, controller="torch", echo=False)
    assert re.match("rank 1 died: .*exit status 3", str(error))


def test_the_word_abort_is_no_abort():
    assert runs.run(lambda: print("MPI_Abort ends a job"), ranks=2) == [None, None]


def exchange(comm):
    box = np.zeros(1)
    if comm.rank == 2:
        return comm.rank
    comm.Recv(box, source=(comm.rank + 1) % 2)
    return None


def waits_alone(comm):
    if comm.size == 2 and comm.rank == 1:
        comm.recv(source=0)


def in_cases_of_their_own(comm):
    with launch.case(f"root {comm.rank}"):
        comm.recv(source=comm.rank)


SELF = "rank {0} waits in LINE: comm.recv(source=comm.rank) (root {0})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments", "place", "says"),
    [
        (
            exchange,
            [],
            (exchange, 4),
            ": ranks 0, 1 wait in LINE: comm.Recv(box, source=(comm.rank + 1) % 2); rank 2 has"
            " finished",
        ),
        (  # the group is named, and no line of the check
            on_every_size,
            [partial(of_a_check("waits"), answer=waits_alone)],
            (waits_alone, 2),
            ", in a group of 2 ranks: rank 0 waits for the others; rank 1 waits in LINE:"
            " comm.recv(source=0); rank 2 has finished",
        ),
        (
            in_cases_of_their_own,
            [],
            (in_cases_of_their_own, 2),
            f": {SELF.format(0)}; {SELF.format(1)}; {SELF.format(2)}",
        ),
    ],
)
def test_a_hang_names_ranks_lines_and_cases(program, arguments, place, says):
    error = failed(program, *arguments, ranks=3, timeout=2)
    function, offset = place
    line = f"line {function.__code__.co_firstlineno + offset} of {function.__name__}"
    assert str(error) == f"after 2 s without an end{says.replace('LINE', line)}"
    assert error.kind == "Timeout"


@pytest.mark.slow
def test_a_hang_that_holds_the_interpreters_lock():
    error = failed(spin, ranks=1, timeout=1)
    assert re.search(r"rank 0 waits in line \d+ of spin: re.match", str(error))


def test_sigusr1_is_the_learners():
    def ask():
        got = []
        signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
        os.kill(os.getpid(), signal.SIGUSR1)
        return got

    assert runs.run(ask, ranks=1) == [[1]]


@pytest.mark.parametrize(
    ("function", "arguments", "options", "says"),
    [
        (len, [threading.Lock()], {}, "len cannot be sent to the ranks"),
        (Odd, [], {}, "result of rank 0 cannot be rebuilt here"),
        (40, [], {}, "Leave out its parentheses"),
        (exchange, [], {"controller": "torch"}, 'controller="torch" does not have'),
        (exchange, [], {"controller": "nccl"}, "controller must be one of mpi, torch"),
        (exchange, [], {"ranks": 0}, "ranks must be a whole number of at least 1, not 0"),
        (exchange, [], {"ranks": 2.0}, "ranks must be"),
        (exchange, [], {"ranks": True}, "ranks must be"),
        (exchange, [], {"threads": 0}, "threads must be"),
        (exchange, [], {"timeout": 0}, "timeout must be"),
        (exchange, [], {"env": {"A": 1}}, "env must hold text"),
    ],
)
def test_nonsense_is_refused(function, arguments, options, says):
    with pytest.raises(errors.LabError, match=says):
        runs.run(function, *arguments, **{"ranks": 1, **options})


def test_a_task_that_does_not_fit():
    with pytest.raises(errors.LabError, match="No space left on device. Free space for temporary"):
        task.save(Path("/dev/full"), task.Task(len, ("x",), {}))


def test_a_failure_is_written_where_the_result_did_not_fit(tmp_path):
    for name in ("events", "gate"):
        (tmp_path / name).touch()
    folder = worker.Folder(str(tmp_path), 0)
    os.close(folder.events)
    os.close(folder.gate)

    def fill(file):
        file.write(bytes(10_000))
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        folder.store("result", fill)
    room = (tmp_path / "part.0").stat().st_ino
    folder.store("failure", lambda file: file.write(b"why"))
    assert (tmp_path / "failure.0").read_bytes() == b"why"
    assert (tmp_path / "failure.0").stat().st_ino == room


def test_a_learners_line_is_not_taken_for_one_of_the_check(tmp_path, monkeypatch):
    """Whatever its name: the file counts, or the cell of a notebook."""
    text = 'def try_again():\n    raise ValueError("of mine")\n'
    own = 'ValueError: of mine  (line 2 in try_again: raise ValueError("of mine"))'
    of_check = "the check cannot use what your code gave back: ValueError: of mine"
    checks = str(paths.root() / "labs" / "support" / "lab90.py")
    for file, said in ((str(tmp_path / "lab.py"), own), ("<cell 1>", own), (checks, of_check)):
        lines = text.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, file, (len(text), None, lines, file))
        frames = [(file, 2, "try_again")]
        failure = diagnosis.Failure("ValueError", "of mine", False, frames, "run", 0.0)
        assert str(diagnosis.raised(1, failure)) == f"rank 1 failed: {said}"


def test_an_error_takes_the_words_of_its_blocks_along():
    def fail():
        assert cases.now() == "with 3 ranks, root 1"
        raise ZeroDivisionError

    outer, inner = cases.case("with 3 ranks"), cases.case("root 1")
    with pytest.raises(ZeroDivisionError) as caught, outer, inner:
        fail()
    assert cases.case_of(caught.value) == "with 3 ranks, root 1"
    assert cases.now() == ""
    assert cases.case_of(ValueError()) == ""


# --- wrong calls of MPI


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

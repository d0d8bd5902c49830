"""launch.run when something goes wrong on local ranks: exceptions, deaths, hangs, misuse, each in
words."""

from __future__ import annotations

import linecache
import os
import re
import signal
import sys
import threading
import time

import pytest
from labkit import errors, paths
from labkit.launch import diagnosis, runs

from tests.labkit.launch.leftovers import failed

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_the_first_failing_ranks_own_message():
    def fail(comm):
        if comm.rank == 1:
            raise ValueError("the true reason")
        time.sleep(0.3)
        raise RuntimeError("only follows")

    error = failed(fail, ranks=3)
    line = 'raise ValueError("the true reason")'
    assert str(error).startswith("rank 1 failed: ValueError: the true reason  (line ")
    assert str(error).endswith(f" in fail: {line})")
    assert (error.rank, error.kind, error.message) == (1, "ValueError", "the true reason")
    assert line in error.line


def test_the_learners_line_is_named_not_the_librarys():
    def deep():
        import json

        return json.loads("{broken")  # the learner's innermost line

    assert "in deep: return json.loads" in failed(deep, ranks=1).line


@pytest.mark.parametrize("kind", [errors.LabError, NotImplementedError])
def test_a_sentence_made_for_the_learner_is_kept(kind):
    def unsolved():
        raise kind("exercise 40.1: Shard the data")

    error = failed(unsolved, ranks=2)
    assert (str(error), error.kind) == ("exercise 40.1: Shard the data", kind.__name__)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("death", "says", "kind"),
    [
        ("os._exit(0)", "died: .*exit status 0", "exit"),
        ("os.kill(os.getpid(), 9)", r"died: .*signal 9 \(SIGKILL\).*memory", "SIGKILL"),
        ("ctypes.string_at(0)", r"died: .*signal 11 \(SIGSEGV\).*line \d+ in die", "SIGSEGV"),
        ("sys.exit(3)", r"ended itself with sys.exit\(3\)  \(line \d+ in die", "SystemExit"),
    ],
)
def test_a_rank_that_dies(death, says, kind):
    def die(comm):
        import ctypes

        if comm.rank == 1:
            eval(death, {"os": os, "sys": sys, "ctypes": ctypes})
        comm.Barrier()

    error = failed(die, ranks=2)
    assert re.match(f"rank 1 {says}", str(error))
    assert error.kind == kind


@pytest.mark.timeout(120)
def test_a_rank_that_dies_while_another_prints_without_an_end(tmp_path):
    def print_or_die(begun):
        if os.environ["RANK"] == "1":
            while not begun.exists():
                time.sleep(0.01)
            os._exit(3)
        begun.touch()
        while True:
            os.write(1, b"\n" * 60_000)  # lines that cost more to read than to write

    error = failed(print_or_die, tmp_path / "begun", ranks=2, controller="torch", echo=False)
    assert re.match("rank 1 died: .*exit status 3", str(error))


def test_a_rank_that_aborts_mpi():
    def abort(comm):
        if comm.rank == 1:
            comm.Abort(5)
        comm.Barrier()

    def abort_alone(comm):
        if comm.rank == 1:
            comm.Abort(5)  # MPICH's may return, and the rank then reaches the end of its function

    for fn in (abort, abort_alone, abort_alone, abort_alone):
        assert re.match("rank 1 ended the whole job: .*MPI_Abort", str(failed(fn, ranks=2)))


def test_the_word_abort_is_no_abort():
    assert runs.run(lambda: print("MPI_Abort ends a job"), ranks=2) == [None, None]


def exchange(comm):
    import numpy as np

    box = np.zeros(1)
    if comm.rank == 2:
        return comm.rank
    comm.Recv(box, source=(comm.rank + 1) % 2)
    return None


@pytest.mark.slow
def test_a_deadlock_names_ranks_and_line():
    error = failed(exchange, ranks=3, timeout=1)
    number = exchange.__code__.co_firstlineno + 6
    assert str(error) == (
        f"after 1 s without an end: ranks 0, 1 wait in line {number} of exchange:"
        " comm.Recv(box, source=(comm.rank + 1) % 2); rank 2 has finished"
    )
    assert error.kind == "Timeout"


@pytest.mark.slow
def test_a_hang_that_holds_the_interpreters_lock():
    def spin():
        re.match(r"(a+)+$", "a" * 60 + "b")  # compiled code that does not let go of the lock

    error = failed(spin, ranks=1, timeout=1)
    assert re.search(r"rank 0 waits in line \d+ of spin: re.match", str(error))


def test_sigusr1_is_the_learners():
    def ask():
        got = []
        signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
        os.kill(os.getpid(), signal.SIGUSR1)
        return got

    assert runs.run(ask, ranks=1) == [[1]]


class Odd:
    """Travels, and cannot be built where it arrives."""

    def __reduce__(self):
        return (int, ("not a number",))


@pytest.mark.parametrize(
    ("function", "arguments", "kind", "says"),
    [
        (len, [threading.Lock()], errors.LabError, "len cannot be sent to the ranks"),
        (threading.Lock, [], errors.RankFailed, "rank 0 ran to its end, but its result cannot be"),
        (lambda odd: None, [Odd()], errors.RankFailed, "could not load the function and its arg"),
        (Odd, [], errors.LabError, "result of rank 0 cannot be rebuilt here"),
        (lambda: runs.run(len, "x"), [], errors.RankFailed, "already runs on ranks"),
        (40, [], errors.LabError, "Leave out its parentheses"),
    ],
)
def test_what_cannot_travel(function, arguments, kind, says):
    with pytest.raises(kind, match=says):
        runs.run(function, *arguments, ranks=1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ranks": 0}, "ranks must be a whole number of at least 1, not 0"),
        ({"ranks": 2.0}, "ranks must be"),
        ({"ranks": True}, "ranks must be"),
        ({"threads": 0}, "threads must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"controller": "nccl"}, "controller must be one of mpi, torch"),
        ({"controller": "torch"}, 'controller="torch" does not have'),
        ({"env": {"A": 1}}, "env must hold text"),
    ],
)
def test_nonsense_is_refused(options, says):
    with pytest.raises(errors.LabError, match=says):
        runs.run(exchange, **options)


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

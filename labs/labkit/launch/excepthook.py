"""What an error that nobody caught prints, and how it ends the other ranks of a job."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import time

from labkit import world
from labkit.errors import CheckFailed, LabError
from labkit.launch import meeting, notes


def print_lab_errors_plainly() -> None:
    """Let a script that fails with a LabError print its message alone and end with status 1.

    Under a launcher the whole job ends with it: ranks that did not fail would wait for this one for
    ever. In a script and in a notebook, a check of what no cell has defined yet says so.
    """
    _explain_in_notebook()

    def hook(kind, error, trace):
        error = _missing_answer(error, trace) or error
        kind = type(error)
        under = world.launcher() not in (None, "labkit")
        if under:
            notes.leave_error(error)
        # Where every rank comes here within a second, rank 0 speaks for all, and each ends with
        # status 1.
        together = under and meeting.all_end(1.0)
        if under and not world.is_root():
            if together:
                return
            # Rank 0 most often fails with the same sentence; then the job ends here.
            time.sleep(1.0)
            print(f"[{world.rank()}] ", end="", file=sys.stderr)
        if issubclass(kind, LabError):
            print(error, file=sys.stderr, flush=True)
        else:
            sys.__excepthook__(kind, error, trace)
        if under and not together:
            _end_the_job()

    sys.excepthook = hook


def _explain_in_notebook() -> None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None

    def handler(shell, kind, error, trace, tb_offset=None):
        error = _missing_answer(error, trace) or error
        shell.showtraceback((type(error), error, trace), tb_offset=tb_offset)

    if shell is not None:
        shell.set_custom_exc((NameError,), handler)


def _missing_answer(error: BaseException, trace) -> CheckFailed | None:
    """The sentence for `check("40.1", begin)` where `begin` is not defined yet; None for any other
    error."""
    if not isinstance(error, NameError) or trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    text = "".join(linecache.getlines(trace.tb_frame.f_code.co_filename))
    try:
        statements = ast.parse(text).body
    except SyntaxError:  # not a plain file of Python, so no lab
        return None
    for node in statements:
        call = getattr(node, "value", None)
        is_check = isinstance(call, ast.Call) and ast.unparse(call.func) == "check"
        if is_check and node.lineno <= trace.tb_lineno <= node.end_lineno:
            return CheckFailed(
                f"There is no `{error.name}` yet: run the cells above this one first."
            )
    return None


def _end_the_job() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(0.3)  # mpiexec passes on what it has read when it hears of the end, and no more
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(1)
    os._exit(1)

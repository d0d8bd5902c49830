"""Follow a run on local ranks to its end, and say what went wrong when it did not end well."""

from __future__ import annotations

import os
import pickle
import signal
import time

from labkit.errors import LabError, RankFailed
from labkit.launch import diagnosis
from labkit.launch.diagnosis import Failure
from labkit.launch.session import Session

GRACE = 1.0  # seconds that the other ranks get to speak after the first failure
START_LIMIT = 120.0  # seconds until the function must have begun on every rank
DUMP_LIMIT = 2.0  # seconds that stuck ranks get to say where they are
HEAD_START = 0.5  # seconds; see _first_failure
# The signal that asks a rank for its Python lines: one that no learner's code uses, unlike SIGUSR1.
DUMP_SIGNAL = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2


def follow(session: Session, timeout: float) -> LabError | None:
    """Follow the run until every rank has its result (None), or one cannot have it (the error to
    raise)."""
    started = time.monotonic()
    all_begun = first_lost = None
    while len(session.done) < session.ranks:
        now = time.monotonic()
        if session.over:
            session.drain()  # what the ranks told in their last moment
            return (
                _ended_well(session)
                if len(session.done) == session.ranks
                else _over_too_early(session)
            )
        if len(session.begun) == session.ranks:
            all_begun = all_begun or now
        lost = session.lost()
        if lost:
            first_lost = first_lost or now
            if len(lost) + len(session.done) == session.ranks or now > first_lost + GRACE:
                return _first_failure(session)
        elif all_begun is not None and now > all_begun + timeout:
            return _hang(session, timeout)
        elif all_begun is None and now > started + max(START_LIMIT, timeout):
            return _late_start(session, now - started)
        session.pump(0.05 if lost else 0.25)
    return _ended_well(session)


def _ended_well(session: Session) -> RankFailed | None:
    """None where all have a result, but for a rank that called Abort: MPICH's returns before the
    job ends."""
    session.drain()
    obituary = "application called MPI_Abort("  # MPICH's own words; a learner may print the name
    return next(
        (_aborted(rank, text) for rank, text in session.aborts.items() if obituary in text), None
    )


def _aborted(rank: int, text: str) -> RankFailed:
    return RankFailed(f"rank {rank} ended the whole job: {text}", rank, "MPI_Abort", text)


def _first_failure(session: Session) -> RankFailed:
    """The failure that came first: later ones often only follow from it."""

    def when(rank: int) -> float:
        # A death is told by the rank's parent, a little after other ranks noticed it and raised
        # because of it.
        return (
            session.failed[rank] if rank in session.failed else session.ended[rank][1] - HEAD_START
        )

    rank = min(session.lost(), key=when)
    if rank in session.failed:
        return diagnosis.raised(
            rank, Failure(*pickle.loads((session.folder / f"failure.{rank}").read_bytes()))
        )
    case = session.read(f"case.{rank}")
    dump = session.read(f"dump.{rank}")
    session.drain()  # its last words
    return diagnosis.died(
        rank, session.ended[rank][0], dump, case=case, output=list(session.printed[rank])
    )


def _hang(session: Session, timeout: float) -> RankFailed:
    stuck = sorted(set(range(session.ranks)) - session.done)
    for rank in stuck:
        try:
            os.kill(session.pids[rank], DUMP_SIGNAL)
        except ProcessLookupError:
            continue
    end = time.monotonic() + DUMP_LIMIT
    before = None
    while True:
        session.pump(0.05)
        dumps = {rank: session.read(f"dump.{rank}") for rank in stuck}
        # A dump is written in pieces: it is complete when nothing was added for a while.
        if (dumps == before and all(dumps.values())) or time.monotonic() > end:
            cases = {rank: session.read(f"case.{rank}") for rank in stuck}
            return diagnosis.hung(timeout, dumps, sorted(session.done), cases)
        before = dumps


def _over_too_early(session: Session) -> LabError:
    """The launcher has ended, and not every rank has a result."""
    if session.lost():
        return _first_failure(session)
    for rank, text in session.aborts.items():
        return _aborted(rank, text)
    log = session.read("launcher.log") + session.read("supervisor.log")
    lines = [line for line in log.splitlines() if line.strip()]
    last_words = "\n".join(lines[-12:]) or "It left no message: perhaps it was killed from outside."
    return LabError(
        "The ranks ended without a result, and none said why. The launcher's last"
        f" words:\n{last_words}"
    )


def _late_start(session: Session, seconds: float) -> LabError:
    missing = diagnosis.ranks_text(sorted(set(range(session.ranks)) - session.begun))
    return LabError(
        f"After {seconds:.0f} s the function had not begun on {missing}: starting Python or MPI"
        " takes too long here. Try fewer ranks, and look at `make doctor`."
    )

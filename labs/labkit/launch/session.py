"""One run on local ranks, seen from the notebook or script that asked for it."""

from __future__ import annotations

import json
import os
import pickle
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from labkit.errors import LabError, RankFailed
from labkit.launch import diagnosis
from labkit.launch import supervisor as launch_supervisor
from labkit.launch.diagnosis import Failure

END_LIMIT = 10.0  # seconds that ranks get to leave (MPI_Finalize, atexit) after the last result
STOP_LIMIT = 15.0  # seconds that the supervisor gets to end everything


class Session:
    """The folder, pipes and processes of one run. As a context manager: leaving it ends and removes all."""

    def __init__(self, ranks: int, show: Callable[[str], None]):
        self.ranks, self.show = ranks, show
        self.folder = Path(tempfile.mkdtemp(prefix="labkit-"))  # mkdtemp: for this user only
        self.pids: dict[int, int] = {}
        self.begun: set[int] = set()
        self.done: set[int] = set()
        self.failed: dict[int, float] = {}  # rank -> when it raised
        self.ended: dict[int, tuple[int, float]] = {}  # rank -> (exit code, when)
        self._partial = [b""] * ranks
        self._event_text = b""
        self.aborts: dict[int, str] = {}
        self._supervisor: subprocess.Popen | None = None
        self.over = False
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Session:
        try:
            for name in ("events", *(f"out.{rank}" for rank in range(self.ranks))):
                self._selector.register(self._pipe(name), selectors.EVENT_READ, name)
            self.gate = self._pipe("gate")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _pipe(self, name: str) -> int:
        os.mkfifo(self.folder / name, 0o600)
        # Open for both directions: so it neither waits for a rank nor ends when one goes.
        return os.open(self.folder / name, os.O_RDWR | os.O_NONBLOCK)

    def __exit__(self, *_) -> None:
        try:
            self.stop()
        finally:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, int):
                    os.close(key.fileobj)
            self._selector.close()
            self.open_gate()
            shutil.rmtree(self.folder, ignore_errors=True)

    def open_gate(self) -> None:
        """Let the ranks go."""
        gate, self.gate = getattr(self, "gate", None), None
        if gate is not None:
            os.close(gate)

    def read(self, name: str) -> str:
        """The text of a file in the run's folder; "" when it is not there."""
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self, plan: list, comm: bool, dump_signal: int) -> None:
        """Start the supervisor, and with it the commands of `plan`: [[command, environment], …]."""
        settings = {"ranks": self.ranks, "comm": comm, "signal": int(dump_signal)}
        settings["sys_path"] = [os.path.abspath(entry) for entry in sys.path]
        (self.folder / "settings").write_bytes(pickle.dumps(settings))
        (self.folder / "plan.json").write_text(json.dumps(plan))
        with (self.folder / "supervisor.log").open("wb") as log:
            # A session of its own: an interrupt meant for the kernel does not reach it, it ends
            # when we say so.
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", launch_supervisor.__file__, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._selector.register(self._supervisor.stdout, selectors.EVENT_READ, "supervisor")

    def stop(self) -> None:
        """End every process of the run, whatever it is doing."""
        supervisor = self._supervisor
        if supervisor is None:
            return
        supervisor.stdin.close()  # first, so that a second interrupt cannot leave anything behind
        try:
            supervisor.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
        supervisor.stdout.close()
        self._supervisor = None
        if supervisor.returncode not in (launch_supervisor.FINISHED, launch_supervisor.TOLD_TO_END):
            launch_supervisor.kill_marked(f"LABKIT_RUN={self.folder}")

    def pump(self, seconds: float) -> None:
        """Wait up to `seconds` for something to happen, and take in what has."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.data == "supervisor":
                if not os.read(key.fd, 4096):
                    self.over = True
                    self._selector.unregister(key.fileobj)
            elif key.data == "events":
                self._take_events(_read(key.fd))
            else:
                self._take_output(int(key.data.partition(".")[2]), _read(key.fd))

    def _take_events(self, data: bytes) -> None:
        *lines, self._event_text = (self._event_text + data).split(b"\n")
        for line in lines:
            what, rank, *rest = line.decode().split()
            number = int(rank)
            if what == "start":
                self.pids[number] = int(rest[0])
            elif what == "begin":
                self.begun.add(number)
            elif what == "done":
                self.done.add(number)
            elif what == "failed":
                self.failed[number] = float(rest[0])
            elif what == "ended":
                self.ended[number] = int(rest[0]), float(rest[1])

    def _take_output(self, rank: int, data: bytes) -> None:
        *lines, self._partial[rank] = (self._partial[rank] + data).split(b"\n")
        for line in lines:
            self._show_line(rank, line)

    def _show_line(self, rank: int, line: bytes) -> None:
        # A progress bar rewrites its line after carriage returns; as in a terminal the last text counts.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", errors="replace")
        if "MPI_Abort" in text or "MPI_ABORT" in text:
            self.aborts.setdefault(rank, text)
        self.show(f"[{rank}] {text}")

    def drain(self) -> None:
        """Show what is still in the pipes, a last line without its end included."""
        while any(key.data != "supervisor" for key, _ in self._selector.select(0)):
            self.pump(0)
        for rank, rest in enumerate(self._partial):
            if rest:
                self._show_line(rank, rest)
            self._partial[rank] = b""

    def lost(self) -> set[int]:
        """Ranks that will not give a result."""
        return (self.failed.keys() | self.ended.keys()) - self.done

    def finish(self) -> None:
        """All results are there: let the ranks leave in order, for a while."""
        self.open_gate()
        end = time.monotonic() + END_LIMIT
        while not self.over and time.monotonic() < end:
            self.pump(0.25)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


# Following a run on local ranks to its end, and saying what went wrong when it did not end well.


GRACE = 1.0  # seconds that the other ranks get to speak after the first failure
START_LIMIT = 120.0  # seconds until the function must have begun on every rank
DUMP_LIMIT = 2.0  # seconds that stuck ranks get to say where they are
HEAD_START = 0.5  # seconds; see _first_failure
# The signal that asks a rank for its Python lines: one that no learner's code uses, unlike SIGUSR1.
DUMP_SIGNAL = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2


def outcome(session: Session, timeout: float) -> LabError | None:
    """Follow the run until every rank has its result (None), or one cannot have it (the error to raise)."""
    started = time.monotonic()
    all_begun = first_lost = None
    while len(session.done) < session.ranks:
        now = time.monotonic()
        if session.over:
            session.drain()  # what the ranks told in their last moment
            return _ended_well(session) if len(session.done) == session.ranks else _over_too_early(session)
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
    """None where all have a result, but for a rank that called Abort: MPICH's returns before the job ends."""
    session.drain()
    told = "application called MPI_Abort("  # MPICH's own words; a learner may print the name
    return next((_aborted(rank, text) for rank, text in session.aborts.items() if told in text), None)


def _aborted(rank: int, text: str) -> RankFailed:
    return RankFailed(f"rank {rank} ended the whole job: {text}", rank, "MPI_Abort", text)


def _first_failure(session: Session) -> RankFailed:
    """The failure that came first: later ones often only follow from it."""

    def when(rank: int) -> float:
        # A death is told by the rank's parent, a little after other ranks noticed it and raised
        # because of it.
        return session.failed[rank] if rank in session.failed else session.ended[rank][1] - HEAD_START

    rank = min(session.lost(), key=when)
    if rank in session.failed:
        return diagnosis.raised(
            rank, Failure(*pickle.loads((session.folder / f"failure.{rank}").read_bytes()))
        )
    return diagnosis.died(rank, session.ended[rank][0], session.read(f"dump.{rank}"))


def _hang(session: Session, timeout: float) -> RankFailed:
    stuck = sorted(set(range(session.ranks)) - session.done)
    for rank in stuck:
        try:
            os.kill(session.pids[rank], DUMP_SIGNAL)
        except ProcessLookupError:
            continue
    end, before = time.monotonic() + DUMP_LIMIT, None
    while True:
        session.pump(0.05)
        dumps = {rank: session.read(f"dump.{rank}") for rank in stuck}
        # A dump is written in pieces: it is complete when nothing was added for a while.
        if (dumps == before and all(dumps.values())) or time.monotonic() > end:
            return diagnosis.hung(timeout, dumps, sorted(session.done))
        before = dumps


def _over_too_early(session: Session) -> LabError:
    """The launcher has ended, and not every rank has a result."""
    if session.lost():
        return _first_failure(session)
    for rank, text in session.aborts.items():
        return _aborted(rank, text)
    log = session.read("launcher.log") + session.read("supervisor.log")
    lines = [line for line in log.splitlines() if line.strip()]
    said = "\n".join(lines[-12:]) or "It left no message: perhaps it was killed from outside."
    return LabError(
        f"The ranks ended without a result, and none said why. The launcher's last words:\n{said}"
    )


def _late_start(session: Session, seconds: float) -> LabError:
    missing = diagnosis.ranks_text(sorted(set(range(session.ranks)) - session.begun))
    return LabError(
        f"After {seconds:.0f} s the function had not begun on {missing}: starting Python or MPI takes too "
        "long here. Try fewer ranks, and look at `make doctor`."
    )

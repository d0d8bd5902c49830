"""One run on local ranks, seen from the notebook or script that asked for it."""

from __future__ import annotations

import json
import os
import pickle
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from labkit.launch import mpi_errors, process, shm, supervisor

END_LIMIT = 10.0  # seconds that ranks get to leave (MPI_Finalize, atexit) after the last result
STOP_LIMIT = 15.0  # seconds that the supervisor gets to end everything
DRAIN_LIMIT = 1.0  # seconds for what is still in the pipes
LAST_WORDS = 60  # lines of each rank that are kept, in case it dies


class Session:
    """The folder, pipes and processes of one run. As a context manager: leaving it ends and removes
    all."""

    def __init__(self, ranks: int, show: Callable[[str], None]):
        self.ranks = ranks
        self.show = show
        self.folder = Path(tempfile.mkdtemp(prefix="labkit-"))  # mkdtemp: for this user only
        self.pids: dict[int, int] = {}
        self.begun: set[int] = set()
        self.done: set[int] = set()
        self.failed: dict[int, float] = {}  # rank -> when it raised
        self.ended: dict[int, tuple[int, float]] = {}  # rank -> (exit code, when)
        self._partial = [bytearray() for _ in range(ranks)]  # lines that have not ended yet
        self._event_text = b""
        self.aborts: dict[int, str] = {}
        # The last lines of each rank.
        self.printed = [deque(maxlen=LAST_WORDS) for _ in range(ranks)]
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
        gate = getattr(self, "gate", None)
        self.gate = None
        if gate is not None:
            os.close(gate)

    def read(self, name: str) -> str:
        """The text of a file in the run's folder; "" when it is not there."""
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self, plan: list, comm: bool, dump_signal: int, path: list[str]) -> None:
        """Start the supervisor, and with it the commands of `plan`: [[command, environment], …].

        path: sys.path of the ranks.
        """
        settings = {"ranks": self.ranks, "comm": comm, "signal": int(dump_signal)}
        settings["sys_path"] = [os.path.abspath(entry) for entry in path]
        (self.folder / "settings").write_bytes(pickle.dumps(settings))
        (self.folder / "plan.json").write_text(json.dumps(plan))
        with (self.folder / "supervisor.log").open("wb") as log:
            # A session of its own: an interrupt meant for the kernel does not reach it, it ends
            # when we say so.
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._selector.register(self._supervisor.stdout, selectors.EVENT_READ, "supervisor")

    def stop(self) -> None:
        """End every process of the run, whatever it is doing."""
        if self._supervisor is None:
            return
        process.end(self._supervisor, STOP_LIMIT)
        status = self._supervisor.returncode
        self._supervisor = None
        if status not in (supervisor.FINISHED, supervisor.TOLD_TO_END):
            # It was killed itself. The kernel ends what it started, and each rank's guard what that
            # started.
            shm.unlink_abandoned()

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
        self._partial[rank] += data
        if b"\n" in data:  # a long line comes in many pieces, and is not looked through for each
            *lines, self._partial[rank] = self._partial[rank].split(b"\n")
            for line in lines:
                self._show_line(rank, line)

    def _show_line(self, rank: int, line: bytes) -> None:
        # A progress bar rewrites its line after carriage returns; as in a terminal the last text
        # counts.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", errors="replace")
        if "MPI_Abort" in text or "MPI_ABORT" in text:
            self.aborts.setdefault(rank, text)
        self.printed[rank].append(text)
        if mpi_errors.is_noise(
            text
        ):  # the stack of compiled code, of which MPI writes pages when it gives up
            return
        self.show(f"[{rank}] {text}")

    def drain(self) -> None:
        """Show what is still in the pipes, a last line without its end included."""
        end = time.monotonic() + DRAIN_LIMIT  # a rank that lives may print for ever
        while any(key.data != "supervisor" for key, _ in self._selector.select(0)):
            self.pump(0)
            if time.monotonic() > end:
                break
        for rank, rest in enumerate(self._partial):
            if rest:
                self._show_line(rank, rest)
            self._partial[rank] = bytearray()

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

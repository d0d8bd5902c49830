"""Ranks that may hang, die and run out of anything: forked by one process, watched, and ended by it.

That process is a fork of the nursery, which has imported PyTorch. Its forks are real processes that meet in a
group of torch.distributed over Gloo, on the loopback. They share one computer: they meet by a file.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from labkit import launch

from support.lab72 import nursery
from support.lab72.evidence import UNDECIDED, Frame, Rank, Record, name_of

LOOKS = 30  # looks at a rank, all alike, after which it waits
LONGEST = 40.0  # seconds after which all is ended, whatever it does
ENOUGH = 120.0  # seconds after which nobody waits for the answer of the process that forks
LOOKING = 20.0  # seconds after which py-spy is not waited for
_SET_PTRACER = 0x59616D61  # from <linux/prctl.h>: who may read this process's memory
_TICK = 0.05


class Job(NamedTuple):
    """A program for some ranks.

    deal(folder) gives the program's arguments, a tuple for each rank. detail: PyTorch compares all calls
    (TORCH_DISTRIBUTED_DEBUG=DETAIL). recorded: read the flight recorder in the end. watch: a function that is
    called with the program before it begins, and returns one that tells what it noted. prepare: called on
    each rank with what it is dealt; it returns the arguments, a tuple. tell: called on each rank, when the
    program has returned, with what the rank was dealt; what it returns is the rank's note. from_outside:
    py-spy reads the stacks of ranks that wait, half a second of a core each; else each rank tells its own.
    """

    program: Callable
    deal: Callable
    detail: bool = False
    recorded: bool = False
    watch: Callable | None = None
    prepare: Callable | None = None
    tell: Callable | None = None
    from_outside: bool = True


def play(jobs: Sequence[Job]) -> list[list[Rank]]:
    """Play all jobs at the same time, each on its own ranks; for each job what was found of its ranks."""
    return nursery.ask(play_here, list(jobs), ENOUGH)


class Given:
    """A deal that is known beforehand: arguments, a tuple for each rank."""

    def __init__(self, arguments: Sequence[tuple]):
        self.arguments = list(arguments)

    def __call__(self, folder: Path) -> list[tuple]:
        return self.arguments


def play_ways(program: Callable, *ways: Sequence[tuple]) -> list[list[Rank]]:
    """Play one program in several ways at the same time, each with a tuple of arguments for every rank."""
    return play([Job(program, Given(arguments)) for arguments in ways])


# -- the process that forks


def play_here(jobs: list[Job], top: str) -> list[list[Rank]]:
    """Play all jobs in forks of this process, which keep their files in the folder `top`."""
    wards = [Ward(job, Path(top, str(number))) for number, job in enumerate(jobs)]
    end = time.monotonic() + LONGEST
    while time.monotonic() < end and not all(ward.is_over() for ward in wards):
        time.sleep(_TICK)
    return [ward.close() for ward in wards]


class Ward:
    """The ranks of one job."""

    def __init__(self, job: Job, folder: Path):
        self.job = job
        self.folder = folder
        folder.mkdir()
        arguments = job.deal(folder)
        self.ranks = len(arguments)
        self.states: dict[int, str] = {}
        self.stacks: dict[int, list[Frame]] = {}
        self.pids: dict[int, int] = {}
        self.ended: dict[int, str] = {}
        sys.stdout.flush()
        for rank, own in enumerate(arguments):
            self.pids[rank] = self._fork(rank, own)

    def _fork(self, rank: int, arguments: tuple) -> int:
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python warns where it has threads, whose locks a fork may inherit. These do not hold any.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            return pid
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            launch.die_with_parent(parent)
            _Child(self.job, rank, self.ranks, self.folder).run(arguments)
        except BaseException:
            traceback.print_exc()  # into its log
        finally:
            os._exit(70)

    def is_over(self) -> bool:
        """Has every rank finished or ended, or waited for as long as all others did?"""
        if len(self.states) == self.ranks:
            return True
        states = self.look()
        if len(states) < self.ranks:
            return False
        stacks = {}
        if self.job.from_outside:
            waiting = [rank for rank, state in states.items() if state == "waits"]
            stacks = {rank: look_from_outside(self.pids[rank]) for rank in waiting}
        if self.look() != states:
            return False  # something moved while we looked
        self.states = states
        self.stacks = stacks
        return True

    def look(self) -> dict[int, str]:
        """Rank -> state, of the ranks that do not move any more."""
        states = {}
        for rank, pid in self.pids.items():
            if rank not in self.ended:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.ended[rank] = name_of(os.waitstatus_to_exitcode(status))
            if rank in self.ended:
                states[rank] = self.ended[rank]
                continue
            try:
                states[rank] = self.file(rank, "state").read_text()
            except FileNotFoundError:
                continue  # it moves
        return states

    def file(self, rank: int, name: str) -> Path:
        return self.folder / f"{name}.{rank}"

    def close(self) -> list[Rank]:
        """End what is left, and tell what was found.

        In the middle of things, a rank that stands still may yet go on: that it waits is known once all wait.
        """
        if not self.states:
            self.states = {rank: state for rank, state in self.look().items() if state != "waits"}
        left = [pid for rank, pid in self.pids.items() if rank not in self.ended]
        for pid in left:
            os.kill(pid, signal.SIGSTOP)  # all first: nobody is to see how another's connections close
        found = [self._found(rank) for rank in range(self.ranks)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return found

    def _found(self, rank: int) -> Rank:
        left = {}
        if self.file(rank, "left").exists():
            left = pickle.loads(self.file(rank, "left").read_bytes())
        state = self.states.get(rank, UNDECIDED)
        if left.get("error") and state != "waits":
            state = "raised"
        stack = self.stacks.get(rank, [])
        seen_by = "the rank itself"
        if stack:
            seen_by = "py-spy"
        elif self.job.from_outside:
            seen_by += ": py-spy may not look here, or was late"
        if state == "waits" and not stack:
            stack = left.get("stack", [])
        log = self.file(rank, "log")
        return Rank(
            rank=rank,
            state=state,
            stack=_of_program(stack, self.job.program),
            seen_by=seen_by,
            records=left.get("records", []),
            log=log.read_text(errors="replace") if log.exists() else "",
            result=left.get("result"),
            error=left.get("error", ""),
            file=left.get("file", ""),
            line=left.get("line", 0),
            note=left.get("note"),
        )


def _of_program(stack: list[Frame], program: Callable) -> list[Frame]:
    """The stack from the program's own frame on."""
    code = program.__code__
    for place, frame in enumerate(stack):
        if frame.function == code.co_name and Path(frame.file).name == Path(code.co_filename).name:
            return stack[place:]
    return stack


def look_from_outside(pid: int) -> list[Frame]:
    """The main thread's stack of a process, outermost first, as py-spy reads it.

    [] where it may not, and where it takes longer than LOOKING.
    """
    beside = Path(sys.executable).with_name("py-spy")
    command = str(beside) if beside.exists() else shutil.which("py-spy")
    if command is None:
        return []
    # Not blocking: a stopped rank could be read while it is started again, and needs more rights.
    try:
        done = subprocess.run(
            [command, "dump", "--nonblocking", "--json", "--pid", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            timeout=LOOKING,
        )
    except subprocess.TimeoutExpired:
        return []
    if done.returncode:
        return []
    threads = json.loads(done.stdout)
    main = next((thread for thread in threads if thread["thread_name"] == "MainThread"), threads[-1])
    return [Frame(frame["name"], frame["filename"], frame["line"]) for frame in reversed(main["frames"])]


# -- a rank


class _Child:
    """One rank, in its own process."""

    def __init__(self, job: Job, rank: int, ranks: int, folder: Path):
        self.job = job
        self.rank = rank
        self.ranks = ranks
        self.folder = folder
        self.left: dict = {}
        self.tell_note: Callable | None = None
        self.lock = threading.Lock()
        self.over = False

    def run(self, arguments: tuple) -> None:
        """Meet the others, run the program, and leave what can be known of it."""
        self._catch_output()
        # py-spy is not this process's ancestor: some systems let it look only if it is asked to.
        nursery.prctl(_SET_PTRACER, -1)
        os.environ |= {"RANK": str(self.rank), "LOCAL_RANK": str(self.rank), "WORLD_SIZE": str(self.ranks)}
        self._join()
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            dealt = arguments
            if self.job.prepare:
                arguments = self._prepared(dealt)
            if self.job.watch:
                self.tell_note = self.job.watch(self.job.program)
            self.left["result"] = _checked(self.job.program(*arguments))
            if self.job.tell:
                told = self.job.tell(*dealt)
                self.tell_note = lambda: told
        except BaseException as error:
            with contextlib.suppress(BaseException):  # PyTorch's handler may raise again for a dead worker
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.settrace(None)
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # a rank without memory cannot tell why
            traceback.print_exc()
            sys.stdout.flush()
            self.left["error"] = traceback.format_exception_only(error)[-1].strip()
            self.left["file"], self.left["line"] = _place_of(error)
            self._leave("raised")
            os._exit(1)
        sys.settrace(None)
        self._leave("finished")
        time.sleep(ENOUGH)  # stays until all are through: a connection that closes is another failure

    def _catch_output(self) -> None:
        log = os.open(self.folder / f"log.{self.rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - for as long as the process lives
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115

    def _join(self) -> None:
        from torch import distributed

        if self.job.detail:
            distributed.set_debug_level(distributed.DebugLevel.DETAIL)
        store = distributed.FileStore(str(self.folder / "store"), self.ranks)
        distributed.init_process_group(
            "gloo", store=store, rank=self.rank, world_size=self.ranks, timeout=timedelta(seconds=LONGEST)
        )
        distributed.barrier()

    def _prepared(self, dealt: tuple) -> tuple:
        prepared = self.job.prepare(*dealt)
        if not isinstance(prepared, tuple):
            name = self.job.prepare.__name__
            raise TypeError(f"{name} has to return several things, separated by commas, not {prepared!r}")
        return prepared

    def _watch(self) -> None:
        """Say "waits" when the main thread has been in one place for LOOKS looks; take it back if it moves.

        Looks are counted, and not seconds: where a rank gets little of a core, so does this thread.
        """
        main = threading.main_thread().ident
        before = None
        alike = 0
        while True:
            time.sleep(_TICK)
            frame = sys._current_frames()[main]
            now = _position(frame), _calls()
            alike = alike + 1 if now == before else 0
            before = now
            with self.lock:
                if self.over:
                    return
                if alike == LOOKS:
                    frames = launch.stack(frame)
                    self.left["stack"] = [Frame(function, file, line) for file, line, function in frames]
                    self._write("waits")
                elif alike == 0:
                    (self.folder / f"state.{self.rank}").unlink(missing_ok=True)
            del frame

    def _leave(self, state: str) -> None:
        """The program is over: write what is known."""
        with self.lock:
            self.over = True
            self._write(state)

    def _write(self, state: str) -> None:
        """Write what is known; the file "state" last."""
        if self.job.recorded:
            self.left["records"] = _records(self.job.program)
        self.left["note"] = self.tell_note() if self.tell_note else None
        (self.folder / f"left.{self.rank}").write_bytes(pickle.dumps(self.left))
        part = self.folder / f"part.{self.rank}"
        part.write_text(state)
        part.rename(self.folder / f"state.{self.rank}")


def _checked(result: object) -> object:
    """The same, if it can leave the process; TypeError if not."""
    try:
        pickle.dumps(result)
    except Exception as error:  # anything: what is pickled may bring functions for it
        why = " ".join(str(error).split())
        raise TypeError(
            f"what came of it cannot leave the rank's process ({why}): numbers, texts, lists, dicts and "
            "tensors can"
        ) from error
    return result


def _place_of(error: BaseException) -> tuple[str, int]:
    """File and line of the learner's innermost function that the error came through; ("", 0) if of none."""
    places = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if launch.is_learners(frame.f_code.co_filename)
    ]
    return places[-1] if places else ("", 0)


def _position(frame) -> list:
    """Where a thread is, to the instruction."""
    places = []
    while frame is not None:
        places.append((id(frame), frame.f_lasti))
        frame = frame.f_back
    return places


def _recorder():
    from torch._C import _distributed_c10d  # PyTorch's documentation dumps its recorder by this module

    return _distributed_c10d


def _calls() -> int:
    """How many calls of this process the flight recorder has."""
    entries = json.loads(_recorder()._dump_fr_trace_json()).get("entries", [])
    return max((entry["record_id"] for entry in entries), default=-1)


def _records(program: Callable) -> list[Record]:
    """What the flight recorder has of the calls that the program made, in order."""
    code = program.__code__
    found = []
    entries = pickle.loads(_recorder()._dump_fr_trace()).get("entries", [])
    for entry in sorted(entries, key=lambda entry: entry["record_id"]):
        frames = [frame for frame in entry["frames"] if frame["filename"] == code.co_filename]
        lines = [frame["line"] for frame in frames if frame["name"] == code.co_name]
        if lines:
            numbers = sum(math.prod(sizes) for sizes in entry["input_sizes"])
            found.append(Record(entry["profiling_name"].partition(":")[2], numbers, lines[0]))
    return found

"""What happened to the ranks of a run, in sentences: pure functions of what the ranks left
behind."""

from __future__ import annotations

import linecache
import re
import signal
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from labkit.errors import LabError, RankFailed
from labkit.launch import cases, mpi_errors

_KIT = Path(__file__).resolve().parents[1]
_SUPPORT = _KIT.parent / "support"
# What is the kit's is nobody's mistake.
_OURS = str(_KIT), str(_KIT.parent / "virtual"), str(_SUPPORT)
_LIBRARY = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_CHECKS = re.compile(re.escape(str(_SUPPORT)) + r"/lab\d\d(/checks)?\.py")  # the checks of a lab
# What to do where the files of a run cannot be written.
NO_ROOM = "Free space for temporary files, or set TMPDIR to another folder before you start Python."
_LONGEST = 110  # characters of a source line worth showing
_without: dict[str, str] = {}  # a place as messages of this process told it -> without the code


@cache
def is_learners(file: str) -> bool:
    """Is the code of `file` the learner's own, and not the kit's (labs' support too) or a
    package's?"""
    if file.startswith((*_OURS, "<frozen", *_LIBRARY)) or file == "<string>":
        return False
    if file.endswith((".pyx", ".pxi")):  # mpi4py's own, compiled
        return False
    return "site-packages" not in file and "dist-packages" not in file


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    number: int
    function: str

    @property
    def learners(self) -> bool:
        return is_learners(self.file)

    @property
    def checks(self) -> bool:
        """Is it a line of a lab's checks? A learner did not write it."""
        return bool(_CHECKS.fullmatch(self.file))

    def source(self) -> str:
        """The text of the line. Cells of a notebook exist only in the kernel, where linecache knows
        them."""
        text = linecache.getline(self.file, self.number).strip()
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def place(self) -> str:
        """`line 14 in train: loss.backward()`"""
        return self._with("in")

    def stuck_place(self) -> str:
        """`line 14 of train: comm.Recv(box)`"""
        return self._with("of")

    def _with(self, word: str) -> str:
        text = self.source()
        place = f"line {self.number} {word} {self.function}"
        if not text:
            return place
        told = f"{place}: {text}"
        _without[told] = place
        return told


def without_code(sentence: str) -> str:
    """A sentence of this process without the source lines of the frames in it."""
    for told in sorted(_without, key=len, reverse=True):  # one line may begin with another
        sentence = sentence.replace(told, _without[told])
    return sentence


class Failure(NamedTuple):
    """An exception on a rank.

    frames: (file, line number, function), outermost first. when: seconds of any one clock. case:
    what was being tried (launch.case).
    """

    kind: str
    message: str
    # its own sentence says everything: an error made for the learner, or an exercise not solved
    plain: bool
    frames: list
    phase: str  # "load", "run" or "result": before, in or after the learner's function
    when: float
    case: str = ""


def describe(error: BaseException, phase: str, when: float) -> Failure:
    """What is kept of an exception when it travels to other ranks: plain data, no traceback."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    try:
        message = str(error)
    except Exception as second:  # a learner's own __str__ may be wrong too
        message = f"(its text cannot be shown: {second})"
    plain = isinstance(error, (LabError, NotImplementedError)) and message != ""
    return Failure(type(error).__name__, message, plain, frames, phase, when, cases.case_of(error))


def stack(frame: FrameType | None) -> list:
    """Where a running thread is: (file, line number, function), outermost first."""
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return frames[::-1]


def innermost(frames: list[Frame]) -> Frame | None:
    """The learner's innermost line of frames given outermost first; None if it is a line of a
    check."""
    own = _innermost_own(frames)
    return None if own is None or own.checks else own


def in_check(frames: list[Frame]) -> bool:
    """Is the innermost line that is not labkit's or a library's one of a check?"""
    own = _innermost_own(frames)
    return own is not None and own.checks


def _innermost_own(frames: list[Frame]) -> Frame | None:
    for place, frame in enumerate(frames):
        if frame.checks:  # what stands above it only called the check
            return next((own for own in frames[:place:-1] if own.learners), frame)
    last = frames[::-1]
    own = next((frame for frame in last if frame.learners), None)
    # Code given as text (`python -c`) is the learner's only if nothing else is: libraries make such
    # code too.
    return own or next((frame for frame in last if frame.file == "<string>"), None)


def _because_of_none(kind: str, message: str) -> str:
    """What to add where a check could not use a result; "" unless that was None."""
    if (
        kind in ("TypeError", "AttributeError", "ValueError", "IndexError")
        and "NoneType" in message
    ):
        return "Your function gave None back: is a `return` missing at its end?"
    return ""


def read_dump(text: str) -> list[Frame]:
    """The frames, outermost first, of the thread that runs the learner's function in a dump of
    faulthandler.

    When a rank was asked several times or crashed, the last dump counts.
    """
    last: list[Frame] = []
    for block in re.split(r"\n\s*\n|(?m:^(?=(?:Current thread|Thread) 0x))", text):
        frames = dumped(block)
        if any(frame.file.startswith(str(_KIT)) and frame.function == "_run" for frame in frames):
            last = frames
    return last


def dumped(block: str) -> list[Frame]:
    """The frames, outermost first, of one thread in what faulthandler wrote."""
    lines = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', block, re.MULTILINE)
    return [
        Frame(_unescaped(file), int(number), _unescaped(function))
        for file, number, function in reversed(lines)
    ]


def _unescaped(name: str) -> str:
    """A name as it is: faulthandler writes letters beyond ASCII as numbers."""
    letter = r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))"
    return re.sub(letter, lambda found: chr(int(found[found.lastindex], 16)), name)


def raised(rank: int, failure: Failure) -> RankFailed:
    """A rank that raised. The sentences of a LabError or NotImplementedError are kept as they
    are."""
    kind = failure.kind
    message = failure.message
    frames = [Frame(*frame) for frame in failure.frames]
    frame = innermost(frames)
    line = frame.place() if frame else ""
    where = f"  ({line})" if line else ""
    subject = f"rank {rank} failed" + (f", {failure.case}" if failure.case else "")
    explained = mpi_errors.sentence(kind, message, frame.source() if frame else "")
    if failure.plain:
        text = message
    elif failure.phase == "load":
        text = f"rank {rank} could not load the function and its arguments: {kind}: {message}"
    elif failure.phase == "result":
        text = (
            f"rank {rank} ran to its end, but its result cannot be sent back: {kind}: {message}. "
        )
        returns = "Return numbers, strings, arrays, or lists, tuples and dicts of them."
        text += NO_ROOM if kind == "OSError" else returns
    elif kind == "SystemExit":
        text = f"rank {rank} ended itself with sys.exit({message}){where}"
    elif explained:
        text = f"{subject}: {explained}{where}"
    elif in_check(frames):
        text = f"{subject}: {of_check(kind, message)}"
    else:
        text = f"{subject}: {kind}" + (f": {message}" if message else "") + where
    return RankFailed(text, rank=rank, kind=kind, message=message, line=line)


def of_check(kind: str, message: str) -> str:
    """An exception in the lines of a check, which a learner need not read: what came does not
    fit."""
    none = _because_of_none(kind, message)
    return none or f"the check cannot use what your code gave back: {kind}: {message}"


def died(
    rank: int, code: int, dump: str, *, case: str = "", output: list[str] | None = None
) -> RankFailed:
    """A rank whose process ended without a result: `code` as in os.waitstatus_to_exitcode.

    case: what was being tried. output: the last lines that it printed.
    """
    frame = innermost(read_dump(dump))
    line = frame.place() if frame else ""
    where = f"  ({line})" if line else ""
    if code >= 0:
        kind = "exit"
        message = mpi_errors.last_words(output or [])
        message = (
            message or f"its process ended with exit status {code} before the function returned"
        )
    else:
        try:
            kind = signal.Signals(-code).name
        except ValueError:
            kind = "signal"
        message = f"its process was ended by signal {-code} ({kind})"
        if kind == "SIGKILL":
            message += ", as the system does when memory runs out"
        elif kind == "SIGBUS":
            message += ", as happens when /dev/shm, where MPI keeps its shared memory, is full"
        elif kind in ("SIGSEGV", "SIGABRT", "SIGFPE", "SIGILL"):
            message += ": a crash in compiled code"
    subject = f"rank {rank} died" + (f", {case}" if case else "")
    return RankFailed(
        f"{subject}: {message}{where}", rank=rank, kind=kind, message=message, line=line
    )


def ranks_text(ranks: list[int]) -> str:
    """`rank 3`, or `ranks 0, 3`."""
    noun = "ranks" if len(ranks) > 1 else "rank"
    return f"{noun} {', '.join(map(str, ranks))}"


def hung(
    seconds: float, dumps: dict[int, str], finished: list[int], cases: dict[int, str] | None = None
) -> RankFailed:
    """Ranks that did not come back in time, and the lines they wait in; those in one line named
    together.

    cases: by rank, what it was trying (launch.case).
    """
    cases = cases or {}
    common = {cases.get(rank, "") for rank in dumps}
    one_case = len(common) == 1
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, dump in sorted(dumps.items()):
        case = "" if one_case else cases.get(rank, "")
        groups.setdefault((_stuck(read_dump(dump)), case), []).append(rank)
    parts = []
    for (place, case), ranks in groups.items():
        verb = "wait" if len(ranks) > 1 else "waits"
        part = (
            f"{ranks_text(ranks)} {verb} {place}"
            if place
            else f"{ranks_text(ranks)} did not return"
        )
        parts.append(f"{part} ({case})" if case else part)
    text = f"after {seconds:g} s without an end"
    if one_case and common != {""}:
        text += f", {common.pop()}"
    text += ": " + "; ".join(parts)
    if finished:
        text += f"; {ranks_text(finished)} {'have' if len(finished) > 1 else 'has'} finished"
    first = min(dumps)
    line = next(place for (place, _), ranks in groups.items() if first in ranks)
    return RankFailed(text, rank=first, kind="Timeout", message=text, line=line.removeprefix("in "))


def _stuck(frames: list[Frame]) -> str:
    """`in line 14 of train: comm.Recv(box)`; `for the others` in a line of a check; "" where
    unknown."""
    if in_check(frames):
        return "for the others"
    frame = innermost(frames)
    return f"in {frame.stuck_place()}" if frame else ""

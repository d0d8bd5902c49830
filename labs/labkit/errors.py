"""Errors that speak to the learner: one to three sentences that say what to do, and no
traceback."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

_WIDTH = 78  # characters; JupyterLab breaks a longer line inside of a word


class LabError(Exception):
    """A message for the person at the keyboard. Notebooks and scripts print the message alone."""

    def _render_traceback_(self) -> list[str]:
        # IPython calls this instead of drawing a traceback; the runner still sees the cell fail.
        return ["\n".join(_wrapped(line) for line in str(self).splitlines())]


class CheckFailed(LabError):
    """An exercise's check did not pass."""


class RankFailed(LabError):
    """A rank raised, died or hung. `.rank`, `.kind`, `.message` and `.line` say which and how."""

    def __init__(
        self, text: str, rank: int | None = None, kind: str = "", message: str = "", line: str = ""
    ):
        super().__init__(text)
        self.rank = rank
        self.kind = kind
        self.message = message
        self.line = line


class NotHere(LabError):
    """Something this machine lacks; the message says what would bring it."""


class NoFolder(LabError, OSError):
    """A folder that cannot be made. Who can do without one catches it as an OSError."""


def _wrapped(line: str) -> str:
    """A line in lines that fit, all of them as far from the left as it begins."""
    indent = " " * (len(line) - len(line.lstrip()))
    return "\n".join(
        textwrap.wrap(
            line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        or [""]
    )


def counted(count: int, noun: str) -> str:
    """ "1 rank", "2 ranks"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def exit_status(call: Callable[[], int | None]) -> int:
    """Run a command of the command line; the status with which the process ends.

    A LabError, or a file that cannot be read or written, becomes its sentence and status 1; Ctrl-C
    is 130.
    """
    try:
        return call() or 0
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        what = error.filename or "A file"
        print(f"{what} cannot be read or written ({error.strerror or error}).", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130

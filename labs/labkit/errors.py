"""Errors that speak to the learner: one to three sentences that say what to do, and no traceback."""

from __future__ import annotations


class LabError(Exception):
    """A message for the person at the keyboard. Notebooks and scripts print the message alone."""

    def _render_traceback_(self) -> list[str]:
        # IPython calls this instead of drawing a traceback; papermill still sees the cell fail.
        return [str(self)]


class CheckFailed(LabError):
    """An exercise's check did not pass."""


class RankFailed(LabError):
    """A rank raised, died or hung. `.rank`, `.kind`, `.message` and `.line` say which and how."""

    def __init__(self, text: str, rank: int | None = None, kind: str = "", message: str = "", line: str = ""):
        super().__init__(text)
        self.rank, self.kind, self.message, self.line = rank, kind, message, line


class NotHere(LabError):
    """Something this machine lacks; the message says what would bring it."""

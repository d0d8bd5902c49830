"""One event of a learner's work: written to their log and, where they agreed, to their shared
file."""

from __future__ import annotations

import contextlib

from labkit.errors import LabError
from labkit.journal import log, sharing
from labkit.journal.progress import entry


def note(event: str, *, said: str = "", **fields) -> None:
    """Write down an event: `start` (lab=), `passed`, `failed` (exercise=, said=), `hint` (hints=)
    and so on.

    See labkit.journal.log for all of them; how often an exercise was tried is added here. said:
    what the check answered. Raises LabError, or another OSError, where the log cannot be written;
    what cannot be shared is lost without a word.
    """
    with log.alone():
        if event in ("passed", "failed"):
            fields["tries"] = entry(fields["exercise"])["tries"] + 1
        line = log.event(event, said, **fields)
        log.append(line)
        with contextlib.suppress(LabError, OSError):
            sharing.forward(line)

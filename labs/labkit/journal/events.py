"""One event of a learner's work: written to their journal and, where they agreed, to their shared file."""

from __future__ import annotations

import contextlib

from labkit.errors import LabError
from labkit.journal import files, sharing


def note(event: str, *, said: str = "", **fields) -> None:
    """Write down an event: "start" (lab=), "passed", "failed" (exercise=, tries=, said=), "hint" (hints=).

    said: what the check answered; its first line is kept, without the learner's code and without paths of
    this machine. A folder that cannot be written loses the event, and no lab ends for that: progress, stored
    at the same moment, has said so.
    """
    with contextlib.suppress(LabError, OSError), files.alone():
        line = files.event(event, said, **fields)
        files.append(line)
        sharing.forward(line)

"""One event of a learner's work: written to their journal and, where they agreed, to their shared file."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

from labkit import paths
from labkit.errors import LabError
from labkit.journal import files, sharing

LONGEST = 200  # characters of a sentence
# What a check adds about the learner's own line: `  (line 3 in shard: return data[…])`.
_OWN_LINE = re.compile(r"\s{2}\(line \d+ (?:in|of) .*\)\s*$")


def note(event: str, *, said: str = "", **fields) -> None:
    """Write down an event: "start" (lab=), "passed", "failed" (exercise=, tries=, said=), "hint" (hints=).

    said: what the check answered; its first line is kept, without the learner's code and without paths of
    this machine. A folder that cannot be written loses the event, and no lab ends for that: progress, stored
    at the same moment, has said so.
    """
    line = {"at": int(time.time()), "event": event, **fields}
    if said:
        line["said"] = _plain(said)
    with contextlib.suppress(LabError, OSError), files.alone():
        files.append(line)
        sharing.forward(line)


def _plain(sentence: str) -> str:
    """The first line of a sentence, at most LONGEST characters, as it may leave the learner's own folder."""
    text = _OWN_LINE.sub("", sentence.strip().split("\n")[0])
    for folder, shown in ((paths.home(), "…"), (paths.root(), "…"), (Path.home(), "~")):
        if len(folder.parts) > 1:
            text = text.replace(str(folder), shown)
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

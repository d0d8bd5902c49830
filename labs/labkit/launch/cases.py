"""What is being tried just now: the part of a check that an error or a hang belongs to.

    with case("in a group of 3 ranks, root 1"):
        ...

An exception that leaves the block takes the words along; of a rank that hangs, the side that asked
reads them from a file, as the rank can no longer be asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_open: list[str] = []  # from the outermost to the innermost
_file: Path | None = None  # where a rank of launch.run leaves them


@contextlib.contextmanager
def case(words: str) -> Iterator[None]:
    """Say what the block tries, as "in a group of 3 ranks": errors and hangs inside of it name
    that."""
    _open.append(words)
    _store()
    try:
        yield
    except BaseException as error:
        if not case_of(error):
            with contextlib.suppress(AttributeError):  # an exception without room for more
                error.labkit_case = now()
        raise
    finally:
        _open.pop()
        _store()


def now() -> str:
    """The words of all blocks that are open, the outermost first; "" outside of any."""
    return ", ".join(_open)


def case_of(error: BaseException) -> str:
    """The words of the blocks that an exception left; "" if it left none."""
    return getattr(error, "labkit_case", "")


def leave_in(path: str) -> None:
    """From now on keep the words in that file too."""
    global _file
    _file = Path(path)


def _store() -> None:
    if _file is not None:
        _file.write_text(now(), encoding="utf-8")

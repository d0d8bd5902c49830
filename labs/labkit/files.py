"""What several parts do with files and programs: replace a file at once, ask a command, git, a
package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path


def replace(
    path: Path,
    content: str | bytes,
    mode: int | None = None,
    before: Callable[[int], object] | None = None,
) -> None:
    """Write a file in one step: whoever opens it, and whoever is killed here, leaves the old or the
    new one.

    mode: its permissions (None: readable by this user alone). before: called with the open file's
    number when all is written, before the file gets its name. Raises OSError.
    """
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if before is not None:
                before(file.fileno())
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def output(*command: str, limit: float = 10.0, env: Mapping[str, str] | None = None) -> str | None:
    """What a command prints, without blanks at its ends; None where it is not here, fails or is too
    slow.

    limit: seconds that it gets. env: in place of this process's environment.
    """
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def git(folder: Path, *arguments: str) -> str | None:
    """What git says in that folder; None where there is no git, or no checkout."""
    # Reading must not get in the way of the user's own git.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    return output("git", "-C", str(folder), *arguments, env=environment)


def version(*distributions: str) -> str | None:
    """The version of the first of these packages that is installed; nothing is imported for it."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None

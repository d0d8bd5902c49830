"""Which edition of the labs this is: a checkout, or an archive that `make release` has written; and
what a learner gets of one.

An archive has EDITION.json at its top. The learners' archive has no solutions and no tests; there
the labs are read from labs/, where a checkout has them in solutions/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from labkit import files
from labkit.errors import LabError

FILE = "EDITION.json"
LEARNERS = "learners"
INSTRUCTORS = "instructors"
# What learners do not get, as git's pathspecs. It is no attribute export-ignore: that would take it
# out of the archives, too, that GitHub and Zenodo make of the repository.
LEFT_OUT = ("tests", ".ci", "labs/authoring", "solutions/*.py", "solutions/*.yaml")


class Edition(NamedTuple):
    """What an archive says of itself. kind: LEARNERS or INSTRUCTORS; revision: of git, 12
    digits."""

    kind: str
    version: str
    revision: str


def read(root: Path) -> Edition | None:
    """The edition of the archive in this folder; None in a checkout."""
    try:
        said = json.loads((root / FILE).read_text(encoding="utf-8"))
        return Edition(said["kind"], said["version"], said["revision"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def text(edition: Edition) -> str:
    """The content of EDITION.json."""
    return json.dumps(edition._asdict(), indent=1) + "\n"


def is_learners(root: Path) -> bool:
    """Is this the learners' archive?"""
    edition = read(root)
    return edition is not None and edition.kind == LEARNERS


def need_solutions(what: str, root: Path) -> None:
    """Raise LabError in the learners' archive. what: the command that needs solutions or tests, in
    words."""
    if is_learners(root):
        raise LabError(
            f"{what} is not in the learners' archive, which holds no solutions and no tests. "
            "Your instructor has it."
        )


def unpack(root: Path, target: Path, left_out: Collection[str] = LEFT_OUT) -> None:
    """Write what a learner gets of the last commit into a folder; of an archive, as it lies there.

    left_out: pathspecs of what stays behind. Raises LabError without git, or without a commit.
    """
    with tempfile.TemporaryDirectory(prefix="edition-") as scratch:
        # The checkout may be another user's, whose Python this user runs as well.
        git = ["git", "-C", str(root), "-c", f"safe.directory={root}"]
        tree = "HEAD"
        if not (root / ".git").exists():
            git += [f"--git-dir={scratch}", f"--work-tree={root}"]
            _said(*git, "init", "--quiet")
            _said(*git, "add", "--all")
            tree = _said(*git, "write-tree").decode().strip()
        without = [f":(exclude){path}" for path in left_out]
        packed = _said(*git, "archive", "--format=tar", tree, "--", ".", *without)
    target.mkdir(parents=True, exist_ok=True)
    # Debian 12's own Python has no safe filter for tarfile.
    subprocess.run(["tar", "-x", "-C", target], input=packed, check=True)


def _said(*command: str) -> bytes:
    """What git printed. It knows nothing of the user's own settings. LabError when it fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise LabError(
            f"The labs' files are read with git, which cannot be run ({error})."
        ) from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise LabError(f"git could not read the labs' files: {' '.join(reason)}")
    return done.stdout


def version(root: Path) -> str | None:
    """The version that pyproject.toml gives; None where it gives none."""
    try:
        said = re.search(
            r'^version = "(.+)"$', (root / "pyproject.toml").read_text(encoding="utf-8"), re.M
        )
    except OSError:
        return None
    return said[1] if said else None


def revision(root: Path) -> str | None:
    """The revision of this archive or checkout; None where neither says it."""
    edition = read(root)
    if edition is not None:
        return edition.revision
    return files.git(root, "rev-parse", "--short=12", "HEAD")

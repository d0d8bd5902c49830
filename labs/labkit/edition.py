"""Which edition of the labs this is: a checkout, or an archive that `make release` has written.

An archive has EDITION.json at its top. The learners' archive has no solutions and no tests; there
the labs are read from labs/, where a checkout has them in solutions/.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from labkit import files
from labkit.errors import LabError

FILE = "EDITION.json"
LEARNERS = "learners"
INSTRUCTORS = "instructors"


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

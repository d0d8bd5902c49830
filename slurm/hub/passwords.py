"""Who may log in: a file of names and passwords that nobody but its owner can read."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

# Neither 0 and o nor 1, i and l: people copy these from a slip of paper. 31 letters, 14 times: 69
# bits.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 14


def read(path: Path) -> dict[str, str]:
    """Name -> password. PermissionError for a file that others may read."""
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise PermissionError(f"{path} has mode {mode:o}, and others can read it: chmod 600 {path}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if line.strip())


def generate() -> str:
    """A new password."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def matches(path: Path, name: str, password: str) -> bool:
    """Is this the name's own password? The answer takes as long for a wrong one as for the right
    one."""
    known = read(path).get(name)
    right = hmac.compare_digest((known or generate()).encode(), password.encode())
    return right and known is not None

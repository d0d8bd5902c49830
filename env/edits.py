"""How Horovod 0.28.1's sources are changed before they are built.

Every change is an `Edit` with a name and a reason. An edit that does not find its text exactly as often as it
expects stops the build with its name: the sources are not those it was written for.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ADDED = {"horovod/_keras/keras3.py": HERE / "keras3.py"}  # files of ours that join the wheel


class EditError(Exception):
    """An edit did not find what it edits; the message is for the user."""


@dataclass(frozen=True)
class Edit:
    """Replace `old` by `new` in `path`, found exactly `times` times; `why` is shown in the documentation."""

    name: str
    path: str
    why: str
    old: str
    new: str
    times: int = 1

    def apply(self, root: Path) -> None:
        """Change the file under `root`. Raises EditError when the text is not as expected."""
        file = root / self.path
        if not file.is_file():
            raise EditError(f"edit '{self.name}': {self.path} is not among Horovod's sources")
        text = file.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != self.times:
            raise EditError(
                f"edit '{self.name}': expected its text {self.times} time(s) in {self.path}, found {found}. "
                "These are not the sources it was written for."
            )
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


def all_edits() -> tuple[Edit, ...]:
    """All edits in the order in which they are applied."""
    from env.edits_build import BUILD
    from env.edits_keras import KERAS
    from env.edits_runner import RUNNER

    return BUILD + RUNNER + KERAS


def apply_all(root: Path, edits: tuple[Edit, ...] | None = None) -> list[str]:
    """Apply the edits to the sources under `root`, add our files, and return the edits' names."""
    edits = all_edits() if edits is None else edits
    for edit in edits:
        edit.apply(root)
    for target, source in ADDED.items():
        (root / target).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return [edit.name for edit in edits]


def digest() -> str:
    """A fingerprint of everything that is changed or added: part of the cache key of the wheel."""
    parts = ["\0".join((edit.path, edit.old, edit.new)) for edit in all_edits()]
    parts += [target + source.read_text(encoding="utf-8") for target, source in ADDED.items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def table() -> str:
    """The edits as the rows of a Markdown table: HOROVOD.md holds these very lines."""
    rows = [f"| `{edit.name}` | `{edit.path}` | {edit.why} |" for edit in all_edits()]
    return "\n".join(["| edit | file | why |", "|---|---|---|", *rows])

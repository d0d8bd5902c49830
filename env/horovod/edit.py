"""One change of Horovod's sources.

Every change has a name and a reason. An edit that does not find its text exactly as often as it expects
stops the build with its name: the sources are not those it was written for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
            raise EditError(f"edit '{self.name}': {self.path} is not among the sources")
        text = file.read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != self.times:
            raise EditError(
                f"edit '{self.name}': expected its text {self.times} time(s) in {self.path}, found {count}. "
                "These are not the sources it was written for."
            )
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")

"""What an instructor does before a class and after it: the steps of preparation.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from labkit.errors import LabError

FILE = Path(__file__).with_name("preparation.yaml")


class Step(NamedTuple):
    """One command. when: the day it is for, in words. says: what it is for, in Markdown."""

    when: str
    command: str
    says: str


def read(path: Path = FILE) -> list[Step]:
    """The steps in their order. Raises LabError where the file is none of steps."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [Step(entry["when"], entry["command"], entry["says"]) for entry in content["steps"]]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise LabError(
            f"{path.name} must hold steps, each with `when`, `command` and `says`: {error}"
        ) from None

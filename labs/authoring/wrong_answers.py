"""What tests/labs/wrong_answers/NN_name.py holds of a lab, for the tour and the guide."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple


class Wrong(NamedTuple):
    """A wrong answer. says: the words of the check's rejection that tell it."""

    exercise: str
    mistake: str
    old: object
    new: object
    says: str
    hangs: bool = False


def read(root: Path, stem: str) -> dict:
    """SMALL, the parameters of the tests' runs, and WRONG, in its author's order; empty without a
    file.

    The file imports what only tests have, so it is run without its imports: it holds texts and
    numbers.
    """
    path = root / "tests" / "labs" / "wrong_answers" / f"{stem}.py"
    names: dict = {"Wrong": Wrong, "Right": lambda *row, **named: None, "SMALL": {}, "WRONG": []}
    if path.exists():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [
            node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        exec(compile(tree, str(path), "exec"), names)
    return {name: names[name] for name in ("SMALL", "WRONG")}

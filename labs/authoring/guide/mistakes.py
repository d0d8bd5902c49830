"""The mistakes that learners make, read from a lab's wrong answers, and what the check says to each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mistake(NamedTuple):
    """A mistake in the answer of an exercise.

    says: the words of the check's rejection that tell it; the whole sentence where the lab's sources hold it.
    There … stands for what only a run knows.
    """

    exercise: str
    mistake: str
    says: str


def read(root: Path, stem: str) -> list[Mistake]:
    """The mistakes of a lab, in the order in which its author wrote them down; [] where there are none.

    The file imports what only tests have, so it is run without its imports: it holds texts and nothing else.
    """
    path = root / "tests/labs/wrong_answers" / f"{stem}.py"
    if not path.exists():
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {"Wrong": _mistake, "Right": lambda *row, **named: None}
    exec(compile(tree, str(path), "exec"), names)
    sentences = list(_sentences(root, stem))
    return [mistake._replace(says=_whole(mistake.says, sentences)) for mistake in names["WRONG"]]


def _mistake(exercise: str, mistake: str, old, new, says: str, hangs: bool = False) -> Mistake:
    return Mistake(exercise, mistake, says)


def _whole(words: str, sentences: list[str]) -> str:
    """The shortest sentence of the sources that holds these words; the words themselves where none does."""
    if not words:
        return "It does not pass."
    found = [sentence for sentence in sentences if words in sentence]
    # What stands for the case that was tried says nothing here.
    return min(found, key=len, default=words).removeprefix("…: ")


def _sentences(root: Path, stem: str) -> Iterator[str]:
    """The texts in a lab and in its support, each on one line."""
    support = root / "labs" / "support"
    own = [*support.glob(f"lab{stem[:2]}.py"), *sorted(support.glob(f"lab{stem[:2]}/*.py"))]
    for file in [root / "solutions" / f"{stem}.py", *own]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        own = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        pages = {node.body[0].value for node in ast.walk(tree) if _has_docstring(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield " ".join("".join(_literal(part) for part in node.values).split())
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in own | pages:
                yield " ".join(node.value.split())


def _has_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None
    )


def _literal(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "…"

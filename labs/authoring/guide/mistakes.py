"""The mistakes that learners make, read from a lab's wrong answers, and what the check says to
each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from authoring import wrong_answers
from authoring.wrong_answers import Wrong


def read(root: Path, stem: str) -> list[Wrong]:
    """The wrong answers of a lab, in the order in which its author wrote them down; [] where there
    are none.

    says: the whole sentence where the lab's sources hold it. There … stands for what only a run
    knows.
    """
    answers = wrong_answers.read(root, stem)["WRONG"]
    sentences = list(_sentences(root, stem)) if answers else []
    return [answer._replace(says=_whole(answer.says, sentences)) for answer in answers]


def _whole(words: str, sentences: list[str]) -> str:
    """The shortest sentence of the sources that holds these words; the words themselves where none
    does."""
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
        own = {
            part
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in node.values
        }
        pages = {node.body[0].value for node in ast.walk(tree) if _has_docstring(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield " ".join("".join(_literal(part) for part in node.values).split())
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node not in own | pages
            ):
                yield " ".join(node.value.split())


def _has_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and ast.get_docstring(node) is not None
    )


def _literal(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "…"

"""The mistakes that learners make, read from a lab's wrong answers, and what the check says to
each."""

from __future__ import annotations

import ast
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
    support = root / "labs" / "support"
    own = [*support.glob(f"lab{stem[:2]}.py"), *sorted(support.glob(f"lab{stem[:2]}/*.py"))]
    texts = _Texts()
    for file in [root / "solutions" / f"{stem}.py", *own] if answers else []:
        texts.visit(ast.parse(file.read_text(encoding="utf-8")))
    return [answer._replace(says=_whole(answer.says, texts.found)) for answer in answers]


def _whole(words: str, sentences: list[str]) -> str:
    """The shortest sentence of the sources that holds these words; the words themselves where none
    does."""
    found = [sentence for sentence in sentences if words in sentence]
    # What stands for the case that was tried says nothing here.
    return min(found, key=len, default=words).removeprefix("…: ")


class _Texts(ast.NodeVisitor):
    """The texts in a module, each on one line; docstrings are left out."""

    def __init__(self):
        self.found: list[str] = []

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.found.append(" ".join(node.value.split()))

    def visit_JoinedStr(self, node):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        self.found.append(" ".join("".join(parts).split()))

"""Do a learner's files hold solution text after all? Each of them is held against every answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from authoring.cells import stub
from authoring.rules import BEGIN, END
from authoring.source import Lab

_LEAST = 3  # lines: a shorter answer, such as one call, may stand elsewhere as an example


def find(folder: Path, labs: list[Lab]) -> list[str]:
    """A sentence for each leak: an answer in its lab, a longer one anywhere, a lab that is not
    unsolved.

    folder: with a learner's files. What a later lab brings along of an earlier one's answers is
    none: learners have built it by then.
    """
    there = (path for path in sorted(folder.rglob("*")) if path.is_file())
    texts = {str(path.relative_to(folder)): _text(path) for path in there}
    lines = {name: _lines(text) for name, text in texts.items()}
    sentences = [
        f"{name} is a solution." for name in texts if re.match(r"solutions/\d\d_|tests/", name)
    ]
    for lab in labs:
        own = [f"labs/{lab.stem}.py", f"notebooks/{lab.stem}.ipynb"]
        sentences += [f"{name} is missing." for name in own if name not in texts]
        sentences += _unsolved(lab, {name: texts[name] for name in own if name in texts})
        for number, answer in answers(lab):
            places = [name for name in own if name in lines and _holds(lines[name], answer)]
            if len(answer) >= _LEAST:
                others = [name for name in lines if name not in own and not _is_later(name, lab)]
                places += [name for name in others if _holds(lines[name], answer)]
            sentences += [f"{place} holds the answer of {number}." for place in places]
    return sentences


def answers(lab: Lab) -> Iterator[tuple[str, list[str]]]:
    """(exercise, its lines without indent) of each answer that has words of its own, comments left
    out."""
    for exercise in lab.exercises:
        for position in exercise.answers:
            source = lab.cells[position].source
            for block in re.findall(
                rf"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", source, re.DOTALL
            ):
                lines = _lines(block)
                if not _holds(_lines(stub(lab, position)), lines):
                    yield exercise.number, lines


def _is_later(name: str, lab: Lab) -> bool:
    """Is this a file of a lab that comes after this one?"""
    number = re.match(r"(?:labs|notebooks)/(?:support/lab)?(\d\d)[_/.]", name)
    return number is not None and number[1] > lab.header.number


def _unsolved(lab: Lab, texts: Mapping[str, str]) -> Iterator[str]:
    """Each exercise's stub stands in both of the lab's files, and no mark of an answer does."""
    for name, text in texts.items():
        if BEGIN in text or END in text:
            yield f"{name} has marks of an answer."
        for exercise in lab.exercises:
            if f'raise NotImplementedError("exercise {exercise.number}: ' not in text:
                yield f"{name} has no stub for {exercise.number}."


def _text(path: Path) -> str:
    """The text of a file, of a notebook that of its cells; "" where it holds no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def _lines(text: str) -> list[str]:
    """Lines of code without indent, comments and empty lines."""
    bare = (line.strip() for line in text.splitlines())
    return [line for line in bare if line and not line.startswith("#")]


def _holds(lines: list[str], part: list[str]) -> bool:
    """Do the lines hold the part, one line after the other?"""
    if not part:
        return False
    starts = [place for place, line in enumerate(lines) if line == part[0]]
    return any(lines[place : place + len(part)] == part for place in starts)

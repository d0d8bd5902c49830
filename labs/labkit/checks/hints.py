"""Where the exercises' titles and hints come from: the lab's own prose, read when someone asks."""

from __future__ import annotations

import html
import re

from labkit import edition, journal, lab, labfile, paths, world
from labkit.checks import progress
from labkit.errors import LabError
from labkit.labfile import Exercise, exercises_in


def exercise(number: str) -> Exercise:
    """The exercise of that number, with title and hints. Raises LabError that lists the lab's
    numbers."""
    if not isinstance(number, str):
        raise LabError(
            f'An exercise\'s number is written in quotes, such as "23.1"; this is {number!r}.'
        )
    stem = lab.current() or _stem_of(number)
    known = {}
    for folder in ("solutions", "labs"):
        known |= {listed.number: listed for listed in _read(folder, stem)}
    if number not in known:
        numbers = sorted(known, key=lambda text: [int(part) for part in text.split(".")])
        raise LabError(
            f"There is no exercise {number!r} in lab {stem}. "
            f"Its exercises are {', '.join(numbers) or 'none'}."
        )
    return known[number]


def _stem_of(number: str) -> str:
    labs = [stem for stem in labfile.stems() if stem[:2] == number.split(".")[0]]
    if not labs:
        raise LabError(
            f"There is no lab for exercise {number!r}. A number such as 23.1 means lab 23,"
            " exercise 1."
        )
    return labs[0]


def _read(folder: str, stem: str) -> list[Exercise]:
    path = paths.root() / folder / f"{stem}.py"
    return exercises_in(path.read_text(encoding="utf-8")) if path.exists() else []


def way_out(number: str) -> str:
    """The command that ends being stuck; in the learners' archive, the person who does."""
    if edition.is_learners(paths.root()):
        return f"Your instructor has the answer of {number}."
    return (
        f"`make solve LAB={number.split('.')[0]} EX={number}` puts the answer into your notebook."
    )


def hint(number: str) -> None:
    """Show the next hint of an exercise, one more at every call."""
    chosen = exercise(number)
    shown = journal.entry(number)["hints"]
    if not world.is_root():
        return
    if shown >= len(chosen.hints):
        print(f"No more hints for {number}. {way_out(number)}")
        return
    title, text = chosen.hints[shown]
    _display(f"**{title}** ({shown + 1} of {len(chosen.hints)})\n\n{text}")
    progress.note("hint", number, hints=shown + 1)


def after_failure(number: str) -> str:
    """The sentence below a failed check: how to get the next hint, or the answer when all hints are
    used."""
    try:
        count = len(exercise(number).hints)
    except LabError:
        return ""
    shown = journal.entry(number)["hints"]
    if shown < count:
        return f'hint("{number}") shows the next hint ({shown + 1} of {count}).'
    return way_out(number)


def _display(markdown: str) -> None:
    if world.in_kernel():
        from IPython.display import Markdown, display

        display(Markdown(markdown))
    else:
        plain = re.sub(r"\A\*\*(.*?)\*\*", r"\1", markdown)  # of the title alone: 2**3 is code
        print(html.unescape(re.sub(r"</?\w+[^>]*>", "", plain)))

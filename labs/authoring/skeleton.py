"""`make new LAB=81_my_topic`: a small complete lab to start from, with its wrong answers."""

from __future__ import annotations

from pathlib import Path

from labkit import labfile, paths
from labkit.errors import LabError

from authoring import generate
from authoring.source import STEM

TEMPLATE = Path(__file__).with_name("template")  # lab 66, "My topic", whole and solvable


def new(stem: str, root: Path | None = None) -> list[str]:
    """Write the lab, its checks, its wrong answers and the learner's files; return the paths.

    Raises LabError for a stem that is not NN_words, or a number that is taken.
    """
    root = root or paths.root()
    if not STEM.fullmatch(stem):
        raise LabError(
            "A lab is named by two digits, an underscore and lower-case words (81_my_topic), not"
            f" {stem!r}."
        )
    taken = [known for known in labfile.stems(root) if known[:2] == stem[:2]]
    if taken:
        raise LabError(
            f"The number {stem[:2]} is taken by {taken[0]}; numbers are never given twice."
        )
    targets = {
        f"solutions/{stem}.py": "81_my_topic.py",
        f"labs/support/lab{stem[:2]}.py": "lab81.py",
        f"tests/labs/wrong_answers/{stem}.py": "wrong_answers.py",
    }
    for name in targets:
        if (root / name).exists():
            raise LabError(f"{name} exists already; move it away first.")
    for name, template in targets.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (TEMPLATE / template).read_text(encoding="utf-8")
        path.write_text(_renamed(text, stem), encoding="utf-8")
    names = [*targets, *generate.write_all(root, only=[stem])]
    print(
        f"Written: {', '.join(names)}. Edit solutions/{stem}.py, name it in"
        " labs/authoring/course.yaml, then `make labs`."
    )
    return names


def _renamed(text: str, stem: str) -> str:
    number = stem[:2]
    title = stem[3:].replace("_", " ").capitalize()
    text = text.replace("81", number).replace(f"{number}_my_topic", stem)
    return text.replace(f"{number} My topic", f"{number} {title}")

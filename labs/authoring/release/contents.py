"""What a learner gets: the files of a commit without solutions, tests and answers.

The kit's reference records stay: labs hold a learner's results against them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from labkit import copies

from authoring.cell import Cell
from authoring.notebooks import notebook, script_text
from authoring.release.archive import File

_LEFT_OUT = (
    re.compile(r"solutions/(?!results/).*"),
    re.compile(r"tests/.*"),
    re.compile(r"\.ci/.*"),
    re.compile(r"labs/authoring/template/.*"),  # a small lab with its solution
)
_BOOK = re.compile(r"notebooks/\d\d_\w+\.ipynb")
_FOLDED = re.compile(r"<details>\s*<summary>Answers?</summary>.*?</details>", re.DOTALL)
WITHOUT = "*(Your instructor has the answer.)*"
NOTE = """\
This is the learners' archive, version {version}, revision {revision}. It has all labs, and
neither solutions nor tests: what this page says of `make solve`, `make test`, `make tour`,
`make book` and `SOLVED=1` is for those who have the whole kit, as your instructor does. `make lab`
begins.
"""


def of_learners(
    files: Mapping[str, File], version: str, revision: str, keep_answers: bool
) -> dict[str, File]:
    """The learners' files out of all files of a commit. keep_answers: model answers stay in the
    notebooks."""
    kept = {
        name: file
        for name, file in files.items()
        if not any(part.fullmatch(name) for part in _LEFT_OUT)
    }
    if not keep_answers:
        for name in [name for name in kept if _BOOK.fullmatch(name)]:
            kept |= without_answers(name, kept[name].content.decode("utf-8"))
    if "README.md" in kept:
        text = kept["README.md"].content.decode("utf-8")
        kept["README.md"] = File(_with_note(text, version, revision).encode())
    return kept


def without_answers(name: str, text: str) -> dict[str, File]:
    """A learner's notebook and its script, with a sentence in place of each folded model answer."""
    book = json.loads(text)
    cells = []
    for entry in book["cells"]:
        source = "".join(entry["source"])
        if entry["cell_type"] == "markdown":
            source = _FOLDED.sub(WITHOUT, source)
        tags = tuple(entry["metadata"].get("tags", ()))
        cells.append(Cell(entry["cell_type"], source, 0, tags))
    stem = name.removeprefix("notebooks/").removesuffix(".ipynb")
    script = script_text(cells)
    made = copies.notebook_text(notebook(stem, cells, script))
    return {name: File(made.encode()), f"labs/{stem}.py": File(script.encode())}


def _with_note(text: str, version: str, revision: str) -> str:
    """The README with the note below its title."""
    title, _, rest = text.partition("\n")
    note = NOTE.format(version=version, revision=revision).strip().replace("\n", "\n> ")
    return f"{title}\n\n> {note}\n{rest}"

"""The learner's own copy of a lab: set aside before it is overwritten, begun afresh, helped by one answer."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import labkit
from labkit.errors import LabError

from authoring import cells as authoring_cells
from authoring import generate, notebooks


def overwrite(root: Path, texts: dict[str, str]) -> None:
    """Write each text to its path in the checkout. A learner's work found there is set aside first."""
    work = [name for name in texts if (root / name).exists() and _is_work(root, name)]
    if work:
        set_aside(root, work)
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def set_aside(root: Path, names: list[str]) -> Path:
    """Copy these files of the checkout to home()/set_aside/<time>/ and say so."""
    folder = labkit.home() / "set_aside" / datetime.now().strftime("%Y-%m-%d-%H%M%S-%f")
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target)
    print(f"Set aside: {', '.join(names)} -> {_short(folder, root)}")
    return folder


def _short(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _is_work(root: Path, name: str) -> bool:
    """Whether the file differs from what was generated and from what git has committed."""
    return not _as_generated(root, name) and not _as_committed(root, name)


def _as_generated(root: Path, name: str) -> bool:
    path = root / name
    if path.suffix not in (".py", ".ipynb"):
        return False
    keeper = path if path.suffix == ".ipynb" else root / "notebooks" / f"{path.stem}.ipynb"
    try:
        book = json.loads(keeper.read_text(encoding="utf-8"))
        origin = book["metadata"]["labkit"]
        if path.suffix == ".py":
            return origin["script"] == notebooks.digest(path.read_text(encoding="utf-8"))
        cells = {cell["id"]: notebooks.digest("".join(cell["source"])) for cell in book["cells"]}
        return cells == origin["cells"] and not any(cell.get("outputs") for cell in book["cells"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _as_committed(root: Path, name: str) -> bool:
    try:
        shown = subprocess.run(
            ["git", "-C", str(root), "show", f"HEAD:./{name}"], capture_output=True, check=False
        )
    except OSError:  # no git here: then nothing is known to be committed
        return False
    return shown.returncode == 0 and shown.stdout == (root / name).read_bytes()


def reset(lab: str, root: Path | None = None) -> None:
    """Begin a lab afresh: the learner's notebook and script are set aside and written new."""
    root = root or labkit.root()
    stem = generate.find(lab, root)
    texts = generate.outputs(generate.load(stem, root))
    mine = [name for name in texts if name.startswith(("labs/", "notebooks/"))]
    overwrite(root, {name: texts[name] for name in mine})
    print(f"Lab {stem} is fresh: {', '.join(mine)}")


def solve(lab: str, exercise: str, root: Path | None = None) -> None:
    """Put the answer of one exercise into the learner's notebook and script; every other cell stays."""
    import nbformat

    root = root or labkit.root()
    source = generate.load(generate.find(lab, root), root)
    chosen = next((one for one in source.exercises if one.number == str(exercise)), None)
    if chosen is None:
        numbers = ", ".join(one.number for one in source.exercises)
        raise LabError(f"Lab {source.stem} has no exercise {exercise!r}; it has {numbers}.")
    names = [f"notebooks/{source.stem}.ipynb", f"labs/{source.stem}.py"]
    missing = [name for name in names if not (root / name).exists()]
    if missing:
        raise LabError(f"{missing[0]} is missing: `make reset LAB={source.stem[:2]}` writes it.")
    book = nbformat.read(root / names[0], as_version=4)
    script = (root / names[1]).read_text(encoding="utf-8")
    for position in chosen.answers:
        answer = authoring_cells.solved(source.cells[position])
        cell = _cell_in(book, position, answer)
        if cell is None:
            raise _lost(names[0], answer)
        script = _put_in_script(script, cell.source, answer, names[1])
        cell.source, cell.outputs, cell.execution_count = answer, [], None
    set_aside(root, names)
    (root / names[0]).write_text(notebooks.notebook_text(book), encoding="utf-8")
    (root / names[1]).write_text(script, encoding="utf-8")
    print(f"The answer of {chosen.number} is in {names[0]}. If it is open, reload it from disk (File menu).")


def _lost(name: str, answer: str) -> LabError:
    functions = ", ".join(f"{one}()" for one in _functions(answer))
    number = Path(name).stem[:2]
    return LabError(f"{name} has no cell with {functions}. `make reset LAB={number}` begins it afresh.")


def _functions(text: str) -> list[str]:
    """The names of the functions and classes a cell defines; [] if it is not Python at the moment."""
    try:
        return [
            node.name for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        ]
    except SyntaxError:
        return []


def _cell_in(book, position: int, answer: str):
    """The learner's cell for an answer: by its id, else by the function that it defines."""
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    by_id = [cell for cell in code if cell.id == f"cell-{position + 1:02d}"]
    wanted = set(_functions(answer))
    by_name = [cell for cell in code if wanted & set(_functions(cell.source))]
    return next(iter(by_id or by_name), None)


def _put_in_script(script: str, old: str, answer: str, name: str) -> str:
    """The script with the answer in the cell that reads as the notebook's or defines the same function."""
    import jupytext

    book = jupytext.reads(script, fmt="py:percent")
    wanted = set(_functions(answer))
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    same = [cell for cell in code if cell.source.strip() == old.strip()]
    chosen = same or [cell for cell in code if wanted & set(_functions(cell.source))]
    if not chosen:
        raise _lost(name, answer)
    chosen[0].source = answer
    book.metadata = {"jupytext": notebooks.FILTERS}
    return jupytext.writes(book, fmt="py:percent")

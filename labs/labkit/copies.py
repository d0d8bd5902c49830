"""A learner's files, work/STEM.ipynb and work/STEM.py: brought, held alike, kept before they are
overwritten.

notebooks/ and labs/ hold each lab as it was generated, and nobody writes there; so a `git pull`
meets no work of a learner's. A copy that nobody has edited follows them.

Before a job, the newer of notebook and script is written to the other. JupyterLab keeps the two in
step (jupytext); an editor or a copied file does not. What is overwritten is set aside first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from labkit import files, labfile, paths
from labkit.errors import LabError

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
# The filters of [tool.jupytext] in pyproject.toml, so that a save in JupyterLab changes no line of
# its own.
FILTERS = {"notebook_metadata_filter": "-all", "cell_metadata_filter": "tags,-all"}


_FORMATS = {".py": "py:percent", ".ipynb": "ipynb"}
WORK = "work"


def bring(root: Path, stems: Iterable[str] | None = None) -> None:
    """Bring labs (all of them, without `stems`) into work/: what is missing, and what nobody has
    edited. A missing notebook gets the cells of a script that somebody has edited.

    With all of them, copies that nobody has edited of labs that are gone go, too. Raises LabError.
    """
    folder = root / WORK
    try:
        folder.mkdir(exist_ok=True)
        for stem in stems or labfile.stems(root):
            pairs = _pairs(stem)
            book, _ = pairs.values()
            if not _edited(root, *pairs.values()):
                _follow(root, pairs)
            elif not (root / book).exists():
                sync(stem, root)
        if stems is None:
            _remove_gone(root)
    except OSError as error:
        raise LabError(
            f"Your copies of the labs cannot be written into {folder} ({error.strerror}): "
            "copy the whole folder of the labs to a place that is yours, and work there."
        ) from None


def _pairs(stem: str) -> dict[str, str]:
    """A lab's files as they were generated -> the learner's copies of them."""
    return {
        f"notebooks/{stem}.ipynb": f"{WORK}/{stem}.ipynb",
        f"labs/{stem}.py": f"{WORK}/{stem}.py",
    }


def _edited(root: Path, *names: str) -> bool:
    """Is one of these files another than it was generated?"""
    return any((root / name).exists() and not _as_generated(root, name) for name in names)


def _follow(root: Path, pairs: Mapping[str, str]) -> None:
    for name, own in pairs.items():
        if not (root / name).exists():
            continue
        text = (root / name).read_text(encoding="utf-8")
        if not (root / own).exists() or (root / own).read_text(encoding="utf-8") != text:
            _replace(root / own, text)
            seen = (root / name).stat()  # `sync` asks which of the two is newer
            os.utime(root / own, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _remove_gone(root: Path) -> None:
    known = set(labfile.stems(root))
    for book in (root / WORK).glob("[0-9][0-9]_*.ipynb"):
        pair = _pairs(book.stem).values()
        if book.stem not in known and not _edited(root, *pair):
            for own in pair:
                (root / own).unlink(missing_ok=True)


def script(stem: str, solved: bool = False, root: Path | None = None) -> Path:
    """The learner's script of a lab, brought into work/ where it is missing, or the solved one.
    LabError."""
    root = root or paths.root()
    if solved:
        return labfile.solved_script(stem, root)
    bring(root, [stem])
    path = root / WORK / f"{stem}.py"
    if not path.exists():
        sync(stem, root)
    return path


def reset(lab: str, root: Path | None = None) -> None:
    """Begin a lab afresh: the learner's notebook and script are set aside and brought anew."""
    root = root or paths.root()
    stem = labfile.find(lab, root)
    bring(root, [stem])
    texts = {own: (root / name).read_text(encoding="utf-8") for name, own in _pairs(stem).items()}
    overwrite(root, texts)
    print(f"Lab {stem} is fresh: {', '.join(texts)}")


def overwrite(root: Path, texts: dict[str, str]) -> None:
    """Write each text to its path in the checkout. A learner's work found there is set aside
    first."""
    work = [
        name
        for name in texts
        if _edited(root, name) and _committed(root, name) != (root / name).read_bytes()
    ]
    if work:
        set_aside(root, work)
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def set_aside(root: Path, names: list[str]) -> Path:
    """Copy these files of the checkout to home()/set_aside/<time>/ and say so."""
    folder = paths.home() / "set_aside" / datetime.now().strftime("%Y-%m-%d-%H%M%S-%f")
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target)
    print(f"Set aside: {', '.join(names)} -> {paths.shown(folder)}")
    return folder


def _as_generated(root: Path, name: str) -> bool:
    path = root / name
    if path.suffix not in (".py", ".ipynb"):
        return False
    keeper = path.with_suffix(".ipynb")
    if path.parent.name == "labs" or not keeper.exists():
        keeper = root / "notebooks" / keeper.name
    try:
        book = json.loads(keeper.read_text(encoding="utf-8"))
        origin = book["metadata"]["labkit"]
        if path.suffix == ".py":
            return origin["script"] == digest(path.read_text(encoding="utf-8"))
        cells = {cell["id"]: digest("".join(cell["source"])) for cell in book["cells"]}
        return cells == origin["cells"] and not any(cell.get("outputs") for cell in book["cells"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _committed(root: Path, name: str) -> bytes | None:
    """The file as git has it; None where there is no git, or git does not know the file."""
    try:
        command = ["git", "-C", str(root), "show", f"HEAD:./{name}"]
        shown = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return shown.stdout if shown.returncode == 0 else None


def digest(text: str) -> str:
    """A short fingerprint of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextlib.contextmanager
def with_parameters(path: Path, values: dict[str, object]) -> Iterator[Path]:
    """The script itself, or a copy with other parameters, in a folder that every node of a cluster
    sees."""
    if not values:
        yield path
        return
    text = labfile.with_parameters(path.read_text(encoding="utf-8"), values)
    with tempfile.TemporaryDirectory(
        dir=paths.home(),
        prefix="run-",
        ignore_cleanup_errors=True,  # NFS keeps a name for a file that a rank has still open
    ) as folder:
        copy = Path(folder) / path.name
        copy.write_text(text, encoding="utf-8")
        yield copy


def sync(stem: str, root: Path) -> str | None:
    """Make work/STEM.py and work/STEM.ipynb hold the same cells; a sentence if they did not.

    Raises LabError when both are missing, or when one cannot be read or written.
    """
    book, script = _pairs(stem).values()
    there = [name for name in (script, book) if (root / name).exists()]
    if not there:
        raise LabError(f"{script} is missing: `make reset LAB={stem[:2]}` writes it.")
    if book in there:
        sources = _sources(root / book)
        if script in there and _alike((root / script).read_text(encoding="utf-8"), sources):
            return None
    newer = max(there, key=lambda name: ((root / name).stat().st_mtime_ns, name == book))
    older = book if newer == script else script
    text = _converted(root / newer, root / older)
    if text is None:
        return None
    try:
        if older in there:
            set_aside(root, [older])
        _replace(root / older, text)
    except OSError as error:
        raise LabError(
            f"{newer} is newer than {older}, which cannot be written ({error.strerror})."
        ) from None
    if older not in there:
        return f"{older} was missing: it now holds the cells of {newer}."
    return f"{newer} is newer than {older} and wins: {older} now holds its cells."


def _sources(book: Path) -> list[str]:
    """The text of each cell of a notebook."""
    try:
        cells = json.loads(book.read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]).strip() for cell in cells]
    except (OSError, ValueError, KeyError, TypeError):
        number = book.stem[:2]
        raise LabError(
            f"{book.name} is no notebook: `make reset LAB={number}` begins it afresh."
        ) from None


def _alike(script: str, sources: list[str]) -> bool:
    """Do the two hold the same text, cell by cell? Seen without jupytext, whose import takes
    seconds."""
    cells = []
    for part in re.split(r"(?m)^(?=# %%)", script)[1:]:
        head, _, body = part.partition("\n")
        cells.append((re.sub(r"(?m)^# ?", "", body) if "[markdown]" in head else body).strip())
    return cells == sources


def _converted(newer: Path, older: Path) -> str | None:
    """The cells of `newer` as the text of `older`, as JupyterLab would save it; None if it holds
    them already.

    A notebook keeps its outputs, as jupytext matches them to the script's cells.
    """
    import jupytext
    import nbformat
    from jupytext.combine import combine_inputs_with_outputs

    cells = jupytext.read(newer, fmt=_FORMATS[newer.suffix])
    kept = jupytext.read(older, fmt=_FORMATS[older.suffix]) if older.exists() else None
    if kept is not None and _keys(kept.cells) == _keys(cells.cells):
        return None
    if older.suffix == ".py":
        cells.metadata = {"jupytext": FILTERS}
        return jupytext.writes(cells, fmt="py:percent")
    if kept is None:
        return notebook_text(nbformat.v4.new_notebook(cells=cells.cells, metadata=METADATA))
    return notebook_text(combine_inputs_with_outputs(cells, kept, fmt="py:percent"))


def _keys(cells) -> list[tuple[str, str]]:
    return [(cell["cell_type"], cell["source"].strip()) for cell in cells]


def _replace(path: Path, text: str) -> None:
    """Write the file in one step: a job that reads it at this moment finds the old or the new
    one."""
    path.parent.mkdir(exist_ok=True)
    files.replace(path, text, mode=stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644)


def notebook_text(book) -> str:
    """A notebook as text: sorted keys, one final newline."""
    import nbformat

    return nbformat.writes(book, version=4).rstrip("\n") + "\n"

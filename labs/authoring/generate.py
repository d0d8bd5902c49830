"""The generator: from solutions/NN_name.py to the learner's script and notebook, and the batch
script.

A rebuild changes no byte. What a learner wrote is set aside before it is overwritten
(labkit.copies).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labkit import copies, labfile, paths
from labkit.errors import LabError

from authoring import batch, overview
from authoring.cells import learner_cells, solved_cells
from authoring.notebooks import notebook, script_text
from authoring.source import Lab


def load(stem: str, root: Path | None = None) -> Lab:
    """The lab's source, read and checked."""
    return Lab((root or paths.root()) / "solutions" / f"{stem}.py")


def outputs(lab: Lab) -> dict[str, str]:
    """Path inside the checkout -> text: the learner's script and notebook, and the batch script."""
    learner = learner_cells(lab)
    script = script_text(learner)
    return {
        f"labs/{lab.stem}.py": script,
        f"notebooks/{lab.stem}.ipynb": copies.notebook_text(notebook(lab.stem, learner, script)),
        **batch.outputs(lab),
    }


def solved_notebook(lab: Lab) -> str:
    """The text of the lab's notebook with all answers; it is written where it runs, not into the
    checkout."""
    return copies.notebook_text(notebook(lab.stem, solved_cells(lab)))


def orphans(root: Path, labs: Iterable[Lab]) -> list[str]:
    """Generated-looking files that none of the labs has: its source is gone, or has one rank
    now."""
    own = {f"labs/{lab.stem}.py" for lab in labs} | {f"notebooks/{lab.stem}.ipynb" for lab in labs}
    own |= {name for lab in labs for name in batch.outputs(lab)}
    patterns = ("labs/[0-9][0-9]_*.py", "notebooks/[0-9][0-9]_*.ipynb", "slurm/[0-9][0-9]_*.sbatch")
    found = [str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern)]
    return sorted(set(found) - own)


def write_all(root: Path | None = None, check: bool = False, only: Iterable[str] = ()) -> list[str]:
    """Write what is not up to date and return those paths; with `check`, write nothing and return
    them.

    `only`: stems; then the other labs and the overview stay as they are. Raises LabError at the
    end, with all that could not be generated; the rest is written by then.
    """
    root = root or paths.root()
    wanted = list(only)
    wrong = []
    labs = []
    stale = []
    for stem in wanted or labfile.stems(root):
        try:
            lab = load(stem, root)
            texts = outputs(lab)
        except LabError as error:
            wrong.append(str(error))
            continue
        labs.append(lab)
        old = {name: text for name, text in texts.items() if not _same(root / name, text)}
        stale += old
        if not check:
            copies.overwrite(root, old)
    if not wanted and not wrong:
        stale += _finish(root, labs, check, wrong)
    if wrong:
        raise LabError("\n".join(wrong))
    return stale


def _finish(root: Path, labs: list[Lab], check: bool, wrong: list[str]) -> list[str]:
    stale = []
    try:
        for name, text in overview.outputs(root, labs).items():
            if _same(root / name, text):
                continue
            stale.append(name)
            if not check:
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
    except LabError as error:
        wrong.append(str(error))
    lost = orphans(root, labs)
    if check:
        return stale + lost
    for name in lost:
        lacks = "lab with several ranks" if name.endswith(".sbatch") else "source"
        wrong.append(f"{name} has no {lacks} in solutions/ any more: remove it or rename it.")
    return stale


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() == text.encode()

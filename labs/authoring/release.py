"""`make release`: two archives of the last commit, for learners and for instructors.

Learners get neither solutions nor tests nor model answers; instructors get everything, and the
guide that this commit makes. The same commit gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from labkit import copies, edition, files, labfile, paths
from labkit.errors import LabError, exit_status

from authoring import generate, leaks
from authoring.cell import Cell
from authoring.notebooks import notebook, script_text

NAME = "hpdl-labs"
PATIENCE = 900  # seconds for the guide
WITHOUT = "*(Your instructor has the answer.)*"
_FOLDED = re.compile(r"<details>\s*<summary>Answers?</summary>.*?</details>", re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    """Write the archives. A LabError becomes its sentence and status 1."""
    parser = argparse.ArgumentParser(
        prog="authoring release", description="Write the learners' and the instructors' archive."
    )
    parser.add_argument("--out", type=Path, default=None, help="their folder (default: release)")
    parser.add_argument(
        "--keep-answers",
        action="store_true",
        help="leave the model answers of questions in the notebooks",
    )
    options = parser.parse_args(arguments)
    return exit_status(lambda: _release(options))


def _release(options: argparse.Namespace) -> int:
    root = paths.root()
    seconds = files.git(root, "log", "-1", "--format=%ct")
    if seconds is None:
        raise LabError("A release is made from the last commit; there is none here.")
    changed = files.git(root, "diff", "--name-only", "HEAD").splitlines()
    # New labs and sites that are not committed yet; elsewhere there may be files of nobody's.
    folders = ("labs", "notebooks", "solutions", "slurm/sites")
    changed += files.git(root, "ls-files", "--others", "--exclude-standard", *folders).splitlines()
    if changed:
        names = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
        raise LabError(
            f"A release is made from the last commit, which lacks your changes: {names}. Commit"
            " first."
        )
    out = options.out or root / "release"
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        folders = [
            _unpacked(root, Path(scratch), edition.INSTRUCTORS, left_out=()),
            _unpacked(root, Path(scratch), edition.LEARNERS, edition.LEFT_OUT),
        ]
        if not options.keep_answers:
            take_answers_out(folders[1])
        leaking = leaks.find(folders[1], [generate.load(stem) for stem in labfile.stems(root)])
        if leaking:
            raise LabError(
                "The learners' archive would hold what learners are to find:\n" + "\n".join(leaking)
            )
        _write_guide(folders[0])
        out.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            _pack(folder, out / f"{folder.name}.tar.gz", int(seconds))
    return 0


def _unpacked(root: Path, scratch: Path, kind: str, left_out: tuple[str, ...]) -> Path:
    """The files of an archive, in a folder of its name."""
    said = edition.Edition(kind, edition.version(root), edition.revision(root))
    folder = scratch / "-".join([NAME, *said])
    edition.unpack(root, folder, left_out)
    (folder / edition.FILE).write_text(edition.text(said), encoding="utf-8")
    return folder


def take_answers_out(folder: Path) -> None:
    """Put a sentence in place of each folded model answer, in notebooks and scripts."""
    for file in sorted(folder.glob("notebooks/[0-9][0-9]_*.ipynb")):
        cells = []
        for entry in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            source = "".join(entry["source"])
            if entry["cell_type"] == "markdown":
                source = _FOLDED.sub(WITHOUT, source)
            tags = tuple(entry["metadata"].get("tags", ()))
            cells.append(Cell(entry["cell_type"], source, 0, tags))
        script = script_text(cells)
        made = copies.notebook_text(notebook(file.stem, cells, script))
        file.write_text(made, encoding="utf-8")
        (folder / "labs" / f"{file.stem}.py").write_text(script, encoding="utf-8")


def _write_guide(folder: Path) -> None:
    """The guide that these files make, in guide/ beside them: nothing of this machine gets in."""
    env = {
        **os.environ,
        "PYTHONPATH": str(folder / "labs"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LABKIT_HOME": str(folder.parent / "home"),
    }
    command = [sys.executable, "-m", "authoring", "guide"]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode:
        raise LabError(f"The guide could not be made: {done.stderr.strip() or done.stdout.strip()}")


def _pack(folder: Path, target: Path, seconds: int) -> None:
    """The folder as .tar.gz: in order, all of the same time (since 1970), nobody's own."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = seconds
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        return entry

    packed = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    with (
        open(target, "wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in packed:
            archive.add(path, path.relative_to(folder.parent), filter=plain)
    megabytes = target.stat().st_size / 1e6
    print(f"{paths.shown(target)}: {len(packed)} files, {megabytes:.1f} MB")

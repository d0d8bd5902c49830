"""`make release`: two archives of the last commit, for learners and for instructors.

The same commit gives the same bytes. The instructors' archive holds the guide that this commit
makes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from labkit import edition, labfile, paths
from labkit.errors import LabError, exit_status

from authoring import generate
from authoring.release import archive, contents, leaks
from authoring.release.archive import File

NAME = "hpdl-labs"
PATIENCE = 900  # seconds for the guide


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
    files = archive.committed(root)
    changed = archive.changes(root)
    if changed:
        names = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
        raise LabError(
            f"A release is made from the last commit, which lacks your changes: {names}. Commit"
            " first."
        )
    version = edition.version(root)
    revision = edition.revision(root)
    seconds = archive.commit_time(root)
    out = options.out or root / "release"
    out.mkdir(parents=True, exist_ok=True)
    learners = contents.of_learners(files, version, revision, options.keep_answers)
    labs = [generate.load(stem, root) for stem in labfile.stems(root)]
    leaking = leaks.find(learners, labs)
    if leaking:
        raise LabError(
            "The learners' archive would hold what learners are to find:\n" + "\n".join(leaking)
        )
    instructors = files | _guide(root, _with_edition(files, edition.INSTRUCTORS, version, revision))
    for kind, chosen in ((edition.LEARNERS, learners), (edition.INSTRUCTORS, instructors)):
        name = f"{NAME}-{kind}-{version}-{revision}"
        target = out / f"{name}.tar.gz"
        archive.write(target, name, _with_edition(chosen, kind, version, revision), seconds)
        megabytes = target.stat().st_size / 1e6
        print(f"{paths.shown(target)}: {len(chosen)} files, {megabytes:.1f} MB")
    return 0


def _with_edition(
    files: Mapping[str, File], kind: str, version: str, revision: str
) -> dict[str, File]:
    said = edition.text(edition.Edition(kind, version, revision))
    return {**files, edition.FILE: File(said.encode())}


def _guide(root: Path, files: Mapping[str, File]) -> dict[str, File]:
    """The guide that these files make, in a folder of its own: nothing of this machine gets in."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name) / "labs"
        archive.unpack(folder, files)
        command = [sys.executable, "-m", "authoring", "guide", "--out", str(folder / "guide")]
        env = {
            **os.environ,
            "PYTHONPATH": str(folder / "labs"),
            "LABKIT_HOME": str(folder / "home"),
        }
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise LabError(
                f"The guide could not be made: {done.stderr.strip() or done.stdout.strip()}"
            )
        made = [path for path in sorted((folder / "guide").rglob("*")) if path.is_file()]
        return {str(path.relative_to(folder)): File(path.read_bytes()) for path in made}

"""The course as learners get it: a git bundle of the last commit, or of an archive, without solutions.

A bundle is one file that everybody may read, and git clones it without a network.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from labkit import edition, paths
from labkit.errors import LabError

BRANCH = "main"
# What a learner works with. Solutions stay behind; the reference results are among what labs show.
PARTS = (
    *("labs", "notebooks", "slurm", "solutions/results", "pyproject.toml", "Makefile"),
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "NOTICE", "docs"),
    *(".gitignore", ".github/pictures"),
)
_NOT = ("labs/authoring/template/", "slurm/hub/")


def publish(state: Path) -> Path:
    """Bring the bundle in the hub's folder up to date; its path. LabError without git, or without a commit.

    The hub's own repository gets one commit for each new state of the course, so that nbgitpuller can merge
    it with what learners have written.
    """
    if shutil.which("git") is None:
        raise LabError("The hub hands the course out with git, which is not here: sudo apt-get install git")
    root = paths.root()
    work = state / "private" / "course"
    work.mkdir(exist_ok=True)
    if not (work / ".git").is_dir():
        _git(work, "init", "--quiet", f"--initial-branch={BRANCH}")
    for entry in work.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    _unpack(_files(root), work)
    said = edition.Edition(edition.LEARNERS, edition.version(root) or "", edition.revision(root) or "")
    (work / edition.FILE).write_text(edition.text(said), encoding="utf-8")
    _git(work, "add", "--all")
    if _git(work, "status", "--porcelain"):
        _git(work, "commit", "--quiet", "--message", f"The course, revision {said.revision}")
    bundle = state / "course.bundle"
    part = state / "course.part"
    _git(work, "bundle", "create", "--quiet", str(part), "HEAD", BRANCH)
    part.chmod(0o644)
    part.replace(bundle)
    return bundle


def _files(root: Path) -> dict[str, tuple[bytes, int]]:
    """Path -> (content, mode) of the learners' files: as committed, or of an archive as they lie there."""
    files = {}
    if (root / ".git").exists():
        parts = [part for part in PARTS if (root / part).exists()]
        packed = _git(root, "archive", "--format=tar", "HEAD", *parts, binary=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            for member in tar.getmembers():
                if member.isfile():
                    files[member.name] = (tar.extractfile(member).read(), member.mode)
    else:
        for part in PARTS:
            found = (root / part).rglob("*") if (root / part).is_dir() else [root / part]
            for path in found:
                if path.is_file() and "__pycache__" not in path.parts:
                    files[str(path.relative_to(root))] = (path.read_bytes(), path.stat().st_mode)
    return {name: file for name, file in files.items() if not name.startswith(_NOT)}


def _unpack(files: dict[str, tuple[bytes, int]], folder: Path) -> None:
    for name, (content, mode) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if mode & 0o100 else 0o644)


def _git(folder: Path, *arguments: str, binary: bool = False):
    """What git printed. It knows nothing of the user's own settings. LabError when it fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "The labs", f"GIT_{role}_EMAIL": "labs@localhost"}
    # The checkout may be another user's, whose Python root runs as well.
    command = ["git", "-c", f"safe.directory={folder}", "-C", str(folder), *arguments]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise LabError(
            f"git {arguments[0]} failed in {paths.shown(folder)}: {' '.join(reason) or 'no message'}"
        )
    return done.stdout if binary else done.stdout.decode(errors="replace")

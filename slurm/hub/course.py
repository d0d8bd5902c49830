"""The course as learners get it: a git bundle of the last commit, or of an archive, without
solutions.

A bundle is one file that everybody may read, and git clones it without a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from labkit import edition, files, paths
from labkit.errors import LabError

BRANCH = "main"
# Learners on the hub have the environment that is shared.
LEFT_OUT = (*edition.LEFT_OUT, "env")


def publish(state: Path) -> Path:
    """Bring the bundle in the hub's folder up to date; its path. LabError without git, or without a
    commit.

    The hub's own repository gets one commit for each new state of the course, so that nbgitpuller
    can merge it with what learners have written.
    """
    if shutil.which("git") is None:
        raise LabError(
            "The hub hands the course out with git, which is not here: sudo apt-get install git"
        )
    root = paths.root()
    work = state / "private" / "course"
    work.mkdir(exist_ok=True)
    if not (work / ".git").is_dir():
        _git(work, "init", "--quiet", f"--initial-branch={BRANCH}")
    for entry in work.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    edition.unpack(root, work, LEFT_OUT)
    said = edition.Edition(
        edition.LEARNERS, edition.version(root) or "", edition.revision(root) or ""
    )
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


def lacks_site(name: str) -> list[str]:
    """A warning where learners, who get the last commit, do not get this site's file as it is."""
    file, root = f"slurm/sites/{name}.sh", paths.root()
    # The checkout may be another user's.
    asked = ("-c", f"safe.directory={root}", "status", "--porcelain", "--", file)
    if not name or not files.git(root, *asked):
        return []
    return [
        f"{file} is not in the last commit as it is now, and learners get the last commit: git add"
        f" {file}, git commit, make hub-stop, and make hub again."
    ]


def _git(folder: Path, *arguments: str) -> str:
    """What git printed. It knows nothing of the user's own settings. LabError when it fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "The labs", f"GIT_{role}_EMAIL": "labs@localhost"}
    # The checkout may be another user's, whose Python root runs as well.
    command = ["git", "-c", f"safe.directory={folder}", "-C", str(folder), *arguments]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise LabError(
            f"git {arguments[0]} failed in {paths.shown(folder)}:"
            f" {' '.join(reason) or 'no message'}"
        )
    return done.stdout.decode(errors="replace")

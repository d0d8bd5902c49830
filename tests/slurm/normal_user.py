"""For tests run by root: a normal user, who exists only in a mount namespace of the test's own.

/etc/passwd, group, subuid and subgid are covered there by copies with one more line: the machine's own files
stay as they are. What the user runs is copied to where a stranger may read it, as a checkout below /root may
not be.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from labkit import paths

from env.install import debian

USER, UID = "tabletoplearner", 54321
_COVER = f"""
for file in passwd group subuid subgid; do mount --bind "$0/etc/$file" "/etc/$file"; done
cd "$0/checkout"
exec setpriv --reuid={UID} --regid={UID} --init-groups -- "$@"
"""


LACKING = debian.lacks_slurm() and not os.environ.get("CI")
needs_slurm = pytest.mark.skipif(bool(LACKING), reason=f"needs {debian.command(debian.packages('tabletop'))}")


def command_line(*arguments: str, module: str = "slurm.tabletop", **options) -> subprocess.CompletedProcess:
    """`python -m slurm.tabletop …`, or that of another module, from the checkout's root."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, timeout=90, **options)


class NormalUser:
    """Runs commands as a user without rights, in a folder of its own (not as root: as who runs the tests)."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tabletop-user-"))
        self.folder.chmod(0o755)
        self.home = self.folder / "home"
        self._files()
        self.python = self._python()

    def _files(self) -> None:
        root = paths.root()
        for name in ("slurm/tabletop", "slurm/sites", "labs/labkit"):
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, self.folder / "checkout" / name, ignore=leave)
        self.home.mkdir()
        lines = {
            "passwd": f"{USER}:x:{UID}:{UID}::{self.home}:/bin/bash",
            "group": f"{USER}:x:{UID}:",
            "subuid": f"{USER}:200000:65536",
            "subgid": f"{USER}:200000:65536",
        }
        (self.folder / "etc").mkdir()
        for name, line in lines.items():
            there = Path("/etc") / name
            old = there.read_text(encoding="utf-8") if there.exists() else ""
            (self.folder / "etc" / name).write_text(f"{old.rstrip()}\n{line}\n".lstrip(), encoding="utf-8")
        if os.geteuid() == 0:
            os.chown(self.home, UID, UID)

    def _python(self) -> str:
        """A Python that this user may run: this one, or the system's."""
        ours = str(Path(paths.root() / ".venv/bin/python").resolve())
        for path in (ours, "/usr/local/bin/python3", "/usr/bin/python3"):
            if self.run([path, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).returncode == 0:
                return path
        raise AssertionError("a normal user finds no Python from 3.10 on: install the package python3")

    def run(self, command: list[str], timeout: float = 90) -> subprocess.CompletedProcess:
        """Run a command as this user, in the copied checkout, with little environment."""
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "PYTHONPATH": "labs", "LC_ALL": "C.UTF-8"}
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "LABKIT_HOME": str(self.home / "labkit")}
        options = {"env": env, "capture_output": True, "text": True, "timeout": timeout}
        if os.geteuid():
            return subprocess.run(command, cwd=self.folder / "checkout", **options)
        cover = ["unshare", "--mount", "bash", "-c", _COVER, str(self.folder)]
        return subprocess.run([*cover, *command], **options)

    def tabletop(self, *arguments: str) -> subprocess.CompletedProcess:
        """`python -m slurm.tabletop …` as this user."""
        return self.run([self.python, "-m", "slurm.tabletop", *arguments])

    def shell(self, text: str) -> subprocess.CompletedProcess:
        """A bash script of this user's, with the cluster's commands at hand."""
        return self.run(["bash", "-ec", f"source {self.home}/labkit/tabletop/table/env.sh\n{text}"])

"""A small checkout of its own, to generate labs in and to run commands in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from labkit import paths

WRONG = "tests/labs/wrong_answers"


class Checkout:
    """A small checkout of its own, with labkit in it, to generate labs in and to run commands
    in."""

    def __init__(self, root: Path):
        self.root = root
        for name in ("solutions", "labs", "notebooks", WRONG):
            (root / name).mkdir(parents=True)
        real = paths.root()
        bytecode = shutil.ignore_patterns("__pycache__")
        modules = shutil.ignore_patterns("__pycache__", "lab[0-9][0-9]*")  # those of the real labs
        for name in ("labkit", "virtual", "verdict", "classroom", "support", "authoring"):
            shutil.copytree(
                real / "labs" / name,
                root / "labs" / name,
                ignore=modules if name == "support" else bytecode,
            )
        way = ("tests/__init__.py", "tests/labs/visit.py", "tests/labkit/plots/texts.py")
        for file in (*(real / name for name in way), *(real / WRONG).rglob("[!0-9]*.py")):
            target = root / file.relative_to(real)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        (root / "README.md").write_text(
            "# Labs\n\n<!-- labs:begin -->\n<!-- labs:end -->\n", encoding="utf-8"
        )

    def python(self, *arguments: str, timeout: float = 120, **more) -> subprocess.CompletedProcess:
        """Run this Python in the checkout, with the checkout's packages."""
        env = {**os.environ, "PYTHONPATH": str(self.root / "labs"), **more.pop("env", {})}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **more,
        )

"""A checkout of its own for each test of the set-up, so that none touches the environment that runs
it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from env.install import environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path):
    """A checkout with what the set-up reads, and nothing else."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "env", root / "env", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.fixture
def set_up(checkout) -> Callable[..., subprocess.CompletedProcess]:
    """Runs that checkout's env/setup.py with no settings but those given."""

    def run(**settings: str) -> subprocess.CompletedProcess:
        clean = {
            name: value for name, value in os.environ.items() if name not in environment.SETTINGS
        }
        clean["XDG_CACHE_HOME"] = str(checkout / "cache")
        command = [sys.executable, str(checkout / "env" / "setup.py")]
        return subprocess.run(
            command, env=clean | settings, capture_output=True, text=True, timeout=300
        )

    return run

"""The small library with which what labkit starts on one machine listens on the loopback address alone."""

from __future__ import annotations

import sys
from pathlib import Path

from env.install.steps import Step

SOURCE = Path(__file__).with_name("loopback.c")


def library(venv: Path) -> Path:
    """Where labkit looks for it (labs/labkit/launch/loopback.py)."""
    return venv / "lib" / "labkit-loopback.so"


def build(step: Step, venv: Path, compiler: str) -> None:
    """Compile it, on Linux; elsewhere there is no LD_PRELOAD. compiler: a C++ compiler's path."""
    if not sys.platform.startswith("linux"):
        return
    target = library(venv)
    part = target.with_suffix(".part")
    step.run([compiler, "-x", "c", "-shared", "-fPIC", "-O2", "-o", part, SOURCE])
    part.replace(target)  # a run that is under way has the old one, and keeps it

"""Which Pythons the set-up serves, and which of them is here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from env.install.steps import StepFailed

# In the order in which they are looked for: the best tested one first. setup.py, the Makefile and
# pyproject.toml name them, too; a test compares.
SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 10))
NAMES = tuple(f"python{major}.{minor}" for major, minor in SUPPORTED)
NEWEST = max(SUPPORTED)
ASK = (  # in words that every Python understands
    "import platform, sys, sysconfig; print(' '.join([platform.python_implementation().lower(), "
    "'%d %d' % sys.version_info[:2], str(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)]))"
)
INSTALL = (
    "Install Python 3.10, 3.11, 3.12 or 3.13 (Debian 12 and 13: `sudo apt-get install python3"
    " python3-venv python3-dev`; pyenv, uv or conda bring one without root) and, where it is not in"
    " PATH, name it: make setup PYTHON=/path/to/python3.13"
)


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says of itself."""

    implementation: str
    version: tuple[int, int]
    free_threaded: bool

    @property
    def supported(self) -> bool:
        return (
            self.implementation == "cpython"
            and self.version in SUPPORTED
            and not self.free_threaded
        )

    def __str__(self) -> str:
        number = ".".join(map(str, self.version))
        if self.implementation != "cpython":
            return f"{self.implementation} {number}"
        return f"Python {number}" + (
            ", built without the global lock" if self.free_threaded else ""
        )

    def reason(self) -> str:
        """Why the set-up cannot use it, as a sentence."""
        if self.implementation != "cpython" or self.free_threaded:
            return (
                "PyTorch, TensorFlow and Horovod are built here for CPython with its global lock."
            )
        if self.version > NEWEST:
            return (
                f"{self} waits for TensorFlow 2.22; this kit pins 2.21, which is not built for it."
            )
        return f"{self} is too old for PyTorch and TensorFlow of today."


def ask(path: str) -> Interpreter | None:
    """What the interpreter says of itself; None when it does not run, as some of pyenv's shims."""
    try:
        answer = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    facts = answer.stdout.split()
    if answer.returncode or len(facts) != 4:
        return None
    return Interpreter(facts[0], (int(facts[1]), int(facts[2])), facts[3] == "1")


def find(wanted: str | None, venv: Path) -> str:
    """The path of the interpreter to use: PYTHON if it is set, else the environment's own if there
    is one.

    Else the first that is here and supported. Raises StepFailed with what to install when there is
    none.
    """
    if wanted:
        return check(wanted)
    own = venv / "bin" / "python"
    if own.exists() and (made_with := ask(str(own))) and made_with.supported:
        return str(own)
    others = []
    for name in (*NAMES, "python3", sys.executable):
        path = shutil.which(name)
        interpreter = ask(path) if path else None
        if interpreter and interpreter.supported:
            return path
        if interpreter:
            others.append(f"{name} is {interpreter}")
    here = "; ".join(others) or "no python3 either"
    running = ask(sys.executable)
    reason = f"{running.reason()} " if running and not running.supported else ""
    raise StepFailed(f"none of {', '.join(NAMES)} was found ({here})", reason + INSTALL)


def check(wanted: str) -> str:
    """The path of the interpreter that PYTHON names. Raises StepFailed when it cannot be used."""
    path = shutil.which(wanted)
    if path is None:
        raise StepFailed(f"PYTHON={wanted} was not found", INSTALL)
    interpreter = ask(path)
    if interpreter is None:
        raise StepFailed(f"PYTHON={wanted} does not run, or is no Python", INSTALL)
    if not interpreter.supported:
        raise StepFailed(f"PYTHON={wanted} is {interpreter}", f"{interpreter.reason()} {INSTALL}")
    return path

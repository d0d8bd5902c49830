"""Fetch the wheels of a bundle, for another Python than the one that fetches."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from pathlib import Path

from env.bundle.contents import normal
from env.install.steps import Step, StepFailed, pip_progress

# glibc 2.28 is that of RHEL 8 and Debian 10; a wheel may ask for an older one.
OLDEST, NEWEST = 5, 28
PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in range(NEWEST, OLDEST - 1, -1))
OLD_NAMES = ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64")


class Fetcher:
    """Downloads wheels for one Python into a folder."""

    def __init__(self, step: Step, python: str, folder: Path):
        self.step = step
        self.python = python
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def fetch(self, pins: list[str]) -> None:
        """Fetch these, without what they need. Raises StepFailed where there is no wheel."""
        platforms = [word for name in (*PLATFORMS, *OLD_NAMES) for word in ("--platform", name)]
        target = ["--python-version", self.python, "--implementation", "cp", *platforms]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
        self.step.run(
            [*pip, "--only-binary=:all:", *target, "--dest", self.folder, *pins], progress=pip_progress
        )

    def requirements_of(self, pins: list[str]) -> dict[str, list[str]]:
        """Fetch these; package -> its "Requires-Dist" lines."""
        self.fetch(pins)
        by_name = {normal(wheel.name.split("-")[0]): wheel for wheel in self.folder.glob("*.whl")}
        names = [normal(pin.split("==")[0]) for pin in pins]
        return {name: requirements(by_name[name]) for name in names}


def requirements(wheel: Path) -> list[str]:
    """The "Requires-Dist" lines of a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        name = next(name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(packed.read(name))
    return told.get_all("Requires-Dist") or []


def check_python(python: str) -> str:
    """The wish for a Python, as "3.12". Raises StepFailed for one that the kit does not serve."""
    from env.install.pythons import SUPPORTED

    known = [f"{major}.{minor}" for major, minor in sorted(SUPPORTED)]
    wish = python.removeprefix("python")
    if wish not in known:
        raise StepFailed(
            f"PYTHON={python} is none of {', '.join(known)}",
            "Name the Python of the GPU machine by its version: `python3 --version` there shows it, and "
            "`make gpu-bundle PYTHON=3.12` is for 3.12.",
        )
    return wish


def own_version() -> str:
    """The version of the Python that runs this, as "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def has_pip() -> bool:
    """Whether this Python has pip."""
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0

"""Debian packages: which are missing, and their installation where that is allowed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from env.install.steps import Step

LIST = Path(__file__).resolve().parent / "debian-packages.txt"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def packages(section: str) -> list[str]:
    """The packages of one section (`setup`, `tests`, `tabletop` or `container`) of
    debian-packages.txt."""
    names, header = [], ""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            header = line.strip("[] ")
        elif header == section and line.split("#")[0].strip():
            names.append(line.split("#")[0].strip())
    return names


def compiler() -> str | None:
    """The C++ compiler that CMake will take."""
    return shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++")


def missing_tools() -> list[str]:
    """Programs that the set-up itself needs and that are not in PATH."""
    found = {"g++": compiler(), "make": shutil.which("make"), "patch": shutil.which("patch")}
    return [name for name, path in found.items() if not path]


def browser() -> str | None:
    """The browser that the notebook test drives."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def lacks_slurm() -> list[str]:
    """Programs of the tabletop cluster that are not there. A normal user's PATH may lack the sbin
    folders."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    programs = ("slurmctld", "slurmd", "sbatch", "munged", "ip", "tc", "newuidmap")
    return [name for name in programs if not shutil.which(name, path=path)]


def may_install() -> bool:
    """True as root on a machine with apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def command(names: list[str]) -> str:
    """What to type to install them."""
    return (
        f"sudo apt-get update && sudo apt-get install -y --no-install-recommends {' '.join(names)}"
    )


def install(step: Step, names: list[str]) -> None:
    """Install packages as root. Raises StepFailed when apt does."""
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    known = subprocess.run(["apt-cache", "show", *names], capture_output=True).returncode == 0
    if not known:
        step.run(["apt-get", "update"], env=env)
    # Another apt-get that runs now is waited for, as two set-ups at a time may start one each.
    wait = ["-o", "DPkg::Lock::Timeout=600"]
    step.run(["apt-get", *wait, "install", "-y", "--no-install-recommends", *names], env=env)

"""Which MPI the environment is built on: the mpich wheel inside it, or a site's under MPI_HOME."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from env.install.steps import StepFailed

LAUNCHERS = ("mpiexec", "mpirun", "mpirun_rsh")
COMPILERS = ("mpicc", "mpicxx")
ASK = (
    "import ctypes, sys; b = ctypes.create_string_buffer(8192); n = ctypes.c_int(); "
    "ctypes.CDLL(sys.argv[1]).MPI_Get_library_version(b, ctypes.byref(n)); print(b.value.decode())"
)


@dataclass(frozen=True)
class Mpi:
    """An MPI: `home` holds bin/ and lib/. `site` is False for the mpich wheel in the virtual
    environment."""

    home: Path
    site: bool
    identity: str  # family and version, part of the key of the cached wheel

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The folders of its libraries."""
        return tuple(path for path in (self.home / "lib", self.home / "lib64") if path.is_dir())

    def rpath(self) -> list[str]:
        """Where Horovod's extensions look for libmpi: beside them (any checkout), or at the site's
        place."""
        return [str(path) for path in self.libraries] if self.site else ["$ORIGIN/../../../.."]

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """`base` with this MPI's compilers and launcher found first."""
        env = dict(base, MPI_HOME=str(self.home))
        env["PATH"] = f"{self.home / 'bin'}{os.pathsep}{base.get('PATH', os.defpath)}"
        if self.site:
            env["MPICC"] = str(self.home / "bin" / "mpicc")
        return env


def site_home(value: str) -> Path:
    """Check MPI_HOME. Raises StepFailed with what is missing."""
    home = Path(value).expanduser().absolute()
    missing = [name for name in COMPILERS if not (home / "bin" / name).exists()]
    if missing:
        raise StepFailed(
            f"MPI_HOME={value} holds no bin/{missing[0]}",
            "Set MPI_HOME to the folder above MPI's bin/ (`which mpicxx` after `module load` shows"
            " it); without MPI_HOME the mpich wheel is used.",
        )
    if not _has_launcher(home) and not shutil.which("srun"):
        raise StepFailed(
            f"MPI_HOME={value} has none of {', '.join(LAUNCHERS)} in bin/, and there is no srun",
            "Use a complete MPI, or set up where Slurm's srun is in PATH.",
        )
    return home


def _has_launcher(home: Path) -> bool:
    return any((home / "bin" / name).exists() for name in LAUNCHERS)


def library_version(home: Path) -> str:
    """The first line of MPI_Get_library_version, asked in another process; empty when it cannot be
    loaded."""
    for folder in ("lib", "lib64"):
        for library in sorted((home / folder).glob("libmpi.so*")):
            command = [sys.executable, "-c", ASK, str(library)]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if answer.returncode == 0 and answer.stdout.strip():
                return " ".join(answer.stdout.splitlines()[0].split())
    return ""


def find(venv: Path, mpi_home: str | None) -> Mpi:
    """The MPI to use. Raises StepFailed when MPI_HOME is not one, or the wheel is not there."""
    if mpi_home:
        home = site_home(mpi_home)
        return Mpi(home, True, f"{home} {library_version(home)}")
    if not (venv / "bin" / "mpicxx").exists():
        raise StepFailed("the mpich wheel is not in the environment", "Run `make setup` again.")
    return Mpi(venv, False, f"mpich wheel {library_version(venv)}")


def remove_commands(venv: Path) -> None:
    """Take the launchers and compilers of whatever MPI out of the environment."""
    for name in (*LAUNCHERS, *COMPILERS):
        (venv / "bin" / name).unlink(missing_ok=True)


def put_site_commands(mpi: Mpi, venv: Path) -> None:
    """Make the environment's `mpiexec` and friends the site's: scripts, as hydra looks beside its
    file.

    Where the site's MPI has no launcher, as Cray's, srun starts the ranks.
    """
    for name in (*LAUNCHERS, *COMPILERS):
        target, script = mpi.home / "bin" / name, venv / "bin" / name
        if not target.exists():
            continue
        _write_script(script, f'exec "{target}" "$@"\n')
    if not _has_launcher(mpi.home):
        _write_script(
            venv / "bin" / "mpiexec", f'MPI_HOME="{mpi.home}"\nexec "{shutil.which("srun")}" "$@"\n'
        )
    if not (venv / "bin" / "mpiexec").exists() and (venv / "bin" / "mpirun").exists():
        shutil.copy2(venv / "bin" / "mpirun", venv / "bin" / "mpiexec")


def _write_script(script: Path, text: str) -> None:
    script.unlink(missing_ok=True)
    script.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def by_srun(venv: Path) -> bool:
    """Is the environment's mpiexec Slurm's srun?"""
    script = venv / "bin" / "mpiexec"
    return script.exists() and b'/srun" "$@"' in script.read_bytes()[:4096]

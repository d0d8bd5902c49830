"""Environments made of links to this one, with copies of its Horovod and MPI beside, as other
builds."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


def linked(folder: Path) -> Path:
    """An environment in which all is this one's, by links; sys.prefix of its Python is the
    folder."""
    prefix = Path(sys.prefix)
    packages = folder / "lib" / VERSION / "site-packages"
    (folder / "bin").mkdir(parents=True)
    packages.parent.mkdir(parents=True)
    packages.symlink_to(sysconfig.get_path("purelib"))
    for place in ("bin", "lib"):
        for file in (prefix / place).iterdir():
            if file.name != VERSION:
                (folder / place / file.name).symlink_to(file)
    shutil.copy(prefix / "pyvenv.cfg", folder)
    return folder


def add_horovod(environment: Path, name: str, default: str = "host") -> Path:
    """A copy of this environment's Horovod as another build; its folder."""
    packages = Path(sysconfig.get_path("purelib"))
    folder = environment / "lib" / VERSION / f"horovod-{name}"
    for part in ("horovod", *(path.name for path in packages.glob("horovod-*.dist-info"))):
        shutil.copytree(
            packages / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    listed = {"host": f"lib/{VERSION}/site-packages", name: f"lib/{VERSION}/horovod-{name}"}
    text = json.dumps({"default": default, "folders": listed})
    (environment / "horovod-builds.json").write_text(text, encoding="utf-8")
    return folder


def add_mpi(environment: Path) -> Path:
    """A copy of this environment's MPI where MVAPICH2 would be; its folder.

    The files are others, so that a process shows which of the two it has loaded.
    """
    folder = environment / "mvapich2"
    prefix = Path(sys.prefix)
    for place in ("bin", "lib"):
        (folder / place).mkdir(parents=True)
    for name in ("mpiexec", "hydra_pmi_proxy"):
        shutil.copy(prefix / "bin" / name, folder / "bin")
    for file in (prefix / "lib").glob("libmpi.so*"):
        shutil.copy(file, folder / "lib", follow_symlinks=False)
    (folder / "lib" / "mpich").symlink_to(prefix / "lib" / "mpich")
    (folder / "installed.json").write_text("{}", encoding="utf-8")
    return folder


def use(environment: Path, monkeypatch) -> None:
    """Let this process, and what it starts, take the environment for its own."""
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "executable", str(environment / "bin" / "python"))
    for name in ("LABKIT_HOROVOD", "LABKIT_MPI_BUILD", "LD_LIBRARY_PATH", "MPI4PY_MPIABI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}")

"""The folder of a build: made to work wherever it lies, and put into .venv."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

# What configure is told; nothing is ever there. Long, so that what takes its place inside of a file fits.
PLACEHOLDER = "/hpdl-labs-mvapich2-prefix-to-be-replaced"
LAYOUT = 1  # of what `make_movable` leaves; part of the cache's key
ELF = b"\x7fELF"
# How a file says "the folder above the one I lie in": those of pkg-config, and all others, which are scripts.
OWN_PREFIX = {".pc": "${pcfiledir}/../..", "": '"$(dirname "$(dirname "$(readlink -f "$0")")")"'}


def make_movable(tree: Path, flags: str) -> None:
    """Let an installed tree work in any folder: no file of it may depend on the prefix it was configured for.

    Programs find the library beside them ($ORIGIN), scripts take the folder they lie in for the prefix. hydra
    and mpirun_rsh look for their helpers beside themselves as they are.

    flags: the compiler flags of this build, which mpicc would else hand on to the programs of learners.
    """
    for file in sorted(tree.rglob("*")):
        if file.is_symlink() or not file.is_file():
            continue
        data = file.read_bytes()
        if file.suffix == ".la":
            file.unlink()  # libtool's notes on where the libraries lie
        elif PLACEHOLDER.encode() in data:
            mode = file.stat().st_mode
            own = OWN_PREFIX.get(file.suffix, OWN_PREFIX[""])
            file.write_bytes(
                movable_program(data) if data.startswith(ELF) else movable_text(data, own, flags)
            )
            file.chmod(mode)


def movable_program(data: bytes) -> bytes:
    """A program or library whose run path is the folder lib beside its own."""
    # libtool leaves the folder of the compilation before it, when it installs into a stage.
    return re.sub(
        rb"[^\0]*" + f"{PLACEHOLDER}/lib".encode() + rb"\0",
        lambda found: b"$ORIGIN/../lib".ljust(len(found[0]), b"\0"),
        data,
    )


def movable_text(data: bytes, own: str, flags: str) -> bytes:
    """A file whose prefix is `own` where it is assigned, and that variable elsewhere; without the flags."""
    text = data.decode("utf-8", errors="surrogateescape").replace(flags, "")
    text = text.replace(f"\nprefix={PLACEHOLDER}\n", f"\nprefix={own}\n").replace(PLACEHOLDER, "${prefix}")
    return text.encode("utf-8", errors="surrogateescape")


def put(tree: Path, target: Path) -> Path:
    """Copy a build to `target`.new, which no one takes for `target`; returns that folder."""
    new = target.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(tree, new, symlinks=True)
    return new


def take_over(target: Path) -> None:
    """Let `target`.new become `target`; what was there before goes."""
    old = target.with_suffix(".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.replace(target, old)
    os.replace(target.with_suffix(".new"), target)
    shutil.rmtree(old, ignore_errors=True)


def size(tree: Path) -> int:
    """Bytes of the files in it."""
    return sum(file.lstat().st_size for file in tree.rglob("*") if not file.is_dir())

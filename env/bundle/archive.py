"""One file for all of a bundle, as small as it gets, and how it is opened.

A wheel is a zip file, whose parts are compressed one by one. Stored as they are in one xz file, they take
less.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

from env.install.steps import StepFailed

FILE = "bundle.tar.xz"
MANIFEST = "bundle.json"
WHEELS = "wheels"
SOURCES = "horovod"


def store(wheel: Path, folder: Path) -> Path:
    """The same wheel in that folder, with nothing in it compressed."""
    stored = folder / wheel.name
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as plain:
        for entry in packed.infolist():
            content = packed.read(entry)
            entry.compress_type = zipfile.ZIP_STORED
            plain.writestr(entry, content)
    return stored


def pack(folder: Path, file: Path) -> None:
    """All that is below the folder, in one file."""
    with tarfile.open(file, "w:xz", preset=6) as packed:
        for path in sorted(folder.iterdir()):
            packed.add(path, arcname=path.name)


def digest(file: Path) -> str:
    """A fingerprint of the file."""
    checksum = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            checksum.update(block)
    return checksum.hexdigest()


def manifest(folder: Path) -> dict:
    """What a bundle says of itself. Raises StepFailed where the folder holds none, or a damaged one."""
    cure = "`make gpu-bundle`, on a machine with a network, writes build/gpu-bundle: bring that folder along."
    try:
        told = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        file = folder / FILE
        if told["sha256"] != digest(file):
            raise StepFailed(f"{file} is not the file that {MANIFEST} beside it tells of", cure)
    except (OSError, ValueError, KeyError, TypeError):
        raise StepFailed(f"{folder} holds no bundle", cure) from None
    return told


def unpack(folder: Path, target: Path) -> None:
    """Open the bundle into a folder. Raises StepFailed where it is damaged."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(folder / FILE, "r:xz") as packed:
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            packed.extractall(target, **safe)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise StepFailed(f"{folder / FILE} cannot be read: {error}", "Bring the bundle once more.") from None

"""Wheels of a few bytes, for tests of what is installed and what is not."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make(
    folder: Path, name: str, version: str, files: dict[str, str], needs: tuple[str, ...] = ()
) -> Path:
    """A wheel with these files that asks for `needs`, in a folder that is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    wishes = "".join(f"Requires-Dist: {need}\n" for need in needs)
    contents = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wishes}",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{file},,\n" for file in [*contents, f"{info}/RECORD"])
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, text in (contents | {f"{info}/RECORD": record}).items():
            archive.writestr(file, text)
    return wheel

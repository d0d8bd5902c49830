"""The files of a commit, and archives of files that have the same bytes each time."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabError


@dataclass(frozen=True)
class File:
    """One file of an archive."""

    content: bytes
    executable: bool = False


def committed(root: Path, revision: str = "HEAD") -> dict[str, File]:
    """Path -> file of all files of a commit; a link counts as the text that it holds."""
    command = ["git", "-C", str(root), "archive", "--format=tar", revision]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise LabError(
            f"A release is made from the last commit, and git cannot be run ({error})."
        ) from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise LabError(
            f"A release is made from the last commit; there is none here: {' '.join(reason)}"
        )
    files = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar.getmembers():
            if member.isfile():
                files[member.name] = File(tar.extractfile(member).read(), bool(member.mode & 0o100))
    return files


def commit_time(root: Path) -> int:
    """When the last commit was made, in seconds since 1970."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def changes(root: Path) -> list[str]:
    """The tracked files that differ from the last commit."""
    command = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return [line[3:] for line in said.splitlines()]


def write(target: Path, folder: str, files: Mapping[str, File], seconds: int) -> None:
    """Write files below one folder to a .tar.gz: in order, all of the same time, nobody's own.

    seconds: the time that all of them carry, since 1970.
    """
    with (
        open(target, "wb") as raw,
        gzip.GzipFile(
            filename="", fileobj=raw, mode="wb", compresslevel=9, mtime=seconds
        ) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(files[name].content)
            entry.mode = 0o755 if files[name].executable else 0o644
            entry.mtime = seconds
            tar.addfile(entry, io.BytesIO(files[name].content))


def unpack(folder: Path, files: Mapping[str, File]) -> None:
    """Write the files into a folder."""
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(0o755 if file.executable else 0o644)

"""The same images on disk in four formats, and a reader for each.

The images are scikit-learn's digits, enlarged, with noise, as JPEG; stored class by class, as ImageNet's are.
"""

from __future__ import annotations

import atexit
import errno
import io
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from labkit import data, paths
from labkit.errors import LabError, NotHere


@dataclass(frozen=True)
class Stored:
    """The same images (JPEG) in four formats. files, shards: paths. nbytes: of the JPEGs together."""

    folder: Path
    labels: np.ndarray
    files: list[Path]
    hdf5: Path
    lmdb: Path
    shards: list[Path]
    nbytes: int

    def paths(self, kind: str) -> list[Path]:
        """The files of one format: "files", "hdf5", "lmdb" or "shards"."""
        stored = getattr(self, kind)
        return stored if isinstance(stored, list) else [stored]

    def remove(self) -> None:
        """Delete all of it. What is left is deleted when the process ends."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write(n: int, side: int, shards: int) -> Stored:
    """Store n images of side x side pixels in each format, in a new folder in paths.home().

    Raises NotHere, in a sentence, where the disk is too full.
    """
    if n < 32 or side < 16 or not 1 <= shards <= n:
        least = "32 images or more, of 16 pixels or more, in 1 shard or more, none of them empty"
        raise LabError(f"The lab takes {least}; these are {n} images of {side} pixels in {shards} shards.")
    jpegs, labels = _images(n, side)
    need = 6 * sum(map(len, jpegs)) + 20_000 * n // 10 + 4_000_000  # four formats, tar's padding, slack
    home = paths.home()
    home.mkdir(parents=True, exist_ok=True)
    for old in home.glob("lab15-*"):
        if time.time() - old.stat().st_mtime > 3600:  # of a run that was killed
            shutil.rmtree(old, ignore_errors=True)
    cure = "Make room, take fewer images, or set LABKIT_HOME to a folder on another disk."
    full = f"The disk of {home} is too full: the images need {need / 1e6:.0f} MB. {cure}"
    if shutil.disk_usage(home).free < need:
        raise NotHere(full)
    folder = Path(tempfile.mkdtemp(prefix="lab15-", dir=home))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        files = _write_files(folder, jpegs, labels)
        stored = [_write_hdf5(folder, jpegs, labels), _write_lmdb(folder, jpegs, labels)]
        tars = [
            _write_shard(folder / f"shard-{number:03}.tar", part, jpegs, labels)
            for number, part in enumerate(np.array_split(np.arange(n), shards))
        ]
        for path in [*files, *stored, *tars]:
            with open(path, "rb") as file:
                os.fsync(file.fileno())  # only pages that are on the disk can be dropped from memory
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
            raise NotHere(full) from None
        raise
    return Stored(folder, labels, files, *stored, tars, sum(map(len, jpegs)))


def _images(n: int, side: int) -> tuple[list[bytes], np.ndarray]:
    from PIL import Image

    digits = data.digits()
    rng = np.random.default_rng(0)
    jpegs = []
    labels = np.sort(np.resize(digits.train_y, n))  # class by class
    of_class = {label: np.flatnonzero(digits.train_y == label) for label in range(10)}
    for label in labels:
        pixels = (255 * digits.train_x[rng.choice(of_class[label])].reshape(8, 8)).astype(np.uint8)
        large = np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC), np.int16)
        noisy = (large[..., None] + rng.integers(-30, 31, (side, side, 3))).clip(0, 255).astype(np.uint8)
        target = io.BytesIO()
        Image.fromarray(noisy).save(target, "JPEG", quality=85)
        jpegs.append(target.getvalue())
    return jpegs, labels


def _write_files(folder: Path, jpegs: list[bytes], labels) -> list[Path]:
    paths = [folder / str(label) / f"{number:06}.jpg" for number, label in enumerate(labels)]
    for path, jpeg in zip(paths, jpegs, strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg)
    return paths


def _write_hdf5(folder: Path, jpegs: list[bytes], labels) -> Path:
    import h5py

    with h5py.File(folder / "images.h5", "w") as file:
        file["jpegs"] = np.frombuffer(b"".join(jpegs), np.uint8)
        file["ends"] = np.cumsum([len(jpeg) for jpeg in jpegs])
        file["labels"] = labels
    return folder / "images.h5"


def _write_lmdb(folder: Path, jpegs: list[bytes], labels) -> Path:
    import lmdb

    size = 4 * sum(map(len, jpegs)) + 8192 * len(jpegs) + (1 << 20)
    path = str(folder / "images.lmdb")
    with lmdb.open(path, map_size=size, subdir=False, lock=False) as env, env.begin(write=True) as write:
        for number, (jpeg, label) in enumerate(zip(jpegs, labels, strict=True)):
            write.put(b"%06d" % number, bytes([label]) + jpeg)
    return folder / "images.lmdb"


def _write_shard(path: Path, numbers, jpegs: list[bytes], labels) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in numbers:
            for kind, content in (("jpg", jpegs[number]), ("cls", b"%d" % labels[number])):
                add_member(tar, f"{number:06}.{kind}", content)
    return path


def add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Append a file with this name and content."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def from_files(stored: Stored, order: Iterable[int], open=open) -> Iterator[tuple[bytes, int]]:
    """Images from single files, in this order. A label is the name of the folder."""
    for number in order:
        with open(stored.files[number], "rb") as file:
            yield file.read(), int(stored.files[number].parent.name)


def from_hdf5(stored: Stored, order: Iterable[int]) -> Iterator[tuple[bytes, int]]:
    """Images from one HDF5 file: all JPEGs in one array, with the place where each ends."""
    import h5py

    with h5py.File(stored.hdf5) as file:
        ends = file["ends"][:]
        labels = file["labels"][:]
        jpegs = file["jpegs"]
        for number in order:
            yield jpegs[ends[number - 1] if number else 0 : ends[number]].tobytes(), int(labels[number])


def from_lmdb(stored: Stored, order: Iterable[int]) -> Iterator[tuple[bytes, int]]:
    """Images from an LMDB: a tree of keys in one file that is mapped into memory."""
    import lmdb

    with lmdb.open(str(stored.lmdb), subdir=False, readonly=True, lock=False) as env, env.begin() as read:
        for number in order:
            value = read.get(b"%06d" % number)
            yield value[1:], value[0]


def from_shards(read_shard, paths: Iterable[Path], open=open) -> Iterator[tuple[bytes, int]]:
    """Images from these tar shards, one after the other, by read_shard(stream)."""
    for path in paths:
        with open(path, "rb") as stream:
            yield from read_shard(stream)


def read_shards(paths: Iterable[Path], open=open) -> Iterator[tuple[bytes, int]]:
    """Images from tar shards as `write` makes them: an image, and right behind it its label."""
    for path in paths:
        with open(path, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            contents = (tar.extractfile(member).read() for member in tar)
            for jpeg in contents:
                yield jpeg, int(next(contents))


def from_webdataset(stored: Stored) -> Iterator[tuple[bytes, int]]:
    """Images from the tar shards, by the library webdataset."""
    import webdataset

    for sample in webdataset.WebDataset([str(path) for path in stored.shards], shardshuffle=False):
        yield sample["jpg"], int(sample["cls"])

"""Readers for the standard files of MNIST and CIFAR-10, where the learner has them.

Nothing is ever downloaded. A file that is missing or damaged is named, with what was expected of
it.
"""

from __future__ import annotations

import gzip
import pickle
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from labkit.errors import LabError, NotHere


class Dataset(NamedTuple):
    """Images float32 in [0, 1], labels int64; the first axis counts samples."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


# -------------------------------------------------------------------------------------------- MNIST


def mnist(folder: str | Path) -> Dataset:
    """MNIST (or Fashion-MNIST) from its four idx files, gzipped or not: images (n, 1, 28, 28),
    labels 0..9.

    Format: big-endian magic number 0x0803 (images) or 0x0801 (labels), the dimensions, then
    unsigned bytes.
    """
    parts = []
    for part in ("train", "t10k"):
        images, image_file = _idx(folder, f"{part}-images-idx3-ubyte", dimensions=3)
        labels, label_file = _idx(folder, f"{part}-labels-idx1-ubyte", dimensions=1)
        if len(images) != len(labels):
            raise LabError(
                f"{image_file} holds {len(images):,} images but {label_file} holds {len(labels):,}"
                " labels: they do not belong together."
            )
        parts.append((images[:, None] / np.float32(255)).astype(np.float32))
        parts.append(labels.astype(np.int64))
    return Dataset(*parts)


def _idx(folder: str | Path, name: str, dimensions: int) -> tuple[np.ndarray, Path]:
    path = _first_existing(
        folder,
        [name, f"{name}.gz", name.replace("-idx", ".idx")],
        "MNIST's four idx files, plain or .gz",
    )
    content = _read(path)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, 8, dimensions)):
        raise LabError(
            f"{path} is no idx file of {dimensions} dimensions: it must begin with 00 00 08"
            f" 0{dimensions}."
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected = header + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise LabError(
            f"{path} holds {len(content):,} bytes where its header announces {expected:,}: copy it"
            " again."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape), path


# ----------------------------------------------------------------------------------------- CIFAR-10


def cifar10(folder: str | Path) -> Dataset:
    """CIFAR-10 from its python or its binary version, or a folder above: images (n, 3, 32, 32),
    labels 0..9.

    Python version (cifar-10-batches-py): pickled dicts with b"data" (10000, 3072) uint8 and
    b"labels". Binary version (cifar-10-batches-bin): records of one label byte and 3,072 pixel
    bytes.
    """
    folder = Path(folder)
    for place in (folder, folder / "cifar-10-batches-py", folder / "cifar-10-batches-bin"):
        for suffix, reader in (("", _cifar_pickle), (".bin", _cifar_binary)):
            if (place / f"data_batch_1{suffix}").is_file():
                train = [reader(_present(place / f"data_batch_{i}{suffix}")) for i in range(1, 6)]
                test = [reader(_present(place / f"test_batch{suffix}"))]
                return Dataset(*_join(train), *_join(test))
    raise NotHere(
        f"No CIFAR-10 in {folder}: expected data_batch_1 … data_batch_5 and test_batch, each plain"
        " (python version, cifar-10-batches-py) or ending in .bin (binary version,"
        " cifar-10-batches-bin)."
    )


class _PlainUnpickler(pickle.Unpickler):
    """A pickle may run any code it names; CIFAR's files need nothing but arrays."""

    def find_class(self, module, name):
        arrays = module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype")
        if arrays or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


# What reading a damaged pickle, or one of other content, may raise.
_DAMAGED = (
    pickle.UnpicklingError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
)


def _cifar_pickle(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with open(path, "rb") as file:
            content = _PlainUnpickler(file, encoding="bytes").load()
        pixels = np.asarray(content[b"data"])
        labels = np.asarray(content[b"labels"], np.int64)
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072):
            raise ValueError(f"data has shape {pixels.shape}, labels {labels.shape}")
    except _DAMAGED as error:
        raise LabError(
            f"{path} is damaged ({error}): expected a pickled dict with b'data' of n x 3,072 bytes"
            " and n b'labels'. Copy it again."
        ) from None
    return pixels, labels


def _cifar_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = np.frombuffer(_read(path), np.uint8)
    if not len(content) or len(content) % 3073:
        raise LabError(
            f"{path} holds {len(content):,} bytes, no multiple of 3,073 (a label and 3 x 32 x 32"
            " pixels)."
        )
    rows = content.reshape(-1, 3073)
    return rows[:, 1:], rows[:, 0].astype(np.int64)


def _join(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    pixels = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts])
    return pixels.astype(np.float32) / np.float32(255), labels


# -------------------------------------------------------------------------------------------- files


def _first_existing(folder: str | Path, names: list[str], expected: str) -> Path:
    for name in names:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise NotHere(f"{Path(folder) / names[0]} is not there; expected {expected}.")


def _present(path: Path) -> Path:
    if not path.is_file():
        raise NotHere(
            f"{path} is not there, though {path.parent} holds other parts of this data set."
        )
    return path


def _read(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LabError(f"{path} is no whole gzip file ({error}): copy it again.") from None

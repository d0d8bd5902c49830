"""Data that is there without a network and without files of the learner's.

scikit-learn's handwritten digits, and Python's own source text.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import numpy as np

from labkit.data.files import Dataset
from labkit.errors import NotHere

TRAIN_IMAGES = (
    1536  # = 2**9 * 3: divides into batches of 32, 64, 128, 256 and over 2, 3, 4, 6, 8 ranks
)


def digits() -> Dataset:
    """Handwritten digits, 8 x 8 pixels: 1,536 to train on, 261 to test on, always the same split.

    Images are float32 in [0, 1], shape (n, 64); labels int64 in 0..9. The test part of UCI's
    "Optical recognition of handwritten digits" as scikit-learn ships it (1,797 images, pixels
    0..16).
    """
    pixels, labels = _read_digits()
    order = np.random.default_rng(0).permutation(len(pixels))
    images = (pixels[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int64)
    return Dataset(
        images[:TRAIN_IMAGES], labels[:TRAIN_IMAGES], images[TRAIN_IMAGES:], labels[TRAIN_IMAGES:]
    )


def _read_digits() -> tuple[np.ndarray, np.ndarray]:
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise NotHere(
            "The digits come with scikit-learn, which is not installed here: pip install"
            " scikit-learn."
        )
    table = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    if table.is_file():
        # The same numbers as load_digits(), without the second that importing scikit-learn costs
        # every rank.
        rows = np.loadtxt(table, delimiter=",", dtype=np.uint8)
        return rows[:, :-1], rows[:, -1]
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


class Corpus(NamedTuple):
    """Text as numbers: `vocabulary[token]` is the character that `tokens` (uint8) stand for."""

    tokens: np.ndarray
    vocabulary: str

    def text(self, tokens: np.ndarray) -> str:
        """The characters that these tokens stand for."""
        return "".join(self.vocabulary[token] for token in tokens)


def corpus(size: int = 1 << 20) -> Corpus:
    """The first `size` characters of Python's own standard library, as uint8 tokens, with the
    vocabulary.

    The top-level modules in alphabetical order, ASCII only; the same for everybody who runs the
    same Python.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    # Only names that Python lists as its own: what a distribution put beside them would differ.
    sources = [path for path in sorted(folder.glob("*.py")) if path.stem in sys.stdlib_module_names]
    pieces = []
    length = 0
    for path in sources:
        pieces.append(
            path.read_bytes().decode("ascii", errors="ignore").replace("\r\n", "\n").encode()
        )
        length += len(pieces[-1])
        if length >= size:
            break
    if length < size:
        raise NotHere(
            f"Python's source files in {folder} hold {length:,} characters and {size:,} were asked"
            " for. Ask for fewer, or use a Python that brings its library as .py files."
        )
    text = np.frombuffer(b"".join(pieces), dtype=np.uint8)[:size]
    values, tokens = np.unique(text, return_inverse=True)
    return Corpus(tokens.astype(np.uint8), "".join(map(chr, values)))

"""labkit.data: the same data in the same order for every rank; readers that say what is wrong with
a file."""

import gzip
import os
import pickle
import re
import struct

import numpy as np
import pytest
from labkit import data, paths
from labkit.errors import LabError, NotHere


def test_digits_are_scikit_learns_in_a_fixed_order():
    from sklearn.datasets import load_digits

    digits = data.digits()
    assert [part.shape for part in digits] == [(1536, 64), (1536,), (261, 64), (261,)]
    assert [part.dtype for part in digits] == [np.float32, np.int64] * 2
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(1797)
    images = np.concatenate([digits.train_x, digits.test_x]) * 16
    np.testing.assert_array_equal(images, pixels[order])
    np.testing.assert_array_equal(np.concatenate([digits.train_y, digits.test_y]), labels[order])


def test_batches_are_a_shuffle_of_whole_batches_equal_on_every_rank():
    first = data.batches(1000, 128, epoch=0)
    assert [len(batch) for batch in first] == [128] * 7
    assert len({*np.concatenate(first).tolist()}) == 7 * 128
    np.testing.assert_array_equal(first, data.batches(1000, 128, epoch=0))
    assert not np.array_equal(first, data.batches(1000, 128, epoch=1))
    assert not np.array_equal(first, data.batches(1000, 128, epoch=0, seed=1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_shards_part_a_batch(size):
    batch = data.batches(1536, 128, epoch=3)[5]
    shards = [data.shard(batch, rank, size) for rank in range(size)]
    assert sorted(np.concatenate(shards)) == sorted(batch)
    np.testing.assert_array_equal(shards[0], batch[::size])


def test_corpus_is_python_source():
    corpus = data.corpus(50_000)
    assert (corpus.tokens.shape, corpus.tokens.dtype) == ((50_000,), np.uint8)
    assert list(corpus.vocabulary) == sorted(set(corpus.vocabulary))
    assert corpus.tokens.max() < len(corpus.vocabulary)
    assert "import " in corpus.text(corpus.tokens)
    assert data.corpus(1000).tokens.shape == (1000,)
    with pytest.raises(NotHere, match="Ask for fewer"):
        data.corpus(1 << 40)


# --- MNIST


def write_idx(path, array):
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def mnist_folder(tmp_path):
    rng = np.random.default_rng(1)
    for part, n, zipped in (("train", 6, ".gz"), ("t10k", 4, "")):
        images = rng.integers(256, size=(n, 28, 28)).astype(np.uint8)
        write_idx(tmp_path / f"{part}-images-idx3-ubyte{zipped}", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte{zipped}", np.arange(n, dtype=np.uint8))
    return tmp_path


def test_mnist_plain_and_zipped(mnist_folder, monkeypatch):
    monkeypatch.setenv("HOME", str(mnist_folder.parent))
    typed = (mnist_folder, f"~/{mnist_folder.name}", os.path.relpath(mnist_folder, paths.root()))
    for folder in typed:
        train_x, train_y, test_x, test_y = data.load(f"mnist:{folder}")
        assert (train_x.shape, train_x.dtype) == ((6, 784), np.float32)
        assert train_y.tolist() == [0, 1, 2, 3, 4, 5]
        assert (test_x.shape, test_y.dtype) == ((4, 784), np.int64)
    written = np.random.default_rng(1).integers(256, size=(6, 28, 28))
    np.testing.assert_allclose(train_x.reshape(6, 28, 28), written / 255, rtol=1e-6)


LABELS, IMAGES = "t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte"
ONE_MORE = "4 images but .* 5 labels"


@pytest.mark.parametrize(
    ("name", "spoil", "error", "says"),
    [
        (LABELS, lambda whole: None, NotHere, "is not there; expected MNIST's four idx files"),
        (LABELS, lambda whole: whole[:7] + b"\5" + whole[8:] + b"\0", LabError, ONE_MORE),
        (
            IMAGES,
            lambda whole: whole[:-1],
            LabError,
            "3,151 bytes where its header announces 3,152",
        ),
        (IMAGES, lambda whole: b"<html>" + whole, LabError, "is no idx file of 3 dimensions"),
        (IMAGES, lambda whole: whole[:9], LabError, "is no idx file of 3 dimensions"),
        ("train-images-idx3-ubyte.gz", lambda whole: whole[:-20], LabError, "no whole gzip file"),
    ],
)
def test_mnist_says_which_file_is_damaged(mnist_folder, name, spoil, error, says):
    path = mnist_folder / name
    spoilt = spoil(path.read_bytes())
    if spoilt is None:
        path.unlink()
    else:
        path.write_bytes(spoilt)
    with pytest.raises(error, match=f"{name}.*{says}|{says}"):
        data.load(f"mnist:{mnist_folder}")


# --- CIFAR-10


def write_cifar(folder, suffix):
    folder.mkdir()
    rng = np.random.default_rng(2)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        pixels, labels = rng.integers(256, size=(3, 3072)).astype(np.uint8), [7, 0, 9]
        rows = zip(labels, pixels, strict=True)
        content = b"".join(bytes([label]) + row.tobytes() for label, row in rows)
        if not suffix:
            content = pickle.dumps({b"data": pixels, b"labels": labels}, protocol=2)
            # As in the files that were written in 2009.
            content = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        (folder / f"{name}{suffix}").write_bytes(content)


@pytest.mark.parametrize(
    ("name", "suffix"), [("cifar-10-batches-py", ""), ("cifar-10-batches-bin", ".bin")]
)
def test_cifar10_both_versions(tmp_path, name, suffix):
    write_cifar(tmp_path / name, suffix)
    for folder in (tmp_path, tmp_path / name):
        train_x, train_y, test_x, test_y = data.load(f"cifar10:{folder}")
        assert (train_x.shape, train_x.dtype) == ((15, 3072), np.float32)
        assert train_y.tolist() == [7, 0, 9] * 5
        assert (test_x.shape, test_y.tolist()) == ((3, 3072), [7, 0, 9])


OF_WRONG_SHAPE = pickle.dumps({b"data": np.zeros((2, 3), np.uint8), b"labels": [1]})
A_PROGRAM = b"cos\nsystem\n(S'true'\ntR."  # reading it would run it


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("bin/data_batch_4.bin", b"short", r"data_batch_4\.bin holds 5 bytes"),
        ("py/data_batch_2", b"\x80\x02}q", "data_batch_2 is damaged"),
        ("py/data_batch_3", OF_WRONG_SHAPE, "damaged"),
        ("py/data_batch_1", A_PROGRAM, r"it asks for (os|posix)\.system"),
        ("py/data_batch_5", None, "data_batch_5 is not there"),
    ],
)
def test_cifar10_names_what_is_missing_or_damaged(tmp_path, file, content, says):
    folder = tmp_path / file.split("/")[0]
    write_cifar(folder, ".bin" if folder.name == "bin" else "")
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(LabError, match=says):
        data.load(f"cifar10:{folder}")


@pytest.mark.parametrize(
    ("dataset", "error", "words"),
    [
        ("minst:/there", LabError, '"minst:/there" names no data set. There are "digits", and of'),
        ("digits:/there", LabError, "names no data set"),
        ("mnist", LabError, 'which folder its files are: write "mnist:FOLDER"'),
        ("mnist:/nowhere", NotHere, "is not there; expected MNIST's four idx files"),
        ("cifar10:/nowhere", NotHere, "No CIFAR-10 in /nowhere: expected data_batch_1"),
    ],
)
def test_load_says_what_is_wrong(dataset, error, words):
    with pytest.raises(error, match=re.escape(words)):
        data.load(dataset)

"""labkit.data: the same data in the same order for every rank; readers that say what is wrong with a file."""

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
    digits = data.digits()
    assert [part.shape for part in digits] == [(1536, 64), (1536,), (261, 64), (261,)]
    assert digits.train_x.dtype == np.float32
    assert digits.train_y.dtype == np.int64
    assert digits.train_x.min() == 0
    assert digits.train_x.max() == 1
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(1797)
    np.testing.assert_array_equal(np.concatenate([digits.train_x, digits.test_x]) * 16, pixels[order])
    np.testing.assert_array_equal(np.concatenate([digits.train_y, digits.test_y]), labels[order])
    assert np.bincount(digits.test_y).min() >= 15  # every digit is there to be tested


def test_batches_are_a_shuffle_of_whole_batches_equal_on_every_rank():
    first = data.batches(1000, 128, epoch=0)
    assert len(first) == 7
    assert all(len(batch) == 128 for batch in first)
    everything = np.concatenate(first)
    assert len(set(everything.tolist())) == len(everything)
    np.testing.assert_array_equal(first, data.batches(1000, 128, epoch=0))
    assert not np.array_equal(first, data.batches(1000, 128, epoch=1))
    assert not np.array_equal(first, data.batches(1000, 128, epoch=0, seed=1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_shards_part_a_batch(size):
    batch = data.batches(1536, 128, epoch=3)[5]
    shards = [data.shard(batch, rank, size) for rank in range(size)]
    assert sorted(np.concatenate(shards)) == sorted(batch)
    np.testing.assert_array_equal(shards[0], batch[::size])


@pytest.mark.parametrize("call", [lambda: data.batches(10, 0, 0), lambda: data.batches(10, 11, 0)])
def test_an_impossible_batch_is_a_sentence(call):
    with pytest.raises(LabError, match="between 1 and the 10 samples"):
        call()


def test_a_rank_outside_of_the_job_is_a_sentence():
    with pytest.raises(LabError, match=r"0\.\.3 for 4 ranks"):
        data.shard(np.arange(8), 4, 4)


def test_synthetic_images_depend_on_the_seed_alone():
    images, labels = data.synthetic_imagenet(2, seed=5)
    again, _ = data.synthetic_imagenet(2, seed=5)
    other, _ = data.synthetic_imagenet(2, seed=6)
    assert images.shape == (2, 3, 224, 224)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(images, again)
    assert not np.array_equal(images, other)


def test_corpus_is_python_source():
    corpus = data.corpus(50_000)
    assert corpus.tokens.shape == (50_000,)
    assert corpus.tokens.dtype == np.uint8
    assert list(corpus.vocabulary) == sorted(set(corpus.vocabulary))
    assert corpus.tokens.max() < len(corpus.vocabulary)
    assert "import " in corpus.text(corpus.tokens)
    np.testing.assert_array_equal(data.corpus(1000).tokens.shape, (1000,))
    with pytest.raises(NotHere, match="Ask for fewer"):
        data.corpus(1 << 40)


# --- MNIST


def write_idx(path, array, compress=False):
    content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if compress else content)


@pytest.fixture
def mnist_folder(tmp_path):
    rng = np.random.default_rng(1)
    for part, n, zipped in (("train", 6, ".gz"), ("t10k", 4, "")):
        images = rng.integers(256, size=(n, 28, 28)).astype(np.uint8)
        write_idx(tmp_path / f"{part}-images-idx3-ubyte{zipped}", images, bool(zipped))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte{zipped}", np.arange(n, dtype=np.uint8), bool(zipped))
    return tmp_path


def test_mnist_plain_and_zipped(mnist_folder):
    train_x, train_y, test_x, _ = data.mnist(mnist_folder)
    assert train_x.shape == (6, 1, 28, 28)
    assert train_x.dtype == np.float32
    assert 0.9 < train_x.max() <= 1
    assert train_y.tolist() == [0, 1, 2, 3, 4, 5]
    assert test_x.shape == (4, 1, 28, 28)


def test_mnist_says_which_file_is_missing(mnist_folder):
    (mnist_folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(NotHere, match="t10k-labels-idx1-ubyte is not there; expected MNIST's four idx files"):
        data.mnist(mnist_folder)


def test_mnist_says_which_file_is_damaged(mnist_folder):
    path = mnist_folder / "t10k-images-idx3-ubyte"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(
        LabError, match="t10k-images-idx3-ubyte holds 3,151 bytes where its header announces 3,152"
    ):
        data.mnist(mnist_folder)
    path.write_bytes(b"<html>" + whole)
    with pytest.raises(LabError, match="is no idx file of 3 dimensions"):
        data.mnist(mnist_folder)
    path.write_bytes(whole)
    zipped = mnist_folder / "train-images-idx3-ubyte.gz"
    zipped.write_bytes(zipped.read_bytes()[:-20])
    with pytest.raises(LabError, match=r"train-images-idx3-ubyte\.gz is no whole gzip file"):
        data.mnist(mnist_folder)


def test_mnist_wants_as_many_labels_as_images(mnist_folder):
    write_idx(mnist_folder / "t10k-labels-idx1-ubyte", np.zeros(5, np.uint8))
    with pytest.raises(LabError, match="4 images but .* 5 labels"):
        data.mnist(mnist_folder)


# --- CIFAR-10


def write_cifar(folder, suffix):
    folder.mkdir()
    rng = np.random.default_rng(2)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        pixels, labels = rng.integers(256, size=(3, 3072)).astype(np.uint8), [7, 0, 9]
        if suffix:
            content = b"".join(
                bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True)
            )
        else:
            content = pickle.dumps({b"data": pixels, b"labels": labels}, protocol=2)
            # As in the files that were written in 2009.
            content = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        (folder / f"{name}{suffix}").write_bytes(content)


@pytest.mark.parametrize(("name", "suffix"), [("cifar-10-batches-py", ""), ("cifar-10-batches-bin", ".bin")])
def test_cifar10_both_versions(tmp_path, name, suffix):
    write_cifar(tmp_path / name, suffix)
    for folder in (tmp_path, tmp_path / name):
        train_x, train_y, test_x, test_y = data.cifar10(folder)
        assert train_x.shape == (15, 3, 32, 32)
        assert train_x.dtype == np.float32
        assert train_y.tolist() == [7, 0, 9] * 5
        assert test_x.shape == (3, 3, 32, 32)
        assert test_y.tolist() == [7, 0, 9]


def test_cifar10_names_what_is_missing_or_damaged(tmp_path):
    with pytest.raises(NotHere, match="expected data_batch_1"):
        data.cifar10(tmp_path)
    write_cifar(tmp_path / "py", "")
    write_cifar(tmp_path / "bin", ".bin")
    (tmp_path / "bin" / "data_batch_4.bin").write_bytes(b"short")
    with pytest.raises(LabError, match=r"data_batch_4\.bin holds 5 bytes"):
        data.cifar10(tmp_path / "bin")
    (tmp_path / "py" / "data_batch_2").write_bytes(b"\x80\x02}q")
    with pytest.raises(LabError, match="data_batch_2 is damaged"):
        data.cifar10(tmp_path / "py")
    (tmp_path / "py" / "data_batch_2").unlink()
    with pytest.raises(NotHere, match="data_batch_2 is not there"):
        data.cifar10(tmp_path / "py")


def test_cifar10_does_not_run_code_from_a_pickle(tmp_path):
    write_cifar(tmp_path / "py", "")
    (tmp_path / "py" / "data_batch_1").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(LabError, match=r"it asks for (os|posix)\.system"):
        data.cifar10(tmp_path / "py")


# --- by name, flat, as the labs' parameter `dataset` has it


def test_load_gives_the_digits_as_they_are():
    for loaded, part in zip(data.load("digits"), data.digits(), strict=True):
        np.testing.assert_array_equal(loaded, part)


def test_load_flattens_what_comes_from_files(mnist_folder, tmp_path):
    whole = data.mnist(mnist_folder)
    flat = data.load(f"mnist:{mnist_folder}")
    assert flat.train_x.shape == (6, 784)
    assert flat.test_x.shape == (4, 784)
    assert flat.train_x.dtype == np.float32
    np.testing.assert_array_equal(flat.train_x.reshape(whole.train_x.shape), whole.train_x)
    np.testing.assert_array_equal(flat.test_y, whole.test_y)
    write_cifar(tmp_path / "bin", ".bin")
    assert data.load(f"cifar10:{tmp_path / 'bin'}").train_x.shape == (15, 3072)


def test_load_takes_a_folder_as_people_type_it(mnist_folder, monkeypatch):
    monkeypatch.setenv("HOME", str(mnist_folder.parent))
    assert len(data.load(f"mnist:~/{mnist_folder.name}").train_y) == 6
    from_checkout = os.path.relpath(mnist_folder, paths.root())
    assert len(data.load(f"mnist:{from_checkout}").train_y) == 6


@pytest.mark.parametrize(
    ("dataset", "error", "words"),
    [
        ("minst:/there", LabError, '"minst:/there" names no data set. There are "digits", and of your own'),
        ("digits:/there", LabError, "names no data set"),
        ("mnist", LabError, 'which folder its files are: write "mnist:FOLDER"'),
        ("mnist:/nowhere", NotHere, "train-images-idx3-ubyte is not there; expected MNIST's four idx files"),
        ("cifar10:/nowhere", NotHere, "No CIFAR-10 in /nowhere: expected data_batch_1"),
    ],
)
def test_load_says_what_is_wrong(dataset, error, words):
    with pytest.raises(error, match=re.escape(words)):
        data.load(dataset)


# --- an ImageNet-style folder


def test_image_folder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("n02", (255, 0, 0)), ("n01", (0, 0, 255))):
        (tmp_path / name).mkdir()
        image.new("RGB", (300, 260), colour).save(tmp_path / name / "a.JPEG")
    images = data.image_folder(tmp_path)
    assert len(images) == 2
    assert images.classes == ["n01", "n02"]
    pixels, labels = images.batch([1, 0])
    assert pixels.shape == (2, 3, 224, 224)
    assert labels.tolist() == [1, 0]
    assert pixels[0, 0].mean() > 0.95
    assert pixels[0, 2].mean() < 0.05
    (tmp_path / "n01" / "a.JPEG").write_bytes(b"no image")
    with pytest.raises(LabError, match=r"a\.JPEG cannot be read as an image"):
        images.load(0)


def test_image_folder_says_what_layout_it_expects(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(NotHere, match="no folder .*nowhere"):
        data.image_folder(tmp_path / "nowhere")
    with pytest.raises(NotHere, match="one sub-folder per class"):
        data.image_folder(tmp_path)

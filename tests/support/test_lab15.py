"""labkit.inputs: formats that agree, storage that is as slow as asked, pages that are dropped, full disks."""

from __future__ import annotations

import shutil
import tarfile
import time
from pathlib import Path

import pytest
from labkit.errors import CheckFailed, LabError, NotHere
from support.lab15 import inputs
from support.lab15.storage import new_pipe


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
        found = inputs.write(40, 32, 4)
    yield found
    found.remove()
    assert not found.folder.exists()


def _two(tar):
    for member in tar:
        if member.name.endswith(".jpg"):
            content = tar.extractfile(member).read()
        else:
            yield content, int(tar.extractfile(member).read())


def read_shard(stream):
    """A right answer."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        yield from _two(tar)


def test_formats_hold_the_same_images_class_by_class(stored):
    files = list(inputs.from_files(stored, range(40)))
    assert files == list(inputs.from_hdf5(stored, range(40))) == list(inputs.from_lmdb(stored, range(40)))
    assert files == list(inputs.from_shards(read_shard, stored.shards))
    assert [label for _, label in files] == sorted(stored.labels) == stored.labels.tolist()
    assert inputs.decode(files[0][0]).shape == (32, 32, 3)
    order = [39, 0, 17]
    some = [files[number] for number in order]
    assert some == list(inputs.from_lmdb(stored, order)) == list(inputs.from_hdf5(stored, order))
    assert stored.nbytes == sum(len(jpeg) for jpeg, _ in files)


def test_batches_are_whole(stored):
    found = list(inputs.batches(inputs.from_files(stored, range(40)), 16))
    assert [(images.shape, len(labels)) for images, labels in found] == [((16, 3, 32, 32), 16)] * 2
    assert found[0][0].max() <= 1


def read(storage: inputs.Storage, path: Path) -> float:
    begin = time.perf_counter()
    with storage.open(path) as file:
        while file.read(1000):
            pass
    return time.perf_counter() - begin


def test_storage_is_not_faster_than_asked(stored):
    path, size = stored.shards[0], stored.shards[0].stat().st_size
    slow = inputs.Storage(bandwidth=size / 0.2, latency=0.1)
    assert read(slow, path) >= 0.29
    assert (slow.opens, slow.nbytes) == (1, size)
    pipe = new_pipe()
    shared = [inputs.Storage(shared=size / 0.1, pipe=pipe) for _ in range(2)]
    assert sum(read(one, path) for one in shared) >= 0.19
    pipe.unlink()


def test_dropped_pages_are_seen(stored):
    list(inputs.from_files(stored, range(40)))
    assert inputs.resident(stored.files) == 1
    inputs.drop(stored.files)
    assert 0 <= inputs.resident(stored.files) <= 1  # tmpfs keeps them


def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    with pytest.raises(NotHere, match="too full: the images need .* MB"):
        inputs.write(40, 32, 2)
    assert not list(tmp_path.glob("lab15-*"))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: inputs.write(31, 32, 2), "31 images"),
        (lambda: inputs.write(40, 8, 2), "8 pixels"),
        (lambda: inputs.write(40, 32, 0), "0 shards"),
        (lambda: inputs.write(40, 32, 41), "41 shards"),
        (lambda: inputs.Storage(0), "more than 0 bytes/s"),
        (lambda: inputs.Storage(1, -1), "0 s or more"),
        (lambda: inputs.cold_and_cached({}, 0), "rounds is 1 or more"),
        (lambda: next(inputs.batches([], 0)), "1 image or more"),
        (lambda: next(inputs.batches([], 2)), "where 0 came"),
        (lambda: inputs.trainer("cpu", 0), "1 channel or more"),
        (lambda: inputs.knob(None, None, None, 1, 1, (1,)), "1 and 2 are among them"),
        (lambda: inputs.knob(None, None, None, 1, 1, (0, 1, 2)), "more than 0"),
        (lambda: inputs.knob(None, None, None, 1, 1, 1), "Not 1"),
        (lambda: inputs.compare_loaders(None, 1, -1), "0 or more"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(LabError, match=says):
        call()


@pytest.mark.slow
def test_a_generator_that_reads_nothing_ahead_is_no_prefetch():
    with pytest.raises(CheckFailed, match="Does a thread read ahead"):
        inputs.expect_prefetch(lambda items, depth: iter(items))

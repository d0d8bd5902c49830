"""Lab 15's support: the same images in files and shards, slow storage, dropped pages."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from support import lab15

from tests.support.answers import solved


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
        images = lab15.write(40, 32, 4)
    yield images
    shutil.rmtree(images.folder)


def test_files_and_shards_hold_the_same_images_class_by_class(stored):
    files = list(lab15.from_files(stored, range(40)))
    read_shard = solved("15_input_pipeline")["read_shard"]
    assert files == list(lab15.from_shards(read_shard, stored.shards))
    assert [label for _, label in files] == sorted(stored.labels) == stored.labels.tolist()
    assert stored.nbytes == sum(len(jpeg) for jpeg, _ in files)
    batches = list(lab15.batches(files, 16))
    assert [(images.shape, len(labels)) for images, labels in batches] == [((16, 3, 32, 32), 16)] * 2


def read(storage: lab15.Storage, path: Path) -> float:
    begin = time.perf_counter()
    with storage.open(path) as file:
        while file.read(1000):
            pass
    return time.perf_counter() - begin


def test_storage_is_not_faster_than_asked(stored):
    path, size = stored.shards[0], stored.shards[0].stat().st_size
    slow = lab15.Storage(bandwidth=size / 0.2, latency=0.1)
    assert read(slow, path) >= 0.29
    assert (slow.opens, slow.nbytes) == (1, size)
    pipe = lab15.new_pipe()
    shared = [lab15.Storage(shared=size / 0.1, pipe=pipe) for _ in range(2)]
    assert sum(read(storage, path) for storage in shared) >= 0.19
    pipe.unlink()

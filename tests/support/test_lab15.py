"""The support of labs 15 and 17: formats that agree, slow storage, dropped pages, rounds that are judged."""

from __future__ import annotations

import shutil
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from labkit.errors import CheckFailed, LabError, NotHere
from support import lab15
from support.lab15 import show
from support.lab15.files import from_hdf5, from_lmdb
from support.lab15.storage import cold_and_cached, drop, new_pipe, resident

from tests.support.answers import run_check

STEM = "15_input_pipeline"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
        images = lab15.write(40, 32, 4)
    yield images
    images.remove()
    assert not images.folder.exists()


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
    files = list(lab15.from_files(stored, range(40)))
    assert files == list(from_hdf5(stored, range(40))) == list(from_lmdb(stored, range(40)))
    assert files == list(lab15.from_shards(read_shard, stored.shards))
    assert [label for _, label in files] == sorted(stored.labels) == stored.labels.tolist()
    assert lab15.decode(files[0][0]).shape == (32, 32, 3)
    order = [39, 0, 17]
    some = [files[number] for number in order]
    assert some == list(from_lmdb(stored, order)) == list(from_hdf5(stored, order))
    assert stored.nbytes == sum(len(jpeg) for jpeg, _ in files)


def test_batches_are_whole(stored):
    batches = list(lab15.batches(lab15.from_files(stored, range(40)), 16))
    assert [(images.shape, len(labels)) for images, labels in batches] == [((16, 3, 32, 32), 16)] * 2
    assert batches[0][0].max() <= 1


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
    pipe = new_pipe()
    shared = [lab15.Storage(shared=size / 0.1, pipe=pipe) for _ in range(2)]
    assert sum(read(storage, path) for storage in shared) >= 0.19
    pipe.unlink()


def test_dropped_pages_are_seen(stored):
    list(lab15.from_files(stored, range(40)))
    assert resident(stored.files) == 1
    drop(stored.files)
    assert 0 <= resident(stored.files) <= 1  # tmpfs keeps them


def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    with pytest.raises(NotHere, match="too full: the images need .* MB"):
        lab15.write(40, 32, 2)
    assert not list(tmp_path.glob("lab15-*"))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lab15.write(31, 32, 2), "31 images"),
        (lambda: lab15.write(40, 8, 2), "8 pixels"),
        (lambda: lab15.write(40, 32, 0), "0 shards"),
        (lambda: lab15.write(40, 32, 41), "41 shards"),
        (lambda: lab15.Storage(0), "more than 0 bytes/s"),
        (lambda: lab15.Storage(1, -1), "0 s or more"),
        (lambda: cold_and_cached({}, 0), "rounds is 1 or more"),
        (lambda: next(lab15.batches([], 0)), "1 image or more"),
        (lambda: next(lab15.batches([], 2)), "where 0 came"),
        (lambda: lab15.trainer("cpu", 0), "1 channel or more"),
        (lambda: lab15.check_shares((1, 2)), "one below 1 are among them"),
        (lambda: lab15.check_shares((0, 0.5, 2)), "more than 0"),
        (lambda: lab15.check_shares(1), "Not 1"),
        (lambda: lab15.compare_loaders(None, 1, -1), "0 or more"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(LabError, match=says):
        call()


def test_trial_shards_hold_what_they_want():
    for shard in lab15.trial_shards():
        if not shard.incomplete:
            assert list(shard.samples(read_shard_of_any_kind)) == shard.wanted
        assert 0 < len(shard.wanted) <= 40


def read_shard_of_any_kind(stream):
    """A right answer for complete samples, whatever their order."""
    part = {}
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            kind = member.name.split(".", 1)[1]
            if kind in ("jpg", "cls"):
                part[kind] = tar.extractfile(member).read()
            if len(part) == 2:
                yield part["jpg"], int(part["cls"])
                part = {}


def by_two_names(stream):
    """Another right answer: all files of a sample are gathered, and looked at when the next one begins."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        sample, part = None, {}
        for member in tar:
            name, kind = member.name.split(".", 1)
            if name != sample:
                if {"jpg", "cls"} <= set(part):
                    yield part["jpg"], int(part["cls"])
                sample, part = name, {}
            part[kind] = tar.extractfile(member).read()
        if {"jpg", "cls"} <= set(part):
            yield part["jpg"], int(part["cls"])


def in_blocks(n, epoch, rank, ranks, worker=0, workers=1, seed=0):
    """Another right deal: neighbours in the order belong to one rank."""
    order = np.random.default_rng((epoch, seed)).permutation(n)
    own = order[rank * (n // ranks) :][: n // ranks]
    return np.array_split(own, workers)[worker].tolist()


def test_other_right_answers_pass():
    run_check(STEM, "15.1", my_samples=in_blocks)
    run_check(STEM, "15.2", read_shard=by_two_names)


def test_a_buffer_that_is_emptied_as_a_whole_does_not_pass():
    def shuffled(items, size, seed):
        rng, held = np.random.default_rng(seed), []
        for item in items:
            held.append(item)
            if len(held) == size:
                rng.shuffle(held)
                yield from held
                held = []
        rng.shuffle(held)
        yield from held

    with pytest.raises(CheckFailed, match="are held when item"):
        run_check(STEM, "15.3", shuffled=shuffled)


@pytest.mark.slow
def test_a_generator_that_reads_nothing_ahead_is_no_prefetch():
    with pytest.raises(CheckFailed, match="Does a thread read ahead"):
        run_check("17_prefetch_and_storage", "17.1", prefetch=lambda items, depth: iter(items))


def test_a_round_whose_compute_moved_is_not_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(show.record, "add", lambda *_, **__: {})
    still = {"share": 2, "compute": 1.0, "input": 2.0, "no prefetch": (2.1, 1.1), "prefetch": (1.2, 1.2)}
    computed = {**still, "no prefetch": (2.1, 1.3)}
    read = {**still, "no prefetch": (2.6, 1.1)}
    slowed = {**still, "prefetch": (1.2, 1.6)}
    rows = lab15.judge([still, computed, read, slowed])
    assert [row["steady"] for row in rows] == [True, False, False, False]
    assert rows[0]["prefetch"] == pytest.approx(1.0)
    assert rows[0]["input, prefetch"] == pytest.approx(2 / 1.2)


def test_storage_is_set_so_that_input_takes_its_share():
    storage = lab15.storage_for(2, compute=0.010, decoding=0.004, nbytes=16_000)()
    assert storage.bandwidth == pytest.approx(1_000_000)  # 16 ms for the bytes, 4 ms to decode
    assert lab15.storage_for(0.1, compute=0.001, decoding=0.004, nbytes=1)().bandwidth > 0


def test_shards_are_read_in_order(stored):
    order = range(len(stored.labels))
    assert list(lab15.read_shards(stored.shards)) == list(lab15.from_files(stored, order))

"""Lab 15's support: the images on disk, and slow storage."""

from __future__ import annotations

import os
import sys
import time

from labkit import launch
from support import lab15

from tests import helpers

WRITES = """if True:
    from support import lab15
    stored = lab15.write(5, 8, 2)
    assert len(list(lab15.from_files(stored, range(5)))) == 5
    print(stored.folder.parent.name)
"""


def test_the_ranks_of_a_batch_job_share_one_copy_which_is_in_the_jobs_folder(tmp_path):
    folders = {name: tmp_path / name for name in ("home", "job")}
    for folder in folders.values():
        folder.mkdir()
    env = os.environ | {"LABKIT_HOME": str(folders["home"]), "LABKIT_NOTES": str(folders["job"])}
    done = helpers.ran(launch.mpiexec(), "-n", "2", sys.executable, "-c", WRITES, env=env)
    assert done.stdout.split() == ["job", "job"], done.stderr
    assert len(list(folders["job"].rglob("*.jpg"))) == 5
    assert not list(folders["home"].rglob("*.jpg"))


def test_storage_is_not_faster_than_asked(tmp_path):
    path, size = tmp_path / "shard", 40_000
    path.write_bytes(bytes(size))

    def read(storage: lab15.Storage) -> float:
        begin = time.perf_counter()
        with storage.open(path) as file:
            while file.read(1000):
                pass
        return time.perf_counter() - begin

    slow = lab15.Storage(bandwidth=size / 0.2, latency=0.1)
    assert read(slow) >= 0.29
    assert (slow.opens, slow.nbytes) == (1, size)
    pipe = lab15.new_pipe()
    shared = [lab15.Storage(shared=size / 0.1, pipe=pipe) for _ in range(2)]
    assert sum(read(storage) for storage in shared) >= 0.19
    pipe.unlink()

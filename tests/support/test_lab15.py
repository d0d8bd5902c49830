"""Lab 15's support: slow storage."""

from __future__ import annotations

import time

from support import lab15


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

"""Lab 17 on real ranks: all read at once, from storage of their own or through one pipe."""

from __future__ import annotations

from labkit import timing

from support.lab15.files import Stored, read_shards
from support.lab15.pipeline import decode
from support.lab15.storage import Storage, new_pipe


def through_one_pipe(comm, prefetch, stored: Stored, storages: dict, rounds: int):
    """On 1, 2, 4, … ranks: all read a shard at once. Returns {storage: {ranks: seconds}}.

    storages: name -> (bytes/s of a rank, bytes/s that all share, seconds an open).
    """
    from mpi4py import MPI

    seconds: dict[str, dict[int, object]] = {name: {} for name in storages}
    sizes = sorted({min(2**power, comm.size) for power in range(comm.size.bit_length() + 1)})
    for size in sizes:
        group = comm.Split(int(comm.rank >= size))
        if comm.rank >= size:
            continue
        node = group.Split_type(MPI.COMM_TYPE_SHARED)
        for name, (own, shared, latency) in storages.items():
            pipe = node.bcast(new_pipe() if node.rank == 0 else None)
            # On several nodes, each has a pipe of its own: its part of the bandwidth.
            storage = Storage(own, latency, shared * node.size / size, pipe)
            path = stored.shards[group.rank % len(stored.shards)]

            def read(storage=storage, path=path) -> None:
                for jpeg, _ in prefetch(read_shards([path], storage.open), 8):
                    decode(jpeg)

            try:
                seconds[name][size] = timing.measure(read, repeat=rounds, warmup=1, comm=group)
            finally:
                if node.rank == 0:
                    pipe.unlink()
    return seconds

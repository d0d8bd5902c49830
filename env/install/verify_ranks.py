"""What each of the two ranks of the set-up's verification does: `verify_ranks.py mpi4py|torch|tensorflow`.

Rank 0 prints one JSON line: the sum over the ranks, the controller, and the MPI libraries in the process.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
EXPECTED = 3.0  # ranks 0 and 1 give 1 and 2


def mpi_libraries() -> list:
    """Files of MPI libraries mapped into this process; there may be only one."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "/libmpi" in line}
    return sorted(os.path.realpath(path) for path in paths)


def with_mpi4py() -> tuple:
    """Sum over the ranks with mpi4py."""
    from mpi4py import MPI

    total = MPI.COMM_WORLD.allreduce(float(MPI.COMM_WORLD.rank + 1))
    return total, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, MPI.Get_library_version().splitlines()[0]


def with_torch() -> tuple:
    """Sum over the ranks with Horovod in PyTorch."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum).item()
    return total, hvd.rank(), hvd.size(), "MPI" if hvd.mpi_enabled() else "Gloo"


def with_tensorflow() -> tuple:
    """Sum over the ranks with Horovod in TensorFlow."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = float(hvd.allreduce(tf.constant([float(hvd.rank() + 1)]), op=hvd.Sum)[0])
    return total, hvd.rank(), hvd.size(), "MPI" if hvd.mpi_enabled() else "Gloo"


if __name__ == "__main__":
    what = sys.argv[1]
    total, rank, size, controller = {
        "mpi4py": with_mpi4py,
        "torch": with_torch,
        "tensorflow": with_tensorflow,
    }[what]()
    libraries = mpi_libraries()
    if size != 2 or total != EXPECTED:
        sys.exit(
            f"error: {what} on rank {rank}: {size} ranks and a sum of {total}, expected 2 and {EXPECTED}"
        )
    if len(libraries) > 1:
        sys.exit(f"error: {what} on rank {rank} holds {len(libraries)} MPI libraries: {', '.join(libraries)}")
    if rank == 0:
        print(json.dumps({"what": what, "sum": total, "by": controller, "mpi": libraries}), flush=True)

"""A script for tests of builds: what each rank has of Horovod and MPI, and `launch.run` with a
wish.

builds_job.py [horovod=NAME] [mpi=NAME]
"""

from __future__ import annotations

import json
import sys

from labkit import lab, launch, world


def of_this_rank() -> dict:
    """Horovod's file and sum, the MPI libraries that are loaded, and what a record says."""
    import horovod
    import horovod.torch as hvd
    import torch
    from labkit import builds, mpis
    from mpi4py import MPI

    hvd.init()
    total = hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist()
    return {
        "sum": total,
        "size": MPI.COMM_WORLD.size,
        "horovod": horovod.__file__,
        "libraries": mpis.loaded(),
        **builds.in_use(),
    }


if __name__ == "__main__":
    lab.start("00_check_environment")
    wishes = dict(word.split("=") for word in sys.argv[1:])
    results = launch.run(of_this_rank, ranks=2, **wishes)
    if world.is_root():
        print("RESULT", json.dumps(results))

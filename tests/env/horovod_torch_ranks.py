"""What each rank of test_horovod.py does with Horovod in PyTorch, beside what labs 34, 35 and 40
do."""

import os

import horovod.torch as hvd
import torch
from horovod_report import report
from mpi4py import MPI  # noqa: F401 - a second user of MPI in the process: it must be the same library


def backward_passes():
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=2
    )
    for _ in range(2):
        model(torch.tensor([[hvd.rank() + 1.0]])).sum().backward()
    optimizer.step()
    return model.weight.item()


def collectives():
    mine = torch.tensor([hvd.rank() + 1.0])
    sums = [hvd.allreduce(mine, op=op).item() for op in (hvd.Average, hvd.Sum, hvd.Max, hvd.Adasum)]
    return [*sums, *hvd.allgather(mine).tolist(), hvd.broadcast(mine, root_rank=1).item()]


def of_each_rank():
    """What only this rank gets: its part of an alltoall, and rank 1 the sum of a process set of its
    own."""
    sent = torch.tensor([10.0 * hvd.rank(), 10.0 * hvd.rank() + 1])
    received = hvd.alltoall(sent) - hvd.rank()
    # Last, for it is rank 1's alone: the ranks number their later operations differently.
    own = hvd.allreduce(RANK_1_GIVES, process_set=RANK_1).item() if RANK_1.included() else 2.0
    return [*received.tolist(), own]


def controller():
    """Is MPI in use, and Gloo, and how many libraries of MPI are there?"""
    with open("/proc/self/maps") as maps:
        libraries = {os.path.realpath(line.split()[-1]) for line in maps if "/libmpi" in line}
    return [bool(hvd.mpi_enabled()), bool(hvd.gloo_enabled()), len(libraries)]


def another_library():
    """Shut Horovod down, and start it again with the other library on CPUs."""
    other = "mpi" if hvd.gloo_enabled() else "gloo"
    hvd.shutdown()
    os.environ["HOROVOD_CPU_OPERATIONS"] = other
    hvd.init()
    total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item()
    return [bool(hvd.gloo_enabled()), total]


RANK_1 = hvd.ProcessSet([1])
RANK_1_GIVES = torch.tensor([2.0])
CHECKS = (backward_passes, collectives, of_each_rank, controller, another_library)

if __name__ == "__main__":
    hvd.init(process_sets=[RANK_1])
    report(hvd, CHECKS, hvd.allgather_object)

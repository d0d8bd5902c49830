"""What test_ranks.py runs on real ranks."""

from __future__ import annotations

import time

PARTS = ["compute", "exposed", "input", "idle"]
AHEAD = 1000.0  # seconds


def shift_clock(rank):
    """Let this rank's clock be ahead, as on a host that was started earlier."""
    from labkit.profiling import clock, recording, spans

    ahead = AHEAD * rank
    for module in (clock, spans, recording):
        module.perf_counter = lambda: time.perf_counter() + ahead


def clock_offsets(comm):
    """(offset, error) by the messages on the true common clock of a host, then on shifted ones."""
    from labkit.profiling import clock

    first = clock.offset(comm)
    shift_clock(comm.rank)
    return first, clock.offset(comm)


def clocks(comm):
    """What `clock_offsets` gives, and what `causal` gives after it, on the shifted clocks."""
    return clock_offsets(comm), causal(comm)


def causal(comm):
    """(begin, end) of each rank's barrier in each step, and the profile's clock error."""
    from labkit import profiling

    def step():
        time.sleep(0.002 * comm.rank)
        with profiling.span("communication", "barrier"):
            comm.Barrier()

    profile = profiling.record(step, 4, comm, overhead=False)
    times = [[[(s.begin, s.end) for s in step][0] for step in rank.spans] for rank in profile.ranks]
    return times, profile.clock_error


def overlap(comm):
    """Tables of a step that hides its allreduce under compute, and of one that does not."""
    import numpy as np
    from labkit import profiling

    matrix, gradient = np.random.default_rng(0).random((200, 200)), np.ones(100_000)
    total = np.empty_like(gradient)

    def hidden():
        with profiling.span("compute"):
            begin = time.perf_counter()
            request = comm.Iallreduce(gradient, total)
            while not request.Test():
                matrix @ matrix
            profiling.mark("communication", begin, time.perf_counter(), "gradient")

    def bare():
        with profiling.span("compute"):
            matrix @ matrix
        with profiling.span("communication", "gradient"):
            comm.Allreduce(gradient, total)

    def uneven():
        with profiling.span("compute"):
            time.sleep(0.02 if comm.rank == 0 else 0.005)

    return [
        profiling.record(step, 4, comm, overhead=False).table() for step in (hidden, bare, uneven)
    ]


def gloo(comm, file):
    """The table and operators of a step with an allreduce of torch.distributed's Gloo under
    products."""
    import torch
    import torch.distributed as dist
    from labkit import profiling

    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=comm.rank, world_size=comm.size
    )
    gradient, matrix = torch.ones(1_000_000), torch.randn(400, 400)

    def step():
        work = dist.all_reduce(gradient, async_op=True)
        for _ in range(30):  # far longer than the allreduce, whenever Gloo's thread gets a core
            matrix @ matrix
        work.wait()

    profile = profiling.record(step, 3, comm, kind="torch", overhead=False)
    dist.destroy_process_group()
    return profile.table(), profile.operators(50)

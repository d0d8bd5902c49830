"""labkit.profiling on real ranks: one clock, overlap, and what PyTorch's profiler tells of Gloo."""

import time

import numpy as np
import pytest
from labkit import launch, profiling
from labkit.profiling import clock, recording, spans

PARTS = ["compute", "exposed", "input", "idle"]
AHEAD = 1000.0  # seconds


def clocks(comm):
    """(offset, error) by the messages on the true common clock of a host, then with each rank's
    clock AHEAD of the one before, as on hosts that were started earlier. On the shifted clocks
    (begin, end) of each rank's barrier in each step, and the profile's clock error."""
    common = clock.offset(comm)
    ahead = AHEAD * comm.rank
    for module in (clock, spans, recording):
        module.perf_counter = lambda: time.perf_counter() + ahead
    shifted = clock.offset(comm)

    def step():
        time.sleep(0.002 * comm.rank)
        with profiling.span("communication", "barrier"):
            comm.Barrier()

    profile = profiling.record(step, 4, comm, overhead=False)
    times = [[[(s.begin, s.end) for s in step][0] for step in rank.spans] for rank in profile.ranks]
    return common, shifted, times, profile.clock_error


@pytest.mark.slow
def test_all_clocks_are_that_of_rank_0_within_the_stated_error():
    results = launch.run(clocks, ranks=3)
    for rank, (common, shifted, _, _) in enumerate(results):
        for (offset, error), true in ((common, 0.0), (shifted, AHEAD * rank)):
            assert abs(offset - true) <= error, f"rank {rank}"
            assert (error > 0) == (rank > 0)
    *_, times, error = results[0]
    for step in zip(*times, strict=True):
        last = max(begin for begin, _ in step)
        assert all(end >= last - error for _, end in step), "none leaves before the last has come"
        assert last - min(begin for begin, _ in step) < AHEAD / 2


def overlap(comm, file):
    """Tables of a step that hides its allreduce under compute, of one that does not, of one with a
    slow rank; and of one with an allreduce of Gloo under products, with that one's operators."""
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

    steps = (hidden, bare, uneven)
    tables = [profiling.record(step, 4, comm, overhead=False).table() for step in steps]
    by_gloo = with_gloo(comm, file)
    return *tables, by_gloo.table(), by_gloo.operators(50).set_index("name")


def with_gloo(comm, file):
    import torch
    import torch.distributed as dist

    place = {"init_method": f"file://{file}", "rank": comm.rank, "world_size": comm.size}
    dist.init_process_group("gloo", **place)
    gradient, matrix = torch.ones(1_000_000), torch.randn(400, 400)

    def step():
        work = dist.all_reduce(gradient, async_op=True)
        for _ in range(30):  # far longer than the allreduce, whenever Gloo's thread gets a core
            matrix @ matrix
        work.wait()

    profile = profiling.record(step, 3, comm, kind="torch", overhead=False)
    dist.destroy_process_group()
    return profile


@pytest.mark.slow
def test_communication_under_compute_is_overlapped_and_a_fast_rank_is_idle(tmp_path):
    first, second = launch.run(overlap, str(tmp_path / "gloo"), ranks=2)
    assert first[0].equals(second[0])  # every rank has the same table
    for hidden, bare, uneven, by_gloo, operators in (first, second):
        for table in (hidden, bare, uneven, by_gloo):
            for _, row in table.iterrows():
                assert row[PARTS].sum() == pytest.approx(row["step"], rel=0.02)
                together = row["overlapped"] + row["exposed"]
                assert together == pytest.approx(row["communication"])
            assert table["step"].nunique() == 1  # the slowest rank's, for all
        assert (hidden["overlapped"] > 0.99 * hidden["communication"]).all()
        assert (bare["overlapped"] == 0).all()
        assert (bare["exposed"] > 0).all()
        assert uneven.loc[1, "idle"] > uneven.loc[1, "compute"]
        assert uneven.loc[0, "idle"] < uneven.loc[1, "idle"]
        assert (by_gloo["overlapped"] > 0).all()
        assert operators.loc["gloo:all_reduce", "library"] == "Gloo"

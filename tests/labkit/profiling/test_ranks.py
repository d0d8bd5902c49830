"""labkit.profiling on real ranks: one clock, overlap, and what PyTorch's profiler tells of Gloo."""

from __future__ import annotations

import pytest
from labkit import launch

from tests.labkit.profiling import profiling_ranks as on_ranks
from tests.labkit.profiling.profiling_ranks import AHEAD, PARTS


def adds_up(table):
    for _, row in table.iterrows():
        assert row[PARTS].sum() == pytest.approx(row["step"], rel=0.02)
        assert row["overlapped"] + row["exposed"] == pytest.approx(row["communication"])


@pytest.fixture(scope="module")
def clocks():
    return launch.run(on_ranks.clocks, ranks=3)


def test_offsets_are_right_within_the_stated_error(clocks):
    for rank, ((common, shifted), _) in enumerate(clocks):
        for (offset, error), true in ((common, 0.0), (shifted, AHEAD * rank)):
            assert abs(offset - true) <= error, f"rank {rank}"
            assert (error > 0) == (rank > 0)


def test_on_one_clock_no_rank_leaves_a_barrier_before_the_last_has_come(clocks):
    _, (times, error) = clocks[0]
    for step in zip(*times, strict=True):
        last = max(begin for begin, _ in step)
        assert all(end >= last - error for _, end in step)
        assert last - min(begin for begin, _ in step) < AHEAD / 2


@pytest.mark.slow
def test_communication_under_compute_is_overlapped_and_a_fast_rank_is_idle():
    tables = launch.run(on_ranks.overlap, ranks=2)
    for hidden, bare, uneven in tables:
        for table in (hidden, bare, uneven):
            adds_up(table)
            assert table["step"].nunique() == 1  # the slowest rank's, for all
        assert (hidden["overlapped"] > 0.99 * hidden["communication"]).all()
        assert (bare["overlapped"] == 0).all()
        assert (bare["exposed"] > 0).all()
        assert uneven.loc[1, "idle"] > uneven.loc[1, "compute"]
        assert uneven.loc[0, "idle"] < uneven.loc[1, "idle"]
    assert tables[0][0].equals(tables[1][0])  # every rank has the same table


@pytest.mark.slow
def test_the_collectives_of_gloo_on_all_ranks(tmp_path):
    for table, operators in launch.run(on_ranks.gloo, str(tmp_path / "gloo"), ranks=2):
        adds_up(table)
        assert (table["overlapped"] > 0).all()
        assert operators.set_index("name").loc["gloo:all_reduce", "library"] == "Gloo"

"""Training steps with Horovod on real ranks: each leaves a whole timeline of its own."""

import pytest
from labkit import launch
from labkit.errors import RankFailed
from labkit.horovod import timeline, train, train_ways

UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}  # or MVAPICH2 would not bear Horovod's thread


@pytest.mark.slow
def test_training_steps_leave_a_whole_timeline_of_this_run_alone(tmp_path):
    file = tmp_path / "timeline.json"
    file.write_text("[of an earlier run")
    results = launch.run(train, 3, 8, 4, ranks=2, env={"HOROVOD_TIMELINE": str(file), **UNBOUND})
    took, events = results[0]
    assert results[1][1] is None
    assert took.median > 0
    names = [activity.name for activity in timeline.activities(events)]
    assert names.count("MPI_ALLREDUCE") == 3 * (4 + 2)  # two steps are not timed
    assert names.count("MPI_BCAST") == 3


@pytest.mark.slow
def test_two_ways_in_one_start_have_a_timeline_each(tmp_path):
    ways = {"unfused": {"HOROVOD_FUSION_THRESHOLD": "0"}, "fused": {"HOROVOD_CYCLE_TIME": "50"}}
    results = launch.run(train_ways, 5, 8, 3, ways, tmp_path, ranks=2, env=UNBOUND)[0]
    calls = {way: timeline.backends(events)["MPI_ALLREDUCE"] for way, (_, events) in results.items()}
    assert calls["unfused"] == 5 * (3 + 2)
    assert calls["fused"] < calls["unfused"]
    with pytest.raises(RankFailed, match="give train_ways one way"):
        launch.run(train_ways, 1, 8, 1, ways, tmp_path, ranks=1, controller="gloo")


@pytest.mark.slow
def test_a_timeline_that_horovod_cannot_write_is_missed_in_a_sentence(tmp_path):
    with pytest.raises(RankFailed, match="in a folder that is there and that rank 0 may write to"):
        launch.run(train_ways, 1, 8, 1, {"here": {}}, tmp_path / "none", ranks=2, env=UNBOUND)

"""Training steps with Horovod on real ranks: each leaves a whole timeline of its own."""

from types import SimpleNamespace

import pytest
from labkit import builds, launch, placement, world
from labkit.errors import LabError
from labkit.horovod import as_it_is, steps, timeline, train, train_ways
from labkit.placement import Placement

UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}  # or MVAPICH2 would not bear Horovod's thread


@pytest.mark.slow
def test_ways_to_train_in_one_start_have_a_whole_timeline_each(tmp_path):
    # Last the one with a cycle time: 0.28.1 crashes in a start after that.
    ways = {
        "unfused": {"HOROVOD_FUSION_THRESHOLD": "0"},
        "by Gloo": {"HOROVOD_CPU_OPERATIONS": "gloo"},
        "fused": {"HOROVOD_CYCLE_TIME": "50"},
    }
    (tmp_path / "timeline_unfused.json").write_text("[of an earlier run")
    first, second = launch.run(train_ways, 5, 8, 3, ways, tmp_path, ranks=2, env=UNBOUND)
    carried = {way: timeline.backends(events) for way, (_, events) in first.items()}
    assert [way for way, calls in carried.items() if "GLOO_ALLREDUCE" in calls] == ["by Gloo"]
    assert "MPI_ALLREDUCE" not in carried.pop("by Gloo")
    calls = {way: by_library["MPI_ALLREDUCE"] for way, by_library in carried.items()}
    assert calls["unfused"] == 5 * (3 + 2)  # two steps are not timed
    assert calls["fused"] < calls["unfused"]
    assert carried["unfused"]["MPI_BCAST"] == 5
    assert first["unfused"].took.median > 0
    assert second["unfused"].events is None
    device = "cpu" if world.device() == "cpu" else "cuda:1"
    assert second["unfused"].where.device == device


def staged(device: str, by_lab: bool) -> None:
    """What this rank takes for its place from now on."""
    where = Placement(device, True, "MPI", by_lab=by_lab, reason="so that a test sees it")
    placement.of_horovod = lambda hvd=None: where


def train_staged(folder) -> tuple:
    """On a rank: staged steps, though nothing here makes the lab; what `as_it_is` says on a GPU
    that the lab has to stage, and that Horovod stages."""
    import horovod.torch as hvd

    staged("cpu", by_lab=True)  # all that staging does but the GPU: it copies the host's memory
    trained = train_ways(3, 8, 2, {"staged": {}}, folder)["staged"]
    hvd.init()
    told = []
    for by_lab in (True, False):
        staged("cuda:0", by_lab=by_lab)
        told.append(as_it_is())
    return trained, told


@pytest.mark.slow
def test_gradients_that_the_lab_stages_are_carried_like_others(tmp_path):
    training, (by_lab, by_horovod) = launch.run(train_staged, tmp_path, ranks=2, env=UNBOUND)[0]
    calls = timeline.backends(training.events)
    assert calls["MPI_BCAST"] == 3
    assert calls["MPI_ALLREDUCE"] >= 2 + 2  # steps, two of them not timed
    assert training.where.staged
    assert by_lab == placement.on_host("MPI"), "what Horovod cannot take stays in host memory"
    assert by_horovod.device == "cuda:0"


def test_more_ranks_than_gpus_are_refused_to_nccl_alone():
    apart, shared = ["node1 GPU-a", "node2 GPU-a"], ["node1 GPU-a", "node2 GPU-a", "node2 GPU-a"]
    of_apart, of_shared = (
        SimpleNamespace(allgather_object=lambda own, gpus=gpus: gpus) for gpus in (apart, shared)
    )
    steps.refuse_shared_gpus(Placement("cuda:0", False, "NCCL"), of_apart)
    steps.refuse_shared_gpus(Placement("cuda:0", True, "MPI"), of_shared)
    with pytest.raises(LabError, match="2 ranks are on one GPU of node2, which NCCL refuses"):
        steps.refuse_shared_gpus(Placement("cuda:0", False, "NCCL"), of_shared)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("build", ["host", "nccl"])
def test_gradients_on_a_gpu_are_carried_by_the_library_of_the_build(tmp_path, build):
    if build not in builds.horovod_builds():
        pytest.skip(f"Horovod's build {build!r} is not here")
    env = {"HOROVOD_TIMELINE": str(tmp_path / "timeline.json")}
    ranks = 1 if build == "nccl" else 2
    training = launch.run(train, 3, 64, 4, ranks=ranks, env=env, horovod=build)[0]
    assert training.where.device == "cuda:0"
    assert training.where.staged == (build == "host")
    calls = timeline.backends(training.events)
    assert ("NCCL_ALLREDUCE" in calls) == (build == "nccl")

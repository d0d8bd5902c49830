"""Ranks of a lab with Horovod on machines with few GPUs."""

import pytest
from labkit import builds, world
from labkit.errors import LabError
from labkit.horovod import ranks


@pytest.fixture
def machine(monkeypatch):
    """machine(gpus, build): so many GPUs, this build of Horovod, these variables, and so many ranks
    of a launcher."""

    def of(gpus: int, build: str, launched: int = 0, **variables: str) -> None:
        monkeypatch.setattr(world, "gpu_files", lambda: gpus)
        monkeypatch.setattr(builds, "current_horovod", lambda: build)
        for name in ("CUDA_VISIBLE_DEVICES", "LABKIT_HOROVOD", "LABKIT_DEVICE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        if launched:
            for name, value in {"launcher": "srun", "local_size": launched, "size": 2}.items():
                monkeypatch.setattr(world, name, lambda value=value: value)

    return of


@pytest.mark.parametrize(
    ("gpus", "build", "variables", "want"),
    [
        (1, "nccl", {}, 1),
        (3, "nccl", {}, 3),
        (8, "nccl", {}, 4),
        (1, "host", {}, 4),
        (0, "nccl", {}, 4),
        (8, "nccl", {"CUDA_VISIBLE_DEVICES": "2,5"}, 2),
        (8, "nccl", {"CUDA_VISIBLE_DEVICES": "2,5", "LABKIT_DEVICE": "cpu"}, 4),
        (8, "nccl", {"CUDA_VISIBLE_DEVICES": "2, GPU-5,-1,3"}, 2),
        (8, "nccl", {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}, 1),
        (8, "nccl", {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, 4),
    ],
)
def test_no_more_ranks_than_gpus_with_nccl(gpus, build, variables, want, machine):
    machine(gpus, build, **variables)
    assert ranks.ranks_here(4) == want


def test_too_many_ranks_of_a_launcher_get_a_sentence(machine):
    machine(1, "nccl", launched=2)
    with pytest.raises(LabError, match="2 ranks and 1 GPU on this node: NCCL refuses"):
        ranks.ranks_here(4)
    machine(2, "nccl", launched=2, CUDA_VISIBLE_DEVICES="1")
    assert ranks.ranks_here(4) == 2, "ranks that are shown one GPU each are no sharers"
    machine(1, "nccl", launched=2, CUDA_VISIBLE_DEVICES="")
    assert ranks.ranks_here(4) == 2, "ranks that are shown no GPU compute on the processor"

"""Ranks of a lab with Horovod on machines with few GPUs."""

from __future__ import annotations

import pytest
from labkit import builds, world
from labkit.errors import LabError
from labkit.horovod import ranks


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(gpus, build): so many files of GPUs, and this build of Horovod."""

    def of(gpus: int, build: str) -> None:
        for number in range(gpus):
            (tmp_path / f"nvidia{number}").touch()
        (tmp_path / "nvidiactl").touch()
        monkeypatch.setattr(ranks.gpus_of_node, "__defaults__", (tmp_path,))
        monkeypatch.setattr(builds, "current_horovod", lambda: build)
        for name in ("CUDA_VISIBLE_DEVICES", "LABKIT_HOROVOD"):
            monkeypatch.delenv(name, raising=False)

    return of


@pytest.mark.parametrize(
    ("gpus", "build", "want"),
    [(1, "nccl", 1), (3, "nccl", 3), (8, "nccl", 4), (1, "host", 4), (0, "nccl", 4)],
)
def test_no_more_ranks_than_gpus_with_nccl(gpus, build, want, machine):
    machine(gpus, build)
    assert ranks.ranks_here(4) == want


def test_gpus_that_this_process_may_use(machine, monkeypatch):
    machine(8, "nccl")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert ranks.ranks_here(4) == 2
    monkeypatch.setenv("LABKIT_DEVICE", "cpu")
    assert ranks.ranks_here(4) == 4


def test_too_many_ranks_of_a_launcher_get_a_sentence(machine, monkeypatch):
    machine(1, "nccl")
    for name, value in {"launcher": "mpiexec", "local_size": 2, "size": 2}.items():
        monkeypatch.setattr(world, name, lambda value=value: value)
    with pytest.raises(LabError, match="2 ranks and 1 GPU on this node: NCCL refuses"):
        ranks.ranks_here(4)


def test_ranks_that_are_shown_one_gpu_each_are_no_sharers(machine, monkeypatch):
    machine(2, "nccl")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    for name, value in {"launcher": "srun", "local_size": 2, "size": 2}.items():
        monkeypatch.setattr(world, name, lambda value=value: value)
    assert ranks.ranks_here(4) == 2

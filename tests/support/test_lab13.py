"""Lab 13's tools: masks come back, every node's cores are told, and right answers of another kind pass."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
import torch
from labkit import virtual
from labkit.errors import LabError, NotHere
from support import lab13
from support.lab13 import affinity, cases, checks, ranks

from tests.support.answers import run_check

STEM = "13_cpu_threads_and_affinity"

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux binds threads")


@linux
def test_masks_and_threads_come_back():
    before, count = affinity.masks(), torch.get_num_threads()
    with affinity.kept():
        torch.set_num_threads(3)
        affinity.move(affinity.usable()[:1])
        assert {tuple(cores) for cores in affinity.masks().values()} == {(affinity.usable()[0],)}
    after = affinity.masks()
    assert torch.get_num_threads() == count
    assert all(after[thread] == cores for thread, cores in before.items() if thread in after)
    assert all(cores == before[os.getpid()] for thread, cores in after.items() if thread not in before)


def test_a_system_without_masks_says_so(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.raises(NotHere, match=r"13\.4 needs Linux"):
        affinity.threads()
    affinity.move([0])


def test_the_machine_in_a_line(tmp_path, monkeypatch):
    for node, cores in ((0, "0-3,8"), (1, "4-7")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{cores}\n")
    for core in range(9):
        (tmp_path / f"siblings{core}").write_text("0,8\n" if core in (0, 8) else f"{core}\n")
    monkeypatch.setattr(affinity, "NODES", tmp_path)
    monkeypatch.setattr(affinity, "SIBLINGS", str(tmp_path / "siblings{}"))
    monkeypatch.setattr(affinity, "usable", lambda: [0, 1, 2, 4, 8])
    text = affinity.describe()
    assert text.startswith("5 usable: NUMA node 0: 0-2, 8; NUMA node 1: 4.")
    assert "Hardware threads of one core: 0, 8" in text
    monkeypatch.setattr(affinity, "NODES", tmp_path / "none")
    assert "tells no NUMA nodes" in affinity.describe()


class Ranks:
    """A communicator of ranks with given cores, seen by one of them."""

    def __init__(self, rank, everyone):
        self.rank, self.everyone = rank, everyone

    def allgather(self, _):
        return self.everyone


def test_ranks_share_only_equal_masks():
    loose, own = (("node1", (0, 1)), [0, 1]), (("node1", (2,)), [2])
    everyone = [loose, own, loose]
    assert [affinity.place(Ranks(rank, everyone)) for rank in range(3)] == [
        (0, 2, [0, 1]),
        (0, 1, [2]),
        (1, 2, [0, 1]),
    ]
    crowd = [loose] * 3
    assert [affinity.place(Ranks(rank, crowd))[:2] for rank in range(3)] == [(0, 2), (1, 2), (0, 2)]


def by_array_split(rank, size, cores):
    return np.array_split(sorted(cores), size)[rank].tolist()


def by_lstsq(seconds):
    a = [[1, 1 / threads] for threads in seconds]
    return list(np.linalg.lstsq(np.array(a), np.array(list(seconds.values())), rcond=None)[0])


def by_weights(comm, net, images, labels, batch):
    loss = torch.nn.functional.cross_entropy(net(images), labels) * len(images) / batch
    for weight, gradient in zip(net.parameters(), torch.autograd.grad(loss, net.parameters()), strict=True):
        total = np.empty(gradient.shape, np.float32)
        comm.Allreduce(gradient.numpy(), total)
        weight.grad = torch.from_numpy(total)


def threads_first(cores):
    torch.set_num_threads(len(cores))
    for name in os.listdir(f"/proc/{os.getpid()}/task"):
        os.sched_setaffinity(int(name), set(cores))


def other_speedup(serial, parallel, threads):
    return 1 / (serial + parallel / threads) * (serial + parallel)


@pytest.mark.parametrize(
    ("cores", "most", "processes"),
    [(1, 4, [1]), (7, 4, [1]), (12, 8, [1, 2, 3, 4, 6]), (56, 64, [1, 2, 4, 7, 8, 14, 28, 56])],
)
def test_splits_use_all_cores(cores, most, processes):
    assert ranks.splits(cores, most) == [(p, cores // p) for p in processes]


def test_other_right_answers_pass():
    run_check(STEM, "13.1", cores_of=by_array_split)
    run_check(STEM, "13.2", amdahl=by_lstsq, speedup=other_speedup)
    run_check(STEM, "13.3", step=by_weights)


@pytest.mark.slow
@linux
def test_another_right_bind_passes():
    options = {"ranks": 1, "timeout": 60, "width": 4, "batch": 4, "repeat": 5}
    run_check(
        STEM,
        "13.4",
        bind=threads_first,
        cores_of=by_array_split,
        step=by_weights,
        launch=InPlace,
        options=options,
    )


class InPlace:
    """In place of labkit.launch: one rank, in this process, where MPI is not started."""

    @staticmethod
    def run(function, *args, ranks, timeout, **options):
        return virtual.Cluster(1).run(function, *args, **options).results


@pytest.mark.slow
def test_wrong_gradients_are_wrong():
    for p in (1, 2, 3, 4):
        trial = checks.ten_images(by_weights, p)
        for rank in range(p):
            assert trial.gradients[rank] == pytest.approx(trial.right, rel=1e-3, abs=1e-5)
            same = [
                np.allclose(trial.right, wrong, rtol=1e-3, atol=1e-5) for wrong in trial.wrong(rank).values()
            ]
            assert sum(same) == {1: 3, 2: 1, 3: 0, 4: 0}[p]  # equal to what is right, and so never named


def test_heat_map_of_one_cell_and_of_many():
    single = lab13.heat_map({(1, 1): (100.0, 90.0, 110.0)}, cores=1)
    cells = {(p, t): (p * t * 10.0, 1.0, 99.0) for p in (1, 2, 4) for t in (1, 2) if p * t < 8}
    texts = [text.get_text() for text in lab13.heat_map(cells, cores=4, name="many").axes[0].texts]
    assert sum("best" in text for text in texts) == 2
    assert len(single.axes[0].texts) == 1


def test_ways_of_waiting(monkeypatch):
    monkeypatch.setattr(ranks.world, "launcher", lambda: None)
    assert ranks.policies(("active", "passive")) == ["active", "passive"]
    assert ranks.policies("passive") == ["passive"]
    for wrong in ((), ("busy",)):
        with pytest.raises(LabError, match="waiting must hold"):
            ranks.policies(wrong)
    monkeypatch.setattr(ranks.world, "launcher", lambda: "slurm")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert ranks.policies(("passive",)) == ["active"]


@pytest.mark.parametrize(("width", "images"), [(0, 4), (4, 0), (4, -3), (4, 2.5)])
def test_sizes_below_one_are_refused(width, images):
    with pytest.raises(LabError, match="whole number of at least 1"):
        cases.pictures(width, images)


@linux
def test_a_mask_that_the_system_cut_is_noticed():
    with affinity.kept():
        own = sorted(os.sched_getaffinity(0))
        assert affinity.may_use(own)
        assert not affinity.may_use([*own, (os.cpu_count() or 1) + 500])

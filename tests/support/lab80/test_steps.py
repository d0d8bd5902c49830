"""Lab 80's support: steps whose parts add up, records that support themselves, a report's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import virtual
from labkit import lab, launch, paths, record, scaling
from labkit.errors import LabError
from support import lab80
from support.lab80 import records, steps

PARAMETERS = {
    "where": "virtual", "machine": "roce25_p100", "net": "resnet101", "speed": 119.4,
    "jitter": 0.02, "seed": 1, "images": 64, "most": 4, "rounds": 2, "steps": 3, "epoch": 1281167,
    "question": "Up to how many ranks does it pay?", "enough": 0.7,
}  # fmt: skip


@pytest.fixture
def notes():
    """A virtual study with predictions on record, not yet measured."""
    lab.start(records.LAB)
    setup = lab80.begin("virtual", "roce25_p100", "resnet101", 119.4, 64, 4)
    predicted = {(kind, ranks): 1.0 for kind in ("strong", "weak") for ranks in setup.counts}
    return lab80.Notes(setup, predicted, PARAMETERS)


def test_a_setup_knows_its_links():
    setup = lab80.begin("virtual", "roce25_p100", "resnet101", 119.4, 64, 24)
    machine = virtual.machine("roce25_p100")
    assert setup.counts == (1, 2, 4, 8, 16, 24)
    assert setup.link(4) == (machine.inside.latency, 1 / machine.inside.bandwidth)
    assert setup.link(8) == (machine.between.latency, 1 / machine.between.bandwidth)
    assert setup.nbytes == pytest.approx(178.2e6, rel=1e-3)
    assert "178.20 MB" in str(setup)


def test_without_jitter_a_virtual_step_is_computing_and_a_ring():
    cluster = virtual.Cluster(8, 1, virtual.ideal(alpha=1e-6, bandwidth=1e9))
    run = cluster.run(steps.on_virtual_ranks, 0.1, 1e8, 3, 0.0, [1])
    ring = scaling.costs.ring_allreduce_time(1e8, 8, 1e-6, 1e-9)
    for compute, allreduce in run.results:
        np.testing.assert_allclose(compute, 0.1)
        np.testing.assert_allclose(allreduce, ring, rtol=1e-6)


def test_ranks_that_write_nothing_have_the_study_in_memory(notes, monkeypatch):
    notes.measure(notes.configurations() * 2)
    record.path(records.LAB).unlink()
    monkeypatch.setattr("labkit.world.is_root", lambda: False)
    study = notes.study()
    assert study.ranks("weak") == [1, 2, 4]
    assert study.faults == []
    assert {len(entry["samples"]) for entry in study.runs["weak"].values()} == {6}
    assert (study.runs["strong"][4]["images"], study.runs["weak"][4]["images"]) == (64, 256)
    lab80.publish("nothing", study)
    assert not (paths.home() / "report").exists()


def test_a_report_that_was_edited_is_kept(notes, capsys):
    notes.measure(notes.configurations())
    study = notes.study()
    text = lab80.assemble("A study", {"Limits": "Words."}, study)
    assert text.startswith(f"---\nstudy: {notes.name}\n---\n")
    folder = paths.home() / "report"
    for _ in range(2):
        with pytest.raises(LabError, match="The report is refused"):
            lab80.publish(text, study)
    assert "kept as" not in capsys.readouterr().out
    (folder / "report.md").write_text("mine")
    with pytest.raises(LabError):
        lab80.publish(text, study)
    assert "it is kept as" in capsys.readouterr().out
    assert (folder / "report-1.md").read_text() == "mine"


@pytest.mark.slow
def test_a_real_step_has_nothing_left_out():
    run = launch.run(steps.on_real_ranks, "strong", 6, 3, ranks=2, threads=1)[1]
    assert run.compute.shape == run.allreduce.shape == (2, 3)
    first, second = (run.compute + run.allreduce).sum(axis=1)
    assert first == pytest.approx(second, rel=0.5)
    assert (run.compute > 0).all()
    assert (run.allreduce > 0).all()
    assert (run.joules is None) == (not run.meter)
    assert run.nodes == 1
    assert run.place["library"]


def zone(folder: Path, name: str, counts: int, title: str) -> Path:
    """A counter below a folder like /sys/class/powercap."""
    made = folder / name
    made.mkdir()
    (made / "name").write_text(f"{title}\n")
    (made / "energy_uj").write_text(f"{counts}\n")
    return made / "energy_uj"


def test_joules_of_all_packages_and_of_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "POWERCAP", tmp_path)
    monkeypatch.setattr("labkit.world.device", lambda: "cpu")
    assert steps.joules_since(steps.energy()) is None
    zone(tmp_path, "intel-rapl:0:0", 9, "core")
    zone(tmp_path, "intel-rapl:2", 9, "psys")
    first = zone(tmp_path, "intel-rapl:0", 1_000_000, "package-0")
    second = zone(tmp_path, "intel-rapl:1", 5_000_000, "package-1")
    before = steps.energy()
    assert list(before) == ["RAPL package-0", "RAPL package-1"]
    first.write_text("3500000")
    second.write_text("5500000")
    assert steps.joules_since(before) == pytest.approx(3.0)
    second.write_text("9")  # it has come to its end, and begun again
    assert steps.joules_since(before) is None
    second.write_text("?")
    assert steps.joules_since(before) is None


@pytest.mark.gpu
def test_gpus_count_their_own():
    import torch

    before = steps.energy()
    assert "NVML GPU 0" in before
    large = torch.randn(4096, 4096, device="cuda")
    for _ in range(200):
        large @ large
    torch.cuda.synchronize()
    assert steps.joules_since(before) > 0

"""Lab 80's support: steps whose parts add up, records that support themselves, a report's file."""

from __future__ import annotations

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
    notes.measure(notes.configurations())
    record.path(records.LAB).unlink()
    monkeypatch.setattr("labkit.world.is_root", lambda: False)
    study = notes.study()
    assert study.ranks("weak") == [1, 2, 4]
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
    ranks = launch.run(steps.real, "strong", 6, 8, 3, ranks=2, threads=1)
    assert [of_rank.compute.shape for of_rank in ranks] == [(3,), (3,)]
    whole = [float((of_rank.compute + of_rank.allreduce).sum()) for of_rank in ranks]
    assert whole[0] == pytest.approx(whole[1], rel=0.5)
    assert all((of_rank.compute > 0).all() and (of_rank.allreduce > 0).all() for of_rank in ranks)
    assert ranks[1].joules == 0  # one rank of a node reads its meter
    assert (ranks[0].joules is None) == bool(ranks[0].no_meter)
    assert ranks[0].place["library"]

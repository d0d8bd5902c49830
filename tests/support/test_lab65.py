"""Lab 65's support: what runs say, and the ways that the lab's own tests do not run, on real
processes."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from labkit.errors import LabError
from support import lab65

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")


def report(moments, losses=(1.0, 2.0), megabytes=100.0):
    return lab65.Report(0.0, moments, list(losses), megabytes)


def read_run(started, moments, batch):
    return moments[0][0] - started, list(batch / np.diff(moments[0]))


def test_spans_are_of_all_rounds_and_ranks():
    first = [report([2.0, 2.5, 3.0]), report([], megabytes=300.0)]
    second = [report([4.0, 4.25, 4.5]), report([])]
    runs = {"FSDP2": [first, second], "PyTorch alone": [first[:1]]}
    spans = lab65.evidence(runs, {"FSDP2": 12}, read_run, 10)
    assert list(spans) == list(lab65.COLUMNS)
    assert spans["lines changed"] == {"FSDP2": (12, 12)}
    assert spans["images/s"]["FSDP2"] == (20, 40)
    assert spans["start-up (s)"]["FSDP2"] == (2, 4)
    assert spans["memory (MB)"]["FSDP2"] == (100, 300)
    assert "PyTorch alone" in spans["images/s"]
    assert lab65.show(spans).loc["FSDP2", "lines changed"] == "12"


@pytest.mark.parametrize(
    ("hosts", "of_site", "interface"),
    [
        (["n1", "n1"], "ib0", "lo"),
        (["n1", "n2"], "ib0", "ib0"),
        (["n1", "n2"], None, None),  # Gloo's own choice
    ],
)
def test_the_interface_of_horovods_processes(hosts, of_site, interface, monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    if of_site:
        monkeypatch.setenv("HOROVOD_GLOO_IFACE", of_site)
    comm = mock.Mock(rank=0, size=2)
    comm.allgather.return_value = hosts
    comm.bcast.side_effect = lambda own: own
    with lab65.meeting(comm, "horovod") as variables:
        assert variables.get("HOROVOD_GLOO_IFACE") == interface


@linux
@pytest.mark.slow
def test_a_script_that_does_not_train_is_a_sentence(monkeypatch):
    monkeypatch.setitem(lab65.ALONE, "nothing", lab65.Way("no_such_script", "torch_alone", ""))
    with pytest.raises(LabError, match="no_such_script.py does not train here: .* with status 2"):
        lab65.measure(["nothing"], 2, 1, width=8, batch=8, steps=6)


def losses_of_one_device(script: str, *arguments: int) -> list[float]:
    """What the one-device script prints."""
    command = [sys.executable, str(lab65.path_of(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line.split()[2]) for line in done.stdout.splitlines()]


@linux
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_horovod_and_tensorflow_train_as_one_device():
    """The lab's own tests run DDP and FSDP2."""
    names = ["Horovod on PyTorch", "Horovod on TensorFlow", "tf.distribute"]
    runs = lab65.measure(names, 2, 1, width=16, batch=16, steps=6)
    mean = {}
    for name in names:
        first, last = runs[name][0]
        mean[name] = np.mean([first.losses[:6], last.losses[:6]], axis=0)
        assert first.megabytes > 50
    alone = losses_of_one_device("torch_alone", 16, 16, 6)
    assert mean["Horovod on PyTorch"] == pytest.approx(alone, abs=1e-4)
    assert mean["Horovod on TensorFlow"] == pytest.approx(mean["tf.distribute"], abs=1e-4)

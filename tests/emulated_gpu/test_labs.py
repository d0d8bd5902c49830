"""The labs that move tensors to GPUs, solved, on machines with one to four emulated ones.

In CI, and with EVERY_LAB=1, all of them; else those that use GPUs each in a way of its own.
"""

from __future__ import annotations

import pytest
from labkit import labfile, record

from tests import emulated_gpu
from tests.labs import solved_runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(960)]
# Lab 10 is not among them: its check replaces F.cross_entropy, which the emulation calls by name.
SHARED = [(30, 2), (40, 1), (42, 2), (46, 2), (50, 2), (60, 1), (60, 2), (64, 1), (69, 2)]
EACH_HAS_ONE = [(62, 4), (63, 4), (64, 2), (66, 4), (67, 4), (68, 2)]
# Horovod, its own MPI path, three libraries, a GPU that two ranks share, one for each of two ranks,
# and one for each of four.
USUAL = [(40, 1), (42, 2), (46, 2), (60, 1), (64, 2), (66, 4)]
RUNS = [*SHARED, *EACH_HAS_ONE] if solved_runs.EVERY_LAB else USUAL
# As in a batch job. The others run as notebooks, whose ranks are forks and begin sooner.
UNDER_MPIEXEC = (42, 46, 60, 64, 69)


@pytest.mark.parametrize(("lab", "gpus"), RUNS)
def test_a_solved_lab_runs(lab, gpus, tmp_path, monkeypatch):
    for name, value in emulated_gpu.environment(gpus).items():
        monkeypatch.setenv(name, value)
    stem = labfile.find(lab)
    if lab in UNDER_MPIEXEC:
        solved_runs.assert_solved(stem, tmp_path)
    else:
        solved_runs.assert_solved_as_notebook(stem, tmp_path)
    if (lab, gpus) in EACH_HAS_ONE:
        (file,) = tmp_path.rglob(f"records/{stem}.jsonl")
        devices = {entry.get("trained_on") for entry in record.entries(file)} - {None}
        assert devices == {"cuda:0"}  # rank 0's own, of all its training runs

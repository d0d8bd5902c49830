"""The labs that move tensors to GPUs, solved, on machines with one and two emulated ones."""

from __future__ import annotations

import pytest
from labkit import labfile

from tests import emulated_gpu
from tests.labs import solved_runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(960)]


@pytest.mark.parametrize(
    ("lab", "gpus"), [(10, 1), (30, 2), (40, 1), (42, 2), (46, 2), (50, 2), (60, 1), (60, 2)]
)
def test_a_solved_lab_runs(lab, gpus, tmp_path, monkeypatch):
    for name, value in emulated_gpu.environment(gpus).items():
        monkeypatch.setenv(name, value)
    solved_runs.assert_solved(labfile.find(lab), tmp_path)

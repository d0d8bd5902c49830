"""A lab's parameter `dataset` takes files of the learner's: small ones here, in the real format."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from labkit import paths

from tests.labkit.test_data import write_idx

pytestmark = pytest.mark.slow


def run_lab_10(folder, *settings: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "labkit",
        "run",
        "10",
        "--solved",
        "--set",
        f"dataset=mnist:{folder}",
    ]
    return subprocess.run(
        [*command, *settings],
        cwd=paths.root(),
        env={**os.environ, "LABKIT_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_lab_10_trains_on_mnists_files(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 256), ("t10k", 256)):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = rng.integers(100, size=(count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[:, label : label + 3] = 250  # a bar whose place says which class
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", labels)
    how = run_lab_10(tmp_path, "epochs=1", "seeds=(0,)", "learning_rate=0.05")
    assert how.returncode == 0, how.stderr[-2000:]
    assert how.stdout.count("✓ 10.") == 4
    assert "in_features=784" in how.stdout

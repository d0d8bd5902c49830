"""Counters of energy: files as Linux shows them; what cannot be read is None, never 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lab80 import energy


def zone(folder: Path, name: str, counts: int, title: str = "package-0") -> Path:
    """A counter below a folder like /sys/class/powercap."""
    made = folder / name
    made.mkdir(parents=True)
    (made / "name").write_text(f"{title}\n")
    (made / "energy_uj").write_text(f"{counts}\n")
    (made / "max_energy_range_uj").write_text("262143328850\n")
    return made


def test_joules_of_all_packages_and_of_nothing_twice(tmp_path):
    first = zone(tmp_path, "intel-rapl:0", 1_000_000)
    second = zone(tmp_path, "intel-rapl:1", 5_000_000, "package-1")
    inside = zone(tmp_path, "intel-rapl:0:0", 9, "core")
    board = zone(tmp_path, "intel-rapl:2", 9, "psys")
    meter = energy.Meter(tmp_path)
    assert meter.name == "RAPL of 2 packages"
    before = meter.read()
    (first / "energy_uj").write_text("3500000")
    (second / "energy_uj").write_text("5500000")
    for part in (inside, board):
        (part / "energy_uj").write_text("999999999")
    assert meter.joules(before) == pytest.approx(3.0)
    # A counter begins again at 0 when it is full.
    (first / "energy_uj").write_text("262143000000")
    before = meter.read()
    (first / "energy_uj").write_text("671150")
    assert meter.joules(before) == pytest.approx(1.0)


ZONE = "intel-rapl:0"
NONE = [  # what is there, and why there is no number
    (lambda folder: None, "shows no energy counter"),
    (lambda folder: zone(folder, ZONE, 1, "psys"), "shows no energy counter"),
    (lambda folder: (zone(folder, ZONE, 1) / "energy_uj").write_text("?"), "cannot be read here"),
    (lambda folder: (zone(folder, ZONE, 1) / "energy_uj").unlink(), "cannot be read here"),
]


@pytest.mark.parametrize(("spoil", "why"), NONE)
def test_without_a_counter_there_is_no_number_and_a_reason(tmp_path, spoil, why):
    spoil(tmp_path)
    meter = energy.Meter(tmp_path)
    assert meter.name == ""
    assert meter.read() is meter.joules(None) is meter.joules({}) is None
    assert why in meter.why


@pytest.mark.gpu
def test_gpus_count_their_own():
    import torch

    meter = energy.Meter()
    assert "NVML" in meter.name
    before = meter.read()
    large = torch.randn(4096, 4096, device="cuda")
    for _ in range(200):
        large @ large
    torch.cuda.synchronize()
    assert meter.joules(before) > 0

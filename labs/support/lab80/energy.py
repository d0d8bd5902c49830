"""Joules of this machine, where they can be read: counters of its processors (RAPL) and of its GPUs
(NVML).

    meter = energy.Meter()
    before = meter.read()
    …
    joules = meter.joules(before)  # None where nothing may be read here; meter.why says why

RAPL ("running average power limit") counts the energy of a processor package; Linux shows its
counters below /sys/class/powercap, since 2020 to root alone (CVE-2020-8694: power tells secrets).
Each counts microjoules up to its own end, `max_energy_range_uj`, and begins again at 0. NVML counts
millijoules of a GPU since its driver was loaded (nvmlDeviceGetTotalEnergyConsumption, Volta and
newer). Both count all that runs there, not one process. Neither counts power supplies, fans, disks
or switches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labkit import world
from labkit.errors import counted

POWERCAP = Path("/sys/class/powercap")


class Meter:
    """The counters of this machine. name: which ones, in words ("" for none); why: why there are
    none."""

    def __init__(self, powercap: Path = POWERCAP):
        self._packages, self.why = _packages(powercap)
        self._gpus = _gpus()
        packages = [f"RAPL of {counted(len(self._packages), 'package')}"] if self._packages else []
        gpus = [f"NVML of {counted(len(self._gpus), 'GPU')}"] if self._gpus else []
        self.name = ", ".join(packages + gpus)
        self.why = "" if self.name else f"{self.why}, and there is no GPU that counts its own"

    def read(self) -> dict[object, float] | None:
        """Joules on all counters now. None where there are none."""
        if not self.name:
            return None
        joules = {zone: _number(zone / "energy_uj") / 1e6 for zone in self._packages}
        return joules | {
            index: _millijoules(handle) / 1e3 for index, handle in enumerate(self._gpus)
        }

    def joules(self, before: Mapping[object, float] | None) -> float | None:
        """Joules since `before`, which `read` gave. None where nothing can be read: never 0 in its
        place.

        A counter that has begun again at 0 meanwhile is understood, once: read it every few
        minutes.
        """
        now = self.read()
        if before is None or now is None:
            return None
        again = [zone for zone in self._packages if now[zone] < before[zone]]
        ends = sum(_number(zone / "max_energy_range_uj") / 1e6 for zone in again)
        return sum(now.values()) - sum(before.values()) + ends


def _packages(powercap: Path) -> tuple[list[Path], str]:
    """(folders of the packages' counters, why there are none).

    intel-rapl:0 is a package. intel-rapl:0:1, its memory or cores, may be part of it and is left
    out; so is the other way to the same counters, intel-rapl-mmio. AMD's processors are found under
    the same name.
    """
    zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if zone.name.count(":") == 1]
    try:
        zones = [zone for zone in zones if (zone / "name").read_text().startswith("package")]
        for zone in zones:
            _number(zone / "energy_uj")
            _number(zone / "max_energy_range_uj")
    except PermissionError as error:
        return [], f"only root may read the energy counter of the processor here ({error.filename})"
    except (OSError, ValueError) as error:
        return [], f"the energy counter of the processor cannot be read here ({error})"
    return zones, "" if zones else f"{powercap} shows no energy counter of this machine's processor"


def _number(file: Path) -> int:
    return int(file.read_text())


def _gpus() -> list[object]:
    """NVML's handle of each GPU of this machine, if they count their energy."""
    if world.device() == "cpu":
        return []
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        for handle in handles:
            _millijoules(handle)
    except Exception:  # no library, no driver, or GPUs older than Volta: then nothing is read
        return []
    return handles


def _millijoules(handle) -> int:
    import pynvml

    return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)

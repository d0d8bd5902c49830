"""Joules of this machine, where they can be read: counters of its processors (RAPL) and of its GPUs (NVML).

    meter = energy.Meter()
    before = meter.read()
    …
    joules = meter.joules(before)  # None where nothing may be read here; meter.why says why

RAPL ("running average power limit") counts the energy of a processor package; Linux shows its counters below
/sys/class/powercap, since 2020 to root alone (CVE-2020-8694: power tells secrets). Each counts microjoules
up to its own end, `max_energy_range_uj`, and begins again at 0. NVML counts millijoules of a GPU since its
driver was loaded (nvmlDeviceGetTotalEnergyConsumption, Volta and newer). Both count all that runs there, not
one process. Neither counts power supplies, fans, disks or switches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labkit.errors import counted

POWERCAP = Path("/sys/class/powercap")


class Meter:
    """The counters of this machine. name: which ones, in words ("" for none); why: why there are none."""

    def __init__(self, powercap: Path = POWERCAP):
        self._packages, self.why = _packages(powercap)
        self._gpus = _gpus()
        parts = [f"RAPL of {counted(len(self._packages), 'package')}"] if self._packages else []
        if self._gpus:
            parts.append(f"NVML of {counted(len(self._gpus), 'GPU')}")
        self.name = ", ".join(parts)
        if self.name:
            self.why = ""
        else:
            self.why += ", and there is no GPU that counts its own"

    def read(self) -> dict[str, int] | None:
        """All counters now: microjoules of packages, millijoules of GPUs. None where there are none."""
        if not self.name:
            return None
        counts = {str(zone): _number(zone / "energy_uj") for zone in self._packages}
        return counts | {f"gpu {index}": _millijoules(handle) for index, handle in self._gpus.items()}

    def joules(self, before: Mapping[str, int] | None) -> float | None:
        """Joules since `before`, which `read` gave. None where nothing can be read: never 0 in its place.

        A counter that has begun again at 0 meanwhile is understood, once: read it every few minutes.
        """
        now = self.read()
        if before is None or now is None:
            return None
        total = 0.0
        for zone in self._packages:
            top = _number(zone / "max_energy_range_uj")
            total += since(before[str(zone)], now[str(zone)], top) / 1e6
        for index in self._gpus:
            total += (now[f"gpu {index}"] - before[f"gpu {index}"]) / 1e3
        return total


def since(before: int, now: int, top: int) -> int:
    """How far a counter has gone that begins again at 0 after `top`."""
    return now - before if now >= before else now - before + top


def _packages(powercap: Path) -> tuple[list[Path], str]:
    """(folders of the packages' counters, why there are none).

    intel-rapl:0 is a package. intel-rapl:0:1, its memory or cores, may be part of it and is left out; so is
    the other way to the same counters, intel-rapl-mmio. AMD's processors are found under the same name.
    """
    zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if zone.name.count(":") == 1]
    zones = [zone for zone in zones if _is_package(zone)]
    if not zones:
        return [], f"this machine shows no energy counter of its processor ({powercap} has none)"
    try:
        for zone in zones:
            _number(zone / "energy_uj")
            _number(zone / "max_energy_range_uj")
    except PermissionError:
        return [], f"only root may read the energy counter of the processor here ({zones[0]}/energy_uj)"
    except OSError as error:
        return [], f"the energy counter of the processor cannot be read here ({zones[0]}: {error.strerror})"
    except ValueError:
        return [], f"the energy counter of the processor holds no number here ({zones[0]}/energy_uj)"
    return zones, ""


def _is_package(zone: Path) -> bool:
    try:
        return (zone / "name").read_text().strip().startswith("package")
    except OSError:
        return False


def _number(file: Path) -> int:
    return int(file.read_text())


def _gpus() -> dict[int, object]:
    """Index -> NVML's handle of each GPU that this process may use and that counts its energy."""
    import os

    from labkit import world

    if world.device() == "cpu":
        return {}
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = {}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        chosen = {int(part) for part in visible.split(",") if part.strip().isdigit()}
        for index in range(pynvml.nvmlDeviceGetCount()):
            if not chosen or index in chosen:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
                handles[index] = handle
        return handles
    except Exception:  # no library, no driver, or GPUs older than Volta: then nothing is read
        return {}


def _millijoules(handle) -> int:
    import pynvml

    return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))

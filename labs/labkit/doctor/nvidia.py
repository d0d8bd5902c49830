"""This machine's NVIDIA GPUs: by the management library, or by nvidia-smi where its package is missing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable


def tell_gpus(say: Callable) -> None:
    """Driver, devices and how they are connected; `say(key, value)` takes each finding."""
    try:
        import pynvml
    except ImportError:
        count = _by_tool(say)
    else:
        count = _by_library(say, pynvml)
    if count > 1:
        say("gpu.topology", _output("nvidia-smi", "topo", "-m"))


def _by_library(say: Callable, nvml) -> int:
    nvml.nvmlInit()
    say("gpu.driver", _text(nvml.nvmlSystemGetDriverVersion()))
    cuda = nvml.nvmlSystemGetCudaDriverVersion()
    say("libraries.cuda_driver", f"{cuda // 1000}.{cuda % 1000 // 10}")
    devices = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
        devices.append(_device(_text(nvml.nvmlDeviceGetName(handle)), memory, f"{major}.{minor}"))
    say("gpu.devices", devices or None)
    return len(devices)


def _by_tool(say: Callable) -> int:
    fields = "--query-gpu=driver_version,name,memory.total,compute_cap"
    lines = _output("nvidia-smi", fields, "--format=csv,noheader,nounits").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    rows = [row for row in rows if len(row) == 4 and row[2].isdigit()]
    if rows:
        say("gpu.driver", rows[0][0])
        say("gpu.devices", [_device(name, int(mib) / 1024, capability) for _, name, mib, capability in rows])
    cuda = re.search(r"CUDA Version: ([\d.]+)", _output("nvidia-smi"))
    say("libraries.cuda_driver", cuda[1] if cuda else None)
    return len(rows)


def nccl_version(number: int) -> str:
    """ncclGetVersion's number in the usual form: 22907 is 2.29.7 (before 2.9: 2804 is 2.8.4)."""
    major, rest = divmod(number, 10000 if number >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def links(topology: str) -> str | None:
    """`nvidia-smi topo -m` in a few words: "NV18 between 28 pairs"."""
    rows = [line.split() for line in topology.splitlines() if line.startswith("GPU")]
    counts: dict[str, int] = {}
    for number, row in enumerate(rows):
        for code in row[number + 2 : len(rows) + 1]:  # above the diagonal: each pair once
            counts[code] = counts.get(code, 0) + 1
    parts = [f"{code} between {_pairs(count)}" for code, count in sorted(counts.items())]
    return ", ".join(parts) or None


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def _device(name: str, memory_gib: float, capability: str) -> dict:
    return {"name": name, "memory_gib": round(memory_gib, 1), "capability": capability}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else value

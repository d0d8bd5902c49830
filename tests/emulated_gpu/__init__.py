"""GPUs that are emulated in PyTorch, so that mistakes with devices show on a machine without one.

Tensors stay in host memory, and each storage carries a mark that says on which device it is. What
PyTorch, NCCL and MPI refuse of a GPU's tensor is refused of a marked one, with their words:

* `.numpy()` and NumPy's functions; operations of tensors on two devices; a device that is not there
* a host tensor in an NCCL group; two ranks of an NCCL group on one GPU
* a GPU's tensor handed to an MPI that takes no GPU memory
* a clock that is read before the device is done: each operation takes EMULATED_SECONDS on the
  device's own time line, and only synchronizing, events and copies to the host wait for it

It computes what a CPU computes, and says nothing about speed, memory or drivers.
`environment(2)` gives the variables for a process and all that it starts.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(gpus: int, seconds: float = 0.0) -> dict[str, str]:
    """The variables with which every Python that imports PyTorch has this many emulated GPUs.

    seconds: that each operation takes on a device.
    """
    path = [ROOT / "tests" / "emulated_gpu" / "on_import", ROOT / "labs", ROOT]
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {
        "EMULATED_GPUS": str(gpus),
        "EMULATED_SECONDS": str(seconds),
        "PYTHONPATH": os.pathsep.join([*map(str, path), *filter(None, before)]),
    }

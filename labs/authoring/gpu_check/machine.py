"""What the machine is, by the doctor's report: for the page, and for every record."""

from __future__ import annotations

from labkit import builds

# Facts of the doctor that the page shows: key -> label.
SHOWN = {
    "gpu.devices": "GPUs",
    "gpu.links": "links between them",
    "gpu.driver": "driver",
    "libraries.cuda_driver": "CUDA, most the driver can",
    "libraries.cuda_toolkit": "CUDA toolkit",
    "libraries.cuda_torch": "CUDA of PyTorch",
    "libraries.cudnn": "cuDNN",
    "libraries.nccl": "NCCL",
    "versions.torch": "PyTorch",
    "versions.tensorflow": "TensorFlow",
    "horovod.version": "Horovod",
    "horovod.builds": "its builds",
    "horovod.gpu_tensors": "GPU tensors, by Horovod's default build",
    "mpi.banner": "MPI",
    "mpi.gpu_tensors": "GPU tensors, by MPI",
    "machine.cpu": "processor",
    "machine.cores": "cores",
    "machine.memory_gib": "memory (GiB)",
    "versions.python": "Python",
}


def fact(report: dict, key: str):
    """A fact of the doctor's report, such as "gpu.driver"; None where it was not found."""
    group, name = key.split(".")
    return report[group][name]


def rows(report: dict) -> list[tuple[str, str]]:
    """(label, value in a line) of what the page shows; "not found" where there is none."""
    from labkit import doctor

    table = []
    for key, label in SHOWN.items():
        value = fact(report, key)
        text = "not found" if value is None else doctor.readable(value).replace("\n", "; ")
        table.append((label, text))
    return table


def gpus(report: dict) -> int:
    """How many GPUs the doctor saw."""
    return len(fact(report, "gpu.devices") or ())


def versions(report: dict) -> dict[str, object]:
    """For every record: what GPU, and under which versions."""
    devices = fact(report, "gpu.devices") or [{"name": None}]
    return {
        "gpu": devices[0]["name"],
        "gpus": gpus(report),
        "driver": fact(report, "gpu.driver"),
        "cuda": fact(report, "libraries.cuda_torch"),
        "cuda_of_driver": fact(report, "libraries.cuda_driver"),
        "nccl": fact(report, "libraries.nccl"),
    }


def horovod_is_here() -> bool:
    """Whether a rank that is started now would find Horovod; asked anew each time, as it may be compiled."""
    return bool(builds.horovod_builds())


def tensorflow_lacks(report: dict) -> str:
    """Why labs of TensorFlow cannot run here, in a sentence; "" if they can."""
    if fact(report, "versions.tensorflow") is None:
        return "TensorFlow is not installed here."
    if fact(report, "threads.tensorflow") is None:
        return "TensorFlow is installed here, but cannot be imported."
    return ""

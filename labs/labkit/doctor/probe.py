"""Probes that load foreign libraries, each in a process of its own:
`python -m labkit.doctor.probe NAME`.

A library may print, hang, abort or clash with another; here it can do so without harm. Every
finding is one JSON line on standard output as soon as it is known, {"key": …, "value": …}: what
came before a crash is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from labkit import mpis, world
from labkit.errors import counted


def say(key: str, value) -> None:
    """Report one finding."""
    print(json.dumps({"key": key, "value": value}), file=_out, flush=True)


def numpy() -> None:
    """Which BLAS NumPy uses, with how many threads."""
    import numpy
    from threadpoolctl import threadpool_info

    numpy.ones((8, 8)) @ numpy.ones((8, 8))
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    texts = [
        f"{pool['internal_api']} {pool['version']}: {pool['num_threads']} threads" for pool in pools
    ]
    say("threads.blas", texts or None)


def torch() -> None:
    """PyTorch's threads and libraries; then Horovod's library and mpi4py beside it, as in a lab."""
    import torch

    say("threads.torch", torch.get_num_threads())
    say(
        "libraries.cuda_torch",
        torch.version.cuda or (torch.version.hip and f"HIP {torch.version.hip}"),
    )
    if torch.backends.cudnn.is_available():
        number = torch.backends.cudnn.version()
        say("libraries.cudnn", f"{number // 10000}.{number // 100 % 100}.{number % 100} (PyTorch)")
    if torch.cuda.is_available() and torch.distributed.is_nccl_available():
        say("libraries.nccl", ".".join(map(str, torch.cuda.nccl.version())) + " (PyTorch)")
    if torch.backends.mkldnn.is_available():
        version = re.search(r"(?:MKL-DNN|oneDNN) v([\d.]+)", torch.__config__.show())
        say("onednn.torch", f"{version[1] if version else 'yes'} (PyTorch)")
    _horovod("torch", "mpi_lib_v2")
    _both_mpis()
    if torch.version.cuda:
        say("gpu.works", computes(torch))


def computes(torch) -> str:
    """ "yes", or PyTorch's own words where it cannot compute on a GPU: of too old a driver, or of a
    card for which it has no kernels."""
    number = 0
    try:
        for number in range(max(1, torch.cuda.device_count())):
            torch.ones(1, device=f"cuda:{number}").add(1).item()
    except Exception as error:
        return f"cuda:{number}: {type(error).__name__}: {error}".splitlines()[0]
    return "yes"


def tensorflow() -> None:
    """TensorFlow's threads and libraries; Horovod's library for it."""
    import tensorflow

    # 0 means that TensorFlow decides: one thread per core it may use.
    threads = tensorflow.config.threading.get_intra_op_parallelism_threads()
    threads = threads or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0)
    say("threads.tensorflow", threads or len(os.sched_getaffinity(0)))
    build = tensorflow.sysconfig.get_build_info()
    say("libraries.cuda_tensorflow", build.get("cuda_version"))
    if build.get("cudnn_version"):
        say("libraries.cudnn", f"{build['cudnn_version']} (TensorFlow)")
    off = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") == "0"
    say("onednn.tensorflow", f"{'off' if off else 'on'} (TensorFlow)")
    _horovod("tensorflow", "mpi_lib")


def mpi() -> None:
    """Which MPI is it? MPI_Get_library_version may be called before MPI_Init, so nothing is
    started."""
    _load_mpi()
    library = mpis.loaded_library()
    for name, value in library._asdict().items():
        say(f"mpi.{name}", value)
    if (library.family or "").startswith("MVAPICH2"):  # the others want to be asked after MPI_Init
        say("mpi.cuda_built", mpis.takes_gpu_memory())


def mpi_init() -> None:
    """What MPI gives once it runs, in a job of one rank: its thread level, whether it takes GPU
    memory."""
    _load_mpi()
    from mpi4py import MPI

    level = MPI.Init_thread(MPI.THREAD_MULTIPLE)
    names = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
    levels = {getattr(MPI, f"THREAD_{name}"): f"MPI_THREAD_{name}" for name in names}
    say("mpi.threads", levels[level])
    say("mpi.cuda_built", mpis.takes_gpu_memory())
    MPI.Finalize()


def _load_mpi() -> None:
    """Load MPI as mpi4py does, else by the linker's search; nothing is started."""
    if importlib.util.find_spec("mpi4py"):
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI  # noqa: F401 - it loads the library

        return
    for name in ("libmpi.so.12", "libmpi.so.40", "libmpi.so.0", "libmpi.so"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            return
    raise ImportError("no mpi4py, and the dynamic linker finds no libmpi")


def _both_mpis() -> None:
    if importlib.util.find_spec("mpi4py"):
        _load_mpi()
    say("mpi.together", mpis.loaded())


def _horovod(framework: str, library: str) -> None:
    """Ask Horovod's own library what it was built with, without importing Horovod (that takes
    seconds)."""
    package = importlib.util.find_spec("horovod")
    # A file stands in while it is compiled.
    places = package.submodule_search_locations if package else None
    folder = Path(places[0], framework) if places else Path("/nonexistent")
    for path in sorted(folder.glob(f"{library}.*.so")):
        lib = ctypes.CDLL(str(path))
        names = ("mpi", "gloo", "nccl", "cuda", "rocm", "ccl", "ddl")
        built = [name for name in names if _call(lib, f"horovod_{name}_built")]
        say(f"horovod.{framework}", built)


def _call(library: ctypes.CDLL, function: str) -> bool | None:
    """Whether a C function without arguments says yes; None where the library has no such
    function."""
    return bool(getattr(library, function)()) if hasattr(library, function) else None


def gpu() -> None:
    """The NVIDIA GPUs: driver, devices that this process is shown, and how they are connected."""
    import pynvml as nvml

    nvml.nvmlInit()
    say("gpu.driver", nvml.nvmlSystemGetDriverVersion())
    cuda = nvml.nvmlSystemGetCudaDriverVersion()
    say("libraries.cuda_driver", f"{cuda // 1000}.{cuda % 1000 // 10}")
    devices = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if not _is_shown(index, nvml.nvmlDeviceGetUUID(handle)):
            continue
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        memory = round(nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30, 1)
        name = nvml.nvmlDeviceGetName(handle)
        devices.append({"name": name, "memory_gib": memory, "capability": f"{major}.{minor}"})
    say("gpu.devices", devices or None)
    if len(devices) > 1:
        command = ["nvidia-smi", "topo", "-m"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        say("gpu.links", links(done.stdout))


def _is_shown(index: int, uuid: str) -> bool:
    """Does CUDA show this GPU? NVML names all of them. Of a part of one (MIG) nobody says whose it
    is."""
    shown = world.shown_gpus()
    return shown is None or any(
        entry == str(index) or uuid.startswith(entry) or entry.startswith("MIG-") for entry in shown
    )


def links(topology: str) -> str | None:
    """`nvidia-smi topo -m` in a few words: "NV18 between 28 pairs"."""
    rows = [line.split() for line in topology.splitlines() if line.startswith("GPU")]
    counts: Counter[str] = Counter()
    for number, row in enumerate(rows):
        counts.update(row[number + 2 : len(rows) + 1])  # above the diagonal: each pair once
    return (
        ", ".join(f"{code} between {counted(counts[code], 'pair')}" for code in sorted(counts))
        or None
    )


def nccl_version(number: int) -> str:
    """ncclGetVersion's number in the usual form: 22907 is 2.29.7 (before 2.9: 2804 is 2.8.4)."""
    major, rest = divmod(number, 10000 if number >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def nccl() -> None:
    """NCCL as the dynamic linker finds it: what Horovod and nccl-tests would load."""
    number = ctypes.c_int()
    ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
    say("libraries.nccl", nccl_version(number.value))


PROBES = {probe.__name__: probe for probe in (numpy, torch, tensorflow, mpi, mpi_init, gpu, nccl)}

if __name__ == "__main__":
    # Libraries print what they like on standard output: keep that for the findings, the rest goes
    # to stderr.
    _out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        PROBES[sys.argv[1]]()
    except Exception as error:  # the parent reads the reason; a traceback would say no more
        sys.exit(f"{type(error).__name__}: {error}")

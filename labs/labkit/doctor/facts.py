"""What the doctor reports: each fact with its label, its source, and what it would enable if
missing.

`doctor.report()["mpi"]["version"]` is the value of the fact "mpi.version", None where it was not
found. The keys are kept from release to release; lab 00 and the report of `make tour` read them. A
value is a text, a number, a bool, a list of texts (gpu.devices: of dicts), or (threads.variables) a
dict.
"""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import re
import socket
from collections.abc import Callable, Mapping
from ctypes.util import find_library
from functools import partial
from pathlib import Path
from typing import NamedTuple

from labkit import builds, files, launch, mpis, paths, placement, record, world
from labkit.errors import NotHere

AS_THEY_ARE = "taken as they are"


class Fact(NamedTuple):
    """A fact of the report.

    key: GROUP.NAME. enables: the words in "not found (for …)". here: gives the value, asked while
    the probes run. told: gives it from what the probes said and from the report so far; where there
    is neither, it is what a probe said of that key. probe: the one whose failure is worth telling.
    """

    key: str
    label: str
    enables: str = ""
    here: Callable[[], object] | None = None
    told: Callable[[dict, dict], object] | None = None
    probe: str = ""


# --- what files, variables and tools of this machine say


def read(path: str | Path) -> str | None:
    """A small file's text without its last newline; None if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def _version(*distributions: str) -> Callable[[], str | None]:
    return partial(files.version, *distributions)


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    return f"{name}, kernel {platform.release()}"


def _numa_nodes() -> int | None:
    return len(glob.glob("/sys/devices/system/node/node[0-9]*")) or None


def _memory(kind: str) -> float:
    import psutil

    return round(getattr(psutil.virtual_memory(), kind) / 2**30, 1)


def _infiniband() -> list[str] | None:
    return infiniband_ports() or None


def infiniband_ports(sys_root: Path = Path("/sys")) -> list[str]:
    """Such as "mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)"."""
    ports = []
    for port in sorted(sys_root.glob("class/infiniband/*/ports/*")):
        layer, state, rate = (read(port / name) or "?" for name in ("link_layer", "state", "rate"))
        state = state.split(":")[-1].strip()  # "4: ACTIVE"
        ports.append(f"{port.parts[-3]} port {port.name}: {layer}, {state}, {rate}")
    return ports


def gpudirect_rdma(sys_root: Path = Path("/sys")) -> str | None:
    """The kernel module of GPUDirect RDMA with its version, from the places where NCCL looks,
    too."""
    modules = {
        "nvidia_peermem": sys_root / "module/nvidia_peermem/version",
        "nv_peer_mem": sys_root / "kernel/mm/memory_peers/nv_mem/version",
        "nv_peer_mem (nc)": sys_root / "kernel/mm/memory_peers/nv_mem_nc/version",
    }
    return next((f"{name} {read(path)}" for name, path in modules.items() if path.exists()), None)


def gdrcopy(dev: Path = Path("/dev")) -> str | None:
    """GDRCopy's driver and library: by MVAPICH2's variable, the library path, or the linker's
    cache."""
    folders = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    places = [os.environ.get("MV2_GPUDIRECT_GDRCOPY_LIB", "")]
    places += [f"{folder}/libgdrapi.so" for folder in folders]
    library = next(filter(os.path.isfile, places), None) or find_library("gdrapi")
    driver = "driver /dev/gdrdrv" if (dev / "gdrdrv").exists() else ""
    return ", ".join(filter(None, [driver, f"library {library}" if library else ""])) or None


def _job() -> str | None:
    job = os.environ.get("SLURM_JOB_ID")
    return f"{job} on {os.environ.get('SLURM_JOB_NUM_NODES', '?')} node(s)" if job else None


def _controller() -> str | None:
    answer = files.output("scontrol", "ping", limit=5.0) or ""
    return next((line.strip() for line in answer.splitlines() if " is UP" in line), None)


def _cuda_toolkit() -> str | None:
    """The CUDA toolkit's version by its compiler, from the PATH or $CUDA_HOME."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    text = files.output("nvcc", "--version") or files.output(f"{home}/bin/nvcc", "--version") or ""
    match = re.search(r"release ([\d.]+)", text)
    return match[1] if match else None


def _mpiexec() -> str | None:
    with contextlib.suppress(NotHere):
        return launch.mpiexec()
    return None


def _thread_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in launch.THREAD_VARIABLES if os.environ.get(name)}


def _mpi_builds() -> list[str] | None:
    return _side_by_side(builds.mpi_builds(), builds.own_mpi())


def _horovod_builds() -> list[str] | None:
    return _side_by_side(builds.horovod_builds(), builds.default_horovod())


def _side_by_side(folders: Mapping[str, Path], default: str | None) -> list[str] | None:
    """Such as "host (default): .venv/lib/…"."""
    return [
        f"{name}{' (default)' if name == default else ''}: {paths.shown(folder)}"
        for name, folder in folders.items()
    ] or None


# --- what is put together from several findings


def _works(said: dict, report: dict) -> str | None:
    return said.get("gpu.works") if report["gpu"]["devices"] else None


def _nccl(said: dict, _: dict) -> str | None:
    wheel = files.version("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    return said.get("libraries.nccl") or (wheel and f"{wheel} (wheel)")


def _onednn(said: dict, _: dict) -> str | None:
    return (
        ", ".join(said[key] for key in ("onednn.torch", "onednn.tensorflow") if key in said) or None
    )


def _mpi_files(said: dict, _: dict) -> list[str] | None:
    """The most that met in one process: MPI alone, with Horovod's library, or what is loaded in
    this one."""
    return (
        max(said.get("mpi.files") or [], said.get("mpi.together") or [], mpis.loaded(), key=len)
        or None
    )


def gpu_switch(report: dict) -> tuple[bool, str] | None:
    """mpis.gpu_switch of the MPI in a report."""
    mpi = report["mpi"]
    settings = mpis.parameters(os.environ, mpi["files"] or [])
    return mpis.gpu_switch(mpi["family"], settings, mpi["version"])


def _cuda_switch(_: dict, report: dict) -> str | None:
    state = gpu_switch(report)
    cannot = ", which this build cannot follow" if report["mpi"]["cuda_built"] is False else ""
    return state[1] + cannot if state else None


def _reason_of_mpi(report: dict) -> str:
    """Why this MPI must not be handed GPU memory; "" if it may be."""
    mpi = report["mpi"]
    settings = mpis.parameters(os.environ, mpi["files"] or [])
    return mpis.staging_reason(mpi["family"], mpi["version"], mpi["cuda_built"], settings)


def by_mpi(_: dict, report: dict) -> str | None:
    """Where a GPU's tensors go that are handed to MPI; None without a GPU or an MPI."""
    if not (report["gpu"]["devices"] and report["mpi"]["family"]):
        return None
    reason = _reason_of_mpi(report)
    return f"staged {placement.THROUGH_HOST}: {reason}" if reason else AS_THEY_ARE


def by_horovod(said: dict, report: dict) -> str | None:
    """The same of horovod.torch."""
    built = said.get("horovod.torch")
    if built is None or by_mpi(said, report) is None:
        return None
    where = placement.on_gpu_by_horovod(
        "cuda", "nccl" in built, "cuda" in built, "MPI", lambda: _reason_of_mpi(report)
    )
    if not where.staged:
        return f"{AS_THEY_ARE}, by {where.library}"
    who = "the labs" if where.by_lab else "Horovod itself"
    return f"staged {placement.THROUGH_HOST} by {who}: {where.reason}"


def _built(said: dict) -> list[str]:
    """What Horovod's library was built with; TensorFlow's where there are two."""
    return said.get("horovod.tensorflow") or said.get("horovod.torch") or []


def _frameworks(said: dict, _: dict) -> list[str] | None:
    return [name for name in ("torch", "tensorflow") if f"horovod.{name}" in said] or None


def _controllers(said: dict, _: dict) -> list[str] | None:
    return [name for name in _built(said) if name in ("mpi", "gloo")] or None


def _operations(said: dict, _: dict) -> list[str] | None:
    return [name for name in _built(said) if name not in ("cuda", "rocm")] or None


# --- the table

GROUPS = {
    "machine": "This machine",
    "threads": "Threads in use",
    "gpu": "GPUs",
    "libraries": "Libraries under the frameworks",
    "mpi": "MPI",
    "network": "Network",
    "slurm": "Slurm",
    "horovod": "Horovod",
    "versions": "Versions",
}
_TENSORS = "training on a GPU; here all tensors are in host memory"
_RANKS = "several ranks"

FACTS = (
    Fact("machine.host", "host", here=socket.gethostname),
    Fact("machine.system", "system", here=_system),
    Fact("machine.cpu", "processor", here=record.cpu_model),
    # int: affinity and container limits respected
    Fact("machine.cores", "cores you may use", here=world.cores),
    Fact("machine.cores_in_all", "cores in all", here=os.cpu_count),
    Fact(
        "machine.numa_nodes",
        "NUMA nodes",
        "binding ranks to the memory next to their cores",
        _numa_nodes,
    ),
    Fact("machine.memory_gib", "memory (GiB)", here=partial(_memory, "total")),
    Fact("machine.memory_free_gib", "memory free (GiB)", here=partial(_memory, "available")),
    Fact(
        "threads.blas",
        "BLAS under NumPy",
        "seeing how many threads a product of matrices takes",
        probe="numpy",
    ),
    Fact("threads.torch", "PyTorch", "labs that need torch", probe="torch"),
    Fact("threads.tensorflow", "TensorFlow", "labs that need tensorflow", probe="tensorflow"),
    Fact("threads.variables", "set by variables", here=_thread_variables),
    Fact(
        "gpu.devices",
        "devices",
        "training on a GPU; without one, labs use the processor",
        probe="gpu",
    ),
    # "yes", or the error in which an operation ends
    Fact("gpu.works", "PyTorch computes on them", "training on a GPU", told=_works),
    Fact("gpu.links", "links between them", "GPUs that talk without the host between them"),
    Fact("gpu.driver", "driver", "any use of an NVIDIA GPU"),
    Fact("libraries.cuda_driver", "CUDA, most the driver can", "any use of an NVIDIA GPU"),
    Fact(
        "libraries.cuda_toolkit",
        "CUDA toolkit (nvcc)",
        "building Horovod with GPU operations",
        _cuda_toolkit,
    ),
    Fact(
        "libraries.cuda_torch",
        "CUDA of PyTorch",
        "PyTorch on a GPU; this build is for the processor",
    ),
    Fact(
        "libraries.cuda_tensorflow",
        "CUDA of TensorFlow",
        "TensorFlow on a GPU; this build is for the processor",
    ),
    Fact("libraries.cudnn", "cuDNN", "quick convolutions on a GPU"),
    Fact(
        "libraries.nccl", "NCCL", "collectives between GPUs at the speed of their links", told=_nccl
    ),
    Fact(
        "libraries.onednn", "oneDNN", "quick convolutions and bf16 on the processor", told=_onednn
    ),
    Fact(
        "mpi.family",
        "family",
        "several ranks: `make setup` installs MPICH, or load the site's MPI module",
        probe="mpi",
    ),
    Fact("mpi.version", "version", _RANKS, probe="mpi"),
    Fact("mpi.banner", "in its own words", _RANKS),  # first line of MPI_Get_library_version
    # list of str; more than one is a mistake
    Fact("mpi.files", "library loaded", _RANKS, told=_mpi_files),
    Fact("mpi.launcher", "launcher", "starting ranks: mpiexec comes with an MPI", _mpiexec),
    Fact(
        "mpi.threads",
        "threads it allows",
        "Horovod, which wants MPI_THREAD_MULTIPLE",
        probe="mpi_init",
    ),
    Fact("mpi.cuda_built", "CUDA-aware by build", "handing GPU memory to MPI"),
    Fact("mpi.cuda_switch", "CUDA-aware by switch", "handing GPU memory to MPI", told=_cuda_switch),
    Fact("mpi.builds", "to choose from (MPI=…)", _RANKS, _mpi_builds),
    Fact("mpi.gpu_tensors", "tensors on a GPU", _TENSORS, told=by_mpi),
    Fact("network.infiniband", "InfiniBand, RoCE", "fast messages between nodes", _infiniband),
    Fact(
        "network.gpudirect_rdma",
        "GPUDirect RDMA module",
        "a network card that reads GPU memory itself",
        gpudirect_rdma,
    ),
    Fact(
        "network.gdrcopy",
        "GDRCopy",
        "small messages to and from GPU memory with low latency",
        gdrcopy,
    ),
    Fact(
        "slurm.version",
        "version",
        "jobs on a cluster: sbatch and srun",
        partial(files.output, "srun", "--version"),
    ),
    Fact("slurm.job", "this job", "several nodes; this process belongs to no job", _job),
    Fact("slurm.controller", "controller", "submitting jobs from here", _controller),
    Fact(
        "horovod.version",
        "version",
        "labs that need horovod: `make setup` builds it",
        _version("horovod"),
    ),
    Fact("horovod.frameworks", "for", "hvd in PyTorch and in TensorFlow", told=_frameworks),
    Fact("horovod.controllers", "controllers", "starting Horovod's ranks", told=_controllers),
    Fact("horovod.operations", "operations", "Horovod's collectives", told=_operations),
    Fact("horovod.builds", "to choose from (HOROVOD=…)", "labs that need horovod", _horovod_builds),
    Fact("horovod.gpu_tensors", "tensors on a GPU", _TENSORS, told=by_horovod),
    Fact("versions.python", "Python", here=platform.python_version),
    Fact("versions.torch", "PyTorch", "labs that need torch", _version("torch")),
    Fact(
        "versions.tensorflow",
        "TensorFlow",
        "labs that need tensorflow",
        _version("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm"),
    ),
    Fact("versions.keras", "Keras", "Horovod in Keras", _version("keras")),
    Fact("versions.numpy", "NumPy", "every lab", _version("numpy")),
    Fact("versions.mpi4py", "mpi4py", "labs that need mpi", _version("mpi4py")),
    Fact(
        "versions.jupyterlab",
        "JupyterLab",
        "working in notebooks; the scripts run without it",
        _version("jupyterlab"),
    ),
)


def empty() -> dict:
    """A report with every group and every fact None."""
    report: dict = {group: {} for group in GROUPS}
    for fact in FACTS:
        put(report, fact.key, None)
    return report


def get(report: dict, key: str):
    """The value of a fact such as "mpi.version"."""
    group, name = key.split(".")
    return report[group][name]


def put(report: dict, key: str, value) -> None:
    """Set a fact."""
    group, name = key.split(".")
    report[group][name] = value

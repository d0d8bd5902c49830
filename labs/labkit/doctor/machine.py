"""Runs the probes: the risky ones as processes, all at once and with a time limit; the rest reads files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from labkit import noise, record, world
from labkit.doctor import facts as doctor_facts
from labkit.doctor import mpi as doctor_mpi
from labkit.errors import NotHere

PROBES = ("numpy", "torch", "tensorflow", "mpi", "mpi_init", "gpu", "nccl")


def start(names: tuple[str, ...] = PROBES) -> dict:
    """Start these probes; `collect` waits for them and must be called, it ends them all."""
    return {name: _start(name) for name in names}


def collect(started: dict, limit: float = 60.0) -> tuple[dict, dict[str, str]]:
    """(findings by key, reason by probe that failed). Waits `limit` seconds at most, for all together."""
    findings = {}
    reasons = {}
    deadline = time.monotonic() + limit
    try:
        for name, (process, out, err) in started.items():
            reason = _wait(process, deadline, limit)
            out.seek(0)
            err.seek(0)
            findings.update(parse_findings(out.read()))
            if reason:
                lines = [line for line in err.read().splitlines() if line.strip()]
                reasons[name] = lines[-1].strip() if lines and reason == "failed" else reason
    finally:
        for process, out, err in started.values():
            _end(process)
            out.close()
            err.close()
    return findings, reasons


def _start(name: str):
    # No launcher's variables: an MPI_Init in there must not join the job that the doctor itself runs in.
    env = {**noise.SETTINGS, **world.clean_env()}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), env.get("PYTHONPATH")]))
    out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the probe
    err = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
    command = [sys.executable, "-m", "labkit.doctor.probe", name]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True
    )
    return process, out, err


def _wait(process: subprocess.Popen, deadline: float, limit: float) -> str:
    """ "" when it ended well, else why not."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"no answer within {limit:g} s"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return "failed" if code else ""


def _end(process: subprocess.Popen) -> None:
    """End the probe and whatever it has started (it leads a process group of its own)."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def parse_findings(text: str) -> dict:
    """Key -> value of the lines that a probe printed; a line cut off by a crash is left out."""
    findings = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            finding = json.loads(line)
            findings[finding["key"]] = finding["value"]
    return findings


class Mpi(NamedTuple):
    """An MPI library: its family and version (None: not known), its own first words, its files."""

    family: str | None
    version: str | None
    banner: str
    files: list[str]


def which_mpi(limit: float = 20.0) -> Mpi:
    """The MPI that a rank would load here, asked in a process of its own. NotHere with the reason if none."""
    findings, reasons = collect(start(("mpi",)), limit)
    if "mpi.all" not in findings:
        raise NotHere(reasons.get("mpi", "no answer"))
    return _described(findings["mpi.all"], findings.get("mpi.mpiname") or "", findings["mpi.files"])


def loaded_mpi_described() -> Mpi:
    """The MPI that mpi4py has loaded in this process; it need not run yet."""
    from mpi4py import MPI

    return _described(MPI.Get_library_version(), tool("mpiname", "-a") or "", doctor_mpi.loaded_mpi())


def _described(text: str, mpiname: str, files: list[str]) -> Mpi:
    family, version = doctor_mpi.identify(text, mpiname)
    return Mpi(family, version, doctor_mpi.banner(text), files)


def tool(*command: str, limit: float = 5.0) -> str | None:
    """What a command-line tool prints; None if it is not there, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or done.stderr) if done.returncode == 0 else None


def version(*names: str) -> str | None:
    """The version of the first of these distributions that is installed."""
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def read(path: str | Path) -> str | None:
    """A small file's text without its last newline; None if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def machine(report: dict) -> None:
    """Host, system, processor, cores, memory."""
    release = read("/etc/os-release") or ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    memory = {
        key: int(number) / 2**20
        for key, number in re.findall(
            r"^(MemTotal|MemAvailable):\s+(\d+) kB", read("/proc/meminfo") or "", re.MULTILINE
        )
    }
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    values = {
        "host": socket.gethostname(),
        "system": f"{name[1] if name else platform.system()}, kernel {platform.release()}",
        "cpu": record.cpu_model(),
        "cores": world.cores(),
        "cores_in_all": os.cpu_count(),
        "numa_nodes": len(nodes) or None,
        "memory_gib": round(memory["MemTotal"], 1) if "MemTotal" in memory else None,
        "memory_free_gib": round(memory["MemAvailable"], 1) if "MemAvailable" in memory else None,
    }
    for key, value in values.items():
        doctor_facts.put(report, f"machine.{key}", value)


def network(report: dict, sys_root: Path = Path("/sys"), dev: Path = Path("/dev")) -> None:
    """InfiniBand ports, the kernel module of GPUDirect RDMA, GDRCopy: all to be seen in files."""
    doctor_facts.put(report, "network.infiniband", infiniband_ports(sys_root) or None)
    # The places where NCCL looks, too.
    modules = {
        "nvidia_peermem": sys_root / "module/nvidia_peermem/version",
        "nv_peer_mem": sys_root / "kernel/mm/memory_peers/nv_mem/version",
        "nv_peer_mem (nc)": sys_root / "kernel/mm/memory_peers/nv_mem_nc/version",
    }
    loaded = [f"{name} {read(path)}" for name, path in modules.items() if path.exists()]
    doctor_facts.put(report, "network.gpudirect_rdma", loaded[0] if loaded else None)
    driver = "driver /dev/gdrdrv" if (dev / "gdrdrv").exists() else ""
    library = _library("libgdrapi.so")
    parts = [driver, f"library {library}" if library else ""]
    doctor_facts.put(report, "network.gdrcopy", ", ".join(filter(None, parts)) or None)


def infiniband_ports(sys_root: Path = Path("/sys")) -> list[str]:
    """Such as "mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)"."""
    ports = []
    for port in sorted(sys_root.glob("class/infiniband/*/ports/*")):
        layer, state, rate = (read(port / name) or "?" for name in ("link_layer", "state", "rate"))
        state = state.split(":")[-1].strip()  # "4: ACTIVE"
        ports.append(f"{port.parts[-3]} port {port.name}: {layer}, {state}, {rate}")
    return ports


def slurm(report: dict) -> None:
    """Slurm's version, this process's job, and whether the controller answers."""
    text = tool("srun", "--version")
    doctor_facts.put(report, "slurm.version", text.strip() if text else None)
    job = os.environ.get("SLURM_JOB_ID")
    nodes = os.environ.get("SLURM_JOB_NUM_NODES", "?")
    doctor_facts.put(report, "slurm.job", f"{job} on {nodes} node(s)" if job else None)
    answer = tool("scontrol", "ping") or ""
    up = [line.strip() for line in answer.splitlines() if " is UP" in line]
    doctor_facts.put(report, "slurm.controller", up[0] if up else None)


def toolkit() -> str | None:
    """The CUDA toolkit's version by its compiler, from the PATH or $CUDA_HOME."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    text = tool("nvcc", "--version") or tool(f"{home}/bin/nvcc", "--version") or ""
    match = re.search(r"release ([\d.]+)", text)
    return match[1] if match else None


def _library(name: str) -> str | None:
    """Where a shared library is, if MVAPICH2's variable, the library path or the linker's cache has it."""
    folders = [os.environ.get("MV2_GPUDIRECT_GDRCOPY_LIB", "")]
    folders += [f"{folder}/{name}" for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for path in filter(None, folders):
        if Path(path).is_file():
            return path
    from ctypes import util

    return util.find_library(name.removeprefix("lib").split(".")[0])

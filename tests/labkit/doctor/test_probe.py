"""The doctor's probes: what is to be seen in files, GPUs, and libraries that print, abort, hang or
raise."""

import os
from types import SimpleNamespace

import psutil
import pytest
import torch
from labkit.doctor import facts, probe, processes
from labkit.doctor.view import readable

from tests.helpers import command_of, until


def test_infiniband_and_gpudirect(tmp_path):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    told = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "rate": "200 Gb/sec (4X HDR)"}
    for name, text in told.items():
        (port / name).write_text(text + "\n")
    module = tmp_path / "sys/module/nvidia_peermem"
    module.mkdir(parents=True)
    (module / "version").write_text("550.54\n")
    (tmp_path / "gdrdrv").touch()
    ports = ["mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)"]
    assert facts.infiniband_ports(tmp_path / "sys") == ports
    assert facts.gpudirect_rdma(tmp_path / "sys") == "nvidia_peermem 550.54"
    assert facts.gdrcopy(tmp_path).startswith("driver /dev/gdrdrv")


TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tSYS\tPXB\t0-31\t0
GPU1\tNV18\t X \tNODE\tSYS\t0-31\t0
GPU2\tSYS\tNODE\t X \tSYS\t32-63\t1
NIC0\tPXB\tSYS\tSYS\t X

Legend:
"""


def test_nccl_versions():
    versions = {22907: "2.29.7", 2804: "2.8.4", 21805: "2.18.5"}
    assert {number: probe.nccl_version(number) for number in versions} == versions


PYNVML = """
def nvmlInit(): pass
def nvmlSystemGetDriverVersion(): return "550.54"
def nvmlSystemGetCudaDriverVersion(): return 12040
def nvmlDeviceGetCount(): return 3
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}f"
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetCudaComputeCapability(handle): return 8, 0
def nvmlDeviceGetName(handle): return "NVIDIA A100-SXM4-40GB"
class nvmlDeviceGetMemoryInfo:
    def __init__(self, handle): self.total = 40 * 2**30
"""


@pytest.mark.parametrize(
    ("shown", "count"),
    [(None, 3), ("2", 1), ("GPU-1,0", 2), ("GPU-1f,-1,2", 1), ("", 0), ("MIG-7", 3)],
)
def test_the_probe_of_gpus(shown, count, tmp_path, monkeypatch):
    """In its process, with a management library and a tool that know three GPUs."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    (tmp_path / "pynvml.py").write_text(PYNVML)
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat << EOF\n{TOPOLOGY}EOF\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    findings, reasons = processes.collect(processes.start(("gpu",)), limit=60)
    assert reasons == {}
    gpu = {"name": "NVIDIA A100-SXM4-40GB", "memory_gib": 40.0, "capability": "8.0"}
    links = "NODE between 1 pair, NV18 between 1 pair, SYS between 1 pair"
    want = {"gpu.driver": "550.54", "libraries.cuda_driver": "12.4"}
    want |= {"gpu.devices": [gpu] * count or None}
    assert findings == want | ({"gpu.links": links} if count > 1 else {})
    assert readable([gpu] * 3) == "3 × NVIDIA A100-SXM4-40GB, 40.0 GiB"


NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"


@pytest.mark.parametrize(
    ("count", "error", "says"),
    [
        (2, None, "yes"),
        (
            0,
            RuntimeError("The NVIDIA driver is too old."),
            "cuda:0: RuntimeError: The NVIDIA driver",
        ),
        (2, RuntimeError(f"{NO_KERNEL}\nSearch for"), f"cuda:1: RuntimeError: {NO_KERNEL}"),
        (1, RuntimeError(), "cuda:0: RuntimeError: "),
    ],
)
def test_whether_pytorch_computes_on_each_gpu(count, error, says):
    def ones(size, device):
        if error and device == f"cuda:{max(0, count - 1)}":
            raise error
        return torch.ones(size)

    cuda = SimpleNamespace(device_count=lambda: count)
    said = probe.computes(SimpleNamespace(cuda=cuda, ones=ones))
    assert said.startswith(says)
    assert "\n" not in said


# --- probes that misbehave


BAD = {  # libraries that print, abort, hang and raise when they are imported
    "torch": "import os, sys; print('noise {\"key\": 1}'); sys.stdout.flush(); os.abort()",
    "tensorflow": "import subprocess; subprocess.run(['sleep', '77.03125'])",
    "threadpoolctl": "raise RuntimeError('broken installation')",
}


@pytest.mark.slow  # it waits for the one that hangs
def test_probes_may_crash_hang_or_raise(tmp_path, monkeypatch):
    for name, text in BAD.items():
        (tmp_path / f"{name}.py").write_text(text)
    # Before the installed packages, behind labkit itself.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = processes.start(("torch", "tensorflow", "numpy"))
    findings, reasons = processes.collect(started, limit=8)
    said = {"torch": "ended by SIGABRT", "tensorflow": "no answer within 8 s"}
    assert reasons == said | {"numpy": "RuntimeError: broken installation"}
    assert findings == {}
    # Killed, it may take a moment until it is gone.
    assert until(
        lambda: not [one for one in psutil.process_iter() if "77.03125" in command_of(one)]
    )


def test_a_line_cut_off_by_a_crash_is_left_out():
    said = '{"key": "a", "value": 1}\nnoise\n3\n{"key": "b", "val'
    assert processes.parse_findings(said) == {"a": 1}

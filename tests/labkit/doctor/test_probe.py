"""The doctor's probes: what is to be seen in files, GPUs, and libraries that print, abort, hang or raise."""

import os
import subprocess
import sys
import textwrap

import pytest
from labkit.doctor import facts, machine, nvidia, readable

# --- what can be seen in files, and GPUs


def test_infiniband_and_gpudirect(tmp_path):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, text in (("link_layer", "InfiniBand"), ("state", "4: ACTIVE"), ("rate", "200 Gb/sec (4X HDR)")):
        (port / name).write_text(text + "\n")
    module = tmp_path / "sys/module/nvidia_peermem"
    module.mkdir(parents=True)
    (module / "version").write_text("550.54\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/gdrdrv").touch()
    report = facts.empty()
    machine.network(report, tmp_path / "sys", tmp_path / "dev")
    assert report["network"]["infiniband"] == ["mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)"]
    assert report["network"]["gpudirect_rdma"] == "nvidia_peermem 550.54"
    assert report["network"]["gdrcopy"].startswith("driver /dev/gdrdrv")


TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tSYS\tPXB\t0-31\t0
GPU1\tNV18\t X \tNODE\tSYS\t0-31\t0
GPU2\tSYS\tNODE\t X \tSYS\t32-63\t1
NIC0\tPXB\tSYS\tSYS\t X

Legend:
"""


def test_links_between_gpus():
    assert nvidia.links(TOPOLOGY) == "NODE between 1 pair, NV18 between 1 pair, SYS between 1 pair"
    assert nvidia.links("") is None


@pytest.mark.parametrize(("number", "version"), [(22907, "2.29.7"), (2804, "2.8.4"), (21805, "2.18.5")])
def test_nccl_versions(number, version):
    assert nvidia.nccl_version(number) == version


def test_gpus_by_nvidia_smi_where_the_python_package_is_missing(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        textwrap.dedent("""\
        #!/bin/sh
        case "$1" in
          --query*) for i in 0 1; do echo "550.54, NVIDIA A100-SXM4-40GB, 40960, 8.0"; done;;
          topo) printf 'GPU0\\t X \\tNV12\\nGPU1\\tNV12\\t X \\n';;
          *) echo "| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA Version: 12.4 |";;
        esac
        """)
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    findings = {}
    nvidia.tell_gpus(findings.__setitem__)
    assert findings["gpu.driver"] == "550.54"
    assert findings["libraries.cuda_driver"] == "12.4"
    a100 = {"name": "NVIDIA A100-SXM4-40GB", "memory_gib": 40.0, "capability": "8.0"}
    assert findings["gpu.devices"] == [a100, a100]
    assert nvidia.links(findings["gpu.topology"]) == "NV12 between 1 pair"
    assert readable(findings["gpu.devices"]) == "2 × NVIDIA A100-SXM4-40GB, 40.0 GiB"


# --- probes that misbehave


@pytest.fixture
def bad_libraries(tmp_path, monkeypatch):
    """Libraries that print, abort, hang and raise when they are imported."""
    for name, text in {
        "torch": "import os, sys; print('noise {\"key\": 1}'); sys.stdout.flush(); os.abort()",
        "tensorflow": "import subprocess; subprocess.run(['sleep', '77'])",
        "threadpoolctl": "raise RuntimeError('broken installation')",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    # Before the installed packages, behind labkit itself.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.mark.slow  # it waits for the one that hangs
def test_probes_may_crash_hang_or_raise(bad_libraries):
    started = machine.start(("torch", "tensorflow", "numpy"))
    findings, reasons = machine.collect(started, limit=8)
    assert reasons["torch"] == "ended by SIGABRT"
    assert reasons["tensorflow"] == "no answer within 8 s"
    assert reasons["numpy"] == "RuntimeError: broken installation"
    assert findings == {}
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 77" not in running


def test_the_probe_of_gpus_runs(tmp_path, monkeypatch):
    """In its process, with an nvidia-smi that knows one GPU; the Python package is hidden."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '550.54, NVIDIA H200, 144384, 9.0'\n")
    tool.chmod(0o755)
    (tmp_path / "pynvml.py").write_text("raise ImportError('hidden')")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    findings, reasons = machine.collect(machine.start(("gpu",)), limit=60)
    assert reasons == {}
    assert [device["name"] for device in findings["gpu.devices"]] == ["NVIDIA H200"]


def test_a_line_cut_off_by_a_crash_is_left_out():
    assert machine.parse_findings('{"key": "a", "value": 1}\nnoise\n3\n{"key": "b", "val') == {"a": 1}


def test_missing_tools_are_not_found_rather_than_errors():
    assert machine.tool("labkit-has-no-such-tool") is None
    assert machine.tool("false") is None
    assert machine.tool("sleep", "10", limit=0.1) is None

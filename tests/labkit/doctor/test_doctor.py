"""labkit.doctor: it fails for nothing that is missing, crashes or hangs; tells MPIs apart; judges
labs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from labkit import builds, doctor, labfile, launch
from labkit.doctor import facts as doctor_facts
from labkit.doctor import findings


def report_with(**values) -> dict:
    """A report with these facts: report_with(mpi_version="5.0.2")."""
    report = doctor_facts.empty()
    report["machine"]["cores"] = 4
    for name, value in values.items():
        doctor_facts.put(report, name.replace("_", ".", 1), value)
    return report


# --- the judgement of labs

HERE = {"mpi_version": "5.0.2", "mpi_launcher": "mpiexec", "versions_mpi4py": "4.1"}
HERE |= {"threads_torch": 4}
GPU = {"gpu_devices": [{"name": "H200", "memory_gib": 139.0, "capability": "9.0"}]}
TENSORFLOW = {"horovod_frameworks": ["tensorflow"]}
CUDA = {"libraries_cuda_torch": "13.0"}
OLD = {
    "gpu_works": "cuda:0: RuntimeError: The NVIDIA driver on your system is too old (found 12040)."
}


@pytest.mark.parametrize(
    ("needs", "ranks", "facts", "status", "sentence"),
    [
        ("cpu", 1, {}, doctor.RUNS, "On 4 cores"),
        ("mpi", 4, {}, doctor.NEEDS, "make setup"),
        ("mpi", 4, HERE, doctor.RUNS, "On 4 cores"),
        ("mpi", 8, HERE, doctor.RUNS, "8 ranks share 4 cores"),
        ("horovod, torch", 4, HERE, doctor.NEEDS, "Horovod: `make setup` builds it"),
        ("horovod, torch", 4, HERE | TENSORFLOW, doctor.NEEDS, "Horovod for torch"),
        ("tensorflow", 1, {"versions_tensorflow": "2"}, doctor.NEEDS, "A TensorFlow that can be"),
        ("slurm", 4, HERE, doctor.NEEDS, "login node"),
        ("slurm", 4, {"slurm_job": "17 on 2 node(s)"}, doctor.RUNS, ""),
        ("torch, gpu", 1, HERE, doctor.REDUCED, "on the processor"),
        ("torch, gpu", 1, HERE | GPU, doctor.REDUCED, "built for the processor"),
        ("torch, gpu", 1, HERE | GPU | CUDA, doctor.RUNS, "On 1 GPU"),
        ("torch", 1, HERE | GPU | CUDA | {"gpu_works": "yes"}, doctor.RUNS, "On 1 GPU"),
        ("torch", 1, HERE | GPU | CUDA | OLD, doctor.RUNS, "On 4 cores"),
        ("torch, gpu", 1, HERE | GPU | CUDA | OLD, doctor.REDUCED, "cannot compute on it"),
        ("nccl", 2, GPU, doctor.REDUCED, "no NCCL"),
    ],
)
def test_what_a_lab_needs(needs, ranks, facts, status, sentence):
    header = labfile.Header(tuple(needs.split(", ")), ranks, 30)
    judged, why = doctor.judge(header, report_with(**facts))
    assert judged == status
    assert sentence in why


# --- MPI and GPUs


def test_a_gpu_on_which_pytorch_cannot_compute_gets_advice():
    told = {"gpu.works": OLD["gpu_works"]}
    (works,) = (fact for fact in doctor_facts.FACTS if fact.key == "gpu.works")
    assert works.told(told, report_with(**GPU)) == OLD["gpu_works"]
    assert works.told(told, report_with()) is None, "no GPU, no word"
    said = " ".join(findings.advice(report_with(**GPU, **CUDA, **OLD), {}))
    assert "There is a GPU, but PyTorch cannot compute on it (cuda:0: RuntimeError: The" in said
    said = " ".join(findings.advice(report_with(**GPU, **CUDA, gpu_works="yes"), {}))
    assert "cannot compute" not in said


NOT_AWARE = {"mpi_family": "MPICH", "mpi_version": "5.0.2", "mpi_cuda_built": False}
AWARE = NOT_AWARE | {"mpi_cuda_built": True}


@pytest.mark.parametrize(
    ("built", "build", "mpi", "said"),
    [  # tests of placement have the other builds
        ("mpi gloo nccl cuda", "nccl", NOT_AWARE, "taken as they are, by NCCL"),
        ("mpi cuda", "mpi", AWARE, "taken as they are, by MPI"),
        ("mpi cuda", "mpi", NOT_AWARE, "staged through the host by the labs: this MPICH"),
        ("mpi gloo cuda", "host", AWARE, "staged through the host by Horovod itself"),
    ],
)
def test_where_horovod_sends_a_gpus_tensors(built, build, mpi, said, monkeypatch):
    monkeypatch.setattr(builds, "current_horovod", lambda: build)
    told = {"horovod.torch": built.split()}
    assert doctor_facts.by_horovod(told, report_with(**mpi, **GPU)).startswith(said)
    assert doctor_facts.by_horovod(told, report_with(**mpi)) is None, "no GPU, no word"


def test_mvapich2_gdr_needs_two_switches(monkeypatch):
    monkeypatch.delenv("MV2_USE_CUDA", raising=False)
    gdr = {"mpi_family": "MVAPICH2-GDR", "mpi_version": "2.3.7", "mpi_cuda_built": True}
    report = report_with(**gdr, **GPU, mpi_threads="MPI_THREAD_SINGLE")
    assert doctor_facts.by_mpi({}, report).startswith("staged through the host: MVAPICH2-GDR takes")
    threads, cuda = findings.advice_on_mpi(report)
    assert "MV2_ENABLE_AFFINITY=0" in threads
    assert "set MV2_USE_CUDA=1" in cuda
    monkeypatch.setenv("MV2_USE_CUDA", "1")
    assert doctor_facts.by_mpi({}, report) == doctor_facts.AS_THEY_ARE
    assert len(findings.advice_on_mpi(report)) == 1
    assert doctor_facts.by_mpi({}, report_with(**gdr)) is None
    two = findings.advice_on_mpi(report_with(mpi_files=["/a/libmpi.so.12", "/b/libmpi.so.40"]))
    assert "Two MPI libraries meet in one process: /a/libmpi.so.12 and /b/libmpi.so.40" in two[0]


# --- what files of the system and programs say


def _put(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)
    return file


def test_infiniband_ports_and_the_module_of_gpudirect_rdma(tmp_path):
    assert doctor_facts.infiniband_ports(tmp_path) == []
    assert doctor_facts.gpudirect_rdma(tmp_path) is None
    for port, state in ((1, "4: ACTIVE"), (2, "1: DOWN")):
        folder = tmp_path / f"class/infiniband/mlx5_0/ports/{port}"
        _put(folder / "state", f"{state}\n")
        _put(folder / "rate", "200 Gb/sec (4X HDR)\n")
    _put(tmp_path / "class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    assert doctor_facts.infiniband_ports(tmp_path) == [
        "mlx5_0 port 1: InfiniBand, ACTIVE, 200 Gb/sec (4X HDR)",
        "mlx5_0 port 2: ?, DOWN, 200 Gb/sec (4X HDR)",
    ]
    _put(tmp_path / "kernel/mm/memory_peers/nv_mem/version", "1.3\n")
    assert doctor_facts.gpudirect_rdma(tmp_path) == "nv_peer_mem 1.3"
    _put(tmp_path / "module/nvidia_peermem/version", "550.54\n")
    assert doctor_facts.gpudirect_rdma(tmp_path) == "nvidia_peermem 550.54"


def test_gdrcopy_by_mvapich2s_variable_or_the_library_path(tmp_path, monkeypatch):
    monkeypatch.delenv("MV2_GPUDIRECT_GDRCOPY_LIB", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path / 'lib'}")
    assert doctor_facts.gdrcopy(tmp_path) is None
    library = _put(tmp_path / "lib/libgdrapi.so", "")
    assert doctor_facts.gdrcopy(tmp_path) == f"library {library}"
    _put(tmp_path / "gdrdrv", "")
    chosen = _put(tmp_path / "libgdrapi.so.2", "")
    monkeypatch.setenv("MV2_GPUDIRECT_GDRCOPY_LIB", str(chosen))
    assert doctor_facts.gdrcopy(tmp_path) == f"driver /dev/gdrdrv, library {chosen}"


NVCC = """#!/bin/sh
echo "nvcc: NVIDIA (R) Cuda compiler driver"
echo "Cuda compilation tools, release {}, V12.4.99"
"""
SCONTROL = """#!/bin/sh
echo "Slurmctld(primary) at first is DOWN"
echo "Slurmctld(backup) at second is UP"
"""


def test_the_cuda_toolkit_and_slurms_controller(tmp_path, monkeypatch):
    says = {fact.key: fact.here for fact in doctor_facts.FACTS}
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    _put(tmp_path / "cuda/bin/nvcc", NVCC.format("11.8"))
    assert says["libraries.cuda_toolkit"]() == "11.8"
    _put(tmp_path / "nvcc", NVCC.format("12.4"))
    _put(tmp_path / "scontrol", SCONTROL)
    assert says["libraries.cuda_toolkit"]() == "12.4"
    assert says["slurm.controller"]() == "Slurmctld(backup) at second is UP"


# --- all of it, on this machine


@pytest.mark.slow
def test_the_report_of_this_machine():
    report = doctor.report(fresh=True, limit=120)
    for fact in doctor_facts.FACTS:
        value = doctor_facts.get(report, fact.key)
        assert (value is None) == (fact.key in report["missing"])
    assert set(report) == {*doctor_facts.GROUPS, "missing", "advice", "labs", "seconds"}
    assert json.loads(json.dumps(report))["mpi"] == report["mpi"]
    assert report["machine"]["cores"] >= 1
    assert report["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["threads"]["torch"] >= 1
    pytest.importorskip("mpi4py")
    mpi = report["mpi"]
    assert len(mpi["files"]) == 1
    assert mpi["threads"].startswith("MPI_THREAD_")
    assert mpi["cuda_built"] in (True, False)
    rank = doctor.which_mpi(limit=120)
    assert mpi["family"]
    assert (rank.family, rank.version, rank.files) == (mpi["family"], mpi["version"], mpi["files"])


ASKED_ON_A_RANK = """
from labkit.doctor import processes
found, _ = processes.collect(processes.start(("mpi_init",)), limit=120)
print("threads", found["mpi.threads"])
"""


@pytest.mark.slow
def test_the_probes_say_the_same_inside_a_running_mpi_job():
    """They start an MPI of their own; they must not join the job that the doctor runs in."""
    command = [launch.mpiexec(), "-n", "2", sys.executable, "-c", ASKED_ON_A_RANK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("threads MPI_THREAD_MULTIPLE") == 2

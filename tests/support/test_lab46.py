"""Lab 46: the ways that are open and what they need, its nets, and its script on Keras."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from labkit import doctor, launch, nets, record, world
from support import lab46

from tests.helpers import ran

SMALL_NET = 1_070_794  # parameters


@pytest.mark.slow
def test_resnet_has_as_many_parameters_as_published():
    resnet = lab46.in_torch("resnet50")
    published = nets.layer_table("resnet50")["parameters"].sum()
    assert sum(weights.numel() for weights in resnet.parameters()) == published == 25_557_032
    images, _ = lab46.made_up_images("pytorch", "resnet50", 2, "cpu")
    assert resnet(images).shape == (2, 1000)


def test_published_lines_give_the_published_speed_ups():
    """The table prints how many times as fast as one GPU; here it follows from images a second."""
    lines = lab46.published("vgg16")
    assert [f"{line}: {line.alone * line.gpus / line.step:.1f}" for line in lines] == [
        "VGG-16, 16 GPUs, host over TCP: 4.7",
        "VGG-16, 16 GPUs, host over RDMA: 4.7",
        "VGG-16, 16 GPUs, NCCL over TCP: 10.0",
        "VGG-16, 16 GPUs, NCCL over RDMA: 13.7",
    ]


ALL = ("host", "mpi", "nccl")
LAPTOP = lab46.Machine(("host",), "MPICH", False, 0, 2)
LAPTOP_MVAPICH2 = lab46.Machine(("host",), "MVAPICH2", False, 0, 2)
MVAPICH2_GDR = lab46.Machine(ALL, "MVAPICH2-GDR", True, 4, 4)
MVAPICH_PLUS = lab46.Machine(ALL, "MVAPICH-Plus", True, 8, 8)
MPICH_ON_GPUS = lab46.Machine(ALL, "MPICH", False, 4, 4)
NO_NCCL_BUILD = lab46.Machine(("host", "mpi"), "MVAPICH2-GDR", True, 4, 4)
CROWDED = lab46.Machine(ALL, "MVAPICH2-GDR", True, 4, 8)

UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}
GDR = {"MV2_ENABLE_AFFINITY": "0", "MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1"}
GLOO = {"HOROVOD_CPU_OPERATIONS": "gloo"}

# (library, the machine, its variables or the beginning of what is missing).
NEEDS = (
    ("host MPI", LAPTOP, {}),
    ("host MPI", LAPTOP_MVAPICH2, UNBOUND),
    ("host MPI", MVAPICH2_GDR, UNBOUND),  # GPU memory is staged before MPI sees it
    ("Gloo", LAPTOP, GLOO),
    ("Gloo", LAPTOP_MVAPICH2, GLOO | UNBOUND),  # MPI negotiates, and Gloo carries
    ("CUDA-aware MPI", MVAPICH2_GDR, GDR),
    ("CUDA-aware MPI", MVAPICH_PLUS, {"MVP_ENABLE_GPU": "1"}),  # it reads no MV2_ variable
    ("CUDA-aware MPI", CROWDED, GDR),  # only NCCL refuses two ranks on one GPU
    ("NCCL", MVAPICH2_GDR, UNBOUND),
    ("NCCL", MPICH_ON_GPUS, {}),  # MPI only negotiates: it need not know of GPUs
    ("CUDA-aware MPI", LAPTOP, "no GPU here"),
    ("NCCL", LAPTOP, "no GPU here"),
    ("NCCL", NO_NCCL_BUILD, "this run has no build `nccl`"),
    ("CUDA-aware MPI", MPICH_ON_GPUS, "this MPI was built without CUDA"),
    ("NCCL", CROWDED, "NCCL wants a GPU for each rank"),
)


@pytest.mark.parametrize(("library", "machine", "want"), NEEDS)
def test_what_is_missing_and_which_variables(library, machine, want):
    reason = lab46.missing(library, machine)
    if isinstance(want, str):
        assert reason.startswith(want)
    else:
        assert reason == ""
        assert lab46.variables(library, machine.mpi) == want


# What was asked for, the libraries that carried gradients, staged: was it as asked?
VERDICTS = [
    ("host MPI", {"MPI"}, True, True),
    ("host MPI", {"GLOO"}, False, False),
    ("Gloo", {"GLOO"}, True, True),
    ("Gloo", {"MPI"}, False, False),
    ("CUDA-aware MPI", {"MPI"}, False, True),
    ("CUDA-aware MPI", {"MPI"}, True, False),  # another build, or MV2_USE_CUDA was forgotten
    ("NCCL", {"NCCL"}, False, True),
    ("NCCL", {"MPI"}, False, False),  # the net was never moved to the GPU
    ("NCCL", {"NCCL", "MPI"}, False, False),  # one layer stayed on the CPU
    ("NCCL", set(), False, False),
]


@pytest.mark.parametrize(("library", "carried", "staged", "want"), VERDICTS)
def test_was_it_as_asked(library, carried, staged, want):
    assert lab46.as_asked(library, carried, staged) == want


def test_ways_that_are_open(monkeypatch):
    def closed() -> dict[str, str]:
        return {way.name: lab46.closed(way) for way in lab46.ways() if lab46.closed(way)}

    monkeypatch.setattr(lab46, "_own_family", lambda: "MPICH")
    monkeypatch.setattr(lab46.builds, "mpi_builds", {"mpich": "/a", "mvapich2": "/b"}.copy)
    monkeypatch.setattr(lab46.builds, "current_mpi", lambda: "mpich")
    monkeypatch.setattr(world, "launcher", lambda: None)
    names = ["host, MPICH", "host, MVAPICH2", "CUDA-aware MPI", "NCCL", "Gloo"]
    assert [way.name for way in lab46.ways()] == names
    assert closed() == {}, "alone all that is here is open"
    monkeypatch.setattr(world, "launcher", lambda: "srun")
    assert "MPI=mvapich2" in closed()["host, MVAPICH2"], "a job keeps its MPI"
    assert not {"host, MPICH", "Gloo"} & closed().keys()
    monkeypatch.setattr(world, "launcher", lambda: None)
    monkeypatch.setattr(lab46.builds, "mpi_builds", {"mpich": "/a"}.copy)
    assert closed() == {"host, MVAPICH2": "not here: `make mvapich2` builds it"}


def test_a_job_names_its_mpi():
    program = "from support import lab46; print('way:', lab46.ways()[0].name)"
    done = ran(launch.mpiexec(), "-n", "2", sys.executable, "-c", program)
    family = doctor.which_mpi().family
    assert (done.returncode, done.stdout.count(f"way: host, {family}\n")) == (0, 2), done.stderr


@pytest.mark.parametrize(
    ("framework", "gpus_of_tensorflow", "capability", "want"),
    [
        ("pytorch", [], 8, ("resnet50", "bf16", 1)),
        ("pytorch", [], 7, ("resnet50", "fp32", 1)),  # a T4: PyTorch would emulate bf16
        ("keras", ["GPU:0"], 8, ("resnet50", "bf16", 1)),
        ("keras", [], 8, ("small", "fp32", 0)),  # tensorflow-cpu beside a PyTorch with CUDA
    ],
)
def test_what_auto_means_on_a_gpu(framework, gpus_of_tensorflow, capability, want, monkeypatch):
    import torch

    config = SimpleNamespace(list_physical_devices=lambda kind: gpus_of_tensorflow)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    monkeypatch.setattr(world, "device", lambda: "cuda:0")
    monkeypatch.setattr(world, "gpu_count", lambda: 1)
    for name, value in {
        "is_available": True,
        "current_device": 0,
        "get_device_properties": SimpleNamespace(major=capability),
        "_check_bf16_tensor_supported": True,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(lab46.launch, "run", lambda *_, **__: [False])  # asks MPI
    net = lab46.chosen("auto", framework)
    precision = lab46.chosen_precision("auto", framework)
    machine = lab46.machine(lab46.Way("host", "host MPI", "mpich"), 2, framework)
    assert (net, precision, machine.gpus) == want


@pytest.mark.slow
def test_the_same_script_in_keras(tmp_path):
    words = "labkit run 46 --solved --np 2 --set framework=keras images=4 repeat=5 watched_steps=2"
    command = [sys.executable, "-m", *words.split()]
    env = {**os.environ, "LABKIT_HOME": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    entries = record.entries(tmp_path / "solved" / "records" / "46_three_libraries.jsonl")
    (weak,) = [entry for entry in entries if entry["result"] == "weak Gloo"]
    assert (weak["framework"], weak["net"], weak["carried_by"]) == ("keras", "small", ["GLOO"])
    assert weak["gradient_bytes"] == 4 * SMALL_NET

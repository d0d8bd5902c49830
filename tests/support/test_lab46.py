"""Lab 46: its nets, its cases, the ways that are open, real ranks by each controller, and its tables."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from labkit import launch, nets, record, world
from labkit.errors import LabError
from labkit.timing import Measurement
from support import lab46
from support.lab46 import jobs, machines
from support.lab46 import nets as lab46_nets
from support.lab46.ranks import METRIC, Run

SMALL_NET = 1_070_794  # parameters


def parameters(net) -> int:
    return sum(weights.numel() for weights in net.parameters())


# --------------------------------------------------------------------------------------------------- nets


def test_the_small_net_in_pytorch():
    import torch

    net = lab46.in_torch("small")
    assert parameters(net) == SMALL_NET
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    again = lab46.in_torch("small")
    assert all(
        torch.equal(one, other) for one, other in zip(net.parameters(), again.parameters(), strict=True)
    )


@pytest.mark.slow
def test_resnet50_in_pytorch_has_the_layers_of_the_paper():
    import torch

    net = lab46.in_torch("resnet50")
    assert parameters(net) == nets.layer_table("resnet50")["parameters"].sum() == 25_557_032
    with torch.no_grad():
        assert net.eval()(torch.rand(1, 3, 64, 64)).shape == (1, 1000)


@pytest.mark.slow
def test_the_small_net_in_keras_is_as_large():
    net = lab46.in_keras("small")
    assert net.count_params() == SMALL_NET
    assert net.compute_output_shape((2, 32, 32, 3)) == (2, 10)


def test_auto_is_the_small_net_without_a_gpu(monkeypatch):
    monkeypatch.setattr(world, "device", lambda: "cpu")
    assert lab46.chosen("auto") == "small"
    monkeypatch.setattr(world, "device", lambda: "cuda:1")
    assert lab46.chosen("auto") == "resnet50"
    assert lab46.chosen("small") == "small"
    with pytest.raises(LabError, match="no net 'vgg'; there are auto, small, resnet50"):
        lab46.chosen("vgg")


@pytest.mark.parametrize("net", lab46_nets.NAMES)
def test_images_fit_the_net(net):
    pictures, labels = lab46.made_up_images("pytorch", net, 3, "cpu")
    pixels = lab46_nets.PIXELS[net]
    assert pictures.shape == (3, 3, pixels, pixels)
    assert int(labels.max()) < lab46_nets.CLASSES[net]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_images_of_a_rank(ranks):
    by_rank = [lab46.images_of("strong", 8, rank, ranks) for rank in range(ranks)]
    assert sum(by_rank) == 8
    assert max(by_rank) - min(by_rank) < 2
    assert lab46.images_of("weak", 8, 0, ranks) == 8


def test_fewer_images_than_ranks_are_refused():
    with pytest.raises(LabError, match='3 images are too few for 4 ranks: SET="images=8"'):
        lab46.images_of("strong", 3, 0, 4)


def test_another_framework_is_refused():
    with pytest.raises(LabError, match='"pytorch" or "keras", not \'jax\''):
        launch.run(_start_jax, ranks=1)


def _start_jax(comm):
    with lab46.started(comm, "jax"):
        pass


# -------------------------------------------------------------------------------------------------- cases


def test_stories_of_timelines_hold_what_their_proofs_say():
    for calls, steps, proof in lab46.TIMELINES.values():
        for library, (count, milliseconds) in proof.items():
            own = [call for call in calls if call.backend == library and set(call.tensors) & lab46.GRADIENTS]
            assert len(own) == count * steps
            assert sum(call.seconds for call in own) == pytest.approx(milliseconds * steps / 1e3)


ALL = ("host", "mpi", "nccl")
LAPTOP = lab46.Machine(("host",), "MPICH", False, 0, 2)
LAPTOP_MVAPICH2 = lab46.Machine(("host",), "MVAPICH2", False, 0, 2)
MVAPICH2_GDR = lab46.Machine(ALL, "MVAPICH2-GDR", True, 4, 4)
MVAPICH_PLUS = lab46.Machine(ALL, "MVAPICH-Plus", True, 8, 8)
MPICH_ON_GPUS = lab46.Machine(ALL, "MPICH", False, 4, 4)
OPEN_MPI = lab46.Machine(ALL, "Open MPI", True, 4, 4)
NO_NCCL_BUILD = lab46.Machine(("host", "mpi"), "MVAPICH2-GDR", True, 4, 4)
CROWDED = lab46.Machine(ALL, "MVAPICH2-GDR", True, 4, 8)

_UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}
_GDR = {"MV2_ENABLE_AFFINITY": "0", "MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1"}
_GLOO = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}

_NEGOTIATES = "MPI negotiates, whoever carries, and MVAPICH2 has to leave its thread a core"
_NO_GPU = "without GPU memory there is nothing for it to move"

# (library, what kind of machine in words, the machine, what it needs: a build and variables, or what is
# missing; why).
NEEDS = (
    ("host MPI", "a laptop with MPICH", LAPTOP, ("host", {}), "it needs no GPU, and MPICH no variable"),
    ("host MPI", "a laptop with MVAPICH2", LAPTOP_MVAPICH2, ("host", _UNBOUND), _NEGOTIATES),
    ("host MPI", "4 GPUs a node, MVAPICH2-GDR", MVAPICH2_GDR, ("host", _UNBOUND),
     "GPU memory is staged before MPI sees it, so MPI's switches for GPUs do nothing here"),
    ("Gloo", "a laptop with MPICH", LAPTOP, ("host", _GLOO), "Gloo carries only where it also negotiates"),
    ("Gloo", "a laptop with MVAPICH2", LAPTOP_MVAPICH2, ("host", _GLOO),
     "here Gloo negotiates, and MPI only starts the ranks"),
    ("CUDA-aware MPI", "4 GPUs a node, MVAPICH2-GDR", MVAPICH2_GDR, ("mpi", _GDR),
     "GDR looks at GPU memory only when told, and its thread needs a core"),
    ("CUDA-aware MPI", "8 GPUs a node, MVAPICH-Plus", MVAPICH_PLUS, ("mpi", {"MVP_ENABLE_GPU": "1"}),
     "MVAPICH-Plus reads no MV2_ variable: its name does not begin with MVAPICH2"),
    ("CUDA-aware MPI", "4 GPUs a node, an Open MPI built for CUDA", OPEN_MPI, ("mpi", {}),
     "Open MPI has no switch that must be set"),
    ("CUDA-aware MPI", "8 ranks on 4 GPUs, MVAPICH2-GDR", CROWDED, ("mpi", _GDR),
     "only NCCL refuses two ranks on one GPU"),
    ("NCCL", "4 GPUs a node, MVAPICH2-GDR", MVAPICH2_GDR, ("nccl", _UNBOUND), _NEGOTIATES),
    ("NCCL", "4 GPUs a node, a plain MPICH", MPICH_ON_GPUS, ("nccl", {}),
     "MPI only negotiates, in host memory: it need not know of GPUs"),
    ("NCCL", "8 GPUs a node, MVAPICH-Plus", MVAPICH_PLUS, ("nccl", {}),
     "MPI only negotiates, in host memory: its switches for GPUs are not needed"),
    ("CUDA-aware MPI", "a laptop with MPICH", LAPTOP, "no GPU", _NO_GPU),
    ("NCCL", "a laptop with MPICH", LAPTOP, "no GPU", _NO_GPU),
    ("NCCL", "4 GPUs a node, no build with NCCL", NO_NCCL_BUILD, "no build",
     "a build of Horovod holds the operations of one library for GPUs"),
    ("CUDA-aware MPI", "4 GPUs a node, a plain MPICH", MPICH_ON_GPUS, "MPI takes no GPU memory",
     "it would read a GPU's address as one of the host, and crash"),
    ("NCCL", "8 ranks on 4 GPUs, MVAPICH2-GDR", CROWDED, "ranks share a GPU", "NCCL refuses such a job"),
)  # fmt: skip


@pytest.mark.parametrize(("library", "told", "machine", "want", "because"), NEEDS)
def test_what_is_missing_and_which_variables(library, told, machine, want, because):
    reason = lab46.missing(library, machine)
    if isinstance(want, str):
        assert reason == want, because
        assert lab46.why_not(machines.Way("x", library), reason) != reason
        return
    assert reason == "", because
    assert lab46.BUILDS[library] == want[0], because
    assert lab46.variables(library, machine.mpi) == want[1], because


# What was asked for, the libraries that carried gradients, staged: was it as asked?
VERDICTS = [
    ("host MPI", {"MPI"}, False, True),
    ("host MPI", {"MPI"}, True, True),
    ("host MPI", {"GLOO"}, False, False),
    ("Gloo", {"GLOO"}, True, True),
    ("Gloo", {"MPI"}, False, False),
    ("CUDA-aware MPI", {"MPI"}, False, True),
    ("CUDA-aware MPI", {"MPI"}, True, False),  # another build, or MV2_USE_CUDA was forgotten
    ("CUDA-aware MPI", {"NCCL"}, False, False),
    ("NCCL", {"NCCL"}, False, True),
    ("NCCL", {"MPI"}, True, False),
    ("NCCL", {"MPI"}, False, False),  # the net was never moved to the GPU
    ("NCCL", {"NCCL", "MPI"}, True, False),  # HOROVOD_HIERARCHICAL_ALLREDUCE=1
    ("NCCL", {"NCCL", "MPI"}, False, False),  # one layer stayed on the CPU
    ("NCCL", set(), False, False),
]


@pytest.mark.parametrize(("library", "carried", "staged", "want"), VERDICTS)
def test_was_it_as_asked(library, carried, staged, want):
    proof = dict.fromkeys(carried, (1.0, 0.002))
    cells = lab46.proof_cells(library, proof, "through the host" if staged else "no", ranks=2)
    assert cells[-1] == ("yes" if want else "NO")
    assert lab46.proof_cells(library, proof, "no", ranks=1)[-1] == "one rank: nothing to carry"


def test_in_drifting_runs_the_columns_medians_are_of_different_moments():
    step, alone = lab46.drifting_runs(0.2)
    shares = 1 - alone / step
    assert np.median(shares) == pytest.approx(0.2)
    assert abs(1 - np.median(alone) / np.median(step) - 0.2) > 0.3
    assert abs(np.mean(shares) - 0.2) > 0.02


def test_published_lines_give_the_published_speed_ups():
    """The tables print how many times as fast as one GPU; here it is computed from images per second."""
    speedups = {str(line): round(line.alone * line.gpus / line.step, 1) for line in lab46.published("vgg16")}
    assert speedups == {
        "VGG-16, 16 GPUs, host over TCP": 4.7,
        "VGG-16, 16 GPUs, host over RDMA": 4.7,
        "VGG-16, 16 GPUs, NCCL over TCP": 10.0,
        "VGG-16, 16 GPUs, NCCL over RDMA": 13.7,
        "VGG-16, 64 GPUs, host over TCP": 9.8,
        "VGG-16, 64 GPUs, NCCL over TCP": 40.7,
    }
    assert len(lab46.published()) == 18
    assert len(lab46.published("resnet101", gpus=16)) == 4
    first = lab46.published("vgg16")[0]
    assert first.nbytes == 553_430_176
    assert first.beta == pytest.approx(0.32e-9)


# --------------------------------------------------------------------------------------------------- ways


@pytest.fixture
def alone(monkeypatch):
    """A laptop with MPICH, and MVAPICH2 beside it."""
    monkeypatch.setattr(machines, "_own_family", lambda: "MPICH")
    monkeypatch.setattr(machines.builds, "mpi_builds", lambda: {"mpich": "/a", "mvapich2": "/b"})
    monkeypatch.setattr(machines.builds, "current_mpi", lambda: "mpich")
    monkeypatch.setattr(machines.builds, "horovod_builds", lambda: {"host": "/c"})
    monkeypatch.setattr(world, "launcher", lambda: None)
    monkeypatch.delenv("HOROVOD_CONTROLLER", raising=False)
    return monkeypatch


def names() -> dict[str, str]:
    return {way.name: lab46.closed(way) for way in lab46.ways()}


def test_alone_all_that_is_here_is_open(alone):
    assert names() == dict.fromkeys(["host, MPICH", "host, MVAPICH2", "CUDA-aware MPI", "NCCL", "Gloo"], "")


def test_an_mpi_that_is_not_built_is_named_with_its_cure(alone):
    alone.setattr(machines.builds, "mpi_builds", lambda: {"mpich": "/a"})
    assert names()["host, MVAPICH2"] == "not here: `make mvapich2` builds it"


def test_a_job_keeps_its_mpi_and_its_controller(alone):
    alone.setattr(world, "launcher", lambda: "srun")
    assert "MPI=mvapich2" in names()["host, MVAPICH2"]
    assert "controller is MPI" in names()["Gloo"]
    assert names()["host, MPICH"] == ""
    alone.setenv("HOROVOD_CONTROLLER", "gloo")
    assert "controller is Gloo" in names()["host, MPICH"]
    assert "controller is Gloo" in names()["NCCL"]
    assert names()["Gloo"] == ""


def test_on_mvapich2_there_is_one_line_of_host_mpi(alone):
    alone.setattr(machines, "_own_family", lambda: "MVAPICH2")
    alone.setattr(machines.builds, "current_mpi", lambda: "mvapich2")
    assert [way.name for way in lab46.ways() if way.library == "host MPI"] == ["host, MVAPICH2"]


def test_a_machine_without_gpus(alone):
    alone.setattr(world, "device", lambda: "cpu")
    alone.setattr(machines.builds, "current_horovod", lambda: "host")
    mpich, mvapich2, *_ = lab46.ways()
    assert lab46.machine(mpich, 2) == lab46.Machine(("host",), "MPICH", False, 0, 2)
    assert lab46.machine(mvapich2, 4).mpi == "MVAPICH2"


def test_file_names_hold_no_blanks():
    assert machines.Way("host, MPICH", "host MPI").file_name == "host_MPICH"


# -------------------------------------------------------------------------------------------------- ranks


def _train_a_little(comm, folder):
    """On every rank: watched steps of the small net, as lab 46's own script does; the link, as lab 47's."""
    import torch

    with lab46.started(comm, "pytorch") as where:
        place, nodes, ranks = lab46.place(comm, where)

    def make(where):
        import horovod.torch as hvd

        torch.manual_seed(comm.rank)
        net = lab46.in_torch("small")
        pictures, labels = lab46.made_up_images("pytorch", "small", 2, where.device)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(net.parameters(), lr=0.01), named_parameters=net.named_parameters()
        )

        def step():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(pictures), labels).backward()
            optimizer.step()

        return lab46.Steps(step, step, 4 * SMALL_NET)

    watched = lab46.watch(comm, "pytorch", make, 3, folder / "timeline.json")
    return Run({}, watched, 4 * SMALL_NET, place, nodes, ranks), lab46.time_link(comm, milliseconds=5)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["MPI", "Gloo"])
def test_a_timeline_of_real_ranks_holds_every_gradient_in_every_step(library, tmp_path):
    env = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"} if library == "Gloo" else {}
    by_rank = launch.run(_train_a_little, tmp_path, ranks=2, env=env)
    run, link = by_rank[0]
    assert by_rank[1][0].watched is None
    assert run.watched.steps == 3
    assert len(run.watched.gradients) == 8
    carried = [call for call in run.watched.calls if set(call.tensors) & run.watched.gradients]
    assert {call.backend for call in carried} == {library.upper()}
    for gradient in run.watched.gradients:
        assert sum(gradient in call.tensors for call in carried) == 3
    assert any(METRIC in tensor for call in run.watched.calls for tensor in call.tensors)
    assert run.place["library"] == library
    assert run.place["staged"] == "no" or run.place["device"] != "cpu"
    assert (run.nodes, run.ranks) == (1, 2)
    assert min(link.long.samples) > min(link.short.samples) > 0
    assert min(link.long.samples) > min(link.mpi.samples) > 0
    assert len(link.busy.samples) == len(link.long.samples)
    assert len(link.rare.samples) == len(link.short.samples)


@pytest.mark.slow
def test_the_same_script_in_keras(tmp_path):
    settings = ["framework=keras", "images=4", "repeat=5", "watched_steps=2"]
    command = [sys.executable, "-m", "labkit", "run", "46", "--solved", "--set", *settings]
    env = {**os.environ, "LABKIT_HOME": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (weak,) = [entry for entry in records(tmp_path) if entry["result"] == "weak Gloo"]
    assert (weak["framework"], weak["net"], weak["carried_by"]) == ("keras", "small", ["GLOO"])
    assert weak["gradient_bytes"] == 4 * SMALL_NET


def records(home) -> list[dict]:
    """The records of a solved run with this home."""
    return record.entries(home / "solved" / "records" / f"{jobs.STEM}.jsonl")


@pytest.mark.slow
def test_one_rank_carries_nothing(tmp_path):
    ((run, _),) = launch.run(_train_a_little, tmp_path, ranks=1)
    assert run.watched.gradients == frozenset()


# ------------------------------------------------------------------------------------- tables and records


def measured(*seconds: float) -> Measurement:
    return Measurement(np.array(seconds))


def test_a_table_gives_a_sentence_the_whole_line(capsys):
    lab46.print_table(["a", "long name"], {"first": ["1", "2"], "second way": "cannot run."})
    assert capsys.readouterr().out.splitlines() == [
        "            a  long name",
        "first       1          2",
        "second way  cannot run.",
    ]


def test_results_that_are_not_steady_are_marked(capsys):
    quiet = {
        kind: {"step": measured(*[0.1] * 6), "alone": measured(*[0.1] * 6)} for kind in ("weak", "strong")
    }
    noisy = {kind: {"step": measured(1, 2, 3, 1, 2, 3), "alone": measured(1)} for kind in ("weak", "strong")}
    ran = {name: Run(times, None, 0, {}, 1, 2) for name, times in (("a", quiet), ("b", noisy))}
    results = dict.fromkeys(ran, {"weak": (100.0, 0.25), "strong": (50.0, 0.5)})
    lab46.print_results(results, ran, {"c": "no GPU here"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a", "100", "25%", "50", "50%"]
    assert lines[2].split() == ["b", "*", "100", "25%", "50", "50%"]
    assert lines[3] == "c    cannot run here: no GPU here"
    assert lines[4].startswith("* b: do not quote: ")


def test_parts_of_a_step_are_by_pairs_and_never_below_nothing():
    times = {"step": measured(0.3, 0.1), "alone": measured(0.2, 0.15), "no Horovod": measured(0.17, 0.17)}
    parts = lab46.parts(times)
    np.testing.assert_allclose(parts["computing"], [170, 170])
    np.testing.assert_allclose(parts["Horovod's thread"], [30, 0])
    np.testing.assert_allclose(parts["communication"], [100, 0])


def test_the_picture_of_bounds_holds_a_mark_for_each_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    rows = {"one": lab46.Bounds(1.0, 1.5, 1.2), "two": lab46.Bounds(2.0, 3.0, 6.5)}
    figure = lab46.show_bounds(rows, title="Bounds")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert len(list(tmp_path.rglob("*.png"))) == 1


def entry(result: str, nodes: int = 2, rate: float = 100.0) -> dict:
    place = {"nodes": nodes, "ranks": 2 * nodes, "carried_by": ["MPI"], "staged": "no"}
    return {"result": result, "images_per_second": rate, "share": 0.5, **place}


def test_rows_of_several_nodes_from_records():
    entries = [
        entry("weak host, MPICH"),
        entry("strong host, MPICH"),
        entry("weak host, MPICH", rate=120.0),  # measured again: the latest counts
        entry("weak host, MPICH", nodes=1),
        entry("strong host, MPICH", nodes=1),
        entry("weak Gloo"),  # its other half was never measured
        {"result": "link", "nodes": 2},
    ]
    rows = jobs.by_way(entries)
    assert rows == {"host, MPICH, 2 nodes, 4 ranks": ["120", "50%", "100", "50%", "MPI", "no"]}


def test_a_job_for_each_build_and_for_gloo(monkeypatch):
    monkeypatch.setattr(jobs.builds, "horovod_builds", lambda: {"host": 1, "nccl": 2})
    monkeypatch.setattr(jobs.builds, "mpi_builds", lambda: {"mpich": 1, "mvapich2": 2})
    monkeypatch.setattr(jobs.builds, "current_mpi", lambda: "mpich")
    host, nccl, mvapich2, gloo = jobs.choices()
    assert (host.horovod, nccl.horovod, mvapich2.mpi) == ("host", "nccl", "mvapich2")
    assert gloo.env == {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}


def test_without_a_cluster_the_reference_is_named_as_such(monkeypatch, capsys):
    monkeypatch.setattr(world, "launcher", lambda: None)
    monkeypatch.setattr(jobs.cluster, "here", lambda: None)
    lab46.elsewhere(1)
    said = capsys.readouterr().out
    assert "No Slurm cluster is at hand." in said
    if not record.reference(jobs.STEM).empty:
        assert "the kit's reference, not yours" in said


def test_inside_of_a_job_nothing_is_submitted(monkeypatch, capsys):
    monkeypatch.setattr(world, "launcher", lambda: "srun")
    monkeypatch.setattr(jobs, "choices", lambda: pytest.fail("a job submits jobs"))
    lab46.elsewhere(1)
    assert capsys.readouterr().out == ""

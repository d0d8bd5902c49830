"""gpu-check without a GPU: its plan, its proofs, its page, and the whole command in a rehearsal."""

from __future__ import annotations

import json
import time

import pytest
from authoring.gpu_check import peak, plan, proof, trial
from authoring.gpu_check.plan import Clock, Lab
from authoring.gpu_check.proof import CONTRADICTION, CPU, NOT_SHOWN, ON_DEVICE, STAGED
from authoring.gpu_check.trial import Tried
from labkit import paths, record
from labkit.horovod import timeline
from support import lab42

LAB = Lab("43_horovod_nccl2", 10, on_device=("carried",), one_gpu="NCCL between two ranks")
VERDICTS = {
    lab42.ON_GPU: ON_DEVICE,
    lab42.AWARE: ON_DEVICE,
    lab42.STAGED: STAGED,
    lab42.ON_CPU: CPU,
}


def test_the_clock_gives_a_part_what_earlier_ones_left():
    clock = Clock({"a": 1, "b": 1, "c": 2}, 400, begun=time.time() - 20)
    assert clock.limit("a") == pytest.approx(80, abs=1)
    assert clock.limit("b") == pytest.approx(180, abs=1), "a took 20 s of its 100"
    assert clock.too_late("b") == ""
    late = Clock({"a": 1, "b": 1}, 100, begun=time.time() - 98)
    assert late.too_late("b") == "The time was over: of its share of 50 s, 2 s were left."


@pytest.mark.parametrize("journey", lab42.JOURNEYS, ids=lambda journey: journey.told)
def test_a_row_of_a_timeline_is_judged_as_lab_42_does(journey):
    verdict, because = proof.of_row(journey.activities, journey.device, journey.build)
    assert verdict == VERDICTS[journey.verdict], because


def entry(**fields) -> dict:
    return {"result": "carried", "device": "cuda:0", "staged": "no", "library": "NCCL", **fields}


STAGED_BY_MPI = {"staged": "through the host", "library": "MPI"}


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"calls": {"NCCL_ALLREDUCE": 3}}, ON_DEVICE),
        ({"calls": {"NCCL_ALLREDUCE": 3, "MPI_BCAST": 1}}, ON_DEVICE),
        ({"calls": {"MPI_ALLREDUCE": 3}}, CONTRADICTION),
        ({"names": "ALLREDUCE NCCL_REDUCESCATTER MEMCPY_IN_HOST_BUFFER MPI_ALLREDUCE"}, STAGED),
        ({"carried_by": ["NCCL"]}, ON_DEVICE),
        ({"carried_by": ["GLOO"]}, CONTRADICTION),
        ({**STAGED_BY_MPI, "carried_by": "MPI_ALLREDUCE"}, STAGED),
        ({**STAGED_BY_MPI, "calls": {"NCCL_ALLREDUCE": 1}}, CONTRADICTION),
        ({"library": "MPI", "carried_by": ["MPI"]}, ON_DEVICE),
        ({"library": None, "staged": None}, ON_DEVICE),
        ({"device": "cpu"}, CPU),
        ({"device": "stand-in, 0.25 GB/s after 400 µs"}, CPU),
        ({"device": None}, CPU),
        ({"device": "cuda:0 (NVIDIA H100)", **STAGED_BY_MPI}, STAGED),
    ],
)
def test_a_record_is_judged_with_the_operations_that_it_names(fields, verdict):
    assert proof.of_record(entry(**fields))[0] == verdict


def events_of(rows: dict[str, list[str]]) -> list[dict]:
    """A timeline in which each tensor has these activities, one after the other, as Horovod writes them."""
    events = []
    for row, (tensor, activities) in enumerate(rows.items()):
        events.append({"ph": "M", "name": "process_name", "pid": row, "args": {"name": tensor}})
        for place, name in enumerate(activities):
            events += [
                {"ph": "B", "name": name, "pid": row, "ts": 10 * place},
                {"ph": "E", "pid": row, "ts": 10 * place + 5},
            ]
    return events


@pytest.mark.parametrize("journey", lab42.JOURNEYS[:-1], ids=lambda journey: journey.told)
def test_a_timeline_beside_the_record_of_its_run(journey):
    library = "Gloo" if "GLOO_ALLREDUCE" in journey.activities else "MPI"
    if journey.build == "nccl" and journey.device != "cpu":
        library = "NCCL"
    of_run = {
        "device": journey.device,
        "library": library,
        "staged": "through the host" if journey.build == "host" and journey.device != "cpu" else "no",
        "horovod_build": journey.build,
    }
    told = [entry(**of_run)]
    found = proof.of_timeline(LAB, "timeline", events_of({"a weight": journey.activities}), told)
    assert [finding.verdict for finding in found] == [VERDICTS[journey.verdict]]


def test_a_timeline_that_says_another_library_than_all_records():
    mpi = events_of({"a weight": ["NEGOTIATE_ALLREDUCE", "ALLREDUCE", "MPI_ALLREDUCE"]})
    (finding,) = proof.of_timeline(LAB, "timeline", mpi, [entry()])
    assert finding.verdict == CONTRADICTION
    assert finding.because == "it names MPI, and the records' library is NCCL"


def test_of_several_ways_the_file_names_the_one():
    told = [
        entry(way="host, MPICH", horovod_build="host", **STAGED_BY_MPI),
        entry(way="CUDA-aware MPI", horovod_build="mpi", library="MPI"),
    ]
    rows = {"a weight": ["ALLREDUCE", "MPI_ALLREDUCE"], "loss": ["ALLREDUCE", "MPI_ALLREDUCE"]}
    for name, verdict in {"timeline_46_host_MPICH": STAGED, "timeline_46_CUDA_aware_MPI": ON_DEVICE}.items():
        (finding,) = proof.of_timeline(LAB, name, events_of(rows), told)
        assert finding.verdict == verdict


def test_a_number_on_the_host_beside_gradients_is_no_failure():
    rows = {"a weight": ["ALLREDUCE", "NCCL_ALLREDUCE"], "loss": ["ALLREDUCE", "MPI_ALLREDUCE"]}
    (finding,) = proof.of_timeline(LAB, "timeline", events_of(rows), [entry(horovod_build="nccl")])
    assert finding.verdict == ON_DEVICE


def verdicts(lab: Lab, entries: list[dict], timelines=None, **machine) -> dict[str, str]:
    machine = {"gpus": 1, "builds": ["host", "nccl"], **machine}
    return {f.what: f.verdict for f in proof.of_lab(lab, entries, timelines or {}, **machine)}


def test_a_lab_on_one_gpu_says_what_it_cannot_show():
    assert verdicts(LAB, [entry(build="nccl", calls={"NCCL_ALLREDUCE": 1})]) == {
        "carried nccl": ON_DEVICE,
        "one GPU": NOT_SHOWN,
    }
    assert "one GPU" not in verdicts(LAB, [entry()], gpus=2)
    assert verdicts(LAB, [entry()], builds=["host"])["NCCL"] == NOT_SHOWN


def test_records_of_other_things_count_for_nothing():
    other = {"result": "gains", "device": "cpu"}
    assert verdicts(LAB, [entry(), other], gpus=2) == {"carried": ON_DEVICE}
    assert verdicts(LAB, [other], gpus=2) == {"records": NOT_SHOWN}
    against = next(lab for lab in plan.LABS if lab.number == "51")
    allreduce = {"result": "allreduce", "device": "cpu", "staged": "no", "library": "MPI"}
    rows = [{**allreduce, "backend": "mpi"}, {**allreduce, "backend": "mpi-gpu"}]
    assert verdicts(against, rows, gpus=2) == {"allreduce mpi-gpu": CPU}


def test_a_record_that_names_a_gpu_which_nobody_used():
    said = {"result": "step", "device": "cuda:0", "staged": None, "library": None}
    lab = Lab("10_train_on_one_device", 10, on_device=("step",))
    assert verdicts(lab, [said], memory=2 << 20) == {"step": CPU}
    assert verdicts(lab, [said], memory=600 << 20) == {"step": ON_DEVICE}
    assert verdicts(lab, [said], memory=None) == {"step": ON_DEVICE}


def test_the_kits_own_records_were_measured_on_cpus():
    """Real records, of runs on a machine without GPUs: none may pass for one of a GPU."""
    judged = 0
    for lab in plan.LABS:
        file = paths.root() / "solutions" / "results" / f"{lab.stem}.jsonl"
        for finding in proof.of_lab(lab, record.entries(file), {}, gpus=0):
            assert finding.verdict in (CPU, NOT_SHOWN), finding
            judged += finding.verdict == CPU
    assert judged > 10


@pytest.mark.slow
def test_a_real_timeline_of_cpu_ranks_is_a_failure(tmp_path):
    from labkit import builds, launch
    from labkit.horovod import train

    env = {"HOROVOD_TIMELINE": str(tmp_path / "timeline_43.json")}
    training = launch.run(train, 3, 32, 4, ranks=2, env=env, timeout=500)[0]
    told = {"build": builds.current_horovod(), "calls": timeline.backends(training.events)}
    entries = [{"result": "carried", **told, **training.where.fields()}]
    found = proof.of_lab(LAB, entries, proof.read_timelines(tmp_path), gpus=0, builds=["host"])
    assert [(f.what, f.verdict) for f in found] == [
        ("carried host", CPU),
        ("timeline timeline_43", CPU),
        ("NCCL", NOT_SHOWN),
    ]


def test_results_of_pytest_are_read(tmp_path):
    told = tmp_path / "tests.xml"
    told.write_text(
        '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure message="Error: 1&#10;x"/>'
        '</testcase><testcase name="c"><skipped message="no GPU"/></testcase><testcase name="d"><error '
        'message="ImportError: y"/></testcase></testsuite></testsuites>'
    )
    tried = trial.read(told)
    assert tried.passed == ["a"]
    assert tried.failed == {"b": "Error: 1", "d": "ImportError: y"}
    assert tried.skipped == {"c": "no GPU"}
    assert trial.read(tmp_path / "none.xml") == Tried()


@pytest.mark.slow
def test_flops_are_those_of_the_nets():
    small = peak.SMALL
    tokens = small.texts * small.length
    blocks = small.layers * 12 * small.width**2 * 2 * tokens
    # query times key and weights times value: each length^2 times width products a text, half of them causal
    attention = small.layers * 2 * small.texts * small.length**2 * small.width * 2 / 2
    assert peak.flops(plan.GPT, small) == pytest.approx(3 * (blocks + attention))
    pixels = small.batch * small.side**2
    convolutions = 2 * 9 * small.channels**2 * 2 * small.blocks * pixels
    stem = 2 * 27 * small.channels * pixels
    classes = 2 * small.batch * small.channels * 1000
    # backward computes two products for each of forward's; the images need no gradient
    want = 3 * convolutions + 2 * stem + 3 * classes
    assert peak.flops(plan.RESNET, small) == pytest.approx(want)


RECORD = 'record.add("step", seconds=0.5, way=str(length))'


@pytest.mark.slow
def test_a_rehearsal_runs_it_all_and_proves_no_gpu(checkout):
    from tests.authoring.tour.tour_labs import write_lab

    write_lab(checkout, "10_train_on_one_device", needs="torch", measure=RECORD)
    write_lab(checkout, "12_find_the_bottleneck", needs="torch", measure="[][0]")
    (checkout.root / "tests" / "test_marked.py").write_text(
        "import pytest\n\n\n@pytest.mark.gpu\ndef test_of_a_gpu():\n    pytest.skip('no GPU')\n"
    )
    options = ("--device", "cpu", "--labs", "10,12", "--minutes", "9")
    done = checkout.python("-m", "authoring.gpu_check", *options, timeout=580)
    out = checkout.root / "build" / "gpu-rehearsal"
    page = (out / "results" / "REPORT.md").read_text()
    assert "A rehearsal of the GPU check, on the CPU" in page
    assert not (checkout.root / "solutions" / "results").exists()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "lab 10_train_on_one_device: CPU, the record's device is 'cpu' (step)" in page
    assert "lab 12_find_the_bottleneck: IndexError: list index out of range" in page
    assert "0 passed, 0 failed, 1 skipped." in page
    records = (out / "results" / "10_train_on_one_device.jsonl").read_text()
    (kept,) = [json.loads(line) for line in records.splitlines()]
    assert kept["seconds"] == 0.5
    assert kept["gpus"] == 0
    assert kept["driver"] is None
    assert (out / "index.html").exists()
    assert (out / "results" / "flops.jsonl").exists()

"""labkit.doctor: it fails for nothing that is missing, crashes or hangs; tells MPIs apart; judges labs."""

import json
import subprocess
import sys

import pytest
from labkit import labfile
from labkit.doctor import facts as doctor_facts
from labkit.doctor import fitness, mpi, probe
from labkit.doctor import report as doctor_report
from labkit.errors import LabError, NotHere


def found(**values) -> dict:
    """A report with these facts: found(mpi_version="5.0.2")."""
    report = doctor_facts.empty()
    report["machine"]["cores"] = 4
    for name, value in values.items():
        doctor_facts.put(report, name.replace("_", ".", 1), value)
    return report


# --- which MPI is it? (texts as the libraries give them)

TEXTS = {
    (
        "MVAPICH2",
        "2.3.7",
    ): "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02\nMVAPICH2 Device…",
    ("MVAPICH2-GDR", "2.3.6"): "MVAPICH2-GDR Version      :\t2.3.6\n",
    ("MVAPICH", "3.0rc"): "MVAPICH Version        :\t3.0rc\nMVAPICH Release date   :\t",
    ("MVAPICH", "4.0"): "MVAPICH Version:        4.0\nMVAPICH Release date:   03/06/2025\nABI: 0:0:0",
    ("MVAPICH-Plus", "5.1.0"): "MVAPICH-Plus Version:   5.1.0\n",
    (
        "Cray MPICH",
        "8.1.25.17",
    ): "MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\nMPI BUILD INFO",
    (
        "MPICH",
        "5.0.2",
    ): "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25\nMPICH ABI:          18:2:6",
    ("Open MPI", "5.0.11"): "Open MPI v5.0.11, package: Open MPI root@host Distribution, ident: 5.0.11",
    ("Intel MPI", "2021.19"): "Intel(R) MPI Library 2021.19 for Linux* OS",
    (None, None): "something else",
}


@pytest.mark.parametrize(("expected", "text"), TEXTS.items(), ids=lambda value: str(value)[:20])
def test_mpi_families_are_told_apart(expected, text):
    assert mpi.identify(text) == expected


def test_mvapich2_gdr_is_told_by_its_tool():
    text = "MVAPICH2 Version      :\t2.3.7"
    assert mpi.identify(text, "MVAPICH2-GDR 2.3.7 …") == ("MVAPICH2-GDR", "2.3.7")


@pytest.mark.parametrize(
    ("family", "environment", "on"),
    [
        ("MVAPICH2-GDR", {}, False),
        ("MVAPICH2-GDR", {"MV2_USE_CUDA": "1"}, True),
        ("MVAPICH-Plus", {}, True),
        ("MVAPICH-Plus", {"MVP_ENABLE_GPU": "0"}, False),
        ("Cray MPICH", {}, False),
        ("Cray MPICH", {"MPICH_GPU_SUPPORT_ENABLED": "1"}, True),
        ("MPICH", {"MPIR_CVAR_ENABLE_GPU": "0"}, False),
    ],
)
def test_the_switch_for_gpu_memory(family, environment, on):
    state, sentence = mpi.switch(family, environment)
    assert state is on
    assert sentence.endswith("on" if on else "off")


def test_two_mpi_libraries_in_one_process_are_seen(tmp_path):
    maps = tmp_path / "maps"
    lines = [
        "/a/libmpi.so.12.1.1",
        "/a/libmpi.so.12.1.1",
        "/b/libmpi.so.40",
        "/a/libmpicxx.so.12",
        "/a/libm.so.6",
    ]
    maps.write_text("".join(f"7f00-7f01 r-xp 00000000 08:01 123   {path}\n" for path in lines))
    files = probe.loaded_mpi(str(maps))
    assert files == ["/a/libmpi.so.12.1.1", "/b/libmpi.so.40"]
    advice = mpi.advice(found(mpi_files=files), {})
    assert "Two MPI libraries meet in one process: /a/libmpi.so.12.1.1 and /b/libmpi.so.40" in advice[0]


def test_advice_for_mvapich2_gdr():
    report = found(
        mpi_family="MVAPICH2-GDR",
        mpi_threads="MPI_THREAD_SINGLE",
        mpi_cuda_built=True,
        gpu_devices=[{"name": "A100", "memory_gib": 40.0, "capability": "8.0"}],
    )
    threads, cuda = mpi.advice(report, {})
    assert "MV2_ENABLE_AFFINITY=0" in threads
    assert "set MV2_USE_CUDA=1" in cuda
    assert len(mpi.advice(report, {"MV2_USE_CUDA": "1"})) == 1


# --- the judgement of labs

HERE = {"mpi_version": "5.0.2", "mpi_launcher": "mpiexec", "versions_mpi4py": "4.1", "threads_torch": 4}
GPU = [{"name": "H200", "memory_gib": 139.0, "capability": "9.0"}]


@pytest.mark.parametrize(
    ("needs", "ranks", "facts", "status", "words"),
    [
        ("cpu", 1, {}, fitness.RUNS, "On 4 cores"),
        ("mpi", 4, {}, fitness.NEEDS, "make setup"),
        ("mpi", 4, HERE, fitness.RUNS, "On 4 cores"),
        ("mpi", 8, HERE, fitness.RUNS, "8 ranks share 4 cores"),
        ("horovod, torch", 4, HERE, fitness.NEEDS, "Horovod: `make setup` builds it"),
        (
            "horovod, torch",
            4,
            {**HERE, "horovod_frameworks": ["tensorflow"]},
            fitness.NEEDS,
            "Horovod for torch",
        ),
        (
            "tensorflow",
            1,
            {"versions_tensorflow": "2.21"},
            fitness.NEEDS,
            "A TensorFlow that can be imported",
        ),
        ("slurm", 4, HERE, fitness.NEEDS, "login node"),
        ("slurm", 4, {"slurm_job": "17 on 2 node(s)"}, fitness.RUNS, ""),
        ("torch, gpu", 1, HERE, fitness.REDUCED, "on the processor"),
        ("torch, gpu", 1, {**HERE, "gpu_devices": GPU}, fitness.REDUCED, "built for the processor"),
        (
            "torch, gpu",
            1,
            {**HERE, "gpu_devices": GPU, "libraries_cuda_torch": "13.0"},
            fitness.RUNS,
            "On 1 GPU",
        ),
        ("nccl", 2, {"gpu_devices": GPU}, fitness.REDUCED, "no NCCL"),
    ],
)
def test_what_a_lab_needs(needs, ranks, facts, status, words):
    header = labfile.Header(tuple(needs.split(", ")), ranks, 30)
    got, sentence = fitness.judge(header, found(**facts))
    assert got == status
    assert words in sentence


def test_labs_are_read_by_their_header_line(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/20_x.py").write_text(
        "# %%\n# # 20\n# Needs: mpi, gpu · Ranks: 4 · Minutes: 35 · Before: -\n"
    )
    (tmp_path / "solutions/21_y.py").write_text("broken")
    assert labfile.headers(tmp_path) == {"20_x": labfile.Header(("mpi", "gpu"), 4, 35)}


def test_require_names_everything_that_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(
        doctor_report, "_report", {**found(**HERE), "missing": {}, "advice": [], "labs": {}, "seconds": 1}
    )
    doctor_report.require("cpu,mpi,torch")
    with pytest.raises(NotHere, match=r"Missing here: Horovod: .* Slurm: .* No GPU"):
        doctor_report.require("horovod,mpi,slurm,gpu")
    with pytest.raises(LabError, match="not 'cuda'"):
        doctor_report.require("cuda")
    assert doctor_report.main(["--json", "--require", "mpi"]) == 0
    assert json.loads(capsys.readouterr().out)["mpi"]["version"] == "5.0.2"
    assert doctor_report.main(["--json", "--require", "horovod"]) == 1
    assert "Missing here: Horovod" in capsys.readouterr().err


# --- all of it, on this machine


@pytest.fixture(scope="module")
def report():
    return doctor_report.report(fresh=True, limit=120)


@pytest.mark.slow
def test_the_report_of_this_machine(report):
    for fact in doctor_facts.FACTS:
        value = doctor_facts.get(report, fact.key)
        assert (value is None) == (fact.key in report["missing"])
    assert set(report) == {*doctor_facts.GROUPS, "missing", "advice", "labs", "seconds"}
    assert json.loads(json.dumps(report))["mpi"] == report["mpi"]
    assert report["machine"]["cores"] >= 1
    assert report["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["threads"]["torch"] >= 1


@pytest.mark.slow
def test_the_mpi_of_this_machine(report):
    pytest.importorskip("mpi4py")
    assert report["mpi"]["family"]
    assert len(report["mpi"]["files"]) == 1
    assert report["mpi"]["threads"].startswith("MPI_THREAD_")
    assert report["mpi"]["cuda_built"] in (True, False)


@pytest.mark.slow
def test_the_tables(report, capsys):
    doctor_report.show()
    text = capsys.readouterr().out
    for label in ("What is here", "cores you may use", "launcher", "Found out in"):
        assert label in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.slow
def test_it_says_the_same_inside_a_running_mpi_job():
    """The probes start an MPI of their own; they must not join the job that the doctor runs in."""
    from labkit import launch

    code = "from labkit import doctor; print('threads', doctor.report(limit=120)['mpi']['threads'])"
    command = [launch.mpiexec(), "-n", "2", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("threads MPI_THREAD_MULTIPLE") == 2

"""MPIs are told apart; whether one takes GPU memory is asked in the way that harms none of them."""

import types

import pytest
from labkit.doctor import mpi
from support.lab51 import backends

from tests.labkit.doctor.made_up import report_with

# What the libraries say of themselves.
BANNERS = {
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


@pytest.mark.parametrize(("expected", "text"), BANNERS.items(), ids=lambda value: str(value)[:20])
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
    files = mpi.loaded_mpi(str(maps))
    assert files == ["/a/libmpi.so.12.1.1", "/b/libmpi.so.40"]
    advice = mpi.advice(report_with(mpi_files=files), {})
    assert "Two MPI libraries meet in one process: /a/libmpi.so.12.1.1 and /b/libmpi.so.40" in advice[0]


def test_advice_for_mvapich2_gdr():
    report = report_with(
        mpi_family="MVAPICH2-GDR",
        mpi_threads="MPI_THREAD_SINGLE",
        mpi_cuda_built=True,
        gpu_devices=[{"name": "A100", "memory_gib": 40.0, "capability": "8.0"}],
    )
    threads, cuda = mpi.advice(report, {})
    assert "MV2_ENABLE_AFFINITY=0" in threads
    assert "set MV2_USE_CUDA=1" in cuda
    assert len(mpi.advice(report, {"MV2_USE_CUDA": "1"})) == 1


class Library:
    """Stands for a loaded MPI with these functions, and notes which of them are called."""

    def __init__(self, **answers: bool):
        self.called: list[str] = []
        for name, answer in answers.items():
            setattr(self, name, getattr(self, f"_{name}")(answer))

    def _MPIX_GPU_query_support(self, answer: bool):
        def query(kind, supported):
            assert kind == 0, "CUDA"
            self.called.append("MPIX_GPU_query_support")
            supported._obj.value = answer
            return 0

        return query

    def _MPIX_Query_cuda_support(self, answer: bool):
        def query():
            self.called.append("MPIX_Query_cuda_support")
            return int(answer)

        return query


@pytest.mark.parametrize("answer", [True, False])
def test_the_query_that_never_ends_a_program_is_asked_alone(answer):
    library = Library(MPIX_GPU_query_support=answer, MPIX_Query_cuda_support=not answer)
    assert mpi.takes_gpu_memory(library) is answer
    assert library.called == ["MPIX_GPU_query_support"]


@pytest.mark.parametrize("answer", [True, False])
def test_the_other_query_where_it_is_the_only_one(answer):
    library = Library(MPIX_Query_cuda_support=answer)
    assert mpi.takes_gpu_memory(library) is answer
    assert library.called == ["MPIX_Query_cuda_support"]


def test_an_mpi_without_either_has_no_say(monkeypatch):
    assert mpi.takes_gpu_memory(Library()) is None
    monkeypatch.setattr(mpi, "loaded_mpi", list)
    assert mpi.takes_gpu_memory() is None, "no MPI is loaded"


def test_lab_51_asks_in_the_same_way(monkeypatch):
    pytest.importorskip("mpi4py.MPI")  # before ctypes is replaced, with which it looks for its library
    comm = types.SimpleNamespace(allgather=lambda value: [value])  # a job of one rank
    library = Library(MPIX_GPU_query_support=True, MPIX_Query_cuda_support=False)
    monkeypatch.setattr(backends.world, "device", lambda: "cuda:0")
    monkeypatch.setattr(backends.doctor, "switch", lambda *_: None)
    monkeypatch.setattr(mpi, "loaded_mpi", lambda: ["libmpi.so"])
    monkeypatch.setattr(mpi.ctypes, "CDLL", lambda path: library)
    assert backends.missing("mpi-gpu", comm) == ""
    assert library.called == ["MPIX_GPU_query_support"]
    library.MPIX_GPU_query_support = Library(MPIX_GPU_query_support=False).MPIX_GPU_query_support
    assert backends.missing("mpi-gpu", comm).endswith("does not take GPU memory")

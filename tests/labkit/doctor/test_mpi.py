"""MPIs are told apart; whether one takes GPU memory is asked in the way that harms none of them."""

import types

import pytest
from labkit.doctor import mpi, tensors
from support import lab51

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


@pytest.fixture
def open_mpi(tmp_path, monkeypatch):
    """Write Open MPI's files of parameters: put(name, text). Returns put and the library's path."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folders = {"openmpi-mca-params.conf": "prefix/etc", "mca-params.conf": "home/.openmpi"}
    (tmp_path / "prefix/etc").mkdir(parents=True)

    def put(name, text):
        file = tmp_path / folders.get(name, "prefix/etc") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return put, [str(tmp_path / "prefix/lib/libmpi.so.40.30.6")]


SWITCH = "OMPI_MCA_opal_cuda_support"


def test_open_mpis_files_speak_where_no_variable_does(open_mpi):
    put, library = open_mpi
    assert mpi.parameters({"A": "1"}, library) == {"A": "1"}
    # The last lines of conda-forge's file.
    put(
        "openmpi-mca-params.conf",
        "# opal_cuda_support = 1\nrmaps_base_oversubscribe = true\nopal_cuda_support = 0\n",
    )
    settings = mpi.parameters({}, library)
    assert settings[SWITCH] == "0"
    assert mpi.switch("Open MPI", settings, "4.1.6") == (False, f"{SWITCH}=0: off")
    put("mca-params.conf", "opal_cuda_support=1")
    assert mpi.parameters({}, library)[SWITCH] == "1", "the user's own file comes before the site's"
    assert mpi.parameters({SWITCH: "0"}, library)[SWITCH] == "0", "a variable comes before both"
    put("openmpi-mca-params-override.conf", "opal_cuda_support = true")
    assert mpi.parameters({SWITCH: "0"}, library)[SWITCH] == "true", "and this file before that"
    assert mpi.parameters({}, ["/opt/lib/libmpi.so.12"]) == {}, "other MPIs do not read these files"


def test_open_mpi_5_has_no_switch():
    assert mpi.switch("Open MPI", {SWITCH: "0"}, "5.0.3") is None
    assert mpi.switch("Open MPI", {}, "4.1.6") == (True, f"{SWITCH} is not set: on")


@pytest.mark.parametrize(
    ("family", "version", "built", "environment", "reason"),
    [
        ("MVAPICH2-GDR", "2.3.7", True, {"MV2_USE_CUDA": "1"}, ""),
        ("MVAPICH2-GDR", "2.3.7", True, {}, "only when told to: MV2_USE_CUDA is not set: off"),
        ("MVAPICH2", "2.3.7", False, {"MV2_USE_CUDA": "1"}, "this MVAPICH2 does not take GPU memory"),
        ("MPICH", "5.0.2", False, {}, "this MPICH does not take GPU memory"),
        ("MPICH", "5.0.2", True, {}, ""),
        ("Cray MPICH", "8.1", None, {"MPICH_GPU_SUPPORT_ENABLED": "1"}, ""),
        ("Cray MPICH", "8.1", None, {}, "MPICH_GPU_SUPPORT_ENABLED is not set: off"),
        ("Cray MPICH", "8.1", False, {"MPICH_GPU_SUPPORT_ENABLED": "1"}, "does not take GPU memory"),
        ("Open MPI", "4.1.6", True, {SWITCH: "0"}, "OMPI_MCA_opal_cuda_support=0: off"),
        ("Open MPI", "5.0.3", True, {SWITCH: "0"}, ""),
        ("Intel MPI", "2021.19", None, {"I_MPI_OFFLOAD": "1"}, "this Intel MPI does not take GPU memory"),
        (None, None, True, {}, "it is not known whether this MPI takes GPU memory"),
    ],
)
def test_an_mpi_gets_gpu_memory_only_where_that_is_certain(family, version, built, environment, reason):
    said = mpi.staging_reason(family, version, built, environment)
    assert said.endswith(reason)
    assert bool(said) == bool(reason)


@pytest.mark.parametrize(
    ("built", "build", "to_mpi", "said"),
    [
        (["mpi", "gloo", "nccl", "cuda"], "nccl", "staged …", "taken as they are, by NCCL"),
        (["mpi", "cuda"], "mpi", tensors.AS_THEY_ARE, "taken as they are, by MPI"),
        (["mpi", "cuda"], "mpi", "staged through the host: …", "staged through the host: …"),
        (["mpi", "gloo", "cuda"], "host", tensors.AS_THEY_ARE, "by Horovod itself"),
        (["mpi", "gloo"], "host", tensors.AS_THEY_ARE, "by the labs"),
    ],
)
def test_where_horovod_sends_a_gpus_tensors(built, build, to_mpi, said):
    assert said in tensors.by_horovod(built, build, to_mpi)


def test_where_mpi_sends_a_gpus_tensors():
    report = report_with(mpi_family="MVAPICH2-GDR", mpi_version="2.3.7", mpi_cuda_built=True)
    assert tensors.by_mpi(report["mpi"], {"MV2_USE_CUDA": "1"}) == tensors.AS_THEY_ARE
    assert tensors.by_mpi(report["mpi"], {}).startswith("staged through the host: MVAPICH2-GDR takes")


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
    monkeypatch.setattr(lab51.world, "device", lambda: "cuda:0")
    monkeypatch.setattr(lab51, "own_gpu", lambda: "this host's first")
    monkeypatch.setattr(mpi, "loaded_mpi", lambda: ["libmpi.so"])
    monkeypatch.setattr(mpi.ctypes, "CDLL", lambda path: library)
    assert lab51.missing("mpi-gpu", comm) == ""
    assert library.called == ["MPIX_GPU_query_support"]
    library.MPIX_GPU_query_support = Library(MPIX_GPU_query_support=False).MPIX_GPU_query_support
    assert lab51.missing("mpi-gpu", comm).endswith("does not take GPU memory")

"""MPIs are told apart; whether one takes GPU memory is asked in the way that harms none of them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from labkit import launch, mpis
from support import lab42

SWITCH = "OMPI_MCA_opal_cuda_support"


@pytest.mark.parametrize(
    ("family", "version", "text"),
    [  # what the libraries say of themselves
        (
            "MVAPICH2",
            "2.3.7",
            "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02",
        ),
        ("MVAPICH2-GDR", "2.3.6", "MVAPICH2-GDR Version      :\t2.3.6\n"),
        ("MVAPICH", "3.0rc", "MVAPICH Version        :\t3.0rc\nMVAPICH Release date   :\t"),
        (
            "MVAPICH",
            "4.0",
            "MVAPICH Version:        4.0\nMVAPICH Release date:   03/06/2025\nABI: 0:0:0",
        ),
        ("MVAPICH-Plus", "5.1.0", "MVAPICH-Plus Version:   5.1.0\n"),
        (
            "Cray MPICH",
            "8.1.25.17",
            "MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\nMPI",
        ),
        (
            "MPICH",
            "5.0.2",
            "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25\nMPICH ABI:  18:2:6",
        ),
        (
            "Open MPI",
            "5.0.11",
            "Open MPI v5.0.11, package: Open MPI root@host Distribution, ident: 5.0.11",
        ),
        ("Intel MPI", "2021.19", "Intel(R) MPI Library 2021.19 for Linux* OS"),
        (None, None, "something else"),
    ],
)
def test_mpi_families_are_told_apart(family, version, text):
    assert mpis.identify(text) == (family, version)
    assert mpis.first_line(text) == " ".join(text.splitlines()[0].split())


def test_mvapich2_gdr_is_told_by_its_tool_and_by_that_alone():
    for text, family in (
        ("MVAPICH2 Version      :\t2.3.7", "MVAPICH2-GDR"),
        ("MPICH Version: 2.3.7", "MPICH"),
    ):
        assert mpis.identify(text, "MVAPICH2-GDR 2.3.7 …") == (family, "2.3.7")
    assert mpis.identify("MVAPICH2 Version: 2.3.7", "MVAPICH2 2.3.7 of /opt/GDR") == (
        "MVAPICH2",
        "2.3.7",
    )


@pytest.mark.parametrize(
    ("family", "cure"), [("MVAPICH2-GDR", True), ("MPICH", False), (None, False)]
)
def test_a_thread_level_too_low_is_told_with_its_cure(family, cure):
    said = mpis.thread_advice(family, "MPI_THREAD_SINGLE")
    assert said.startswith(
        "MPI allows MPI_THREAD_SINGLE only, but Horovod wants MPI_THREAD_MULTIPLE."
    )
    assert ("MV2_ENABLE_AFFINITY=0 cures it" in said) == cure


@pytest.mark.parametrize(
    ("family", "version", "environment", "said"),
    [
        ("MVAPICH2-GDR", "2.3.7", {}, (False, "MV2_USE_CUDA is not set: off")),
        ("MVAPICH2", "2.3.7", {"MV2_USE_CUDA": "1"}, (True, "MV2_USE_CUDA=1: on")),
        ("MVAPICH-Plus", "3.0", {}, (True, "MVP_ENABLE_GPU is not set: on")),
        ("MVAPICH", "4.0", {"MVP_ENABLE_GPU": "0"}, (False, "MVP_ENABLE_GPU=0: off")),
        ("Cray MPICH", "8.1", {}, (False, "MPICH_GPU_SUPPORT_ENABLED is not set: off")),
        ("MPICH", "5.0.2", {"MPICH_ENABLE_GPU": "No "}, (False, "MPICH_ENABLE_GPU=No : off")),
        ("Intel MPI", "2021.19", {"I_MPI_OFFLOAD": "1"}, (True, "I_MPI_OFFLOAD=1: on")),
        ("Open MPI", "4.1.6", {}, (True, f"{SWITCH} is not set: on")),
        ("Open MPI", "5.0.3", {SWITCH: "0"}, None),
        (None, "", {}, None),
    ],
)
def test_the_switch_for_gpu_memory(family, version, environment, said):
    assert mpis.gpu_switch(family, environment, version) == said


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


def test_open_mpis_files_speak_where_no_variable_does(open_mpi):
    put, library = open_mpi
    assert mpis.parameters({"A": "1"}, library) == {"A": "1"}
    # The last lines of conda-forge's file.
    put(
        "openmpi-mca-params.conf",
        "# opal_cuda_support = 1\nrmaps_base_oversubscribe = true\nopal_cuda_support = 0\n",
    )
    settings = mpis.parameters({}, library)
    assert settings[SWITCH] == "0"
    assert mpis.gpu_switch("Open MPI", settings, "4.1.6") == (False, f"{SWITCH}=0: off")
    put("mca-params.conf", "opal_cuda_support=1")
    assert mpis.parameters({}, library)[SWITCH] == "1", (
        "the user's own file comes before the site's"
    )
    assert mpis.parameters({SWITCH: "0"}, library)[SWITCH] == "0", "a variable comes before both"
    put("openmpi-mca-params-override.conf", "opal_cuda_support = true")
    assert mpis.parameters({SWITCH: "0"}, library)[SWITCH] == "true", "and this file before that"
    assert mpis.parameters({}, ["/opt/lib/libmpi.so.12"]) == {}, (
        "other MPIs do not read these files"
    )


@pytest.mark.parametrize(
    ("family", "version", "built", "environment", "reason"),
    [
        ("MVAPICH2-GDR", "2.3.7", True, {"MV2_USE_CUDA": "1"}, ""),
        ("MVAPICH2-GDR", "2.3.7", True, {}, "only when told to: MV2_USE_CUDA is not set: off"),
        (
            "MVAPICH2",
            "2.3.7",
            False,
            {"MV2_USE_CUDA": "1"},
            "this MVAPICH2 does not take GPU memory",
        ),
        ("MPICH", "5.0.2", False, {}, "this MPICH does not take GPU memory"),
        ("MPICH", "5.0.2", True, {}, ""),
        ("Cray MPICH", "8.1", None, {"MPICH_GPU_SUPPORT_ENABLED": "1"}, ""),
        ("Cray MPICH", "8.1", None, {}, "MPICH_GPU_SUPPORT_ENABLED is not set: off"),
        (
            "Cray MPICH",
            "8.1",
            False,
            {"MPICH_GPU_SUPPORT_ENABLED": "1"},
            "does not take GPU memory",
        ),
        ("Open MPI", "4.1.6", True, {SWITCH: "0"}, "OMPI_MCA_opal_cuda_support=0: off"),
        ("Open MPI", "5.0.3", True, {SWITCH: "0"}, ""),
        (
            "Intel MPI",
            "2021.19",
            None,
            {"I_MPI_OFFLOAD": "1"},
            "this Intel MPI does not take GPU memory",
        ),
        (None, None, True, {}, "it is not known whether this MPI takes GPU memory"),
    ],
)
def test_an_mpi_gets_gpu_memory_only_where_that_is_certain(
    family, version, built, environment, reason
):
    said = mpis.staging_reason(family, version, built, environment)
    assert said.endswith(reason)
    assert bool(said) == bool(reason)


def test_two_mpi_libraries_in_one_process_are_seen(tmp_path):
    maps = tmp_path / "maps"
    names = (
        "/a/libmpi.so.12.1.1",
        "/a/libmpi.so.12.1.1",
        "/b/libmpi.so.40",
        "/a/libmpicxx.so.12",
        "/a/libm.so.6",
    )
    maps.write_text("".join(f"7f00-7f01 r-xp 00000000 08:01 123   {name}\n" for name in names))
    assert mpis.loaded(maps) == ["/a/libmpi.so.12.1.1", "/b/libmpi.so.40"]
    assert mpis.loaded(tmp_path / "none") == []


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
def test_the_query_that_never_ends_a_program_is_asked_alone(answer, monkeypatch):
    library = Library(MPIX_GPU_query_support=answer, MPIX_Query_cuda_support=not answer)
    assert mpis.takes_gpu_memory(library) is answer
    assert library.called == ["MPIX_GPU_query_support"]
    library = Library(MPIX_Query_cuda_support=answer)
    assert mpis.takes_gpu_memory(library) is answer
    assert mpis.takes_gpu_memory(Library()) is None
    monkeypatch.setattr(mpis, "loaded", list)
    assert mpis.takes_gpu_memory() is None, "no MPI is loaded"


@pytest.mark.parametrize(
    ("flavor", "wanted"),
    [
        ("mvapich-plus", {"MVP_ENABLE_GPU": "1"}),
        ("mvapich2", {"MV2_ENABLE_AFFINITY": "0"}),
        ("mvapich2-gdr", {"MV2_ENABLE_AFFINITY": "0", "MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1"}),
    ],
)
def test_what_an_mpi_is_told(flavor, wanted):
    assert mpis.switches(flavor, {}) == lab42.VARIABLES[flavor] == wanted
    library = "/opt/gdrcopy/lib64/libgdrapi.so"
    more = {"MV2_GPUDIRECT_GDRCOPY_LIB": library} if flavor == "mvapich2-gdr" else {}
    assert mpis.switches(flavor, {"LABKIT_GDRCOPY": library}) == wanted | more


def test_the_users_own_value_or_binding_wins():
    assert mpis.switches("mvapich2", {"MV2_ENABLE_AFFINITY": "1"}) == {}
    for name in ("MV2_CPU_BINDING_LEVEL", "MV2_CPU_BINDING_POLICY", "MV2_CPU_MAPPING"):
        assert mpis.switches("mvapich2", {name: "x"}) == {}
    told = mpis.switches("mvapich2-gdr", {"MV2_USE_CUDA": "0", "MV2_CPU_BINDING_LEVEL": "socket"})
    assert told == {"MV2_SUPPORT_DL": "1"}
    assert mpis.switches("mpich") == mpis.switches(None) == mpis.switches("cray-mpich") == {}


def compiled(folder: Path, name: str, text: str, *options: str) -> Path:
    """A library of C, whose name inside of a process is that of its file."""
    folder.mkdir(parents=True)
    source = folder / "source.c"
    source.write_text(text, encoding="utf-8")
    target = folder / name
    command = [CC, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", target, source, *options]
    subprocess.run(command, check=True)
    return target


CC = shutil.which("cc") or shutil.which("gcc")
SAYS = """
import ctypes, sys
from labkit import mpis
if sys.argv[2] == "own first":
    mpis.prefer_own_cuda()
print(ctypes.CDLL(sys.argv[1]).runtime_of_mpi())
"""


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_an_mpi_gets_the_environments_cuda_runtime(tmp_path):
    """An MPI that was linked with the site's runtime 4 takes PyTorch's, 8, where that is there
    first."""
    version = "int runtime_version(void) { return %d; }"
    compiled(tmp_path / "own/nvidia/cuda_runtime/lib", "libcudart.so.12", version % 8)
    # Where NVIDIA's packages are installed, theirs is a package with this file, which goes first.
    (tmp_path / "own/nvidia/__init__.py").touch()
    site = compiled(tmp_path / "site", "libcudart.so.12", version % 4)
    calls = "int runtime_version(void); int runtime_of_mpi(void) { return runtime_version(); }"
    mpi = compiled(tmp_path / "mpi", "libmpi.so", calls, str(site), f"-Wl,-rpath,{site.parent}")
    path = os.pathsep.join([str(tmp_path / "own"), os.environ.get("PYTHONPATH", "")])
    answers = [
        subprocess.run(
            [sys.executable, "-c", SAYS, mpi, when],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for when in ("MPI first", "own first")
    ]
    assert answers == ["4", "8"]


@pytest.mark.slow
@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_a_rank_loads_it_before_mpi(tmp_path, monkeypatch):
    nothing = "int nothing(void) { return 0; }"
    own = compiled(tmp_path / "own/nvidia/cuda_runtime/lib", "libcudart.so.12", nothing)
    (own.parents[2] / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(own.parents[3]))
    monkeypatch.setenv("LABKIT_FORKS", "0")  # as where a GPU is: ranks are no forks there
    assert launch.run(order_of_libraries, ranks=1) == [["libcudart", "libmpi"]]


def order_of_libraries(comm) -> list[str]:
    """Of the two, in the order in which this rank has loaded them: the linker's own list."""
    found: list[str] = []

    def visit(info, size, data) -> int:
        name = Path((info.contents.name or b"").decode()).name.split(".")[0]
        if name in ("libcudart", "libmpi"):
            found.append(name)
        return 0

    class Info(ctypes.Structure):
        _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(visit), None)
    return found

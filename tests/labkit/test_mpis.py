"""MPIs are told apart; whether one takes GPU memory is asked in the way that harms none of them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from labkit import launch, mpis
from support import lab42

MVAPICH2 = "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02"
CRAY = "MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\nMPI"


@pytest.mark.parametrize(
    ("family", "version", "text", "tool"),
    [  # what the libraries say of themselves, and what MVAPICH2's tool says
        ("MVAPICH2", "2.3.7", MVAPICH2, ""),
        ("MVAPICH2", "2.3.7", MVAPICH2, "MVAPICH2 2.3.7 of /opt/GDR"),
        ("MVAPICH2-GDR", "2.3.7", MVAPICH2, "MVAPICH2-GDR 2.3.7 …"),
        ("MVAPICH2-GDR", "2.3.6", "MVAPICH2-GDR Version      :\t2.3.6\n", ""),
        ("MVAPICH", "3.0rc", "MVAPICH Version        :\t3.0rc\nMVAPICH Release date   :\t", ""),
        ("MVAPICH", "4.0", "MVAPICH Version:        4.0\nMVAPICH Release date:   03/06/2025", ""),
        ("MVAPICH-Plus", "5.1.0", "MVAPICH-Plus Version:   5.1.0\n", ""),
        ("Cray MPICH", "8.1.25.17", CRAY, ""),
        ("MPICH", "5.0.2", "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25", ""),
        ("MPICH", "2.3.7", "MPICH Version: 2.3.7", "MVAPICH2-GDR 2.3.7 …"),
        ("Open MPI", "5.0.11", "Open MPI v5.0.11, package: Open MPI root@host, ident: 5.0.11", ""),
        ("Intel MPI", "2021.19", "Intel(R) MPI Library 2021.19 for Linux* OS", ""),
        (None, None, "something else", ""),
    ],
)
def test_mpi_families_are_told_apart(family, version, text, tool):
    assert mpis.identify(text, tool) == (family, version)
    assert mpis.first_line(text) == " ".join(text.splitlines()[0].split())


def test_a_thread_level_too_low_is_told_with_its_cure():
    for family, cure in (("MVAPICH2-GDR", True), ("MPICH", False), (None, False)):
        said = mpis.thread_advice(family, "MPI_THREAD_SINGLE")
        assert "MPI_THREAD_SINGLE only, but Horovod wants MPI_THREAD_MULTIPLE." in said
        assert ("MV2_ENABLE_AFFINITY=0 cures it" in said) == cure


OMPI = "OMPI_MCA_opal_cuda_support"
MV2, MVP, CRAYS = "MV2_USE_CUDA", "MVP_ENABLE_GPU", "MPICH_GPU_SUPPORT_ENABLED"
NO = "this {family} does not take GPU memory"
OFF = "{family} takes GPU memory only when told to: {switch}"


@pytest.mark.parametrize(
    ("family", "version", "built", "environment", "switch", "reason"),
    [  # whether it was built for GPU memory: what its own function says, None where it has none
        ("MVAPICH2-GDR", "2.3.7", True, {}, f"{MV2} is not set: off", OFF),
        ("MVAPICH2-GDR", "2.3.7", True, {MV2: "1"}, f"{MV2}=1: on", ""),
        ("MVAPICH2", "2.3.7", False, {MV2: "1"}, f"{MV2}=1: on", NO),
        ("MVAPICH-Plus", "3.0", True, {}, f"{MVP} is not set: on", ""),
        ("MVAPICH", "4.0", True, {MVP: "0"}, f"{MVP}=0: off", OFF),
        ("Cray MPICH", "8.1", None, {}, f"{CRAYS} is not set: off", OFF),
        ("Cray MPICH", "8.1", None, {CRAYS: "1"}, f"{CRAYS}=1: on", ""),
        ("Cray MPICH", "8.1", False, {CRAYS: "1"}, f"{CRAYS}=1: on", NO),
        ("MPICH", "5.0.2", False, {}, "MPIR_CVAR_ENABLE_GPU is not set: on", NO),
        ("MPICH", "5.0.2", True, {}, "MPIR_CVAR_ENABLE_GPU is not set: on", ""),
        ("MPICH", "5", True, {"MPICH_ENABLE_GPU": "No "}, "MPICH_ENABLE_GPU=No : off", OFF),
        ("Intel MPI", "2021", None, {"I_MPI_OFFLOAD": "1"}, "I_MPI_OFFLOAD=1: on", NO),
        ("Open MPI", "4.1.6", True, {}, f"{OMPI} is not set: on", ""),
        ("Open MPI", "4.1.6", True, {OMPI: "0"}, f"{OMPI}=0: off", OFF),
        ("Open MPI", "5.0.3", True, {OMPI: "0"}, None, ""),
        (None, "", True, {}, None, "it is not known whether this MPI takes GPU memory"),
    ],
)
def test_an_mpi_gets_gpu_memory_only_where_that_is_certain(
    family, version, built, environment, switch, reason
):
    assert mpis.gpu_switch(family, environment, version) == (
        switch and (switch.endswith(": on"), switch)
    )
    said = mpis.staging_reason(family, version, built, environment)
    assert said.endswith(reason.format(family=family, switch=switch))
    assert bool(said) == bool(reason)


def test_open_mpis_files_speak_where_no_variable_does(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    etc, own = tmp_path / "prefix/etc", tmp_path / "home/.openmpi"
    for folder in (etc, own):
        folder.mkdir(parents=True)
    library = [str(tmp_path / "prefix/lib/libmpi.so.40.30.6")]
    assert mpis.parameters({"A": "1"}, library) == {"A": "1"}
    # The last lines of conda-forge's file.
    (etc / "openmpi-mca-params.conf").write_text(
        "# opal_cuda_support = 1\nrmaps_base_oversubscribe = true\nopal_cuda_support = 0\n"
    )
    settings = mpis.parameters({}, library)
    assert settings[OMPI] == "0"
    assert mpis.gpu_switch("Open MPI", settings, "4.1.6") == (False, f"{OMPI}=0: off")
    (own / "mca-params.conf").write_text("opal_cuda_support=1")
    assert mpis.parameters({}, library)[OMPI] == "1", "the user's own file comes before the site's"
    assert mpis.parameters({OMPI: "0"}, library)[OMPI] == "0", "a variable comes before both"
    (etc / "openmpi-mca-params-override.conf").write_text("opal_cuda_support = true")
    assert mpis.parameters({OMPI: "0"}, library)[OMPI] == "true", "and this file before that"
    assert mpis.parameters({}, ["/opt/lib/libmpi.so.12"]) == {}, "other MPIs do not read them"


def test_two_mpi_libraries_in_one_process_are_seen(tmp_path):
    maps = tmp_path / "maps"
    names = (
        "/a/libmpi.so.12.1.1 /a/libmpi.so.12.1.1 /b/libmpi.so.40 /a/libmpicxx.so.12 /a/libm.so.6"
    )
    lines = (f"7f00-7f01 r-xp 00000000 08:01 123   {name}\n" for name in names.split())
    maps.write_text("".join(lines))
    assert mpis.loaded(maps) == ["/a/libmpi.so.12.1.1", "/b/libmpi.so.40"]
    assert mpis.loaded(tmp_path / "none") == []


@pytest.mark.parametrize("answer", [True, False])
def test_the_query_that_never_ends_a_program_is_asked_alone(answer, monkeypatch):
    """Of a library, here by two of its functions."""
    asked = []

    def of_any_gpu(kind, supported) -> int:
        asked.append(kind)
        supported._obj.value = answer
        return 0

    one = SimpleNamespace(MPIX_Query_cuda_support=lambda: asked.append("CUDA alone") or int(answer))
    both = SimpleNamespace(MPIX_GPU_query_support=of_any_gpu, **vars(one))
    assert mpis.takes_gpu_memory(both) is answer
    assert asked == [0], "of CUDA, and the other was not called"
    assert mpis.takes_gpu_memory(one) is answer
    assert mpis.takes_gpu_memory(SimpleNamespace()) is None
    monkeypatch.setattr(mpis, "loaded", list)
    assert mpis.takes_gpu_memory() is None, "no MPI is loaded"


UNBOUND = {"MV2_ENABLE_AFFINITY": "0"}
GDR = UNBOUND | {"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1"}
COPY = "/opt/gdrcopy/lib64/libgdrapi.so"


@pytest.mark.parametrize(
    ("flavor", "set_already", "told"),
    [
        ("mvapich-plus", {}, {"MVP_ENABLE_GPU": "1"}),
        ("mvapich2", {}, UNBOUND),
        ("mvapich2", {"LABKIT_GDRCOPY": COPY}, UNBOUND),
        ("mvapich2-gdr", {}, GDR),
        ("mvapich2-gdr", {"LABKIT_GDRCOPY": COPY}, GDR | {"MV2_GPUDIRECT_GDRCOPY_LIB": COPY}),
        # The user's own value or binding wins.
        ("mvapich2", {"MV2_ENABLE_AFFINITY": "1"}, {}),
        ("mvapich2", {"MV2_CPU_BINDING_LEVEL": "x"}, {}),
        ("mvapich2", {"MV2_CPU_BINDING_POLICY": "x"}, {}),
        ("mvapich2", {"MV2_CPU_MAPPING": "x"}, {}),
        ("mvapich2-gdr", {"MV2_USE_CUDA": "0", "MV2_CPU_MAPPING": "x"}, {"MV2_SUPPORT_DL": "1"}),
        ("mpich", {}, {}),
        (None, {}, {}),
    ],
)
def test_what_an_mpi_is_told(flavor, set_already, told):
    assert mpis.switches(flavor, set_already) == told
    if not set_already:
        assert lab42.VARIABLES.get(flavor, {}) == told


CC = shutil.which("cc") or shutil.which("gcc")
SAYS = """
import ctypes, sys
from labkit import mpis
if sys.argv[2] == "own first":
    mpis.prefer_own_cuda()
print(ctypes.CDLL(sys.argv[1]).runtime_of_mpi())
"""


def compiled(folder: Path, name: str, text: str, *options: str) -> Path:
    """A library of C, whose name inside of a process is that of its file."""
    folder.mkdir(parents=True)
    source = folder / "source.c"
    source.write_text(text, encoding="utf-8")
    target = folder / name
    command = [CC, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", target, source, *options]
    subprocess.run(command, check=True)
    return target


def own_runtime(folder: Path, text: str) -> Path:
    """A folder for Python's search path with the CUDA runtime, as NVIDIA's packages have it."""
    compiled(folder / "own/nvidia/cuda_runtime/lib", "libcudart.so.12", text)
    # Where NVIDIA's packages are installed, theirs is a package with this file, which goes first.
    (folder / "own/nvidia/__init__.py").touch()
    return folder / "own"


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_an_mpi_gets_the_environments_cuda_runtime(tmp_path):
    """An MPI that was linked with the site's runtime 4 takes PyTorch's, 8, where that is there
    first."""
    version = "int runtime_version(void) { return %d; }"
    own = own_runtime(tmp_path, version % 8)
    site = compiled(tmp_path / "site", "libcudart.so.12", version % 4)
    calls = "int runtime_version(void); int runtime_of_mpi(void) { return runtime_version(); }"
    mpi = compiled(tmp_path / "mpi", "libmpi.so", calls, str(site), f"-Wl,-rpath,{site.parent}")
    path = os.pathsep.join([str(own), os.environ.get("PYTHONPATH", "")])
    for when, answer in (("MPI first", "4"), ("own first", "8")):
        command = [sys.executable, "-c", SAYS, mpi, when]
        said = subprocess.check_output(command, env={**os.environ, "PYTHONPATH": path}, text=True)
        assert said.strip() == answer, when


@pytest.mark.slow
@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_a_rank_loads_it_before_mpi(tmp_path, monkeypatch):
    own = own_runtime(tmp_path, "int nothing(void) { return 0; }")
    monkeypatch.syspath_prepend(str(own))
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

"""labkit.builds: which builds of Horovod and MPI are here, and how a process gets one of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from labkit import builds
from labkit.errors import LabError, NotHere


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An empty environment in the place of this one."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name in (
        "LABKIT_HOROVOD",
        "LABKIT_MPI_BUILD",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "LABKIT_GDRCOPY",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def put(folder: Path, *files: str) -> Path:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / file).chmod(0o755)
    return folder


@pytest.fixture
def three(prefix):
    """Three builds of Horovod in name; the default one is among all the packages."""
    folders = {"nccl": "lib/horovod-nccl", "host": "lib/packages", "mpi": "lib/horovod-mpi"}
    for folder in folders.values():
        put(prefix / folder, "horovod/__init__.py")
    text = json.dumps({"default": "host", "folders": folders})
    (prefix / "horovod-builds.json").write_text(text, encoding="utf-8")
    return {name: prefix / folder for name, folder in folders.items()}


def test_what_the_set_up_lists_is_there_the_default_first(three):
    assert builds.horovod_builds() == three
    assert list(builds.horovod_builds()) == ["host", "nccl", "mpi"]
    assert builds.default_horovod() == "host"
    (three["mpi"] / "horovod" / "__init__.py").unlink()
    assert list(builds.horovod_builds()) == ["host", "nccl"], "a listed folder that is gone"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"default": "host"}', '{"default": "host", "folders": 3}']
)
def test_a_list_that_cannot_be_read_says_what_writes_it(prefix, text):
    (prefix / "horovod-builds.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        LabError, match="horovod-builds.json, .* cannot be read: `make setup` writes it"
    ):
        builds.horovod_builds()


def test_horovods_folder_comes_first_in_pythonpath(three):
    own = {"PYTHONPATH": f"/kit/labs{os.pathsep}{three['mpi']}{os.pathsep}/more"}
    chosen = builds.variables("nccl", environ=own)
    expected = os.pathsep.join([str(three["nccl"]), "/kit/labs", "/more"])
    assert chosen == {"LABKIT_HOROVOD": "nccl", "PYTHONPATH": expected}
    chosen = builds.variables("host", environ=own)
    assert chosen["PYTHONPATH"] == f"/kit/labs{os.pathsep}/more", (
        "the default build needs no folder"
    )
    assert builds.variables(environ=own) == {}
    assert builds.variables(environ={"LABKIT_HOROVOD": "mpi"})["PYTHONPATH"] == str(three["mpi"])
    assert builds.variables("nccl", environ={"LABKIT_HOROVOD": "mpi"})["LABKIT_HOROVOD"] == "nccl"


def test_the_search_path_of_ranks(three):
    path = ["/lab", str(three["host"]), str(three["nccl"])]
    assert builds.search_path(path, None) == path
    assert builds.search_path(path, "mpi") == [str(three["mpi"]), "/lab", str(three["host"])]
    assert builds.search_path(path, "host") == ["/lab", str(three["host"])]


def test_builds_that_are_not_here_are_named_with_the_cure(three, prefix):
    (three["nccl"] / "horovod" / "__init__.py").unlink()
    with pytest.raises(
        NotHere, match=r"'nccl' of Horovod is not here \(here: host, mpi\)\. `make setup GPU"
    ):
        builds.variables("nccl")
    with pytest.raises(
        LabError, match=r"no build 'rccl'; its builds are host, nccl, mpi \(here: host"
    ):
        builds.variables("rccl")
    with pytest.raises(
        NotHere, match=r"MVAPICH2 is not here \(here: none\)\. `make mvapich2` builds it"
    ):
        builds.variables(mpi="mvapich2")
    with pytest.raises(LabError, match=r"no build 'openmpi' of MPI \(here: none\)"):
        builds.variables(mpi="openmpi")


def test_the_environments_own_mpi_is_named_by_its_tools(prefix, tmp_path):
    assert builds.own_mpi() is None
    assert builds.mpi_builds() == {}
    put(prefix, "bin/mpiexec", "bin/mpichversion")
    assert builds.mpi_builds() == {"mpich": prefix}
    site = put(tmp_path / "site", "bin/mpiexec", "bin/ompi_info")
    (prefix / "bin" / "mpiexec").write_text(
        f'#!/bin/sh\nexec "{site}/bin/mpiexec" "$@"\n', encoding="utf-8"
    )
    put(prefix, "mvapich2/installed.json")
    assert builds.mpi_builds() == {"openmpi": site, "mvapich2": prefix / "mvapich2"}
    assert builds.own_mpi() == builds.current_mpi() == "openmpi"
    gdr = put(tmp_path / "gdr", "bin/mpiexec", "bin/mpiname", "bin/mpichversion")
    (gdr / "bin" / "mpiname").write_text("#!/bin/sh\necho MVAPICH2-GDR\n", encoding="utf-8")
    (prefix / "bin" / "mpiexec").write_text(
        f'#!/bin/sh\nexec "{gdr}/bin/mpiexec" "$@"\n', encoding="utf-8"
    )
    assert list(builds.mpi_builds()) == ["mvapich2-gdr", "mvapich2"]
    told = builds.variables(environ={})
    told.pop("MV2_USE_CUDA", None)  # where there is a GPU
    assert told == {"MV2_ENABLE_AFFINITY": "0", "MV2_SUPPORT_DL": "1"}, "nobody had to choose it"
    assert "MV2_SUPPORT_DL" not in builds.variables(environ={"MV2_SUPPORT_DL": "0"})


def test_the_linker_finds_the_chosen_mpi_first(prefix):
    put(prefix, "bin/mpiexec", "bin/mpichversion", "lib/libmpi.so.12")
    put(prefix, "mvapich2/installed.json", "mvapich2/bin/mpiexec", "mvapich2/lib/libmpi.so.12")
    beside = prefix / "mvapich2"
    own = {"LD_LIBRARY_PATH": f"/site/lib:{prefix}/lib", "PATH": f"/usr/bin:{prefix}/bin"}
    chosen = builds.variables(mpi="mvapich2", environ=own)
    assert chosen == {
        "LABKIT_MPI_BUILD": "mvapich2",
        "LD_LIBRARY_PATH": f"{beside}/lib:/site/lib",
        "PATH": f"{beside}/bin:/usr/bin:{prefix}/bin",
        "MPI4PY_MPIABI": "mpich",
        "MV2_ENABLE_AFFINITY": "0",
    }
    back = builds.variables(mpi="mpich", environ=own | chosen)
    assert back["LD_LIBRARY_PATH"] == f"{prefix}/lib:/site/lib"
    assert back["PATH"] == f"{prefix}/bin:/usr/bin"


def test_a_rank_that_has_not_what_it_was_given_says_so(three, monkeypatch):
    builds.check()  # given nothing
    monkeypatch.setenv("LABKIT_HOROVOD", "nccl")
    with pytest.raises(
        LabError, match=r"given the build 'nccl' of Horovod .*, but would import .*PYTHON"
    ):
        builds.check()
    monkeypatch.delitem(sys.modules, "horovod", raising=False)
    monkeypatch.syspath_prepend(str(three["nccl"]))
    builds.check()
    assert builds.current_horovod() == "nccl"
    with pytest.raises(
        LabError, match=r"started with the build 'nccl' of Horovod.*make run LAB=… NP=… H"
    ):
        builds.refuse_another("host", None)
    builds.refuse_another("nccl", None)
    builds.refuse_another(None, None)


def test_a_rank_with_another_libmpi_says_so(prefix, monkeypatch):
    put(prefix, "bin/mpiexec", "bin/mpichversion", "lib/libmpi.so.12")
    put(prefix, "mvapich2/installed.json", "mvapich2/lib/libmpi.so.12")
    own, beside = (str(prefix / folder / "libmpi.so.12") for folder in ("lib", "mvapich2/lib"))
    monkeypatch.setenv("LABKIT_MPI_BUILD", "mvapich2")
    loaded: list[str] = []
    monkeypatch.setattr(builds.mpis, "loaded", lambda: loaded)
    builds.check()  # nothing loaded so far
    loaded[:] = [beside]
    builds.check()
    for files in ([own], [own, beside], ["/elsewhere/libmpi.so.12"]):
        loaded[:] = files
        with pytest.raises(
            LabError, match="given the build 'mvapich2' of MPI .*, but has loaded .*/libmpi.so.12"
        ):
            builds.check()
    monkeypatch.setenv("LABKIT_MPI_BUILD", "mpich")
    for files, says in (
        ([own, "/elsewhere/libmpi.so.12"], "two MPI libraries"),
        ([beside], "has loaded .*/mvapich2/lib/libmpi.so.12"),
    ):
        loaded[:] = files
        with pytest.raises(LabError, match=says):
            builds.check()
    with pytest.raises(LabError, match=r"started with the build 'mpich' of MPI"):
        builds.refuse_another(None, "mvapich2")

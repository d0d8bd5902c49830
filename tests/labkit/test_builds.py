"""labkit.builds: which builds of Horovod and MPI are here, and how a process gets one of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from labkit import builds
from labkit.errors import LabError, NotHere


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An empty environment in the place of this one."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    variables = "LABKIT_HOROVOD LABKIT_MPI_BUILD PYTHONPATH LD_LIBRARY_PATH LABKIT_GDRCOPY"
    for name in variables.split():
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def put(folder: Path, *files: str, program: str = "") -> Path:
    """Programs in the folder."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
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


def test_a_list_that_cannot_be_read_says_what_writes_it(prefix):
    for text in ("", "[]", '{"default": "host"}', '{"default": "host", "folders": 3}'):
        (prefix / "horovod-builds.json").write_text(text, encoding="utf-8")
        with pytest.raises(LabError, match="builds.json, .* cannot be read: `make setup` writes"):
            builds.horovod_builds()


def test_horovods_folder_comes_first(three):
    own = {"PYTHONPATH": f"/kit/labs:{three['mpi']}:/more"}
    given = own | {"LABKIT_HOROVOD": "mpi"}
    for wish, environ, chosen, path in (
        (None, own, None, None),
        (None, given, "mpi", f"{three['mpi']}:/kit/labs:/more"),
        ("nccl", given, "nccl", f"{three['nccl']}:/kit/labs:/more"),
        ("host", own, "host", "/kit/labs:/more"),  # the default build needs no folder
    ):
        told = builds.variables(wish, environ=environ)
        assert (told.get("LABKIT_HOROVOD"), told.get("PYTHONPATH")) == (chosen, path)
    path = ["/lab", str(three["host"]), str(three["nccl"])]  # of a rank
    assert builds.search_path(path, None) == path
    assert builds.search_path(path, "mpi") == [str(three["mpi"]), "/lab", str(three["host"])]


def test_builds_that_are_not_here_are_named_with_the_cure(three):
    (three["nccl"] / "horovod" / "__init__.py").unlink()
    for horovod, mpi, kind, says in (
        ("nccl", None, NotHere, r"'nccl' of Horovod is not here \(here: host, mpi\)\. `make setup"),
        ("rccl", None, LabError, r"no build 'rccl'; its builds are host, nccl, mpi \(here: host"),
        (None, "mvapich2", NotHere, r"MVAPICH2 is not here \(here: none\)\. `make mvapich2` b"),
        (None, "openmpi", LabError, r"no build 'openmpi' of MPI \(here: none\)"),
    ):
        with pytest.raises(kind, match=says):
            builds.variables(horovod, mpi)


def test_the_environments_own_mpi_is_named_by_its_tools(prefix, tmp_path):
    assert builds.own_mpi() is None
    assert builds.mpi_builds() == {}
    put(prefix, "bin/mpiexec", "bin/mpichversion")
    assert builds.mpi_builds() == {"mpich": prefix}
    site = put(tmp_path / "site", "bin/mpiexec", "bin/ompi_info")
    put(prefix, "bin/mpiexec", program=f'exec "{site}/bin/mpiexec" "$@"')
    put(prefix, "mvapich2/installed.json")
    assert builds.mpi_builds() == {"openmpi": site, "mvapich2": prefix / "mvapich2"}
    assert builds.own_mpi() == builds.current_mpi() == "openmpi"
    gdr = put(tmp_path / "gdr", "bin/mpiexec", "bin/mpichversion")
    put(gdr, "bin/mpiname", program="echo MVAPICH2-GDR")
    put(prefix, "bin/mpiexec", program=f'exec "{gdr}/bin/mpiexec" "$@"')
    assert list(builds.mpi_builds()) == ["mvapich2-gdr", "mvapich2"]
    told = builds.variables(environ={})
    told.pop("MV2_USE_CUDA", None)  # where there is a GPU
    assert told == {"MV2_ENABLE_AFFINITY": "0", "MV2_SUPPORT_DL": "1"}, "nobody had to choose it"
    assert "MV2_SUPPORT_DL" not in builds.variables(environ={"MV2_SUPPORT_DL": "0"})


@pytest.fixture
def two(prefix):
    """MPICH, and MVAPICH2 beside it."""
    put(prefix, "bin/mpiexec", "bin/mpichversion", "lib/libmpi.so.12")
    return put(prefix / "mvapich2", "installed.json", "bin/mpiexec", "lib/libmpi.so.12").parent


def test_the_linker_finds_the_chosen_mpi_first(two):
    own = {"LD_LIBRARY_PATH": f"/site/lib:{two}/lib", "PATH": f"/usr/bin:{two}/bin"}
    chosen = builds.variables(mpi="mvapich2", environ=own)
    assert chosen == {
        "LABKIT_MPI_BUILD": "mvapich2",
        "LD_LIBRARY_PATH": f"{two}/mvapich2/lib:/site/lib",
        "PATH": f"{two}/mvapich2/bin:/usr/bin:{two}/bin",
        "MPI4PY_MPIABI": "mpich",
        "MV2_ENABLE_AFFINITY": "0",
    }
    back = builds.variables(mpi="mpich", environ=own | chosen)
    assert back["LD_LIBRARY_PATH"] == f"{two}/lib:/site/lib"
    assert back["PATH"] == f"{two}/bin:/usr/bin"


def test_a_rank_that_has_not_what_it_was_given_says_so(three, monkeypatch):
    builds.check()  # given nothing
    monkeypatch.setenv("LABKIT_HOROVOD", "nccl")
    with pytest.raises(LabError, match=r"given the build 'nccl' of Horovod .* import .*PYTHON"):
        builds.check()
    monkeypatch.delitem(sys.modules, "horovod", raising=False)
    monkeypatch.syspath_prepend(str(three["nccl"]))
    builds.check()
    assert builds.current_horovod() == "nccl"
    with pytest.raises(LabError, match=r"started with the build 'nccl' .*make run LAB=… NP=… H"):
        builds.refuse_another("host", None)
    builds.refuse_another("nccl", None)
    builds.refuse_another(None, None)


LOADS = r"given the build '{}' of MPI .*, but has loaded .*/libmpi.so.12"


def test_a_rank_with_another_libmpi_says_so(two, monkeypatch):
    own, beside = (str(two / folder / "libmpi.so.12") for folder in ("lib", "mvapich2/lib"))
    elsewhere = "/elsewhere/libmpi.so.12"
    for given, loaded, says in (
        ("mvapich2", [], None),  # nothing loaded so far
        ("mvapich2", [beside], None),
        ("mvapich2", [own], LOADS),
        ("mvapich2", [own, beside], LOADS),
        ("mvapich2", [elsewhere], LOADS),
        ("mpich", [own], None),
        ("mpich", [beside], "has loaded .*/mvapich2/lib/libmpi.so.12"),
        ("mpich", [own, elsewhere], "two MPI libraries"),
    ):
        monkeypatch.setenv("LABKIT_MPI_BUILD", given)
        monkeypatch.setattr(builds.mpis, "loaded", lambda loaded=loaded: loaded)
        if says is None:
            builds.check()
            continue
        with pytest.raises(LabError, match=says.format(given)):
            builds.check()
    with pytest.raises(LabError, match=r"started with the build 'mpich' of MPI"):
        builds.refuse_another(None, "mvapich2")

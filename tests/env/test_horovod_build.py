"""Horovod's builder without its compilation: edits that notice foreign sources, and the cache's key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from env.horovod import build, edits, gpu
from env.horovod.edit import Edit, EditError
from env.horovod.own_tests.edits import MODERN
from env.install.mpi import Mpi

ROOT = Path(__file__).resolve().parents[2]
EDIT = Edit("colour", "a/b.txt", "a test", "red", "blue", times=2)
VERSIONS = {
    "python": "3.11.7",
    "tag": "cpython-311",
    "torch": "2.13.0",
    "cuda": None,
    "tensorflow": "2.21.0",
    "numpy": "2.4.6",
}
WHEEL_MPI = Mpi(Path("/venv"), False, "mpich wheel 5")


def source(root: Path, text: str) -> Path:
    """A file that EDIT edits."""
    file = root / "a" / "b.txt"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    return file


def test_an_edit_replaces_what_it_expects(tmp_path):
    file = source(tmp_path, "red, green, red")
    EDIT.apply(tmp_path)
    assert file.read_text(encoding="utf-8") == "blue, green, blue"


@pytest.mark.parametrize(("text", "found"), [("red", 1), ("green", 0), ("red red red", 3)])
def test_an_edit_fails_loudly_on_other_text(tmp_path, text, found):
    file = source(tmp_path, text)
    with pytest.raises(EditError, match=rf"edit 'colour': expected its text 2 .*a/b.txt, found {found}"):
        EDIT.apply(tmp_path)
    assert file.read_text(encoding="utf-8") == text


def test_an_edit_fails_loudly_without_its_file(tmp_path):
    with pytest.raises(EditError, match=r"edit 'colour': a/b.txt is not among"):
        EDIT.apply(tmp_path)


@pytest.mark.parametrize("edit", edits.all_edits() + MODERN, ids=lambda edit: edit.name)
def test_edits_are_named_documented_and_change_something(edit):
    assert re.fullmatch(r"[a-z0-9-]+", edit.name)
    assert edit.why
    assert edit.old != edit.new


def test_edit_names_are_unique():
    names = [edit.name for edit in edits.all_edits()]
    assert len(names) == len(set(names))


def test_the_document_lists_every_edit():
    assert edits.table() in (ROOT / "env" / "HOROVOD.md").read_text(encoding="utf-8")


def test_a_changed_edit_changes_the_digest(monkeypatch):
    before = edits.digest(cuda_torch=False)
    monkeypatch.setattr(edits, "all_edits", lambda cuda_torch: (EDIT,))
    assert edits.digest(cuda_torch=False) != before


def test_the_edit_for_a_pytorch_with_cuda_leaves_other_wheels_as_they_were():
    names = {cuda_torch: [edit.name for edit in edits.all_edits(cuda_torch)] for cuda_torch in (False, True)}
    assert names[True] == [*names[False], "cuda-when-asked"]
    assert edits.digest(cuda_torch=True) != edits.digest(cuda_torch=False)


def test_the_key_changes_with_each_input(monkeypatch):
    monkeypatch.setattr(build, "compiler", lambda: "c++ 12")
    parts = build.inputs(VERSIONS, WHEEL_MPI, {})
    assert set(parts) >= {
        "sdist",
        "edits",
        "python",
        "torch",
        "tensorflow",
        "numpy",
        "mpi",
        "compiler",
        "gpu",
    }
    keys = {build.cache_key(parts)}
    keys |= {build.cache_key(parts | {name: value + "x"}) for name, value in parts.items()}
    assert len(keys) == len(parts) + 1
    assert build.cache_key(dict(reversed(parts.items()))) in keys


def test_versions_mpi_and_gpu_reach_the_key(monkeypatch):
    monkeypatch.setattr(build, "compiler", lambda: "c++ 12")
    plain = build.cache_key(build.inputs(VERSIONS, WHEEL_MPI, {}))
    other = [
        build.inputs(VERSIONS | {"torch": "2.13.1"}, WHEEL_MPI, {}),
        build.inputs(VERSIONS, Mpi(Path("/opt/mpi"), True, "/opt/mpi MVAPICH2 2.3.7"), {}),
        build.inputs(VERSIONS, WHEEL_MPI, {"HOROVOD_GPU_OPERATIONS": "NCCL"}),
    ]
    assert len({plain, *map(build.cache_key, other)}) == 4


def cuda(tmp_path: Path) -> Path:
    """A folder that looks like a CUDA toolkit."""
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    (tmp_path / "cuda" / "bin" / "nvcc").touch()
    return tmp_path / "cuda"


def nccl(home: Path, library: str) -> Path:
    """A folder that looks like NCCL."""
    for name in ("include/nccl.h", f"lib/{library}"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    return home


def test_gpu_environment_with_the_nccl_wheel(tmp_path):
    site, home = tmp_path / "site-packages", cuda(tmp_path)
    wheel = nccl(site / "nvidia" / "nccl", "libnccl.so.2")
    env, rpath = gpu.environment("NCCL", site, tmp_path / "work", str(home))
    assert env["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert env["HOROVOD_CUDA_HOME"] == env["CUDA_HOME"] == str(home)
    assert env["PATH"].startswith(f"{home}/bin:")
    assert env["HOROVOD_NCCL_INCLUDE"] == str(wheel / "include")
    # the wheel has no libnccl.so to link to, so the build gets one
    assert (Path(env["HOROVOD_NCCL_LIB"]) / "libnccl.so").resolve() == wheel / "lib" / "libnccl.so.2"
    assert rpath == ["$ORIGIN/../../nvidia/nccl/lib"]


def test_gpu_environment_with_the_sites_nccl(tmp_path):
    home = nccl(tmp_path / "nccl", "libnccl.so")
    env, rpath = gpu.environment("NCCL", tmp_path, tmp_path / "work", str(cuda(tmp_path)), str(home))
    assert env["HOROVOD_NCCL_LIB"] == str(home / "lib")
    assert rpath == [str(home / "lib")]
    assert gpu.lasting(env, str(home))["nccl"] == str(home)
    assert not {"PATH", "HOROVOD_NCCL_LIB"} & set(gpu.lasting(env, str(home)))


def test_gpu_environment_with_mpi_needs_no_nccl(tmp_path):
    env, rpath = gpu.environment("MPI", tmp_path, tmp_path / "work", str(cuda(tmp_path)))
    assert env["HOROVOD_GPU_OPERATIONS"] == "MPI"
    assert not [name for name in env if "NCCL" in name]
    assert rpath == []


def test_no_gpu_operations_no_gpu_environment(tmp_path):
    assert gpu.environment("", tmp_path, tmp_path) == ({}, [])
    assert gpu.lasting({}, None) == {}


def test_the_build_environment_is_ours_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOROVOD_WITHOUT_MPI", "1")
    env = build.build_environment(WHEEL_MPI, tmp_path, {}, [])
    assert "HOROVOD_WITHOUT_MPI" not in env
    assert env["HOROVOD_WITH_MPI"] == env["HOROVOD_WITH_GLOO"] == "1"
    assert env["HOROVOD_RPATH"].startswith("$ORIGIN/../../../..;")
    assert env["MPI_HOME"] == "/venv"


@pytest.mark.parametrize(("given", "jobs"), [("", None), ("w --no-print-directory", None), (" -j1", "1")])
def test_makes_own_flags_do_not_set_the_number_of_compilations(tmp_path, monkeypatch, given, jobs):
    monkeypatch.setenv("MAKEFLAGS", given)
    env = build.build_environment(WHEEL_MPI, tmp_path, {}, [])
    assert env["MAKEFLAGS"] == f"-j{jobs or build.jobs()}"


def test_an_installed_wheel_is_not_installed_again(tmp_path):
    note = tmp_path / "lib/python3.11/site-packages/horovod-0.28.1.dist-info/direct_url.json"
    wheel = tmp_path / "horovod.whl"
    assert not build.is_installed(tmp_path, wheel)
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"url": wheel.as_uri()}), encoding="utf-8")
    assert build.is_installed(tmp_path, wheel)
    assert not build.is_installed(tmp_path, tmp_path / "other.whl")

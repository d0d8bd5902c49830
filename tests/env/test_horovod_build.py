"""Horovod's builder without its compilation: patches that notice foreign sources, and the cache's key."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from env.horovod import build, gpu, sources
from env.horovod.cuda import Toolkit
from env.install.mpi import Mpi
from env.install.steps import Step, StepFailed

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "python": "3.11.7",
    "tag": "cpython-311",
    "torch": "2.13.0",
    "cuda": None,
    "tensorflow": "2.21.0",
    "numpy": "2.4.6",
}
WHEEL_MPI = Mpi(Path("/venv"), False, "mpich wheel 5")
TOOLKIT = Toolkit(Path("/opt/cuda"), "12.4.131")
RUNTIME = "$ORIGIN/../../../site-packages/nvidia/cuda_runtime/lib"


@pytest.fixture
def step(tmp_path) -> Step:
    """A step whose log nobody reads."""
    return Step(1, 1, "Horovod", tmp_path / "logs" / "log")


def unpatched(root: Path, texts: dict[str, str]) -> Path:
    """Sources with these files, and the folders that are taken out."""
    for folder in (*sources.REMOVED, "horovod/_keras"):
        (root / folder).mkdir(parents=True)
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def one_patch(tmp_path, monkeypatch) -> None:
    """A single patch in place of those of Horovod, with a reason above its hunk."""
    patch = tmp_path / "1-colour.patch"
    patch.write_text("A test.\n--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n-red\n+blue\n green\n")
    monkeypatch.setattr(sources, "patches", lambda cuda_torch: [patch])


@pytest.mark.usefixtures("one_patch")
def test_sources_are_patched_and_what_is_ours_joins_them(tmp_path, step):
    root = unpatched(tmp_path / "horovod", {"b.txt": "red\ngreen\n"})
    assert sources.prepare(step, root, cuda_torch=False) == ["1-colour"]
    assert (root / "b.txt").read_text(encoding="utf-8") == "blue\ngreen\n"
    assert not (root / "horovod" / "spark").exists()
    assert sorted(path.name for path in (root / "horovod" / "runner").iterdir()) == [
        "__init__.py",
        "launch.py",
    ]


@pytest.mark.usefixtures("one_patch")
@pytest.mark.parametrize("texts", [{"b.txt": "red\nyellow\n"}, {"b.txt": "green\n"}, {}])
def test_other_sources_are_refused(tmp_path, step, texts):
    root = unpatched(tmp_path / "horovod", texts)
    with pytest.raises(StepFailed) as failure:
        sources.prepare(step, root, cuda_torch=False)
    assert "use the pinned version" in failure.value.cure


def test_each_patch_says_why_above_each_file_of_it():
    for patch in sources.patches(cuda_torch=True):
        for piece in re.split(r"^(?=--- a/)", patch.read_text(encoding="utf-8"), flags=re.MULTILINE)[:-1]:
            assert re.fullmatch(r"[A-Z`a-z].*[.!?]", piece.rstrip().splitlines()[-1]), (patch.name, piece)


def test_a_patch_more_changes_the_digest():
    with_cuda, without = (sources.patches(cuda_torch) for cuda_torch in (True, False))
    assert [patch.name for patch in with_cuda if patch not in without] == [sources.FOR_CUDA]
    assert sources.digest(cuda_torch=True) != sources.digest(cuda_torch=False)


def test_the_key_changes_with_each_input(monkeypatch):
    monkeypatch.setattr(build, "compiler", lambda: "c++ 12")
    parts = build.inputs(VERSIONS, WHEEL_MPI, {})
    assert set(parts) >= {
        "sdist",
        "sources",
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


def nccl(home: Path, library: str, version: tuple[int, int, int] = (2, 27, 5)) -> Path:
    """A folder that looks like NCCL."""
    for name in ("include/nccl.h", f"lib/{library}"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    defines = zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)
    header = "".join(f"#define NCCL_{part} {number}\n" for part, number in defines)
    (home / "include" / "nccl.h").write_text(header + '#define NCCL_SUFFIX ""\n', encoding="utf-8")
    return home


def test_nccl_build_with_the_wheel(tmp_path):
    site = tmp_path / "site-packages"
    wheel = nccl(site / "nvidia" / "nccl", "libnccl.so.2")
    env, rpath = gpu.environment("NCCL", TOOLKIT, site, tmp_path / "work")
    assert env["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert env["HOROVOD_CUDA_HOME"] == env["CUDA_HOME"] == "/opt/cuda"
    assert env["PATH"].startswith("/opt/cuda/bin:")
    assert env["HOROVOD_NCCL_INCLUDE"] == str(wheel / "include")
    # the wheel has no libnccl.so to link to, so the build gets one
    assert (Path(env["HOROVOD_NCCL_LIB"]) / "libnccl.so").resolve() == wheel / "lib" / "libnccl.so.2"
    assert rpath == [RUNTIME, "$ORIGIN/../../../site-packages/nvidia/nccl/lib"]


def test_nccl_build_with_the_sites_nccl(tmp_path):
    home = nccl(tmp_path / "nccl", "libnccl.so")
    env, rpath = gpu.environment("NCCL", TOOLKIT, tmp_path, tmp_path / "work", str(home))
    assert env["HOROVOD_NCCL_LIB"] == str(home / "lib")
    assert rpath == [RUNTIME, str(home / "lib")]


def test_mpi_build_needs_no_nccl(tmp_path):
    env, rpath = gpu.environment("MPI", TOOLKIT, tmp_path, tmp_path / "work")
    assert env["HOROVOD_GPU_OPERATIONS"] == "MPI"
    assert not [name for name in env if "NCCL" in name]
    assert rpath == [RUNTIME]


def test_host_build_on_a_gpu_machine_knows_cuda_and_has_no_gpu_operations(tmp_path):
    env, rpath = gpu.environment("", TOOLKIT, tmp_path, tmp_path / "work")
    assert env["HOROVOD_CUDA_HOME"] == "/opt/cuda"
    assert not [name for name in env if name.startswith("HOROVOD_GPU")]
    assert rpath == [RUNTIME]


def gpu_key(folder: Path, toolkit: Toolkit, operations: str = "NCCL", given: str | None = None) -> str:
    """The part of the cache's key that GPUs decide; `folder` holds an NCCL wheel."""
    env, rpath = gpu.environment(operations, toolkit, folder, folder / "work", given)
    return json.dumps(gpu.lasting(env, rpath, toolkit, given), sort_keys=True)


def test_a_toolkit_or_an_nccl_that_was_renewed_in_its_place_gives_another_key(tmp_path):
    nccl(tmp_path / "nvidia" / "nccl", "libnccl.so.2")
    given = str(nccl(tmp_path / "given", "libnccl.so"))
    newer = Toolkit(TOOLKIT.home, "12.6.77")
    keys = [gpu_key(tmp_path, TOOLKIT), gpu_key(tmp_path, newer), gpu_key(tmp_path, TOOLKIT, "MPI")]
    keys += [gpu_key(tmp_path, TOOLKIT, ""), gpu_key(tmp_path, TOOLKIT, "NCCL", given)]
    nccl(tmp_path / "nvidia" / "nccl", "libnccl.so.2", (2, 29, 7))
    keys.append(gpu_key(tmp_path, TOOLKIT))
    assert len(set(keys)) == len(keys)
    assert "2.29.7 wheel" in keys[-1]
    # what lies in this build's temporary folders is no part of it
    assert "work" not in keys[0]
    assert "PATH" not in json.loads(keys[0])


@pytest.mark.parametrize("version", ["2.10.0", "2.10.0+cpu"])
def test_a_pytorch_without_cuda_is_told(version):
    with pytest.raises(StepFailed, match=re.escape(f"PyTorch {version}, a build without CUDA")) as failure:
        gpu.check_torch(None, version, TOOLKIT)
    assert "pip config list" in failure.value.cure
    assert "PIP_CONFIG_FILE=/dev/null" in failure.value.cure


def test_a_pytorch_for_another_cuda_is_told():
    gpu.check_torch("12.8", "2.10.0", TOOLKIT)
    with pytest.raises(
        StepFailed, match="PyTorch 2.13.0 for CUDA 13.0, and there is CUDA 12.4.131 at /opt/cuda"
    ):
        gpu.check_torch("13.0", "2.13.0", TOOLKIT)


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


def test_run_paths_lead_to_site_packages_from_every_folder_beside_it(tmp_path):
    env = build.build_environment(WHEEL_MPI, tmp_path, {}, [RUNTIME])
    paths = env["HOROVOD_RPATH"].split(";")
    lib = tmp_path / "lib"
    ends = {
        "": lib,
        "/torch/lib": lib / "python3.11/site-packages/torch/lib",
        "/tensorflow": lib / "python3.11/site-packages/tensorflow",
        "/nvidia/cuda_runtime/lib": lib / "python3.11/site-packages/nvidia/cuda_runtime/lib",
    }
    for folder in ("site-packages", "horovod-nccl"):
        origin = lib / "python3.11" / folder / "horovod" / "torch"
        places = {Path(os.path.normpath(path.replace("$ORIGIN", str(origin)))) for path in paths}
        assert places == set(ends.values())

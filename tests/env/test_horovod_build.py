"""Horovod's builder without its compilation: patches that notice foreign sources, and the cache's
key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from env.horovod import build, cuda, sources
from env.install.mpi import Mpi
from env.install.steps import Step, StepFailed

VERSIONS = {"python": "3.11", "torch": "2.13.0", "cuda": None, "tensorflow": "2.21.0"}
VERSIONS["numpy"] = "2.4.6"
WHEEL_MPI = Mpi(Path("/venv"), False, "mpich wheel 5")


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
    ours = sorted(path.name for path in (root / "horovod" / "runner").iterdir())
    assert ours == ["__init__.py", "launch.py"]


@pytest.mark.usefixtures("one_patch")
@pytest.mark.parametrize("texts", [{"b.txt": "red\nyellow\n"}, {"b.txt": "green\n"}, {}])
def test_other_sources_are_refused(tmp_path, step, texts):
    root = unpatched(tmp_path / "horovod", texts)
    with pytest.raises(StepFailed) as failure:
        sources.prepare(step, root, cuda_torch=False)
    assert "use the pinned version" in failure.value.cure


def test_the_key_changes_with_each_input(monkeypatch):
    monkeypatch.setattr(build, "compiler", lambda: "c++ 12")
    parts = build.inputs(VERSIONS, WHEEL_MPI, {})
    keys = {build.cache_key(parts | {name: value + "x"}) for name, value in parts.items()}
    newer = [VERSIONS | {name: f"{VERSIONS[name]}.1"} for name in VERSIONS if name != "cuda"]
    others = [(versions, WHEEL_MPI, {}) for versions in newer]
    others += [(VERSIONS | {"cuda": "12.8"}, WHEEL_MPI, {})]  # one patch more
    others += [(VERSIONS, Mpi(Path("/opt/mpi"), True, "/opt/mpi MVAPICH2 2.3.7"), {})]
    others += [(VERSIONS, WHEEL_MPI, {"HOROVOD_GPU_OPERATIONS": "NCCL"})]
    keys |= {build.cache_key(build.inputs(*other)) for other in others}
    assert build.cache_key(parts) not in keys
    assert len(keys) == len(parts) + len(others)
    assert build.cache_key(dict(reversed(parts.items()))) == build.cache_key(parts)


@pytest.mark.parametrize(
    ("given", "jobs"), [("", None), ("w --no-print-directory", None), (" -j1", "1")]
)
def test_the_build_environment_is_ours_alone(tmp_path, monkeypatch, given, jobs):
    monkeypatch.setenv("HOROVOD_WITHOUT_MPI", "1")
    monkeypatch.setenv("MAKEFLAGS", given)
    env = build.build_environment(WHEEL_MPI, tmp_path, {}, [])
    assert "HOROVOD_WITHOUT_MPI" not in env
    assert env["HOROVOD_WITH_MPI"] == env["HOROVOD_WITH_GLOO"] == "1"
    assert env["MPI_HOME"] == "/venv"
    assert env["MAKEFLAGS"] == f"-j{jobs or build.jobs()}", "make's own flags are not for it"


def test_run_paths_lead_to_site_packages_from_every_folder_beside_it(tmp_path):
    env = build.build_environment(WHEEL_MPI, tmp_path, {}, [cuda.RUNTIME])
    paths = env["HOROVOD_RPATH"].split(";")
    lib = tmp_path / "lib"
    ends = ("torch/lib", "tensorflow", "nvidia/cuda_runtime/lib")
    wanted = {lib, *(lib / "python3.11" / "site-packages" / end for end in ends)}
    for folder in ("site-packages", "horovod-nccl"):
        origin = lib / "python3.11" / folder / "horovod" / "torch"
        found = [path.replace("$ORIGIN", str(origin)) for path in paths]
        assert {Path(os.path.normpath(path)) for path in found} == wanted

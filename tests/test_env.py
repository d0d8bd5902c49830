"""The set-up without its long steps: edits that notice foreign sources, the cache's key, failures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from env import build_horovod, debian, edits, environment, gpu, modern_tests, mpi, steps

ROOT = Path(__file__).resolve().parents[1]
EDIT = edits.Edit("colour", "a/b.txt", "a test", "red", "blue", times=2)
VERSIONS = {
    "python": "3.11.7",
    "tag": "cpython-311",
    "torch": "2.13.0",
    "tensorflow": "2.21.0",
    "numpy": "2.4.6",
}
WHEEL_MPI = mpi.Mpi(Path("/venv"), False, "mpich wheel 5")


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
    with pytest.raises(
        edits.EditError, match=rf"edit 'colour': expected its text 2 .*a/b.txt, found {found}"
    ):
        EDIT.apply(tmp_path)
    assert file.read_text(encoding="utf-8") == text


def test_an_edit_fails_loudly_without_its_file(tmp_path):
    with pytest.raises(edits.EditError, match=r"edit 'colour': a/b.txt is not among"):
        EDIT.apply(tmp_path)


@pytest.mark.parametrize("edit", edits.all_edits() + modern_tests.MODERN, ids=lambda edit: edit.name)
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
    before = edits.digest()
    monkeypatch.setattr(edits, "all_edits", lambda: (EDIT,))
    assert edits.digest() != before


def test_the_key_changes_with_each_input(monkeypatch):
    monkeypatch.setattr(build_horovod, "compiler", lambda: "c++ 12")
    parts = build_horovod.inputs(VERSIONS, WHEEL_MPI, {})
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
    keys = {build_horovod.key(parts)}
    keys |= {build_horovod.key(parts | {name: value + "x"}) for name, value in parts.items()}
    assert len(keys) == len(parts) + 1
    assert build_horovod.key(dict(reversed(parts.items()))) in keys


def test_versions_mpi_and_gpu_reach_the_key(monkeypatch):
    monkeypatch.setattr(build_horovod, "compiler", lambda: "c++ 12")
    plain = build_horovod.key(build_horovod.inputs(VERSIONS, WHEEL_MPI, {}))
    other = [
        build_horovod.inputs(VERSIONS | {"torch": "2.13.1"}, WHEEL_MPI, {}),
        build_horovod.inputs(VERSIONS, mpi.Mpi(Path("/opt/mpi"), True, "/opt/mpi MVAPICH2 2.3.7"), {}),
        build_horovod.inputs(VERSIONS, WHEEL_MPI, {"HOROVOD_GPU_OPERATIONS": "NCCL"}),
    ]
    assert len({plain, *map(build_horovod.key, other)}) == 4


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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda here: gpu.check("RCCL"), "GPU_OPERATIONS=RCCL is unknown"),
        (lambda here: gpu.cuda_home(str(here)), "no CUDA toolkit"),
        (lambda here: gpu.nccl_home(str(here), here), "no NCCL"),
        (lambda here: mpi.find(here, str(here)), "holds no bin/mpicc"),
        (lambda here: environment.find_python("python1.0"), "PYTHON=python1.0 was not found"),
    ],
)
def test_wrong_settings_are_told_in_a_sentence_with_a_cure(tmp_path, call, says):
    with pytest.raises(steps.StepFailed, match=re.escape(says)) as failure:
        call(tmp_path)
    assert failure.value.cure


def test_the_build_environment_is_ours_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOROVOD_WITHOUT_MPI", "1")
    env = build_horovod.build_environment(WHEEL_MPI, tmp_path, {}, [])
    assert "HOROVOD_WITHOUT_MPI" not in env
    assert env["HOROVOD_WITH_MPI"] == env["HOROVOD_WITH_GLOO"] == "1"
    assert env["HOROVOD_RPATH"].startswith("$ORIGIN/../../../..;")
    assert env["MPI_HOME"] == "/venv"


@pytest.mark.parametrize(("given", "jobs"), [("", None), ("w --no-print-directory", None), (" -j1", "1")])
def test_makes_own_flags_do_not_set_the_number_of_compilations(tmp_path, monkeypatch, given, jobs):
    monkeypatch.setenv("MAKEFLAGS", given)
    env = build_horovod.build_environment(WHEEL_MPI, tmp_path, {}, [])
    assert env["MAKEFLAGS"] == f"-j{jobs or build_horovod.jobs()}"


def test_a_sites_mpi_comes_first(tmp_path):
    for name in ("mpicc", "mpicxx", "mpiexec"):
        (tmp_path / "site" / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / "bin" / name).write_text("#!/bin/sh\necho site\n")
        (tmp_path / "site" / "bin" / name).chmod(0o755)
    (tmp_path / "site" / "lib").mkdir()
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    library = mpi.find(tmp_path / "venv", str(tmp_path / "site"))
    assert library.site
    assert library.rpath() == [str(tmp_path / "site" / "lib")]
    assert library.environment({"PATH": "/usr/bin"})["PATH"] == f"{tmp_path}/site/bin:/usr/bin"
    mpi.put_site_commands(library, tmp_path / "venv")
    answer = subprocess.run([tmp_path / "venv" / "bin" / "mpiexec"], capture_output=True, text=True)
    assert answer.stdout == "site\n"


def test_an_installed_wheel_is_not_installed_again(tmp_path):
    note = tmp_path / "lib/python3.11/site-packages/horovod-0.28.1.dist-info/direct_url.json"
    wheel = tmp_path / "horovod.whl"
    assert not build_horovod.installed(tmp_path, wheel)
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"url": wheel.as_uri()}), encoding="utf-8")
    assert build_horovod.installed(tmp_path, wheel)
    assert not build_horovod.installed(tmp_path, tmp_path / "other.whl")


def test_requirements_follow_the_settings():
    plain = environment.requirements({})
    assert re.search(r"^tensorflow-cpu==", plain, re.M)
    assert re.search(r"^mpich==", plain, re.M)
    assert re.search(r"^tensorflow==", environment.requirements({"GPU_OPERATIONS": "NCCL"}), re.M)
    assert not re.search(r"^(mpich|mpi4py)==", environment.requirements({"MPI_HOME": "/opt/mpi"}), re.M)


def test_every_direct_requirement_is_locked_and_has_a_reason():
    locked = environment.requirements({})
    for line in (environment.ENV / "requirements.in").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name = re.match(r"[\w.-]+", line)[0]
            assert re.search(rf"^{re.escape(name)}==", locked, re.M), name
            assert "#" in line, name


def test_settings_change_the_fingerprint():
    assert environment.fingerprint({}) != environment.fingerprint({"GPU_OPERATIONS": "NCCL"})


def test_debian_packages_have_reasons():
    assert {"g++", "make"} <= set(debian.packages("setup"))
    assert debian.packages("tests") == ["chromium"]
    assert {"slurmctld", "slurmd", "munge"} <= set(debian.packages("tabletop"))
    lines = debian.LIST.read_text(encoding="utf-8").splitlines()
    assert all("#" in line for line in lines if line and not line.startswith("["))


@pytest.mark.parametrize(
    ("output", "cure"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Failed to establish a new connection: Name or service not known", "network"),
        ("ERROR: No matching distribution found for torch==2.13.0", "package index"),
        ("CMake Error: No CMAKE_CXX_COMPILER could be found.", "g++ make"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "MAKEFLAGS=-j1"),
        ("all is well", ""),
    ],
)
def test_cures(output, cure):
    assert cure in steps.cure_for(output)
    assert bool(cure) == bool(steps.cure_for(output))


def test_the_telling_line():
    output = "Collecting x\nERROR: No matching distribution found for x\n[notice] a new pip is there\n\n"
    assert steps.telling_line(output) == "ERROR: No matching distribution found for x"


@pytest.fixture
def checkout(tmp_path):
    """A checkout with what the set-up reads, and nothing else."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "env", root / "env", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def set_up(root: Path, **env: str) -> subprocess.CompletedProcess:
    """Run env/setup.py in a checkout, with no settings but those given."""
    clean = {name: value for name, value in os.environ.items() if name not in environment.SETTINGS}
    clean["XDG_CACHE_HOME"] = str(root / "cache")
    command = [sys.executable, str(root / "env" / "setup.py")]
    return subprocess.run(command, env=clean | env, capture_output=True, text=True, timeout=120)


def test_without_a_compiler(checkout):
    tools = checkout / "tools"
    tools.mkdir()
    (tools / "python3.11").symlink_to(sys.executable)
    done = set_up(checkout, PATH=str(tools), PYTHON=sys.executable, CXX="")
    if os.geteuid() == 0:
        assert "apt-get" not in done.stdout  # root without apt-get in PATH: nothing is installed
    assert done.returncode == 1
    assert "step 1 (Look round) failed: g++ and make not found" in done.stderr
    assert "cure:" in done.stderr
    assert "apt-get install" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_supported_python(checkout):
    done = set_up(checkout, PYTHON="python1.0")
    assert done.returncode == 1
    assert "PYTHON=python1.0 was not found" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_bad_requirement(checkout):
    (checkout / "env" / "requirements.txt").write_text("no-such-package-of-the-labs==1.0\n", encoding="utf-8")
    done = set_up(checkout, PYTHON=sys.executable, PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "step 3 (Packages) failed: ERROR: No matching distribution found" in done.stderr
    log = re.search(r"log:  (\S+)", done.stderr)[1]
    assert "no-such-package-of-the-labs" in Path(log).read_text(encoding="utf-8")
    assert "cure:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_call_does_nothing(checkout):
    venv = checkout / ".venv"
    python = venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho started >> "$0.started"\nexit 1\n', encoding="utf-8")
    python.chmod(0o755)
    (venv / "lib/python3.11/site-packages/horovod").mkdir(parents=True)
    (venv / "lib/python3.11/site-packages/horovod/metadata.json").write_text("{}", encoding="utf-8")
    ask = [sys.executable, "-c", "from env.environment import fingerprint; print(fingerprint({}))"]
    key = subprocess.run(ask, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
    stamp = {"key": key, "root": str(checkout), "mpi": "mpich wheel"}
    (venv / "setup-stamp.json").write_text(json.dumps(stamp), encoding="utf-8")
    done = set_up(checkout)
    assert done.returncode == 0, done.stderr
    assert "already set up" in done.stdout
    assert not Path(f"{python}.started").exists()  # neither pip nor anything else of the environment was run


def test_a_changed_file_makes_the_stamp_invalid(checkout):
    before = environment.fingerprint({})
    ask = [sys.executable, "-c", "from env.environment import fingerprint; print(fingerprint({}))"]
    with (checkout / "env" / "requirements.txt").open("a", encoding="utf-8") as file:
        file.write("one-more==1.0\n")
    after = subprocess.run(ask, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()
    assert after != before

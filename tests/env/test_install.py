"""The set-up without its long steps: what it reads, what it refuses, and when it need not run again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from env.horovod import gpu
from env.install import debian, environment, mpi, pythons, steps

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda here: gpu.check_operations("RCCL"), "GPU_OPERATIONS=RCCL is unknown"),
        (lambda here: gpu.cuda_home(str(here)), "no CUDA toolkit"),
        (lambda here: gpu.nccl_home(str(here), here), "no NCCL"),
        (lambda here: mpi.find(here, str(here)), "holds no bin/mpicc"),
        (lambda here: pythons.find("python1.0", here), "PYTHON=python1.0 was not found"),
    ],
)
def test_wrong_settings_are_told_in_a_sentence_with_a_cure(tmp_path, call, says):
    with pytest.raises(steps.StepFailed, match=re.escape(says)) as failure:
        call(tmp_path)
    assert failure.value.cure


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


def test_without_a_compiler(checkout, set_up):
    tools = checkout / "tools"
    tools.mkdir()
    (tools / "python3.11").symlink_to(sys.executable)
    done = set_up(PATH=str(tools), PYTHON=sys.executable, CXX="")
    if os.geteuid() == 0:
        assert "apt-get" not in done.stdout  # root without apt-get in PATH: nothing is installed
    assert done.returncode == 1
    assert "step 1 (Look round) failed: g++ and make not found" in done.stderr
    assert "cure:" in done.stderr
    assert "apt-get install" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_supported_python(set_up):
    done = set_up(PYTHON="python1.0")
    assert done.returncode == 1
    assert "PYTHON=python1.0 was not found" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_bad_requirement(checkout, set_up):
    (checkout / "env" / "requirements.txt").write_text("no-such-package-of-the-labs==1.0\n", encoding="utf-8")
    done = set_up(PYTHON=sys.executable, PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "step 3 (Packages) failed: ERROR: No matching distribution found" in done.stderr
    log = re.search(r"log:  (\S+)", done.stderr)[1]
    assert "no-such-package-of-the-labs" in Path(log).read_text(encoding="utf-8")
    assert "cure:" in done.stderr
    assert "Traceback" not in done.stderr


def fingerprint(root: Path) -> str:
    """The fingerprint of that checkout."""
    ask = "from env.install import environment; print(environment.fingerprint({}))"
    done = subprocess.run([sys.executable, "-c", ask], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def already_set_up(checkout):
    """That checkout with the stamp of a set-up, and with a Python that notes that it was started."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho started >> "$0.started"\nexit 1\n', encoding="utf-8")
    python.chmod(0o755)
    metadata = checkout / ".venv/lib/python3.11/site-packages/horovod/metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("{}", encoding="utf-8")
    settings = {"PYTHON": "python3.11"}
    stamp = {"key": fingerprint(checkout), "root": str(checkout), "mpi": "mpich wheel", "settings": settings}
    (checkout / ".venv" / "setup-stamp.json").write_text(json.dumps(stamp), encoding="utf-8")
    return checkout


@pytest.mark.parametrize("settings", [{}, {"PYTHON": "python3.11"}])
def test_a_second_call_does_nothing(already_set_up, set_up, settings):
    done = set_up(**settings)
    assert done.returncode == 0, done.stderr
    assert "already set up" in done.stdout
    # neither pip nor anything else of the environment was run
    assert not (already_set_up / ".venv/bin/python.started").exists()


def test_a_second_call_with_another_python_sets_up_again(already_set_up, set_up):
    done = set_up(PYTHON="python1.0")
    assert done.returncode == 1
    assert "PYTHON=python1.0 was not found" in done.stderr
    # nothing was changed: without the wrong name all is as it was
    assert "already set up" in set_up().stdout


@pytest.mark.parametrize(
    "file",
    ["pyproject.toml", "env/requirements.txt", "env/install/steps.py", "env/horovod/edits/keras.py"],
)
def test_a_changed_file_makes_the_stamp_invalid(checkout, file):
    before = fingerprint(checkout)
    with (checkout / file).open("a", encoding="utf-8") as text:
        text.write("# one line more\n")
    assert fingerprint(checkout) != before


@pytest.mark.parametrize("file", ["env/lock.py", "env/HOROVOD.md", "env/horovod/own_tests/edits.py"])
def test_a_file_that_the_set_up_does_not_read_leaves_the_stamp_valid(checkout, file):
    before = fingerprint(checkout)
    with (checkout / file).open("a", encoding="utf-8") as text:
        text.write("# one line more\n")
    assert fingerprint(checkout) == before

"""The site's CUDA toolkit and driver: which one is taken, and the sentence for each that cannot be used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from env.horovod import cuda
from env.install import steps

CXX = shutil.which("c++") or shutil.which("g++")
NVCC = shutil.which("nvcc")
MAJOR = 12


def toolkit(home: Path, version: str, top: bool = True, otherwise: str = "exit 0") -> Path:
    """A folder that looks like a CUDA toolkit: its nvcc says a version and, if `top`, where it is at home."""
    nvcc = home / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    at_home = f"echo '#$ TOP={home}/bin/..'" if top else "true"
    nvcc.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --version) echo "Cuda compilation tools, release {version[:4]}, V{version}";;\n'
        f"--dryrun) {at_home};;\n"
        f"*) {otherwise};; esac\n",
        encoding="utf-8",
    )
    nvcc.chmod(0o755)
    return home


def wrapper(folder: Path, nvcc: Path) -> None:
    """A script named nvcc that calls another one, as compilers of a cluster often are."""
    script = folder / "nvcc"
    folder.mkdir()
    script.write_text(f'#!/bin/sh\nexec {nvcc} "$@"\n', encoding="utf-8")
    script.chmod(0o755)


@pytest.fixture
def no_nvcc_in_path(tmp_path, monkeypatch):
    """A PATH with the system's tools, and without nvcc."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_wrapper_in_path_leads_to_the_toolkit(tmp_path, monkeypatch):
    home = toolkit(tmp_path / "real", "12.6.77")
    wrapper(tmp_path / "wrappers", home / "bin" / "nvcc")
    monkeypatch.setenv("PATH", f"{tmp_path / 'wrappers'}:{os.environ['PATH']}")
    assert cuda.find(None, MAJOR, tmp_path).home == home


def test_a_distributions_nvcc_is_at_home_above_its_bin(tmp_path):
    home = toolkit(tmp_path / "usr", "12.4.131", top=False)
    assert cuda.find(str(home), MAJOR, tmp_path).home == home


@pytest.mark.usefixtures("no_nvcc_in_path")
def test_a_12_beside_the_sites_default_is_found(tmp_path):
    toolkit(tmp_path / "cuda", "13.0.88")
    toolkit(tmp_path / "cuda-12.4", "12.4.131")
    newest = toolkit(tmp_path / "cuda-12.10", "12.10.5")
    assert cuda.find(None, MAJOR, tmp_path).home == newest


def test_the_one_in_path_comes_before_those_under_usr_local(tmp_path, no_nvcc_in_path):
    toolkit(tmp_path / "cuda", "12.8.93")
    loaded = toolkit(tmp_path / "module", "12.4.131")
    (no_nvcc_in_path / "nvcc").symlink_to(loaded / "bin" / "nvcc")
    assert cuda.find(None, MAJOR, tmp_path).home == loaded


@pytest.mark.usefixtures("no_nvcc_in_path")
def test_the_wrong_major_version(tmp_path):
    home = toolkit(tmp_path / "cuda", "13.0.88")
    said = f"there is CUDA 13.0.88 at {home}, but the pinned PyTorch is built for CUDA 12"
    for given in (None, str(home)):
        with pytest.raises(steps.StepFailed, match=re.escape(said)) as failure:
            cuda.find(given, MAJOR, tmp_path)
        assert "set CUDA_HOME" in failure.value.cure


@pytest.mark.parametrize("otherwise", ["exit 0", "exit 127"])
def test_a_cuda_home_that_is_none(tmp_path, otherwise):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text(f"#!/bin/sh\n{otherwise}\n", encoding="utf-8")
    (tmp_path / "bin" / "nvcc").chmod(0o755)
    with pytest.raises(steps.StepFailed, match=f"CUDA_HOME={tmp_path} has no bin/nvcc that runs"):
        cuda.find(str(tmp_path), MAJOR, tmp_path)


def test_g_plus_plus_is_too_new_for_nvcc(tmp_path):
    says = "host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 13 are not"
    home = toolkit(tmp_path / "cuda", "12.4.131", otherwise=f"echo '{says} supported!' && exit 1")
    step = steps.Step(1, 1, "Look round", tmp_path / "log")
    with pytest.raises(steps.StepFailed, match="compiles nothing: .*unsupported GNU version") as failure:
        cuda.try_out(step, cuda.Toolkit(home, "12.4.131"), CXX, tmp_path)
    assert "CXX=g++-13 make setup" in failure.value.cure
    assert failure.value.log == tmp_path / "log"


@pytest.mark.skipif(NVCC is None, reason="no nvcc in PATH")
def test_a_real_toolkit_compiles(tmp_path):
    real = cuda.look(Path(NVCC))
    assert (real.home / "bin" / "nvcc").exists()
    step = steps.Step(1, 1, "Look round", tmp_path / "log")
    cuda.try_out(step, real, CXX, tmp_path)
    needed = subprocess.run(["readelf", "-d", tmp_path / "first"], capture_output=True, text=True, check=True)
    assert f"libcudart.so.{real.major}" in needed.stdout


@pytest.mark.skipif(NVCC is None, reason="no nvcc in PATH")
def test_a_real_toolkit_without_its_headers_is_told_before_anything_is_fetched(tmp_path):
    real = cuda.look(Path(NVCC))
    part = tmp_path / "part"
    shutil.copytree(real.home / "bin", part / "bin", symlinks=True)
    (part / "nvvm").symlink_to(real.home / "nvvm")
    step = steps.Step(1, 1, "Look round", tmp_path / "log")
    with pytest.raises(steps.StepFailed, match="compiles nothing: ") as failure:
        cuda.try_out(step, cuda.Toolkit(part, real.version), CXX, tmp_path)
    assert "must be complete" in failure.value.cure


def driver(folder: Path, serves: int, monkeypatch) -> None:
    """A real libcuda.so.1 that serves this CUDA version, where the loader finds it."""
    folder.mkdir()
    source = folder / "cuda.c"
    source.write_text(f"int cuDriverGetVersion(int *to) {{ *to = {serves}; return 0; }}\n", encoding="utf-8")
    library = folder / "libcuda.so.1"
    subprocess.run([CXX, "-x", "c", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))


def test_a_driver_that_is_too_old(tmp_path, monkeypatch):
    driver(tmp_path / "old", 11040, monkeypatch)
    assert cuda.driver() == (11, 4)
    with pytest.raises(steps.StepFailed, match=r"driver here serves CUDA 11\.4") as failure:
        cuda.check_driver(MAJOR)
    assert "a driver from 525 on" in failure.value.cure


def test_a_modules_libraries_are_told(tmp_path):
    module = tmp_path / "module"
    other = tmp_path / "other"
    for file in (module / "libcudart.so.12.4.127", module / "libnccl.so.2", other / "libmpi.so.12"):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    path = f"{other}:{module}::{tmp_path / 'gone'}"
    assert cuda.foreign_libraries(path) == {str(module): ["libcudart.so", "libnccl.so"]}
    said = cuda.warning_of_foreign_libraries(path)
    assert f"LD_LIBRARY_PATH names {module} with libcudart.so, libnccl.so" in said
    assert "load no CUDA, NCCL or cuDNN module in jobs" in said
    assert cuda.warning_of_foreign_libraries(str(other)) == ""
    assert cuda.warning_of_foreign_libraries("") == ""

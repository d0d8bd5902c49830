"""CUDA on a GPU machine: which toolkit and NCCL are taken, and the sentence for each that cannot be
used."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from env.horovod import cuda
from env.install.steps import Step, StepFailed
from tests.helpers import program, ran

CXX = shutil.which("c++") or shutil.which("g++")
NVCC = shutil.which("nvcc")
MAJOR = 12
TOOLKIT = cuda.Toolkit(Path("/opt/cuda"), "12.4.131")


def toolkit(home: Path, version: str, top: bool = True, otherwise: str = "exit 0") -> Path:
    """A folder that looks like a CUDA toolkit: its nvcc says a version and, if `top`, where it is
    at home."""
    says = f"echo 'Cuda compilation tools, release {version[:4]}, V{version}'"
    at_home = f"echo '#$ TOP={home}/bin/..'" if top else "true"
    cases = f'case "$1" in --version) {says};; --dryrun) {at_home};; *) {otherwise};; esac'
    program(home / "bin" / "nvcc", cases)
    return home


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """A folder which alone is the PATH; nvcc is not in it. The shell of nvcc's wrapper needs no
    PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "path"


@pytest.mark.parametrize(
    ("under_usual", "in_path", "found"),
    [
        ({"real": "12.6.77"}, "real", "real"),  # a wrapper, as compilers of a cluster often are
        ({"cuda": "13.0.88", "cuda-12.4": "12.4.131", "cuda-12.8": "12.8.93"}, "", "cuda-12.8"),
        ({"cuda": "12.8.93", "module": "12.4.131"}, "module", "module"),
        ({"cuda": "12.8.93", "module": "13.0.88"}, "module", "cuda"),
    ],
)
def test_the_toolkit_that_is_found(tmp_path, path, under_usual, in_path, found):
    for name, version in under_usual.items():
        toolkit(tmp_path / name, version)
    if in_path:
        program(path / "nvcc", f'exec {tmp_path / in_path}/bin/nvcc "$@"')
    assert cuda.find(None, MAJOR, tmp_path).home == tmp_path / found


def test_a_distributions_nvcc_is_at_home_above_its_bin(tmp_path):
    home = toolkit(tmp_path / "usr", "12.4.131", top=False)
    assert cuda.find(str(home), MAJOR, tmp_path).home == home


NONE = "no CUDA toolkit: CUDA_HOME={folder}/cuda has no bin/nvcc that runs"
OTHER = "there is CUDA 13.0.88 at {folder}/cuda, but the pinned PyTorch is built for CUDA 12"


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("given", "nvcc", "said"),
    [
        ("", None, "no CUDA toolkit: nvcc is not in PATH, and {folder}/cuda has no bin/nvcc"),
        ("cuda", "exit 0", NONE),
        ("cuda", "exit 127", NONE),
        ("", "echo V13.0.88", OTHER),
        ("cuda", "echo V13.0.88", OTHER),
    ],
)
def test_a_toolkit_that_cannot_be_used(tmp_path, given, nvcc, said):
    if nvcc:
        program(tmp_path / "cuda" / "bin" / "nvcc", nvcc)
    with pytest.raises(StepFailed, match=re.escape(said.format(folder=tmp_path))) as failure:
        cuda.find(str(tmp_path / given) if given else None, MAJOR, tmp_path)
    assert "set CUDA_HOME" in failure.value.cure


def test_g_plus_plus_is_too_new_for_nvcc(tmp_path):
    says = (
        "host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 13"
    )
    home = toolkit(tmp_path / "cuda", "12.4.131", otherwise=f"echo '{says}' && exit 1")
    step = Step(1, 1, "Look round", tmp_path / "log")
    with pytest.raises(StepFailed, match="compiles nothing: .*unsupported GNU version") as failure:
        cuda.try_out(step, cuda.Toolkit(home, "12.4.131"), CXX, tmp_path)
    assert "CXX=g++-12 make setup" in failure.value.cure
    assert failure.value.log == tmp_path / "log"


@pytest.mark.skipif(NVCC is None, reason="no nvcc in PATH")
def test_a_real_toolkit_compiles_and_one_without_headers_does_not(tmp_path):
    real = cuda.look(Path(NVCC))
    step = Step(1, 1, "Look round", tmp_path / "log")
    cuda.try_out(step, real, CXX, tmp_path)
    needed = ran("readelf", "-d", tmp_path / "first").stdout
    assert f"libcudart.so.{real.major}" in needed
    part = tmp_path / "part"
    shutil.copytree(real.home / "bin", part / "bin", symlinks=True)
    (part / "nvvm").symlink_to(real.home / "nvvm")
    with pytest.raises(StepFailed, match="compiles nothing: ") as failure:
        cuda.try_out(step, cuda.Toolkit(part, real.version), CXX, tmp_path)
    assert "must be complete" in failure.value.cure


def test_a_driver_that_is_too_old(tmp_path, monkeypatch):
    source = tmp_path / "cuda.c"
    source.write_text("int cuDriverGetVersion(int *to) { *to = 11040; return 0; }\n")
    library = tmp_path / "libcuda.so.1"
    assert ran(CXX, "-x", "c", "-shared", "-fPIC", "-o", library, source).returncode == 0
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(StepFailed, match=r"driver here serves CUDA 11\.4") as failure:
        cuda.check_driver(MAJOR)
    assert "a driver from 525 on" in failure.value.cure
    cuda.check_driver(11)


def test_a_modules_libraries_are_told(tmp_path):
    module = tmp_path / "module"
    other = tmp_path / "other"
    for file in (module / "libcudart.so.12.4.127", module / "libnccl.so.2", other / "libmpi.so.12"):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    said = cuda.warning_of_foreign_libraries(f"{other}:{module}::{tmp_path / 'gone'}")
    assert f"LD_LIBRARY_PATH names {module} with libcudart.so, libnccl.so. PyTorch brings" in said
    assert cuda.warning_of_foreign_libraries(f"{other}:") == ""


@pytest.mark.parametrize(("built_for", "kind"), [(None, "without CUDA"), ("13.0", "for CUDA 13.0")])
def test_a_pytorch_of_another_kind_is_told(built_for, kind):
    cuda.check_torch("12.8", "2.10.0", TOOLKIT)
    said = f"PyTorch 2.10.0, a build {kind}, and there is CUDA 12.4.131 at /opt/cuda"
    with pytest.raises(StepFailed, match=re.escape(said)) as failure:
        cuda.check_torch(built_for, "2.10.0", TOOLKIT)
    assert "PIP_CONFIG_FILE=/dev/null" in failure.value.cure


# --- what Horovod's build is told

RUNTIME = "$ORIGIN/../../../site-packages/nvidia/cuda_runtime/lib"
WHEELS_NCCL = "$ORIGIN/../../../site-packages/nvidia/nccl/lib"


def nccl(home: Path, library: str, version: tuple[int, int, int] = (2, 27, 5)) -> Path:
    """A folder that looks like NCCL."""
    for name in ("include/nccl.h", f"lib/{library}"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    defines = zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)
    header = "".join(f"#define NCCL_{part} {number}\n" for part, number in defines)
    (home / "include" / "nccl.h").write_text(header + '#define NCCL_SUFFIX ""\n', encoding="utf-8")
    return home


BY_MPI = {"GPU", "GPU_OPERATIONS"}
BY_NCCL = {"GPU", "GPU_OPERATIONS", "NCCL_INCLUDE", "NCCL_LIB", "NCCL_LINK"}


@pytest.mark.parametrize(
    ("operations", "given", "rpath", "names"),
    [
        ("", False, [RUNTIME], set()),
        ("MPI", False, [RUNTIME], BY_MPI),
        ("NCCL", False, [RUNTIME, WHEELS_NCCL], BY_NCCL),
        ("NCCL", True, [RUNTIME, "given/lib"], BY_NCCL),
    ],
)
def test_what_a_build_is_told(tmp_path, operations, given, rpath, names):
    wheel = nccl(tmp_path / "nvidia" / "nccl", "libnccl.so.2")
    site = nccl(tmp_path / "given", "libnccl.so")
    own = str(site) if given else None
    env, folders, _ = cuda.environment(operations, TOOLKIT, tmp_path, tmp_path / "work", own)
    assert [folder.replace(f"{tmp_path}/", "") for folder in folders] == rpath
    told = {name.removeprefix("HOROVOD_") for name in env if name.startswith("HOROVOD_")}
    assert told == {"CUDA_HOME", *names}
    assert env["HOROVOD_CUDA_HOME"] == env["CUDA_HOME"] == "/opt/cuda"
    assert env["PATH"].startswith("/opt/cuda/bin:")
    assert env.get("HOROVOD_GPU_OPERATIONS", "") == operations
    if operations == "NCCL":
        home, library = (site, "libnccl.so") if given else (wheel, "libnccl.so.2")
        assert env["HOROVOD_NCCL_INCLUDE"] == str(home / "include")
        # The wheel has no libnccl.so to link to, so the build gets one.
        assert (Path(env["HOROVOD_NCCL_LIB"]) / "libnccl.so").resolve() == home / "lib" / library


def key(
    folder: Path, toolkit: cuda.Toolkit, operations: str = "NCCL", given: str | None = None
) -> str:
    """The part of the cache's key that GPUs decide; `folder` holds an NCCL wheel."""
    work = Path(tempfile.mkdtemp(dir=folder)) / "work"
    return json.dumps(cuda.environment(operations, toolkit, folder, work, given)[2], sort_keys=True)


def test_a_toolkit_or_an_nccl_that_was_renewed_in_its_place_gives_another_key(tmp_path):
    nccl(tmp_path / "nvidia" / "nccl", "libnccl.so.2")
    given = str(nccl(tmp_path / "given", "libnccl.so"))
    newer = cuda.Toolkit(TOOLKIT.home, "12.6.77")
    keys = [key(tmp_path, TOOLKIT), key(tmp_path, newer), key(tmp_path, TOOLKIT, "MPI")]
    keys += [key(tmp_path, TOOLKIT, ""), key(tmp_path, TOOLKIT, "NCCL", given)]
    nccl(tmp_path / "nvidia" / "nccl", "libnccl.so.2", (2, 29, 7))
    keys.append(key(tmp_path, TOOLKIT))
    assert len(set(keys)) == len(keys)
    assert "2.29.7 wheel" in keys[-1]
    # What lies in this build's temporary folders is no part of it.
    assert "work" not in keys[0]
    assert os.environ["PATH"] not in keys[0]


@pytest.mark.parametrize("given", [None, "given"])
def test_without_nccl_it_is_told_where_to_get_it(tmp_path, given):
    with pytest.raises(StepFailed, match=r"no NCCL: .* has no include/nccl\.h") as failure:
        cuda.nccl_home(given and str(tmp_path / given), tmp_path)
    assert "Set NCCL_HOME" in failure.value.cure

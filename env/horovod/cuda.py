"""CUDA for Horovod on a GPU machine: the site's toolkit and driver, NCCL, and what the build is
told of them.

For CUDA 12 no package of PyPI holds nvcc (nvidia-cuda-nvcc-cu12 has only what comes after it), so
that the site must bring it: as a module, in a container, or under /usr/local. It is looked at
before gigabytes are fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from env.install.steps import Step, StepFailed

USUAL = Path("/usr/local")
LIBRARIES = ("libcudart.so", "libnccl.so", "libcudnn.so")
# The first driver of a CUDA: docs.nvidia.com/deploy/cuda-compatibility, table 1.
DRIVERS = {12: 525, 13: 580}
PROGRAM = """#include <cuda_runtime.h>
__global__ void add(float *to) { to[threadIdx.x] += 1; }
int main() { add<<<1, 1>>>(nullptr); return cudaDeviceSynchronize() == cudaSuccess; }
"""
# Horovod's extensions lie in PLACE/horovod/torch and PLACE/horovod/tensorflow. PLACE is
# site-packages or a folder beside it: this way leads to site-packages from either.
SITE = "$ORIGIN/../../../site-packages"
RUNTIME = f"{SITE}/nvidia/cuda_runtime/lib"
NCCL = f"{SITE}/nvidia/nccl/lib"
ASK_DRIVER = (
    "import ctypes; n = ctypes.c_int(); "
    "ctypes.CDLL('libcuda.so.1').cuDriverGetVersion(ctypes.byref(n)); print(n.value)"
)


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit: `home` holds bin/nvcc, `version` is nvcc's, as 12.4.131."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def __str__(self) -> str:
        return f"CUDA {self.version} at {self.home}"


def find(given: str | None, major: int, usual: Path = USUAL) -> Toolkit:
    """The toolkit of that major version: CUDA_HOME, else that of nvcc in PATH, else one under
    /usr/local.

    Raises StepFailed when there is none, or only one of another major version.
    """
    if given:
        files = [Path(given).expanduser().absolute() / "bin" / "nvcc"]
        nowhere = f"CUDA_HOME={given} has no bin/nvcc that runs"
    else:
        in_path = shutil.which("nvcc")
        numbered = sorted(usual.glob(f"cuda-{major}*/bin/nvcc"), reverse=True)
        files = [*([Path(in_path)] if in_path else []), usual / "cuda" / "bin" / "nvcc", *numbered]
        nowhere = f"nvcc is not in PATH, and {usual}/cuda has no bin/nvcc that runs"
    seen = dict.fromkeys(filter(None, map(look, files)))
    for toolkit in seen:
        if toolkit.major == major:
            return toolkit
    others = " and ".join(map(str, seen))
    raise StepFailed(
        f"there is {others}, but the pinned PyTorch is built for CUDA {major}"
        if seen
        else f"no CUDA toolkit: {nowhere}",
        f"Load a CUDA {major} module (`module avail cuda`) or set CUDA_HOME to the folder above"
        f" bin/nvcc; any {major}.x will do, and no package of PyPI brings it. On a machine without"
        " GPUs: `make setup GPU_OPERATIONS=none`.",
    )


def look(nvcc: Path) -> Toolkit | None:
    """The toolkit that this nvcc belongs to; None when it does not run.

    nvcc may be a script that calls another one elsewhere, so it is asked where it is at home. That
    of a distribution does not say: then it is the folder above bin/.
    """
    version = re.search(r"\bV(\d+\.\d+\.\d+)", _output(nvcc, "--version"))
    if not version:
        return None
    top = re.search(
        r"^#\$ TOP=(.+)$", _output(nvcc, "--dryrun", "-x", "cu", os.devnull), re.MULTILINE
    )
    home = Path(top[1].strip()).resolve() if top else nvcc.parents[1]
    return Toolkit(home, version[1])


def _output(*command: str | Path) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout + answer.stderr


def try_out(step: Step, toolkit: Toolkit, compiler: str, work: Path) -> None:
    """Compile and link a small program. Raises StepFailed: a part is missing, or g++ is too new for
    nvcc."""
    source = work / "first.cu"
    source.write_text(PROGRAM, encoding="utf-8")
    nvcc = toolkit.home / "bin" / "nvcc"
    try:
        step.run([nvcc, "-ccbin", compiler, "--cudart", "shared", "-o", work / "first", source])
    except StepFailed as error:
        raise StepFailed(
            f"{toolkit} compiles nothing: {error.message}",
            "The toolkit must be complete, with its headers and libcudart.so, and g++ not too new"
            " for it: CUDA_HOME=… names another toolkit, `CXX=g++-12 make setup …` another g++.",
            step.log,
        ) from None


def check_driver(major: int) -> None:
    """Raise StepFailed where the driver is too old. None at all is no failure: login nodes have
    none."""
    said = _output(sys.executable, "-c", ASK_DRIVER).strip()
    if not said.isdigit():
        return
    served, minor = divmod(int(said) // 10, 100)
    if 0 < served < major:
        raise StepFailed(
            f"the NVIDIA driver here serves CUDA {served}.{minor}; the pinned PyTorch needs"
            f" {major}",
            f"It takes a driver from {DRIVERS[major]} on (`nvidia-smi` shows which one is here):"
            " ask the administrators for one, or set up on a machine of the kind that the jobs"
            " run on.",
        )


def warning_of_foreign_libraries(path: str) -> str:
    """What to say of an LD_LIBRARY_PATH that names another CUDA than PyTorch's; empty when it names
    none."""
    here = []
    for folder in filter(None, path.split(os.pathsep)):
        names = [name for name in LIBRARIES if any(Path(folder).glob(f"{name}*"))]
        here += [f"{folder} with {', '.join(names)}"] if names else []
    if not here:
        return ""
    return (
        f"LD_LIBRARY_PATH names {'; '.join(here)}. PyTorch brings its own, and a job would mix the"
        " two: load no CUDA, NCCL or cuDNN module in jobs. nvcc alone is needed, and only here:"
        " CUDA_HOME=… says where"
    )


def nccl_home(given: str | None, site_packages: Path) -> Path:
    """Where NCCL's include/ and lib/ are: NCCL_HOME, else the nvidia-nccl-cu* wheel. Raises
    StepFailed."""
    home = Path(given).expanduser().absolute() if given else site_packages / "nvidia" / "nccl"
    if not (home / "include" / "nccl.h").exists():
        raise StepFailed(
            f"no NCCL: {home} has no include/nccl.h",
            "Set NCCL_HOME to the folder above NCCL's include/ and lib/, or leave it out: PyTorch's"
            " CUDA build brings one in its package nvidia-nccl-cu12.",
        )
    return home


def nccl_version(home: Path) -> str:
    """The version that nccl.h says, as 2.27.5."""
    header = (home / "include" / "nccl.h").read_text(encoding="utf-8", errors="replace")
    return ".".join(re.findall(r"^#define NCCL_(?:MAJOR|MINOR|PATCH) +(\d+)", header, re.MULTILINE))


def linkable(home: Path, work: Path) -> Path:
    """`work`, with a link by which `-lnccl` finds this NCCL: the wheel has only libnccl.so.2."""
    names = [f"{folder}/libnccl.so{end}" for end in ("", ".2") for folder in ("lib", "lib64")]
    library = next((home / name for name in names if (home / name).exists()), None)
    if library is None:
        raise StepFailed(f"{home} holds no libnccl.so", "Set NCCL_HOME to a complete NCCL.")
    work.mkdir()
    (work / "libnccl.so").symlink_to(library)
    return work


def check_torch(cuda: str | None, version: str, toolkit: Toolkit) -> None:
    """Raise StepFailed unless the PyTorch that pip installed is built with this toolkit's major
    version."""
    if not cuda or int(cuda.split(".")[0]) != toolkit.major:
        kind = f"for CUDA {cuda}" if cuda else "without CUDA"
        raise StepFailed(
            f"pip brought PyTorch {version}, a build {kind}, and there is {toolkit}",
            "The two must have the same major version, as PyPI's for x86-64 has. Leave TORCH_INDEX"
            " out; `.venv/bin/python -m pip config list` shows whether another index or folder"
            " offers this one, and PIP_CONFIG_FILE=/dev/null leaves such settings out.",
        )


def environment(
    operations: str,
    toolkit: Toolkit | None,
    site_packages: Path,
    work: Path,
    nccl: str | None = None,
) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """Variables for Horovod's build, more folders for its run path, and what of them decides what
    the wheel is; all empty without a toolkit.

    operations: HOROVOD_GPU_OPERATIONS, or "" for the build whose GPU tensors travel through host
    memory. work: a folder of this build, which is made if need be. A toolkit or an NCCL that was
    renewed in its place is another one, so that their versions are among what decides.
    """
    if toolkit is None:
        return {}, [], {}
    lasting = {"HOROVOD_CUDA_HOME": str(toolkit.home), "CUDA_HOME": str(toolkit.home)}
    passing = {"PATH": f"{toolkit.home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    rpath = [RUNTIME]
    versions = {"nvcc": toolkit.version}
    if operations:
        lasting |= {"HOROVOD_GPU": "CUDA", "HOROVOD_GPU_OPERATIONS": operations}
    if operations == "NCCL":
        root = nccl_home(nccl, site_packages)
        own = [str(path) for path in (root / "lib", root / "lib64") if path.is_dir()]
        rpath += own if nccl else [NCCL]
        lasting["HOROVOD_NCCL_LINK"] = "SHARED"
        passing["HOROVOD_NCCL_INCLUDE"] = str(root / "include")
        passing["HOROVOD_NCCL_LIB"] = str(linkable(root, work))
        versions["nccl"] = f"{nccl_version(root)} {nccl or 'wheel'}"
    return lasting | passing, rpath, lasting | versions | {"rpath": ";".join(rpath)}

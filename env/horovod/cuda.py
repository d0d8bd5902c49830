"""The site's CUDA toolkit, with which Horovod is compiled for GPUs, and the site's driver.

For CUDA 12 no package of PyPI holds nvcc (nvidia-cuda-nvcc-cu12 has only what comes after it), so that the
site must bring it: as a module, in a container, or under /usr/local. It is looked at before gigabytes are
fetched.
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
DRIVERS = {12: 525, 13: 580}  # the first driver of a CUDA: docs.nvidia.com/deploy/cuda-compatibility, table 1
PROGRAM = """#include <cuda_runtime.h>
__global__ void add(float *to) { to[threadIdx.x] += 1; }
int main() { add<<<1, 1>>>(nullptr); return cudaDeviceSynchronize() == cudaSuccess; }
"""
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
    """The toolkit of that major version: CUDA_HOME, else that of nvcc in PATH, else one under /usr/local.

    Raises StepFailed when there is none, or only one of another major version.
    """
    seen: list[Toolkit] = []
    for nvcc in places(given, major, usual):
        toolkit = look(nvcc)
        if toolkit and toolkit.major == major:
            return toolkit
        if toolkit and toolkit not in seen:
            seen.append(toolkit)
    cure = (
        f"Load a CUDA {major} module (`module avail cuda`) or set CUDA_HOME to the folder above bin/nvcc; "
        f"any {major}.x will do, and no package of PyPI brings it. On a machine without GPUs: "
        "`make setup GPU_OPERATIONS=none`."
    )
    if seen:
        others = " and ".join(map(str, seen))
        raise StepFailed(f"there is {others}, but the pinned PyTorch is built for CUDA {major}", cure)
    if given:
        raise StepFailed(f"no CUDA toolkit: CUDA_HOME={given} has no bin/nvcc that runs", cure)
    raise StepFailed(
        f"no CUDA toolkit: nvcc is not in PATH, and {usual}/cuda has no bin/nvcc that runs", cure
    )


def places(given: str | None, major: int, usual: Path) -> list[Path]:
    """Files that may be nvcc, in the order in which they are tried."""
    if given:
        return [Path(given).expanduser().absolute() / "bin" / "nvcc"]
    in_path = shutil.which("nvcc")
    numbered = sorted(usual.glob(f"cuda-{major}*/bin/nvcc"), key=_numbers, reverse=True)
    return [*([Path(in_path)] if in_path else []), usual / "cuda" / "bin" / "nvcc", *numbered]


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def look(nvcc: Path) -> Toolkit | None:
    """The toolkit that this nvcc belongs to; None when it does not run.

    nvcc may be a script that calls another one elsewhere, so it is asked where it is at home. That of a
    distribution does not say: then it is the folder above bin/.
    """
    version = re.search(r"\bV(\d+\.\d+\.\d+)", _output(nvcc, "--version"))
    if not version:
        return None
    top = re.search(r"^#\$ TOP=(.+)$", _output(nvcc, "--dryrun", "-x", "cu", os.devnull), re.MULTILINE)
    home = Path(top[1].strip()).resolve() if top else nvcc.parents[1]
    return Toolkit(home, version[1])


def _output(*command: str | Path) -> str:
    try:
        answer = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout


def try_out(step: Step, toolkit: Toolkit, compiler: str, work: Path) -> None:
    """Compile and link a small program. Raises StepFailed: a part is missing, or g++ is too new for nvcc."""
    source = work / "first.cu"
    source.write_text(PROGRAM, encoding="utf-8")
    nvcc = toolkit.home / "bin" / "nvcc"
    try:
        step.run([nvcc, "-ccbin", compiler, "--cudart", "shared", "-o", work / "first", source])
    except StepFailed as error:
        too_new = re.search(r"gcc versions later than (\d+)", error.message)
        cure = (
            "The toolkit must be complete, with its headers and libcudart.so: name another one by CUDA_HOME."
        )
        if too_new:
            older = too_new[1]
            cure = f"This nvcc takes g++ up to {older}: name an older one, `CXX=g++-{older} make setup …`."
        raise StepFailed(f"{toolkit} compiles nothing: {error.message}", cure, step.log) from None


def driver() -> tuple[int, int] | None:
    """The CUDA version that the driver here serves, as (12, 4); None where there is no driver."""
    answer = subprocess.run([sys.executable, "-c", ASK_DRIVER], capture_output=True, text=True, timeout=60)
    if answer.returncode or not answer.stdout.strip().isdigit():
        return None
    return divmod(int(answer.stdout) // 10, 100)


def check_driver(major: int) -> None:
    """Raise StepFailed where the driver is too old. None at all is no failure: login nodes have none."""
    served = driver()
    if served and 0 < served[0] < major:
        raise StepFailed(
            f"the NVIDIA driver here serves CUDA {served[0]}.{served[1]}; the pinned PyTorch needs {major}",
            f"It takes a driver from {DRIVERS[major]} on (`nvidia-smi` shows which one is here): ask the "
            "administrators for one, or set up on a machine of the kind that the jobs run on.",
        )


def foreign_libraries(path: str) -> dict[str, list[str]]:
    """Folder -> libraries of CUDA and NCCL in it, for the folders of an LD_LIBRARY_PATH."""
    here = {}
    for folder in path.split(os.pathsep):
        names = [name for name in LIBRARIES if folder and any(Path(folder).glob(f"{name}*"))]
        if names:
            here[folder] = names
    return here


def warning_of_foreign_libraries(path: str) -> str:
    """What to say of an LD_LIBRARY_PATH that names another CUDA than PyTorch's; empty when it names none."""
    here = foreign_libraries(path)
    if not here:
        return ""
    folders = "; ".join(f"{folder} with {', '.join(names)}" for folder, names in here.items())
    return (
        f"LD_LIBRARY_PATH names {folders}. PyTorch brings its own, and a job would mix the two: load no "
        "CUDA, NCCL or cuDNN module in jobs. nvcc alone is needed, and only here: CUDA_HOME=… says where"
    )

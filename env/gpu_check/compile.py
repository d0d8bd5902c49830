"""Horovod for PyTorch alone, out of a bundle: `python -m env.gpu_check.compile PLACE NOTE`.

PLACE is the environment that env.gpu_check.place made. NOTE is the file that says how far it is, for the
check that runs meanwhile: {"state": "compiling", "done" or "failed", "builds": {name: seconds}, "sentence":
why}.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from env.bundle import archive
from env.horovod import build, cuda, flavours, gpu
from env.horovod.cuda import Toolkit
from env.install import mpi
from env.install.steps import Step, StepFailed, compile_progress

CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76  # CUdevice_attribute in cuda.h
SWITCHES = {"HOROVOD_WITHOUT_TENSORFLOW": "1"}
LEFT_FREE = 4  # cores, of a machine with many, for what is checked meanwhile


def capability() -> str | None:
    """The first GPU's compute capability, as nvcc's architectures have it: "90"; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device = ctypes.c_int()
    numbers = []
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
        number = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device):
            return None
        numbers.append(str(number.value))
    return "".join(numbers)


def nccl_home(site: Path, toolkit: Toolkit) -> Path | None:
    """The folder above include/nccl.h: NCCL_HOME, PyTorch's own NCCL, CUDA's, the system's; None without."""
    given = os.environ.get("NCCL_HOME")
    usual = [site / "nvidia" / "nccl", toolkit.home, Path("/usr/local"), Path("/usr")]
    places = [Path(given)] if given else usual
    return next((place for place in places if (place / "include" / "nccl.h").exists()), None)


def library_folders(site: Path) -> list[str]:
    """Where PyTorch's libraries, and those of NVIDIA's packages, are on this very machine."""
    folders = [site / "torch" / "lib", *sorted(site.glob("nvidia/*/lib"))]
    return [str(folder) for folder in folders if folder.is_dir()]


class Compilation:
    """Compiles one flavour after the other, and keeps the note."""

    def __init__(self, place: Path, note: Path):
        self.place = place
        self.note = note
        self.builds: dict[str, float] = {}
        self.step = Step(1, 1, "Horovod", place.with_name(place.name + "-logs") / "horovod.log")

    def tell(self, state: str, sentence: str = "") -> None:
        """Write the note, whole or not at all."""
        told = {"state": state, "builds": self.builds, "sentence": sentence}
        new = self.note.with_suffix(".new")
        new.write_text(json.dumps(told) + "\n", encoding="utf-8")
        os.replace(new, self.note)

    def run(self) -> None:
        """All flavours that can be compiled here. Raises StepFailed."""
        self.tell("compiling")
        versions = build.read_versions(self.place / "bin" / "python")
        library = mpi.find(self.place, None)
        site = Path(versions["torch_site"])
        toolkit, lack = self._toolkit(versions["cuda"])
        nccl = nccl_home(site, toolkit) if toolkit else None
        if toolkit and nccl is None:
            lack = "there is no nccl.h, so that there is no build with NCCL: NCCL_HOME=… names NCCL's folder"
        for flavour in ("host", "nccl") if nccl else ("host",):
            begun = time.monotonic()
            self._compile(flavour, library, site, toolkit, str(nccl) if flavour == "nccl" else None)
            self.builds[flavour] = round(time.monotonic() - begun, 1)
            flavours.keep_only(self.place, list(self.builds))
            self.tell("compiling", lack)
        self.tell("done", lack)
        self.step.done(", ".join(f"{name} in {seconds:.0f} s" for name, seconds in self.builds.items()))

    def _toolkit(self, torch_cuda: str | None) -> tuple[Toolkit | None, str]:
        """The toolkit for this PyTorch, and why there is none."""
        if torch_cuda is None:
            return None, "this PyTorch is built without CUDA, and so is Horovod"
        try:
            return cuda.find(os.environ.get("CUDA_HOME"), int(torch_cuda.split(".")[0])), ""
        except StepFailed as error:
            return None, f"Horovod is compiled without CUDA, since {error.message}"

    def _compile(self, flavour: str, library, site: Path, toolkit: Toolkit | None, nccl: str | None) -> None:
        with tempfile.TemporaryDirectory(prefix="horovod-") as scratch:
            work = Path(scratch)
            operations = flavours.OPERATIONS[flavour]
            gpu_env, more_rpath = gpu.environment(operations, toolkit, site, work / "nccl", nccl)
            env = build.build_environment(library, self.place, gpu_env, more_rpath + library_folders(site))
            env.pop("HOROVOD_WITH_TENSORFLOW")
            architecture = capability() if toolkit else None
            if architecture:
                env["HOROVOD_BUILD_CUDA_CC_LIST"] = architecture
            source = work / "source"
            shutil.copytree(self.place / "bundle" / archive.SOURCES, source)
            python = self.place / "bin" / "python"
            wheels = self.place / "wheels" / flavour
            self.step.run(
                [python, "-m", "pip", "wheel", "-v", "--no-index", "--no-deps", "--no-build-isolation",
                 "--wheel-dir", wheels, source],
                env=env | SWITCHES, progress=compile_progress,
            )  # fmt: skip
            flavours.install(self.step, self.place, flavour, next(wheels.glob("horovod-*.whl")))


def main(place: Path, note: Path) -> int:
    """Compile, and say in the note how it went."""
    os.nice(5)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # by which it is ended
    cores = build.jobs()
    os.environ["MAKEFLAGS"] = f"-j{cores - LEFT_FREE if cores > 2 * LEFT_FREE else cores}"
    compilation = Compilation(place, note)
    try:
        compilation.run()
    except StepFailed as error:
        compilation.tell("failed", f"{error.message} (log: {error.log})" if error.log else error.message)
        return 1
    except KeyboardInterrupt:
        compilation.tell("failed", "it was stopped")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))

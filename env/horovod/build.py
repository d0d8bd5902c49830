"""Build Horovod 0.28.1 from its source distribution, or take the wheel from the cache.

The cache lies outside the checkout, so that a second checkout does not compile again. Its key
covers all that goes into the wheel. A build happens in a folder of its own that is renamed into
place at its end, and a second one that wants the same wheel waits for it: neither can spoil the
other's result.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from env.horovod import cuda, sources
from env.horovod.cuda import Toolkit
from env.horovod.flavours import OPERATIONS
from env.install import debian
from env.install.environment import pip, site_packages
from env.install.mpi import Mpi
from env.install.steps import Step

VERSION = "0.28.1+hpdl1"  # this kit's, by patches/2-launcher.patch
RELEASE = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
SWITCHES = {
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_NVTX": "1",
}
CPU_FLAGS = ("f16c", "avx", "fma")  # those that Horovod uses for half precision and sums


def cache_root() -> Path:
    """Where built wheels are kept: $XDG_CACHE_HOME/hpdl-labs/wheels, else under ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hpdl-labs" / "wheels"


def read_versions(venv: Path) -> dict[str, str | None]:
    """Versions in the environment: of Python, its packages, and of the CUDA that torch was built
    with (None for a CPU build). Nothing is imported: that takes seconds."""
    site = site_packages(venv)

    def version(name: str) -> str | None:
        found = importlib.metadata.distributions(name=name, path=[str(site)])
        return next((package.version for package in found), None)

    return {
        "python": site.parent.name.removeprefix("python"),
        "torch": version("torch"),
        "cuda": runpy.run_path(str(site / "torch" / "version.py")).get("cuda"),
        "numpy": version("numpy"),
        "tensorflow": version("tensorflow-cpu") or version("tensorflow"),
    }


def arch_flags() -> str:
    """The instruction sets, among those Horovod asks for, that this processor has, as compiler
    flags."""
    cpuinfo = Path("/proc/cpuinfo")
    flags_here = cpuinfo.read_text().split() if cpuinfo.exists() else []
    return " ".join(f"-m{flag}" for flag in CPU_FLAGS if flag in flags_here)


def compiler() -> str:
    """The first line of what the C++ compiler says of itself."""
    answer = subprocess.run([debian.compiler(), "--version"], capture_output=True, text=True)
    return answer.stdout.splitlines()[0]


def inputs(
    versions: dict[str, str | None], mpi: Mpi, gpu_settings: dict[str, str]
) -> dict[str, str]:
    """Everything that goes into the wheel, by name."""
    return {
        "sdist": SHA256,
        "sources": sources.digest(bool(versions["cuda"])),
        "python": f"cpython-{versions['python'].replace('.', '')} {versions['python']}",
        "torch": versions["torch"],
        "tensorflow": versions["tensorflow"],
        "numpy": versions["numpy"],
        "mpi": mpi.identity,
        "compiler": compiler(),
        "machine": f"{platform.machine()} {arch_flags()} {platform.libc_ver()[1]}",
        "switches": json.dumps(SWITCHES, sort_keys=True),
        "gpu": json.dumps(gpu_settings, sort_keys=True),
    }


def cache_key(parts: dict[str, str]) -> str:
    """The cache's key: a hash over all inputs."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def cached_wheel(folder: Path) -> Path | None:
    """The wheel in a cache folder, or None."""
    return next(iter(sorted(folder.glob("horovod-*.whl"))), None)


def build_environment(
    mpi: Mpi, venv: Path, gpu_env: dict[str, str], more_rpath: list[str]
) -> dict[str, str]:
    """The environment of the compilation: ours alone, no HOROVOD_ variable of the user's."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    env.update(gpu_env)
    env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    env = mpi.environment(env) | SWITCHES
    env["HOROVOD_BUILD_ARCH_FLAGS"] = arch_flags()
    frameworks = [f"{cuda.SITE}/torch/lib", f"{cuda.SITE}/tensorflow"]
    env["HOROVOD_RPATH"] = ";".join([*mpi.rpath(), *more_rpath, *frameworks])
    env["CMAKE_POLICY_VERSION_MINIMUM"] = "3.5"
    env["TF_CPP_MIN_LOG_LEVEL"] = "3"
    # `make setup` hands down flags of its own; of these only a number of jobs is meant for the
    # compilation.
    jobs_asked = re.search(r"-j ?(\d+)", env.get("MAKEFLAGS", ""))
    env["MAKEFLAGS"] = f"-j{jobs_asked[1] if jobs_asked else jobs()}"
    return env


def jobs() -> int:
    """Compilations at a time: one per usable core, and 1.5 GB of memory each."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1.5e9
    return max(1, min(len(os.sched_getaffinity(0)), int(memory)))


def fetch(step: Step, venv: Path, folder: Path) -> Path:
    """Download the source distribution with pip, its hash checked, and unpack it; return the
    folder."""
    pinned = folder / "pinned.txt"
    pinned.write_text(f"horovod=={RELEASE} --hash=sha256:{SHA256}\n", encoding="utf-8")
    source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
    step.run(
        [*pip(venv), "download", *source, "--dest", folder, "-r", pinned],
        env=dict(os.environ, HOROVOD_SKIP_COMPILE="1"),
    )
    archive = folder / f"horovod-{RELEASE}.tar.gz"
    step.run(["tar", "--no-same-owner", "-xzf", archive, "-C", folder])
    return folder / f"horovod-{RELEASE}"


def provide_wheel(
    step: Step,
    venv: Path,
    mpi: Mpi,
    flavour: str = "host",
    toolkit: Toolkit | None = None,
    nccl: str | None = None,
    before_compiling: Callable[[], None] = lambda: None,
) -> Path:
    """The wheel of this flavour for this environment, compiled where the cache has none.

    toolkit: the site's CUDA on a GPU machine. nccl: NCCL_HOME, if it is not the wheel's NCCL that
    is wanted. before_compiling: called before.
    """
    versions = read_versions(venv)
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=root) as scratch:
        work = Path(scratch)
        gpu_env, more_rpath, deciding = cuda.environment(
            OPERATIONS[flavour], toolkit, site_packages(venv), work / "nccl", nccl
        )
        parts = inputs(versions, mpi, deciding)
        place = root / cache_key(parts)
        with (root / f"{place.name}.lock").open("w") as lock:
            wait_for(lock, "set-up is building the same wheel")
            if wheel := cached_wheel(place):
                return wheel
            before_compiling()
            source = fetch(step, venv, work)
            names = sources.prepare(step, source, bool(versions["cuda"]))
            env = build_environment(mpi, venv, gpu_env, more_rpath)
            wheel = [*pip(venv), "wheel", "-v", "--no-deps", "--no-build-isolation", "--wheel-dir"]
            step.run([*wheel, work / "out", source], env=env)
            story = json.dumps(parts | {"patches": names}, indent=1)
            (work / "out" / "built-from.json").write_text(story, encoding="utf-8")
            shutil.rmtree(place, ignore_errors=True)
            os.replace(work / "out", place)
    return cached_wheel(place)


def wait_for(lock, other: str) -> None:
    """Take the lock; say which other process is waited for, where one has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"      another {other}; waiting for it", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)

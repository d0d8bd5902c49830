"""The GPU set-up, on a machine without a GPU: `python -m tests.figures.gpu_build [FOLDER]`.

In a copy of this checkout it does what `make setup GPU_OPERATIONS="NCCL MPI"` does: resolves and fetches the
packages, compiles and links Horovod's three builds, imports them, and lets two ranks add up CPU tensors with
each. Then it looks into what was made, and prints versions, sizes, times and links. It needs the network
(5 GB), 25 GB of disk, nvcc of CUDA 12 (CUDA_HOME, PATH or /usr/local), and half an hour on 2 cores. FOLDER is
kept; without it a folder is made in TMPDIR and removed.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from env.install import environment

ROOT = Path(__file__).resolve().parents[2]
NOT_COPIED = (".venv", ".git", ".labkit", "report", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis")
OPERATIONS = "NCCL MPI"
TOLD = ("torch", "tensorflow", "keras", "numpy", "protobuf", "triton", "mpich", "mpi4py")
SINGLE = ("libcudart", "libnccl", "libmpi")  # of these no extension may hold or find two


def output(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command says. Raises CalledProcessError."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout


def copy(folder: Path) -> Path:
    """A copy of this checkout below that folder."""
    kit = folder / "kit"
    shutil.rmtree(kit, ignore_errors=True)
    shutil.copytree(ROOT, kit, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return kit


def set_up(kit: Path, *settings: str) -> list[str]:
    """`make setup` there, shown as it goes; what it printed. Ends this program when it fails."""
    env = dict(os.environ, XDG_CACHE_HOME=str(kit.parent / "cache"))  # nothing compiled, nothing fetched yet
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "GPU_OPERATIONS", "MAKEFLAGS"):
        env.pop(name, None)
    command = ["make", "--no-print-directory", "setup", *settings]
    print("$ " + " ".join(f'"{word}"' if " " in word else word for word in command), flush=True)
    lines = []
    with subprocess.Popen(
        command, cwd=kit, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        sys.exit(f"The set-up failed. Its logs: {kit / '.venv' / 'setup-logs'}")
    return lines


def size(folder: Path) -> int:
    """Bytes on the disk."""
    return int(output("du", "-s", "--block-size=1", folder).split()[0])


def machine() -> str:
    """Where this was done, in a line."""
    system = re.search(r'PRETTY_NAME="(.+)"', Path("/etc/os-release").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "a GPU" if Path("/dev/nvidia0").exists() else "no GPU"
    compiler = output("c++", "--version").splitlines()[0]
    cores = len(os.sched_getaffinity(0))
    name = system[1] if system else platform.platform()
    return f"{name}, {cores} cores, {memory:.0f} GiB, {compiler}, {gpu}"


def packages(kit: Path) -> None:
    """Versions of what matters, what was fetched, and whether pip is content."""
    python = kit / ".venv" / "bin" / "python"
    listed = json.loads(output(python, "-m", "pip", "list", "--format=json"))
    versions = {package["name"]: package["version"] for package in listed}
    told = [name for name in versions if name in TOLD or re.match(r"(nvidia-(?!ml)|cuda-)", name)]
    print("\nPackages: " + ", ".join(f"{name} {versions[name]}" for name in sorted(told)))
    print("pip check: " + output(python, "-m", "pip", "check").strip())
    log = (kit / ".venv" / "setup-logs" / "03-packages.log").read_text(encoding="utf-8")
    fetched = re.findall(r"Downloading \S+ \(([\d.]+) ([kMG])B\)", log)
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    print(f"Fetched: {sum(float(number) * units[unit] for number, unit in fetched) / 1e9:.2f} GB")


def sizes(kit: Path, folders: dict[str, Path]) -> None:
    """What the environment takes."""
    site = folders["host"]
    parts = {"environment": kit / ".venv", "nvidia": site / "nvidia", "torch": site / "torch"}
    parts |= {"tensorflow": site / "tensorflow", "Horovod host": site / "horovod"}
    parts |= {f"Horovod {name}": place for name, place in folders.items() if name != "host"}
    print("Sizes: " + ", ".join(f"{name} {size(place) / 1e9:.3g} GB" for name, place in parts.items()))


def extensions(folders: dict[str, Path]) -> None:
    """For each extension: the libraries that it names, of those that must be single, and CUDA's within it."""
    print("\n| build | extension | needs | CUDA symbols: wanted, held |\n|---|---|---|---|")
    run_paths = {}
    for name, folder in folders.items():
        for framework in ("torch", "tensorflow"):
            file = next((folder / "horovod" / framework).glob("mpi_lib*.so"))
            dynamic = output("readelf", "-d", file)
            needed = re.findall(r"Shared library: \[(.+?)\]", dynamic)
            needed = [library for library in needed if library.startswith(SINGLE)]
            run_paths[f"{name}, {framework}"] = re.search(r"runpath: \[(.+)\]", dynamic)[1]
            symbols = output("nm", "--format=posix", "-D", file).splitlines()
            symbols = [line.split()[:2] for line in symbols if re.match(r"_{0,2}cuda[A-Z]", line)]
            wanted = sum(kind == "U" for _, kind in symbols)
            held = len(symbols) - wanted
            print(f"| {name} | {framework} | {', '.join(needed)} | {wanted}, {held} |")
    print()
    for path in sorted(set(run_paths.values())):
        names = "; ".join(name for name, other in run_paths.items() if other == path)
        print(f"Run path of {names}: {path}")


def ranks(stamp: dict) -> None:
    """What the ranks of the set-up's verification answered."""
    print("\n| ranks | build | with | over | sum | nccl_built | MPI, CUDA runtime, NCCL | GPU tensor |")
    print("|---|---|---|---|---|---|---|---|")
    for answer in stamp["verified"]:
        libraries = answer["libraries"]
        loaded = [" ".join(Path(file).name for file in files) or "none" for files in libraries.values()]
        over = answer["by"] if answer["what"] != "mpi4py" else "MPI"
        print(
            f"| {answer['size']} | {answer['flavour']} | {answer['what']} | {over} | {answer['sum']} | "
            f"{answer.get('nccl_built', '')} | {', '.join(loaded)} | "
            f"{answer.get('gpu_sum', answer.get('gpu', ''))} |"
        )


def times(stamp: dict) -> None:
    """Minutes of each step, and of each build."""
    steps = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in stamp["seconds_by_step"].items())
    builds = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in stamp["seconds_by_build"].items())
    print(f"\nMinutes: {stamp['seconds'] / 60:.1f} in all: {steps}. Builds: {builds}")


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    kept = Path(arguments[0]).absolute() if arguments else None
    folder = kept or Path(tempfile.mkdtemp(prefix="gpu-build-"))
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.strftime("%Y-%m-%d")
    try:
        kit = copy(folder)
        given = [f"{name}={os.environ[name]}" for name in environment.SETTINGS if os.environ.get(name)]
        given = [setting for setting in given if not setting.startswith("GPU_OPERATIONS=")]
        set_up(kit, f"GPU_OPERATIONS={OPERATIONS}", *given)
        again = set_up(kit)  # without a setting: they are kept
        if not any(line.startswith("already set up") for line in again):
            sys.exit("A second `make setup`, without settings, did not find the first one's environment.")
        stamp = json.loads((kit / ".venv" / "setup-stamp.json").read_text(encoding="utf-8"))
        listed = json.loads((kit / ".venv" / "horovod-builds.json").read_text(encoding="utf-8"))
        folders = {name: kit / ".venv" / place for name, place in listed["folders"].items()}
        print(f"\n{begun}: {machine()}; {stamp['cuda']}; Python {stamp['versions']['python']}")
        packages(kit)
        sizes(kit, folders)
        times(stamp)
        extensions(folders)
        ranks(stamp)
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

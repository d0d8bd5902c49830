"""Rewrite requirements.txt and requirements-gpu.txt: `python env/lock.py [FILE]`. It asks pip and
installs nothing.

requirements.txt is made from requirements.in. For requirements-gpu.txt, the lines of requirements-gpu.in
stand in for those of the same package; all else keeps the version that requirements.txt has, where that fits.
One file serves Python 3.10 to 3.13: where they need different versions a line carries a marker.
torch's own CUDA packages are left to torch, which names them exactly.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
LEFT_TO_TORCH = re.compile(r"nvidia-(?!ml-py)|triton|cuda-")
INSTEAD_OF = {"tensorflow": "tensorflow-cpu"}  # on a GPU machine: another package with the same files
HEAD = (
    "# Every package of the environment with its exact version, direct and indirect: written by env/lock.py\n"
    "# from {source}, which says why each direct one is here. Do not edit by hand.\n"
)


def normal(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(lines: str) -> dict[str, str]:
    """Name -> requirement, of the lines of a requirements file."""
    wishes = [line.split("#")[0].strip() for line in lines.splitlines()]
    return {normal(re.match(r"[\w.-]+", wish)[0]): wish for wish in wishes if wish}


def wishes(gpu: bool) -> dict[str, str]:
    """What the kit asks for by name, on a GPU machine or on another."""
    common = direct((HERE / "requirements.in").read_text(encoding="utf-8"))
    if not gpu:
        return common
    own = direct((HERE / "requirements-gpu.in").read_text(encoding="utf-8"))
    replaced = {INSTEAD_OF.get(name, name) for name in own}
    return {name: wish for name, wish in common.items() if name not in replaced} | own


def resolve(python: str, requirements: dict[str, str], constraints: str) -> dict[str, str]:
    """Ask that Python's pip what it would install: name -> version, with a local part such as +cpu.

    The real interpreter is needed: pip judges markers such as `python_version < "3.11"` by its own.
    """
    interpreter = shutil.which(f"python{python}")
    if interpreter is None:
        raise SystemExit(f"python{python} is not in PATH; the lock serves Python {', '.join(PYTHONS)}.")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = Path(folder) / "wanted.txt"
        kept = Path(folder) / "kept.txt"
        wanted.write_text("\n".join(requirements.values()) + "\n", encoding="utf-8")
        kept.write_text(constraints, encoding="utf-8")
        command = [interpreter, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
        command += ["--only-binary=:all:", "--report", str(report), "-r", str(wanted), "-c", str(kept)]
        subprocess.run(command, check=True)
        packages = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    return {normal(each["name"]): each["version"] for each in packages}


def lockable(versions: dict[str, str], asked: dict[str, str]) -> dict[str, str]:
    """The versions that a lock holds: without local parts, and without what is left to torch."""
    return {
        name: version.split("+")[0]
        for name, version in versions.items()
        if name in asked or not LEFT_TO_TORCH.match(name)
    }


def merged(by_python: dict[str, dict[str, str]], source: str) -> str:
    """The lock's text: one line for a version that serves every Python, else a line for each version."""
    versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for python, packages in by_python.items():
        for name, version in packages.items():
            versions[name][version].append(python)
    lines = []
    for name in sorted(versions):
        for version, pythons in versions[name].items():
            marker = " or ".join(f'python_version == "{python}"' for python in pythons)
            lines.append(f"{name}=={version}" + ("" if len(pythons) == len(by_python) else f" ; {marker}"))
    return HEAD.format(source=source) + "\n".join(lines) + "\n"


def resolve_or_begin_anew(python: str, requirements: dict[str, str], kept: str) -> dict[str, str]:
    """`resolve`; where the kept versions do not fit, without them. Raises CalledProcessError."""
    try:
        return resolve(python, requirements, kept)
    except subprocess.CalledProcessError:
        if not kept:
            raise
        print(f"Python {python}: the kept versions do not fit, taking what pip chooses")
        return resolve(python, requirements, "")


def check_cuda(python: str, versions: dict[str, str]) -> None:
    """See that this is PyTorch with the CUDA that requirements-gpu.in means, or stop with a sentence."""
    compiler = next(name for name in versions if name.startswith("nvidia-cuda-nvcc-cu"))
    runtime = compiler.replace("nvcc", "runtime")
    if runtime not in versions:
        raise SystemExit(
            f"Python {python}: torch {versions['torch']} comes without {runtime}. pip must see PyPI alone: "
            "PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= python env/lock.py"
        )
    if versions[runtime].rsplit(".", 1)[0] != versions[compiler].rsplit(".", 1)[0]:
        print(f"Python {python}: {compiler} {versions[compiler]} beside CUDA's runtime {versions[runtime]}")


def write(name: str, gpu: bool, kept: str) -> str:
    """Resolve for every Python and write the lock; return its text."""
    asked = wishes(gpu)
    locked = {}
    for python in PYTHONS:
        versions = resolve_or_begin_anew(python, asked, kept)
        if gpu:
            check_cuda(python, versions)
        locked[python] = lockable(versions, asked)
    text = merged(locked, "requirements.in" + (" and requirements-gpu.in" if gpu else ""))
    (HERE / name).write_text(text, encoding="utf-8")
    print(f"wrote {HERE / name}")
    return text


def main(arguments: list[str]) -> int:
    """Write the locks. `arguments` may name a file of versions to keep where they fit: a `pip freeze`."""
    kept = Path(arguments[0]).read_text(encoding="utf-8") if arguments else ""
    try:
        processors = write("requirements.txt", gpu=False, kept=kept)
        own = direct((HERE / "requirements-gpu.in").read_text(encoding="utf-8"))
        lines = [line for line in processors.splitlines() if line.split("==")[0] not in own]
        write("requirements-gpu.txt", gpu=True, kept="\n".join(lines) + "\n")
    except subprocess.CalledProcessError:
        print("pip finds no set of versions, see above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Rewrite requirements.txt from requirements.in: `python env/lock.py [FILE]` (asks pip, installs nothing).

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
HEAD = (
    "# Every package of the environment with its exact version, direct and indirect: written by env/lock.py\n"
    "# from requirements.in, which says why each direct one is here. Do not edit by hand.\n"
)


def resolve(python: str, constraints: Path | None) -> dict[str, str]:
    """Ask that Python's pip what it would install: name -> version (without a local part such as +cpu).

    The real interpreter is needed: pip judges markers such as `python_version < "3.11"` by its own.
    """
    interpreter = shutil.which(f"python{python}")
    if interpreter is None:
        raise SystemExit(f"python{python} is not in PATH; the lock serves Python {', '.join(PYTHONS)}.")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [interpreter, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
        command += ["--only-binary=:all:", "--report", str(report), "-r", str(HERE / "requirements.in")]
        command += ["-c", str(constraints)] if constraints else []
        subprocess.run(command, check=True)
        packages = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    versions = {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in packages}
    return {name: number.split("+")[0] for name, number in versions.items() if not LEFT_TO_TORCH.match(name)}


def merged(by_python: dict[str, dict[str, str]]) -> str:
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
    return HEAD + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the lock. `arguments` may name a file of versions to keep where they fit: a `pip freeze`."""
    kept = Path(arguments[0]) if arguments else None
    locked = {}
    for python in PYTHONS:
        try:
            locked[python] = resolve(python, kept)
        except subprocess.CalledProcessError:
            if kept is None:
                print(f"Python {python}: pip finds no set of versions, see above", file=sys.stderr)
                return 1
            print(f"Python {python}: the kept versions do not fit, taking what pip chooses")
            locked[python] = resolve(python, None)
    (HERE / "requirements.txt").write_text(merged(locked), encoding="utf-8")
    print(f"wrote {HERE / 'requirements.txt'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

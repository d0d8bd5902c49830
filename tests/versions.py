"""The tests with other versions, before a release: `python3 -m tests.versions WHICH FOLDER`.

WHICH: `gpu` (the versions that a GPU machine gets, without a GPU), `oldest` and `newest` (Python
3.10 and 3.13, found as python3.10 and python3.13 on PATH; newest also takes the newest packages
that fit, for which it needs uv), `openmpi` (Debian's openmpi-bin and libopenmpi-dev in place of
MPICH; the labs that start ranks by mpiexec).

A fresh clone of this checkout in FOLDER is set up for it and runs `make test`, or the goals that
--goals names. Printed are the commands, their seconds and last lines: what docs/TESTED.md says.
Status 1 if one of them fails; the others run nevertheless.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {
    "gpu": {},
    "oldest": {"PYTHON": "python3.10"},
    "newest": {"PYTHON": "python3.13"},
    "openmpi": {"MPI_HOME": "/usr"},
}
GOALS = {
    # Open MPI refuses root, and more ranks than cores, unless it is told otherwise.
    "openmpi": ["run LAB=20 NP=4 SOLVED=1", "run LAB=21 NP=4 SOLVED=1", "run LAB=40 NP=2 SOLVED=1"],
}
# These look at the lock itself, which a clone for `gpu` has changed.
OF_THE_LOCK = {"gpu": {"PYTEST_ADDOPTS": "--deselect tests/env/test_install.py"}}
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def pin_like_gpu(lock: str, gpu: str) -> str:
    """The lock with PyTorch's and TensorFlow's versions of requirements-gpu.in, built for CPUs."""
    pins = dict(re.findall(r"^(torch|tensorflow)==([\d.]+)", gpu, re.MULTILINE))
    for name, package in (("torch", "torch"), ("tensorflow", "tensorflow-cpu")):
        lock, count = re.subn(
            rf"^{package}==\S+", f"{package}=={pins[name]}", lock, flags=re.MULTILINE
        )
        if not count:
            raise SystemExit(f"requirements.txt has no line {package}==…")
    return lock


def _prepare(which: str, clone: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    env = clone / "env"
    if which == "gpu":
        lock = env / "requirements.txt"
        lock.write_text(pin_like_gpu(lock.read_text(), (env / "requirements-gpu.in").read_text()))
    if which == "newest":
        subprocess.run(["sh", "env/lock.sh", "--upgrade"], cwd=clone, check=True)


def _make(goal: str, clone: Path, which: str) -> bool:
    print(f"make {goal}", flush=True)
    begin = time.monotonic()
    done = subprocess.run(
        ["make", *goal.split()],
        cwd=clone,
        env={**os.environ, **ROOT_MAY, **OF_THE_LOCK.get(which, {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = clone / f"{goal.split()[0]}.log"
    with log.open("a", encoding="utf-8") as file:
        file.write(done.stdout)
    last = [line for line in done.stdout.splitlines() if re.search(r"passed|failed|✗|Error", line)]
    print(f"  status {done.returncode}, {time.monotonic() - begin:.0f} s; {log}")
    print("".join(f"  {line}\n" for line in last[-3:]), end="", flush=True)
    return done.returncode == 0


def main() -> int:
    """Set up, then each goal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=SETTINGS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--goals", nargs="*", help="such as test-fast; `run LAB=40 NP=2` in quotes")
    options = parser.parse_args()
    clone = options.folder.resolve() / options.which
    _prepare(options.which, clone)
    settings = " ".join(f"{name}={value}" for name, value in SETTINGS[options.which].items())
    if not _make(f"setup {settings}", clone, options.which):
        return 1
    goals = options.goals or GOALS.get(options.which, ["test"])
    passed = [_make(goal, clone, options.which) for goal in goals]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())

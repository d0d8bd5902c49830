"""Run Horovod's own tests on two ranks of this environment's Horovod, and print a table.

    HOROVOD_SOURCE=/path/to/a/clone/of/horovod .venv/bin/python -m env.horovod.own_tests [FILE …]

The clone must have the tag v0.28.1; its tests are copied to a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FILES = ("test_tensorflow2_keras.py", "test_tensorflow.py", "test_torch.py")
NEEDED = ("mock", "parameterized")  # what Horovod's tests import and this kit does not have
LIMIT = 1800  # seconds for one file
BINARIES = Path(sys.executable).parent


def unpack(source: str, folder: Path) -> None:
    """Copy the tests of v0.28.1 out of the clone."""
    command = ["git", "-C", source, "archive", "v0.28.1", "test"]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if archive.returncode:
        sys.exit(f"HOROVOD_SOURCE={source} is no git clone of Horovod with the tag v0.28.1.")
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)


def run(file: str, folder: Path) -> list[Path]:
    """Run one test file on two ranks; return the ranks' reports."""
    script = (
        f'exec "{sys.executable}" -m pytest -q -p no:cacheprovider --rootdir "{folder}" '
        f'--junitxml="{folder}/{file}.$PMI_RANK.xml" {file} > "{folder}/{file}.$PMI_RANK.log" 2>&1'
    )
    command = [str(BINARIES / "mpiexec"), "-n", "2", "sh", "-c", script]
    env = dict(os.environ, PYTHONPATH=str(folder / "needed"), TF_CPP_MIN_LOG_LEVEL="3", OMP_NUM_THREADS="1")
    subprocess.run(command, cwd=folder / "test" / "parallel", env=env, timeout=LIMIT, check=False)
    return [folder / f"{file}.{rank}.xml" for rank in range(2)]


def outcome(reports: list[Path]) -> tuple[int, int, dict[str, str]]:
    """Numbers of passed and skipped tests on rank 0, and {failing test: what it said} over both ranks."""
    failed: dict[str, str] = {}
    passed, skipped = set(), set()
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("name").split(" ")[0]
            failures = [child for child in case if child.tag in ("failure", "error")]
            if failures:
                failed[name] = (failures[0].get("message") or "").splitlines()[0][:120]
            elif case.find("skipped") is not None:
                skipped.add(name)
            else:
                passed.add(name)
    return len(passed - set(failed)), len(skipped - set(failed)), failed


def main(files: list[str]) -> int:
    """Run the files and print what came of them. Returns 1 when a test failed."""
    source = os.environ.get("HOROVOD_SOURCE")
    if not source:
        sys.exit("Set HOROVOD_SOURCE to a git clone of Horovod that has the tag v0.28.1.")
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        unpack(source, folder)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "needed")]
        subprocess.run([*pip, *NEEDED], check=True)
        print("| file | passed | failed | skipped |\n|---|---|---|---|", flush=True)
        for file in files or FILES:
            passed, skipped, failed = outcome(run(file, folder))
            print(f"| `{file}` | {passed} | {len(failed)} | {skipped} |", flush=True)
            failures.update(failed)
    for name, message in sorted(failures.items()):
        print(f"- `{name}`: {message}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

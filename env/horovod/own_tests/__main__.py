"""Run Horovod's own tests against the Horovod of this environment and print a table.

    HOROVOD_SOURCE=/path/to/a/clone/of/horovod .venv/bin/python -m env.horovod.own_tests [--modern] [FILE …]
    HOROVOD_SOURCE=/path/to/a/clone/of/horovod .venv/bin/python -m env.horovod.own_tests --runner [FILE …]

The clone must have the tag v0.28.1; its tests are copied to a temporary folder. Those of operations run on
two ranks; with --modern, calls of APIs that TensorFlow, Keras and PyTorch removed are first put in today's
words (edits.py says how). With --runner it is those of the launcher, of elastic jobs and of the services: one
process each, which starts what it needs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from env.horovod.own_tests.edits import MODERN

FILES = ("test_tensorflow2_keras.py", "test_tensorflow.py", "test_torch.py")
RUNNER = (
    "single/test_elastic_discovery.py",
    "single/test_elastic_driver.py",
    "single/test_elastic_run.py",
    "single/test_torch_elastic.py",
    "single/test_service.py",
    "single/test_task_service.py",
    "single/test_run.py",
    "integration/test_elastic_torch.py",
)
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


def environment(folder: Path) -> dict[str, str]:
    """What the tests need to find."""
    env = dict(os.environ, PYTHONPATH=str(folder / "needed"), TF_CPP_MIN_LOG_LEVEL="3", OMP_NUM_THREADS="1")
    env["PATH"] = f"{BINARIES}{os.pathsep}{env['PATH']}"
    return env


def run(file: str, folder: Path) -> list[Path]:
    """Run one test file on two ranks; return the ranks' reports."""
    script = (
        f'exec "{sys.executable}" -m pytest -q -p no:cacheprovider --rootdir "{folder}" '
        f'--junitxml="{folder}/{file}.$PMI_RANK.xml" {file} > "{folder}/{file}.$PMI_RANK.log" 2>&1'
    )
    command = [str(BINARIES / "mpiexec"), "-n", "2", "sh", "-c", script]
    env = environment(folder)
    subprocess.run(command, cwd=folder / "test" / "parallel", env=env, timeout=LIMIT, check=False)
    return [folder / f"{file}.{rank}.xml" for rank in range(2)]


def run_alone(file: str, folder: Path) -> list[Path]:
    """Run one test file in one process, which starts others; return its report."""
    kind, name = file.split("/")
    env = environment(folder)
    env["PYTHONPATH"] += f"{os.pathsep}{folder / 'test' / 'utils'}"
    report = folder / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    with (folder / f"{name}.log").open("w") as log:
        command += [f"--junitxml={report}", name]
        cwd = folder / "test" / kind
        subprocess.run(command, cwd=cwd, env=env, stdout=log, stderr=log, timeout=LIMIT, check=False)
    return [report]


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


def main() -> int:
    """The command line: 1 when a test failed."""
    parser = argparse.ArgumentParser(prog="env.horovod.own_tests", description="Horovod's own tests")
    parser.add_argument("--modern", action="store_true", help="put removed APIs in today's words first")
    parser.add_argument("--runner", action="store_true", help="those of the launcher and of elastic jobs")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    source = os.environ.get("HOROVOD_SOURCE")
    if not source:
        sys.exit("Set HOROVOD_SOURCE to a git clone of Horovod that has the tag v0.28.1.")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        unpack(source, folder)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "needed")]
        subprocess.run([*pip, *NEEDED], check=True)
        for edit in MODERN if options.modern else ():
            edit.apply(folder)
        print("| file | passed | failed | skipped |\n|---|---|---|---|", flush=True)
        failures = {}
        for file in options.files or (RUNNER if options.runner else FILES):
            passed, skipped, failed = outcome((run_alone if options.runner else run)(file, folder))
            print(f"| `{file}` | {passed} | {len(failed)} | {skipped} |", flush=True)
            failures.update(failed)
    for name, message in sorted(failures.items()):
        print(f"- `{name}`: {message}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())

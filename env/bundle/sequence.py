"""`make gpu-bundle`: the steps, in order."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from env.bundle import archive, contents, wheels
from env.horovod import build, sources
from env.install.environment import ROOT
from env.install.steps import Step, StepFailed

OUT = ROOT / "build" / "gpu-bundle"
TITLES = ("Packages", "Horovod's sources", "One file")


def write(out: Path, python: str, without: list[str], work: Path) -> dict:
    """Write the bundle; what its manifest says. Raises StepFailed."""
    logs = out.parent / f"{out.name}-logs"
    fetched = work / "fetched"
    packed = work / "packed"
    (packed / archive.WHEELS).mkdir(parents=True)

    step = Step(1, len(TITLES), TITLES[0], logs / "packages.log")
    fetcher = wheels.Fetcher(step, python, fetched)
    pins = contents.complete(python, without, fetcher.requirements_of)
    fetcher.fetch(["pip"])  # a machine's Python may have none, or too old a one
    step.done(f"{len(pins) + 1} wheels for Python {python}")

    step = Step(2, len(TITLES), TITLES[1], logs / "horovod.log")
    folder = build.fetch(step, Path(sys.executable), work)
    patches = sources.prepare(step, folder, cuda_torch=True)
    shutil.move(folder, packed / archive.SOURCES)
    step.done(f"{build.VERSION} with {len(patches)} patches")

    step = Step(3, len(TITLES), TITLES[2], logs / "file.log")
    for wheel in sorted(fetched.glob("*.whl")):
        archive.store(wheel, packed / archive.WHEELS)
    out.mkdir(parents=True, exist_ok=True)
    file = out / archive.FILE
    archive.pack(packed, file)
    told = {
        "python": python,
        "without": without,
        "expected": contents.expected(python, without),
        "wheels": sorted(wheel.name for wheel in fetched.glob("*.whl")),
        "horovod": build.VERSION,
        "bytes": file.stat().st_size,
        "sha256": archive.digest(file),
    }
    (out / archive.MANIFEST).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    step.done(f"{told['bytes'] / 2**20:.1f} MiB in {shown(out)}")
    return told


def shown(path: Path) -> str:
    """A path as one types it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="env.bundle", description=__doc__)
    parser.add_argument("--python", default=wheels.own_version(), help="of the GPU machine, such as 3.12")
    parser.add_argument(
        "--without", default=" ".join(contents.WITHOUT), help="packages that the GPU machine has"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write")
    options = parser.parse_args(arguments)
    without = options.without.replace(",", " ").split()
    try:
        python = wheels.check_python(options.python)
        with tempfile.TemporaryDirectory(prefix="gpu-bundle-") as work:
            told = write(options.out.absolute(), python, without, Path(work))
    except StepFailed as error:
        print(f"\ngpu-bundle: {error.message}", file=sys.stderr)
        if error.cure:
            print(f"  cure: {error.cure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ngpu-bundle: interrupted", file=sys.stderr)
        return 130
    expects = f"{', '.join(told['expected'])}, a C++ compiler, make, and nvcc"
    print(f"The GPU machine must have Python {python}, {expects}. There: make gpu-check BUNDLE=FOLDER")
    return 0

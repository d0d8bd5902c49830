"""A virtual environment out of a bundle, without a network, on top of the Python that has PyTorch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from env.bundle import archive
from env.install.environment import ROOT
from env.install.steps import Step, StepFailed, pip_progress

PLACE = ROOT / "build" / "gpu-venv"
NOTE = "from-bundle.json"  # in the environment: of which bundle it was made
ASK = "import importlib.util, sys; print('%d.%d' % sys.version_info[:2], importlib.util.find_spec('torch'))"
# Packages of the Python below, in the order in which it looks for them.
ASK_PATH = "import json, sys; print(json.dumps([path for path in sys.path if path.endswith('-packages')]))"
ASK_MISSING = """
import importlib.metadata, sys
def lacks(name):
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return True
print(*filter(lacks, sys.argv[1:]))
"""


def _says(python: str | Path, program: str, *arguments: str) -> str:
    """What a small program prints on that Python; "" where it does not run."""
    try:
        answer = subprocess.run(
            [python, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def find_python(version: str) -> str:
    """The Python of that version that has PyTorch: PYTHON, else one in the path. Raises StepFailed.

    Not the first that is there: a machine's PyTorch may be in an environment of its own.
    """
    wished = os.environ.get("PYTHON")
    names = [wished] if wished else ["python3", "python", f"python{version}"]
    seen = []
    for name in names:
        path = shutil.which(name)
        told = _says(path, ASK).split(maxsplit=1) if path else []
        if len(told) == 2 and told[0] == version and told[1] != "None":
            return path
        if len(told) == 2:
            lack = "has no PyTorch" if told[1] == "None" else "has PyTorch"
            seen.append(f"{name} is Python {told[0]} and {lack}")
    raise StepFailed(
        f"no Python {version} with PyTorch ({'; '.join(seen) or 'none of ' + ', '.join(names) + ' runs'})",
        f"The bundle is for Python {version}: PYTHON=/path/to/python{version} names one that has PyTorch, or "
        "`make gpu-bundle PYTHON=…`, on a machine with a network, makes a bundle for another.",
    )


def provide(folder: Path, place: Path = PLACE) -> Path:
    """The environment's Python; made, if it is not there from this very bundle. Raises StepFailed."""
    told = archive.manifest(folder)
    note = place / NOTE
    python = place / "bin" / "python"
    if note.exists() and json.loads(note.read_text(encoding="utf-8")) == told["sha256"]:
        print(f"the environment is there: {place}")
        return python
    step = Step(1, 1, "Environment from the bundle", place.with_name(place.name + "-logs") / "place.log")
    below = find_python(told["python"])
    shutil.rmtree(place, ignore_errors=True)
    # Without pip: not every Python can put one there. The bundle has it.
    step.run([below, "-m", "venv", "--without-pip", "--system-site-packages", place])
    site = next(place.glob("lib/python3.*/site-packages"))
    _look_below(site, below)
    archive.unpack(folder, place / "bundle")
    wheels = sorted((place / "bundle" / archive.WHEELS).glob("*.whl"))
    pip = next(wheel for wheel in wheels if wheel.name.startswith("pip-"))
    command = [python, pip / "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    own = ["--ignore-installed", "--no-compile", "--no-input", "--root-user-action=ignore"]
    step.run([*command, *own, *wheels], progress=pip_progress)
    missing = _says(python, ASK_MISSING, *told["expected"])
    if missing:
        raise StepFailed(
            f"the Python at {below} lacks {', '.join(missing.split())}, and the bundle leaves them to it",
            f'Make the bundle anew, WITHOUT fewer: make gpu-bundle WITHOUT="{_fewer(told, missing)}".',
        )
    step.run([python, "-m", "ipykernel", "install", "--prefix", place, "--name", "python3"])
    note.write_text(json.dumps(told["sha256"]) + "\n", encoding="utf-8")
    step.done(f"{len(wheels)} packages on top of {below}")
    return python


def _fewer(told: dict, missing: str) -> str:
    return " ".join(name for name in told["without"] if name not in missing.split())


def _look_below(site: Path, below: str) -> None:
    """Let the environment find the packages of the Python below it, and labkit.

    Of a Python that is an environment itself, --system-site-packages would reach those further below only.
    """
    folders = json.loads(_says(below, ASK_PATH) or "[]")
    lines = [f"import site; site.addsitedir({folder!r})" for folder in folders]
    (site / "below.pth").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (site / "labkit.pth").write_text(f"{ROOT / 'labs'}\n", encoding="utf-8")


if __name__ == "__main__":
    print(provide(Path(sys.argv[1])))

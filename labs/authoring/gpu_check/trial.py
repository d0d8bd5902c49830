"""The tests marked gpu, by pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

from labkit import launch

MARK = "pytest.mark.gpu"
PATIENCE = 15.0  # seconds that pytest and its ranks get to end when they are told to


@dataclass
class Tried:
    """What came of the tests. failed, skipped: name -> why. sentence: why they did not come to their end."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    sentence: str = ""
    cut: bool = False


def files(root: Path) -> list[Path]:
    """The files that hold tests marked gpu: the others need not be imported here."""
    marked = (path for path in sorted((root / "tests").rglob("test_*.py")) if MARK in path.read_text("utf-8"))
    # A test of this very check names the mark, and has none of its own to run here.
    return [path for path in marked if "gpu_check" not in path.name]


def run(root: Path, out: Path, limit: float) -> Tried:
    """Run them, at most `limit` seconds; their log is out/tests.log."""
    told = out / "tests.xml"
    told.unlink(missing_ok=True)
    names = [str(path.relative_to(root)) for path in files(root)]
    quiet = ["-q", "-p", "no:cacheprovider", f"--junitxml={told}"]
    with open(out / "tests.log", "w") as log:
        ended = launch.run_to_end(
            [sys.executable, "-m", "pytest", "-m", "gpu", *quiet, *names],
            patience=PATIENCE,
            timeout=limit,
            cwd=root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "labs"), *_python_path()])},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if ended.cause in ("SIGINT", "SIGTERM"):
        raise KeyboardInterrupt
    tried = read(told)
    if ended.cause == "timeout":
        tried.cut = True
        tried.sentence = f"They were ended after the {limit:.0f} s that they had."
    elif not told.exists() or ended.status not in (0, 1):
        tried.sentence = f"pytest ended with status {ended.status}: {_last_line(out / 'tests.log')}"
        if not tried.failed:
            tried.failed["pytest"] = tried.sentence
    return tried


def read(told: Path) -> Tried:
    """The results in pytest's XML file; none where there is no file."""
    tried = Tried()
    if not told.exists():
        return tried
    for case in xml.parse(told).iter("testcase"):
        name = case.get("name", "")
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if problem is not None:
            tried.failed[name] = _first_line(problem.get("message", ""))
        elif skipped is not None:
            tried.skipped[name] = _first_line(skipped.get("message", ""))
        else:
            tried.passed.append(name)
    return tried


def _python_path() -> list[str]:
    return list(filter(None, [os.environ.get("PYTHONPATH", "")]))


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"

"""Runs one lab of the tour as a process, watches it, and ends it with everything it started."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from labkit.errors import LabError

from authoring import generate
from authoring.tour import html

RAN, FAILED, SKIPPED = "ran", "failed", "skipped"
_POLL = 0.25  # seconds


@dataclass
class Outcome:
    """How a lab went. `seconds`: from starting its process to its page; `minutes`: its header's promise."""

    stem: str
    title: str
    status: str
    sentence: str = ""
    seconds: float = 0.0
    minutes: int = 0
    ranks: int = 1
    needs: tuple[str, ...] = ()

    def plain(self) -> dict:
        """For tour.json."""
        return {**asdict(self), "seconds": round(self.seconds, 1)}


def small_parameters(root: Path, stem: str) -> dict:
    """The parameters of test runs: SMALL in tests/labs/wrong_answers/STEM.py; {} where there are none."""
    path = root / "tests/labs/wrong_answers" / f"{stem}.py"
    if not path.exists():
        return {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SMALL":
            if isinstance(node.value, ast.Call):
                return {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.value.keywords}
            return ast.literal_eval(node.value)
    return {}


def run(
    root: Path, out: Path, stem: str, small: bool, lacks: str, tick: Callable[[int, int], None]
) -> Outcome:
    """Execute the solved lab `stem`, freshly generated from its source; its files go into `out`.

    tick(done, cells) is called a few times a second. A lab that takes longer than its header says is ended.
    lacks: what this machine lacks for the lab; if not "", the lab is skipped.
    """
    begin = time.monotonic()
    try:
        lab = generate.load(stem, root)
        notebook = generate.outputs(lab)[f"solutions/{stem}.ipynb"]
    except LabError as error:
        return Outcome(stem, stem, FAILED, str(error))
    head = lab.header
    outcome = Outcome(stem, f"{head.number} {head.title}", RAN, "", 0, head.minutes, head.ranks, head.needs)
    if lacks:
        outcome.status, outcome.sentence = SKIPPED, f"It needs more than there is here. {lacks}"
        return outcome
    job = _write_job(root, out, stem, notebook, outcome.title, small_parameters(root, stem) if small else {})
    executed = Path(json.loads(job.read_text())["out"])
    log = out / "work" / f"{stem}.log"
    with open(log, "w") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "authoring.tour.lab", str(job)],
            env=_environment(out),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the tour alone, which then ends this
        )
        try:
            code = _watch(process, begin + 60 * head.minutes, lambda: tick(*html.progress(executed)))
        finally:
            end(process)
    outcome.seconds = time.monotonic() - begin
    if code is None:
        outcome.status = FAILED
        outcome.sentence = f"It took longer than the {head.minutes} minutes of its header."
    elif code:
        outcome.status = FAILED
        failure = html.failure(executed) if code == 1 else None
        outcome.sentence = failure or _last_line(log)
    return outcome


def _write_job(root: Path, out: Path, stem: str, notebook: str, title: str, parameters: dict) -> Path:
    work, executed = out / "work", out / "notebooks"
    work.mkdir(exist_ok=True)
    executed.mkdir(exist_ok=True)
    made = work / f"{stem}.ipynb"
    made.write_text(notebook, encoding="utf-8")
    job = work / f"{stem}.json"
    content = {
        "notebook": str(made),
        "out": str(executed / f"{stem}.ipynb"),
        "page": str(out / f"{stem}.html"),
        "title": title,
        "parameters": parameters,
        "folder": str(root / "solutions"),
        "parent": os.getpid(),
    }
    job.write_text(json.dumps(content), encoding="utf-8")
    return job


def _environment(out: Path) -> dict[str, str]:
    labs = str(Path(__file__).parents[2])
    own = {
        "LABKIT_HOME": str(out / "home"),
        "LABKIT_SOLVED": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's own
        "PYTHONPATH": os.pathsep.join(filter(None, [labs, os.environ.get("PYTHONPATH")])),
    }
    return {**os.environ, **own}


def _watch(process: subprocess.Popen, deadline: float, tick: Callable[[], None]) -> int | None:
    """The exit status, or None when the deadline passed."""
    while time.monotonic() < deadline:
        try:
            return process.wait(_POLL)
        except subprocess.TimeoutExpired:
            tick()
    return None


def end(process: subprocess.Popen, patience: float = 15.0) -> None:
    """End the lab's process, its kernel, and the ranks below; nothing survives."""
    import psutil

    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    if process.poll() is None:
        process.kill()
    process.wait()
    # The kernel goes next. What launch started ends by itself then; whatever is left after a while is killed.
    for child in below:
        if _is_kernel(child):
            child.kill()
    _, alive = psutil.wait_procs(below, timeout=patience if below else 0)
    for child in alive:
        child.kill()
    psutil.wait_procs(alive, timeout=5)


def _is_kernel(process) -> bool:
    import psutil

    try:
        return "ipykernel_launcher" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "It ended without a word."

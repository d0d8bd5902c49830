"""What is asked of every run of a solved lab: under mpiexec, as a batch job or as a notebook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from authoring import cells, generate, kernel
from labkit import paths

SECONDS = 900  # to end a run that hangs; no speed is asserted
EVERY_LAB = bool(os.environ.get("EVERY_LAB") or os.environ.get("CI"))  # or a sample


def own_warnings_are_errors() -> str:
    """PYTHONWARNINGS for a run in which a warning of the lab itself or of the kit is an error."""
    labs = paths.root() / "labs"
    kit = ("labkit", "virtual", "support")
    files = [path for name in kit for path in sorted((labs / name).rglob("*.py"))]
    names = [".".join(path.relative_to(labs).with_suffix("").parts) for path in files]
    return ",".join(f"error:::{name.removesuffix('.__init__')}" for name in ("__main__", *names))


def assert_each_check_passed_once(stem: str, output: str) -> None:
    """Each check has passed, and rank 0 alone has said so."""
    for exercise in generate.load(stem).exercises:
        assert output.count(f"✓ {exercise.number}  ") == 1, output[-3000:]
    assert "Traceback" not in output


def small(stem: str) -> dict[str, object]:
    """The parameters of the tests' runs."""
    return import_module(f"tests.labs.wrong_answers.{stem}").SMALL


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    """Run a command, with warnings from the lab, labkit and support as errors; it writes into
    folder.

    It is ended after SECONDS.
    """
    env = {
        **os.environ,
        "LABKIT_HOME": str(folder),
        "PYTHONWARNINGS": own_warnings_are_errors(),
    }
    process = subprocess.Popen(
        command,
        cwd=paths.root(),
        env=env,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
    except BaseException:  # it hangs, or the tests are over before their time
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate()
        print(out[-2000:], err[-2000:])
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def solved_script(stem: str) -> list[str]:
    values = [f"{name}={value!r}" for name, value in small(stem).items()]
    ranks = str(generate.load(stem).header.ranks)
    command = [sys.executable, "-m", "labkit", "run", stem, "--solved", "--np", ranks]
    return [*command, "--set", *values] if values else command


def assert_solved(stem: str, folder: Path) -> None:
    """Run a solved lab on its ranks: every check passes once, and nothing is wrong besides."""
    how = run(solved_script(stem), folder)
    assert how.returncode == 0, how.stdout[-2000:] + how.stderr[-3000:]
    assert_each_check_passed_once(stem, how.stdout)
    assert "Traceback" not in how.stderr


def assert_solved_as_notebook(stem: str, folder: Path) -> None:
    """Run a solved lab in a kernel, which starts the ranks: every check passes once."""
    env = {"LABKIT_HOME": str(folder), "PYTHONWARNINGS": own_warnings_are_errors()}
    lab = generate.load(stem)
    solved = cells.solved_cells(lab, small(stem))
    book, error = kernel.run(stem, solved, paths.root(), seconds=SECONDS, env=env)
    assert error is None, error
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert_each_check_passed_once(stem, printed)

"""Lab 40 as a learner meets it, in a real JupyterLab in a real browser: a failed check, its hint,
then ✓."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import jupyter_client
import pytest
from authoring import generate
from authoring.cells import learner_cells, solved_cells
from labkit import copies

from tests import browser, eavesdropper

ROOT = Path(__file__).resolve().parents[2]
STEM = "40_horovod_pytorch"
PICTURE = "lab40_solved_check.png"
EXERCISE = "40.1"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture
def learners_copy(tmp_path: Path) -> Path:
    """A copy of what a learner has, so that the test can write into a notebook."""
    copy = tmp_path / "checkout"
    for folder in ("labs", "notebooks", "solutions"):
        shutil.copytree(
            ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    shutil.copy(ROOT / "pyproject.toml", copy)
    copies.bring(copy)
    return copy


@contextmanager
def jupyterlab(checkout: Path, log: Path):
    """The address of a running JupyterLab with `checkout` as its folder; it is gone afterwards."""
    token = secrets.token_hex(16)
    runtime = checkout.parent / "runtime"
    env = os.environ | {
        "PYTHONPATH": str(checkout / "labs"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(checkout.parent / "config"),
        "LABKIT_HOME": str(checkout.parent / "home"),
    }
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--ip=127.0.0.1",
        "--port=0",
        "--allow-root",
    ]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={checkout}"]
    command += ["--KernelManager.transport_encryption=required"]  # as `make lab` and the hub
    with log.open("w") as out:
        server = subprocess.Popen(
            command, cwd=checkout, env=env, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield f"{_address(server, runtime, log)}lab/tree/work/{STEM}.ipynb?token={token}"
    finally:
        # JupyterLab then ends its kernels, and these end their ranks.
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _address(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    """What the server writes into its runtime folder, once it listens, too: that may be a moment
    later."""
    for _ in range(600):
        for file in runtime.glob("jpserver-*.json"):
            text = file.read_text()
            if text.strip().endswith("}"):
                told = json.loads(text)
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("localhost", told["port"])),
                ):
                    return told["url"]
        assert server.poll() is None, f"JupyterLab ended at once:\n{log.read_text()[-2000:]}"
        time.sleep(0.2)
    raise AssertionError(
        f"JupyterLab did not listen within two minutes:\n{log.read_text()[-2000:]}"
    )


def _numbers(lab: generate.Lab) -> tuple[list[int], int, int]:
    """Cells to run first, the cell with the exercise's stub, the cell with its check."""
    cells = learner_cells(lab)
    check = next(i for i, cell in enumerate(cells) if f'check("{EXERCISE}"' in cell.source)
    stub = max(i for i in range(check) if "raise NotImplementedError" in cells[i].source)
    return [i for i in range(check) if cells[i].kind == "code"], stub, check


def shown_cells(lab: generate.Lab) -> str:
    """SHA-256 of the cells that the README's picture shows: the exercise, its answer and its
    check."""
    _, stub, check = _numbers(lab)
    text = "\n".join(cell.source for cell in solved_cells(lab)[stub - 1 : check + 1])
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_picture_in_the_readme_shows_the_exercise_of_today():
    made_of = (ROOT / ".github" / "pictures" / PICTURE).with_suffix(".sha256").read_text().strip()
    assert made_of == shown_cells(generate.load(STEM)), (
        "PICTURES=$PWD/.github/pictures .venv/bin/python -m pytest tests/labs/test_jupyter.py makes"
        " it anew"
    )


def test_a_failed_check_a_hint_and_the_answer(learners_copy, tmp_path):
    pictures = Path(os.environ.get("PICTURES", tmp_path))  # PICTURES=.github/pictures makes it anew
    lab = generate.load(STEM)
    first, stub, check = _numbers(lab)
    answer = solved_cells(lab)[stub].source
    with (
        jupyterlab(learners_copy, tmp_path / "server.log") as address,
        browser.started() as chromium,
    ):
        page = chromium.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        notebook = browser.Notebook(page)
        notebook.open()
        for index in first:
            notebook.cell(index).scroll_into_view_if_needed()
            notebook.run(index, until=r"\[\d+\]")
        notebook.run(check, until=rf"✗ {re.escape(EXERCISE)}  not solved yet")
        assert "Traceback" not in page.locator(".jp-Notebook").inner_text()
        notebook.add_below(check, f'hint("{EXERCISE}")')
        notebook.run(check + 1, until="Hint 1")
        notebook.write(stub, answer)
        notebook.run(stub, until=r"\[\d+\]")
        notebook.run(check, until=rf"✓ {re.escape(EXERCISE)}")
        notebook.picture(check, pictures / PICTURE)
        (pictures / PICTURE).with_suffix(".sha256").write_text(f"{shown_cells(lab)}\n")
        page.keyboard.press("Control+S")
        script = learners_copy / "work" / f"{STEM}.py"
        for _ in range(100):  # saving the notebook writes its script too: jupytext's pairing
            if "hvd.init()" in script.read_text():
                break
            time.sleep(0.1)
        assert "hvd.init()" in script.read_text()
        _move_a_slider(notebook, check)
        page.locator(".jp-Notebook a", has_text="ranks").first.click()
        glossary = page.locator(".jp-MarkdownViewer")  # rendered, not as text to edit
        glossary.get_by_role("heading", name="rank", exact=True).wait_for(timeout=60_000)
    events = map(json.loads, (tmp_path / "home" / "events.jsonl").read_text().splitlines())
    assert EXERCISE in [event["exercise"] for event in events if event["event"] == "passed"]


def _move_a_slider(notebook: browser.Notebook, below: int) -> None:
    code = 'plots.slider(lambda place: print("it stands at", place), place=(1, 2, 3))'
    notebook.add_below(below, f"from labkit import plots\n\n{code}")
    notebook.run(below + 1, until="it stands at 2")
    cell = notebook.cell(below + 1)
    cell.locator(".noUi-handle").press("ArrowRight")
    cell.get_by_text("it stands at 3").wait_for(timeout=60_000)


def test_make_lab_opens_the_first_lab_and_shows_the_whole_checkout(tmp_path):
    """Scripts and batch jobs, too: what is above JupyterLab's own folder, nobody sees there."""
    env = os.environ | {
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "BROWSER": "true %s",  # a program that does nothing with the page
    }
    log = tmp_path / "make.log"
    with log.open("w") as out:
        made = subprocess.Popen(
            ["make", "lab", "PORT=0"],
            cwd=ROOT,
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        address = _address(made, tmp_path / "runtime", log)
        token = json.loads(next((tmp_path / "runtime").glob("jpserver-*.json")).read_text())[
            "token"
        ]
        with urllib.request.urlopen(f"{address}api/contents?token={token}", timeout=60) as answer:
            shown = {entry["name"] for entry in json.load(answer)["content"]}
        assert {"labs", "notebooks", "slurm"} <= shown
        for _ in range(100):
            if "/lab/tree/work/00_check_environment.ipynb?token=" in log.read_text():
                break
            time.sleep(0.1)
        assert "/lab/tree/work/00_check_environment.ipynb?token=" in log.read_text()
        asked = urllib.request.Request(
            f"{address}api/kernels?token={token}", data=b"{}", method="POST"
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            kernel = json.load(answer)["id"]
        connection = tmp_path / "runtime" / f"kernel-{kernel}.json"
        assert connection.stat().st_mode & 0o777 == 0o600
        assert not eavesdropper.overheard(connection)
    finally:
        os.killpg(made.pid, signal.SIGTERM)
        made.wait(30)


def test_without_a_key_others_would_read_along(tmp_path):
    """The control: the test above hears what can be heard."""
    manager = jupyter_client.KernelManager(connection_file=str(tmp_path / "kernel.json"))
    manager.start_kernel()
    try:
        assert eavesdropper.overheard(tmp_path / "kernel.json")
    finally:
        manager.shutdown_kernel(now=True)

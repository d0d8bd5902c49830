"""Lab 40 as a learner meets it, in a real JupyterLab in a real browser: a failed check, its hint, then ✓."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from authoring import generate
from authoring.cells import learner_cells, solved_cells
from authoring.notebooks import is_folded

ROOT = Path(__file__).resolve().parents[2]
STEM = "40_horovod_pytorch"
EXERCISE = "40.1"
# The browser talks to this server alone.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync", "--disable-component-update"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture
def browser_path() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not found and not os.environ.get("CI"):
        pytest.skip("no browser: `make test` as root installs Debian's chromium, or install it yourself")
    assert found, "CI=true, and no chromium: see env/install/debian-packages.txt"
    return found


@pytest.fixture
def learners_copy(tmp_path: Path) -> Path:
    """A copy of what a learner has, so that the test can write into a notebook."""
    copy = tmp_path / "checkout"
    for folder in ("labs", "notebooks", "solutions"):
        shutil.copytree(
            ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    shutil.copy(ROOT / "pyproject.toml", copy)
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
    with log.open("w") as out:
        server = subprocess.Popen(
            command, cwd=checkout, env=env, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield f"{_address(server, runtime, log)}lab/tree/notebooks/{STEM}.ipynb?token={token}"
    finally:
        server.send_signal(signal.SIGTERM)  # JupyterLab then ends its kernels, and these end their ranks
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _address(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    """What the server writes into its runtime folder as soon as it listens."""
    for _ in range(600):
        for file in runtime.glob("jpserver-*.json"):
            text = file.read_text()
            if text.strip().endswith("}"):
                return json.loads(text)["url"]
        assert server.poll() is None, f"JupyterLab ended at once:\n{log.read_text()[-2000:]}"
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not listen within two minutes:\n{log.read_text()[-2000:]}")


class Notebook:
    """The open notebook: cells by their number in the file."""

    def __init__(self, page):
        self.page = page

    def cell(self, index: int):
        return self.page.locator(
            ".jp-Notebook > * > .jp-Cell, .jp-Notebook .jp-WindowedPanel-viewport > .jp-Cell"
        ).nth(index)

    def run(self, index: int, until: str) -> None:
        """Run a cell and wait until its output matches `until` (a regular expression)."""
        from playwright.sync_api import expect

        cell = self.cell(index)
        cell.scroll_into_view_if_needed()
        # Of a cell that is folded there is no text to click at; a click at its number opens and selects it.
        cell.locator(".cm-content, .jp-Placeholder-prompt").first.click()
        self.page.keyboard.press("Control+Enter")
        # The cell is looked up anew each time: JupyterLab may draw it again while it runs.
        expect(cell).to_contain_text(re.compile(until), use_inner_text=True, timeout=180_000)

    def write(self, index: int, text: str) -> None:
        """Replace what stands in a cell, by keyboard."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(text)

    def add_below(self, index: int, text: str) -> None:
        """A new cell under cell `index`, with this text."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("b")
        self.page.keyboard.press("Enter")
        self.page.keyboard.insert_text(text)

    def picture(self, index: int, path: Path) -> None:
        """A picture of the window, with the end of the cell's output in view."""
        self.cell(index).locator(".jp-OutputArea-output").last.scroll_into_view_if_needed()
        self.page.screenshot(path=path)


def _numbers(lab: generate.Lab) -> tuple[list[int], int, int]:
    """Cells to run first, the cell with the exercise's stub, the cell with its check."""
    cells = learner_cells(lab)
    check = next(i for i, cell in enumerate(cells) if f'with check("{EXERCISE}")' in cell.source)
    stub = max(i for i in range(check) if "raise NotImplementedError" in cells[i].source)
    return [i for i in range(check) if cells[i].kind == "code"], stub, check


def test_a_failed_check_a_hint_and_the_answer(browser_path, learners_copy, tmp_path):
    from playwright.sync_api import sync_playwright

    pictures = Path(os.environ.get("PICTURES", tmp_path / "pictures"))
    lab = generate.load(STEM)
    first, stub, check = _numbers(lab)
    answer = solved_cells(lab)[stub].source
    with jupyterlab(learners_copy, tmp_path / "server.log") as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=90_000)
        # Not the circle at the top: it is idle, too, while there is no kernel, and a cell run then is lost.
        page.locator(".jp-StatusBar-TextItem", has_text="Python 3 | Idle").wait_for(timeout=90_000)
        notebook = Notebook(page)
        for index in first:
            notebook.cell(index).scroll_into_view_if_needed()
            folded = notebook.cell(index).locator(".jp-Placeholder").count() == 1
            assert folded == is_folded(learner_cells(lab)[index]), "a cell that need not be read is folded"
            notebook.run(index, until=r"\[\d+\]")
        notebook.run(check, until=rf"✗ {re.escape(EXERCISE)}  not solved yet")
        assert "Traceback" not in page.locator(".jp-Notebook").inner_text()
        notebook.picture(check, pictures / "lab40_failed_check.png")
        notebook.add_below(check, f'hint("{EXERCISE}")')
        notebook.run(check + 1, until="Hint 1")
        notebook.picture(check + 1, pictures / "lab40_hint.png")
        notebook.write(stub, answer)
        notebook.run(stub, until=r"\[\d+\]")
        notebook.run(check, until=rf"✓ {re.escape(EXERCISE)}")
        notebook.picture(check, pictures / "lab40_solved_check.png")
        page.keyboard.press("Control+S")
        script = learners_copy / "labs" / f"{STEM}.py"
        for _ in range(100):  # saving the notebook writes its script too: jupytext's pairing
            if "hvd.init()" in script.read_text():
                break
            time.sleep(0.1)
        assert "hvd.init()" in script.read_text()
        browser.close()
    done = json.loads((tmp_path / "home" / "progress.json").read_text())
    assert EXERCISE in json.dumps(done)

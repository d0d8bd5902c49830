"""A real browser, and a notebook of JupyterLab in it: for the tests, and for the README's
pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from env.install import debian

# The browser talks to this machine alone.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-component-update",
]


def path() -> str:
    """Where the browser lies. Without one the test is skipped; with CI=true it fails."""
    found = debian.browser()
    if not found and not os.environ.get("CI"):
        pytest.skip(
            "no browser: `make test` as root installs Debian's chromium, or install it yourself"
        )
    assert found, "CI=true, and no chromium: see env/install/debian-packages.txt"
    return found


@contextmanager
def started() -> Iterator:
    """Playwright's Chromium, headless; it is gone afterwards."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Notebook:
    """The open notebook: cells by their number in the file."""

    def __init__(self, page):
        self.page = page

    def open(self) -> None:
        """Wait until the cells are there, and a kernel for them."""
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=120_000)
        # Not the circle at the top: it is idle, too, while there is no kernel, and a cell run then
        # is lost.
        self.page.locator(".jp-StatusBar-TextItem", has_text="Python 3 | Idle").wait_for(
            timeout=120_000
        )

    def cell(self, index: int):
        return self.page.locator(
            ".jp-Notebook > * > .jp-Cell, .jp-Notebook .jp-WindowedPanel-viewport > .jp-Cell"
        ).nth(index)

    def run(self, index: int, until: str) -> None:
        """Run a cell and wait until its output matches `until` (a regular expression)."""
        from playwright.sync_api import expect

        cell = self.cell(index)
        cell.scroll_into_view_if_needed()
        # Of a cell that is folded there is no text to click at; a click at its number opens and
        # selects it.
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

    def picture(self, index: int, file: Path) -> None:
        """A picture of the window, with the end of the cell's output in view."""
        self.cell(index).locator(".jp-OutputArea-output").last.scroll_into_view_if_needed()
        self.page.screenshot(path=file)

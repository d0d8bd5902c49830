"""The picture of the class board in the README: `python -m tests.figures.board [FILE.png]`.

A class of forty that is generated: invented names, and wrong answers to lab 23 that its real checks rejected.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from labkit import board, paths

from tests import browser
from tests.labkit.board import school

PICTURE = paths.root() / ".github" / "pictures" / "class_board.png"


def main(file: str = str(PICTURE)) -> None:
    with tempfile.TemporaryDirectory() as folder, browser.started() as chromium:
        made = school.School(Path(folder), time.time() - 20 * 60)
        school.forty(made, school.Desk(made))
        html = Path(folder) / "board.html"
        html.write_text(board.as_page(board.look(made.shared, now=made.now), refresh=10), encoding="utf-8")
        page = chromium.new_page(viewport={"width": 1280, "height": 860})
        page.goto(html.as_uri())
        page.screenshot(path=file)


if __name__ == "__main__":
    main(*sys.argv[1:])

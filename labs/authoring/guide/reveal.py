"""reveal.js, which shows slides in a browser. It comes with a pinned package, and is put into each
page.

nbconvert's slides load it from a server of others; these load nothing. The package is fetched once,
when the guide is made, and kept in build/.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

PINNED = Path(__file__).with_name("reveal.txt")
_FOLDER = "sphinx_revealjs/_static/revealjs"
PATIENCE = 60  # seconds for the download


class Reveal(NamedTuple):
    """What goes into a page of slides: its styles, its two scripts, and its licence."""

    styles: str
    script: str
    notes: str
    licence: str


def package(root: Path) -> Path | None:
    """The package in root/build/slides, which is fetched first if need be; None where it cannot be
    had."""
    folder = root / "build" / "slides"
    packages = sorted(folder.glob("sphinx_revealjs-*.whl")) or _fetch(folder)
    return packages[0] if packages else None


def read(wheel: Path) -> Reveal:
    """reveal.js out of the package."""
    with zipfile.ZipFile(wheel) as archive:

        def text(name: str) -> str:
            return archive.read(f"{_FOLDER}/{name}").decode("utf-8")

        styles = [text(f"dist/{name}.css") for name in ("reset", "reveal", "theme/white")]
        return Reveal(
            styles="\n".join(_without_fonts(style) for style in styles),
            script=text("dist/reveal.js"),
            notes=text("plugin/notes/notes.js"),
            licence=text("LICENSE"),
        )


def _fetch(folder: Path) -> list[Path]:
    """The package that reveal.txt names, by pip; [] where there is no network."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-deps",
    ]
    command += ["--require-hashes", "--dest", str(folder), "--requirement", str(PINNED)]
    try:
        subprocess.run(command, timeout=PATIENCE, check=True, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
        return []
    return sorted(folder.glob("sphinx_revealjs-*.whl"))


def _without_fonts(style: str) -> str:
    """A style without the fonts that it would load: the browser's own stand in."""
    return re.sub(r"@import[^;]*;", "", style)

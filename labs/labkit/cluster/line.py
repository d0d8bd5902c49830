"""One line that says how something stands, with the seconds waited so far."""

from __future__ import annotations

import shutil
import sys

from labkit import world


class Line:
    """One line that rewrites itself in a notebook and on a terminal; elsewhere, a line for each change."""

    def __init__(self) -> None:
        self._last = ""
        self._handle = None
        self._terminal = sys.stdout.isatty()

    def show(self, text: str, seconds: float) -> None:
        """Show `text` and the seconds waited so far."""
        whole = f"{text} · {seconds:.0f} s"
        if world.in_kernel():
            self._display(whole)
        elif self._terminal:
            fitting = whole[: shutil.get_terminal_size().columns - 1]  # a wrapped line stays
            print(f"\r\033[K{fitting}", end="", flush=True)
        elif text != self._last:
            print(whole, flush=True)
        self._last = text

    def end(self, text: str) -> None:
        """The last words, on the same line."""
        if world.in_kernel():
            self._display(text)
        else:
            print(f"\r\033[K{text}" if self._terminal else text, flush=True)

    def _display(self, text: str) -> None:
        from IPython.display import display

        plain = {"text/plain": text}
        if self._handle is None:
            self._handle = display(plain, raw=True, display_id=True)
        else:
            self._handle.update(plain, raw=True)

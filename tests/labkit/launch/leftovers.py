"""Counting what a run left behind: processes by a mark in their environment, and files by name."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from pathlib import Path

import pytest

MARK = "LABKIT_TEST_MARK"


def marked(mark: str) -> list[str]:
    """The command lines of processes started with MARK=`mark` in their environment, zombies apart."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # another user's, or it ended meanwhile
    return [command for command in found if command]


def until(condition, patience: float = 20.0) -> bool:
    """Wait for `condition()`; False when it does not come true in `patience` seconds."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """The mark that this test's processes inherit; at its end none of them and no folder may be left."""
    mark, folder = uuid.uuid4().hex, tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield mark
    # A run that returned has ended everything already; one whose kernel was killed takes a moment.
    assert until(lambda: not marked(mark)), marked(mark)
    assert until(lambda: not list(folder.glob("labkit-*")))

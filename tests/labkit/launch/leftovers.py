"""What tests of runs share: how one failed, and what it left behind: processes by a mark in their
environment, and files by name."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path

import pytest
from labkit import launch
from labkit.errors import RankFailed

from tests import helpers
from tests.helpers import command_of, until

MARK = "LABKIT_TEST_MARK"


def failed(function, *arguments, **options) -> RankFailed:
    """The error in which launch.run(function, *arguments, **options) ends."""
    with pytest.raises(RankFailed) as caught:
        launch.run(function, *arguments, **options)
    return caught.value


def marked(mark: str) -> list[str]:
    """The command lines of processes started with MARK=`mark` in their environment, zombies
    apart."""
    return [
        command for process in helpers.marked(f"{MARK}={mark}") if (command := command_of(process))
    ]


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """The mark that this test's processes inherit; at its end none of them and no folder may be
    left."""
    mark, folder = uuid.uuid4().hex, tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield mark
    # A run that returned has ended everything already; one whose kernel was killed takes a moment.
    assert until(lambda: not marked(mark)), marked(mark)
    assert until(lambda: not _left_in(folder)), _left_in(folder)


def _left_in(folder: Path) -> list[str]:
    """What is there, but for what stays for the next run: folders of fork servers, PyTorch's
    cache."""
    names = [path.name for path in folder.iterdir()]
    return [name for name in names if not name.startswith(("forks-", "torchinductor_"))]

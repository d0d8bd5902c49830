"""What tests of runs share: how one failed, and what it left behind: processes by a mark in their
environment, and files by name."""

from __future__ import annotations

import tempfile
import uuid

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
    # Folders of fork servers stay for the next run.
    assert until(lambda: all(path.match("forks-*") for path in folder.iterdir()))

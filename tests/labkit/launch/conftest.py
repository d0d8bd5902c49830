"""The tests of launch.run start their ranks cold, but for those of forks."""

import pytest

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    monkeypatch.setenv("LABKIT_FORKS", "0")

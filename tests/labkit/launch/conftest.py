"""The tests of launch.run start their ranks cold, but for those of forks."""

import pytest


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    monkeypatch.setenv("LABKIT_FORKS", "0")

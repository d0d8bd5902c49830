"""A tabletop cluster, in the other of two workers: run by tests.endurance.sigterm alone."""

from __future__ import annotations

import time

import pytest

from tests.endurance.stopping import cluster


@pytest.fixture
def table(tmp_path):
    with cluster(tmp_path) as made:
        yield made


def test_tabletop(table):
    time.sleep(1000)

"""Ranks while a tabletop cluster runs, in one process: run by tests.endurance.sigterm alone."""

from __future__ import annotations

import pytest

from tests.endurance.stopping import cluster, run_ranks


@pytest.fixture
def table(tmp_path):
    with cluster(tmp_path) as made:
        yield made


def test_both(table):
    run_ranks()

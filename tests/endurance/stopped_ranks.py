"""Ranks, in one of two workers: run by tests.endurance.sigterm alone."""

from __future__ import annotations

from tests.endurance.stopping import run_ranks


def test_ranks():
    run_ranks()

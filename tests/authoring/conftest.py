"""For the tests of labkit."""

from __future__ import annotations

import pytest
from authoring import generate

from tests.authoring import tiny_lab


@pytest.fixture
def built(checkout):
    """A checkout with the tiny lab's files written."""
    tiny_lab.put(checkout)
    assert generate.write_all() == tiny_lab.WRITTEN
    return checkout

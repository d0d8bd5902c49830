"""`make test-gpu`: every test marked gpu, with what it printed; status 1, in a sentence, without a
GPU."""

import sys

import pytest
from labkit import world

if world.device() == "cpu":
    sys.exit(
        "PyTorch sees no GPU here, so there is nothing to test: `make doctor` says what it looked"
        " for."
    )
sys.exit(pytest.main(["-m", "gpu", "-rP", "tests"]))

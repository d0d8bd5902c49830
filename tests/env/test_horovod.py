"""Horovod's documented API on two real ranks, in PyTorch and on Keras 3: each item has its numeric
effect.

The ranks run in few starts of mpiexec; horovod_torch_ranks.py and horovod_tensorflow_ranks.py are
the tests there. Rank r always contributes r + 1, so that a mean is 1.5, a sum 3, and a rank left
alone shows 1 or 2.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers import ran

BIN = Path(sys.executable).parent

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("ranks", "carrier", "items"),
    [("tensorflow", "mpi", 23), ("torch", "mpi", 5), ("torch", "gloo", 5)],
)
def test_each_item_on_two_ranks(ranks, carrier, items, tmp_path):
    alien = ("HOROVOD_", "PMI", "OMPI_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(alien)}
    env |= {"HOROVOD_CPU_OPERATIONS": carrier, "HOROVOD_GLOO_IFACE": "lo", "OMP_NUM_THREADS": "1"}
    env |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "MPIEXEC_TIMEOUT": "240"}
    env |= {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    # Of this run's settings the ranks take none.
    alone = ["-p", "no:cacheprovider", "-c", os.devnull, "--noconftest", "--rootdir", tmp_path]
    file = Path(__file__).with_name(f"horovod_{ranks}_ranks.py")
    tests = [sys.executable, "-m", "pytest", "-q", "--tb=short", *alone, file]
    done = ran(BIN / "mpiexec", "-n", 2, *tests, env=env, timeout=270)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert done.stdout.count(f"{items} passed") == 2, done.stdout

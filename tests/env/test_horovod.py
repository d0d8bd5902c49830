"""Horovod's documented API on two real ranks, in PyTorch and on Keras 3: each item has its numeric
effect.

The ranks run in few starts of mpiexec; horovod_torch_ranks.py and horovod_tensorflow_ranks.py work
there. Rank r always contributes r + 1, so that a mean is 1.5, a sum 3, and a rank left alone shows
1 or 2.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
NEAR = {"abs": 1e-5}

pytestmark = pytest.mark.slow


def result(script: str, carrier: str = "mpi") -> dict:
    """Run a script on two ranks; its answers {check: [by rank]}, or fail with what it said."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOROVOD_", "PMI", "OMPI_"))
    }
    env.update(OMP_NUM_THREADS="1", HOROVOD_CPU_OPERATIONS=carrier, HOROVOD_GLOO_IFACE="lo")
    env.update(PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}", MPIEXEC_TIMEOUT="240")
    command = [str(BIN / "mpiexec"), "-n", "2", sys.executable, str(HERE / script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return json.loads(re.search(r"RESULT (.*)", done.stdout)[1])


@pytest.fixture(scope="module")
def keras3():
    return result("horovod_tensorflow_ranks.py")


@pytest.fixture(scope="module", params=["mpi", "gloo"])
def torch2(request):
    return request.param, result("horovod_torch_ranks.py", carrier=request.param)


# What a check gives on both ranks.
KERAS = {
    "broadcast_variables": [True, True],
    # y = w x, w = 1, x = 1 and 2: gradients 2 w x² are 2 and 8, their mean 5, and w becomes 1 -
    # 0.1 * 5
    "optimizer_in_fit": 0.5,
    "optimizer_applied_by_hand": -0.15,
    "gradient_tape": 1.5,
    "broadcast_callback": [True, True],
    "metric_average": [2.5],  # losses 1 and 4
    # lr/size (epoch (size - 1)/warmup + 1) with lr 0.2, size 2, warmup 2, at the end of epochs 1
    # and 2
    "warmup": [0.15, 0.2, 0.2],
    "schedule": [0.1, 0.05, 0.025],
    # velocity -0.1, then 0.9 * (0.05 / 0.1) * -0.1 - 0.05 with the correction and 0.9 * -0.1 - 0.05
    # without
    "momentum_correction": {"True": -0.195, "False": -0.24},
    "load_model": ["Adam", 0.25, True, True, True],
    "sparse_gradients": [True, 0.5, 0.5, 1.0, 0.0],
    "sparse_in_fit": [True, True, True, True],
    "backward_passes_summed": [0, -0.3, -0.3, -0.6, 4],
    "backward_passes_averaged": [0, -0.15, -0.15, -0.3, 4],
    "keras_accumulation": -0.15,
    # one rank's gradient was infinite: the scale goes from 4 to 2; then gradients 4 and 8, over 2,
    # mean 3
    "loss_scale": {"weight": 0.7, "scale": 2.0},
    "auto_jit_on_a_gpu": {"distributed": False, "plain": True},
    "wrapped_twice": True,
    "rate_is_settable": [0.02, True],
    "sync_batch_norm": [1.5, 1.25],  # of 0, 2 and 1, 3
    "elastic_state": [1.0, 10],
    "controller": [True, 2, 1],
}
COLLECTIVES = [1.5, 3.0, 2.0, 1.5, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(("check", "expected"), KERAS.items())
def test_keras(keras3, check, expected):
    assert keras3[check] == [pytest.approx(expected, **NEAR)] * 2


def test_torch(torch2):
    """MPI negotiates, the named library carries; a process may start again with the other one."""
    carrier, answers = torch2
    gloo = carrier == "gloo"
    expected = {
        "backward_passes": -0.3,
        "collectives": COLLECTIVES,
        "of_each_rank": [0.0, 10.0, 2.0],
    }
    expected |= {"controller": [True, gloo, 1], "another_library": [not gloo, 3.0]}
    assert answers == {
        check: [pytest.approx(value, **NEAR)] * 2 for check, value in expected.items()
    }

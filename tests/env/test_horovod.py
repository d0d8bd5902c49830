"""Horovod's documented API on two real ranks, in PyTorch and on Keras 3: each item has its numeric effect.

The ranks run in few starts of mpiexec; horovod_torch_ranks.py and horovod_tensorflow_ranks.py work there.
Rank r always contributes r + 1, so that a mean is 1.5, a sum 3, and a rank left alone shows 1 or 2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
VERIFY = HERE.parents[1] / "env" / "install" / "verify_ranks.py"
BIN = Path(sys.executable).parent
NEAR = {"abs": 1e-5}
MPI = [str(BIN / "mpiexec"), "-n", "2"]
HOROVODRUN = [sys.executable, "-m", "horovod.runner.launch", "-np", "2"]

pytestmark = pytest.mark.slow


def ranks(launcher: list[str], script: Path, *arguments: str, limit: int = 240, carrier: str = "mpi") -> str:
    """Run a script on two ranks; return their output, or fail with it."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "PMI", "OMPI_"))
    }
    env.update(OMP_NUM_THREADS="1", PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}", MPIEXEC_TIMEOUT=str(limit))
    env.update(HOROVOD_CPU_OPERATIONS=carrier, HOROVOD_GLOO_IFACE="lo")
    command = [*launcher, sys.executable, str(script), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit + 30)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout


def result(output: str) -> dict:
    """The answers {check: [by rank]} in a launcher's output."""
    lines = [line for line in output.splitlines() if "RESULT " in line]
    return json.loads(lines[0][lines[0].index("RESULT ") + 7 :])


@pytest.fixture(scope="module")
def keras3():
    return result(ranks(MPI, HERE / "horovod_tensorflow_ranks.py"))


@pytest.fixture(scope="module", params=["mpi", "gloo"])
def torch2(request):
    return request.param, result(ranks(MPI, HERE / "horovod_torch_ranks.py", carrier=request.param))


# What a check gives on both ranks.
KERAS = {
    # y = w x, w = 1, x = 1 and 2: gradients 2 w x² are 2 and 8, their mean 5, and w becomes 1 - 0.1 * 5
    "optimizer_in_fit": 0.5,
    "optimizer_applied_by_hand": -0.15,
    "gradient_tape": 1.5,
    "metric_average": [2.5],  # losses 1 and 4
    # lr/size (epoch (size - 1)/warmup + 1) with lr 0.2, size 2, warmup 2, at the end of epochs 1 and 2
    "warmup": [0.15, 0.2, 0.2],
    "schedule": [0.1, 0.05, 0.025],
    # velocity -0.1, then 0.9 * (0.05 / 0.1) * -0.1 - 0.05 with the correction and 0.9 * -0.1 - 0.05 without
    "momentum_correction": {"True": -0.195, "False": -0.24},
    "keras_accumulation": -0.15,
    # one rank's gradient was infinite: the scale goes from 4 to 2; then gradients 4 and 8, over 2, mean 3
    "loss_scale": {"weight": 0.7, "scale": 2.0},
    "auto_jit_on_a_gpu": {"distributed": False, "plain": True},
    "sync_batch_norm": [1.5, 1.25],  # of 0, 2 and 1, 3
    "elastic_state": [1.0, 10],
}


@pytest.mark.parametrize(("check", "expected"), KERAS.items())
def test_keras(keras3, check, expected):
    assert keras3[check] == [pytest.approx(expected, **NEAR)] * 2


def test_broadcast_variables(keras3):
    zero, one = keras3["broadcast_variables"]
    assert zero["before"] != one["before"]
    assert zero["after"] == one["after"] == zero["before"]


def test_broadcast_global_variables_callback(keras3):
    zero, one = keras3["broadcast_callback"]
    assert zero["before"] != one["before"]
    assert zero["after"] == one["after"] == one["before"]  # the root is rank 1, the learning rate 0


def test_load_model_returns_a_distributed_optimizer_with_its_state(keras3):
    zero, one = keras3["load_model"]
    assert zero["class"] == "Adam"
    assert zero["rate"] == 0.25
    assert zero["same_state"]
    assert zero["weight"] == one["weight"]  # trained on after loading, with different data on each rank
    assert zero["plain_is_plain"], "it loads without Horovod, too"


def test_sparse_gradients(keras3):
    for answer in keras3["sparse_gradients"]:
        assert answer == {"sparse": True, "dense": [0.5, 0.5, 1.0, 0.0]}


def test_sparse_gradients_in_fit_equal_dense_ones(keras3):
    for sparse, dense in keras3["sparse_in_fit"]:
        assert sparse == pytest.approx(dense, **NEAR)
        assert sparse[0] != 0
        assert sparse[3] == 0
    assert keras3["sparse_in_fit"][0] == keras3["sparse_in_fit"][1]


def test_backward_passes_per_step(keras3):
    for answer in keras3["backward_passes_summed"]:
        assert answer["weights"] == pytest.approx([0, -0.3, -0.3, -0.6], **NEAR)
        assert answer["iterations"] == 4
    for answer in keras3["backward_passes_averaged"]:
        assert answer["weights"] == pytest.approx([0, -0.15, -0.15, -0.3], **NEAR)


def test_wrapping_twice_is_refused(keras3):
    assert all("only once" in answer for answer in keras3["wrapped_twice"])


def test_learning_rate_and_variables(keras3):
    for rate, as_attribute, as_method in keras3["rate_is_settable"]:
        assert rate == pytest.approx(0.02)
        assert as_attribute == as_method > 0


def test_tensorflow_uses_mpi_and_one_library(keras3):
    for answer in keras3["controller"]:
        assert answer["mpi"]
        assert answer["size"] == 2
        assert len(answer["libraries"]) == 1, answer["libraries"]


def test_torch_collectives(torch2):
    common = {"average": 1.5, "sum": 3.0, "max": 2.0, "gather": [1.0, 2.0], "broadcast": 2.0, "adasum": 1.5}
    for rank, answer in enumerate(torch2[1]["collectives"]):
        assert answer == common | {"alltoall": [0.0 + rank, 10.0 + rank], "of_rank_1": [None, 2.0][rank]}
    assert torch2[1]["backward_passes"] == [pytest.approx(-0.3, **NEAR)] * 2


def test_a_process_may_start_again_with_another_library(torch2):
    other = {"mpi": True, "gloo": False}[torch2[0]]
    assert torch2[1]["another_library"] == [[other, 3.0]] * 2


def test_mpi_negotiates_the_named_library_carries_and_there_is_one_mpi(torch2):
    carrier, answers = torch2
    for answer in answers["controller"]:
        assert answer["mpi"]
        assert answer["gloo"] == (carrier == "gloo")
        assert len(answer["libraries"]) == 1, answer["libraries"]


def test_tensorflow_over_gloo():
    output = ranks(MPI, VERIFY, "tensorflow", carrier="gloo")
    assert '"sum": 3.0' in output
    assert '"by": "Gloo"' in output


def test_horovodrun_starts_ranks_of_mpi():
    output = ranks(HOROVODRUN, VERIFY, "torch")
    assert '"sum": 3.0' in output
    assert '"by": "MPI"' in output

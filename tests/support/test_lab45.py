"""support.lab45: Adasum's expectations, the variables of autotune, training on virtual ranks."""

from pathlib import Path

import numpy as np
import pytest
from labkit.errors import CheckFailed
from support.lab45 import settings
from support.lab45.checks import right_pair


def pair(a, b):
    return right_pair(a, b).astype(a.dtype)


def gathered(comm, gradient, layers):
    """The right answer by too many bytes."""
    if comm.size & (comm.size - 1):
        raise ValueError(f"{comm.size} ranks")
    every = np.empty((comm.size, len(gradient)), gradient.dtype)
    comm.Allgather(gradient, every)
    parts = list(every)
    while len(parts) > 1:
        parts = [
            np.concatenate([pair(a[layer], b[layer]) for layer in layers])
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def test_pair_is_sum_and_mean():
    a, b = np.array([2.0, 0.0], np.float32), np.array([0.0, 3.0], np.float32)
    np.testing.assert_allclose(right_pair(a, b), a + b)
    np.testing.assert_allclose(right_pair(a, 3 * a), 2 * a)
    np.testing.assert_allclose(right_pair(a, 0 * b), a)
    settings.expect_pair(pair)


def doubling(comm, gradient, layers):
    if comm.size & (comm.size - 1):
        raise ValueError(f"{comm.size} ranks")
    mine, theirs, distance = gradient.copy(), np.empty_like(gradient), 1
    while distance < comm.size:
        comm.Sendrecv(mine, comm.rank ^ distance, recvbuf=theirs, source=comm.rank ^ distance)
        mine = np.concatenate([pair(mine[layer], theirs[layer]) for layer in layers])
        distance *= 2
    return mine


def late(comm, gradient, layers):
    comm.Barrier()
    return doubling(comm, gradient, layers)


def test_recursive_doubling_passes():
    settings.expect_adasum(doubling)


@pytest.mark.parametrize("answer", [gathered, late])
def test_other_algorithms_are_told_by_their_messages(answer):
    with pytest.raises(CheckFailed, match="recursive doubling sends"):
        settings.expect_adasum(answer)


def test_refusal_comes_before_messages():
    def sums_first(comm, gradient, layers):
        if comm.size & (comm.size - 1):
            comm.Allreduce(gradient, np.empty_like(gradient))
        return doubling(comm, gradient, layers)

    with pytest.raises(CheckFailed, match="before the refusal"):
        settings.expect_adasum(sums_first)


def test_layers_are_those_of_the_net():
    assert settings.LAYERS[0] == slice(0, 64 * 128)
    assert settings.LAYERS[-1].stop == sum(settings.WEIGHTS) == 17_226


def test_variables_are_text():
    variables = settings.autotune(3, 2, Path("log.csv"))
    assert variables["HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"] == "3"
    assert variables["HOROVOD_AUTOTUNE_LOG"] == "log.csv"


def test_training_by_three_ways():
    found = settings.accuracies(gathered, (1, 2), 0.05, (0,), epochs=1)
    assert found["sum"][1] == found["mean"][1] == found["Adasum"][1]
    assert all(60 < ways[2][0] <= 100 for ways in found.values())

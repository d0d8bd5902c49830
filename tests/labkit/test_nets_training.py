"""labkit.nets: the gradient in NumPy against PyTorch's, vectors of arrays, training on virtual
ranks."""

import numpy as np
import pytest
import virtual
from labkit import data, nets


def mean_of_all(comm, gradient, kept):
    mean = np.empty_like(gradient)
    comm.Allreduce(gradient, mean)
    return mean / comm.size


@pytest.mark.parametrize("sizes", [(64, 128, 64, 10), (64, 64, 64, 64, 64, 10)])
def test_gradient_is_pytorchs(sizes):
    torch = pytest.importorskip("torch")
    images, labels, *_ = data.digits()
    weights = [torch.tensor(array, requires_grad=True) for array in nets.start_weights(3, sizes)]
    values = torch.tensor(images[:32])
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        values = values.relu() @ matrix + bias
    torch.nn.functional.cross_entropy(values, torch.tensor(labels[:32])).backward()
    gradient = nets.gradient(nets.start_weights(3, sizes), images[:32], labels[:32])
    for own, theirs in zip(gradient, weights, strict=True):
        np.testing.assert_allclose(own, theirs.grad.numpy(), atol=1e-6)


def test_join_and_cut():
    weights = nets.start_weights()
    vector = nets.join(weights)
    assert vector.shape == (17_226,)
    again = nets.cut(vector, weights)
    assert all(np.array_equal(before, after) for before, after in zip(weights, again, strict=True))
    vector[:] = 1
    assert all((array == 1).all() for array in again), "views"


def test_percent_right():
    images, labels, *_ = data.digits()
    weights = [0 * array for array in nets.start_weights()]
    weights[-1][3] = 1  # every image is a 3
    assert nets.percent_right(weights, images, labels) == pytest.approx(100 * np.mean(labels == 3))


def test_training_on_four_ranks_is_that_of_one():
    alone, four = (virtual.accuracy(mean_of_all, epochs=1, ranks=p)[0] for p in (1, 4))
    assert abs(alone - four) < 2 < 70 < alone  # points; to rounding, which may turn an image over

"""labkit.nets: one net, equal in every framework, its gradient, training on virtual ranks; layer
tables that add up to the published totals."""

import numpy as np
import pytest
import virtual
from labkit import data, nets
from labkit.errors import LabError


def logits_by_hand(x, weights):
    """The net in four lines of NumPy, in double precision."""
    *hidden, (matrix, bias) = zip(weights[::2], weights[1::2], strict=True)
    for inner, offset in hidden:
        x = np.maximum(x @ inner.astype(np.float64) + offset, 0)
    return x @ matrix.astype(np.float64) + bias


def test_start_weights_are_he_initialised_and_reproducible():
    weights = nets.start_weights(seed=3)
    shapes = [(64, 128), (128,), (128, 64), (64,), (64, 10), (10,)]
    assert [(weight.shape, weight.dtype) for weight in weights] == [(s, np.float32) for s in shapes]
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        assert matrix.std() == pytest.approx(np.sqrt(2 / len(matrix)), rel=0.1)
        assert not bias.any()
    for weight, again in zip(weights, nets.start_weights(seed=3), strict=True):
        np.testing.assert_array_equal(weight, again)
    assert not np.array_equal(weights[0], nets.start_weights(seed=4)[0])


@pytest.mark.slow  # TensorFlow's import
@pytest.mark.parametrize("pixels", [64, 784])
def test_torch_and_keras_are_the_same_net(pixels):
    import torch

    x = np.random.default_rng(2).random((100, pixels), np.float32)
    # Biases other than zero, so that a swapped or forgotten one shows.
    weights = [weight + np.float32(0.01) for weight in nets.start_weights(1, (pixels, 128, 64, 10))]
    want = logits_by_hand(x, weights)
    with torch.no_grad():
        by_torch = nets.torch_digits(weights)(torch.from_numpy(x)).numpy()
    by_keras = np.asarray(nets.keras_digits(weights)(x))
    np.testing.assert_allclose(by_torch, want, atol=1e-4)
    np.testing.assert_allclose(by_keras, want, atol=1e-4)


@pytest.mark.slow
def test_torch_conv_is_reproducible_and_leaves_the_generator_alone():
    import torch

    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    net = nets.torch_conv(width=8)
    again = nets.torch_conv(width=8)
    torch.testing.assert_close(torch.rand(3), expected)
    images = torch.zeros(2, 3, 32, 32)
    assert net(images).shape == (2, 10)
    torch.testing.assert_close(net(images), again(images))
    assert sum(parameter.numel() for parameter in nets.torch_conv().parameters()) == 66_218


# Parameters: counted in torchvision's documentation (googlenet and inception_v3 there include the
# auxiliary classifiers; here without). Multiply-adds in units of 1e9, same source.
PUBLISHED = {
    "alexnet": (61_100_840, 0.71),
    "vgg16": (138_357_544, 15.47),
    "googlenet": (6_624_904, 1.50),
    "resnet50": (25_557_032, 4.09),
    "resnet101": (44_549_160, 7.80),
    "resnet152": (60_192_808, 11.51),
    "inception_v3": (23_834_568, 5.71),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_layer_tables_add_up(name):
    parameters, billions = PUBLISHED[name]
    table = nets.layer_table(name)
    assert list(table.columns) == ["layer", "kind", "parameters", "flops", "activations"]
    assert table.parameters.sum() == parameters
    assert table.flops.sum() / 2e9 == pytest.approx(billions, rel=0.01)
    assert table.layer.is_unique
    assert table.iloc[-1].activations == 1000
    assert (table.activations > 0).all()
    with pytest.raises(LabError, match="no layer table of 'lenet'; there are alexnet"):
        nets.layer_table("lenet")


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


def mean_of_all(comm, gradient, kept):
    mean = np.empty_like(gradient)
    comm.Allreduce(gradient, mean)
    return mean / comm.size


def test_training_on_four_ranks_is_that_of_one():
    alone, four = (virtual.accuracy(mean_of_all, epochs=1, ranks=p)[0] for p in (1, 4))
    assert abs(alone - four) < 2 < 70 < alone  # points; to rounding, which may turn an image over

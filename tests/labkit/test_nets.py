"""labkit.nets: one net, equal in every framework; layer tables that add up to the published
totals."""

import numpy as np
import pytest
from labkit import nets
from labkit.errors import LabError


def logits_by_hand(x, weights):
    """The net in five lines of NumPy, in double precision."""
    w1, b1, w2, b2, w3, b3 = (np.asarray(weight, np.float64) for weight in weights)
    hidden = np.maximum(x @ w1 + b1, 0)
    hidden = np.maximum(hidden @ w2 + b2, 0)
    return hidden @ w3 + b3


def test_start_weights_are_he_initialised_and_reproducible():
    weights = nets.start_weights(seed=3)
    assert [weight.shape for weight in weights] == [
        (64, 128),
        (128,),
        (128, 64),
        (64,),
        (64, 10),
        (10,),
    ]
    assert all(weight.dtype == np.float32 for weight in weights)
    for matrix in weights[::2]:
        assert matrix.std() == pytest.approx(np.sqrt(2 / len(matrix)), rel=0.1)
    for bias in weights[1::2]:
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


def test_an_unknown_net_is_a_sentence():
    with pytest.raises(LabError, match="no layer table of 'lenet'; there are alexnet"):
        nets.layer_table("lenet")

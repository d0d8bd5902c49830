"""labkit.compression: the gradient against PyTorch's, what the expectations let pass, times of messages."""

import numpy as np
import pytest
from labkit import data, nets, virtual
from labkit.errors import CheckFailed
from support.lab35 import compression

SIMPLE = (compression.whole, compression.from_whole)


def feedback(comm, gradient, error, compress, expand):
    wanted = gradient + error
    message = compress(wanted)
    error[:] = wanted - expand(message, len(gradient))
    messages = np.empty((comm.size, len(message)), np.uint8)
    comm.Allgather(message, messages)
    return np.mean([expand(one, len(gradient)) for one in messages], axis=0)


def forgetful(comm, gradient, error, *way):
    error[:] = 0
    return feedback(comm, gradient, error, *way)


def test_gradient_is_pytorchs():
    torch = pytest.importorskip("torch")
    images, labels, *_ = data.digits()
    start = nets.start_weights(3)
    net = nets.torch_digits(start)
    torch.nn.functional.cross_entropy(net(torch.tensor(images[:32])), torch.tensor(labels[:32])).backward()
    want = [one.grad.mT if one.ndim == 2 else one.grad for one in net.parameters()]
    want = np.concatenate([one.numpy().ravel() for one in want])
    np.testing.assert_allclose(compression._gradient(start, images[:32], labels[:32]), want, atol=1e-6)


def test_training_on_four_ranks_is_that_of_one():
    alone, four = (compression.accuracy(feedback, None, epochs=1, ranks=p) for p in (1, 4))
    assert abs(alone[0] - four[0]) < 2 < 70 < alone[0]  # points; to rounding, which may turn an image over


@pytest.mark.parametrize("p", [1, 3])
def test_feedback_passes_and_its_absence_does_not(p):
    compression.expect_feedback(feedback, SIMPLE, p)
    with pytest.raises(CheckFailed, match="the error that is left"):
        compression.expect_feedback(lambda c, g, e, *way: feedback(c, g, e.copy(), *way), SIMPLE, p)
    with pytest.raises(CheckFailed, match="as if nothing was left"):
        compression.expect_feedback(forgetful, SIMPLE, p)


def test_float32_on_the_wire_is_seen():
    def full(comm, gradient, scale):
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        return total / comm.size

    with pytest.raises(CheckFailed, match="should be inf|float16, there and back"):
        compression.expect_half(full, 2)


def test_messages_alone_take_what_the_formulas_say():
    machine, p, n = virtual.ideal(alpha=0.0, bandwidth=1e6), 8, 1e6
    assert compression.traffic(p, "ring", n, machine) == pytest.approx(2 * (p - 1) / p, rel=1e-3)
    assert compression.traffic(p, "there and back", n, machine) == pytest.approx(2 * (p - 1) / p, rel=1e-3)
    assert compression.traffic(p, "allgather", n, machine) == pytest.approx(p - 1, rel=1e-3)


def test_links_below_which_a_way_wins():
    one = np.array([0.25])
    found = {"float32": [one, one], "1 bit": [one, one + 1, one]}
    for row in found.values():
        row[:] = [compression.timing.Measurement(samples) for samples in row]
    got = compression.links(
        found, lambda n, p, k: {"float32": 8.0, "1 bit": 1.0}, lambda a, b, s: (a - b) / s, 1, 1
    )
    assert got["1 bit"][4] == pytest.approx(8e-9 * 7 / (1 + 3 * 0.25))

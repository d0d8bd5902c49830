"""Lab 14's support: bytes of a training step, counted."""

from __future__ import annotations

import pytest
import torch
from support import lab14

KILO = torch.zeros(256)  # 1,024 bytes
WEIGHT = torch.ones(256, requires_grad=True)


@pytest.mark.parametrize(
    ("forward", "apart", "nbytes"),
    [
        (lambda: WEIGHT * WEIGHT + WEIGHT * WEIGHT.view(16, 16).view(256), (), 1024),  # each memory once
        (lambda: (WEIGHT * WEIGHT).sum(), (WEIGHT,), 0),
    ],
)
def test_bytes_that_are_kept(forward, apart, nbytes):
    assert lab14.kept(forward, *apart) == nbytes


@pytest.mark.parametrize(
    ("call", "nbytes"),
    [
        (lambda: [KILO + 1 for _ in range(3)], 3 * 1024),
        (lambda: [(KILO + 1).sum().item() for _ in range(3)], 1024 + 4),  # one after the other
        (lambda: KILO.add_(1).view(16, 16).t().relu_(), 0),  # views, and changes in place
        (lambda: WEIGHT.exp().sum().backward(), 2 * 1024 + 8),  # what exp keeps, the gradients
    ],
)
def test_bytes_at_the_peak(call, nbytes):
    assert lab14.peak(call) == nbytes


def test_parts_of_a_step():
    net = lab14.deep(1, width=8, classes=2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    held = lab14.parts(net, optimizer, torch.zeros(2, 8))
    numbers = (8 + 1) * 8 + (8 + 1) * 2
    total = held.pop("activations")
    assert held.pop("copies of weights") == 0
    assert set(held.values()) == {4 * numbers}
    assert total == 2 * 4 * (8 + 8 + 2) + 4  # x, ReLU's output, log-probabilities; and the sum of the weights

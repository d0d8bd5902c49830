"""Lab 14's support: bytes of a training step, counted."""

from __future__ import annotations

import pytest
import torch
from support import lab14

KILO = torch.zeros(256)  # 1,024 bytes
WEIGHT = torch.ones(256, requires_grad=True)
NET, LABELS = lab14.deep(1, width=8, classes=2), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("forward", "apart", "nbytes"),
    [
        # Each memory once.
        (lambda: WEIGHT * WEIGHT + WEIGHT * WEIGHT.view(16, 16).view(256), (), 1024),
        (lambda: (WEIGHT * WEIGHT).sum(), (WEIGHT,), 0),
        # x, ReLU's output, log-probabilities; and the sum of the loss' weights
        (
            lambda: torch.nn.functional.cross_entropy(NET(torch.zeros(2, 8)), LABELS),
            (LABELS, *NET.parameters()),
            2 * 4 * (8 + 8 + 2) + 4,
        ),
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


@pytest.mark.slow
def test_the_bytes_of_a_workloads_step_begin_without_gradients(monkeypatch):
    """On a GPU those of the step before would count as there already, and not as the step's."""

    def gradients(step, device):
        net = step.args[0]
        return sum(weights.grad is not None for weights in net.parameters())

    monkeypatch.setattr(lab14, "peak", gradients)
    ways = lab14.workload_ways("tiny gpt", lab14.plain_step, lambda net, x, parts: net(x), "cpu")
    assert [held for _, held in ways.values()] == [0, 0, 0]

"""Lab 14's support: bytes of a training step, counted."""

from __future__ import annotations

import pytest
import torch
from support import lab14

KILO = torch.zeros(256)  # 1,024 bytes


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: many threads on a busy machine only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_tensor_that_two_operations_keep_counts_once():
    weight = torch.ones(256, requires_grad=True)
    assert lab14.kept(lambda: weight * weight + weight * weight.view(16, 16).view(256)) == 1024
    assert lab14.kept(lambda: (weight * weight).sum(), weight) == 0


def test_peak_counts_what_is_alive_at_a_time():
    assert lab14.peak(lambda: [KILO + 1 for _ in range(3)]) == 3 * 1024

    def one_after_another():
        for _ in range(3):
            KILO + 1

    assert lab14.peak(one_after_another) == 1024


def test_views_and_changes_in_place_cost_nothing():
    tensor = torch.zeros(256)
    assert lab14.peak(lambda: tensor.add_(1).view(16, 16).t().relu_()) == 0


def test_backward_is_counted_too():
    weight = torch.ones(256, requires_grad=True)
    assert lab14.peak(lambda: weight.exp().sum().backward()) >= 2 * 1024  # what exp keeps, and the gradient


def test_parts_of_a_step():
    net = lab14.deep(1, width=8, classes=2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    held = lab14.parts(net, optimizer, torch.zeros(2, 8))
    numbers = (8 + 1) * 8 + (8 + 1) * 2
    total = held.pop("activations")
    assert held.pop("copies of weights") == 0
    assert set(held.values()) == {4 * numbers}
    assert total == 2 * 4 * (8 + 8 + 2) + 4  # x, ReLU's output, log-probabilities; and the sum of the weights


def test_mixed_precision_shrinks_activations_alone():
    held = lab14.bytes_by_way("cpu")
    full = held["float32"]
    mixed = held["mixed"]
    for part in ("parameters", "gradients", "optimizer"):
        assert mixed[part] == full[part]
    assert full["activations"] / 2 < mixed["activations"] < 0.8 * full["activations"]
    weights = full["parameters"] / 4
    assert weights < mixed["copies of weights"] <= 2 * weights  # biases need not be kept

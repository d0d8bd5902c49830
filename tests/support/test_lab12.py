"""Lab 12's support: operators, bytes and flops are counted rightly."""

from __future__ import annotations

import pytest
import torch
from labkit import nets
from support import lab12


@pytest.mark.parametrize(
    ("call", "moved", "fresh"),
    [
        (lambda a, b: b.copy_(a), 2, 0),
        (lambda a, b: torch.add(a, b, out=b), 3, 0),
        (lambda a, b: a.mul_(2), 2, 0),
        (lambda a, b: a + b, 3, 1),
        (lambda a, b: a.view(2, 8).t(), 0, 0),
        (lambda a, b: b.zero_(), 1, 0),
    ],
)
def test_bytes_and_new_tensors_are_counted_in_arrays(call, moved, fresh):
    a, b = torch.ones(16), torch.ones(16)
    with lab12.Count() as count:
        call(a, b)
    assert (count.moved, count.fresh) == (moved * a.nbytes, fresh * a.nbytes)


def test_of_a_table_from_which_rows_are_picked_only_these_count():
    table, rows = torch.ones(1000, 4), torch.tensor([3, 5])
    with lab12.Count() as count:
        table[rows]
    assert count.moved == 2 * 2 * 4 * 4


def test_float64_is_seen():
    with lab12.Count() as count:
        torch.ones(3).double()
    assert count.double


def test_flops_of_a_training_step_are_about_three_times_forward():
    net, images = nets.torch_conv(), torch.randn(2, 3, 32, 32)
    forward = lab12.flops(lambda: net(images))
    assert forward == pytest.approx(2 * 49e6, rel=0.02)  # as the net's docstring says
    assert 2.5 < lab12.flops(lambda: net(images).sum().backward()) / forward < 3

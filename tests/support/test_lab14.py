"""Counting bytes of a training step: kept for backward, at the peak, within a budget."""

from __future__ import annotations

import pytest
import torch
from labkit.errors import LabError
from support.lab14 import memory, precision

KILO = torch.zeros(256)  # 1,024 bytes


def test_a_tensor_that_two_operations_keep_counts_once():
    weight = torch.ones(256, requires_grad=True)
    assert memory.kept(lambda: weight * weight + weight * weight.view(16, 16).view(256)) == 1024
    assert memory.kept(lambda: (weight * weight).sum(), weight) == 0


def test_peak_counts_what_is_alive_at_a_time():
    assert memory.peak(lambda: [KILO + 1 for _ in range(3)]) == 3 * 1024

    def one_after_another():
        for _ in range(3):
            KILO + 1

    assert memory.peak(one_after_another) == 1024


def test_views_and_changes_in_place_cost_nothing():
    given = torch.zeros(256)
    assert memory.peak(lambda: given.add_(1).view(16, 16).t().relu_()) == 0


def test_backward_is_counted_too():
    weight = torch.ones(256, requires_grad=True)
    assert memory.peak(lambda: weight.exp().sum().backward()) >= 2 * 1024  # what exp keeps, and the gradient


def test_a_budget_is_enforced_and_gone_afterwards():
    with memory.budget(2048):
        kept = [KILO + 1, KILO + 1]
    with (
        pytest.raises(memory.OverBudget, match="3,072 bytes at a time, and 2,048 were given"),
        memory.budget(2048),
    ):
        kept = [KILO + 1, KILO + 1, KILO + 1]
    kept += [KILO + 1] * 5
    assert len(kept) == 7


@pytest.mark.parametrize("fits", [0, 1, 6, 7])
def test_largest_batch_by_trying(fits):
    assert memory.largest(lambda batch: torch.zeros(batch, 256), 1024 * fits, most=7) == fits


def test_table_has_the_columns_of_a_layer_table():
    table = memory.table(memory.small_vgg(), torch.zeros(2, 3, 16, 16))
    assert table.kind.tolist() == ["conv", "relu"] * 2 + ["pool"] + ["conv", "relu"] * 2 + [
        "pool",
        "linear",
        "relu",
        "linear",
    ]
    assert table.activations.iloc[0] == 8 * 16 * 16
    assert table.parameters.sum() == sum(p.numel() for p in memory.small_vgg().parameters())


def test_nets_depend_on_their_seed_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    for make in (memory.small_vgg, lambda: memory.deep(2)):
        one, other = (torch.cat([p.flatten() for p in make().parameters()]) for _ in range(2))
        assert torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_parts_of_a_step():
    net = memory.deep(1, width=8, classes=2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    found = memory.parts(net, optimizer, torch.zeros(4, 8), torch.zeros(4, dtype=torch.int64))
    numbers = (8 + 1) * 8 + (8 + 1) * 2
    total = found.pop("activations")
    assert set(found.values()) == {4 * numbers}
    assert total == 4 * 4 * (8 + 8 + 2) + 4  # x, ReLU's output, log-probabilities; and the sum of the weights


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: many threads on a busy machine only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_speeds_have_every_way():
    speeds = precision.speeds(1, 16, 5, "cpu")
    assert len(speeds) == 6
    assert all(row["flops"] > 0 and row["share"] > 0 for row in speeds.values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: precision.train_scaled(None, "cpu", seeds=(), epochs=1, batch=8, tiny=1.0), "seeds must be"),
        (lambda: precision.train_scaled(None, "cpu", seeds=(0,), epochs=0, batch=8, tiny=1.0), "epochs must"),
        (lambda: precision.train_scaled(None, "cpu", seeds=(0,), epochs=1, batch=8, tiny=0), "tiny must be"),
        (lambda: precision.speeds(0, 16, 5, "cpu"), "images must be at least 1"),
        (lambda: precision.trade(None, None, 0, 64, 1000, 5, "cpu"), "pairs must be at least 1"),
        (lambda: precision.trade(None, None, 8, 1, 1000, 5, "cpu"), "rows must be at least 2"),
        (lambda: precision.trade(cut, lambda *_: 0, 2, 8, 5, 5, "cpu"), "5 bytes is for 0 inputs"),
    ],
)
def test_parameters_that_make_no_measurement(call, words):
    with pytest.raises(LabError, match=words):
        call()


def cut(net, x, segments):
    return net(x)


# Which kind of wrong a prediction of activations is.


pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")

from support.lab14.checks import kind_of_wrong  # noqa: E402  (needs torch)

ROWS = [("conv", 9, 1000), ("relu", 0, 1000), ("pool", 0, 250), ("linear", 90, 40)]
IMAGE, BATCH, RIGHT = 192, 5, 4 * (192 + 1000 + 250 + 40) + 8 * 250


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (0, ""),
        (123, ""),  # no sentence fits: the numbers alone are shown
        (-4 * IMAGE, "images are missing"),
        (-8 * 250, "places of its maxima"),
        (-4 * 40, "last layer's outputs are missing"),
        (4 * 1000, "no output of its own"),
        (RIGHT / BATCH - RIGHT, "bytes of one image"),
    ],
)
def test_kind_of_wrong(change, words):
    layers = pandas.DataFrame(ROWS, columns=["kind", "parameters", "activations"])
    said = kind_of_wrong(BATCH * (RIGHT + change), layers, IMAGE, BATCH, 4)
    assert words in said
    assert bool(said) == bool(words)

"""Lab 14's support: bytes of a training step, mistakes that are told apart, parameters that make no sense."""

from __future__ import annotations

import pytest
import torch
from labkit.errors import CheckFailed, LabError
from support import lab14
from support.lab14 import cases, checks, memory
from torch.utils.checkpoint import checkpoint_sequential

from tests.support.answers import run_check

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
    tensor = torch.zeros(256)
    assert memory.peak(lambda: tensor.add_(1).view(16, 16).t().relu_()) == 0


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
    table = memory.table(cases.small_vgg(), torch.zeros(2, 3, 16, 16))
    assert table.kind.tolist() == ["conv", "relu"] * 2 + ["pool"] + ["conv", "relu"] * 2 + [
        "pool",
        "linear",
        "relu",
        "linear",
    ]
    assert table.activations.iloc[0] == 8 * 16 * 16
    assert table.parameters.sum() == sum(p.numel() for p in cases.small_vgg().parameters())


def test_nets_depend_on_their_seed_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    for make in (cases.small_vgg, lambda: cases.deep(2)):
        first, second = (torch.cat([p.flatten() for p in make().parameters()]) for _ in range(2))
        assert torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())


def test_parts_of_a_step():
    net = cases.deep(1, width=8, classes=2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    held = memory.parts(net, optimizer, torch.zeros(4, 8), torch.zeros(4, dtype=torch.int64))
    numbers = (8 + 1) * 8 + (8 + 1) * 2
    total = held.pop("activations")
    assert set(held.values()) == {4 * numbers}
    assert total == 4 * 4 * (8 + 8 + 2) + 4  # x, ReLU's output, log-probabilities; and the sum of the weights


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: many threads on a busy machine only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_mixed_precision_shrinks_activations_alone():
    held = lab14.bytes_by_way("cpu")
    full = held["float32"]
    mixed = held["mixed"]
    for part in ("parameters", "gradients", "optimizer"):
        assert mixed[part] == full[part]
    assert full["activations"] / 2 < mixed["activations"] < 0.8 * full["activations"]
    weights = full["parameters"] / 4
    assert weights < mixed["copies of weights"] <= 2 * weights  # biases need not be kept


def test_a_line_on_what_the_device_has():
    assert "16 bits" in lab14.abilities("cpu")


def test_mistakes_of_the_optimizers_bytes_are_told():
    layers = PANDAS.DataFrame(ROWS, columns=["kind", "parameters", "activations"])
    trial = checks.TrialStep("made up", "Adam", 5, torch.float32, layers, 192, 4, {"optimizer": 8 * 99 + 24})
    assert trial.wrong_bytes("optimizer")["Adam keeps two numbers for each parameter; these are 1"] == 4 * 99
    assert trial.wrong_bytes("gradients") == {}


@pytest.mark.slow
def test_speeds_have_every_way():
    speeds = lab14.speeds(1, 16, 5, "cpu")
    assert len(speeds) == 5
    assert all(row["flops"] > 0 and row["share"] > 0 for row in speeds.values())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: lab14.train_scaled(None, "cpu", seeds=(), epochs=1, batch=8, tiny=1.0), "seeds must be"),
        (lambda: lab14.train_scaled(None, "cpu", seeds=(0,), epochs=0, batch=8, tiny=1.0), "epochs must"),
        (lambda: lab14.train_scaled(None, "cpu", seeds=(0,), epochs=1, batch=8, tiny=0), "tiny must be"),
        (lambda: lab14.speeds(0, 16, 5, "cpu"), "images must be at least 1"),
        (lambda: lab14.trade(None, 0, 64, 5, "cpu"), "pairs must be at least 1"),
        (lambda: lab14.trade(None, 8, 1, 5, "cpu"), "rows must be at least 2"),
        (lambda: lab14.edge(None, None, 8, 1, 1000, "cpu"), "rows must be at least 2"),
        (lambda: lab14.edge(cut, lambda *_: 0, 2, 8, 5, "cpu"), "5 bytes is for 0 inputs"),
    ],
)
def test_parameters_that_make_no_measurement(call, sentence):
    with pytest.raises(LabError, match=sentence):
        call()


def cut(net, x, segments):
    return net(x)


PANDAS = pytest.importorskip("pandas")
ROWS = [("conv", 9, 1000), ("relu", 0, 1000), ("pool", 0, 250), ("linear", 90, 40)]
IMAGE, BATCH, RIGHT = 192, 5, 4 * (192 + 1000 + 250 + 40) + 8 * 250


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (-4 * IMAGE, "the images are missing"),
        (-8 * 250, "places of its maxima. Are the places counted?"),
        (-4 * 40, "last layer's outputs are missing"),
        (4 * 1000, "no output of its own"),
        (RIGHT / BATCH - RIGHT, "bytes of one image"),
    ],
)
def test_wrong_activations_are_told_apart(change, sentence):
    layers = PANDAS.DataFrame(ROWS, columns=["kind", "parameters", "activations"])
    trial = checks.TrialStep("made up", "SGD", BATCH, torch.float32, layers, IMAGE, 4, {})
    slips = trial.wrong_activations().items()
    named = [text for text, nbytes in slips if nbytes == pytest.approx(BATCH * (RIGHT + change))]
    assert sentence in named[0]


def test_mistakes_of_loss_scaling_differ_from_what_is_right():
    for gradient in lab14.gradients_with(2.0**-14):
        right = -8 * gradient.float() / 2**16
        for sentence, weight in lab14.wrong_updates(gradient, 8, 2.0**16).items():
            assert not torch.allclose(weight, right, rtol=1e-4, atol=0), sentence


def test_pytorchs_own_cut_keeps_the_last_segment_and_does_not_pass():
    def sequential(net, x, segments):
        return checkpoint_sequential(net, segments, x, use_reentrant=False)

    with pytest.raises(CheckFailed, match="checkpoint each, the last too"):
        run_check("16_memory_and_checkpointing", "16.2", checkpointed=sequential)

"""Lab 12's support: operators and bytes are counted rightly, and right answers written otherwise pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from labkit import nets, timing
from labkit.errors import CheckFailed, LabError
from support import lab12
from support.lab12 import cases, checks
from support.lab12.counting import Count

from tests.support.answers import run_check

STEM = "12_find_the_bottleneck"


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
    with Count() as count:
        call(a, b)
    assert (count.moved, count.fresh) == (moved * a.nbytes, fresh * a.nbytes)


def test_of_a_table_from_which_rows_are_picked_only_these_count():
    table, rows = torch.ones(1000, 4), torch.tensor([3, 5])
    with Count() as count:
        table[rows]
    assert count.moved == 2 * 2 * 4 * 4


def test_float64_is_seen():
    with Count() as count:
        torch.ones(3).double()
    assert count.double


def test_flops_of_a_training_step_are_about_three_times_forward():
    net, images = nets.torch_conv(), torch.randn(2, 3, 32, 32)
    forward = lab12.flops(lambda: net(images))
    assert forward == pytest.approx(2 * 49e6, rel=0.02)  # as the net's docstring says
    assert 2.5 < lab12.flops(lambda: net(images).sum().backward()) / forward < 3


def other_peak(n, device):
    a, b, c = (torch.rand(n, n, device=device) for _ in range(3))
    took = timing.measure(lambda: torch.mm(a, b, out=c), device=device, repeat=5)
    return took.rate(2 * n**3)


def other_bandwidth(nbytes, device):
    a = torch.full((nbytes // 4,), 3.0, device=device)
    b = torch.zeros_like(a)
    return timing.measure(lambda: torch.mul(a, 2, out=b), device=device, repeat=5).rate(2 * nbytes)


def in_place(nbytes, device):
    a = torch.rand(nbytes // 4, device=device)
    return 2 * a.nbytes / timing.measure(lambda: a.add_(1), device=device, repeat=5).median


def summed(nbytes, device):
    a = torch.rand(nbytes // 4, device=device)
    b = torch.empty((), device=device)
    took = timing.measure(lambda: torch.sum(a, 0, out=b), device=device, repeat=5)
    return (a.nbytes + 4) / took.median


def test_another_way_to_measure_the_peak_is_told_rightly():
    timed = checks.watch(other_peak, 97, "cpu")
    assert timed.result == timed.flops / 2 == 97**3
    assert (timed.others("mm"), timed.types, timed.devices) == ("", ["float32"], {"cpu"})


@pytest.mark.parametrize("bandwidth", [other_bandwidth, in_place, summed])
def test_other_ways_to_measure_the_bandwidth_are_told_rightly(bandwidth):
    timed = checks.watch(bandwidth, 120_004, "cpu")
    assert timed.result == timed.moved / 2
    assert timed.dense
    assert timed.filled
    assert not timed.fresh
    assert not timed.onto_itself
    assert timed.read == pytest.approx(120_004, rel=0.01)


@pytest.mark.alone
@pytest.mark.parametrize("bandwidth", [other_bandwidth, in_place, summed])
def test_other_ways_to_measure_the_roofs_pass(bandwidth):
    run_check(STEM, "12.2", matrix_peak=other_peak, memory_bandwidth=bandwidth)


def same_memory(nbytes, device):
    a = torch.ones(nbytes // 4)
    b = torch.from_numpy(a.numpy())
    return 2 * a.nbytes / timing.measure(lambda: b.copy_(a), device=device, repeat=5).median


def with_gaps(nbytes, device):
    a, b = torch.ones(2 * nbytes)[::8], torch.ones(nbytes // 4)
    return 2 * a.nbytes / timing.measure(lambda: b.copy_(a), device=device, repeat=5).median


def test_a_copy_that_moves_less_than_it_counts_is_seen():
    assert checks.watch(same_memory, 120_004, "cpu").onto_itself
    assert not checks.watch(with_gaps, 120_004, "cpu").dense


def test_a_product_in_another_precision_is_seen():
    def peak(n, device):
        a = torch.rand(n, n, dtype=torch.bfloat16)
        return timing.measure(lambda: a @ a, device=device, repeat=5).rate(2 * n**3)

    assert checks.watch(peak, 9, "cpu").types == ["bfloat16"]


def test_a_mean_is_not_a_median():
    def mean(n, device):
        a = torch.rand(n, n)
        return 2 * n**3 / timing.measure(lambda: a @ a, device=device).samples.mean()

    timed = checks.watch(mean, 97, "cpu")
    slips = checks.wrong_rates(timed.flops, "flops", half="")
    named = [sentence for sentence, rate in slips.items() if np.isclose(timed.result, rate)]
    assert named == ["this is the mean. Take the median of the runs"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"repeat": 2}, "cannot show the spread"),
        ({"warmup": 0}, "No warm-up"),
        ({"device": "cuda"}, "device"),
    ],
)
def test_the_clock_wants_enough_runs_a_warm_up_and_the_device(options, says):
    def peak(n, device):
        return timing.measure(lambda: None, **{"device": device, **options})

    with pytest.raises(CheckFailed, match=says):
        checks.watch(peak, 3, "cpu")


def test_wrong_bytes_of_a_layer_are_told_apart():
    for trial in cases.trial_layers():
        right = [sentence for sentence, nbytes in trial.wrong_bytes().items() if nbytes == trial.nbytes]
        assert len(right) == 1  # its own size of a number; expect.equal never names what is right


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": 0}, "rows = 0"),
        ({"batch": -2}, "batch = -2"),
        ({"threads": -1}, "threads"),
        ({"batch": 9}, "drawn"),
    ],
)
def test_parameters_that_leave_nothing_to_measure_are_named(change, says):
    with pytest.raises(LabError, match=says):
        lab12.begin(**{"threads": 1, "pictures": 8, "batch": 4, "rows": 2, **change})


def slow(net, optimizer, pixels, labels, rows):
    numbers = pixels.float()
    images = (numbers - numbers.mean()) / numbers.std()
    optimizer.zero_grad()
    losses = [F.cross_entropy(net(images[r : r + 1]), labels[r : r + 1]) for r in rows.tolist()]
    loss = sum(losses) / len(rows)
    loss.backward()
    optimizer.step()
    return loss.item()


def quick(net, optimizer, ready, labels, rows):
    pixels, mean, std = ready
    logits = net((pixels.index_select(0, rows).float() - mean) / std)
    loss = F.nll_loss(F.log_softmax(logits, dim=1), labels[rows])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@pytest.mark.slow
def test_normalising_the_batch_by_stored_numbers_passes():
    def prepare(pixels):
        return pixels, pixels.float().mean(), pixels.float().std()

    run_check(STEM, "12.4", slow_step=slow, prepare=prepare, quick_step=quick)


def test_a_mean_of_all_pixels_in_each_step_moves_more_bytes():
    def step(net, optimizer, pixels, labels, rows):
        return quick(net, optimizer, (pixels, pixels.float().mean(), pixels.float().std()), labels, rows)

    small, large = (checks.train_both(slow, lambda pixels: pixels, step, images, 12) for images in (40, 400))
    assert large.moved > small.moved


def test_float64_is_seen_in_a_training():
    def prepare(pixels):
        return pixels, pixels.double().mean(), pixels.double().std()

    def step(net, optimizer, ready, labels, rows):
        pixels, mean, std = ready
        loss = F.cross_entropy(net(((pixels[rows].double() - mean) / std).float()), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    assert checks.train_both(slow, prepare, step, 40, 4).double


def test_without_a_compiler_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert lab12.compiled(torch.relu, 16, "cpu", 1.0) is None
    assert "needs a compiler" in capsys.readouterr().out


@pytest.mark.slow
def test_compiling_works_here(tmp_path):
    program = "import torch; from support import lab12; lab12.compiled(torch.relu, 1000, 'cpu', 1.0)"
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300, check=True
    )
    assert "the first call, which compiles, took" in ended.stdout, ended.stdout

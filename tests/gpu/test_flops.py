"""Achieved flop/s of a net beside those of a product of matrices, measured on the same GPU in
turns."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import pytest
import torch
from labkit import timing
from labkit.workloads import Block
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


class Sizes(NamedTuple):
    """Of a batch of tokens, `texts` times `length`, and of a GPT."""

    texts: int
    length: int
    width: int
    layers: int
    heads: int


LARGE = Sizes(8, 1024, 4096, 4, 32)
MIDDLE = Sizes(4, 1024, 2048, 4, 16)  # GPUs with less than 32 GiB
FEWEST = 0.5  # share of the product's flop/s; well-tuned trainings are said to reach 0.8


def gpt(sizes: Sizes) -> nn.Module:
    """The blocks alone, without tables of words."""
    return nn.Sequential(*[Block(sizes.width, sizes.heads) for _ in range(sizes.layers)])


def flops(sizes: Sizes) -> float:
    """Floating-point operations of a step's forward and backward pass, as PyTorch counts them.

    Without a kernel of its own, attention is all of the batched products, and the whole square of
    them. It is causal: half of that is computed.
    """
    x = torch.randn(sizes.texts, sizes.length, sizes.width, device="meta")
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        gpt(sizes).to("meta")(x).sum().backward()
    by_operation = {str(name): count for name, count in counter.get_flop_counts()["Global"].items()}
    batched = sum(count for name, count in by_operation.items() if "bmm" in name)
    return counter.get_total_flops() - batched / 2


class Speed(NamedTuple):
    """flop/s of a product of matrices and of a step of the GPT, on the first GPU."""

    product: float
    step: float


@lru_cache
def measured() -> Speed:
    """Measured once. The memory is given back: labs run on this GPU in processes of their own."""
    speed = _measure()
    torch.cuda.empty_cache()
    return speed


def _measure() -> Speed:
    """Both in turns, so that they meet the same clocks and the same heat."""
    properties = torch.cuda.get_device_properties(0)
    sizes = LARGE if properties.total_memory > 32 << 30 else MIDDLE
    # Older ones only emulate bfloat16.
    kind = torch.bfloat16 if properties.major >= 8 else torch.float16
    rows = 2 * sizes.width
    options = {"device": "cuda:0", "dtype": kind}
    left, right = torch.randn(2, rows, rows, **options)
    net = gpt(sizes).to(**options)
    x = torch.randn(sizes.texts, sizes.length, sizes.width, **options)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        net(x).float().square().mean().backward()
        optimizer.step()

    calls = {"step": step, "product": lambda: left @ right}
    took = timing.in_turns(calls, repeat=20, warmup=3, device="cuda:0", seconds=4.0)
    return Speed(2 * rows**3 / took["product"].median, flops(sizes) / took["step"].median)


def product_flops() -> float:
    """The measured peak: flop/s of a product of matrices in 16 bits."""
    return measured().product


@pytest.mark.slow
@pytest.mark.gpu
def test_a_gpt_reaches_half_the_flops_of_a_product_of_matrices():
    product, trained = measured()
    name, share = torch.cuda.get_device_name(0), f"{trained / product:.0%}"
    print(f"{name}: a product of matrices {product / 1e12:.0f} Tflop/s, a GPT {share}")
    assert trained / product >= FEWEST


@pytest.mark.slow
def test_flops_of_a_small_gpt():
    """A multiply-add is two, and backward computes two products for each of forward's."""
    tokens, width = 2 * 32, 64
    linear = 12 * width**2 * 2 * tokens
    attention = 2 * tokens * 32 * width * 2 / 2
    assert flops(Sizes(2, 32, width, 2, 4)) == 3 * 2 * (linear + attention)

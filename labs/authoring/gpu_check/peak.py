"""Achieved flop/s of two nets beside those of a product of matrices, measured on the same device in turns.

`python -m authoring.gpu_check.peak --device cuda:0 --seconds 60 --out peak.jsonl`: a line of JSON for each
way, as soon as it is measured.

The nets are made to be limited by arithmetic, as well-tuned trainings are: a residual net (He et al. 2015) of
wide 3 x 3 convolutions with batch normalisation, and the blocks of a GPT (Radford et al. 2019) with wide
linear layers and attention. Flops are counted by torch.utils.flop_counter, on "meta" tensors; attention is
causal, of which PyTorch's kernels compute half, so that half is counted. A step is forward, loss, backward
and SGD's update.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from labkit import timing
from torch import nn
from torch.nn import functional

from authoring.gpu_check.plan import AIMS, GPT, RESNET

PRODUCT = "matrix product"
EAGER, COMPILED = "as it is", "torch.compile"
LONGEST_COMPILATION = 0.35  # of the time that is left: a compilation that would take longer is not begun


@dataclass(frozen=True)
class Sizes:
    """How large all is. rows: of the matrices. batch: images. channels, blocks: of the residual net, which
    sees images of `side` x `side`. texts, length: of a batch of tokens. width, layers, heads: of the GPT."""

    rows: tuple[int, ...]
    batch: int
    channels: int
    blocks: int
    side: int
    texts: int
    length: int
    width: int
    layers: int
    heads: int


LARGE = Sizes((8192, 12288), 128, 512, 6, 32, 8, 1024, 4096, 4, 32)
MIDDLE = Sizes((4096, 8192), 64, 256, 6, 32, 4, 1024, 2048, 4, 16)  # GPUs with less than 32 GiB
SMALL = Sizes((256,), 2, 16, 2, 8, 2, 32, 64, 2, 4)  # a rehearsal on a CPU


class Residual(nn.Module):
    """x + two 3 x 3 convolutions of it, each with batch normalisation (the basic block of ResNet-18)."""

    def __init__(self, channels: int):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

    def forward(self, x):
        inside = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(x + self.norms[1](self.second(inside)))


class Block(nn.Module):
    """A block of a GPT: causal attention of several heads, then two linear layers, each added to x."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.outputs = nn.Linear(width, width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        texts, length, width = x.shape
        parts = self.inputs(self.norms[0](x)).view(texts, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attention = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.outputs(attention.transpose(1, 2).reshape(texts, length, width))
        return x + self.narrow(functional.gelu(self.widen(self.norms[1](x)), approximate="tanh"))


def resnet_like(sizes: Sizes) -> nn.Module:
    """(n, 3, side, side) -> (n, 1000)."""
    width = sizes.channels
    stem = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [Residual(width) for _ in range(sizes.blocks)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


def gpt_like(sizes: Sizes) -> nn.Module:
    """(n, length, width) -> the same shape: a GPT's blocks, without its tables of words."""
    return nn.Sequential(*[Block(sizes.width, sizes.heads) for _ in range(sizes.layers)])


def inputs(name: str, sizes: Sizes, device, kind: torch.dtype) -> torch.Tensor:
    """Random images in channels-last order, or random vectors in place of tokens."""
    if name == GPT:
        return torch.randn(sizes.texts, sizes.length, sizes.width, device=device, dtype=kind)
    images = torch.randn(sizes.batch, 3, sizes.side, sizes.side, device=device, dtype=kind)
    return images.contiguous(memory_format=torch.channels_last)


NETS: dict[str, Callable[[Sizes], nn.Module]] = {RESNET: resnet_like, GPT: gpt_like}


def flops(name: str, sizes: Sizes) -> int:
    """Floating-point operations of a step's forward and backward pass; a multiply-add is two."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    net = NETS[name](sizes).to("meta")
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        net(inputs(name, sizes, "meta", torch.float32)).sum().backward()
    by_operation = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    batched = sum(count for operation, count in by_operation.items() if "bmm" in operation)
    # Without a kernel of its own attention is all of the batched products; a causal one needs half of them.
    return counter.get_total_flops() - (batched // 2 if name == GPT else 0)


def training_step(name: str, net: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """One step of SGD on x: forward, loss, backward, update."""
    # fused: one kernel for all weights
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, fused=x.is_cuda)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        net(x).float().square().mean().backward()
        optimizer.step()

    return step


def kind_of(device: str) -> torch.dtype:
    """bfloat16; float16 on GPUs that only emulate it (compute capability below 8.0)."""
    if device.startswith("cuda") and torch.cuda.get_device_capability(device)[0] < 8:
        return torch.float16
    return torch.bfloat16


def sizes_for(device: str) -> Sizes:
    """As large as the device's memory lets them be."""
    if not device.startswith("cuda"):
        return SMALL
    return LARGE if torch.cuda.get_device_properties(device).total_memory > 32 << 30 else MIDDLE


class Race:
    """Measures all ways within some seconds, and hands each row to `keep` as soon as it is known."""

    def __init__(self, device: str, seconds: float, keep: Callable[[dict], None], sizes: Sizes | None = None):
        self.device = device
        self.sizes = sizes or sizes_for(device)
        self.kind = kind_of(device)
        self.end = time.monotonic() + seconds
        self.keep = keep
        self.peak: dict | None = None

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()

    def run(self) -> None:
        """The product of matrices, then each net as it is, then compiled as far as time goes."""
        product = self._fastest_product()
        for name in NETS:
            self._measure(name, EAGER, product)
        compilation = 0.0  # seconds of the longest yet
        for name in NETS:
            allowed = LONGEST_COMPILATION * self.left()
            if not self.device.startswith("cuda"):
                self.keep(_not_run(name, "compiled on GPUs only"))
            elif allowed < max(10.0, compilation):
                self.keep(_not_run(name, f"{self.left():.0f} s were left, too few to compile it"))
            else:
                begun = time.monotonic()
                self._measure(name, COMPILED, product)
                compilation = time.monotonic() - begun

    def _fastest_product(self) -> Callable[[], object]:
        """Measures the products; returns the fastest, which runs beside each net."""
        best = None
        for rows in self.sizes.rows:
            left = torch.randn(rows, rows, device=self.device, dtype=self.kind)
            right = torch.randn(rows, rows, device=self.device, dtype=self.kind)

            def product(left=left, right=right):
                return left @ right

            took = timing.measure(product, repeat=20, warmup=3, device=self.device, seconds=self._slice())
            row = self._row(PRODUCT, EAGER, 2 * rows**3, took) | {"rows": rows}
            if best is None or row["flops_per_s"] > best["flops_per_s"]:
                best = row
                fastest = product
        self.peak = best
        self.keep(best)
        return fastest

    def _measure(self, name: str, way: str, product: Callable) -> None:
        """One net in one way, in turns with the product, so that both meet the same clocks and heat."""
        try:
            net = NETS[name](self.sizes).to(self.device, self.kind)
            if name == RESNET:
                net = net.to(memory_format=torch.channels_last)
            if way == COMPILED:
                net = torch.compile(net)
            step = training_step(name, net, inputs(name, self.sizes, self.device, self.kind))
            step()
            turns = timing.in_turns(
                {"step": step, "product": product},
                repeat=20,
                warmup=2,
                device=self.device,
                seconds=self._slice(),
            )
        except Exception as error:  # torch.compile fails in as many ways as there are machines; so say it
            said = str(error).strip().splitlines() or [type(error).__name__]
            self.keep(_not_run(name, f"{way}: {type(error).__name__}: {said[0][:150]}"))
            return
        work = flops(name, self.sizes)
        row = self._row(name, way, work, turns["step"])
        peak = 2 * self.peak["rows"] ** 3 / turns["product"].median
        self.keep(row | {"peak": peak, "share": row["flops_per_s"] / peak, "aim": AIMS[name]})

    def _slice(self) -> float:
        """Seconds for one measurement."""
        return max(0.5, min(4.0, 0.06 * self.left()))

    def _row(self, name: str, way: str, work: int, took: timing.Measurement) -> dict:
        return {
            "result": "flops",
            "net": name,
            "way": way,
            "kind": str(self.kind).removeprefix("torch."),
            "device": self.device,
            "flops": work,
            "seconds": took.median,
            "seconds_q1": took.q1,
            "seconds_q3": took.q3,
            "seconds_runs": len(took.samples),
            "seconds_steady": took.steady,
            "flops_per_s": work / took.median,
            "sizes": asdict(self.sizes),
        }


def _not_run(name: str, why: str) -> dict:
    return {"result": "flops", "net": name, "way": COMPILED, "not_run": why}


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="authoring.gpu_check.peak")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with options.out.open("w", encoding="utf-8") as out:

        def keep(row: dict) -> None:
            out.write(json.dumps(row) + "\n")
            out.flush()

        Race(options.device, options.seconds, keep).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

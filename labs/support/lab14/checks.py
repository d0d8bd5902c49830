"""What lab 14's checks look at: bytes of a step by part, steps beside float32, a net with checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from labkit import data, nets
from labkit.errors import CheckFailed
from torch.nn import functional

from support.lab14 import memory
from support.lab14.cases import NETS, OPTIMIZERS, STEPS, deep, small_vgg
from support.lab14.training import plain_step


@dataclass(frozen=True)
class TrialStep:
    """A training step: what memory_parts is told of it, and the bytes that PyTorch's tensors held."""

    name: str  # of the net
    optimizer: str
    batch: int
    kind: torch.dtype
    layers: object  # the net's table, of `memory.table`
    image: int  # numbers in an image
    value: int  # bytes of a number
    held: dict[str, int]  # bytes by part

    def __str__(self) -> str:
        kind = str(self.kind).removeprefix("torch.")
        return f"{self.name}, {self.optimizer}, {self.batch} images, {kind}"

    @property
    def arguments(self) -> tuple:
        """What memory_parts gets."""
        return self.layers, self.image, self.batch, self.optimizer, self.value

    def wrong_bytes(self, part: str) -> dict[str, float]:
        """Mistake -> the bytes of this part that it leads to."""
        if part == "activations":
            return self.wrong_activations()
        if part != "optimizer":
            return {}
        states = {"SGD": 0, "momentum": 1, "Adam": 2}[self.optimizer]
        number = ("nothing", "one number", "two numbers")[states]
        sentence = f"{self.optimizer} keeps {number} for each parameter"
        right = self.held["optimizer"]
        each = self.value * int(self.layers.parameters.sum())
        others = [count * each for count in range(4) if abs(count * each - right) > 0.01 * each]
        return {f"{sentence}; these are {nbytes / each:.0f}": nbytes for nbytes in others}

    def wrong_activations(self) -> dict[str, float]:
        """Mistake -> the bytes of activations that it leads to."""
        sums = self.layers.groupby("kind").activations.sum()
        relu = sums.get("relu", 0)
        pooled = sums.get("pool", 0)
        last = self.layers.activations.iloc[-1]
        others = self.layers.activations.sum() - relu - pooled - last
        value = self.value
        image = self.image
        right = value * (image + relu + pooled + last) + 8 * pooled  # of one image
        pooling = "pooling keeps its outputs and, 8 bytes each whatever `value` is, the places of its maxima"
        more_or_less = {  # pooling first: in these nets it has as many outputs as an image has numbers
            f"{pooling}. Are the places counted?": -8 * pooled,
            f"{pooling}. Are outputs and places counted?": -value * pooled,
            f"{pooling}. Have the places 8 bytes?": (value - 8) * pooled,
            f"{pooling}. Nothing else.": (2 * value - 8) * pooled,
            "the images are missing: the first layer needs its input": -value * image,
            f"the image is counted once; a step has {self.batch} of them": value
            * image
            * (1 / self.batch - 1),
            "the last layer's outputs are missing: the loss keeps as many numbers": -value * last,
            "ReLU's outputs are missing": -value * relu,
            "a linear layer or convolution needs no output of its own for backward": value * others,
            "linear layers and convolutions keep inputs, so the image, not outputs": value * (others - image),
            "not every layer's output is kept; and pooling also keeps places": value * others - 8 * pooled,
        }
        wrong = {sentence: self.batch * (right + off) for sentence, off in more_or_less.items()}
        return {f"these are the bytes of one image; a step keeps {self.batch} of them": right} | wrong


def trial_steps(device) -> Iterator[TrialStep]:
    """Steps of nets with and without pooling, with three optimizers, in two types."""
    for step in STEPS:
        yield _trial_step(*step, device)


def small_vgg_step(batch: int, device) -> TrialStep:
    """A step of the small VGG with Adam, in float32."""
    return _trial_step("small VGG", "Adam", batch, torch.float32, device)


def _trial_step(name: str, optimizer: str, batch: int, kind: torch.dtype, device) -> TrialStep:
    make, shape = NETS[name]
    net = make().to(device, kind)
    images = torch.rand(batch, *shape, device=device, dtype=kind)
    labels = torch.arange(batch, device=device) % 10
    layers = memory.table(net, images)
    held = memory.parts(net, OPTIMIZERS[optimizer](net.parameters(), lr=0.01), images, labels)
    return TrialStep(name, optimizer, batch, kind, layers, images[0].numel(), images.element_size(), held)


@dataclass
class MixedStep:
    """One step of a mixed training, beside the same one in float32."""

    number: int  # from 1
    loss: object  # as the mixed step returned it
    float32_loss: float  # of the training in float32
    exact_loss: float  # of the mixed net's own logits, computed in float32; nan if there are none
    runs: int  # of the net, in the step
    layer_types: list[str]  # of the outputs of its linear layers
    weight_types: list[str]
    moved: bool  # whether any weight is another than at the start
    length: float  # of the way that the weights have gone, over float32's
    off: float  # how far they are from float32's, over float32's way
    backward_inside: bool  # whether backward ran inside torch.autocast


def steps_beside_float32(step: Callable, device, steps: int = 40, rate: float = 0.003) -> Iterator[MixedStep]:
    """Small steps of SGD on 64 of the digits' images: `step`, and a plain float32 step on an equal net."""
    net = nets.torch_digits().to(device)
    twin = nets.torch_digits().to(device)
    start = _flat(net)
    outputs: list[torch.Tensor] = []
    linear = net[::2]
    for layer in linear:
        layer.register_forward_hook(lambda layer, inputs, output: outputs.append(output.detach()))
    inside: list[bool] = []
    kind = torch.device(device).type
    net[0].weight.register_hook(lambda gradient: inside.append(torch.is_autocast_enabled(kind)))
    optimizer, twins = (torch.optim.SGD(model.parameters(), lr=rate) for model in (net, twin))
    images, labels = (torch.tensor(part[:64], device=device) for part in data.digits()[:2])
    for number in range(1, steps + 1):
        outputs.clear()
        inside.clear()
        loss = step(net, optimizer, images, labels)
        float32_loss = plain_step(twin, twins, images, labels)
        exact = functional.cross_entropy(outputs[-1].float(), labels).item() if outputs else float("nan")
        way = _flat(net) - start
        right = _flat(twin) - start
        yield MixedStep(
            number,
            loss,
            float32_loss,
            exact,
            runs=len(outputs) // len(linear),
            layer_types=_types(outputs),
            weight_types=_types(net.parameters()),
            moved=bool(way.any()),
            length=(way @ right / (right @ right)).item(),
            off=((way - right).norm() / right.norm()).item(),
            backward_inside=any(inside),
        )


def _types(tensors) -> list[str]:
    return sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})


def _flat(net) -> torch.Tensor:
    return torch.cat([weight.detach().float().flatten() for weight in net.parameters()])


class DeepTrial:
    """A net of so many (linear, ReLU) pairs, cut into segments by forward(net, x, segments).

    Bytes are told in units of x, which are those of a layer's output.
    """

    def __init__(self, forward: Callable, pairs: int, segments: int):
        self.net = deep(pairs)
        self._twin = deep(pairs)
        self.segments = segments
        self._x = torch.randn(512, 64)
        self._labels = torch.arange(512) % 10
        self._forward = partial(forward, self.net, self._x, segments)
        self._runs: Counter[int] = Counter()
        for place in range(0, len(self.net), 2):
            self.net[place].register_forward_pre_hook(lambda *_, place=place: self._runs.update([place]))

    def __str__(self) -> str:
        return f"{len(self.net)} layers, {self.segments} segment{'s' if self.segments > 1 else ''}"

    def kept(self) -> float:
        """What forward keeps for backward."""
        return memory.kept(self._forward, *self.net.parameters()) / self._x.nbytes

    def logits(self) -> object:
        """What forward returns. From here on, runs of the layers are counted."""
        self._runs.clear()
        return self._forward()

    def losses(self, logits) -> tuple[torch.Tensor, torch.Tensor]:
        """(the loss of these logits, the loss of an equal net without checkpoints)."""
        cross_entropy = functional.cross_entropy
        return cross_entropy(logits, self._labels), cross_entropy(self._twin(self._x), self._labels)

    def gradients(self, loss: torch.Tensor, wanted: torch.Tensor) -> list[tuple]:
        """(the gradient of a parameter or None, the right one), after backward of both losses."""
        wanted.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            cure = "does a function that you made in a loop look up a name which has changed since?"
            what = f"{self}: backward did not run the same layers again"
            raise CheckFailed(f"{what}: {cure} ({str(error)[:70]}…)") from None
        pairs = zip(self.net.parameters(), self._twin.parameters(), strict=True)
        return [(weight.grad, right.grad) for weight, right in pairs]

    def runs(self) -> list[int]:
        """How often each linear layer ran since `logits`."""
        return [self._runs[place] for place in range(0, len(self.net), 2)]

    def peak(self) -> float:
        """The most that a step holds at a time, without the gradients of the weights."""
        most = memory.peak(lambda: self._forward().sum().backward())
        weights = sum(weight.nbytes for weight in self.net.parameters())
        return (most - weights) / self._x.nbytes


def largest_for_small_vgg(largest_batch: Callable, budget: int) -> tuple[object, int]:
    """(the largest batch for the small VGG by two measured peaks, the largest by trying); budget: bytes."""
    net = small_vgg()
    images = torch.rand(200, 3, 16, 16)
    labels = torch.arange(200) % 10

    def step(batch):
        net.zero_grad()
        functional.cross_entropy(net(images[:batch]), labels[:batch]).backward()

    peaks = {batch: memory.peak(partial(step, batch)) for batch in (16, 32)}
    return largest_batch(peaks, budget), memory.largest(step, budget, most=200)

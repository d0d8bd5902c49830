"""Trainings of lab 14: the digits with a loss so small that float16 needs scaling, or with a small rate."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from labkit import data, nets
from labkit.errors import LabError
from torch.nn import functional

from support.lab14.parameters import at_least


def plain_step(net, optimizer, images, labels) -> float:
    """One training step that computes in the type that the weights have. Returns the loss before it."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(net(images.to(next(net.parameters()).dtype)), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def train_scaled(step: Callable, device, *, seeds, **settings) -> tuple[dict, list]:
    """({way: accuracy (%) of each seed}, the scale by step, from the start on), of the digits.

    The loss is multiplied by `tiny`.

    Ways: float32 and float16 with a scale of 1 that never changes, and float16 scaled, from 2^48 (far too
    high, on purpose) with a patience of 20. step: lab 14's scaled_step(weights, gradients, scaling, rate,
    patience).
    settings: epochs, batch, and tiny, by which the loss is multiplied and the learning rate (0.2) divided.
    """
    at_least(1, epochs=settings["epochs"])
    if not isinstance(seeds, (tuple, list)) or not seeds or min(seeds) < 0:
        raise LabError(f"seeds must be a tuple such as (0, 1, 2), of numbers from 0, but it is {seeds!r}.")
    if not settings["tiny"] > 0:
        raise LabError(f"tiny must be above 0: the learning rate is divided by it. It is {settings['tiny']}.")
    never = 10**9
    ways = {
        "float32": (torch.float32, 1.0, never),
        "float16,\nno scaling": (torch.float16, 1.0, never),
        "float16,\nscaled": (torch.float16, 2.0**48, 20),
    }
    right: dict[str, list[float]] = {}
    for way, (kind, scale, patience) in ways.items():
        right[way] = []
        for seed in seeds:
            accuracy, scales = _train_scaled(step, kind, scale, patience, seed, device, **settings)
            right[way].append(accuracy)
    return right, scales


def _train_scaled(step, kind, scale, patience, seed, device, *, epochs, batch, tiny, rate=0.2):
    net = nets.torch_digits(nets.start_weights(seed)).to(device)
    low = copy.deepcopy(net).to(kind)
    scaling = {"scale": scale, "good": 0}
    scales = [scale]
    train_x, train_y, test_x, test_y = (torch.tensor(part, device=device) for part in data.digits())
    for epoch in range(epochs):
        for picked in data.batches(len(train_x), batch, epoch, seed):
            low.load_state_dict(net.state_dict())  # every float32 weight, rounded to `kind`
            low.zero_grad()
            loss = tiny * functional.cross_entropy(low(train_x[picked].to(kind)).float(), train_y[picked])
            (loss * scaling["scale"]).backward()
            gradients = [weight.grad for weight in low.parameters()]
            step(list(net.parameters()), gradients, scaling, rate / tiny, patience)
            scales.append(scaling["scale"])
    return 100 * (net(test_x).argmax(1) == test_y).float().mean().item(), scales


def fine_training(mixed_step: Callable, epochs: int, device, batch: int = 64, rate: float = 0.01) -> dict:
    """Mean training loss by epoch, a small learning rate: float32, mixed, weights kept in bfloat16."""
    ways = {"float32": plain_step, "mixed": mixed_step, "bfloat16 weights": plain_step}
    curves: dict[str, list[float]] = {}
    images, labels = (torch.tensor(part, device=device) for part in data.digits()[:2])
    for way, step in ways.items():
        net = nets.torch_digits().to(device, torch.bfloat16 if way.startswith("bfloat16") else torch.float32)
        optimizer = torch.optim.SGD(net.parameters(), lr=rate)
        curves[way] = []
        for epoch in range(epochs):
            picks = data.batches(len(images), batch, epoch)
            losses = [step(net, optimizer, images[rows], labels[rows]) for rows in picks]
            curves[way].append(sum(losses) / len(losses))
    return curves

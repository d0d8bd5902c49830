"""Training the small GPT on a rank: its text, its losses, what its collectives send and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from labkit import data
from torch.nn import functional

from support.lab64.gpt import GPT, Pieces, Sizes

# What a rank sends by rings, as a share of the whole array: times (p - 1) / p.
_RINGS = {"Allreduce": 2, "Allgather": 1, "Reduce_scatter_block": 1}


class Traffic:
    """A communicator that passes everything on and notes the collectives of arrays.

    calls: name -> how many. bytes: name -> bytes of the whole arrays, added or gathered. sent: bytes that
    this rank sends, by rings.
    """

    def __init__(self, comm):
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.clear()

    def clear(self) -> None:
        """Begin again from nothing."""
        self.calls: dict[str, int] = {}
        self.bytes: dict[str, int] = {}

    @property
    def sent(self) -> float:
        share = (self.size - 1) / self.size
        return sum(_RINGS[name] * share * nbytes for name, nbytes in self.bytes.items())

    @property
    def added(self) -> int:
        """Bytes of the whole arrays, added or gathered."""
        return sum(self.bytes.values())

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.comm, name)
        if name not in _RINGS:
            return method

        def collective(*arrays, **options):
            # The whole is the longest array: gathered, it is the one that comes; scattered, the one given.
            longest = max(array.nbytes for array in arrays if isinstance(array, np.ndarray))
            self.calls[name] = self.calls.get(name, 0) + 1
            self.bytes[name] = self.bytes.get(name, 0) + longest
            return method(*arrays, **options)

        return collective


class Alone:
    """The communicator of one process without others: as much of it as a training asks for."""

    rank = 0
    size = 1

    def bcast(self, value: object) -> object:
        return value


class Text:
    """Python's own source as batches: characters (places, texts) and those that follow, both int64."""

    def __init__(self, size: int, places: int, texts: int):
        self.corpus = data.corpus(size)
        self.places = places
        self.texts = texts

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same batch on every rank, another in every step."""
        tokens = self.corpus.tokens
        starts = np.random.default_rng(step).integers(0, len(tokens) - self.places, self.texts)
        window = starts[None, :] + np.arange(self.places + 1)[:, None]
        characters = torch.from_numpy(tokens[window].astype(np.int64))
        return characters[:-1], characters[1:]


class Trained(NamedTuple):
    """What came of a training on this rank.

    losses: of each step, on all ranks alike. calls, added, sent: of the last step, in all layers: name ->
    calls; bytes of the arrays that were added up or gathered; bytes that this rank sends by rings. held:
    numbers that are parameters, of this rank. in_layers: of them those of the layers. kept: bytes that the
    layers keep for the way back. drift: how far the parameters that every rank holds in full are from those
    of rank 0 at the end, at most.
    """

    losses: list[float]
    calls: dict[str, int]
    added: int
    sent: float
    held: int
    in_layers: int
    kept: int
    drift: float


def train(
    comm,
    pieces: Pieces,
    sizes: Sizes,
    text: Text,
    steps: int,
    *,
    rate: float = 3e-3,
    by_places: bool = False,
) -> Trained:
    """Train the GPT of these pieces with Adam. by_places: outside of f and g each rank has its own places."""
    traffic = Traffic(comm)
    own = slice(None)
    if by_places:
        length = sizes.places // comm.size
        own = slice(comm.rank * length, (comm.rank + 1) * length)
    net = GPT(sizes, traffic, pieces, own)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    kept = _Kept(net)
    losses = []
    for step in range(steps):
        traffic.clear()
        characters, following = text.batch(step)
        optimizer.zero_grad()
        with kept:
            scores = net(characters)
        wanted = following[own].flatten()
        loss = functional.cross_entropy(scores.flatten(0, 1), wanted, reduction="sum") / following.numel()
        loss.backward()
        total = loss.item()
        if by_places:
            # Each rank has the gradients of its own places: those of parameters that all hold are added up.
            _add_up(comm, [weights.grad for weights in net.uncut()])
            total = comm.allreduce(total)
        optimizer.step()
        losses.append(total)
    held = sum(weights.numel() for weights in net.parameters())
    in_layers = sum(weights.numel() for weights in net.blocks.parameters())
    drift = _drift(comm, net.uncut())
    calls = dict(traffic.calls)
    return Trained(losses, calls, traffic.added, traffic.sent, held, in_layers, kept.nbytes, drift)


def _drift(comm, parameters: list[torch.Tensor]) -> float:
    flat = torch.cat([weights.detach().flatten() for weights in parameters]).numpy()
    return float(np.abs(flat - comm.bcast(flat)).max())


def train_ways(
    comm, ways: Mapping[str, Pieces], sizes: Sizes, text: Text, steps: int, **options
) -> dict[str, Trained]:
    """Train the GPT of each of these pieces, one after the other. options: as of train."""
    return {way: train(comm, pieces, sizes, text, steps, **options) for way, pieces in ways.items()}


def _add_up(comm, gradients: list[torch.Tensor]) -> None:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    comm.Allreduce(flat.numpy().copy(), flat.numpy())
    parts = flat.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


class _Kept:
    """A block that notes the bytes of what the net's layers keep for the way back, parameters left out."""

    def __init__(self, net: GPT):
        self.parameters = {weights.untyped_storage().data_ptr() for weights in net.parameters()}
        self.inside = False
        for layer in net.blocks:
            layer.register_forward_pre_hook(lambda module, inputs: self._enter(True))
            layer.register_forward_hook(lambda module, inputs, outputs: self._enter(False))
        self.storages: dict[int, int] = {}

    def _enter(self, inside: bool) -> None:
        self.inside = inside

    @property
    def nbytes(self) -> int:
        return sum(self.storages.values())

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if self.inside and storage.data_ptr() not in self.parameters:
            self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def __enter__(self) -> None:
        self.storages.clear()
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)
        self._hooks.__enter__()

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)
